"""EASY where power is short: a first job that has its hosts but not its energy."""

from __future__ import annotations

import pytest
from talk import Talk, hosts, only, production, small_battery, submitted

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.policies.registry import make_policy


@pytest.mark.parametrize(("res", "starts"), [(2, True), (3, False)])
def test_its_hosts_stay_reserved_and_others_may_use_those_beyond_them(res: int, starts: bool) -> None:
    """Two of four hosts are the head's, for which there is no energy; a job that only waits needs none."""
    talk = Talk(
        make_policy("easy"), site=small_battery(soc_pct=20.0, charge_w=1e-9), energy=EnergySource.MODEL
    )
    talk.at(0.0, production(0.0, 4 * 50.0), submitted(0.0, "head", 2))
    waits = e.JobSubmitted(1.0, e.JobRequest("w0!waits", 1.0, res, "p", 1000.0), {"type": "delay"})
    found = only(d.ExecuteJob, talk.at(1.0, waits))
    assert found == ([d.ExecuteJob(1.0, "w0!waits", hosts(f"0-{res - 1}"))] if starts else [])
    assert "w0!head" not in talk.session.cluster.running


def test_energy_that_comes_within_a_step_goes_to_the_first_job() -> None:
    """Both jobs fit, but there is energy for one: no host has come free, and yet the first one can start."""
    options = {"priority": "arrival", "backfill": "arrival"}
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy", options), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 4 * 50.0), submitted(0.0, "head"))
    found = talk.at(1.0, production(1.0, 4 * 50.0 + 60.0), submitted(1.0, "later"))
    assert only(d.ExecuteJob, found) == [d.ExecuteJob(1.0, "w0!head", hosts("0"))]
