"""Platforms: server files (TOML), and SimGrid 4.1 platform files for Batsim.

A server file states what one kind of server draws and computes; the shipped presets (``servers/*.toml``) and
a user's own file have the same fields, see `ServerSpec`.

A platform file has every DVFS state, sleep, transitions, and no network latency. Layout (docs of SimGrid's
host_energy plugin, and Batsim's sample platforms): each host lists one speed and one ``idle:full`` power per
P-state; a transition P-state's speed is 1/duration, since Batsim runs one flop on it; all hosts are at one
point of a Vivaldi zone, so that messages take no time.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from beasy_sched.energy.fields import require, require_not_negative
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.reading import in_file, package_text, parse_toml, read_text
from beasy_sched.generate.server_presets import preset_names
from beasy_sched.model.platform import (
    OFF_PROPERTY,
    OLD_OFF_PROPERTY,
    OLD_POWERS_PROPERTY,
    POWERS_PROPERTY,
    SPEEDS_PROPERTY,
    Platform,
    ServerKind,
    SleepState,
)
from beasy_sched.structs import as_type

SLEEP_SPEED_FLOPS: Final = 1e-3
"""Speed written for the sleep state: Batsim's own platforms use 1e-9 Mflop/s, since 0 is rejected."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*")


class PState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One computing P-state."""

    speed_gflops: float
    """Speed, in 10^9 flops/s."""
    full_w: float
    """Power with all processors busy, W."""
    idle_w: float | None = None
    """Power when idle in this P-state, W (default: the server's ``idle_w``)."""


class Sleep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sleep state and the two transitions."""

    sleep_w: float
    off_s: float
    """Time from on to asleep, s."""
    off_w: float
    on_s: float
    """Time from asleep to on, s."""
    on_w: float


class ServerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of server: the fields of a server file."""

    name: str
    """Letters and digits, parted by single ``-`` or ``_``; the hosts are called ``NAME-1``, ``NAME-2`` ..."""
    idle_w: float
    pstates: tuple[PState, ...]
    """From the fastest to the slowest."""
    sleep: Sleep | None = None
    """Omitted for servers that cannot sleep."""

    def check(self) -> None:
        """Raise ConfigError, naming the field, for figures that cannot be."""
        names = "a letter, then letters and digits, parted by single '-' or '_'"
        require(_NAME.fullmatch(self.name) is not None, "name", self.name, names)
        require(bool(self.pstates), "pstates", [], "at least one")
        require_not_negative("idle_w", self.idle_w)
        for number, state in enumerate(self.pstates):
            where = f"pstates[{number}]"
            require_not_negative(f"{where}.full_w", state.full_w)
            require_not_negative(f"{where}.idle_w", self.idle_w if state.idle_w is None else state.idle_w)
            speed = state.speed_gflops
            possible = 0 < speed <= gflops_to_flops(speed) < math.inf
            require(possible, f"{where}.speed_gflops", speed, "a finite number > 0")
        for fast, slow in itertools.pairwise(state.speed_gflops for state in self.pstates):
            require(slow < fast, "pstates", f"{fast:g}, then {slow:g}", "from the fastest to the slowest")
        if self.sleep is not None:
            for name in ("sleep_w", "off_w", "on_w"):
                require_not_negative(f"sleep.{name}", getattr(self.sleep, name))
            for name in ("off_s", "on_s"):
                seconds = getattr(self.sleep, name)
                possible = 0 < seconds < math.inf and 0 < 1 / seconds < math.inf
                require(possible, f"sleep.{name}", seconds, "a finite number of seconds > 0")

    def fastest_only(self) -> ServerSpec:
        """Return the same server with its fastest P-state alone (and its sleep state)."""
        return msgspec.structs.replace(self, pstates=self.pstates[:1])

    def kind(self) -> ServerKind:
        """Number the P-states: the computing ones from 0, then sleep, switching off, switching on."""
        speeds = [gflops_to_flops(p.speed_gflops) for p in self.pstates]
        idle = [self.idle_w if p.idle_w is None else p.idle_w for p in self.pstates]
        full = [p.full_w for p in self.pstates]
        sleeps: tuple[SleepState, ...] = ()
        if self.sleep is not None:
            first = len(speeds)
            sleeps = (SleepState(first, first + 1, first + 2),)
            speeds += [SLEEP_SPEED_FLOPS, 1 / self.sleep.off_s, 1 / self.sleep.on_s]
            fixed = [self.sleep.sleep_w, self.sleep.off_w, self.sleep.on_w]
            idle, full = idle + fixed, full + fixed
        return ServerKind(self.name, tuple(speeds), tuple(idle), tuple(idle), tuple(full), sleeps)


def gflops_to_flops(speed_gflops: float) -> float:
    """Shift the decimal point, so that 33.59 gives 33590000000.0 and not 33590000000.000004."""
    text = repr(float(speed_gflops))
    return float(f"{text}e9") if "e" not in text else speed_gflops * 1e9


def load_server(source: PathLike) -> ServerSpec:
    """Load a preset by its name (``gros``) or a server file by its path (``my.toml``).

    Raises ConfigError for an unknown preset, InputError for a file that cannot be read or is wrong.
    """
    text = os.fspath(source)
    if not text.endswith(".toml") and os.sep not in text:
        if text not in preset_names():
            raise ConfigError(
                f"unknown server {text!r}: the presets are {', '.join(preset_names())}; "
                "your own file must end in .toml"
            )
        text = f"{text}.toml"
        contents = package_text("beasy_sched.generate", "servers", text)
    else:
        contents = read_text(text)
    values = parse_toml(contents, text)
    with in_file(text):
        spec = as_type(values, ServerSpec)
        spec.check()
    return spec


MASTER_HOST: Final = "master_host"
"""Name of the host on which Batsim itself runs; it is not a machine of the scheduler."""
_HOSTS_A_PIECE: Final = 2000


def build_platform(servers: Iterable[tuple[ServerSpec, int]]) -> Platform:
    """Put together ``(server, count)`` pairs; the same server twice adds up.

    Hosts are called ``NAME-001``..., with as many digits as the largest count of the platform needs, and
    are numbered in the order of their names, as Batsim does: kinds in alphabetical order, then by
    number. Raises ConfigError for no server, a count below 1, or two servers of one name.
    """
    counts: dict[str, int] = {}
    specs: dict[str, ServerSpec] = {}
    for spec, count in servers:
        if count < 1:
            raise ConfigError(f"servers {spec.name}: {count} is not a number of servers (1 or more)")
        if specs.setdefault(spec.name, spec) != spec:
            raise ConfigError(f"two different servers are called {spec.name!r}: rename one")
        counts[spec.name] = counts.get(spec.name, 0) + count
    if not counts:
        raise ConfigError("a platform needs at least one server, such as gros:50")
    digits = len(str(max(counts.values())))
    return named_platform(
        (f"{name}-{number:0{digits}d}", specs[name])
        for name in specs
        for number in range(1, counts[name] + 1)
    )


def named_platform(servers: Iterable[tuple[str, ServerSpec]]) -> Platform:
    """Put together ``(host name, server)`` pairs, numbered in the order of their names, as Batsim does.

    Servers of one name are equal. Raises ConfigError for no host, or two of one name.
    """
    named: dict[str, ServerSpec] = {}
    for host, spec in servers:
        if host in named or host == MASTER_HOST:
            raise ConfigError(f"two hosts are called {host!r}")
        named[host] = spec
    if not named:
        raise ConfigError("a platform needs at least one host")
    specs = {spec.name: spec for spec in named.values()}
    kinds = tuple(specs[name].kind() for name in sorted(specs))
    number_of = {name: kind for kind, name in enumerate(sorted(specs))}
    hosts = [(host, number_of[named[host].name]) for host in sorted(named)]
    # Batsim gives every host a role in its messages, empty where the file has none.
    properties = [MappingProxyType({"role": "", **host_properties(kind)}) for kind in kinds]
    return Platform(
        kinds=kinds,
        kind_of=np.array([kind for _, kind in hosts], dtype=np.intp),
        names=tuple(host for host, _ in hosts),
        initial_pstates=np.zeros(len(hosts), dtype=np.intp),
        properties=tuple(properties[kind] for _, kind in hosts),
        zone_properties=(MappingProxyType[str, str]({}),) * len(hosts),
    )


def preset_platform(servers: Mapping[str, int], *, one_pstate: bool = False) -> Platform:
    """Build a platform from preset names or server files and counts, as ``{"gros": 50}``.

    ``one_pstate`` keeps the fastest computing P-state of each. Raises ConfigError and InputError.
    """
    specs = [(load_server(source), count) for source, count in servers.items()]
    return build_platform((spec.fastest_only() if one_pstate else spec, count) for spec, count in specs)


def host_properties(kind: ServerKind) -> dict[str, str]:
    """Return the properties of a host of this kind, as the platform file has them."""
    powers = zip(kind.idle_w, kind.full_w, strict=True)
    by_pstate = ", ".join(f"{number(idle)}:{number(full)}" for idle, full in powers)
    lowest = kind.idle_w[kind.sleep.pstate] if kind.sleep else 0.0
    properties = _power_properties(by_pstate, number(lowest))
    if kind.sleeps:
        triples = (f"{s.pstate}:{s.off_pstate}:{s.on_pstate}" for s in kind.sleeps)
        properties["sleep_pstates"] = ", ".join(triples)
    properties[SPEEDS_PROPERTY] = ", ".join(number(speed) for speed in kind.speeds_flops)
    return properties


def _power_properties(by_pstate: str, off: str) -> dict[str, str]:
    """Give the powers under both of their names: Batsim 4.2 reads the first of each, 4.0 the second."""
    powers = dict.fromkeys((POWERS_PROPERTY, OLD_POWERS_PROPERTY), by_pstate)
    return powers | dict.fromkeys((OFF_PROPERTY, OLD_OFF_PROPERTY), off)


def platform_xml(platform: Platform) -> Iterator[str]:
    """Make the platform file, in pieces of some thousand hosts.

    Every kind needs speeds and powers. Speeds are in plain ``f`` (flops/s), so that reading them gives
    the same number to the last bit.
    """
    if not (platform.has_speeds and platform.has_powers):
        raise ConfigError("a platform file needs the speed and the power of every P-state")
    counts = np.bincount(platform.kind_of, minlength=len(platform.kinds)).tolist()
    contents = ", ".join(f"{count} x {kind.name}" for kind, count in zip(platform.kinds, counts, strict=True))
    master_powers = _property_lines(_power_properties("100:200", "10"))
    yield _HEAD.format(master=MASTER_HOST, contents=contents, powers=master_powers)
    pstates: Sequence[int] = platform.initial_pstates.tolist()
    bodies = [_host_body(kind) for kind in platform.kinds]
    kind_of = platform.kind_of.tolist()
    for start in range(0, platform.size, _HOSTS_A_PIECE):
        piece = slice(start, start + _HOSTS_A_PIECE)
        rows = zip(platform.names[piece], kind_of[piece], pstates[piece], strict=True)
        yield "".join(
            f'    <host id="{name}" pstate="{pstate}" {bodies[kind]}' for name, kind, pstate in rows
        )
    yield "  </zone>\n</platform>\n"


def write_platform(platform: Platform, path: PathLike) -> None:
    """Write the platform file of ``platform`` atomically. Raises InputError, ConfigError."""
    write_atomic(path, platform_xml(platform))


def number(value: float) -> str:
    """Write a number so that it reads back the same, without a trailing ``.0``."""
    return repr(float(value)).removesuffix(".0")


_HEAD: Final = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<!-- Made by beasy-sched generate platform: {contents}.
     P-states are numbered from 0: computing (fastest first), sleep, switching off, switching on.
     The powers are there under their names of Batsim 4.2 (wattage_...) and of 4.0 (watt_...).
     {master} is Batsim's default for -m, which gives it its role; its power counts in no figure. -->
<platform version="4.1">
  <zone id="AS0" routing="Vivaldi">
    <host id="{master}" coordinates="0 0 0" speed="1000000000f">
{powers}
    </host>
"""


def _host_body(kind: ServerKind) -> str:
    speeds = ", ".join(f"{number(speed)}f" for speed in kind.speeds_flops)
    return f'coordinates="0 0 0" speed="{speeds}">\n{_property_lines(host_properties(kind))}\n    </host>\n'


def _property_lines(properties: Mapping[str, str]) -> str:
    return "\n".join(f'      <prop id="{key}" value="{value}"/>' for key, value in properties.items())
