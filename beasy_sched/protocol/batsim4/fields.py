"""Fields that are text on Batsim 4's wire and something better inside."""

from __future__ import annotations

from beasy_sched.errors import ProtocolError
from beasy_sched.model.hosts import HostSet


def read_hosts(text: str, path: str, *, some: bool = False) -> HostSet:
    """Read ``"0-3 5"``; with ``some``, an empty set is an error. Raises ProtocolError."""
    try:
        hosts = HostSet.parse(text)
    except ValueError as error:
        raise ProtocolError(path, str(error)) from None
    if some and not len(hosts):
        raise ProtocolError(path, "no hosts are named: expected intervals such as '0-3 5'")
    return hosts


def read_pstate(text: str, path: str) -> int:
    """Read a P-state number, which Batsim sends as a text. Raises ProtocolError."""
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(path, f"should be a string corresponding to an integer (got {text!r})") from None
