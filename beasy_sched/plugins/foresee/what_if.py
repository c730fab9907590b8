"""Comparison of a run with a changed one: both are continued from a moment in the same futures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import numpy as np

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.engine.session import Session
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.formats.batsim_events import ExternalEvent, read_external_events
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.changed_site import ChangedSite, change_site, read_changed_site
from beasy_sched.plugins.foresee.children import LIMIT_S, Lost, check_platform, default_at_once, run_children
from beasy_sched.plugins.foresee.continuation import (
    DECODER,
    ENCODER,
    ContinuedRun,
    ForkedMoment,
    Totals,
    horizon_s,
    moment_of,
    outcome,
    replace_future,
)
from beasy_sched.plugins.foresee.drawing import DrawnFuture, draw
from beasy_sched.plugins.foresee.following import CONTINUATIONS
from beasy_sched.plugins.foresee.known import known_at
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import POWER_FIELD
from beasy_sched.run.following import RunFollower
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.repeating import RepeatableRun, repeatable_run
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Simulation
from beasy_sched.units import counted


@dataclass(frozen=True)
class Change:
    """Change at the moment: only what can change at a running site."""

    policy: str | None = None
    """Name of another policy, with its default options."""
    lost: HostSet | None = None
    """Servers that break down."""
    production: str | None = None
    """Events file with the production from the moment on."""
    added: HostSet | None = None
    """Servers that are put back into service."""
    site: str | None = None
    """Site file with other limits and rates from the moment on."""

    @property
    def words(self) -> str:
        """The change in a few words."""
        parts = []
        if self.policy is not None:
            parts.append(f"policy {self.policy}")
        if self.lost is not None:
            parts.append(f"without servers {self.lost}")
        if self.production is not None:
            parts.append(f"production {self.production}")
        if self.added is not None:
            parts.append(f"with servers {self.added} back in service")
        if self.site is not None:
            parts.append(f"site {self.site}")
        return ", ".join(parts) or "unchanged"


@dataclass(frozen=True)
class Pair:
    """Outcomes of one future: as the run continued, and as changed."""

    as_it_was: ContinuedRun
    changed: ContinuedRun


@dataclass(frozen=True)
class ChangedComparison:
    """Outcomes with and without a change."""

    time_s: float
    until_s: float
    is_known: bool
    """Whether the only future is the one of the run."""
    has_site: bool
    has_battery: bool
    change: str
    pairs: tuple[Pair, ...]
    problems: tuple[str, ...]
    """Reasons for which continuations are missing, one for each."""


class _Over(BeasyError):
    """The moment has been continued: the rest of the repeated run is not needed."""


class _AtMoment(RunFollower):
    """Calls a function at a moment of a run, and then ends the run."""

    def __init__(self, time_s: float, act: Callable[[Simulation, ObservedSession], None]) -> None:
        self._time_s, self._act = time_s, act

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        """Pause at the moment."""

        def at_moment() -> None:
            session = running.session
            if session.begun and not session.over and horizon_s(session, self._time_s) > self._time_s:
                self._act(simulation, running)
                raise _Over

        simulation.pause_at(self._time_s, at_moment)


def repeat_to(run: RepeatableRun, time_s: float, act: Callable[[Simulation, ObservedSession], None]) -> None:
    """Repeat a run to a moment (s) and call ``act`` there. Raises ConfigError for a moment after the end."""
    files = RunFiles(None, run.settings, decisions=False)
    try:
        summary = run_in_process(run.inputs, files, metering=run.metering, followers=[_AtMoment(time_s, act)])
    except _Over:
        return
    raise ConfigError(
        f"--at: found {time_s:g} s, but the run {run.prefix} ended at {summary.end_s or 0.0:g} s:"
        " use an earlier time"
    )


def what_if(
    prefix: str,
    at_s: float,
    change: Change,
    *,
    is_known: bool = False,
    continuations: int = CONTINUATIONS,
    at_once: int | None = None,
    seed: int = 0,
    limit_s: float = LIMIT_S,
) -> ChangedComparison:
    """Compare a run from ``at_s`` on with the same run after a change, in the same futures.

    With ``is_known`` the only future is the real one. Raises ConfigError and InputError.
    """
    check_platform()
    run = repeatable_run(prefix)
    _check_change(change, run.settings)
    events = None if change.production is None else _production_events(change.production)
    site = None
    if change.site is not None and run.settings.site is not None:
        site = read_changed_site(change.site, run.settings.site, run.settings.site_name)
    found: list[ChangedComparison] = []

    def compare(simulation: Simulation, running: ObservedSession) -> None:
        session = running.session
        until_s = horizon_s(session, at_s)
        moment = moment_of(session, at_s, until_s)
        _check_hosts("--lose", change.lost, session, in_service=True)
        _check_hosts("--add", change.added, session, in_service=False)
        known = known_at(at_s, until_s, simulation, session)
        if events is not None and known.has_own and not is_known:
            raise ConfigError(
                "--production: the site file has sources, and drawn futures have only the sum of production:"
                " use --known"
            )
        numbers = [None] if is_known else [*range(continuations)]

        def task(number: int | None, is_changed: bool) -> bytes:
            drawn = None if number is None else draw(known, number, seed)
            if is_changed:
                return _continued(simulation, running, moment, drawn, change, events, site)
            return _continued(simulation, running, moment, drawn, Change())

        tasks = [partial(task, number, is_changed) for number in numbers for is_changed in (False, True)]
        results = run_children(tasks, at_once or default_at_once(), limit_s)
        pairs = [
            Pair(DECODER.decode(one), DECODER.decode(other))
            for one, other in zip(results[::2], results[1::2], strict=True)
            if isinstance(one, bytes) and isinstance(other, bytes)
        ]
        problems = tuple(result.problem for result in results if isinstance(result, Lost))
        power = session.power
        has_battery = power is not None and power.site.storage.battery.capacity_j > 0.0
        words = change.words
        found.append(
            ChangedComparison(
                at_s, until_s, is_known, power is not None, has_battery, words, tuple(pairs), problems
            )
        )

    repeat_to(run, at_s, compare)
    if not found[0].pairs:
        raise BeasyError(f"no continuation has a result: each {found[0].problems[0]}")
    return found[0]


def _check_change(change: Change, settings: RunSettings) -> None:
    """Raise ConfigError for a change that this run cannot have."""
    if change.policy is not None:
        policy = make_policy(change.policy)
        for requires, given, what in (
            (policy.needs_power, settings.site, "a site: pass --site"),
            (policy.needs_plan, settings.plan, "an offline plan: pass --plan"),
        ):
            if requires and given is None:
                raise ConfigError(
                    f"--policy {change.policy}: requires {what} FILE to 'simulate', and use that run"
                )
    if settings.site is None:
        for option, given in (("--site", change.site), ("--production", change.production)):
            if given is not None:
                raise ConfigError(
                    f"{option}: the run has no site, so its power has no limit that could change"
                )
    if change.lost is not None and change.added is not None:
        both = {*change.lost} & {*change.added}
        if both:
            raise ConfigError(f"--lose and --add: found {HostSet.of(both)} in both: omit it from one of them")


def _check_hosts(option: str, hosts: HostSet | None, session: Session, *, in_service: bool) -> None:
    """Raise ConfigError unless the hosts exist, and one of them is in service or not, as required."""
    if hosts is None:
        return
    if int(hosts.ids.max()) >= session.cluster.size:
        raise ConfigError(f"{option}: found {hosts}, but the servers are 0 to {session.cluster.size - 1}")
    if not (session.cluster.in_service[hosts.ids] == in_service).any():
        state = "out of service" if in_service else "in service"
        raise ConfigError(f"{option}: found {hosts}, but the servers are {state} at that time already")


def _production_events(path: str) -> list[ExternalEvent]:
    events = [
        event for event in read_external_events(path, forward_unknown=True) if POWER_FIELD in event.data
    ]
    if not events:
        raise ConfigError(f"--production {path}: found no event with {POWER_FIELD!r}")
    return events


def _continued(
    simulation: Simulation,
    running: ObservedSession,
    moment: ForkedMoment,
    drawn: DrawnFuture | None,
    change: Change,
    events: Sequence[ExternalEvent] | None = None,
    site: ChangedSite | None = None,
) -> bytes:
    """Continue a paused run after a change to the horizon; return the outcome, encoded."""
    session, world = running.session, simulation.world
    copy = running.detached()
    world.stop_tracing()
    if site is not None and session.power is not None:
        change_site(session.power, site)
    if drawn is not None:
        replace_future(simulation, session, moment, drawn)
    apply_change(simulation, session, moment, change, events)
    simulation.resume(copy.step, lambda: world.now < moment.until_s + 60.0, lambda: session.over)
    return ENCODER.encode(outcome(session, moment))


def apply_change(
    simulation: Simulation,
    session: Session,
    moment: ForkedMoment,
    change: Change,
    events: Sequence[ExternalEvent] | None = None,
) -> None:
    """Change a paused run."""
    if change.policy is not None:
        session.replace_policy(make_policy(change.policy))
    if events is not None:
        simulation.arrivals.replace_events([event for event in events if event.timestamp > moment.time_s])
    if change.lost is not None:
        simulation.break_hosts(change.lost)
    if change.added is not None:
        simulation.repair_hosts(change.added)


# --- the table ------------------------------------------------------------------------------------------

_ROWS: Final = {
    "jobs finished": lambda totals: totals.finished,
    "jobs killed": lambda totals: totals.killed,
    "mean wait [h]": lambda totals: totals.waited_s / 3600.0 / max(totals.started, 1),
}
_SITE_ROWS: Final = {
    "battery at the end [%]": lambda totals: totals.soc_pct,
    "wasted [kWh]": lambda totals: totals.wasted_kwh,
    "curtailed [kWh]": lambda totals: totals.curtailed_kwh,
    "unserved [kWh]": lambda totals: totals.unserved_kwh,
    "import [kWh]": lambda totals: totals.import_kwh,
    "cost": lambda totals: totals.cost,
    "share of futures short of energy": lambda totals: float(totals.is_short),
    "share of futures below the target": lambda totals: float(totals.misses_target),
}


class ComparedFigure(msgspec.Struct, frozen=True):
    """A figure of both continuations: means over the futures, and the interval of 80 % of the differences."""

    name: str
    as_it_was: float
    changed: float
    difference: float
    low: float
    high: float


def figures(comparison: ChangedComparison) -> list[ComparedFigure]:
    """Return the figures of a comparison, paired by future."""
    chosen: dict[str, Callable[[Totals], float]] = _ROWS | (_SITE_ROWS if comparison.has_site else {})
    rows = []
    for name, get in chosen.items():
        one = np.array([float(get(pair.as_it_was.totals)) for pair in comparison.pairs])
        other = np.array([float(get(pair.changed.totals)) for pair in comparison.pairs])
        low, high = np.quantile(other - one, (0.1, 0.9)).tolist()
        rows.append(
            ComparedFigure(
                name, float(one.mean()), float(other.mean()), float((other - one).mean()), low, high
            )
        )
    return rows


def table(comparison: ChangedComparison) -> list[str]:
    """Return the paired table as lines of text."""
    hours = (comparison.until_s - comparison.time_s) / 3600.0
    futures = "the real future" if comparison.is_known else counted(len(comparison.pairs), "future")
    lines = [
        f"{hours:,.4g} h from {comparison.time_s / 3600.0:,.4g} h on, in {futures}: {comparison.change}",
        "",
    ]
    cells = [("", "as it was", "changed", "difference" if comparison.is_known else "difference (80 %)")]
    for each in figures(comparison):
        interval = "" if comparison.is_known else f" ({each.low:+,.2f} to {each.high:+,.2f})"
        cells.append(
            (
                each.name,
                f"{each.as_it_was:,.2f}",
                f"{each.changed:,.2f}",
                f"{each.difference:+,.2f}{interval}",
            )
        )
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    for name, one, other, difference in cells:
        figures_text = f"{one:>{widths[1]}}  {other:>{widths[2]}}  {difference:>{widths[3]}}"
        lines.append(f"{name:<{widths[0]}}  {figures_text}".rstrip())
    return lines
