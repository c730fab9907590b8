"""Energy and flops of a server plan, straight from its states (Eq. 3.14-3.22).

Independent of the planner: it looks at each server, not at counts, and so checks what the planner made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.model.cluster import PowerModel
from beasy_sched.model.platform import Platform

_CELLS_A_PIECE = 1_000_000


def server_plan_energy_j(
    platform: Platform, states: StateArray, step_s: float, before: StateArray
) -> FloatArray:
    """Worst-case energy of each step, J: [T].

    ``states``: [T, N] P-state numbers, the sleep state's number when asleep; ``before``: [N], the states
    in the step before the first. Servers that compute are busy; transitions last their time at the
    beginning of the step in which the state changes between computing and asleep.
    """
    power = PowerModel(platform)
    asleep_number = sleep_pstates(platform)
    energy_j = np.empty(len(states))
    for rows, now, previous in _pieces(states, before):
        joules = server_step_energy_j(power, platform.kind_of, now, previous, asleep_number, step_s)
        energy_j[rows] = joules.sum(axis=1)
    return energy_j


def server_step_energy_j(
    power: PowerModel,
    kind: IntArray,
    now: StateArray,
    previous: StateArray,
    asleep_number: StateArray,
    step_s: float,
) -> FloatArray:
    """Worst-case energy of each server in each step, J: [steps, servers].

    ``now`` and ``previous``: states in these steps and one step earlier; ``kind`` and ``asleep_number``:
    kind and sleep state of each of the servers.
    """
    asleep, was_asleep = now == asleep_number, previous == asleep_number
    waking_s = np.where(was_asleep & ~asleep, power.on_s[kind], 0.0)  # Eq. 3.14
    falling_s = np.where(asleep & ~was_asleep, power.off_s[kind], 0.0)  # Eq. 3.15
    running_w = np.where(asleep, power.sleep_w[kind], power.full_w[kind, now])
    joules: FloatArray = running_w * (step_s - waking_s - falling_s)  # Eq. 3.18, 3.19
    joules += waking_s * power.on_w[kind] + falling_s * power.off_w[kind]  # Eq. 3.20, 3.21
    return joules


def server_plan_flops(
    platform: Platform, states: StateArray, step_s: float, before: StateArray
) -> FloatArray:
    """Flops that the servers can compute in each step: [T] (Eq. 3.22). Arguments as in the energy."""
    power = PowerModel(platform)
    kind = platform.kind_of
    asleep_number = sleep_pstates(platform)
    speeds = np.zeros_like(power.full_w)
    for k, one in enumerate(platform.kinds):
        computing = list(one.computing)
        speeds[k, computing] = np.array(one.speeds_flops)[computing] * one.cores
    flops = np.empty(len(states))
    for rows, now, previous in _pieces(states, before):
        waking_s = np.where((previous == asleep_number) & (now != asleep_number), power.on_s[kind], 0.0)
        flops[rows] = (speeds[kind, now] * (step_s - waking_s)).sum(axis=1)
    return flops


def sleep_pstates(platform: Platform) -> StateArray:
    """P-state number of sleep by host: [N], -1 for hosts that cannot sleep."""
    numbers = [kind.sleep.pstate if kind.sleep else -1 for kind in platform.kinds]
    return np.array(numbers, dtype=np.int8)[platform.kind_of]


def _pieces(states: StateArray, before: StateArray) -> Iterator[tuple[slice, StateArray, StateArray]]:
    """Cut the steps into pieces of bounded size: (rows, states, states one step earlier)."""
    rows_a_piece = max(1, _CELLS_A_PIECE // max(1, states.shape[1]))
    for start in range(0, len(states), rows_a_piece):
        rows = slice(start, min(start + rows_a_piece, len(states)))
        first = before if start == 0 else states[start - 1]
        yield rows, states[rows], np.vstack([first[None, :], states[rows][:-1]])
