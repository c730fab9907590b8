"""Options that forecasts add to ``simulate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from beasy_sched.cli.options import CommandOptions, Whole, option, parsed
from beasy_sched.errors import ConfigError
from beasy_sched.outputs.quantities import parse_moment
from beasy_sched.units import SECONDS_PER_HOUR, parse_duration

if TYPE_CHECKING:
    from beasy_sched.run.following import RunFollower


_REPAIR_S: Final = 4 * SECONDS_PER_HOUR
"""Mean time to repair a server by default, s."""


def interval(text: str) -> float:
    """Return the time between forecasts, s. Raises ValueError."""
    every_s = parse_duration(text)
    if not 60.0 <= every_s <= 1e9:
        raise ValueError(f"{text!r} is not a valid interval: expected at least 60 s, such as 6h")
    return every_s


def _mean_time(text: str) -> float:
    """Return a mean time, s. Raises ValueError."""
    mean_s = parse_duration(text)
    if not 60.0 <= mean_s <= 1e12:
        raise ValueError(f"{text!r} is not a valid mean time: expected at least 60 s, such as 180d")
    return mean_s


class ForesightOptions(CommandOptions):
    """Times and sizes of the forecasts of a run."""

    foresee: float | None = option(
        "Forecast the run at this interval, such as 6h, with the run's own policy: starts of waiting jobs,"
        " levels of the storage. Writes PREFIX_foresee.jsonl.",
        type=parsed(interval),
        metavar="TIME",
    )
    foresee_at: tuple[float, ...] = option(
        "Forecast the run at this time, such as 1d6h. May be repeated.",
        type=parsed(parse_moment),
        multiple=True,
        metavar="TIME",
    )
    continuations: int | None = option(
        "Number of possible futures of each forecast.", "-n", type=Whole(1, 10_000), show_default="30"
    )
    at_once: int | None = option(
        "Number of futures computed at the same time.", "-j", type=Whole(1, 1000), show_default="processors"
    )

    mtbf: float | None = option(
        "Mean time between failures of a server in the futures of forecasts, such as 180d. Servers do not"
        " fail in them without it.",
        type=parsed(_mean_time),
        metavar="TIME",
    )
    repair: float | None = option(
        "Mean time to repair a server, with --mtbf.",
        type=parsed(_mean_time),
        metavar="TIME",
        show_default="4h",
    )

    def follower(self, warn: Callable[[str], None]) -> RunFollower | None:
        """Return what follows the run; None if no forecast is asked for. Raises ConfigError."""
        if self.foresee is None and not self.foresee_at:
            if self.continuations is not None or self.at_once is not None:
                raise ConfigError("-n and -j require --foresee or --foresee-at")
            if self.mtbf is not None:
                raise ConfigError("--mtbf requires --foresee or --foresee-at")
            if self.repair is not None:
                raise ConfigError("--repair requires --mtbf")
            return None
        if self.repair is not None and self.mtbf is None:
            raise ConfigError("--repair requires --mtbf")
        from beasy_sched.plugins.foresee.drawn_failures import FailureModel
        from beasy_sched.plugins.foresee.following import CONTINUATIONS, ForecastFollower, Moments

        return ForecastFollower(
            Moments(self.foresee, self.foresee_at),
            continuations=self.continuations or CONTINUATIONS,
            at_once=self.at_once,
            failures=None if self.mtbf is None else FailureModel(self.mtbf, self.repair or _REPAIR_S),
            warn=warn,
        )
