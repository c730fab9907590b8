"""Campaigns: scenario files, their runs, and tables of the results.

`scenario` and `scenario_file` define the runs, `inputs` creates their input files, `tasks` executes one run,
`workers` many in parallel, `campaign` all of them, `folder` stores them, and `table` reads the results.
"""
