"""What a scheduling pass looks at: counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import Talk, only, production, small_battery, submitted
from worlds import World, random_world, rich_world, run

from beasy_sched.energy.site import GuardMode
from beasy_sched.engine.power import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EasyPass, Places
from beasy_sched.policies.follow_plan import PlannedEasyPass
from beasy_sched.policies.registry import make_policy

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Ids of the jobs that `EasyPass` has tried to start."""
    ids: list[str] = []
    start = EasyPass.start

    def counted(self: EasyPass, job: Job, late: bool = False) -> bool:
        ids.append(job.id)
        return start(self, job, late)

    monkeypatch.setattr(EasyPass, "start", counted)
    return ids


def test_without_energy_a_pass_does_not_try_the_whole_queue(tried: list[str]) -> None:
    """200 jobs of one and two hosts, and energy for none: one of each is tried, whatever waits beside it."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy"), site=site, energy=EnergySource.MODEL)
    jobs = [submitted(0.0, f"j{number}", 1 + number % 2) for number in range(200)]
    found = talk.at(0.0, production(0.0, 4 * 50.0), *jobs)
    assert only(d.ExecuteJob, found) == []
    assert 1 <= len(tried) <= 3
    tried.clear()
    assert only(d.ExecuteJob, talk.at(1.0, submitted(1.0, "late"))) == []
    assert 1 <= len(tried) <= 3


def decisions(world: World, policy: str) -> list[d.Decision]:
    return run(world, policy).decisions


@settings(max_examples=40, deadline=None)
@given(seeds, st.booleans(), st.sampled_from(["easy", "peak", "follow-plan", "power-reactive"]))
def test_what_is_left_out_could_not_have_started(seed: int, rich: bool, policy: str) -> None:
    """The same decisions where every job is tried, and every reservation made."""
    rng = np.random.default_rng(seed)
    world = (rich_world if rich else random_world)(rng, most_jobs=40)
    world = world.but(veto=True, mode=GuardMode.SHED)
    found = decisions(world, policy)

    def all_of_them(self: EasyPass, places: Places) -> Places:
        return places

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EasyPass, "_affordable", all_of_them)
        patch.setattr(PlannedEasyPass, "needs_reservation", EasyPass.needs_reservation)
        assert decisions(world, policy) == found
