"""Fields that are text on Batsim 4's wire and something better inside."""

from __future__ import annotations

import re

from beasy_sched.limits import MOST_HOSTS_NAMED
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.wire import fault

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


def read_hosts(text: str, path: str, *, some: bool = False) -> HostSet:
    """Read ``"0-3 5"``; with ``some``, an empty set is an error. Raises ProtocolError."""
    try:
        hosts = HostSet.parse(text)
    except ValueError as error:
        raise fault(path, str(error)) from None
    if some and not len(hosts):
        raise fault(path, "no hosts are named: expected intervals such as '0-3 5'")
    return hosts


def add_hosts(count: int, hosts: HostSet, path: str) -> int:
    """Add a set's size to that of the message's other sets. Raises ProtocolError for too many in all."""
    count += len(hosts)
    if count > MOST_HOSTS_NAMED:
        raise fault(path, f"the message names more than {MOST_HOSTS_NAMED:,} hosts in all")
    return count


def read_pstate(text: str, path: str) -> int:
    """Read a P-state number, which Batsim sends as a text. Raises ProtocolError."""
    if not _INTEGER.fullmatch(text):
        raise fault(path, f"should be a string corresponding to an integer (got {text!r})")
    return int(text)
