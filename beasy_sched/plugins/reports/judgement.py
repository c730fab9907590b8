"""Key figures of a run, each with a verdict, shown at the top of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from html import escape
from typing import Any, Final

from beasy_sched.formats.run_summary import GridPart, value_at
from beasy_sched.outputs.tables import job_share_pct
from beasy_sched.plugins.reports.comparison import (
    HYDROGEN_KG_DIGITS,
    SOC_POINTS_DIGITS,
    Better,
    ComparedColumn,
    ComparedRow,
)
from beasy_sched.plugins.reports.perfect_foresight import yardstick
from beasy_sched.plugins.reports.run_data import RunData


class Grade(Enum):
    """Grade of a figure: its name in the style sheet, and its sign."""

    GOOD = ("good", "\u2713")
    FAIR = ("fair", "\u25b2")
    BAD = ("bad", "\u2715")


@dataclass(frozen=True)
class Card:
    """Key figure."""

    title: str
    value: str
    detail: str
    verdict: Grade | None = None
    """Grade of the figure; None if the grade depends on the site."""
    word: str = ""
    """The verdict in words."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of good and fair values of a figure, with the words for each verdict.

    They are upper bounds or, with ``least``, lower bounds.
    """

    good: float
    fair: float
    words: tuple[str, str, str]
    least: bool = False

    def card(self, title: str, value: str, detail: str, judged: float) -> Card:
        """Return a card with the verdict on ``judged``."""
        sign = -1.0 if self.least else 1.0
        place = next((n for n, b in enumerate((self.good, self.fair)) if sign * judged <= sign * b), 2)
        return Card(title, value, detail, [*Grade][place], self.words[place])


FINISHED: Final = Bounds(100.0, 95.0, ("all", "nearly all", "many did not"), least=True)
"""Bounds of the finished share of the submitted jobs, %."""
KILLED: Final = Bounds(0.0, 1.0, ("none", "a few", "many"))
"""Bounds of the killed share of the submitted jobs, %."""
LOWEST: Final = Bounds(
    1.0, -0.5, ("above its minimum", "down to its minimum", "below its minimum"), least=True
)
"""Bounds of the lowest state of charge minus the minimum, percentage points."""
FINAL: Final = Bounds(0.0, -5.0, ("target reached", "just below target", "target missed"), least=True)
"""Bounds of the final state of charge minus the target, percentage points, rounded as compared."""
HYDROGEN: Final = Bounds(0.0, 0.0, ("target reached", "", "target missed"), least=True)
"""Bounds of the final hydrogen minus the target, kg, rounded as compared."""
SUFFICIENT: Final = Bounds(99.995, 99.0, ("all of the load", "nearly all", "some load unserved"), least=True)
"""Bounds of the share of the load served by the site's own sources, %; not judged if there is a grid."""
CURTAILED: Final = Bounds(1.0, 10.0, ("hardly any", "some", "much"))
"""Bounds of the curtailed share of the production, %."""
WASTED: Final = Bounds(10.0, 25.0, ("little", "some", "much"))
"""Bounds of the wasted share of the servers' energy, %."""
SLOWDOWN: Final = Bounds(2.0, 10.0, ("short waits", "some wait", "long waits"))
"""Bounds of the mean bounded slowdown."""
DEADLINES: Final = Bounds(100.0, 95.0, ("all met", "nearly all", "many missed"), least=True)
"""Bounds of the share of the jobs with a deadline that met it, %."""


def share_pct(part: float, whole: float) -> float | None:
    """Return the percentage of a whole; None if the whole is 0."""
    return 100.0 * part / whole if whole > 0.0 else None


def own_share_pct(run: RunData) -> float | None:
    """Share of the load (servers and all besides them) served by solar, wind and storage, %, or None."""
    energy = run.energy_kwh
    if energy is None:
        return None
    load = energy.consumed + (energy.base or 0.0) + (energy.cooling or 0.0)
    missing = energy.unserved + (energy.imported or 0.0)
    if run.grid is not None and energy.grid_charged is not None:
        missing = load - run.grid.green_kwh
    pct = share_pct(load - missing, load)
    return None if pct is None else min(max(pct, 0.0), 100.0)


def cards(run: RunData) -> list[Card]:
    """Yield the available figures of a run, the jobs first."""
    return [
        *_job_cards(run),
        *_battery_cards(run),
        *_risk_cards(run),
        *_life_cards(run),
        *_energy_cards(run),
        *_quality_cards(run),
    ]


def _submitted(run: RunData) -> int:
    """Return the number of submitted jobs according to the files."""
    return sum(run.outcome_counts().values()) if run.summary is None else run.summary.jobs.submitted


def _job_cards(run: RunData) -> Iterator[Card]:
    counts = run.outcome_counts()
    submitted = _submitted(run)
    if not submitted:
        return
    ended = {name.replace(" ", "_"): count for name, count in counts.items()} | {"submitted": submitted}
    finished_pct, killed_pct = (job_share_pct(ended, name) or 0.0 for name in ("finished", "killed"))
    failed = f", {counts['failed']:,} of them with an error code" if counts.get("failed") else ""
    done = counts["finished"] + counts["failed"]
    yield FINISHED.card("Finished", f"{finished_pct:.2f} %", f"{done:,} of {submitted:,} jobs{failed}",
                        finished_pct)  # fmt: skip
    others = [
        f"{counts[name]:,} {name}"
        for name in ("reached walltime", "not completely finished", "postponed", "rejected")
        if counts.get(name)
    ]
    detail = "; ".join([f"{killed_pct:.2f} % of the jobs", *others])
    yield KILLED.card("Killed", f"{counts['killed']:,}", detail, killed_pct)


def _battery_cards(run: RunData) -> Iterator[Card]:
    if (battery := run.battery) is not None:
        above = battery.soc_lowest_pct - battery.soc_min_pct
        yield LOWEST.card("Lowest charge", f"{battery.soc_lowest_pct:.2f} %",
                          f"its minimum is {battery.soc_min_pct:g} %", above)  # fmt: skip
        away = battery.soc_distance_points
        shown = round(away, SOC_POINTS_DIGITS)
        apart = f"{abs(away):.2f} points {'below' if away < 0 else 'above'}" if shown else "at"
        band = f" ± {battery.target_band_pct:g}" if battery.target_band_pct else ""
        detail = f"{apart} its target of {battery.soc_target_pct:g}{band} %"
        yield FINAL.card("Final charge", f"{battery.soc_final_pct:.2f} %", detail, shown)
    if (tank := run.hydrogen) is not None:
        value, detail = f"{tank.hydrogen_final_kg:,.2f} kg", f"its target is {tank.target_kg:,.2f} kg"
        away_kg = round(tank.hydrogen_distance_kg, HYDROGEN_KG_DIGITS)
        yield HYDROGEN.card("Final hydrogen", value, detail, away_kg)


def _risk_cards(run: RunData) -> Iterator[Card]:
    risk = None if run.summary is None else run.summary.risk
    if risk is not None and risk.windows:
        detail = f"with a job killed or the battery below its minimum; limit {100.0 * risk.promised:g} %"
        yield Card("Violated windows", f"{risk.wrong:,} of {len(risk.windows):,}", detail)


def _life_cards(run: RunData) -> Iterator[Card]:
    life = None if run.summary is None else run.summary.battery_life
    if life is None:
        return
    detail = f"state of health {life.soh_final_pct:.3f} % at the end"
    if life.years_to_80_pct is not None:
        value = f"{life.years_to_80_pct:,.1f} years"
        yield Card("Battery life", value, f"until 80 % if this run repeats; {detail}")
    if life.wear_cost is not None:
        each = life.wear_cost_per_kwh
        detail = "" if each is None else f"{each:.4g} {life.currency} per kWh discharged"
        yield Card("Battery degradation cost", f"{life.wear_cost:,.2f} {life.currency}", detail)


def _energy_cards(run: RunData) -> Iterator[Card]:
    if (energy := run.energy_kwh) is not None:
        own_pct = own_share_pct(run)
        if own_pct is not None:
            title, value = "Self-sufficiency", f"{own_pct:.2f} %"
            if run.grid is not None:
                detail = f"of the load; {energy.imported or 0.0:,.2f} kWh from the grid"
                yield Card(title, value, detail)
            else:
                detail = f"of the load; {abs(energy.unserved):,.2f} kWh unserved"
                yield SUFFICIENT.card(title, value, detail, own_pct)
        lost = (
            (CURTAILED, "Curtailed", energy.curtailed, energy.production, "the production"),
            (WASTED, "Wasted", energy.wasted, energy.consumed, "the servers' energy"),
        )
        for bounds, title, kwh, whole_kwh, of in lost:
            pct = share_pct(kwh, whole_kwh)
            if pct is not None:
                yield bounds.card(title, f"{kwh:,.2f} kWh", f"{pct:.2f} % of {of}", pct)
        if energy.cooling is not None:
            mean_pue = None if run.summary is None or run.summary.site is None else run.summary.site.pue_mean
            of_pue = "" if mean_pue is None else f"mean PUE {mean_pue:.3f}"
            yield Card("Cooling", f"{energy.cooling:,.2f} kWh", of_pue)
        restarts = None if run.summary is None else run.summary.restarts
        if restarts is not None and restarts.redone_kwh is not None:
            detail = f"a part of wasted; jobs came back {restarts.count:,} times"
            yield Card("Work redone", f"{restarts.redone_kwh:,.2f} kWh", detail)
    if (grid := run.grid) is not None:
        mean, unit = grid.mean_import_price, grid.currency
        detail = "" if mean is None else f"{mean:.4g} {unit}/kWh on average"
        yield Card("Cost of the import", f"{grid.cost:,.2f} {unit}", detail)
        yield from _grid_cards(run, grid)


def _grid_cards(run: RunData, grid: GridPart) -> Iterator[Card]:
    """Yield the peak, the charge from the grid, and the perfect foresight, where the site has them."""
    if grid.peak_kw is not None and grid.peak_cost is not None:
        detail = f"{grid.peak_cost:,.2f} {grid.currency} of the cost"
        yield Card("Highest mean of 15 minutes", f"{grid.peak_kw:,.2f} kW", detail)
    if (energy := run.energy_kwh) is not None and energy.grid_charged is not None:
        released = grid.discharged_cost or 0.0
        detail = f"discharged energy had cost {released:,.2f} {grid.currency} when charged"
        if (carbon := grid.discharged_carbon_kg) is not None:
            detail += f", and emitted {carbon:,.2f} kg of carbon"
        yield Card("Charged from the grid", f"{energy.grid_charged:,.2f} kWh", detail)
    if (best := yardstick(run)) is not None:
        cost = best.foresight_cost
        value = "not available" if cost is None else f"{cost:,.2f} {best.currency}"
        yield Card("Perfect foresight", value, best.detail)


def _quality_cards(run: RunData) -> Iterator[Card]:
    if run.summary is None:
        return
    deadlines, quality = run.summary.deadlines, run.summary.quality
    if deadlines is not None and deadlines.jobs:
        pct = 100.0 * deadlines.jobs_met / deadlines.jobs
        detail = f"{deadlines.jobs_met:,} of {deadlines.jobs:,} jobs"
        yield DEADLINES.card("Deadlines met", f"{pct:.2f} %", detail, pct)
    if quality is not None and (mean := quality.bounded_slowdown_mean) is not None:
        median = quality.bounded_slowdown_p50
        detail = "" if median is None else f"median {median:,.2f}"
        if (waited_s := quality.waiting_s_mean) is not None:
            detail += f"; mean wait {waited_s:,.0f} s"
        yield SLOWDOWN.card("Slowdown", f"{mean:,.2f}", detail.removeprefix("; "), mean)


def cards_html(shown_cards: Sequence[Card]) -> str:
    """Return the cards of a run; each verdict is a sign with words and a colour."""
    lines = ['<div class="cards">']
    for card in shown_cards:
        badge = ""
        if card.verdict is not None:
            name, sign = card.verdict.value
            badge = (
                f'<p class="verdict {name}"><span aria-hidden="true">{sign}</span> {escape(card.word)}</p>'
            )
        detail = f'<p class="note">{escape(card.detail)}</p>' if card.detail else ""
        lines.append(
            f'<div class="card"><h3>{escape(card.title)}</h3><p class="figure">{escape(card.value)}</p>'
            f"{badge}{detail}</div>"
        )
    return "\n".join([*lines, "</div>\n"]) if shown_cards else ""


@dataclass(frozen=True)
class _Measure:
    column: ComparedColumn
    of: Callable[[RunData], float | None]


def _part(section: str, name: str) -> Callable[[RunData], float | None]:
    def value(run: RunData) -> float | None:
        number = value_at(run.summary, section, name)
        return None if number is None else float(number)

    return value


def _jobs_pct(*names: str) -> Callable[[RunData], float | None]:
    def value(run: RunData) -> float | None:
        counts = run.outcome_counts()
        return share_pct(sum(counts.get(name, 0) for name in names), _submitted(run))

    return value


def _kept_pct(run: RunData) -> float | None:
    deadlines = None if run.summary is None else run.summary.deadlines
    return None if deadlines is None else share_pct(deadlines.jobs_met, deadlines.jobs)


_SLACK: Final = 0.01
"""Relative distance from the best energy, cost, life, slowdown or wait that counts as equally good."""
_MEASURES: Final = (
    _Measure(ComparedColumn("finished", "%", Better.HIGH), _jobs_pct("finished", "failed")),
    _Measure(ComparedColumn("killed", "%", Better.LOW), _jobs_pct("killed")),
    _Measure(ComparedColumn("deadlines met", "%", Better.HIGH), _kept_pct),
    _Measure(ComparedColumn("lowest charge", "%", Better.HIGH), _part("site", "soc_lowest_pct")),
    _Measure(
        ComparedColumn("charge off target", "points", Better.NOT_NEGATIVE, SOC_POINTS_DIGITS, signed=True),
        _part("site", "soc_distance_points"),
    ),
    _Measure(
        ComparedColumn("hydrogen off target", "kg", Better.NOT_NEGATIVE, HYDROGEN_KG_DIGITS, signed=True),
        _part("site", "hydrogen_distance_kg"),
    ),
    _Measure(ComparedColumn("self-sufficient", "%", Better.HIGH), own_share_pct),
    _Measure(ComparedColumn("curtailed", "kWh", Better.LOW, slack=_SLACK), _part("energy_kwh", "curtailed")),
    _Measure(ComparedColumn("wasted", "kWh", Better.LOW, slack=_SLACK), _part("energy_kwh", "wasted")),
    _Measure(ComparedColumn("redone", "kWh", Better.LOW, slack=_SLACK), _part("restarts", "redone_kwh")),
    _Measure(ComparedColumn("cost", "", Better.LOW, slack=_SLACK), _part("grid", "cost")),
    _Measure(ComparedColumn("carbon", "kg", Better.LOW, slack=_SLACK), _part("grid", "carbon_kg")),
    _Measure(ComparedColumn("battery life", "years", Better.HIGH, slack=_SLACK),
             _part("battery_life", "years_to_80_pct")),
    _Measure(ComparedColumn("slowdown", "", Better.LOW, slack=_SLACK),
             _part("quality", "bounded_slowdown_mean")),
    _Measure(ComparedColumn("mean wait", "s", Better.LOW, 0, slack=_SLACK),
             _part("quality", "waiting_s_mean")),
)  # fmt: skip


def compared(runs: Sequence[RunData]) -> tuple[list[ComparedColumn], list[ComparedRow]]:
    """Return the compared figures, and a row per run."""
    rows = []
    for run in runs:
        policy = "unknown" if run.summary is None else run.summary.settings.policy
        note = "" if policy == run.name else f"policy {policy}"
        rows.append(ComparedRow(run.name, [measure.of(run) for measure in _MEASURES], note=note))
    currency = "/".join(dict.fromkeys(run.grid.currency for run in runs if run.grid is not None))
    least_pct = max((run.battery.soc_min_pct for run in runs if run.battery is not None), default=math.inf)
    settled: dict[str, dict[str, Any]] = {"cost": {"unit": currency}, "lowest charge": {"enough": least_pct}}
    columns = (measure.column for measure in _MEASURES)
    return [replace(each, **settled.get(each.title, {})) for each in columns], rows
