"""Plans made during a run, from the command line: the planner's process, files, and both kinds of run."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from processes import free_endpoint, program, started
from small_campaign import SMALL
from small_site import SmallSite, small_site

from beasy_sched.energy.storage import StorageState
from beasy_sched.errors import InputError, Interrupted
from beasy_sched.formats.plan_file import read_plans, read_season
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import Rolled
from beasy_sched.planner.process import PlannerProcess, PlannerSetup
from beasy_sched.planner.requests import PlanRequest, ServerStart, WindowForecast
from beasy_sched.plugins.campaigns.folder import plain_values, scenario_hash
from beasy_sched.plugins.campaigns.run_inputs import make_forecast, make_real
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.tasks import RunTask, execute

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

HANGS = (sys.executable, "-c", "import time; time.sleep(600)")
DIES = (sys.executable, "-c", "import os, sys; sys.stdin.buffer.read(8); os.kill(os.getpid(), 9)")
BABBLES = (sys.executable, "-c", "print('12345678' * 20)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    made = small_site(tmp_path_factory.mktemp("site"), jobs=40)
    made.site.write_text(made.site.read_text().replace("window_h = 24", "window_h = 8"))
    return made


def simulate(site: SmallSite, prefix: Path, *more: str, policy: str = "follow-plan") -> int:
    files = ("-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events))
    run = ("--site", str(site.site), "--windows", "3", "--policy", policy, "-e", str(prefix), "-q")
    return exit_code("simulate", *files, *run, *more)


# --- the process ----------------------------------------------------------------------------------------


def setup_of(site: SmallSite) -> PlannerSetup:
    platform = read_simgrid_platform(site.platform).platform
    return PlannerSetup.of(parse_site(site.site.read_text(), "site"), platform, OfflineOptions())


def request_of(setup: PlannerSetup) -> PlanRequest:
    level = setup.storage.start()
    part = WindowForecast(0, np.full(12, 1000.0), np.full(12, 2000.0))
    rolled = Rolled(1, 0.0, level.battery_j, 0.0, 0, 0)
    return PlanRequest(300.0, level, ServerStart.all_on(setup.platform), (part,), rolled)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "limit_s", "outcome", "problem"),
    [
        (HANGS, 0.5, "late", "it was not made within 0.5 s"),
        (DIES, 60.0, "failed", "the planner's process was killed by signal 9"),
        (BABBLES, 60.0, "failed", "the planner's process ended"),
    ],
)
def test_a_process_that_does_not_answer_is_ended(
    site: SmallSite, command: tuple[str, ...], limit_s: float, outcome: str, problem: str
):
    setup = setup_of(site)
    process = PlannerProcess(setup, command)
    process.ask(request_of(setup))
    answer = process.answer(limit_s)
    assert (answer.outcome, answer.problem) == (outcome, problem)
    process.close()
    # Another one is started for the next request.
    process._command = PlannerProcess(setup)._command
    process.ask(request_of(setup))
    assert process.answer(60.0).outcome == "made"
    process.close()


def test_a_signal_ends_the_waiting_and_the_process(site: SmallSite):
    setup = setup_of(site)
    process = PlannerProcess(setup, HANGS)
    process.ask(request_of(setup))
    started_process = process._process
    assert started_process is not None
    with pytest.raises(Interrupted):
        process.answer(60.0, lambda: True)
    assert started_process.returncode is not None


@pytest.mark.skipif(sys.platform == "win32", reason="sessions as POSIX has them")
def test_ctrl_c_does_not_reach_the_process(site: SmallSite):
    """Or it shows where it was, while it still imports what it needs."""
    setup = setup_of(site)
    process = PlannerProcess(setup, HANGS)
    process.ask(request_of(setup))
    assert process._process is not None
    assert os.getpgid(process._process.pid) != os.getpgid(0)
    process.close()


def test_a_request_that_has_no_plan_says_why(site: SmallSite):
    setup = setup_of(site)
    asked = request_of(setup)
    no_sun = WindowForecast(0, np.full(12, 1000.0), np.full(12, -1.0))
    process = PlannerProcess(setup)
    process.ask(PlanRequest(0.0, StorageState(0.0), asked.servers, (no_sun,), asked.rolled))
    answer = process.answer(60.0)
    process.close()
    assert answer.outcome == "failed"
    assert "production is -1.0 W at step 0" in answer.problem


# --- a battery that starts at its least, before dawn ----------------------------------------------------

FALLS_BELOW = "soc_min_pct: even with all servers asleep, the battery falls below 10 %"


@pytest.fixture
def at_least(site: SmallSite, tmp_path: Path) -> SmallSite:
    """The small site, whose day begins without any production, with a battery that starts at SoC_min."""
    low = "capacity_kwh = 6.0\nsoc_min_pct = 10\nsoc_start_pct = 10"
    made = replace(site, site=tmp_path / "low.toml")
    made.site.write_text(site.site.read_text().replace("capacity_kwh = 6.0", low))
    return made


@pytest.mark.slow
def test_a_run_begins_where_no_plan_keeps_the_least(
    at_least: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `plan` says, which refuses; the run goes on, and warns in the same words."""
    files = ("-p", str(at_least.platform), "-w", str(at_least.workload), "--site", str(at_least.site))
    production = ("--production", str(at_least.events), "-o", str(tmp_path / "no.msgpack"), "-q")
    assert exit_code("plan", *files, *production) == 1
    told = capsys.readouterr().err.strip().removeprefix("beasy-sched: window 0: ")
    assert told.startswith(FALLS_BELOW)
    events = ("--events", str(at_least.events), "--replan", "window")
    assert exit_code("check", *files, *events, "-q") == 1
    assert f"warning: {told};" in capsys.readouterr().err
    assert simulate(at_least, tmp_path / "a", "--replan", "window", policy="beasy") == 0
    summary = json.loads((tmp_path / "a_summary.json").read_text())
    assert sum(text.startswith(told) for text in summary["warnings"]) == 1
    # The plan that it left serves another run, and is told of, too.
    plan = str(tmp_path / "a_plans" / "0000.msgpack")
    capsys.readouterr()
    assert exit_code("check", *files, "--plan", plan, "-q") == 1
    assert told in capsys.readouterr().err
    assert simulate(at_least, tmp_path / "b", "--plan", plan, policy="beasy") == 0
    summary = json.loads((tmp_path / "b_summary.json").read_text())
    assert sum(text.startswith(told) for text in summary["warnings"]) == 1


def test_check_says_that_a_run_has_no_plan_to_begin_with(
    at_least: SmallSite, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = at_least.site.read_text().replace("discharge_limit_kw = 3.0", "discharge_limit_kw = 0.01")
    at_least.site.write_text(weak)
    files = ("-p", str(at_least.platform), "-w", str(at_least.workload), "--site", str(at_least.site))
    assert exit_code("check", *files, "--events", str(at_least.events), "--replan", "window", "-q") == 2
    told = "no initial plan for the run: window 0: the sleeping servers alone need"
    assert f"error: {told}" in capsys.readouterr().err
    assert simulate(at_least, at_least.site.parent / "c", "--replan", "window") == 1
    assert told in capsys.readouterr().err


# --- runs -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(site: SmallSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("run") / "a"
    assert simulate(site, prefix, "--replan", "window") == 0
    return prefix


@pytest.mark.slow
def test_what_a_run_leaves_of_its_plans(ran: Path, capsys: pytest.CaptureFixture[str]):
    summary = json.loads(Path(f"{ran}_summary.json").read_text())
    assert summary["replanning"] == {"every_steps": 96, "asked": 2, "made": 2, "failed": 0, "late": 0}
    assert summary["planned"]["steps"] == 288
    with open(f"{ran}_plans.csv") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["number"], row["start_s"], row["outcome"]) for row in rows] == [
        ("1", "28800.0", "made"),
        ("2", "57600.0", "made"),
    ]
    plans = read_plans(f"{ran}_plan.msgpack")
    assert [(plan.start_s, plan.steps) for plan in plans] == [(0.0, 96), (28_800.0, 96), (57_600.0, 96)]
    assert [plan.provenance.rolled.number for plan in plans] == [0, 1, 2]
    each = sorted(Path(f"{ran}_plans").iterdir())
    assert [path.name for path in each] == ["0000.msgpack", "0001.msgpack", "0002.msgpack"]
    second = read_plans(each[1])
    assert [plan.start_s for plan in second] == [28_800.0, 57_600.0]
    assert float(rows[0]["battery_j"]) == second[0].provenance.rolled.battery_j
    assert exit_code("plan", "show", f"{ran}_plan.msgpack") == 0
    assert "plan 2, requested at 15.9167 h" in capsys.readouterr().out
    assert exit_code("explain", str(ran), "--at", "10h") == 0
    assert "Plan 1 applies from 08:00:00." in " ".join(capsys.readouterr().out.split())


def written(prefix: Path) -> dict[str, bytes]:
    """The run's files by name, but for those that tell real times."""
    told = {f"{prefix.name}_plans.csv", f"{prefix.name}_schedule.csv"}
    paths = [path for path in prefix.parent.rglob("*") if path.is_file() and path.name not in told]
    return {str(path.relative_to(prefix.parent)): path.read_bytes() for path in paths}


@pytest.mark.slow
def test_the_same_run_again_writes_the_same_bytes(site: SmallSite, ran: Path, tmp_path: Path):
    assert simulate(site, tmp_path / "a", "--replan", "window") == 0
    assert written(tmp_path / "a") == written(ran)


@pytest.mark.slow
def test_two_processes_decide_as_one(site: SmallSite, ran: Path, tmp_path: Path):
    endpoint, out = free_endpoint(), str(tmp_path / "a")
    expects = ("--replan-workload", str(site.workload), "--replan-production", str(site.events))
    settings = ("--site", str(site.site), "--windows", "3", "--policy", "follow-plan", "-e", out)
    serve = (program("beasy-sched"), "serve", "-s", endpoint, "-p", str(site.platform), "--replan", "window")
    inputs = ("-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events))
    with started([*serve, *expects, *settings], tmp_path) as daemon:
        forwards = ("-E", "--forward-unknown-events")
        assert exit_code("batsim", "-s", endpoint, *inputs, *forwards, "-e", out) == 0
        assert daemon.wait() == 0, daemon.said()
    for name in ("jobs.csv", "decisions.jsonl", "energy_trace.csv", "plan.msgpack"):
        assert Path(f"{out}_{name}").read_bytes() == Path(f"{ran}_{name}").read_bytes(), name


@pytest.mark.slow
def test_a_plan_file_gives_settings_and_forecasts(site: SmallSite, tmp_path: Path):
    plan = tmp_path / "plan.msgpack"
    inputs = ("-p", str(site.platform), "-w", str(site.workload), "--production", str(site.events))
    options = ("--site", str(site.site), "--windows", "3", "--surplus", "store", "-o", str(plan), "-q")
    assert exit_code("plan", *inputs, *options) == 0
    assert simulate(site, tmp_path / "a", "--replan", "4h", "--plan", str(plan)) == 0
    plans = read_plans(f"{tmp_path / 'a'}_plan.msgpack")
    assert [plan.start_s / 3600 for plan in plans] == [0, 4, 8, 12, 16, 20]
    assert {plan.provenance.settings["surplus"] for plan in plans} == {"store"}


@pytest.mark.sampled
@pytest.mark.parametrize("given", ["file", "plan"])
def test_plans_made_during_a_run_keep_the_quantiles_of_the_demand(
    site: SmallSite, tmp_path: Path, given: str
) -> None:
    """Those of --replan-demand, or of the plan that the run begins with."""
    demand, plan = tmp_path / "demand.csv", tmp_path / "plan.msgpack"
    demand.write_text("p10_kw,p50_kw,p90_kw\n" + "0.4,0.8,1.2\n" * 288)
    options: tuple[str, ...] = ("--replan-demand", str(demand))
    if given == "plan":
        inputs = ("-p", str(site.platform), "--demand", str(demand), "--production", str(site.events))
        settings = ("--site", str(site.site), "--windows", "3", "-o", str(plan), "-q")
        assert exit_code("plan", *inputs, *settings) == 0
        options = ("--plan", str(plan))
    assert simulate(site, tmp_path / "a", "--replan", "window", *options, policy="beasy") == 0
    plans = [*read_plans(f"{tmp_path / 'a'}_plan.msgpack")]
    assert [each.provenance.rolled.number for each in plans[1:]] == [1, 2]
    for each in plans:
        assert np.all(each.demand.low_w >= 400.0 - 1e-6)
        assert np.median(each.demand.low_w) == pytest.approx(400.0)
        assert np.median(each.demand.high_w) == pytest.approx(1200.0)


def test_bad_quantiles_of_the_demand(
    site: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand = tmp_path / "demand.csv"
    demand.write_text("p10,p50\n" + "400,800\n" * 287 + "900,800\n")
    options = ("--replan", "window", "--replan-demand", str(demand))
    assert simulate(site, tmp_path / "a", *options) == 2
    assert "demand.csv:289: quantiles cross: p10 is 900 W, p50 800 W" in capsys.readouterr().err
    assert not [*tmp_path.glob("a_*")]


HYDROGEN = """
[hydrogen]
tank_kg = 4.0
level_start_kg = 2.0
level_target_kg = 2.0
electrolyzer_max_kw = 2.0
fuel_cell_max_kw = 1.0
"""


@pytest.mark.slow
def test_windows_take_the_season_s_targets(
    site: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wet = replace(site, site=tmp_path / "wet.toml")
    wet.site.write_text(site.site.read_text() + HYDROGEN)
    season = tmp_path / "season.msgpack"
    inputs = ("-p", str(site.platform), "-w", str(site.workload), "--production", str(site.events))
    assert exit_code("plan", "--season", *inputs, "--site", str(wet.site), "-o", str(season), "-q") == 0
    replan = ("--replan", "window", "--replan-season", str(season))
    assert simulate(wet, tmp_path / "a", *replan, policy="easy") == 0
    targets_kg = [
        plan.storage.hydrogen.level_target_kg for plan in read_plans(f"{tmp_path / 'a'}_plan.msgpack")
    ]
    assert targets_kg == pytest.approx(read_season(season).targets_for(3))
    assert len({*targets_kg, 2.0}) > 1
    assert simulate(site, tmp_path / "b", *replan, policy="easy") == 2
    assert "the site has no hydrogen: plan the season again" in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording_is_replayed_with_its_plans(site: SmallSite, tmp_path: Path):
    recording = tmp_path / "run.rec"
    assert simulate(site, tmp_path / "a", "--replan", "window", "--record", str(recording)) == 0
    assert exit_code("replay", str(recording), "-p", str(site.platform)) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replan", "3x"), "replan: "),
        (("--replan", "2d"), "expected between a step"),
        (("--replan-limit", "5"), "--replan-limit requires --replan"),
        (("--replan-season", "W"), "--replan-season requires --replan"),
        (("--replan", "window", "--replan-season", "none"), "none: "),
        (("--replan", "window", "--replan-workload", "W", "--replan-demand", "E"), "give only one of"),
    ],
)
def test_wrong_options(
    site: SmallSite, tmp_path: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
):
    named = {"W": str(site.workload), "E": str(site.events)}
    assert simulate(site, tmp_path / "a", *(named.get(each, each) for each in options)) == 2
    assert said in capsys.readouterr().err
    assert not [*tmp_path.glob("a_*")]


def test_plans_need_powers(site: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends in a message before its first plan, as `check` says."""
    text, count = re.subn(r'<prop id="[^"]*(?:watt|sleep)[^"]*"[^>]*>', "", site.platform.read_text())
    bare = replace(site, platform=tmp_path / "bare.xml")
    bare.platform.write_text(text)
    assert count
    assert simulate(bare, tmp_path / "a", "--replan", "window", policy="easy") == 2
    assert "--replan requires the speeds and powers of every host" in capsys.readouterr().err
    files = ("-p", str(bare.platform), "-w", str(site.workload), "--site", str(site.site))
    assert exit_code("check", *files, "--events", str(site.events), "--replan", "window", "-q") == 2
    assert not [*tmp_path.glob("a_*")]


def descendants(pid: int) -> Iterator[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    for child in map(int, found.stdout.split()):
        yield child
        yield from descendants(child)


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_planner_outlives_its_run(site: SmallSite, tmp_path: Path, number: int):
    inputs = ("-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events))
    options = ("--site", str(site.site), "--windows", "3", "--policy", "follow-plan", "--replan", "10m")
    command = [program("beasy-sched"), "simulate", *inputs, *options, "-e", str(tmp_path / "a"), "-q"]
    run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    planners: list[int] = []
    end_s = time.monotonic() + 60.0
    while not planners and time.monotonic() < end_s and run.poll() is None:
        time.sleep(0.05)
        planners = [*descendants(run.pid)]
    assert planners
    os.kill(run.pid, number)
    assert run.wait(60.0) != 0
    while time.monotonic() < end_s and any(alive(pid) for pid in planners):
        time.sleep(0.05)
    assert not [pid for pid in planners if alive(pid)]
    assert run.stderr is not None
    with run.stderr:
        assert "Traceback" not in run.stderr.read()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


# --- campaigns ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_campaign_may_plan_during_its_runs(tmp_path: Path):
    text = SMALL.replace("[platform]", '[plan]\nreplan = "window"\n\n[platform]').replace(
        'name = "small"', 'name = "small"\nwindows = 3'
    )
    scenario = parse_scenario(text)
    forecast = make_forecast(scenario, 0)
    assert forecast.plan.windows == 2
    real = make_real(scenario, forecast, 0, 1)
    from beasy_sched.plugins.campaigns.run_inputs import make_plan

    task = RunTask(
        policy=next(policy for policy in scenario.policies if policy.name == "follow-plan"),
        site=scenario.site_text(scenario.guards[0]),
        windows=3,
        platform=forecast.plan.platform,
        workload=real.workload,
        power=real.power,
        plan=make_plan(forecast.plan),
        replan="window",
        expected=(forecast.plan.workload, forecast.plan.production),
    )
    result = execute(task)
    assert result.error is None, result.trace
    assert result.summary is not None
    assert result.summary.replanning is not None
    assert result.summary.replanning.made == 2
    assert result.summary.settings.replan == {
        "every": "window",
        "workloads": ("forecast_workload.json",),
        "production": "forecast_power.txt",
    }


def test_scenarios_without_it_are_described_as_before():
    plain = parse_scenario(SMALL)
    assert "replan" not in plain_values(plain)["plan"]
    changed = parse_scenario(SMALL.replace("[platform]", '[plan]\nreplan = "1h"\n\n[platform]'))
    assert plain_values(changed)["plan"]["replan"] == "1h"
    assert scenario_hash(plain) != scenario_hash(changed)
    for wrong in ('replan = "soon"', 'replan = "1h"\ndemand_factor = 2', 'replan = "1h"\nmake = false'):
        with pytest.raises(InputError):
            parse_scenario(SMALL.replace("[platform]", f"[plan]\n{wrong}\n\n[platform]"))
