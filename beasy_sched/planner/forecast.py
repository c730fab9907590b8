"""Forecasts: a value for each step, its uncertainty, and the resulting battery trajectories.

The predictions are the nine curves of BEASY (Section IV-A of the paper), one for each of {low, median, high}
demand x {low, median, high} production, made at the start of a window. The demand forecast comes from
the workload: each job's energy is spread over its expected run on the platform.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.energy.devices.battery import BatterySpec, project_levels_j
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import PowerBand
from beasy_sched.model.platform import Platform


@dataclass(frozen=True)
class Forecast:
    """Powers (W) and their uncertainties, one of each per step. Raises ConfigError, naming the step."""

    value_w: FloatArray
    uncertainty: FloatArray
    """u: the actual value lies in value * (1 - u) .. value * (1 + u), the meaning of Eq. 3.23 and 3.24."""

    def __post_init__(self) -> None:
        values = checked_powers("forecast", self.value_w)
        shares = np.asarray(self.uncertainty, dtype=np.float64)
        if shares.shape != values.shape:
            raise ConfigError(f"uncertainties: found shape {shares.shape}, expected {len(values)} values")
        wrong = ~((shares >= 0.0) & (shares <= 1.0))
        if wrong.any():
            step = int(np.argmax(wrong))
            raise ConfigError(
                f"the uncertainty is {shares[step]} at step {step}, expected a share from 0 to 1"
            )
        object.__setattr__(self, "value_w", values)
        object.__setattr__(self, "uncertainty", shares)

    @property
    def low_w(self) -> FloatArray:
        """Lower bound of the actual value."""
        return self.value_w * (1.0 - self.uncertainty)

    @property
    def high_w(self) -> FloatArray:
        """Upper bound of the actual value."""
        return self.value_w * (1.0 + self.uncertainty)


CURVES: Final = tuple(
    (demand, production) for demand in ("low", "median", "high") for production in ("low", "median", "high")
)
"""Demand and production of each of the nine curves, in the order of the rows."""


@dataclass(frozen=True)
class Predictions:
    """Nine possible trajectories of the battery over the T steps of a window."""

    energy_j: FloatArray
    """Battery energy at the end of each step, of shape (9, T); rows in the order of `CURVES`."""
    below: IndexArray
    """Number of curves that are below SoC_min at the end of each step, [T]."""

    @cached_property
    def dangerous(self) -> BoolArray:
        """Steps in which more than half of the curves are below SoC_min."""
        return self.below > len(CURVES) / 2

    def violation_step(self, present: int = 0) -> int:
        """Return the step after ``present`` with the most curves below SoC_min (the earliest among equals).

        Returns the last step of the window if no curve is below SoC_min.
        """
        future = self.below[present + 1 :]
        if not future.any():
            return len(self.below) - 1
        return present + 1 + int(np.argmax(future))


def predict(
    battery: BatterySpec,
    start_j: float,
    demand: Forecast | PowerBand,
    production: Forecast | PowerBand,
    step_s: float,
    *,
    electrolyzer_w: FloatArray | float = 0.0,
    fuel_cell_w: FloatArray | float = 0.0,
) -> Predictions:
    """Run the battery through the nine combinations (Eq. 1 to 3), with the planned hydrogen (W).

    ``start_j`` is the level at the start of the window.
    """
    needs_w = np.stack([demand.low_w, demand.value_w, demand.high_w]) + electrolyzer_w
    gives_w = np.stack([production.low_w, production.value_w, production.high_w]) + fuel_cell_w
    net_w = (gives_w[None, :, :] - needs_w[:, None, :]).reshape(len(CURVES), -1)
    energy_j = np.array([project_levels_j(battery, start_j, curve_w, step_s)[1:] for curve_w in net_w])
    return Predictions(energy_j, (energy_j < battery.min_j * (1.0 - 1e-9)).sum(axis=0))


def full_draw_w(platform: Platform) -> float:
    """Return the maximum power of all servers with every core busy, W."""
    per_kind = [max((kind.full_w[p] for p in kind.computing), default=0.0) for kind in platform.kinds]
    return float(np.asarray(per_kind)[platform.kind_of].sum())


def reference_speed_flops(platform: Platform) -> float:
    """Return the speed of expected runs: the highest speed of the median server, flops/s."""
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
    """Return the mean power (W) requested by a workload in each of ``steps`` steps from time 0.

    Every job starts when it is submitted and runs for ``run_s`` seconds on ``hosts`` busy servers at
    full speed; all other servers sleep. Demand beyond the number of servers waits, first in,
    first out, so that no energy is lost. Servers are taken fastest first.
    """
    return served_power_w(platform, wanted_hosts(submit_s, run_s, hosts, steps=steps, step_s=step_s))


def wanted_hosts(
    submit_s: FloatArray, run_s: FloatArray, hosts: IntArray, *, steps: int, step_s: float
) -> FloatArray:
    """Return the mean number of hosts requested in each step if all jobs start when submitted."""
    edges = step_s * np.arange(steps + 1)
    total = np.zeros(steps + 1)
    # Server seconds in each step are differences of the integral of a sum of rectangles.
    for moment, sign in ((np.asarray(submit_s), 1.0), (np.asarray(submit_s) + run_s, -1.0)):
        order = np.argsort(moment, kind="stable")
        times, counts = moment[order], np.asarray(hosts, dtype=np.float64)[order]
        upto = np.searchsorted(times, edges, side="right")
        count = np.concatenate(([0.0], np.cumsum(counts)))[upto]
        weighted = np.concatenate(([0.0], np.cumsum(counts * times)))[upto]
        total += sign * (count * edges - weighted)
    return np.maximum(np.diff(total), 0.0) / step_s


def served_power_w(platform: Platform, wanted: FloatArray) -> FloatArray:
    """Return the power (W) of the platform in each step for a number of requested hosts; other jobs wait."""
    busy, waiting = np.empty(len(wanted)), 0.0
    for step, want in enumerate(wanted):
        waiting += want
        busy[step] = min(waiting, platform.size)
        waiting -= busy[step]
    return np.interp(busy, np.arange(platform.size + 1), draw_by_busy_w(platform))


def mean_over(values_w: FloatArray, steps: int) -> FloatArray:
    """Return means over blocks of ``steps`` steps (the last may be shorter), at every step of the block.

    The energy stays the same. A demand forecast is a mean over some time, because individual job times cannot
    be forecast.
    """
    if steps <= 1 or not len(values_w):
        return values_w
    starts = np.arange(0, len(values_w), steps)
    lengths = np.diff(np.append(starts, len(values_w)))
    return np.repeat(np.add.reduceat(values_w, starts) / lengths, lengths)


def draw_by_busy_w(platform: Platform) -> FloatArray:
    """Return the power of the platform with 0, 1, ..., N busy servers, the others asleep (or idle), W."""
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


_LARGEST_POWER_W = 1e12


def checked_powers(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return a forecast as an array of W. Raises ConfigError for an invalid power, naming the step."""
    powers = np.asarray(values, dtype=np.float64)
    if powers.ndim != 1 or not len(powers):
        raise ConfigError(f"{name}: found an array of shape {powers.shape}, expected one value per step")
    wrong = ~np.isfinite(powers) | (powers < 0)
    if wrong.any():
        step = int(np.argmax(wrong))
        raise ConfigError(f"the {name} is {powers[step]} W at step {step}, expected a finite number >= 0")
    largest = int(np.argmax(powers))
    if powers[largest] > _LARGEST_POWER_W:
        raise ConfigError(
            f"the {name} is {powers[largest]:g} W at step {largest}: more than 1e12 W, check the unit"
        )
    return powers.copy()


def checked_forecasts(load_w: npt.ArrayLike, renew_w: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return demand and production as arrays of W, one value per step each. Raises ConfigError."""
    load, renew = checked_powers("demand", load_w), checked_powers("production", renew_w)
    if len(load) != len(renew):
        raise ConfigError(
            f"the demand has {len(load)} steps and the production {len(renew)}: expected the same number"
        )
    return load, renew


def check_shape(name: str, values: npt.NDArray[Any], count: int) -> None:
    """Raise ConfigError unless an array of a file has ``count`` numbers."""
    if values.dtype != np.float64 or values.shape != (count,):
        raise ConfigError(
            f"{name}: found an array of {values.dtype} of shape {values.shape}, expected {count} numbers"
        )
