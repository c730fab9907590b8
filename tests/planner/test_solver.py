"""The solver behind its small interface."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from beasy_sched.planner.solver import LinearModel, SearchEnd, Solver, SolverOutcome, solver_name

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


def solve() -> None:
    """Minimize ``x + 2 y`` for ``x + y >= 3``, integers up to 2, and print the solution."""
    print(solver_name())
    model = LinearModel()
    both = model.columns(2, upper=2.0, integer=True)
    model.rows(1, 3.0, np.inf, (both[:1], 1.0), (both[1:], 1.0))
    outcome = Solver(model).minimize((both, np.array([1.0, 2.0])))
    assert outcome.incumbent is not None
    print(outcome.incumbent.tolist(), outcome.objective)


def test_prints_nothing_of_its_own() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert done.stdout.splitlines() == [solver_name(), "[2.0, 1.0] 4.0"]
    assert not done.stderr


def test_a_failed_optimization_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dual simplex method fails on some large models; here it only says so."""
    strategies = []

    def ending_of_the_first_is_unknown(self: Solver) -> SolverOutcome:
        strategies.append(self._highs.getOptionValue("simplex_strategy")[1])
        return SolverOutcome(SearchEnd.FAILED) if len(strategies) == 1 else outcome_of(self)

    outcome_of = Solver._outcome
    monkeypatch.setattr(Solver, "_outcome", ending_of_the_first_is_unknown)
    model = LinearModel()
    both = model.columns(2, upper=2.0)
    model.rows(1, 3.0, np.inf, (both[:1], 1.0), (both[1:], 1.0))
    solver = Solver(model)
    first = solver.minimize((both, np.array([1.0, 2.0])))
    assert (first.ending, first.objective) == (SearchEnd.DONE, 4.0)
    assert solver.minimize((both, np.array([2.0, 1.0]))).objective == 4.0
    assert len(set(strategies)) == 1
    assert len(strategies) == 3


if __name__ == "__main__":
    solve()
