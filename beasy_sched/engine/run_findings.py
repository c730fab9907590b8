"""Warnings about a run from the scheduler's point of view: platform, site, plan, and submitted jobs.

`checks` checks the same in the files before a run. Functions here return findings, and read no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.grid import Foreseen
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import Course
from beasy_sched.findings import Finding, fails, odd
from beasy_sched.model.jobs import Job, Terms
from beasy_sched.model.platform import POWERS_PROPERTY, SPEEDS_PROPERTY, Platform
from beasy_sched.planner.forecast import full_draw_w
from beasy_sched.planner.plan import PlanStore
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, TIME_TOLERANCE_S, j_to_kwh, w_to_kw
from beasy_sched.units import counted as counted  # also for policies

SHORT_RUN_SHARE = 0.02
"""Jobs whose median run time is a smaller share of their walltime do not belong to the platform's speed."""
_LARGE_BATTERY_S, _SMALL_BATTERY_S = 30 * SECONDS_PER_DAY, 60.0
"""Times for which a battery of a plausible size supplies all hosts while they compute, at most and at least:
outside this range its capacity is probably in another unit."""


class ChecksInputs(Protocol):
    """Part of a policy that checks inputs."""

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Return warnings about inputs for this policy."""
        ...


@dataclass(frozen=True)
class DueJob:
    """A job with a deadline, as far as it is known before it runs."""

    submit_s: float
    walltime_s: float
    """Walltime of the job, s; infinite without one."""
    terms: Terms


@dataclass(frozen=True)
class KnownInputs:
    """Inputs of a run that the scheduler's side has; None for those that it does not have."""

    platform: Platform | None = None
    energy: bool = True
    """Whether energy is metered (Batsim's ``-E``); without, the platform was read without its powers."""
    site: Site | None = None
    windows: int = 1
    policy: ChecksInputs | None = None
    """Policy of the run; None if the scheduler's side is unknown, so that the run may have a site."""
    came: Sequence[Job] = ()
    """Submitted jobs with a deadline, if the workloads are not available."""

    @property
    def submit_s(self) -> FloatArray:
        """Submission times of the jobs, s; empty if they are unknown before the run."""
        return np.zeros(0)

    @property
    def walltime_s(self) -> FloatArray:
        """Walltimes of the same jobs, s; infinite without one."""
        return np.zeros(0)

    @property
    def planned_s(self) -> float | None:
        """Longest time that a plan covers, s; None without a site."""
        return None if self.site is None else self.site.window_s

    @cached_property
    def due_jobs(self) -> list[DueJob]:
        """The jobs that have a deadline."""
        return [DueJob(job.subtime_s, job.walltime_s, job.terms) for job in self.came]

    @property
    def end_s(self) -> float | None:
        """Time at which the run ends, s; None without a site: the run then ends with the last job."""
        return None if self.site is None else self.site.window_s * self.windows


def look_at_start(inputs: KnownInputs) -> list[Finding]:
    """Return warnings about the platform and the scheduler's side, if nothing else is available."""
    return [*battery_size(inputs), *of_policy(inputs)]


def of_policy(inputs: KnownInputs) -> Iterable[Finding]:
    """Return the policy's warnings about the inputs."""
    return () if inputs.policy is None else inputs.policy.check_inputs(inputs)


def missing_powers(platform: Platform) -> Finding | None:
    """Return a finding if some hosts of a platform have no powers."""
    without = np.isin(platform.kind_of, [n for n, kind in enumerate(platform.kinds) if not kind.idle_w])
    count, size = int(without.sum()), platform.size
    if not count:
        return None
    name = platform.names[int(np.argmax(without))]
    which = f"the {counted(count, 'host')} have" if count == size else f"{count} of {size} hosts have"
    which = which if size > 1 else "the host has"
    return odd(
        "no-powers",
        f"{which} no powers (host {name!r} lacks {POWERS_PROPERTY}): the energy of such hosts is 0 J; a"
        " real Batsim aborts when it meters one (-E)",
    )


def unknown_speeds(platform: Platform) -> Finding | None:
    """Return a finding if the hosts' speeds are unknown, but matter: hosts sleep, or have several P-states.

    Batsim 4 sends no speeds, only properties of hosts; its platform file has them.
    """
    kinds = [kind for kind in platform.kinds if not kind.speeds_flops]
    sleeps = any(kind.sleeps for kind in kinds)
    if not sleeps and not any(len(kind.computing) > 1 for kind in kinds):
        return None
    name = platform.names[int(np.argmax(platform.kind_of == platform.kinds.index(kinds[0])))]
    lasting = ", and so the times that they take to switch on and off," if sleeps else ""
    lost = "all servers are assumed equally fast"
    if sleeps:
        lost += ", waking is assumed instantaneous, and idle servers are not put to sleep"
    return odd(
        "no-speeds",
        f"the servers' speeds{lasting} are unknown (the simulator sends no {SPEEDS_PROPERTY} of host"
        f" {name!r}): {lost}; pass Batsim's platform file with -p FILE",
    )


def short_runs(share: float, question: str) -> Finding:
    """Return the finding that jobs run only for ``share`` of their walltimes."""
    return odd("flops-few", f"the median job runs for {100 * share:.2g} % of its walltime: {question}")


def unused_power() -> Finding:
    """Return the finding that power is announced to a run without a site."""
    return odd(
        "power-unused",
        "power events are ignored because no site is given (unlimited power): pass --site FILE ('default' is"
        " the built-in one)",
    )


def short_power(covered_s: float, needed_s: float, last_w: float) -> Finding | None:
    """Return a finding if power is announced for less than the run."""
    if covered_s >= needed_s - TIME_TOLERANCE_S:
        return None
    return odd(
        "power-short",
        f"the power covers {hours(covered_s)}, the run needs {hours(needed_s)}: its last value,"
        f" {kw(last_w)}, is used for the rest of the run; provide a longer file or reduce --windows",
    )


def battery_size(inputs: KnownInputs) -> Iterator[Finding]:
    """A battery that is far too large or too small for the servers."""
    if inputs.site is None or inputs.platform is None or not inputs.platform.has_powers:
        return
    battery, most_w = inputs.site.storage.battery, full_draw_w(inputs.platform)
    if not (battery.exists and most_w > 0):
        return
    lasts_s = battery.capacity_j / most_w
    size = f"the battery holds {j_to_kwh(battery.capacity_j):g} kWh"
    full = f"all servers computing, {kw(most_w)}"
    if lasts_s > _LARGE_BATTERY_S:
        lasts = f"for {lasts_s / SECONDS_PER_DAY:,.0f} days"
        yield odd("battery-large", f"{size}, enough to supply {full}, {lasts}: is capacity_kwh in kWh?")
    elif lasts_s < _SMALL_BATTERY_S:
        lasts = f"for {lasts_s:.2g} s only"
        yield odd("battery-small", f"{size}, enough to supply {full}, {lasts}: is capacity_kwh in kWh?")


def rates_too_short(site: Site, end_s: float) -> Finding | None:
    """Return a finding if a file of the site (prices, services) does not cover time 0 to ``end_s``."""
    grid, cooling = site.grid, site.cooling
    given: dict[str, Foreseen | Course | None] = (
        {} if grid is None else {"grid.price": grid.price, "grid.carbon": grid.carbon}
    )
    given["cooling.temperature"] = None if cooling is None else cooling.temperature
    given["load.series"] = site.services
    for name, foreseen in given.items():
        if foreseen is not None and not foreseen.rate.covers(0.0, end_s):
            first, last, begin, end = (_moment(site, at_s) for at_s in (*foreseen.rate.span_s, 0.0, end_s))
            return fails(
                "rates-short",
                f"{name}: the file covers {first} to {last}, the run {begin} to {end}: provide a longer"
                " file, reduce --windows, or set [time] start to a time covered by the file",
            )
    return None


def _moment(site: Site, time_s: float) -> str:
    """A simulated time as the site's local date if it has a calendar, else in hours."""
    if site.calendar is None:
        return hours(time_s)
    try:
        return f"{site.calendar.local(time_s):%Y-%m-%d %H:%M}"
    except OverflowError:  # before the year 1, or after 9999
        return hours(time_s)


def plan_start(plans: PlanStore) -> Finding | None:
    """Return a finding if a plan starts above the battery's level, because sleeping servers need that."""
    return sleep_short(plans[0].shortage) if plans[0].shortage else None


def sleep_short(shortage: str) -> Finding:
    """Return the finding that a site lacks something even with all servers asleep: the plan's own words."""
    return odd(
        "sleep-short",
        f"{shortage}; the plan assumes a higher initial level, and the run will fall below soc_min_pct for"
        " sleeping servers",
    )


def plan_length(plans: PlanStore, site: Site, windows: int) -> Finding | None:
    """Return a finding if a plan ends before or after the run."""
    planned_s, run_s = plans.end_s - plans.start_s, site.window_s * windows
    if abs(planned_s - run_s) <= TIME_TOLERANCE_S:
        return None
    what = f"the plan covers {hours(planned_s)} ({counted(len(plans), 'window')}), the run {hours(run_s)}"
    if planned_s < run_s:
        return odd("plan-short", f"{what}: nothing is planned for the rest of the run")
    return odd("plan-long", f"{what}: the rest of the plan is ignored; did you mean --windows {len(plans)}?")


def hours(time_s: float | None) -> str:
    """A time in words, in hours."""
    return f"{(time_s or 0.0) / SECONDS_PER_HOUR:.4g} h"


def kw(power_w: float) -> str:
    """A power in words, in kW."""
    return f"{w_to_kw(power_w):.4g} kW"
