"""Whole simulations with small schedulers: what the recordings do not show."""

import json
import math

import pytest
from simulator.small import WORK, InOrder, Scripted, job, simulation

from beasy_sched.errors import DecisionRefused
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol import batsim4
from beasy_sched.simulator import Ending, SimulationOptions


def ends(scheduler):
    return {x.job_id: (x.timestamp, x.end) for x in scheduler.events if isinstance(x, e.JobCompleted)}


def test_jobs_run_in_order(tmp_path):
    scheduler = InOrder()
    result = simulation(tmp_path, [job("a", res=3), job("b", 1, res=2), job("c", 2)]).run(scheduler)
    success = e.JobEnd.SUCCESS
    assert ends(scheduler) == {"w0!a": (10, success), "w0!b": (20, success), "w0!c": (20, success)}
    assert (result.ending, result.jobs, result.succeeded, result.makespan_s) == (Ending.FINISHED, 3, 3, 20)
    assert result.energy_j == pytest.approx(10 * (3 * 200 + 100) + 10 * (3 * 200 + 100))


def test_a_job_on_hosts_of_two_kinds_goes_at_the_pace_of_the_slower(tmp_path):
    scheduler = InOrder()
    result = simulation(tmp_path, [job("a", res=2)], fast=1, slow=1).run(scheduler)
    assert ends(scheduler)["w0!a"][0] == 12.5
    fast_at_80_percent = 110 + 0.8 * 90
    assert result.energy_j == pytest.approx(12.5 * (fast_at_80_percent + 140))


def test_a_job_too_large_loads_and_waits_for_its_rejection(tmp_path):
    result = simulation(tmp_path, [job("a", res=5), job("b")]).run(InOrder())
    assert (result.ending, result.rejected, result.succeeded) == (Ending.FINISHED, 1, 1)


def test_jobs_that_nobody_starts_are_a_deadlock(tmp_path):
    result = simulation(tmp_path, [job("a")], files=True).run(Scripted())
    assert (result.ending, result.waiting) == (Ending.DEADLOCK, ("w0!a",))
    assert (tmp_path / "out_schedule.csv").exists()


def test_an_empty_workload_ends_at_once(tmp_path):
    scheduler = Scripted()
    assert simulation(tmp_path, []).run(scheduler).ending is Ending.FINISHED
    names = [type(event).__name__ for event in scheduler.events]
    assert names == ["SimulationBegins", "NoMoreJobs", "SimulationEnds"]


def test_a_late_reply_takes_effect_at_its_time(tmp_path):
    start = d.ExecuteJob(3, "w0!a", HostSet.of([0]))
    scheduler = Scripted([], [start])
    simulation(tmp_path, [job("a"), job("b", 1)]).run(scheduler)
    assert [m.now for m in scheduler.messages] == [0, 0, 3, 13]
    assert ends(scheduler)["w0!a"][0] == 13


def test_a_decision_from_the_future_of_its_reply_is_refused(tmp_path):
    def decide(message):
        return d.Reply(message.now, [d.CallMeLater(message.now + 1, message.now + 2)])

    with pytest.raises(DecisionRefused, match="lower than or equal to now"):
        simulation(tmp_path, [job("a")]).run(decide)


def test_a_refusal_leaves_no_file(tmp_path):
    bad = d.ExecuteJob(0, "w0!a", HostSet.of([7]))
    with pytest.raises(DecisionRefused, match="Cannot get machine 7"):
        simulation(tmp_path, [job("a")], files=True).run(Scripted([], [bad]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["platform.xml", "workload.json"]


def test_an_interruption_leaves_no_file(tmp_path):
    def decide(message):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulation(tmp_path, [job("a")], files=True).run(decide)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["platform.xml", "workload.json"]


def test_killing_a_job_whose_end_has_not_been_told_is_answered(tmp_path):
    late = [d.KillJobs(15, ("w0!a",))]
    scheduler = Scripted([], [d.ExecuteJob(0, "w0!a", HostSet.of([0]))], late)
    simulation(tmp_path, [job("a"), job("b", 5)]).run(scheduler)
    told = [x for m in scheduler.messages if m.now == 15 for x in m.events]
    assert [type(x).__name__ for x in told] == ["NoMoreJobs", "JobCompleted", "JobsKilled"]
    assert told[1].end is e.JobEnd.SUCCESS


def test_a_lost_request_is_answered_in_place_of_a_later_one(tmp_path):
    hosts = HostSet.of([3])
    scheduler = Scripted(
        [d.SetResourceState(0, hosts, 2), d.SetResourceState(0, hosts, 2)],
        [d.CallMeLater(0, 20)],
        [],
        [d.SetResourceState(20, hosts, 0)],
        [d.SetResourceState(25, hosts, 2), d.SetResourceState(25, HostSet.of([2]), 1)],
    )
    result = simulation(tmp_path, [job("a")]).run(scheduler)
    changes = [
        (x.timestamp, str(x.resources), x.state)
        for x in scheduler.events
        if isinstance(x, e.ResourceStateChanged)
    ]
    assert changes == [(2, "3", 2), (25, "3", 0), (25, "2", 1), (27, "3", 2)]
    assert result.ending is Ending.DEADLOCK


def test_nested_sequences_report_nested_progress(tmp_path):
    profiles = {
        "w": WORK,
        "inner": {"type": "composed", "seq": ["w", "w"], "repeat": 1},
        "outer": {"type": "composed", "seq": ["w", "inner"], "repeat": 2},
    }
    start = [d.ExecuteJob(0, "w0!a", HostSet.of([0])), d.CallMeLater(0, 25)]
    scheduler = Scripted([], start, [d.KillJobs(25, ("w0!a",))])
    simulation(tmp_path, [job("a", profile="outer")], profiles).run(scheduler)
    (killed,) = [x for x in scheduler.events if isinstance(x, e.JobsKilled)]
    assert killed.progress["w0!a"] == {
        "profile_name": "outer",
        "current_task_index": 1,
        "current_task": {
            "profile_name": "inner",
            "current_task_index": 1,
            "current_task": {"profile_name": "w", "progress": 0.5},
        },
    }


def test_two_jobs_that_share_a_host_and_one_that_does_not(tmp_path):
    """Shared: half the speed each until the first ends; then the second has the host to itself."""
    profiles = {"w": WORK, "long": {**WORK, "cpu": 2e9}}
    hosts = HostSet.of([0])
    starts = [d.ExecuteJob(0, "w0!a", hosts), d.ExecuteJob(0, "w0!b", hosts)]
    options = SimulationOptions(energy=True, compute_sharing=True)
    scheduler = Scripted([], starts)
    jobs = [job("a"), job("b", profile="long")]
    result = simulation(tmp_path, jobs, profiles, options=options).run(scheduler)
    assert {name: at for name, (at, _) in ends(scheduler).items()} == {"w0!a": 20, "w0!b": 30}
    assert result.energy_j == pytest.approx(30 * (200 + 300))


@pytest.mark.parametrize(
    ("second", "hosts", "noted"),
    [("w", [0], False), ("long", [0], True), ("w", [0, 1], True), ("w", [1], False)],
)
def test_a_note_tells_that_different_jobs_shared_a_host(tmp_path, second, hosts, noted):
    profiles = {"w": WORK, "long": {**WORK, "cpu": 2e9}}
    starts = [d.ExecuteJob(0, "w0!a", HostSet.of([0])), d.ExecuteJob(0, "w0!b", HostSet.of(hosts))]
    options = SimulationOptions(energy=True, compute_sharing=True)
    jobs = [job("a"), job("b", res=len(hosts), profile=second)]
    result = simulation(tmp_path, jobs, profiles, options=options).run(Scripted([], starts))
    assert ["shared hosts" in note for note in result.notes] == [True] * noted


def test_job_fields_that_batsim_does_not_know_reach_the_scheduler(tmp_path):
    scheduler = InOrder()
    extra = {"deadline": 12.3456789, "user": "ada", "parts": [1, {"id": 3, "x": None}]}
    simulation(tmp_path, [job("a", 0.1234567, walltime=-1, **extra)]).run(scheduler)
    (submitted,) = [x for x in scheduler.events if isinstance(x, e.JobSubmitted)]
    assert submitted.job == e.JobRequest(
        "w0!a",
        0.123457,
        1,
        "w",
        None,
        {"deadline": 12.345679, "user": "ada", "parts": [1, {"id": "w0!a", "x": None}]},
    )


def test_in_process_and_over_the_wire_a_scheduler_sees_the_same(tmp_path):
    jobs = [job(str(i), i * 1.23456789, 1 + i % 3, walltime=9.87654321 + i) for i in range(40)]

    class OverTheWire(InOrder):
        def __call__(self, message):
            return batsim4.decode_reply(
                batsim4.encode_reply(
                    super().__call__(batsim4.decode_message(batsim4.encode_message(message)))
                )
            )

    direct, wired = InOrder(), OverTheWire()
    results = [simulation(tmp_path, jobs, slow=2).run(s) for s in (direct, wired)]
    assert direct.messages == wired.messages
    assert direct.replies == wired.replies
    assert results[0].energy_j == results[1].energy_j


def test_progress_is_reported(tmp_path):
    seen = []
    simulation(tmp_path, [job(str(i), i) for i in range(600)]).run(InOrder(), seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert 0 <= seen[0] <= seen[-1] <= 1


def test_config_tells_the_options(tmp_path):
    scheduler = Scripted()
    options = SimulationOptions(forward_profiles=True, sched_config="x=1", dynamic_jobs=True)
    simulation(tmp_path, [], options=options).run(scheduler)
    (begins,) = [x for x in scheduler.events if isinstance(x, e.SimulationBegins)]
    assert begins.config["profiles-forwarded-on-submission"] is True
    assert begins.config["sched-config"] == "x=1"
    assert json.loads(batsim4.encode_message(e.Message(0, [begins])))


def test_energy_is_finite_for_jobs_without_flops(tmp_path):
    result = simulation(tmp_path, [job("a", res=2)], {"w": {**WORK, "cpu": 0}}).run(InOrder())
    assert result.energy_j == 0
    assert math.isclose(result.makespan_s, 1e-5)


def test_a_call_that_was_asked_for_comes_before_the_end(tmp_path):
    start = d.ExecuteJob(0, "w0!a", HostSet.of([0]))
    scheduler = Scripted([], [start, d.CallMeLater(0, 100)])
    assert simulation(tmp_path, [job("a")]).run(scheduler).ending is Ending.FINISHED
    assert [type(x).__name__ for x in scheduler.events][-2:] == ["RequestedCall", "SimulationEnds"]
    assert scheduler.messages[-1].now == 100
