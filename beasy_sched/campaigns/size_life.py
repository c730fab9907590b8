"""The battery to buy: larger than the smallest that suffices, which it must still be when it has aged."""

from __future__ import annotations

import math

from beasy_sched.campaigns.size import NoiseAnswer, PolicyAnswer, SizeQuestion
from beasy_sched.energy.battery_life import END_OF_LIFE, CellModel
from beasy_sched.errors import ConfigError


def cells_of(question: SizeQuestion) -> CellModel | None:
    """Return the model of the cells whose number is sought; None for another axis, or where it is not known.

    Raises ConfigError where the question asks for years that cannot be answered.
    """
    life = question.scenario.parsed_site().battery_life
    found = life.model if life is not None and question.axis.name == "battery_kwh" else None
    if found is None and question.years is not None:
        raise ConfigError(
            "--years: requires --find battery_kwh, and a site that tells how its battery ages: add"
            ' [site.battery.life], such as chemistry = "lmo"'
        )
    return found


def new_sizes(answer: PolicyAnswer, question: SizeQuestion, cells: CellModel) -> list[float]:
    """Return the new battery of each noise (kWh) that has its smallest size left after the question's years.

    It is never smaller than that size; infinite where the largest size does not suffice.
    """
    return [
        math.inf
        if noise.found.rung is None
        else noise.found.size(question.sizes) / _health(noise, question, cells)
        for noise in answer.noises
    ]


def _health(noise: NoiseAnswer, question: SizeQuestion, cells: CellModel) -> float:
    """State of health after the question's years of the run with the smallest size that suffices.

    At `END_OF_LIFE` the battery is replaced.
    """
    row = {} if noise.found.rung is None else noise.probes[noise.found.rung]
    life_years = row.get("battery_years_to_80_pct")
    if question.years is None or life_years is None:
        return END_OF_LIFE
    return cells.health(cells.whole_life * min(question.years / life_years, 1.0))


def years_text(question: SizeQuestion) -> str:
    """Say what the column of new batteries is."""
    used = "" if question.years is None else f"after {question.years:g} years, or "
    return (
        f"new: the battery to buy (median over the noises), which still has the size found {used}when it is"
        f" replaced, at {100 * END_OF_LIFE:g} % of its capacity"
    )
