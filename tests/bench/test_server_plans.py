"""Server plans of full windows: 10 000 servers of one kind, 300 of three kinds: within 1 % of the best."""

from __future__ import annotations

import numpy as np
import pytest
from bench.traces import ROWS
from pytest_benchmark.fixture import BenchmarkFixture

from beasy_sched.generate.platform_file import preset_platform
from beasy_sched.planner.servers import ServerPlan, plan_servers

pytestmark = pytest.mark.bench

STEPS, STEP_S = 864, 300.0
CASES = {
    "10 000 gros": ({"gros": 10_000}, False),
    "300 of three kinds": ({"gros": 100, "parasilo": 100, "taurus": 100}, False),
    "300 of three kinds, one P-state each": ({"gros": 100, "parasilo": 100, "taurus": 100}, True),
    "50 gros": ({"gros": 50}, False),
}


def rough_days_w(top_w: float) -> np.ndarray:
    """Three days of sun and wind with noise in every step, 10 to 100 % of ``top_w``."""
    random = np.random.default_rng(0)
    day = np.arange(STEPS) / 288
    sun = np.maximum(0.0, np.sin(2 * np.pi * (day - 0.25)))
    wind = np.cumsum(random.normal(0, 1, STEPS))
    wind = (wind - wind.min()) / np.ptp(wind)
    return top_w * (0.1 + 0.8 * np.clip(0.6 * sun + 0.4 * wind + random.normal(0, 0.03, STEPS), 0.0, 1.1))


@pytest.mark.parametrize("name", CASES)
def test_a_window_of_servers(name: str, benchmark: BenchmarkFixture) -> None:
    servers, one_pstate = CASES[name]
    platform = preset_platform(servers, one_pstate=one_pstate)
    top_w = sum(platform.kinds[kind].full_w[0] for kind in platform.kind_of.tolist())
    envelope_w = rough_days_w(top_w)

    plan: ServerPlan = benchmark.pedantic(plan_servers, args=(platform, envelope_w, STEP_S), rounds=1)

    seconds = benchmark.stats.stats.mean
    ROWS.append((f"server plan, {name}", f"{seconds:.1f} s", "-", "-", f"gap {plan.solved.gap:.3%}"))
    assert (plan.energy_j <= envelope_w * STEP_S * (1 + 1e-9)).all()
    assert plan.solved.gap <= 0.01
