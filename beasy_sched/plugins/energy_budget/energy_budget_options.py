"""Options of the energy-budget policies, and the budget, period and powers that they define.

Powers are those given by the user, or the platform's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.policy import Options
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, odd
from beasy_sched.formats.unit_table import UnitError, energy_j
from beasy_sched.limits import LARGEST_ENERGY_J
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON, HostState
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.plugins.energy_budget.budget_file import read_budgets
from beasy_sched.plugins.energy_budget.budget_rate import BudgetRate, SteppedRate
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, parse_duration

_AMOUNT: Final = re.compile(r"\s*([0-9.eE+-]+?)\s*(%|[a-zA-Z][a-zA-Z -]*)")

Shutdown = Literal["none", "opportunistic"]
Allocation = Literal["any", "contiguous"]


class EnergyBudgetOptions(Options, frozen=True):
    """Options of `energybud`, `reducepc` and `powercap`."""

    budget: float | str | None = None
    """Energy for the period: a share of the energy of all hosts when computing (``0.6``, ``"60%"``), an
    amount (``"500 kWh"``, ``"1.2e12 J"``), or ``"inf"`` for no limit. None: no budget and no period."""
    budgets: str | None = None
    """File with the energy of each part of the period, in place of ``budget``: CSV with the columns
    ``start_s`` and ``kwh``; `energybud` only. Energy not used in a part remains available in later ones."""
    budget_every: float | str = "1h"
    """Length of each part, with ``budgets``."""
    period_start: float | str = 0.0
    """Start of the period, counted from time 0: seconds, or a duration such as ``"2d"``."""
    period_end: float | str | None = None
    """End of the period; required with a budget."""
    monitoring: float | str = 600.0
    """Interval between measurements of the energy used."""
    shutdown: Shutdown = "none"
    """Whether idle hosts are switched off immediately during the period."""
    allocation: Allocation = "any"
    """Whether a job's hosts must have consecutive numbers."""
    reservation: Literal["stock", "strict", "none"] = "stock"
    """Energy reserved for the first waiting job: the part that it will take from the saved energy
    (``"stock"``), all the energy that it needs to start at its reserved time (``"strict"``), or only its
    hosts
    (``"none"``)."""
    idle_w: float | Mapping[str, float] | None = None
    """Estimated power of an idle host, W: one value, or values by kind of server; None: the platform's."""
    computing_w: float | Mapping[str, float] | None = None
    """Estimated power of a host with a job, W."""
    sleeping_w: float | Mapping[str, float] | None = None
    """Estimated power of a host that is off, W."""
    switching_off_w: float | Mapping[str, float] | None = None
    """Estimated power while switching off, W."""
    switching_on_w: float | Mapping[str, float] | None = None
    """Estimated power while switching on, W."""


class BudgetPeriod(Struct, frozen=True):
    """An energy budget for a period [start, end]."""

    start_s: float
    end_s: float
    monitoring_s: float
    amount: float
    """Energy in J or, if ``is_share``, a share of the energy of all hosts when computing."""
    is_share: bool
    parts_j: tuple[float, ...] = ()
    """Energy of each of several parts of equal length, J; empty for an even budget."""

    def rate(self, budget_j: float) -> BudgetRate:
        """Return the rate at which the budget becomes available."""
        if self.parts_j:
            return SteppedRate(self.start_s, self.end_s, np.array(self.parts_j))
        return BudgetRate(budget_j / self.length_s)

    @property
    def length_s(self) -> float:
        """Length of the period, s."""
        return self.end_s - self.start_s

    def budget_j(self, all_computing_w: float) -> float:
        """Return the budget in joules; all hosts together draw ``all_computing_w`` when computing."""
        return self.amount * all_computing_w * self.length_s if self.is_share else self.amount


def read_period(options: EnergyBudgetOptions) -> BudgetPeriod | None:
    """Read the budget and its period; None if there is no budget. Raises ConfigError."""
    monitoring_s = _duration("monitoring", options.monitoring)
    if not monitoring_s > 0:
        raise ConfigError(f"monitoring: found {options.monitoring!r}, expected more than 0 s")
    start_s = _duration("period_start", options.period_start)
    if options.budget is None and options.budgets is None:
        if options.period_end is not None or options.shutdown != "none":
            what = "shutdown" if options.period_end is None else "period_end"
            raise ConfigError(f'{what}: requires a budget, such as "60%" or "500 kWh" ("inf" for no limit)')
        return None
    if options.budget is not None and options.budgets is not None:
        raise ConfigError("budgets: found also a budget, expected one of them: budgets has the energy")
    amount, is_share = (0.0, False) if options.budget is None else _amount(options.budget)
    if options.period_end is None:
        raise ConfigError('period_end: a budget requires the end of its period, such as "5d"')
    end_s = _duration("period_end", options.period_end)
    if end_s <= start_s:
        raise ConfigError(f"period_end: found {end_s:g} s, expected more than period_start ({start_s:g} s)")
    if options.budgets is None:
        return BudgetPeriod(start_s, end_s, monitoring_s, amount, is_share)
    every_s = _duration("budget_every", options.budget_every)
    parts_j = read_budgets(Path(options.budgets), start_s, end_s, every_s)
    return BudgetPeriod(start_s, end_s, monitoring_s, math.fsum(parts_j), False, parts_j)


def _amount(budget: float | str) -> tuple[float, bool]:
    """Return the amount and whether it is a share."""
    match = _AMOUNT.fullmatch(budget.strip()) if isinstance(budget, str) else None
    text, unit = (match[1], match[2]) if match else (str(budget), "")
    try:
        value, unit_j = float(text), energy_j(unit) if unit not in ("", "%") else 1.0
    except UnitError as error:
        raise ConfigError(f"budget: found {budget!r}: {error}") from None
    except ValueError:
        value, unit_j = math.nan, 1.0
    too_much = value < math.inf and value * unit_j > LARGEST_ENERGY_J
    if not value >= 0 or too_much or (not unit and 1 < value < math.inf):
        raise ConfigError(
            f'budget: found {budget!r}, expected a share such as 0.6 or "60%", or an energy such as'
            ' "500 kWh" or "1.2e12 J"'
        )
    if unit == "%":
        return value / 100, True
    return (value * unit_j, False) if unit else (value, True)


def _duration(name: str, value: float | str) -> float:
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def budget_below_rest(
    period: BudgetPeriod, options: EnergyBudgetOptions, platform: Platform, run_end_s: float
) -> Finding | None:
    """Return a warning if the servers use more than the budget in the period even without jobs.

    Their minimum use is that of idle servers or, if idle ones are switched off, of sleeping ones if they
    can sleep. Of a period longer than the run (s), only the part within the run counts.
    """
    if not platform.has_powers:
        return None
    powers = EstimatedPowers(platform, PowerModel(platform), options)
    budget_j, begin_s, end_s = period.budget_j(powers.all_computing_w), period.start_s, period.end_s
    lasts_s = min(end_s, run_end_s) - begin_s
    idle_w, asleep_w = _rest_w(platform, asleep=False), _rest_w(platform, asleep=True)
    switches = options.shutdown == "opportunistic"
    least_w = asleep_w if switches else idle_w
    if not budget_j < least_w * lasts_s:
        return None
    spare = ""
    if not switches and asleep_w < idle_w:
        asleep_kwh = j_to_kwh(asleep_w * lasts_s)
        spare = f'; with shutdown = "opportunistic" they would use at least {asleep_kwh:.4g} kWh'
    return odd(
        "budget-low",
        f"the energy budget of {j_to_kwh(budget_j):.4g} kWh from {begin_s / SECONDS_PER_HOUR:.4g} h to"
        f" {end_s / SECONDS_PER_HOUR:.4g} h is infeasible: idle servers alone draw {least_w:.4g} W"
        f" and use {j_to_kwh(least_w * lasts_s):.4g} kWh in that time{spare}",
    )


def _rest_w(platform: Platform, *, asleep: bool) -> float:
    """Return the minimum power of all servers without a job, W; those that start asleep may stay asleep."""
    idle_w = np.array([min(kind.idle_w[p] for p in kind.computing) for kind in platform.kinds])
    sleep_w = np.array([kind.idle_w[kind.sleep.pstate] if kind.sleep else np.inf for kind in platform.kinds])
    rests = np.full(platform.size, asleep) | (platform.initial_pstates == platform.sleep_pstate)
    least_w = np.where(rests, np.minimum(idle_w, sleep_w)[platform.kind_of], idle_w[platform.kind_of])
    return float(least_w.sum())


Counts = npt.NDArray[np.int64]
"""Number of hosts of each kind in each `HostState`, [kind, state]."""
_OFF_STATES = (ASLEEP, SWITCHING_OFF)


class EstimatedPowers:
    """Estimated powers by kind of server, and the energy of switching.

    A host at rest is asleep if idle hosts are switched off, and idle otherwise.
    """

    def __init__(self, platform: Platform, model: PowerModel, options: EnergyBudgetOptions) -> None:
        """Use the given powers, or else the platform's. Raises ConfigError if any is missing."""
        kinds = platform.kinds
        self._kind_of = platform.kind_of
        self._present = np.bincount(platform.kind_of, minlength=len(kinds)) > 0
        idle_w = _stated(options, "idle_w", kinds, [_highest(kind, kind.idle_w) for kind in kinds])
        computing_w = _stated(options, "computing_w", kinds, [_highest(kind, kind.full_w) for kind in kinds])
        off = ("sleeping_w", model.sleep_w), ("switching_off_w", model.off_w), ("switching_on_w", model.on_w)
        asleep = [
            np.where(model.can_sleep, _stated(options, name, kinds, watts), idle_w) for name, watts in off
        ]
        self.table_w: FloatArray = np.stack([idle_w, computing_w, *asleep], axis=1)
        """Power in each state, W: [kind, state]."""
        self.all_computing_w = float(computing_w[platform.kind_of].sum())
        """Total power of all hosts when computing, W."""
        switches = options.shutdown == "opportunistic"
        self.rest_w: FloatArray = np.repeat(self.table_w[:, [IDLE]], len(HostState), axis=1)
        """Power at rest of a host that is currently in each state, W: [kind, state]."""
        self.rest_w[:, list(HostState) if switches else list(_OFF_STATES)] = self.table_w[:, [ASLEEP]]
        above_w = np.maximum(self.table_w - self.rest_w, 0.0)
        self.settling_j: FloatArray = np.zeros_like(above_w)
        """Upper bound of the energy above rest that a host uses on its way to rest, J: [kind, state]."""
        self.settling_j[:, SWITCHING_OFF] = above_w[:, SWITCHING_OFF] * model.off_s
        self.peak_w: FloatArray = np.maximum(self.rest_w, self.table_w)
        """Maximum power on the way to rest, without that of a job, W: [kind, state]."""
        self.peak_w[:, BUSY] = self.rest_w[:, BUSY]
        most_w = computing_w
        if switches:
            self.settling_j[:, IDLE] = self.settling_j[:, SWITCHING_OFF]
            self.peak_w[:, IDLE] = np.maximum(self.peak_w[:, IDLE], self.table_w[:, SWITCHING_OFF])
            self.peak_w[:, SWITCHING_ON] = self.rest_w[:, SWITCHING_ON]
            most_w = np.maximum(computing_w, self.table_w[:, SWITCHING_ON])
        else:
            self.settling_j[:, SWITCHING_ON] = above_w[:, SWITCHING_ON] * model.on_s
        self.job_w: FloatArray = most_w - self.rest_w[:, BUSY]
        """Power that a job adds to a host at rest, which may have to wake, W: [kind]."""
        self.off_again_j: FloatArray = self.settling_j[:, IDLE]
        """Energy above rest of switching off a host after its job, J: [kind]."""

    def draw_w(self, counts: Counts) -> float:
        """Return the power of all hosts in their current states."""
        return float((self.table_w * counts).sum())

    def most(self, by_kind: FloatArray) -> float:
        """Return the maximum over the kinds of the platform."""
        return float(by_kind[self._present].max(initial=0.0))

    def total(self, by_kind: FloatArray, hosts: HostIds) -> float:
        """Return the sum of a value by kind over ``hosts``."""
        if len(by_kind) == 1:
            return float(by_kind[0]) * len(hosts)
        return float(by_kind[self._kind_of[hosts]].sum())


def _highest(kind: ServerKind, watts: Sequence[float]) -> float:
    return max((watts[p] for p in kind.computing), default=math.nan) if watts else math.nan


def _stated(
    options: EnergyBudgetOptions, name: str, kinds: Sequence[ServerKind], of_platform: npt.ArrayLike
) -> FloatArray:
    """Return the power by kind given by an option, or else the platform's."""
    value = getattr(options, name)
    watts = np.where([bool(kind.idle_w) for kind in kinds], of_platform, np.nan)
    if isinstance(value, Mapping):
        for key, stated in value.items():
            rows = [i for i, kind in enumerate(kinds) if kind.name == key or kind.name.startswith(f"{key}-")]
            if not rows:
                names = ", ".join(kind.name for kind in kinds)
                raise ConfigError(f"{name}: unknown kind of server {key!r} (available: {names})")
            watts[rows] = stated
    elif value is not None:
        watts[:] = float(value)
    if np.isnan(watts).any():
        kind = kinds[int(np.flatnonzero(np.isnan(watts))[0])].name
        raise ConfigError(
            f"an energy budget requires powers, but servers of kind {kind!r} have none: add wattage_per_state"
            f" to the hosts of the platform file, or set the policy's option {name}"
        )
    if not ((watts >= 0) & np.isfinite(watts)).all():
        raise ConfigError(f"{name}: found {value!r}, expected watts, 0 or more")
    return watts
