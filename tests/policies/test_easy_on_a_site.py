"""EASY where power is short: a first job that has its hosts but not its energy."""

from __future__ import annotations

import pytest
from talk import ASLEEP, Talk, changed, hosts, only, production, small_battery, submitted

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


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_servers_that_the_guard_put_to_sleep_are_woken_for_waiting_jobs(policy: str) -> None:
    """In the first step, the guard puts all servers to sleep; in the second, there is power for them."""
    talk = Talk(
        make_policy(policy), site=small_battery(soc_pct=20.0, charge_w=1e-9), energy=EnergySource.MODEL
    )
    slept = only(d.SetResourceState, talk.at(0.0, production(0.0, 50.0)))
    assert slept == [d.SetResourceState(0.0, hosts("0-3"), ASLEEP)]
    talk.at(10.0, changed(10.0, "0-3", ASLEEP), submitted(10.0, "waits", 2))
    woken = only(d.SetResourceState, talk.at(60.0, production(60.0, 1000.0)))
    assert [len(each.resources) for each in woken] == [2]


def test_energy_that_comes_within_a_step_goes_to_the_first_job() -> None:
    """Both jobs fit, but there is energy for one: no host has come free, and yet the first one can start."""
    options = {"priority": "arrival", "backfill": "arrival"}
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy", options), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 4 * 50.0), submitted(0.0, "head"))
    found = talk.at(1.0, production(1.0, 4 * 50.0 + 60.0), submitted(1.0, "later"))
    assert only(d.ExecuteJob, found) == [d.ExecuteJob(1.0, "w0!head", hosts("0"))]
