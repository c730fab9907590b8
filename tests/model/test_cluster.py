"""The cluster: starts that are refused, counts that agree with masks, energy beside an integral."""

from __future__ import annotations

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import FAST, SLOW

from beasy_sched.engine.policy import View
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.host_states import HostState
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.model.platform import Platform

SLEEP = 2


def platform(fast: int = 3, slow: int = 2, initial: list[int] | None = None) -> Platform:
    kind_of = np.array([0] * fast + [1] * slow, dtype=np.intp)
    names = tuple(f"n{i}" for i in range(fast + slow))
    return Platform((FAST, SLOW), kind_of, names, np.array(initial or [], dtype=np.intp))


def submit(cluster: Cluster, name: str = "a", res: int = 1, walltime: float | None = 10.0) -> Job:
    return cluster.submit(Job(JobRequest(f"w0!{name}", 0.0, res, "p", walltime)))


def ids(*hosts: int) -> np.ndarray:
    return np.array(hosts, dtype=np.intp)


# --- illegal starts ---


def asleep(cluster: Cluster) -> None:
    cluster.begin_switch(ids(1), HostState.SWITCHING_OFF, SLEEP, 0.0)
    cluster.end_switch(ids(1), SLEEP, 7.0)


def waking(cluster: Cluster) -> None:
    asleep(cluster)
    cluster.begin_switch(ids(1), HostState.SWITCHING_ON, 0, 7.0)


CONDITIONS = {
    "busy": lambda cluster: cluster.start(submit(cluster, "other"), HostSet.of([1]), 0.0),
    "asleep": asleep,
    "switching off": lambda cluster: cluster.begin_switch(ids(1), HostState.SWITCHING_OFF, SLEEP, 0.0),
    "switching on": waking,
    "unavailable": lambda cluster: cluster.set_in_service(ids(1), False),
    "idle, but to sleep": lambda cluster: cluster.request(ids(1), SLEEP),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_host_that_is_not_free_is_named_with_its_state(condition: str) -> None:
    cluster = Cluster(platform())
    CONDITIONS[condition](cluster)
    job = submit(cluster, res=2)
    with pytest.raises(PolicyError, match=rf"w0!a was given hosts that are not free: 1 \({condition}\)"):
        cluster.start(job, HostSet.of([0, 1]), 8.0)
    assert job.state is JobState.WAITING
    assert list(cluster.queue) == [job]
    assert cluster.free[0]


@pytest.mark.parametrize("hosts", [[], [0], [0, 1, 2]])
def test_exactly_as_many_hosts_as_asked_for(hosts: list[int]) -> None:
    cluster = Cluster(platform())
    with pytest.raises(PolicyError, match=f"requests 2 hosts and was given {len(hosts)}"):
        cluster.start(submit(cluster, res=2), HostSet.of(hosts), 0.0)


@pytest.mark.parametrize("hosts", [[0, 5], [-1, 0], [1, 1], [1, 0]])
def test_hosts_of_the_platform_each_once(hosts: list[int]) -> None:
    cluster = Cluster(platform())
    with pytest.raises(PolicyError, match="expected some of 0 to 4, sorted, each once"):
        cluster.start(submit(cluster, res=2), HostSet(ids(*hosts)), 0.0)


@pytest.mark.parametrize("host", [np.int64(-1), np.int64(5), np.uint64(2**64 - 1)])
def test_a_single_host_of_the_platform(host: np.integer) -> None:
    cluster = Cluster(platform())
    with pytest.raises(PolicyError, match="expected some of 0 to 4, sorted, each once"):
        cluster.start(submit(cluster), HostSet(np.array([host])), 0.0)


def test_a_job_starts_once() -> None:
    cluster = Cluster(platform())
    job = submit(cluster)
    cluster.start(job, HostSet.of([0]), 0.0)
    with pytest.raises(PolicyError, match="w0!a is running: it cannot be started"):
        cluster.start(job, HostSet.of([1]), 0.0)
    cluster.end(job.id, JobState.FINISHED, 1.0)
    with pytest.raises(PolicyError, match="w0!a is finished"):
        cluster.start(job, HostSet.of([1]), 1.0)


def test_the_work_of_running_jobs() -> None:
    """On a fast and a slow host, a job proceeds at the pace of the slow one."""
    cluster = Cluster(platform())
    one, both = submit(cluster), submit(cluster, "b", res=2)
    cluster.start(one, HostSet.of([0]), 1.0)
    cluster.start(both, HostSet.of([1, 4]), 2.0)
    fast, slow = (float(cluster.speed_flops(ids(host))[0]) for host in (0, 4))
    assert fast > slow
    np.testing.assert_allclose(cluster.work_flops([one, both], 8.0), [7.0 * fast, 6.0 * slow])


def test_a_job_that_was_never_submitted_cannot_start() -> None:
    with pytest.raises(PolicyError, match="not in the queue"):
        Cluster(platform()).start(Job(JobRequest("w0!x", 0, 1)), HostSet.of([0]), 0.0)


def test_the_end_of_a_job_that_does_not_run_is_the_peers_fault() -> None:
    with pytest.raises(PeerError, match="the end of job w0!x, which is not running"):
        Cluster(platform()).end("w0!x", JobState.FINISHED, 0.0)


# --- what is where ---


def test_initial_pstates_tell_who_starts_asleep() -> None:
    cluster = Cluster(platform(initial=[0, 1, SLEEP, 0, SLEEP]))
    assert cluster.state.tolist() == [0, 0, HostState.ASLEEP, 0, HostState.ASLEEP]
    assert cluster.pstate.tolist() == [0, 1, SLEEP, 0, SLEEP]
    assert (cluster.free_count, cluster.uniform_speed) == (3, False)


def test_only_hosts_that_will_be_used_are_awaited() -> None:
    cluster = Cluster(platform(initial=[SLEEP] * 5))
    cluster.begin_switch(ids(0, 1, 2), HostState.SWITCHING_ON, 0, 0.0)
    cluster.begin_switch(ids(3), HostState.SWITCHING_ON, 0, 5.0)
    assert cluster.wakes() == [(20.0, 3), (25.0, 1)]
    cluster.request(ids(0), SLEEP)
    cluster.set_in_service(ids(3), False)
    assert cluster.wakes() == [(20.0, 2)]


def test_a_sleeping_host_that_is_to_stay_asleep_is_not_requested_to_wake() -> None:
    cluster = Cluster(platform(initial=[SLEEP] * 4 + [0]))
    cluster.request(ids(0), SLEEP)
    cluster.request(ids(1, 2, 4), 0)
    assert cluster.wake_requested.tolist() == [False, True, True, False, False]
    cluster.drop_requests(ids(1))
    assert cluster.wake_requested.tolist() == [False, False, True, False, False]


def test_a_host_that_left_while_busy_is_not_free_after_its_job() -> None:
    cluster = Cluster(platform())
    job = submit(cluster, res=2)
    cluster.start(job, HostSet.of([0, 1]), 0.0)
    cluster.set_in_service(ids(1), False)
    cluster.end(job.id, JobState.FINISHED, 5.0)
    assert cluster.free.tolist() == [True, False, True, True, True]
    cluster.set_in_service(ids(1), True)
    assert cluster.free_count == 5


def test_ends_are_sorted_with_equal_ends_by_start() -> None:
    cluster = Cluster(platform())
    for name, walltime in (("a", 9.0), ("b", None), ("c", 3.0), ("d", 9.0)):
        cluster.start(submit(cluster, name, walltime=walltime), cluster_free(cluster), 0.0)
    assert [(end, job.id[-1]) for end, _, job in cluster.ends] == [
        (3, "c"),
        (9, "a"),
        (9, "d"),
        (math.inf, "b"),
    ]


def cluster_free(cluster: Cluster, count: int = 1) -> HostSet:
    return HostSet(np.flatnonzero(cluster.free)[:count])


# --- random lives ---


class JobHistory:
    """Random legal changes; a recorder of powers by host, which is integrated in the end."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.cluster = Cluster(platform())
        self.account = self.cluster.open_account()
        self.now = 0.0
        self.by_use_j = np.zeros(5)
        self.by_job_j: dict[str, float] = {}
        self.by_job_flops: dict[str, float] = {}
        self.all_jobs: list[Job] = []
        self.jobs = 0

    def live(self, changes: int) -> None:
        for _ in range(changes):
            self.rng.choice([self.start, self.end, self.switch, self.arrive, self.speed, self.leave])()
            self.check()
            self.wait(float(self.rng.choice([0.0, self.rng.random() * 30])))

    def wait(self, dt_s: float) -> None:
        """Integrate host by host, from the definition: idle + (full - idle) x slowest / own speed."""
        cluster = self.cluster
        for host in range(cluster.size):
            kind, pstate = cluster.platform.kind(host), int(cluster.pstate[host])
            state = HostState(int(cluster.state[host]))
            watts = {
                HostState.IDLE: kind.idle_w[pstate],
                HostState.BUSY: 0.0,
                HostState.ASLEEP: 5.0,
                HostState.SWITCHING_OFF: 60.0,
                HostState.SWITCHING_ON: 80.0,
            }[state]
            if state is HostState.BUSY:
                job = next(job for job in cluster.running.values() if host in job.hosts)
                speeds = {h: cluster.platform.kind(h).speeds_flops[int(cluster.pstate[h])] for h in job.hosts}
                load = min(speeds.values()) / speeds[host] if job.computes else 0.0
                watts = kind.idle_w[pstate] + load * (kind.full_w[pstate] - kind.idle_w[pstate])
                self.by_job_j[job.id] = self.by_job_j.get(job.id, 0.0) + watts * dt_s
                done = min(speeds.values()) * dt_s / len(job.hosts) if job.computes else 0.0
                self.by_job_flops[job.id] = self.by_job_flops.get(job.id, 0.0) + done
            self.by_use_j[state] += watts * dt_s
        self.now += dt_s

    def pick(self, state: HostState) -> np.ndarray:
        hosts = np.flatnonzero(self.cluster.state == state)
        return hosts[self.rng.random(len(hosts)) < 0.5]

    def start(self) -> None:
        free = np.flatnonzero(self.cluster.free)
        if len(free):
            hosts = np.sort(self.rng.choice(free, self.rng.integers(1, len(free) + 1), replace=False))
            self.jobs += 1
            job = submit(self.cluster, str(self.jobs), len(hosts), float(self.rng.integers(1, 50)))
            job.computes = bool(self.rng.random() < 0.7)
            self.cluster.start(job, HostSet(hosts), self.now)
            self.all_jobs.append(job)

    def end(self) -> None:
        if self.cluster.running:
            job_id = str(self.rng.choice(list(self.cluster.running)))
            job = self.cluster.end(job_id, JobState.FINISHED, self.now)
            assert job.energy_j == pytest.approx(self.by_job_j.get(job_id, 0.0), rel=1e-9, abs=1e-9)

    def switch(self) -> None:
        for state, through, pstate in (
            (HostState.IDLE, HostState.SWITCHING_OFF, SLEEP),
            (HostState.ASLEEP, HostState.SWITCHING_ON, 1),
        ):
            if len(hosts := self.pick(state)):
                self.cluster.begin_switch(hosts, through, pstate, self.now)

    def arrive(self) -> None:
        for state in (HostState.SWITCHING_OFF, HostState.SWITCHING_ON):
            if len(hosts := self.pick(state)):
                self.cluster.end_switch(hosts, int(self.cluster.pstate[hosts[0]]), self.now)

    def speed(self) -> None:
        hosts = np.sort(np.concatenate([self.pick(HostState.IDLE), self.pick(HostState.BUSY)]))
        self.cluster.change_speed(hosts, int(self.rng.integers(2)), self.now)

    def leave(self) -> None:
        hosts = np.flatnonzero(self.rng.random(5) < 0.3)
        self.cluster.set_in_service(hosts, bool(self.rng.random() < 0.6))

    def check_progress(self) -> None:
        """What jobs have done and spent, whether they run or have ended."""
        jobs = self.all_jobs[:: int(self.rng.choice([1, -1]))]
        progress = self.cluster.progress(jobs, self.now)
        flops = np.array([self.by_job_flops.get(job.id, 0.0) for job in jobs])
        assert progress.work_flops == pytest.approx(flops, rel=1e-9)
        energy_j = np.array([self.by_job_j.get(job.id, 0.0) for job in jobs])
        assert progress.energy_j == pytest.approx(energy_j, rel=1e-9, abs=1e-9)
        ends_s = [self.now if np.isnan(job.end_s) else job.end_s for job in jobs]
        run_s = np.array([end_s - job.start_s for end_s, job in zip(ends_s, jobs, strict=True)])
        assert progress.run_s == pytest.approx(run_s)
        for job, share, work, ran_s in zip(jobs, progress.work_share, flops, run_s, strict=True):
            reference = min(self.cluster.platform.kind(h).reference_speed_flops for h in job.hosts)
            done_s = work / reference if job.computes else ran_s
            assert share == pytest.approx(done_s / job.walltime_s)

    def check(self) -> None:
        cluster = self.cluster
        assert cluster.free_count == np.count_nonzero(cluster.free)
        idle = (cluster.state == HostState.IDLE) & cluster.available & ~cluster.sleep_requested
        assert (cluster.free == idle).all()
        if self.rng.random() < 0.3:  # they are sorted only when they are asked for
            assert [end[:2] for end in cluster.ends] == sorted(end[:2] for end in cluster.ends)
            assert sorted(job.id for _, _, job in cluster.ends) == sorted(cluster.running)
        busy = sorted(host for job in cluster.running.values() for host in job.hosts)
        assert busy == np.flatnonzero(cluster.state == HostState.BUSY).tolist()
        assert cluster.all_available == cluster.available.all()
        for kind, counts in enumerate(cluster.state_counts):
            states = cluster.state[cluster.platform.kind_of == kind]
            assert counts.tolist() == np.bincount(states, minlength=len(HostState)).tolist()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_lives(seed: int) -> None:
    life = JobHistory(np.random.default_rng(seed))
    life.live(40)
    account = life.account
    account.advance(life.now)
    assert account.energy_by_use_j == pytest.approx(life.by_use_j, rel=1e-9, abs=1e-6)
    for job in life.cluster.running.values():
        spent_j = account.job_spent_j(job.hosts.ids, life.now)
        assert spent_j == pytest.approx(life.by_job_j.get(job.id, 0.0), rel=1e-9, abs=1e-9)
    life.check_progress()


def test_what_may_let_a_waiting_job_start_is_told() -> None:
    """A job's end, a waiting job that leaves, a host that comes back or wakes; not a job's start."""
    cluster = Cluster(platform(fast=2, slow=0))
    view = View(cluster)
    first, second = submit(cluster, "a"), submit(cluster, "b")
    seen = view.availability_version
    cluster.start(first, HostSet.of([0]), 0.0)
    assert view.availability_version == seen
    for happens in (
        lambda: cluster.drop(second, JobState.REJECTED),
        lambda: cluster.end(first.id, JobState.FINISHED, 1.0),
        lambda: cluster.set_in_service(ids(1), False),
        lambda: cluster.set_in_service(ids(1), True),
        lambda: cluster.begin_switch(ids(1), HostState.SWITCHING_OFF, SLEEP, 2.0),
        lambda: cluster.end_switch(ids(1), SLEEP, 9.0),
        lambda: cluster.request(ids(0), SLEEP),
    ):
        happens()
        assert view.availability_version > seen
        seen = view.availability_version


def test_only_hosts_that_change_can_be_ready_for_a_command() -> None:
    cluster = Cluster(platform(fast=2, slow=0))
    first, second = submit(cluster, "a"), submit(cluster, "b")
    seen = cluster.hosts_version
    cluster.start(first, HostSet.of([0]), 0.0)
    cluster.drop(second, JobState.REJECTED)
    assert cluster.hosts_version == seen
    cluster.end(first.id, JobState.FINISHED, 1.0)
    assert cluster.hosts_version > seen


def test_hosts_that_a_job_was_to_leave_are_left_when_it_has_ended() -> None:
    cluster = Cluster(platform())
    first, second = submit(cluster, "a", 2), submit(cluster, "b", 2)
    cluster.start(first, HostSet.of([0, 1]), 0.0)
    cluster.set_kill_pending(first)
    cluster.end(first.id, JobState.KILLED, 1.0)
    cluster.start(second, HostSet.of([1, 2]), 1.0)
    assert not cluster.kill_pending.any()


def test_hosts_are_counted_by_kind_and_state() -> None:
    """The counts follow every change; here they are compared with the states themselves."""
    from worlds import FAST, SLOW, World, WorldJob, run

    jobs = tuple(WorldJob(30.0 * i, 1 + i % 3, 100.0, 60.0) for i in range(12))
    world = World(3, 2, jobs, (300.0,) * 8)
    session = run(world, "workload-reactive").session
    cluster = session.cluster
    assert cluster is not None
    assert session.commander.switches > 0
    assert cluster.platform.kinds[0].speeds_flops == FAST.speeds_flops
    assert cluster.platform.kinds[1].speeds_flops == SLOW.speeds_flops
    states = [np.bincount(cluster.state[cluster.platform.kind_of == k], minlength=5).tolist() for k in (0, 1)]
    assert cluster.state_counts.tolist() == states
