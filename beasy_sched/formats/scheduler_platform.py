"""Batsim's platform file as the scheduler uses it: the hosts, and the delay of Batsim's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from beasy_sched.errors import PathLike
from beasy_sched.formats.simgrid_xml import SimGridPlatform, read_simgrid_platform
from beasy_sched.model.platform import Platform


def read_scheduler_platform(path: PathLike, *, master: str = "master_host") -> Platform:
    """Read a platform file; ``master`` is the name of Batsim's master host (-m). Raises InputError."""
    read = read_simgrid_platform(path, master=master)
    return replace(read.platform, message_delay_s=message_delay_s(read))


def message_delay_s(read: SimGridPlatform) -> float | None:
    """Return the longest time that a message of Batsim's parts needs, s; 0 without latency."""
    if not read.has_network:
        return 0.0
    latency: Any = getattr(read, "latency", _UNREAD)
    if latency is _UNREAD:
        return None
    return 0.0 if latency is None else max(latency.master_s, float(latency.host_s.max(initial=0.0)))


_UNREAD = object()
"""The latency is not read from platform files."""
