"""The simulator as a Batsim 5, where it differs from Batsim 4; expected figures are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulator.small import Scripted, platform_text

from beasy_sched.errors import DecisionRefused, InputError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.batsim5 import RequestedFeatures
from beasy_sched.simulator import Ending, Inputs, SimulationOptions, SimulationResult
from beasy_sched.simulator.batsim5_peer import Batsim5Simulation, batsim5_from_files

WORK = {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0}
"""10 s on a host of 100 Mflop/s in P-state 0."""
WAIT = {"type": "DelayProfile", "delay": 10}


def job(name: str, subtime: float = 0, res: int = 1, profile: str = "w", **more: Any) -> dict[str, Any]:
    return {"id": name, "subtime": subtime, "res": res, "profile": profile, **more}


def write_files(
    folder: Path,
    jobs: list[dict[str, Any]],
    events: list[list[tuple[float, str]]] | None = None,
    profiles: dict[str, Any] | None = None,
    platform: str = "",
    **hosts: int,
) -> Inputs:
    (folder / "platform.xml").write_text(platform or platform_text(**hosts))
    content = {"nb_res": 4, "jobs": jobs, "profiles": profiles or {"w": WORK, "d": WAIT}}
    (folder / "workload.json").write_text(json.dumps(content))
    paths = []
    for number, some in enumerate(events or []):
        paths.append(folder / f"events{number}.txt")
        lines = [{"type": "generic", "timestamp": when, "data": text} for when, text in some]
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Inputs(folder / "platform.xml", [folder / "workload.json"], paths, strict=BatsimFormat.BATSIM5)


def made(
    folder: Path, *arguments: Any, energy: bool = True, prefix: str = "", **more: Any
) -> Batsim5Simulation:
    inputs = write_files(folder, *arguments, **more)
    return batsim5_from_files(
        inputs,
        SimulationOptions(energy=energy),
        f"{folder}/{prefix}" if prefix else None,
        machine_states=True,
        pstates=True,
        arguments=["batsim", "-p"],
    )


def played(simulation: Batsim5Simulation, *script: list[d.Decision]) -> tuple[SimulationResult, Scripted]:
    scheduler = Scripted(*script)
    return simulation.run(scheduler), scheduler


def start(now: float, name: str, *hosts: int, **more: Any) -> d.ExecuteJob:
    return d.ExecuteJob(now, f"w0!{name}", HostSet.of(hosts), **more)


def switch(now: float, hosts: list[int], pstate: int) -> d.SetResourceState:
    return d.SetResourceState(now, HostSet.of(hosts), pstate, switch=True)


def change(now: float, hosts: list[int], pstate: int) -> d.SetResourceState:
    return d.SetResourceState(now, HostSet.of(hosts), pstate, switch=False)


def ends(scheduler: Scripted) -> dict[str, tuple[float, str]]:
    return {
        event.job_id: (event.timestamp, event.end.value)
        for event in scheduler.events
        if isinstance(event, e.JobCompleted)
    }


def grouped(scheduler: Scripted) -> list[tuple[float, list[str]]]:
    return [(m.now, [type(event).__name__ for event in m.events]) for m in scheduler.messages]


# --- the beginning ---


def test_what_is_told_of_hosts(tmp_path: Path) -> None:
    text = platform_text(fast=1).replace(
        "</zone>",
        '<host id="n10" coordinates="0 0 0" speed="50Mf" pstate="0"/>'
        '<host id="n9" coordinates="0 0 0" speed="80Mf,40Mf" pstate="1" core="4"/>'
        '<host id="disk" coordinates="0 0 0" speed="1Gf"><prop id="role" value="storage"/></host></zone>',
    )
    begins = made(tmp_path, [job("a")], platform=text, energy=False).begins()
    assert [(host.id, host.name) for host in begins.resources] == [(0, "n000"), (1, "n9"), (2, "n10")]
    assert begins.resources[0].speeds_flops == (1e8, 5e7, 1e-3, 0.5, 0.2)
    assert (begins.resources[1].pstate, begins.resources[1].cores) == (1, 4)
    assert list(begins.resources[0].properties) == ["sleep_pstates", "wattage_per_state"]
    assert [(host.id, host.name, host.speeds_flops) for host in begins.storage_resources] == [
        (3, "disk", (1e9,))
    ]
    assert begins.config["batsim_arguments"] == ["batsim", "-p"]
    assert begins.profiles == {}
    assert begins.answers_queries is False


def test_the_first_message_stands_alone_unless_events_are_played(tmp_path: Path) -> None:
    _, alone = played(made(tmp_path, [job("a")]), [], [d.RejectJob(0, "w0!a")])
    assert grouped(alone)[:2] == [(0, ["SimulationBegins"]), (0, ["JobSubmitted", "NoMoreJobs"])]
    _, with_events = played(made(tmp_path, [job("a")], [[(5, "x")]]), [d.RejectJob(0, "w0!a")])
    assert grouped(with_events)[0] == (0, ["SimulationBegins", "JobSubmitted"])


def test_events_are_numbered_by_file_and_told_as_they_are(tmp_path: Path) -> None:
    lists = [[(7.5, "later"), (2, '{"type": "power", "power_available": 5.5}')], [(2, "[1]")]]
    result, scheduler = played(made(tmp_path, [], lists))
    told = [event for event in scheduler.events if isinstance(event, e.Notify)]
    assert [(event.id, event.kind) for event in told] == [
        ("", "no_more_static_job_to_submit"),
        ("ee0!1", "power"),
        ("ee1!0", "generic"),
        ("ee0!0", "generic"),
        ("", "no_more_external_event_to_occur"),
    ]
    assert told[1].data["power_available"] == 5.5
    assert [told[2].data, told[3].data] == [{"data": "[1]"}, {"data": "later"}]
    # events that come first in a message have the time of what was told before
    assert [event.timestamp for event in told] == [0, 0, 0, 0, 7.5]
    assert result.end_s == 7.5


def test_machines_named_in_events_are_a_matter_of_the_scheduler(tmp_path: Path) -> None:
    text = json.dumps({"type": "machine_unavailable", "resources": "0-3"})
    simulation = made(tmp_path, [job("a", 2)], [[(1, text)]])
    _, scheduler = played(simulation, [], [], [start(3, "a", 0)])
    assert next(event.kind for event in scheduler.events if isinstance(event, e.Notify)) == (
        "event_machine_unavailable"
    )
    assert ends(scheduler)["w0!a"] == (13, "COMPLETED_SUCCESSFULLY")


def test_profiles_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    simulation = made(tmp_path, [job("a")])
    simulation.greet(
        RequestedFeatures(
            forward_profiles_on_job_submission=True,
            forward_profiles_on_jobs_killed=True,
            forward_profiles_on_simulation_begins=True,
        )
    )
    kill = d.KillJobs(4, ("w0!a",))
    _, scheduler = played(simulation, [], [start(0, "a", 0), d.CallMeLater(0, 4)], [kill])
    old = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
    begins, submitted = scheduler.events[:2]
    killed = next(event for event in scheduler.events if isinstance(event, e.JobsKilled))
    assert isinstance(begins, e.SimulationBegins)
    assert isinstance(submitted, e.JobSubmitted)
    assert begins.profiles == {"w0": {"w": old}}
    assert submitted.profile == old
    assert killed.profiles == {"w0": {"w": old}}


# --- jobs ---


def test_busy_hosts_are_shared(tmp_path: Path) -> None:
    """Each job gets half of the host's speed; the third runs beside them as if alone."""
    simulation = made(tmp_path, [job("a"), job("b"), job("c")])
    _, scheduler = played(simulation, [], [start(0, "c", 1), start(0, "a", 0), start(0, "b", 0)])
    assert {name: at for name, (at, _) in ends(scheduler).items()} == {"w0!c": 10, "w0!a": 20, "w0!b": 20}


def test_sharing_may_begin_in_the_middle(tmp_path: Path) -> None:
    """a has done 4 s of its 10 when b comes, and needs 12 s more; b then has the host for itself."""
    simulation = made(tmp_path, [job("a"), job("b", 4)])
    result, scheduler = played(simulation, [], [start(0, "a", 0)], [start(4, "b", 0)])
    assert [at for at, _ in ends(scheduler).values()] == pytest.approx([16, 20])
    # one host at 200 W for 20 s, three idle ones at 100 W
    assert result.energy_j == pytest.approx(20 * 200 + 3 * 20 * 100)


@pytest.mark.parametrize(
    ("res", "hosts", "cores", "more", "lasts"),
    [
        (2, [0], 1, {}, 20.0),  # two executors on one core
        (2, [0], 2, {}, 10.0),
        (1, [0, 1, 2, 3], 1, {}, 10.0),  # one executor, and three hosts for nothing
        (4, [0, 1], 2, {}, 10.0),  # two on each
        (3, [0, 1], 1, {}, 20.0),  # two on the first, one on the second
        (2, [0, 1], 2, {"placement": {"strategy": "FillOneHostCoresFirst"}}, 10.0),  # both on the first
        (3, [0, 1], 2, {"placement": {"strategy": "FillOneHostCoresFirst"}}, 10.0),
        (2, [0, 1], 1, {"mapping": {"0": "1", "1": "1"}}, 20.0),
    ],
)
def test_as_many_executors_as_requested(
    tmp_path: Path, res: int, hosts: list[int], cores: int, more: dict[str, Any], lasts: float
) -> None:
    simulation = made(tmp_path, [job("a", res=res)], cores=cores)
    _, scheduler = played(simulation, [], [start(0, "a", *hosts, **more)])
    assert ends(scheduler)["w0!a"] == (lasts, "COMPLETED_SUCCESSFULLY")


def test_kills(tmp_path: Path) -> None:
    """A job that has ended, but was not told of, may be killed; the place in a sequence is told in rounds."""
    profiles = {"w": WORK, "d": WAIT}
    profiles["s"] = {"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["w", "d"]}
    simulation = made(tmp_path, [job("a"), job("s", profile="s")], None, profiles)
    script = [
        [],
        [start(0, "a", 0), start(0, "s", 1), d.CallMeLater(0, 9)],
        [d.KillJobs(55, ("w0!a", "w0!s"))],
    ]
    _, scheduler = played(simulation, *script)
    last = scheduler.messages[-2]
    assert [type(event).__name__ for event in last.events] == ["JobCompleted", "JobCompleted", "JobsKilled"]
    killed = last.events[-1]
    assert isinstance(killed, e.JobsKilled)
    assert killed.job_ids == ("w0!a", "w0!s")
    assert killed.progress == {
        "w0!s": {
            "profile_name": "s",
            "current_repetition": 2,
            "current_task_index": 1,
            "current_task": {"profile_name": "d", "progress": 0.5},
        }
    }
    assert killed.profiles == {}


def test_registered_jobs_need_no_permission(tmp_path: Path) -> None:
    simulation = made(tmp_path, [])
    simulation.greet(RequestedFeatures(dynamic_registration=True, acknowledge_dynamic_jobs=True))
    profile = d.RegisterProfile(0, "dyn", "p", {"type": "delay", "delay": 5})
    new = d.RegisterJob(0, "dyn!j", {"res": 1, "profile": "p", "rigid": False})
    begin = d.ExecuteJob(0, "dyn!j", HostSet.of([2]))
    result, scheduler = played(simulation, [profile, new], [begin], [d.FinishRegistration(5)])
    submitted = next(event for event in scheduler.events if isinstance(event, e.JobSubmitted))
    assert (submitted.job.id, submitted.job.extras) == ("dyn!j", None)
    assert (result.ending, result.end_s) == (Ending.FINISHED, 5)
    without = made(tmp_path, [])
    result, _ = played(without, [profile, new])
    assert (result.ending, result.waiting) == (Ending.DEADLOCK, ("dyn!j",))


def test_a_job_without_hosts_can_only_be_rejected(tmp_path: Path) -> None:
    result, _ = played(made(tmp_path, [job("a", res=0)]), [], [d.RejectJob(0, "w0!a")])
    assert result.rejected == 1
    with pytest.raises(DecisionRefused, match="asks for no host"):
        played(made(tmp_path, [job("a", res=0)]), [], [start(0, "a", 0)])


# --- calls ---


def test_calls_have_names_and_may_be_late(tmp_path: Path) -> None:
    calls = [d.CallMeLater(0, at, name) for name, at in (("b", 3.0), ("a", 1.5), ("a", 3.0), ("now", 0.0))]
    past = d.CallMeLater(1.5, 1.0, "past")
    _, scheduler = played(made(tmp_path, []), calls, [], [past])
    told = [(event.timestamp, event.id) for event in scheduler.events if isinstance(event, e.RequestedCall)]
    assert told == [(0, "now"), (1.5, "a"), (1.5, "past"), (3, "b"), (3, "a")]


def test_periodic_calls(tmp_path: Path) -> None:
    """Periods count from time 0, whenever they are asked for; all of an instant come by name."""
    asked = [
        d.CallPeriodically(0, "x", 2000, count=2),
        d.CallMeLater(0, 3.0, "once"),
    ]
    later = [d.CallPeriodically(3, "every", 1000), d.StopCalls(3, "nobody")]
    stop = [d.StopCalls(6, "every")]
    result, scheduler = played(made(tmp_path, []), asked, [], [], later, [], [], stop)
    told = [
        (event.timestamp, event.id, event.is_last)
        for event in scheduler.events
        if isinstance(event, e.RequestedCall)
    ]
    assert told == [
        (2, "x", False),
        (3, "once", False),
        (4, "every", False),
        (4, "x", True),
        (5, "every", False),
        (6, "every", False),
    ]
    assert result.end_s == 6


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([d.CallPeriodically(0, "x", 1000, 500)], "non-zero offset"),
        ([d.CallPeriodically(0, "x", 1000, count=0)], "finite but nb_periods=0"),
        ([d.CallPeriodically(0, "x", 0)], "the period of 'x' is 0"),
        ([d.CallPeriodically(0, "x", 1000), d.CallPeriodically(0, "x", 1000)], "already in use"),
        ([d.CallPeriodically(0, "x", 2000), d.CallPeriodically(0, "y", 3000)], "Period inconsistency"),
    ],
)
def test_calls_that_abort(tmp_path: Path, calls: list[d.Decision], reason: str) -> None:
    with pytest.raises(DecisionRefused, match=reason):
        played(made(tmp_path, []), calls)


# --- hosts ---


def test_switches_and_changes_of_speed(tmp_path: Path) -> None:
    """Off in 2 s, on in 5 s; a change is there at once. A switch tells the time of the message before."""
    simulation = made(tmp_path, [job("a", 20, res=2)], energy=False)
    script = [
        [switch(0, [0, 1], 2), change(0, [2, 3], 1)],
        [],
        [switch(2, [0], 0)],
        [],
        [start(20, "a", 2, 3)],
    ]
    result, scheduler = played(simulation, *script)
    told = [
        (message.now, event.timestamp, str(event.resources), event.state, event.switch)
        for message in scheduler.messages
        for event in message.events
        if isinstance(event, e.ResourceStateChanged)
    ]
    assert told == [(0, 0, "2-3", 1, False), (2, 0, "0-1", 2, True), (7, 0, "0", 0, True)]
    assert ends(scheduler)["w0!a"][0] == 40  # at half the speed
    assert result.energy_j == 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([[switch(0, [0], 0)]], "turn ON a host already in a computing pstate"),
        ([[switch(0, [0], 3)]], "Switching from a computation pstate to an invalid pstate: 0 -> 3"),
        ([[switch(0, [0], 2)], [], [switch(2, [0], 2)]], "turn OFF a host already in a sleep pstate"),
        ([[switch(0, [0], 2)], [], [switch(2, [0], 4)]], "Switching from a sleep pstate to an invalid"),
        ([[switch(0, [0], 2)], [switch(0, [0], 0)]], "has an invalid pstate : 3"),
        ([[], [start(0, "a", 0), switch(0, [0], 2)]], "jobs are running on machine 0"),
        ([[change(0, [0], 5)]], "Invalid parameters for CPU n000"),
        ([[change(0, [4], 0)]], "Cannot get machine 4"),
        ([[switch(0, [0, 1], 2)], [change(0, [0], 1)]], "in the middle of a switch of all of them"),
        ([[switch(0, [0], 2)], [start(0, "a", 0)]], "its state is 'switching_off'"),
        ([[], [start(0, "a", 0), d.KillJobs(0, ("w0!a",)), d.KillJobs(0, ("w0!a",))]], "empty"),
        ([[], [d.KillJobs(0, ())]], "empty"),
        (
            [[], [start(0, "a", 0, placement={"storage_placement": [1]})]],
            "storage_placement is not simulated",
        ),
        ([[d.ForceStop(0)]], "ForceSimulationStop is not simulated"),
    ],
)
def test_what_is_refused(tmp_path: Path, script: list[list[d.Decision]], reason: str) -> None:
    script = [*script, [], []]
    with pytest.raises(DecisionRefused) as error:
        played(made(tmp_path, [job("a"), job("later", 50)]), *script)
    assert reason in str(error.value)


def test_a_change_in_the_middle_of_a_switch_hurries_it(tmp_path: Path) -> None:
    """As in Batsim 5: what was left of a flop at 0.5 flop/s is done at 50 Mflop/s."""
    script = [
        [switch(0, [0], 2), d.CallMeLater(0, 1)],
        [change(1, [0], 1)],
        [],
        [],
        [d.RejectJob(9, "w0!a")],
    ]
    _, scheduler = played(made(tmp_path, [job("a", 9)]), *script)
    (arrived,) = (
        message.now
        for message in scheduler.messages
        for event in message.events
        if isinstance(event, e.ResourceStateChanged) and event.switch
    )
    assert arrived == pytest.approx(1 + 1e-8, abs=1e-12)
    assert arrived > 1


# --- probes ---


def probe(name: str, period: int, how: str = "Sum", hosts: str = "0-3", **more: Any) -> d.ProbeRequest:
    data = {
        "probe_id": name,
        "metrics": "Power",
        "resources_type": "HostResources",
        "resources": {"host_ids": hosts},
        "data_accumulation_strategy_type": "ProbeDataAccumulation",
        "data_accumulation_strategy": {"reset_mode_type": "NoReset", "cumulative_function": "Sum"},
        "measurement_triggering_policy_type": "TemporalTriggerWrapper",
        "measurement_triggering_policy": {
            "temporal_trigger_type": "Periodic",
            "temporal_trigger": {"period": period, "mode_type": "Infinite", "mode": {}},
        },
        "resources_aggregation_function_type": how,
    }
    return d.ProbeRequest(0, "CreateProbeEvent", data | more)


def stop_probe(now: float, name: str) -> d.ProbeRequest:
    return d.ProbeRequest(now, "StopProbeEvent", {"probe_id": name})


def readings(scheduler: Scripted) -> list[tuple[float, str, Any]]:
    return [
        (event.timestamp, event.data["probe_id"], event.data["data"]["data"])
        for event in scheduler.events
        if isinstance(event, e.UnknownEvent)
    ]


def test_probes_tell_joules_since_the_start(tmp_path: Path) -> None:
    """One host computes (200 W), three idle (100 W). The first period only arms a probe."""
    probes = [
        probe("all", 4),
        probe("each", 4, "NoResourcesAggregation"),
        probe("mean", 4, "ArithmeticMean"),
        probe("two", 4, "Sum", "0-1"),
    ]
    stops = [stop_probe(8, name) for name in ("all", "each", "mean", "two", "nobody")]
    _, scheduler = played(made(tmp_path, [job("a")]), probes, [start(0, "a", 0)], stops)
    told = {name: value for _, name, value in readings(scheduler)}
    assert {at for at, _, _ in readings(scheduler)} == {8}
    assert told["all"] == pytest.approx(8 * 500)
    assert told["each"] == pytest.approx([1600, 800, 800, 800])
    assert told["mean"] == pytest.approx(1000)
    assert told["two"] == pytest.approx(2400)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (probe("p", 1, metrics="NetworkLoad"), "measures NetworkLoad, which is not simulated"),
        (probe("p", 1, resources_type="LinkResources"), "does not measure hosts"),
        (probe("p", 1, "QuantileFunction"), "resources_aggregation_function QuantileFunction"),
        (probe("p", 1, hosts="0-9"), "some do not exist"),
        (probe("p", 1, hosts="nine"), "host_ids"),
        (probe("p", 1, emission_filtering_policy_type="ThresholdFilteringFunction"), "accumulates otherwise"),
        (probe("p", 1, measurement_triggering_policy={"temporal_trigger_type": "OneShot"}), "not periodic"),
        (d.ProbeRequest(0, "ResetProbeEvent", {"probe_id": "p"}), "Unhandled event type received"),
    ],
)
def test_other_probes_are_refused(tmp_path: Path, asked: d.ProbeRequest, reason: str) -> None:
    with pytest.raises(DecisionRefused, match=reason):
        played(made(tmp_path, []), [asked])


def test_probes_of_single_hosts_begin_at_the_start(tmp_path: Path) -> None:
    late = probe("p", 1, "NoResourcesAggregation")
    with pytest.raises(DecisionRefused, match="later than at time 0"):
        played(made(tmp_path, []), [d.CallMeLater(0, 1)], [], [late])
    with pytest.raises(DecisionRefused, match="--energy-host"):
        played(made(tmp_path, [], energy=False), [late])


# --- files ---


def test_files(tmp_path: Path) -> None:
    simulation = made(tmp_path, [job("a"), job("b")], prefix="out")
    _, _ = played(simulation, [], [start(0, "a", 0), d.RejectJob(0, "w0!b")])
    names = {path.name for path in tmp_path.glob("out*")}
    tables = ("consumed_energy", "jobs", "machine_states", "pstate_changes")
    assert names == {*(f"out{name}.csv" for name in tables), "outschedule.json", "outreal_exec_info.json"}
    summary = json.loads((tmp_path / "outschedule.json").read_text())
    assert summary["batsim_version"] == "v5.0.0-rc2"
    assert (summary["nb_jobs"], summary["makespan"], summary["consumed_joules"]) == (2, 10, 5000)
    assert "scheduling_time" not in summary
    assert set(json.loads((tmp_path / "outreal_exec_info.json").read_text())) == {
        "time_in_edc_seconds",
        "time_in_simu_seconds",
    }
    rows = (tmp_path / "outjobs.csv").read_text().splitlines()
    assert rows[1].startswith("b,w0,w0!w,0.000000,1,-1.000000,0,REJECTED")
    assert rows[2].startswith("a,w0,w0!w,")
    assert (tmp_path / "outpstate_changes.csv").read_text().splitlines()[1] == "0,0-3,0"


def test_a_run_without_jobs_has_no_means(tmp_path: Path) -> None:
    played(made(tmp_path, [], prefix="out"))
    summary = json.loads((tmp_path / "outschedule.json").read_text())
    assert summary["mean_slowdown"] is None


def test_nothing_is_left_of_a_run_that_was_not_begun(tmp_path: Path) -> None:
    simulation = made(tmp_path, [], prefix="out")
    simulation.discard()
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_files_of_batsim_4_are_refused(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [job("a")], None, {"w": {"type": "delay", "delay": 1}})
    with pytest.raises(InputError, match="'beasy-sched convert --format batsim5'"):
        batsim5_from_files(inputs, SimulationOptions())
    inputs = write_files(tmp_path, [job("a")], [[]])
    Path(inputs.events[0]).write_text('{"type": "power", "timestamp": 1, "power_available": 2}\n')
    with pytest.raises(InputError, match=r"events0\.txt:1: is not for Batsim 5"):
        batsim5_from_files(inputs, SimulationOptions())
