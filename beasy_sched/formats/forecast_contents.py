"""Content of a forecast that is renewed during a run: a file's, or the output of a program.

It may be a forecast file (columns ``issued`` and ``valid``), any file that ``generate power`` reads (weather
services' exports, CSV files of power), or events with ``power_available``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.plants import PvPlant, WindTurbine
from beasy_sched.energy.production_sources import resample
from beasy_sched.errors import InputError, PathLike
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.batsim_events import parse_external_events
from beasy_sched.formats.decoding import Malformed, decode_json
from beasy_sched.formats.forecast_source import is_forecast_header, parse_forecast
from beasy_sched.formats.power_series import NoUnit, parse_weather, powers_of_events
from beasy_sched.formats.table import IRRADIANCE, POWER, WIND_SPEED, TimeSeries, table_text
from beasy_sched.formats.time_columns import find_header
from beasy_sched.model.choices import Interpolation


@dataclass(frozen=True)
class Plants:
    """Nominal powers of the site's plants, W, for forecasts of weather and of shares of the capacity."""

    pv_w: float | None = None
    wind_w: float | None = None


@dataclass(frozen=True)
class ForecastScale:
    """Everything that the meaning of a content depends on."""

    step_s: float
    """Length of a step of the site, s."""
    most_steps: int
    """Number of steps for which the last power of events holds, from time 0."""
    time_0_s: float | None = None
    """Time 0 of the run, s since 1970; None if unknown."""
    plants: Plants = Plants()
    in_steps: bool = False
    """Whether powers become means of steps, on curves, as `read_power_series` computes them."""
    from_first: bool = False
    """Whether the first interval of a series begins at time 0, whatever its date."""


@dataclass(frozen=True, eq=False)
class ForecastContents:
    """Forecast that was read."""

    table: IssuedTable
    states_issue: bool
    """Whether the content states when it was issued; if not, the table's issues have no meaning."""
    begins_s: float | None = None
    """Start of a series with dates, s since 1970."""


def parse_contents(source: PathLike, data: bytes, scale: ForecastScale) -> ForecastContents:
    """Read a content; ``source`` names it in errors. Raises InputError."""
    text = table_text(data, source)
    if not text.strip():
        raise InputError(source, "is empty: expected a forecast")
    if find_header(text, is_forecast_header):
        table = parse_forecast(source, text, _moment(scale.time_0_s))
        if table.scheme is not None:
            raise InputError(source, "has conditions: expected power, or irradiance or wind speed")
        return ForecastContents(table, states_issue=True)
    if _is_events(text):
        lines = enumerate(text.encode().splitlines(), 1)
        events = parse_external_events(source, lines, forward_unknown=True)
        values = powers_of_events(source, events, scale.most_steps, scale.step_s, as_run=True)
        return ForecastContents(_table(0.0, values, scale.step_s), states_issue=False)
    try:
        series = parse_weather(source, text, interval_s=round(scale.step_s))
    except NoUnit as error:
        found = error.message.partition(": give")[0]
        expected = (
            "expected a forecast (CSV or JSON); a column of power is named with its unit, as 'power (W)'"
        )
        raise InputError(source, f"{found}: {expected}") from None
    return _of_series(series, scale)


def _is_events(text: str) -> bool:
    """Whether the first line is an event."""
    first = text.lstrip().partition("\n")[0]
    if first[:1] != "{":
        return False
    try:
        return "timestamp" in decode_json(first.encode(), dict)
    except Malformed:
        return False


def _moment(time_0_s: float | None) -> datetime | None:
    return None if time_0_s is None else datetime.fromtimestamp(time_0_s, timezone.utc)


def _of_series(series: TimeSeries, scale: ForecastScale) -> ForecastContents:
    """Return the content of a series. Raises InputError."""
    values = _power_w(series, scale.plants)
    is_present = ~np.isnan(values)
    if not is_present.any():
        raise InputError(series.path, "has no power: all its values are missing")
    start_s, interval_s = 0.0, float(series.interval_s)
    if series.start_s is not None and not scale.from_first:
        if scale.time_0_s is None:
            raise InputError(series.path, "has dates, but the site has no [time] start with a UTC offset")
        start_s = series.start_s - scale.time_0_s
    if scale.in_steps:
        first, last = int(np.argmax(is_present)), len(is_present) - int(np.argmax(is_present[::-1]))
        for missing in np.flatnonzero(~is_present[first:last]).tolist():
            raise InputError(series.path, f"has no power for {series.time_text(first + missing)}")
        values, start_s = values[first:last], start_s + first * interval_s
        if interval_s != scale.step_s:
            smooth = interval_s > scale.step_s
            method = Interpolation.SMOOTH if smooth else Interpolation.CONSTANT
            values = resample(values, interval_s=interval_s, step_s=scale.step_s, method=method)
        table = _table(start_s, values, scale.step_s)
    else:
        whole = _table(start_s, values, interval_s)
        table = replace(
            whole,
            issued_s=whole.issued_s[is_present],
            valid_s=whole.valid_s[is_present],
            values=whole.values[is_present],
        )
    begins_s = None if series.start_s is None else float(series.start_s)
    return ForecastContents(table, states_issue=False, begins_s=begins_s)


def _table(start_s: float, values: FloatArray, interval_s: float) -> IssuedTable:
    valid_s = start_s + interval_s * np.arange(len(values), dtype=np.float64)
    return IssuedTable(np.zeros(len(values)), valid_s, np.asarray(values, dtype=np.float64), interval_s)


def _power_w(series: TimeSeries, plants: Plants) -> FloatArray:
    """Return the production of each interval, W. Raises InputError if the size of a plant is missing."""
    columns = series.columns
    if POWER in columns:
        if series.capacity_w is None:
            return columns[POWER]
        nominal_w = plants.wind_w if series.technology == "wind" else plants.pv_w
        if nominal_w is None and series.capacity_w != 1.0:
            return columns[POWER]
        if nominal_w is None:
            raise InputError(
                series.path, "has shares of a capacity: give --forecast-pv-kw or --forecast-wind-kw"
            )
        return columns[POWER] * (nominal_w / series.capacity_w)
    parts = []
    if plants.pv_w is not None and IRRADIANCE in columns:
        parts.append(PvPlant(plants.pv_w).power_w(columns[IRRADIANCE]))
    if plants.wind_w is not None and WIND_SPEED in columns:
        parts.append(WindTurbine(plants.wind_w).power_w(columns[WIND_SPEED]))
    if not parts:
        wanted = [
            f"{option} for its {what}"
            for column, option, what in (
                (IRRADIANCE, "--forecast-pv-kw", "irradiance"),
                (WIND_SPEED, "--forecast-wind-kw", "wind speed"),
            )
            if column in columns
        ]
        raise InputError(
            series.path, f"has weather, not power: give {' or '.join(wanted) or 'a file of power'}"
        )
    total_w: FloatArray = np.sum(parts, axis=0)
    return total_w
