"""P-states for numbers of servers: several trajectories at once as each alone, within the energy."""

from __future__ import annotations

import numpy as np
import pytest
from planner.server_cases import STEP_S, tiny_platform

from beasy_sched.planner.pstates import fill, most_flops
from beasy_sched.planner.server_problem import Trajectory, energy_j, least_energy_j
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.servers import ServerSetup, ServerStart

STEPS = 9


def some_trajectory(random: np.random.Generator, servers: int) -> Trajectory:
    on = random.integers(0, servers + 1, STEPS)
    before = np.concatenate(([servers], on[:-1]))
    return np.array([np.minimum(on, before), np.maximum(on - before, 0), np.maximum(before - on, 0)])


@pytest.mark.parametrize("counts", [{"quick": 4}, {"quick": 3, "slow": 2, "single": 1}], ids=str)
def test_trajectories_at_once_have_the_pstates_of_each_alone(counts: dict[str, int]) -> None:
    random = np.random.default_rng(1)
    platform = tiny_platform(**counts)
    setup = ServerSetup.of(platform, ServerStart.all_on(platform), ServerRules(), STEP_S, 0)
    ways = [[some_trajectory(random, table.servers) for table in setup.tables] for _ in range(5)]
    least_j = np.max([least_energy_j(setup.problem(np.ones(STEPS)), way) for way in ways], axis=0)
    problem = setup.problem(least_j + random.uniform(0.0, 20.0 * STEP_S * platform.size, STEPS))
    together = [np.stack(paths, axis=1) for paths in zip(*ways, strict=True)]
    filled, flops = fill(problem, together), most_flops(problem, together)
    for number, way in enumerate(ways):
        alone = fill(problem, way)
        assert (energy_j(problem, alone) <= problem.allowed_j).all()
        assert (flops[number] == most_flops(problem, way)).all()
        for mine, every in zip(alone, filled, strict=True):
            assert (mine.whole == every.at(number).whole).all()
            assert (mine.waking == every.at(number).waking).all()
            assert (mine.trajectory == every.at(number).trajectory).all()


def test_too_little_energy_has_no_flops() -> None:
    platform = tiny_platform(quick=2)
    setup = ServerSetup.of(platform, ServerStart.all_on(platform), ServerRules(), STEP_S, 0)
    none = np.zeros(2, dtype=np.int64)
    flops = most_flops(setup.problem(np.array([159.0, 161.0]) * STEP_S), [np.array([none + 2, none, none])])
    assert np.isneginf(flops).tolist() == [True, False]
