"""Power of a site in each step of a window, from series of weather or power; synthetic weather.

Synthetic weather is seeded irradiance with clouds, and seeded wind, in place of a downloaded export:

- Sun: the solar elevation from latitude, day and hour (Cooper's declination, Solar Energy 12, 1969;
  the clock is solar time), the clear-sky irradiance of Haurwitz (J. Meteorology 2, 1945), and the
  clouds' attenuation of Kasten and Czeplak (Solar Energy 24, 1980), 1 - 0.75*C**3.4.
- Clouds: C = Phi(a + b*x), x a Gaussian AR(1) series. b = 1.5 makes clear and overcast skies more
  frequent than those between; a is such that the mean of C is the cloudiness asked for.
- Wind: the Weibull distribution (shape 2: Rayleigh) by its inverse at Phi(x) of another AR(1) series.

Both are autocorrelated over hours. The same seed gives the same values, to the last printed digit:
they are rounded, since sines and exponentials may differ in their last bits between machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from statistics import NormalDist

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.checks import low_wind, peak_far_below
from beasy_sched.energy.plants import PvPlant, WindTurbine
from beasy_sched.energy.production_sources import resample
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.findings import Finding
from beasy_sched.formats.table import FLAGGED, IRRADIANCE, POWER, WIND_SPEED, TimeSeries, time_text
from beasy_sched.formats.weather_exports import MOST_OVER_CAPACITY, ninja_lines
from beasy_sched.generate.power_options import FileOptions, Gaps, Route, SyntheticWeather
from beasy_sched.generate.random_streams import Stream, normals, uniforms
from beasy_sched.model.choices import Interpolation
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, counted, w_to_kw

_LONGEST_FILLED = 6
"""Intervals in a row that `Gaps.INTERPOLATE` bridges."""
_WEATHER = {"pv": ("wind", IRRADIANCE, "irradiance"), "wind": ("pv", WIND_SPEED, "wind speed")}
"""The other kind of plant, the column of a plant's weather, and its usual name."""


@dataclass(frozen=True)
class Window:
    """The steps wanted."""

    steps: int
    step_s: float = 300.0
    start_s: int | None = None
    """Seconds since 1970 (UTC); None starts where the series does."""


@dataclass(frozen=True)
class Production:
    """Power of one plant from one series."""

    name: str
    """``"pv"`` or ``"wind"``."""
    series: TimeSeries
    mean_w: FloatArray
    """Mean power (W) of each interval of the series; NaN where the series has a gap."""
    installed_w: float
    ceiling_w: float | None = None
    """Power (W) that no step may exceed, where there is such a bound."""
    findings: tuple[Finding, ...] = ()
    """Warnings about the series for such a plant."""


def pv_production(
    series: TimeSeries,
    *,
    installed_w: float | None = None,
    stated_w: float | None = None,
    route: Route = FileOptions.route,
    efficiency: float = PvPlant.efficiency,
) -> Production:
    """Power of a PV plant of ``installed_w`` W (default: the capacity that the series is for).

    ``stated_w`` is that capacity where the series does not state one; ``efficiency`` is eta_pv of the
    weather route. Raises InputError or ConfigError where something is missing.
    """
    if (scaled := _from_electricity("pv", series, installed_w, stated_w, route)) is not None:
        return scaled
    plant = PvPlant(_needed(installed_w, "pv"), efficiency)
    return Production("pv", series, plant.power_w(series.columns[IRRADIANCE]), plant.nominal_w)


def wind_production(
    series: TimeSeries,
    *,
    installed_w: float | None = None,
    stated_w: float | None = None,
    route: Route = FileOptions.route,
    cut_in_m_s: float = WindTurbine.cut_in_m_s,
    rated_m_s: float = WindTurbine.rated_m_s,
    cut_out_m_s: float = WindTurbine.cut_out_m_s,
) -> Production:
    """Power of turbines of ``installed_w`` W together; the speeds are for the weather route.

    The rest is as for `pv_production`.
    """
    if (scaled := _from_electricity("wind", series, installed_w, stated_w, route)) is not None:
        return scaled
    turbine = WindTurbine(_needed(installed_w, "wind"), cut_in_m_s, rated_m_s, cut_out_m_s)
    power = turbine.power_w(series.columns[WIND_SPEED])
    finding = low_wind(series)
    return Production("wind", series, power, turbine.rated_w, turbine.rated_w, (finding,) if finding else ())


LOWEST_SUN_DEG = 3.0
"""Elevation up to which the sun counts as down: loggers start later than it rises."""


def with_nights_at_zero(
    series: TimeSeries, *, latitude_deg: float | None = None, longitude_deg: float | None = None
) -> TimeSeries:
    """Return a series of the sun whose gaps while the sun is down are 0, with a note; other gaps stay.

    The place is the one given, or else the one that the file states. Raises InputError where it is unknown,
    or the series has no dates.
    """
    place = (
        ("--latitude", series.latitude_deg if latitude_deg is None else latitude_deg),
        ("--longitude", series.longitude_deg if longitude_deg is None else longitude_deg),
    )
    unknown = [name for name, angle in place if angle is None]
    if unknown:
        raise InputError(
            series.path,
            f"does not state its place, which --night zero requires: give {' and '.join(unknown)}",
        )
    if series.start_s is None:
        raise InputError(series.path, "has no dates, which --night zero requires: give --first-time")
    (_, latitude), (_, longitude) = place
    assert latitude is not None
    assert longitude is not None
    edges_s = series.start_s + series.interval_s * np.arange(len(series) + 1, dtype=np.float64)
    sine = sine_of_elevation(latitude, edges_s + longitude / 360.0 * SECONDS_PER_DAY)
    night = np.minimum(sine[:-1], sine[1:]) < math.sin(math.radians(LOWEST_SUN_DEG))
    series = replace(series, nights_at_deg=(latitude, longitude))
    columns = dict(series.columns)
    filled = np.zeros(len(series), dtype=np.bool_)
    for name in {POWER, IRRADIANCE} & columns.keys():
        gaps = night & np.isnan(columns[name])
        columns[name] = np.where(gaps, 0.0, columns[name])
        filled |= gaps
    if not filled.any():
        return series
    note = f"{counted(int(np.count_nonzero(filled)), 'interval')} without a value at night count as 0"
    return replace(series, columns=columns, notes=(*series.notes, note))


def _night_advice(series: TimeSeries, index: int) -> str:
    """Advice on a gap of a series of the sun, which may be one at night."""
    if series.nights_at_deg is None or series.start_s is None:
        return "; --night zero for a logger that is silent at night"
    latitude_deg, longitude_deg = series.nights_at_deg
    middle_s = series.start_s + series.interval_s * (index + 0.5)
    solar_s = np.array([middle_s + longitude_deg / 360.0 * SECONDS_PER_DAY])
    sun_deg = math.degrees(math.asin(float(sine_of_elevation(latitude_deg, solar_s)[0])))
    return (
        f"; --night zero does not apply, since the sun is at {sun_deg:.0f} degrees then: check --latitude,"
        " --longitude and the time zone (--timezone)"
    )


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
                f"ends at {series.time_text(len(series))}, before {latest.path} begins: use --pv-start "
                "and --wind-start to set the start in each",
            )
    return start


def step_power(
    production: Production,
    window: Window,
    *,
    method: Interpolation = FileOptions.interpolation,
    gaps: Gaps = FileOptions.gaps,
) -> FloatArray:
    """Mean power (W) in each step of the window; without a start, from the start of the series.

    Raises InputError where the series does not cover the window, or has gaps in it.
    """
    series, mean_w = production.series, production.mean_w
    offset_s, first, last = _span(series, window)
    means = _filled(production, first, last, gaps)
    neighbours = (mean_w[max(first - 1, 0) : first], mean_w[last : last + 1])
    lead, tail = (part[np.isfinite(part)] for part in neighbours)
    return resample(
        np.concatenate((lead, means, tail)),
        interval_s=series.interval_s,
        step_s=window.step_s,
        steps=window.steps,
        offset_s=offset_s - (first - len(lead)) * series.interval_s,
        ceiling_w=production.ceiling_w,
        method=method,
    )


def hourly_with_past(
    placed: Sequence[tuple[Production, Window]], *, gaps: Gaps = FileOptions.gaps
) -> tuple[FloatArray, int]:
    """Mean power (W) of all plants in each whole hour of their windows and before, and how many are before.

    As many hours as every series has before its window. Raises InputError for gaps.
    """
    begins_s = [
        0 if one.series.start_s is None or window.start_s is None else window.start_s - one.series.start_s
        for one, window in placed
    ]
    past_h = min(begins_s) // round(SECONDS_PER_HOUR)
    hours = past_h + int(placed[0][1].steps * placed[0][1].step_s / SECONDS_PER_HOUR + 1e-9)
    past_s = past_h * round(SECONDS_PER_HOUR)
    hourly_w = np.zeros(hours)
    for one, window in placed:
        start_s = None if window.start_s is None else window.start_s - past_s
        whole = Window(hours, SECONDS_PER_HOUR, start_s)
        hourly_w += step_power(one, whole, method=Interpolation.CONSTANT, gaps=gaps)
    return hourly_w, past_h


@dataclass(frozen=True)
class SitePower:
    """The power of all plants together, W per step."""

    total_w: FloatArray
    sun_w: FloatArray
    """Part of it that comes from the sun."""


def site_power(
    productions: Sequence[Production],
    window: Window,
    *,
    method: Interpolation = FileOptions.interpolation,
    gaps: Gaps = FileOptions.gaps,
) -> SitePower:
    """Return the power of plants in one window, of none 0 W. Raises InputError as `step_power` does."""
    powers_w = [step_power(one, window, method=method, gaps=gaps) for one in productions]
    total_w = np.asarray(np.sum([np.zeros(window.steps), *powers_w], axis=0))
    return SitePower(total_w, sun_part_w(productions, powers_w, total_w))


def sun_part_w(
    productions: Sequence[Production], powers_w: Sequence[FloatArray], real_w: FloatArray
) -> FloatArray:
    """Return the part of ``real_w`` (W per step) that comes from the sun.

    The sun has the share in it that it has in ``powers_w``, the powers foreseen for each of ``productions``.
    """
    nothing = np.zeros(len(real_w))
    foreseen = zip(productions, powers_w, strict=True)
    sun_w = sum((power_w for one, power_w in foreseen if one.name == "pv"), nothing)
    return part_of_real_w(sun_w, sum(powers_w, nothing), real_w)


def part_of_real_w(part_w: FloatArray, total_w: FloatArray, real_w: FloatArray) -> FloatArray:
    """Return the part of ``real_w`` with the share that ``part_w`` has in ``total_w``, all W per step."""
    share = np.divide(part_w, total_w, out=np.zeros(len(real_w)), where=total_w > 0.0)
    return np.minimum(share * real_w, real_w)


def flagged_intervals(series: TimeSeries, window: Window) -> int:
    """Intervals of the window that the provider marked as filled in by itself."""
    if FLAGGED not in series.columns:
        return 0
    _, first, last = _span(series, window)
    return int(np.count_nonzero(series.columns[FLAGGED][first:last] > 0))


def _from_electricity(
    name: str, series: TimeSeries, installed_w: float | None, stated_w: float | None, route: Route
) -> Production | None:
    """Scale the electricity from the capacity that it is for to the site's; None for the weather route.

    Raises InputError where the file lacks what is needed.
    """
    other, column, quantity = _WEATHER[name]
    if series.technology == other:
        raise InputError(series.path, f"is a {other} export: give it with --{other}, not --{name}")
    has_power, has_weather = POWER in series.columns, column in series.columns
    if route is Route.ELECTRICITY and not has_power:
        raise InputError(series.path, "has no electricity: use --route weather")
    if route is Route.WEATHER and not has_weather:
        raise InputError(series.path, f"has no {quantity}: use --route electricity, or export the raw data")
    if not has_power and not has_weather:
        raise InputError(series.path, f"has neither electricity nor {quantity}")
    if not has_power or route is Route.WEATHER:
        return None
    power = series.columns[POWER]
    capacity_w = series.capacity_w if stated_w is None else stated_w
    if capacity_w is None:
        peak_kw = w_to_kw(float(np.nanmax(power, initial=0.0)))
        raise InputError(
            series.path,
            f"does not state the capacity that its power refers to (its peak is {peak_kw:g} kW): give "
            f"--{name}-capacity-kw (Renewables.ninja's default is 1)",
        )
    if installed_w is None and series.capacity_w == 1.0 and stated_w is None:
        raise InputError(series.path, f"is per unit of capacity: give the plant's size with --{name}-kw")
    if series.capacity_w == 1.0 and stated_w is not None:
        raise InputError(
            series.path,
            f"is per unit of capacity: give the plant's size with --{name}-kw, and omit --{name}-capacity-kw",
        )
    if stated_w is not None:
        _check_capacity(name, series, stated_w)
    target_w = capacity_w if installed_w is None else installed_w
    finding = peak_far_below(series, capacity_w)
    scaled = power * (target_w / capacity_w)
    return Production(name, series, scaled, target_w, target_w, (finding,) if finding else ())


def _check_capacity(name: str, series: TimeSeries, stated_w: float) -> None:
    """Raise InputError where a file's electricity goes far beyond the capacity that the user states."""
    power = series.columns[POWER]
    peak_w = float(np.nanmax(power, initial=0.0))
    if peak_w > MOST_OVER_CAPACITY * stated_w:
        raise InputError(
            series.path,
            f"electricity reaches {w_to_kw(peak_w):g} kW, and --{name}-capacity-kw is {w_to_kw(stated_w):g}:"
            " is the column in another unit (--unit), the value wrong, or the capacity?",
            line=int(series.lines[int(np.nanargmax(power))]) or None,
        )


def _needed(installed_w: float | None, name: str) -> float:
    if installed_w is None:
        raise ConfigError(f"weather does not determine the plant's size: give --{name}-kw")
    return installed_w


def _span(series: TimeSeries, window: Window) -> tuple[float, int, int]:
    """Seconds from the series' start to the window's, its first interval, and the one after its last.

    Raises InputError where it does not fit.
    """
    offset_s = 0.0
    if window.start_s is not None:
        if series.start_s is None:
            message = "has no timestamps: omit --start, or set the first one with --first-time"
            raise InputError(series.path, message)
        offset_s = float(window.start_s - series.start_s)
    end_s = offset_s + window.steps * window.step_s
    if offset_s < 0 or end_s > len(series) * series.interval_s + 1e-6:
        wanted = f"{time_text(series.start_s, offset_s)} to {time_text(series.start_s, end_s)}"
        covered = f"{series.time_text(0)} to {series.time_text(len(series))}"
        raise InputError(series.path, f"covers {covered}, but the window is {wanted} (UTC)")
    last = min(math.ceil(end_s / series.interval_s - 1e-9), len(series))
    return offset_s, int(offset_s // series.interval_s), last


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
    advice += _night_advice(series, at) if production.name == "pv" else ""
    raise InputError(
        series.path, f"{what} for {series.time_text(at)} (UTC), {run} in a row: {advice}", line=line
    )


def _bridged(mean_w: FloatArray) -> FloatArray:
    """The series with a straight line over its gaps of up to `_LONGEST_FILLED` intervals."""
    known_places = np.flatnonzero(np.isfinite(mean_w))
    if not len(known_places):
        return mean_w
    at = np.arange(len(mean_w))
    left = known_places[np.clip(np.searchsorted(known_places, at, side="right") - 1, 0, None)]
    right = known_places[np.clip(np.searchsorted(known_places, at), None, len(known_places) - 1)]
    between = (left <= at) & (at <= right) & (right - left <= _LONGEST_FILLED + 1)
    return np.where(between, np.interp(at, known_places, mean_w[known_places]), mean_w)


_NORMAL = NormalDist()
_CLOUD_SPREAD = 1.5

SYNTHETIC_START = "2024-10-01"
"""Default start of a synthetic window: days are as long as nights."""


def synthetic_series(
    weather: SyntheticWeather, *, seed: int, start_s: int, hours: float, interval_s: int = 300
) -> TimeSeries:
    """Irradiance (W/m2) and wind speed (m/s) for ``hours`` from ``start_s`` (seconds since 1970, UTC)."""
    count = math.ceil(hours * SECONDS_PER_HOUR / interval_s)
    times = start_s + interval_s * np.arange(count, dtype=np.float64)
    clear = clear_sky_irradiance(weather.latitude_deg, times + 0.5 * interval_s)
    irradiance = clear * (1.0 - 0.75 * _clouds(weather, seed, count, interval_s) ** 3.4)
    latent = _autocorrelated(seed, Stream.WIND, count, interval_s, weather.wind_memory_h)
    above = np.array([max(_NORMAL.cdf(-x), 1e-300) for x in latent.tolist()])
    scale = weather.wind_mean_m_s / math.gamma(1.0 + 1.0 / weather.wind_shape)
    columns = {
        IRRADIANCE: np.round(irradiance, 3),
        WIND_SPEED: np.round(scale * (-np.log(above)) ** (1.0 / weather.wind_shape), 3),
    }
    no_lines = np.zeros(count, dtype=np.int64)
    return TimeSeries("synthetic weather", interval_s, columns, no_lines, start_s, technology="weather")


def sine_of_elevation(latitude_deg: float, times_s: FloatArray) -> FloatArray:
    """Sine of the sun's elevation at times in seconds since 1970 (solar time); negative while it is down."""
    day = (times_s / SECONDS_PER_DAY).astype("int64").astype("datetime64[D]")
    day_of_year = (day - day.astype("datetime64[Y]")).astype(np.float64) + 1.0
    declination = np.radians(23.45) * np.sin(2.0 * np.pi * (284.0 + day_of_year) / 365.0)
    hour_angle = 2.0 * np.pi * (times_s % SECONDS_PER_DAY) / SECONDS_PER_DAY - np.pi
    latitude = math.radians(latitude_deg)
    by_day: FloatArray = math.sin(latitude) * np.sin(declination)
    by_hour: FloatArray = math.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
    return by_day + by_hour


def clear_sky_irradiance(latitude_deg: float, times_s: FloatArray) -> FloatArray:
    """Irradiance (W/m2) on level ground without clouds, at times in seconds since 1970 (solar time)."""
    sine = sine_of_elevation(latitude_deg, times_s)
    above = np.maximum(sine, 1e-3)
    return np.where(sine > 1e-3, 1098.0 * above * np.exp(-0.057 / above), 0.0)


def _clouds(weather: SyntheticWeather, seed: int, count: int, interval_s: int) -> FloatArray:
    """Cloud cover C of each interval, 0 to 1."""
    if weather.cloudiness in (0.0, 1.0):
        return np.full(count, weather.cloudiness)
    latent = _autocorrelated(seed, Stream.CLOUDS, count, interval_s, weather.cloud_memory_h)
    shift = math.hypot(1.0, _CLOUD_SPREAD) * _NORMAL.inv_cdf(weather.cloudiness)
    return np.array([_NORMAL.cdf(shift + _CLOUD_SPREAD * x) for x in latent.tolist()])


def _autocorrelated(seed: int, stream: Stream, count: int, interval_s: int, memory_h: float) -> FloatArray:
    """A stationary Gaussian AR(1) series of mean 0 and variance 1."""
    keep = math.exp(-interval_s / (memory_h * SECONDS_PER_HOUR))
    fresh = math.sqrt(1.0 - keep * keep)
    shocks = normals(uniforms(seed, stream, count))
    return np.array([*accumulate(shocks, lambda level, shock: keep * level + fresh * shock)])


_DIFFUSE_SHARE = 0.4
"""Part of the irradiance that the export calls diffuse; readers add the two parts."""


def export_lines(production: Production, *, latitude_deg: float, seed: int) -> Iterator[str]:
    """The lines of an hourly raw export of a synthetic production, which must have a start."""
    series = production.series
    if series.start_s is None:
        raise ValueError("the series has no start")
    hourly = partial(resample, interval_s=series.interval_s, step_s=3600.0, method=Interpolation.CONSTANT)
    if production.name == "pv":
        irradiance_kw_m2 = hourly(series.columns[IRRADIANCE]) / 1e3
        weather = {
            "irradiance_direct": irradiance_kw_m2 * (1.0 - _DIFFUSE_SHARE),
            "irradiance_diffuse": irradiance_kw_m2 * _DIFFUSE_SHARE,
        }
    else:
        weather = {"wind_speed": hourly(series.columns[WIND_SPEED])}
    return ninja_lines(
        production.name,
        start_s=series.start_s,
        electricity_kw=hourly(production.mean_w) / 1e3,
        weather=weather,
        capacity_kw=w_to_kw(production.installed_w),
        latitude_deg=latitude_deg,
        source=f"synthetic, seed {seed}",
    )
