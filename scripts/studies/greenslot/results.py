"""Results of GreenSlot's evaluation: gains over Conventional, and tables with the paper's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from beasy_sched.arrays import FloatArray
from beasy_sched.forecast.accuracy import AccuracyTable
from beasy_sched.plugins.campaigns.samples import Sample, bootstrap_weights
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.units import SECONDS_PER_HOUR
from studies.greenslot.cases import (
    CONVENTIONAL,
    COPIES,
    GREEN_ONLY,
    MAIN,
    MULTI_NODE,
    POLICIES,
    STAGGERED,
    VAR_PRICES,
    Case,
    Load,
    Row,
    loaded,
    stand_in_cases,
)
from studies.greenslot.study import CaseResult

_MEASURES: Final = ("green_kwh", "cost", "total_kwh", "missed", "refused")


@dataclass(frozen=True)
class GreenResults:
    """Results that the claims are judged by."""

    runs: Mapping[Case, CaseResult]
    """Runs that ended well."""
    stand_ins: Sample[str] | None = None
    """Measures of other weeks (executions) by policy (conditions)."""
    accuracy: AccuracyTable | None = None
    """Errors of the predictor on the user's training data; None without any."""
    round_s: Mapping[int, float] = field(default_factory=dict)
    """Time that a round takes, s, by the number of queued jobs."""

    def value(self, measure: str, case: Case) -> float:
        """Return a measure of a run. Raises KeyError where it did not run."""
        if case not in self.runs:
            raise KeyError(case.name)
        found = self.runs[case].values[measure]
        return float("nan") if found is None else float(found)

    def green_pct(self, case: Case) -> float:
        """Return by how much more green energy is used than under Conventional, %."""
        return 100.0 * (self.value("green_kwh", case) / self.value("green_kwh", case.reference) - 1.0)

    def saving_pct(self, case: Case) -> float:
        """Return by how much the cost is below Conventional's, %."""
        return 100.0 * (1.0 - self.value("cost", case) / self.value("cost", case.reference))

    def of_jobs(self, case: Case) -> Mapping[str, float]:
        """Return energy, green energy (kWh) and cost of a run beyond those of its site with all nodes asleep.

        That is what a schedule can change. In some step of the run all nodes must have slept. Raises KeyError
        where it did not run.
        """
        if case not in self.runs:
            raise KeyError(case.name)
        curves = {name: np.array(values) for name, values in self.runs[case].curves.items()}
        green_w = curves["green_w"]
        asleep_w = float((green_w + curves["brown_w"]).min())
        sun_w = green_w + curves["unused_w"]
        kwh = case.step_s / SECONDS_PER_HOUR / 1e3
        idle = {
            "total_kwh": asleep_w * len(green_w) * kwh,
            "green_kwh": float(np.minimum(sun_w, asleep_w).sum()) * kwh,
            "cost": float(np.maximum(asleep_w - sun_w, 0.0) @ curves["price_per_kwh"]) * kwh,
        }
        return {name: self.value(name, case) - spent for name, spent in idle.items()}

    @property
    def other_weeks(self) -> Sample[str]:
        """The stand-ins, at least one. Raises KeyError."""
        if self.stand_ins is None or not self.stand_ins.executions:
            raise KeyError("other weeks")
        return self.stand_ins

    def gains_of_weeks(self, policy: str) -> tuple[FloatArray, FloatArray]:
        """Return green gains and cost savings of the stand-ins, %, one a week. Raises KeyError."""
        sample = self.other_weeks
        green, cost = (
            sample.of(name, policy) / sample.of(name, "conventional") for name in ("green_kwh", "cost")
        )
        return np.asarray(100.0 * (green - 1.0)), np.asarray(100.0 * (1.0 - cost))


def results_of(
    runs: Mapping[Case, CaseResult],
    other_weeks: Iterable[str] = (),
    accuracy: AccuracyTable | None = None,
    round_s: Mapping[int, float] | None = None,
) -> GreenResults:
    """Arrange the runs; incomplete ``other_weeks``, which replace the paper's, are omitted."""
    others = {
        week: {case.policy: runs[case] for case in stand_in_cases([week]) if case in runs}
        for week in other_weeks
    }
    weeks = tuple(week for week, found in others.items() if found.keys() >= set(MAIN))
    values = {
        name: np.array([[others[w][p].values[name] for p in MAIN] for w in weeks], dtype=np.float64)
        for name in _MEASURES
    }
    weights = bootstrap_weights(np.zeros(len(weeks)), resamples=2000 if weeks else 0)
    sample = Sample(MAIN, values, weeks, weights, len(others) - len(weeks))
    return GreenResults(dict(runs), sample, accuracy, round_s or {})


READ_OFF: Final[Mapping[str, tuple[Case, float, float, float]]] = {
    "6": (CONVENTIONAL, 101.9, 26.3, 8.15),
    "7": (GREEN_ONLY, 103.0, 38.5, 6.60),
    "9": (replace(GREEN_ONLY, forecast="perfect"), 102.9, 38.6, 6.55),
    "10": (VAR_PRICES, 102.9, 38.4, 6.18),
    "12": (loaded(STAGGERED).reference, 102.2, 32.2, 8.58),
    "13": (loaded(STAGGERED), 102.7, 38.2, 6.16),
    "14": (loaded(MULTI_NODE).reference, 106.8, 26.3, 8.77),
    "15": (loaded(MULTI_NODE), 108.0, 38.2, 6.64),
}
"""Figures of the week "Average": run; total and green kWh and cost (USD), measured in the paper's figures."""
READ_OFF_BARS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "greenonly": {"most": (56.2, 35.3), "best": (118.4, 24.9), "average": (46.3, 19.5), "worst": (13.4, 6.7)},
    "greenvarprices": {
        "most": (54.3, 38.5), "best": (116.8, 31.1), "average": (45.2, 24.8), "worst": (11.0, 13.0),
    },
}  # fmt: skip
"""Bars of Figures 8 and 11: green energy increase and cost savings, %, by week."""


def figure_table(results: GreenResults) -> TextTable:
    """Totals of Figures 6 to 15, the paper's (measured in the figures) and ours."""
    head = ("figure", "run", "kWh", "paper", "green kWh", "paper", "cost, USD", "paper", "missed")
    rows = []
    for number, (case, *printed) in READ_OFF.items():
        if case not in results.runs:
            continue
        row = [number, case.name]
        for name, theirs, form in zip(
            ("total_kwh", "green_kwh", "cost"), printed, ("{:.1f}", "{:.1f}", "{:.2f}"), strict=True
        ):
            row += [form.format(results.value(name, case)), form.format(theirs)]
        rows.append((*row, f"{results.value('missed', case):.0f}"))
    return TextTable("Week Average: energy and cost", head, rows, head[2:])


_GAINS: Final = (
    "kWh",
    "green kWh",
    "cost",
    "green, %",
    "cost saved, %",
    "missed",
    "refused",
    "latest, min",
    "CO2, kg",
)


def gain_table(
    title: str, rows: Iterable[Row], results: GreenResults, note: str = "", currency: str = "USD"
) -> TextTable:
    """Runs against Conventional under the same conditions; of workflows, how many missed their deadlines.

    Work that is put off beyond the week's end is missing in energy and cost. ``currency`` is empty where it
    differs from row to row.
    """
    gains = tuple(f"{name}, {currency}" if currency and name == "cost" else name for name in _GAINS)
    head = ("setting", "policy", *gains)
    cells = [(row.setting, POLICIES[row.case.policy][0], *_gains(row.case, results)) for row in rows
             if row.case in results.runs and row.case.reference in results.runs]  # fmt: skip
    return TextTable(title, head, cells, gains, note)


def _gains(case: Case, results: GreenResults) -> Iterator[str]:
    yield from (f"{results.value(name, case):.1f}" for name in ("total_kwh", "green_kwh"))
    yield f"{results.value('cost', case):.2f}"
    green = results.value("green_kwh", case.reference)
    yield f"{results.green_pct(case):+.1f}" if green > 0 else ""
    yield f"{results.saving_pct(case):+.1f}"
    yield from (f"{results.value(name, case):.0f}" for name in ("missed", "refused"))
    yield f"{results.value('latest_s', case) / 60:.0f}"
    yield f"{results.value('carbon_kg', case):.1f}"


def _increase_pct(ours: float, theirs: float) -> str:
    return f"{100.0 * (ours / theirs - 1.0):+.1f}" if theirs > 1e-9 else ""


def _saved_pct(ours: float, theirs: float) -> str:
    return f"{100.0 * (1.0 - ours / theirs):+.1f}" if theirs > 1e-9 else ""


def trace_table(rows: Iterable[Row], results: GreenResults, note: str = "") -> TextTable:
    """Weeks of traces: what their jobs use beyond the sleeping site, and how many of them were late."""
    head = ("setting", "policy", "kWh", "green kWh", "cost, USD", "green, %", "cost saved, %", "missed",
            "refused", "latest, min")  # fmt: skip
    cells = []
    for row in rows:
        if row.case not in results.runs or row.case.reference not in results.runs:
            continue
        ours, blind = results.of_jobs(row.case), results.of_jobs(row.case.reference)
        energies = (f"{ours[name]:.1f}" for name in ("total_kwh", "green_kwh"))
        gains = _increase_pct(ours["green_kwh"], blind["green_kwh"]), _saved_pct(ours["cost"], blind["cost"])
        counts = (f"{results.value(name, row.case):.0f}" for name in ("missed_jobs", "refused_jobs"))
        cells.append(
            (row.setting, POLICIES[row.case.policy][0], *energies, f"{ours['cost']:.2f}",
             *gains, *counts,
             f"{results.value('latest_s', row.case) / 60:.0f}")
        )  # fmt: skip
    return TextTable("Weeks of traces", head, cells, head[2:], note)


def knowledge_rows() -> Iterator[Row]:
    """The main cases by what is known of the sun."""
    for forecast in ("paper", "mean-day", "perfect"):
        for case in (GREEN_ONLY, VAR_PRICES):
            yield Row(forecast, replace(case, forecast=forecast))


def load_rows() -> Iterator[Row]:
    """The utilization study: as in the paper, with the earliest of equal slots, and without precedence."""
    for copies in COPIES:
        case = loaded(Load(copies=copies))
        yield Row(f"{copies} copies", case.reference)
        yield Row(f"{copies} copies", case)
        yield Row(f"{copies} copies, tie earliest", replace(case, options=(("tie", "earliest"),)))
        yield Row(f"{copies} copies, no precedence", loaded(Load(copies=copies, independent=True)))


def week_table(results: GreenResults) -> TextTable:
    """The stand-ins for the paper's other weeks: gains against Conventional, %."""
    head = ("week", "GreenOnly green", "cost saved", "GreenVarPrices green", "cost saved", "missed")
    sample, rows = results.stand_ins, []
    if sample is not None and sample.executions:
        gains = [array for policy in MAIN[1:] for array in results.gains_of_weeks(policy)]
        missed = sum(sample.of("missed", policy) for policy in MAIN)
        for at, week in enumerate(sample.executions):
            rows.append(
                (str(week), *(f"{array[at]:+.1f}" for array in gains), f"{np.asarray(missed)[at]:.0f}")
            )
    note = "Perfect predictions; workflows that missed their deadline, of all three policies."
    return TextTable("Other weeks: gains against Conventional, %", head, rows, head[1:], note)
