"""What agents learn, on problems whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.learned.agents import (
    LinearBandit,
    QTable,
    Transition,
    check_definitions,
    gamma_of,
)
from beasy_sched.plugins.learned.feature_names import FEATURES, Features
from beasy_sched.plugins.learned.features import CLASSES, EDGES, STATES, as_numbers, classes_of, state_of

HERE = Features(comp=0.05, soc=0.6, left=0.9, pressure=0.0, danger=0.0, trend=0.2, night=0.0)
THERE = HERE._replace(soc=0.1)
NO_COIN = np.random.default_rng(0)


def test_there_are_as_many_states_as_the_classes_give():
    assert CLASSES == (5, 4, 3, 3, 2, 2, 2)
    assert STATES == 1440


@given(st.integers(0, STATES - 1))
def test_a_state_is_its_classes(state: int):
    """A value from each class of each feature leads back to the state."""
    found = {}
    for name, place in classes_of(state).items():
        edges = [-1e9, *EDGES[name], 1e9]
        found[name] = edges[place] if place else edges[1] - 1e-6
    assert state_of(Features(**found)) == state


def test_values_at_an_edge_belong_to_the_upper_class():
    assert classes_of(state_of(HERE._replace(comp=0.001)))["comp"] == 3
    assert classes_of(state_of(HERE._replace(comp=-0.01)))["comp"] == 1
    assert classes_of(state_of(HERE._replace(pressure=0.25)))["pressure"] == 2


def test_features_that_are_not_seen_make_no_difference():
    assert state_of(HERE) != state_of(THERE)
    blind = frozenset({"soc"})
    assert state_of(HERE, blind) == state_of(THERE, blind)


@given(st.tuples(*[st.floats(-3, 3)] * len(FEATURES)))
def test_numbers_are_from_minus_one_to_one(values: tuple[float, ...]):
    numbers = as_numbers(Features(*values))
    assert numbers.shape == (len(FEATURES),)
    assert np.all(np.abs(numbers) <= 1.0)


def chain(rng: np.random.Generator, length: int = 300) -> list[Transition]:
    """From HERE, action 0 stays and gives 0; action 1 goes THERE, which gives 1 at the price of 0.1."""
    steps, state = [], HERE
    for number in range(length):
        action = int(rng.integers(2))
        reward = (1.0 if state is THERE else 0.0) - (0.1 if action else 0.0)
        steps.append(Transition(state, action, reward, 0.5 if number + 1 < length else 0.0, reward))
        state = THERE if action else HERE
    return steps


@pytest.mark.sampled
@pytest.mark.parametrize("double", [False, True])
def test_q_learning_finds_the_values_of_a_chain(double: bool):
    """V(there) = 1 - 0.1 + V(there) / 2 = 1.8, V(here) = -0.1 + V(there) / 2 = 0.8; waiting: V(here) / 2."""
    agent, rng = QTable.new(("wait", "go"), double=double), np.random.default_rng(1)
    for _ in range(100):
        agent.learn(chain(rng), rng)
    assert agent.value_of(THERE) == pytest.approx([1.4, 1.8], abs=0.06)
    assert agent.value_of(HERE) == pytest.approx([0.4, 0.8], abs=0.06)


def test_returns_of_a_window_by_hand():
    """Lambda 1: what came of the choices; 0.5: half of it, and half of what is expected; a visit each."""
    steps = [
        Transition(HERE, 0, 1.0, 0.5, 0.0),
        Transition(HERE, 0, 3.0, 0.5, 0.0),
        Transition(THERE, 1, 8.0, 0.0, 0.0),
    ]
    whole, half = QTable.new(("a", "b"), trace=1.0), QTable.new(("a", "b"), trace=0.5)
    half.values[0, state_of(THERE)] = 4.0
    for agent in (whole, half):
        agent.learn(steps, NO_COIN)
    assert whole.value_of(HERE).tolist() == [((1 + 0.5 * (3 + 0.5 * 8)) + (3 + 0.5 * 8)) / 2, 0.0]
    second = 3 + 0.5 * (0.5 * 8 + 0.5 * 4)
    assert half.value_of(HERE).tolist() == [((1 + 0.5 * 0.5 * second) + second) / 2, 0.0]
    assert whole.visits.sum() == 2
    whole.learn(steps[2:], NO_COIN)
    assert whole.value_of(THERE).tolist() == [0.0, 8.0]


@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_nothing_is_expected_after_the_last_step_nor_after_one_that_ends_all(trace: float):
    """Also where the last step has a discount, since its window was cut off; a discount of 0 ends all."""
    agent = QTable.new(("a", "b"), trace=trace)
    agent.values[:] = 100.0
    agent.learn([Transition(HERE, 0, 3.0, 0.5, 0.0)], NO_COIN)
    assert agent.value_of(HERE).tolist() == [3.0, 100.0]
    agent.learn([Transition(HERE, 1, 2.0, 0.0, 0.0), Transition(THERE, 0, 8.0, 0.5, 0.0)], NO_COIN)
    assert agent.value_of(HERE).tolist() == [3.0, 2.0]
    assert agent.value_of(THERE).tolist() == [8.0, 100.0]


@pytest.mark.parametrize(("trace", "second"), [(0.0, 3 + 0.5 * 4), (0.25, 3 + 0.5 * (0.25 * 8 + 0.75 * 4))])
def test_the_step_before_the_last_expects_the_best_of_the_last(trace: float, second: float):
    agent = QTable.new(("a", "b"), trace=trace)
    agent.values[0, state_of(THERE)] = 1.0, 4.0
    agent.learn([Transition(HERE, 0, 3.0, 0.5, 0.0), Transition(THERE, 0, 8.0, 0.5, 0.0)], NO_COIN)
    assert agent.value_of(HERE).tolist() == [second, 0.0]


def test_two_tables_judge_each_other_s_choices():
    """The best action is that of the table that learns; its value is the other one's."""
    agent = QTable.new(("a", "b"), double=True, trace=0.5)
    there = state_of(THERE)
    agent.values[0, there], agent.values[1, there] = (5.0, 1.0), (2.0, 7.0)
    assert agent._promised(0, there) == 2.0
    assert agent._promised(1, there) == 1.0


@pytest.mark.slow
def test_returns_find_the_best_of_a_chain():
    agent, rng = QTable.new(("wait", "go"), trace=1.0, double=True), np.random.default_rng(1)
    for _ in range(100):
        agent.learn(chain(rng), rng)
    assert agent.value_of(THERE).argmax() == 1
    assert agent.value_of(HERE).argmax() == 1


def test_a_greedy_bandit_of_the_chain_does_not_go():
    """It is credited with what the price brings at once: going costs, whatever comes of it."""
    agent, rng = LinearBandit.new(("wait", "go")), np.random.default_rng(1)
    for _ in range(100):
        agent.learn(chain(rng))
    for features in (HERE, THERE):
        values = agent.value_of(features)
        assert values[0] - values[1] == pytest.approx(0.1, abs=0.05)


def test_a_bandit_is_ridge_regression():
    """The weights are those of the normal equations; the inverse is that of the sums."""
    agent, rng = LinearBandit.new(("a", "b")), np.random.default_rng(2)
    rows = [Features(*rng.uniform(-1, 1, len(FEATURES))) for _ in range(50)]
    credits = rng.normal(size=50)
    agent.learn(
        Transition(row, n % 2, 0.0, 0.0, credit)
        for n, (row, credit) in enumerate(zip(rows, credits, strict=True))
    )
    for action in (0, 1):
        inputs = np.array([agent.inputs(row) for row in rows[action::2]])
        gram = np.eye(len(FEATURES) + 1) + inputs.T @ inputs
        np.testing.assert_allclose(agent.inverse[action], np.linalg.inv(gram), atol=1e-9)
        expected = np.linalg.solve(gram, inputs.T @ credits[action::2])
        np.testing.assert_allclose(agent.weights[action], expected, atol=1e-9)


def test_what_is_not_known_attracts_while_a_bandit_learns():
    agent = LinearBandit.new(("a", "b"))
    agent.learn([Transition(HERE, 0, 0.0, 0.0, 0.2)] * 20)
    assert agent.value_of(HERE).argmax() == 0
    agent.alpha = 1.0
    assert agent.value_of(HERE).argmax() == 1


def test_of_equals_the_first_action():
    assert int(QTable.new(("a", "b")).value_of(HERE).argmax()) == 0


def test_the_end_of_a_window_is_no_start_of_the_next():
    agent = QTable.new(("a", "b"))
    agent.values[0, state_of(THERE)] = 100.0
    agent.learn([Transition(HERE, 0, 1.0, 0.0, 1.0), Transition(THERE, 0, 1.0, 0.0, 1.0)], NO_COIN)
    assert agent.value_of(HERE)[0] == 1.0


def test_a_discount_is_that_of_five_minutes():
    assert gamma_of(0.998, 300.0) == 0.998
    assert gamma_of(0.998, 600.0) == pytest.approx(0.998**2)


def test_other_definitions_are_refused():
    check_definitions(dict(EDGES))
    with pytest.raises(ConfigError, match="other classes of 'soc'"):
        check_definitions({**EDGES, "soc": (0.5,)})
    with pytest.raises(ConfigError, match="other features"):
        check_definitions({"comp": EDGES["comp"]})


def test_a_bandit_sees_the_features_that_it_is_not_without():
    """They are inputs as numbers, the others 0; the last input is the constant."""
    blind = LinearBandit.new(("a", "b"), without=("soc", "night"))
    expected = [
        0.0 if name in ("soc", "night") else value
        for name, value in zip(FEATURES, as_numbers(HERE), strict=True)
    ]
    assert blind.inputs(HERE).tolist() == [*expected, 1.0]
    assert blind.inputs(HERE).tolist() == blind.inputs(THERE).tolist()
    seeing = LinearBandit.new(("a", "b"))
    assert seeing.inputs(HERE).tolist() == [*as_numbers(HERE).tolist(), 1.0]
