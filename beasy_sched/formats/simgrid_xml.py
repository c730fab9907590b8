"""Reading SimGrid platform XML (versions 4 and 4.1): hosts, clusters, zones and their properties.

Only what the embedded simulator needs: compute speeds, cores, P-states, powers. Links and routes are
noted (`SimGridPlatform.has_network`) and otherwise skipped, since no communication is simulated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.parsers import expat

import numpy as np

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.simgrid_units import parse_speed
from beasy_sched.model.platform import Platform, ServerKind, parse_sleep_states, parse_wattages

ROLES = ("compute_node", "storage", "master")
"""Roles that a host can have; no role means compute_node."""

_LARGEST_CLUSTER = 10_000_000


@dataclass(frozen=True)
class SimGridPlatform:
    """A platform file as Batsim sees it: compute hosts numbered, master and storage hosts apart."""

    platform: Platform
    """The compute hosts, sorted by name."""
    master: str
    """Name of the host on which Batsim itself would run."""
    storage: tuple[tuple[str, Mapping[str, str], Mapping[str, str]], ...] = ()
    """Storage hosts: name, properties, zone properties."""
    has_network: bool = False
    """Whether the file describes links, so that a real Batsim's own messages would take time."""


@dataclass
class _Host:
    name: str
    speed: str
    cores: str
    pstate: str
    line: int
    properties: dict[str, str]
    zone_properties: dict[str, str]


def read_simgrid_platform(
    path: str | os.PathLike[str],
    *,
    master: str = "master_host",
    roles: Mapping[str, str] | None = None,
    limit: int = 0,
    energy: bool = True,
) -> SimGridPlatform:
    """Read a platform file.

    ``master`` names the master host unless a host has that role; ``roles`` gives hosts further roles;
    ``limit`` keeps only the first so many compute hosts (0: all). Without ``energy`` powers and sleep
    states are ignored, and not checked, as Batsim does without ``-E``. Raises InputError.
    """
    reader = _Reader(path)
    hosts = reader.read()
    wanted = {master: "master", **(roles or {})}
    by_role: dict[str, list[_Host]] = {role: [] for role in ROLES}
    for host in hosts:
        by_role[_role(path, host, wanted.get(host.name))].append(host)
    if len(by_role["master"]) != 1:
        raise InputError(path, _master_message(by_role["master"], master))
    compute = sorted(by_role["compute_node"], key=lambda host: host.name)
    if not compute:
        raise InputError(path, "no compute host: nothing could run")
    if limit > len(compute):
        raise InputError(path, f"cannot use {limit} machines: only {len(compute)} are described")
    platform = _build(path, compute[:limit] if limit else compute, energy)
    storage = tuple((h.name, h.properties, h.zone_properties) for h in by_role["storage"])
    return SimGridPlatform(platform, by_role["master"][0].name, storage, reader.has_network)


def _master_message(masters: Sequence[_Host], name: str) -> str:
    if masters:
        return "several master hosts: " + ", ".join(sorted(host.name for host in masters))
    return (
        f"no master host: expected a host named {name!r}, or one with <prop id='role' value='master'/>;"
        " name it with -m/--master-host"
    )


def _role(path: str | os.PathLike[str], host: _Host, given: str | None) -> str:
    words = [host.properties.get("role", ""), given or ""]
    text = ",".join(filter(None, words))
    host.properties = {"role": text} | {k: v for k, v in host.properties.items() if k != "role"}
    named = {word.strip() for word in text.split(",") if word.strip()} or {"compute_node"}
    if len(named) > 1 or not named.issubset(ROLES):
        raise InputError(
            path,
            f"host {host.name!r} has the role {text!r}: expected one of {', '.join(ROLES)}",
            line=host.line,
        )
    return named.pop()


def _build(path: str | os.PathLike[str], hosts: Sequence[_Host], energy: bool) -> Platform:
    kinds: dict[tuple[str, str, str, str], int] = {}
    built: list[ServerKind] = []
    kind_of = np.empty(len(hosts), dtype=np.intp)
    initial = np.empty(len(hosts), dtype=np.intp)
    shared: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    properties, zones = [], []
    for index, host in enumerate(hosts):
        if index and host.name == hosts[index - 1].name:
            raise InputError(path, f"two hosts have the name {host.name!r}", line=host.line)
        wattages = host.properties.get("wattage_per_state", "") if energy else ""
        sleeps = host.properties.get("sleep_pstates", "") if energy else ""
        key = (host.speed, host.cores, wattages, sleeps)
        if key not in kinds:
            kinds[key] = len(built)
            built.append(_kind(path, host, f"kind{len(built)}", wattages, sleeps))
        kind_of[index] = kinds[key]
        initial[index] = _initial_pstate(path, host, built[kinds[key]])
        properties.append(shared.setdefault(tuple(host.properties.items()), host.properties))
        zones.append(shared.setdefault(tuple(host.zone_properties.items()), host.zone_properties))
    names = tuple(host.name for host in hosts)
    return Platform(tuple(built), kind_of, names, initial, tuple(properties), tuple(zones))


def _kind(path: str | os.PathLike[str], host: _Host, name: str, wattages: str, sleeps: str) -> ServerKind:
    try:
        speeds = tuple(parse_speed(part) for part in host.speed.split(","))
        cores = int(host.cores)
        idle, epsilon, full = _powers(wattages, cores)
        states = parse_sleep_states(sleeps)
    except (ConfigError, ValueError) as error:
        raise InputError(path, f"host {host.name!r}: {error}", line=host.line) from None
    kind = ServerKind(name, speeds, idle, epsilon, full, states, cores)
    problem = _kind_problem(kind)
    if problem:
        raise InputError(path, f"host {host.name!r}: {problem}", line=host.line)
    return kind


def _powers(text: str, cores: int) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    if cores > 1 and any(part.count(":") < 2 for part in text.split(",") if part.strip()):
        raise ValueError(
            f"wattage_per_state {text!r} gives two powers for a host of {cores} cores: SimGrid wants"
            " 'idle:epsilon:all_cores' there"
        )
    return parse_wattages(text)


def _kind_problem(kind: ServerKind) -> str | None:
    count = len(kind.speeds_flops)
    if kind.cores < 1:
        return f"core={kind.cores}: expected 1 or more"
    if kind.idle_w and len(kind.idle_w) != count:
        return f"{count} speeds but {len(kind.idle_w)} entries in wattage_per_state: expected one a P-state"
    for state in kind.sleeps:
        for pstate in (state.pstate, state.off_pstate, state.on_pstate):
            if not 0 <= pstate < count:
                return f"sleep_pstates names P-state {pstate}, but there are only {count} (0 to {count - 1})"
        if len({state.pstate, state.off_pstate, state.on_pstate}) < 3:
            return "sleep_pstates: sleep, switch-off and switch-on must be three different P-states"
        if min(kind.speeds_flops[state.off_pstate], kind.speeds_flops[state.on_pstate]) <= 0:
            return "the speeds of transition P-states must be positive: a transition runs 1 flop"
    if not kind.computing:
        return "no P-state is left for computing"
    if min(kind.speeds_flops[p] for p in kind.computing) <= 0:
        return "the speeds of computation P-states must be positive"
    return None


def _initial_pstate(path: str | os.PathLike[str], host: _Host, kind: ServerKind) -> int:
    try:
        pstate = int(host.pstate)
    except ValueError:
        pstate = -1
    if not 0 <= pstate < len(kind.speeds_flops):
        raise InputError(
            path,
            f"host {host.name!r} starts in pstate={host.pstate!r},"
            f" expected 0 to {len(kind.speeds_flops) - 1}",
            line=host.line,
        )
    return pstate


class _Reader:
    """One pass over the file with expat; hosts come out in the order of the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.hosts: list[_Host] = []
        self.has_network = False
        self._zones: list[dict[str, str]] = [{}]
        self._open: list[_Host] = []
        self._coordinates: str | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity

    def read(self) -> list[_Host]:
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise InputError(self.path, f"cannot be read: {error.strerror}") from None
        try:
            self._parser.Parse(data.lstrip(), True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise InputError(self.path, f"not well-formed XML: {reason}", line=error.lineno) from None
        return self.hosts

    def _fail(self, message: str) -> InputError:
        return InputError(self.path, message, line=self._parser.CurrentLineNumber)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._fail(f"declares the entity {name!r}: platform files need none, and they can be abused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "prop":
            self._property(attributes)
        elif tag == "host":
            self._host(attributes)
        elif tag in ("cluster", "cabinet"):
            self._cluster(attributes)
        elif tag in ("zone", "AS"):
            self._zones.append(dict(self._zones[-1]))
        elif tag in ("link", "backbone", "bypassRoute"):
            self.has_network = True
        elif tag == "platform":
            version = attributes.get("version", "")
            if not version.startswith("4"):
                raise self._fail(
                    f"platform version {version!r}: expected 4 or 4.1 (simgrid_update_xml converts)"
                )
        elif tag in ("include", "peer", "trace", "trace_connect"):
            raise self._fail(f"<{tag}> is not supported: list the hosts in this file")

    def _end(self, tag: str) -> None:
        if tag in ("host", "cluster", "cabinet"):
            if tag != "host" and self._open:
                # A cluster is a zone of its own: its properties are also its hosts' zone properties.
                own = self._open[0].properties
                for host in self._open:
                    host.zone_properties = {
                        **own,
                        **{k: v for k, v in self._zones[-1].items() if k not in own},
                    }
            self.hosts += self._open
            self._open = []
        elif tag in ("zone", "AS"):
            self._zones.pop()

    def _property(self, attributes: dict[str, str]) -> None:
        name, value = attributes.get("id", ""), attributes.get("value", "")
        if self._open:
            for host in self._open:
                host.properties[name] = value
        else:
            self._zones[-1][name] = value

    def _host(self, attributes: dict[str, str]) -> None:
        for trace in ("availability_file", "state_file"):
            if trace in attributes:
                raise self._fail(f"{trace}: hosts whose speed changes by a trace are not simulated")
        coordinates = attributes.get("coordinates")
        if self._coordinates is None:
            self._coordinates = coordinates
        self.has_network |= coordinates != self._coordinates
        self._open = [self._new_host(self._required(attributes, "id"), attributes, self._zones[-1])]

    def _cluster(self, attributes: dict[str, str]) -> None:
        self.has_network = True
        prefix, suffix = attributes.get("prefix", ""), attributes.get("suffix", "")
        zone = self._zones[-1]
        self._open = [
            self._new_host(f"{prefix}{number}{suffix}", attributes, zone)
            for number in self._radical(self._required(attributes, "radical"))
        ]

    def _new_host(self, name: str, attributes: dict[str, str], zone: dict[str, str]) -> _Host:
        return _Host(
            name,
            self._required(attributes, "speed"),
            attributes.get("core", "1"),
            attributes.get("pstate", "0"),
            self._parser.CurrentLineNumber,
            {},
            zone,
        )

    def _required(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            who = attributes.get("id", "?")
            raise self._fail(f"{who!r} has no attribute {name!r}")
        return attributes[name]

    def _radical(self, text: str) -> list[int]:
        numbers: list[int] = []
        for part in filter(None, (p.strip() for p in text.split(","))):
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
            if match is None:
                raise self._fail(f"radical {part!r}: expected numbers and intervals such as '0-127,130'")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or last - first > _LARGEST_CLUSTER:
                raise self._fail(f"radical {part!r} is not a sensible interval")
            numbers += range(first, last + 1)
        return numbers
