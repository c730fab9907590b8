"""Training data of the solar predictor: hourly production of the past with the conditions of its hours.

The files are Renewables.ninja exports (weather, or solar power), NASA POWER, ENTSO-E, and plain CSV files.
The conditions come from the cloud cover, a clearness ratio, words, or a second, modelled production:

=================  ===================================  ====================================================
file               production                           conditions
=================  ===================================  ====================================================
ninja, weather     ``radiation_surface``                ``cloud_cover``
ninja, solar       ``electricity``                      clearness of the irradiance, where there is one
NASA POWER         ``ALLSKY_SFC_SW_DWN``                ``ALLSKY_KT``, ``CLOUD_AMT``, or the share of
                                                        ``CLRSKY_SFC_SW_DWN``
ENTSO-E            the column asked for                 none
plain CSV          a column of power                    a column of words, of cloud cover, of a clearness
                                                        ratio, or of a modelled production
=================  ===================================  ====================================================

Hours are those of local standard time: UTC plus a whole number of hours, that of the file's longitude, or 0
where it states none. Summer time plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.forecast.conditions import (
    CLEARNESS,
    CLOUD_COVER,
    NO_CONDITIONS,
    UNKNOWN,
    WORDS,
    ConditionScheme,
    class_of_text,
    clearness,
)
from beasy_sched.forecast.solar import SolarHistory
from beasy_sched.formats.power_series import (
    is_export,
    is_production,
    parse_power_csv,
    read_weather_file,
)
from beasy_sched.formats.reading import in_file, is_number
from beasy_sched.formats.table import (
    CLEAR_SKY,
    CLEARNESS_INDEX,
    CLOUD_COVER_SHARE,
    IRRADIANCE,
    POWER,
    Table,
    TimeSeries,
    read_table_text,
)
from beasy_sched.formats.time_columns import choose_column, find_header, plain_table, value_columns
from beasy_sched.formats.unit_table import cover_share, share_in_name
from beasy_sched.formats.weather_exports import is_ninja_header
from beasy_sched.units import SECONDS_PER_HOUR

_REFERENCE_W_M2: Final = 1000.0
"""Irradiance is converted for panels that reach their capacity at this value."""
_HOUR_S: Final = int(SECONDS_PER_HOUR)


@dataclass(frozen=True)
class _Conditions:
    """Conditions of the rows of a series: numbers for a scheme, or classes."""

    scheme: ConditionScheme
    values: FloatArray
    """Numbers, or classes where ``scheme`` is `WORDS`; NaN where there is none."""
    modelled: bool = False
    """Whether the numbers are powers or irradiances, whose clearness is to be found."""


def read_solar_history(
    path: PathLike,
    *,
    column: str | None = None,
    conditions: str | None = None,
    unit: str | None = None,
) -> SolarHistory:
    """Read training data; `SolarHistory.scaled_to` then fits it to the site's panels.

    ``column`` and ``conditions`` name the columns of a plain CSV file (``column`` also ENTSO-E's), ``unit``
    is for a column whose name has none (see `parse_power_csv`). Rows finer than an hour are averaged.
    Raises InputError with line, column and cause.
    """
    text = read_table_text(path)
    if is_export(text) or find_header(text, is_ninja_header):
        series = read_weather_file(path)
        conditions_read = _of_export(series)
    elif is_production(text):
        series = read_weather_file(path, column=column)
        conditions_read = _no_conditions(series)
    else:
        series, conditions_read = _of_csv(path, text, column, conditions, unit)
    with in_file(path):
        return _history(series, conditions_read)


def _no_conditions(series: TimeSeries) -> _Conditions:
    return _Conditions(NO_CONDITIONS, np.full(len(series), np.nan))


def _of_export(series: TimeSeries) -> _Conditions:
    """The conditions that an export has; refuses what is not about the sun."""
    columns = series.columns
    if series.technology == "wind" or (POWER not in columns and IRRADIANCE not in columns):
        names = ", ".join(columns)
        raise InputError(
            series.path, f"has no solar production: found {names}, expected solar power or irradiance"
        )
    if CLEARNESS_INDEX in columns:
        return _Conditions(CLEARNESS, columns[CLEARNESS_INDEX])
    if CLOUD_COVER_SHARE in columns:
        return _Conditions(CLOUD_COVER, columns[CLOUD_COVER_SHARE])
    if CLEAR_SKY in columns and IRRADIANCE in columns:
        clear = columns[CLEAR_SKY]
        ratio = np.divide(columns[IRRADIANCE], clear, out=np.full_like(clear, np.nan), where=clear > 0)
        return _Conditions(CLEARNESS, ratio)
    if POWER in columns and IRRADIANCE in columns:
        return _Conditions(CLEARNESS, columns[IRRADIANCE], modelled=True)
    return _no_conditions(series)


CONDITION_COLUMNS: Final = {
    "condition": WORDS,
    "conditions": WORDS,
    "cloud_cover": CLOUD_COVER,
    "clearness": CLEARNESS,
    "clearness_index": CLEARNESS,
}
"""Usual names of columns with conditions, in lower case, and what they hold."""


def _of_csv(
    path: PathLike, text: str, column: str | None, conditions: str | None, unit: str | None
) -> tuple[TimeSeries, _Conditions]:
    """Production and conditions of a plain CSV file; without a column of times, its rows are hours."""
    table = plain_table(path, text)
    names = value_columns(table)
    stated = next((name for name in names if name.lower() in CONDITION_COLUMNS), None)
    chosen = stated if conditions is None else choose_column(path, names, conditions)
    powers = [name for name in names if name != chosen]
    if column is None and len(powers) != 1:
        listing = ", ".join(powers)
        raise InputError(path, f"which column is the production? Name one of: {listing}")
    name = choose_column(path, powers, column)
    series = parse_power_csv(path, text, column=name, unit=unit, interval_s=_HOUR_S)
    rows = np.searchsorted(table.lines, series.lines)  # an interval without a row has line 0
    if chosen is None:
        return series, _no_conditions(series)
    chosen_conditions = _condition_column(table, chosen)
    values = np.where(
        series.lines > 0, chosen_conditions.values[np.minimum(rows, len(table.rows) - 1)], np.nan
    )
    return series, replace(chosen_conditions, values=values)


def _condition_column(table: Table, name: str) -> _Conditions:
    """Conditions by row of the file: what a column holds follows from its name and cells."""
    lower = name.lower()
    if "cloud" in lower:
        shares = table.numbers(name) * cover_share(share_in_name(name) or "fraction")
        number_classes(table, name, shares, CLOUD_COVER)
        return _Conditions(CLOUD_COVER, shares)
    if "clearness" in lower:
        number_classes(table, name, table.numbers(name), CLEARNESS)
        return _Conditions(CLEARNESS, table.numbers(name))
    first = next((text for text in table.texts(name) if text), "0")
    if is_number(first.replace(",", ".")):
        return _Conditions(CLEARNESS, table.numbers(name), modelled=True)
    return _Conditions(WORDS, word_classes(table, name))


def word_classes(table: Table, name: str) -> FloatArray:
    """The class of each row's text, NaN for an empty cell. Raises InputError with line and known texts."""
    classes: dict[str, float] = {"": np.nan}
    texts = table.texts(name)
    for row, text in enumerate(texts):
        if text not in classes:
            try:
                classes[text] = class_of_text(text)
            except ConfigError as error:
                raise table.error(row, f"{name}: {error}") from None
    return np.array([classes[text] for text in texts])


def number_classes(table: Table, name: str, values: FloatArray, scheme: ConditionScheme) -> FloatArray:
    """The class of each row's number, NaN where it is NaN. Raises InputError with the line."""
    wrong = scheme.impossible(values)
    try:
        return np.where(np.isnan(values), np.nan, scheme.classes(values))
    except ConfigError as error:
        raise table.error(int(np.argmax(wrong)), f"{name}: {error}") from None


def _history(series: TimeSeries, conditions: _Conditions) -> SolarHistory:
    if series.start_s is None:
        raise ConfigError("has no dates: expected a column of times, such as 2023-01-01 00:00 (UTC)")
    offset_h, notes = 0, [*series.notes]
    if series.longitude_deg is not None:
        offset_h = round(series.longitude_deg / 15.0)
    else:
        notes.append("does not state its longitude: its days are those of UTC")
    first_hour, minute_s = divmod(series.start_s + offset_h * _HOUR_S, _HOUR_S)
    is_power = POWER in series.columns
    production = series.columns[POWER if is_power else IRRADIANCE]
    if series.interval_s > _HOUR_S or _HOUR_S % series.interval_s:
        raise ConfigError(f"has a row every {series.interval_s} s, expected hours or equal parts of an hour")
    if series.interval_s == _HOUR_S and minute_s:
        notes.append(f"hours begin {minute_s // 60} min past the hour: taken as the hours that they begin in")
        minute_s = 0
    hourly = _by_hour(production, series.interval_s, minute_s)
    missing = int(np.isnan(hourly).sum())
    if missing:
        notes.append(f"{missing} of {len(hourly)} hours have no production: omitted")
    if conditions.scheme is NO_CONDITIONS:
        notes.append("has no conditions: the predictor relies on recent production only")
    capacity_w = series.capacity_w or (float(np.nanmax(hourly, initial=0.0)) if is_power else _REFERENCE_W_M2)
    return SolarHistory(
        first_hour,
        hourly,
        _classes(conditions, series.interval_s, minute_s, first_hour),
        conditions.scheme,
        capacity_w or 1.0,
        offset_h,
        tuple(notes),
    )


def _in_hours(values: FloatArray, interval_s: int, minute_s: int) -> FloatArray:
    """Values as rows of whole hours, NaN where there are none; ``minute_s`` is the first one's."""
    parts, before = _HOUR_S // interval_s, minute_s // interval_s
    after = -(before + len(values)) % parts
    return np.pad(values, (before, after), constant_values=np.nan).reshape(-1, parts)


def _by_hour(values: FloatArray, interval_s: int, minute_s: int) -> FloatArray:
    """The mean of each hour; NaN where less than half of it is known."""
    if interval_s == _HOUR_S:
        return values.copy()
    parts = _in_hours(values, interval_s, minute_s)
    values_known = (~np.isnan(parts)).sum(axis=1)
    means = np.nansum(parts, axis=1) / np.maximum(values_known, 1)
    return np.where(values_known * 2 >= parts.shape[1], means, np.nan)


def _classes(conditions: _Conditions, interval_s: int, minute_s: int, first_hour: int) -> IntArray:
    """The class of each hour: of its mean, or for words of the first row that has one."""
    if conditions.scheme is WORDS:
        parts = _in_hours(conditions.values, interval_s, minute_s)
        words = parts[np.arange(len(parts)), np.argmax(~np.isnan(parts), axis=1)]
        return np.where(np.isnan(words), UNKNOWN, words).astype(np.int64)
    hourly = _by_hour(conditions.values, interval_s, minute_s)
    if conditions.scheme is NO_CONDITIONS:
        return np.full(len(hourly), UNKNOWN, dtype=np.int64)
    return conditions.scheme.classes(clearness(hourly, first_hour) if conditions.modelled else hourly)
