"""Batsim's CSV files: what is in the cells, and that no file costs another."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from simulator.small import WORK, InOrder, Scripted, job, simulation, write_files

from beasy_sched.errors import DecisionRefused, InputError
from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.run.results import read_jobs
from beasy_sched.simulator import Inputs, SimulationOptions, outputs, simulation_from_files

NAMES = ["consumed_energy", "jobs", "machine_states", "pstate_changes", "schedule"]
ODD = ['a"b', "a,b", "a\nb", "a\r\nb", '"', "a;=b", "a\tb", "é", "a b", "-5", "+1.5"]
FORMULAS = ["=1+1", "+cmd|'/c calc'A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1"]


def rows(folder: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO((folder / "out_jobs.csv").read_bytes().decode(), newline=""))]


def from_files(
    folder: Path, jobs: list[dict[str, Any]], profiles: dict[str, Any], *, files: bool = True
) -> Any:
    xml, workload = write_files(folder, jobs, profiles)
    prefix = folder / "out" if files else None
    return simulation_from_files(Inputs(xml, [workload]), SimulationOptions(energy=True), prefix)


def test_ids_and_profiles_read_back_as_they_are(tmp_path: Path) -> None:
    too_large = job("big, too", res=9, profile=ODD[0])
    jobs = [job(name, number, profile=name) for number, name in enumerate(ODD)]
    from_files(tmp_path, [*jobs, too_large], dict.fromkeys(ODD, WORK)).run(InOrder())
    found = rows(tmp_path)
    assert {row["job_id"]: row["profile"] for row in found if row["final_state"] != "REJECTED"} == {
        name: name for name in ODD
    }
    assert all(None not in row and None not in row.values() for row in found)
    assert {row.id for row in read_jobs(str(tmp_path / "out"))} == {
        f"w0!{name}" for name in [*ODD, "big, too"]
    }
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "out_jobs.csv", dtype={"job_id": str})
    assert set(frame["job_id"]) == {*ODD, "big, too"}


def test_usual_ids_are_written_as_batsim_writes_them(tmp_path: Path) -> None:
    simulation(tmp_path, [job("a b")], files=True).run(InOrder())
    assert (tmp_path / "out_jobs.csv").read_text().splitlines()[1].startswith("a b,w0,w,0.000000,1,")
    assert (tmp_path / "out_jobs.csv").read_text().endswith(',""\n')


def test_files_do_not_depend_on_how_many_rows_are_written_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power in a row of the energy file refers to the row before, also if that was written earlier."""
    texts = []
    for rows_at_a_time in (1, 4096):
        monkeypatch.setattr(outputs, "_ROWS", rows_at_a_time)
        folder = tmp_path / str(rows_at_a_time)
        folder.mkdir()
        jobs = [job(str(number), 20.0 * number) for number in range(6)]
        simulation(folder, jobs, files=True).run(InOrder())
        names = ("jobs", "consumed_energy", "machine_states", "pstate_changes")
        texts.append([(folder / f"out_{name}.csv").read_text() for name in names])
    assert texts[0] == texts[1]
    powers = [line.rpartition(",")[2] for line in texts[0][1].splitlines()[1:]]
    assert len(powers) == 12
    assert powers[0] == "NA"
    assert "NA" not in powers[1:]


@pytest.mark.parametrize("submitted_s", [(5, 20), (20, 5)])
def test_consumed_joules_begin_with_the_first_submission_of_all_workloads(
    tmp_path: Path, submitted_s: tuple[int, int]
) -> None:
    workloads = []
    for number, at in enumerate(submitted_s):
        xml, written = write_files(tmp_path, [job("a", at)])
        workloads.append(written.rename(tmp_path / f"w{number}.json"))
    simulation_from_files(Inputs(xml, workloads), SimulationOptions(energy=True), tmp_path / "out").run(
        InOrder()
    )
    [figures] = csv.DictReader((tmp_path / "out_schedule.csv").open())
    idle_j, working_j = 4 * 100 * 25, 2 * 100 * 10
    assert float(figures["consumed_joules"]) == idle_j + working_j


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("place", ["job id", "profile"])
def test_what_a_spreadsheet_would_run_is_refused(tmp_path: Path, text: str, place: str) -> None:
    named = job(text) if place == "job id" else job("a", profile=text)
    profiles = {"w": WORK, text: WORK}
    with pytest.raises(InputError, match=f"found the {place} .*, which a spreadsheet would run"):
        from_files(tmp_path, [named], profiles)
    assert not list(tmp_path.glob("*out*"))
    assert from_files(tmp_path, [named], profiles, files=False).run(InOrder()).succeeded == 1


def test_so_are_jobs_that_the_scheduler_registers(tmp_path: Path) -> None:
    options = SimulationOptions(energy=True, dynamic_jobs=True)
    register = d.RegisterJob(0, "w0!=1+1", {"id": "w0!=1+1", "subtime": 0, "res": 1, "profile": "w"})
    for files in (True, False):
        started = simulation(tmp_path, [job("a")], files=files, options=options)
        script = Scripted([register, d.FinishRegistration(0)], [d.ExecuteJob(0, "w0!a", HostSet.of([0]))])
        if files:
            with pytest.raises(DecisionRefused, match="'=1\\+1' in 'w0!=1\\+1' would be run as a formula"):
                started.run(script)
        else:
            started.run(script)


def test_metadata_are_a_text(tmp_path: Path) -> None:
    start = d.ExecuteJob(0, "w0!a", HostSet.of([0]))
    note = d.SetJobMetadata(0, "w0!a", '=1,"b"\nc')
    simulation(tmp_path, [job("a")], files=True).run(Scripted([], [note, start]))
    assert [row["metadata"] for row in rows(tmp_path)] == ['\'=1,"b"\nc']


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    class InTheWay(InOrder):
        def __call__(self, message: Any) -> Any:
            (tmp_path / "out_jobs.csv").mkdir(exist_ok=True)
            return super().__call__(message)

    for name in set(NAMES) - {"jobs"}:
        (tmp_path / f"out_{name}.csv").write_text("old")
    with pytest.raises(InputError, match=r"out_jobs\.csv: cannot be written"):
        simulation(tmp_path, [job("a")], files=True).run(InTheWay())
    assert sorted(p.name for p in tmp_path.glob("*out*")) == [f"out_{name}.csv" for name in NAMES]
    assert {p.read_text() for p in tmp_path.glob("*out*") if p.is_file()} == {"old"}


def test_the_files_of_an_earlier_run_go_when_those_of_this_one_take_their_place(tmp_path: Path) -> None:
    """Batsim itself opens its files at the start, and leaves them empty where it is stopped."""
    for name in [f"out_{name}.csv" for name in NAMES] + ["out_summary.json"]:
        (tmp_path / name).write_text("old")
    begun = simulation(tmp_path, [job("a")], files=True)
    with pytest.raises(DecisionRefused):
        begun.run(Scripted([d.ExecuteJob(0, "w0!none", HostSet.of([0]))]))
    assert {p.read_text() for p in tmp_path.glob("*out*")} == {"old"}
    options = SimulationOptions()  # without energy, there are fewer files
    simulation(tmp_path, [job("a")], files=True, options=options).run(InOrder())
    old = [p.name for p in tmp_path.glob("*out*") if p.read_text() == "old"]
    assert old == ["out_summary.json"]  # the scheduler's
    assert len([*tmp_path.glob("*out*")]) == 4
