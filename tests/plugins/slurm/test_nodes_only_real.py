"""The nodes-only mode beside a real Slurm: nodes that jobs share, two partitions, backfill, power saving."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.real_bridge import SERVER, all_over, bridge, power_file, states
from plugins.slurm.real_cluster import LONG, PATIENCE_S, RealCluster, why_not

pytestmark = [pytest.mark.slow, *LONG]

STEP_S = 10
SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 10
window_h = 1
"""
NOW, AHEAD = "beasy-now-main", "beasy-ahead-main"


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Four nodes of four CPUs, and two partitions on them; nothing is held."""
    if reason := why_not():
        pytest.skip(reason)
    partitions = (
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP",
    )
    folder = tmp_path_factory.mktemp("shared")
    with RealCluster(
        folder, 4, partitions=partitions, held=(), settings=["MinJobAge=7200"], shared=True
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: RealCluster, monkeypatch: pytest.MonkeyPatch) -> RealCluster:
    monkeypatch.setenv("SLURM_CONF", str(shared_cluster.conf))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    shared_cluster.command("scancel", "--user=root")
    for name in (NOW, AHEAD):
        if name in {found.name for found in shared_cluster.slurm().reservations()}:
            shared_cluster.command("scontrol", "delete", f"ReservationName={name}")
    return shared_cluster


@pytest.fixture
def options(cluster: RealCluster, tmp_path: Path) -> list[object]:
    """Options of a run but for its offers."""
    server, site, nodes = tmp_path / "quick.toml", tmp_path / "s.toml", tmp_path / "nodes.xml"
    server.write_text(SERVER)
    site.write_text(SITE)
    command = ("slurm", "platform", "--partition", "main", "--server", str(server), "-o", str(nodes), "-q")
    assert exit_code(*command) == 0
    power = power_file(tmp_path, 2000.0)
    return ["--mode", "nodes-only", "-p", nodes, "--site", site, "--power", power, "--poll", 1]


def offering(*timetable: tuple[float, int]) -> list[str]:
    """Options for offers by a timetable."""
    policy = "plugins.slurm.nodes_only_cases:OffersAsWritten"
    return ["--policy", policy, "--options", json.dumps({"timetable": timetable})]


def reserved(cluster: RealCluster) -> dict[str, tuple[str, ...]]:
    return {found.name: found.nodes for found in cluster.slurm().reservations()}


def nodes_on(cluster: RealCluster) -> set[str]:
    return {node.name for node in cluster.slurm().nodes() if "POWERED_DOWN" not in node.flags}


def test_offers_are_kept_and_nothing_is_lost(cluster: RealCluster, options: list[object], tmp_path: Path):
    """4, 2, 4 nodes: jobs of both partitions share nodes; a wide job waits for the rise."""
    rng = random.Random(5)
    table = ((0, 4), (60, 2), (120, 4))
    with bridge(cluster, *options, "--act", *offering(*table), "-o", tmp_path / "run") as running:
        began = time.time()
        running.wait_for_looks()
        jobs = [
            cluster.submit(
                rng.randint(5, 20), f"-n{rng.randint(1, 4)}", "-t1", "-p", rng.choice(("main", "low"))
            )
            for _ in range(16)
        ]
        cluster.wait_for(lambda: AHEAD in reserved(cluster), "the reservation ahead")
        assert len(reserved(cluster)[AHEAD]) == 2
        cluster.wait_for(lambda: NOW in reserved(cluster), "the fall")
        assert time.time() - began > 50
        jobs += [cluster.submit(rng.randint(5, 20), f"-n{rng.randint(1, 4)}", "-t1") for _ in range(8)]
        wide = cluster.submit(3, "-N4", "-t1")
        cluster.wait_for(lambda: len(nodes_on(cluster)) <= 2, "nodes that are switched off")
        cluster.wait_for(lambda: all_over(cluster, [*jobs, wide]), "the jobs")
        running.wait_for_looks()
    known = {job.id: job for job in cluster.slurm().jobs()}
    assert {known[job].state for job in (*jobs, wide)} == {"COMPLETED"}
    assert known[wide].start_s - began >= 115
    rows = [line.split(",") for line in (tmp_path / "run_offers.csv").read_text().splitlines()[1:]]
    settled = [row for row in rows if float(row[0]) > 0]
    assert all(int(on) - int(draining) <= int(offered) for _, offered, on, draining, *_ in settled)
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["jobs"]["finished"] == len(jobs) + 1


def test_kills_at_random_moments_give_the_nodes_back(
    cluster: RealCluster, options: list[object], tmp_path: Path
):
    """kill -9, fifteen times: what is reserved ends within two steps, a fall ahead within one."""
    rng, jobs = random.Random(3), []
    for _ in range(15):
        table = ((0, 2), (20, 4), (30, 1))
        with bridge(cluster, *options, "--act", *offering(*table), "-o", tmp_path / "run") as running:
            jobs.append(cluster.submit(2, f"-n{rng.randint(1, 4)}", "-t1"))
            running.wait_for_looks(1)
            time.sleep(rng.uniform(0.0, 25.0))
            running.process.kill()
            killed = time.time()
        for found in cluster.slurm().reservations():
            assert found.end_s - max(found.start_s, killed) <= 2 * STEP_S + 1
            assert found.name == NOW or found.end_s - found.start_s <= STEP_S + 1
    cluster.wait_for(lambda: not reserved(cluster), "the end of the reservations", 60)
    assert time.time() - killed <= 60, "the last fall ahead began 30 s after the bridge"
    cluster.wait_for(lambda: all_over(cluster, jobs), "the jobs")
    known = {job.id: job for job in cluster.slurm().jobs()}
    assert {known[job].state for job in jobs} == {"COMPLETED"}
    assert all(known[job].restarts == 0 for job in jobs)


def test_a_reservation_that_somebody_deletes_or_extends(
    cluster: RealCluster, options: list[object], tmp_path: Path
):
    with bridge(cluster, *options, "--act", *offering((0, 2)), "-o", tmp_path / "run") as running:
        cluster.wait_for(lambda: NOW in reserved(cluster), "the reservation")
        cluster.command("scontrol", "delete", f"ReservationName={NOW}")
        cluster.wait_for(lambda: NOW in reserved(cluster), "the reservation again")
        cluster.command("scontrol", "update", f"ReservationName={NOW}", "EndTime=now+40")
        (extended,) = cluster.slurm().reservations()
        time.sleep(2 * STEP_S)
        running.wait_for_looks()
        assert [found.end_s for found in cluster.slurm().reservations()] == [extended.end_s]
        running.process.send_signal(signal.SIGTERM)
        output, _ = running.process.communicate(timeout=PATIENCE_S)
    assert output.count("was deleted by somebody") == 1
    assert output.count("was extended by somebody") == 1
    assert exit_code("slurm", "release", "-P", "main") == 0
    assert reserved(cluster) == {}


def test_the_low_partition_waits_while_the_others_lack_nodes(
    cluster: RealCluster, options: list[object], tmp_path: Path
):
    """It is DOWN while one node is offered to two wide jobs, and UP at the end, and after `slurm release`."""

    def state() -> str:
        return cluster.slurm().partition("low")["State"]

    given = [*options, "--act", "--low-partition", "low", *offering((0, 1), (60, 4)), "-o", tmp_path / "run"]
    with bridge(cluster, *given) as running:
        wide = [cluster.submit(15, "-N1", "-n4", "-t1") for _ in range(3)]
        cluster.wait_for(lambda: state() == "DOWN", "the switch")
        low = cluster.submit(2, "-n1", "-t1", "-p", "low")
        cluster.wait_for(lambda: state() == "UP", "the switch back")
        cluster.wait_for(lambda: all_over(cluster, [*wide, low]), "the jobs")
        running.wait_for_looks()
    assert {states(cluster)[job] for job in (*wide, low)} == {"COMPLETED"}
    down = [command for command in running.commands if "PartitionName=low" in command]
    assert down == [f"scontrol update PartitionName=low State={each}" for each in ("DOWN", "UP")]
    with bridge(cluster, *given) as running:
        jobs = [cluster.submit(15, "-N1", "-n4", "-t1") for _ in range(3)]
        cluster.wait_for(lambda: state() == "DOWN", "the switch")
        running.process.kill()
    assert state() == "DOWN"
    assert exit_code("slurm", "release", "-P", "main", "--low-partition", "low") == 0
    assert state() == "UP"
    cluster.wait_for(lambda: all_over(cluster, jobs), "the jobs")


def test_a_shadow_changes_nothing(
    cluster: RealCluster,
    options: list[object],
    tmp_path: Path,
):
    table = offering((0, 2), (25, 4))
    with bridge(cluster, *options, *table, "-o", tmp_path / "run") as running:
        cluster.wait_for(lambda: running.process.poll() is not None or len(running.commands) > 70, "looks")
        running.process.send_signal(signal.SIGTERM)
        output, _ = running.process.communicate(timeout=PATIENCE_S)
    changing = [line for line in running.commands if "scontrol" in line and "show" not in line]
    assert changing == []
    assert reserved(cluster) == {}
    told = [line.split("would run: ")[1] for line in output.splitlines() if "would run: " in line]
    assert told[0].startswith(f"scontrol create reservation ReservationName={NOW} Users=root")
    assert told[-1] == f"scontrol delete ReservationName={NOW}"


def test_the_check(cluster: RealCluster, capfd: pytest.CaptureFixture[str]):
    assert exit_code("slurm", "check", "--partition", "main", "--mode", "nodes-only") == 0
    output = capfd.readouterr().out
    assert "withholds the nodes beyond the policy's offer, of 4" in output
    assert exit_code("slurm", "check", "--partition", "main") == 2, "jobs share nodes"
