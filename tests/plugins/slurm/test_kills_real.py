"""Kills beside a real Slurm: requeues, signals before them, and a bridge that is killed at any moment."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from plugins.slurm.kill_cases import POLICY
from plugins.slurm.real_bridge import SITE, all_over, bridge, platform, power_file
from plugins.slurm.real_cluster import LONG, RealCluster

pytestmark = [pytest.mark.slow, *LONG]
__all__ = ["platform"]  # a fixture
NOTICE_S = 4
RESTART = f"\n[restart]\ninterval_s = 6\ndump_s = 1\nread_s = 1\nnotice_s = {NOTICE_S}\n"
STEPS = 40
"""Steps of a second, of which the work of a job consists."""
WORK = """
file={file}
step=$(cat $file.saved 2>/dev/null || echo 0)
echo $step >> $file.begun
{trap}
while [ $step -lt {steps} ]; do sleep 1; step=$((step+1)); done
echo $step > $file.done
"""
SAVES = "trap 'echo $step > $file.saved' TERM"
SAVES_AND_ENDS = "trap 'echo $step > $file.saved; exit 3' TERM"


@pytest.fixture(autouse=True)
def _with_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def options(folder: Path, nodes: Path, on_kill: str, *times_s: float) -> list[object]:
    site = folder / "s.toml"
    site.write_text(SITE + RESTART)
    given = json.dumps({"times_s": times_s})
    power = power_file(folder, 2000.0)
    return [
        *("-p", nodes, "--site", site, "--power", power, "--poll", 0.5, "--act", "-o", folder / "run"),
        *("--policy", POLICY, "--options", given, "--on-kill", on_kill),
    ]


def submit(cluster: RealCluster, file: Path, trap: str) -> str:
    script = WORK.format(file=file, trap=trap, steps=STEPS)
    return cluster.command(
        "sbatch", "--parsable", "--output=/dev/null", "-N1", "-t5", "--requeue", f"--wrap={script}"
    ).strip()


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def test_jobs_save_their_work_and_finish(real_cluster: RealCluster, platform: Path, tmp_path: Path) -> None:
    """Of three jobs, the first dies of the signal, the second saves and goes on, the third saves and ends."""
    with bridge(real_cluster, *options(tmp_path, platform, "checkpoint", 16.0)) as running:
        files = [tmp_path / name for name in ("dies", "goes-on", "ends")]
        running.wait_for_looks()
        jobs = [
            submit(real_cluster, file, trap)
            for file, trap in zip(files, ("", SAVES, SAVES_AND_ENDS), strict=True)
        ]
        real_cluster.wait_for(lambda: all(Path(f"{file}.done").exists() for file in files), "the jobs")
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the ends of the jobs")
        running.wait_for_looks()
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert {known[job].state for job in jobs} == {"COMPLETED"}
    assert [known[job].restarts for job in jobs] == [1, 1, 1]
    begun = [numbers(Path(f"{file}.begun")) for file in files]
    assert begun[0] == [0, 0]
    assert all(len(each) == 2 and each[1] > 0 for each in begun[1:])
    signals = [command for command in running.commands if command.startswith("scancel")]
    assert sorted(signals) == sorted(f"scancel --signal=TERM --batch {job}" for job in jobs)
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert (summary["jobs"]["submitted"], summary["jobs"]["finished"]) == (3, 3)
    assert (summary["restarts"]["jobs"], summary["restarts"]["count"]) == (3, 3)


@pytest.mark.parametrize("on_kill", ["requeue", "checkpoint"])
def test_kills_of_the_bridge_lose_no_job(
    real_cluster: RealCluster, platform: Path, tmp_path: Path, on_kill: str
) -> None:
    """kill -9, eight times, at any moment between the decision and the requeue."""
    rng = random.Random(7)
    files = [tmp_path / f"job{number}" for number in range(6)]
    jobs = [
        submit(real_cluster, file, ("", SAVES, SAVES_AND_ENDS)[number % 3])
        for number, file in enumerate(files)
    ]
    for _ in range(8):
        given = options(tmp_path, platform, on_kill, *(2.0 * number for number in range(2, 60, 4)))
        with bridge(real_cluster, *given) as running:
            running.wait_for_looks()
            time.sleep(rng.uniform(1.0, 9.0))
            running.process.kill()
    with bridge(real_cluster, *options(tmp_path, platform, on_kill)) as running:
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the ends of the jobs")
        running.wait_for_looks()
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert {known[job].state for job in jobs} == {"COMPLETED"}
    assert all(Path(f"{file}.done").exists() for file in files)
    assert sum(known[job].restarts for job in jobs) > 0
