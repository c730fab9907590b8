"""Storage hosts: counted, metered and numbered as by a real Batsim 4.2.1, whose figures these are."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from simulator.small import WORK, InOrder, Scripted, job, platform_text

from beasy_sched.errors import DecisionRefused
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

STORE = """<host id="{name}" coordinates="0 0 0" speed="100Mf, 50Mf, 1e-9Mf, 0.5f, 0.2f">
<prop id="role" value="storage"/><prop id="wattage_per_state" value="{watts}"/>
<prop id="sleep_pstates" value="2:3:4"/></host>"""
WAIT = {"type": "delay", "delay": 10}


def write(folder: Path, jobs: list[dict[str, object]]) -> Inputs:
    """Write a platform of two compute hosts, 0 and 1, and the stores sa and sb, 2 and 3."""
    watts = {"sb": "10:15:20", "sa": "30:35:40"}
    rest = ", 9:9:10, 1:1:1, 12:12:12, 11:11:11"
    stores = "".join(STORE.format(name=name, watts=watt + rest) for name, watt in watts.items())
    platform, workload = folder / "platform.xml", folder / "workload.json"
    platform.write_text(platform_text(2).replace("</zone>", f"{stores}</zone>"))
    workload.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": {"w": WORK, "d": WAIT}}))
    return Inputs(platform, [workload], strict=BatsimFormat.BATSIM4)


class SwitchesAStore(InOrder):
    """Queries the energy used after the first job, and lets machine 3, the store sb, sleep."""

    def decide(self, now: float) -> list[d.Decision]:
        found = super().decide(now)
        if now == 11 and not any(isinstance(event, e.EnergyAnswer) for event in self.events):
            found += [d.QueryEnergy(now), d.SetResourceState(now, HostSet.of([3]), 2)]
        return found


def rows(folder: Path, name: str) -> list[list[str]]:
    with (folder / f"out_{name}.csv").open() as file:
        return [*csv.reader(file)]


def test_all_five_files_and_the_answer(tmp_path: Path) -> None:
    inputs = write(tmp_path, [job("a", 1), job("b", 30, 2)])
    scheduler = SwitchesAStore()
    simulation_from_files(inputs, SimulationOptions(energy=True), tmp_path / "out").run(scheduler)
    begins = scheduler.messages[0].events[0]
    assert isinstance(begins, e.SimulationBegins)
    assert [(host.id, host.name) for host in begins.storage_resources] == [(2, "sa"), (3, "sb")]
    answers = [x.consumed_energy_j for x in scheduler.events if isinstance(x, e.EnergyAnswer)]
    assert answers == [3640.0]
    assert [row[:4] for row in rows(tmp_path, "consumed_energy")[1:]] == [
        ["1.000000", "240.000000", "s", "270.000000"],
        ["11.000000", "3640.000000", "e", "270.000000"],
        ["11.000000", "3640.000000", "p", "270.000000"],
        ["13.000000", "4124.000000", "p", "256.000000"],
        ["30.000000", "8051.000000", "s", "256.000000"],
        ["40.000000", "12361.000000", "e", "256.000000"],
    ]
    assert [",".join(row) for row in rows(tmp_path, "machine_states")[1:]] == [
        "1,0,0,0,1,1",
        "11,0,0,0,2,0",
        "11,0,0,1,1,0",
        "13,1,0,0,1,0",
        "30,1,0,0,-1,2",  # Batsim counts storage hosts only when they change
        "40,1,0,0,1,0",
    ]
    assert [",".join(row) for row in rows(tmp_path, "pstate_changes")[1:]] == ["0,0-3,0", "11,3,-2", "13,3,2"]
    names, figures = rows(tmp_path, "schedule")
    schedule = dict(zip(names, figures, strict=True))
    assert schedule["nb_computing_machines"] == "4"
    assert schedule["consumed_joules"] == "12121.000000"
    assert {name: float(schedule[f"time_{name}"]) for name in ("computing", "idle", "switching_off")} == {
        "computing": 30.0,
        "idle": 61.0,
        "switching_off": 2.0,
    }
    assert [row[15] for row in rows(tmp_path, "jobs")[1:]] == ["2000.000000", "4000.000000"]


def start(now: float, name: str, host: int) -> d.ExecuteJob:
    return d.ExecuteJob(now, f"w0!{name}", HostSet.of([host]))


def test_a_task_that_computes_on_a_store_is_refused(tmp_path: Path) -> None:
    run = simulation_from_files(write(tmp_path, [job("a")]), SimulationOptions(energy=True))
    with pytest.raises(DecisionRefused, match=r"Some computation \(1e\+09\) is assigned to storage node"):
        run.run(Scripted([], [start(0, "a", 2)]))


@pytest.mark.parametrize("shared", [True, False])
def test_jobs_that_only_wait_share_a_store_unless_that_is_forbidden(tmp_path: Path, shared: bool) -> None:
    inputs = write(tmp_path, [job("a", profile="d"), job("b", profile="d")])
    options = SimulationOptions(energy=True, storage_sharing=shared)
    scheduler = Scripted([], [start(0, "a", 2), start(0, "b", 2)])
    run = simulation_from_files(inputs, options)
    if shared:
        assert run.run(scheduler).succeeded == 2
        ends = [x.timestamp for x in scheduler.events if isinstance(x, e.JobCompleted)]
        assert ends == [10.0, 10.0]
    else:
        with pytest.raises(DecisionRefused, match="time-sharing on storage machines is disabled"):
            run.run(scheduler)


def test_machines_beyond_the_stores_do_not_exist(tmp_path: Path) -> None:
    run = simulation_from_files(write(tmp_path, [job("a")]), SimulationOptions(energy=True))
    with pytest.raises(DecisionRefused, match="Cannot get machine 4: it does not exist"):
        run.run(Scripted([], [start(0, "a", 4)]))


def test_a_store_with_speed_0_draws_full_power(tmp_path: Path) -> None:
    """SimGrid takes speed 0 for full load; any other store without work draws its idle power."""
    for speed, energy_j in (("0f", 2 * 100 + 2), ("1f", 2 * 100 + 1)):
        store = f'<host id="s" coordinates="0 0 0" speed="{speed}"><prop id="role" value="storage"/>'
        store += '<prop id="wattage_per_state" value="1:2"/></host>'
        inputs = write(tmp_path, [job("a", 1, profile="d")])
        Path(inputs.platform).write_text(platform_text(2).replace("</zone>", f"{store}</zone>"))
        scheduler = Scripted([], [d.QueryEnergy(1), d.RejectJob(1, "w0!a")])
        simulation_from_files(inputs, SimulationOptions(energy=True)).run(scheduler)
        assert [x.consumed_energy_j for x in scheduler.events if isinstance(x, e.EnergyAnswer)] == [energy_j]
