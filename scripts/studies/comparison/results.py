"""Results of a comparison of policies: the tables of `beasy_sched.plugins.campaigns.paired`, and two more.

A case has one scenario, or several: its means are also reported by scenario, with the upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.campaigns.paired import (
    Block,
    ComparedPolicies,
    blocks_of,
    difference_table,
    executions_text,
    mean_cells,
    mean_heads,
    means_table,
)
from beasy_sched.plugins.campaigns.samples import RESAMPLES, interval, weighted_mean
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import TIE
from studies.comparison.bound import Bounds
from studies.comparison.study import case_of

if TYPE_CHECKING:
    import pandas as pd

_KEPT_POINTS: Final = 1e-6
"""Distance below which a missed target counts as kept, points."""


def blocks_by_case(runs: pd.DataFrame, *, resamples: int = RESAMPLES) -> dict[Block, ComparedPolicies]:
    """Return the samples of all cases and guard settings, in the order of the rows."""
    return blocks_of(runs, lambda scenario: case_of(scenario)[0], resamples=resamples)


def comparison_tables(
    blocks: Mapping[Block, ComparedPolicies],
    against: str,
    titles: Mapping[str, str],
    bounds: Bounds | None = None,
) -> Iterator[TextTable]:
    """Yield, for each block, the means of all policies and their differences from one of them.

    With ``bounds`` of all executions, also the share of the achievable that was achieved.
    """
    for block, sample in blocks.items():
        yield means_table(_title(block, titles), sample)
        yield scenario_table(_title(block, titles), sample)
        if bounds is not None:
            yield bound_table(_title(block, titles), sample, bounds, against)
        if against in sample.conditions:
            yield difference_table(_title(block, titles), sample, against)


def _title(block: Block, titles: Mapping[str, str]) -> str:
    case, setting = block
    return f"{titles.get(case, case)}, guard {setting}"


def scenario_table(title: str, sample: ComparedPolicies) -> TextTable:
    """Return the means in each scenario; no rows where there is only one."""
    names = [case_of(scenario)[1] for scenario, *_ in sample.executions]
    scenarios = list(dict.fromkeys(names))
    rows: list[tuple[str, ...]] = []
    for scenario in scenarios if len(scenarios) > 1 else ():
        own = [name == scenario for name in names]
        for place, policy in enumerate(sample.conditions):
            means = {name: float(values[own, place].mean()) for name, values in sample.values.items()}
            rows.append((scenario if place == 0 else "", policy, *mean_cells(means)))
    heads = mean_heads(sample)
    return TextTable(f"Means by scenario: {title}", ("Scenario", "Policy", *heads), rows, heads)


def bound_table(title: str, sample: ComparedPolicies, bounds: Bounds, against: str) -> TextTable:
    """Return what the policies finish of what could be finished at best, and the bound itself.

    Raises KeyError for an execution without a bound.
    """
    found = [bounds[execution] for execution in sample.executions]
    best = weighted_mean(sample.weights, np.array([[bound.finished_pct, bound.work_pct] for bound in found]))
    in_time = float(np.mean([bound.in_time_pct for bound in found]))
    rows: list[tuple[str, ...]] = [
        ("arrive in time to end", f"{in_time:.2f}", "", "", "", "", ""),
        ("clairvoyant bound", f"{best[0, 0]:.2f}", "100.0", "", f"{best[0, 1]:.2f}", "100.0", "100"),
    ]
    for policy in sample.conditions:
        finished, work = sample.mean("finished", policy), sample.mean("work", policy)
        kept = float(np.mean(sample.of("below", policy) <= _KEPT_POINTS))
        gap = ""
        if against in sample.conditions and policy != against:
            own = sample.mean("finished", against)
            gap = _gap_closed(finished - own, best[:, 0] - own)
        jobs = f"{finished[0]:.2f}", f"{100.0 * finished[0] / best[0, 0]:.1f}", gap
        flops = f"{work[0]:.2f}", f"{100.0 * work[0] / best[0, 1]:.1f}"
        rows.append((policy, *jobs, *flops, f"{100.0 * kept:.0f}"))
    numbers = ("fin. %", "of bound", f"gap of {against} closed %", "work %", "of bound ", "target kept %")
    note = (
        f"{executions_text(sample)}. The bound uses the actual production and run times and keeps the "
        "target; a policy that ends below it may finish more. Jobs and work have separate bounds."
    )
    return TextTable(f"Upper bound: {title}", ("", *numbers), rows, numbers, note)


def _gap_closed(gained: FloatArray, missing: FloatArray) -> str:
    """Return the closed part of the gap to the bound, %, with its interval; "–" if there is no gap."""
    if not (missing > TIE).all():
        return "–"
    closed = 100.0 * gained / missing
    low, high = interval(closed)
    return f"{closed[0]:.0f} [{low:.0f}, {high:.0f}]"
