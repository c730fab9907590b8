"""Planning requests, with server states, known jobs and forecasts, and their answers.

A `PlanRequest` holds everything that a plan of the rest of a window and of the next one depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.energy.site_load import LoadAhead
from beasy_sched.energy.storage import StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import draw_by_busy_w, served_power_w, wanted_hosts
from beasy_sched.planner.plan import Plan, Rolled

GIVEN_BEFORE: Final = "given before the run"
"""Source of production that does not change during the run."""
PLANNED_AHEAD: Final = 2
"""Number of windows with a plan at the start of a window: the window itself, and the next one."""


@dataclass(frozen=True)
class KnownJobs:
    """Jobs that run or wait when a plan is requested: one value each."""

    hosts: IntArray
    left_s: FloatArray
    """Expected remaining run time of each job from the start of the plan, s."""
    late_s: FloatArray
    """Run time that each waiting job would have completed at the start of the plan if it had started when
    submitted, s."""


NO_JOBS = KnownJobs(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Span:
    """Steps of a requested plan."""

    asked_s: float
    """Time up to which jobs are known, s."""
    start_s: float
    steps: int
    step_s: float


class DemandForecast(Protocol):
    """Expected demand of the servers."""

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """Return the demand of each step of ``span``, W, with the known jobs."""

    def load_quantiles(self, platform: Platform, known: KnownJobs, span: Span) -> Quantiles | None:
        """Return the quantiles of `load_w`; None if the forecast has none."""


@dataclass(frozen=True)
class JobForecast:
    """Demand forecast as jobs: submission, run time and hosts of each.

    The jobs expected before the time of planning are excluded; the known jobs replace them.
    """

    submit_s: FloatArray
    run_s: FloatArray
    hosts: IntArray

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """See `DemandForecast.load_w`: known jobs continue or start now; the others start at submission."""
        later = self.submit_s > span.asked_s
        submit_s = np.concatenate((np.zeros(len(known.hosts)), self.submit_s[later] - span.start_s))
        run_s = np.concatenate((known.left_s, self.run_s[later]))
        hosts = np.concatenate((known.hosts, self.hosts[later]))
        wanted = wanted_hosts(np.maximum(submit_s, 0.0), run_s, hosts, steps=span.steps, step_s=span.step_s)
        return served_power_w(platform, wanted)

    def load_quantiles(self, platform: Platform, known: KnownJobs, span: Span) -> None:
        """None: expected jobs have no quantiles."""


@dataclass(frozen=True)
class PowerForecast:
    """Demand forecast as powers: W for each step from time 0 on.

    Powers include jobs from their submission on. Work that the known jobs could have done by now, but have
    not, is added at the start of the plan.
    """

    powers_w: FloatArray
    quantiles: Quantiles | None = None
    """Uncertainty of the powers."""

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """See `DemandForecast.load_w`; the load of steps without a forecast is only the added work."""
        draw_w = draw_by_busy_w(platform)
        expected_w = part_of(self.powers_w, span, draw_w[0])
        late = wanted_hosts(
            np.zeros(len(known.hosts)), known.late_s, known.hosts, steps=span.steps, step_s=span.step_s
        )
        if not late.any():
            return expected_w
        return served_power_w(platform, late + np.interp(expected_w, draw_w, np.arange(len(draw_w))))

    def load_quantiles(self, platform: Platform, known: KnownJobs, span: Span) -> Quantiles | None:
        """See `DemandForecast.load_quantiles`: `load_w` of each quantile."""
        return self.quantiles and self.quantiles.mapped(
            lambda powers_w: PowerForecast(powers_w).load_w(platform, known, span)
        )


def part_of(values_w: FloatArray, span: Span, beyond_w: float = 0.0) -> FloatArray:
    """Return the values of ``span``'s steps in a series that begins at time 0; ``beyond_w`` after its end."""
    first = round(span.start_s / span.step_s)
    part = values_w[first : first + span.steps]
    return np.concatenate((part, np.full(span.steps - len(part), beyond_w)))


@dataclass(frozen=True)
class ServerStart:
    """States in the step before the first, and the remaining minimum on-times."""

    states: StateArray
    """[N] P-state numbers; the sleep state's number when asleep."""
    obliged_s: FloatArray
    """[N] seconds for which a server must still stay on (0 for those that may sleep immediately)."""

    @classmethod
    def all_on(cls, platform: Platform) -> ServerStart:
        """Return all servers on at their fastest P-state, free to sleep: the start of the first window."""
        return cls(platform.fastest_of_kind[platform.kind_of], np.zeros(platform.size))

    @classmethod
    def after(
        cls, platform: Platform, states: StateArray, step_s: float, on_s: float, start: ServerStart
    ) -> ServerStart:
        """Return the servers after the states [T, N] from ``start``, with a minimum on-time of ``on_s``."""
        asleep = states == platform.sleep_pstate
        since_woken = np.where(asleep.any(axis=0), np.argmax(asleep[::-1], axis=0), len(states))
        woken = (since_woken < len(states)) | (start.states == platform.sleep_pstate)
        obliged_s = np.where(woken, on_s, start.obliged_s) - since_woken * step_s
        return cls(states[-1].copy(), np.where(asleep[-1], 0.0, np.maximum(0.0, obliged_s)))

    def check(self, platform: Platform) -> None:
        """Raise ConfigError if a state is neither computing nor the sleep state of its host's kind."""
        if self.states.shape != (platform.size,) or self.obliged_s.shape != (platform.size,):
            raise ConfigError(
                f"start of the server plan: found {len(self.states)} states, expected {platform.size}"
            )
        for k, kind in enumerate(platform.kinds):
            wrong = np.flatnonzero((platform.kind_of == k) & ~np.isin(self.states, kind.plannable))
            if wrong.size:
                host = int(wrong[0])
                raise ConfigError(
                    f"start of the server plan: {platform.names[host]} is in P-state {self.states[host]}, "
                    f"expected one of {list(kind.plannable)} (computing or asleep)"
                )


@dataclass(frozen=True)
class WindowForecast:
    """Forecast for a window, or the rest of one: W for each step."""

    window: int
    load_w: FloatArray
    renew_w: FloatArray
    load_quantiles: Quantiles | None = None
    site_load: LoadAhead | None = None
    """Load besides the servers as known when the plan is requested, where it changes or depends on them."""
    grid_charge: GridCharge | None = None
    """Charge from the grid that its rule is expected to allow; None without a rule."""


@dataclass(frozen=True)
class PlanRequest:
    """All inputs of a plan made during a run."""

    start_s: float
    """Time from which the plan takes effect, s."""
    level: StorageState
    """Levels expected at ``start_s``."""
    servers: ServerStart
    """State of the servers just before ``start_s``."""
    parts: tuple[WindowForecast, ...]
    """Forecasts for the rest of a window, and for the next one if there is one."""
    rolled: Rolled
    """Origin recorded in the plan's provenance."""

    @property
    def asked_s(self) -> float:
        """Simulated time at which the plan was requested, s."""
        return self.rolled.asked_s


PlanOutcome: TypeAlias = Literal["made", "failed", "late"]
"""Outcome of a requested plan; ``late``: planning took longer than its limit, and was stopped."""


@dataclass(frozen=True)
class PlanAnswer:
    """The answer to a `PlanRequest`: plans, or the reason why there are none."""

    request: PlanRequest
    plans: tuple[Plan, ...] = ()
    """Plans that were made; empty where planning did not succeed."""
    problem: str = ""
    """Reason why no plans were made; empty where they were."""
    is_late: bool = False
    """Whether the planning was stopped because it took too long."""
    took_s: float = 0.0
    """Wall-clock time that the solver took, s."""

    @property
    def outcome(self) -> PlanOutcome:
        """The outcome, as logs and tables name it."""
        if self.plans:
            return "made"
        return "late" if self.is_late else "failed"
