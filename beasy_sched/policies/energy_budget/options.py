"""The options of the energy-budget policies, as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from beasy_sched.errors import ConfigError
from beasy_sched.model.durations import parse_duration
from beasy_sched.policies.base import Options

_JOULES: Final = {"j": 1.0, "kj": 1e3, "mj": 1e6, "gj": 1e9, "wh": 3.6e3, "kwh": 3.6e6, "mwh": 3.6e9}
_AMOUNT: Final = re.compile(r"\s*([0-9.eE+-]+?)\s*(%|[kKmMgG]?[jJ]|[kKmM]?[wW][hH])\s*")


class EnergyBudgetOptions(Options, frozen=True):
    """Options of `energybud`, `reducepc` and `powercap`."""

    budget: float | str | None = None
    """Energy for the period: a share of what all hosts would use computing (``0.6``, ``"60%"``), or an
    energy (``"500 kWh"``, ``"1.2e12 J"``); ``"inf"`` is unlimited. None: no budget, and no period."""
    period_start: float | str = 0.0
    """When the period begins, after time 0: seconds, or such as ``"2d"``."""
    period_end: float | str | None = None
    """When it ends; needed with a budget."""
    monitoring: float | str = 600.0
    """How often the energy used is measured."""
    shutdown: Literal["none", "opportunistic"] = "none"
    """Whether hosts that are idle during the period are switched off at once."""
    allocation: Literal["any", "contiguous"] = "any"
    """Whether a job's hosts must have consecutive numbers."""
    reserve_energy: bool = True
    """Whether energy is set aside for the first waiting job, not only hosts; if not, others may delay it."""
    idle_w: float | Mapping[str, float] | None = None
    """Estimated power of an idle host, W: one value, or by kind of server; None: the platform's."""
    computing_w: float | Mapping[str, float] | None = None
    """Estimated power of a host with a job, W."""
    sleeping_w: float | Mapping[str, float] | None = None
    """Estimated power of a host that is off, W."""
    switching_off_w: float | Mapping[str, float] | None = None
    """Estimated power while switching off, W."""
    switching_on_w: float | Mapping[str, float] | None = None
    """Estimated power while switching on, W."""


class BudgetPeriod(Struct, frozen=True):
    """An energy budget of a period [start, end]."""

    start_s: float
    end_s: float
    monitoring_s: float
    amount: float
    """J, or where ``is_share`` a share of all hosts' computing energy."""
    is_share: bool

    @property
    def length_s(self) -> float:
        """Length of the period, s."""
        return self.end_s - self.start_s

    def budget_j(self, all_computing_w: float) -> float:
        """The budget in joules, where all hosts together draw ``all_computing_w`` when they compute."""
        return self.amount * all_computing_w * self.length_s if self.is_share else self.amount


def read_period(options: EnergyBudgetOptions) -> BudgetPeriod | None:
    """Read the budget and its period; None where there is none. Raises ConfigError."""
    monitoring_s = _duration("monitoring", options.monitoring)
    if not monitoring_s > 0:
        raise ConfigError(f"monitoring: found {options.monitoring!r}, expected more than 0 s")
    start_s = _duration("period_start", options.period_start)
    if options.budget is None:
        if options.period_end is not None or options.shutdown != "none":
            what = "shutdown" if options.period_end is None else "period_end"
            raise ConfigError(f'{what}: it goes with a budget, such as "60%" or "500 kWh" ("inf": unlimited)')
        return None
    amount, is_share = _amount(options.budget)
    if options.period_end is None:
        raise ConfigError('period_end: a budget needs the end of its period, such as "5d"')
    end_s = _duration("period_end", options.period_end)
    if end_s <= start_s:
        raise ConfigError(f"the budget's period ends ({end_s:g} s) where it starts ({start_s:g} s) or before")
    return BudgetPeriod(start_s, end_s, monitoring_s, amount, is_share)


def _amount(budget: float | str) -> tuple[float, bool]:
    """Return the amount and whether it is a share."""
    value, unit = math.nan, ""
    if isinstance(budget, str):
        found = _AMOUNT.fullmatch(budget)
        text, unit = (found[1], found[2].lower()) if found else (budget, "")
    else:
        text = str(budget)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0 or (not unit and 1 < value < math.inf):
        raise ConfigError(
            f'budget: found {budget!r}, expected a share such as 0.6 or "60%", or an energy such as'
            ' "500 kWh" or "1.2e12 J"'
        )
    if unit == "%":
        return value / 100, True
    return (value * _JOULES[unit], False) if unit else (value, True)


def _duration(name: str, value: float | str) -> float:
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
