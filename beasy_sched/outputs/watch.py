"""Live view of a run in the terminal: levels, powers, the plan, servers, queue, decisions."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine import Session
from beasy_sched.engine.actions import DecisionLog, Facts
from beasy_sched.engine.observed import Observer
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.host_states import HostState
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.outputs.quantities import clock, count, printable, span
from beasy_sched.planner.plan import PlanStore
from beasy_sched.units import SECONDS_PER_HOUR, power_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_LEAST_S: Final = 0.25
"""Minimum wall-clock time between two updates, s."""
_MOST_S: Final = 1.0
"""Wall-clock time after which the next update is due in any case, s."""
_MOST_SHARE: Final = 0.01
"""Maximum share of the CPU time for updates, up to ``_MOST_S``."""
_DECISIONS: Final = 8
"""Number of recent decisions shown."""
_LABEL: Final = 12
_BAR: Final = 16
_AHEAD_H: Final = 12.0
_AHEAD_CELLS: Final = 24
_LEVELS: Final = "▁▂▃▄▅▆▇█"


class Decided(NamedTuple):
    """Line of the decision log."""

    time_s: float
    action: str
    job: str
    hosts: str
    rule: str


class Watch(Observer):
    """Live view of a session, updated a few times per second on a terminal."""

    def __init__(
        self,
        console: Console,
        policy: str,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        processor_s: Callable[[], float] = time.process_time,
    ) -> None:
        """``clock_s`` returns the wall-clock time, ``processor_s`` the CPU time used, s."""
        self._console, self._policy = console, policy
        self._clock_s, self._processor_s = clock_s, processor_s
        self._decided: deque[Decided] = deque(maxlen=_DECISIONS)
        self._show: Callable[[Session], None] | None = None
        self._drawn_s = self._began_s = -math.inf
        """Wall-clock times of the last update and of the start of the run, s."""
        self._again_at_s = -math.inf
        """CPU time from which the next update is due, s."""
        self._share: float | None = None
        self._news: ForecastNews | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[Watch]:
        """Update the view while the block runs; the last view stays, even after an exception."""
        from rich.live import Live

        self._began_s = self._clock_s()
        live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # output of a policy goes above the view
            vertical_overflow="crop",
        )
        with live:
            self._show = lambda session: live.update(self._picture(session), refresh=True)
            try:
                yield self
            finally:
                self._show = None

    def progress(self, share: float) -> None:
        """Record the share of the jobs that have been submitted."""
        self._share = share

    def note_forecast(self, news: ForecastNews) -> None:
        """Show the newest forecast of the run's future from the next update on."""
        self._news = news

    def decision_log(self) -> DecisionLog:
        """Return a decision log that keeps the last decisions."""

        def note(time_s: float, action: str, job: str, hosts: str, rule: str, facts: Facts) -> None:
            if action != "compensate":
                self._decided.append(Decided(time_s, action, job, hosts, rule))

        return note

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Update the view regularly, and at the end."""
        if self._clock_s() >= self._drawn_s + _LEAST_S or session.ended:
            self._draw(session)

    def _draw(self, session: Session) -> None:
        """Draw the session, unless that would take too much CPU time."""
        before_s = self._processor_s()
        waited_s = self._clock_s() - self._drawn_s
        if self._show is None or (before_s < self._again_at_s and waited_s < _MOST_S and not session.ended):
            return
        self._show(session)
        after_s = self._processor_s()
        self._drawn_s, self._again_at_s = self._clock_s(), after_s + (after_s - before_s) / _MOST_SHARE

    def _picture(self, session: Session) -> Text:
        from rich.text import Text

        real_s = self._clock_s() - self._began_s
        lines = picture(session, self._policy, real_s, self._share, self._decided)
        if self._news is not None:
            lines.append(("Forecast", _forecast(self._news)))
        text = Text(no_wrap=True, overflow="ellipsis")
        for label, line in lines:
            text.append(f"{label:<{_LABEL}}", "bold")
            text.append(f"{line}\n")
        return text


def picture(
    session: Session, policy: str, real_s: float, share: float | None, decided: deque[Decided]
) -> list[tuple[str, str]]:
    """Return the lines of the view, each with its heading.

    ``real_s`` is the wall-clock time since its start, ``share`` the share of its jobs submitted so far,
    None if unknown.
    """
    now = max(session.now, 0.0)
    lines = [("Run", _head(session, policy, now, share))]
    if real_s > 0.0:
        lines.append(("Running for", f"{span(real_s)}, {now / real_s:,.0f} times real time"))
    if (side := session.power) is not None:
        lines += [*_levels(side, now), *_powers(side)]
        lines += [] if side.plans is None else _ahead(side.plans, now)
    lines += [("Servers", _servers(session)), ("Jobs", _jobs(session)), ("Queue", _queue(session, now))]
    last = [_decision(each) for each in reversed(decided)]
    return [*lines, *zip(("Decisions", *[""] * len(last)), last, strict=False)]


def _head(session: Session, policy: str, now: float, share: float | None) -> str:
    """Describe policy, time and progress."""
    parts = [policy, clock(now)]
    if session.power is not None:
        parts[-1] += f" of {clock(session.power.end_s)}"
    if share is not None:
        parts.append(f"{100.0 * share:.0f} % of the jobs submitted")
    return "; ".join(parts)


def _levels(side: PowerSide, now: float) -> Iterator[tuple[str, str]]:
    """Describe the levels of battery and tank, with the planned ones."""
    storage, held = side.site.storage, side.storage
    place = None if side.plans is None else side.plans.place(now)
    planned = None
    if side.plans is not None and place is not None:
        planned = side.plans[place.window].level_at(place.step)
    if storage.battery.exists:
        battery, soc_pct = storage.battery, storage.battery.soc_pct(held.battery_j)
        plan = "" if planned is None else f", {battery.soc_pct(planned.battery_j):.1f} % planned"
        limits = f"target {battery.target_text} % ({battery.soc_min_pct:g} to {battery.soc_max_pct:g} %)"
        yield "Battery", f"{_bar(soc_pct / 100.0)}  {soc_pct:.1f} %{plan}; {limits}"
    if storage.hydrogen is not None:
        tank_kg = storage.hydrogen.tank_kg
        plan = "" if planned is None else f", {planned.hydrogen_kg:.2f} kg planned"
        text = (
            f"{held.hydrogen_kg:.2f} of {tank_kg:g} kg{plan}; target {storage.hydrogen.level_target_kg:g} kg"
        )
        yield "Hydrogen", f"{_bar(held.hydrogen_kg / tank_kg)}  {text}"
    for number, device in enumerate(storage.other_devices):
        level, most = held.others[number], device.bounds.most
        shown = [device.level_text(device.shown(each)) for each in (level, most, device.target)]
        plan = (
            "" if planned is None else f", {device.level_text(device.shown(planned.others[number]))} planned"
        )
        title = f"{device.title[0].upper()}{device.title[1:]}"
        yield title, f"{_bar(level / most)}  {shown[0]} of {shown[1]}{plan}; target {shown[2]}"


def _forecast(news: ForecastNews) -> str:
    """Describe the newest forecast of the run."""
    parts = [f"of {clock(news.time_s)}"]
    if news.starts_s:
        low_s, high_s = min(news.starts_s.values())
        parts.append(f"next start {clock(low_s)} to {clock(high_s)}")
    if news.shortage is not None:
        parts.append(f"energy runs short: {100.0 * news.shortage:.0f} %")
    if news.misses_target is not None:
        parts.append(f"target missed: {100.0 * news.misses_target:.0f} %")
    return "; ".join(parts)


def _bar(share: float) -> str:
    """Draw a level between 0 and 1."""
    full = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * full + "░" * (_BAR - full)


_FLOWS: Final = {
    "demand_w": "servers",
    "cooling_w": "cooling",
    "base_w": "base load",
    "charge_w": "charging",
    "discharge_w": "discharging",
    "electrolyzer_w": "electrolyzer",
    "fuel_cell_w": "fuel cell",
    "import_w": "from the grid",
    "export_w": "to the grid",
    "curtailed_w": "curtailed",
    "unserved_w": "unserved",
}


def _powers(side: PowerSide) -> Iterator[tuple[str, str]]:
    """Describe current production, and the power flows of the last step."""
    arriving = "" if side.budget is None else f"{power_text(side.budget.renew_w)} of solar and wind"
    yield "Power now", arriving or "not yet known"
    if side.trace:
        record = side.trace[-1].record
        flows = [
            f"{name} {power_text(value_w)}"
            for field, name in _FLOWS.items()
            if (value_w := getattr(record, field)) >= 0.5
        ]
        yield "Last step", ", ".join(flows) or "no power drawn"


def _ahead(plans: PlanStore, now: float) -> Iterator[tuple[str, str]]:
    """Draw the next hours of the plan: production and servers' power on one scale, and the battery."""
    place = plans.place(now)
    if place is None:
        yield "Plan", "no plan for this time"
        return
    plan, first = plans[place.window], place.step
    last = min(first + round(_AHEAD_H * SECONDS_PER_HOUR / plan.step_s), plan.steps)
    renew_w, servers_w = plan.power.renew_w[first:last], plan.power.envelope_w[first:last]
    most_w = max(float(renew_w.max()), float(servers_w.max()), 1.0)
    hours = (last - first) * plan.step_s / SECONDS_PER_HOUR
    yield (
        "Plan",
        f"{_spark(renew_w, most_w)}  solar and wind, next {hours:.3g} h, up to {power_text(most_w)}",
    )
    yield "", f"{_spark(servers_w, most_w)}  for the servers, on the same scale"
    if plan.storage.battery.exists:
        soc_pct = plan.soc_pct[first : last + 1]
        yield "", f"{_spark(soc_pct, 100.0)}  battery, to {float(soc_pct[-1]):.1f} %"


def _spark(values: FloatArray, most: float) -> str:
    """Draw values from 0 to ``most`` in a line of cells, each as high as the mean of its part."""
    parts = np.array_split(values, min(_AHEAD_CELLS, len(values)))
    steps = [float(part.mean()) / most * (len(_LEVELS) - 1) for part in parts]
    line = "".join(_LEVELS[min(max(round(step), 0), len(_LEVELS) - 1)] for step in steps)
    return f"{line:<{_AHEAD_CELLS}}"


_STATES: Final = {
    HostState.BUSY: "computing",
    HostState.IDLE: "idle",
    HostState.ASLEEP: "asleep",
    HostState.SWITCHING_ON: "waking",
    HostState.SWITCHING_OFF: "falling asleep",
}


def _servers(session: Session) -> str:
    counts = session.cluster.state_counts.sum(axis=0)
    shown = [f"{counts[state]:,} {name}" for state, name in _STATES.items() if counts[state]]
    missing = int(np.count_nonzero(~session.cluster.available))
    return (", ".join(shown) or "none yet") + (f"; {missing:,} lost or out of service" if missing else "")


def _jobs(session: Session) -> str:
    ended = {name: number for name, number in session.outcomes.counts().items() if number}
    parts = [f"{session.submitted:,} submitted", f"{len(session.cluster.running):,} running"]
    return ", ".join([*parts, *(f"{number:,} {name}" for name, number in ended.items())])


def _queue(session: Session, now: float) -> str:
    queue, held = session.cluster.queue, len(session.workflows.held)
    first = queue.first
    text = "empty"
    if first is not None:
        why = f" ({first.postponed_for})" if first.postponed_for else ""
        waits = f"waits for {span(now - first.subtime_s)}"
        text = f"{count(len(queue), 'job')}; {printable(first.id)}, {count(first.res, 'host')}, {waits}{why}"
    return text + (f"; {held:,} more wait for other jobs" if held else "")


def _decision(each: Decided) -> str:
    hosts = f" on {count(len(HostSet.parse(each.hosts)), 'host')}" if each.hosts else ""
    what = f"{each.action} {printable(each.job)}".rstrip()
    return f"{clock(each.time_s)}  {what}{hosts}" + (f": {printable(each.rule)}" if each.rule else "")
