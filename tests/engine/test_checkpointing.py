"""What a life of a job saves, and what is left of its profile, on cases computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.engine.checkpointing import LifePlan, Saved
from beasy_sched.engine.profile_rest import ProfileWork, done_work, not_continued, rest_profile, whole_work
from beasy_sched.model.restarts import Checkpoints, daly_interval_s

HOURLY = Checkpoints(interval_s=3600.0, dump_s=60.0, read_s=90.0)
PROFILES = {
    "wait": {"type": "delay", "delay": 10},
    "work": {"type": "parallel_homogeneous", "cpu": 100.0, "com": 4.0},
    "total": {"type": "parallel_homogeneous_total", "cpu": 100.0, "com": 0},
    "apart": {"type": "parallel", "cpu": [50.0, 100.0], "com": [0, 8.0, 0, 0]},
    "waits": {"type": "composed", "seq": ["wait", "wait"], "ret": 3},
    "both": {"type": "composed", "repeat": 3, "seq": ["wait", "work"]},
    "nested": {"type": "composed", "repeat": 2, "seq": ["work", "both"]},
}


def first_life(total_s: float) -> LifePlan:
    return LifePlan(per_s=1.0, total=total_s, before=0.0, checkpoints=HOURLY)


@pytest.mark.parametrize(
    ("done_s", "saved"),
    [
        (3659.0, Saved(0.0, 0.0, 0)),
        (3660.0, Saved(3600.0, 60.0, 1)),
        (7319.0, Saved(3600.0, 60.0, 1)),
        (7320.0, Saved(7200.0, 120.0, 2)),
    ],
)
def test_a_first_life_saves_whole_intervals_without_the_time_of_writing(done_s: float, saved: Saved) -> None:
    assert first_life(10_000.0).saved(done_s) == saved


def test_a_later_life_reads_first_and_writes_no_checkpoint_at_its_end() -> None:
    plan = LifePlan(per_s=2.0, total=20_000.0, before=5600.0, checkpoints=HOURLY)
    assert (plan.left, plan.read, plan.dumps) == (14_400.0, 180.0, 1)  # two intervals of 7,200
    assert plan.costs == 180.0 + 120.0
    assert plan.saved(180.0 + 7200.0 + 119.0) == Saved(0.0, 180.0, 0)
    assert plan.saved(180.0 + 7200.0 + 120.0) == Saved(7200.0, 300.0, 1)
    assert plan.saved(plan.left + plan.costs) == Saved(7200.0, 300.0, 1)


def test_a_notice_saves_the_work_until_then() -> None:
    assert first_life(10_000.0).saved(5100.0, noticed=5000.0) == Saved(3600.0 + 1340.0, 120.0, 2)
    assert first_life(10_000.0).saved(3700.0, noticed=3640.0) == Saved(3600.0, 60.0, 1)


def test_without_checkpoints_nothing_is_saved() -> None:
    plan = LifePlan(1.0, 100.0, 0.0, None)
    assert (plan.costs, plan.saved(99.0)) == (0.0, Saved(0.0, 0.0, 0))


@given(
    st.floats(1.0, 1e6),
    st.floats(0.0, 0.999),
    st.floats(1.0, 1e5),
    st.floats(0.0, 0.99),
    st.floats(0.0, 1e3),
    st.floats(0.0, 1.0),
    st.floats(1e-3, 1e12),
)
def test_a_life_never_saves_more_than_it_has_done(
    total_s: float, before: float, interval_s: float, dump: float, read_s: float, done: float, per_s: float
) -> None:
    checkpoints = Checkpoints(interval_s, dump * interval_s, read_s)
    total = total_s * per_s
    plan = LifePlan(per_s, total, before * total, checkpoints)
    worked = done * (plan.left + plan.costs)
    saved = plan.saved(worked)
    assert 0.0 <= saved.work <= plan.left
    assert saved.work + saved.costs <= worked * (1 + 1e-9)
    assert saved.checkpoints <= plan.dumps
    noticed = plan.saved(worked, noticed=worked * 0.9)
    assert saved.work <= noticed.work <= max(worked, saved.work)


def test_the_work_of_profiles() -> None:
    assert whole_work("wait", PROFILES, 2) == ProfileWork(10.0, 0.0)
    assert whole_work("total", PROFILES, 4) == ProfileWork(0.0, 25.0)
    assert whole_work("apart", PROFILES, 2) == ProfileWork(0.0, 100.0)
    assert whole_work("nested", PROFILES, 2) == ProfileWork(60.0, 800.0)


def test_the_work_done_in_a_nested_sequence() -> None:
    """In the second round, after the first task, in the third pair, 40 % of the task."""
    progress = {
        "profile_name": "nested",
        "current_task_index": 3,
        "current_task": {
            "profile_name": "both",
            "current_task_index": 5,
            "current_task": {"profile_name": "work", "progress": 0.4},
        },
    }
    assert done_work(progress, "nested", PROFILES, 1) == ProfileWork(30.0 + 30.0, 400.0 + 100.0 + 240.0)


@pytest.mark.parametrize(
    ("name", "left", "extra", "rest"),
    [
        ("wait", 4.0, 1.0, {"type": "delay", "delay": 5.0}),
        ("waits", 12.0, 0.5, {"type": "delay", "delay": 12.5, "ret": 3}),
        ("work", 25.0, 5.0, {"type": "parallel_homogeneous", "cpu": 30.0, "com": 1.0}),
        ("total", 10.0, 2.0, {"type": "parallel_homogeneous_total", "cpu": 24.0, "com": 0}),
        ("apart", 50.0, 5.0, {"type": "parallel", "cpu": [30.0, 55.0], "com": [0, 4.0, 0, 0]}),
        ("both", 70.0, 3.0, {"type": "parallel_homogeneous", "cpu": 73.0, "com": 0}),
    ],
)
def test_the_rest_of_a_profile(name: str, left: float, extra: float, rest: dict[str, object]) -> None:
    assert rest_profile(name, PROFILES, 2, left, extra) == rest


def test_profiles_that_cannot_be_continued() -> None:
    profiles = {
        **PROFILES,
        "trace": {"type": "smpi"},
        "outer": {"type": "composed", "seq": ["wait", "trace"]},
    }
    assert [not_continued(name, profiles) for name in ("nested", "trace", "outer")] == [None, "smpi", "smpi"]


def test_dalys_interval() -> None:
    """Against the first-order optimum of Young, of which it is a refinement."""
    assert daly_interval_s(60.0, 36_000.0) == pytest.approx(math.sqrt(2 * 60 * 36_000), rel=0.03)
    assert daly_interval_s(60.0, 30.0) == 30.0
