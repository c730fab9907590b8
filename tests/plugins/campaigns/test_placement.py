"""`compare` with policies whose jobs another scheduler places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code
from small_site import small_site

from beasy_sched.errors import ConfigError
from beasy_sched.model.choices import Placement
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy
from beasy_sched.plugins.campaigns.comparisons.scenarios import scenario_comparison


def test_placement_is_not_an_option_of_the_policy() -> None:
    policy = ComparedPolicy.of("power-reactive placement=external count=full")
    assert policy.arguments == ("--option", "count=full")
    assert policy.placement is Placement.EXTERNAL
    assert ComparedPolicy.of("easy").placement is None
    with pytest.raises(ValueError, match="placement: found 'slurm', expected own or external"):
        ComparedPolicy.of("easy placement=slurm")


@pytest.mark.plugins("greenslot")
def test_a_policy_that_cannot_offer_is_an_error_before_the_runs() -> None:
    with pytest.raises(ConfigError, match="'conventional' does not support external placement"):
        ComparedPolicy.of("conventional placement=external").check(site=True, plan=True)


def test_scenarios_do_not_support_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="placement is not supported with SCENARIOs"):
        scenario_comparison(["average"], [ComparedPolicy.of("easy placement=external")], tmp_path)


def test_both_placements_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = small_site(tmp_path, jobs=20)
    given = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site]
    policies = ["--policy", "power-reactive", "--policy", "power-reactive placement=external"]
    out = tmp_path / "out"
    assert exit_code("compare", *map(str, given), *policies, "-o", str(out), "--no-report", "-q") == 0
    told = capsys.readouterr().out
    assert "power-reactive placement=external: policy power-reactive; an EASY scheduler places" in " ".join(
        told.split()
    )
    summary = json.loads((out / "power-reactive_placement_external/run_summary.json").read_text())
    assert summary["settings"]["placement"] == "external"
    assert summary["jobs"]["submitted"] == 20
    assert "placement" not in json.loads((out / "power-reactive/run_summary.json").read_text())["settings"]
    assert "| power-reactive placement=external |" in (out / "comparison.md").read_text()
