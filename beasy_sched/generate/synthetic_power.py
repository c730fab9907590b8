"""Synthetic weather: a seeded sun with clouds, and a seeded wind, in place of a downloaded export.

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
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.checks import require, require_positive
from beasy_sched.formats.time_series import IRRADIANCE, WIND_SPEED, TimeSeries
from beasy_sched.generate.random_streams import Stream, uniforms
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

_NORMAL = NormalDist()
_CLOUD_SPREAD = 1.5
_SMALLEST_UNIFORM = 2.0**-54


SYNTHETIC_START = "2024-10-01"
"""When a synthetic window starts unless it is told: days as long as nights."""


@dataclass(frozen=True)
class SyntheticWeather:
    """The climate of a place. Raises `FieldError` when out of range."""

    latitude_deg: float = 43.6
    cloudiness: float = 0.5
    """Mean cloud cover, 0 to 1."""
    cloud_memory_h: float = 6.0
    """Hours after which the clouds' correlation has fallen to 1/e."""
    wind_mean_m_s: float = 4.0
    """Mean wind speed at the hub: by default an inland site with small turbines."""
    wind_shape: float = 2.0
    """Shape of the Weibull distribution of wind speeds."""
    wind_memory_h: float = 8.0

    def __post_init__(self) -> None:
        require(-90 <= self.latitude_deg <= 90, "latitude_deg", self.latitude_deg, "between -90 and 90")
        require(0 <= self.cloudiness <= 1, "cloudiness", self.cloudiness, "between 0 and 1")
        for field in ("cloud_memory_h", "wind_mean_m_s", "wind_shape", "wind_memory_h"):
            require_positive(field, getattr(self, field))


def synthetic_series(
    weather: SyntheticWeather, *, seed: int, start_s: int, hours: float, interval_s: int = 300
) -> TimeSeries:
    """Irradiance (W/m2) and wind speed (m/s) for ``hours`` from ``start_s`` (seconds since 1970, UTC)."""
    count = math.ceil(hours * SECONDS_PER_HOUR / interval_s)
    times = start_s + interval_s * np.arange(count, dtype=np.float64)
    clear = clear_sky_irradiance(weather.latitude_deg, times + 0.5 * interval_s)
    irradiance = clear * (1.0 - 0.75 * _clouds(weather, seed, count, interval_s) ** 3.4)
    columns = {
        IRRADIANCE: np.round(irradiance, 3),
        WIND_SPEED: np.round(_wind_speeds(weather, seed, count, interval_s), 3),
    }
    return TimeSeries(
        "synthetic weather",
        interval_s,
        columns,
        np.zeros(count, dtype=np.int64),
        start_s,
        technology="weather",
    )


def clear_sky_irradiance(latitude_deg: float, times_s: FloatArray) -> FloatArray:
    """Irradiance (W/m2) on level ground without clouds, at times in seconds since 1970 (solar time)."""
    day = (times_s / SECONDS_PER_DAY).astype("int64").astype("datetime64[D]")
    day_of_year = (day - day.astype("datetime64[Y]")).astype(np.float64) + 1.0
    declination = np.radians(23.45) * np.sin(2.0 * np.pi * (284.0 + day_of_year) / 365.0)
    hour_angle = 2.0 * np.pi * (times_s % SECONDS_PER_DAY) / SECONDS_PER_DAY - np.pi
    latitude = math.radians(latitude_deg)
    sine = math.sin(latitude) * np.sin(declination)
    sine = sine + math.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
    above = np.maximum(sine, 1e-3)
    return np.where(sine > 1e-3, 1098.0 * above * np.exp(-0.057 / above), 0.0)


def _clouds(weather: SyntheticWeather, seed: int, count: int, interval_s: int) -> FloatArray:
    """Cloud cover C of each interval, 0 to 1."""
    if weather.cloudiness in (0.0, 1.0):
        return np.full(count, weather.cloudiness)
    latent = _autocorrelated(seed, Stream.CLOUDS, count, interval_s, weather.cloud_memory_h)
    shift = math.hypot(1.0, _CLOUD_SPREAD) * _NORMAL.inv_cdf(weather.cloudiness)
    return np.array([_NORMAL.cdf(shift + _CLOUD_SPREAD * x) for x in latent.tolist()])


def _wind_speeds(weather: SyntheticWeather, seed: int, count: int, interval_s: int) -> FloatArray:
    """Wind speed of each interval, m/s."""
    latent = _autocorrelated(seed, Stream.WIND, count, interval_s, weather.wind_memory_h)
    scale = weather.wind_mean_m_s / math.gamma(1.0 + 1.0 / weather.wind_shape)
    above = np.array([max(_NORMAL.cdf(-x), 1e-300) for x in latent.tolist()])
    return np.asarray(scale * (-np.log(above)) ** (1.0 / weather.wind_shape))


def _autocorrelated(seed: int, stream: Stream, count: int, interval_s: int, memory_h: float) -> FloatArray:
    """A stationary Gaussian AR(1) series of mean 0 and variance 1."""
    keep = math.exp(-interval_s / (memory_h * SECONDS_PER_HOUR))
    fresh = math.sqrt(1.0 - keep * keep)
    values = np.empty(count)
    level = 0.0
    for i, uniform in enumerate(uniforms(seed, stream, count).tolist()):
        shock = _NORMAL.inv_cdf(max(uniform, _SMALLEST_UNIFORM))
        level = shock if i == 0 else keep * level + fresh * shock
        values[i] = level
    return values
