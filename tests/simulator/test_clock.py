"""The step clock against the same arithmetic written out plainly, step by step over everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.simulator.clock import TIMING_PRECISION_S, WORK_PRECISION, StepClock

WORK, WAIT = range(2)


class PlainClock:
    """What SimGrid does, without any shortcut."""

    def __init__(self):
        self.now = 0.0
        self.actions = {}

    def start(self, key, kind, left, rate):
        self.actions[key] = [kind, left, rate]

    def step(self):
        if not self.actions:
            return []
        length = min(left / rate for _, left, rate in self.actions.values())
        self.now = self.now + length
        ended = []
        for key, action in self.actions.items():
            kind, left, rate = action
            action[1] = left = left - rate * length
            if left < (WORK_PRECISION if kind == WORK else TIMING_PRECISION_S):
                ended.append(key)
        for key in ended:
            del self.actions[key]
        return ended


seconds = st.one_of(
    st.integers(1, 50).map(float),
    st.integers(1, 10**6).map(lambda n: n / 1000),
    st.floats(1e-3, 1e6),
)


limits = st.none() | seconds | st.floats(-3e-5, 3e-5)
"""How long a work may last: not limited, so many seconds, or so much more than it takes."""


@st.composite
def happenings(draw):
    """A list of (what is begun before a step, what changes its rate, what is cancelled)."""
    steps = draw(st.integers(1, 40))
    return [
        (
            draw(st.lists(st.tuples(st.sampled_from((WORK, WAIT)), seconds, limits), max_size=3)),
            draw(st.none() | st.tuples(st.integers(0, 10**6), seconds)),
            draw(st.none() | st.integers(0, 10**6)),
        )
        for _ in range(steps)
    ]


@given(happenings())
def test_every_double_is_that_of_the_plain_arithmetic(script):
    clock, plain = StepClock(), PlainClock()
    alive, limit_of = {}, {}

    def cancel(action):
        action.cancel()
        del plain.actions[action.number], alive[action.number]

    for begun, change, cancelled in script:
        for kind, lasts, limit in begun:
            if kind == WORK:
                action = clock.work(WORK, None, 1.0 / lasts)
                plain.start(action.number, WORK, 1.0, 1.0 / lasts)
                if limit is not None:
                    most = limit if limit > 1e-4 else lasts + limit
                    limit_of[action] = wait = clock.limit(WAIT, action, most)
                    plain.start(wait.number, WAIT, most, 1.0)
                    alive[wait.number] = wait
            else:
                action = clock.wait(WAIT, None, lasts)
                plain.start(action.number, WAIT, lasts, 1.0)
            alive[action.number] = action
        works = [action for action in alive.values() if action.kind == WORK]
        if change is not None and works:
            action = works[change[0] % len(works)]
            clock.change_rate(action, 1.0 / change[1])
            plain.actions[action.number][2] = 1.0 / change[1]
        if cancelled is not None and len(alive) > 1:
            action = list(alive.values())[cancelled % len(alive)]
            cancel(action)
            if action in limit_of and limit_of[action].number in alive:
                cancel(limit_of[action])
        ended = clock.step()
        assert [action.number for action in ended] == sorted(plain.step())
        assert clock.now == plain.now
        for action in ended:
            assert action.over
            del alive[action.number]
        for action in ended:
            if action in limit_of and limit_of[action].number in alive:
                cancel(limit_of[action])
        for number, action in alive.items():
            assert clock.settle(action) == plain.actions[number][1]


def test_long_lives_are_summed_in_order():
    """Thousands of steps are applied at once, with the rounding of one after the other."""
    clock, plain = StepClock(), PlainClock()
    long = clock.work(WORK, None, 1.0 / 3e6)
    plain.start(long.number, WORK, 1.0, 1.0 / 3e6)
    for number in range(5000):
        lasts = 0.1 + (number * 7919 % 1000) / 997
        plain.start(clock.wait(WAIT, None, lasts).number, WAIT, lasts, 1.0)
        assert len(clock.step()) == len(plain.step()) == 1
    assert clock.settle(long) == plain.actions[long.number][1]
    assert clock.now == plain.now


def test_ends_come_in_order_whenever_they_were_begun():
    clock = StepClock()
    clock.work(WORK, "never", 5e-324)
    for lasts in (5e5, 1e-3, 100.0, 31.9, 32.1, 64.0):
        clock.wait(WAIT, lasts, lasts)
    assert [clock.step()[0].subject for _ in range(2)] == [1e-3, 31.9]
    clock.wait(WAIT, 50.0, 18.1)
    clock.wait(WAIT, 32.0, 0.1)
    ends = [clock.step()[0].subject for _ in range(6)]
    assert ends == [32.0, 32.1, 50.0, 64.0, 100.0, 5e5]


def test_ends_that_are_equal_on_paper_can_be_two_steps_of_no_length():
    clock = StepClock()
    ends = []
    starts = [(10.0, 762.0), (26.0, 1115.0), (1140.0, 1.0)]
    waiting = clock.wait(WAIT, 0, starts[0][0])
    while ended := clock.step():
        ends.append((clock.now, [action.subject for action in ended if action.kind == WORK]))
        if waiting in ended:
            place = waiting.subject
            if place + 1 < len(starts):
                waiting = clock.wait(WAIT, place + 1, starts[place + 1][0] - clock.now)
            clock.work(WORK, place, 1e9 / (starts[place][1] * 1e9))
    assert ends[-2:] == [(1141.0, [1]), (1141.0, [2])]


def test_what_has_nothing_to_do_ends_in_a_zero_step_if_there_is_one():
    clock = StepClock()
    clock.wait(WAIT, "long", 5.0)
    task = clock.work(WORK, "task", 1.0, left=0.0)
    pause = clock.wait(WAIT, "pause", 4e-10)
    assert clock.short
    assert clock.zero_step() == [task, pause]
    assert clock.now == 0.0
    assert not clock.short
    assert [action.subject for action in clock.step()] == ["long"]


def test_without_a_zero_step_it_takes_its_time():
    clock = StepClock()
    clock.wait(WAIT, "long", 5.0)
    pause = clock.wait(WAIT, "pause", 4e-10)
    assert clock.step() == [pause]
    assert clock.now == 4e-10
    assert clock.zero_step() == []


def test_a_cancelled_action_does_not_end():
    clock = StepClock()
    first, second = clock.wait(WAIT, 1, 1.0), clock.wait(WAIT, 2, 2.0)
    first.cancel()
    assert clock.step() == [second]
    assert clock.now == 2.0
    assert clock.step() == []


@pytest.mark.parametrize("lasts", [1e-3, 1.0, 1e6, 1e12])
def test_ends_closer_than_the_precision_are_one_step(lasts):
    clock = StepClock()
    one, other = clock.wait(WAIT, 1, lasts), clock.wait(WAIT, 2, lasts + 5e-10)
    assert clock.step() == [one, other]


@pytest.mark.parametrize("lasts", [1e-3, 1.0, 1e6])
def test_ends_farther_apart_than_the_precision_are_two_steps(lasts):
    clock = StepClock()
    one, other = clock.wait(WAIT, 1, lasts), clock.wait(WAIT, 2, lasts + 2e-9)
    assert clock.step() == [one]
    assert clock.step() == [other]


def test_works_end_together_only_where_a_hundred_billionth_of_a_thousandth_is_left():
    clock = StepClock()
    works = [clock.work(WORK, None, rate) for rate in (1.0, 1.0 - 5e-15, 1.0 - 5e-14)]
    assert clock.step() == works[:2]
    assert clock.step() == works[2:]


def test_what_has_nothing_to_do_and_was_cancelled_does_not_end_in_a_zero_step():
    clock = StepClock()
    first, second = clock.wait(WAIT, 1, 0.0), clock.wait(WAIT, 2, 0.0)
    first.cancel()
    assert clock.zero_step() == [second]
    assert second.over
    assert clock.step() == []


@pytest.mark.parametrize("lasts", [0.3, 0.7])
def test_late_in_a_long_run_rounding_of_the_clock_delays_no_end(lasts):
    """After 272 years the clock goes by 2 microseconds: thousands of roundings to one side add up."""
    clock, plain = StepClock(), PlainClock()
    plain.start(clock.wait(WAIT, None, 2.0**33).number, WAIT, 2.0**33, 1.0)
    assert len(clock.step()) == len(plain.step()) == 1
    long = [3000 * lasts + extra for extra in (-0.001, -0.0001, 0.0001, 0.001)]
    for left in long:
        plain.start(clock.wait(WAIT, None, left).number, WAIT, left, 1.0)
    for _ in range(3000 + len(long)):
        if not any(left == lasts for _, left, _ in plain.actions.values()):
            plain.start(clock.wait(WAIT, None, lasts).number, WAIT, lasts, 1.0)
        assert [action.number for action in clock.step()] == sorted(plain.step())
        assert clock.now == plain.now


def test_ends_of_one_step_come_in_the_order_of_creation():
    clock = StepClock()
    made = [clock.wait(WAIT, None, 1.0 + later) for later in (4e-10, 0.0, 6e-10, 2e-10)]
    assert clock.step() == made
