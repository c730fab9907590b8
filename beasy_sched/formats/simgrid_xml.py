"""SimGrid platform XML (versions 4 and 4.1): hosts, clusters, zones and their properties.

Only what the embedded simulator needs: compute speeds, cores, P-states, powers, and the latency of Batsim's
own messages (`simgrid_network`). Communication of jobs is not simulated.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.parsers import expat

import numpy as np

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.simgrid_network import Latency, LinkError, Network, UnsupportedNetwork
from beasy_sched.limits import MOST_HOSTS, shortened
from beasy_sched.model.platform import (
    OFF_PROPERTY,
    OLD_OFF_PROPERTY,
    OLD_POWERS_PROPERTY,
    POWERS_PROPERTY,
    Platform,
    ServerKind,
    host_powers,
    old_name_note,
    parse_sleep_states,
)
from beasy_sched.numbers import Range, number_in

_CORES = Range(1, 2**31 - 1, whole=True)
"""Numbers of cores that a host may have."""
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_SPEED = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?:([kMGTPEZY]?)(?:f|flops|Flops))?")


def parse_speed(text: str) -> float:
    """Read a speed such as ``100Mf``, ``1e-9Mf`` or ``2.5E9flops``; a plain number is flops/s.

    Raises ValueError.
    """
    match = _SPEED.fullmatch(text.strip())
    try:
        value = float(match[1]) * _PREFIXES[match[2] or ""] if match else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"speed {text.strip()!r}: expected flops/s such as '100Mf', '3.2Gf' or '0.5f'")
    return value


ROLES = ("compute_node", "storage", "master")
"""Roles that a host can have; no role means compute_node."""

NO_MASTER_HOST = "none"
"""Value to give as the master host where the platform file itself states which host it is."""

_POWER_PROPERTIES = (POWERS_PROPERTY, OLD_POWERS_PROPERTY, OFF_PROPERTY, OLD_OFF_PROPERTY)


_NO_STORAGE = Platform((), np.empty(0, dtype=np.intp), ())


@dataclass(frozen=True)
class SimGridPlatform:
    """A platform file as Batsim sees it: compute hosts numbered, master and storage hosts apart."""

    platform: Platform
    """The compute hosts, sorted by name."""
    master: str
    """Name of the host on which Batsim itself would run."""
    storage: Platform = _NO_STORAGE
    """The storage hosts, whose ids follow those of the compute hosts; there may be none."""
    latency: Latency | None = None
    """Time of Batsim's own messages, from compute hosts, then storage hosts; None: no time, or unknown."""
    unknown_latency: str = ""
    """Why the latency is unknown: what of the network is not modelled; empty if it is known."""
    notes: tuple[str, ...] = ()
    """Notes for the user on what Batsim 4.2 would take from the file otherwise."""

    @property
    def machines(self) -> Platform:
        """All hosts that Batsim counts as machines, by their ids: compute and storage hosts."""
        return self.platform.followed_by(self.storage) if self.storage.size else self.platform


@dataclass
class _HostElement:
    path: PathLike
    line: int
    name: str
    speed: str
    cores: str
    pstate: str
    properties: dict[str, str]
    zone_properties: dict[str, str]

    def error(self, message: str) -> InputError:
        return InputError(self.path, message, line=self.line)


def read_simgrid_platform(
    path: PathLike,
    *,
    master: str = "master_host",
    roles: Mapping[str, str] | None = None,
    limit: int = 0,
    energy: bool = True,
    strict: bool = False,
    needs_powers: bool = False,
    natural_order: bool = False,
) -> SimGridPlatform:
    """Read a platform file.

    ``master`` is given the role of master host (no host is called ``none``, Batsim's way to leave that to
    the file); ``roles`` gives hosts further roles, and goes before ``master``; ``limit`` keeps only the
    first so many compute hosts (0: all). Without ``energy`` powers and sleep states are ignored, and not
    checked, as Batsim does without ``-E``. A master host that the file also marks is an error if
    ``strict``, as it is for Batsim, and otherwise a note: older files of ours are so. With ``needs_powers``
    each host that is metered must have powers under the name that Batsim 4.2 reads: without, that aborts at
    the first metering. Hosts are numbered in
    the order of their names; in ``natural_order``, that of Batsim 5, numbers in names count as such (n2
    before n10). Raises InputError.
    """
    reader = _HostReader(path)
    notes: list[str] = []
    wanted = {master: "master", **(roles or {})}
    names: set[str] = set()
    by_role: dict[str, list[_HostElement]] = {role: [] for role in ROLES}
    hosts = reader.read()
    for host in hosts:
        if host.name in names:
            raise host.error(f"two hosts have the name {host.name!r}")
        names.add(host.name)
    for host in hosts:
        by_role[_role(host, wanted.get(host.name), None if strict else notes)].append(host)
    if not by_role["master"]:
        raise InputError(
            path,
            f"no master host: expected a host named {master!r}; name it with -m/--master-host (or give a host"
            f" <prop id='role' value='master'/>, and -m {NO_MASTER_HOST})",
        )
    if len(by_role["master"]) > 1:
        masters = ", ".join(sorted(host.name for host in by_role["master"]))
        raise InputError(path, f"several master hosts: {masters}")
    order = natural_key if natural_order else str
    compute = sorted(by_role["compute_node"], key=lambda host: order(host.name))
    if not compute:
        raise InputError(path, "no compute host: nothing could run")
    if limit > len(compute):
        raise InputError(path, f"cannot use {limit} machines: only {len(compute)} are described")
    kinds = _Kinds(energy, one_pstate=strict and not energy)
    kinds.check(by_role["master"][0])
    limit = limit or len(compute)
    stores = sorted(by_role["storage"], key=lambda host: order(host.name))
    described = _build(compute, kinds, limit)
    storage = _build(stores, _Kinds(energy, one_pstate=False, computes=False), len(stores))
    if energy and needs_powers:
        _require_powers([*compute[:limit], *stores])
    if kinds.note is not None:
        notes.append(kinds.note)
    latency, unknown_latency = reader.latency((*described.names, *storage.names), by_role["master"][0].name)
    delay_s = None if unknown_latency else 0.0 if latency is None else latency.longest_s
    platform = replace(described, message_delay_s=delay_s)
    if unknown_latency:
        notes.append(
            f"the network of {path} is not modelled ({unknown_latency}): Batsim's own messages take no time"
            " here, so a real Batsim's times are later by some latencies"
        )
    return SimGridPlatform(
        platform, by_role["master"][0].name, storage, latency, unknown_latency, tuple(dict.fromkeys(notes))
    )


def _require_powers(hosts: Sequence[_HostElement]) -> None:
    """Raise InputError for the first host on which SimGrid finds no powers."""
    for host in hosts:
        if not host.properties.get(POWERS_PROPERTY, "").strip():
            old = host.properties.get(OLD_POWERS_PROPERTY, "").strip()
            fix = f"add it next to {OLD_POWERS_PROPERTY}, which only Batsim 4.0 reads" if old else "add it"
            raise host.error(
                f"host {host.name!r} has no {POWERS_PROPERTY}, and Batsim 4.2 aborts when it meters such a"
                f" host ('No power range properties specified for host {host.name}'): {fix}, or run without"
                " -E"
            )


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return what to sort names by in natural order: numbers as such, before text."""
    parts = re.split("([0-9]+)", name)
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in parts if part)


def _role(host: _HostElement, given: str | None, notes: list[str] | None) -> str:
    """Join the role in the file and the one given, as Batsim does; only a single role can be read then."""
    own = host.properties.get("role", "")
    text = ",".join(filter(None, (own, given or "")))
    repeated = own == given == "master"
    if repeated and notes is not None:
        text = "master"
        notes.append(
            f"host {host.name!r} has the property role=master and is the master host (-m) as well: Batsim 4.2"
            f" aborts on such a file; remove the property, or give Batsim -m {NO_MASTER_HOST}"
        )
    host.properties = {"role": text} | {k: v for k, v in host.properties.items() if k != "role"}
    if text in ROLES or not text:
        return text or "compute_node"
    if not own or not given:
        message = f"host {host.name!r} has the role {text!r}: expected one of {', '.join(ROLES)}"
    else:
        message = (
            f"host {host.name!r} has the property role={own!r}, and is given the role {given!r} as well"
            f" ({'-m' if given == 'master' else '-r'}): Batsim cannot read {text!r}; remove the property"
            " from the file" + (f", or give -m {NO_MASTER_HOST}" if repeated else ", or do not give the role")
        )
    raise host.error(message)


def _build(hosts: Sequence[_HostElement], kinds: _Kinds, limit: int) -> Platform:
    """Check all hosts, and put together the first ``limit`` of them."""
    kind_of = np.array([kinds.index(host) for host in hosts], dtype=np.intp)
    speeds = [kinds.built[kind].speeds_flops for kind in kind_of]
    initial = np.array(list(map(_initial_pstate, hosts, speeds)), dtype=np.intp)
    if kinds.one_pstate:
        for host, some, pstate in zip(hosts, speeds, initial.tolist(), strict=True):
            if some[pstate] <= 0.0:
                raise host.error(f"host {host.name!r}: the speed of its P-state {pstate} must be above 0")
    shared: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    used = hosts[:limit]
    present, kind_of = np.unique(kind_of[:limit], return_inverse=True)
    return Platform(
        tuple(kinds.built[kind] for kind in present),
        kind_of,
        tuple(host.name for host in used),
        initial[:limit],
        tuple(shared.setdefault(tuple(host.properties.items()), host.properties) for host in used),
        tuple(shared.setdefault(tuple(host.zone_properties.items()), host.zone_properties) for host in used),
    )


class _Kinds:
    """The kinds of hosts in a file: each is read and checked once."""

    def __init__(self, energy: bool, *, one_pstate: bool, computes: bool = True) -> None:
        """Read powers and sleep states with ``energy``.

        With ``one_pstate`` hosts keep the P-state in which they start; hosts that do not compute need none
        for that.
        """
        self.one_pstate = one_pstate
        self._computes = computes
        self._properties = (*_POWER_PROPERTIES, "sleep_pstates") if energy else ()
        self._known: dict[tuple[str, ...], int] = {}
        self.built: list[ServerKind] = []
        """The kinds of the hosts, in the order of their first hosts."""
        self.note: str | None = None
        """Note for the user on the first host whose powers Batsim 4.2 would not find."""

    def index(self, host: _HostElement) -> int:
        """Return the number of a host's kind. Raises InputError."""
        key = (host.speed, host.cores, *(host.properties.get(name, "") for name in self._properties))
        index = self._known.get(key)
        if index is None:
            kind = self.check(host, computes=self._computes)
            self.note = self.note or (old_name_note(host.name, host.properties) if self._properties else None)
            self._known[key] = index = len(self.built)
            self.built.append(kind)
        return index

    def check(self, host: _HostElement, *, computes: bool = False) -> ServerKind:
        """Read a host. Raises InputError where Batsim aborts; a host that ``computes`` is checked further."""
        properties = {name: host.properties.get(name, "") for name in self._properties}
        try:
            speeds = tuple(parse_speed(part) for part in host.speed.split(","))
            cores = _cores(host.cores)
            _check_off_powers(properties)
            idle, epsilon, full = host_powers(properties, cores)
            states = parse_sleep_states(properties.get("sleep_pstates", ""))
            kind = ServerKind(host.name, speeds, idle, epsilon, full, states, cores)
            kind.check(computes=computes and not self.one_pstate)
        except (ConfigError, ValueError) as error:
            raise host.error(f"host {host.name!r}: {error}") from None
        return kind


def _cores(text: str) -> int:
    """Read the number of cores. Raises ValueError."""
    try:
        return int(_CORES.read(text))
    except ValueError as error:
        raise ValueError(f"core: {error}") from None


def _check_off_powers(properties: Mapping[str, str]) -> None:
    """Raise ValueError for a power of hosts that are off which is not a number, or differs from its twin."""
    off_powers: dict[str, float] = {}
    for name in (OFF_PROPERTY, OLD_OFF_PROPERTY):
        text = properties.get(name, "")
        if text.strip():
            try:
                off_powers[name] = number_in(text)
            except ValueError:
                raise ValueError(f"{name}: {text!r} is not a power in watts") from None
    if len(set(off_powers.values())) > 1:
        raise ValueError(
            " and ".join(f"{name} {properties[name]!r}" for name in off_powers)
            + " differ: remove one, or make them the same"
        )


def _initial_pstate(host: _HostElement, speeds: Sequence[float]) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= (pstate := int(host.pstate)) < len(speeds):
            return pstate
    expected = f"expected 0 to {len(speeds) - 1}"
    raise host.error(f"host {host.name!r} starts in pstate={host.pstate!r}, {expected}")


class _HostReader:
    """One pass over the file with expat; hosts are in the order of the file."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.hosts: list[_HostElement] = []
        self._network = Network()
        self._in_config = False
        self._zones: list[dict[str, str]] = [{}]
        self._open: list[_HostElement] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity

    def read(self) -> list[_HostElement]:
        data = read_bytes(self.path)
        try:
            self._parser.Parse(data.lstrip(), True)
        except expat.ExpatError as error:
            if data.lstrip()[:1] in (b"{", b"["):
                raise InputError(
                    self.path,
                    "is JSON, as workloads are, but a platform is XML: are platform (-p) and workload (-w)"
                    " swapped?",
                ) from None
            reason = expat.ErrorString(error.code)
            raise InputError(self.path, f"not well-formed XML: {reason}", line=error.lineno) from None
        return self.hosts

    def _fail(self, message: str) -> InputError:
        return InputError(self.path, message, line=self._parser.CurrentLineNumber)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._fail(f"declares the entity {name!r}: entity declarations are not allowed")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "prop":
            name, value = attributes.get("id", ""), attributes.get("value", "")
            for host in self._open:
                host.properties[name] = value
            if self._in_config:
                self._network.set_property(name)
            elif not self._open:
                self._zones[-1][name] = value
        elif tag == "host":
            self._host(attributes)
        elif tag in ("cluster", "cabinet"):
            self._cluster(tag, attributes)
        elif tag == "config":
            self._in_config = True
        elif tag == "platform":
            version = attributes.get("version", "")
            if not version.startswith("4"):
                raise self._fail(
                    f"platform version {version!r}: expected 4 or 4.1 (simgrid_update_xml converts)"
                )
        elif tag in ("include", "peer", "trace", "trace_connect"):
            raise self._fail(f"<{tag}> is not supported: list the hosts in this file")
        else:
            if tag in ("zone", "AS"):
                self._zones.append(dict(self._zones[-1]))
            with self._telling_links():
                self._network.start(tag, attributes)

    @contextlib.contextmanager
    def _telling_links(self) -> Iterator[None]:
        """Raise InputError for a link or route that SimGrid refuses."""
        try:
            yield
        except LinkError as error:
            raise self._fail(str(error)) from None

    def latency(self, hosts: Sequence[str], master: str) -> tuple[Latency | None, str]:
        """Return the latency of hosts and the master, and what is not modelled, if anything."""
        try:
            return self._network.latency(hosts, master), ""
        except UnsupportedNetwork as error:
            return None, str(error)

    def _end(self, tag: str) -> None:
        if tag in ("host", "cluster", "cabinet"):
            for host in self._open if tag != "host" else ():
                # A cluster is a separate zone: its properties are also its hosts' zone properties.
                host.zone_properties = {**host.properties, **self._zones[-1], **host.properties}
            self.hosts += self._open
            self._open = []
        elif tag == "config":
            self._in_config = False
        else:
            if tag in ("zone", "AS"):
                self._zones.pop()
            self._network.end(tag)

    def _host(self, attributes: dict[str, str]) -> None:
        for trace in ("availability_file", "state_file"):
            if trace in attributes:
                raise self._fail(f"{trace}: speed traces are not supported")
        name = self._required(attributes, "id")
        with self._telling_links():
            self._network.add_host(name, attributes)
        self._open = [self._new_host(name, attributes)]

    def _cluster(self, tag: str, attributes: dict[str, str]) -> None:
        prefix, suffix = attributes.get("prefix", ""), attributes.get("suffix", "")
        numbers = self._radical(self._required(attributes, "radical"))
        names = [f"{prefix}{number}{suffix}" for number in numbers]
        for attribute in ("bw", "lat"):
            self._required(attributes, attribute)
        self._open = [self._new_host(name, attributes) for name in names]
        with self._telling_links():
            self._network.add_cluster(tag, names, attributes)

    def _new_host(self, name: str, attributes: dict[str, str]) -> _HostElement:
        line, zone = self._parser.CurrentLineNumber, self._zones[-1]
        speed, cores = self._required(attributes, "speed"), attributes.get("core", "1")
        return _HostElement(self.path, line, name, speed, cores, attributes.get("pstate", "0"), {}, zone)

    def _required(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise self._fail(f"{attributes.get('id', '?')!r} has no attribute {name!r}")
        return attributes[name]

    def _radical(self, text: str) -> list[int]:
        numbers: list[int] = []
        for part in filter(None, (p.strip() for p in text.split(","))):
            match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part)
            if match is None:
                raise self._fail(
                    f"radical {shortened(part)!r}: expected numbers and intervals such as '0-127,130'"
                )
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise self._fail(f"radical {part!r} is descending")
            if len(self.hosts) + len(numbers) + last - first >= MOST_HOSTS:
                raise self._fail(f"radical {part!r}: more than {MOST_HOSTS:,} hosts")
            numbers += range(first, last + 1)
        return numbers
