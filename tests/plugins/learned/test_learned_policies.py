"""random, q-learning, bandit: each step is compensated exactly as one of the four."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from small_site import SmallSite, small_site

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.learned.agents import LinearBandit, QTable
from beasy_sched.plugins.learned.feature_names import Features
from beasy_sched.plugins.learned.features import EDGES
from beasy_sched.plugins.learned.learned_policy import ChoosingEnvelope, Trail
from beasy_sched.plugins.learned.model import (
    ACTIONS,
    ALL_ACTIONS,
    Model,
    Training,
    read_model,
    shipped_model,
    write_model,
)
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

FROM = Training("beasy-sched 0", {"average": "0" * 64}, 1, (10_000, 10_000), (10_000, 10_001), 2, {})


def a_model(**changes: object) -> Model:
    """A table that has learned that `next` is best everywhere."""
    agent = QTable.new(ACTIONS)
    agent.values[:, :, ACTIONS.index("next")] = 1.0
    model = Model.of(agent, FROM, np.zeros(2))
    return Model(**{**model.__dict__, **changes})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    """With a plan made for less sun than comes."""
    made = small_site(tmp_path_factory.mktemp("site"))
    lines = [json.loads(line) for line in made.events.read_text().splitlines()]
    for line in lines:
        line["power_available"] *= 0.7
    forecast = made.site.with_name("forecast.txt")
    forecast.write_text("".join(json.dumps(line) + "\n" for line in lines))
    inputs = ("-p", str(made.platform), "-w", str(made.workload), "--production", str(forecast))
    plan = str(made.site.with_name("plan.msgpack"))
    assert exit_code("plan", *inputs, "--site", str(made.site), "-o", plan, "-q") == 0
    return made


def run(site: SmallSite, prefix: Path, name: str, policy: ChoosingEnvelope | None = None, **options: object):
    settings = RunSettings(
        policy=name,
        options=options,
        site=site.site.read_text(),
        plan=str(site.site.with_name("plan.msgpack")),
    )
    files = RunFiles(str(prefix), settings)
    summary = run_in_process(Inputs(site.platform, [site.workload], [site.events]), files, policy=policy)
    assert summary.complete
    return summary


def always(action: str) -> ChoosingEnvelope:
    policy = ChoosingEnvelope()
    policy.choose = lambda features: (ACTIONS.index(action), {})
    return policy


@pytest.mark.sampled
@pytest.mark.parametrize("action", ACTIONS)
def test_one_action_for_ever_is_that_policy(site: SmallSite, tmp_path: Path, action: str) -> None:
    run(site, tmp_path / "a", action)
    run(site, tmp_path / "b", action, always(action))
    for name in ("jobs.csv", "energy_trace.csv", "pstate_changes.csv"):
        assert (tmp_path / f"a_{name}").read_bytes() == (tmp_path / f"b_{name}").read_bytes()


@pytest.mark.slow
def test_random_draws_all_four_and_the_same_with_the_same_seed(site: SmallSite, tmp_path: Path) -> None:
    first = run(site, tmp_path / "a", "random", seed=3)
    again = run(site, tmp_path / "b", "random", seed=3)
    other = run(site, tmp_path / "c", "random", seed=4)
    chosen = first.by_policy["compensation"]
    assert set(chosen) == {f"chosen_{name}" for name in ACTIONS}
    assert min(chosen.values()) > 30
    assert again.by_policy["compensation"] == chosen != other.by_policy["compensation"]
    assert (tmp_path / "a_decisions.jsonl").read_bytes() == (tmp_path / "b_decisions.jsonl").read_bytes()


def test_none_leaves_the_difference_in_the_battery(site: SmallSite, tmp_path: Path) -> None:
    summary = run(site, tmp_path / "a", "random", none=True)
    assert summary.by_policy["compensation"]["chosen_none"] > 30
    lines = [json.loads(line) for line in (tmp_path / "a_decisions.jsonl").read_text().splitlines()]
    told = [line.get("facts", {}) for line in lines]
    nothing = [facts for facts in told if facts.get("as_policy") == "none"]
    assert nothing
    assert all(facts["steps_changed"] == 0 for facts in nothing)


@pytest.mark.slow
def test_what_was_learned_decides(site: SmallSite, tmp_path: Path) -> None:
    write_model(tmp_path / "m.msgpack", a_model())
    learned = run(site, tmp_path / "a", "q-learning", model=str(tmp_path / "m.msgpack"))
    run(site, tmp_path / "b", "next")
    assert learned.by_policy["compensation"]["model"] == str(tmp_path / "m.msgpack")
    assert learned.by_policy["compensation"]["chosen_next"] > 100
    assert (tmp_path / "a_jobs.csv").read_bytes() == (tmp_path / "b_jobs.csv").read_bytes()


@pytest.mark.plugins("reports")
def test_explain_tells_the_values(
    site: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "m.msgpack", a_model())
    run(site, tmp_path / "a", "q-learning", model=str(tmp_path / "m.msgpack"))
    capsys.readouterr()
    assert exit_code("explain", str(tmp_path / "a"), "--at", "6h") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "It was compensated like next, the best choice expected in such a step: last 0, next 1" in text


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["q-learning", "bandit"])
def test_models_come_with_the_program(site: SmallSite, tmp_path: Path, name: str) -> None:
    model = read_model(shipped_model(name))
    assert model.learner == name
    assert model.training.episodes >= 200
    assert min(*model.training.days, *model.training.noises) >= 10_000
    summary = run(site, tmp_path / "a", name)
    assert summary.by_policy["compensation"]["model"] == "the built-in model"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"edges": {**EDGES, "soc": (0.5,)}}, "other classes of 'soc'"),
        ({"edges": {"comp": (0.0,)}}, "other features"),
        ({"actions": ("fly", "sink")}, "actions: found fly, sink"),
        ({"values": np.zeros((1, 7, 4))}, "values: found an array of shape"),
        ({"values": np.full((1, 1440, 4), np.nan)}, "expected finite ones"),
        ({"without": ("colour",)}, "excludes colour"),
    ],
)
def test_models_that_cannot_be(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    path = tmp_path / "m.msgpack"
    write_model(path, a_model(**changes))
    with pytest.raises(InputError, match=told):
        make_policy("q-learning", {"model": str(path)})


def test_damaged_foreign_and_newer_files(tmp_path: Path) -> None:
    path = tmp_path / "m.msgpack"
    write_model(path, a_model())
    whole = path.read_bytes()
    for content, told in (
        (whole[: len(whole) // 2], "corrupt or truncated"),
        (whole[:-3] + b"abc", "damaged"),
        (b"something else", "is not a beasy-sched model"),
        (whole.replace(b"\xa7version\x01", b"\xa7version\x02", 1), "has format version 2"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=told):
            make_policy("q-learning", {"model": str(path)})
    with pytest.raises(InputError, match="cannot be read"):
        make_policy("bandit", {"model": str(tmp_path / "none.msgpack")})


def test_a_model_of_the_other_learner(tmp_path: Path) -> None:
    write_model(tmp_path / "m.msgpack", Model.of(LinearBandit.new(ALL_ACTIONS), FROM, np.zeros(1)))
    with pytest.raises(ConfigError, match="found a model of 'bandit', expected one of 'q-learning'"):
        make_policy("q-learning", {"model": str(tmp_path / "m.msgpack")})


# --- rewards ------------------------------------------------------------------------------------------------


SEEN = Features(0.1, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0)


def test_a_trail_of_two_windows() -> None:
    """Rewards follow their step; nothing is carried over a window's end."""
    trail = Trail(gamma=0.5)
    trail.work = [0.0, 1.0, 2.0, 4.0, 8.0]
    trail.potential = [-1.0, -0.5, -0.25, -1.0, -3.0]
    trail.windows = [0, 0, 0, 1, 1]
    trail.choices = {0: (SEEN, 0), 2: (SEEN, 1), 3: (SEEN, 2)}
    rewards = [1 - 0.25 + 1, 2 - 0.125 + 0.5, 4 + 0.25, 8 - 1.5 + 1, 3.0]
    assert trail.rewards() == rewards
    first, second = trail.steps()
    assert [step.action for step in first] == [0, 1]
    assert first[0].reward == rewards[0] + 0.5 * rewards[1]
    assert first[0].discount == 0.25
    assert first[0].credit == pytest.approx((rewards[0] + 0.5 * rewards[1] + 0.25 * rewards[2]) / 1.75)
    assert (first[1].reward, first[1].discount) == (rewards[2], 0.0)
    assert second[0].reward == rewards[3] + 0.5 * rewards[4]
    assert second[0].discount == 0.0


def test_credit_to_the_end_of_the_window_beyond_a_reference() -> None:
    trail = Trail(gamma=0.5)
    trail.work, trail.potential, trail.windows = [0.0, 1.0, 2.0, 4.0], [0.0] * 4, [0, 0, 0, 1]
    trail.choices = {0: (SEEN, 0), 3: (SEEN, 1)}
    assert trail.steps()[0][0].credit == (1.0 + 0.5 * 2.0 + 0.25 * 4.0) / 1.75
    (first,), (second,) = trail.steps((1.0, 1.0, 1.0, 2.0))
    assert first.reward == 0.0 + 0.5 * 1.0 + 0.25 * 3.0
    assert first.credit == first.reward / 1.75
    assert second.reward == -2.0


def test_potentials_cancel_out_but_for_the_ends() -> None:
    trail = Trail(gamma=1.0)
    rng = np.random.default_rng(1)
    trail.potential, trail.work = rng.normal(size=20).tolist(), [0.0] * 20
    trail.windows = [0] * 20
    assert sum(trail.rewards()) == pytest.approx(-trail.potential[0])


def test_rewards_of_a_run_are_its_work(site: SmallSite, tmp_path: Path) -> None:
    """Without the potential: the flops of jobs that ended before the last step, killed ones twice against."""
    policy = always("next")
    policy.shaped, policy.reward = False, "work"
    begin = policy.begin
    jobs: dict[str, object] = {}

    def noting(view: object) -> None:
        begin(view)
        policy.note_rewards()

    policy.begin = noting  # type: ignore[method-assign]
    power_actions = policy.power_actions

    def counting(view):  # type: ignore[no-untyped-def]
        jobs.update({job.id: job for job in view.ended})
        return power_actions(view)

    policy.power_actions = counting  # type: ignore[method-assign]
    run(site, tmp_path / "a", "next", policy)
    trail = policy.trail
    assert trail is not None
    states = {job.state for job in jobs.values()}
    assert {JobState.FINISHED, JobState.KILLED} <= states
    done = sum(
        job.work_flops * job.res * (1.0 if job.state is JobState.FINISHED else -2.0)
        for job in jobs.values()
        if job.state is not JobState.REJECTED
    )
    scale = policy._meter.expected_flops(policy.plan, 0)
    assert sum(trail.rewards()) == pytest.approx(done / scale)
    assert 0.2 < abs(np.mean(trail.work)) < 2.0


def test_rewards_of_jobs_are_counted(site: SmallSite, tmp_path: Path) -> None:
    """One for each that finished, less two for each that was killed or reached its walltime."""
    policy, seen = always("next"), dict[str, JobState]()
    policy.shaped = False
    begin, power_actions = policy.begin, policy.power_actions

    def noting(view: object) -> None:
        begin(view)  # type: ignore[arg-type]
        policy.note_rewards()

    def counting(view):  # type: ignore[no-untyped-def]
        seen.update({job.id: job.state for job in view.ended})
        return power_actions(view)

    policy.begin, policy.power_actions = noting, counting  # type: ignore[method-assign, assignment]
    run(site, tmp_path / "a", "next", policy)
    assert policy.trail is not None
    states = [state for state in seen.values() if state is not JobState.REJECTED]
    lost = sum(state is not JobState.FINISHED for state in states)
    assert lost > 0
    assert sum(policy.trail.rewards()) == len(states) - 3 * lost
