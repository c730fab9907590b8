"""A real Slurm for the slow tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from plugins.slurm.real_cluster import RealCluster, why_not


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Four nodes, two with more memory, and two partitions; ``main`` holds what is submitted."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    partitions = (
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=free Nodes=ALL MaxTime=INFINITE State=UP",
    )
    folder, memory_mb = tmp_path_factory.mktemp("slurm"), (100, 100, 400, 400)
    with RealCluster(folder, 4, partitions=partitions, memory_mb=memory_mb) as cluster:
        yield cluster


@pytest.fixture
def real_cluster(running_cluster: RealCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCluster]:
    """That cluster for one test: this process's commands are for it; at the end, it is empty and awake."""
    monkeypatch.setenv("SLURM_CONF", str(running_cluster.conf))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin:/usr/bin")
    yield running_cluster
    running_cluster.clean()
