"""Options that forecasts add to ``serve`` and ``slurm run``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from beasy_sched.cli.options import CommandOptions, Whole, option, parsed
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.foresee.options import interval

if TYPE_CHECKING:
    from beasy_sched.run.following import LiveFollower


class LiveForesightOptions(CommandOptions):
    """Times and sizes of the forecasts of a live run."""

    foresee: float | None = option(
        "Forecast the run at this interval, such as 5m, with the run's own policy: starts of waiting jobs,"
        " levels of the storage. Writes PREFIX_foresee.jsonl.",
        type=parsed(interval),
        metavar="TIME",
    )
    continuations: int | None = option(
        "Number of possible futures of each forecast.", "-n", type=Whole(1, 10_000), show_default="30"
    )
    at_once: int | None = option(
        "Number of futures computed at the same time.",
        "-j",
        type=Whole(1, 1000),
        show_default="half of the processors",
    )

    def live_follower(self, warn: Callable[[str], None], *, is_real_time: bool) -> LiveFollower | None:
        """Return what follows the run; None if no forecast is asked for. Raises ConfigError."""
        if self.foresee is None:
            if self.continuations is not None or self.at_once is not None:
                raise ConfigError("-n and -j require --foresee")
            return None
        from beasy_sched.plugins.foresee.following import CONTINUATIONS
        from beasy_sched.plugins.foresee.live import LiveForecaster

        return LiveForecaster(
            self.foresee,
            continuations=self.continuations or CONTINUATIONS,
            at_once=self.at_once,
            is_real_time=is_real_time,
            warn=warn,
        )
