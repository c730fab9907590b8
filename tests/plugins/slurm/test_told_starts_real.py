"""Beside a real Slurm: held jobs have their expected start in their comment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plugins.slurm.real_bridge import all_over, bridge, platform, states
from plugins.slurm.real_cluster import LONG, PATIENCE_S, RealCluster

__all__ = ["platform"]
pytestmark = [pytest.mark.slow, pytest.mark.plugins("foresee"), *LONG]
OURS = r"start expected (\d+ \w+ )?\d\d:\d\d to (\d+ \w+ )?\d\d:\d\d"


def comment_of(cluster: RealCluster, job_id: str) -> str:
    return next(job.comment for job in cluster.slurm().jobs() if job.id == job_id)


def test_held_jobs_are_told_when_they_start(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
) -> None:
    options = ("--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "r")
    ahead = ("--foresee", "1m", "-n", "4", "--tell-users")
    end, last_end = tmp_path / "end", tmp_path / "last_end"
    first = real_cluster.submit_until(end, "-N4", "-t", "30")
    bare = real_cluster.submit(1, "-N3", "-t", "30")
    own = real_cluster.submit_until(last_end, "-N2", "-t", "30", "--comment=for the paper; mine")
    with bridge(real_cluster, *options, *ahead) as running:
        real_cluster.wait_for(
            lambda: "start expected" in comment_of(real_cluster, bare), "a comment", 4 * PATIENCE_S
        )
        real_cluster.wait_for(
            lambda: "start expected" in comment_of(real_cluster, own), "a comment", PATIENCE_S
        )
        assert re.fullmatch(OURS, comment_of(real_cluster, bare))
        assert re.fullmatch(f"for the paper; mine; {OURS}", comment_of(real_cluster, own))
        end.touch()
        real_cluster.wait_for(lambda: states(real_cluster)[own] == "RUNNING", "the start", 4 * PATIENCE_S)
        real_cluster.wait_for(
            lambda: comment_of(real_cluster, own) == "for the paper; mine", "the user's comment", PATIENCE_S
        )
        last_end.touch()
        real_cluster.wait_for(lambda: all_over(real_cluster, [first, bare, own]), "the jobs", 4 * PATIENCE_S)
        running.wait_for_looks()
    assert (tmp_path / "r_foresee.jsonl").read_text()
