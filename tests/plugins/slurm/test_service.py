"""The loop between a cluster and a scheduler: commands, journal, and what it does when things fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.fake_slurm import Delays, FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, platform_of, submit

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError, InputError, PeerError
from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.acting import Acting
from beasy_sched.plugins.slurm.cluster_actions import SetFrequency
from beasy_sched.plugins.slurm.cluster_check import acting_findings, look_at_cluster
from beasy_sched.plugins.slurm.journal import Journal
from beasy_sched.plugins.slurm.live import LiveRun, check_platform, live_site
from beasy_sched.plugins.slurm.live_settings import LiveSettings
from beasy_sched.plugins.slurm.node_pstates import frequency_setter
from beasy_sched.plugins.slurm.records import MARK
from beasy_sched.plugins.slurm.service import Service, release_partition
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.run.settings import RunSettings

SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 10
window_h = 1
"""


LINE = '{"timestamp": %d, "type": "power", "power_available": 500}\n'
POWER = "".join(LINE % at for at in range(0, 130, 10))


def live(slurm: FakeSlurm, prefix: Path, settings: RunSettings, **changes: object):
    """Run beside the fake for a while, as the command does."""
    given = {"act": True, "for_s": 120.0, **changes}
    if settings.site is not None:
        given["power"] = str(prefix.with_name("power.txt"))
        prefix.with_name("power.txt").write_text(POWER)
    said: list[str] = []
    with RunFiles(str(prefix), settings) as files:
        run = LiveRun(
            platform_of(len(slurm.nodes)),
            settings,
            LiveSettings(partition="main", **given),
            files,
            slurm=Slurm(slurm),
            say=said.append,
            user="root",
            clock=lambda: slurm.now_s,
            sleep=slurm.advance,
        )
        summary = run.go()
    return summary, said


def test_a_run_leaves_its_files(tmp_path: Path) -> None:
    slurm = FakeSlurm(3)
    for _ in range(3):
        submit(slurm, nodes=2, run_s=12)
    settings = RunSettings(policy="power-reactive", site=SITE, energy=EnergySource.MODEL, windows=100)
    summary, said = live(slurm, tmp_path / "r", settings)
    assert summary is not None
    assert summary.jobs is not None
    assert summary.jobs.finished == 3
    assert said == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"r_summary.json", "r_decisions.jsonl", "r_energy_trace.csv", "r_journal.msgpack"}
    journal = Journal(tmp_path / "r_journal.msgpack")
    assert journal.records[0]["kind"] == "begin"
    level = journal.last("level")
    assert level is not None
    assert 20.0 <= level["soc_pct"] <= 90.0
    started = [record["action"]["job"] for record in journal.records if record["kind"] == "action"
               and record["action"]["type"] == "StartJob"]  # fmt: skip
    assert started == ["1", "2", "3"]
    journal.close()


def test_what_an_acting_run_lacks_is_told_with_the_line_to_add(tmp_path: Path) -> None:
    slurm = FakeSlurm(1, holding=False)
    slurm.settings["SuspendTime"] = "NONE"
    _, said = live(slurm, tmp_path / "r", RunSettings(policy="easy", energy=EnergySource.MODEL))
    suspend, held = said
    assert "add to slurm.conf" in suspend
    assert "SuspendTime=8640000" in suspend
    assert "JobSubmitPlugins=lua" in held
    facts = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user="ada")
    with pytest.raises(ConfigError, match="--act: this user may not change jobs and nodes: be root or"):
        acting_findings(facts)


def test_the_storage_goes_on_from_where_the_journal_left_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.add({"kind": "level", "time": 10.0, "soc_pct": 61.5, "hydrogen_kg": 2.0})
    journal.add({"kind": "level", "time": 20.0, "soc_pct": 99.0, "hydrogen_kg": 7.0})
    journal.close()
    tank = HydrogenSpec(5.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    site = Site(Storage(BatterySpec(1e6), tank), 10.0, 3600.0)
    again = Journal(tmp_path / "j")
    storage = live_site(site, 1_800_000_000.0, again).storage
    assert storage.battery.soc_start_pct == 90.0  # its highest
    assert storage.hydrogen is not None
    assert storage.hydrogen.level_start_kg == 5.0  # the tank's size
    again.close()


def test_time_0_is_now(tmp_path: Path) -> None:
    calendar = live_site(Site(Storage(BatterySpec(1e6)), 10.0, 3600.0), 1_800_000_000.0, None).calendar
    assert calendar is not None
    assert calendar.start.timestamp() == 1_800_000_000.0


def test_a_record_that_a_crash_has_cut_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.add({"kind": "begin"})
    journal.add({"kind": "level", "soc_pct": 50.0})
    journal.close()
    path.write_bytes(path.read_bytes()[:-3])
    again = Journal(path)
    assert again.records == [{"kind": "begin"}]
    again.add({"kind": "end"})
    again.close()
    whole = Journal(path)
    assert [record["kind"] for record in whole.records] == ["begin", "end"]
    whole.close()


def test_a_link_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "j").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="is a link"):
        Journal(tmp_path / "j")
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("content", [b"job,nodes\n1,2\n", b"\x02\x00\x00\x00\xc1\xc1"])
def test_another_file_is_no_journal(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(InputError, match="is not a journal"):
        Journal(tmp_path / "j")
    assert (tmp_path / "j").read_bytes() == content


def test_a_scheduler_that_fails_gives_the_partition_back(tmp_path: Path) -> None:
    slurm = FakeSlurm(2)
    jobs = [submit(slurm, nodes=1, run_s=5), submit(slurm, nodes=2, run_s=5)]
    slurm.nodes["n2"].flags.add("POWERED_DOWN")
    settings = RunSettings(policy="easy", energy=EnergySource.MODEL)
    with pytest.raises(PeerError):
        live(slurm, tmp_path / "r", settings, endpoint="tcp://127.0.0.1:1", fail_open_s=0.2)
    slurm.advance(60)
    assert [slurm.jobs[job].state for job in jobs] == ["COMPLETED", "COMPLETED"]


def test_release_wakes_nodes_and_releases_what_was_held_for_the_bridge() -> None:
    slurm = FakeSlurm(3)
    ours, own = submit(slurm), slurm.submit(held=True)
    slurm.nodes["n3"].flags.add("POWERED_DOWN")
    assert release_partition(Slurm(slurm), "main", print) == 1
    assert (slurm.jobs[ours].held, slurm.jobs[own].held) == (False, True)
    slurm.advance(15)
    assert slurm.nodes["n3"].is_up
    with pytest.raises(ConfigError, match="no node is in the partition 'gpu': the partitions are main"):
        release_partition(Slurm(slurm), "gpu", print)


def test_a_release_deletes_expected_starts_from_comments() -> None:
    slurm = FakeSlurm(1)
    told = "start expected 14:10 to 16 Jan 15:40"
    texts = {told: "", f"mine; {told}": "mine", "mine": "mine"}
    jobs = {submit(slurm, comment=text): own for text, own in texts.items()}
    another = slurm.submit(held=True, comment=told)
    release_partition(Slurm(slurm), "main", print)
    assert {job: slurm.jobs[job].comment for job in jobs} == jobs
    assert slurm.jobs[another].comment == told


def test_a_wake_up_that_is_lost_is_asked_for_again() -> None:
    """Slurm forgets a POWER_UP of a node that is still falling asleep."""
    slurm = FakeSlurm(1)
    beside = Beside(slurm, "workload-reactive", site=None)
    beside.until(lambda: "POWERING_DOWN" in slurm.nodes["n1"].flags, 60)
    submit(slurm, run_s=5)
    beside.until(lambda: all_over(slurm), 120)


def test_a_scheduler_that_goes_round_in_circles_is_stopped() -> None:
    slurm = FakeSlurm(1)

    def restless(message):
        return d.Reply(message.now, [d.CallMeLater(message.now, message.now)])

    bridge = Acting(platform_of(1), "main", epoch_s=slurm.now_s)
    service = Service(bridge, Slurm(slurm), clock=lambda: slurm.now_s,
                      sleep=slurm.advance)  # fmt: skip
    with pytest.raises(PeerError, match="does not stop making decisions"):
        service.run(restless, lambda: False)


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ([d.ExecuteJob(0.0, "slurm!7", HostSet.parse("0"))], "it never received"),
        ([d.QueryEnergy(0.0)], "pass --meter"),
        ([d.RegisterJob(0.0, "w!1", {})], "RegisterJob"),
    ],
)
def test_what_a_cluster_cannot_do_is_an_error(decisions: list[d.Decision], told: str) -> None:
    bridge = Acting(platform_of(1), "main", epoch_s=0.0)
    with pytest.raises(PeerError, match=told):
        bridge.carry_out(d.Reply(0.0, decisions), 0.0)


def test_a_platform_of_other_nodes_is_refused() -> None:
    slurm = Slurm(FakeSlurm(2))
    with pytest.raises(ConfigError, match="host 'n3' of the platform is not a node of partition 'main'"):
        check_platform(platform_of(3), LiveSettings(partition="main"), slurm)
    with pytest.raises(ConfigError, match="no node is in the partition 'gpu': the partitions are main"):
        check_platform(platform_of(2), LiveSettings(partition="gpu"), slurm)


def test_the_command_of_p_states_is_filled_in(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = tmp_path / "set"
    script.write_text(f'#!/bin/sh\necho "$@" >> {out}\n')
    script.chmod(0o755)
    frequency_setter(f"{script} --node={{node}} {{pstate}} {{mhz}}MHz", platform_of(2))(
        SetFrequency(("n1", "n2"), 0)
    )
    assert out.read_text() == "--node=n1 0 1000MHz\n--node=n2 0 1000MHz\n"
    with pytest.raises(CommandFailed, match="ended with exit code 1"):
        frequency_setter("false", platform_of(1))(SetFrequency(("n1",), 0))
    with pytest.raises(CommandFailed, match=r"set n1: cannot be started \(No such file"):
        frequency_setter("/nowhere/set {node}", platform_of(1))(SetFrequency(("n1",), 0))
    with pytest.raises(CommandFailed, match=r"has not ended within 0\.1 s"):
        frequency_setter("sleep 60", platform_of(1), timeout_s=0.1)(SetFrequency(("n1",), 0))
    with pytest.raises(ConfigError, match="No closing quotation"):
        frequency_setter("x '", platform_of(1))


def test_a_release_waits_for_nodes_that_fall_asleep() -> None:
    """Slurm forgets a POWER_UP of such a node."""
    slurm = FakeSlurm(3)
    Slurm(slurm).do(a.SwitchOff(("n2", "n3")))
    slurm.advance(1)
    began_s = slurm.now_s
    release_partition(Slurm(slurm), "main", print, clock=lambda: slurm.now_s, sleep=slurm.advance)
    assert slurm.now_s - began_s <= 3.0
    slurm.advance(15)
    assert all(node.is_up for node in slurm.nodes.values())


def test_a_release_does_not_wait_for_ever() -> None:
    slurm = FakeSlurm(2, delays=Delays(down_s=10_000.0))
    Slurm(slurm).do(a.SwitchOff(("n2",)))
    said: list[str] = []
    release_partition(Slurm(slurm), "main", said.append, clock=lambda: slurm.now_s, sleep=slurm.advance)
    assert said == ["n2: still powering down after 300 s, left asleep"]


def test_a_release_removes_the_bridge_s_node_lists() -> None:
    """The bridge has been killed between its two commands."""
    slurm = FakeSlurm(4)
    job = submit(slurm, nodes=2, most=4)
    Slurm(slurm).do(a.StartJob(job, ("n1", "n2"), "2-4"))
    slurm.jobs[job].held = True
    assert release_partition(Slurm(slurm), "main", print) == 1
    found = slurm.jobs[job]
    assert (found.held, found.required, found.nodes, found.most, found.admin_comment) == (
        False,
        (),
        2,
        4,
        MARK,
    )


@pytest.mark.plugins("reports")
def test_explain_shows_why_slurm_did_not_start_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = FakeSlurm(1)
    submit(slurm, run_s=5, stuck="QOSMaxJobsPerUserLimit")
    live(slurm, tmp_path / "r", RunSettings(policy="easy"))
    assert exit_code("explain", str(tmp_path / "r"), "--job", "slurm!1") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The cluster did not start it (QOSMaxJobsPerUserLimit); it is submitted again later." in shown


def test_a_run_takes_the_site_s_order(tmp_path: Path) -> None:
    slurm = FakeSlurm(1)
    slurm.settings = {"PriorityType": "priority/multifactor", "PriorityWeightFairShare": "1000"}
    slurm.shares = {("physics", "ada"): 0.9, ("physics", "bob"): 0.1}
    bob, ada = (submit(slurm, run_s=5, user=user, account="physics") for user in ("bob", "ada"))
    live(slurm, tmp_path / "r", RunSettings(policy="easy"), order="priority")
    assert slurm.jobs[ada].start_s < slurm.jobs[bob].start_s
    assert sum(command[0] == "sshare" for command in slurm.commands) == 2, "one of them is the check's"
