"""The site's order of held jobs."""

from __future__ import annotations

import pytest
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, submit
from plugins.slurm.test_takeover import SITE, Steady

from beasy_sched.plugins.slurm.priority_order import (
    PriorityOrder,
    ShareReader,
    order_of_site,
)
from beasy_sched.plugins.slurm.records import SlurmJob
from beasy_sched.plugins.slurm.slurm_commands import Slurm

MULTIFACTOR = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightFairShare": "1000",
    "PriorityWeightAge": "100",
    "PriorityMaxAge": "1-00:00:00",
}


def job(number: int, submit_s: float = 0.0, **other: object) -> SlurmJob:
    return SlurmJob(id=str(number), state="PENDING", partition="main", submit_s=submit_s, **other)  # type: ignore[arg-type]


def test_priorities_are_those_of_the_site_s_weights() -> None:
    order = order_of_site(MULTIFACTOR)
    order.shares = {("physics", "ada"): 0.5}
    assert order.priority(job(1, account="physics", user="ada"), 43_200.0) == 500.0 + 50.0
    assert order.priority(job(1, account="physics", user="ada", nice=20), 43_200.0) == 530.0
    assert order.priority(job(1, account="biology", user="ada"), 10 * 86_400.0) == 100.0


@pytest.mark.parametrize("config", [{}, {**MULTIFACTOR, "PriorityType": "priority/basic"}])
def test_without_weights_the_order_is_that_of_submission(config: dict[str, str]) -> None:
    order = order_of_site(config)
    jobs = [job(3, 7.0), job(10, 5.0), job(9, 5.0)]
    assert [one.id for one in sorted(jobs, key=lambda one: order.key(one, 100.0))] == ["9", "10", "3"]


def test_shares_are_read_again_after_a_while() -> None:
    fake = FakeSlurm(1)
    fake.shares = {("physics", "ada"): 0.25, ("physics", "bob"): 0.75}
    order = order_of_site(MULTIFACTOR)
    reader = ShareReader(Slurm(fake), order)
    reader.read(1000.0)
    assert order.shares == fake.shares
    before, fake.shares = fake.shares, {("physics", "ada"): 0.5}
    reader.read(1299.0)
    assert order.shares == before
    reader.read(1300.0)
    assert order.shares == fake.shares
    fake.shares = None
    reader.read(1600.0)
    assert order.shares == {("physics", "ada"): 0.5}, "the last ones"


@pytest.mark.parametrize("policy", ["easy", "fcfs", "bid-price"])
def test_jobs_of_those_with_the_larger_share_start_first(policy: str) -> None:
    order = PriorityOrder(1000.0, shares={("physics", "ada"): 0.9, ("physics", "bob"): 0.1})
    slurm = FakeSlurm(2)
    first = submit(slurm, nodes=2, run_s=30, limit_s=60, user="bob", account="physics")
    needs = {"site": SITE, "power": Steady(1000.0)} if policy == "bid-price" else {}
    beside = Beside(slurm, policy, order=order, **needs)
    beside.go(3)
    jobs = {}
    for user in ("bob", "bob", "ada", "ada"):
        number = submit(slurm, nodes=2, run_s=10, limit_s=60, user=user, account="physics")
        jobs[number] = user
        beside.go(2)
    beside.until(lambda: all_over(slurm), 3000)
    started = sorted(jobs, key=lambda number: slurm.jobs[number].start_s)
    assert [jobs[number] for number in started] == ["ada", "ada", "bob", "bob"]
    assert started == sorted(started, key=lambda number: (jobs[number], int(number)))
    assert slurm.jobs[first].start_s < slurm.jobs[started[0]].start_s
    assert not any(what in ("reject", "kill") for _, what, *_ in beside.log)


def test_the_order_changes_with_the_shares() -> None:
    order = PriorityOrder(1000.0, shares={("physics", "ada"): 0.9, ("physics", "bob"): 0.1})
    slurm = FakeSlurm(1)
    submit(slurm, run_s=30)
    beside = Beside(slurm, order=order)
    beside.go(2)
    ada = submit(slurm, run_s=5, user="ada", account="physics")
    bob = submit(slurm, run_s=5, user="bob", account="physics")
    beside.go(5)
    order.shares = {("physics", "ada"): 0.1, ("physics", "bob"): 0.9}
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[bob].start_s < slurm.jobs[ada].start_s
