"""Required initial capacity of a battery, so that it still suffices after ageing."""

from __future__ import annotations

import math

from beasy_sched.energy.battery_life import END_OF_LIFE, CellModel
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.sizing import NoiseAnswer, PolicyAnswer, SizeQuestion


def cells_of(question: SizeQuestion) -> CellModel | None:
    """Return the ageing model of the battery to size; None for another axis, or without a model.

    Raises ConfigError if the question has years but there is no model.
    """
    life = question.scenario.parsed_site().battery_life
    model = life.model if life is not None and question.axis.name == "battery_kwh" else None
    if model is None and question.years is not None:
        raise ConfigError(
            "--years: requires --find battery_kwh, and an ageing model of the battery: add"
            ' [site.battery.life], such as chemistry = "lmo"'
        )
    return model


def new_sizes(answer: PolicyAnswer, question: SizeQuestion, cells: CellModel) -> list[float]:
    """Return the initial capacity for each noise realization (kWh), from its smallest size after the years.

    It is never smaller than that size; infinite if the largest size does not suffice.
    """
    return [
        math.inf
        if noise.found.rung is None
        else noise.found.size(question.sizes) / _health(noise, question, cells)
        for noise in answer.noises
    ]


def _health(noise: NoiseAnswer, question: SizeQuestion, cells: CellModel) -> float:
    """Return the state of health after the question's years, for the run with the smallest sufficient size.

    At `END_OF_LIFE` the battery is replaced.
    """
    row = {} if noise.found.rung is None else noise.probes[noise.found.rung]
    life_years = row.get("battery_years_to_80_pct")
    if question.years is None or life_years is None:
        return END_OF_LIFE
    return cells.health(cells.whole_life * min(question.years / life_years, 1.0))


def years_text(question: SizeQuestion) -> str:
    """Return the explanation of the column of initial capacities."""
    used = "" if question.years is None else f"after {question.years:g} years, or "
    return (
        f"new: required initial capacity (median over the noise realizations), which leaves the size found"
        f" {used}when the battery is replaced, at {100 * END_OF_LIFE:g} % of its capacity"
    )
