"""Learning of the choice of compensation policies: training on executions of scenarios, and an environment.

`interface` is what users import, as ``beasy_sched.learning``.
"""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "learning",
    needs=("campaigns", "learned", "reports"),
    commands={"Compare": {"learn": "beasy_sched.plugins.learning.commands.learn:learn"}},
)
