"""Campaigns: scenario files, their runs, and tables of the results.

`scenario` and `scenario_file` define the runs, `inputs` creates their input files, `tasks` executes one run,
`workers` many in parallel, `campaign` all of them, `folder` stores them, and `table` reads the results.
"""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "campaigns",
    needs=("reports",),
    commands={
        "Compare": {
            "compare": "beasy_sched.plugins.campaigns.commands.compare:compare",
            "year": "beasy_sched.plugins.campaigns.commands.year:year",
            "campaign": "beasy_sched.plugins.campaigns.commands.campaign:campaign",
            "size": "beasy_sched.plugins.campaigns.commands.size:size",
        },
        "generate": {"scenario": "beasy_sched.plugins.campaigns.commands.generate_scenario:scenario"},
    },
    interface={"campaign": "beasy_sched.plugins.campaigns.from_python:campaign"},
    pages={"campaign.json": "beasy_sched.plugins.campaigns.campaign_html:folder_page"},
)
