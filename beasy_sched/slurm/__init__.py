"""A Slurm cluster in Batsim's place: its jobs and nodes as messages, the scheduler's decisions as commands.

`records` and `commands` know Slurm; `bridge` knows both sides, and neither does input nor output; `sources`
read the power now, of lines that `readings` understands; `service` runs the bridge. Nothing outside this
package and the command line knows it.
"""
