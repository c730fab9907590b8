"""Options of generated power events. This module imports little, so that a command starts fast."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from beasy_sched.declared import ABOVE_0, SEEDS, OptionDoc, check
from beasy_sched.model.choices import Interpolation
from beasy_sched.numbers import Range


class Route(str, Enum):
    """Source of the power."""

    AUTO = "auto"
    """The file's electricity where it has any, else its weather."""
    ELECTRICITY = "electricity"
    """The file's electricity, scaled from its capacity to the site's."""
    WEATHER = "weather"
    """Eq. 2.1 or 2.2 on the file's wind speed or irradiance."""


class Gaps(str, Enum):
    """Handling of hours that are missing in the window."""

    REFUSE = "refuse"
    INTERPOLATE = "interpolate"
    """A straight line over up to six intervals; longer gaps are rejected."""


class Night(str, Enum):
    """Handling of gaps of a PV file at night."""

    REFUSE = "refuse"
    ZERO = "zero"
    """Gaps count as 0: the logger is silent at night."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options for files of weather or power."""

    route: Annotated[
        Route, OptionDoc("take the file's electricity, or compute it from the file's weather")
    ] = Route.AUTO
    gaps: Annotated[
        Gaps,
        OptionDoc("how to handle missing hours: refuse the file, or interpolate gaps of up to six hours"),
    ] = Gaps.REFUSE
    night: Annotated[
        Night,
        OptionDoc(
            "how to handle gaps of the PV file at night: zero counts them as 0 (requires the location, from"
            " the file or --latitude and --longitude)"
        ),
    ] = Night.REFUSE
    interpolation: Annotated[
        Interpolation, OptionDoc("shape of the power within an hour; its energy is preserved either way")
    ] = Interpolation.SMOOTH


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """The plants whose power is generated, and when."""

    pv_kw: Annotated[float, OptionDoc("size of the site's PV plant (peak power)", unit="kW; 0: none")] = 0.0
    wind_kw: Annotated[float, OptionDoc("size of the site's turbines (rated power)", unit="kW; 0: none")] = (
        0.0
    )
    start: Annotated[
        str | None,
        OptionDoc(
            'when the power begins, such as ``"2024-06-01"``, UTC (default: the start of the files)',
            "Start of the window, UTC. [default: the file's]",
        ),
    ] = None
    days: Annotated[
        float, OptionDoc("length of the window", unit="days", range=Range(0, 36_600, above=True))
    ] = 3.0
    seed: Annotated[
        int,
        OptionDoc(
            "seed of the synthetic weather", "Seed of synthetic weather, and of --case between.", SEEDS
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class SyntheticWeather:
    """The climate of a place. Raises ConfigError when out of range."""

    latitude_deg: Annotated[
        float,
        OptionDoc("latitude of the place, degrees", "Synthetic: degrees north.", Range(-90, 90)),
    ] = 43.6
    cloudiness: Annotated[float, OptionDoc("mean cloud cover, 0 to 1", "Synthetic: 0 to 1.", Range(0, 1))] = (
        0.5
    )
    cloud_memory_h: Annotated[
        float, OptionDoc("hours after which the clouds' correlation has fallen to 1/e", range=ABOVE_0)
    ] = 6.0
    wind_mean_m_s: Annotated[
        float,
        OptionDoc(
            "mean wind speed at the hub, m/s", "Synthetic: mean wind, m/s.", Range(0, 1000, above=True)
        ),
    ] = 4.0
    """By default that of an inland site with small turbines."""
    wind_shape: Annotated[
        float, OptionDoc("shape of the Weibull distribution of wind speeds", range=ABOVE_0)
    ] = 2.0
    wind_memory_h: Annotated[
        float, OptionDoc("hours after which the wind's correlation has fallen to 1/e", range=ABOVE_0)
    ] = 8.0

    def __post_init__(self) -> None:
        check(self)
