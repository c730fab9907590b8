"""Interfaces to follow a run from outside of its session: pause it, look at it live, add files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from beasy_sched.engine.observed import ObservedSession, Observer
from beasy_sched.engine.session import Session
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.outputs.forecast_news import ForecastNews

if TYPE_CHECKING:
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.simulator import Simulation


class RunFollower:
    """Follows a run in one process; each method does nothing unless a subclass defines it."""

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        """Prepare for a simulation and its observed session, before the first message."""

    def end(self, files: RunFiles) -> None:
        """Add files to those of the run, after its last message. Raises nothing."""

    def lines(self) -> Iterable[str]:
        """Return what is printed below the summary."""
        return ()

    def figures(self) -> Mapping[str, object]:
        """Return what is added to the printed JSON of the summary, by name."""
        return {}


class ShowsForecasts(Protocol):
    """Shows the newest forecast."""

    def note_forecast(self, news: ForecastNews) -> None:
        """Show a forecast."""


class LiveFollower:
    """Follows a run whose simulator or cluster is elsewhere; methods do nothing unless defined."""

    news: ForecastNews | None = None
    """The newest forecast; None before the first."""

    @property
    def observers(self) -> Sequence[Observer]:
        """Observers of the session that it needs."""
        return ()

    def join(
        self, running: ObservedSession, files: RunFiles, user_of: Callable[[str], str | None] | None = None
    ) -> None:
        """Prepare for a session, before the first message; ``user_of`` returns the user of a job."""

    def look(self, now: float) -> None:
        """Act between messages, at the time of the run (s); returns soon. Raises nothing."""

    def end(self, files: RunFiles) -> None:
        """Stop everything under way, and add files to those of the run. Raises nothing."""


def live_followers_of(
    options: Sequence[object], warn: Callable[[str], None], *, is_real_time: bool
) -> list[LiveFollower]:
    """Return what follows a live run according to plug-ins' options, those of `Plugin.live_followers`.

    ``is_real_time``: the run's time is wall-clock time. Raises ConfigError.
    """
    made = (one.live_follower(warn, is_real_time=is_real_time) for one in options)  # type: ignore[attr-defined]
    return [follower for follower in made if follower is not None]


class _Looking(Observer):
    """Lets followers act after each message, and passes new forecasts on."""

    def __init__(self, followers: Sequence[LiveFollower], shown: Sequence[ShowsForecasts]) -> None:
        self._followers, self._shown = followers, shown

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Let the followers look."""
        look_ahead(self._followers, message.now, self._shown)


def look_ahead(
    followers: Sequence[LiveFollower], now: float, shown: Sequence[ShowsForecasts | None]
) -> ForecastNews | None:
    """Let followers act at ``now`` (s), and show a new forecast; return it if there is one."""
    newest = None
    for follower in followers:
        before = follower.news
        follower.look(now)
        if follower.news is not before:
            newest = follower.news
    if newest is not None:
        for one in shown:
            if one is not None:
                one.note_forecast(newest)
    return newest


def observers_of(
    followers: Sequence[LiveFollower], shown: Sequence[ShowsForecasts | None]
) -> tuple[Observer, ...]:
    """Return the observers that followers need, where they act after each message."""
    if not followers:
        return ()
    own = (each for one in followers for each in one.observers)
    return (*own, _Looking(followers, [one for one in shown if one is not None]))
