"""A Slurm cluster in Batsim's place: its jobs and nodes as messages, the scheduler's decisions as commands.

`records` and `commands` know Slurm; `bridge`, with `acting` and `shadow`, makes events of what is seen and
actions of decisions, without input or output; `sources` read the power now, of lines that `readings`
understands; `service` runs a bridge, and `live` a whole run. Nothing outside this package and the command
line knows it.
"""
