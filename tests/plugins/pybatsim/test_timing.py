"""The comparison of times is one: the same messages, all of them, and full decisions on both sides."""

from __future__ import annotations

import pytest
from pybatsim_inside import load_example
from pybatsim_timing import FollowingEasy, compare, own_run, time_on_the_same, time_pybatsim
from small_site import small_site

from beasy_sched.simulator import Inputs, Simulation, SimulationOptions, simulation_from_files

pytest.importorskip("batsim", reason="pybatsim is not installed")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    made = small_site(tmp_path_factory.mktemp("site"), jobs=300)
    return Inputs(made.platform, [made.workload])


@pytest.mark.slow
def test_both_get_every_message(inputs: Inputs) -> None:
    def make() -> Simulation:
        return simulation_from_files(inputs, SimulationOptions())

    theirs, ours = compare(make, load_example("easyBackfill"))
    assert len(theirs.seconds) == len(ours.seconds) == len(theirs.waiting) > 300
    assert theirs.waiting.max() > 3
    assert theirs.waiting[-1] == 0
    assert min(theirs.seconds.min(), ours.seconds.min()) > 0
    limited, _ = compare(make, load_example("easyBackfill"), 100)
    assert len(limited.seconds) == 100
    assert len(own_run(make).seconds) > 300


def test_every_message_makes_easy_decide(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[int] = []
    schedule = FollowingEasy.__mro__[1].schedule  # type: ignore[attr-defined]

    def counted(self, view):  # type: ignore[no-untyped-def]
        wanted = schedule(self, view)
        decided.append(len(wanted))
        return wanted

    monkeypatch.setattr(FollowingEasy.__mro__[1], "schedule", counted)
    theirs, exchanges = time_pybatsim(
        lambda: simulation_from_files(inputs, SimulationOptions()), load_example("easyBackfill")
    )
    time_on_the_same(exchanges, theirs.waiting)
    assert len(decided) == len(exchanges) - 1  # but for SIMULATION_ENDS
    assert sum(decided) >= 300
