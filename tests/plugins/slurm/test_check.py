"""A look at a cluster: what is there, what is missing, with the line to add."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from plugins.slurm.fake_slurm import START_S, FakeSlurm

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Level
from beasy_sched.plugins.slurm.cluster_check import (
    cluster_facts,
    cluster_findings,
    hold_script,
    look_at_cluster,
)
from beasy_sched.plugins.slurm.records import SlurmAway
from beasy_sched.plugins.slurm.slurm_commands import Slurm


def look(
    fake: FakeSlurm, *, user: str = "root", partition: str | None = "main", now_s: float = START_S
) -> Any:
    return look_at_cluster(Slurm(fake), partition, lambda: now_s, user)


def codes(fake: FakeSlurm, **how: Any) -> dict[str, Level]:
    return {finding.code: finding.level for finding in cluster_findings(look(fake, **how))}


def text_of(fake: FakeSlurm, code: str, **how: Any) -> str:
    return next(finding.text for finding in cluster_findings(look(fake, **how)) if finding.code == code)


def test_a_cluster_that_has_everything():
    fake = FakeSlurm(4)
    fake.submit()
    assert codes(fake) == {}
    assert codes(fake, partition=None) == {}
    facts = dict(cluster_facts(look(fake)))
    assert facts["Slurm"] == "22.05.8 (tested)"
    assert facts["partition main"] == "4: n[1-4]"
    assert facts["jobs waiting"] == "1, of which 1 are held"
    assert facts["power saving"].startswith("SuspendTime=8640000 sec, SuspendProgram=/etc/slurm/suspend")
    assert (facts["clocks"], facts["rights"]) == ("0 s apart", "root")
    assert fake.changing == []


@pytest.mark.parametrize(
    ("settings", "code", "level", "line"),
    [
        ({"SuspendTime": "NONE"}, "slurm-suspend-time", Level.FAILS, "SuspendTime=8640000"),
        ({"SuspendTime": "INFINITE"}, "slurm-suspend-time", Level.FAILS, "SuspendTime=8640000"),
        ({"SuspendTime": "300 sec"}, "slurm-suspend-time", Level.FAILS, "SuspendTime=8640000"),
        (
            {"SuspendProgram": "(null)"},
            "slurm-suspend-program",
            Level.FAILS,
            "SuspendProgram=/etc/slurm/suspend",
        ),
        ({"ResumeProgram": "(null)"}, "slurm-resume-program", Level.FAILS, "ResumeProgram=/etc/slurm/resume"),
        ({"JobSubmitPlugins": "(null)"}, "slurm-not-held", Level.FAILS, "JobSubmitPlugins=lua"),
        ({"SelectType": "select/cons_tres"}, "slurm-shared", Level.FAILS, "OverSubscribe=EXCLUSIVE"),
    ],
)
def test_what_is_missing(settings: dict[str, str], code: str, level: Level, line: str):
    fake = FakeSlurm(2)
    fake.settings = settings
    assert codes(fake) == {code: level}
    assert line in text_of(fake, code)


def test_rights():
    fake = FakeSlurm(1)
    assert codes(fake, user="slurm") == {}, "the SlurmUser"
    assert codes(fake, user="ada") == {"slurm-rights": Level.FAILS}
    fake.admins = {"ada": "Operator", "bob": "None"}
    assert codes(fake, user="ada") == {}
    assert codes(fake, user="bob") == {"slurm-rights": Level.FAILS}
    assert "adminlevel=Operator" in text_of(fake, "slurm-rights", user="bob")


def test_clocks_that_are_apart():
    fake = FakeSlurm(1)
    assert codes(fake, now_s=START_S + 1.9) == {}
    assert "is 42 s behind this computer's" in text_of(fake, "slurm-clock", now_s=START_S + 42)
    assert "is 42 s ahead of this computer's" in text_of(fake, "slurm-clock", now_s=START_S - 42)


@pytest.mark.parametrize("version", ["22.05.8", "24.11.7", "25.11.7", "26.05.3"])
def test_versions_that_were_tried(version: str):
    assert codes(FakeSlurm(1, version=version)) == {}


def test_versions():
    assert codes(FakeSlurm(1, version="23.11.10")) == {"slurm-version": Level.ODD}
    assert codes(FakeSlurm(1, version="21.08.8"))["slurm-old"] is Level.FAILS


def test_jobs_that_nobody_holds():
    fake = FakeSlurm(1)
    for _ in range(2):
        fake.submit(held=False, free_s=START_S + 1000)
    fake.submit(held=False, dependency="afterok:1(unfulfilled)")
    assert codes(fake) == {"slurm-free": Level.ODD}
    assert text_of(fake, "slurm-free").startswith("2 jobs of the partition wait and are not held")


def test_nodes_out_of_service():
    fake = FakeSlurm(3)
    fake.lose("n2")
    fake.nodes["n3"].flags.add("DRAIN")
    assert text_of(fake, "slurm-nodes-out") == "2 nodes out of service: n[2-3]"


def test_what_cannot_be_looked_at():
    fake = FakeSlurm(2)
    with pytest.raises(ConfigError, match="no node is in the partition 'night': the partitions are main"):
        look(fake, partition="night")
    fake.away = True
    with pytest.raises(SlurmAway, match="Unable to contact slurm controller"):
        look(fake)


def test_the_script_names_the_partition():
    assert 'local held = "night"\n' in hold_script("night")


@pytest.mark.parametrize(
    ("version", "settings", "line"),
    [
        ("22.05.8", "OverSubscribe=EXCLUSIVE", ""),
        ("26.05.3", "Exclusive=NODE OverSubscribe=NO", ""),
        ("26.05.3", "Exclusive=TOPO OverSubscribe=NO", ""),
        ("26.05.3", "Exclusive=NO OverSubscribe=NO", "PartitionName=main ... Exclusive=NODE"),
        ("25.11.7", "OverSubscribe=NO", "PartitionName=main ... OverSubscribe=EXCLUSIVE"),
    ],
)
def test_whole_nodes(version: str, settings: str, line: str):
    fake = FakeSlurm(1, version=version)
    fake.settings, fake.partition_settings = {"SelectType": "select/cons_tres"}, settings
    assert codes(fake) == ({"slurm-shared": Level.FAILS} if line else {})
    if line:
        assert line in text_of(fake, "slurm-shared")


@pytest.mark.parametrize(
    ("of_all", "of_partition", "of_node", "where"),
    [
        ("INFINITE", "8640000", None, ""),
        ("INFINITE", "GLOBAL", 8_640_000, ""),
        ("8640000 sec", "GLOBAL", 8_640_000, ""),
        ("600 sec", "8640000", None, ""),
        ("600 sec", "GLOBAL", None, "SuspendTime is 600 sec.* set in slurm.conf: "),
        ("8640000 sec", "600", None, "SuspendTime is 600: .* on the line of partition main in slurm.conf: "),
        ("8640000 sec", "GLOBAL", 60, "SuspendTime is 60 s: .* for nodes n1 in slurm.conf: "),
        ("8640000 sec", "INFINITE", None, "SuspendTime is INFINITE: Slurm's power saving is disabled"),
        ("INFINITE", "GLOBAL", None, "SuspendTime is INFINITE: Slurm's power saving is disabled"),
    ],
)
def test_where_the_suspend_time_is(of_all: str, of_partition: str, of_node: float | None, where: str):
    """A site's own power saving keeps the scheduler from acting, wherever it is set."""
    fake = FakeSlurm(2, version="26.05.3")
    fake.settings = {"SuspendTime": of_all}
    fake.partition_settings = f"State=UP SuspendTime={of_partition}"
    fake.nodes["n1"].suspend_s = of_node
    assert codes(fake) == ({"slurm-suspend-time": Level.FAILS} if where else {})
    if where:
        assert re.search(where, text_of(fake, "slurm-suspend-time"))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (hold_script("main"), {}),
        (hold_script("main", 990, whole=False) + "function slurm_job_submit() end", {}),
        (hold_script("night"), {"slurm-script": Level.FAILS}),
        ("function slurm_job_submit() return slurm.SUCCESS end", {"slurm-script": Level.FAILS}),
        ('local held = "main"  -- of an earlier version of beasy-sched', {"slurm-script": Level.ODD}),
        (None, {}),
    ],
)
def test_the_site_s_own_script(script: str | None, found: dict[str, Level], tmp_path: Path):
    fake = FakeSlurm(1)
    fake.settings = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    if script is not None:
        (tmp_path / "job_submit.lua").write_text(script)
    assert codes(fake) == found
    assert codes(fake, partition=None) == {}
    if found:
        assert "slurm check --partition main --script" in text_of(fake, "slurm-script")


def test_functions_to_merge_have_no_hooks():
    merged, whole = hold_script("main", 990, whole=False), hold_script("main", 990)
    assert whole.startswith(merged)
    assert "function slurm_job" not in merged
    assert whole.count("function slurm_job") == 2
    assert "[0] = true, [990] = true" in merged
    assert "{ [0] = true }" in hold_script("main")


def test_what_the_order_by_priority_depends_on():
    fake = FakeSlurm(1)
    assert dict(cluster_facts(look(fake)))["--order priority"] == "by nice"
    fake.settings = {
        "PriorityType": "priority/multifactor",
        "PriorityWeightFairShare": "1000",
        "PriorityWeightAge": "50",
    }
    without = "by age (weight 50), nice (sshare lists no account shares)"
    assert dict(cluster_facts(look(fake)))["--order priority"] == without
    fake.shares = {("physics", "ada"): 0.5}
    order = "by account shares of sshare (weight 1000), age (weight 50), nice"
    assert dict(cluster_facts(look(fake)))["--order priority"] == order
