"""Metrics of a run for Prometheus: levels, powers, servers, queue, decisions, latency.

The run's thread leaves a small picture of the session after each message, and never waits; whoever asks for
the page makes it of the last picture, in a thread of its own. Names and units follow Prometheus' conventions
(https://prometheus.io/docs/practices/naming/): base units, counters end in ``_total``.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from beasy_sched._version import __version__
from beasy_sched.energy.balance import StepRecord
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.engine import Session
from beasy_sched.engine.run import Observer
from beasy_sched.extras import load_optional
from beasy_sched.model.decisions import Decision, ExecuteJob, KillJobs, RejectJob, Reply, SetResourceState
from beasy_sched.model.events import Message
from beasy_sched.model.host_states import HostState
from beasy_sched.model.jobs import JobState, Outcomes

_BOUNDS_S: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the histogram's buckets, s; one more bucket holds what took longer."""

_STATES: Final = tuple(state.name.lower() for state in HostState)
"""Labels of servers, by `HostState`."""

_ACTIONS: Final[dict[type[Decision], tuple[str, Callable[[Any], int]]]] = {
    ExecuteJob: ("start", lambda decision: 1),
    RejectJob: ("reject", lambda decision: 1),
    KillJobs: ("kill", lambda decision: len(decision.job_ids)),
    SetResourceState: ("set_pstate", lambda decision: len(decision.resources)),
}
"""Decisions that are counted: the label, and how many jobs or servers one is for."""


class _Power(Struct, frozen=True, gc=False):
    """A picture of the power side of a run; nothing of it changes later."""

    storage: Storage
    held: StorageState
    production_w: float
    announced_s: float
    """When production was announced last, time of the run; -inf for never."""
    last: StepRecord | None
    """The last settled step."""


class _Seen(Struct, frozen=True, gc=False):
    """A picture of a session after a message; nothing of it changes later."""

    now_s: float = 0.0
    servers: bytes = b""
    """The cluster's ``state_counts``."""
    unavailable: int = 0
    waiting: int = 0
    held: int = 0
    running: int = 0
    submitted: int = 0
    ended: int = 0
    """Number of the session's outcomes."""
    power: _Power | None = None


class _Gauge(NamedTuple):
    """A metric with one value, which is left out where ``read`` returns None."""

    name: str
    help: str
    read: Callable[[_Seen], float | None]


def _of_power(read: Callable[[_Power], float | None]) -> Callable[[_Seen], float | None]:
    return lambda seen: None if seen.power is None else read(seen.power)


def _last_step(name: str, help: str, field: str) -> _Gauge:
    """A power of the last settled step."""
    return _Gauge(
        f"beasy_{name}_watts",
        f"{help}, mean of the last step.",
        _of_power(lambda power: None if power.last is None else getattr(power.last, field)),
    )


def _soc_ratio(power: _Power) -> float | None:
    battery = power.storage.battery
    return battery.soc_pct(power.held.battery_j) / 100.0 if battery.exists else None


_GAUGES: Final = (
    _Gauge(
        "beasy_run_seconds",
        "Time of the run at its last message.",
        lambda seen: seen.now_s,
    ),
    _Gauge(
        "beasy_state_of_charge_ratio",
        "State of charge of the battery, 0 to 1, when the present step began.",
        _of_power(_soc_ratio),
    ),
    _Gauge(
        "beasy_battery_joules",
        "Energy in the battery when the present step began.",
        _of_power(lambda power: power.held.battery_j if power.storage.battery.exists else None),
    ),
    _Gauge(
        "beasy_hydrogen_grams",
        "Hydrogen in the tank when the present step began.",
        _of_power(lambda power: None if power.storage.hydrogen is None else 1000.0 * power.held.hydrogen_kg),
    ),
    _Gauge(
        "beasy_production_watts",
        "Production of sun and wind as announced last.",
        _of_power(lambda power: power.production_w),
    ),
    _last_step("demand", "Power of the servers", "demand_w"),
    _last_step("base_load", "Power of what always runs beside the servers", "base_w"),
    _last_step("charge", "Power into the battery", "charge_w"),
    _last_step("discharge", "Power out of the battery", "discharge_w"),
    _last_step("electrolyzer", "Power into the electrolyzer", "electrolyzer_w"),
    _last_step("fuel_cell", "Power out of the fuel cell", "fuel_cell_w"),
    _last_step("grid_import", "Power taken from the grid", "import_w"),
    _last_step("grid_export", "Power fed into the grid", "export_w"),
    _last_step("curtailed", "Production that nothing could take", "curtailed_w"),
    _last_step("unserved", "Demand that nothing could serve", "unserved_w"),
    _Gauge(
        "beasy_servers_unavailable",
        "Servers that are out of service or lost.",
        lambda seen: seen.unavailable,
    ),
    _Gauge("beasy_jobs_waiting", "Jobs in the queue.", lambda seen: seen.waiting),
    _Gauge("beasy_jobs_held", "Jobs that wait for other jobs to end.", lambda seen: seen.held),
    _Gauge("beasy_jobs_running", "Jobs that run.", lambda seen: seen.running),
)


class Metrics(Observer):
    """Follows a session, or one after another, and tells Prometheus of it."""

    def __init__(self, policy: str, *, clock_s: Callable[[], float] = time.time) -> None:
        """No session is followed. ``clock_s`` tells the real time, s since 1970.

        Raises ConfigError where the package prometheus-client is missing.
        """
        self._client = load_optional("prometheus_client", "beasy-sched[metrics]", "--metrics")
        self._families = load_optional("prometheus_client.core", "beasy-sched[metrics]", "--metrics")
        self._policy, self._clock_s = policy, clock_s
        self._session: Session | None = None
        self._began_s = 0.0
        """When the last message arrived, by the clock of `time.perf_counter`, s."""
        self._seen = _Seen()
        self._outcomes = Outcomes()
        self._submitted_before = 0
        """Number of jobs that were submitted in the sessions before."""
        self._ended: Counter[str] = Counter()
        """Ended jobs by their state, so far as they are counted, of all sessions."""
        self._counted = 0
        """Number of the present session's outcomes that are in ``_ended``."""
        self._ending = threading.Lock()
        """Guards the four above."""
        self._decided = {label: 0 for label, _ in _ACTIONS.values()}
        self._took = [0] * (len(_BOUNDS_S) + 1)
        """Number of messages in each bucket of the histogram."""
        self._took_s = 0.0
        self._reading_s: float | None = None
        self._registry = self._client.CollectorRegistry()
        self._registry.register(self)

    @property
    def content_type(self) -> str:
        """The type of `page`, for HTTP."""
        return str(self._client.CONTENT_TYPE_LATEST)

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format; any thread may call it."""
        return bytes(self._client.generate_latest(self._registry))

    # --- what the run's thread calls ---------------------------------------------------------------

    def begin(self, session: Session) -> None:
        """Follow ``session`` from now on; counters continue from those of the sessions before."""
        with self._ending:
            self._count_ended(len(self._outcomes))
            self._submitted_before += self._seen.submitted
            self._outcomes, self._counted, self._seen = session.outcomes, 0, _Seen()
        self._session = session

    def before(self, message: Message) -> None:
        """Note when a message arrived."""
        self._began_s = time.perf_counter()

    def after(self, message: Message, reply: Reply) -> None:
        """Note the state of the session after a message; takes some microseconds."""
        if self._session is not None:
            self._note(self._session, reply, time.perf_counter() - self._began_s)

    def note_power_reading(self, at_s: float) -> None:
        """Note when a source of power was last heard of, s since 1970: its age is told from then on.

        Without it, the age is that of the production announced last, in the time of the run.
        """
        self._reading_s = at_s

    def _note(self, session: Session, reply: Reply, took_s: float) -> None:
        """Note a message that took ``took_s``, and what the session is like after it."""
        self._took[bisect_left(_BOUNDS_S, took_s)] += 1
        self._took_s += took_s
        for decision in reply.decisions:
            if counted := _ACTIONS.get(type(decision)):
                self._decided[counted[0]] += counted[1](decision)
        cluster, side = session.cluster, session.power
        power = None
        if side is not None:
            production, trace = side.production, side.trace
            power = _Power(
                side.site.storage,
                side.storage,
                production.power_w,
                production.announced_s,
                trace[-1].record if trace else None,
            )
        self._seen = _Seen(
            session.now,
            cluster.state_counts.tobytes(),
            0 if cluster.all_available else cluster.size - int(np.count_nonzero(cluster.available)),
            len(cluster.queue),
            len(session.workflows.held),
            len(cluster.running),
            session.submitted,
            len(session.outcomes),
            power,
        )

    # --- what a scrape calls -----------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """Yield all metrics, as a registry of prometheus-client asks for them; any thread may call it."""
        make = self._families
        with self._ending:
            seen = self._seen
            self._count_ended(seen.ended)
            ended, submitted = Counter(self._ended), self._submitted_before + seen.submitted
        about = {"version": __version__, "policy": self._policy}
        yield make.InfoMetricFamily("beasy", "The program and its policy.", about)
        for gauge in _GAUGES:
            if (value := gauge.read(seen)) is not None:
                yield make.GaugeMetricFamily(gauge.name, gauge.help, value)
        if (age_s := self._staleness_s(seen)) is not None:
            yield make.GaugeMetricFamily(
                "beasy_power_staleness_seconds",
                "Age of the last reading of the source of power, or simulated time since it was announced.",
                age_s,
            )
        counts = np.frombuffer(seen.servers, np.int64).reshape(-1, len(_STATES)).sum(axis=0)
        servers = dict(zip(_STATES, counts.tolist(), strict=True))
        yield _by_label(
            make.GaugeMetricFamily("beasy_servers", "Servers by state.", labels=["state"]), servers
        )
        yield make.CounterMetricFamily("beasy_jobs_submitted", "Jobs that were submitted.", submitted)
        jobs = make.CounterMetricFamily(
            "beasy_jobs_ended", "Jobs that have left, by outcome.", labels=["state"]
        )
        yield _by_label(jobs, {JobState(name).name.lower(): number for name, number in ended.items()})
        decisions = make.CounterMetricFamily(
            "beasy_decisions",
            "Jobs that were started, rejected or killed, servers that were given another P-state.",
            labels=["action"],
        )
        yield _by_label(decisions, {**self._decided})
        yield self._latency()

    def _staleness_s(self, seen: _Seen) -> float | None:
        if self._reading_s is not None:
            return max(self._clock_s() - self._reading_s, 0.0)
        if seen.power is None or seen.power.announced_s == -math.inf:
            return None
        return max(seen.now_s - seen.power.announced_s, 0.0)

    def _latency(self) -> Any:
        up_to = [*accumulate([*self._took])]
        bounds = [*map(str, _BOUNDS_S), "+Inf"]
        return self._families.HistogramMetricFamily(
            "beasy_decision_seconds",
            "Real time from a message to the decisions about it.",
            [*zip(bounds, up_to, strict=True)],
            self._took_s,
        )

    def _count_ended(self, up_to: int) -> None:
        """Count the outcomes of the present session up to number ``up_to``; hold the lock meanwhile."""
        self._ended.update(self._outcomes.counts(self._counted, up_to))
        self._counted = up_to


def _by_label(family: Any, values: dict[str, int]) -> Any:
    """Give a metric a value for each value of its only label."""
    for label, value in values.items():
        family.add_metric([label], value)
    return family
