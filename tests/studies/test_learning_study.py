"""The evaluation of learned compensation: what is run, and its statistics on numbers that can be checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawn_figures import drawn
from small_campaign import Here
from studies.claims import Ruling, judge
from studies.comparison.study import Extent
from studies.learning import study as learning_study
from studies.learning.claims import (
    CLAIMS,
    FinishesMore,
    best_fixed,
    case_tables,
    lead_table,
    learning_claim_table,
    results_of_cases,
)
from studies.learning.figures import learning_figures, preference_tables
from studies.learning.study import (
    EVALUATED,
    FIXED,
    FULL,
    VARIATIONS,
    VARIED,
    Evaluation,
    _learned_again,
    learned_models,
    reward_levels,
)

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS, PolicyPart
from beasy_sched.plugins.learned.feature_names import FEATURES
from beasy_sched.plugins.learned.model import read_model, shipped_model
from beasy_sched.plugins.learning.training import Lesson, lesson_of


def extent(first: int = 9000, *, noises: int = 3, pairs: int = 2, small: bool = False) -> Extent:
    seeds = range(first, first + noises)
    return Extent(seeds, range(first, first + pairs), noises, PAPER_GUARDS[:1], small=small)


def test_everything_runs_on_the_same_executions():
    agent = PolicyPart(name="random", label="other", options={"seed": 3})
    average, *critical = Evaluation(extent(), 1, others=(agent,)).scenarios()
    assert average.name == "average"
    assert [scenario.name for scenario in critical] == [
        f"critical.{name}" for name in ("best-begin", "best-end", "worst-begin", "worst-end")
    ]
    for scenario in (average, *critical):
        assert [policy.label for policy in scenario.policies] == [*EVALUATED, "other"]
        assert scenario.seeds == (9000, 9001, 9002)
        assert scenario.guards == PAPER_GUARDS[:1]
    assert [part.workload.seed for part in average.tuples] == [9000, 9001]


@pytest.mark.parametrize("first", [9_998, 10_000, 12_345])
def test_executions_that_agents_learned_from_are_refused(first: int):
    with pytest.raises(ConfigError, match=r"choose seeds up to 9999"):
        Evaluation(extent(first), 1)
    Evaluation(extent(9_997), 1)


def test_variations():
    evaluation = Evaluation(extent(), 2)
    assert evaluation.variations == tuple(VARIATIONS)
    assert {f"without-{name}" for name in FEATURES} < set(VARIATIONS)
    lesson, scenarios = evaluation.lesson()
    shipped = lesson_of(read_model(shipped_model("q-learning")))
    assert lesson == replace(shipped, episodes=40)
    assert len(scenarios) == 5
    assert Evaluation(extent(), 0).variations == ()


@pytest.mark.slow
def test_variations_learn_from_the_same_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learning_study, "_QUICK_EPISODES", 2)
    evaluation = Evaluation(extent(5000, noises=1, pairs=1, small=True), 1)
    told: list[float] = []
    paths = evaluation.train(tmp_path, Here(), told.append)
    assert told == [1.0]
    assert [*paths] == ["full", "gamma-0", "no-shaping"]
    models = {name: read_model(path) for name, path in paths.items()}
    lesson, [scenario] = evaluation.lesson()
    assert scenario.parsed_site().window_s == 24 * 3600
    again = _learned_again(tmp_path / "episodes", lesson, {}, models["full"])
    assert np.array_equal(again.values, models["full"].values)
    assert models["gamma-0"].training.settings["gamma"] == "0"
    assert models["no-shaping"].training.settings["shaped"] == "false"
    assert not np.array_equal(models["no-shaping"].values, models["full"].values)
    assert not np.array_equal(models["gamma-0"].values, models["full"].values)
    blind = _learned_again(tmp_path / "episodes", lesson, {"without": ("soc",)}, models["full"])
    assert blind.without == ("soc",)
    assert 0 < (blind.visits > 0).sum() < (models["full"].visits > 0).sum()
    [varied] = evaluation.varied(paths)
    assert varied.name == VARIED
    assert [policy.label for policy in varied.policies] == [*paths]
    assert varied.policies[1].options == {"model": str(paths["gamma-0"])}
    (tmp_path / "episodes" / "0.msgpack").write_bytes(b"\x91")
    with pytest.raises(InputError, match="is damaged"):
        evaluation.train(tmp_path, Here())


def test_levels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def levels(*_: object, **__: object) -> dict[str, float]:
        calls.append(1)
        return {"last": 0.5}

    monkeypatch.setattr(learning_study, "level_lines", levels)
    model = read_model(shipped_model("bandit"))
    for _ in range(2):
        assert reward_levels(tmp_path / "levels.json", model, Here()) == {"last": 0.5}
    assert len(calls) == 1
    other = replace(model, training=replace(model.training, seed=2))
    reward_levels(tmp_path / "levels.json", other, Here())
    assert len(calls) == 2


# --- results ------------------------------------------------------------------------------------------------

FINISHED = dict.fromkeys(EVALUATED, 70.0) | {"last": 78.0, "q-learning": 79.0, "bandit": 76.0}


def runs(case: str, finished: dict[str, float], *, pairs: int = 8) -> pd.DataFrame:
    """Two noises on some pairs of days; policies differ by the same everywhere, but for a little noise."""
    rows = []
    wobble = np.random.default_rng(1)
    for policy, value in finished.items():
        for pair in range(pairs):
            for seed in (1, 2):
                share = value + pair + 0.1 * wobble.normal()
                rows.append(
                    {"scenario": case, "tuple": pair, "seed": seed, "policy": policy, "status": "ok",
                     "guard": "kill-all", "veto": False, "finished_pct": share, "work_finished_pct": share,
                     "killed_as_in_paper_pct": 100.0 - share, "soc_distance_points": -2.0,
                     "wasted_kwh": 50.0, "curtailed_kwh": 0.0, "bounded_slowdown_mean": 2.0,
                     "bounded_slowdown_p95": 4.0}
                )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def results():
    varied = {FULL: 79.0, "gamma-0": 75.0}
    critical = FINISHED | {"q-learning": 77.0}
    return results_of_cases(
        pd.concat([runs("average", FINISHED), runs("critical.worst-end", critical)]), runs(VARIED, varied)
    )


@pytest.mark.slow
def test_verdicts(results):
    verdicts = {
        (v.claim.name, v.claim.part, v.claim.text.rpartition(": ")[2]): v for v in judge(CLAIMS, results)
    }
    rulings = {key: verdict.ruling for key, verdict in verdicts.items()}
    assert rulings["C1", "average", "q-learning"] is Ruling.HOLDS
    assert rulings["C1", "average", "bandit"] is Ruling.FAILS
    assert rulings["C1", "critical", "q-learning"] is Ruling.FAILS
    assert rulings["C1", "average", "random"] is Ruling.FAILS
    assert rulings["C2", "average", "bandit"] is Ruling.HOLDS
    [c3] = [verdict for key, verdict in verdicts.items() if key[0] == "C3"]
    assert c3.ruling is Ruling.FAILS
    assert c3.ours.startswith("-4.0")
    table = learning_claim_table([*verdicts.values()])
    assert len(table.rows) == len(CLAIMS)
    assert "p 0.008" in verdicts["C1", "average", "q-learning"].ours  # 2 of 256 patterns


def test_a_lead_is_over_the_best_of_the_others(results):
    truth, told = FinishesMore("average", "q-learning", FIXED)(results)
    assert truth.all()
    assert told.startswith("+1.0")
    assert "from last" in told
    assert best_fixed(results["average"]) == "last"


def test_who_is_as_good_as_itself_is_not_better(results):
    assert not FinishesMore("average", "last", ("last",))(results)[0].any()
    assert FinishesMore("average", "last", ("last",), or_as_many=True)(results)[0].all()


@pytest.mark.slow
def test_claims_without_runs_are_left_out():
    verdicts = judge(CLAIMS, results_of_cases(runs("average", FINISHED)))
    judged = learning_claim_table(verdicts).rows
    assert {row[1] for row in judged} == {"average"}


def test_tables(results):
    tables = [*case_tables(results)]
    titles = [table.title for table in tables]
    assert titles[:3] == [
        "Means: average cases",
        "Differences from random: average cases",
        "Differences from last: average cases",
    ]
    assert titles[-1] == "Differences from full: variations"
    assert tables[0].rows[0][:2] == ("q-learning", tables[0].rows[0][1])
    assert [row[0] for row in tables[0].rows[:3]] == ["q-learning", "last", "bandit"]
    differences = {row[0]: row[1] for row in lead_table("here", results["average"], "random").rows}
    assert differences["last"].startswith(("+8.0", "+7.9"))
    assert differences["last"].endswith("0.008")
    assert "8 pairs of days" in tables[1].note


@pytest.mark.slow
def test_figures_and_preferences(results):
    pytest.importorskip("matplotlib").use("Agg")
    models = learned_models()
    levels = dict.fromkeys(("random", *FIXED), 0.1)
    assert drawn(learning_figures(models, levels, results)) == [
        "learning-curves", "learning-average", "learning-critical", "learning-variations",
    ]  # fmt: skip
    q_learning, bandit = preference_tables(models)
    assert q_learning.head[:3] == ("feature", "class", "steps")
    assert bandit.head[2] == "states"
    assert {row[0] for row in q_learning.rows} == {*FEATURES, ""}
    shares = [sum(float(cell) for cell in row[3:] if cell) for row in bandit.rows]
    assert shares == pytest.approx([100.0] * len(shares), abs=2.0)


def test_lessons_are_read_from_models():
    model = read_model(shipped_model("bandit"))
    lesson = lesson_of(model)
    assert isinstance(lesson, Lesson)
    assert lesson.described() == model.training.settings
    assert lesson.learner == "bandit"
