"""``beasy-sched explain``: from the command line to the words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.reports.story_files import write_run
from small_site import small_site

Out = pytest.CaptureFixture[str]


def test_a_job(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert exit_code("explain", write_run(tmp_path), "--job", "c") == 0
    out = capsys.readouterr().out
    assert out.startswith("Job w0!c\n\nArrival\n  00:00:30  It was submitted and requested 1 host with a\n")
    assert max(map(len, out.splitlines())) <= 60
    assert "\x1b" not in out


@pytest.mark.parametrize("moment", ["300", "5m", "00:05", "0d 00:09:59"])
def test_a_moment_of_the_only_run_in_a_folder(moment: str, tmp_path: Path, capsys: Out) -> None:
    write_run(tmp_path)
    assert exit_code("explain", str(tmp_path), "--at", moment) == 0
    assert capsys.readouterr().out.startswith("Step 1, 00:05:00 to 00:10:00\n\nEnergy\n  Production: 90 W")


def test_json(tmp_path: Path, capsys: Out) -> None:
    assert exit_code("explain", write_run(tmp_path), "--at", "10", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["energy"]["renewable_w"] == 400.0
    assert told["decisions"][0]["sentence"] == "It was the first of the queue."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--job", "a", "--at", "1"), "give only one of --job ID, --at TIME, --killed"),
        (("--killed", "--longest-waits"), "give only one of --job ID"),
        (("--longest-waits", "0"), "found '0', expected an integer, 1 or more"),
        (
            ("--at", "noon"),
            "'noon' is not a valid time: expected seconds or a value such as 1d6h or '1d 06:30:00'",
        ),
        (
            ("--job", "w0!e"),
            "job w0!e: this run has no such job; it has 4 jobs, w0!a to w0!d; did you mean w0!",
        ),
        (("--at", "1d"), "1d 00:00:00: the steps of this run end at 00:10:00"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: Out) -> None:
    assert exit_code("explain", write_run(tmp_path), *arguments) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


def test_no_run(tmp_path: Path, capsys: Out) -> None:
    assert exit_code("explain", str(tmp_path / "x"), "--job", "a") == 2
    assert capsys.readouterr().err.startswith(
        f"beasy-sched: {tmp_path / 'x'}_decisions.jsonl: no such decision log"
    )


@pytest.mark.slow
def test_every_job_and_every_step_of_a_real_run(tmp_path: Path, capsys: Out) -> None:
    """Whatever happened to a job, its story has an arrival and an end."""
    site = small_site(tmp_path, jobs=60)
    files = ["-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events)]
    prefix = str(tmp_path / "run")
    run = ["simulate", *files, "--site", str(site.site), "--policy", "workload-reactive", "-e", prefix, "-q"]
    assert exit_code(*run) == 0
    for job in range(60):
        assert exit_code("explain", prefix, "--job", str(job)) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"Job w0!{job}\n\nArrival\n")
        assert "\nEnd\n" in out
    for step in range(0, 288, 7):
        assert exit_code("explain", prefix, "--at", str(300 * step)) == 0
        assert capsys.readouterr().out.startswith(f"Step {step}, ")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("jobs.csv", lambda text: "", "jobs.csv: is empty: expected a table"),
        ("energy_trace.csv", lambda text: "", "energy_trace.csv: is empty: expected a table"),
        ("jobs.csv", lambda text: text[:-3], "jobs.csv:11: is truncated: the last line is incomplete"),
        (
            "energy_trace.csv",
            lambda text: text[:-3],
            "energy_trace.csv:289: is truncated: the last line is incomplete",
        ),
        (
            "energy_trace.csv",
            lambda text: "".join(text.splitlines(keepends=True)[:-40]),
            "energy_trace.csv: has 248 rows, but the run's summary has 288 steps",
        ),
    ],
)
@pytest.mark.parametrize("how", [[], ["--killed"]])
def test_a_file_that_is_cut(
    name: str, damage: Callable[[str], str], message: str, how: list[str], tmp_path: Path, capsys: Out
) -> None:
    made = small_site(tmp_path, jobs=10)
    given = ("-p", made.platform, "-w", made.workload, "--events", made.events, "--site", made.site)
    assert exit_code("simulate", *map(str, given), "-o", str(tmp_path / "run"), "-q") == 0
    path = tmp_path / f"run_{name}"
    path.write_text(damage(path.read_text()))
    assert exit_code("explain", str(tmp_path / "run"), *how) == 2
    assert message in capsys.readouterr().err
