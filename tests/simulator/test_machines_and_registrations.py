"""Machines that come and go, and jobs that the scheduler registers, as in Batsim 4.2.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulator.small import Scripted, job, simulation, write_files

from beasy_sched.errors import DecisionRefused, InputError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator import Inputs, Simulation, SimulationOptions, simulation_from_files
from beasy_sched.simulator.simulation import Ending

DYNAMIC = SimulationOptions(energy=True, dynamic_jobs=True)
SWITCHED = HostSet.of([1])
OFF_S, ON_S = 2, 5
"""How long transitions of the small platforms take."""


def with_events(folder: Path, *events: tuple[float, str]) -> Simulation:
    """One job at 100 s; machine 1 becomes available or unavailable at these times."""
    platform, workload = write_files(folder, [job("a", 100)])
    lines = [{"type": f"machine_{kind}", "timestamp": at, "resources": "1"} for at, kind in events]
    (folder / "events.txt").write_text("\n".join(map(json.dumps, lines)))
    files = Inputs(platform, [workload], [folder / "events.txt"])
    return simulation_from_files(files, SimulationOptions(energy=True))


def off_and_on(on_at: float) -> Scripted:
    """Switches host 1 off at time 0, and on again when first called, at ``on_at``."""
    off = d.SetResourceState(0, SWITCHED, 2)
    return Scripted([off, d.CallMeLater(0, on_at)], [], [d.SetResourceState(on_at, SWITCHED, 0)])


def test_a_machine_that_becomes_unavailable_while_it_switches_on_becomes_idle(tmp_path: Path) -> None:
    run = with_events(tmp_path, (12, "unavailable"))
    with pytest.raises(StopIteration):
        _run_until(run, off_and_on(10), 10 + ON_S)
    assert run.world.machines.state_name(1) == "idle"


def _run_until(run: Simulation, scheduler: Scripted, end_s: float) -> None:
    def decide(message: e.Message) -> d.Reply:
        if message.now > end_s:
            raise StopIteration
        return scheduler(message)

    run.run(decide)


def test_its_later_return_is_refused(tmp_path: Path) -> None:
    run = with_events(tmp_path, (12, "unavailable"), (20, "available"))
    scheduler = off_and_on(10)
    with pytest.raises(InputError, match=r"available was requested .* \(current state: idle\)"):
        run.run(scheduler)
    changes = [x for x in scheduler.events if isinstance(x, e.ResourceStateChanged)]
    assert [(x.timestamp, x.state) for x in changes] == [(OFF_S, 2), (10 + ON_S, 0)]


def test_a_registered_job_needs_its_time_of_submission(tmp_path: Path) -> None:
    register = d.RegisterJob(0, "w0!x", {"res": 1, "profile": "w"})
    with pytest.raises(DecisionRefused, match="job 'w0!x' has no 'subtime' field"):
        simulation(tmp_path, [job("a")], options=DYNAMIC).run(Scripted([register]))
    told = d.RegisterJob(0, "w0!x", {"res": 1, "profile": "w", "subtime": 0})
    start = [d.ExecuteJob(0, f"w0!{name}", HostSet.of([n])) for n, name in enumerate("ax")]
    script = Scripted([told, d.FinishRegistration(0)], start)
    assert simulation(tmp_path, [job("a")], options=DYNAMIC).run(script).ending is Ending.FINISHED


def test_a_scheduler_that_never_finishes_registration_ends_in_a_deadlock(tmp_path: Path) -> None:
    start = d.ExecuteJob(0, "w0!a", HostSet.of([0]))
    scheduler = Scripted([], [start])
    result = simulation(tmp_path, [job("a")], options=DYNAMIC).run(scheduler)
    assert (result.ending, result.succeeded, result.waiting) == (Ending.DEADLOCK, 1, ())
    assert not any(isinstance(event, e.SimulationEnds) for event in scheduler.events)


def test_a_machine_that_is_away_cannot_leave_again(tmp_path: Path) -> None:
    run = with_events(tmp_path, (12, "unavailable"), (20, "unavailable"))
    with pytest.raises(
        InputError, match=r"machine 1 unavailable was requested .* already in UNAVAILABLE state"
    ):
        run.run(Scripted([]))


def test_a_profile_cannot_be_registered_twice(tmp_path: Path) -> None:
    profile = d.RegisterProfile(0, "w0", "w", {"type": "delay", "delay": 3})
    with pytest.raises(DecisionRefused, match="profile 'w' already existed in workload 'w0'"):
        simulation(tmp_path, [job("a")], options=DYNAMIC).run(Scripted([profile]))


def test_what_is_registered_has_six_decimals(tmp_path: Path) -> None:
    """Batsim 4.2.1 prints it so before it reads it."""
    options = SimulationOptions(
        energy=False, dynamic_jobs=True, acknowledge_dynamic_jobs=True, forward_profiles=True
    )
    profile = {"type": "delay", "delay": 2.00000049, "n": 28668754235.099922}
    told = {"res": 1, "profile": "p", "subtime": 1.23456789, "walltime": 9.87654321, "x": [0.123456789]}
    register = [d.RegisterProfile(0, "dyn", "p", profile), d.RegisterJob(0, "dyn!x", told)]
    start = d.ExecuteJob(0, "dyn!x", HostSet.of([0]))
    scheduler = Scripted([*register, d.FinishRegistration(0)], [d.RejectJob(0, "w0!a"), start])
    simulation(tmp_path, [job("a")], options=options).run(scheduler)
    submitted = next(x for x in scheduler.events if isinstance(x, e.JobSubmitted) and x.job.id == "dyn!x")
    assert submitted.profile == {"type": "delay", "delay": 2.0, "n": float("28668754235.099918")}
    request = submitted.job
    assert (request.subtime, request.walltime, request.extras) == (1.234568, 9.876543, {"x": [0.123457]})
    ended = next(x for x in scheduler.events if isinstance(x, e.JobCompleted))
    assert ended.timestamp == 2.0


def test_a_registered_delay_below_a_millionth_is_none(tmp_path: Path) -> None:
    profile = d.RegisterProfile(0, "dyn", "p", {"type": "delay", "delay": 4e-7})
    with pytest.raises(DecisionRefused, match="'delay' is 4e-07, expected a strictly positive number"):
        simulation(tmp_path, [job("a")], options=DYNAMIC).run(Scripted([profile]))
