"""Training: the same bytes, whatever the number of processes and interruptions; wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from small_campaign import SMALL

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.learned.agents import QTable
from beasy_sched.plugins.learned.feature_names import Features
from beasy_sched.plugins.learned.model import ACTIONS, ALL_ACTIONS, Model, read_model, write_model
from beasy_sched.plugins.learning import training
from beasy_sched.plugins.learning.executions import FIRST_SEED, TrainingExecution, executions
from beasy_sched.plugins.learning.training import Lesson, chooser, learn, level_lines

BATCH = 3
"""Episodes of a batch in tests that train several times."""
TINY = SMALL.replace('"easy", "follow-plan", "workload-reactive"', '"peak"')
SCENARIO = parse_scenario(TINY)


class Incurious(Lesson):
    """Never explores."""

    def epsilon(self, episode: int) -> float:
        return 0.0


class Stopped(Exception):
    """Stands for a signal."""


def trained(
    lesson: Lesson, *, jobs: int = 2, earlier: Model | None = None, stop_after: int | None = None
) -> Model:
    """Train on the small scenario; ``stop_after`` so many batches."""
    kept: list[Model] = []

    def report(model: Model) -> None:
        kept.append(model)
        if stop_after is not None and len(kept) == stop_after:
            raise Stopped

    try:
        return learn(lesson, [SCENARIO], Processes(jobs), earlier=earlier, report=report)
    except Stopped:
        return kept[-1]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BATCH", BATCH)


def content(model: Model, path: Path) -> bytes:
    write_model(path, model)
    return path.read_bytes()


@pytest.mark.sampled
@pytest.mark.parametrize("learner", ["q-learning", "bandit"])
def test_the_same_bytes_with_one_process_or_two(learner, small_batches, tmp_path):
    lesson = Lesson(learner, BATCH + 2)
    one, two = trained(lesson, jobs=1), trained(lesson, jobs=2)
    assert content(one, tmp_path / "a") == content(two, tmp_path / "a")
    assert len(one.curve) == BATCH + 2
    assert np.any(one.values != lesson.new_agent().values if isinstance(lesson.new_agent(), QTable) else True)
    other = trained(Lesson(learner, BATCH + 2, seed=2))
    assert learner == "bandit" or content(other, tmp_path / "a") != content(one, tmp_path / "a")


@pytest.mark.sampled
@pytest.mark.parametrize("learner", ["q-learning", "bandit"])
def test_what_was_stopped_goes_on_to_the_same_bytes(learner, small_batches, tmp_path):
    lesson = Lesson(learner, 2 * BATCH)
    whole = trained(lesson)
    half = trained(lesson, stop_after=1)
    assert len(half.curve) == BATCH
    write_model(tmp_path / "half", half)
    assert content(trained(lesson, earlier=read_model(tmp_path / "half")), tmp_path / "a") == content(
        whole, tmp_path / "b"
    )
    assert content(trained(lesson, earlier=whole), tmp_path / "a") == content(whole, tmp_path / "b")


def test_q_learning_explores_less_and_less():
    lesson = Lesson("q-learning", 100)
    shares = [lesson.epsilon(episode) for episode in (0, 40, 79, 80, 99)]
    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(0.525)
    assert shares[2] > 0.05 > shares[3] == shares[4] == 0.0


def test_options_reach_the_agent():
    model = trained(Lesson("q-learning", 2, none=True, double=True, without=("night",), shaped=False))
    assert model.actions == ALL_ACTIONS
    assert model.values.shape == (2, 1440, 5)
    assert model.without == ("night",)
    assert model.training.settings["shaped"] == "false"


def test_what_explores_keeps_its_rules_for_an_episode():
    """For each class of E_comp, an action drawn or the agent's; step by step, drawn anew."""
    agent = QTable.new(ACTIONS)
    agent.values[:, :, 2] = 1.0
    few, much = (Features(comp, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0) for comp in (0.0005, 0.005))
    kept = []
    for seed in range(200):
        choose = chooser(agent, 0.5, np.random.default_rng(seed), ACTIONS, rules=True)
        first = choose(few)[0], choose(much)[0]
        assert all((choose(few)[0], choose(much._replace(soc=0.1))[0]) == first for _ in range(5))
        kept.append(first)
    for place in (0, 1):
        share = np.mean([first[place] == 2 for first in kept])
        assert share == pytest.approx(0.5 + 0.5 / 4, abs=0.12)
    assert len(set(kept)) > 10
    anew = chooser(agent, 1.0, np.random.default_rng(1), ACTIONS, rules=False)
    assert len({anew(few)[0] for _ in range(50)}) == len(ACTIONS)


@pytest.mark.slow
def test_rewards_beyond_a_reference():
    """Who always does as the reference gains nothing; the curve is of the agent's own rewards."""
    lesson = Lesson("q-learning", 2, reference="last")
    model = learn(Incurious("q-learning", 2, reference="last"), [SCENARIO], Processes(1))
    assert not model.values.any()
    assert model.visits.sum() > 0
    assert model.curve.all()
    assert model.training.settings["reference"] == "last"
    assert trained(lesson).values.any()


def test_levels_of_the_fixed_policies():
    levels = level_lines(trained(Lesson("bandit", 2)), [SCENARIO], Processes(2))
    assert set(levels) == {*ACTIONS, "random"}
    assert all(np.isfinite(list(levels.values())))


def test_executions_take_turns_and_share_days():
    other = parse_scenario(TINY.replace('name = "small"', 'name = "other"'))
    found = executions([SCENARIO, other], 42)
    assert [one.scenario.name for one in found[:3]] == ["small", "other", "small"]
    assert [found[n].day - FIRST_SEED for n in (0, 7, 8, 41)] == [0, 0, 1, 5]
    assert len({one.noise for one in found}) == 42


def test_seeds_of_tables_are_refused():
    for first in (1, 7000, FIRST_SEED - 1, 499_999):
        with pytest.raises(ConfigError, match="training uses 10000 to 499999"):
            executions([SCENARIO], 10, first)


def test_days_from_files_are_refused(tmp_path):
    trace = tmp_path / "t.swf"
    trace.write_text("1 0 0 60 1 -1 -1 1 90 -1 1 1 1 -1 1 -1 -1 -1\n")
    text = TINY.replace(TINY[TINY.index("[workload]") : TINY.index("[production]")], "")
    text += '\n[workload]\nsource = "swf"\nfile = "t.swf"\n'
    with pytest.raises(ConfigError, match="from files: agents learn from generated days"):
        _ = TrainingExecution(parse_scenario(text, tmp_path / "s.toml"), FIRST_SEED, 0).days


def test_a_scenario_without_a_plan_is_refused():
    text = TINY.replace('"peak"', '"easy"') + "\n[plan]\nmake = false\n"
    with pytest.raises(ConfigError, match="has no plan"):
        executions([parse_scenario(text)], 1)


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "tiny.toml").write_text(TINY)
    return str(tmp_path / "tiny.toml")


def test_the_command(file, tmp_path, capsys):
    out, figure = tmp_path / "m.msgpack", tmp_path / "curve.svg"
    command = ("learn", "--policy", "bandit", "--scenario", file, "--episodes", "3", "-o", str(out))
    assert exit_code(*command, "--figure", str(figure), "-j", "2") == 0
    told = capsys.readouterr()
    assert "3 of 3" in told.out
    assert f"wrote {out}" in told.err
    assert figure.read_text().startswith("<?xml")
    before = out.read_bytes()
    assert exit_code(*command, "-q") == 0
    assert out.read_bytes() == before
    assert exit_code("learn", "show", str(out), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["learner"] == "bandit"
    assert shown["seeds of the days"] == "10000 to 10000"
    assert {row["feature"] for row in shown["preferences"]} >= {"comp", "soc", "night"}
    assert max(map(len, told.out.splitlines())) <= 100


def test_wrong_input(file, tmp_path, capsys):
    out = tmp_path / "m.msgpack"
    command = ["learn", "--policy", "bandit", "--scenario", file, "--episodes", "2", "-o", str(out), "-q"]
    assert exit_code(*command) == 0
    whole = out.read_bytes()
    for arguments, told in (
        ([*command, "--seed", "2"], f"{out}: was trained with another seed (1, now 2)"),
        ([*command, "--gamma", "0"], "was trained with another gamma"),
        ([*command, "--policy", "q-learning"], "was trained with another learner"),
        ([*command, "--first-seed", "7000"], "training uses 10000 to 499999"),
        ([*command, "--scenario", "nowhere"], "nowhere"),
        (["learn", "--episodes", "2"], "missing option '-o'"),
        (["learn", "show", str(tmp_path / "none")], "cannot be read"),
    ):
        assert exit_code(*arguments) == 2, arguments
        assert told in capsys.readouterr().err
        assert out.read_bytes() == whole
    out.write_bytes(whole[:100])
    assert exit_code(*command) == 2
    assert "corrupt or truncated" in capsys.readouterr().err


def test_a_figure_that_cannot_be_drawn_is_told_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert exit_code("learn", "--policy", "bandit", "-o", "m.msgpack", "--figure", "no/a.svg") == 2
    assert "no/a.svg: cannot be written: its folder does not exist" in capfd.readouterr().err
    assert [*tmp_path.iterdir()] == []
