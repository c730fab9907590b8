"""What goes into one message: the rule of SimGrid's steps and of the server's mailbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulator.small import InOrder, Scripted, job, simulation, write_files

import beasy_sched as bs
from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.run.settings import RunSettings, build_session
from beasy_sched.simulator import Inputs, Simulation, SimulationOptions, simulation_from_files

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "swf"


def words(event):
    if isinstance(event, e.JobSubmitted):
        return f"+{event.job.id.partition('!')[2]}"
    if isinstance(event, e.JobCompleted):
        return f"-{event.job_id.partition('!')[2]}"
    return event.kind if isinstance(event, e.Notify) else type(event).__name__


def told(scheduler):
    return [(message.now, [words(event) for event in message.events]) for message in scheduler.messages]


def jobs_of(*pairs):
    """Jobs of one host each, by submission time and seconds of run time."""
    profiles = {f"s{s}": {"type": "parallel_homogeneous", "cpu": s * 100_000_000, "com": 0} for _, s in pairs}
    return [job(str(i), t, profile=f"s{s}") for i, (t, s) in enumerate(pairs)], profiles


@pytest.mark.parametrize(
    ("pairs", "ends"),
    [
        (((10, 762), (26, 1115), (1140, 1)), [["-1"], ["-2"]]),
        (((547, 495), (891, 1340), (2227, 4)), [["-1"], ["-2"]]),
        (((23, 468), (168, 198), (280, 211), (489, 2)), [["-0", "-2"], ["-3"]]),
        (((0, 10), (5, 5)), [["-0", "-1"]]),
    ],
)
def test_equal_ends_are_divided_as_by_a_real_batsim(tmp_path, pairs, ends):
    """Cases that were tried with a real Batsim 4.2.1."""
    scheduler = InOrder()
    simulation(tmp_path, *jobs_of(*pairs)).run(scheduler)
    messages = told(scheduler)
    last = max(subtime + lasts for subtime, lasts in pairs)
    found = [events for now, events in messages if now == last and events[0].startswith("-")]
    assert found == ends


def test_the_goodbye_comes_in_a_message_of_its_own(tmp_path):
    scheduler = InOrder()
    simulation(tmp_path, *jobs_of((0, 10), (20, 10))).run(scheduler)
    assert told(scheduler) == [
        (0.0, ["SimulationBegins"]),
        (0.0, ["+0"]),
        (10.0, ["-0"]),
        (20.0, ["+1"]),
        (20.0, ["no_more_static_job_to_submit"]),
        (30.0, ["-1"]),
        (30.0, ["SimulationEnds"]),
    ]


def test_the_goodbye_joins_what_stood_behind_the_last_submission(tmp_path):
    scheduler = InOrder()
    simulation(tmp_path, *jobs_of((0, 20), (20, 10))).run(scheduler)
    assert (20.0, ["+1", "-0", "no_more_static_job_to_submit"]) in told(scheduler)


def test_each_workload_has_a_submitter_of_its_own(tmp_path):
    """Both say goodbye; the scheduler is told once, after the later of them."""
    platform, first = write_files(tmp_path, [job("a", 0), job("b", 7)])
    second = tmp_path / "second.json"
    second.write_text(json.dumps({**json.loads(first.read_text()), "jobs": [job("a", 3)]}))
    workloads = [read_workload(first, "w0"), read_workload(second, "w1")]
    scheduler = InOrder()
    options = SimulationOptions(energy=True)
    Simulation(read_simgrid_platform(platform), workloads, (), options).run(scheduler)
    assert [
        (now, events) for now, events in told(scheduler) if events[0][0] == "+" or "no_more" in events[0]
    ] == [(0.0, ["+a"]), (3.0, ["+a"]), (7.0, ["+b"]), (7.0, ["no_more_static_job_to_submit"])]


def test_events_come_before_the_first_submission_whose_energy_is_measured(tmp_path):
    platform, workload = write_files(tmp_path, [job("a", 5), job("b", 9)])
    (tmp_path / "events.txt").write_text(
        '{"type":"p","timestamp":5,"power":1}\n{"type":"p","timestamp":9,"power":2}\n'
    )
    events = read_external_events(tmp_path / "events.txt", forward_unknown=True)
    for energy, expected in ((True, [["p", "+a"], ["p", "+b"]]), (False, [["+a", "p"], ["+b", "p"]])):
        scheduler = InOrder()
        options = SimulationOptions(energy=energy)
        workloads = [read_workload(workload)]
        Simulation(read_simgrid_platform(platform), workloads, [events], options).run(scheduler)
        assert [events[:2] for _, events in told(scheduler) if "p" in events] == expected


def test_only_the_first_submission_of_all_workloads_is_measured_and_comes_later(tmp_path):
    platform, first = write_files(tmp_path, [job("a", 3), job("b", 9)])
    second = tmp_path / "second.json"
    second.write_text(json.dumps({**json.loads(first.read_text()), "jobs": [job("c", 9)]}))
    (tmp_path / "events.txt").write_text(
        '{"type":"p","timestamp":3,"power":1}\n{"type":"p","timestamp":9,"power":2}\n'
    )
    events = read_external_events(tmp_path / "events.txt", forward_unknown=True)
    workloads = [read_workload(first, "w0"), read_workload(second, "w1")]
    scheduler = InOrder()
    options = SimulationOptions(energy=True)
    Simulation(read_simgrid_platform(platform), workloads, [events], options).run(scheduler)
    assert [events[:3] for _, events in told(scheduler) if "p" in events] == [["p", "+a"], ["+c", "p", "+b"]]


def test_without_energy_a_late_decision_comes_after_all_else_of_its_time(tmp_path):
    """The reply was there before the submission of d was waited for."""
    platform, first = write_files(tmp_path, [job("a", 5)])
    second = tmp_path / "second.json"
    second.write_text(json.dumps({**json.loads(first.read_text()), "jobs": [job("c", 7), job("d", 10)]}))
    workloads = [read_workload(first, "w0"), read_workload(second, "w1")]
    options = SimulationOptions(energy=False, dynamic_jobs=True, acknowledge_dynamic_jobs=True)
    late = d.RegisterJob(10, "w0!x", {"subtime": 10, "res": 1, "profile": "w"})
    scheduler = Scripted([], [late])
    Simulation(read_simgrid_platform(platform), workloads, (), options).run(scheduler)
    assert told(scheduler)[1:] == [
        (5.0, ["+a"]),
        (10.0, ["+c", "+d", "+x", "no_more_static_job_to_submit"]),
    ]


@pytest.mark.parametrize(("energy", "words"), [(True, ["+x", "+y", "-a"]), (False, ["+x", "-a", "+y"])])
def test_a_job_without_work_ends_later_where_energy_is_measured(tmp_path, energy, words):
    """The third decision of the reply then comes before the end of the job that the first has started."""
    nothing = {"type": "parallel_homogeneous", "cpu": 0, "com": 0}
    start = d.ExecuteJob(0, "w0!a", HostSet.of([0]))
    more = [d.RegisterJob(0, f"w0!{name}", {"subtime": 0, "res": 1, "profile": "w"}) for name in "xy"]
    scheduler = Scripted([], [start, *more])
    options = SimulationOptions(energy=energy, dynamic_jobs=True, acknowledge_dynamic_jobs=True)
    simulation(tmp_path, [job("a")], {"w": nothing}, options=options).run(scheduler)
    assert told(scheduler)[2] == (0.0, ["no_more_static_job_to_submit", *words])


@pytest.mark.parametrize("kind", ["machine_available", "machine_unavailable"])
def test_an_event_for_a_host_that_does_not_exist_is_refused(tmp_path, kind):
    """Hosts are numbered from 0: of four the last is 3."""
    platform, workload = write_files(tmp_path, [job("a")])
    (tmp_path / "events.txt").write_text(json.dumps({"type": kind, "timestamp": 1, "resources": "3-4"}))
    files = Inputs(platform, [workload], [tmp_path / "events.txt"])
    with pytest.raises(InputError, match=r"events\.txt.*Cannot get machine 4: it does not exist"):
        simulation_from_files(files, SimulationOptions()).run(InOrder())


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not beside the project")
@pytest.mark.parametrize(
    ("trace", "hosts", "messages", "split", "ends_split"),
    [
        ("metacentrum_1w_1367276567.swf", 3356, 10_722, 178, 104),
        pytest.param("KTH-SP2-1996-2.swf", 100, 56_276, 10, 4, marks=pytest.mark.slow),
    ],
)
def test_weeks_have_the_messages_of_a_real_batsim(tmp_path, trace, hosts, messages, split, ends_split):
    """Messages, divided instants, and instants whose ends of jobs are divided, as counted with Batsim 4.2.1.

    The MetaCentrum week has 25 chains of submissions that the clock divides.
    """
    platform = bs.generate_platform({"taurus": hosts}, tmp_path / "platform.xml", one_pstate=True)
    workload = bs.generate_workload(
        tmp_path / "workload.json", swf=TRACES / trace, reference="taurus", hosts=hosts
    )
    session = build_session(RunSettings(policy="easy"))
    by_time: dict[float, list[list[e.Event]]] = {}

    def decide(message):
        by_time.setdefault(message.now, []).append(message.events)
        return session.step(message)

    simulated = simulation_from_files(Inputs(platform, [workload]), SimulationOptions(energy=True))
    assert simulated.run(decide).messages == messages
    several = [parts for parts in by_time.values() if sum(map(len, parts)) > 1]
    assert sum(len(parts) > 1 for parts in several) == split
    ends = [[sum(isinstance(event, e.JobCompleted) for event in part) for part in parts] for parts in several]
    assert sum(sum(map(bool, counts)) > 1 for counts in ends if sum(counts) > 1) == ends_split
