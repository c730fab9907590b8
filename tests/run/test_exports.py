"""Results for other programs, each read by what it is for."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import exit_code
from small_site import small_site

from beasy_sched.formats.swf import SwfReader
from beasy_sched.formats.swf_fields import SWF_FIELDS

EVALYS_NEEDS = {
    "job_id", "workload_name", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time", "stretch",
    "allocated_resources",
}  # fmt: skip
"""Columns of Batsim's jobs.csv that evalys' JobSet.from_csv reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a day on a small site whose night kills jobs; every second job has a user."""
    place = tmp_path_factory.mktemp("runs")
    site = small_site(place, jobs=60)
    workload = json.loads(site.workload.read_text())
    for number, job in enumerate(workload["jobs"]):
        job |= {"user": 40 + number % 3, "queue": 2} if number % 2 else {}
    site.workload.write_text(json.dumps(workload))
    common = ("-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site, "-q")
    for policy in ("easy", "power-reactive"):
        arguments = map(str, ("simulate", *common, "--policy", policy, "-o", place / policy / "run"))
        (place / policy).mkdir()
        assert exit_code(*arguments) == 0
    return place


def batsims(run: Path) -> dict[str, dict[str, str]]:
    with (run / "run_jobs.csv").open(newline="") as file:
        return {f"{row['workload_name']}!{row['job_id']}": row for row in csv.DictReader(file)}


def users(folder: Path) -> dict[str, int]:
    jobs = json.loads((folder / "workload.json").read_text())["jobs"]
    return {f"w0!{job['id']}": job["user"] for job in jobs if "user" in job}


def test_the_trace_is_what_happened(folder: Path, tmp_path: Path) -> None:
    """Read by a parser of a few lines, as others have them."""
    out = tmp_path / "run.swf"
    assert exit_code("convert", str(folder / "easy"), "--swf", "-o", str(out), "-q") == 0
    lines = out.read_text().splitlines()
    header = dict(line[2:].split(": ", 1) for line in lines if line.startswith(";"))
    rows = [[int(cell) for cell in line.split()] for line in lines if not line.startswith(";")]
    happened = sorted(batsims(folder / "easy").values(), key=lambda row: float(row["submission_time"]))
    assert int(header["MaxJobs"]) == len(rows) == len(happened) == 60
    assert int(header["MaxProcs"]) == 16
    assert {len(row) for row in rows} == {18}
    assert [row[0] for row in rows] == [*range(1, 61)]
    known = users(folder)
    statuses = set()
    for row, job in zip(rows, happened, strict=True):
        _, submit, wait, ran, allocated, *_ = row
        assert submit == round(float(job["submission_time"]))
        assert row[7] == int(job["requested_number_of_resources"])
        assert row[11] == known.get(f"w0!{job['job_id']}", -1)
        assert row[14] == (2 if row[11] > 0 else -1)
        if job["starting_time"]:
            assert submit + wait == round(float(job["starting_time"]))
            assert submit + wait + ran == round(float(job["finish_time"]))
            assert allocated == row[7]
        else:
            assert (wait, ran, allocated, row[10]) == (-1, -1, -1, 5)
        assert (row[10] == 1) == (job["final_state"] == "COMPLETED_SUCCESSFULLY")
        statuses.add(row[10])
    assert len(statuses) > 1


def test_our_reader_of_traces_takes_it_whole(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.swf"
    assert exit_code("convert", str(folder / "easy"), "--swf", "-o", str(out), "-q") == 0
    reader = SwfReader(out)
    rows = np.concatenate(list(reader.chunks()))
    assert reader.findings.bad_rows == reader.findings.long_rows == 0
    assert len(rows) == 60
    assert reader.header["MaxProcs"] == "16"
    assert (np.diff(rows[:, SWF_FIELDS["submit_s"] - 1]) >= 0).all()


def test_a_table_of_the_jobs_of_several_runs(folder: Path, tmp_path: Path) -> None:
    """Read by pandas; the Parquet file has the same rows."""
    text, packed = tmp_path / "jobs.csv", tmp_path / "jobs.parquet"
    for out in (text, packed):
        assert exit_code("convert", str(folder), "--jobs", "-o", str(out), "-q") == 0
    jobs, same = pd.read_csv(text), pd.read_parquet(packed)
    assert [*jobs.columns] == [*same.columns]
    same["user"] = same["user"].astype(float)
    pd.testing.assert_frame_equal(jobs, same, check_dtype=False)
    assert jobs.groupby("run").size().to_dict() == {"easy": 60, "power-reactive": 60}
    known = users(folder)
    for policy, rows in jobs.groupby("policy"):
        happened = batsims(folder / str(policy))
        for row in rows.itertuples():
            job = happened[str(row.job)]
            assert row.state == job["final_state"]
            assert row.user == known[row.job] if row.job in known else pd.isna(row.user)
            if job["starting_time"]:
                assert row.energy_j == float(job["consumed_energy"])
                ran_s = float(job["finish_time"]) - float(job["starting_time"])
                assert row.mean_power_w * ran_s == pytest.approx(row.energy_j)
                assert 0 < row.mean_power_w / row.nodes < 400
            else:
                assert pd.isna(row.energy_j)
                assert pd.isna(row.mean_power_w)


def test_evalys_finds_its_columns(folder: Path) -> None:
    assert set(pd.read_csv(folder / "easy/run_jobs.csv").columns) >= EVALYS_NEEDS


def test_one_trace_for_each_run_of_a_folder(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("convert", str(folder), "--swf", "-o", str(tmp_path / "traces")) == 0
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["easy.swf", "power-reactive.swf"]
    capfd.readouterr()
    assert exit_code("convert", str(folder), "--swf", "-o", "-") == 2
    assert "has 2 runs, and a file of SWF has one: name a run" in capfd.readouterr().err
    assert exit_code("convert", str(folder), "--swf", "--jobs", "-o", "-") == 2
    assert "give one of them" in capfd.readouterr().err


def test_runs_that_failed_are_omitted_and_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "easy", tmp_path / "all/easy")
    (tmp_path / "all/fcfs").mkdir()
    shutil.copy(folder / "easy/run_summary.json", tmp_path / "all/fcfs/run_failed_summary.json")
    assert exit_code("convert", str(tmp_path / "all"), "--jobs", "-o", str(tmp_path / "some.csv")) == 0
    assert f"note: without the runs that failed: {tmp_path}/all/fcfs/run_failed" in capsys.readouterr().err
    assert exit_code("convert", str(tmp_path / "all/easy"), "--jobs", "-o", str(tmp_path / "easy.csv")) == 0
    assert (tmp_path / "some.csv").read_bytes() == (tmp_path / "easy.csv").read_bytes()
    assert exit_code("convert", str(tmp_path / "all/fcfs"), "--jobs", "-o", str(tmp_path / "none.csv")) == 2
    assert "only runs that write Batsim's files have jobs" in capsys.readouterr().err


def test_users_of_a_workload_that_has_changed_are_unknown(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "workload.json").read_bytes()
    try:
        (folder / "workload.json").write_bytes(before + b"\n")
        assert exit_code("convert", str(folder / "easy"), "--jobs", "-o", "-") == 0
    finally:
        (folder / "workload.json").write_bytes(before)
    out, err = capfd.readouterr()
    assert err.startswith("note: users of jobs are unknown: ")
    assert {row["user"] for row in csv.DictReader(io.StringIO(out))} == {""}


def test_runs_without_jobs_and_what_is_not_a_run(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run_summary.json").write_bytes((folder / "easy/run_summary.json").read_bytes())
    assert exit_code("convert", str(tmp_path / "run"), "--jobs", "-o", "-") == 2
    assert "run_jobs.csv: not found" in capfd.readouterr().err
    assert exit_code("convert", str(tmp_path / "nothing"), "--swf", "-o", "-") == 2
    assert "is not a run" in capfd.readouterr().err
