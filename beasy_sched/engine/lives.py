"""The lives of jobs: which of them come back after a kill, with what work, and what a kill would lose.

A job that comes back is registered with the simulator as another job of the same lineage: ``w0!12`` comes
back as ``w0!12#1``. Its profile is the rest of the first one's (`profile_rest`).

Simulators do not model checkpoints. A job writes one after each interval of work, and does not advance while
it writes it. The profile of what comes back is therefore longer, by the time of reading the last checkpoint
and of writing the next ones. A first life runs as its workload states: what it would have needed for its
checkpoints is subtracted from what it has saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from beasy_sched.engine.checkpointing import LifePlan
from beasy_sched.engine.profile_rest import (
    CONTINUED,
    ProfileWork,
    Raw,
    done_work,
    not_continued,
    rest_profile,
    waits_and_computes,
    whole_work,
)
from beasy_sched.engine.session_words import NO_ENERGY
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.limits import shortened
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import OnKill
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.jobs import Job, LifeShares, Past
from beasy_sched.model.restarts import (
    LINEAGE_MARK,
    SHORTEST_REST_S,
    Checkpoints,
    RestartSettings,
    RestartTerms,
    full_id,
    read_restart_terms,
)

REQUEUES_JOBS: Final = "requeues-jobs"
"""Member of the configuration of a cluster that puts killed jobs back into its queue itself.

It submits each as its next life; what work its jobs have is unknown. Not sent by Batsim."""
_DECIMALS: Final = 6
"""Decimals of times in the messages of Batsim 4."""


class _Life(Struct, gc=False):
    """A life of a job that came back."""

    first: Job
    """The job as it was submitted."""
    number: int
    """Number of the life, from 1."""
    name: str
    """Name of its profile."""
    past: Past
    plan: LifePlan | None
    """Its work; None if it begins from its beginning and the pace of the job is still unknown."""


class DrawnWork(Struct, frozen=True, gc=False):
    """Work of a life of a job in a drawn future."""

    name: str
    """Name of its profile, which is its own."""
    profile: Raw
    """A delay, or the same computation on each host."""
    run_s: float
    """Run time of the life, s."""


class Return(Struct, frozen=True, gc=False):
    """Next life of a job."""

    before: Job
    """Its life that has ended."""
    request: e.JobRequest
    """Its next life, as it is registered."""
    decisions: list[d.Decision]
    """The registration."""
    acknowledged: bool
    """Whether the simulator submits the next life; otherwise it is submitted with the registration."""
    saved_s: float
    """Work of the life before that is continued, s."""
    redone_s: float
    """Work of the life before that is done again, s."""
    checkpoints: int
    """Number of checkpoints that the life before has written."""


class Lives:
    """The owner of all lives of the jobs of one run."""

    def __init__(self, on_kill: OnKill, settings: RestartSettings, now: Callable[[], float]) -> None:
        """Begin before the first message; ``now`` returns the time of the last one, s."""
        self._on_kill, self._settings, self._time = on_kill, settings, now
        self._usual = RestartTerms(checkpoints=settings.checkpoints)
        self._saves = on_kill is OnKill.CHECKPOINT
        self.is_on = on_kill is not OnKill.DROP
        """Whether jobs can come back in this run."""
        self.is_open = False
        """Whether the simulator waits for jobs that may be registered."""
        self.count = self.checkpoints = 0
        """Number of times that jobs came back, and of the checkpoints that these jobs wrote."""
        self.lineages: set[str] = set()
        """Ids of the jobs that came back at least once."""
        self._acknowledges = self._reuses_profiles = False
        self._registers = True
        """Whether lives are registered; otherwise, the cluster submits them (`REQUEUES_JOBS`)."""
        self._profiles: dict[str, dict[str, Raw]] = {}
        """Profiles by workload and name, those that were registered included."""
        self._terms: dict[str, RestartTerms] = {}
        """Terms of jobs that state some, by the id of their first life."""
        self._lives: dict[str, _Life] = {}
        """Lives after the first, from their registration to their end, by id."""
        self._awaited: set[str] = set()
        """Ids of registered jobs that the simulator has not submitted yet."""
        self._ended: dict[str, Job] = {}
        """Jobs that have ended and come back once their progress is known, by id."""
        self._noticed_s: dict[str, float] = {}
        """Times of the notices of kills, by job, s."""
        self._cluster: Cluster | None = None

    @property
    def checkpoints_of_jobs(self) -> Checkpoints:
        """Checkpoints of jobs that state none."""
        return self._settings.checkpoints

    @property
    def _now(self) -> float:
        """Time of the last message, s."""
        return self._time()

    # --- the run ----------------------------------------------------------------------------------------

    def begin(self, event: e.SimulationBegins, cluster: Cluster) -> None:
        """Check that jobs can come back, if they are to. Raises ConfigError if they cannot."""
        self._cluster = cluster
        if not self.is_on:
            return
        if event.config.get(REQUEUES_JOBS) is True:
            self._registers, self._acknowledges, self.is_open = False, True, True
            self._profiles = {workload: dict(profiles) for workload, profiles in event.profiles.items()}
            return
        option = f"--on-kill {self._on_kill.value}"
        if not event.awaits_registration:
            hint = "with Batsim 5, use --on-kill drop"
            if event.answers_queries:
                hint = "start Batsim 4 with --enable-dynamic-jobs, or use --on-kill drop"
            raise ConfigError(
                f"{option}: the simulator does not let the scheduler register jobs, so killed jobs cannot"
                f" come back: {hint}"
            )
        if not event.answers_queries:
            raise ConfigError(f"{option}: jobs cannot come back with Batsim 5: use --on-kill drop")
        self._acknowledges = event.config.get("dynamic-jobs-acknowledged") is True
        self._reuses_profiles = event.config.get("profile-reuse-enabled") is True
        self.is_open = bool(event.workloads)
        self._profiles = {workload: dict(profiles) for workload, profiles in event.profiles.items()}
        for workload, profiles in event.profiles.items():
            for name in profiles:
                self._check_profile(option, workload, name)

    def _check_profile(self, option: str, workload: str, name: str) -> None:
        """Raise ConfigError for a profile with which no job could come back."""
        profiles = self._profiles[workload]
        if not self._saves and self._reuses_profiles:
            return
        where = f"{option}: profile {shortened(repr(name))} of workload {shortened(workload)}"
        if (kind := not_continued(name, profiles)) is not None:
            what = "continued from a checkpoint" if self._saves else "registered again"
            or_else = "" if self._saves else ", or Batsim's --enable-profile-reuse"
            raise ConfigError(
                f"{where} has type {kind!r}, which cannot be {what}: expected one of"
                f" {', '.join(CONTINUED)}{or_else}"
            )
        platform = None if self._cluster is None else self._cluster.platform
        if platform is not None and not platform.has_speeds and waits_and_computes(name, profiles):
            raise ConfigError(
                f"{where} both waits and computes: what is left of it depends on the servers' speeds, which"
                " the simulator did not send: pass the platform file with -p/--platform"
            )

    def meet(self, job: Job) -> None:
        """Note a job that its workload submits.

        Raises TermsError for fields that cannot be read, PeerError for an id like that of a later life.
        """
        if LINEAGE_MARK in job.id and self._registers:
            raise PeerError(
                f"job {shortened(job.id)}: its id contains {LINEAGE_MARK!r}, which marks jobs that came back:"
                " choose another id, or use --on-kill drop"
            )
        if (members := job.request.extras) is not None:
            terms = read_restart_terms(members, self._settings.checkpoints)
            if not terms.requeue or terms.checkpoints is not self._settings.checkpoints:
                self._terms[job.id] = terms

    def close(self, *, nothing_left: bool) -> bool:
        """Return whether the registration ends now: there is ``nothing_left``, and no job comes back."""
        if not (self.is_open and nothing_left) or self._ended or self._awaited:
            return False
        self.is_open = False
        return True

    # --- a life ends ------------------------------------------------------------------------------------

    def can_come_back(self, job: Job) -> bool:
        """Return whether a job is submitted again after a kill."""
        if not self.is_open:
            return False
        life = self._lives.get(job.id)
        most, number = self._settings.most, 0 if life is None else life.number
        return (most is None or number < most) and self._terms_of(job).requeue

    def notice_s(self, job: Job) -> float:
        """Return the time between the guard's decision to kill a job and the kill, s."""
        if not self._settings.notice_s or self._checkpoints_of(job) is None or not self.can_come_back(job):
            return 0.0
        return self._settings.notice_s

    def announce(self, job: Job, rule: str) -> float:
        """Return the notice of a kill that has been decided by ``rule``, s: only the guard gives one.

        On a cluster that requeues jobs, each kill has a notice, for which the cluster waits.
        """
        gives_notice = self._settings.notice_s and (rule == NO_ENERGY or not self._registers)
        wait_s = self.notice_s(job) if gives_notice else 0.0
        if wait_s:
            self._noticed_s[job.id] = self._now
        return wait_s if self._registers else 0.0

    def leave(self, job: Job) -> None:
        """Note that a job has ended that comes back, once its progress is known."""
        self._ended[job.id] = job

    def end(self, job: Job, *, finished: bool) -> None:
        """Note that a job has ended for good; ``finished``: its last life did all of its work."""
        self._terms.pop(job.first_id, None)
        self._noticed_s.pop(job.id, None)
        self._awaited.discard(job.id)
        life = self._lives.pop(job.id, None)
        if life is not None and finished and (plan := life.plan) is not None:
            dumps, costs, work = plan.dumps, plan.costs, plan.left + plan.costs
            if math.isinf(work):  # unknown before
                work = plan.per_s * (job.end_s - job.start_s)
                saved = plan.saved(work)
                dumps, costs = saved.checkpoints, min(saved.costs, work)
            self.checkpoints += dumps
            share = costs / work if work > 0.0 else 0.0
            job.shares = LifeShares(job.first_id, 1.0 - share, share)

    def returns(self, event: e.JobsKilled) -> Iterator[Return]:
        """Yield the jobs of a report of kills that come back."""
        for job_id in event.job_ids:
            if (job := self._ended.pop(job_id, None)) is not None:
                yield self._come_back(job, event.progress.get(job_id))

    def returns_from(self, job: Job) -> Return:
        """Return how a job comes back that a broken host has ended: its progress is not reported."""
        return self._come_back(self._ended.pop(job.id), None)

    # --- how it comes back ------------------------------------------------------------------------------

    def is_life(self, job_id: str) -> bool:
        """Return whether a job is one that came back."""
        return job_id in self._lives

    def take_back(self, job: Job) -> Job:
        """Give the next life of a job what it has from its first; return the first."""
        life = self._lives[job.id]
        self._awaited.discard(job.id)
        workload, _, _ = job.id.partition("!")
        job.past, job.terms = life.past, life.first.terms
        job.computes = whole_work(life.name, self._profiles[workload], life.first.request.res).flops > 0.0
        return life.first

    def _come_back(self, job: Job, progress: Mapping[str, Any] | None) -> Return:
        """Register the next life of a job. Raises PeerError for a progress that cannot be read."""
        life = self._lives.pop(job.id, None)
        first, number = (job, 1) if life is None else (life.first, life.number + 1)
        run_s = job.end_s - job.start_s
        done, plan = self._done(job, life, progress)
        saved_s = redone_s = 0.0
        checkpoints = 0
        if plan is not None:
            saved = plan.saved(done, self._done_at_notice(job, plan, done))
            checkpoints = saved.checkpoints
            if done > 0.0:
                job.shares = LifeShares(first.id, saved.work / done, min(saved.costs, done) / done)
            saved_s = round(saved.work / plan.per_s, _DECIMALS)
            plan = LifePlan(plan.per_s, plan.total, plan.before + saved.work, plan.checkpoints)
        if job.shares is None:
            job.shares = LifeShares(first.id, 0.0, 0.0)
        redone_s = run_s * max(1.0 - job.shares.useful - job.shares.checkpoints, 0.0)
        self._noticed_s.pop(job.id, None)
        waited_s, before_s = job.start_s - job.subtime_s, 0.0
        if job.past is not None:
            waited_s, before_s = waited_s + job.past.waited_s, job.past.saved_s
        past = Past(first.id, first.subtime_s, waited_s, before_s + saved_s)
        decisions, name = self._profile_of(first, number, plan)
        request = self._request(first, number, name, past)
        self._lives[request.id] = _Life(first, number, name, past, plan)
        if self._registers:
            decisions.append(d.RegisterJob(self._now, request.id, _as_object(request)))
        if self._acknowledges:
            self._awaited.add(request.id)
        self.count += 1
        self.checkpoints += checkpoints
        self.lineages.add(first.id)
        return Return(job, request, decisions, self._acknowledges, saved_s, redone_s, checkpoints)

    def _done(
        self, job: Job, life: _Life | None, progress: Mapping[str, Any] | None
    ) -> tuple[float, LifePlan | None]:
        """Return the work that a life has done, and its plan; no plan if the pace of the job is unknown."""
        workload, _, _ = job.id.partition("!")
        profiles, hosts = self._profiles.get(workload, {}), job.request.res
        name = job.request.profile if life is None else life.name
        try:
            whole = whole_work(name, profiles, hosts)
            done = None if progress is None else done_work(progress, name, profiles, hosts)
        except (KeyError, IndexError, TypeError, ValueError):
            raise PeerError(
                f"job {shortened(job.id)}: its progress {shortened(repr(progress))} does not fit its profile"
                f" {shortened(repr(name))}"
            ) from None
        run_s, plan = job.end_s - job.start_s, None if life is None else life.plan
        per_s = 1.0 if whole.flops <= 0.0 else self._pace_flops(job, done, run_s)
        if done is not None:
            position = done.in_flops(per_s) if whole.flops > 0.0 else done.delay_s
        else:
            position = per_s * run_s
        if plan is not None:
            return position, plan
        if not per_s > 0.0:
            return 0.0, None
        total = whole.in_flops(per_s) if whole.flops > 0.0 else whole.delay_s
        if not self._registers:
            total = math.inf
        return min(position, total), LifePlan(per_s, total, 0.0, self._checkpoints_of(job))

    def _pace_flops(self, job: Job, done: ProfileWork | None, run_s: float) -> float:
        """Return the mean speed at which a job has computed, flops/s; 0 if it is unknown."""
        if done is not None and done.flops > 0.0 and run_s - done.delay_s > 0.0:
            return done.flops / (run_s - done.delay_s)
        if self._cluster is None or not self._cluster.platform.has_speeds:
            return 0.0
        return float(self._cluster.speed_flops(job.hosts.ids).min())

    def _done_at_notice(self, job: Job, plan: LifePlan, done: float) -> float | None:
        """Return the work done at the notice of a kill, if the notice was long enough for a checkpoint."""
        at_s, run_s = self._noticed_s.get(job.id), job.end_s - job.start_s
        if at_s is None or plan.checkpoints is None or not run_s > 0.0:
            return None
        if job.end_s - at_s < plan.checkpoints.dump_s:
            return None
        return done * max(at_s - job.start_s, 0.0) / run_s

    def _profile_of(self, first: Job, number: int, plan: LifePlan | None) -> tuple[list[d.Decision], str]:
        """Return the registration of the profile of a life, and its name."""
        workload, _, local = first.id.partition("!")
        profiles, name = self._profiles[workload], first.request.profile
        if not self._registers:
            return [], name
        extra = 0.0 if plan is None else plan.costs
        if self._reuses_profiles and not extra and (plan is None or not plan.before):
            return [], name
        if plan is None:
            rest = dict(profiles[name])
        else:
            rest = dict(rest_profile(name, profiles, first.request.res, plan.left, extra))
        new = full_id(local, number)
        while new in profiles:
            new += "'"
        profiles[new] = rest
        return [d.RegisterProfile(self._now, workload, new, rest)], new

    def _request(self, first: Job, number: int, name: str, past: Past) -> e.JobRequest:
        """Return the next life of a job as it is registered."""
        asked, checkpoints = first.request, self._checkpoints_of(first)
        walltime = asked.walltime
        if walltime is not None and past.saved_s > 0.0 and checkpoints is not None:
            least_s = checkpoints.read_s + SHORTEST_REST_S
            walltime = max(round(walltime - past.saved_s + checkpoints.read_s, _DECIMALS), least_s)
        job_id = full_id(first.id, number)
        return e.JobRequest(job_id, self._now, asked.res, name, walltime, asked.extras)

    # --- a run that is continued into a drawn future, in a copy of its process ----------------------------

    def register_from_now(self) -> None:
        """Register next lives with a simulator that takes over, and keeps the profiles of its workloads."""
        self._registers, self._acknowledges, self._reuses_profiles = True, False, True

    def replace_work(self, jobs: Iterable[Job], work: Mapping[str, DrawnWork]) -> None:
        """Replace the work of ``jobs`` that run or wait, and of later ones, by drawn ``work``, by id.

        What the lives before have saved counts by its time: their work was a part of the actual one.
        """
        present = {job.id: job for job in jobs}
        for job_id, drawn in work.items():
            workload = job_id.partition("!")[0]
            profiles = self._profiles.setdefault(workload, {})
            profiles[drawn.name] = drawn.profile
            if (life := self._lives.get(job_id)) is not None:
                self._replace_life(life, drawn, profiles)
            elif (job := present.get(job_id)) is not None:
                job.request = replace(job.request, profile=drawn.name)

    def _replace_life(self, life: _Life, drawn: DrawnWork, profiles: dict[str, Raw]) -> None:
        first, life.name = life.first, drawn.name
        whole = whole_work(drawn.name, profiles, first.request.res)
        work = whole.flops or whole.delay_s
        per_s = work / drawn.run_s
        life.plan = plan = LifePlan.of_life(
            per_s, life.past.saved_s * per_s, self._checkpoints_of(first), work
        )
        name = drawn.name
        if plan.total != work:
            name = f"{drawn.name} in all"
            profiles[name] = rest_profile(drawn.name, profiles, first.request.res, plan.total, 0.0)
        first.request = replace(first.request, profile=name)

    # --- what a kill would lose -------------------------------------------------------------------------

    def lost_flops(self, job: Job) -> float:
        """Return `Job.lost_if_killed_flops`."""
        if not job.computes or self._cluster is None or job.id not in self._cluster.running:
            return 0.0
        if not self._cluster.platform.has_speeds:
            return math.nan
        [done_flops] = self._done_flops([job])
        return self._lost(job, done_flops, comes_back=self.can_come_back(job))[0]

    def losses_s(self, jobs: Sequence[Job]) -> list[float]:
        """Return the time that a kill of each of ``jobs`` costs now, s: of work, and to read and write.

        The work is that since the last checkpoint, which is read; another one is written. All work so far
        counts for a job that is not submitted again.
        """
        return [self._loss_s(job, done) for job, done in zip(jobs, self._done_flops(jobs), strict=True)]

    def _loss_s(self, job: Job, done_flops: float) -> float:
        comes_back = self.can_come_back(job)
        lost, plan = self._lost(job, done_flops, comes_back=comes_back)
        lost_s = lost / plan.per_s if plan.per_s > 0.0 else 0.0
        if not comes_back or plan.checkpoints is None:
            return lost_s
        return lost_s + plan.checkpoints.read_s + plan.checkpoints.dump_s

    def _done_flops(self, jobs: Sequence[Job]) -> list[float]:
        """Return the work that each of the running ``jobs`` has done on each of its hosts; NaN if unknown."""
        done_flops = [math.nan] * len(jobs)
        computing = [place for place, job in enumerate(jobs) if job.computes]
        if computing and self._cluster is not None:
            found = self._cluster.work_flops([jobs[place] for place in computing], self._now).tolist()
            for place, done in zip(computing, found, strict=True):
                done_flops[place] = done
        return done_flops

    def _lost(self, job: Job, done: float, *, comes_back: bool) -> tuple[float, LifePlan]:
        """Return the work that a kill of a running job would lose now, and the plan of its life.

        ``done``: result of `_done_flops`.
        """
        run_s, life = self._now - job.start_s, self._lives.get(job.id)
        plan = None if life is None else life.plan
        if plan is None:
            per_s = 1.0 if math.isnan(done) or not run_s > 0.0 else done / run_s
            plan = LifePlan(per_s, math.inf, 0.0, self._checkpoints_of(job))
        if math.isnan(done):
            done = run_s * plan.per_s
        if not comes_back:
            return done + plan.before, plan
        if not plan.per_s > 0.0:
            return 0.0, plan
        at_notice = None
        if plan.checkpoints is not None and self.notice_s(job) >= plan.checkpoints.dump_s > 0.0:
            at_notice = done
        saved = plan.saved(done, at_notice)
        return max(done - saved.work - saved.costs, 0.0), plan

    # --- what a job states about its restarts -----------------------------------------------------------

    def _terms_of(self, job: Job) -> RestartTerms:
        return self._terms.get(job.first_id, self._usual)

    def _checkpoints_of(self, job: Job) -> Checkpoints | None:
        """Return the checkpoints that a job writes; None if it writes none."""
        return self._terms_of(job).checkpoints if self._saves else None


def _as_object(request: e.JobRequest) -> dict[str, Any]:
    """Return a job as the object of its registration."""
    _, _, local = request.id.partition("!")
    job: dict[str, Any] = {
        "id": local,
        "subtime": request.subtime,
        "res": request.res,
        "profile": request.profile,
    }
    if request.walltime is not None:
        job["walltime"] = request.walltime
    return {**job, **(request.extras or {})}
