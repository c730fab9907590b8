"""The rest of a profile: how much of it a killed job has done, and the profile of what is left.

Work is counted in the unit of the profile: seconds for one that only waits, flops of one host for all
others. A real Batsim cannot run a registered sequence, because it looks up the parts of sequences of workload
files only. The rest of a sequence is therefore one profile: a delay if all its parts are delays, otherwise
one task. Where a sequence has both, its hosts compute instead of waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

CONTINUED: Final = ("delay", "parallel_homogeneous", "parallel_homogeneous_total", "parallel", "composed")
"""Types of profiles that can be continued after a checkpoint."""
_DECIMALS: Final = 6
"""Decimals of the numbers that Batsim 4 reads in registrations."""
_LEAST: Final = 1e-6

Raw = Mapping[str, Any]
"""A profile as the object of a workload."""


class ProfileWork(Struct, frozen=True, gc=False):
    """An amount of work, in the parts that a sequence can have."""

    delay_s: float = 0.0
    """Time of waiting, s."""
    flops: float = 0.0
    """Computation on each host, flops; of the host with the most, where hosts differ."""

    def in_flops(self, speed_flops: float) -> float:
        """Return the work of hosts of this speed that compute instead of waiting, flops."""
        return self.flops + self.delay_s * speed_flops


def whole_work(name: str, profiles: Mapping[str, Raw], hosts: int) -> ProfileWork:
    """Return the work of a whole profile, on ``hosts`` hosts."""
    profile = profiles[name]
    if profile["type"] == "composed":
        once = _total(profile["seq"], profiles, hosts)
        repeat = profile.get("repeat", 1)
        return ProfileWork(once.delay_s * repeat, once.flops * repeat)
    return _leaf(profile, hosts)


def done_work(progress: Mapping[str, Any], name: str, profiles: Mapping[str, Raw], hosts: int) -> ProfileWork:
    """Return the work done by a job that was killed in the profile ``name``, from Batsim's ``job_progress``.

    Raises KeyError, TypeError and ValueError for a progress that does not belong to the profile.
    """
    profile = profiles[name]
    if profile["type"] != "composed":
        share = min(max(float(progress["progress"]), 0.0), 1.0)
        whole = _leaf(profile, hosts)
        return ProfileWork(whole.delay_s * share, whole.flops * share)
    sequence, index = profile["seq"], int(progress["current_task_index"])
    rounds, place = divmod(index, len(sequence))
    once, before = _total(sequence, profiles, hosts), _total(sequence[:place], profiles, hosts)
    inner = done_work(progress["current_task"], sequence[place], profiles, hosts)
    return ProfileWork(
        once.delay_s * rounds + before.delay_s + inner.delay_s,
        once.flops * rounds + before.flops + inner.flops,
    )


def _total(names: list[str], profiles: Mapping[str, Raw], hosts: int) -> ProfileWork:
    parts = [whole_work(name, profiles, hosts) for name in names]
    return ProfileWork(sum(part.delay_s for part in parts), sum(part.flops for part in parts))


def _leaf(profile: Raw, hosts: int) -> ProfileWork:
    kind = profile["type"]
    if kind == "delay":
        return ProfileWork(delay_s=float(profile["delay"]))
    if kind == "parallel":
        return ProfileWork(flops=float(max(profile["cpu"])))
    flops = float(profile["cpu"])
    return ProfileWork(flops=flops / max(hosts, 1) if kind == "parallel_homogeneous_total" else flops)


def not_continued(name: str, profiles: Mapping[str, Raw]) -> str | None:
    """Return the type of the first profile among ``name`` and its parts that cannot be continued, or None."""
    profile = profiles.get(name)
    kind = None if profile is None else profile.get("type")
    if kind != "composed" or profile is None:
        return None if kind in CONTINUED else str(kind)
    return next((found for part in profile["seq"] if (found := not_continued(part, profiles))), None)


def waits_and_computes(name: str, profiles: Mapping[str, Raw]) -> bool:
    """Whether a profile is a sequence of both delays and tasks."""
    work = whole_work(name, profiles, 1)
    return work.delay_s > 0.0 and work.flops > 0.0


def rest_profile(name: str, profiles: Mapping[str, Raw], hosts: int, left: float, extra: float) -> Raw:
    """Return the profile of what is left of the profile ``name``, without its name.

    ``left`` is the work left and ``extra`` that of reading and writing checkpoints, both in the unit of the
    profile. A communication shrinks with the work left.
    """
    profile = profiles[name]
    whole = whole_work(name, profiles, hosts)
    own = {key: value for key, value in profile.items() if key not in ("type", "cpu", "com", "delay", "seq")}
    own.pop("repeat", None)
    if profile["type"] == "composed":
        own = {key: value for key, value in own.items() if key == "ret"}
    if whole.flops <= 0.0:
        if profile["type"] in ("delay", "composed"):
            return {"type": "delay", "delay": _rounded(max(left + extra, _LEAST)), **own}
        return dict(profile)
    if profile["type"] == "composed":
        return {"type": "parallel_homogeneous", "cpu": _rounded(left + extra), "com": 0, **own}
    share = left / whole.flops
    if profile["type"] == "parallel":
        cpu: Any = [_rounded(flops * share + extra) for flops in profile["cpu"]]
        com: Any = [_rounded(amount * share) if amount else 0 for amount in profile["com"]]
    else:
        each = max(hosts, 1) if profile["type"] == "parallel_homogeneous_total" else 1
        cpu = _rounded((left + extra) * each)
        com = _rounded(profile["com"] * share) if profile["com"] else 0
    return {"type": profile["type"], "cpu": cpu, "com": com, **own}


def _rounded(number: float) -> float:
    return round(number, _DECIMALS)
