"""Experiments: scenario files, the campaigns that run them, and tables of their results.

`scenario` and `scenario_file` say what is run, `expansion` into which runs, `inputs` and `planning` make
what a run reads, `execute` runs one, `campaign` all of them, and `tables` reads the results.
"""
