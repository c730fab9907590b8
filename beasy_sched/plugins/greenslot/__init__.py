"""GreenSlot (Goiri et al., SC 2011): jobs wait for the slots with the cheapest energy, and meet deadlines."""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "greenslot",
    policies={
        "greenslot": "beasy_sched.plugins.greenslot.greenslot_policy:GreenSlot",
        "conventional": "beasy_sched.plugins.greenslot.conventional:Conventional",
        "lowest-window": "beasy_sched.plugins.greenslot.greenslot_policy:LowestWindow",
    },
)
