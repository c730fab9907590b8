"""The nodes-only mode beside the fake Slurm: reservations, idle nodes, what is told, failures."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from plugins.slurm.fake_slurm import FakeReservation, FakeSlurm
from plugins.slurm.live_cases import all_over
from plugins.slurm.nodes_only_cases import STEP_S, NodesBeside, is_asleep, shared_slurm

from beasy_sched.model.host_states import HostState
from beasy_sched.plugins.slurm.withholder import AHEAD_S

NOW, AHEAD = "beasy-now-main", "beasy-ahead-main"


def test_nodes_beyond_the_offer_are_reserved_and_switched_off():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2)])
    beside.go(10)
    held = slurm.reservations[NOW]
    assert (held.nodes, held.end_s - beside.bridge.epoch_s) == (("n3", "n4"), 2 * STEP_S)
    assert [name for name, node in slurm.nodes.items() if is_asleep(node)] == ["n3", "n4"]
    assert AHEAD not in slurm.reservations


def test_the_end_moves_on_with_each_step_and_the_nodes_stay():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2)])
    for step in range(1, 6):
        beside.go(STEP_S * step - (slurm.now_s - beside.bridge.epoch_s) + 1)
        held = slurm.reservations[NOW]
        assert (held.nodes, held.end_s - beside.bridge.epoch_s) == (("n3", "n4"), (step + 2) * STEP_S)


def test_calls_of_a_step():
    """Two where nothing changes, at most five where something does, whatever the interval of polls."""
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 3), (300, 2), (420, 4), (540, 1)], poll_s=5.0)
    slurm.commands.clear()
    calls: dict[int, int] = {}

    def count() -> None:
        step = int((slurm.now_s - beside.bridge.epoch_s) // STEP_S)
        calls[step] = calls.get(step, 0) + len(beside.commands(0))
        slurm.commands.clear()

    beside.go(12 * STEP_S, count)
    assert calls[2] == calls[3] == 2, "nothing changes"
    assert max(calls.values()) <= 5
    assert sum(calls.values()) > 2 * len(calls), "something has changed"


def test_a_fall_ahead_keeps_long_jobs_away_and_kills_nothing():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 4), (600, 1)])
    beside.go(5)
    held = slurm.reservations[AHEAD]
    assert held.nodes == ("n2", "n3", "n4")
    assert (held.start_s, held.end_s) == (beside.bridge.epoch_s + 600, beside.bridge.epoch_s + 600 + AHEAD_S)
    long_jobs = [slurm.submit(run_s=1000, limit_s=1200) for _ in range(2)]
    short_jobs = [slurm.submit(run_s=100, limit_s=120) for _ in range(3)]
    beside.go(30)
    assert [slurm.jobs[job].state for job in long_jobs] == ["RUNNING", "PENDING"]
    assert {slurm.jobs[job].state for job in short_jobs} == {"RUNNING"}
    on = []
    beside.go(700, lambda: on.append((slurm.now_s - beside.bridge.epoch_s, len(slurm.on))))
    assert {count for at_s, count in on if at_s > 600 + 10} == {1}, "from the fall on, and switching off"
    assert slurm.jobs[long_jobs[0]].state == "RUNNING"


def test_of_several_falls_the_lowest_within_the_longest_limit_that_waits():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 4), (600, 3), (1200, 2), (7200, 0)])
    beside.go(5)
    assert slurm.reservations[AHEAD].nodes == ("n4",), "nothing waits"
    slurm.submit(nodes=4, run_s=10, limit_s=3600)
    beside.go(STEP_S)
    held = slurm.reservations[AHEAD]
    assert (held.nodes, held.start_s - beside.bridge.epoch_s) == (("n3", "n4"), 600)
    slurm.submit(nodes=3, run_s=10, limit_s=None)
    beside.go(STEP_S)
    assert len(slurm.reservations[AHEAD].nodes) == 4


def test_a_rise_gives_nodes_back_and_slurm_wakes_them():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 1), (180, 4)])
    job = slurm.submit(nodes=3, run_s=20)
    beside.go(170)
    assert slurm.jobs[job].state == "PENDING"
    beside.go(60)
    assert slurm.jobs[job].state in ("RUNNING", "COMPLETED")
    assert NOW not in slurm.reservations
    assert not any("POWER_UP" in word for command in slurm.changing for word in command)


def test_busy_nodes_drain_and_free_ones_take_their_place():
    slurm = shared_slurm()
    jobs = [slurm.submit(run_s=run_s, limit_s=4000) for run_s in (400, 60, 500, 90)]
    slurm.advance(2)
    beside = NodesBeside(slurm, [(0, 2)])
    beside.go(40)
    assert {slurm.jobs[job].state for job in jobs} == {"RUNNING"}
    assert len(slurm.reservations[NOW].nodes) == 2
    beside.go(100)
    assert [slurm.jobs[job].state for job in jobs] == ["RUNNING", "COMPLETED", "RUNNING", "COMPLETED"]
    assert slurm.reservations[NOW].nodes == ("n2", "n4"), "the others need not drain any more"
    assert len(slurm.on) == 2


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_no_more_nodes_on_than_offered_but_for_those_that_drain(seed: int):
    """Random jobs, shared nodes, Slurm's own SuspendTime; nothing is lost, no node flaps."""
    rng = random.Random(seed)
    slurm = shared_slurm(6, suspend_s=15)
    timetable = [(0, 6)] + [(120 * at, rng.randint(0, 6)) for at in range(1, 9)] + [(1080, 6)]
    beside = NodesBeside(slurm, timetable)
    over: list[tuple[float, int, int]] = []
    changes, before = 0, frozenset[str]()
    calls: dict[int, int] = {}

    def look() -> None:
        nonlocal changes, before
        at_s = slurm.now_s - beside.bridge.epoch_s
        calls[int(at_s // STEP_S)] = calls.get(int(at_s // STEP_S), 0) + len(beside.commands(0))
        slurm.commands.clear()
        if rng.random() < 0.05 and at_s < 900:
            slurm.submit(
                nodes=rng.randint(1, 2), cpus=rng.choice((0, 1, 2)), run_s=rng.randint(5, 80), limit_s=120
            )
        count = [count for start_s, count in timetable if start_s <= at_s][-1]
        busy = {name for job in slurm.jobs.values() if job.state == "RUNNING" for name in job.on}
        held = beside.bridge.withholder.chosen.now
        changes, before = changes + len(held ^ before), held
        switching = {name for name, node in slurm.nodes.items() if "POWERING_DOWN" in node.flags}
        young = any(0 <= at_s - start_s < 3 for start_s, _ in timetable)
        if len(slurm.on - (held & busy) - switching) > count and not young:
            over.append((at_s, len(slurm.on), count))

    beside.go(1600, look)
    assert over == []
    assert max(calls.values()) <= 5
    assert all_over(slurm)
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    ups_and_downs = sum(abs(b - a) for (_, a), (_, b) in itertools.pairwise(timetable))
    exchanged = sum(len(job.on) for job in slurm.jobs.values())
    assert changes <= ups_and_downs + 2 * exchanged, "nodes come and go with the offer, and as jobs end"


# --- what the scheduler is told -----------------------------------------------------------------------------


def test_started_jobs_are_told_with_their_nodes_and_their_ends():
    slurm = shared_slurm()
    before = slurm.submit(run_s=50)
    slurm.advance(2)
    beside = NodesBeside(slurm, [(0, 4)])
    wide = slurm.submit(nodes=3, run_s=30)
    beside.go(120)
    starts = [row[2:4] for row in beside.log if row[1] == "start"]
    assert starts == [(f"slurm!{before}", "0"), (f"slurm!{wide}", "1-3")]
    assert beside.session.outcomes.columns()["state"].tolist() == ["finished"] * 2


def test_jobs_that_share_a_node_count_with_their_share():
    slurm = shared_slurm(2)
    beside = NodesBeside(slurm, [(0, 2)])
    for _ in range(8):
        slurm.submit(cpus=1, run_s=300)
    beside.go(100)
    later = slurm.submit(cpus=1, run_s=300)
    beside.go(3)
    (waiting,) = beside.session.cluster.queue
    assert waiting.id == f"slurm!{later}"
    assert waiting.terms.host_share == pytest.approx(0.25, abs=0.01)
    assert len(beside.session.cluster.running) == 8
    beside.go(600)
    assert beside.session.outcomes.columns()["state"].tolist() == ["finished"] * 9


def test_nodes_that_slurm_puts_to_sleep_are_asleep_and_not_lost():
    slurm = shared_slurm(suspend_s=20)
    beside = NodesBeside(slurm, [(0, 4)])
    beside.go(60)
    assert slurm.on == set()
    assert beside.bridge._asleep.all()
    assert beside.session.cluster.all_available
    job = slurm.submit(nodes=2, run_s=30)
    beside.go(120)
    assert slurm.jobs[job].state == "COMPLETED"
    assert not [row for row in beside.log if row[1] == "lost"]
    assert beside.session.lost.hosts == 0


def test_a_node_wakes_then_idles_until_its_job_is_launched():
    """Slurm looks every 30 s whether woken nodes are ready for their jobs."""
    slurm = shared_slurm(suspend_s=20)
    slurm.delays = dataclasses.replace(slurm.delays, check_s=30.0)
    beside = NodesBeside(slurm, [(0, 4)])
    beside.go(60)
    job, seen = slurm.submit(nodes=1, run_s=30), []
    cluster = beside.session.cluster

    def note() -> None:
        host = int(slurm.jobs[job].on[0][1:]) - 1 if slurm.jobs[job].on else 0
        state = HostState(int(cluster.state[host]))
        if not seen or seen[-1][0] is not state:
            seen.append((state, float(cluster.draw_w[host])))

    beside.go(100, note)
    assert seen == [
        (HostState.SWITCHING_ON, 80.0),
        (HostState.IDLE, 50.0),
        (HostState.BUSY, 100.0),
        (HostState.IDLE, 50.0),
        (HostState.ASLEEP, 5.0),
    ]
    assert slurm.jobs[job].state == "COMPLETED"


def test_nodes_out_of_service_and_reserved_by_others_are_not_ours_to_offer():
    slurm = shared_slurm()
    slurm.nodes["n1"].flags.add("DRAIN")
    end_s = slurm.now_s + 1000
    slurm.reservations["physics"] = FakeReservation("physics", ("n2",), slurm.now_s, end_s, "ada", ("MAINT",))
    beside = NodesBeside(slurm, [(0, 1)])
    beside.go(10)
    assert slurm.reservations[NOW].nodes == ("n4",), "one of the two that are left is offered"
    assert beside.session.cluster.available.tolist() == [False, False, True, True]


def test_the_flag_of_reserved_nodes_that_slurm_updates_late_is_ignored():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 4)])
    slurm.nodes["n1"].flags.add("RESERVED")
    beside.go(10)
    assert beside.session.cluster.all_available
    assert slurm.changing == []


def test_jobs_of_both_partitions_and_held_ones():
    slurm = shared_slurm(2)
    beside = NodesBeside(slurm, [(0, 0)])
    beside.go(5)
    demand = [slurm.submit(), slurm.submit(partition="low")]
    slurm.submit(held=True)
    slurm.submit(dependency="afterok:1(unfulfilled)")
    beside.go(2)
    assert [job.id for job in beside.session.cluster.queue] == [f"slurm!{job}" for job in demand]
    slurm.cancel(demand[0])
    beside.go(2)
    assert [job.id for job in beside.session.cluster.queue] == [f"slurm!{demand[1]}"]


def test_a_requeued_job_is_told_again():
    slurm = shared_slurm()
    job = slurm.submit(run_s=40)
    beside = NodesBeside(slurm, [(0, 4)])
    beside.go(10)
    slurm.lose(slurm.jobs[job].on[0])
    beside.go(100)
    assert slurm.jobs[job].state == "COMPLETED"
    assert beside.session.outcomes.columns()["state"].tolist() == ["failed", "finished"]


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("moment_s", [0.5, 61, 119, 130, 3, 59, 300])
def test_a_bridge_that_dies_gives_its_nodes_back(moment_s: float):
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2), (180, 3), (240, 1)])
    beside.go(moment_s)
    died_s = slurm.now_s
    job = slurm.submit(nodes=4, run_s=10, limit_s=60)
    slurm.advance(3 * STEP_S + 20)
    assert slurm.jobs[job].state in ("RUNNING", "COMPLETED")
    assert slurm.jobs[job].start_s - died_s <= 2 * STEP_S + AHEAD_S + 12, "and the time to wake"


def test_a_bridge_that_is_started_again_keeps_the_nodes():
    slurm = shared_slurm()
    NodesBeside(slurm, [(0, 2), (600, 1)]).go(50)
    before = slurm.reservations[NOW].nodes, slurm.reservations[AHEAD].nodes
    slurm.advance(17)
    beside = NodesBeside(slurm, [(0, 2), (533, 1)])
    beside.go(30)
    assert (slurm.reservations[NOW].nodes, slurm.reservations[AHEAD].nodes) == before
    assert beside.said == []


def test_a_deleted_reservation_is_made_again():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2)])
    beside.go(10)
    del slurm.reservations[NOW]
    beside.go(60)
    assert slurm.reservations[NOW].nodes == ("n3", "n4")
    assert beside.said == [f"reservation {NOW!r} was deleted by somebody: it is made again if needed"]


def test_an_extended_reservation_stays_as_it_is():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2), (180, 4), (300, 1)])
    beside.go(10)
    end_s = slurm.reservations[NOW].end_s = beside.bridge.epoch_s + 1000
    beside.go(240)
    assert (slurm.reservations[NOW].nodes, slurm.reservations[NOW].end_s) == (("n3", "n4"), end_s)
    assert beside.said == [f"reservation {NOW!r} was extended by somebody: it stays so"]
    beside.go(100)
    assert slurm.reservations[NOW].nodes == ("n2", "n3", "n4"), "one of the two others may be on"
    assert slurm.reservations[NOW].end_s == end_s
    beside.go(700)
    assert slurm.reservations[NOW].end_s < slurm.now_s + 2 * STEP_S + 1


def test_an_extended_reservation_ahead_is_left_alone():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 4), (300, 3), (360, 4), (420, 2)])
    beside.go(10)
    slurm.reservations[AHEAD].end_s = beside.bridge.epoch_s + 900
    beside.go(360)
    assert slurm.reservations[AHEAD].nodes == ("n4",)
    beside.go(90)
    assert slurm.reservations[NOW].nodes == ("n3",), "n4 is theirs, two of the others are offered"
    assert slurm.reservations[AHEAD].end_s == beside.bridge.epoch_s + 900


def test_a_reservation_replaced_by_somebody_is_left_alone():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2)])
    beside.go(10)
    slurm.reservations[NOW] = theirs = FakeReservation(
        NOW, ("n1",), slurm.now_s, slurm.now_s + 500, "ada", ("MAINT",)
    )
    beside.go(100)
    assert slurm.reservations[NOW] is theirs
    assert beside.said == [f"reservation {NOW!r} was replaced by somebody: it is left alone"]


def test_a_controller_that_is_away_is_waited_for():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2), (120, 1)])
    beside.go(70)
    slurm.away = True
    beside.go(300)
    slurm.away = False
    beside.go(70)
    assert len(slurm.reservations[NOW].nodes) == 3
    assert "does not respond" in beside.said[0]


def test_a_refused_change_is_said_once_and_tried_again():
    slurm = shared_slurm()
    beside = NodesBeside(slurm, [(0, 2)])
    slurm.denied = True
    beside.go(70)
    assert len(beside.said) == len({*beside.said}) <= 2
    assert all("Invalid user id" in text for text in beside.said)
    changing = len(slurm.changing)
    beside.go(STEP_S)
    assert len(slurm.changing) - changing <= 4, "it is tried again once"
    slurm.denied = False
    beside.go(70)
    assert slurm.reservations[NOW].nodes == ("n3", "n4")


def test_the_same_with_a_later_version():
    slurm = shared_slurm(version="23.11.4")
    beside = NodesBeside(slurm, [(0, 2)])
    job = slurm.submit(nodes=2, run_s=30)
    beside.go(60)
    assert slurm.jobs[job].state == "COMPLETED"
    assert slurm.on == {"n1", "n2"}


def test_nodes_of_other_platforms_are_not_touched():
    slurm = FakeSlurm(6, holding=False)
    beside = NodesBeside(slurm, [(0, 1)], count=4)
    beside.go(20)
    assert slurm.reservations[NOW].nodes == ("n2", "n3", "n4")
    assert not is_asleep(slurm.nodes["n5"])
