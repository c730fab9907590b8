"""Claims of the energy-budget paper in Sections V-E to V-H, and the results that they are judged by.

The paper removes the differences between traces: a week's mean over all conditions is replaced by the mean
over all weeks (its reference [28]). This changes neither the means over weeks nor the comparisons of
conditions within a week.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.campaigns.samples import Sample, bootstrap_weights, interval, weighted_mean
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.plugins.reports.intervals import NOT_NEGATIVE, ValueRange
from studies.claims import Claim, Truth, Verdict, claim_table
from studies.energy_budget.study import ALGORITHMS, Setting, percent

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES: Final = 2000
EASY: Final = Setting("easy")
MEASURES: Final[Mapping[str, ValueRange]] = {
    "utilization": ValueRange(0.0, 1.0),
    "ave_bsld": ValueRange(1.0),
    "energy_share": ValueRange(0.0, 1.0),
    "jobs_started": NOT_NEGATIVE,
    "excess_j": NOT_NEGATIVE,
    "debts": NOT_NEGATIVE,
}
"""Measures that the paper's claims and figures are about, with the values that they can have."""
_SAME: Final = 0.005
"""Relative difference that a figure does not show."""
_NAMES: Final = {"powercap": "powercap", "reducepc": "reducePC", "energybud": "energyBud"}


class Results(Sample[Setting]):
    """Measures of complete weeks (executions) by setting."""

    def interval(self, measure: str, setting: Setting) -> tuple[float, float, float]:
        """Return the normalized mean, and its 95 % interval over weeks.

        Normalized values of single weeks may lie beyond what the measure can be; the interval does not.
        """
        means = weighted_mean(self.weights, self.normalized(measure, setting))
        return float(means[0]), *MEASURES[measure].cut(*interval(means))

    def normalized(self, measure: str, setting: Setting) -> FloatArray:
        """Return a measure by week, minus the week's excess over the others on average."""
        values = self.values[measure]
        return np.asarray(self.of(measure, setting) - values.mean(axis=1) + values.mean())

    @cached_property
    def budgets(self) -> list[float]:
        """The budgets, falling."""
        return sorted({s.budget for s in self.conditions if s != EASY}, reverse=True)

    def line(self, budget: float) -> FloatArray:
        """f(budget) of Section V-G: EASY's utilization, reduced as the budget is on three of seven days."""
        return self.mean("utilization", EASY) * (3 / 7 * budget + 4 / 7)

    def change_pct(self, measure: str, algorithm: str, *, normalized: bool = True) -> FloatArray:
        """Average change by shutdown over all budgets and weeks, % (Table II: of normalized values).

        If weeks differ much, normalized values can be close to zero, and their changes are meaningless.
        """
        values, changes = self.normalized if normalized else self.of, []
        for budget in self.budgets:
            idle, shut = (values(measure, Setting(algorithm, budget, s)) for s in (False, True))
            changes.append(100 * (shut - idle) / idle)
        return weighted_mean(self.weights, np.mean(changes, axis=0))

    def over_budgets(self, measure: str, algorithm: str, shutdown: bool) -> FloatArray:
        """Mean over weeks and over the budgets below 100 %."""
        means = [self.mean(measure, Setting(algorithm, b, shutdown)) for b in self.budgets if b < 1]
        return np.asarray(np.mean(means, axis=0))

    def in_all_weeks(self, true: Truth) -> Truth:
        """Return whether something is true in every week: of ours, then of each resample."""
        return np.asarray(self.weights @ ~true == 0)


def results_of(
    runs: pd.DataFrame, settings: Sequence[Setting], measures: Iterable[str] = MEASURES
) -> Results:
    """Arrange the runs of the weeks of which none failed."""
    failed = set(runs.loc[runs["error"] != "", "week"])
    all_weeks = dict.fromkeys(runs["week"])
    weeks = tuple(week for week in all_weeks if week not in failed)
    index = runs[runs["week"].isin(weeks)].set_index(["algorithm", "budget", "shutdown", "week"])
    keys = [[(s.algorithm, s.budget, s.shutdown, week) for week in weeks] for s in settings]
    values = {
        name: np.array([[index.at[key, name] for key in row] for row in keys], dtype=np.float64).T
        for name in measures
    }
    weights = bootstrap_weights(np.zeros(len(weeks)), resamples=RESAMPLES if weeks else 0)
    return Results(tuple(settings), values, weeks, weights, len(all_weeks) - len(weeks))


def _listed(values: Mapping[str, FloatArray], form: str = "{:.4g}") -> str:
    return ", ".join(f"{_NAMES[name]} {form.format(found[0])}" for name, found in values.items())


_PERCENT: Final = "{:+.2f} %"


def _highest(powercap: FloatArray, reducepc: FloatArray, energybud: FloatArray) -> Truth:
    """Whether energyBud's value is the largest."""
    return energybud > np.maximum(powercap, reducepc)


def _lowest(powercap: FloatArray, reducepc: FloatArray, energybud: FloatArray) -> Truth:
    """Whether energyBud's value is the smallest."""
    return energybud < np.minimum(powercap, reducepc)


def _means(measure: str, shutdown: bool, true: Callable[..., Truth], results: Results) -> tuple[Truth, str]:
    """Whether something is true of the algorithms' means, in the order of `ALGORITHMS`."""
    means = {a: results.over_budgets(measure, a, shutdown) for a in ALGORITHMS}
    return true(*means.values()), _listed(means)


def _changes(measure: str, true: Callable[..., Truth], results: Results) -> tuple[Truth, str]:
    """Whether something is true of the algorithms' changes by shutdown."""
    changes = {a: _change(results, measure, a) for a in ALGORITHMS}
    return true(*changes.values()), _listed(changes, _PERCENT)


def _above_powercap(results: Results) -> tuple[Truth, str]:
    gains = {
        f"{_NAMES[a]} {'with' if s else 'without'}": results.over_budgets("utilization", a, s)
        / results.over_budgets("utilization", "powercap", s)
        for a in ("reducepc", "energybud")
        for s in (False, True)
    }
    text = ", ".join(f"{name} {100 * (gain[0] - 1):+.1f} %" for name, gain in gains.items())
    return np.min(list(gains.values()), axis=0) > 1, text


def _reducepc_with_against_energybud_without(results: Results) -> tuple[Truth, str]:
    shut = results.over_budgets("utilization", "reducepc", True)
    idle = results.over_budgets("utilization", "energybud", False)
    return shut > idle, f"reducePC with {shut[0]:.4g}, energyBud without {idle[0]:.4g}"


def _all_the_same_below_idle(results: Results) -> tuple[Truth, str]:
    low = [budget for budget in results.budgets if percent(budget) < 49]
    found = [results.mean("utilization", Setting(a, budget)) for budget in low for a in ALGORITHMS]
    spread = (np.max(found, axis=0) - np.min(found, axis=0)) / np.max(found, axis=0)
    return spread < 4 * _SAME, f"largest difference {100 * spread[0]:.2g} % of the utilization"


def _change(results: Results, measure: str, algorithm: str) -> FloatArray:
    """The change by shutdown; of the slowdown, which differs much between weeks, without normalizing it."""
    return results.change_pct(measure, algorithm, normalized=measure != "ave_bsld")


def _powercap_gains_nothing(measure: str, results: Results) -> tuple[Truth, str]:
    change = _change(results, measure, "powercap")
    return np.abs(change) < 100 * _SAME, _PERCENT.format(change[0])


def _excess(shutdown: bool, expected: bool, results: Results) -> tuple[Truth, str]:
    """Whether weeks with 30 % exceed their budget: all of them, or none."""
    low = min(results.budgets)
    if percent(low) != 30:
        raise KeyError("30 %")
    over = np.array([results.of("excess_j", Setting(a, low, shutdown)) > 0 for a in ALGORITHMS])
    text = f"{int(over.sum())} of {over.size} runs exceed it"
    return results.in_all_weeks(np.all(over == expected, axis=0)), text


def _budget_kept(results: Results) -> tuple[Truth, str]:
    settings = [s for s in results.conditions if s != EASY and (s.shutdown or percent(s.budget) > 49)]
    over = np.array([results.of("excess_j", s) > 0 for s in settings])
    debts = np.array([results.of("debts", s) for s in settings if s.algorithm != "powercap"])
    text = f"{int(over.sum())} of {over.size} runs exceed it; {int(debts.sum())} measurements in debt"
    return results.in_all_weeks(np.all(~over, axis=0)), text


def _above_line_at_90(results: Results) -> tuple[Truth, str]:
    if 0.9 not in results.budgets:
        raise KeyError("90 %")
    line = results.line(0.9)
    means = [results.mean("utilization", Setting(a, 0.9, s)) for a in ALGORITHMS for s in (False, True)]
    return np.min(means, axis=0) > line, f"lowest {min(m[0] for m in means):.4g}, line {line[0]:.4g}"


def _above_line_from(shutdown: bool, least: int, results: Results) -> tuple[Truth, str]:
    above = {
        percent(b): results.mean("utilization", Setting("energybud", b, shutdown)) > results.line(b)
        for b in results.budgets
        if b < 1
    }
    if least not in above:
        raise KeyError(f"{least} %")
    truth = np.all([found == (share >= least) for share, found in above.items()], axis=0)
    which = ", ".join(f"{share} %" for share, found in above.items() if found[0]) or "none"
    return truth, f"above it at {which}"


def _best_trade_off(measure: str, sign: int, results: Results) -> tuple[Truth, str]:
    """At every budget below 100 %, no other condition does better with no more energy."""
    beaten = {}
    for budget in [b for b in results.budgets if b < 1]:
        ours = Setting("energybud", budget, True)
        quality, energy = sign * results.mean(measure, ours), results.mean("energy_share", ours)
        others = [s for s in results.conditions if s not in (ours, EASY) and s.budget == budget]
        better = [
            (sign * results.mean(measure, s) > quality) & (results.mean("energy_share", s) <= energy)
            for s in others
        ]
        beaten[f"{percent(budget)} %"] = np.any(better, axis=0)
    if not beaten:
        raise KeyError("budgets")
    where = [share for share, lost in beaten.items() if lost[0]]
    truth = ~np.any(list(beaten.values()), axis=0)
    return truth, f"beaten at {', '.join(where)}" if where else "never beaten"


_CLAIMS: Final[tuple[tuple[Any, ...], ...]] = (
    ("IV", "the budget is strictly respected (where idle processors fit into it)", _budget_kept),
    ("V-E", "both algorithms have a higher utilization than powercap", _above_powercap),
    ("V-E", "energyBud has the highest utilization, without shutdown",
     _means, "utilization", False, _highest),
    ("V-E", "energyBud has the highest utilization, with shutdown", _means, "utilization", True, _highest),
    ("V-E", "reducePC with shutdown has a higher utilization than energyBud without",
     _reducepc_with_against_energybud_without),
    ("V-E", "below 49 %, all are the same without shutdown", _all_the_same_below_idle),
    ("V-E", "powercap gains no utilization by shutdown", _powercap_gains_nothing, "utilization"),
    ("V-E", "powercap's AVEbsld is the same with shutdown", _powercap_gains_nothing, "ave_bsld"),
    ("V-E", "energyBud has the lowest AVEbsld, without shutdown", _means, "ave_bsld", False, _lowest),
    ("V-E", "energyBud has the lowest AVEbsld, with shutdown", _means, "ave_bsld", True, _lowest),
    ("V-E", "powercap's AVEbsld is not the worst",
     _means, "ave_bsld", False, lambda p, r, e: p < np.maximum(r, e)),
    ("V-E", "without shutdown, 30 % are exceeded", _excess, False, True),
    ("V-E", "with shutdown, 30 % are kept", _excess, True, False),
    ("V-E", "with shutdown, less energy is used",
     _changes, "energy_share", lambda *all: np.max(all, axis=0) < 0),
    ("V-E", "energyBud uses more energy than reducePC, that more than powercap",
     _means, "energy_share", True, lambda p, r, e: (e > r) & (r > p)),
    ("V-F", "shutdown improves energyBud's utilization most", _changes, "utilization", _highest),
    ("V-F", "shutdown improves energyBud's AVEbsld most", _changes, "ave_bsld", _lowest),
    ("V-F", "shutdown lowers powercap's energy most",
     _changes, "energy_share", lambda p, r, e: p < np.minimum(r, e)),
    ("V-G", "at 90 %, all are above the theoretical line", _above_line_at_90),
    ("V-G", "energyBud with shutdown is above the line at 60 % and more only", _above_line_from, True, 60),
    ("V-G", "energyBud without shutdown: at 80 % and more only", _above_line_from, False, 80),
    ("V-G", "energyBud with shutdown: best utilization for its energy", _best_trade_off, "utilization", 1),
    ("V-G", "energyBud with shutdown: best AVEbsld for its energy", _best_trade_off, "ave_bsld", -1),
)  # fmt: skip
"""Section, text, test, and what the test is given before the results."""
CLAIMS: Final = tuple(
    Claim(f"E{number}", part, text, partial(test, *given))
    for number, (part, text, test, *given) in enumerate(_CLAIMS, 1)
)


def energy_claim_table(verdicts: Sequence[Verdict]) -> TextTable:
    """The paper's claims; those about conditions that were not run are omitted."""
    note = "Means over the budgets below 100 % unless a budget is named."
    columns = {"section": "claim.part", "claim": "claim.text", "ours": "ours", "verdict": "ruling.value"}
    return claim_table(verdicts, columns, note=note)
