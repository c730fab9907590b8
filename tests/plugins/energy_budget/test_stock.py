"""The stock rule: against a slow transcription of it, and on cases worked out with a pencil."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.energy_budget.budget_runs import lowest_balance_j, run_budget, world_of
from worlds import FAST

from beasy_sched.engine.actions import Postpone
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.energy_budget.choice import Fleet
from beasy_sched.plugins.energy_budget.energy_budget_options import (
    BudgetPeriod,
    EnergyBudgetOptions,
    EstimatedPowers,
)
from beasy_sched.plugins.energy_budget.energy_budget_policy import BudgetPass, EnergyBud, PowerCap, ReducePC
from beasy_sched.plugins.energy_budget.ledger import Ledger
from beasy_sched.plugins.energy_budget.projection import ABOVE_LIMIT, NO_BUDGET
from beasy_sched.plugins.energy_budget.stock import NOT_SAVED

START, END = 100.0, 200.0
IDLE_W, EXTRA_W = 50.0, 50.0
"""Power of an idle host, and what a job adds to it."""
NEAR = 1e-6


@dataclass
class Naive:
    """One pass by the stock rule, job by job and second by second."""

    policy: str
    hosts: int
    rate_w: float
    now: float
    available_j: float
    running: list[tuple[float, int]]
    """Latest ends (s) and hosts."""
    started: list[int] = field(default_factory=list)
    promised: tuple[float, float] | None = None
    """When the first waiting job has its energy, and what is reserved for it."""

    def __post_init__(self) -> None:
        self.begin = max(self.now, START)
        self.free = self.hosts - sum(res for _, res in self.running)

    def power_w(self, at: float) -> float:
        return IDLE_W * self.hosts + EXTRA_W * sum(res for end, res in self.running if end > at)

    def balance_j(self, at: float) -> float:
        points = sorted({self.begin, *(end for end, _ in self.running if self.begin < end < at), at})
        pairs = [(before, after) for before, after in itertools.pairwise(points) if after <= at]
        return self.available_j + sum((self.rate_w - self.power_w(t)) * (u - t) for t, u in pairs)

    def span_s(self, at: float, walltime: float) -> float:
        return max(0.0, min(at + walltime, END) - max(at, START))

    def excess_j(self, at: float, res: int, walltime: float) -> float:
        power_w = self.power_w(max(at, self.begin)) + EXTRA_W * res
        return (power_w - self.rate_w) * self.span_s(at, walltime)

    def stays_positive(self, at: float, res: int, walltime: float) -> bool:
        """Whether no debt occurs from ``at`` on, with a job that starts then."""
        jobs = [(end, EXTRA_W * each) for end, each in self.running if end > max(at, self.begin)]
        jobs.append((at + walltime, EXTRA_W * res))
        balance_j = self.balance_j(max(at, self.begin))
        floor_w = IDLE_W * self.hosts
        return lowest_balance_j(at, balance_j, self.rate_w, (START, END), floor_w, jobs) >= -NEAR

    def affords(self, res: int, walltime: float) -> bool:
        if self.now + walltime <= START:
            return True
        power_w = self.power_w(self.begin) + EXTRA_W * res
        if self.policy == "powercap":
            return power_w <= self.rate_w + NEAR
        at, reserved_j = self.promised or (0.0, 0.0)
        if self.promised and self.policy == "reducepc":
            lowered_w = reserved_j / (at - self.begin) if at > self.begin else 0.0
            enough = power_w <= self.rate_w - lowered_w + NEAR
        else:
            enough = self.excess_j(self.now, res, walltime) <= self.available_j - reserved_j + NEAR
        return enough and self.stays_positive(self.now, res, walltime)

    def start(self, number: int, res: int, walltime: float) -> None:
        if self.promised and self.policy == "energybud":
            at, reserved_j = self.promised
            self.promised = at, reserved_j + max(0.0, self.excess_j(self.now, res, walltime))
        self.running.append((self.now + walltime, res))
        self.free -= res
        self.started.append(number)

    def pays_at(self, at: float, res: int, walltime: float) -> bool:
        if self.policy == "powercap":
            return self.power_w(max(at, self.begin)) + EXTRA_W * res <= self.rate_w + NEAR
        stock_j = self.balance_j(max(at, self.begin))
        paid = self.excess_j(at, res, walltime) <= stock_j + NEAR
        return paid and (not self.span_s(at, walltime) or self.stays_positive(at, res, walltime))

    def reserve(self, res: int, walltime: float) -> float:
        """Return when the job has its hosts and its energy."""
        ends, free, ready = sorted(self.running), self.free, self.now
        for end, each in ends:
            if free >= res:
                break
            free, ready = free + each, end
        if ready >= END or ready + walltime <= START:
            return ready
        candidates = [ready, *(end for end, _ in ends if max(ready, self.begin) < end <= END)]
        for at in candidates:
            if self.pays_at(at, res, walltime):
                return max(at, START) if self.policy == "powercap" else at
        if self.policy == "powercap":
            return END
        low, high = candidates[-1], END
        while high - low > 0.1:
            middle = (low + high) / 2
            low, high = (low, middle) if self.pays_at(middle, res, walltime) else (middle, high)
        return high

    def run(self, queue: list[tuple[int, float]]) -> None:
        waiting = list(enumerate(queue))
        while waiting and waiting[0][1][0] <= self.free and self.affords(*waiting[0][1]):
            self.start(waiting[0][0], *waiting.pop(0)[1])
        if not waiting or not self.free:
            return
        _, (res, walltime) = waiting.pop(0)
        at = self.reserve(res, walltime)
        reserved_j = 0.0 if self.policy == "powercap" else max(0.0, self.excess_j(at, res, walltime))
        self.promised = at, reserved_j
        self.first = self.promised
        spare = self.free + sum(each for end, each in self.running if end <= at) - res
        for number, (other, lasts) in waiting:
            late = self.now + lasts > at
            if other <= self.free and (not late or other <= spare) and self.affords(other, lasts):
                self.start(number, other, lasts)
                spare -= other * late


def real_pass(naive: Naive, queue: list[tuple[int, float]]) -> BudgetPass:
    """The same moment, for the policy."""
    count = naive.hosts
    names = tuple(f"n{i:03}" for i in range(count))
    cluster = Cluster(Platform((FAST,), np.zeros(count, dtype=np.intp), names))
    view = View(cluster)
    fleet, first = Fleet(view, switches=False), 0
    for number, (end, res) in enumerate(naive.running):
        job, hosts = (
            cluster.submit(Job(JobRequest(f"w0!r{number}", 0.0, res, "p", end))),
            range(first, first + res),
        )
        cluster.start(job, HostSet.of(hosts), 0.0)
        fleet.commit(job, np.array(hosts), end, EXTRA_W * res)
        first += res
    for number, (res, walltime) in enumerate(queue):
        cluster.submit(Job(JobRequest(f"w0!{number}", 0.0, res, "p", walltime)))
    view.show(naive.now, [], [], None)
    period = BudgetPeriod(START, END, 10.0, naive.rate_w * (END - START), False)
    options = EnergyBudgetOptions()
    policy = {kind.name: kind for kind in (EnergyBud, ReducePC, PowerCap)}[naive.policy]
    powers = EstimatedPowers(cluster.platform, view.power_model, options)
    ledger = Ledger(period, powers, fleet.jobs, view)
    ledger.counter.available_j = naive.available_j
    made = BudgetPass(view, fleet, ledger, lambda: ledger.test_at(naive.now, policy.stock), options)
    made.run()
    return made


lengths = st.integers(5, 150)
rows = st.lists(st.tuples(st.integers(1, 5), lengths), min_size=1, max_size=6)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(["energybud", "energybud", "reducepc", "powercap"]),
    st.integers(4, 8),
    st.floats(0.9, 2.0),
    st.sampled_from([0, 60, 99, 100, 101, 140, 190]),
    st.integers(0, 12_000),
    st.lists(st.tuples(lengths, st.integers(1, 3)), max_size=3),
    rows,
)
def test_a_pass_is_that_of_the_slow_transcription(
    policy: str,
    hosts: int,
    rate: float,
    now: int,
    available: int,
    running: list[tuple[int, int]],
    queue: list[tuple[int, int]],
) -> None:
    busy, free = [], hosts
    for lasts, res in running:
        if res <= free:
            busy.append((float(now + lasts), res))
            free -= res
    rate_w = round(IDLE_W * hosts * rate, 3)
    jobs = [(min(res, hosts), float(walltime)) for res, walltime in queue]
    naive = Naive(policy, hosts, rate_w, float(now), float(available if now >= START else 0), busy)
    real = real_pass(Naive(policy, hosts, rate_w, float(now), naive.available_j, list(busy)), jobs)
    naive.run(jobs)
    assert [job.id for job in real.started] == [f"w0!{number}" for number in naive.started]
    if naive.promised is not None:
        assert real.reservation is not None
        at, reserved_j = naive.first
        assert real.reservation.begin_s == pytest.approx(at, abs=1e-9)
        assert real.reservation.reserved == pytest.approx(reserved_j, abs=1e-5)


# --- with a pencil: 4 hosts of 50 W idle, 100 W computing -------------------------------------------------


def watts(rate_w: float, until: float = 1000.0, **more: object) -> dict[str, object]:
    return {"budget": f"{rate_w * until} J", "period_end": until, "monitoring": 100, **more}


def overtaken(walltime_s: float, **more: object) -> dict[str, float]:
    """Starts of three jobs on 6 hosts with 500 W.

    Job 0 leaves 100 W until 200 s. Job 1 then draws 50 W too much for 400 s, so that all 20 kJ are reserved.
    Job 2 comes at 20 s, when 2 kJ are saved, and leaves 50 W.
    """
    jobs = (0.0, 2, 200.0, 200.0), (10.0, 5, 400.0, 400.0), (20.0, 1, walltime_s, walltime_s)
    return run_budget(world_of(6, *jobs), "energybud", **watts(500, 2000.0), **more).starts


def test_a_long_job_of_low_power_overtakes_and_delays_the_first() -> None:
    """For 400 s it leaves 20 kJ, more than the 18 kJ that the stock lacks."""
    starts = overtaken(400.0)
    assert starts["2"] == 20.0
    assert starts["1"] > 200.0


def test_a_shorter_one_does_not() -> None:
    """For 150 s it leaves 7.5 kJ; 10 kJ are lacking even at 100 s, when the queue is looked at again."""
    starts = overtaken(150.0)
    assert starts["2"] > 20.0
    assert starts["1"] == 200.0


def test_strictly_neither_does() -> None:
    starts = overtaken(400.0, reservation="strict")
    assert starts["1"] == 200.0
    assert starts["2"] > 20.0


@pytest.mark.parametrize(("policy", "start_s"), [("energybud", 210.0), ("reducepc", 300.0)])
def test_only_energybud_uses_the_stock_for_jobs_that_overtake(policy: str, start_s: float) -> None:
    """With 30 kJ in stock at 200 s, job 2 takes 6 kJ, and job 1, which lacks hosts, 5 kJ later."""
    jobs = (200.0, 4, 100.0, 100.0), (200.0, 4, 100.0, 100.0), (210.0, 2, 40.0, 40.0)
    done = run_budget(world_of(6, *jobs), policy, **watts(450))
    assert done.starts == {"0": 200.0, "1": 300.0, "2": start_s}


def test_what_is_reserved_is_not_for_others() -> None:
    """At 260 s 5.2 kJ are saved. Job 1 will take 80 W too much for 100 s: 8 kJ."""
    jobs = (0.0, 2, 400.0, 400.0), (250.0, 4, 100.0, 100.0), (260.0, 2, 100.0, 100.0)
    starts = run_budget(world_of(4, *jobs), "energybud", **watts(320)).starts
    assert starts["1"] == 400.0
    assert starts["2"] > 260.0


@pytest.mark.parametrize(
    ("reservation", "starts"),
    [("stock", {"0": 0.0, "2": 20.0, "1": 220.0}), ("strict", {"0": 0.0, "1": 100.0, "2": 150.0})],
)
def test_powercap_reserves_no_power(reservation: str, starts: dict[str, float]) -> None:
    """300 W are enough for two busy hosts of four. Job 1 needs two, and job 2 takes what job 0 leaves."""
    jobs = (0.0, 1, 100.0, 100.0), (10.0, 2, 50.0, 50.0), (20.0, 1, 200.0, 200.0)
    assert run_budget(world_of(4, *jobs), "powercap", **watts(300, reservation=reservation)).starts == starts


def test_a_measurement_lets_jobs_overtake() -> None:
    """Idle hosts are reckoned 70 W and draw 50 W: of 330 W, 20 W are saved by estimate, and truly 80 W.

    At 100 s 8 kJ are measured: 0.7 kJ for job 1, which lacks hosts, and 4 kJ for job 2.
    """
    jobs = (0.0, 1, 1000.0, 1000.0), (1.0, 4, 10.0, 10.0), (2.0, 2, 100.0, 100.0)
    done = run_budget(world_of(4, *jobs), "energybud", **watts(330, 2000.0), idle_w=70, computing_w=100)
    assert done.starts["2"] == 100.0


def test_two_jobs_do_not_use_the_same_joules() -> None:
    """The stock would pay for each of them, but not for both; the balance to come tells.

    At 200 s 20 kJ are saved. Job 0 draws 100 W too much for 200 s, which is all of it; with job 1 it is
    150 W for 10 s, and at 400 s 0.5 kJ would be missing.
    """
    jobs = (200.0, 4, 200.0, 200.0), (200.0, 1, 10.0, 10.0)
    done = run_budget(world_of(5, *jobs), "energybud", **watts(350, 2000.0))
    assert done.starts["0"] == 200.0
    assert done.starts["1"] == 400.0
    assert done.budget["measurements_in_debt"] == 0


@pytest.mark.parametrize(
    ("policy", "hosts", "rate_w", "available_j", "running", "job", "rule", "facts"),
    [
        ("energybud", 4, 300.0, 1000.0, [], (4, 50.0), NOT_SAVED, {"needed_j": 5000.0, "lacks_j": 4000.0}),
        ("energybud", 5, 350.0, 4000.0, [(140.0, 4)], (1, 10.0), NO_BUDGET, {"lacks_j": 500.0}),
        ("powercap", 4, 300.0, 0.0, [(190.0, 2)], (1, 50.0), ABOVE_LIMIT, {"job_w": 50.0, "lacks_j": 2500.0}),
    ],
)
def test_the_reason_tells_what_is_missing(
    policy: str,
    hosts: int,
    rate_w: float,
    available_j: float,
    running: list[tuple[float, int]],
    job: tuple[int, float],
    rule: str,
    facts: dict[str, float],
) -> None:
    """At 100 s; the second job would be in debt when the running one ends."""
    [told] = real_pass(Naive(policy, hosts, rate_w, 100.0, available_j, running), [job]).actions
    assert isinstance(told, Postpone)
    assert told.rule == rule
    assert told.facts == told.facts | facts
