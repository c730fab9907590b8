"""GreenSlot's week: the three workloads of its paper, workflows with deadlines, made exact; and its sun.

Goiri et al., "GreenSlot: Scheduling Energy Consumption in Green Datacenters", SC 2011, Section 5.1: from
Monday 9:30 a workflow of each workload is submitted every 30 minutes, due at fixed hours from Tuesday to
Friday. Time 0 is Monday 9:00, the end Friday 17:00. The paper prints least, largest and mean run times of the
phases; what it leaves open is settled in docs/decisions/greenslot-and-grid.md#greenslot-workloads. The sun
is that of the week "Average", on ten panels of 2.3 kW in New Jersey from Monday, 12 July 2010: mean powers of
hours, measured in the paper's figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.generate.random_streams import Stream, normals, uniforms
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

WEEK_S: Final = 104 * SECONDS_PER_HOUR
"""From Monday 9:00 to Friday 17:00."""
NODES: Final = 16
_START_HOUR: Final = 9
_FIRST_SUBMISSION_S: Final = 1800.0
_EVERY_S: Final = 1800.0
_DAYS: Final = 4
_TOLERANCE: Final = 1.2
"""Walltime over estimate: what the paper adds to every estimate."""


@dataclass(frozen=True)
class PhaseSpec:
    """A phase: jobs that may run side by side."""

    run_s: tuple[float, ...]
    """Estimated run times, s."""
    res: int = 1
    """Hosts of each job."""


@dataclass(frozen=True)
class WorkflowKind:
    """A workload of the paper: equal workflows."""

    name: str
    phases: tuple[PhaseSpec, ...]
    deadline_hours: tuple[int, ...]
    """Local hours at which workflows are due, Tuesday to Friday."""

    @property
    def count(self) -> int:
        """Number of workflows: one for each deadline."""
        return len(self.deadline_hours) * _DAYS

    def deadline_s(self, number: int) -> float:
        """Time at which the workflow of this number (from 0) is due, s."""
        day, place = divmod(number, len(self.deadline_hours))
        return (day + 1) * SECONDS_PER_DAY + (self.deadline_hours[place] - _START_HOUR) * SECONDS_PER_HOUR


def spread(count: int, least: float, mean: float, largest: float) -> tuple[float, ...]:
    """Return ``count`` ascending values with this mean: least x (largest / least)^((i / (count - 1))^g).

    Raises ConfigError where no such values exist.
    """
    places = np.linspace(0.0, 1.0, count)

    def values(exponent: float) -> FloatArray:
        return np.asarray(least * (largest / least) ** (places**exponent))

    low, high = 1e-3, 1e3
    if not float(values(high).mean()) <= mean <= float(values(low).mean()):
        raise ConfigError(f"no {count} values from {least:g} to {largest:g} have the mean {mean:g}")
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if values(middle).mean() > mean else (low, middle)
    return tuple(values(low).tolist())


def _hours(*hours: float) -> tuple[float, ...]:
    return tuple(hour * SECONDS_PER_HOUR for hour in hours)


_MINUTE: Final = 1.0 / 60.0
_W3_LARGEST_H: Final = 2.27
_W3_MEAN_H: Final = 1.26


@cache
def paper_workloads() -> tuple[WorkflowKind, WorkflowKind, WorkflowKind]:
    """Return W1, W2 and W3 of the paper."""
    w1 = (8 * _MINUTE,), (_MINUTE,), spread(16, 0.1, 2.4, 9.0), (5 * _MINUTE,)
    w2 = (10 * _MINUTE,), spread(8, 2.0, 4.0, 9.0), (5 * _MINUTE,)
    rest_h = (8 * _W3_MEAN_H - _W3_LARGEST_H) / 7
    w3 = (10 * _MINUTE,), (*[rest_h] * 7, _W3_LARGEST_H), (5 * _MINUTE,)
    given = (("W1", w1, (9, 14)), ("W2", w2, (9, 13, 16)), ("W3", w3, (9, 14)))
    first, second, third = (
        WorkflowKind(name, tuple(PhaseSpec(_hours(*hours)) for hours in phases), due)
        for name, phases, due in given
    )
    return first, second, third


def workflow_workload(options: WorkflowOptions) -> GeneratedWorkload:
    """Make the jobs of the paper's week, with the members ``workflow``, ``phase`` and ``deadline_s``.

    Raises ConfigError for options that make no workload.
    """
    rows: list[tuple[float, str, float, int, dict[str, Any]]] = []
    for kind in _kinds(options):
        for number in range(kind.count):
            rows += _workflow_jobs(kind, number, options)
    rows.sort(key=lambda row: row[0])
    estimate_s = np.array([row[2] for row in rows])
    run_s = estimate_s * (1.0 + _errors(len(rows), options))
    return GeneratedWorkload(
        nb_res=NODES,
        window_s=WEEK_S,
        ids=[row[1] for row in rows],
        submit_s=np.array([row[0] for row in rows]),
        run_s=run_s,
        hosts=np.array([row[3] for row in rows], dtype=np.int64),
        walltime_s=_TOLERANCE * estimate_s,
        reference_speed_flops=options.reference_speed_flops,
        extras={
            name: [row[4][name] for row in rows] for name in ("workflow", "phase", "deadline_s", "estimate_s")
        },
    )


def _kinds(options: WorkflowOptions) -> Sequence[WorkflowKind]:
    one, two, third = paper_workloads()
    if options.multi_node:
        first, _, last = third.phases
        third = replace(third, phases=(first, PhaseSpec(_hours(_W3_LARGEST_H), res=8), last))
    copies = [replace(third, name=f"{third.name}-{number + 2}") for number in range(options.copies)]
    return [one, two, third, *copies]


def _workflow_jobs(
    kind: WorkflowKind, number: int, options: WorkflowOptions
) -> list[tuple[float, str, float, int, dict[str, Any]]]:
    """The jobs of one workflow: submission (s), id, estimate (s), hosts, members."""
    day, place = divmod(number, len(kind.deadline_hours)) if options.staggered else (0, number)
    submit_s = day * SECONDS_PER_DAY + _FIRST_SUBMISSION_S + place * _EVERY_S
    name = f"{kind.name}.{number + 1}"
    deadline_s = kind.deadline_s(number) + options.deadline_shift_h * SECONDS_PER_HOUR
    jobs = []
    for phase, spec in enumerate(kind.phases):
        for at, run_s in enumerate(spec.run_s):
            members = {"workflow": name, "phase": phase, "deadline_s": deadline_s, "estimate_s": run_s}
            jobs.append((submit_s, f"{name}.{phase}.{at + 1}", run_s, spec.res, members))
    return jobs


def _errors(count: int, options: WorkflowOptions) -> FloatArray:
    """Deviations of run times from their estimates, as fractions."""
    low, high = (pct / 100.0 for pct in options.estimate_error_pct)
    if low == high:
        return np.full(count, low)
    draws = np.fromiter(normals(uniforms(options.seed, Stream.ESTIMATES, count)), np.float64, count)
    return np.clip((low + high) / 2.0 + (high - low) / 6.0 * draws, low, high)


ACTUAL_W: Final = np.array([
    884, 1020, 1533, 1761, 1583, 1549, 828, 683, 376, 122, 16, *[0] * 10,
    92, 173, 297, 358, 204, 55, 347, 1540, 1142, 837, 528, 469, 386, 68, *[0] * 11,
    118, 203, 464, 867, 1085, 700, 189, 374, 106, 209, 276, 214, 88, 11, *[0] * 9,
    17, 241, 422, 397, 731, 1008, 982, 854, 1147, 1236, 1076, 634, 325, 55, *[0] * 10,
    24, 250, 640, 1083, 1401, 1610, 1628, 1090, 1626, 1351, 769,
], dtype=np.float64)  # fmt: skip
""""Green actual" of Figure 6, W, [104]."""
PREDICTED_W: Final = np.array([
    884, 1176, 1152, 1537, 1536, 1470, 1302, 669, 449, 170, 44, 1, *[0] * 9,
    99, 263, 493, 475, 441, 230, 58, 347, 1475, 1012, 676, 347, 212, 116, 6, *[0] * 9,
    37, 209, 227, 348, 358, 980, 1157, 700, 181, 331, 85, 137, 125, 77, 7, *[0] * 9,
    59, 158, 616, 566, 731, 1046, 1370, 982, 817, 1015, 999, 707, 287, 117, 5, *[0] * 9,
    59, 250, 369, 566, 1336, 1517, 1619, 1618, 1043, 1372, 1092,
], dtype=np.float64)  # fmt: skip
""""Green predicted" of Figure 7, one hour ahead, which begins at 10:00; before, the actual. W, [104]."""


def step_power_w(hourly_w: FloatArray, step_s: float) -> FloatArray:
    """Return the power of steps of ``step_s``, a divisor of an hour."""
    return np.repeat(hourly_w, round(SECONDS_PER_HOUR / step_s))


def forecast_lines(hourly_w: FloatArray) -> Iterator[str]:
    """Yield the lines of a forecast file in which every hour is known from the start."""
    yield "issued,valid,W\n"
    for hour, power_w in enumerate(hourly_w.tolist()):
        yield f"0,{hour * SECONDS_PER_HOUR:g},{power_w:g}\n"
