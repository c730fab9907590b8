"""Links and routes of a SimGrid platform: how long Batsim's own messages to the master host take.

Batsim's parts (submitters, jobs, switches, the carrier of the scheduler's reply) send the server messages
of one byte. Such a transfer lasts the latencies of the route plus the time of one byte on it. Sources:
SimGrid 3.32's zones (``Full``, ``Cluster``, ``Vivaldi``, ``None``), its L07 network model, and recordings of
Batsim 4.2.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray

_TCP_GAMMA_BYTES = 4194304.0
"""SimGrid's ``network/TCP-gamma``: twice the latency times the rate of a transfer is at most this."""
_TIME_UNITS = {
    "": 1.0,
    "w": 604800.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
}
_QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)")
_PREFIXES = "kMGTPEZY"


class LinkError(ValueError):
    """A link or route that SimGrid refuses as well."""


class UnsupportedNetwork(ValueError):
    """A kind of network whose latencies are not modelled."""


def parse_latency(text: str) -> float:
    """Read a latency such as ``50us``, in s; a plain number is in seconds. Raises LinkError."""
    value, unit = _quantity("latency", text)
    if unit not in _TIME_UNITS:
        raise LinkError(f"latency {text!r}: expected a time such as '50us', '1.5ms' or '0.1s'")
    return value * _TIME_UNITS[unit]


def parse_bandwidth(text: str) -> float:
    """Read a bandwidth such as ``125MBps`` or ``1Gbps``, in bytes/s; a plain number is bytes/s.

    Raises LinkError.
    """
    value, unit = _quantity("bandwidth", text)
    scale = _bandwidth_units().get(unit)
    if scale is None or value <= 0:
        raise LinkError(f"bandwidth {text!r}: expected one above 0 such as '125MBps', '1Gbps' or '1.25e8'")
    return value * scale


def _quantity(what: str, text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text.strip())
    try:
        value = float(match[1]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not (math.isfinite(value) and value >= 0):
        raise LinkError(f"{what} {text!r}: expected a number of at least 0 and a unit")
    return value, match[2]


def _bandwidth_units() -> dict[str, float]:
    units = {"": 1.0, "Bps": 1.0, "bps": 0.125}
    for power, prefix in enumerate(_PREFIXES, start=1):
        for name, scale in ("Bps", 1.0), ("bps", 0.125):
            units[prefix + name] = 1e3**power * scale
            units[prefix.upper() + "i" + name] = 1024.0**power * scale
    return units


class Link(NamedTuple):
    """A link that messages cross."""

    latency_s: float
    bandwidth: float
    """Bytes/s."""
    shared: bool = True
    """Whether a message that crosses the link twice has half of the bandwidth each time."""


_LOOPBACK = Link(0.0, 10e9, shared=False)
"""Link of a host to itself in a zone with full routing whose file describes none."""


@dataclass(frozen=True)
class Latency:
    """Return the latency of a message of one byte to the master host.

    The arrays have an element for each host, by number, and a last one for the master host itself.
    """

    route_s: FloatArray
    """Sum of the latencies of the route, s."""
    bytes_per_s: FloatArray
    """Rate of the transfer that follows; infinite where the route has no link."""

    @property
    def delays_s(self) -> FloatArray:
        """Time of a message from each host, s; the master host is the last."""
        return self.route_s + 1.0 / self.bytes_per_s

    @property
    def longest_s(self) -> float:
        """The longest time of a message, s."""
        return float(self.delays_s.max())

    @property
    def master_s(self) -> float:
        """Time of a message from the master host to itself, s."""
        return float(self.delays_s[-1])


@dataclass(eq=False)
class _NetworkHost:
    """A host's links to the rest of its zone, of a cluster; or its place in a Vivaldi zone."""

    up: Link | None = None
    down: Link | None = None
    loopback: Link | None = None
    coordinates: tuple[float, ...] = ()


@dataclass(eq=False)
class _Route:
    links: tuple[Link, ...]
    gateways: tuple[str, str]
    """Ends of the route: hosts or routers."""

    def add_to(self, links: list[Link], latency_s: float) -> float:
        """Append the links to ``links``; return ``latency_s`` with their latencies, added one by one, s."""
        links += self.links
        for link in self.links:
            latency_s += link.latency_s
        return latency_s


@dataclass(eq=False)
class _Zone:
    name: str
    routing: str
    parent: _Zone | None
    routes: dict[tuple[str, str], _Route] = field(default_factory=dict)
    hosts: dict[str, _NetworkHost] = field(default_factory=dict)
    routers: set[str] = field(default_factory=set)
    backbone: Link | None = None
    limiter: Link | None = None

    def path(self) -> list[_Zone]:
        """Return the zone and those around it, the outermost first."""
        zones: list[_Zone] = []
        zone: _Zone | None = self
        while zone is not None:
            zones.insert(0, zone)
            zone = zone.parent
        return zones

    def local(self, source: str, target: str) -> _Route:
        """Return the route between two hosts, routers or zones that are directly in this zone."""
        if self.routing == "cluster":
            return _Route(tuple(self._through_cluster(source, target)), (source, target))
        if self.routing in ("none", "vivaldi"):
            return _Route((), (source, target))
        route = self.routes.get((source, target))
        if route is not None:
            return route
        return _Route((_LOOPBACK,) if source == target else (), (source, target))

    def _through_cluster(self, source: str, target: str) -> Iterable[Link]:
        first, last = self.hosts.get(source), self.hosts.get(target)
        if first is not None and source == target and first.loopback is not None:
            yield first.loopback
            return
        if first is not None:
            yield from filter(None, (self.limiter, first.up))
        if self.backbone is not None:
            yield self.backbone
        if last is not None:
            yield from filter(None, (last.down, self.limiter))


class Network:
    """The zones, links and routes of a platform file, as its tags describe them one after another."""

    def __init__(self) -> None:
        self._zone: _Zone | None = None
        self._root: _Zone | None = None
        self._links: dict[str, Link] = {}
        self._zone_of: dict[str, _Zone] = {}
        """Zone of each host and router, by name."""
        self._route: tuple[dict[str, str], list[Link]] | None = None
        """The route being described: its attributes, and its links so far."""
        self._problem: str | None = None
        """Feature that is not modelled; None without one."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take a tag other than those of hosts. Raises LinkError."""
        if tag in ("zone", "AS"):
            routing = attributes.get("routing", "").lower()
            self._zone = _Zone(attributes.get("id", ""), routing, self._zone)
            self._root = self._root or self._zone
            if routing not in ("full", "cluster", "vivaldi", "none"):
                self._give_up(f"{attributes.get('routing', '?')} routing")
        elif tag in ("link", "backbone"):
            self._describe_link(tag, attributes)
        elif tag == "router" and self._zone is not None:
            self._zone.routers.add(attributes.get("id", ""))
            self._zone_of[attributes.get("id", "")] = self._zone
        elif tag in ("route", "zoneRoute", "ASroute"):
            self._route = (dict(attributes), [])
        elif tag == "link_ctn" and self._route is not None:
            self._route[1].append(self._link(attributes))
        elif tag == "host_link" and self._zone is not None:
            host = self._zone.hosts.setdefault(attributes.get("id", ""), _NetworkHost())
            host.up, host.down = (self._link({"id": attributes.get(end, "")}) for end in ("up", "down"))
        elif tag in ("bypassRoute", "bypassZoneRoute", "bypassASroute"):
            self._give_up("a bypass route")

    def end(self, tag: str) -> None:
        """Take the end of a tag."""
        if tag in ("zone", "AS") and self._zone is not None:
            self._zone = self._zone.parent
        elif tag in ("route", "zoneRoute", "ASroute") and self._route is not None:
            attributes, links = self._route
            self._add_route(attributes, tuple(links))
            self._route = None

    def set_property(self, name: str) -> None:
        """Take the name of a property of a ``config``: some change how messages travel."""
        if name.startswith(("network/", "precision/", "host/model", "cpu/model", "surf/")):
            self._give_up(f"the configuration {name!r}")

    def add_host(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take a host that is directly in the present zone. Raises LinkError."""
        if self._zone is not None:
            host = self._zone.hosts.setdefault(name, _NetworkHost())
            if text := attributes.get("coordinates"):
                host.coordinates = _parse_coordinates(text)
            self._zone_of[name] = self._zone

    def add_cluster(self, tag: str, names: Sequence[str], attributes: Mapping[str, str]) -> None:
        """Take the hosts of a cluster, which is a zone, or of a cabinet. Raises LinkError."""
        policy = attributes.get("sharing_policy", "SPLITDUPLEX").upper()
        up = Link(parse_latency(attributes["lat"]), parse_bandwidth(attributes["bw"]), policy != "FATPIPE")
        down = Link(*up) if policy == "SPLITDUPLEX" else up
        zone = self._zone
        loopback = None
        if tag == "cluster":
            zone = self._cluster(attributes)
            loopback = _optional_link(attributes, "loopback_bw", "loopback_lat", shared=False)
        if zone is not None:
            host = _NetworkHost(up, down, loopback)
            for name in names:
                if down is up:  # each host has its own link for both directions
                    link = Link(*up)
                    host = _NetworkHost(link, link, loopback)
                zone.hosts[name] = host
                self._zone_of[name] = zone

    def _cluster(self, attributes: Mapping[str, str]) -> _Zone:
        if attributes.get("topology", "FLAT") not in ("FLAT", "CLUSTER"):
            self._give_up(f"a cluster with the topology {attributes['topology']}")
        name = attributes.get("id", "")
        zone = _Zone(name, "cluster", self._zone)
        self._root = self._root or zone
        prefix, suffix = attributes.get("prefix", ""), attributes.get("suffix", "")
        router = attributes.get("router_id") or f"{prefix}{name}_router{suffix}"
        zone.routers.add(router)
        self._zone_of[router] = zone
        shared = attributes.get("bb_sharing_policy", "SHARED") != "FATPIPE"
        zone.backbone = _optional_link(attributes, "bb_bw", "bb_lat", shared=shared)
        if attributes.get("limiter_link"):
            zone.limiter = Link(0.0, parse_bandwidth(attributes["limiter_link"]))
        return zone

    def _describe_link(self, tag: str, attributes: Mapping[str, str]) -> None:
        if any(f"{what}_file" in attributes for what in ("bandwidth", "latency", "state")):
            self._give_up("a link that changes by a trace")
        policy = attributes.get("sharing_policy", "SHARED").upper()
        if policy not in ("SHARED", "FATPIPE", "SPLITDUPLEX", "FULLDUPLEX"):
            self._give_up(f"a link with the sharing policy {policy}")
        bandwidth, latency = attributes.get("bandwidth", ""), attributes.get("latency", "0")
        link = Link(parse_latency(latency), parse_bandwidth(bandwidth), policy != "FATPIPE")
        name = attributes.get("id", "")
        self._links[name] = link
        if policy in ("SPLITDUPLEX", "FULLDUPLEX"):
            self._links[f"{name}_UP"], self._links[f"{name}_DOWN"] = link, Link(*link)
        if tag == "backbone" and self._zone is not None:
            self._zone.backbone = link

    def _link(self, attributes: Mapping[str, str]) -> Link:
        name, direction = attributes.get("id", ""), attributes.get("direction", "")
        link = self._links.get(f"{name}_{direction}" if direction in ("UP", "DOWN") else name)
        if link is None:
            raise LinkError(f"a route has the link {name!r}, which is not described before it")
        return link

    def _add_route(self, attributes: Mapping[str, str], links: tuple[Link, ...]) -> None:
        zone = self._zone
        if zone is None:
            return
        source, target = attributes.get("src", ""), attributes.get("dst", "")
        first, last = attributes.get("gw_src", source), attributes.get("gw_dst", target)
        zone.routes[source, target] = _Route(links, (first, last))
        if attributes.get("symmetrical", "YES").upper() != "NO":
            zone.routes.setdefault((target, source), _Route(links[::-1], (last, first)))

    def _give_up(self, what: str) -> None:
        self._problem = self._problem or what

    # --- routes ---

    def latency(self, hosts: Sequence[str], master: str) -> Latency | None:
        """Return the latency of hosts and the master; None where messages take no time.

        Raises UnsupportedNetwork where the routes are not modelled.
        """
        if self._problem is not None:
            raise UnsupportedNetwork(self._problem)
        delays: dict[object, tuple[float, float]] = {}
        delay_of_hosts = []
        for name in (*hosts, master):
            host = self._zone_of[name].hosts[name]
            alike = name if name == master or host.up is None else host
            if alike not in delays:
                delays[alike] = self._delay(name, master)
            delay_of_hosts.append(delays[alike])
        route_s, bytes_per_s = np.array(delay_of_hosts).T
        return None if np.isinf(bytes_per_s).all() else Latency(route_s, bytes_per_s)

    def _delay(self, source: str, target: str) -> tuple[float, float]:
        """Return the latency of a route, s, and the rate of one byte on it, bytes/s."""
        links: list[Link] = []
        latency_s = self._collect(source, target, links)
        if not links:
            return 0.0, math.inf
        crossings: dict[int, int] = {}
        for link in links:
            crossings[id(link)] = crossings.get(id(link), 0) + 1 if link.shared else 1
        rate = min(link.bandwidth / crossings[id(link)] for link in links)
        return latency_s, min(rate, _TCP_GAMMA_BYTES / (2.0 * latency_s)) if latency_s > 0.0 else rate

    def _collect(self, source: str, target: str, links: list[Link], latency_s: float = 0.0) -> float:
        """Add the links of a route to ``links``, in any order.

        Returns ``latency_s`` with their latencies, added in SimGrid's order, s.
        """
        near, far = (self._around(name) for name in (source, target))
        depth = 0
        while depth < min(len(near), len(far)) and near[depth] is far[depth]:
            depth += 1
        zone = near[depth - 1]
        if zone.routing == "vivaldi" and _apart(zone, source, target):
            raise UnsupportedNetwork("a Vivaldi zone whose hosts are apart")
        if len(near) == len(far) == depth:
            return zone.local(source, target).add_to(links, latency_s)
        if depth in (len(near), len(far)):
            raise UnsupportedNetwork(f"a zone with both hosts and zones in it ({zone.name})")
        middle = zone.local(near[depth].name, far[depth].name)
        latency_s = middle.add_to(links, latency_s)
        first, last = middle.gateways
        if first not in self._zone_of or last not in self._zone_of:
            raise UnsupportedNetwork(f"no route from zone {near[depth].name!r} to zone {far[depth].name!r}")
        if first != source:
            latency_s = self._collect(source, first, links, latency_s)
        return latency_s if last == target else self._collect(last, target, links, latency_s)

    def _around(self, name: str) -> list[_Zone]:
        """Return the zones around a host or router, the outermost first."""
        if name not in self._zone_of:
            raise UnsupportedNetwork(f"no route by way of {name!r}, which is not a host or router")
        return self._zone_of[name].path()


def _parse_coordinates(text: str) -> tuple[float, ...]:
    """Return the three coordinates of a host. Raises LinkError."""
    try:
        coordinates = tuple(map(float, text.split(" ")))
    except ValueError:
        coordinates = ()
    if len(coordinates) != 3 or not all(map(math.isfinite, coordinates)):
        raise LinkError(f"coordinates {text!r}: expected three numbers such as '0 0 0'")
    return coordinates


def _apart(zone: _Zone, source: str, target: str) -> bool:
    """Whether the coordinates of two hosts are a distance apart, for SimGrid."""
    ends = [zone.hosts[name].coordinates if name in zone.hosts else () for name in (source, target)]
    return ends[0][:2] != ends[1][:2] or any(map(any, (end[2:] for end in ends)))


def _optional_link(
    attributes: Mapping[str, str], bandwidth_name: str, latency_name: str, *, shared: bool
) -> Link | None:
    """Return the link that two attributes describe, or None where there are none. Raises LinkError."""
    bandwidth, latency = attributes.get(bandwidth_name), attributes.get(latency_name)
    if not bandwidth and not latency:
        return None
    return Link(parse_latency(latency or "0"), parse_bandwidth(bandwidth or "0"), shared)
