"""What must hold in every run, whatever the jobs, the budget, the period and the estimates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.energy_budget.budget_runs import HIGH, BudgetRun, lowest_balance_j, run_budget
from worlds import FAST, SLOW, World, WorldJob

from beasy_sched.model.decisions import CallMeLater, ExecuteJob
from beasy_sched.model.events import EnergyAnswer, Message, SimulationEnds
from beasy_sched.simulator import Ending

POLICIES = ["energybud", "reducepc", "powercap"]
WITH_ENERGY = ["energybud", "reducepc"]
seeds = st.integers(0, 2**32 - 1)


def random_case(rng: np.random.Generator, most_jobs: int = 25) -> tuple[World, dict[str, Any]]:
    """Draw hosts of two kinds, jobs, and a budget; powers as they are or overestimated."""
    fast, slow = int(rng.integers(1, 6)), int(rng.integers(0, 4))
    jobs = []
    for _ in range(rng.integers(1, most_jobs + 1)):
        run_s = float(rng.choice([60, 120, rng.integers(1, 240)]))
        walltime = None if rng.random() < 0.05 else float(np.ceil(run_s * rng.choice([0.8, 1.0, 1.3, 3.0])))
        res = int(rng.integers(1, fast + slow + 2))
        jobs.append(
            WorldJob(float(rng.integers(0, 900)), res, walltime, run_s, delays=bool(rng.random() < 0.1))
        )
    start_s = float(rng.choice([0, 50, 200]))
    options: dict[str, Any] = {
        "budget": float(rng.choice([0.1, 0.3, 0.5, 0.6, 0.8, 1.0])),
        "period_start": start_s,
        "period_end": start_s + float(rng.choice([100, 400, 1500])),
        "monitoring": float(rng.choice([7, 50, 600])),
        "shutdown": str(rng.choice(["none", "opportunistic"])),
        "allocation": str(rng.choice(["any", "contiguous"])),
    }
    if rng.random() < 0.5:
        options |= HIGH
    options["reservation"] = str(rng.choice(["stock", "stock", "strict", "none"]))
    return World(fast, slow, tuple(jobs), ()), options


def check_all_done(world: World, done: BudgetRun) -> None:
    assert done.result.ending is Ending.FINISHED
    assert len(done.session.outcomes) == len(world.jobs)
    counts = done.session.outcomes.counts()
    assert counts["killed"] == counts["postponed"] == 0


def check_books(done: BudgetRun, world: World, options: dict[str, Any]) -> None:
    """The section on the budget is what the simulator metered, and nothing is in debt without a reason."""
    budget = done.budget
    assert budget["measured_to_the_end"]
    assert budget["used_j"] <= done.result.energy_j + 1e-3
    assert budget["excess_j"] == pytest.approx(max(0.0, budget["used_j"] - budget["budget_j"]))
    idle_w, off_w = 50.0 * world.fast + 30.0 * world.slow, 5.0 * world.hosts
    length_s = budget["period_end_s"] - budget["period_start_s"]
    rest_j = idle_w * length_s
    if options["shutdown"] == "opportunistic":
        rest_j = off_w * length_s + world.hosts * 60.0 * 7
    rate_w = budget["budget_j"] / length_s
    if rest_j <= rate_w * length_s and (options["shutdown"] == "none" or rate_w >= 60 * world.hosts):
        assert budget["used_j"] <= budget["budget_j"] * (1 + 1e-9) + 1.0


def check_no_debt(done: BudgetRun, world: World, options: dict[str, Any]) -> None:
    """After every start, what all jobs can still draw is there or will come in time."""
    budget = done.budget
    period = budget["period_start_s"], budget["period_end_s"]
    rate_w = budget["budget_j"] / (period[1] - period[0])
    asleep = options["shutdown"] == "opportunistic"
    floor_w = sum(
        (5.0 if asleep else kind.idle_w[0]) * n for kind, n in ((FAST, world.fast), (SLOW, world.slow))
    )
    used_at_start_j = None
    for now, used_j, ends, _ in done.moments:
        if now >= period[1]:
            break
        if now >= period[0] and used_at_start_j is None:
            used_at_start_j = used_in_full(done, period[0])
        available_j = (
            0.0 if now < period[0] else rate_w * (now - period[0]) - (used_j - (used_at_start_j or 0.0))
        )
        # Each job at the power that its hosts add least: never more than was reckoned with.
        extra = [(end, 45.0 * res) for end, res in ends if end > period[0]]
        if extra and any(end > max(now, period[0]) for end, _ in extra):
            lowest = lowest_balance_j(now, available_j, rate_w, period, floor_w, extra)
            assert lowest >= -1e-6 * budget["budget_j"] - 1e-3, (now, lowest)


def used_in_full(done: BudgetRun, at_s: float) -> float:
    """Energy used since time 0, as measured at the period's start."""
    ledger = done.session.policy.ledger
    return ledger.counter._at_start_j


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.sampled_from(POLICIES))
def test_every_run_is_in_order(seed: int, policy: str) -> None:
    world, options = random_case(np.random.default_rng(seed))
    done = run_budget(world, policy, **options)
    check_all_done(world, done)
    check_books(done, world, options)


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.sampled_from(POLICIES))
def test_the_budget_is_kept_whatever_hosts_fail(seed: int, policy: str) -> None:
    """Hosts that leave for ever, or come late; some jobs may wait in vain."""
    rng = np.random.default_rng(seed)
    world, options = random_case(rng)
    first = int(rng.integers(0, world.hosts))
    hosts = f"{first}-{rng.integers(first, world.hosts)}"
    moment = float(rng.integers(1, 900))
    outage = (moment, np.inf, hosts)
    if rng.random() < 0.5:  # Batsim aborts when a host comes back that was switching
        outage, options["shutdown"] = (0.0, moment, hosts), "none"
    done = run_budget(world.but(outages=(outage,)), policy, **options)
    check_books(done, world, options)


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.sampled_from(WITH_ENERGY))
def test_no_start_makes_a_debt(seed: int, policy: str) -> None:
    world, options = random_case(np.random.default_rng(seed))
    check_no_debt(run_budget(world, policy, **options), world, options)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_soak(policy: str) -> None:
    for seed in range(200):
        world, options = random_case(np.random.default_rng([7, seed]), most_jobs=60)
        done = run_budget(world, policy, **options)
        check_all_done(world, done)
        check_books(done, world, options)
        if policy != "powercap":
            check_no_debt(done, world, options)


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.sampled_from(POLICIES))
def test_an_unlimited_budget_gives_the_decisions_of_easy(seed: int, policy: str) -> None:
    world, _ = random_case(np.random.default_rng(seed))
    easy = [x for x in run_budget(world, "easy").decisions if isinstance(x, ExecuteJob)]
    for options in ({}, {"budget": "inf", "period_end": 500}, {"budget": "1e9 GJ", "period_end": 500}):
        found = [x for x in run_budget(world, policy, **options).decisions if isinstance(x, ExecuteJob)]
        assert found == easy


@settings(max_examples=examples(40), deadline=None)
@given(seeds, st.sampled_from(POLICIES))
def test_the_counter_is_the_simulators_energy(seed: int, policy: str) -> None:
    """With estimates that are the platform's own, a run on one kind of hosts is reckoned without an error."""
    world, options = random_case(np.random.default_rng(seed))
    jobs = tuple(WorldJob(j.subtime, j.res, j.walltime, j.run) for j in world.jobs)
    world = world.but(slow=0, jobs=jobs)
    options = {**options, "period_start": 0.0, "monitoring": 1e6, "shutdown": "none"} | dict.fromkeys(HIGH)
    policy_run = run_budget(world, policy, **options)
    counter = policy_run.session.policy.ledger.counter
    assert counter.stages == 2
    assert counter.overestimated_j == pytest.approx(0.0, abs=1e-6 * counter.used_j)


def decided(done: BudgetRun) -> list[tuple[Any, ...]]:
    """Every decision but for its times, in order."""
    found = []
    for decision in done.decisions:
        fields = msgspec.structs.asdict(decision)
        told = [str(value) for name, value in fields.items() if name not in ("timestamp", "at")]
        found.append((type(decision).__name__, *told))
    return found


def times(done: BudgetRun) -> list[float]:
    """When each decision was taken, and for when it asks."""
    return [at for x in done.decisions for at in (x.timestamp, x.at if isinstance(x, CallMeLater) else 0.0)]


def case_of(seed: int, shutdown: str, allocation: str) -> tuple[World, dict[str, Any]]:
    world, options = random_case(np.random.default_rng([3, seed]), most_jobs=40)
    return world, options | {"shutdown": shutdown, "allocation": allocation}


@cache
def exact_run(policy: str, seed: int, shutdown: str, allocation: str) -> tuple[list[Any], list[float]]:
    """What is decided in a case, and when, where every message is as the simulator sends it."""
    world, options = case_of(seed, shutdown, allocation)
    done = run_budget(world, policy, **options)
    return decided(done), times(done)


def same_decisions(
    policy: str, seed: int, shutdown: str, allocation: str, heard: Callable[[Message], list[Message]]
) -> None:
    """``heard`` changes no decision of a case."""
    world, options = case_of(seed, shutdown, allocation)
    found = run_budget(world, policy, heard=heard, **options)
    expected, moments = exact_run(policy, seed, shutdown, allocation)
    assert decided(found) == expected
    assert times(found) == pytest.approx(moments, abs=1e-3, rel=0)


FEW = range(6)
"""Cases of each combination in the ordinary tests; `MORE` are of the slow ones."""
MORE = range(6, 16)
CASES = [FEW, pytest.param(MORE, marks=pytest.mark.slow)]


@pytest.mark.sampled
@pytest.mark.parametrize("seeds", CASES, ids=str)
@pytest.mark.parametrize("allocation", ["any", "contiguous"])
@pytest.mark.parametrize("shutdown", ["none", "opportunistic"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_decision_hangs_on_the_last_digit_of_a_measurement(
    policy: str, shutdown: str, allocation: str, seeds: range
) -> None:
    """Shares and times are round numbers here: balances that are exactly zero come often."""
    for seed in seeds:
        signs = np.random.default_rng(seed)

        def noisy(message: Message, signs: np.random.Generator = signs) -> list[Message]:
            events = [_noisy(x, signs) if isinstance(x, EnergyAnswer) else x for x in message.events]
            return [Message(message.now, events)]

        same_decisions(policy, seed, shutdown, allocation, noisy)


def _noisy(answer: EnergyAnswer, signs: np.random.Generator) -> EnergyAnswer:
    error_j = 1e-12 * answer.consumed_energy_j + 1e-6
    return EnergyAnswer(answer.timestamp, answer.consumed_energy_j + signs.choice([-1, 1]) * error_j)


@pytest.mark.sampled
@pytest.mark.parametrize("seeds", CASES, ids=str)
@pytest.mark.parametrize("allocation", ["any", "contiguous"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_decision_hangs_on_how_an_instant_is_divided(policy: str, allocation: str, seeds: range) -> None:
    for seed in seeds:
        same_decisions(policy, seed, "none", allocation, divided)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, 4, 8, 12, 14, 16])
def test_hosts_that_switch_are_looked_at_when_time_has_passed(seed: int) -> None:
    """And not only by an empty message of the same instant, if one comes."""
    same_decisions("energybud", seed, "opportunistic", "contiguous", divided)


def divided(message: Message) -> list[Message]:
    """Let an empty message follow, at the same time."""
    ends = any(isinstance(event, SimulationEnds) for event in message.events)
    return [message] if ends else [message, Message(message.now, [])]
