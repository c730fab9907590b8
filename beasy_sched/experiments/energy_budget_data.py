"""The study's runs as arrays: measures by condition and week, normalized as in the paper.

The paper removes the differences between traces: a week's mean over all conditions is replaced by the mean
over all weeks (its reference [28]). That leaves the means over weeks as they are, and the comparisons of
conditions within a week, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.experiments.energy_budget_runs import ALGORITHMS, Setting

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
