"""Jobs that an earlier bridge has started: a restarted one takes them over, with their hosts and energy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from plugins.slurm.fake_slurm import Delays, FakeNode, FakeSlurm
from plugins.slurm.live_cases import KIND, Beside, all_over, platform_of, submit

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.slurm.readings import POWER_FIELD, Reading
from beasy_sched.policies.registry import built_in, policy_class
from beasy_sched.testing.random_plans import plans_of

SITE = Site(Storage(BatterySpec(1e7)), 10.0, 3600.0)


def restarted(slurm: FakeSlurm, **options: object) -> Beside:
    """A bridge whose jobs 1 (three nodes) and 2 run, and 3 and 4 wait; another one after its sudden end."""
    submit(slurm, nodes=3, run_s=100, limit_s=120)
    submit(slurm, nodes=1, run_s=50, limit_s=60)
    Beside(slurm).go(41)
    submit(slurm, nodes=4, run_s=10, limit_s=60)
    submit(slurm, nodes=1, run_s=290, limit_s=300)
    return Beside(slurm, **options)  # type: ignore[arg-type]


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["22.05.8", "23.11.4"])
def test_running_jobs_are_adopted_with_what_is_left_of_their_time(version: str) -> None:
    slurm = FakeSlurm(4, version=version)
    beside = restarted(slurm)
    beside.go(1)
    running = beside.session.cluster.running
    assert {job.id: str(job.hosts) for job in running.values()} == {"slurm!1": "0-2", "slurm!2": "3"}
    assert running["slurm!1"].walltime_s == pytest.approx(120 - 40, abs=2.0)
    assert not beside.bridge._unavailable.any()
    beside.until(lambda: all_over(slurm), 900)
    beside.go(2)
    assert {*beside.job_states().values()} == {JobState.FINISHED.value}
    assert [slurm.jobs[job].restarts for job in slurm.jobs] == [0] * 4


@pytest.mark.slow
def test_what_adoption_is_for() -> None:
    """EASY knows when the wide job can start, and lets no other one delay it."""
    starts = {}
    for adopts in (True, False):
        slurm = FakeSlurm(4)
        beside = restarted(slurm, adopts=adopts)
        beside.until(lambda of=slurm: all_over(of), 900)
        starts[adopts] = slurm.jobs["3"].start_s - slurm.jobs["1"].end_s
    assert starts[True] < 5.0
    assert starts[False] > 200.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("policy", [name for name in built_in() if not policy_class(name).needs_plan])
def test_every_policy_takes_running_jobs_over(policy: str) -> None:
    """The servers' energy is that of busy ones from the first step on."""
    slurm = FakeSlurm(4)
    beside = restarted(slurm, policy=policy, site=SITE)
    beside.go(12)
    power = beside.session.power
    assert power is not None
    assert power.trace[0].record.demand_w == pytest.approx(4 * 100.0, rel=0.1)


def test_a_job_that_was_told_to_start_is_adopted_before_it_runs() -> None:
    slurm = FakeSlurm(2, delays=Delays(start_s=20.0))
    submit(slurm, nodes=2, run_s=30)
    Beside(slurm).go(3)
    assert slurm.jobs["1"].state == "PENDING"
    beside = Beside(slurm)
    beside.go(3)
    assert [*beside.session.cluster.running] == ["slurm!1"]
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert beside.job_states() == {"slurm!1": JobState.FINISHED.value}


def test_jobs_of_others_are_not_adopted() -> None:
    """Nor those that Slurm was to place, and those whose nodes the platform lacks."""
    slurm = FakeSlurm(4)
    slurm.submit(nodes=1, run_s=50, held=False)
    submit(slurm, nodes=1, run_s=50, held=False, licenses="matlab")
    slurm.nodes["n9"] = FakeNode("n9")
    submit(slurm, nodes=2, run_s=50, held=False, required=("n4", "n9"))
    slurm.advance(5)
    del slurm.nodes["n9"]
    beside = Beside(slurm)
    beside.go(2)
    assert beside.session.cluster.running == {}
    assert beside.bridge._unavailable.tolist() == [True, True, False, True]


# --- under a plan -------------------------------------------------------------------------------------------


class Steady:
    """A source of power that says the same once."""

    def __init__(self, power_w: float) -> None:
        self._reading: Reading | None = Reading(0.0, {POWER_FIELD: power_w})
        self.notes: list[str] = []

    def read(self, now: float) -> Reading | None:
        reading, self._reading = self._reading, None
        return reading


def planned(slurm: FakeSlurm, policy: str) -> Beside:
    """A bridge under a plan of three servers that are on, two after 5 min, and all after 10 min."""
    states = np.ones((SITE.steps, len(slurm.nodes)), dtype=np.int8)
    states[:, :2] = 0
    states[:30, 2] = 0
    states[60:] = 0
    plans = plans_of(SITE, platform_of(len(slurm.nodes)), [states])
    return Beside(slurm, policy, site=SITE, plans=plans, power=Steady(350.0))


def drawn_w(slurm: FakeSlurm) -> float:
    """What the nodes draw now, by what the cluster says of them."""
    busy = {node for job in slurm.jobs.values() if job.state == "RUNNING" for node in job.on}
    idle_w, asleep_w, waking_w, falling_w = KIND.idle_w
    total_w = 0.0
    for name, node in slurm.nodes.items():
        if "POWERED_DOWN" in node.flags:
            total_w += asleep_w
        elif "POWERING_DOWN" in node.flags:
            total_w += falling_w
        elif "POWERING_UP" in node.flags:
            total_w += waking_w
        else:
            total_w += KIND.full_w[0] if name in busy else idle_w
    return total_w


def running_on(slurm: FakeSlurm) -> dict[str, tuple[str, ...]]:
    """Nodes of the jobs that run, by the scheduler's name of the job."""
    return {f"slurm!{job.id}": job.on for job in slurm.jobs.values() if job.state == "RUNNING"}


WITH_PLAN = [name for name in built_in() if policy_class(name).needs_plan]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", [*WITH_PLAN, "bid-price"])
@pytest.mark.parametrize("killed_s", [16, 43, 98])
def test_a_restart_under_a_plan_loses_no_job_and_no_energy(policy: str, killed_s: int) -> None:
    """Demand and energy are those of the nodes as they are, and no job is started twice."""
    slurm = FakeSlurm(4)
    for nodes, run_s in ((2, 120), (1, 45), (1, 200), (2, 60), (3, 30)):
        submit(slurm, nodes=nodes, run_s=run_s, limit_s=300)
    planned(slurm, policy).go(killed_s)
    ran = running_on(slurm)
    beside = planned(slurm, policy)
    cluster, times_s, drawn_j = beside.session.cluster, [slurm.now_s], [0.0]
    assert {job.id: beside.bridge.nodes_of(job.hosts) for job in cluster.running.values()} == ran != {}
    while slurm.now_s <= times_s[0] + 60:
        now_w = drawn_w(slurm)
        beside.go(1)
        times_s.append(slurm.now_s)
        drawn_j.append(drawn_j[-1] + now_w * (times_s[-1] - times_s[-2]))
        assert {*running_on(slurm)} <= {*cluster.running}
        taken = np.concatenate([job.hosts.ids for job in cluster.running.values()])
        assert len({*taken.tolist()}) == len(taken)
        assert not cluster.free[taken].any()
    power = beside.session.power
    assert power is not None
    used_j = [row.record.demand_w * SITE.step_s for row in power.trace[:6]]
    steps_s = times_s[0] + SITE.step_s * np.arange(7)
    expected_j = np.diff(np.interp(steps_s, times_s, drawn_j))  # a job's first second aside
    assert used_j == pytest.approx(expected_j.tolist(), abs=300.0)
    assert sum(used_j) == pytest.approx(expected_j.sum(), rel=0.04)
    beside.until(lambda: all_over(slurm), 3000)
    beside.go(2)
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert {*beside.job_states().values()} == {JobState.FINISHED.value}
    released = Counter(command[2] for command in slurm.commands if command[:2] == ("scontrol", "release"))
    assert released == dict.fromkeys(slurm.jobs, 1)
    assert not any(job.restarts for job in slurm.jobs.values())
