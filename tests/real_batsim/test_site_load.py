"""A site with cooling and services beside a real Batsim: the embedded simulator gives the same run."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_batsim.program import real_batsim
from real_batsim.random_runs import POLICIES, SITE, RandomRun

pytestmark = pytest.mark.slow

LOADED = (
    SITE
    + """start = "2024-07-01T00:00:00+00:00"
[cooling]
pue = [[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]
temperature = "weather.csv"
[load]
base_kw = 0.02
series = { file = "services.csv", between = "line" }
"""
)


def write_load(folder: Path) -> None:
    """Write two days of temperatures and services, hour by hour."""
    hours = [f"2024-07-{1 + at // 24:02} {at % 24:02}:00" for at in range(48)]
    weather = (f"{hour},{12 + at % 24}" for at, hour in enumerate(hours))
    (folder / "weather.csv").write_text("\n".join(["time,T2M", *weather, ""]))
    services = (f"{hour},{30 + 7 * (at % 5)}" for at, hour in enumerate(hours))
    (folder / "services.csv").write_text("\n".join(["time,services_w", *services, ""]))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_the_same(policy: str, tmp_path: Path) -> None:
    write_load(tmp_path)
    run = RandomRun(1000 + POLICIES.index(policy), "none", policy, LOADED)
    real, faults = run.compare(real_batsim(), tmp_path)
    assert real.exit_code == 0, real.error
    assert not faults
    assert len(real.messages) > 10
