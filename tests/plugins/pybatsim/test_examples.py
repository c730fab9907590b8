"""pybatsim's own schedulers against `beasy-sched batsim`, two processes over ZeroMQ."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from processes import free_endpoint, program, started
from small_site import small_site

from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.workload import synthetic_workload
from beasy_sched.generate.workload_options import SyntheticOptions
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

pytest.importorskip("batsim", reason="pybatsim is not installed")

ENDED_WELL = {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}
JOBS = 150
HOSTS = 16

Row = dict[str, str]


def run_both(scheduler: str, folder: Path, inputs: Inputs, *more: str) -> list[Row]:
    """Run a pybatsim scheduler and the simulator; both must end well. Return the rows of the jobs file."""
    endpoint = free_endpoint()
    theirs = [
        program("pybatsim"),
        f"schedulers/{scheduler}.py",
        "-s",
        endpoint,
        "-v",
        "warning",
        "-t",
        "60000",
    ]
    ours = [program("beasy-sched"), "batsim", "-s", endpoint, "-p", str(inputs.platform), "-e", "out", *more]
    ours += ["-w", str(inputs.workloads[0])]
    with started(theirs, folder) as pybatsim, started(ours, folder) as simulator:
        assert simulator.wait() == 0, simulator.said()
        assert pybatsim.wait() == 0, pybatsim.said()
        assert f"Job submitted: {JOBS} , scheduled: {JOBS}" in pybatsim.said()
    return job_rows(folder)


def job_rows(folder: Path) -> list[Row]:
    with open(folder / "out_jobs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == JOBS
    assert {row["final_state"] for row in rows} <= ENDED_WELL
    return rows


def equal_servers(folder: Path, host_shares: dict[int, float]) -> Inputs:
    """A platform on which it does not matter which hosts a job gets, and a day's crowded workload."""
    platform = preset_platform({"gros": HOSTS})
    write_platform(platform, folder / "platform.xml")
    options = SyntheticOptions(
        reference_speed_flops=platform.kinds[0].reference_speed_flops,
        jobs=JOBS,
        hosts=HOSTS,
        day_shares=(1.0,),
        run_median_s=1500.0,
        host_shares=host_shares,
        seed=5,
    )
    synthetic_workload(options).write(folder / "workload.json")
    return Inputs(folder / "platform.xml", [folder / "workload.json"])


def easy_starts(inputs: Inputs, folder: Path) -> dict[str, float]:
    """When our own easy starts each job."""
    options = SimulationOptions(energy=True)
    simulation_from_files(inputs, options, folder / "out").run(build_session(RunSettings("easy")).step)
    return starts(job_rows(folder))


def starts(rows: list[Row]) -> dict[str, float]:
    return {row["job_id"]: float(row["starting_time"]) for row in rows}


@pytest.mark.slow
def test_easy_backfill_agrees_with_easy(tmp_path: Path) -> None:
    """Halves of the platform and whole ones: no job ever lacks neighbouring hosts, so the schedules agree."""
    inputs = equal_servers(tmp_path, {HOSTS // 2: 80.0, HOSTS: 20.0})
    rows = run_both("easyBackfill", tmp_path, inputs)
    (tmp_path / "easy").mkdir()
    assert starts(rows) == easy_starts(inputs, tmp_path / "easy")
    in_order = sorted(starts(rows).items(), key=lambda item: int(item[0]))
    times = [time for _, time in in_order]
    assert times != sorted(times), "no job was backfilled: the comparison says nothing"


@pytest.mark.slow
def test_easy_backfill_gives_neighbouring_hosts(tmp_path: Path) -> None:
    """Jobs of any size: what makes its schedule another one than that of easy."""
    inputs = equal_servers(tmp_path, {1: 30.0, 2: 20.0, 3: 20.0, 5: 20.0, 9: 10.0})
    rows = run_both("easyBackfill", tmp_path, inputs, "-E")
    assert all(" " not in row["allocated_resources"] for row in rows)
    (tmp_path / "easy").mkdir()
    easy = easy_starts(inputs, tmp_path / "easy")
    easy_rows = job_rows(tmp_path / "easy")
    assert any(" " in row["allocated_resources"] for row in easy_rows)
    assert starts(rows) != easy


@pytest.mark.sampled
@pytest.mark.parametrize("options", [[], ["-E"], ["--forward-profiles-on-submission"]])
def test_filler_sched(tmp_path: Path, options: list[str]) -> None:
    """It answers later than it was asked: its replies have a ``now`` of their own."""
    made = small_site(tmp_path, jobs=JOBS)
    rows = run_both("fillerSched", tmp_path, Inputs(made.platform, [made.workload]), *options)
    late = [float(row["waiting_time"]) for row in rows]
    assert min(late) == pytest.approx(0.005)


@pytest.mark.slow
def test_filler_sched_with_events(tmp_path: Path) -> None:
    """Machines leave and come back: nothing runs on them meanwhile, except what ran there already."""
    made = small_site(tmp_path, jobs=JOBS)
    away = [(3600.5, 30_000.5, "0-3 12"), (40_000.5, 60_000.5, "5-9")]
    lines = [
        json.dumps({"type": f"machine_{kind}", "resources": hosts, "timestamp": at})
        for begin, end, hosts in away
        for kind, at in (("unavailable", begin), ("available", end))
    ]
    (tmp_path / "machines.txt").write_text("\n".join(lines) + "\n")
    rows = run_both(
        "fillerSchedWithEvents",
        tmp_path,
        Inputs(made.platform, [made.workload]),
        "--events",
        "machines.txt",
        "-E",
    )
    assert not [row for row in rows for period in away if starts_within(row, *period)]
    assert any(uses(row, "0-3") for row in rows), "the machines were never used: the test says nothing"


def starts_within(row: Row, begin: float, end: float, hosts: str) -> bool:
    return begin < float(row["starting_time"]) < end and uses(row, hosts)


def uses(row: Row, hosts: str) -> bool:
    from beasy_sched.model.hosts import HostSet

    return bool(set(HostSet.parse(row["allocated_resources"])) & set(HostSet.parse(hosts)))
