"""Servers: P-states, speeds, powers, sleep states and transitions.

A *server* is one Batsim host. Servers of one kind share a `ServerKind`; a `Platform` is a list of kinds
and an array with each host's kind, so ten thousand servers take a few arrays. `platform_of` reads a
platform from the host properties in SIMULATION_BEGINS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from beasy_sched.arrays import IndexArray, StateArray, read_only
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.limits import LARGEST_POWER_W, LATEST_S, MOST_KIND_PSTATES, MOST_PSTATES, shortened
from beasy_sched.model.events import Resource, SimulationBegins
from beasy_sched.numbers import number_in

SPEEDS_PROPERTY = "speed_per_state"
"""Host property with the speeds (flops/s, comma separated), because Batsim sends only properties."""
POWERS_PROPERTY = "wattage_per_state"
"""Host property with the powers of each P-state, W; the name that Batsim 4.2 reads."""
OLD_POWERS_PROPERTY = "watt_per_state"
"""Host property with the P-states' powers, W, up to Batsim 4.0; Batsim 4.2 forwards it but meters 0 W."""
OFF_PROPERTY, OLD_OFF_PROPERTY = "wattage_off", "watt_off"
"""Host property with the power of a host that is off, W, and its name up to Batsim 4.0."""

CORES_PROPERTY = "core_count"
"""Host property with the number of cores if above 1, because Batsim 4 does not send ``core``."""
START_PROPERTY = "initial_pstate"
"""Host property with the initial P-state, because Batsim does not send the ``pstate`` of its file."""


@dataclass(frozen=True)
class SleepState:
    """Sleep state: the P-states of sleeping and of the two transitions."""

    pstate: int
    off_pstate: int
    """P-state held while switching off."""
    on_pstate: int
    """P-state held while switching on."""

    @property
    def pstates(self) -> tuple[int, int, int]:
        """P-states of sleeping and of both transitions."""
        return self.pstate, self.off_pstate, self.on_pstate


@dataclass(frozen=True)
class ServerKind:
    """Capabilities of servers of one kind; every tuple has one entry per P-state.

    P-states are numbered as in the platform file: computing states first or not, sleeping and
    transition states among them. A transition P-state's speed encodes its duration: 1 flop is run.
    """

    name: str
    speeds_flops: tuple[float, ...]
    """Speed of one core, flops/s. Empty if unknown."""
    idle_w: tuple[float, ...] = ()
    """Power when idle, W. Empty if unknown."""
    epsilon_w: tuple[float, ...] = ()
    """Power at the least load above zero (SimGrid's Epsilon)."""
    full_w: tuple[float, ...] = ()
    """Power with all cores busy."""
    sleeps: tuple[SleepState, ...] = ()
    cores: int = 1

    @cached_property
    def pstates(self) -> int:
        """Number of P-states; from the highest one named if speeds and powers are unknown."""
        described = max(len(self.speeds_flops), len(self.idle_w))
        return described or max(self._not_computing, default=0) + 1

    @cached_property
    def _not_computing(self) -> list[int]:
        """P-states of sleep and transition."""
        return [pstate for sleep in self.sleeps for pstate in sleep.pstates]

    @cached_property
    def computing(self) -> tuple[int, ...]:
        """P-states in which jobs run, as numbered in the platform file."""
        return tuple(p for p in range(self.pstates) if p not in self._not_computing)

    @cached_property
    def plannable(self) -> tuple[int, ...]:
        """P-states available to plans: computing ones, and the sleep state used by policies."""
        return (*self.computing, self.sleep.pstate) if self.sleep else self.computing

    @cached_property
    def asleep_in(self) -> frozenset[int]:
        """P-states of sleep."""
        return frozenset(s.pstate for s in self.sleeps)

    @cached_property
    def sleep(self) -> SleepState | None:
        """Sleep state used by policies: the first, or None for a server that cannot sleep."""
        return self.sleeps[0] if self.sleeps else None

    @cached_property
    def fastest(self) -> int:
        """Computing P-state with the highest speed (the first one if speeds are unknown)."""
        if not self.speeds_flops:
            return self.computing[0]
        return max(self.computing, key=lambda p: (self.speeds_flops[p], -p))

    @cached_property
    def reference_speed_flops(self) -> float:
        """F_ref: the median computing P-state's speed, flops/s (the faster of the two middle ones).

        Policies assume that a walltime w means w * F_ref flops on each host (F'_s of Eq. 3.29 of the thesis),
        and generated workloads have their run times at this speed. In a faster P-state the same work takes
        less time, in a slower one more; the simulator still ends a job at its walltime.
        """
        speeds = sorted((self.speeds_flops[p] for p in self.computing), reverse=True)
        return speeds[(len(speeds) - 1) // 2]

    def off_duration_s(self) -> float:
        """Seconds from on to asleep (0 for a server that cannot sleep)."""
        return 1.0 / self.speeds_flops[self.sleep.off_pstate] if self.sleep and self.speeds_flops else 0.0

    def on_duration_s(self) -> float:
        """Seconds from asleep to on (0 for a server that cannot sleep)."""
        return 1.0 / self.speeds_flops[self.sleep.on_pstate] if self.sleep and self.speeds_flops else 0.0

    @classmethod
    def from_properties(
        cls,
        name: str,
        properties: Mapping[str, str],
        *,
        speeds_flops: tuple[float, ...] = (),
        cores: int = 1,
    ) -> ServerKind:
        """Read the kind from a Batsim host's properties.

        ``speeds_flops`` and ``cores`` are values reported by the simulator in addition, if any.
        `SPEEDS_PROPERTY` is used if it agrees with them, because it may have more digits, or if none are
        reported; `CORES_PROPERTY` is used if at most one core is reported.

        Raises ConfigError if a property cannot be read or does not fit the others.
        """
        try:
            if cores == 1:
                cores = _cores(properties.get(CORES_PROPERTY, ""))
            idle, epsilon, full = host_powers(properties, cores)
            kind = cls(
                name=name,
                speeds_flops=_speeds(properties.get(SPEEDS_PROPERTY, ""), speeds_flops),
                idle_w=idle,
                epsilon_w=epsilon,
                full_w=full,
                sleeps=parse_sleep_states(properties.get("sleep_pstates", "")),
                cores=cores,
            )
            kind.check()
        except ConfigError as error:
            raise ConfigError(f"host {shortened(name)!r}: {error}") from None
        return kind

    def check(self, *, computes: bool = True) -> None:
        """Raise ConfigError if the P-states of speeds, powers and sleep states do not match.

        A host that ``computes`` must also have a P-state for that, and speeds with which jobs end.
        """
        speeds, powers = len(self.speeds_flops), len(self.idle_w)
        if speeds and powers and speeds != powers:
            raise ConfigError(
                f"{speeds} speeds but {powers} entries in {POWERS_PROPERTY}: expected one per P-state"
            )
        named, described = self._not_computing, max(speeds, powers)
        if wrong := [pstate for pstate in range(described) or named if not 0 <= pstate < MOST_PSTATES]:
            raise ConfigError(f"found P-state {wrong[0]}, expected 0 to {MOST_PSTATES - 1}")
        if described and (wrong := [pstate for pstate in named if not 0 <= pstate < described]):
            raise ConfigError(f"sleep_pstates names P-state {wrong[0]}, expected 0 to {described - 1}")
        if any(len(set(sleep.pstates)) < 3 for sleep in self.sleeps):
            raise ConfigError(
                "sleep_pstates: sleep, switch-off and switch-on must be three different P-states"
            )
        if not computes:
            return
        if not self.computing:
            raise ConfigError(
                f"no P-state remains for computing: sleep_pstates names all of them, 0 to {self.pstates - 1}"
            )
        if speeds and min(self.speeds_flops[p] for p in range(speeds) if p not in self.asleep_in) <= 0:
            raise ConfigError("the speeds of computing and transition P-states must be above 0")
        if max(self.off_duration_s(), self.on_duration_s()) > LATEST_S:
            raise ConfigError("the speeds of transition P-states make transitions last forever")


@dataclass(frozen=True)
class Platform:
    """Compute hosts in Batsim's order of ids, without the master host."""

    kinds: tuple[ServerKind, ...]
    kind_of: IndexArray
    """Index into ``kinds`` for each host."""
    names: tuple[str, ...]
    """Host names in Batsim's order of numbers: sorted as strings by Batsim 4."""
    initial_pstates: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Initial P-state of each host; 0 for all if omitted."""
    properties: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    zone_properties: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    message_delay_s: float | None = 0.0
    """Maximum time of Batsim's internal messages in the simulated network, s; None if unknown."""

    def __post_init__(self) -> None:
        initial = self.initial_pstates
        if not len(initial):
            initial = np.zeros(self.size, dtype=np.intp)
        object.__setattr__(self, "kind_of", read_only(self.kind_of))
        object.__setattr__(self, "initial_pstates", read_only(initial))

    @property
    def size(self) -> int:
        """Number of hosts."""
        return len(self.names)

    def followed_by(self, other: Platform) -> Platform:
        """Return a platform with these hosts followed by those of another one."""
        return Platform(
            self.kinds + other.kinds,
            np.concatenate((self.kind_of, other.kind_of + len(self.kinds))),
            self.names + other.names,
            np.concatenate((self.initial_pstates, other.initial_pstates)),
            self.properties + other.properties,
            self.zone_properties + other.zone_properties,
        )

    def telling_hosts(self) -> Platform:
        """Return the platform with host data that Batsim 4 does not send set as properties.

        `START_PROPERTY` is set on each host that does not start in a computing P-state 0, `CORES_PROPERTY` on
        each with several cores. Schedulers receive only properties. An existing property is corrected.
        """
        if not self.properties:
            return self
        rows = zip(self.properties, self.kind_of.tolist(), self.initial_pstates.tolist(), strict=True)
        all_properties = []
        for properties, kind, pstate in rows:
            cores, new = self.kinds[kind].cores, {}
            if pstate or 0 not in self.kinds[kind].computing or START_PROPERTY in properties:
                new[START_PROPERTY] = str(pstate)
            if cores > 1 or CORES_PROPERTY in properties:
                new[CORES_PROPERTY] = str(cores)
            all_properties.append({**properties, **new} if new else properties)
        return replace(self, properties=tuple(all_properties))

    def kind(self, host: int) -> ServerKind:
        """Return the kind of one host."""
        return self.kinds[int(self.kind_of[host])]

    @cached_property
    def sleep_of_kind(self) -> StateArray:
        """P-state of sleep of each kind, -1 for a kind that cannot sleep."""
        return read_only(sleep_pstates(self.kinds))

    @cached_property
    def sleep_pstate(self) -> StateArray:
        """P-state of sleep of each host, -1 for a host that cannot sleep."""
        return read_only(self.sleep_of_kind[self.kind_of])

    @cached_property
    def on_pstate(self) -> StateArray:
        """P-state of waking of each host, -1 for a host that cannot sleep."""
        of_kind = [kind.sleep.on_pstate if kind.sleep else -1 for kind in self.kinds]
        return read_only(np.array(of_kind, dtype=np.int8)[self.kind_of])

    @cached_property
    def fastest_of_kind(self) -> StateArray:
        """Fastest computing P-state of each kind."""
        return read_only(np.array([kind.fastest for kind in self.kinds], dtype=np.int8))

    @cached_property
    def has_speeds(self) -> bool:
        """Whether the speeds of every kind are known."""
        return all(k.speeds_flops for k in self.kinds)

    @cached_property
    def has_powers(self) -> bool:
        """Whether the powers of every kind are known."""
        return all(k.idle_w for k in self.kinds)


def platform_of(begins: SimulationBegins, ours: Platform | None = None) -> Platform:
    """Describe the simulator's hosts, by their properties or, by name, from ``ours``.

    The simulator does not report whether its network has latency: hosts with `SPEEDS_PROPERTY` belong to a
    platform generated by this program, which has none.

    The initial P-state of each is the one reported by the simulator; otherwise it comes from ``ours``, or
    from the property `START_PROPERTY`.

    Raises PeerError for host ids that are not 0, 1, 2, ..., and ConfigError for a host that ``ours``
    does not have or for properties that cannot be read.
    """
    resources = sorted(begins.resources, key=lambda resource: resource.id)
    if [resource.id for resource in resources] != list(range(len(resources))):
        raise PeerError("the hosts of SIMULATION_BEGINS are not numbered 0, 1, 2, ...")
    names = tuple(resource.name for resource in resources)
    if ours is not None:
        return _by_name(resources, names, ours)
    row_of: dict[tuple[object, ...], int] = {}
    kinds: list[ServerKind] = []
    kind_of = np.empty(len(resources), dtype=np.intp)
    for resource in resources:
        of_message = resource.speeds_flops, resource.cores
        key = (*of_message, *(resource.properties.get(name, "") for name in _KIND_PROPERTIES))
        row = row_of.setdefault(key, len(kinds))
        if row == len(kinds):
            name, properties = resource.name, resource.properties
            kinds.append(
                ServerKind.from_properties(name, properties, speeds_flops=of_message[0], cores=of_message[1])
            )
        kind_of[resource.id] = row
    if len(kinds) * max((kind.pstates for kind in kinds), default=1) > MOST_KIND_PSTATES:
        raise PeerError(
            f"the simulator's {len(resources):,} hosts are of {len(kinds):,} different kinds: no platform has"
            f" that many (kinds times P-states may be {MOST_KIND_PSTATES:,})"
        )
    initial = [_initial_pstate(resource, kinds[kind_of[resource.id]]) for resource in resources]
    generated = all(SPEEDS_PROPERTY in resource.properties for resource in resources)
    return Platform(
        tuple(kinds),
        kind_of,
        names,
        np.array(initial, dtype=np.intp),
        message_delay_s=0.0 if generated else None,
    )


_KIND_PROPERTIES = (POWERS_PROPERTY, OLD_POWERS_PROPERTY, "sleep_pstates", SPEEDS_PROPERTY, CORES_PROPERTY)


def _by_name(resources: Sequence[Resource], names: tuple[str, ...], ours: Platform) -> Platform:
    at = {name: index for index, name in enumerate(ours.names)}
    missing = [name for name in names if name not in at]
    if missing:
        raise ConfigError(
            f"the platform file does not contain the simulator's host {missing[0]!r}"
            f" ({len(missing)} of {len(names)} hosts are missing): is it the file that Batsim uses?"
        )
    rows = np.array([at[name] for name in names], dtype=np.intp)
    initial = ours.initial_pstates[rows]
    for index, resource in enumerate(resources):
        if resource.pstate is not None:
            initial[index] = _told_pstate(resource, ours.kind(int(rows[index])))
    return Platform(ours.kinds, ours.kind_of[rows], names, initial, message_delay_s=ours.message_delay_s)


def _told_pstate(resource: Resource, kind: ServerKind) -> int:
    """Return a host's initial P-state reported by the simulator. Raises PeerError."""
    pstate = resource.pstate or 0
    if not 0 <= pstate < max(kind.pstates, 1):
        raise PeerError(
            f"the simulator reports that host {shortened(resource.name)!r} starts in P-state {pstate}, but it"
            f" has only 0 to {kind.pstates - 1}"
        )
    return pstate


def _initial_pstate(resource: Resource, kind: ServerKind) -> int:
    """Return a host's initial P-state: the one in its property, or else 0 if that computes.

    If P-state 0 is a sleep or transition state, an idle host is assumed to be in its first computing
    P-state. Batsim reports all hosts as idle, even those that start asleep.
    """
    if resource.pstate is not None:
        return _told_pstate(resource, kind)
    state = resource.properties.get(START_PROPERTY, "")
    if state:
        if not (state.isascii() and state.isdigit() and int(state) < kind.pstates):
            raise ConfigError(
                f"host {resource.name!r}: {START_PROPERTY} {state!r} is not one of its P-states, expected 0"
                f" to {kind.pstates - 1}"
            )
        return int(state)
    if kind.sleep is not None and resource.state == "sleeping":
        return kind.sleep.pstate
    return 0 if 0 in kind.computing else kind.computing[0]


def start_note(begins: SimulationBegins, platform: Platform) -> str | None:
    """Return a warning about the first host whose initial state had to be guessed, if any."""
    for resource in sorted(begins.resources, key=lambda resource: resource.id):
        kind = platform.kind(resource.id)
        guessed = resource.pstate is None and START_PROPERTY not in resource.properties
        if guessed and 0 not in kind.computing:
            pstate = int(platform.initial_pstates[resource.id])
            state = "asleep" if pstate in kind.asleep_in else "on"
            return (
                f"the simulator does not report the initial P-states of its hosts, and P-state 0 of host"
                f" {resource.name!r} is not a computing one: assuming that such hosts start {state}, in"
                f" P-state {pstate}; pass the platform file with -p to be certain"
            )
    return None


def sleep_pstates(kinds: Sequence[ServerKind]) -> StateArray:
    """P-state of sleep of each kind, -1 for a kind that cannot sleep."""
    return np.array([kind.sleep.pstate if kind.sleep else -1 for kind in kinds], dtype=np.int8)


def old_name_note(host: str, properties: Mapping[str, str]) -> str | None:
    """Return a warning about a host whose powers Batsim 4.2 would ignore because of their old name."""
    if properties.get(POWERS_PROPERTY, "").strip() or not properties.get(OLD_POWERS_PROPERTY, "").strip():
        return None
    return (
        f"host {host!r} has its powers only under the name used by Batsim 4.0, {OLD_POWERS_PROPERTY}: they"
        " are read, but Batsim 4.2 does not find them and aborts with -E; add"
        f" {POWERS_PROPERTY} to such hosts"
    )


Powers = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Idle, epsilon and full power of each P-state, W."""


def host_powers(properties: Mapping[str, str], cores: int = 1) -> Powers:
    """Read a host's powers under either name, ``wattage_per_state`` or the older ``watt_per_state``.

    If both are present, the newer one is used, and idle and full powers must be the same in both. Raises
    ConfigError.
    """
    new, old = properties.get(POWERS_PROPERTY, ""), properties.get(OLD_POWERS_PROPERTY, "")
    if not old.strip():
        return parse_wattages(new)
    before = _old_powers(old, cores)
    if not new.strip():
        return before
    powers = parse_wattages(new)
    if (powers[0], powers[2]) != (before[0], before[2]):
        raise ConfigError(
            f"{POWERS_PROPERTY} {new!r} and {OLD_POWERS_PROPERTY} {old!r} give different powers: remove one, "
            "or make them the same"
        )
    return powers


def parse_wattages(text: str) -> Powers:
    """Read ``wattage_per_state``: ``idle:full`` or ``idle:epsilon:full`` per P-state, in W.

    Returns the idle, epsilon and full powers. With two values, epsilon is the idle power (SimGrid's
    host_energy plugin). Raises ConfigError.
    """
    rows = _watts(POWERS_PROPERTY, text, "idle:epsilon:full")
    return _columns([(watts[0], watts[1] if len(watts) > 2 else watts[0], watts[-1]) for watts in rows])


def _old_powers(text: str, cores: int) -> Powers:
    """Read ``watt_per_state``: ``idle:full`` or ``idle:one core:full`` per P-state, in W.

    Epsilon is computed as in SimGrid before 3.28, which supported both names: with one core, any load draws
    full power; with more, the line from all cores to one core is extended to no load.
    """
    rows = []
    for watts in _watts(OLD_POWERS_PROPERTY, text, "idle:one_core:full"):
        idle, full = watts[0], watts[-1]
        if cores == 1:
            epsilon = full
        elif len(watts) == 2:
            epsilon = idle
        else:
            epsilon = watts[1] - (full - watts[1]) / (cores - 1)
        rows.append((idle, epsilon, full))
    return _columns(rows)


def _watts(name: str, text: str, three: str) -> list[list[float]]:
    rows = []
    for entry in (part.strip() for part in text.split(",")) if text.strip() else ():
        try:
            watts = [number_in(value) for value in entry.split(":")]
        except ValueError:
            watts = []
        if len(watts) not in (2, 3) or not all(0.0 <= watt <= LARGEST_POWER_W for watt in watts):
            raise ConfigError(f"{name}: {shortened(entry, 40)!r} is not 'idle:full' or {three!r} in watts")
        rows.append(watts)
    return rows


def _columns(rows: list[tuple[float, float, float]]) -> Powers:
    if not rows:
        return (), (), ()
    idle, epsilon, full = zip(*rows, strict=True)
    return idle, epsilon, full


def parse_sleep_states(text: str) -> tuple[SleepState, ...]:
    """Read ``sleep_pstates``: ``sleep:off:on`` triples, in the order of Batsim's code. Raises ConfigError."""
    states = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        try:
            sleep, off, on = (int(value) for value in entry.split(":"))
        except ValueError:
            raise ConfigError(
                f"sleep_pstates: {shortened(entry, 40)!r} is not a triple of P-state numbers"
                " 'sleep:switch_off:switch_on'"
            ) from None
        states.append(SleepState(sleep, off, on))
    return tuple(states)


def _cores(text: str) -> int:
    """Return the number in a `CORES_PROPERTY`, 1 if there is none. Raises ConfigError."""
    text = text.strip()
    if not text:
        return 1
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text):
        return int(text)
    raise ConfigError(f"{CORES_PROPERTY}: {text!r} is not a number of cores, expected 1 or more")


def _speeds(text: str, told_speeds: tuple[float, ...]) -> tuple[float, ...]:
    """Return the speeds in a property, or the reported ones if they differ. Raises ConfigError."""
    speeds = _parse_speeds(text)
    if told_speeds and not (
        len(speeds) == len(told_speeds) and np.allclose(speeds, told_speeds, rtol=1e-9, atol=1e-12)
    ):
        return told_speeds
    return speeds


def _parse_speeds(text: str) -> tuple[float, ...]:
    try:
        speeds = tuple(number_in(part) for part in text.split(",") if part.strip())
    except ValueError:
        speeds = (math.nan,)
    if not all(0.0 <= speed < math.inf for speed in speeds):
        raise ConfigError(f"{SPEEDS_PROPERTY}: {text!r} is not a list of speeds in flops/s")
    return speeds
