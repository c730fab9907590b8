"""What a plan is asked for: the servers as they are, the jobs that are known, and what is expected to come.

A `PlanRequest` holds everything that a plan of the rest of a window and of the next one depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.energy.storage import StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import draw_by_busy_w, served_power_w, wanted_hosts
from beasy_sched.planner.plan import Rolled

PLANNED_AHEAD: Final = 2
"""Number of windows for which there is a plan as a window begins: the window itself, and the next one."""


@dataclass(frozen=True)
class KnownJobs:
    """The jobs that run or wait when a plan is asked for: one value each."""

    hosts: IntArray
    left_s: FloatArray
    """Time that each job is expected to run from the start of the plan on, s."""
    late_s: FloatArray
    """Time of its run that each waiting job would have behind it at the start of the plan, had it started
    when it was submitted, s."""


NO_JOBS = KnownJobs(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Span:
    """The steps that a plan is asked for."""

    asked_s: float
    """The moment up to which jobs are known, s."""
    start_s: float
    steps: int
    step_s: float


class DemandForecast(Protocol):
    """Demand that servers are expected to meet."""

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """Demand of each step of ``span``, W, with the jobs that are known."""

    def load_quantiles(self, platform: Platform, known: KnownJobs, span: Span) -> Quantiles | None:
        """The quantiles of `load_w`; None where the forecast has none."""


@dataclass(frozen=True)
class JobForecast:
    """A demand forecast as jobs: when each comes, how long it runs, on how many hosts.

    The jobs expected by the moment of planning are left out; those that are known take their place.
    """

    submit_s: FloatArray
    run_s: FloatArray
    hosts: IntArray

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """See `DemandForecast.load_w`: known jobs continue, or start at once; the others start on arrival."""
        later = self.submit_s > span.asked_s
        submit_s = np.concatenate((np.zeros(len(known.hosts)), self.submit_s[later] - span.start_s))
        run_s = np.concatenate((known.left_s, self.run_s[later]))
        hosts = np.concatenate((known.hosts, self.hosts[later]))
        wanted = wanted_hosts(np.maximum(submit_s, 0.0), run_s, hosts, steps=span.steps, step_s=span.step_s)
        return served_power_w(platform, wanted)

    def load_quantiles(self, platform: Platform, known: KnownJobs, span: Span) -> None:
        """None: jobs come as they are expected."""


@dataclass(frozen=True)
class PowerForecast:
    """A demand forecast as powers: W for each step from time 0 on.

    Powers count jobs from when they are submitted on. What the known jobs have not done by now, although
    they could have, is added at the start of the plan.
    """

    powers_w: FloatArray
    quantiles: Quantiles | None = None
    """How sure the powers are."""

    def load_w(self, platform: Platform, known: KnownJobs, span: Span) -> FloatArray:
        """See `DemandForecast.load_w`; the load of steps without a forecast is only what is added."""
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
    """The values of the steps of ``span`` from a series that begins at time 0; ``beyond_w`` after its end."""
    first = round(span.start_s / span.step_s)
    part = values_w[first : first + span.steps]
    return np.concatenate((part, np.full(span.steps - len(part), beyond_w)))


@dataclass(frozen=True)
class ServerStart:
    """States in the step before the first, and the rest of least on-times that have not ended."""

    states: StateArray
    """[N] P-state numbers; the sleep state's number when asleep."""
    obliged_s: FloatArray
    """[N] seconds for which a server must still stay on (0 for those that may sleep at once)."""

    @classmethod
    def all_on(cls, platform: Platform) -> ServerStart:
        """All servers on at their fastest P-state, free to sleep at once: how the first window starts."""
        return cls(platform.fastest_of_kind[platform.kind_of], np.zeros(platform.size))

    @classmethod
    def after(
        cls, platform: Platform, states: StateArray, step_s: float, on_s: float, start: ServerStart
    ) -> ServerStart:
        """The servers after the states [T, N] from ``start``, with a least on-time of ``on_s``."""
        asleep = states == platform.sleep_pstate
        since_woken = np.where(asleep.any(axis=0), np.argmax(asleep[::-1], axis=0), len(states))
        woken = (since_woken < len(states)) | (start.states == platform.sleep_pstate)
        obliged_s = np.where(woken, on_s, start.obliged_s) - since_woken * step_s
        return cls(states[-1].copy(), np.where(asleep[-1], 0.0, np.maximum(0.0, obliged_s)))

    def check(self, platform: Platform) -> None:
        """Raise ConfigError where a state is neither computing nor the sleep state of its host's kind."""
        if self.states.shape != (platform.size,) or self.obliged_s.shape != (platform.size,):
            raise ConfigError(
                f"start of the server plan: {len(self.states)} states for {platform.size} servers"
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
    """Forecast for a window, or for the rest of one: W for each step."""

    window: int
    load_w: FloatArray
    renew_w: FloatArray
    load_quantiles: Quantiles | None = None


@dataclass(frozen=True)
class PlanRequest:
    """Everything that a plan made during a run depends on."""

    start_s: float
    """Time from which the plan is to take effect, s."""
    level: StorageState
    """Levels expected at ``start_s``."""
    servers: ServerStart
    """State of the servers just before ``start_s``."""
    parts: tuple[WindowForecast, ...]
    """Forecasts for the rest of a window, and for the next one where there is one."""
    rolled: Rolled
    """Origin that the plan's provenance is to state."""

    @property
    def asked_s(self) -> float:
        """Moment of the run at which the plan was asked for, s."""
        return self.rolled.asked_s
