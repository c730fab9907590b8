"""The search for sizes over whole runs: with a made-up policy's results, and with real ones."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from command_line import exit_code
from msgspec.structs import replace
from small_campaign import SMALL, Here

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns import campaign as campaign_module
from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.size_balance import balance_sizes
from beasy_sched.plugins.campaigns.size_table import balance_lines, limits_text, size_json, size_lines
from beasy_sched.plugins.campaigns.sizing import Goal, SizeQuestion, find_sizes, ladder
from beasy_sched.plugins.campaigns.tasks import RunResult, RunTask, execute

SCARCE = (
    SMALL.replace('["easy", "follow-plan", "workload-reactive"]', '["easy"]')
    .replace('case = "best"\npv_kw = 1', "pv_kw = 0.3")
    .replace("jobs = 30", "jobs = 12")
    + '[[guards]]\nmode = "shed"\nveto = true\n[plan]\nmake = false\n'
)
QUICK = ("--from", "1", "--to", "4", "--resolution", "100", "--seeds", "1")


def question(goal: Goal | None = None, *, seeds=(1, 2), least=0.5, most=8.0, resolution=20.0):
    scenario = msgspec.structs.replace(parse_scenario(SCARCE), seeds=seeds)
    sizes = ladder(least, most, resolution)
    goal = goal or Goal(least_pct=90.0)
    return SizeQuestion(scenario, AXES["battery_kwh"], sizes, goal, scenario.guards[0])


@pytest.fixture(scope="module")
def real():
    """What an actual run says, to be changed."""
    caught: list[RunResult] = []

    def catch(task: RunTask) -> RunResult:
        caught.append(execute(task))
        return caught[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign_module, "execute", catch)
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory() as place:
            find_sizes(question(seeds=(1,), least=8.0), Path(place, "out"), Here())
    return caught[0]


@pytest.fixture
def made_up(real, monkeypatch):
    """Runs whose finished work is a function of the battery; returns the sizes that were run."""
    ran: list[float] = []

    def use(work_pct, **changes):
        def pretend(task: RunTask) -> RunResult:
            unlimited = "[grid]" in task.site
            line = next(line for line in task.site.splitlines() if line.startswith("capacity_kwh"))
            size = float(line.rpartition(" ")[2])
            ran.append(math.inf if unlimited else size)
            return RunResult(**vars(real) | {"work_finished_pct": work_pct(ran[-1])} | changes)

        monkeypatch.setattr(campaign_module, "execute", pretend)
        return ran

    return use


def test_the_smallest_size_is_found_and_nothing_runs_twice(made_up, tmp_path):
    asked = question()
    ran = made_up(lambda size: 100.0 if size >= 2.2 else 50.0)
    answer = find_sizes(asked, tmp_path / "out", Here())
    (easy,) = answer.policies
    expected = min(size for size in asked.sizes if size >= 2.2)
    assert easy.found == [expected, expected]
    assert (easy.median, easy.runs, answer.executed) == (expected, len(ran), len(ran))
    again = find_sizes(asked, tmp_path / "out", Here(0))
    assert (again.executed, again.policies[0].found) == (0, easy.found)


def test_another_goal_uses_the_runs_that_are_there(made_up, tmp_path):
    ran = made_up(lambda size: min(100.0, 25.0 * size))
    find_sizes(question(), tmp_path / "out", Here())
    before = len(ran)
    answer = find_sizes(question(Goal(least_pct=50.0)), tmp_path / "out", Here())
    assert 0 < answer.executed < before
    assert len(ran) == len({*ran}) * 2  # each once for each of two noises


def test_a_larger_size_that_fails_is_told(made_up, tmp_path):
    asked = question(seeds=(1,))
    odd = asked.sizes[6]
    made_up(lambda size: 100.0 if size >= asked.sizes[5] and size != odd else 50.0)
    answer = find_sizes(asked, tmp_path / "out", Here())
    (noise,) = answer.policies[0].noises
    assert answer.policies[0].found == [asked.sizes[7]]
    assert noise.found.failed_above == (6,)
    lines = [*size_lines(answer)]
    told = f"easy, realization t0.s1: {asked.sizes[5]:g} kWh meet the goal, {odd:g} do not; from"
    assert any(line.startswith(told) for line in lines)
    assert size_json(answer)["policies"][0]["noises"][0]["failed_above"] == [odd]


def test_interrupted_it_goes_on(made_up, tmp_path):
    made_up(lambda size: min(100.0, 25.0 * size))
    with pytest.raises(KeyboardInterrupt):
        find_sizes(question(), tmp_path / "out", Here(5))
    rest = find_sizes(question(), tmp_path / "out", Here())
    whole = find_sizes(question(), tmp_path / "other", Here())
    assert rest.executed == whole.executed - 5
    assert rest.policies[0].found == whole.policies[0].found


def test_more_noises_use_those_that_are_there(made_up, tmp_path):
    made_up(lambda size: min(100.0, 25.0 * size))
    first = find_sizes(question(seeds=(1,)), tmp_path / "out", Here())
    both = find_sizes(question(seeds=(1, 2)), tmp_path / "out", Here())
    assert both.executed == first.executed


def test_changed_inputs_are_run_again(made_up, tmp_path):
    made_up(lambda size: min(100.0, 25.0 * size))
    asked = question(seeds=(1,))
    find_sizes(asked, tmp_path / "out", Here())
    noise = msgspec.structs.replace(asked.scenario.noise, run_time_sigma=0.1)
    other = SizeQuestion(
        msgspec.structs.replace(asked.scenario, noise=noise), asked.axis, asked.sizes, asked.goal, asked.guard
    )
    assert find_sizes(other, tmp_path / "out", Here()).executed > 0


def test_of_unlimited_power(made_up, tmp_path):
    ran = made_up(lambda size: 80.0 if size == math.inf else min(75.0, 15.0 * size))
    answer = find_sizes(question(Goal(least_pct=90.0, of_unlimited=True)), tmp_path / "out", Here())
    assert answer.policies[0].median == min(size for size in answer.question.sizes if 15.0 * size >= 72.0)
    assert ran.count(math.inf) == 2


@pytest.mark.parametrize(
    ("work_pct", "lost_kwh", "told"),
    [
        (lambda size: 40.0, 0.0, "with unlimited power 40.00 %: power is not the limiting factor"),
        (lambda size: 100.0 if size == math.inf else 40.0, 0.0, "the limiting factor is production"),
        (
            lambda size: 100.0 if size == math.inf else 40.0,
            0.4,
            "the limiting factor is storage, or how the policy uses it",
        ),
    ],
)
def test_where_the_largest_does_not_suffice_it_is_told_why(work_pct, lost_kwh, told, real, made_up, tmp_path):
    energy = replace(real.summary.energy_kwh, production=1.0, curtailed=lost_kwh)
    made_up(work_pct, summary=replace(real.summary, energy_kwh=energy))
    answer = find_sizes(question(), tmp_path / "out", Here())
    assert answer.policies[0].median == math.inf
    assert max(map(len, size_lines(answer))) <= 80
    text = limits_text(answer.policies[0], answer.question)
    assert text.startswith(
        "8 kWh do not suffice in 2 of 2 realizations. In realization t0.s1, 40.00 % of the work"
    )
    assert told in text
    assert "> 8" in "\n".join(size_lines(answer))
    assert answer.executed == 3  # the largest in both noises, and one without limits


def test_failed_runs_do_not_meet_the_goal_and_are_told(made_up, tmp_path):
    made_up(lambda size: 100.0, error="the run broke")
    answer = find_sizes(question(), tmp_path / "out", Here())
    assert "the run failed: the run broke" in limits_text(answer.policies[0], answer.question)


@pytest.mark.parametrize(
    ("goal", "change", "met"),
    [
        (Goal(), {}, True),
        (Goal(), {"work_finished_pct": 98.9}, False),
        (Goal("jobs"), {"finished_pct": 98.9}, False),
        (Goal(no_kills=True), {}, True),
        (Goal(no_kills=True), {"jobs_killed": 1}, False),
        (Goal(), {"jobs_killed": 1}, True),
        (Goal(end_at_target=True), {"soc_distance_points": -0.1}, False),
        (Goal(end_at_target=True), {"hydrogen_distance_kg": -0.1}, False),
        (Goal(), {"soc_distance_points": -0.1}, True),
        (Goal(), {"status": "failed"}, False),
        (Goal(), {"work_finished_pct": None}, False),
    ],
)
def test_goals(goal, change, met):
    row = {
        "status": "ok", "work_finished_pct": 99.0, "finished_pct": 99.0, "jobs_killed": 0,
        "soc_distance_points": 1.0, "hydrogen_distance_kg": None,
    }  # fmt: skip
    assert goal.met(row | change) is met


def test_a_real_search_agrees_with_running_every_size(tmp_path):
    asked = question(seeds=(1,), least=0.5, most=2.0, resolution=40.0)
    answer = find_sizes(asked, tmp_path / "out", Here())
    (noise,) = answer.policies[0].noises
    assert sorted(noise.probes) == [*range(len(asked.sizes))]
    good = [asked.goal.met(noise.probes[rung]) for rung in range(len(asked.sizes))]
    assert good[-1]
    assert not good[0]
    assert noise.found.rung == max(rung for rung, fine in enumerate(good) if not fine) + 1


def test_the_balance_of_the_same_question():
    asked = question()
    first, second = balance_sizes(asked)
    assert (first.seed, second.seed) == (1, 2)
    for answer in (first, second):
        assert (answer.served_pct[:-1] <= answer.served_pct[1:] + 1e-9).all()
        rung = answer.found.rung
        assert rung is None or (answer.served_pct[rung] >= 90 and not (answer.served_pct[:rung] >= 90).any())
    assert max(map(len, balance_lines(asked, [first, second]))) <= 80
    with pytest.raises(ConfigError, match="supports only --goal work"):
        balance_sizes(question(Goal("jobs")))
    with pytest.raises(ConfigError, match="cannot be used with --no-kills"):
        balance_sizes(question(Goal(no_kills=True)))


def test_the_balance_knows_the_production_of_every_size_from_two():
    base = question()
    sizes = ladder(0.1, 0.5, 20)
    asked = SizeQuestion(base.scenario, AXES["pv_kw"], sizes, Goal(), base.guard)
    (whole, _), alone = balance_sizes(asked), []
    for size in sizes:
        one = SizeQuestion(base.scenario, AXES["pv_kw"], (size,), Goal(), base.guard)
        alone.append(balance_sizes(one)[0].served_pct[0])
    assert whole.served_pct.tolist() == pytest.approx(alone, abs=1e-6)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SCARCE)
    return str(path)


def test_the_command(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("beasy_sched.plugins.campaigns.commands.size.executor_of", lambda how, jobs: Here())
    arguments = ["size", file, "--least", "90", *QUICK, "-o", str(tmp_path / "out")]
    assert exit_code(*arguments) == 0
    table = capsys.readouterr()
    assert table.out.startswith(
        "battery_kwh: battery capacity [kWh] with which 90 % of the work is finished\n"
    )
    assert max(map(len, table.out.splitlines())) <= 80
    assert "runs executed; all are in" in table.err
    assert exit_code(*arguments, "--json", "-q") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["executed"], told["axis"], told["sizes"]) == (0, "battery_kwh", [1, 2, 4])
    (easy,) = told["policies"]
    assert easy["median"] == easy["noises"][0]["size"]
    assert exit_code("size", file, "--balance", "--find", "pv_kw", "--least", "50", "--json") in (0, 1)
    assert json.loads(capsys.readouterr().out)["axis"] == "pv_kw"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "2", "--to", "1"], "--from 2 --to 1: expected two sizes above 0, the smaller one first"),
        (["--from", "0"], "--from 0 --to 20: expected two sizes above 0"),
        (["--set", "moon_kw=1"], "--set.moon_kw: no such axis, expected one of pv_kw"),
        (["--set", "pv_kw"], "write AXIS=SIZE, such as pv_kw=12"),
        (["--set", "pv_kw=-1"], "--set pv_kw: found -1.0, expected a number from 0"),
        (["--find", "moon_kw"], "'moon_kw' is not one of 'pv_kw'"),
        (
            ["--find", "tank_kg"],
            "--find tank_kg: the scenario has no single value of it: give --from and --to",
        ),
        (["--find", "tank_kg", "--from", "1", "--to", "2"], "tank_kg: the site has no hydrogen.tank_kg"),
        (["--guard", "none"], "--guard: found 'none', expected one of shed+veto"),
        (["--policy", "no-such"], "policies[0]: unknown policy 'no-such'"),
        (
            ["--policy", "follow-plan"],
            "plan.make: found false, but policies[0], 'follow-plan', requires a plan",
        ),
        (["--least", "101"], "found '101', expected a number above 0, at most 100"),
        (["--resolution", "0"], "resolution: found 0 %, expected above 0"),
    ],
)
def test_what_is_wrong_is_told(arguments, message, file, tmp_path, capsys):
    assert exit_code("size", file, *arguments, "-o", str(tmp_path / "out")) == 2
    assert message in capsys.readouterr().err.replace("\n       ", " ")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(file, tmp_path, capsys):
    assert exit_code("size", file, "-o", str(tmp_path)) == 2
    assert "is not empty and does not contain a search for sizes" in capsys.readouterr().err
    assert exit_code("size", file) == 2
    assert "Missing option '-o'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_the_same_command_goes_on(number, file, tmp_path):
    command = [sys.executable, "-m", "beasy_sched", "size", file, "--least", "90", *QUICK]
    command += ["-o", str(tmp_path / "out"), "-j", "1", "-q", "--json"]
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)
    rows = tmp_path / "out" / "rows"
    end = time.monotonic() + 120
    while not (rows.is_dir() and [*rows.glob("*.json")]):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=600)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert b"finished runs are kept. To continue: run the same command again" in said
    kept = {path.name: path.stat().st_mtime_ns for path in rows.glob("*.json")}
    done = subprocess.run(command, capture_output=True, env=variables, timeout=600)
    assert done.returncode == 0, done.stderr
    assert all((rows / name).stat().st_mtime_ns == moment for name, moment in kept.items())
    told = json.loads(done.stdout)
    assert told["executed"] == told["policies"][0]["runs"] - len(kept)
