"""Policies that choose at each step how a surplus or shortage of the battery is compensated."""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "learned",
    policies={
        "random": "beasy_sched.plugins.learned.learned_policy:RandomChoice",
        "q-learning": "beasy_sched.plugins.learned.learned_policy:QLearning",
        "bandit": "beasy_sched.plugins.learned.learned_policy:Bandit",
    },
)
