"""What the energy-budget paper says in Sections V-E to V-H, claim by claim, and whether it holds here.

A claim *holds* where it is true of our weeks and of 95 % of their resamples, *does not hold* where it is
false of both, and is *undecided* otherwise.

The study's runs as arrays: measures by condition and week, normalized as in the paper.

The paper removes the differences between traces: a week's mean over all conditions is replaced by the mean
over all weeks (its reference [28]). That leaves the means over weeks as they are, and the comparisons of
conditions within a week, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.reproduction.energy_budget.study import ALGORITHMS, Setting, percent

if TYPE_CHECKING:
    import pandas as pd


RESAMPLES, SEED = 2000, 1
EASY = Setting("easy")


@dataclass(frozen=True)
class Results:
    """Measures of complete weeks."""

    settings: Sequence[Setting]
    weeks: Sequence[str]
    values: dict[str, FloatArray]
    """By measure: [setting, week]."""

    @cached_property
    def resamples(self) -> IndexArray:
        """Weeks drawn with replacement, [resample, week]; the first row is the weeks as they are."""
        rng = np.random.default_rng(SEED)
        count = len(self.weeks)
        return np.vstack([np.arange(count), rng.integers(0, count, (RESAMPLES, count))])

    def raw(self, measure: str, setting: Setting) -> FloatArray:
        """Return a measure by week. Raises KeyError for a setting that was not run."""
        if setting not in self.settings:
            raise KeyError(setting.key)
        found: FloatArray = self.values[measure][list(self.settings).index(setting)]
        return found

    def normalized(self, measure: str, setting: Setting) -> FloatArray:
        """Return a measure by week, less what the week is above the others on average."""
        values = self.values[measure]
        found: FloatArray = self.raw(measure, setting) - values.mean(axis=0) + values.mean()
        return found

    def mean(self, measure: str, setting: Setting) -> FloatArray:
        """Return the mean over weeks: of ours, then of each resample."""
        means: FloatArray = self.raw(measure, setting)[self.resamples].mean(axis=1)
        return means

    def interval(self, measure: str, setting: Setting) -> tuple[float, float, float]:
        """Return the normalized mean, and its 95 % interval over weeks."""
        means = self.normalized(measure, setting)[self.resamples].mean(axis=1)
        low, high = np.percentile(means[1:], [2.5, 97.5])
        return float(means[0]), float(low), float(high)

    @cached_property
    def budgets(self) -> list[float]:
        """The budgets, falling."""
        return sorted({s.budget for s in self.settings if s.algorithm != "easy"}, reverse=True)

    def line(self, budget: float) -> FloatArray:
        """f(budget) of Section V-G: EASY's utilization, reduced as the budget is on three of seven days."""
        line: FloatArray = self.mean("utilization", EASY) * (3 / 7 * budget + 4 / 7)
        return line

    def change_pct(self, measure: str, algorithm: str, *, normalized: bool = True) -> FloatArray:
        """Average change by shutdown over all budgets and weeks, % (Table II: of normalized values).

        Where weeks differ much, normalized values can come near zero, and their changes mean nothing.
        """
        values, changes = self.normalized if normalized else self.raw, []
        for budget in self.budgets:
            idle, shut = (values(measure, Setting(algorithm, budget, s)) for s in (False, True))
            changes.append(100 * (shut - idle) / idle)
        mean: FloatArray = np.mean(changes, axis=0)[self.resamples].mean(axis=1)
        return mean


def results_of(runs: pd.DataFrame, settings: Sequence[Setting], measures: Sequence[str]) -> Results:
    """Arrange the runs of the weeks of which none failed."""
    failed = set(runs.loc[runs["error"] != "", "week"])
    weeks = [week for week in dict.fromkeys(runs["week"]) if week not in failed]
    kept = runs[runs["week"].isin(weeks)]
    index = kept.set_index(["algorithm", "budget", "shutdown", "week"])
    keys = [[(s.algorithm, s.budget, s.shutdown, week) for week in weeks] for s in settings]
    values = {
        name: np.array([[index.at[key, name] for key in row] for row in keys], dtype=np.float64)
        for name in measures
    }
    return Results(list(settings), weeks, values)


__all__ = ["ALGORITHMS", "EASY", "RESAMPLES", "FloatArray", "Results", "results_of"]


Truth = npt.NDArray[np.bool_]
_CONFIDENCE: Final = 0.95
_SAME: Final = 0.005
"""Relative difference that a figure does not show."""
_NAMES: Final = {"powercap": "powercap", "reducepc": "reducePC", "energybud": "energyBud"}


@dataclass(frozen=True)
class Finding:
    """A claim, and what became of it."""

    section: str
    claim: str
    ours: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A claim: its truth of ours and of each resample, and our numbers."""

    section: str
    text: str
    test: Callable[[Results], tuple[Truth, str]]


def judge(results: Results) -> Iterator[Finding]:
    """Judge every claim; one about conditions that were not run is left out."""
    for claim in CLAIMS:
        try:
            truth, ours = claim.test(results)
        except KeyError:
            continue
        share = float(truth[1:].mean())
        verdict = "undecided"
        if truth[0] and share >= _CONFIDENCE:
            verdict = "holds"
        elif not truth[0] and share <= 1 - _CONFIDENCE:
            verdict = "does not hold"
        yield Finding(claim.section, claim.text, ours, verdict)


def _over_budgets(results: Results, measure: str, algorithm: str, shutdown: bool) -> FloatArray:
    """Mean over weeks and over the budgets below 100 %."""
    budgets = [b for b in results.budgets if b < 1]
    found: FloatArray = np.mean(
        [results.mean(measure, Setting(algorithm, b, shutdown)) for b in budgets], axis=0
    )
    return found


def _best(measure: str, sign: int, shutdown: bool) -> Callable[[Results], tuple[Truth, str]]:
    def test(results: Results) -> tuple[Truth, str]:
        means = {a: _over_budgets(results, measure, a, shutdown) for a in ALGORITHMS}
        others = np.max([sign * means[a] for a in ALGORITHMS if a != "energybud"], axis=0)
        return sign * means["energybud"] > others, _listed(means)

    return test


def _above_powercap(results: Results) -> tuple[Truth, str]:
    gains = {
        f"{_NAMES[a]} {'with' if s else 'without'}": _over_budgets(results, "utilization", a, s)
        / _over_budgets(results, "utilization", "powercap", s)
        for a in ("reducepc", "energybud")
        for s in (False, True)
    }
    text = ", ".join(f"{name} {100 * (gain[0] - 1):+.1f} %" for name, gain in gains.items())
    return np.min(list(gains.values()), axis=0) > 1, text


def _listed(means: dict[str, FloatArray]) -> str:
    return ", ".join(f"{_NAMES[name]} {values[0]:.4g}" for name, values in means.items())


def _reducepc_with_against_energybud_without(results: Results) -> tuple[Truth, str]:
    shut = _over_budgets(results, "utilization", "reducepc", True)
    idle = _over_budgets(results, "utilization", "energybud", False)
    return shut > idle, f"reducePC with {shut[0]:.4g}, energyBud without {idle[0]:.4g}"


def _all_the_same_below_idle(results: Results) -> tuple[Truth, str]:
    found = []
    for budget in [b for b in results.budgets if percent(b) < 49]:
        found += [results.mean("utilization", Setting(a, budget)) for a in ALGORITHMS]
    spread = (np.max(found, axis=0) - np.min(found, axis=0)) / np.max(found, axis=0)
    return spread < 4 * _SAME, f"largest difference {100 * spread[0]:.2g} % of the utilization"


def _powercap_gains_nothing(measure: str) -> Callable[[Results], tuple[Truth, str]]:
    def test(results: Results) -> tuple[Truth, str]:
        change = results.change_pct(measure, "powercap", normalized=measure != "ave_bsld")
        return np.abs(change) < 100 * _SAME, f"{change[0]:+.2f} %"

    return test


def _powercap_not_the_worst(results: Results) -> tuple[Truth, str]:
    means = {a: _over_budgets(results, "ave_bsld", a, False) for a in ALGORITHMS}
    return means["powercap"] < np.maximum(means["reducepc"], means["energybud"]), _listed(means)


def _excess(shutdown: bool, expected: bool) -> Callable[[Results], tuple[Truth, str]]:
    """Whether weeks with 30 % exceed their budget: all of them, or none."""

    def test(results: Results) -> tuple[Truth, str]:
        low = min(results.budgets)
        if percent(low) != 30:
            raise KeyError("30 %")
        over = np.array([results.raw("excess_j", Setting(a, low, shutdown)) > 0 for a in ALGORITHMS])
        by_week: Truth = np.all(over == expected, axis=0)
        return np.asarray(
            by_week[results.resamples].all(axis=1)
        ), f"{int(over.sum())} of {over.size} runs exceed it"

    return test


def _budget_kept(results: Results) -> tuple[Truth, str]:
    settings = [
        s for s in results.settings if s.algorithm != "easy" and (s.shutdown or percent(s.budget) > 49)
    ]
    over = np.array([results.raw("excess_j", s) > 0 for s in settings])
    debts = np.array([results.raw("debts", s) for s in settings if s.algorithm != "powercap"])
    text = f"{int(over.sum())} of {over.size} runs exceed it; {int(debts.sum())} measurements in debt"
    kept: Truth = np.all(~over, axis=0)
    return np.asarray(kept[results.resamples].all(axis=1)), text


def _less_energy(results: Results) -> tuple[Truth, str]:
    changes = {a: results.change_pct("energy_share", a) for a in ALGORITHMS}
    text = ", ".join(f"{_NAMES[a]} {change[0]:+.2f} %" for a, change in changes.items())
    return np.max(list(changes.values()), axis=0) < 0, text


def _energy_order(results: Results) -> tuple[Truth, str]:
    means = {a: _over_budgets(results, "energy_share", a, True) for a in ALGORITHMS}
    return (means["energybud"] > means["reducepc"]) & (means["reducepc"] > means["powercap"]), _listed(means)


def _table_2(measure: str, sign: int) -> Callable[[Results], tuple[Truth, str]]:
    def test(results: Results) -> tuple[Truth, str]:
        changes = {a: results.change_pct(measure, a, normalized=measure != "ave_bsld") for a in ALGORITHMS}
        others = np.max([sign * changes[a] for a in ALGORITHMS if a != "energybud"], axis=0)
        text = ", ".join(f"{_NAMES[a]} {change[0]:+.2f} %" for a, change in changes.items())
        return sign * changes["energybud"] > others, text

    return test


def _above_line_at_90(results: Results) -> tuple[Truth, str]:
    if 0.9 not in results.budgets:
        raise KeyError("90 %")
    line = results.line(0.9)
    means = [results.mean("utilization", Setting(a, 0.9, s)) for a in ALGORITHMS for s in (False, True)]
    return np.min(means, axis=0) > line, f"lowest {min(m[0] for m in means):.4g}, line {line[0]:.4g}"


def _above_line_from(shutdown: bool, least: int) -> Callable[[Results], tuple[Truth, str]]:
    def test(results: Results) -> tuple[Truth, str]:
        above = {
            b: results.mean("utilization", Setting("energybud", b, shutdown)) > results.line(b)
            for b in results.budgets
            if b < 1
        }
        if not any(percent(b) == least for b in above):
            raise KeyError(f"{least} %")
        truth = np.all([found == (percent(b) >= least) for b, found in above.items()], axis=0)
        which = ", ".join(f"{percent(b)} %" for b, found in above.items() if found[0]) or "none"
        return truth, f"above it at {which}"

    return test


def _best_trade_off(measure: str, sign: int) -> Callable[[Results], tuple[Truth, str]]:
    """At every budget below 100 %, no other condition does better with no more energy."""

    def test(results: Results) -> tuple[Truth, str]:
        truth, beaten = None, []
        for budget in [b for b in results.budgets if b < 1]:
            ours = Setting("energybud", budget, True)
            quality, energy = sign * results.mean(measure, ours), results.mean("energy_share", ours)
            others = [s for s in results.settings if s != ours and s.budget == budget and s != EASY]
            better = np.any(
                [
                    (sign * results.mean(measure, s) > quality) & (results.mean("energy_share", s) <= energy)
                    for s in others
                ],
                axis=0,
            )
            truth = ~better if truth is None else truth & ~better
            if better[0]:
                beaten.append(f"{percent(budget)} %")
        if truth is None:
            raise KeyError("budgets")
        return truth, f"beaten at {', '.join(beaten)}" if beaten else "never beaten"

    return test


def _powercap_saves_most(results: Results) -> tuple[Truth, str]:
    changes = {a: results.change_pct("energy_share", a) for a in ALGORITHMS}
    others = np.minimum(changes["reducepc"], changes["energybud"])
    return changes["powercap"] < others, ", ".join(f"{_NAMES[a]} {c[0]:+.2f} %" for a, c in changes.items())


CLAIMS: Final = (
    Claim("IV", "the budget is strictly respected (where idle processors fit into it)", _budget_kept),
    Claim("V-E", "both algorithms have a higher utilization than powercap", _above_powercap),
    Claim("V-E", "energyBud has the highest utilization, without shutdown", _best("utilization", 1, False)),
    Claim("V-E", "energyBud has the highest utilization, with shutdown", _best("utilization", 1, True)),
    Claim(
        "V-E",
        "reducePC with shutdown has a higher utilization than energyBud without",
        _reducepc_with_against_energybud_without,
    ),
    Claim("V-E", "below 49 %, all are the same without shutdown", _all_the_same_below_idle),
    Claim("V-E", "powercap gains no utilization by shutdown", _powercap_gains_nothing("utilization")),
    Claim("V-E", "powercap's AVEbsld is the same with shutdown", _powercap_gains_nothing("ave_bsld")),
    Claim("V-E", "energyBud has the lowest AVEbsld, without shutdown", _best("ave_bsld", -1, False)),
    Claim("V-E", "energyBud has the lowest AVEbsld, with shutdown", _best("ave_bsld", -1, True)),
    Claim("V-E", "powercap's AVEbsld is not the worst", _powercap_not_the_worst),
    Claim("V-E", "without shutdown, 30 % are exceeded", _excess(False, True)),
    Claim("V-E", "with shutdown, 30 % are kept", _excess(True, False)),
    Claim("V-E", "with shutdown, less energy is used", _less_energy),
    Claim("V-E", "energyBud uses more energy than reducePC, that more than powercap", _energy_order),
    Claim("V-F", "shutdown improves energyBud's utilization most", _table_2("utilization", 1)),
    Claim("V-F", "shutdown improves energyBud's AVEbsld most", _table_2("ave_bsld", -1)),
    Claim("V-F", "shutdown lowers powercap's energy most", _powercap_saves_most),
    Claim("V-G", "at 90 %, all are above the theoretical line", _above_line_at_90),
    Claim(
        "V-G", "energyBud with shutdown is above the line at 60 % and more only", _above_line_from(True, 60)
    ),
    Claim("V-G", "energyBud without shutdown: at 80 % and more only", _above_line_from(False, 80)),
    Claim(
        "V-G", "energyBud with shutdown: best utilization for its energy", _best_trade_off("utilization", 1)
    ),
    Claim("V-G", "energyBud with shutdown: best AVEbsld for its energy", _best_trade_off("ave_bsld", -1)),
)
