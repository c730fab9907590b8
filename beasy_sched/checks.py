"""Checks of a run's inputs together, before the run: warnings, and errors that would end it.

All functions take inputs that have been read and return findings; they open no file and print nothing.
They are used by `beasy-sched check`, the simulator, the daemon, campaigns and `generate power`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.engine.run_findings import (
    SHORT_RUN_SHARE,
    DueJob,
    KnownInputs,
    battery_size,
    counted,
    hours,
    kw,
    missing_powers,
    of_policy,
    plan_length,
    plan_start,
    rates_too_short,
    short_power,
    short_runs,
    unused_power,
)
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, Level, fails, odd
from beasy_sched.formats.batsim_events import ExternalEvent, mixed_up
from beasy_sched.formats.batsim_profiles import Composed, Delay, Profile, add_with_parts
from beasy_sched.formats.batsim_workload import Workload, run_times_s
from beasy_sched.formats.table import POWER, TimeSeries
from beasy_sched.limits import LARGEST_POWER_W, SHORTEST_S, shortened
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.jobs import TermsError, read_terms
from beasy_sched.model.platform import SPEEDS_PROPERTY, Platform
from beasy_sched.numbers import found_text
from beasy_sched.planner.forecast import full_draw_w, reference_speed_flops
from beasy_sched.planner.plan import PlanStore
from beasy_sched.protocol.notices import (
    CARBON_FIELD,
    POWER_FIELD,
    PRICE_FIELD,
    is_power,
    is_rate,
    wrong_part,
)
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, TIME_TOLERANCE_S, j_to_kwh, w_to_kw

if TYPE_CHECKING:
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.windows import ReplanRule

_LOW_PEAK_SHARE, _LOW_PEAK_S = 0.5, 180 * SECONDS_PER_DAY
"""Share of its capacity that a plant reaches at least once in this time (s, half a year)."""
_TINY_PEAK_SHARE, _TINY_PEAK_S = 0.02, 7 * SECONDS_PER_DAY
"""Share of its capacity that a plant exceeds in any week (s); less means that the unit was misread."""
_LOW_WIND_M = 5.0
"""Wind measured below this height (m) is much weaker than at the height of a turbine's hub."""
_HOLE = 10.0
"""A gap of this many times the usual time between power events is a gap in the file."""
_PREDICTED_HOURS = 14 * 24
_FORECAST_APART = 10.0
"""A forecast this many times as high or low as the production belongs to a plant of another size."""
_TOO_MUCH_POWER = 100.0
"""A power this many times the maximum power of all hosts is in another unit."""


@dataclass(frozen=True)
class AnnouncedPower:
    """The production in an events file: each value holds until the next one."""

    times_s: FloatArray
    values_w: FloatArray

    @cached_property
    def lasting_s(self) -> float:
        """Median time for which a value holds, s; 0 if there is only one value."""
        moments = np.unique(self.times_s)
        return float(np.median(np.diff(moments))) if len(moments) > 1 else 0.0

    @property
    def covered_s(self) -> float:
        """End of the powers in the file, s; the last value holds for as long as the others."""
        return float(self.times_s[-1]) + self.lasting_s if len(self.times_s) else 0.0

    def energy_j(self, end_s: float) -> float:
        """Energy from the first power event to ``end_s``, J; the last value holds to the end."""
        if not len(self.times_s):
            return 0.0
        edges = np.clip(np.append(self.times_s, max(end_s, self.times_s[-1])), 0.0, end_s)
        return float(np.sum(self.values_w * np.diff(edges)))


@dataclass(frozen=True)
class RunInputs(KnownInputs):
    """Inputs of a run, as far as they are given; None for the others."""

    workloads: Sequence[Workload] = ()
    events: Sequence[ExternalEvent] | None = None
    plans: PlanStore | None = None
    forecast: ForecastSource | None = None
    replan: ReplanRule | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all inputs are given: a missing site or missing events mean that the run has none."""
        return self.policy is not None and self.platform is not None and bool(self.workloads)

    @cached_property
    def submit_s(self) -> FloatArray:
        """Submission times of the jobs of all workloads, s."""
        return np.concatenate([np.zeros(0), *(workload.jobs.subtime_s for workload in self.workloads)])

    @cached_property
    def walltime_s(self) -> FloatArray:
        """Walltimes of the same jobs, s; infinite without one."""
        return np.concatenate([np.zeros(0), *(workload.jobs.walltime_s for workload in self.workloads)])

    @property
    def planned_s(self) -> float | None:
        """Largest horizon of a plan, s; None without a site.

        Plans made during the run cover the current window and the next one.
        """
        if self.site is None:
            return None
        if self.plans is not None and self.replan is None:
            return min(self.plans.end_s, self.site.window_s * self.windows) - self.plans.start_s
        return self.site.window_s * (1 if self.replan is None else min(self.windows, 2))

    @cached_property
    def due_jobs(self) -> list[DueJob]:
        """The jobs that have a deadline, without those that have invalid fields."""
        due = [DueJob(job.subtime_s, job.walltime_s, job.terms) for job in self.came]
        for jobs in (workload.jobs for workload in self.workloads):
            for place, extras in jobs.extras.items():
                submit_s = jobs.subtime_s.item(place)
                with contextlib.suppress(TermsError):
                    terms = read_terms(jobs.ids[place], extras, submit_s)
                    if terms.deadline_s < math.inf:
                        due.append(DueJob(submit_s, jobs.walltime_s.item(place), terms))
        return due

    @cached_property
    def powers(self) -> AnnouncedPower:
        """The production in the events, without invalid powers."""
        power_events = [event for event in self.events or () if is_power(event.data.get(POWER_FIELD))]
        return AnnouncedPower(
            np.array([event.timestamp for event in power_events], dtype=np.float64),
            np.array([float(event.data[POWER_FIELD]) for event in power_events], dtype=np.float64),
        )

    @cached_property
    def predicted_w(self) -> FloatArray:
        """Mean production in each hour of the run, up to two weeks, W, as predicted at its start."""
        if self.forecast is None or self.end_s is None:
            return np.zeros(0)
        return self.forecast.hour_by_hour_w(min(math.ceil(self.end_s / SECONDS_PER_HOUR), _PREDICTED_HOURS))

    @property
    def mean_power_w(self) -> float | None:
        """Mean production over the time covered by the events, within the run, W; None without any."""
        until_s = self.powers.covered_s if self.end_s is None else min(self.powers.covered_s, self.end_s)
        return self.powers.energy_j(until_s) / until_s if until_s > 0 else None

    @property
    def capacity_factor(self) -> float | None:
        """Mean over peak of the production: an estimate of the capacity factor."""
        peak_w = float(self.powers.values_w.max()) if len(self.powers.values_w) else 0.0
        return None if self.mean_power_w is None or not peak_w else self.mean_power_w / peak_w

    @cached_property
    def jobs(self) -> ExpectedJobs | None:
        """The jobs of all workloads on the platform; None if either is missing, or there are no jobs."""
        if self.platform is None or not self.platform.has_speeds or not any(w.jobs for w in self.workloads):
            return None
        return ExpectedJobs.of(self.workloads, self.platform)

    @property
    def load(self) -> float | None:
        """Host-seconds requested by the jobs submitted during the run, over those of the hosts.

        The run is the site's windows; without a site, the time in which all jobs could finish on an
        unlimited number of hosts. None if there are no jobs, or no such time.
        """
        jobs = self.jobs
        if jobs is None or self.platform is None:
            return None
        end_s = self.end_s if self.end_s is not None else float(np.max(jobs.submit_s + jobs.limited_run_s))
        asked = float(np.sum((jobs.limited_run_s * jobs.hosts)[jobs.submit_s < end_s]))
        return asked / (self.platform.size * end_s) if end_s > 0 else None


@dataclass(frozen=True)
class ExpectedJobs:
    """The jobs of a run, one entry each."""

    submit_s: FloatArray
    run_s: FloatArray
    """Run times at full speed, s, regardless of walltimes."""
    walltime_s: FloatArray
    """Walltimes of the jobs, s; infinite without one."""
    hosts: FloatArray
    computes: FloatArray
    """1 if the run time depends on the hosts' speed, else 0."""

    @classmethod
    def of(cls, workloads: Sequence[Workload], platform: Platform) -> ExpectedJobs:
        """Return the jobs of ``workloads``, at the highest speed of the median host."""
        speed_flops = reference_speed_flops(platform)
        columns: list[tuple[FloatArray, ...]] = []
        for workload in workloads:
            jobs, profiles = workload.jobs, workload.profiles
            loads = np.array([_computes(name, profiles) for name in jobs.profile_names], dtype=float)
            run_s = run_times_s(workload, speed_flops)
            hosts = jobs.res.astype(np.float64)
            columns.append((jobs.subtime_s, run_s, jobs.walltime_s, hosts, loads[jobs.profile]))
        return cls(*map(np.concatenate, zip(*columns, strict=True)))

    @property
    def limited_run_s(self) -> FloatArray:
        """Run times, limited by the walltimes, s."""
        return np.minimum(self.run_s, self.walltime_s)

    @cached_property
    def median_share(self) -> float | None:
        """Median of run time over walltime, of the jobs that compute; None without walltimes."""
        chosen = (self.computes > 0) & np.isfinite(self.walltime_s)
        limits_s = np.maximum(self.walltime_s[chosen], SHORTEST_S)
        return float(np.median(self.run_s[chosen] / limits_s)) if chosen.any() else None


def _computes(name: str, profiles: Mapping[str, Profile]) -> bool:
    parts: dict[str, int] = {}
    add_with_parts(name, profiles, parts)
    return not all(isinstance(profiles[part], Composed | Delay) for part in parts)


def look_at(inputs: RunInputs) -> list[Finding]:
    """Return all warnings and errors about ``inputs``, errors first."""
    checks = (
        _platform, _versions, _machines, _workload, _order, _production, battery_size, _grid, _plan,
        _forecast, of_policy,
    )  # fmt: skip
    findings = [finding for check in checks for finding in check(inputs)]
    return sorted(findings, key=lambda finding: finding.level is Level.ODD)


def _platform(inputs: RunInputs) -> Iterator[Finding]:
    finding = missing_powers(inputs.platform) if inputs.platform is not None and inputs.energy else None
    if finding is not None:
        yield finding if inputs.site is None else fails(finding.code, f"{finding.text}; a site needs them")


def _versions(inputs: RunInputs) -> Iterator[Finding]:
    """Yield findings about mixed versions of Batsim, and fields that Batsim 5 does not forward."""
    if len(_formats(inputs)) > 1:
        yield odd(
            "versions-mixed",
            "the files mix the formats of Batsim 4 and Batsim 5, and neither version reads both: convert some"
            " with 'beasy-sched convert'",
        )
    for workload in inputs.workloads:
        if workload.dropped:
            yield odd(
                "members-dropped",
                f"{workload.path}: Batsim 5 does not forward these fields of jobs: "
                f"{shortened(', '.join(workload.dropped))}; put them into 'extra_data'",
            )


def _formats(inputs: RunInputs) -> set[BatsimFormat]:
    """Return the Batsim versions of workloads and events."""
    of_events = {
        BatsimFormat.BATSIM4 if event.text is None else BatsimFormat.BATSIM5 for event in inputs.events or ()
    }
    return {workload.form for workload in inputs.workloads} | of_events


def _machines(inputs: RunInputs) -> Iterator[Finding]:
    """Yield findings about events on which Batsim aborts."""
    largest = math.inf if inputs.platform is None else inputs.platform.size - 1
    for event in inputs.events or ():
        if event.hosts is not None and (last := int(event.hosts.ids[-1])) > largest:
            text = f"machine {last} does not exist: the largest id is {largest}"
            yield fails("machine-unknown", f"{event.where}: {text}")
            return


def _workload(inputs: RunInputs) -> Iterator[Finding]:
    jobs, platform, end_s, submit_s = inputs.jobs, inputs.platform, inputs.end_s, inputs.submit_s
    if inputs.site is not None and end_s is not None and (late := int(np.count_nonzero(submit_s >= end_s))):
        wanted = max(math.ceil((float(submit_s.max()) + 1) / inputs.site.window_s), 1)
        yield odd(
            "jobs-late",
            f"{late:,} of {counted(len(submit_s), 'job')} arrive after the end of the run, at {hours(end_s)},"
            f" and are postponed: did you mean --windows {wanted}?",
        )
    if jobs is None or platform is None:
        return
    large = int(np.count_nonzero(jobs.hosts > platform.size))
    if large:
        yield odd(
            "jobs-large",
            f"{large:,} of {counted(len(jobs.hosts), 'job')} request more than the"
            f" {counted(platform.size, 'host')} available, and will be rejected",
        )
    speed = f"{reference_speed_flops(platform) / 1e9:.4g} Gflop/s"
    share = jobs.median_share
    if share is not None and share < SHORT_RUN_SHARE:
        yield short_runs(share, f"were the workload's flops computed for hosts of {speed}?")
    elif share is not None and share > 1:
        yield odd(
            "flops-many",
            f"more than half of the jobs reach their walltime (median run time {share:.3g} times as long):"
            f" were the workload's flops computed for hosts of {speed}?",
        )
    load = inputs.load
    if load is not None and load > 1:
        until = "by the time the last job could end" if end_s is None else f"in the run's {hours(end_s)}"
        yield odd(
            "overload",
            f"the load is {100 * load:.4g} %: the jobs request more than {counted(platform.size, 'host')}"
            f" can provide {until}",
        )


def _order(inputs: RunInputs) -> Iterator[Finding]:
    pair = mixed_up(inputs.events or ())
    if pair is not None:
        first, second = pair
        line = second.where.rpartition(":")[2]
        yield odd(
            "events-tied",
            f"{first.where}: line {line} has the same timestamp, {first.timestamp:g} s: in a file of more"
            " than 16 lines, Batsim 4 may replay such events in a different order; use one line each",
        )


def _production(inputs: RunInputs) -> Iterator[Finding]:
    bad = bad_power(inputs.events or ())
    if bad is not None:
        yield bad
    if not len(inputs.powers.times_s) and bad is None and inputs.site:
        if inputs.events is not None:
            yield odd("power-none", f"no event has the field {POWER_FIELD!r}: the production is 0 W")
        elif inputs.is_whole:
            yield odd("power-none", "no events file is given (--events): the production is 0 W")
    powers, end_s = inputs.powers, inputs.end_s
    if not len(powers.times_s):
        return
    if inputs.site is None and inputs.is_whole:
        yield unused_power()
    if powers.times_s[0] > TIME_TOLERANCE_S:
        until = hours(float(powers.times_s[0]))
        yield odd("power-late", f"the first power event is at {until}: the production is 0 W until then")
    if end_s is not None:
        short = short_power(powers.covered_s, end_s, float(powers.values_w[-1]))
        if short is not None:
            yield short
    gaps_s = np.diff(powers.times_s)
    if len(gaps_s) and gaps_s.max() > _HOLE * powers.lasting_s > 0:
        at = int(np.argmax(gaps_s))
        begin, end = (hours(float(powers.times_s[n])) for n in (at, at + 1))
        held = kw(float(powers.values_w[at]))
        yield odd(
            "power-hole", f"there is no power event between {begin} and {end}: the power remains {held}"
        )
    if inputs.platform is not None and inputs.platform.has_powers:
        yield from _unit(powers, inputs.platform)


def bad_power(events: Iterable[ExternalEvent]) -> Finding | None:
    """Return a finding if an event has an invalid production."""
    for event in events:
        if POWER_FIELD in event.data and not is_power(value := event.data[POWER_FIELD]):
            expected = f"expected watts, 0 to {LARGEST_POWER_W:g}"
            return fails("power-bad", f"{event.where}: {POWER_FIELD}: found {found_text(value)}, {expected}")
    return None


def _unit(powers: AnnouncedPower, platform: Platform) -> Iterator[Finding]:
    peak_w, most_w = float(powers.values_w.max()), full_draw_w(platform)
    least_w = min(min(kind.idle_w[p] for p in kind.computing) for kind in platform.kinds)
    if peak_w > _TOO_MUCH_POWER * most_w > 0:
        yield odd(
            "power-large",
            f"the power reaches {kw(peak_w)}, but all hosts together draw at most {kw(most_w)}: is it in W?",
        )
    elif 0 < peak_w < least_w:
        yield odd(
            "power-small",
            f"the power reaches {peak_w:.3g} W, less than one idle host draws ({least_w:.3g} W): is it in W?",
        )


def _grid(inputs: RunInputs) -> Iterator[Finding]:
    if inputs.site is not None and (
        finding := rates_too_short(inputs.site, inputs.site.window_s * inputs.windows)
    ):
        yield finding
    if (finding := bad_rate(inputs.events or ())) is not None:
        yield finding


def bad_rate(events: Iterable[ExternalEvent]) -> Finding | None:
    """Return a finding if an event has an invalid price, carbon intensity or part of the production."""
    for event in events:
        for field in (PRICE_FIELD, CARBON_FIELD):
            value = event.data.get(field)
            if value is not None and not is_rate(value):
                return fails(
                    "rates-bad", f"{event.where}: {field}: found {found_text(value)}, expected a number"
                )
        if (part := wrong_part(event.data)) is not None:
            share = event.data[part]
            expected = f"expected watts, at least 0 and at most {POWER_FIELD}"
            return fails("sun-bad", f"{event.where}: {part}: found {found_text(share)}, {expected}")
    return None


def _plan(inputs: RunInputs) -> Iterator[Finding]:
    plans, site = inputs.plans, inputs.site
    if plans is None or site is None:
        return
    if inputs.platform is not None and inputs.energy:
        try:
            plans.check_fits(inputs.platform, site)
        except ConfigError as error:
            yield fails("plan-other", f"the plan does not fit this run: {error}")
            return
    if (finding := plan_start(plans)) is not None:
        yield finding
    finding = plan_length(plans, site, inputs.windows)
    if finding is not None and inputs.replan is None:
        yield finding


def _forecast(inputs: RunInputs) -> Iterator[Finding]:
    source, predicted_w = inputs.forecast, inputs.predicted_w
    if source is None or source.name == "none" or not len(predicted_w):
        return
    expected_w, powers = float(predicted_w.max()), inputs.powers
    if not expected_w > 0:
        yield odd(
            "forecast-empty",
            f"the forecast production is zero for the first {hours(len(predicted_w) * SECONDS_PER_HOUR)} of"
            " the run: is [time] start of the site file correct?",
        )
        return
    peak_w = float(powers.values_w.max()) if len(powers.times_s) else 0.0
    if peak_w > 0 and not 1 / _FORECAST_APART <= expected_w / peak_w <= _FORECAST_APART:
        yield odd(
            "forecast-size",
            f"the forecast reaches {kw(expected_w)}, the power {kw(peak_w)}: are they for plants of the"
            " same size? (capacity_kw in a predictor's TOML file)",
        )


def peak_far_below(series: TimeSeries, capacity_w: float) -> Finding | None:
    """Return a finding if a file's power stays far below its capacity (W)."""
    values = series.columns[POWER]
    if not capacity_w or not np.isfinite(values).any():
        return None
    share, length_s = float(np.nanmax(values)) / capacity_w, len(series) * series.interval_s
    low = share < _LOW_PEAK_SHARE and length_s >= _LOW_PEAK_S
    if not low and not (share < _TINY_PEAK_SHARE and length_s >= _TINY_PEAK_S):
        return None
    of = "its capacity" if capacity_w == 1 else f"its capacity of {w_to_kw(capacity_w):g} kW"
    return odd(
        "capacity-far",
        f"in {length_s / SECONDS_PER_DAY:.3g} days its power never exceeds {100 * share:.2g} % of {of}: is"
        " that correct? (use --pv-capacity-kw and --wind-capacity-kw to set another)",
    )


def low_wind(series: TimeSeries) -> Finding | None:
    """Return a finding if wind was measured near the ground."""
    height_m = series.wind_height_m
    if height_m is None or height_m >= _LOW_WIND_M:
        return None
    return odd(
        "wind-low",
        f"its wind was measured at {height_m:g} m above the ground, much weaker than at the height of a"
        " turbine's hub: use the wind speed at hub height, such as WS50M",
    )


def figures(inputs: RunInputs) -> dict[str, float | int | None]:
    """Return the contents of `facts` as numbers, in SI units; None for missing ones."""
    platform, jobs, powers = inputs.platform, inputs.jobs, inputs.powers
    has_powers = len(powers.times_s) > 0
    draws_known = platform is not None and platform.has_powers
    return {
        "hosts": platform.size if platform else None,
        "full_draw_w": full_draw_w(platform) if platform and draws_known else None,
        "jobs": sum(len(workload.jobs) for workload in inputs.workloads) if inputs.workloads else None,
        "median_run_s": float(np.median(jobs.limited_run_s)) if jobs else None,
        "median_share_of_walltime": jobs.median_share if jobs else None,
        "load": inputs.load,
        "run_s": inputs.end_s,
        "power_covered_s": powers.covered_s if inputs.events is not None else None,
        "power_step_s": powers.lasting_s if has_powers else None,
        "power_peak_w": float(powers.values_w.max()) if has_powers else None,
        "power_mean_w": inputs.mean_power_w if has_powers else None,
        "capacity_factor": inputs.capacity_factor if has_powers else None,
        "forecast_peak_w": float(inputs.predicted_w.max()) if len(inputs.predicted_w) else None,
        "planned_s": inputs.plans.end_s - inputs.plans.start_s if inputs.plans else None,
    }


def facts(inputs: RunInputs) -> Iterator[tuple[str, str]]:
    """Yield rows that describe ``inputs``, each a name and a string."""
    platform, jobs = inputs.platform, inputs.jobs
    if platform is not None:
        yield from _platform_facts(platform)
    if inputs.workloads:
        yield "jobs", _jobs(inputs.workloads)
    if jobs is not None:
        share = "" if jobs.median_share is None else f"; {100 * jobs.median_share:.3g} % of the walltime"
        yield "run time, median", f"{float(np.median(jobs.limited_run_s)):,.0f} s{share}"
    if inputs.load is not None:
        over = "of the time to the last job's end" if inputs.end_s is None else f"over {hours(inputs.end_s)}"
        yield "load", f"{100 * inputs.load:.1f} % {over}"
    if inputs.site is not None:
        yield "site", f"{_site(inputs.site)}, {counted(inputs.windows, 'window')}, {hours(inputs.end_s)}"
    if inputs.events is not None:
        yield from _power_facts(inputs)
    if inputs.plans is not None:
        plans = inputs.plans
        yield "plan", f"{counted(len(plans), 'window')}, {hours(plans.end_s - plans.start_s)}"
    if inputs.replan is not None and inputs.site is not None:
        yield "plans made", _replan(inputs.replan, inputs.site, inputs.windows)
    if inputs.forecast is not None:
        yield "forecast", _forecast_text(inputs)
    forwards = any(event.hosts is None for event in inputs.events or ())
    options = [*["-E"] * (inputs.site is not None), *["--forward-unknown-events"] * forwards]
    if options and _formats(inputs) != {BatsimFormat.BATSIM5}:
        yield "Batsim options", " ".join(options)
    if platform is not None and not all(SPEEDS_PROPERTY in host for host in platform.properties):
        yield "serve options", "-p with this platform, because Batsim 4 does not send the speeds of its hosts"


def _site(site: Site) -> str:
    battery, grid = site.storage.battery, site.grid
    parts = [f"battery {j_to_kwh(battery.capacity_j):g} kWh" if battery.exists else "no battery"]
    if grid is not None:
        parts.append("grid without a limit" if grid.unlimited else f"grid up to {kw(grid.import_limit_w)}")
    return ", ".join(parts)


def _replan(rule: ReplanRule, site: Site, windows: int) -> str:
    every, steps = rule.every_steps, site.steps * windows
    made = -(-steps // every) - 1
    seasonal = ", with the hydrogen targets of a seasonal plan" if rule.options.tank_targets_kg else ""
    return f"every {hours(every * site.step_s)}, {made:,} during the run{seasonal}"


def _forecast_text(inputs: RunInputs) -> str:
    source, predicted_w = inputs.forecast, inputs.predicted_w
    if source is None or source.name == "none" or not len(predicted_w):
        return "none: no production is expected"
    length = hours(len(predicted_w) * SECONDS_PER_HOUR)
    energy = f"{j_to_kwh(float(predicted_w.sum()) * SECONDS_PER_HOUR):.4g} kWh in {length}"
    notes = "".join(f"; {note}" for note in source.notes)
    return f"{source.name}, peak {kw(float(predicted_w.max()))}, {energy}{notes}"


def _power_facts(inputs: RunInputs) -> Iterator[tuple[str, str]]:
    powers, factor, mean_w = inputs.powers, inputs.capacity_factor, inputs.mean_power_w
    if not len(powers.times_s):
        yield "power", "no power events"
        return
    steps = f"in steps of {powers.lasting_s:g} s" if powers.lasting_s else "a single event"
    yield "power", f"{hours(powers.covered_s)}, {steps}"
    yield "  peak", kw(float(powers.values_w.max()))
    if mean_w is not None:
        share = "" if factor is None else f" (capacity factor {100 * factor:.1f} % of the peak)"
        yield "  mean", f"{kw(mean_w)}{share}"


def _platform_facts(platform: Platform) -> Iterator[tuple[str, str]]:
    speeds = ""
    if platform.has_speeds:
        gflops = sorted({kind.speeds_flops[kind.fastest] / 1e9 for kind in platform.kinds})
        speeds = f", {_between(gflops)} Gflop/s"
    yield "hosts", f"{platform.size:,}{speeds}"
    with_powers = [kind for kind in platform.kinds if kind.idle_w]
    powers = "none"
    if with_powers:
        idle = sorted({kind.idle_w[kind.fastest] for kind in with_powers})
        full = sorted({kind.full_w[kind.fastest] for kind in with_powers})
        missing = "" if platform.has_powers else "; some hosts have none"
        powers = f"{_between(idle)} W idle, {_between(full)} W computing{missing}"
    yield "powers", powers
    can = np.isin(platform.kind_of, [n for n, kind in enumerate(platform.kinds) if kind.sleeps])
    count = int(can.sum())
    yield "sleep states", "all hosts" if count == platform.size else f"{count:,} hosts" if count else "none"


def _jobs(workloads: Sequence[Workload]) -> str:
    jobs = [workload.jobs for workload in workloads if workload.jobs]
    if not jobs:
        return "0"
    unlimited = sum(np.count_nonzero(np.isinf(each.walltime_s)) for each in jobs)
    limits = f", {unlimited:,} without walltime" if unlimited else ""
    last_s = max(float(each.subtime_s.max()) for each in jobs)
    return f"{sum(map(len, jobs)):,}, the last at {hours(last_s)}{limits}"


def _between(values: Sequence[float]) -> str:
    first, last = f"{values[0]:.4g}", f"{values[-1]:.4g}"
    return first if first == last else f"{first} to {last}"
