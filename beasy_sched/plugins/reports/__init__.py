"""Reports for people: explanations, charts, tables, metrics."""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "reports",
    commands={
        "Understand": {
            "explain": "beasy_sched.plugins.reports.commands.explain:explain",
            "report": "beasy_sched.plugins.reports.commands.report:report",
        }
    },
    interface={
        "explain": "beasy_sched.plugins.reports.pages:explain",
        "report": "beasy_sched.plugins.reports.pages:report",
    },
    drawings={
        "plan": "beasy_sched.plugins.reports.plan_figures:draw_plan",
        "seasonal plan": "beasy_sched.plugins.reports.plan_figures:draw_season",
        "plan in a notebook": "beasy_sched.plugins.reports.notebook:draw_plan_shown",
        "run": "beasy_sched.plugins.reports.notebook:draw_run",
        "run in a notebook": "beasy_sched.plugins.reports.notebook:run_card",
        "table in a notebook": "beasy_sched.plugins.reports.notebook:table_of_rows",
    },
)
