"""Forecasts that are renewed during a run of `serve` or `slurm run`: ``--forecast``, ``--replan-production``.

`LiveForecasts` reads the sources; each run gets a `RunForecasts`, an observer that puts new forecasts into
use before a message is answered. What is in use, and what is reported, is decided by `forecast.renewal`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import UNSET

from beasy_sched.energy.site import Site
from beasy_sched.engine import Session
from beasy_sched.engine.actions import Facts
from beasy_sched.engine.observed import Observer
from beasy_sched.engine.session_words import (
    FORECAST_FAILED,
    FORECAST_IN_USE,
    FORECAST_OLDER,
    FORECAST_SHORT,
    FORECAST_STALE,
    Rule,
)
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.forecast.renewal import STALE_S, ForecastReport, Happening, RenewedForecast, with_issue
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.forecast_contents import ForecastContents, ForecastScale, Plants, parse_contents
from beasy_sched.formats.forecast_source import is_file
from beasy_sched.formats.recorded_forecast import RecordedForecast
from beasy_sched.formats.site_file import parse_site
from beasy_sched.formats.source_names import is_command
from beasy_sched.model.events import Message
from beasy_sched.run.forecast_reading import ForecastReader, ReadForecast, open_input
from beasy_sched.run.settings import FollowSettings, RunSettings
from beasy_sched.units import SECONDS_PER_DAY, kw_to_w

_LONGEST_S: Final = 366 * SECONDS_PER_DAY
"""Time for which the last power of an events file holds in a run that is longer, s."""
_RULES: Final[dict[Happening, Rule]] = {
    "renewed": FORECAST_IN_USE,
    "stale": FORECAST_STALE,
    "short": FORECAST_SHORT,
    "older": FORECAST_OLDER,
    "failed": FORECAST_FAILED,
}


class _Followed:
    """A source of forecasts: its reader, and what it read last."""

    def __init__(
        self,
        option: str,
        text: str,
        site: Site,
        settings: RunSettings,
        *,
        epoch_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        """Read the source named ``text``, the value of ``option``. Raises ConfigError and InputError."""
        follow = FollowSettings() if settings.follow is UNSET else settings.follow
        self.option, self.text, self._site, self._epoch_s = option, text, site, epoch_s
        self.stale_s = STALE_S if follow.stale_s is None else follow.stale_s
        self.watched = is_command(text) or follow.stale_s is not None
        self.run_s = site.window_s * settings.windows
        start, in_steps = _start(site), option != "--forecast"
        longest_s = min(self.run_s, max(2.0 * site.window_s, _LONGEST_S))
        self._scale = ForecastScale(
            step_s=site.step_s,
            most_steps=math.ceil(longest_s / site.step_s - 1e-9),
            time_0_s=epoch_s if epoch_s is not None or start is None else start.timestamp(),
            plants=Plants(*(None if kw is None else kw_to_w(kw) for kw in (follow.pv_kw, follow.wind_kw))),
            in_steps=in_steps,
            from_first=in_steps and epoch_s is None and not is_command(text),
        )
        source = open_input(text, follow.every_s)
        self.can_change = source is not None
        if source is not None:
            self.reader = ForecastReader(source, self._parse, clock=clock)
            self.latest = self.reader.first()
            found = self.latest.contents
            if self._scale.from_first and found is not None and found.begins_s is not None:
                self._scale = replace(self._scale, time_0_s=found.begins_s, from_first=False)

    def _parse(self, source: PathLike, data: bytes) -> ForecastContents:
        found = parse_contents(source, data, self._scale)
        if not self._scale.in_steps:
            return found
        table, own = found.table, [each.series for each in self._site.sources if each.series is not None]
        values = table.values
        for series in own:
            starts_s = table.valid_s.tolist()
            values = values + [
                series.mean_w(at, at + table.interval_s) if at >= 0 else 0.0 for at in starts_s
            ]
        return replace(found, table=replace(table, values=values)) if own else found

    def table(self, found: ForecastContents, read: ReadForecast, now_s: float) -> IssuedTable:
        """Return what was read as a table; if it states no issue, that is when it was written.

        In a run whose time is not that of the clock, it counts as issued now.
        """
        if found.states_issue:
            return found.table
        issued_s = now_s if self._epoch_s is None else min(read.at_s - self._epoch_s, now_s)
        return with_issue(found.table, issued_s)


class _InRun:
    """A followed source in one run."""

    def __init__(self, followed: _Followed, site: Site) -> None:
        read = followed.latest
        if read.contents is None:
            raise RuntimeError("a forecast was not read")
        table = followed.table(read.contents, read, 0.0)
        self._followed = followed
        self.renewed = RenewedForecast(
            followed.reader.name,
            table,
            stale_s=followed.stale_s,
            window_s=site.window_s,
            run_s=followed.run_s,
            watched=followed.watched,
        )
        self._start = _start(site)
        self.source = FileForecast(table, self._start)
        self.is_new = True
        """Whether the forecast in use has not been recorded yet."""
        if followed.watched:
            self.source.follow()
            self.renewed.reports.append(ForecastReport("renewed", 0.0))

    def advance(self, now_s: float) -> list[ForecastReport]:
        """Put what was read into use; return what is to be reported."""
        renewed, followed = self.renewed, self._followed
        for read in followed.reader.take():
            if read.contents is None:
                renewed.fail(read.problem, now_s)
                continue
            followed.latest = read
            if renewed.renew(followed.table(read.contents, read, now_s), now_s):
                self.source.renew(renewed.table)
                self.is_new = True
        renewed.check(now_s)
        if not renewed.reports:
            return renewed.reports
        self.source.follow()
        reports, renewed.reports = renewed.reports, []
        return reports

    def recorded(self) -> RecordedForecast:
        """Return the forecast in use, for a recording."""
        self.is_new, renewed = False, self.renewed
        option = self._followed.option
        return RecordedForecast.of(option, renewed.table, self._start, is_watched=renewed.watched)

    def facts(self, now_s: float) -> Facts:
        """Return the facts of a report for the decision log."""
        age_s = self.source.age_s(now_s)
        named = {"option": self._followed.option, "source": self.renewed.name}
        return named if age_s is None else {**named, "issued_at_s": now_s - age_s, "age_s": age_s}


class RunForecasts(Observer):
    """The followed forecasts of one run."""

    def __init__(self, followed: list[_Followed], site: Site | None, say: Callable[[str], None]) -> None:
        """``say`` reports warnings to the user."""
        self._all = [] if site is None else [_InRun(each, site) for each in followed]
        by_option = {each.option: run for each, run in zip(followed, self._all, strict=False)}
        self.forecast, self.production = (
            by_option[option].source if option in by_option else None
            for option in ("--forecast", "--replan-production")
        )
        """Forecast of ``--forecast``, and that of ``--replan-production``; None unless it is followed."""
        self._say = say
        self._keep: Callable[[RecordedForecast], None] | None = None

    def record(self, keep: Callable[[RecordedForecast], None]) -> None:
        """Have each forecast kept once it is in use, those of the beginning at once."""
        self._keep = keep
        self._keep_new()

    def _keep_new(self) -> None:
        if self._keep is not None:
            for each in self._all:
                if each.is_new:
                    self._keep(each.recorded())

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Observers that the run needs; none without a followed forecast."""
        return (self,) if self._all else ()

    def before(self, session: Session, message: Message) -> None:
        """Put new forecasts into use; report those that are old, too short, or cannot be read."""
        now_s = message.now
        for each in self._all:
            for report in each.advance(now_s):
                if report.text:
                    session.warn(report.text)
                    self._say(report.text)
                session.log_forecast(now_s, _RULES[report.happening], each.facts(now_s))
        self._keep_new()


class LiveForecasts:
    """The sources of a command's forecasts that are read again, for one run after another."""

    def __init__(
        self,
        settings: RunSettings,
        *,
        epoch_s: float | None = None,
        site_now: Callable[[Site], Site] | None = None,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the sources for the first time.

        ``epoch_s``: time 0 of the run, s since 1970, if the run's time is that of the clock; ``site_now``
        changes the site of the settings to its state now. Raises ConfigError and InputError.
        """
        self._followed: list[_Followed] = []
        self._say = say
        self._site: Site | None = None
        named = {
            "--forecast": settings.forecast if is_file(settings.forecast) else None,
            "--replan-production": None if settings.replan is None else settings.replan.production,
        }
        wanted = {option: text for option, text in named.items() if text is not None}
        if not wanted:
            if settings.follow is not UNSET:
                raise ConfigError(
                    "--forecast-stale, --forecast-every, --forecast-pv-kw and --forecast-wind-kw require a"
                    " forecast that is read again: --forecast or --replan-production with FILE or"
                    " command:PROGRAM"
                )
            return
        if settings.site is None:
            return  # reported when the session is built
        site = parse_site(settings.site, settings.site_name)
        self._site = site = site if site_now is None else site_now(site)
        found = (
            _Followed(option, text, site, settings, epoch_s=epoch_s, clock=clock)
            for option, text in wanted.items()
        )
        self._followed = [each for each in found if each.can_change]

    def start(self) -> None:
        """Begin to read the sources again, in threads."""
        for each in self._followed:
            each.reader.start()

    def look(self) -> None:
        """Read the sources once, in this thread, as the threads do."""
        for each in self._followed:
            each.reader.look()

    def begin(self) -> RunForecasts:
        """Return the forecasts of a run that begins, from what was read last."""
        return RunForecasts(self._followed, self._site, self._say)

    def hashes(self) -> Mapping[str, str]:
        """Return the SHA-256 of the production of plans as first read, by role."""
        for each in self._followed:
            if each.option == "--replan-production" and not is_command(each.text):
                return {"production": each.latest.sha256}
        return {}

    def close(self) -> None:
        """End the threads and running programs."""
        for each in self._followed:
            each.reader.close()


@contextmanager
def live_forecasts(forecasts: LiveForecasts) -> Iterator[LiveForecasts]:
    """Read the sources in threads while the block runs."""
    try:
        forecasts.start()
        yield forecasts
    finally:
        forecasts.close()


def _start(site: Site) -> datetime | None:
    return None if site.calendar is None else site.calendar.start
