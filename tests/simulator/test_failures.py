"""Hosts that break, with their jobs, and hosts that do not come when they are woken."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from simulator.small import Scripted, job, write_files

from beasy_sched.errors import InputError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator import Inputs, Simulation, SimulationOptions, simulation_from_files
from beasy_sched.simulator.simulation import Ending

ON, ASLEEP = 0, 2
OFF_S, ON_S, WORK_S = 2.0, 5.0, 10.0
IDLE_W, SLEEP_W, ON_W, OFF_W, BUSY_W = 100.0, 10.0, 130.0, 120.0, 200.0


def failing(folder: Path, *failures: str, jobs: tuple[dict[str, object], ...] = (), **options: object):
    """A simulation of four hosts in which these lines happen; a job at 100 s where none is given."""
    platform, workload = write_files(folder, [*jobs] or [job("late", 100)])
    (folder / "failures.txt").write_text("\n".join(failures))
    inputs = Inputs(platform, [workload], failures=folder / "failures.txt")
    return simulation_from_files(inputs, SimulationOptions(energy=True), folder / "out", **options)


def line(at: float, kind: str, hosts: str, **more: float) -> str:
    extra = "".join(f', "{name}": {value}' for name, value in more.items())
    return f'{{"timestamp": {at}, "type": "{kind}", "resources": "{hosts}"{extra}}}'


def switch(now: float, hosts: str, pstate: int) -> d.SetResourceState:
    return d.SetResourceState(now, HostSet.parse(hosts), pstate)


def answers(scheduler: Scripted) -> list[tuple[float, str, int]]:
    changed = [x for x in scheduler.events if isinstance(x, e.ResourceStateChanged)]
    return [(x.timestamp, str(x.resources), x.state) for x in changed]


def notices(scheduler: Scripted) -> list[tuple[float, str, str]]:
    told = [x for x in scheduler.events if isinstance(x, e.MachinesChanged)]
    return [(x.timestamp, str(x.hosts), x.kind.removeprefix("event_machine_")) for x in told]


def off_and_on(hosts: str, on_at: float, again: tuple[float, ...] = ()) -> Scripted:
    """Switches hosts off at time 0, and on at ``on_at``; and on again ``again``, whoever is asleep then."""
    off = [switch(0, hosts, ASLEEP), d.CallMeLater(0, on_at), *(d.CallMeLater(0, at) for at in again)]
    return Scripted(off, [], [switch(on_at, hosts, ON)])


def until(run: Simulation, scheduler: Scripted, end_s: float) -> None:
    """Run to the first message after ``end_s``."""

    def decide(message: e.Message) -> d.Reply:
        if message.now > end_s:
            raise StopIteration
        return scheduler(message)

    with pytest.raises(StopIteration):
        run.run(decide)


def test_a_host_that_does_not_come_is_told_before_the_rest_of_its_group(tmp_path: Path) -> None:
    scheduler = off_and_on("0-2", 10)
    until(failing(tmp_path, line(0, "wakes_fail", "1")), scheduler, 50)
    assert answers(scheduler) == [(OFF_S, "0-2", ASLEEP), (15.0, "1", ASLEEP), (15.0, "0 2", ON)]
    (together,) = [m for m in scheduler.messages if m.now == 15.0]
    assert len(together.events) == 2
    assert notices(scheduler) == []


def test_a_group_of_which_nobody_comes_has_one_answer(tmp_path: Path) -> None:
    scheduler = off_and_on("0-2", 10)
    run = failing(tmp_path, line(0, "wakes_fail", "0-3"))
    until(run, scheduler, 50)
    assert answers(scheduler) == [(OFF_S, "0-2", ASLEEP), (15.0, "0-2", ASLEEP)]
    assert [run.world.machines.state_name(host) for host in range(4)] == ["sleeping"] * 3 + ["idle"]


def test_who_did_not_come_may_be_asked_again_and_comes_when_repaired(tmp_path: Path) -> None:
    scheduler = off_and_on("1", 10, again=(20.0, 30.0))
    scheduler.script += [[], [switch(20, "1", ON)], [], [], [switch(30, "1", ON)]]
    until(failing(tmp_path, line(0, "wakes_fail", "1"), line(26, "repaired", "1")), scheduler, 50)
    assert answers(scheduler) == [
        (OFF_S, "1", ASLEEP),
        (15.0, "1", ASLEEP),
        (25.0, "1", ASLEEP),
        (35.0, "1", ON),
    ]
    assert notices(scheduler) == [(26.0, "1", "available")]


def test_a_failed_wake_up_takes_its_energy_and_ends_asleep(tmp_path: Path) -> None:
    run = failing(tmp_path, line(0, "wakes_fail", "1"))
    scheduler = off_and_on("1", 10)
    until(run, scheduler, 50)
    run.world.meter.accrue(run.world.now)
    assert run.world.now == 100.0
    others_j = 3 * IDLE_W * 100
    own_j = OFF_W * OFF_S + SLEEP_W * 8 + ON_W * ON_S + SLEEP_W * 85
    assert run.world.meter.energy_j == pytest.approx(others_j + own_j)


def test_the_files_say_that_it_did_not_wake(tmp_path: Path) -> None:
    run = failing(tmp_path, line(0, "wakes_fail", "1"))
    script = off_and_on("1", 10)
    script.script += [[], [d.ExecuteJob(100, "w0!late", HostSet.of([0]))]]
    assert run.run(script).ending is Ending.FINISHED
    with open(tmp_path / "out_pstate_changes.csv") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    assert [(float(at), hosts, int(p)) for at, hosts, p in rows] == [
        (0.0, "0-3", 0),
        (0.0, "1", -2),
        (2.0, "1", 2),
        (10.0, "1", -1),
        (15.0, "1", 2),
    ]


def test_so_many_percent_fail_and_a_seed_says_which(tmp_path: Path) -> None:
    def failed(seed: int) -> str:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        failures = [line(0, "wakes_fail", "0-3", percent=50, seed=seed)]
        scheduler = off_and_on("0-3", 10)
        until(failing(folder, *failures), scheduler, 50)
        return next((hosts for at, hosts, pstate in answers(scheduler) if (at, pstate) == (15.0, ASLEEP)), "")

    found = [failed(seed) for seed in range(6)]
    assert found == [failed(seed) for seed in range(6)]
    assert len(set(found)) > 2


def test_a_host_that_breaks_takes_its_job_along_and_no_other(tmp_path: Path) -> None:
    jobs = (job("wide", 0, 2), job("other", 0, 1), job("next", 50, 1))
    start = [
        d.ExecuteJob(0, "w0!wide", HostSet.of([0, 1])),
        d.ExecuteJob(0, "w0!other", HostSet.of([2])),
        d.ExecuteJob(50, "w0!next", HostSet.of([0])),
    ]
    run = failing(tmp_path, line(4, "breaks", "1"), line(60, "repaired", "1"), jobs=jobs)
    seen: list[tuple[float, str]] = []

    class Starts(Scripted):
        def __call__(self, message: e.Message) -> d.Reply:
            self.messages.append(message)
            if message.now == 4.0:
                seen.append((message.now, run.world.machines.state_name(1)))
            came = {x.job.id for x in message.events if isinstance(x, e.JobSubmitted)}
            return d.Reply(message.now, [x for x in start if x.job_id in came])

    scheduler = Starts()
    assert run.run(scheduler).ending is Ending.FINISHED
    ends = {x.job_id: (x.timestamp, x.end) for x in scheduler.events if isinstance(x, e.JobCompleted)}
    assert ends == {
        "w0!wide": (4.0, e.JobEnd.FAILED),
        "w0!other": (WORK_S, e.JobEnd.SUCCESS),
        "w0!next": (60.0, e.JobEnd.SUCCESS),
    }
    assert seen == [(4.0, "unavailable")]
    (together,) = [m for m in scheduler.messages if m.now == 4.0]
    assert [type(x) for x in together.events] == [e.MachinesChanged, e.JobCompleted]
    assert notices(scheduler) == [(4.0, "1", "unavailable"), (60.0, "1", "available")]
    with open(tmp_path / "out_jobs.csv") as file:
        rows = {row["job_id"]: row for row in csv.DictReader(file)}
    assert rows["wide"]["final_state"] == "COMPLETED_FAILED"
    assert float(rows["wide"]["consumed_energy"]) == pytest.approx(2 * BUSY_W * 4)
    total_j = (2 * BUSY_W + IDLE_W) * 4 + BUSY_W * 10 + BUSY_W * 10
    total_j += IDLE_W * (4 * 60 - 2 * 4 - 10 - 10) - IDLE_W * 4
    run.world.meter.accrue(60.0)
    assert run.world.meter.energy_j == pytest.approx(total_j)


def test_a_host_that_breaks_while_it_is_woken_does_not_come(tmp_path: Path) -> None:
    scheduler = off_and_on("0-1", 10)
    run = failing(tmp_path, line(12, "breaks", "1"))
    until(run, scheduler, 50)
    assert run.world.machines.state_name(1) == "unavailable"
    scheduler = off_and_on("0-1", 10)
    run = failing(tmp_path, line(12, "breaks", "1"), line(40, "repaired", "1"))
    until(run, scheduler, 50)
    assert answers(scheduler)[1:] == [(15.0, "1", ASLEEP), (15.0, "0", ON)]
    assert notices(scheduler) == [(12.0, "1", "unavailable"), (40.0, "1", "available")]
    assert run.world.machines.state_name(1) == "sleeping"


def test_a_host_that_breaks_while_it_falls_asleep_is_asleep_then(tmp_path: Path) -> None:
    scheduler = off_and_on("1", 10)
    scheduler.script[2] = []
    run = failing(tmp_path, line(1, "breaks", "1"), line(40, "repaired", "1"))
    until(run, scheduler, 50)
    assert answers(scheduler) == [(OFF_S, "1", ASLEEP)]
    assert run.world.machines.state_name(1) == "sleeping"


def test_a_host_that_is_repaired_before_the_end_of_its_switch_comes(tmp_path: Path) -> None:
    scheduler = off_and_on("1", 10)
    until(failing(tmp_path, line(12, "breaks", "1"), line(14, "repaired", "1")), scheduler, 50)
    assert answers(scheduler)[1:] == [(15.0, "1", ON)]


def test_a_job_that_is_given_a_host_that_breaks_in_the_same_instant_fails_at_once(tmp_path: Path) -> None:
    """The scheduler cannot know; a real Batsim would abort."""
    run = failing(tmp_path, line(7, "breaks", "1"), jobs=(job("a", 7, 2),))

    def decide(message: e.Message) -> d.Reply:
        scheduler.messages.append(message)
        came = any(isinstance(x, e.JobSubmitted) for x in message.events)
        start = [d.ExecuteJob(7, "w0!a", HostSet.of([0, 1]))]
        return d.Reply(message.now, start if came else [])

    scheduler = Scripted()
    result = run.run(decide)
    (end,) = [x for x in scheduler.events if isinstance(x, e.JobCompleted)]
    assert (end.timestamp, end.end, str(end.alloc)) == (7.0, e.JobEnd.FAILED, "0-1")
    assert (result.ending, result.jobs, result.succeeded) == (Ending.FINISHED, 1, 0)
    assert [run.world.machines.state_name(host) for host in (0, 1)] == ["idle", "unavailable"]


def test_failures_do_not_change_what_is_said_of_the_ends_of_files(tmp_path: Path) -> None:
    script = Scripted([], [d.ExecuteJob(100, "w0!late", HostSet.of([0]))])
    failing(tmp_path, line(200, "breaks", "1")).run(script)
    kinds = [x.kind for x in script.events if isinstance(x, e.Notify)]
    assert kinds == ["no_more_static_job_to_submit", "event_machine_unavailable"]


def test_hosts_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    run = failing(tmp_path, line(3, "breaks", "2-4"))
    with pytest.raises(InputError, match=r"failures\.txt:1: there is no machine 4"):
        run.run(Scripted())
