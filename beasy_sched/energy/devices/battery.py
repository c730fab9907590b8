"""The battery: its limits and losses (Eq. 2.3, 2.4), and its place in plans, files and words."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.battery_life import LifeSection
from beasy_sched.energy.devices.device import (
    Columns,
    Device,
    DeviceBounds,
    DeviceSection,
    Excess,
    Fields,
    Flows,
    Labelled,
    Linear,
)
from beasy_sched.energy.fields import require, require_fraction, require_not_negative
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, j_to_kwh, kw_to_w, kwh_to_j, percent_text


class LossConvention(str, Enum):
    """Power taken from the cells for a discharge power P."""

    PHYSICAL = "physical"
    """P / discharge_efficiency: no sequence of actions creates energy."""
    PRINTED = "printed"
    """P * discharge_efficiency, as Eq. 2.3 is printed. Creates energy below 1: for reproduction only."""


@dataclass(frozen=True)
class BatterySpec(Device):
    """Size, limits and losses of a battery. Raises `FieldError` (a ConfigError) for values out of range.

    Powers are at the terminals: ``charge_limit_w`` limits the power taken from the site, and
    ``discharge_limit_w`` the power delivered to it. ``math.inf`` means no limit.
    """

    section = "battery"
    title = "battery"
    level_name = "soc_pct"
    level_words = "state of charge"
    varies = frozenset({"soc_start_pct", "soc_target_pct", "target_band_pct", "end_value_per_kwh"})
    columns = Columns("charge_w", "discharge_w", "soc_pct", "correction_j")
    fields = Fields("battery_j", "soc_after_pct", "soc_pct", "correction_j", planned=False)

    capacity_j: float
    soc_min_pct: float = 20.0
    soc_max_pct: float = 90.0
    soc_start_pct: float = 50.0
    soc_target_pct: float = 50.0
    charge_limit_w: float = math.inf
    discharge_limit_w: float = math.inf
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95
    self_discharge_per_day: float = 0.0
    """Fraction of the stored energy lost in a day without charge or discharge (0.2 % is 0.002)."""
    loss: LossConvention = LossConvention.PHYSICAL
    target_band_pct: float | UnsetType = UNSET
    """Percentage points on both sides of the target within which an end counts as on target; unset: none."""
    end_value_per_kwh: float | UnsetType = UNSET
    """Value of a kWh in the battery at the end: kWh of finished jobs or, with a grid, money; unset: none."""

    def __post_init__(self) -> None:
        low, high = self.soc_min_pct, self.soc_max_pct
        require_not_negative("capacity_j", self.capacity_j)
        require(0 <= low < 100, "soc_min_pct", low, "at least 0 and below 100")
        require(low < high <= 100, "soc_max_pct", high, f"above soc_min_pct ({low:g}) and at most 100")
        between = f"between soc_min_pct ({low:g}) and soc_max_pct ({high:g})"
        for field in ("soc_start_pct", "soc_target_pct"):
            value = getattr(self, field)
            require(low <= value <= high, field, value, between)
        most = self.soc_target_pct
        expected = f"percentage points from 0 to soc_target_pct ({most:g}): a band cannot be wider than that"
        require(0 <= self.band_points <= most, "target_band_pct", self.target_band_pct, expected)
        require_not_negative("end_value_per_kwh", self.end_value)
        for field in ("charge_limit_w", "discharge_limit_w"):
            require(getattr(self, field) > 0, field, getattr(self, field), "> 0")
        require_fraction("charge_efficiency", self.charge_efficiency)
        require_fraction("discharge_efficiency", self.discharge_efficiency)
        rate = self.self_discharge_per_day
        require(0 <= rate < 1, "self_discharge_per_day", rate, "a fraction of at least 0 and below 1")

    @property
    def exists(self) -> bool:
        """Whether there is a battery."""
        return self.capacity_j > 0.0

    @cached_property
    def min_j(self) -> float:
        """Energy at SoC_min, J."""
        return self.energy_j(self.soc_min_pct)

    @cached_property
    def max_j(self) -> float:
        """Energy at SoC_max, J."""
        return self.energy_j(self.soc_max_pct)

    @property
    def start_j(self) -> float:
        """Energy at the start of the first window, J."""
        return self.energy_j(self.soc_start_pct)

    @property
    def target_j(self) -> float:
        """Target energy at the end of a window, J."""
        return self.energy_j(self.soc_target_pct)

    @property
    def band_points(self) -> float:
        """Width of the target's band on each side, percentage points; 0 without one."""
        return 0.0 if self.target_band_pct is UNSET else self.target_band_pct

    @property
    def target_text(self) -> str:
        """Target as people read it, without its unit: ``50``, or ``50 ± 5`` with a band."""
        return _target_text(self.soc_target_pct, None if self.target_band_pct is UNSET else self.band_points)

    def without_levels(self) -> BatterySpec:
        """Return the battery without a least level and a target."""
        return replace(self, soc_min_pct=0.0, soc_target_pct=0.0, target_band_pct=UNSET)

    def band_facts(self) -> dict[str, float | int | str]:
        """Return the fact that the target has a band, for the decision log; {} without one."""
        return {} if self.target_band_pct is UNSET else {"band_pct": self.target_band_pct}

    @property
    def end_value(self) -> float:
        """Value of a kWh in the battery at the end, kWh of finished jobs or, with a grid, money; 0: none."""
        return 0.0 if self.end_value_per_kwh is UNSET else self.end_value_per_kwh

    @property
    def least_end_j(self) -> float:
        """Least energy at the end of a window that counts as on target, J: the band's lower edge."""
        return self.energy_j(max(self.soc_target_pct - self.band_points, self.soc_min_pct))

    def off_target_points(self, soc_pct: float) -> float:
        """Return the distance of a state of charge (%) from the band of the target, percentage points.

        It is 0 within the band, positive above and negative below it: only below it, the target is missed.
        Without a band, it is the distance from the target.
        """
        away, band = soc_pct - self.soc_target_pct, self.band_points
        return away if not band else max(away - band, 0.0) + min(away + band, 0.0)

    def energy_j(self, soc_pct: float) -> float:
        """Return the energy (J) at a state of charge (%)."""
        return self.capacity_j * soc_pct / 100.0

    def soc_pct(self, energy_j: float) -> float:
        """Return the state of charge (%) at an energy (J), Eq. 2.4; NaN without a battery."""
        return 100.0 * energy_j / self.capacity_j if self.capacity_j else math.nan

    def kept_fraction(self, dt_s: float) -> float:
        """Return 1 - sigma: the share of stored energy left by self-discharge after ``dt_s`` seconds.

        sigma per step follows from the rate per day so that a day of steps of any length loses the same.
        """
        return _kept_fraction(self.self_discharge_per_day, dt_s)

    def drawn_per_delivered(self) -> float:
        """Joules taken from the cells per joule delivered, by the loss convention."""
        if self.loss is LossConvention.PRINTED:
            return self.discharge_efficiency
        return 1.0 / self.discharge_efficiency

    # --- as a device: energies in joules --------------------------------------------------------------

    @property
    def bounds(self) -> DeviceBounds:
        """Energy between SoC_min and SoC_max, and the limits of charging and discharging."""
        return DeviceBounds(self.min_j, self.max_j, self.charge_limit_w, self.discharge_limit_w)

    @property
    def start(self) -> float:
        """Energy at the start of the first window, J."""
        return self.start_j

    @property
    def target(self) -> float:
        """Target energy at the end of a window, J."""
        return self.target_j

    @property
    def least_end(self) -> float:
        """Least energy at the end of a window that counts as on target, J."""
        return self.least_end_j

    def takes_w(self, level: float, offered_w: float, dt_s: float) -> float:
        """Return the charging power (W), at most ``offered_w``; see `charge_power_limit`."""
        return min(offered_w, charge_power_limit(self, level, dt_s))

    def gives_w(self, level: float, wanted_w: float, dt_s: float) -> float:
        """Return the discharging power (W) above SoC_min, at most ``wanted_w``."""
        return min(wanted_w, discharge_power_limit(self, level, dt_s, self.min_j))

    def after(self, level: float, in_w: float, out_w: float, dt_s: float) -> float:
        """Return the energy (J) after a step; see `energy_after_step`."""
        return energy_after_step(self, level, in_w, out_w, dt_s)

    def with_target(self, level: float) -> BatterySpec:
        """Return the battery with a target slightly below ``level``, because of self-discharge; no band."""
        target_pct = max(self.soc_min_pct, 0.98 * self.soc_pct(level))
        return replace(self, soc_target_pct=target_pct, target_band_pct=UNSET)

    def linear(self, power_w: float, step_s: float) -> Linear:
        """Describe the battery in a plan's problem: energies in units of ``power_w`` for an hour."""
        unit_j, hours = power_w * SECONDS_PER_HOUR, step_s / SECONDS_PER_HOUR
        kept, drawn, bounds = self.kept_fraction(step_s), self.drawn_per_delivered(), self.bounds
        span = (bounds.most - kept * bounds.least) / unit_j / hours
        fade = (bounds.most * kept - bounds.least) / unit_j / hours
        return Linear(
            unit_j,
            kept,
            self.charge_efficiency,
            drawn,
            in_most=min(bounds.in_w / power_w, span / self.charge_efficiency),
            out_most=min(bounds.out_w / power_w, max(fade, 0.0) / drawn),
            excludes=True,
        )

    def level_scale(self, power_w: float, step_s: float) -> float:
        """Return the capacity, and a step at ``power_w``, J."""
        return self.capacity_j + power_w * step_s

    def violations(self, flows: Flows, step_s: float, power_w: float) -> Iterator[Excess]:
        """Yield Eq. 2.3, 3.3, 3.5 and 3.6."""
        level, bounds, size_j = flows.level, self.bounds, self.level_scale(power_w, step_s)
        yield Excess("P_ch <= P_ch_max (3.6)", flows.in_w - bounds.in_w, power_w)
        yield Excess("P_dch <= P_dch_max (3.5)", flows.out_w - bounds.out_w, power_w)
        both = np.minimum(flows.in_w, flows.out_w)
        yield Excess("charging excludes discharging (2.3)", both, power_w)
        expected = energy_after_step(self, level[:-1], flows.in_w, flows.out_w, step_s)  # type: ignore[arg-type]
        yield Excess("battery development (2.3)", np.abs(level[1:] - expected), size_j)
        yield Excess("SoC >= SoC_min (3.3)", bounds.least - level, size_j)
        yield Excess("SoC <= SoC_max (3.3)", level - bounds.most, size_j)

    # --- words ----------------------------------------------------------------------------------------

    def shown(self, level: Any) -> Any:
        """Return the state of charge (%) at an energy (J)."""
        return self.soc_pct(level)

    @classmethod
    def level_text(cls, shown: float) -> str:
        """Format a state of charge."""
        return percent_text(shown)

    def figures(self, level: float, lowest: float) -> dict[str, Any]:
        """Return capacity and states of charge."""
        soc_pct = self.soc_pct(level)
        band = {} if self.target_band_pct is UNSET else {"target_band_pct": self.target_band_pct}
        return {
            "battery_kwh": j_to_kwh(self.capacity_j),
            "soc_start_pct": self.soc_start_pct,
            "soc_final_pct": soc_pct,
            "soc_target_pct": self.soc_target_pct,
            "soc_min_pct": self.soc_min_pct,
            "soc_max_pct": self.soc_max_pct,
            "soc_distance_points": self.off_target_points(soc_pct),
            "soc_lowest_pct": self.soc_pct(lowest),
            **band,
        }

    @classmethod
    def summary_rows(cls, figures: Mapping[str, Any]) -> Iterator[Labelled]:
        """Yield the states of charge, and the distance from the target."""
        levels = (figures[f"soc_{name}_pct"] for name in ("start", "lowest", "final"))
        of = "" if cls.fields is not None else f"{cls.title}, "
        yield f"{of}state of charge: start, lowest, final", f"{', '.join(f'{pct:.2f}' for pct in levels)} %"
        band = figures.get("target_band_pct")
        off = "off target" if band is None else f"off target ± {band:g}"
        yield f"  final, {off}", f"{figures['soc_distance_points']:+.2f} points"

    @classmethod
    def size_words(cls, figures: Mapping[str, Any]) -> str:
        """Describe capacity, limits and target."""
        levels = f"{figures['soc_min_pct']:g} to {figures['soc_max_pct']:g}\u00a0%"
        target = f"target {_target_text(figures['soc_target_pct'], figures.get('target_band_pct'))}\u00a0%"
        return f"a {cls.title} of {figures['battery_kwh']:,.4g} kWh ({levels}, {target})"


def _target_text(target_pct: float, band: float | None) -> str:
    return f"{target_pct:g}" if band is None else f"{target_pct:g} ± {band:g}"


@lru_cache(maxsize=64)
def _kept_fraction(loss_per_day: float, dt_s: float) -> float:
    """See `BatterySpec.kept_fraction`. Nearly all steps are of one length."""
    return 1.0 if loss_per_day == 0.0 else float((1.0 - loss_per_day) ** (dt_s / SECONDS_PER_DAY))


_LARGEST_KWH: Final = 1e6
_LARGEST_RATE_PER_H: Final = 60.0


class BatterySection(DeviceSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Section ``[battery]`` of a site file."""

    conversions: ClassVar[Mapping[str, tuple[str, Callable[[float], float]]]] = {
        "capacity_kwh": ("capacity_j", kwh_to_j),
        "charge_limit_kw": ("charge_limit_w", kw_to_w),
        "discharge_limit_kw": ("discharge_limit_w", kw_to_w),
        "self_discharge_pct_per_day": ("self_discharge_per_day", lambda percent: percent / 100.0),
    }
    apart: ClassVar[frozenset[str]] = frozenset({"life"})

    capacity_kwh: float
    """Size."""
    charge_limit_kw: float
    """Largest power into the battery."""
    discharge_limit_kw: float
    """Largest power out of the battery."""
    soc_min_pct: float = BatterySpec.soc_min_pct
    """State of charge below which only sleeping and switching servers may use the battery."""
    soc_max_pct: float = BatterySpec.soc_max_pct
    soc_start_pct: float = BatterySpec.soc_start_pct
    soc_target_pct: float = BatterySpec.soc_target_pct
    """State of charge at which a window should end."""
    target_band_pct: float | UnsetType = UNSET
    """Percentage points on both sides of the target within which an end counts as on target."""
    end_value_per_kwh: float | UnsetType = UNSET
    """Value of a kWh in the battery at the end: kWh of finished jobs or, with a grid, money."""
    charge_efficiency: float = BatterySpec.charge_efficiency
    """Fraction."""
    discharge_efficiency: float = BatterySpec.discharge_efficiency
    self_discharge_pct_per_day: float = 0.2
    """Share of the stored energy lost in a day without charge or discharge."""
    loss: LossConvention = BatterySpec.loss
    life: LifeSection | None = None
    """Degradation, section ``[battery.life]``."""

    def check(self) -> None:
        """Raise `FieldError` for a size or a power that suggests a wrong unit."""
        size = self.capacity_kwh
        expected = "a finite number > 0 (a site without a battery has no section [battery])"
        require(0 < size < math.inf, "capacity_kwh", size, expected)
        require(not size > _LARGEST_KWH, "capacity_kwh", size, "at most 1e6 kWh (is the value in J or Wh?)")
        for name in ("charge_limit_kw", "discharge_limit_kw"):
            value = getattr(self, name)
            most = _LARGEST_RATE_PER_H * size
            rate = f"{_LARGEST_RATE_PER_H:g} times the capacity an hour"
            require(not value > most, name, value, f"at most {most:g} kW, {rate} (is it in W?)")
        lost = self.self_discharge_pct_per_day
        require(0 <= lost < 100, "self_discharge_pct_per_day", lost, "at least 0 and below 100")


BatterySpec.file = BatterySection

NO_BATTERY: Final = BatterySpec(0.0, soc_min_pct=0.0, soc_max_pct=100.0)
"""Battery of a site without one: neither charges nor discharges."""


def energy_after_step(
    battery: BatterySpec, energy_j: float, charge_w: float, discharge_w: float, dt_s: float
) -> float:
    """Energy (J) after a step of ``dt_s`` seconds at constant powers (W), Eq. 2.3.

    Plain arithmetic: energies and powers may be numpy arrays. Limits are not applied
    here; take the powers from `charge_power_limit` and `discharge_power_limit`.
    """
    kept_j = energy_j * battery.kept_fraction(dt_s)
    stored_j = battery.charge_efficiency * charge_w * dt_s
    return kept_j + stored_j - battery.drawn_per_delivered() * discharge_w * dt_s


def charge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float) -> float:
    """Return the maximum charging power (W) over a whole step: its limit, or SoC_max at the end."""
    room_j = battery.max_j - energy_j * battery.kept_fraction(dt_s)
    return min(battery.charge_limit_w, max(0.0, room_j) / (battery.charge_efficiency * dt_s))


def charge_power_wanted(battery: BatterySpec, energy_j: float, dt_s: float, level_j: float) -> float:
    """Return the power (W) that brings the battery to ``level_j`` in a step; negative if it ends above it."""
    return (level_j - energy_j * battery.kept_fraction(dt_s)) / (battery.charge_efficiency * dt_s)


def discharge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float, floor_j: float) -> float:
    """Return the maximum discharging power (W) over a whole step: its limit, or ``floor_j`` at the end.

    ``floor_j`` is ``battery.min_j`` for most uses, and 0 for demand that may draw below SoC_min.
    """
    above_j = energy_j * battery.kept_fraction(dt_s) - floor_j
    return min(battery.discharge_limit_w, max(0.0, above_j) / (battery.drawn_per_delivered() * dt_s))


def project_levels_j(battery: BatterySpec, level_j: float, net_w: FloatArray, step_s: float) -> FloatArray:
    """Return the battery energy (J) at the start and after each step with a surplus ``net_w``.

    A negative surplus is a deficit. Eq. 1 of the paper: levels are kept within [0, SoC_max] and the limits of
    charging and discharging. An initial level above SoC_max may only decrease.
    """
    return LevelProjection(battery, step_s).levels_j(0, level_j, net_w)


_ROWS_A_LOOK: Final = 96
"""Number of steps within which most batteries are at a limit again."""


class LevelProjection:
    """Repeated projection of a battery's levels, like `project_levels_j`, as time advances.

    Different initial levels lead to the same levels once the battery is full (or empty) in both. From there
    to the next step with a changed gain, they equal the previous projection.
    """

    def __init__(self, battery: BatterySpec, step_s: float) -> None:
        """Begin with steps of ``step_s`` seconds, without a projection."""
        self._battery, self._step_s = battery, step_s
        self._kept, self._most_j = battery.kept_fraction(step_s), battery.max_j
        self._first = 0
        self._gained_j = np.empty(0)
        self._levels_j = np.empty(1)

    def levels_j(self, first: int, level_j: float, net_w: FloatArray) -> FloatArray:
        """Return the energy (J) at the start of step ``first``, and after it and later steps of ``net_w``.

        Steps may be numbered in any consistent way. The array is read-only.
        """
        gained_j = self._step_s * gained_w(self._battery, net_w)
        known_j, changed = self._known(first, gained_j)
        levels_j = np.empty(len(gained_j) + 1)
        levels_j[: len(known_j)] = known_j
        row = changed[0] if len(known_j) and known_j[0] == level_j else 0
        levels_j[0] = level_j
        while row < len(gained_j):
            end = row + _ROWS_A_LOOK
            found_j, steps_done = self._go_on(
                levels_j.item(row), gained_j[row:end].tolist(), known_j[row + 1 : end + 1]
            )
            row += len(found_j)
            levels_j[row - len(found_j) + 1 : row + 1] = found_j
            if steps_done:
                row = changed[bisect_left(changed, row)]
        self._first, self._gained_j, self._levels_j = first, gained_j, levels_j
        return levels_j

    def _known(self, first: int, gained_j: FloatArray) -> tuple[FloatArray, list[int]]:
        """Return levels of the last projection from ``first`` on, and the rows with changed gains.

        These include the first row that was not projected, and the end.
        """
        over, count = first - self._first, len(gained_j)
        both = min(len(self._gained_j) - over, count)
        if over < 0 or both <= 0:
            return self._levels_j[:0], [0, count]
        differs = gained_j[:both] != self._gained_j[over : over + both]
        return self._levels_j[over : over + both + 1], [*differs.nonzero()[0].tolist(), both, count]

    def _go_on(self, level_j: float, gains_j: list[float], known_j: FloatArray) -> tuple[list[float], bool]:
        """Levels after each of ``gains_j``, and whether they end at one that is ``known_j``: at a limit."""
        kept, most_j, last = self._kept, self._most_j, len(known_j)
        levels_j: list[float] = []
        add = levels_j.append
        for row, gain_j in enumerate(gains_j):
            kept_j = level_j * kept
            level_j = kept_j + gain_j
            if 0.0 <= level_j <= most_j:
                add(level_j)
                continue
            if level_j < 0.0:
                level_j = 0.0
            elif gain_j > 0.0:
                level_j = max(kept_j, most_j)
            add(level_j)
            if row < last and known_j[row] == level_j:
                return levels_j, True
        return levels_j, False


def project_need_j(
    battery: BatterySpec, level_j: float, net_w: FloatArray, step_s: FloatArray, left: FloatArray
) -> FloatArray:
    """Like `project_levels_j`, but negative for missing energy, and for steps of different lengths.

    ``left``: share of energy stored at the start of the first step that self-discharge leaves at the end of
    each step: the product of the steps' `BatterySpec.kept_fraction`. In units of such energy a step only adds
    its gain, so that sums and running minima replace a loop. An initial level above SoC_max may stay there.
    """
    most_j = max(battery.max_j, level_j)
    gained_j = np.cumsum(step_s * gained_w(battery, net_w) / left)
    room_j = np.minimum.accumulate(most_j / left - gained_j)
    levels_j = left * (gained_j + np.minimum(room_j, level_j))
    return np.concatenate(([level_j], levels_j))


def gained_w(battery: BatterySpec, net_w: FloatArray) -> FloatArray:
    """Return the power (W) gained by the cells (negative: lost) with a surplus ``net_w``, within limits."""
    within_w = np.minimum(np.maximum(net_w, -battery.discharge_limit_w), battery.charge_limit_w)
    drawn_j = battery.drawn_per_delivered()
    return np.asarray(within_w * np.where(within_w > 0.0, battery.charge_efficiency, drawn_j))
