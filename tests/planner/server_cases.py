"""Small servers and a brute-force planner that looks at single servers (Eq. 3.13-3.22 word by word)."""

from __future__ import annotations

import itertools

import numpy as np

from beasy_sched.generate.platform_file import PState, ServerSpec, Sleep, build_platform
from beasy_sched.model.platform import Platform, ServerKind

STEP_S = 300.0
QUICK = ServerSpec(
    name="quick",
    idle_w=50.0,
    pstates=(PState(10.0, 130.0), PState(8.0, 95.0), PState(5.0, 80.0)),
    sleep=Sleep(sleep_w=5.0, off_s=10.0, off_w=70.0, on_s=60.0, on_w=90.0),
)
SLOW = ServerSpec(
    name="slow",
    idle_w=60.0,
    pstates=(PState(6.0, 110.0), PState(4.0, 100.0)),
    sleep=Sleep(sleep_w=8.0, off_s=30.0, off_w=120.0, on_s=200.0, on_w=60.0),
)
SINGLE = ServerSpec(
    name="single",
    idle_w=40.0,
    pstates=(PState(7.0, 100.0),),
    sleep=Sleep(sleep_w=0.0, off_s=5.0, off_w=80.0, on_s=150.0, on_w=85.0),
)
ALWAYS = ServerSpec(name="always", idle_w=30.0, pstates=(PState(3.0, 60.0), PState(2.0, 50.0)))
SPECS = {spec.name: spec for spec in (QUICK, SLOW, SINGLE, ALWAYS)}


def tiny_platform(**counts: int) -> Platform:
    return build_platform((SPECS[name], count) for name, count in counts.items())


def asleep_pstate(kind: ServerKind) -> int:
    return kind.sleep.pstate if kind.sleep else -1


def brute_force(
    platform: Platform, envelope_w: np.ndarray, before: np.ndarray, least_steps: int, switch_cost_s: float
) -> float:
    """Most flops less the cost of wake-ups over all states of all servers; -inf if no states fit."""
    steps = len(envelope_w)
    energy_j, value = np.zeros((1, steps)), np.zeros(1)
    for host in range(platform.size):
        mine = _server_paths(platform.kind(host), int(before[host]), steps, least_steps, switch_cost_s)
        energy_j = (energy_j[:, None, :] + mine[0][None, :, :]).reshape(-1, steps)
        value = (value[:, None] + mine[1][None, :]).reshape(-1)
    fits = (energy_j <= envelope_w * STEP_S * (1 + 1e-9)).all(axis=1)
    return float(value[fits].max(initial=-np.inf))


def _server_paths(
    kind: ServerKind, before: int, steps: int, least_steps: int, switch_cost_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Energy by step and value of every legal path of one server."""
    choices = [*kind.computing, *([asleep_pstate(kind)] if kind.sleep else [])]
    energies, values = [], []
    for path in itertools.product(choices, repeat=steps):
        if keeps_on_time(path, before, asleep_pstate(kind), least_steps):
            energy, value = _follow(kind, before, path, switch_cost_s)
            energies.append(energy)
            values.append(value)
    return np.array(energies), np.array(values)


def keeps_on_time(path, before: int, asleep: int, least_steps: int) -> bool:
    states = [before, *path]
    return all(
        asleep not in states[t : t + least_steps]
        for t in range(1, len(states))
        if states[t - 1] == asleep and states[t] != asleep
    )


def _follow(kind: ServerKind, before: int, path, switch_cost_s: float) -> tuple[list[float], float]:
    energy, value, state = [], 0.0, before
    for now in path:
        asleep, was_asleep = now == asleep_pstate(kind), state == asleep_pstate(kind)
        joules, left_s = 0.0, STEP_S
        if was_asleep and not asleep:
            joules = kind.on_duration_s() * kind.full_w[kind.sleep.on_pstate]
            left_s -= kind.on_duration_s()
            value -= switch_cost_s * max(kind.speeds_flops[p] for p in kind.computing)
        if asleep and not was_asleep:
            joules = kind.off_duration_s() * kind.full_w[kind.sleep.off_pstate]
            left_s -= kind.off_duration_s()
        energy.append(joules + left_s * kind.full_w[now])
        value += 0.0 if asleep else left_s * kind.speeds_flops[now]
        state = now
    return energy, value
