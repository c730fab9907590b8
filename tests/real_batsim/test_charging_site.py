"""A real Batsim and the embedded simulator on a site whose grid charges the battery, and whose peak costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_batsim import random_runs
from real_batsim.program import real_batsim
from real_batsim.random_runs import RandomRun

from beasy_sched.engine import Session
from beasy_sched.model.events import Message
from beasy_sched.protocol.batsim4 import encode_reply
from beasy_sched.simulator import simulation_from_files

pytestmark = pytest.mark.slow

CLOCK = '\nstart = "2022-01-31T00:00:00+01:00"\n'
CHARGING = """
[grid]
import_limit_kw = 0.8
charge = { below_per_kwh = 0.1, up_to_soc_pct = 80 }
discharge = { above_per_kwh = 0.1 }
peak_per_kw = 12.0
[[grid.tariff]]
hours = [0, 12]
per_kwh = 0.05
[[grid.tariff]]
hours = [12, 24]
per_kwh = 0.30
"""
SHAVING = """
[grid]
import_limit_kw = 0.8
charge = { hours = [22, 6] }
battery = "shave"
peak_kw = 0.3
"""


@pytest.mark.parametrize("rules", [CHARGING, SHAVING])
@pytest.mark.parametrize("policy", ["easy", "bid-price", "beasy", "greenslot"])
def test_a_real_batsim_decides_the_same(
    policy: str, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[Session] = []
    built = random_runs.build_session

    def build_session(*given: Any, **named: Any) -> Session:
        sessions.append(built(*given, **named))
        return sessions[-1]

    monkeypatch.setattr(random_runs, "build_session", build_session)
    site = random_runs.SITE + CLOCK + rules
    run = RandomRun(1001, "none", policy, site)
    real, faults = run.compare(real_batsim(), tmp_path)
    assert real.exit_code == 0, real.error
    assert not faults
    power = sessions[0].power
    assert power is not None
    assert any(row.record.grid_charge_w > 0.0 for row in power.trace)

    inputs, options, _ = run._with_site(tmp_path)
    again, replies = sessions[1], []

    def decide(message: Message) -> Any:
        reply = again.step(message)
        replies.append(encode_reply(reply))
        return reply

    simulation_from_files(inputs, options, tmp_path / "again").run(decide)
    assert replies == real.replies
    assert again.power is not None
    assert [row.record for row in again.power.trace] == [row.record for row in power.trace]
