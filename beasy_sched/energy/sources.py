"""Sources of a site's production: a list of (name, kind, series).

A kind is one entry of `KINDS`. Its part of the production is either announced by power events, in the kind's
field, or given by the site file, in a table ``[[source]]`` with the keys of the kind's section. Announced
parts are included in the announced production; a series of the site file adds to it. What no kind names is
wind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.device import SiteSection
from beasy_sched.errors import ConfigError
from beasy_sched.units import power_text


class Series(Protocol):
    """Power of a source over time."""

    def mean_w(self, start_s: float, end_s: float) -> float:
        """Return the mean power (W) between two times of the run (s)."""


class SourceSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of a source in a site file, in addition to its name and kind."""

    def series(self) -> Series:
        """Return the power over time. Raises `FieldError` for a value out of range."""
        raise NotImplementedError


@dataclass(frozen=True)
class SourceKind:
    """A kind of energy source."""

    name: str
    title: str
    """Name in sentences, such as ``solar``."""
    field: str
    """Field of a power event with the kind's part of the production, W."""
    column: str
    """Column of the energy trace with the mean power, W."""
    section: type[SourceSection] | None = None
    """Keys of a source in a site file; None if power events alone give its power."""
    paint: str = "production"
    """Colour in charts."""
    explained: bool = True
    """Whether `explain` describes its power in each step."""

    def step_words(self, row: Mapping[str, float]) -> str:
        """Describe the source in a step of the trace; empty if it is not described."""
        power_w = row.get(self.column)
        if power_w is None or not self.explained:
            return ""
        return f"{self.title[0].upper()}{self.title[1:]}: {power_text(power_w)} of the production"


SUN: Final = SourceKind("sun", "sun", "sun_available", "sun_w", explained=False)

ENTRY_POINTS: Final = "beasy_sched.sources"
"""Entry-point group through which other packages add kinds of source."""

KINDS: Final[dict[str, SourceKind]] = {SUN.name: SUN}
"""Known kinds by name."""


def register(kind: SourceKind) -> None:
    """Add a kind of source. Raises ConfigError if its name, field or column is another kind's."""
    for other in KINDS.values():
        if other is not kind and (kind.name == other.name or kind.field == other.field
                                  or kind.column == other.column):  # fmt: skip
            raise ConfigError(
                f"source {kind.name!r}: its name, field or column is that of {other.name!r}: choose others"
            )
    KINDS[kind.name] = kind


def source_kinds() -> tuple[SourceKind, ...]:
    """Return all kinds, with those of other packages. Raises ConfigError for one that cannot be loaded."""
    _load_others()
    return tuple(KINDS.values())


@cache
def _load_others() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in KINDS:
            try:
                register(point.load())
            except ConfigError:
                raise
            except Exception as error:
                raise ConfigError(f"source {point.name!r}: cannot load {point.value}: {error}") from error


@dataclass(frozen=True)
class SiteSource:
    """A source of the site file."""

    name: str
    kind: SourceKind
    series: Series | None
    """Power that it adds to the announced production; None if power events announce it."""


def with_own_w(sources: Sequence[SiteSource], announced_w: FloatArray, step_s: float) -> FloatArray:
    """Return the production (W) of each step from time 0 on, with the sources whose series the site gives.

    ``announced_w`` is that of power events, or of a forecast of them.
    """
    for series in (source.series for source in sources if source.series is not None):
        steps = range(len(announced_w))
        announced_w = announced_w + [series.mean_w(step * step_s, (step + 1) * step_s) for step in steps]
    return announced_w
