"""Campaigns: scenario files, the runs that they stand for, and tables of the results.

`scenario` and `scenario_file` say what is run, `runs` into which runs, `inputs` makes what a run reads,
`tasks` runs one, `workers` many at a time, `campaign` all of them, and `table` reads the results.
"""
