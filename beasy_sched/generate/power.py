"""From series of weather or power to the power of a site in each step of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.resample import Interpolation, resample
from beasy_sched.energy.sources import PvPlant, WindTurbine
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.time_series import FLAGGED, IRRADIANCE, POWER, WIND_SPEED, TimeSeries, time_text
from beasy_sched.preflight import Finding, low_wind, peak_far_below
from beasy_sched.units import j_to_kwh, w_to_kw

_LONGEST_FILLED = 6
"""Intervals in a row that `Gaps.INTERPOLATE` bridges."""


class Route(str, Enum):
    """Where the power comes from."""

    AUTO = "auto"
    """The file's electricity where it has any, else its weather."""
    ELECTRICITY = "electricity"
    """The file's electricity, scaled from its capacity to the site's."""
    WEATHER = "weather"
    """Eq. 2.1 or 2.2 on the file's wind speed or irradiance."""


class Gaps(str, Enum):
    """What to do about hours that a file lacks inside the window."""

    REFUSE = "refuse"
    INTERPOLATE = "interpolate"
    """A straight line over up to six intervals; longer gaps are refused."""


@dataclass(frozen=True)
class Window:
    """The steps wanted."""

    steps: int
    step_s: float = 300.0
    start_s: int | None = None
    """Seconds since 1970 (UTC); None starts where the series does."""


@dataclass(frozen=True)
class Production:
    """What one plant makes of one series."""

    name: str
    """``"pv"`` or ``"wind"``."""
    series: TimeSeries
    mean_w: FloatArray
    """Mean power (W) of each interval of the series; NaN where the series has a gap."""
    installed_w: float
    ceiling_w: float | None = None
    """Power (W) that no step may exceed, where there is such a bound."""
    findings: tuple[Finding, ...] = ()
    """What is odd about the series for such a plant."""


def pv_production(
    series: TimeSeries,
    *,
    installed_w: float | None = None,
    stated_w: float | None = None,
    route: Route = Route.AUTO,
    efficiency: float = 0.9,
) -> Production:
    """Power of a PV plant of ``installed_w`` W (default: the capacity that the series is for).

    ``stated_w`` is that capacity where the series does not state one; ``efficiency`` is eta_pv of the
    weather route. Raises InputError or ConfigError where something is missing.
    """
    _check_technology(series, "pv", "wind")
    if _uses_electricity(series, route, IRRADIANCE, "irradiance"):
        return _from_electricity("pv", series, installed_w, stated_w)
    plant = PvPlant(_needed(installed_w, "pv"), efficiency)
    return Production("pv", series, plant.power_w(series.columns[IRRADIANCE]), plant.nominal_w)


def wind_production(
    series: TimeSeries,
    *,
    installed_w: float | None = None,
    stated_w: float | None = None,
    route: Route = Route.AUTO,
    cut_in_m_s: float = 3.0,
    rated_m_s: float = 12.0,
    cut_out_m_s: float = 25.0,
) -> Production:
    """Power of turbines of ``installed_w`` W together; the speeds are for the weather route.

    The rest is as for `pv_production`.
    """
    _check_technology(series, "wind", "pv")
    if _uses_electricity(series, route, WIND_SPEED, "wind speed"):
        return _from_electricity("wind", series, installed_w, stated_w)
    turbine = WindTurbine(_needed(installed_w, "wind"), cut_in_m_s, rated_m_s, cut_out_m_s)
    power = turbine.power_w(series.columns[WIND_SPEED])
    found = low_wind(series)
    return Production("wind", series, power, turbine.rated_w, turbine.rated_w, (found,) if found else ())


def shared_start(productions: Sequence[Production]) -> int | None:
    """The first moment (seconds since 1970, UTC) that every dated series covers; None without dates.

    Raises InputError where the series have no time in common.
    """
    dated = [(p.series.start_s, p.series) for p in productions if p.series.start_s is not None]
    if not dated:
        return None
    start, latest = max(dated, key=lambda pair: pair[0])
    for own_start, series in dated:
        if own_start + len(series) * series.interval_s <= start:
            raise InputError(
                series.path,
                f"ends at {series.time_text(len(series))}, before {latest.path} begins: say with --pv-start "
                "and --wind-start where to start in each",
            )
    return start


def step_power(
    production: Production,
    window: Window,
    *,
    method: Interpolation = Interpolation.SMOOTH,
    gaps: Gaps = Gaps.REFUSE,
) -> FloatArray:
    """Mean power (W) in each step of the window; without a start, from the start of the series.

    Raises InputError where the series does not cover the window, or has gaps in it.
    """
    series = production.series
    offset_s = _offset_s(series, window)
    end_s = offset_s + window.steps * window.step_s
    first = int(offset_s // series.interval_s)
    last = min(math.ceil(end_s / series.interval_s - 1e-9), len(series))
    means = _filled(production, first, last, gaps)
    lead, tail = (part[np.isfinite(part)] for part in _neighbours(production.mean_w, first, last))
    return resample(
        np.concatenate((lead, means, tail)),
        interval_s=series.interval_s,
        step_s=window.step_s,
        steps=window.steps,
        offset_s=offset_s - (first - len(lead)) * series.interval_s,
        ceiling_w=production.ceiling_w,
        method=method,
    )


def flagged_intervals(series: TimeSeries, window: Window) -> int:
    """Intervals of the window that the provider marked as filled in by itself."""
    if FLAGGED not in series.columns:
        return 0
    offset_s = _offset_s(series, window)
    first = int(offset_s // series.interval_s)
    last = math.ceil((offset_s + window.steps * window.step_s) / series.interval_s - 1e-9)
    return int(np.count_nonzero(series.columns[FLAGGED][first:last] > 0))


@dataclass(frozen=True)
class PowerSummary:
    """What a profile amounts to."""

    energy_kwh: float
    peak_kw: float
    mean_kw: float
    capacity_factor: float


def summarize(power_w: FloatArray, step_s: float, installed_w: float) -> PowerSummary:
    """Energy, peak, mean, and mean over capacity (NaN without capacity) of a profile."""
    mean_w = float(power_w.mean())
    return PowerSummary(
        j_to_kwh(float(power_w.sum()) * step_s),
        w_to_kw(float(power_w.max())),
        w_to_kw(mean_w),
        mean_w / installed_w if installed_w > 0 else float("nan"),
    )


def _check_technology(series: TimeSeries, wanted: str, other: str) -> None:
    if series.technology == other:
        raise InputError(series.path, f"is a {other} export: give it with --{other}, not --{wanted}")


def _uses_electricity(series: TimeSeries, route: Route, column: str, quantity: str) -> bool:
    """Whether the electricity route is taken; raises InputError where the file lacks what is needed."""
    has_power, has_weather = POWER in series.columns, column in series.columns
    if route is Route.ELECTRICITY and not has_power:
        raise InputError(series.path, "has no electricity: use --route weather")
    if route is Route.WEATHER and not has_weather:
        raise InputError(series.path, f"has no {quantity}: use --route electricity, or export the raw data")
    if not has_power and not has_weather:
        raise InputError(series.path, f"has neither electricity nor {quantity}")
    return route is Route.ELECTRICITY or (route is Route.AUTO and has_power)


def _needed(installed_w: float | None, name: str) -> float:
    if installed_w is None:
        raise ConfigError(f"weather does not say how large the plant is: give --{name}-kw")
    return installed_w


def _from_electricity(
    name: str, series: TimeSeries, installed_w: float | None, stated_w: float | None
) -> Production:
    """Scale the electricity from the capacity that it is for to the site's."""
    power = series.columns[POWER]
    capacity_w = series.capacity_w if stated_w is None else stated_w
    if capacity_w is None:
        peak_kw = w_to_kw(float(np.nanmax(power, initial=0.0)))
        raise InputError(
            series.path,
            f"does not state the capacity that its power is for (its peak is {peak_kw:g} kW): give "
            f"--{name}-capacity-kw (Renewables.ninja's default is 1)",
        )
    if installed_w is None and series.capacity_w == 1.0 and stated_w is None:
        raise InputError(series.path, f"is per unit of capacity: give the plant's size with --{name}-kw")
    target_w = capacity_w if installed_w is None else installed_w
    found = peak_far_below(series, capacity_w)
    scaled = power * (target_w / capacity_w)
    return Production(name, series, scaled, target_w, target_w, (found,) if found else ())


def _offset_s(series: TimeSeries, window: Window) -> float:
    """Seconds from the series' start to the window's; raises InputError where it does not fit."""
    offset_s = 0.0
    if window.start_s is not None:
        if series.start_s is None:
            message = "has no dates: leave out --start, or date its first row with --first-time"
            raise InputError(series.path, message)
        offset_s = float(window.start_s - series.start_s)
    end_s = offset_s + window.steps * window.step_s
    if offset_s < 0 or end_s > len(series) * series.interval_s + 1e-6:
        wanted = f"{time_text(series.start_s, offset_s)} to {time_text(series.start_s, end_s)}"
        covered = f"{series.time_text(0)} to {series.time_text(len(series))}"
        raise InputError(series.path, f"covers {covered}, but the window is {wanted} (UTC)")
    return offset_s


def _neighbours(values: FloatArray, first: int, last: int) -> tuple[FloatArray, FloatArray]:
    """The value before and the value after a slice; empty at the ends."""
    return values[max(first - 1, 0) : first], values[last : last + 1]


def _filled(production: Production, first: int, last: int, gaps: Gaps) -> FloatArray:
    """The intervals from ``first`` up to ``last``, their gaps filled or refused."""
    series = production.series
    means = production.mean_w[first:last]
    missing = np.isnan(means)
    if not missing.any():
        return means
    at = first + int(np.argmax(missing))
    run = int(np.argmin(np.append(np.isnan(production.mean_w[at:]), False)))
    if gaps is Gaps.INTERPOLATE:
        bridged = _bridged(production.mean_w)[first:last]
        if np.isfinite(bridged).all():
            return bridged
    line = int(series.lines[at]) or None
    what = "has no value" if line else "has no row"
    if line is None and at > 0:
        line = int(series.lines[at - 1]) or None
    advice = "use another window" + (" or --gaps interpolate" if run <= _LONGEST_FILLED else "")
    raise InputError(
        series.path, f"{what} for {series.time_text(at)} (UTC), {run} in a row: {advice}", line=line
    )


def _bridged(mean_w: FloatArray) -> FloatArray:
    """The series with a straight line over its gaps of up to `_LONGEST_FILLED` intervals."""
    known = np.flatnonzero(np.isfinite(mean_w))
    if not len(known):
        return mean_w
    at = np.arange(len(mean_w))
    left = known[np.clip(np.searchsorted(known, at, side="right") - 1, 0, None)]
    right = known[np.clip(np.searchsorted(known, at), None, len(known) - 1)]
    between = (left <= at) & (at <= right) & (right - left <= _LONGEST_FILLED + 1)
    return np.where(between, np.interp(at, known, mean_w[known]), mean_w)
