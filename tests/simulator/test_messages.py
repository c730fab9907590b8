"""What goes into one message: the rule of SimGrid's steps and of the server's mailbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulator.small import WORK, InOrder, Scripted, job, simulation, write_files

import beasy_sched as bs
from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
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


@pytest.mark.parametrize("energy", [True, False])
def test_a_late_decision_comes_in_the_order_in_which_waits_began(tmp_path, energy):
    """The reply waits from 5 s on, the submission of d from 7 s on: as tried with a real Batsim 4.2.1."""
    platform, first = write_files(tmp_path, [job("a", 5)])
    second = tmp_path / "second.json"
    second.write_text(json.dumps({**json.loads(first.read_text()), "jobs": [job("c", 7), job("d", 10)]}))
    workloads = [read_workload(first, "w0"), read_workload(second, "w1")]
    options = SimulationOptions(energy=energy, dynamic_jobs=True, acknowledge_dynamic_jobs=True)
    late = d.RegisterJob(10, "w0!x", {"subtime": 10, "res": 1, "profile": "w"})
    scheduler = Scripted([], [late])
    Simulation(read_simgrid_platform(platform), workloads, (), options).run(scheduler)
    assert told(scheduler)[1:] == [
        (5.0, ["+a"]),
        (10.0, ["+c", "+x", "+d", "no_more_static_job_to_submit"]),
    ]


@pytest.mark.parametrize(("energy", "words"), [(True, ["+x", "-a"]), (False, ["-a", "+x"])])
def test_a_late_decision_comes_before_an_end_that_is_metered(tmp_path, energy, words):
    """A runs from 5 to 10 s, the reply waits from 6 to 10 s: as tried with a real Batsim 4.2.1."""
    five = {"type": "parallel_homogeneous", "cpu": 5e8, "com": 0}
    start = d.ExecuteJob(5, "w0!a", HostSet.of([0]))
    late = d.RegisterJob(10, "w0!x", {"subtime": 10, "res": 1, "profile": "w"})
    scheduler = Scripted([], [start], [late])
    options = SimulationOptions(energy=energy, dynamic_jobs=True, acknowledge_dynamic_jobs=True)
    simulation(tmp_path, [job("a", 5), job("b", 6)], {"w": five}, options=options).run(scheduler)
    assert told(scheduler)[3] == (10.0, ["no_more_static_job_to_submit", *words])


@pytest.mark.parametrize(
    ("fast", "a", "b", "words"),
    [
        (1, "0", None, ["-a", "p"]),
        (2, "0-1", None, ["p", "-a"]),
        (6, "0-4", "5", ["p", "-a", "-b"]),
        (2, "1", "0", ["-a", "-b", "p"]),
    ],
)
def test_a_walltime_comes_before_an_event_if_the_first_hosts_are_all(tmp_path, fast, a, b, words):
    """A computes, b waits; their ends meter one host each. All cases were tried with a real Batsim 4.2.1."""
    hosts = {name: HostSet.parse(text) for name, text in (("a", a), ("b", b)) if text}
    jobs = [job(name, 1, len(hosts[name]), name, walltime=4) for name in hosts]
    profiles = {"a": {**WORK, "cpu": 1e10}, "b": {"type": "delay", "delay": 50}}
    platform, workload = write_files(tmp_path, jobs, profiles, fast=fast)
    events = tmp_path / "events.txt"
    events.write_text("".join(f'{{"type":"p","timestamp":{at_s},"power":1}}\n' for at_s in (2, 5)))
    files, options = (
        Inputs(platform, [workload], [events]),
        SimulationOptions(True, forward_unknown_events=True),
    )
    scheduler = Scripted([], [d.ExecuteJob(1, f"w0!{name}", some) for name, some in hosts.items()])
    simulation_from_files(files, options).run(scheduler)
    assert next(events for now, events in told(scheduler) if now == 5)[: len(words)] == words


FAR = (
    '<link id="far" bandwidth="1Gbps" latency="1ms"/>'
    '<link id="loop" bandwidth="498MBps" latency="15us" sharing_policy="FATPIPE"/>'
    '<route src="master_host" dst="master_host"><link_ctn id="loop"/></route>'
)


@pytest.mark.parametrize(
    ("hosts", "calls", "ends_s"), [(1, 1, 5.001075), (2, 1, 5.00109), (3, 2, 5.00109), (4, 2, 5.001105)]
)
def test_a_walltime_is_sent_before_the_answer_to_a_message_of_the_same_step(tmp_path, hosts, calls, ends_s):
    """If two hosts at most are metered for it, one in each round; times of a real Batsim 4.2.1.

    After the answer it waits until the server has received that, 15 us more.
    """
    jobs, profiles = [job("a", 0, walltime=5), job("b", 5)], {"w": {**WORK, "cpu": 1e10}}
    platform, workload = write_files(tmp_path, jobs, profiles, fast=hosts)
    routes = "".join(
        f'<route src="master_host" dst="n{i:03d}"><link_ctn id="far"/></route>' for i in range(hosts)
    )
    text = platform.read_text().replace(' coordinates="0 0 0"', "").replace("Vivaldi", "Full")
    platform.write_text(text.replace("</zone>", f"{FAR}{routes}</zone>"))
    before = [d.CallMeLater(0, 30.0 + number) for number in range(calls)]
    start = d.ExecuteJob(0, "w0!a", HostSet.of([0]))
    scheduler = Scripted([], [*before, start], [d.RejectJob(5, "w0!b")])
    simulation_from_files(Inputs(platform, [workload]), SimulationOptions(energy=True)).run(scheduler)
    found = [event for m in scheduler.messages for event in m.events if isinstance(event, e.JobCompleted)]
    assert found[0].timestamp == pytest.approx(ends_s, abs=5e-7)


def rows(folder, name):
    return (folder / f"out_{name}.csv").read_text().splitlines()[1:]


class SwitchesOff(InOrder):
    """Starts a at once; the submission of b makes it switch machine 1 off, the end of a lets it start b."""

    def decide(self, now):
        newest = self.messages[-1].events
        if now == 4 and any(isinstance(event, e.JobSubmitted) for event in newest):
            return [d.SetResourceState(now, HostSet.of([1]), 2)]
        return [] if now == 4 else super().decide(now)


@pytest.mark.parametrize(
    ("hosts", "words", "wattmin_w", "states"),
    [
        (2, ["-a", "ResourceStateChanged"], (230, 120), ["6,0,0,1,1,0", "6,1,0,0,1,0"]),
        (4, ["ResourceStateChanged", "-a"], (340, 340), ["6,0,0,1,3,0", "6,1,0,0,3,0"]),
    ],
)
def test_a_transition_ends_before_a_job_unless_all_hosts_are_metered(
    tmp_path, hosts, words, wattmin_w, states
):
    """Both ends meter their own hosts; of two hosts none is left for the job, of four two are."""
    profiles = {"w": {"type": "delay", "delay": 5}}
    scheduler = SwitchesOff()
    simulation(tmp_path, [job("a", 1), job("b", 4)], profiles, files=True, fast=hosts).run(scheduler)
    assert (6.0, words) in told(scheduler)
    at_6 = [row.split(",") for row in rows(tmp_path, "consumed_energy") if row.startswith("6.0")]
    assert [(row[2], float(row[3])) for row in at_6[:2]] == [("e", wattmin_w[0]), ("p", wattmin_w[1])]
    assert [row for row in rows(tmp_path, "machine_states") if row.startswith("6,")][:2] == states


def test_a_late_request_comes_before_the_end_of_a_transition(tmp_path):
    """Machine 1 is asleep at 2 s, when machine 2 is asked to sleep: as tried with a real Batsim 4.2.1."""
    off = d.SetResourceState(0, HostSet.of([1]), 2)
    late = [d.SetResourceState(2, HostSet.of([2]), 2), d.ExecuteJob(2, "w0!a", HostSet.of([0]))]
    profiles = {"w": {"type": "delay", "delay": 5}}
    simulation(tmp_path, [job("a", 1)], profiles, files=True).run(Scripted([off], late))
    assert rows(tmp_path, "pstate_changes") == ["0,0-3,0", "0,1,-2", "2,2,-2", "2,1,2", "4,2,2"]
    energy = [row.split(",") for row in rows(tmp_path, "consumed_energy")]
    assert [(float(row[0]), row[2], float(row[3])) for row in energy] == [
        (0, "p", 440),
        (2, "p", 340),
        (2, "p", 350),
        (2, "s", 350),
        (4, "p", 240),
        (7, "e", 240),
    ]


def test_an_event_is_played_at_the_number_as_read(tmp_path):
    """Rounded to six decimals it would come with the submission at 10 s."""
    platform, workload = write_files(tmp_path, [job("a", 10)])
    (tmp_path / "events.txt").write_text('{"type":"p","timestamp":9.9999996,"power":1}')
    files = Inputs(platform, [workload], [tmp_path / "events.txt"])
    scheduler = InOrder()
    simulation_from_files(files, SimulationOptions(forward_unknown_events=True)).run(scheduler)
    assert told(scheduler)[1:4] == [
        (10.0, ["p"]),
        (10.0, ["no_more_external_event_to_occur", "+a", "no_more_static_job_to_submit"]),
        (20.0, ["-a"]),
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
