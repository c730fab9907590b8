"""Which hosts a job gets: those left by a reservation, and those with consecutive numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from worlds import FAST

from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.host_states import SWITCHING_OFF
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.energy_budget.choice import AnyHosts, Fleet, earliest_window


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 42))
def test_the_window_that_is_free_first(times: list[int], width: int) -> None:
    free_at = np.array(times, dtype=np.float64)
    highest = [max(times[i : i + width]) for i in range(len(times) - width + 1)]
    first, when = earliest_window(free_at, width)
    if not highest:
        assert when == np.inf
    else:
        assert when == min(highest)
        assert first == highest.index(min(highest))


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=12))
def test_runs_of_free_hosts(free: list[bool], wanted: list[int]) -> None:
    """Cut hosts from runs, as long as one is long enough, beside a list that is looked through anew."""
    from beasy_sched.plugins.energy_budget.choice import _Runs

    runs, left = _Runs(np.array(free)), list(free)
    for count in wanted:
        starts = [i for i in range(len(left) - count + 1) if all(left[i : i + count])]
        assert (runs.longest >= count) == bool(starts)
        if starts:
            first = runs.cut(count)
            assert first == starts[0]
            left[first : first + count] = [False] * count


def promised() -> tuple[AnyHosts, Cluster]:
    """Of four hosts two are busy until 100 s, when the first waiting job is promised three."""
    platform = Platform((FAST,), np.zeros(4, dtype=np.intp), tuple(f"n{i:03}" for i in range(4)))
    cluster = Cluster(platform)
    running = cluster.submit(Job(JobRequest("w0!a", 0.0, 2, "p", 100.0)))
    cluster.start(running, HostSet.of([0, 2]), 0.0)
    view = View(cluster)
    fleet = Fleet(view, switches=False)
    fleet.commit(running, np.array([0, 2]), 100.0, 50.0)
    choice = AnyHosts(view, fleet)
    head = cluster.submit(Job(JobRequest("w0!head", 0.0, 3, "p", 10.0)))
    assert choice.earliest(head) == 100.0
    choice.reserve(head, 100.0)
    return choice, cluster


def late_fit(choice: AnyHosts) -> list[bool]:
    """Whether jobs of one host and of two fit that end after the reservation's start."""
    return choice.fitting(np.array([1, 2]), np.array([True, True])).tolist()


def test_a_host_that_a_late_job_was_refused_may_go_to_another() -> None:
    choice, cluster = promised()
    late = cluster.submit(Job(JobRequest("w0!late", 0.0, 1, "p", 500.0)))
    assert late_fit(choice) == [True, False]
    hosts = choice.take(late, late=True)
    assert late_fit(choice) == [False, False]
    choice.give_back(hosts, late=True)
    assert late_fit(choice) == [True, False]


def test_only_those_hosts_are_kept_for_the_reservation_that_no_job_will_leave_to_it() -> None:
    """Two of the three come free by then."""
    choice, _ = promised()
    assert choice.reserved().tolist() == [1]


def test_hosts_that_fall_asleep_lengthen_the_time_until_a_host_is_on() -> None:
    """7 s to fall asleep, 20 s to wake."""
    platform = Platform((FAST,), np.zeros(2, dtype=np.intp), ("n0", "n1"))
    cluster = Cluster(platform)
    fleet = Fleet(View(cluster), switches=True)
    assert fleet.lead_s == 20.0
    cluster.begin_switch(np.array([0]), SWITCHING_OFF, 2, 0.0)
    assert fleet.lead_s == 27.0
    assert Fleet(View(cluster), switches=False).lead_s == 0.0
    cluster.end_switch(np.array([0]), 2, 7.0)
    assert fleet.lead_s == 20.0
