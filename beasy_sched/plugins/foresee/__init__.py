"""Forecasts from a moment of a run, made by continuing it into several possible futures."""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "foresee",
    needs=("reports",),
    commands={"Understand": {"what-if": "beasy_sched.plugins.foresee.commands.what_if:what_if"}},
    interface={
        "foresee": "beasy_sched.plugins.foresee.from_python:foresee",
        "what_if": "beasy_sched.plugins.foresee.from_python:what_if",
    },
    drawings={"forecast": "beasy_sched.plugins.foresee.charts:fan_chart"},
    panels={"forecasts": "beasy_sched.plugins.foresee.panels:panels"},
    live_followers={"foresee": "beasy_sched.plugins.foresee.live_options:LiveForesightOptions"},
    followers={"foresee": "beasy_sched.plugins.foresee.options:ForesightOptions"},
)
