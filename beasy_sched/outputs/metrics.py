"""Metrics of a run for Prometheus: levels, powers, servers, queue, decisions, latency.

The run's thread stores a small snapshot of the session after each message and never waits; each request for
the page is served from the last snapshot, in a separate thread. Names and units follow Prometheus'
conventions (https://prometheus.io/docs/practices/naming/): base units, counters end in ``_total``.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from beasy_sched._version import __version__
from beasy_sched.energy.balance import StepRecord
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.engine import Session
from beasy_sched.engine.observed import Observer
from beasy_sched.extras import load_optional
from beasy_sched.model.decisions import Decision, ExecuteJob, KillJobs, RejectJob, Reply, SetResourceState
from beasy_sched.model.events import Message
from beasy_sched.model.host_states import HostState
from beasy_sched.model.jobs import JobState, Outcomes
from beasy_sched.outputs.forecast_news import ForecastNews

_BOUNDS_S: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the histogram's buckets, s; one more bucket holds longer times."""

_STATES: Final = tuple(state.name.lower() for state in HostState)
"""Labels of servers, by `HostState`."""

_ACTIONS: Final[dict[type[Decision], tuple[str, Callable[[Any], int]]]] = {
    ExecuteJob: ("start", lambda decision: 1),
    RejectJob: ("reject", lambda decision: 1),
    KillJobs: ("kill", lambda decision: len(decision.job_ids)),
    SetResourceState: ("set_pstate", lambda decision: len(decision.resources)),
}
"""Counted decisions: the label, and the number of jobs or servers of a decision."""


class _Power(Struct, frozen=True, gc=False):
    """Immutable snapshot of the power side of a run."""

    storage: Storage
    held: StorageState
    production_w: float
    announced_s: float
    """Simulated time of the last power event, s; -inf for never."""
    last: StepRecord | None
    """The last completed step."""
    is_cooled: bool
    """Whether the site has cooling."""
    charged_w: float | None = None
    """Power of the grid into the battery in that step, W; None if the grid does not charge it."""
    peak_w: float | None = None
    """Highest mean import of 15 minutes so far, W; None if it has no price."""


class _Seen(Struct, frozen=True, gc=False):
    """Immutable snapshot of a session after a message."""

    now_s: float = 0.0
    servers: bytes = b""
    """Value of the cluster's ``state_counts``."""
    unavailable: int = 0
    waiting: int = 0
    held: int = 0
    running: int = 0
    submitted: int = 0
    ended: int = 0
    """Number of the session's outcomes."""
    power: _Power | None = None
    forecast_age_s: tuple[tuple[str, float], ...] = ()
    """Age of each forecast that is renewed during the run, by its option."""


class _Gauge(NamedTuple):
    """Metric with one value, omitted if ``read`` returns None."""

    name: str
    help: str
    read: Callable[[_Seen], float | None]


def _of_power(read: Callable[[_Power], float | None]) -> Callable[[_Seen], float | None]:
    return lambda seen: None if seen.power is None else read(seen.power)


def _last_step(name: str, help: str, field: str) -> _Gauge:
    """Metric of a power in the last completed step."""
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
        "Simulated time of the last message.",
        lambda seen: seen.now_s,
    ),
    _Gauge(
        "beasy_state_of_charge_ratio",
        "State of charge of the battery, 0 to 1, at the start of the current step.",
        _of_power(_soc_ratio),
    ),
    _Gauge(
        "beasy_battery_joules",
        "Energy in the battery at the start of the current step.",
        _of_power(lambda power: power.held.battery_j if power.storage.battery.exists else None),
    ),
    _Gauge(
        "beasy_hydrogen_grams",
        "Hydrogen in the tank at the start of the current step.",
        _of_power(lambda power: None if power.storage.hydrogen is None else 1000.0 * power.held.hydrogen_kg),
    ),
    _Gauge(
        "beasy_production_watts",
        "Solar and wind power of the last power event.",
        _of_power(lambda power: power.production_w),
    ),
    _last_step("demand", "Power of the servers", "demand_w"),
    _Gauge(
        "beasy_cooling_watts",
        "Power of the servers' cooling, mean of the last step; only for a site with cooling.",
        _of_power(lambda power: None if power.last is None or not power.is_cooled else power.last.cooling_w),
    ),
    _last_step("base_load", "Base load", "base_w"),
    _last_step("charge", "Power into the battery", "charge_w"),
    _last_step("discharge", "Power out of the battery", "discharge_w"),
    _last_step("electrolyzer", "Power into the electrolyzer", "electrolyzer_w"),
    _last_step("fuel_cell", "Power out of the fuel cell", "fuel_cell_w"),
    _last_step("grid_import", "Power taken from the grid", "import_w"),
    _last_step("grid_export", "Power fed into the grid", "export_w"),
    _Gauge(
        "beasy_grid_charge_watts",
        "Power from the grid into the battery, mean of the last step.",
        _of_power(lambda power: power.charged_w),
    ),
    _Gauge(
        "beasy_grid_peak_watts",
        "Highest mean import of 15 minutes so far.",
        _of_power(lambda power: power.peak_w),
    ),
    _last_step("curtailed", "Curtailed production", "curtailed_w"),
    _last_step("unserved", "Unserved load", "unserved_w"),
    _Gauge(
        "beasy_servers_unavailable",
        "Servers that are out of service or lost.",
        lambda seen: seen.unavailable,
    ),
    _Gauge("beasy_jobs_waiting", "Jobs in the queue.", lambda seen: seen.waiting),
    _Gauge("beasy_jobs_held", "Jobs that wait for the end of other jobs.", lambda seen: seen.held),
    _Gauge("beasy_jobs_running", "Running jobs.", lambda seen: seen.running),
)


def _of_forecast(make: Any, news: ForecastNews) -> Iterator[Any]:
    """Yield the metrics of the newest forecast."""
    gauges = (
        ("beasy_foresee_run_seconds", "Simulated time of the newest forecast of the run.", news.time_s),
        (
            "beasy_foresee_shortage_ratio",
            "Probability that energy runs short, 0 to 1, by the newest forecast of the run.",
            news.shortage,
        ),
        (
            "beasy_foresee_target_missed_ratio",
            "Probability that a storage ends below its target, 0 to 1, by the newest forecast of the run.",
            news.misses_target,
        ),
    )
    for name, help, value in gauges:
        if value is not None:
            yield make.GaugeMetricFamily(name, help, value)
    made = make.CounterMetricFamily(
        "beasy_foresee_forecasts", "Forecasts of the run that were made, or dropped.", labels=["result"]
    )
    yield _by_label(made, {"made": news.made, "dropped": news.dropped})


class Metrics(Observer):
    """Exports metrics of one or more consecutive sessions to Prometheus."""

    def __init__(self, policy: str, *, clock_s: Callable[[], float] = time.time) -> None:
        """Begin without a session. ``clock_s`` returns the wall-clock time, s since 1970.

        Raises ConfigError if the package prometheus-client is missing.
        """
        self._client = load_optional("prometheus_client", "beasy-sched[metrics]", "--metrics")
        self._families = load_optional("prometheus_client.core", "beasy-sched[metrics]", "--metrics")
        self._policy, self._clock_s = policy, clock_s
        self._began_s = 0.0
        """Time at which the last message arrived, by the clock of `time.perf_counter`, s."""
        self._seen = _Seen()
        self._outcomes = Outcomes()
        self._submitted_before = 0
        """Number of jobs submitted in previous sessions."""
        self._ended: Counter[str] = Counter()
        """Ended jobs of all sessions counted so far, by state."""
        self._counted = 0
        """Number of the current session's outcomes counted in ``_ended``."""
        self._ending = threading.Lock()
        """Guards the four above."""
        self._decided = {label: 0 for label, _ in _ACTIONS.values()}
        self._took = [0] * (len(_BOUNDS_S) + 1)
        """Number of messages in each bucket of the histogram."""
        self._took_s = 0.0
        self._reading_s: float | None = None
        self._news: ForecastNews | None = None
        self._registry = self._client.CollectorRegistry()
        self._registry.register(self)

    @property
    def content_type(self) -> str:
        """Content type of `page`, for HTTP."""
        return str(self._client.CONTENT_TYPE_LATEST)

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format; any thread may call it."""
        return bytes(self._client.generate_latest(self._registry))

    # --- called by the run's thread ----------------------------------------------------------------

    def begin(self, session: Session) -> None:
        """Follow ``session`` from now on; counters continue from those of the sessions before."""
        with self._ending:
            self._count_ended(len(self._outcomes))
            self._submitted_before += self._seen.submitted
            self._outcomes, self._counted, self._seen = session.outcomes, 0, _Seen()

    def before(self, session: Session, message: Message) -> None:
        """Record when a message arrived."""
        self._began_s = time.perf_counter()

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Store a snapshot of the session, which takes some microseconds."""
        self._note(session, reply, time.perf_counter() - self._began_s)

    def note_power_reading(self, at_s: float) -> None:
        """Record the time of the last reading of a source of power, s since 1970: its age counts from then.

        Without it, the age is the simulated time since the last power event.
        """
        self._reading_s = at_s

    def note_forecast(self, news: ForecastNews) -> None:
        """Record the newest forecast of the run's future."""
        self._news = news

    def _note(self, session: Session, reply: Reply, took_s: float) -> None:
        """Record a message that took ``took_s``, and a snapshot of the session after it."""
        self._took[bisect_left(_BOUNDS_S, took_s)] += 1
        self._took_s += took_s
        for decision in reply.decisions:
            if counted := _ACTIONS.get(type(decision)):
                self._decided[counted[0]] += counted[1](decision)
        cluster, side = session.cluster, session.power
        power = None
        if side is not None:
            inputs, trace = side.inputs, side.trace
            power = _Power(
                side.site.storage,
                side.storage,
                inputs.production_w,
                inputs.announced_s,
                trace[-1].record if trace else None,
                side.site.cooling is not None,
                None if side.contents is None or not trace else trace[-1].record.grid_charge_w,
                None if side.peak is None else side.peak.peak_w,
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
            forecast_ages_s(session),
        )

    # --- called by a scrape ------------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """Yield all metrics for a registry of prometheus-client; any thread may call it."""
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
                "Age of the last power reading, or simulated time since the last power event.",
                age_s,
            )
        counts = np.frombuffer(seen.servers, np.int64).reshape(-1, len(_STATES)).sum(axis=0)
        if (news := self._news) is not None:
            yield from _of_forecast(make, news)
        if seen.forecast_age_s:
            ages = make.GaugeMetricFamily(
                "beasy_forecast_age_seconds",
                "Time since the issue of the forecast in use, at the last message.",
                labels=["source"],
            )
            yield _by_label(ages, dict(seen.forecast_age_s))
        servers = dict(zip(_STATES, counts.tolist(), strict=True))
        yield _by_label(
            make.GaugeMetricFamily("beasy_servers", "Servers by state.", labels=["state"]), servers
        )
        yield make.CounterMetricFamily("beasy_jobs_submitted", "Submitted jobs.", submitted)
        jobs = make.CounterMetricFamily("beasy_jobs_ended", "Ended jobs by outcome.", labels=["state"])
        yield _by_label(jobs, {JobState(name).name.lower(): number for name, number in ended.items()})
        decisions = make.CounterMetricFamily(
            "beasy_decisions",
            "Jobs started, rejected or killed; servers whose P-state was changed.",
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
            "Wall-clock time from a message to its decisions.",
            [*zip(bounds, up_to, strict=True)],
            self._took_s,
        )

    def _count_ended(self, up_to: int) -> None:
        """Count the outcomes of the current session up to number ``up_to``; the caller holds the lock."""
        self._ended.update(self._outcomes.counts(self._counted, up_to))
        self._counted = up_to


def forecast_ages_s(session: Session) -> tuple[tuple[str, float], ...]:
    """Return the age of each forecast that is renewed during the run, s, by its option."""
    power, replanning = session.power, session.replanning
    sources = (
        ("forecast", None if power is None else power.forecast),
        ("replan-production", None if replanning is None else replanning.rule.production),
    )
    ages_s = ((name, source.age_s(session.now)) for name, source in sources if source is not None)
    return tuple((name, age_s) for name, age_s in ages_s if age_s is not None)


def _by_label(family: Any, values: Mapping[str, float]) -> Any:
    """Add a sample for each value of the metric's only label."""
    for label, value in values.items():
        family.add_metric([label], value)
    return family
