"""Sizes of nodes: requests of a job that the smallest node of a partition does not satisfy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from beasy_sched.plugins.slurm.records import SlurmJob, SlurmNode


class NodeSize(NamedTuple):
    """Amounts that every node of a group has at least; infinite if unknown."""

    cpus: float = math.inf
    memory_mb: float = math.inf
    disk_mb: float = math.inf


def smallest_size(nodes: Iterable[SlurmNode]) -> NodeSize:
    """Return what each of the nodes has. A node without a known amount does not count."""
    sizes = [(node.cpus, node.memory_mb, node.disk_mb) for node in nodes]
    columns = zip(*sizes, strict=True) if sizes else ()
    return NodeSize(*(min(filter(None, column), default=math.inf) for column in columns))


def beyond_size(job: SlurmJob, size: NodeSize) -> str:
    """Return a job's requests per node that exceed ``size``; empty if any nodes of that size satisfy it."""
    cpus = max(job.cpus_per_node, math.ceil(job.cpus / job.node_count))
    memory_mb = max(job.memory_per_node_mb, job.memory_per_cpu_mb * max(cpus, 1))
    asked = (
        ("CPUs per node", cpus, size.cpus),
        ("MB of memory per node", memory_mb, size.memory_mb),
        ("MB of disk per node", job.disk_per_node_mb, size.disk_mb),
    )
    return ", ".join(
        f"{amount} {what}, the smallest node has {most:g}" for what, amount, most in asked if amount > most
    )
