"""A look at a cluster: what is there, what is missing, with the line to add."""

from __future__ import annotations

from typing import Any

import pytest
from slurm.fake_slurm import START_S, FakeSlurm

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Level
from beasy_sched.slurm.cluster_check import cluster_facts, cluster_findings, hold_script, look_at_cluster
from beasy_sched.slurm.records import SlurmAway
from beasy_sched.slurm.slurm_commands import Slurm


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
        ({"SuspendTime": "300 sec"}, "slurm-suspend-time", Level.ODD, "SuspendTime=8640000"),
        (
            {"SuspendProgram": "(null)"},
            "slurm-suspend-program",
            Level.FAILS,
            "SuspendProgram=/etc/slurm/suspend",
        ),
        ({"ResumeProgram": "(null)"}, "slurm-resume-program", Level.FAILS, "ResumeProgram=/etc/slurm/resume"),
        ({"JobSubmitPlugins": "(null)"}, "slurm-not-held", Level.FAILS, "JobSubmitPlugins=lua"),
        ({"SelectType": "select/cons_tres"}, "slurm-shared", Level.ODD, "OverSubscribe=EXCLUSIVE"),
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
