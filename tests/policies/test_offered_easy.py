"""The EASY scheduler within offers, on cases worked out by hand: four servers, jobs by submission."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from beasy_sched.engine.actions import Action, CallAt, Offer
from beasy_sched.engine.policy import Policy, View
from beasy_sched.model.choices import Placement
from beasy_sched.model.decisions import ExecuteJob, SetResourceState
from beasy_sched.policies import offered_easy
from beasy_sched.testing.witness import BrokenInvariant
from beasy_sched.testing.worlds import FAST, SmallWorld, WorldJob, WorldRun, run_world

INF = math.inf
ON_S = FAST.on_duration_s()


class Offering(Policy):
    """Makes one list of offers, of the first kind."""

    name = "offering"
    can_offer = True

    def __init__(self, *offers: tuple[int, float, float]) -> None:
        super().__init__()
        self._offers = offers

    def schedule(self, view: View) -> Sequence[Action]:
        return [Offer(view.platform.kinds[0].name, *offer, "as told") for offer in self._offers]


def job(subtime: float, res: int, walltime: float | None, run: float) -> WorldJob:
    return WorldJob(subtime, res, walltime, run)


def played(policy: Policy, *jobs: WorldJob, fast: int = 4, slow: int = 0) -> WorldRun:
    world = SmallWorld(fast, slow, jobs, ())
    return run_world(world, policy, with_site=False, placement=Placement.EXTERNAL)


def starts_s(done: WorldRun) -> dict[str, float]:
    return {x.job_id: x.timestamp for x in done.decisions if isinstance(x, ExecuteJob)}


def switched(done: WorldRun) -> list[tuple[float, int, bool]]:
    """When how many servers were sent to sleep (True) or woken."""
    asleep = FAST.sleep.pstate if FAST.sleep else -1
    switches = [x for x in done.decisions if isinstance(x, SetResourceState)]
    return [(x.timestamp, len(x.resources), x.state == asleep) for x in switches]


def test_no_job_starts_that_would_run_into_a_fall() -> None:
    """From 600 to 1000 s only one server may be on: job 0 waits for the rise, shorter ones do not."""
    policy = Offering((4, 0.0, 600.0), (1, 600.0, 1000.0), (4, 1000.0, INF))
    jobs = job(0.0, 2, 700.0, 650.0), job(0.0, 2, 500.0, 100.0), job(0.0, 1, 5000.0, 1500.0)
    done = played(policy, *jobs)
    begin_s = starts_s(done)
    assert begin_s["w0!1"] == begin_s["w0!2"] == 0.0
    assert begin_s["w0!0"] == pytest.approx(1000.0 + ON_S, abs=1e-6)
    assert switched(done)[:2] == [(600.0, 3, True), (1000.0, 2, False)]


def test_without_a_fall_the_same_job_starts_at_once() -> None:
    done = played(Offering((4, 0.0, INF)), job(0.0, 2, 700.0, 650.0))
    assert starts_s(done) == {"w0!0": 0.0}
    assert switched(done) == []


def test_a_job_without_a_walltime_needs_an_offer_without_a_fall() -> None:
    policy = Offering((4, 0.0, 600.0), (1, 600.0, INF))
    done = played(policy, job(0.0, 2, None, 100.0), job(0.0, 1, None, 100.0), job(700.0, 1, None, 10.0))
    assert starts_s(done).keys() == {"w0!1", "w0!2"}
    assert done.session.cluster.queue.count == 1


def test_servers_are_woken_for_jobs_and_held_for_them() -> None:
    """Two servers may be on until 100 s, then three: one is woken for job 0, and job 1 is after it."""
    policy = Offering((2, 0.0, 100.0), (3, 100.0, INF))
    jobs = job(110.0, 3, 50.0, 40.0), job(111.0, 1, 10.0, 10.0)
    done = played(policy, *jobs)
    assert switched(done) == [(0.0, 2, True), (110.0, 1, False)]
    begin_s = starts_s(done)
    assert begin_s["w0!0"] == pytest.approx(110.0 + ON_S)
    assert begin_s["w0!1"] == pytest.approx(110.0 + ON_S + 40.0)


def test_running_jobs_go_on_below_a_fall_that_was_not_foreseen() -> None:
    class Falls(Offering):
        def schedule(self, view: View) -> Sequence[Action]:
            count = 4 if view.now < 50.0 else 0
            return [
                Offer(view.platform.kinds[0].name, count, 0.0, INF, "as told"),
                *([CallAt(50.0)] if count else []),
            ]

    done = played(Falls(), job(0.0, 2, 200.0, 100.0), job(60.0, 1, 10.0, 5.0))
    assert starts_s(done) == {"w0!0": 0.0}
    assert switched(done) == [(50.0, 2, True), (100.0, 2, True)]
    assert done.session.outcomes.counts()["finished"] == 1


def test_each_kind_has_its_offer() -> None:
    """One fast and one slow server may be on; a kind without an offer is not limited."""
    policy = Offering((1, 0.0, INF))
    done = played(policy, job(0.0, 3, 100.0, 50.0), fast=2, slow=2)
    assert len(starts_s(done)) == 1
    kinds = done.session.cluster.platform.kind_of
    (start,) = (x for x in done.decisions if isinstance(x, ExecuteJob))
    assert sorted(kinds[start.alloc.ids].tolist()) == [0, 1, 1]


def test_a_placer_that_exceeds_the_offer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The witness of all worlds is not blind: without the sleeps, servers are on beyond the offer."""
    monkeypatch.setattr(offered_easy._Pass, "_let_sleep", lambda self: [])
    with pytest.raises(BrokenInvariant, match="no more servers are on than offered"):
        played(Offering((2, 0.0, INF)), job(0.0, 1, 10.0, 5.0))


def test_an_inner_easy_with_all_servers_is_easy() -> None:
    """With everything offered, jobs start as with `easy` by order of submission."""
    from beasy_sched.policies.registry import make_policy

    jobs = [job(7.0 * n, 1 + n % 4, 40.0 + 13.0 * (n % 5), 35.0 + 11.0 * (n % 5)) for n in range(30)]
    world = SmallWorld(4, 0, tuple(jobs), ())
    external = run_world(world, make_policy("easy"), with_site=False, placement=Placement.EXTERNAL)
    own = run_world(world, make_policy("easy"), with_site=False)
    assert starts_s(external) == starts_s(own)
