"""Campaigns: scenario files, the runs that they stand for, and tables of the results.

`scenario` and `scenario_file` say what is run, `inputs` makes what a run reads, `tasks` does one run,
`workers` many at a time, `campaign` all of them, `folder` keeps them, and `table` reads the results.
"""
