"""Rows that are added to a model in the solver: several at once as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from beasy_sched.planner.solver import LinearModel, Solver

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


def largest_sum(*, at_once: bool) -> float:
    """Largest sum of three numbers up to 4 with ``x + 2 y <= 5`` and ``z <= 1``."""
    model = LinearModel()
    all_three = model.columns(3, upper=4.0)
    model.rows(1, -np.inf, 100.0, (all_three[:1], 1.0))
    solver = Solver(model)
    if at_once:
        columns, values = np.array([[0, 1], [2, -1]]), np.array([[1.0, 2.0], [1.0, 7.0]])
        solver.add_rows(columns, values, np.array([5.0, 1.0]))
    else:
        solver.add_row(all_three[:2], np.array([1.0, 2.0]), upper=5.0)
        solver.add_row(all_three[2:], 1.0, upper=1.0)
    return -solver.minimize((all_three, -1.0)).objective


def test_rows_at_once_count_as_rows_one_by_one() -> None:
    assert largest_sum(at_once=True) == largest_sum(at_once=False) == 5.5
