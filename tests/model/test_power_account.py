"""Powers by state and load, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from beasy_sched.model.host_power import PowerAccount, PowerModel
from beasy_sched.model.host_states import HostState
from beasy_sched.model.platform import Platform, ServerKind, SleepState

ONE = ServerKind(
    "one",
    speeds_flops=(10.0, 1.0, 0.5, 0.2),
    idle_w=(100.0, 9.0, 110.0, 130.0),
    epsilon_w=(120.0, 9.0, 115.0, 131.0),
    full_w=(200.0, 9.0, 118.0, 135.0),
    sleeps=(SleepState(1, 2, 3),),
)
FOUR = ServerKind("four", ONE.speeds_flops, ONE.idle_w, ONE.epsilon_w, ONE.full_w, ONE.sleeps, cores=4)
BARE = ServerKind("bare", speeds_flops=())
MODEL = PowerModel(Platform((ONE, FOUR, BARE), np.array([0, 1, 2]), ("a", "b", "c")))


@pytest.mark.parametrize(
    ("state", "watts"),
    [
        (HostState.IDLE, [100, 100, 0]),
        (HostState.BUSY, [200, 140, 0]),  # a job keeps one core of four busy
        (HostState.ASLEEP, [9, 9, 0]),
        (HostState.SWITCHING_OFF, [118, 115.75, 0]),  # 1 flop keeps one core of four busy
        (HostState.SWITCHING_ON, [135, 132, 0]),
    ],
)
def test_by_state(state: HostState, watts: list[float]) -> None:
    hosts = np.arange(3)
    states = np.full(3, state, dtype=np.int8)
    pstates = np.zeros(3, dtype=np.int16)
    assert MODEL.draw_w(hosts, states, pstates).tolist() == watts


@pytest.mark.parametrize(("load", "watts"), [(0.0, 100.0), (1e-9, 120.0), (0.5, 160.0), (1.0, 200.0)])
def test_by_load(load: float, watts: float) -> None:
    host, pstate = np.array([0]), np.zeros(1, dtype=np.int16)
    assert MODEL.busy_w(host, pstate, load)[0] == pytest.approx(watts)


def test_a_job_on_two_powers_and_four_cores() -> None:
    """As a real Batsim 4.2.1 meters it: epsilon is the idle power, and one core of four is busy."""
    kind = ServerKind.from_properties("n0", {"wattage_per_state": "100:200", "core_count": "4"})
    model = PowerModel(Platform((kind,), np.array([0]), ("n0",)))
    host, pstate = np.array([0]), np.zeros(1, dtype=np.int16)
    assert model.busy_w(host, pstate)[0] == 125.0
    assert model.busy_w(host, pstate, np.array([0.5]))[0] == 112.5
    assert model.job_w(host, pstate) == 25.0


def test_transition_times() -> None:
    assert MODEL.off_s.tolist() == [2.0, 2.0, 0.0]
    assert MODEL.on_s.tolist() == [5.0, 5.0, 0.0]
    assert MODEL.can_sleep.tolist() == [True, True, False]


def test_energy_of_a_job_and_of_the_time_around_it() -> None:
    state, pstate = np.zeros(3, dtype=np.int8), np.zeros(3, dtype=np.int16)
    account = PowerAccount(MODEL, state, pstate)
    host, idle, busy = np.array([0]), HostState.IDLE, HostState.BUSY
    account.change(host, idle, busy, pstate[:1], 10.0)  # idle for 10 s
    assert account.power_w == 300.0
    assert account.job_spent_j(host, 13.0) == 600.0
    account.change(host, busy, busy, pstate[:1], 14.0, load=0.5)
    assert account.job_spent_j(host, 15.0) == 800.0 + 160.0
    account.change(host, busy, idle, pstate[:1], 15.0)
    account.change(host, idle, busy, pstate[:1], 20.0, load=0.0)  # a delay job
    assert account.job_spent_j(host, 21.0) == 100.0
    account.advance(21.0)
    account.advance(20.0)
    assert account.energy_by_use_j.tolist() == [1500.0 + 2100.0, 1060.0, 0.0, 0.0, 0.0]


def test_no_power_is_left_of_hosts_that_have_gone_to_another_use() -> None:
    """Sums and differences of powers leave a rounding behind, which would add up to energy below zero."""
    watts = (0.1, 0.2, 0.3, 0.7, 1.1)
    kinds = tuple(ServerKind(f"k{w}", (1.0,), (w,), (w,), (2 * w,)) for w in watts)
    count = len(kinds)
    platform = Platform(kinds, np.arange(count), tuple(f"n{i}" for i in range(count)))
    idle, pstate = np.zeros(count, dtype=np.int8), np.zeros(count, dtype=np.int16)
    account = PowerAccount(PowerModel(platform), idle, pstate)
    left = []
    for seed in range(50):
        order = np.random.default_rng(seed).permutation(count)
        for now, host in enumerate(order, count * seed):
            account.change(np.array([host]), HostState.IDLE, HostState.BUSY, pstate[:1], float(now))
        before_j = account.energy_by_use_j[HostState.IDLE]
        account.advance(count * (seed + 1))
        left.append(account.energy_by_use_j[HostState.IDLE] - before_j)
        end_s = count * (seed + 1.0)
        account.change(np.arange(count), HostState.BUSY, HostState.IDLE, pstate, end_s)
    assert left == [0.0] * 50
