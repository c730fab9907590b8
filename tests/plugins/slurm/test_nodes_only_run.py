"""``slurm run``, ``check`` and ``release`` in the nodes-only mode, beside the fake Slurm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from plugins.slurm.fake_slurm import FakeReservation, FakeSlurm
from plugins.slurm.live_cases import KIND, platform_of
from plugins.slurm.nodes_only_cases import shared_slurm

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Level
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.slurm.cluster_check import acting_findings, look_at_cluster
from beasy_sched.plugins.slurm.live import LiveRun, placed_by_slurm, with_lives
from beasy_sched.plugins.slurm.live_settings import LiveSettings
from beasy_sched.plugins.slurm.nodes_only_check import offering_checks, offering_facts
from beasy_sched.plugins.slurm.service import release_partition
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.run.settings import RunSettings

NOW, AHEAD = "beasy-now-main", "beasy-ahead-main"
SITE = """
[battery]
capacity_kwh = 0.001
charge_limit_kw = 0.05
discharge_limit_kw = 0.05
[time]
step_s = 30
window_h = 1
"""
BUSY_W, IDLE_W, ASLEEP_W = KIND.full_w[0], KIND.idle_w[0], KIND.idle_w[1]


def run(
    slurm: FakeSlurm, folder: Path, power_w: list[float], policy: str = "power-reactive", **changes: Any
) -> tuple[LiveRun, Any, list[str]]:
    """Run beside the fake for a minute for each power."""
    lines = (
        f'{{"timestamp": {at}, "type": "power", "power_available": {power_w[at // 60]}}}\n'
        for at in range(0, 60 * len(power_w), 30)
    )
    (folder / "power.txt").write_text("".join(lines))
    settings = RunSettings(policy=policy, site=SITE, energy=EnergySource.MODEL, windows=100)
    given = {"act": True, "for_s": 60.0 * len(power_w), "power": str(folder / "power.txt"), **changes}
    said: list[str] = []
    settings = with_lives(placed_by_slurm(settings), changes.get("on_kill"))
    with RunFiles(str(folder / "r"), settings) as files:
        live = LiveRun(
            platform_of(len(slurm.nodes)),
            settings,
            LiveSettings(partition="main", mode="nodes-only", **{"poll_s": 1.0} | given),
            files,
            slurm=Slurm(slurm),
            say=said.append,
            user="root",
            clock=lambda: slurm.now_s,
            sleep=slurm.advance,
        )
        summary = live.go()
    return live, summary, said


def offers_of(folder: Path) -> list[dict[str, str]]:
    head, *rows = (folder / "r_offers.csv").read_text().splitlines()
    return [dict(zip(head.split(","), row.split(","), strict=True)) for row in rows]


def test_a_run_offers_what_the_power_allows(tmp_path: Path):
    slurm = shared_slurm()
    jobs = [slurm.submit(cpus=2, run_s=15, limit_s=60) for _ in range(12)]
    _, summary, said = run(slurm, tmp_path, [500.0, 500.0, 120.0, 120.0, 500.0, 500.0])
    assert said == []
    assert {slurm.jobs[job].state for job in jobs} == {"COMPLETED"}
    assert summary.jobs.finished == len(jobs)
    offered = {int(row["offered"]) for row in offers_of(tmp_path)}
    assert min(offered) <= 2
    assert max(offered) == 4
    low = [row for row in offers_of(tmp_path) if 150 <= float(row["time_s"]) < 240]
    assert all(int(row["on"]) - int(row["draining"]) <= int(row["offered"]) for row in low)


@pytest.mark.parametrize(
    ("on_kill", "state"),
    [(None, "RUNNING"), ("requeue", "PENDING"), ("checkpoint", "PENDING"), ("drop", "CANCELLED")],
)
def test_too_little_energy_now(on_kill: Any, state: str, tmp_path: Path):
    """Busy nodes drain, and only if the user wants it their jobs end: of a shared node, all of them."""
    slurm = shared_slurm(2)
    jobs = [slurm.submit(cpus=1, run_s=1000, limit_s=2000) for _ in range(4)]
    run(slurm, tmp_path, [400.0, 0.0, 0.0], on_kill=on_kill)
    assert {slurm.jobs[job].state for job in jobs} == {state}
    assert set(slurm.reservations[NOW].nodes) == {"n1", "n2"}
    assert (slurm.on == set()) == (on_kill is not None)
    assert not any(slurm.jobs[job].held for job in jobs)


def test_a_shadow_runs_queries_only_and_tells_the_commands(tmp_path: Path):
    slurm = shared_slurm()
    _, _, said = run(slurm, tmp_path, [120.0, 120.0, 500.0], act=False)
    assert slurm.changing == []
    assert all(text.startswith("would run: scontrol ") for text in said)
    assert "create reservation" in said[0]
    assert sum("POWER_DOWN" in text for text in said) <= 2, "once for each node"
    assert not any("deleted by somebody" in text for text in said)
    assert len(offers_of(tmp_path)) >= 2
    assert not (tmp_path / "r_journal.msgpack").exists()


def test_what_keeps_a_run_from_acting_is_one_message_before_anything_is_changed(tmp_path: Path):
    def told(slurm: FakeSlurm, **changes: Any) -> str:
        with pytest.raises(ConfigError) as raised:
            run(slurm, tmp_path, [500.0], **changes)
        assert slurm.changing == []
        return str(raised.value)

    slurm = shared_slurm()
    slurm.settings |= {"SuspendTime": "NONE"}
    assert "--mode nodes-only: SuspendTime is NONE: Slurm's power saving is disabled" in told(slurm)
    slurm = shared_slurm()
    slurm.settings |= {"ResumeProgram": "(null)"}
    assert "ResumeProgram is missing" in told(slurm)
    slurm = shared_slurm()
    end_s = slurm.now_s + 1000
    slurm.reservations[NOW] = FakeReservation(NOW, ("n1",), slurm.now_s, end_s, "ada", ("MAINT",))
    assert f"reservation '{NOW}' (nodes n1, users ada) was not made by beasy-sched" in told(slurm)
    slurm = FakeSlurm(2)
    for node in slurm.nodes.values():
        node.partitions = ("night",)
    assert "no node is in the partition 'main'" in told(slurm)


@pytest.mark.plugins("greenslot")
def test_a_policy_that_cannot_offer_is_one_message(tmp_path: Path):
    slurm = shared_slurm()
    with pytest.raises(ConfigError, match="policy 'greenslot' does not support external placement"):
        run(slurm, tmp_path, [500.0], policy="greenslot")
    assert slurm.changing == []


def test_no_rights_is_one_message():
    slurm = shared_slurm()
    found = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user="ada")
    (finding,) = offering_checks(found, [])
    assert (finding.code, finding.level) == ("slurm-rights", Level.FAILS)


def test_acting_on_jobs_needs_whole_nodes():
    slurm = shared_slurm()
    found = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user="root")
    with pytest.raises(ConfigError, match=r"--act: SelectType is select/cons_tres.*--mode nodes-only"):
        acting_findings(found)


def test_the_check_of_a_cluster_that_is_ready():
    slurm = shared_slurm(suspend_s=15)
    slurm.settings["SuspendTime"] = "15 sec"
    slurm.submit(run_s=100)
    slurm.advance(40)
    end_s = slurm.now_s + 1000
    slurm.reservations["physics"] = FakeReservation("physics", ("n4",), slurm.now_s, end_s, "ada", ("MAINT",))
    found = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user="root")
    assert [*offering_checks(found, Slurm(slurm).reservations())] == []
    facts = dict(offering_facts(found, Slurm(slurm).reservations()))
    assert facts["reservations of others"] == "physics"
    assert facts["first step"] == (
        "withholds the nodes beyond the policy's offer, of 3, in this order:"
        " asleep: n[2-3]; the rest when it is free: n1"
    )
    slurm.settings["SuspendTime"] = "NONE"
    found = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user="root")
    assert [finding.code for finding in offering_checks(found, [])] == ["slurm-suspend-time"]


def test_waking_that_takes_longer_than_slurm_waits(tmp_path: Path):
    slurm = shared_slurm()
    slurm.settings["ResumeTimeout"] = "10 sec"
    _, _, said = run(slurm, tmp_path, [500.0])
    assert len(said) == 1
    assert "ResumeTimeout is 10 s, and waking a node takes 10 s" in said[0]


def test_release_deletes_our_reservations_alone(tmp_path: Path):
    slurm = shared_slurm()
    run(slurm, tmp_path, [100.0])
    end_s = slurm.now_s + 1000
    slurm.reservations["physics"] = FakeReservation("physics", ("n4",), slurm.now_s, end_s, "ada", ("MAINT",))
    slurm.reservations[AHEAD] = FakeReservation(AHEAD, ("n3",), slurm.now_s + 500, end_s)
    slurm.commands.clear()
    assert release_partition(Slurm(slurm), "main", print) == 0
    assert [*slurm.reservations] == ["physics"]
    assert {command[1] for command in slurm.changing} == {"delete"}, "Slurm wakes nodes by itself"


def test_a_failing_policy_gives_the_nodes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slurm = shared_slurm()
    fails_s = slurm.now_s + 45

    def decide(self: Any, message: Any, step: Any = None) -> Any:
        raise RuntimeError("the policy is broken")

    from beasy_sched.engine import Session

    whole = Session.step

    def step(self: Session, message: Any) -> Any:
        return decide(self, message) if slurm.now_s > fails_s else whole(self, message)

    monkeypatch.setattr(Session, "step", step)
    with pytest.raises(RuntimeError, match="the policy is broken"):
        run(slurm, tmp_path, [100.0, 100.0])
    assert NOW not in slurm.reservations


def test_a_thousand_nodes_cost_little(tmp_path: Path, record_property: Any):
    """The calls of a step do not depend on the number of nodes; the time is recorded, not judged."""
    slurm = shared_slurm(1000)
    for _ in range(300):
        slurm.submit(cpus=2, run_s=10_000, limit_s=20_000)
    slurm.advance(2)
    before_s = time.process_time()
    run(slurm, tmp_path, [60_000.0] * 4, poll_s=5.0)
    record_property("cpu_s", time.process_time() - before_s)
    calls = [each for each in slurm.commands if each[0] == "scontrol" and each[2] in ("reservation", "x")]
    shows = sum(each[1:3] == ("show", "reservation") for each in slurm.commands)
    assert shows <= 8 + 2, "once a step, and twice at the beginning"
    assert len(calls) <= 5 * 8 + 2
