"""A Slurm cluster in place of Batsim: its jobs and nodes as messages, the scheduler's decisions as commands.

`records` and `slurm_commands` access Slurm; `bridge`, with `acting`, `shadow` and `nodes_only`, converts
observations to events and decisions to actions, without input or output; `withholder` turns offers of nodes
into `reservations`, and `withheld_nodes` chooses the nodes; `sources` read the current power from lines that
`readings` parses; `service` runs a bridge, and `live` a whole run. Only the command line uses this package.
"""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin("slurm", commands={"Run": {"slurm": "beasy_sched.plugins.slurm.commands.slurm:slurm"}})
