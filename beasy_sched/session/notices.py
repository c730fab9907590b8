"""What the session reads out of events' free-form parts: notices and profiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from beasy_sched.errors import PeerError
from beasy_sched.formats.power_events import POWER_FIELD
from beasy_sched.limits import LARGEST_POWER_W
from beasy_sched.model.events import JobSubmitted
from beasy_sched.model.hosts import HostSet


def hosts_of(data: Mapping[str, Any], size: int) -> HostSet:
    """Read the hosts of a machine notice on a platform of ``size`` hosts. Raises PeerError."""
    text = data.get("resources")
    try:
        hosts = HostSet.parse(text) if isinstance(text, str) else None
    except ValueError:
        hosts = None
    if hosts is None or np.any(hosts.ids >= size):
        raise PeerError(f"NOTIFY {data.get('type')}: found resources {text!r}, expected hosts such as '0-3'")
    return hosts


def power_of(data: Mapping[str, Any]) -> float:
    """Read the production, an integer or a float, W. Raises PeerError."""
    value = data[POWER_FIELD]
    power_w = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            power_w = float(value)
        except OverflowError:
            power_w = math.inf
    if not 0 <= power_w <= LARGEST_POWER_W:
        raise PeerError(
            f"NOTIFY {data.get('type')}: found {POWER_FIELD} {value!r}, expected watts, at least 0"
        )
    return power_w


def computes(event: JobSubmitted, profiles: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bool:
    """Tell whether a job loads its hosts; the profile's type says so, and nothing else of it is read."""
    workload, _, _ = event.job.id.partition("!")
    profile = event.profile or profiles.get(workload, {}).get(event.job.profile, {})
    return profile.get("type") != "delay"
