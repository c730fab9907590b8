"""ZeroMQ endpoints as people write them, such as ``tcp://*:28000`` or ``tcp://[::1]:28000``."""

from __future__ import annotations

_LARGEST_PORT = 65535


def endpoint_problem(endpoint: str, *, any_port: bool) -> str | None:
    """Tell what is wrong with an endpoint that ZeroMQ would take for another one; None for nothing.

    ZeroMQ reads as much of a port as is a number, and takes it modulo 65536. ``any_port``: 0 and ``*`` stand
    for any free port, as they do where one listens.
    """
    transport, _, place = endpoint.partition("://")
    if transport == "inproc":
        return "no other process can reach it"
    if transport != "tcp":
        return None
    host, _, port = place.rpartition(":")
    if any_port and port == "*":
        return None
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 10 else None
    if number is None:
        return f"its port, {port[:40]!r}, is no number"
    if number > _LARGEST_PORT:
        return f"ports go up to {_LARGEST_PORT}"
    if number == 0 and not any_port:
        return "nobody can be reached at port 0"
    if ":" in host.rpartition(";")[2] and not host.endswith("]"):
        return "an IPv6 address stands in brackets: tcp://[::1]:28000"
    return None


def is_ipv6(endpoint: str) -> bool:
    """Whether an endpoint has an IPv6 address, for which a socket must be told to use IPv6."""
    return endpoint.startswith("tcp://[") or ";[" in endpoint


def reachable(endpoint: str) -> str:
    """The endpoint at which a simulator on this machine reaches a socket bound to ``endpoint``."""
    return endpoint.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
