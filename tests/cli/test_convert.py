"""``beasy-sched convert``, ``generate --format batsim5``, and that every command takes either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload


def run(*arguments: object) -> int:
    return exit_code(*map(str, arguments))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of a run, for both versions of Batsim."""
    made = tmp_path_factory.mktemp("made")
    assert run("generate", "platform", "-n", "gros:4", "-o", made / "p.xml", "-q") == 0
    assert run("generate", "site", "--battery-kwh", "2", "-o", made / "site.toml", "-q") == 0
    jobs = (
        "generate",
        "workload",
        "--synthetic",
        "--jobs",
        20,
        "--hosts",
        4,
        "--deadlines",
        "factor:3",
        "-q",
    )
    power = ("generate", "power", "--synthetic", "--pv-kw", 1, "--wind-kw", 1, "-q")
    for form in ("batsim4", "batsim5"):
        assert run(*jobs, "--format", form, "-o", made / f"{form}.json") == 0
        assert run(*power, "--format", form, "-o", made / f"{form}.txt") == 0
    return made


def test_generated_and_converted_are_the_same(made: Path, tmp_path: Path) -> None:
    for ending in ("json", "txt"):
        converted = tmp_path / f"new.{ending}"
        assert run("convert", made / f"batsim4.{ending}", "-o", converted, "-q") == 0
        if ending == "json":
            assert json.loads(converted.read_text()) == json.loads((made / "batsim5.json").read_text())
        else:
            assert converted.read_text() == (made / "batsim5.txt").read_text()
        back = tmp_path / f"old.{ending}"
        assert run("convert", converted, "--format", "batsim4", "-o", back, "-q") == 0
        if ending == "json":
            assert json.loads(back.read_text()) == json.loads((made / "batsim4.json").read_text())
        else:
            assert [json.loads(line) for line in back.read_text().splitlines()] == [
                json.loads(line) for line in (made / "batsim4.txt").read_text().splitlines()
            ]


def test_generated_files_are_what_batsim_5_takes(made: Path) -> None:
    raw = json.loads((made / "batsim5.json").read_text())
    assert {profile["type"] for profile in raw["profiles"].values()} == {"ParallelTaskHomogeneousProfile"}
    assert all(
        set(job) <= {"id", "subtime", "res", "walltime", "profile", "extra_data"} for job in raw["jobs"]
    )
    assert all("deadline_s" in json.loads(job["extra_data"]) for job in raw["jobs"])
    old, new = (read_workload(made / f"{form}.json") for form in ("batsim4", "batsim5"))
    assert len(old.jobs) == 20
    assert old.profiles == new.profiles
    assert all(event.text is not None for event in read_external_events(made / "batsim5.txt"))


@pytest.mark.slow
def test_a_run_with_either_is_the_same(made: Path, tmp_path: Path) -> None:
    for form in ("batsim4", "batsim5"):
        files = ("-p", made / "p.xml", "-w", made / f"{form}.json", "--events", made / f"{form}.txt")
        assert run("check", *files, "--site", made / "site.toml", "-q") in (0, 1)
        out = tmp_path / form
        arguments = (
            "simulate",
            *files,
            "--site",
            made / "site.toml",
            "--policy",
            "power-reactive",
            "-o",
            out,
            "-q",
        )
        assert run(*arguments) == 0
        assert run("report", out, "-o", tmp_path / f"{form}.html", "-q") == 0
    old, new = ((tmp_path / f"{form}_jobs.csv").read_text() for form in ("batsim4", "batsim5"))
    assert old == new
    # The powers that policies write down differ beyond the sixth decimal, which Batsim 4 cuts.
    old_log, new_log = (
        [(line["time"], line["action"], line.get("job")) for line in map(json.loads, file)]
        for file in (
            (tmp_path / f"{form}_decisions.jsonl").read_text().splitlines() for form in ("batsim4", "batsim5")
        )
    )
    assert old_log == new_log


def test_files_of_both_versions_are_odd(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("check", "-w", made / "batsim5.json", "--events", made / "batsim4.txt", "--json")
    assert code == 1
    assert [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]] == [
        "versions-mixed"
    ]


@pytest.mark.parametrize(("form", "needs"), [("batsim4", True), ("batsim5", False)])
def test_only_batsim_4_needs_options(
    form: str, needs: bool, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("check", "-w", made / f"{form}.json", "--events", made / f"{form}.txt", "--site", "default")
    assert ("-E --forward-unknown-events" in capsys.readouterr().out) is needs


def test_what_batsim_5_drops_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "p", "user": "bob"}
    content = {"nb_res": 1, "jobs": [job], "profiles": {"p": {"type": "DelayProfile", "delay": 1}}}
    path = tmp_path / "w.json"
    path.write_text(json.dumps(content))
    assert run("check", "-w", path) == 1
    assert "does not forward these fields of jobs: user" in " ".join(capsys.readouterr().out.split())
    assert run("convert", path, "--format", "batsim4", "-o", tmp_path / "old.json") == 0
    assert "dropped job fields that Batsim 5 does not forward: user" in capsys.readouterr().err


def test_profiles_are_renamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "row01"}
    content = {"nb_res": 1, "jobs": [job], "profiles": {"row01": {"type": "delay", "delay": 1}}}
    path = tmp_path / "w.json"
    path.write_text(json.dumps(content))
    assert run("convert", path, "-o", tmp_path / "new.json") == 0
    assert "profile 'row01' is now 'row_01'" in capsys.readouterr().err
    assert read_workload(tmp_path / "new.json").jobs[0].profile == "row_01"
    assert run("convert", path, "--workload-name", "w1", "-o", tmp_path / "second.json") == 0
    assert read_workload(tmp_path / "second.json", "w1").jobs[0].profile == "row01"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty, expected a workload or an events file"),
        (" \n\n", "is empty, expected a workload or an events file"),
        ("<platform/>", "need no conversion"),
        ('{"type": "x"}\n', ":1: the event has no 'timestamp' number"),
        ('{"type": "x", "timestamp": 1}\nnonsense\n', ":2: an event could not be parsed"),
        ('{"nb_res": 1}', "'jobs' is not an array"),
        ('{"jobs": [], "profiles": {"p": {"type": "DelayProfile"}}}', "is already a workload of Batsim 5"),
        ('{"jobs": [], "profiles": {"p": {"type": "send"}}}', "has the type 'send'"),
        ("[1, 2]", "an event could not be parsed"),
    ],
)
def test_what_cannot_be_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, reason: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert run("convert", path, "-o", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert reason in error
    assert str(path) in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
