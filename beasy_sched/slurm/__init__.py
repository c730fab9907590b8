"""A Slurm cluster in place of Batsim: its jobs and nodes as messages, the scheduler's decisions as commands.

`records` and `slurm_commands` access Slurm; `bridge`, with `acting` and `shadow`, converts observations to
events and decisions to actions, without input or output; `sources` read the current power from lines that
`readings` parses; `service` runs a bridge, and `live` a whole run. Only the command line uses this package.
"""
