"""`slurm run` beside a real Slurm, in a process of its own: what the slow tests of all modes share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.real_cluster import PATIENCE_S, RealCluster

SERVER = """
name = "quick"
idle_w = 50.0
pstates = [{ speed_gflops = 1.0, full_w = 100.0 }]
[sleep]
sleep_w = 5.0
off_s = 3.0
off_w = 60.0
on_s = 10.0
on_w = 80.0
"""
SITE = """
[battery]
capacity_kwh = 0.05
charge_limit_kw = 0.5
discharge_limit_kw = 0.5
[time]
step_s = 10
window_h = 1
"""


@pytest.fixture
def platform(real_cluster: RealCluster, tmp_path: Path) -> Path:
    """The cluster's nodes as servers of one computing P-state."""
    path, server = tmp_path / "nodes.xml", tmp_path / "quick.toml"
    server.write_text(SERVER)
    assert exit_code("slurm", "platform", "--server", str(server), "-o", str(path), "-q") == 0
    return path


def power_file(folder: Path, power_w: float) -> Path:
    """A constant production for an hour, as events."""
    path = folder / "power.txt"
    lines = ({"timestamp": at, "type": "power", "power_available": power_w} for at in range(0, 3600, 10))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class Running:
    """``slurm run`` beside a cluster, in a process of its own, whose commands are noted."""

    def __init__(self, cluster: RealCluster, partition: str, *options: object) -> None:
        self._cluster, self._noted = cluster, cluster.folder / f"commands-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "beasy_sched", "slurm", "run", "-P", partition, *map(str, options)]
        environment = {
            **os.environ,
            "SLURM_CONF": str(cluster.conf),
            "PATH": f"{cluster.noting}:{os.environ['PATH']}",
            "NOTED": str(self._noted),
        }
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def commands(self) -> list[str]:
        """All commands of Slurm's that it has run, with their arguments."""
        return self._noted.read_text().splitlines() if self._noted.exists() else []

    def wait_for_looks(self, count: int = 2) -> None:
        """Wait until it has looked at the queue so often from now on.

        When a second look begins, it has seen what is the case now, and acted on it.
        """
        reached = self._looks() + count
        self._cluster.wait_for(
            lambda: self.process.poll() is not None or self._looks() >= reached, "looks of the bridge"
        )
        assert self.process.poll() is None, self.process.communicate()[0]

    def _looks(self) -> int:
        return sum(command.startswith("squeue") for command in self.commands)


@contextmanager
def bridge(cluster: RealCluster, *options: object, partition: str = "main") -> Iterator[Running]:
    """Run a bridge beside the cluster; end it by SIGTERM."""
    running = Running(cluster, partition, *options)
    process = running.process
    try:
        yield running
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode in (0, -signal.SIGKILL), output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def states(cluster: RealCluster) -> dict[str, str]:
    """The state of each job that the cluster still knows."""
    return {job.id: job.state for job in cluster.slurm().jobs()}


def all_over(cluster: RealCluster, jobs: list[str]) -> bool:
    """Whether all these jobs have left their nodes."""
    known = states(cluster)
    return not {known[job] for job in jobs} & {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
