"""Small interface of HiGHS: one thread, seeded, ended by gap or nodes rather than by time.

A mixed-integer linear model is built block by block, and minimized for one objective after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.extras import load_optional
from beasy_sched.planner.solver_limits import SolverLimits

Term = tuple[IndexArray, float | FloatArray]
"""Columns and their coefficients, one per row (a single column or coefficient applies to all rows)."""


class LinearModel:
    """Columns (variables) and rows (constraints), in the order in which they are added."""

    def __init__(self) -> None:
        self.column_count = 0
        self.row_count = 0
        self.is_mip = False
        """Whether some columns must be integers."""
        self._columns: list[tuple[FloatArray, FloatArray, BoolArray]] = []
        self._rows: list[tuple[FloatArray, FloatArray]] = []
        self._entries: list[tuple[IndexArray, IndexArray, FloatArray]] = []

    def columns(
        self,
        count: int,
        lower: float | FloatArray = 0.0,
        upper: float | FloatArray = np.inf,
        *,
        integer: bool = False,
    ) -> IndexArray:
        """Add ``count`` columns within bounds, and return their indices."""
        self._columns.append((_spread(lower, count), _spread(upper, count), np.full(count, integer)))
        self.is_mip |= integer
        self.column_count += count
        return np.arange(self.column_count - count, self.column_count)

    def rows(
        self, count: int, lower: float | FloatArray, upper: float | FloatArray, *terms: Term
    ) -> IndexArray:
        """Add ``count`` rows ``lower <= sum of terms <= upper``, and return their indices."""
        self._rows.append((_spread(lower, count), _spread(upper, count)))
        indices = np.arange(self.row_count, self.row_count + count)
        for columns, values in terms:
            spread = _spread(values, count)
            kept = spread != 0.0
            self._entries.append((indices[kept], np.broadcast_to(columns, count)[kept], spread[kept]))
        self.row_count += count
        return indices

    def chain(self, level: IndexArray, kept: float, start: float, *terms: Term) -> IndexArray:
        """Add the rows ``level[t] = kept * level[t - 1] + sum of terms[t]``, and return their indices.

        ``start`` is the level before the first.
        """
        count = len(level)
        share, given = np.full(count, -kept), np.zeros(count)
        share[0], given[0] = 0.0, kept * start
        before = np.concatenate((level[:1], level[:-1]))
        changes = ((columns, -np.asarray(values)) for columns, values in terms)
        return self.rows(count, given, given, (level, 1.0), (before, share), *changes)

    def add_entries(self, rows: IndexArray, columns: IndexArray, values: FloatArray) -> None:
        """Add single coefficients: ``values`` of ``columns`` in ``rows``, no position twice."""
        self._entries.append((rows, columns, values))

    def pass_to(self, highs: Any, highspy: Any) -> None:
        """Pass the model to HiGHS without costs, as arrays, which is much faster than as a ``HighsLp``."""
        lower, upper, integer = _joined(self._columns)
        row_lower, row_upper = _joined(self._rows)
        rows, columns, values = _joined(self._entries)
        order = np.argsort(rows * self.column_count + columns, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=self.row_count))))
        highs.passModel(
            self.column_count,
            self.row_count,
            len(values),
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            np.zeros(self.column_count),
            lower,
            upper,
            row_lower,
            row_upper,
            starts.astype(np.int32),
            columns[order].astype(np.int32),
            values[order],
            integer.astype(np.int32),
        )


def _spread(values: float | FloatArray, count: int) -> FloatArray:
    """Return one value for all, or one for each, as ``count`` numbers."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), count)


def _joined(blocks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Return the concatenated arrays of all blocks."""
    return (np.concatenate(part) for part in zip(*blocks, strict=True))


class SearchEnd(str, Enum):
    """Reason why an optimization has ended."""

    DONE = "done"
    """The incumbent is within the requested gap."""
    INFEASIBLE = "infeasible"
    """No point exists."""
    NODES = "the node limit"
    TIME = "the time limit"
    FAILED = "a numerical failure of the solver"


@dataclass(frozen=True)
class SolverOutcome:
    """Outcome of one optimization."""

    ending: SearchEnd
    incumbent: FloatArray | None = None
    """The best point found: a value for each column. After a limit, it may be far from the optimum."""
    objective: float = math.nan
    """Objective of the incumbent; NaN without one."""
    bound: float = -math.inf
    """No point has a lower objective."""

    @property
    def gap(self) -> float:
        """Distance of the incumbent to the bound, relative to its objective; infinite without an incumbent.

        It is relative to 1 where the objective is smaller than 1e-6.
        """
        if self.incumbent is None:
            return math.inf
        size = abs(self.objective)
        return max(0.0, self.objective - self.bound) / (size if size > 1e-6 else 1.0)


_PRIMAL_SIMPLEX: Final = 4
"""Value of the option ``simplex_strategy`` of HiGHS."""


class Solver:
    """Model in HiGHS: minimizes one objective after the other, with rows and bounds added in between."""

    def __init__(
        self, model: LinearModel, limits: SolverLimits | None = None, *, tolerance: float | None = None
    ) -> None:
        """Pass the model. Raises ConfigError if highspy is not installed.

        ``tolerance`` is the absolute tolerance of rows and bounds; None uses HiGHS's default.
        """
        self._highspy = _import_highspy()
        self._limits = limits or SolverLimits()
        self._deadline_s = time.monotonic() + self._limits.time_s
        self._model = model
        self._highs = _quiet_highs(self._highspy)()
        tolerances = ("primal_feasibility_tolerance", "mip_feasibility_tolerance")
        for option, value in {
            "output_flag": False,
            "threads": 1,
            "parallel": "off",
            "random_seed": 0,
            "mip_rel_gap": self._limits.relative_gap,
            "mip_abs_gap": 1e-7,
            "mip_max_nodes": self._limits.nodes,
            **dict.fromkeys(tolerances if tolerance is not None else (), tolerance),
        }.items():
            self._highs.setOptionValue(option, value)
        model.pass_to(self._highs, self._highspy)

    def minimize(self, *costs: tuple[IntArray, float | FloatArray]) -> SolverOutcome:
        """Minimize the sum of columns times costs; other columns have no cost."""
        count = self._model.column_count
        cost = np.zeros(count)
        for columns, values in costs:
            cost[columns] = values
        self._highs.changeColsCost(count, np.arange(count, dtype=np.int32), cost)
        if math.isfinite(self._deadline_s):
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0.0:
                return SolverOutcome(SearchEnd.TIME)
            # HiGHS counts the time of all runs of one instance.
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left_s)
        self._highs.run()
        outcome = self._outcome()
        if outcome.ending is SearchEnd.FAILED:  # the dual simplex method fails on some large models
            outcome = self._run_anew(simplex_strategy=_PRIMAL_SIMPLEX)
        if outcome.ending in (SearchEnd.FAILED, SearchEnd.INFEASIBLE):
            # Presolve reports some feasible models as infeasible, for example if bounds leave a single point.
            again = self._run_anew(presolve="off")
            return outcome if again.incumbent is None else again
        return outcome

    def _run_anew(self, **options: int | str) -> SolverOutcome:
        """Start again with other options of HiGHS, which are restored afterwards."""
        before = {name: self._highs.getOptionValue(name)[1] for name in options}
        self._highs.clearSolver()
        for name, value in options.items():
            self._highs.setOptionValue(name, value)
        self._highs.run()
        for name, value in before.items():
            self._highs.setOptionValue(name, value)
        return self._outcome()

    def set_bounds(self, columns: IntArray, lower: float | FloatArray, upper: float | FloatArray) -> None:
        """Replace the bounds of columns."""
        count = len(columns)
        low, high = _spread(lower, count).copy(), _spread(upper, count).copy()
        self._highs.changeColsBounds(count, columns.astype(np.int32), low, high)

    def add_row(self, columns: IntArray, values: float | FloatArray, *, upper: float) -> None:
        """Add ``sum of columns times values <= upper``."""
        count = len(columns)
        spread = _spread(values, count).copy()
        self._highs.addRow(-math.inf, upper, count, columns.astype(np.int32), spread)

    def add_rows(self, columns: IntArray, values: FloatArray, upper: FloatArray) -> None:
        """Add rows ``sum of columns times values <= upper``; the arrays are [rows, terms], ``upper`` [rows].

        Terms whose column is below 0 are omitted.
        """
        there = columns >= 0
        starts = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
        self._highs.addRows(
            len(upper),
            np.full(len(upper), -math.inf),
            upper,
            int(starts[-1]),
            starts[:-1].astype(np.int32),
            columns[there].astype(np.int32),
            values[there],
        )

    def _outcome(self) -> SolverOutcome:
        status, states = self._highs.getModelStatus(), self._highspy.HighsModelStatus
        info = self._highs.getInfo()
        ending = {
            states.kOptimal: SearchEnd.DONE,
            states.kInfeasible: SearchEnd.INFEASIBLE,
            states.kUnboundedOrInfeasible: SearchEnd.INFEASIBLE,
            states.kSolutionLimit: SearchEnd.NODES,
            states.kTimeLimit: SearchEnd.TIME,
        }.get(status, SearchEnd.FAILED)
        feasible = info.primal_solution_status == self._highspy.SolutionStatus.kSolutionStatusFeasible
        if ending in (SearchEnd.INFEASIBLE, SearchEnd.FAILED) or not feasible:
            return SolverOutcome(SearchEnd.FAILED if ending is SearchEnd.DONE else ending)
        objective = float(info.objective_function_value)
        bound = objective if ending is SearchEnd.DONE else -math.inf
        if self._model.is_mip:
            bound = float(info.mip_dual_bound)
        return SolverOutcome(ending, np.array(self._highs.getSolution().col_value), objective, bound)


def solver_name() -> str:
    """Return the solver and its version, for a plan's provenance. Raises ConfigError if it is missing."""
    return f"HiGHS {_quiet_highs(_import_highspy())().version()}"


@cache
def _quiet_highs(highspy: Any) -> Any:
    """Return a silent class of HiGHS: since 1.16 it prints a banner when it enables its callbacks."""

    class QuietHighs(highspy.Highs):  # type: ignore[misc]  # highspy has no types
        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return QuietHighs


def _import_highspy() -> Any:
    return load_optional("highspy", "beasy-sched[plan]", "planning")
