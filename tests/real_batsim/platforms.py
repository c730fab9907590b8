"""Platforms with latency, made from the small ones without."""

from __future__ import annotations

import re
from random import Random

_HEAD = (
    '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    '<platform version="4.1">'
)
_HOST = re.compile(r'<host id="(n[0-9]+)".*?</host>', re.DOTALL)

KINDS = ("none", "star", "routes", "clusters", "bare", "slow loopback")


def with_network(text: str, kind: str, rng: Random) -> str:
    """Give a small platform a network of a kind.

    none: as it is; star: equal links to the master; routes: routes of different latency and length; clusters:
    one for each kind of host, as Batsim's own; bare: full routing without links, so that only the master's
    messages take time, 1e-10 s; slow loopback: 50 ms from the master to itself.
    """
    hosts = [(match[1], match[0].replace(' coordinates="0 0 0"', "")) for match in _HOST.finditer(text)]
    if kind == "none":
        return text
    if kind == "clusters":
        return _clusters([body for _, body in hosts], rng)
    links, routes = [], []
    if kind in ("star", "routes"):
        links, routes = _routes([name for name, _ in hosts], rng, equal=kind == "star")
    if kind == "slow loopback":
        links.append('<link id="loop" bandwidth="125MBps" latency="50ms"/>')
        routes.append('<route src="master_host" dst="master_host"><link_ctn id="loop"/></route>')
    bodies = "".join(body for _, body in hosts)
    return (
        f'{_HEAD}<zone id="z" routing="Full"><host id="master_host" speed="1Gf"/>{bodies}'
        f"{''.join(links)}{''.join(routes)}</zone></platform>"
    )


def _routes(names: list[str], rng: Random, *, equal: bool) -> tuple[list[str], list[str]]:
    """Describe links and routes from the hosts to the master, of one link or several."""
    count = 1 if equal else rng.randint(2, 5)
    links = [
        f'<link id="l{i}" bandwidth="{rng.choice(["125MBps", "1Gbps", "41.279125MBps", "10GBps"])}"'
        f' latency="{rng.choice(["50us", "1.461517ms", "0", "270.544us", "0.01"])}"/>'
        for i in range(count)
    ]
    links.append('<link id="loop" bandwidth="498MBps" latency="15us" sharing_policy="FATPIPE"/>')
    routes = ['<route src="master_host" dst="master_host"><link_ctn id="loop"/></route>']
    for name in names:
        chosen = rng.sample(range(count), rng.randint(1, count))
        crossed = "".join(f'<link_ctn id="l{i}"/>' for i in chosen)
        routes.append(f'<route src="master_host" dst="{name}">{crossed}</route>')
    return links, routes


def _clusters(bodies: list[str], rng: Random) -> str:
    """Put hosts of the same kind into a cluster, and the master into one of its own."""
    kinds: dict[str, int] = {}
    for body in bodies:
        described = re.sub(r'id="n[0-9]+" ', "", body)
        kinds[described] = kinds.get(described, 0) + 1
    network = 'bw="125MBps" lat="50us" bb_bw="2.25GBps" bb_lat="500us"'
    parts, routes = [], []
    for letter, (described, count) in zip("ab", kinds.items(), strict=False):
        attributes, properties = re.fullmatch(r"<host (.*?)>(.*)</host>", described, re.DOTALL).groups()  # type: ignore[union-attr]
        parts.append(
            f'<cluster id="c{letter}" prefix="{letter}" suffix="" radical="0-{count - 1}" {attributes}'
            f" {network}>{properties}</cluster>"
        )
        routes.append(
            f'<zoneRoute src="c{letter}" dst="cm" gw_src="{letter}c{letter}_router"'
            ' gw_dst="master_hostcm_router"><link_ctn id="backbone"/></zoneRoute>'
        )
    latency = rng.choice(["500us", "5ms"])
    return (
        f'{_HEAD}<zone id="z" routing="Full">{"".join(parts)}'
        f'<cluster id="cm" prefix="master_host" suffix="" radical="0-0" speed="1Gf" {network}/>'
        f'<link id="backbone" bandwidth="1.25GBps" latency="{latency}"/>{"".join(routes)}</zone></platform>'
    )
