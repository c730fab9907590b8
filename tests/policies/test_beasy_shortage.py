"""BEASY's compensation of a shortage, as decisions show it (Section IV-C).

Steps of 60 s; a battery of 100 kJ without losses, whose target is 50 kJ.
"""

from __future__ import annotations

import dataclasses

import pytest
from policies.beasy_steps import Steps
from talk import ASLEEP, changed, production, submitted
from worlds import FAST

from beasy_sched.model.platform import ServerKind, SleepState

Z, ON = ASLEEP, 0
_WATTS = (100.0, 60.0, 25.0, 10.0, 5.0, 60.0, 80.0)
FOUR = ServerKind(
    "four speeds",
    speeds_flops=(100.0, 80.0, 40.0, 20.0, 100.0, 1 / 7, 1 / 20),
    idle_w=_WATTS,
    epsilon_w=_WATTS,
    full_w=_WATTS,
    sleeps=(SleepState(4, 5, 6),),
)
"""1, 0.75, 0.625 and 0.5 J a flop: each slower speed saves 25, 10 and 5 W, the longer run counted in."""
FAST_SPEED, MEDIUM, SLOW_SPEED, SLOWEST, ASLEEP_OF_FOUR = range(5)


def test_after_the_violation_idle_servers_sleep_in_the_nearest_steps_first() -> None:
    """1 kJ is missing; most curves are low at the end of the third step, before which nobody is idle."""
    rows = [[Z], [Z], [Z], [Z], [ON], [Z], [ON], [Z]]
    steps = Steps(*rows, load_w=[200.0] * 3 + [0.0] * 5, soc_pct=49.0)
    steps.talk.at(7.0, changed(7.0, "0", Z))
    assert [steps.begin(step) for step in range(1, 7)] == [[], [], [], [], [], [("0", ON)]]


@pytest.mark.parametrize(("waking_w", "asleep"), [(80.0, [("0", Z)]), (1000.0, [])])
def test_a_run_of_steps_that_saves_nothing_on_the_whole_stays_on(
    waking_w: float, asleep: list[tuple[str, int]]
) -> None:
    """Two steps up to the violation save 11 015 J asleep. Waking at 80 W gives 400 J more, at 1000 W it takes
    18 000: then only the steps after the violation are slept through."""
    watts = (*FAST.full_w[:4], waking_w)
    kind = dataclasses.replace(FAST, idle_w=(50.0, 50.0, *watts[2:]), full_w=watts, epsilon_w=watts)
    steps = Steps(*[[ON]] * 6, kind=kind, load_w=[500.0] * 2 + [0.0] * 4, soc_pct=49.0)
    assert steps.begun == asleep
    if not asleep:
        assert [steps.begin(1), steps.begin(2)] == [[], [("0", Z)]]


@pytest.mark.parametrize(
    ("first_speed", "user_error", "slower"),
    [(FAST_SPEED, 1.0, "0"), (SLOW_SPEED, 1.0, "1"), (SLOW_SPEED, 0.9, "0")],
    ids=["has worked enough", "has not", "needs less than its walltime"],
)
def test_no_job_slows_down_that_needs_its_speed_while_another_does_not(
    first_speed: int, user_error: float, slower: str
) -> None:
    """Eq. 3.28 and 3.29. 1000 J are missing; one job at medium speed for the third step saves 1500 and loses
    1200 flops.

    Job a wants 80 x 220 = 17 600 flops, or 15 840 of them; in its first 60 s it has done 6000 or 2400, in the
    160 s that are left it can do 16 000. Job b can spare 5800 at least.
    """
    rows = [[first_speed] * 2, *[[0, 0]] * 3, *[[ASLEEP_OF_FOUR, 0]] * 4]
    load_w = [400.0] * 3 + [0.0] * 5
    jobs = [submitted(0.0, "a", 1, 220.0), submitted(0.0, "b", 1, 470.0)]
    steps = Steps(*rows, kind=FOUR, load_w=load_w, options={"user_error": user_error}, first=jobs)
    assert set(steps.talk.session.cluster.running) == {"w0!a", "w0!b"}
    faster = [("0-1", FAST_SPEED)] if first_speed else []
    assert steps.begin(1, -1000 / 60) == faster
    assert steps.begin(2) == [(slower, MEDIUM)]


def test_running_jobs_are_lowered_again_and_again() -> None:
    """Nothing arrives any more, 12 kJ are missing; the lowest speed in all steps of the job saves 6400 J."""
    jobs = [submitted(0.0, "a", 1, 220.0)]
    steps = Steps(*[[FAST_SPEED]] * 4, kind=FOUR, options={"user_error": 0.1}, first=jobs)
    steps.talk.at(0.1, production(0.1, 0.0))
    assert steps.begin(1, -100.0) == [("0", SLOWEST)]
