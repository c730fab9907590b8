"""Synthetic weather as a file in the format of Renewables.ninja."""

from __future__ import annotations

from collections.abc import Iterator

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.resample import Interpolation, resample
from beasy_sched.formats.ninja_export import ninja_lines
from beasy_sched.formats.time_series import IRRADIANCE, WIND_SPEED, TimeSeries
from beasy_sched.generate.power import Production
from beasy_sched.units import w_to_kw

_DIFFUSE_SHARE = 0.4
"""Part of the irradiance that the export calls diffuse; readers add the two parts."""


def export_lines(production: Production, *, latitude_deg: float, seed: int) -> Iterator[str]:
    """The lines of an hourly raw export of a synthetic production, which must have a start."""
    series = production.series
    if series.start_s is None:
        raise ValueError("the series has no start")
    if production.name == "pv":
        irradiance_kw_m2 = _hourly(series, series.columns[IRRADIANCE]) / 1e3
        weather = {
            "irradiance_direct": irradiance_kw_m2 * (1.0 - _DIFFUSE_SHARE),
            "irradiance_diffuse": irradiance_kw_m2 * _DIFFUSE_SHARE,
        }
    else:
        weather = {"wind_speed": _hourly(series, series.columns[WIND_SPEED])}
    return ninja_lines(
        production.name,
        start_s=series.start_s,
        electricity_kw=_hourly(series, production.mean_w) / 1e3,
        weather=weather,
        capacity_kw=w_to_kw(production.installed_w),
        latitude_deg=latitude_deg,
        source=f"synthetic, seed {seed}",
    )


def _hourly(series: TimeSeries, values: FloatArray) -> FloatArray:
    """Means over the whole hours of a series of finer intervals."""
    return resample(values, interval_s=series.interval_s, step_s=3600.0, method=Interpolation.CONSTANT)
