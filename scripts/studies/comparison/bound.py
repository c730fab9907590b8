"""Upper bound on the number of finished jobs: a linear program with perfect information.

It uses the actual production and run times. Its jobs are fluid: they may be interrupted, and finished in
part; they take the least energy per flop of any server, and servers sleep whenever they do not
compute, immediately and without cost. The battery must never be below its minimum, and be at its target at
the end, unless not even a sleeping site could reach it. No run that keeps both can finish more.

Let f_j be the part of job j that is finished, W_j its work, r_j its hosts, a_j its arrival and T the end. The
work C(t) that is done by t lies between two sums of what each job must, and can, have done by then at full
speed: sum f_j max(0, W_j - r_j (T - t)) <= C(t) <= sum f_j min(W_j, r_j (t - a_j)). All whole f_j that a run
achieves fulfil this, so the optimum with parts of jobs is a bound.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.energy.devices.battery import project_levels_j
from beasy_sched.energy.site import Site
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.batsim_profiles import profile_run_s
from beasy_sched.formats.batsim_workload import Workload, read_workload
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.planner.solver import LinearModel, SearchEnd, Solver
from beasy_sched.plugins.campaigns.campaign import Progress
from beasy_sched.plugins.campaigns.campaign_table import Campaign
from beasy_sched.plugins.campaigns.folder import read_ended
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.workers import Executor, Failure, Task, work_through
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_HOUR

_JOBS_AT_ONCE = 512
_ROUNDING = 1e-9


class ClairvoyantBound(msgspec.Struct, frozen=True):
    """The most that can be finished of one execution, percent of what is submitted."""

    finished_pct: float
    """Most jobs that can be finished, % of those submitted."""
    work_pct: float
    """Most work that can be finished, % of that submitted (flops); its optimum is not that of the jobs."""
    in_time_pct: float
    """Share of jobs, %, that arrive early enough to end, at full speed and with any amount of
    energy."""


class FluidJobs(NamedTuple):
    """Jobs that can end in time: one entry each. Work is in hours of a host at the platform's full speed."""

    arrival_h: FloatArray
    hosts: FloatArray
    work_h: FloatArray


@dataclass(frozen=True)
class FluidServers:
    """Most that the servers can do."""

    hosts: float
    """Number of servers, slower ones counted as parts of the fastest."""
    asleep_kw: float
    """Power of all servers asleep (idle, if they cannot sleep), kW."""
    busy_kw: float
    """Least energy of an hour's work of a host above that of sleep, kWh per hour."""
    speed_flops: float
    """Speed of the fastest server, flops/s."""


def fluid_servers(platform: Platform) -> FluidServers:
    """Return what a platform can do. Raises ConfigError where speeds or powers are unknown."""
    if not (platform.has_speeds and platform.has_powers):
        raise ConfigError("the bound needs the speeds and powers of all hosts")
    counts = np.bincount(platform.kind_of, minlength=len(platform.kinds))
    fastest = np.array([kind.speeds_flops[kind.fastest] for kind in platform.kinds])
    resting_w = np.array([_resting_w(kind) for kind in platform.kinds])
    j_per_flop = min(map(_least_j_per_flop, platform.kinds))
    return FluidServers(
        hosts=float(counts @ fastest / fastest.max()),
        asleep_kw=float(counts @ resting_w) / 1e3,
        busy_kw=j_per_flop * float(fastest.max()) / 1e3,
        speed_flops=float(fastest.max()),
    )


def _resting_w(kind: ServerKind) -> float:
    if kind.sleep is not None:
        return kind.idle_w[kind.sleep.pstate]
    return min(kind.idle_w[pstate] for pstate in kind.computing)


def _least_j_per_flop(kind: ServerKind) -> float:
    """Energy per flop of a task on one core, above that of a resting host."""
    rest_w = _resting_w(kind)
    return min(
        (kind.epsilon_w[p] + (kind.full_w[p] - kind.epsilon_w[p]) / kind.cores - rest_w)
        / kind.speeds_flops[p]
        for p in kind.computing
    )


def fluid_jobs(workload: Workload, speed_flops: float, end_h: float) -> FluidJobs:
    """Return the jobs that can end by ``end_h``, and within their walltimes, on hosts of this speed."""
    rows = []
    for job in workload.jobs:
        run_s = profile_run_s(job.profile, workload.profiles, job.res, speed_flops)
        limit_s = math.inf if job.walltime is None else float(job.walltime)
        latest_s = end_h * SECONDS_PER_HOUR - float(job.subtime)
        if run_s <= min(limit_s, latest_s) * (1.0 + _ROUNDING):
            hours = run_s / SECONDS_PER_HOUR
            rows.append((float(job.subtime) / SECONDS_PER_HOUR, float(job.res), job.res * hours))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return FluidJobs(*columns)


def clairvoyant_bound(
    site: Site, platform: Platform, workload: Workload, renew_w: FloatArray
) -> ClairvoyantBound:
    """Return the bound of an execution with this production (W per step of the site).

    Raises ConfigError for a site with hydrogen, a grid or a base load, a platform of unknown speeds or
    powers, and where highspy is missing; BeasyError where the solver fails.
    """
    if site.storage.hydrogen is not None or site.metered or site.cooling is not None:
        raise ConfigError("the bound is for sites with solar, wind and a battery, without hydrogen and grid")
    servers = fluid_servers(platform)
    end_h = len(renew_w) * site.step_s / SECONDS_PER_HOUR
    jobs = fluid_jobs(workload, servers.speed_flops, end_h)
    submitted, count = len(workload.jobs), len(jobs.work_h)
    work_h = (
        sum(
            job.res * profile_run_s(job.profile, workload.profiles, job.res, servers.speed_flops)
            for job in workload.jobs
        )
        / SECONDS_PER_HOUR
    )
    if not count or work_h == 0.0:
        share = 100.0 * count / submitted if submitted else 100.0
        return ClairvoyantBound(share, share, share)
    model, parts = _model(site, servers, jobs, renew_w)
    solver = Solver(model)

    def most(values: FloatArray) -> float:
        outcome = solver.minimize((parts, -values))
        if outcome.ending is not SearchEnd.DONE:
            raise BeasyError(f"the clairvoyant bound cannot be computed: {outcome.ending.value}")
        return -outcome.objective

    return ClairvoyantBound(
        finished_pct=100.0 * most(np.ones(count)) / submitted,
        work_pct=100.0 * most(jobs.work_h) / work_h,
        in_time_pct=100.0 * count / submitted,
    )


def _model(
    site: Site, servers: FluidServers, jobs: FluidJobs, renew_w: FloatArray
) -> tuple[LinearModel, IndexArray]:
    """The model, in kWh and hours, and the columns of the jobs' finished parts."""
    steps, hours = len(renew_w), site.step_s / SECONDS_PER_HOUR
    model = LinearModel()
    parts = model.columns(len(jobs.work_h), 0.0, 1.0)
    work = model.columns(steps, 0.0, servers.hosts * hours)
    done = model.columns(steps)
    model.chain(done, 1.0, 0.0, (work, 1.0))
    edges_h = hours * np.arange(steps + 1.0)
    for shares_of, least, most in ((_can_be_done, -np.inf, 0.0), (_must_be_done, 0.0, np.inf)):
        limit = _sum_of_jobs(model, parts, jobs, edges_h, shares_of)
        model.rows(steps, least, most, (done, 1.0), (limit, -1.0))
    _add_energy(model, site, servers, renew_w, work)
    return model, parts


def _can_be_done(jobs: FluidJobs, edges_h: FloatArray) -> FloatArray:
    """Most work (h) of each job that can be done by each edge, if the job is finished."""
    since_h = edges_h[None, :] - jobs.arrival_h[:, None]
    return np.asarray(np.clip(jobs.hosts[:, None] * since_h, 0.0, jobs.work_h[:, None]))


def _must_be_done(jobs: FluidJobs, edges_h: FloatArray) -> FloatArray:
    """Least work (h) of each job that must be done by each edge for it to end in time."""
    left_h = edges_h[-1] - edges_h[None, :]
    return np.asarray(np.maximum(jobs.work_h[:, None] - jobs.hosts[:, None] * left_h, 0.0))


def _sum_of_jobs(
    model: LinearModel,
    parts: IndexArray,
    jobs: FluidJobs,
    edges_h: FloatArray,
    shares_of: Callable[[FluidJobs, FloatArray], FloatArray],
) -> IndexArray:
    """Columns of the sum over jobs of their finished parts times ``shares_of`` them, at each step's end.

    The rows hold differences between steps, so that each job stands only in those in which it may run.
    """
    steps = len(edges_h) - 1
    sums = model.columns(steps)
    rows = model.chain(sums, 1.0, 0.0)
    for start in range(0, len(parts), _JOBS_AT_ONCE):
        some = FluidJobs(*(column[start : start + _JOBS_AT_ONCE] for column in jobs))
        shares = shares_of(some, edges_h)
        shares[:, 0] = 0.0
        more = np.diff(shares, axis=1)
        job, step = np.nonzero(more)
        model.add_entries(rows[step], parts[start + job], -more[job, step])
    return sums


def _add_energy(
    model: LinearModel, site: Site, servers: FluidServers, renew_w: FloatArray, work: IndexArray
) -> None:
    """The battery (Eq. 2.3), and that each step's energy comes from somewhere."""
    battery, steps, hours = site.storage.battery, len(renew_w), site.step_s / SECONDS_PER_HOUR
    spare_kw = renew_w / 1e3 - servers.asleep_kw
    asleep_kwh = project_levels_j(battery, battery.start_j, 1e3 * spare_kw, site.step_s) / JOULES_PER_KWH
    least_kwh = np.full(steps, battery.min_j / JOULES_PER_KWH)
    least_kwh[-1] = max(least_kwh[-1], battery.target_j / JOULES_PER_KWH)
    least_kwh = np.minimum(least_kwh, asleep_kwh[1:]) * (1.0 - _ROUNDING)
    empty = asleep_kwh[1:] <= _ROUNDING
    charge = model.columns(steps, 0.0, battery.charge_limit_w / 1e3)
    discharge = model.columns(steps, 0.0, battery.discharge_limit_w / 1e3)
    unserved = model.columns(steps, 0.0, np.where(empty, np.maximum(-spare_kw, 0.0), 0.0))
    level = model.columns(steps, least_kwh, battery.max_j / JOULES_PER_KWH)
    flows = (charge, battery.charge_efficiency * hours), (discharge, -battery.drawn_per_delivered() * hours)
    model.chain(level, battery.kept_fraction(site.step_s), battery.start_j / JOULES_PER_KWH, *flows)
    load = work, servers.busy_kw / hours
    model.rows(steps, -np.inf, spare_kw, load, (charge, 1.0), (discharge, -1.0), (unserved, -1.0))


class BoundTask(NamedTuple):
    """An execution: the text of its site, and its files."""

    site: str
    windows: int
    platform: Path
    workload: Path
    power: Path

    @property
    def digest(self) -> str:
        """Name of the task's result: executions that differ in forecasts and policies only have the same."""
        head = f"{self.windows}\n{self.site}"
        names = (self.platform.name, self.workload.name, self.power.name)  # named by their contents
        return hashlib.sha256("\n".join((*names, head)).encode()).hexdigest()[:16]


def bound_of(task: BoundTask) -> ClairvoyantBound:
    """Read an execution's files and return its bound. Raises InputError, ConfigError and BeasyError."""
    site = parse_site(task.site, "site")
    platform = read_simgrid_platform(task.platform).platform
    steps = site.steps * task.windows
    renew_w = read_power_series(task.power, steps=steps, step_s=site.step_s, as_run=True)
    return clairvoyant_bound(site, platform, read_workload(task.workload), renew_w)


Bounds = Mapping[tuple[str, int, int], ClairvoyantBound]
"""Bounds by scenario, tuple and seed."""


def compute_bounds(
    campaign: Campaign, folder: Path, executor: Executor, progress: Progress | None = None
) -> Bounds:
    """Return the bounds of a campaign's executions; those that are in ``folder`` are not computed again.

    Raises BeasyError for the first that cannot be computed.
    """
    wanted = dict(_executions(campaign))
    tasks = {task.digest: task for task in wanted.values()}
    paths = {digest: folder / f"{digest}.json" for digest in tasks}
    known = {digest: read_ended(path, ClairvoyantBound) for digest, path in paths.items()}
    found = {digest: bound for digest, bound in known.items() if bound is not None}

    def pending() -> Iterator[Task]:
        for digest, task in tasks.items():
            if digest not in found:
                yield digest, bound_of, task

    def keep(digest: str, result: ClairvoyantBound | Failure) -> None:
        if isinstance(result, Failure):
            raise BeasyError(result.error)
        write_inside(folder.parent, f"{folder.name}/{digest}.json", msgspec.json.encode(result))
        found[digest] = result
        if progress is not None:
            progress(len(found), len(tasks))

    work_through(executor, pending(), keep)
    return {key: found[task.digest] for key, task in wanted.items()}


def _executions(campaign: Campaign) -> Iterator[tuple[tuple[str, int, int], BoundTask]]:
    """The executions with complete inputs, each once."""
    scenarios: dict[str, Scenario] = {each.name: each for each in campaign.manifest.parsed()}
    keys, kinds = ["scenario", "tuple", "seed"], ("platform", "workload", "power")
    runs = campaign.runs.drop_duplicates(keys)[[*keys, *(f"{kind}_sha256" for kind in kinds)]]
    for name, number, seed, *digests in runs.itertuples(index=False):
        if all(digests):
            scenario = scenarios[name]
            paths = map(campaign.folder.input_path, kinds, digests)
            task = BoundTask(scenario.site_text(), scenario.windows, *paths)
            yield (str(name), int(number), int(seed)), task
