"""Plans of tiny windows are as good as the best over all states of all single servers."""

from __future__ import annotations

import numpy as np
import pytest
from planner.server_cases import STEP_S, asleep_pstate, brute_force, tiny_platform

from beasy_sched.planner.plan import INFEASIBLE, OPTIMAL
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.servers import ServerStart, plan_servers

CASES = [
    ({"quick": 1}, 5),
    ({"quick": 2}, 4),
    ({"slow": 2}, 5),
    ({"slow": 3}, 4),
    ({"single": 3}, 5),
    ({"quick": 1, "slow": 1}, 4),
    ({"single": 1, "slow": 1, "always": 1}, 4),
    ({"quick": 1, "single": 2}, 3),
]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("counts", "steps"), CASES, ids=str)
def test_as_good_as_brute_force(counts: dict[str, int], steps: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    platform = tiny_platform(**counts)
    kinds = [platform.kind(host) for host in range(platform.size)]
    sleeps = (random.random(platform.size) < 0.4) & np.array([k.sleep is not None for k in kinds])
    before = np.array(
        [asleep_pstate(k) if s else 0 for k, s in zip(kinds, sleeps, strict=True)], dtype=np.int8
    )
    top_w = sum(kind.full_w[0] for kind in kinds)
    envelope_w = top_w * random.uniform(0.05, 1.1, steps)
    least_steps, switch_cost_s = [(1, 0.0), (2, 0.0), (3, 50.0)][seed % 3]
    expected = brute_force(platform, envelope_w, before, least_steps, switch_cost_s)
    rules = ServerRules(minimum_on_s=least_steps * STEP_S, switch_cost_s=switch_cost_s)
    start = ServerStart(before, np.zeros(platform.size))

    plan = plan_servers(platform, envelope_w, STEP_S, rules=rules, start=start)

    if expected == -np.inf:
        assert plan.solved.status == INFEASIBLE
    else:
        assert plan.solved.status == OPTIMAL
        assert plan.objective_flops == pytest.approx(expected, rel=1e-9)
        assert plan.solved.gap <= 1e-6
        cost = switch_cost_s * max(kinds[0].speeds_flops) if len(counts) == 1 else None
        if cost is not None:
            assert plan.flops.sum() - plan.wakeups * cost == pytest.approx(expected, rel=1e-9)
