"""Forecasts of a live run: its state continues in a simulator, in processes for which the run never waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from beasy_sched.engine.observed import ObservedSession, Observer
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.formats import run_files
from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.plugins.foresee.batch import Batch
from beasy_sched.plugins.foresee.children import LIMIT_S, Lost, default_at_once
from beasy_sched.plugins.foresee.following import CONTINUATIONS, ForecastFollower, Moments
from beasy_sched.plugins.foresee.forecast import DECODER, ENCODER, MomentForecast, promises
from beasy_sched.plugins.foresee.line_file import LineFile
from beasy_sched.plugins.foresee.past import PastOfRun
from beasy_sched.run.following import LiveFollower
from beasy_sched.simulator.from_session import check_hosts, simulation_of
from beasy_sched.units import TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.model.jobs import Job
    from beasy_sched.outputs.files import RunFiles

_RARELY: Final = 0.5
"""Share of the futures in which a job does not start, from which no start is reported."""

_PATIENCE_S: Final = 10.0
"""Longest time for which the end of a simulated run waits for the forecast under way, s."""


class _Made(msgspec.Struct, array_like=True):
    """Result of a batch."""

    forecast: bytes
    """Line of the forecast; empty if there is none."""
    problems: list[str]


_MADE: Final = msgspec.msgpack.Decoder(_Made)


class LiveForecaster(ForecastFollower, LiveFollower):
    """Forecasts of a run whose simulator or cluster is elsewhere, one batch of continuations at a time."""

    def __init__(
        self,
        every_s: float,
        *,
        continuations: int = CONTINUATIONS,
        at_once: int | None = None,
        is_real_time: bool = True,
        limit_s: float | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``is_real_time``: the run's time is wall-clock time; its first forecast is then made at once.

        A batch is late after ``limit_s`` (None: the interval, at most 10 minutes). ``at_once``
        None: half of the processors. Raises ConfigError without fork.
        """
        super().__init__(
            Moments(every_s),
            continuations=continuations,
            at_once=at_once or max(default_at_once() // 2, 1),
            warn=warn,
        )
        self.made = self.dropped = 0
        self._batch_limit_s = limit_s or (min(every_s, LIMIT_S) if is_real_time else LIMIT_S)
        self._patience_s = 0.0 if is_real_time else _PATIENCE_S
        self._due_s = 0.0 if is_real_time else every_s
        self._past = PastOfRun()
        self._batch: Batch | None = None
        self._batch_s = 0.0
        """Time of the forecast under way, s."""
        self._waiting: tuple[Job, ...] = ()
        """Jobs that waited at that time."""
        self._dying: list[Batch] = []
        self._lines: LineFile | None = None
        self._is_possible = True
        self._said: set[str] = set()

    @property
    def observers(self) -> Sequence[Observer]:
        """The observer that keeps the past."""
        return (self._past,)

    def join(
        self, running: ObservedSession, files: RunFiles, user_of: Callable[[str], str | None] | None = None
    ) -> None:
        """Prepare for a session."""
        self._running = running
        if user_of is not None:
            self._past.user_of = user_of
        if files.prefix is not None:
            self._lines = LineFile(Path(run_files.path_of(files.prefix, run_files.FORESEE)))

    # --- the run's process: each step is short ------------------------------------------------------------

    def look(self, now: float) -> None:
        """Take the forecast that is done, and begin the one that is due."""
        self._dying = [batch for batch in self._dying if not batch.is_gone()]
        if self._batch is not None:
            self._take(self._batch)
        if now < self._due_s or not self._is_possible:
            return
        session, power = self._running.session, self._running.session.power
        if not session.begun or session.over or session.ended:
            return
        if power is not None and now >= power.end_s - TIME_TOLERANCE_S:
            return
        self._due_s = self._moments.next_s(now)
        if self._batch is not None:
            self.dropped += 1
            self._say_once("a forecast was due while another one was computed: it was omitted")
            return
        self._begin_batch(max(now, session.now))

    def _begin_batch(self, time_s: float) -> None:
        try:
            check_hosts(self._running.session)
        except ConfigError as error:
            self._is_possible = False
            self._warn(f"no forecasts: {error}")
            return
        self._learn(time_s)
        self._waiting, self._batch_s = tuple(self._running.session.waiting_jobs()), time_s
        try:
            self._batch = Batch(lambda: self._work(time_s), self._batch_limit_s)
        except (OSError, MemoryError) as error:
            self.dropped += 1
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            self._say_once(f"no forecast: its process could not be begun: {reason}")

    def _take(self, batch: Batch) -> None:
        """Take the result of a batch that has ended, or drop it if it is late."""
        result = batch.result()
        if result is None:
            return
        self._batch = None
        if isinstance(result, Lost):
            self._dying.append(batch)
            self.dropped += 1
            self._say_once(f"a forecast {result.problem}: it was omitted")
            return
        made = _MADE.decode(result)
        for problem in made.problems:
            self._warn(problem)
        if not made.forecast:
            self.dropped += 1
            return
        self.made += 1
        forecast = DECODER.decode(made.forecast)
        self._awaited += [(promise, self._waiting[promise.place]) for promise in promises(forecast)]
        self._write(made.forecast)
        self.news = self._news(forecast)

    def _drop(self, batch: Batch) -> None:
        """Drop the forecast under way at the end of the run."""
        self._batch = None
        batch.drop()
        self._dying.append(batch)
        self.dropped += 1
        if not self.made:
            self._warn("no forecast: the run ended before the first one was computed")

    def _write(self, line: bytes) -> None:
        if self._lines is None:
            return
        try:
            self._lines.add(line)
        except OSError as error:
            self._say_once(f"a forecast could not be written: {error.strerror or error}")

    def _news(self, forecast: MomentForecast) -> ForecastNews:
        starts_s = {
            job.id: (job.start_s[0], job.start_s[-1])
            for job in forecast.jobs
            if job.start_s is not None and job.never <= _RARELY
        }
        return ForecastNews(
            forecast.time_s, starts_s, self.made, self.dropped, forecast.shortage, forecast.misses_target
        )

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._warn(text)

    def end(self, files: RunFiles) -> None:
        """Drop the forecast under way, and keep the file of forecasts."""
        end_s = time.monotonic() + self._patience_s
        while self._batch is not None:
            self._take(self._batch)
            if self._batch is not None and time.monotonic() >= end_s:
                self._drop(self._batch)
            elif self._batch is not None:
                time.sleep(0.01)
        for batch in self._dying:
            if not batch.is_gone():
                os.waitpid(batch.pid, 0)
        self._dying.clear()
        if self._lines is None:
            return
        try:
            files.add_parts(run_files.FORESEE, self._lines.parts())
        except (InputError, OSError) as error:
            self._warn(f"the forecasts could not be kept: {error}")
        self._lines.close()

    # --- the process of the forecast -----------------------------------------------------------------------

    def _work(self, time_s: float) -> bytes:
        """Make a forecast in a copy of the run's process."""
        problems: list[str] = []
        self._warn = problems.append
        session = self._running.session
        try:
            self._simulation = simulation_of(session, time_s, self._past.jobs, self._past.events)
            self._foresee(time_s)
        except (BeasyError, OSError, MemoryError) as error:
            problems.append(f"no forecast at {time_s:g} s: {error}")
        line = ENCODER.encode(self.forecasts[-1]) if self.forecasts else b""
        return msgspec.msgpack.encode(_Made(line, problems))
