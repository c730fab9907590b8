"""The section on restarts of a site file, and the fields of jobs about them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from simulator.small import job, write_files

from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import default_site, default_site_text, parse_site
from beasy_sched.model.restarts import Checkpoints, RestartSettings, daly_interval_s


def section(text: str) -> RestartSettings:
    return parse_site(f"{default_site_text()}\n[restart]\n{text}\n").restarts


def test_a_section() -> None:
    assert section("interval_s = 100\ndump_s = 3\nread_s = 4.5\nnotice_s = 60\nmost = 2") == RestartSettings(
        Checkpoints(100.0, 3.0, 4.5), 60.0, 2
    )
    assert section("") == default_site().restarts == RestartSettings()


def test_dalys_optimum() -> None:
    found = section('interval_s = "daly"\nmean_time_between_kills_s = 36000\ndump_s = 100')
    assert found.checkpoints.interval_s == daly_interval_s(100.0, 36_000.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("interval_s = 0", "restart.interval_s: found 0, expected a number above 0"),
        ('interval_s = "often"', "restart.interval_s: found 'often', expected a number above 0"),
        ("dump_s = 3600", "restart.dump_s: found 3600, expected less than the interval of 3600 s"),
        ("dump_s = -1", "restart.dump_s: found -1, expected from 0"),
        ("read_s = -1", "restart.read_s: found -1, expected from 0"),
        ("most = 0", "restart.most: found 0, expected an integer of 1 or more"),
        ("notice_s = 300", "restart.notice_s: found 300, expected at least 0 and less than a step (300 s)"),
        ('interval_s = "daly"', "restart.mean_time_between_kills_s: is missing"),
        ("mean_time_between_kills_s = 5", 'found 5, expected no value without interval_s = "daly"'),
        ("every = 5", "restart.every: no such field"),
    ],
)
def test_a_wrong_section(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        section(text)


@pytest.mark.parametrize("on_kill", ["requeue", "checkpoint"])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (job("a#1"), "job 'w0!a#1': its id contains '#', which marks jobs that came back"),
        (job("a", requeue=1), "job 'w0!a': requeue: found 1, expected true or false"),
        (job("a", checkpoint=5), "checkpoint: found 5, expected false, or an object with interval_s"),
        (job("a", checkpoint={"interval_s": 0}), "checkpoint.interval_s: found 0, expected a number above 0"),
        (
            job("a", checkpoint={"dump_s": 4000}),
            "checkpoint.dump_s: found 4000, expected less than the interval",
        ),
        (job("a", checkpoint={"every": 1}), "checkpoint.every: no such field"),
    ],
)
def test_a_wrong_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any], reason: str, on_kill: str
) -> None:
    platform, workload = write_files(tmp_path, [job("b"), wrong])
    given = ("-p", str(platform), "-w", str(workload), "-o", str(tmp_path / "out" / "run"))
    assert exit_code("simulate", *given, "--on-kill", on_kill, "-q") == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert not [*tmp_path.glob("out/*")]
    assert exit_code("simulate", *given, "-q") == 0  # drop, where these fields are not read


def test_the_summary_and_the_interface(tmp_path: Path) -> None:
    platform, workload = write_files(tmp_path, [job("a")])
    given = ("-p", str(platform), "-w", str(workload), "-o", str(tmp_path / "run"), "-q")
    assert exit_code("simulate", *given, "--on-kill", "checkpoint") == 0
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["settings"]["on_kill"] == "checkpoint"
    assert summary["restarts"] == {
        "jobs": 0,
        "count": 0,
        "checkpoints": 0,
        "redone_kwh": None,
        "saved_kwh": None,
        "checkpoints_kwh": None,
    }
