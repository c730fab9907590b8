"""The demand forecast: each job's energy spread over its expected run on the platform."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.model.platform import Platform


def full_draw_w(platform: Platform) -> float:
    """What all servers draw at most when every core is busy, W."""
    per_kind = [max((kind.full_w[p] for p in kind.computing), default=0.0) for kind in platform.kinds]
    return float(np.asarray(per_kind)[platform.kind_of].sum())


def reference_speed_flops(platform: Platform) -> float:
    """Speed that expected runs are counted with: the median server's highest, flops/s."""
    per_kind = [kind.speeds_flops[kind.fastest] for kind in platform.kinds]
    return float(np.median(np.asarray(per_kind)[platform.kind_of]))


def demand_power_w(
    platform: Platform,
    submit_s: FloatArray,
    run_s: FloatArray,
    hosts: IntArray,
    *,
    steps: int,
    step_s: float,
) -> FloatArray:
    """Mean power (W) that a workload asks for in each of ``steps`` steps from time 0.

    Every job starts when it is submitted and runs for ``run_s`` seconds on ``hosts`` busy servers at
    full speed; all other servers sleep. What would need more servers than there are waits, first in,
    first out, so that no energy is lost. Servers are taken fastest first.
    """
    wanted = _busy_server_seconds(submit_s, run_s, hosts, steps, step_s) / step_s
    busy = _within(wanted, platform.size)
    return np.interp(busy, np.arange(platform.size + 1), _draw_by_busy_w(platform))


def _busy_server_seconds(
    submit_s: FloatArray, run_s: FloatArray, hosts: IntArray, steps: int, step_s: float
) -> FloatArray:
    """Server seconds in each step: differences of the integral of a sum of rectangles."""
    edges = step_s * np.arange(steps + 1)
    total = np.zeros(steps + 1)
    for moment, sign in ((np.asarray(submit_s), 1.0), (np.asarray(submit_s) + run_s, -1.0)):
        order = np.argsort(moment, kind="stable")
        times, counts = moment[order], np.asarray(hosts, dtype=np.float64)[order]
        upto = np.searchsorted(times, edges, side="right")
        count = np.concatenate(([0.0], np.cumsum(counts)))[upto]
        weighted = np.concatenate(([0.0], np.cumsum(counts * times)))[upto]
        total += sign * (count * edges - weighted)
    return np.maximum(np.diff(total), 0.0)


def _within(wanted: FloatArray, servers: int) -> FloatArray:
    """What ``servers`` can do of it in each step, the rest moved to the steps after."""
    done = np.empty_like(wanted)
    waiting = 0.0
    for step, want in enumerate(wanted):
        waiting += want
        done[step] = min(waiting, servers)
        waiting -= done[step]
    return done


def _draw_by_busy_w(platform: Platform) -> FloatArray:
    """Power of the platform with 0, 1, ..., N busy servers, the others asleep (or idle), W."""
    busy, rest, speed = [], [], []
    for kind in platform.kinds:
        idle = min((kind.idle_w[p] for p in kind.computing), default=0.0)
        rest.append(kind.idle_w[kind.sleep.pstate] if kind.sleep else idle)
        busy.append(kind.full_w[kind.fastest])
        speed.append(kind.speeds_flops[kind.fastest] if kind.speeds_flops else 0.0)
    order = np.argsort(-np.asarray(speed)[platform.kind_of], kind="stable")
    more = (np.asarray(busy) - np.asarray(rest))[platform.kind_of][order]
    asleep = float(np.asarray(rest)[platform.kind_of].sum())
    return asleep + np.concatenate(([0.0], np.cumsum(more)))
