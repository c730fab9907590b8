"""Weather conditions as classes: from texts, cloud cover, or a clearness ratio.

GreenSlot's predictor (Section 4.2) learns one attenuation factor for each class of condition. The classes of
a scheme are numbered from the sunniest, 0, to the darkest; `UNKNOWN` is for an hour without a condition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.errors import ConfigError

UNKNOWN: Final = -1
"""Class of an hour with an unknown condition."""


@dataclass(frozen=True)
class ConditionScheme:
    """Division of conditions into classes. Two sources of conditions must use the same one."""

    name: str
    labels: tuple[str, ...]
    """Labels of the classes, one for each, the sunniest first."""
    upper: tuple[float, ...] = ()
    """Upper bounds (included) of all classes but the last, ascending, for classes of numbers."""
    descending: bool = False
    """Whether small numbers mean dark hours."""
    most: float = np.inf
    """Maximum number of a condition."""

    def impossible(self, values: FloatArray) -> BoolArray:
        """Return the mask of numbers without a class, because they are negative or too large."""
        return (values < 0) | (values > self.most)

    def classes(self, values: npt.ArrayLike) -> IntArray:
        """Return the class of each number, `UNKNOWN` if it is NaN.

        Raises ConfigError if a number is negative or too large, or if the scheme is not numeric.
        """
        if not self.upper:
            raise ConfigError(f"conditions by {self.name}: found numbers, expected texts")
        numbers = np.asarray(values, dtype=np.float64)
        wrong = self.impossible(numbers)
        if wrong.any():
            at = int(np.argmax(wrong))
            expected = f"a number from 0 to {self.most:g}" if self.most < np.inf else "a number of 0 or more"
            raise ConfigError(f"found {numbers[at]:g}, expected {expected}")
        rank = np.searchsorted(self.upper, numbers, side="left").astype(np.int64)
        codes = len(self.upper) - rank if self.descending else rank
        return np.where(np.isnan(numbers), UNKNOWN, codes)


NO_CONDITIONS: Final = ConditionScheme("nothing", ())
"""Scheme for data without conditions: every hour is `UNKNOWN`."""
CLOUD_COVER: Final = ConditionScheme(
    "cloud cover",
    ("up to 1/8", "up to 3/8", "up to 5/8", "up to 7/8", "overcast"),
    upper=(1 / 8, 3 / 8, 5 / 8, 7 / 8),
    most=1.0,
)
"""Scheme by the covered share of the sky, 0 to 1."""
CLEARNESS: Final = ConditionScheme(
    "clearness",
    ("above 0.85", "up to 0.85", "up to 0.7", "up to 0.5", "up to 0.3", "up to 0.15"),
    upper=(0.15, 0.3, 0.5, 0.7, 0.85),
    descending=True,
)
"""Scheme by irradiance (or modelled production) relative to that of a clear sky."""

_GROUPS: Final = {
    "clear, sunny": "clear; sunny; hot; clear sky",
    "mostly sunny": "mostly sunny; mostly clear; sunny intervals",
    "fair": "fair; partly sunny",
    "partly cloudy": "partly cloudy; scattered clouds; broken clouds; few clouds; clouds and sun; "
    "clearing; increasing clouds; decreasing clouds",
    "flurries": "flurries; snow flurries; light flurries; light snow flurries",
    "mostly cloudy": "mostly cloudy; considerable cloudiness; cloudy intervals",
    "light rain, thunderstorms": "light rain; drizzle; light drizzle; sprinkles; light showers; "
    "light rain showers; few showers; thunder; thunderstorms; light thunderstorms; strong thunderstorms; "
    "severe thunderstorms; heavy thunderstorms; scattered thunderstorms; isolated thunderstorms; "
    "rain and thunder; light rain and thunder; thundershowers; thunderstorms and rain; "
    "light thunderstorms and rain; heavy thunderstorms and rain; thunder in the vicinity; "
    "thunderstorms in the vicinity",
    "rain, showers": "rain; moderate rain; showers; rain showers; scattered showers; isolated showers; "
    "showers in the vicinity",
    "light snow, mixes": "light snow; light snow showers; wintry mix; mix; sleet; light sleet; hail; "
    "rain and snow; snow and rain; rain and snow showers; light rain and snow; rain and sleet; "
    "snow and sleet; freezing rain; light freezing rain; freezing drizzle; ice pellets",
    "cloudy": "cloudy; overcast; clouds",
    "snow": "snow; moderate snow; snow showers; scattered snow showers; isolated snow showers; "
    "drifting snow; blowing snow",
    "fog, haze": "fog; haze; mist; smoke; dust; foggy; hazy; patchy fog; light fog; shallow fog; "
    "freezing fog; dense fog; low clouds",
    "heavy rain, heavy snow": "heavy rain; heavy rain showers; heavy drizzle; heavy showers; heavy snow; "
    "heavy snow showers; blizzard",
}
WORDS: Final = ConditionScheme("words", tuple(_GROUPS))
"""Scheme by the texts of weather services, in 13 groups (those of the authors' code)."""
_CLASS_OF: Final = {text: code for code, texts in enumerate(_GROUPS.values()) for text in texts.split("; ")}
_SYNONYMS: Final = (
    (r"\bt(?:hunder)?[- ]?storms?\b", "thunderstorms"),
    (r"\bshower\b", "showers"),
    (r"\bscatter\b", "scattered"),
    (r"\s*[/&+]\s*|\s+with\s+", " and "),
    (r"\s+", " "),
)
_WITHOUT_EFFECT: Final = re.compile(
    r"^(?:am|pm|windy|breezy) (?:and )?|(?:,| and)? (?:wind|windy|breezy|early|late|nearby)$"
)


def class_of_text(text: str) -> int:
    """Return the class in `WORDS` of a condition's text, such as "Partly Cloudy / Wind".

    Case, wind ("and wind", "/ windy") and the part of the day ("AM", "late") are ignored. Raises
    ConfigError that lists the known texts.
    """
    plain = " ".join(text.lower().split())
    for pattern, replacement in _SYNONYMS:
        plain = re.sub(pattern, replacement, plain)
    while plain not in _CLASS_OF:
        shorter = _WITHOUT_EFFECT.sub("", plain).strip()
        if shorter == plain:
            raise ConfigError(f"found {text.strip()!r}, expected one of: {known_texts()}")
        plain = shorter
    return _CLASS_OF[plain]


def known_texts() -> str:
    """Return the texts of `class_of_text`, group by group."""
    return "; ".join(texts.replace("; ", ", ") for texts in _GROUPS.values())


def clearness(values: FloatArray, first_hour: int, days: int = 15) -> FloatArray:
    """Return each hour's share of the maximum at that hour of the day within ``days`` days; NaN at night.

    ``values`` are hourly irradiances or modelled productions, [hours], from hour ``first_hour`` (since 1970,
    in local standard time) on; NaN if missing. This replaces "relative to a clear sky" in data
    without a clear-sky column.
    """
    by_day, before = day_rows(values, first_hour)
    most = running_most(by_day, days)
    ratio = np.divide(by_day, most, out=np.full_like(by_day, np.nan), where=most > 0)
    return ratio.ravel()[before : before + len(values)]


def day_rows(values: npt.ArrayLike, first_hour: int, fill: float = np.nan) -> tuple[FloatArray, int]:
    """Return hourly values as rows of whole days, [days, 24], and the number of hours added at the start."""
    numbers = np.asarray(values, dtype=np.float64)
    before = first_hour % 24
    after = -(before + len(numbers)) % 24
    return np.pad(numbers, (before, after), constant_values=fill).reshape(-1, 24), before


def running_most(by_day: FloatArray, days: int) -> FloatArray:
    """Return the maximum of each hour of the day within ``days`` days, [days, 24]; 0 if unknown."""
    padded = np.pad(np.nan_to_num(by_day, nan=0.0), ((days, days), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * days + 1, axis=0)
    most: FloatArray = windows.max(axis=-1)
    return most
