"""scripts/run, the main job, with all its real parts."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from project.shell import ROOT, run

RUN = ROOT / "scripts" / "run"
INPUTS = {
    "platform.xml", "workload.json", "power.txt", "site.toml", "forecast_workload.json", "forecast_power.txt",
    "plan.msgpack", "plan.png",
}  # fmt: skip
RESULTS = {
    "run_jobs.csv", "run_schedule.csv", "run_machine_states.csv", "run_pstate_changes.csv",
    "run_consumed_energy.csv", "run_energy_trace.csv", "run_decisions.jsonl", "run_summary.json",
    "run_inputs.json",
}  # fmt: skip
TWO = ("--policy", "workload-reactive", "--policy", "power-reactive")


def summary(folder: Path) -> dict:
    return json.loads((folder / "run_summary.json").read_text())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def rows_of(policies: Iterable[str], text: str) -> dict[str, list[str]]:
    """The table's rows: the policy, and the words beside it."""
    rows = [line.split() for line in text.splitlines()]
    told = {"failed:", "ended"}  # in place of figures
    return {
        row[0]: row[1:]
        for row in rows
        if row and row[0] in policies and (row[1] in told or re.fullmatch(r"[\d.-]+", row[1]))
    }


def test_the_help_ends_with_what_the_script_adds():
    done = run(RUN, "--help")
    assert done.returncode == 0, done.stderr
    *_, options, added = done.stdout.split("\n\n")
    assert options.startswith("--with-report first installs")
    assert added.startswith("run is 'beasy-sched compare' in its own environment. Variables: PYTHON names")
    assert len(added.splitlines()) == 3


@pytest.mark.slow
def test_one_policy_from_any_folder_twice_with_the_same_result(tmp_path: Path):
    traces = []
    for _ in range(2):
        done = run(RUN, "--quick", "--policy", "easy", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert names(tmp_path / "out/run") == INPUTS | {"easy", "report.html"}
        assert names(tmp_path / "out/run/easy") == RESULTS
        traces.append((tmp_path / "out/run/easy/run_energy_trace.csv").read_text())
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) == 1 + 24 * 12
    assert "jobs submitted" in done.stdout
    assert all(name in done.stdout for name in INPUTS)
    assert summary(tmp_path / "out/run/easy")["jobs"]["submitted"] == 300
    assert "planned / actual: production" in done.stdout
    said = " ".join(done.stdout.split())
    assert "20 % noise on arrivals and run times; seed 1" in said
    assert "beasy-sched explain out/run/easy --job 17" in said
    assert said.endswith("Charts, in any browser: out/run/report.html")
    assert "</html>" in (tmp_path / "out/run/report.html").read_text("utf-8")


@pytest.mark.slow
def test_two_policies_a_row_each_that_equals_the_summaries(tmp_path: Path):
    done = run(RUN, "--quick", "--no-plan", *TWO, "--out", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Charts, in any browser: two/report.html\n")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = rows_of(TWO[1::2], done.stdout)
    assert list(rows) == [*TWO[1::2]]
    for policy, row in rows.items():
        found = summary(tmp_path / "two" / policy)
        jobs, energy_kwh = found["jobs"], found["energy_kwh"]
        shown = [*(jobs[n] / jobs["submitted"] * 100 for n in (
            "finished", "postponed", "reached_walltime", "not_completely_finished", "killed"
        )), found["site"]["soc_final_pct"], found["site"]["soc_final_pct"] - 50,
            energy_kwh["wasted"], energy_kwh["curtailed"]]  # fmt: skip
        assert [float(cell) for cell in row[:9]] == pytest.approx(shown, abs=0.0501)
        assert float(row[-1]) == pytest.approx(found["quality"]["bounded_slowdown_mean"], abs=0.00501)
        assert names(tmp_path / "two" / policy) == {*RESULTS, "run_log.txt"}
    assert rows["workload-reactive"] != rows["power-reactive"]
    assert "production anywhere between the bounds of its forecast; 20 % noise" in done.stdout
    assert "guard shed, with veto" in done.stdout
    said = " ".join(done.stdout.split("\n\n")[1].split())
    assert re.match(r"(No policy|Every policy|power-reactive|workload-reactive) killed ", said)
    for name in ("comparison.md", "report.html"):
        assert said.replace("policy", "run") in (tmp_path / "two" / name).read_text().replace("policy", "run")
    assert (tmp_path / "two/comparison.md").read_text().count("\n| ") == 4


@pytest.mark.slow
def test_over_the_wire_the_same_results(tmp_path: Path):
    for name, how in (("one", ()), ("wire", ("--wire",))):
        (tmp_path / name).mkdir()
        done = run(
            RUN, "--quick", *TWO, "--no-plan", "--no-report", *how, "--out", "out", cwd=tmp_path / name
        )
        assert done.returncode == 0, done.stderr
        assert ("beasy-sched batsim" in done.stderr) == ("beasy-sched serve" in done.stderr) == bool(how)
        assert not (tmp_path / name / "out/report.html").exists()
    for name in RESULTS - {"run_schedule.csv", "run_inputs.json"}:  # wall-clock time; of `simulate` only
        for policy in TWO[1::2]:
            one, wire = (tmp_path / place / "out" / policy / name for place in ("one", "wire"))
            assert one.read_bytes() == wire.read_bytes(), name


@pytest.mark.slow
def test_a_report_that_cannot_be_written_costs_nothing_else(tmp_path: Path):
    (tmp_path / "plotly.py").write_text("raise ImportError('there is no plotly')\n")
    quick = ("--quick", "--no-plan", "--policy", "fcfs", "--out", "out")
    python = (sys.executable, "-m", "beasy_sched", "compare")
    done = run(*python, *quick, cwd=tmp_path, variables={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "pip install" in done.stderr
    assert "HTML report not written (see above)" in done.stderr
    assert "Charts" not in done.stdout
    assert summary(tmp_path / "out/fcfs")["complete"]


@pytest.mark.slow
def test_markdown_is_all_that_is_printed_and_the_real_days_can_be_the_forecast(tmp_path: Path):
    exact = ("--production", "exact", "--sigma", "0")
    only = ("--policy", "fcfs", "--markdown", "--no-plan", "--no-report")
    done = run(RUN, "--quick", *only, *exact, "--out", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    caption, empty, header, rule, row, end, said = done.stdout.splitlines()
    assert caption.startswith(
        "Workload and weather: production as forecast; jobs as forecast; seed 1. The site: 300 jobs on 50"
    )
    assert empty == end == ""
    assert re.fullmatch(r"fcfs finished \d+ of 300 jobs \([\d.]+ %\) and killed (none|\d+); .*\.", said)
    assert header.startswith("| policy | finished (%) |")
    assert header.count("|") == rule.count("|") == row.count("|")
    for kind in ("workload.json", "power.txt"):
        assert (tmp_path / "m" / kind).read_bytes() == (tmp_path / f"m/forecast_{kind}").read_bytes()


@pytest.mark.slow
def test_on_a_terminal_of_80_columns_a_bar_and_a_table_that_fits(tmp_path: Path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [RUN, "--quick", "--no-plan", "--no-report", *TWO, "--out", "t"],
        cwd=tmp_path, env={**os.environ, "BEASY_VENV": sys.prefix, "COLUMNS": "80", "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # how a terminal that nobody writes to any more is told
        while piece := os.read(ours, 65536):
            written += piece
    os.close(ours)
    assert process.wait(60) == 0
    progress, _, table = written.decode().rpartition("fin-")
    assert "2/2" in progress
    assert len(re.findall(r"  power-reactive +\d.* \d+\.\d s", progress)) == 1  # its row, when it ended
    assert "\x1b[" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert len(rows_of(TWO[1::2], table)) == 2


@pytest.mark.slow
def test_a_policy_that_fails_is_a_row_and_the_exit_code(tmp_path: Path):
    old = tmp_path / "bad/beasy/run_summary.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"complete": true}')
    done = run(
        RUN, "--quick", "--no-plan", "--no-report", "--policy", "easy", "--policy", "beasy", "--out", "bad",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    rows = rows_of(("easy", "beasy"), done.stdout)
    assert "failed: policy 'beasy' requires an offline plan" in " ".join(rows["beasy"])
    assert float(rows["easy"][0]) > 50
    assert summary(tmp_path / "bad/easy")["complete"]
    assert old.read_text() == '{"complete": true}'  # of an earlier comparison
    assert names(old.parent) == {"run_summary.json", "run_failed_log.txt"}
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_week_of_greenslot_s_paper(tmp_path: Path):
    """As in the paper's Figures 6 and 10: more green energy, lower cost, and no deadline missed."""
    two = ("--policy", "conventional", "--policy", "greenonly")
    done = run(RUN, "--scenario", "greenslot", *two, "--no-report", "--out", "week", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    inputs = {"platform.xml", "workload.json", "power.txt", "site.toml", "forecast.csv"}
    assert names(tmp_path / "week") == inputs | {"comparison.md", "conventional", "greenonly"}
    assert names(tmp_path / "week/greenonly") == RESULTS | {"run_deadlines.csv", "run_log.txt"}
    assert max(map(len, done.stdout.splitlines())) <= 100
    found = {policy: summary(tmp_path / "week" / policy) for policy in two[1::2]}
    rows = rows_of(found, done.stdout)
    for policy, each in found.items():
        grid, missed = each["grid"], each["deadlines"]["jobs_missed"]
        shown = [grid["cost"], 100 * grid["green_share"], missed, each["quality"]["bounded_slowdown_mean"]]
        assert [float(cell) for cell in rows[policy][7:]] == pytest.approx(shown, abs=0.0501)
        assert missed == 0
        assert each["settings"]["forecast"] == "week/forecast.csv"
    (early, _), (green, options) = ((each["grid"], each["settings"]["options"]) for each in found.values())
    assert options == {"prices": "flat"}
    assert green["green_kwh"] > 1.4 * early["green_kwh"]
    assert green["cost"] < 0.85 * early["cost"]
    assert "greenonly: policy greenslot --option prices=flat" in done.stdout
    assert "explain week/conventional --job W2.5.1.8" in done.stdout


@pytest.mark.slow
def test_own_trace_and_weather(tmp_path: Path):
    rows = [f"{n} {n * 600} 5 {300 + n} 4 -1 -1 4 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 200)]
    (tmp_path / "own.swf").write_text("; MaxProcs: 64\n" + "\n".join(rows) + "\n")
    sky = run(sys.executable, "-m", "beasy_sched", "generate", "power", "--synthetic", "--pv-kw", "10",
              "--wind-kw", "7", "--write-ninja", "own", "-o", "power.txt", cwd=tmp_path)  # fmt: skip
    assert sky.returncode == 0, sky.stderr
    done = run(RUN, "--quick", "--swf", "own.swf", "--cores-per-host", "2", "--ninja-pv", "own_pv.csv",
               "--ninja-wind", "own_wind.csv", "--policy", "easy", "--no-plan", "--no-report", "--out", "own",
               cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    jobs = json.loads((tmp_path / "own/workload.json").read_text())["jobs"]
    assert {job["res"] for job in jobs} == {2}
    assert summary(tmp_path / "own/easy")["jobs"]["submitted"] == len(jobs) > 100
    day = (tmp_path / "power.txt").read_text().splitlines()[: 24 * 12]
    own = (tmp_path / "own/forecast_power.txt").read_text().splitlines()
    assert len(own) == len(day)
    got, expected = (sum(json.loads(line)["power_available"] for line in lines) for lines in (own, day))
    assert got == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_own_site(tmp_path: Path):
    (tmp_path / "site.toml").write_text(
        "[battery]\ncapacity_kwh = 50\ncharge_limit_kw = 20\ndischarge_limit_kw = 20\n"
        "[time]\nwindow_h = 12\nstep_s = 600\n"
    )
    done = run(RUN, "--site", "site.toml", "--policy", "fcfs", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "out/run/fcfs")["settings"]["policy"] == "fcfs"
    assert len((tmp_path / "out/run/fcfs/run_energy_trace.csv").read_text().splitlines()) == 1 + 72


@pytest.mark.slow
def test_mistakes_are_told_and_the_exit_code_is_2(tmp_path: Path):
    """All that `beasy-sched compare` refuses: tests/plugins/campaigns/test_compare_command.py."""
    done = run(RUN, "--quick", "--arrivals", "end", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "beasy-sched: --arrivals requires a window of 3 days, but it has 1: omit the option\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_policy_of_ones_own_that_cannot_be_made_is_told_before_anything_is(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "from beasy_sched.policies.easy import Easy\n"
        "class Own(Easy):\n    def __init__(self, options=None): 1 / 0\n"
    )
    done = run(RUN, "--policy", "own:Own", cwd=tmp_path)
    assert done.returncode == 1
    told = "beasy-sched: policy 'own:Own' failed while it was created: ZeroDivisionError: division by zero"
    assert done.stderr == f"{told} ({tmp_path / 'own.py'}:3)\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_help_names_every_option():
    done = run(RUN, "--help")
    assert done.returncode == 0
    for option in (
        "--policy",
        "--jobs",
        "--arrivals",
        "--production",
        "--sigma",
        "--swf",
        "--ninja-pv",
        "--out",
    ):
        assert option in done.stdout
    assert "PYTHON names the Python" in done.stdout


@pytest.mark.sampled
@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps to look for processes with")
@pytest.mark.parametrize(
    ("arguments", "policies", "sign"),
    [
        ([], ("easy",), "$ beasy-sched simulate"),
        (["--wire"], ("easy",), "listening on"),
        ([], ("easy", "bid-price", "fcfs"), "  easy "),
        (["--wire"], ("easy", "power-reactive", "fcfs"), "  easy "),
    ],
)
def test_ctrl_c_in_the_middle(arguments: list[str], policies: tuple[str, ...], sign: str, tmp_path: Path):
    """Ctrl-C reaches the whole foreground group, as on a terminal; no process stays, what is done does."""
    named = [argument for policy in policies for argument in ("--policy", policy)]
    out = tmp_path / "stopped"
    old = [out / name for name in ("comparison.md", "report.html", *(f"{p}/run_jobs.csv" for p in policies))]
    for path in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")
    process = subprocess.Popen(
        [RUN, "--no-plan", "--jobs", "1", *arguments, *named, "--out", tmp_path / "stopped"],
        env={**os.environ, "BEASY_VENV": sys.prefix},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(sign):
            break
    os.killpg(process.pid, signal.SIGINT)
    said, rest = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGINT
    assert {path.relative_to(out).parts[0] for path in old if path.read_text() != "old"} <= {"easy"}
    assert not [*out.rglob(".*")]
    assert "beasy-sched: stopped by SIGINT" in rest
    assert "Traceback" not in rest
    assert not _processes_with(str(tmp_path / "stopped"))
    if len(policies) > 1:
        rows = rows_of(policies, said)
        assert float(rows["easy"][0]) > 50
        assert rows[policies[1]] == rows["fcfs"] == ["failed:", "stopped", "by", "SIGINT"]
        assert summary(tmp_path / "stopped/easy")["complete"]


def _processes_with(text: str) -> list[str]:
    time.sleep(0.1)
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if text in line]
