"""``simulate --failures`` and ``--retry``: from the file to the summary, `explain` and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.api import simulate as simulated

Out = pytest.CaptureFixture[str]
LINES = (
    '{"timestamp": 0, "type": "wakes_fail", "resources": "0"}',
    '{"timestamp": 5000, "type": "breaks", "resources": "2-3"}',
    '{"timestamp": 6000, "type": "repaired", "resources": "2"}',
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers asleep; a job of three servers at 1000 s, one of all four at 4000 s."""
    place = tmp_path_factory.mktemp("failures")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(place / "p.xml"), "-q") == 0
    jobs = [
        {"id": "three", "subtime": 1000, "res": 3, "profile": "long", "walltime": 9000},
        {"id": "all", "subtime": 4000, "res": 4, "profile": "long", "walltime": 9000},
    ]
    profiles = {"long": {"type": "delay", "delay": 6000}}
    (place / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    (place / "f.txt").write_text("\n".join(LINES) + "\n")
    return place


def simulate(place: Path, *arguments: str) -> int:
    files = ("-p", str(place / "p.xml"), "-w", str(place / "w.json"), "-o", str(place / "run"))
    return exit_code("simulate", *files, "--policy", "workload-reactive", *arguments)


def log(place: Path) -> list[tuple[float, str, str, str]]:
    lines = map(json.loads, (place / "run_decisions.jsonl").read_text().splitlines())
    return [
        (line["time"], line["action"], line["hosts"], line["rule"])
        for line in lines
        if line["action"] in ("lost", "back")
    ]


def told(capsys: Out) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_run_with_failures(place: Path, capsys: Out) -> None:
    """Server 0 sleeps when it has idled for long enough, is woken for the second job, and never comes."""
    assert simulate(place, "--failures", str(place / "f.txt"), "--retry", "100s") == 1
    table = told(capsys)
    assert "servers that failed 3 failed to wake 10 times went out of service 2 times" in (table)
    found = json.loads((place / "run_summary.json").read_text())
    assert found["lost_servers"] == {"servers": 3, "failed_wakes": 10, "breakdowns": 2, "missing": 2}
    assert found["settings"]["retry_s"] == 100.0
    assert found["jobs"]["failed"] == 1
    assert found["error"].startswith("deadlock")
    rows = log(place)
    lost = [row for row in rows if row[2] == "0"]
    gaps = [after[0] - before[0] for before, after in zip(lost[::2], lost[1::2], strict=False)]
    assert gaps == [100.0, 200.0, 400.0, 800.0, *[1200.0] * 5]
    assert lost[-1][1:] == ("lost", "0", "did not wake, and is given up")
    assert (5000.0, "lost", "2-3", "out of service") in rows
    assert (6000.0, "back", "2", "in service again") in rows


@pytest.mark.plugins("reports")
def test_what_explain_says_of_it(place: Path, capsys: Out) -> None:
    assert simulate(place, "--failures", str(place / "f.txt"), "--retry", "100s", "-q") == 1
    capsys.readouterr()
    run = str(place / "run")
    assert exit_code("explain", run) == 0
    overview = told(capsys)
    assert (
        "Servers lost 1 server (0): did not wake 9 times, did not wake, and is given up 1 time;" in overview
    )
    assert "1 server (2): out of service 1 time; back at 01:40:00." in overview
    assert "1 server (3): out of service 1 time; permanently lost at 01:23:20." in overview
    assert exit_code("explain", run, "--at", "5000") == 0
    step = told(capsys)
    assert "Servers lost" in step
    assert "2 servers (2-3). They were reported out of service; 2 hosts of them had a job." in step
    assert exit_code("explain", run, "--job", "three") == 0
    assert "2 of its 3 hosts were lost. They were reported out of service" in (story := told(capsys))
    assert "01:23:20 It failed because some of its hosts were lost, after 1 h 01 min" in story
    assert exit_code("explain", run, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["servers_lost"]) == len(log(place))


def test_without_failures_nothing_is_said_of_them(place: Path, capsys: Out) -> None:
    assert simulate(place) == 0
    assert "servers that failed" not in told(capsys)
    found = json.loads((place / "run_summary.json").read_text())
    assert "lost_servers" not in found
    assert "retry_s" not in found["settings"]
    assert log(place) == []


def test_the_same_from_python_and_again_from_the_recording(place: Path, capsys: Out) -> None:
    record = str(place / "run.rec")
    assert simulate(place, "--failures", str(place / "f.txt"), "--retry", "90", "--record", record, "-q") == 1
    assert exit_code("replay", record, "-p", str(place / "p.xml")) == 0
    from_command = json.loads((place / "run_summary.json").read_text())
    with pytest.warns(UserWarning, match="deadlock"):
        run = simulated(
            place / "p.xml",
            place / "w.json",
            policy="workload-reactive",
            failures=place / "f.txt",
            retry_s=90.0,
        )
    assert run.summary["lost_servers"] == from_command["lost_servers"]
    assert run.summary["end_s"] == from_command["end_s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--retry", "0"), "found 0.0, expected a number above 0"),
        (("--retry", "soon"), "'soon' is not a duration"),
        (("--failures", "none.txt"), "none.txt: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong(place: Path, capsys: Out, arguments: tuple[str, ...], message: str) -> None:
    assert simulate(place, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_line_that_cannot_be_read(place: Path, capsys: Out) -> None:
    (place / "bad.txt").write_text(LINES[0] + '\n{"timestamp": 1, "type": "explodes", "resources": "3"}\n')
    assert simulate(place, "--failures", str(place / "bad.txt")) == 2
    err = capsys.readouterr().err
    assert "bad.txt:2: a failure could not be read: expected such as" in err


@pytest.mark.plugins("reports")
def test_the_report_shows_them(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="reports need pyarrow")
    from beasy_sched.plugins.reports.page import Chart
    from beasy_sched.plugins.reports.run_data import read_run_data
    from beasy_sched.plugins.reports.server_charts import ServerState, gantt, server_heat

    assert simulate(place, "--failures", str(place / "f.txt"), "--retry", "100s", "-q") == 1
    run = read_run_data("run", str(place / "run"))
    assert run.jobs is not None
    states = gantt(run, run.jobs, "r").spec["states"]
    lost = [
        (int(low), float(start))
        for low, start, state in zip(states["low"], states["start"], states["state"], strict=True)
        if state == ServerState.LOST
    ]
    assert (3, 5000.0) in lost
    assert (2, 5000.0) in lost
    assert sum(host == 0 for host, _ in lost) == 9  # with the last failure, the run is over
    chart = server_heat(run, "r")
    assert isinstance(chart, Chart)
    rows = dict(zip(chart.spec["traces"][0]["y"], chart.spec["traces"][0]["z"], strict=True))
    away_s = sum(
        min(end, run.end_s) - start
        for start, end, state in zip(states["start"], states["end"], states["state"], strict=True)
        if state == ServerState.LOST
    )
    assert float(rows["lost"].mean()) * run.end_s == pytest.approx(float(away_s), rel=1e-3)
