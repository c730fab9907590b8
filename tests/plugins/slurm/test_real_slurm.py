"""Beside a real Slurm: what is read, what is changed, and what the fake Slurm stands for."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.real_cluster import LONG, RealCluster, why_not

from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.node_sizes import beyond_size, smallest_size
from beasy_sched.plugins.slurm.records import MARK, SlurmAway, SlurmJob, SlurmNode
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed

pytestmark = [pytest.mark.slow, *LONG]
Capture = pytest.CaptureFixture[str]


def job_of(cluster: RealCluster, job_id: str) -> SlurmJob:
    return next(job for job in cluster.slurm().jobs() if job.id == job_id)


def node_of(cluster: RealCluster, name: str) -> SlurmNode:
    return next(node for node in cluster.slurm().nodes() if node.name == name)


def test_a_job_is_held_and_starts_where_it_is_to(real_cluster: RealCluster, tmp_path: Path):
    slurm = real_cluster.slurm()
    job_id = real_cluster.submit_until(tmp_path / "end", "-N2", "-t", "10")
    held = job_of(real_cluster, job_id)
    assert held.is_held
    assert (held.node_count, held.time_limit_s, held.lacks, held.partition) == (2, 600.0, "", "main")
    slurm.do(a.MarkJob(job_id, "a comment; $(with) 'signs'"))
    assert job_of(real_cluster, job_id).admin_comment == "a comment; $(with) 'signs'"
    slurm.do(a.StartJob(job_id, ("n2", "n4")))
    real_cluster.wait_for(lambda: job_of(real_cluster, job_id).state == "RUNNING", "the start")
    running = job_of(real_cluster, job_id)
    assert running.nodes == ("n2", "n4")
    assert running.is_placed
    assert node_of(real_cluster, "n4").state == "ALLOCATED"
    (tmp_path / "end").touch()
    real_cluster.wait_for(lambda: job_of(real_cluster, job_id).state == "COMPLETED", "the end")


def test_a_range_of_nodes_is_kept(real_cluster: RealCluster, tmp_path: Path):
    """Slurm adds no nodes to those of the start; the job has its range again when it is taken back."""
    slurm = real_cluster.slurm()
    first, second = (real_cluster.submit_until(tmp_path / "end", "-N2-4", "-t", "10") for _ in range(2))
    asked = job_of(real_cluster, first)
    assert (asked.node_count, asked.most_nodes, asked.node_range, asked.lacks) == (2, 4, "2-4", "")
    slurm.do(a.StartJob(first, ("n1", "n2"), asked.node_range))
    real_cluster.wait_for(lambda: job_of(real_cluster, first).state == "RUNNING", "the start")
    running = job_of(real_cluster, first)
    assert (running.nodes, running.is_placed, running.node_range) == (("n1", "n2"), True, "2-4")
    slurm.do(a.StartJob(second, ("n2", "n3"), "2-4"))
    real_cluster.wait_for(lambda: job_of(real_cluster, second).reason not in ("", "None"), "a reason")
    waits = job_of(real_cluster, second)
    assert (waits.waits, waits.is_held, waits.required_nodes) == (True, False, ("n2", "n3"))
    slurm.do(a.HoldJob(second))
    slurm.do(a.UnplaceJob(second, waits.node_range))
    taken = job_of(real_cluster, second)
    assert (taken.required_nodes, taken.node_count, taken.most_nodes) == ((), 2, 4)
    assert (taken.is_held, taken.admin_comment) == (True, MARK)
    plain = job_of(real_cluster, real_cluster.submit(1))
    slurm.do(a.StartJob(plain.id, ("n4",), plain.node_range))
    real_cluster.wait_for(lambda: job_of(real_cluster, plain.id).nodes == ("n4",), "the start")
    held = job_of(real_cluster, real_cluster.submit(1))
    slurm.do(a.UnplaceJob(held.id, held.node_range))
    assert job_of(real_cluster, held.id).is_held


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        (("-N1", "-w", "n4"), "nodes n4"),
        (("-N2", "--contiguous"), "contiguous nodes"),
        (("-N1", "--exclusive=user"), "exclusive user"),
        (("-N1", "--exclusive"), ""),
        (("-n", "2"), ""),
    ],
)
def test_what_users_ask_for(real_cluster: RealCluster, options: tuple[str, ...], lacks: str):
    assert job_of(real_cluster, real_cluster.submit(1, *options)).lacks == lacks


def test_requests_for_memory(real_cluster: RealCluster):
    size = smallest_size(real_cluster.slurm().nodes())
    assert (size.cpus, size.memory_mb) == (1, 100)
    small, large = (job_of(real_cluster, real_cluster.submit(1, f"--mem={mb}")) for mb in (100, 300))
    assert beyond_size(small, size) == ""
    assert beyond_size(large, size) == "300 MB of memory per node, the smallest node has 100"
    real_cluster.slurm().do(a.StartJob(large.id, ("n1",)))
    real_cluster.wait_for(lambda: job_of(real_cluster, large.id).is_held, "its return")
    assert job_of(real_cluster, large.id).reason == "BadConstraints"


def test_only_the_partition_is_held(real_cluster: RealCluster):
    free = real_cluster.submit(1, "-N1", "-p", "free")
    both = real_cluster.submit(1, "-N1", "-p", "free,main")
    assert job_of(real_cluster, both).is_held
    real_cluster.wait_for(lambda: job_of(real_cluster, free).state == "COMPLETED", "the end")


def test_tasks_of_an_array_are_started_one_by_one_and_none_is_cut(real_cluster: RealCluster):
    numbers = [number * number + number % 3 for number in range(30)]
    array = real_cluster.submit(1, "-N1", "-a", ",".join(map(str, numbers)))
    ids = {f"{array}_{number}" for number in numbers}
    assert ids <= {job.id for job in real_cluster.slurm().jobs()}
    task = f"{array}_{numbers[4]}"
    real_cluster.slurm().do(a.StartJob(task, ("n3",)))
    real_cluster.wait_for(lambda: job_of(real_cluster, task).state in ("RUNNING", "COMPLETED"), "a start")
    assert job_of(real_cluster, task).nodes == ("n3",)
    others = [job for job in real_cluster.slurm().jobs() if job.id in ids - {task}]
    assert len(others) == 29
    assert all(job.is_held for job in others)


def test_nodes_sleep_and_wake(real_cluster: RealCluster):
    """Twice: a node is started in another way the second time."""
    slurm = real_cluster.slurm()
    for _ in range(2):
        slurm.do(a.SwitchOff(("n1", "n2")))
        for name in ("n1", "n2"):
            real_cluster.wait_for(lambda n=name: "POWERED_DOWN" in node_of(real_cluster, n).flags, "sleep")
        slurm.do(a.SwitchOn(("n2",)))
        real_cluster.wait_for(lambda: not node_of(real_cluster, "n2").flags, "the wake")
        assert "POWERED_DOWN" in node_of(real_cluster, "n1").flags
        assert node_of(real_cluster, "n2").state == "IDLE"


def test_a_node_that_does_not_come(real_cluster: RealCluster):
    slurm = real_cluster.slurm()
    slurm.do(a.SwitchOff(("n3",)))
    real_cluster.wait_for(lambda: "POWERED_DOWN" in node_of(real_cluster, "n3").flags, "sleep")
    (real_cluster.folder / "broken-n3").touch()
    slurm.do(a.SwitchOn(("n3",)))
    seen: list[frozenset[str]] = []

    def has_begun() -> bool:
        seen.append(node_of(real_cluster, "n3").flags)
        return seen[-1] == {"POWERING_UP", "NOT_RESPONDING"}

    real_cluster.wait_for(has_begun, "power")
    assert {*seen[:-1]} <= {frozenset({"POWERED_DOWN", "POWER_UP"})}
    real_cluster.wait_for(lambda: node_of(real_cluster, "n3").state == "DOWN", "its loss")
    lost = node_of(real_cluster, "n3")
    assert lost.flags == {"POWERED_DOWN", "NOT_RESPONDING"}


def test_a_job_is_requeued_and_held(real_cluster: RealCluster):
    slurm = real_cluster.slurm()
    job_id = real_cluster.submit(60, "-N1", "-t", "5")
    slurm.do(a.StartJob(job_id, ("n1",)))
    real_cluster.wait_for(lambda: job_of(real_cluster, job_id).state == "RUNNING", "the start")
    slurm.do(a.RequeueJob(job_id))
    real_cluster.wait_for(lambda: job_of(real_cluster, job_id).is_held, "its return")
    assert (job_of(real_cluster, job_id).restarts, job_of(real_cluster, job_id).nodes) == (1, ())


def test_what_slurm_refuses(real_cluster: RealCluster):
    slurm = real_cluster.slurm()
    for refused in (
        lambda: slurm.do(a.ReleaseJob("999999")),
        lambda: slurm.do(a.SwitchOff(("nowhere",))),
        lambda: slurm.partition("nowhere"),
    ):
        with pytest.raises(CommandFailed, match=r"Invalid|not found"):
            refused()
    slurm.do(a.CancelJob("999999"))  # of this one nothing is said


def test_a_controller_that_is_away_is_no_empty_queue(real_cluster: RealCluster):
    job_id = real_cluster.submit(1, "-N1")
    real_cluster.stop_controller()
    try:
        for asked in (real_cluster.slurm().jobs, real_cluster.slurm().nodes):
            with pytest.raises(SlurmAway):
                asked()
        with pytest.raises(SlurmAway):
            real_cluster.slurm().do(a.ReleaseJob(job_id))
    finally:
        real_cluster.start_controller()
    real_cluster.wait_for(lambda: real_cluster.count("idle") == 4, "the controller")
    assert job_of(real_cluster, job_id).is_held


def test_check_and_platform(real_cluster: RealCluster, tmp_path: Path, capfd: Capture):
    assert exit_code("slurm", "check", "--partition", "main") == 0
    shown = capfd.readouterr().out
    assert "22.05" in shown
    assert "n[1-4]" in shown
    assert shown.rstrip().endswith("ok")
    assert exit_code("slurm", "check", "--partition", "nowhere") == 2
    assert "the partitions are free, main" in capfd.readouterr().err
    out = str(tmp_path / "platform.xml")
    assert exit_code("slurm", "platform", "-P", "main", "--server", "n[1-2]=gros", "--server", "taurus",
                     "-o", out, "-q") == 0  # fmt: skip
    platform = read_simgrid_platform(out, master="master_host").platform
    assert platform.names == ("n1", "n2", "n3", "n4")
    assert [platform.kinds[kind].name for kind in platform.kind_of] != []
    real_cluster.stop_controller()
    try:
        capfd.readouterr()
        assert exit_code("slurm", "check") == 1
        assert "Unable to contact slurm controller" in capfd.readouterr().err
    finally:
        real_cluster.start_controller()
    real_cluster.wait_for(lambda: real_cluster.count("idle") == 4, "the controller")


def test_users_cannot_release_their_jobs(monkeypatch: pytest.MonkeyPatch):
    """A folder that all users can read: their commands need the cluster's configuration."""
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        Path(folder).chmod(0o755)
        with RealCluster(Path(folder) / "cluster", 1) as cluster:
            monkeypatch.setenv("SLURM_CONF", str(cluster.conf))

            def as_user(*command: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run(
                    command, env=cluster.environment, user=65_534, group=65_534, extra_groups=[], cwd=folder,
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                )  # fmt: skip

            done = as_user("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 1")
            job_id = done.stdout.strip()
            assert job_of(cluster, job_id).is_held, done.stderr
            refused = as_user("scontrol", "release", job_id)
            assert refused.returncode
            assert job_of(cluster, job_id).is_held
            assert as_user("scontrol", "update", f"JobId={job_id}", "TimeLimit=3").returncode == 0
            assert job_of(cluster, job_id).time_limit_s == 180.0
            cluster.slurm().do(a.StartJob(job_id, ("n1",)))
            cluster.wait_for(lambda: not job_of(cluster, job_id).waits, "the start")
            own = as_user("sbatch", "--parsable", "--output=/dev/null", "-H", "--wrap=sleep 1").stdout.strip()
            assert as_user("scontrol", "release", own).returncode == 0
            assert not job_of(cluster, own).is_held
