"""Servers: P-states, speeds, powers, sleep states and transitions.

A *server* is one Batsim host. Servers of one kind share a `ServerKind`; a `Platform` is the kinds and
an array that tells each host's kind, so that ten thousand servers cost a few arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from beasy_sched.arrays import IndexArray, StateArray
from beasy_sched.errors import ConfigError
from beasy_sched.limits import LARGEST_POWER_W, LATEST_S, MOST_PSTATES
from beasy_sched.model.hosts import read_only

SPEEDS_PROPERTY = "speed_per_state"
"""Host property that carries the speeds (flops/s, comma separated): Batsim sends properties only."""
POWERS_PROPERTY = "wattage_per_state"
"""Host property with the powers of each P-state, W; the name that Batsim 4.2 reads."""
OLD_POWERS_PROPERTY = "watt_per_state"
"""Its name in Batsim 4.0 and before; Batsim 4.2 passes it on, but meters 0 W."""
OFF_PROPERTY, OLD_OFF_PROPERTY = "wattage_off", "watt_off"
"""Host property with the power of a host that is off, W; and its name in Batsim 4.0 and before."""

START_PROPERTY = "initial_pstate"
"""Host property with the P-state in which a host starts: Batsim does not send the ``pstate`` of its file."""


@dataclass(frozen=True)
class SleepState:
    """One way to sleep: the P-state of sleeping and those of the two transitions."""

    pstate: int
    off_pstate: int
    """P-state held while switching off."""
    on_pstate: int
    """P-state held while switching on."""


@dataclass(frozen=True)
class ServerKind:
    """What the servers of one kind can do; every tuple has one entry a P-state.

    P-states are numbered as in the platform file: computing states first or not, sleeping and
    transition states among them. A transition P-state's speed encodes its duration: 1 flop is run.
    """

    name: str
    speeds_flops: tuple[float, ...]
    """Speed of one core, flops/s. Empty where the platform's speeds are not known."""
    idle_w: tuple[float, ...] = ()
    """Power when idle. Empty where no powers are known."""
    epsilon_w: tuple[float, ...] = ()
    """Power at the least load above zero (SimGrid's Epsilon)."""
    full_w: tuple[float, ...] = ()
    """Power with all cores busy."""
    sleeps: tuple[SleepState, ...] = ()
    cores: int = 1

    @cached_property
    def pstates(self) -> int:
        """Number of P-states of every sort; those named where neither speeds nor powers are known."""
        known = max(len(self.speeds_flops), len(self.idle_w))
        named = [p for s in self.sleeps for p in (s.pstate, s.off_pstate, s.on_pstate)]
        return known or max(named, default=0) + 1

    @cached_property
    def computing(self) -> tuple[int, ...]:
        """The P-states in which jobs run, as numbered in the platform file."""
        other = {p for s in self.sleeps for p in (s.pstate, s.off_pstate, s.on_pstate)}
        return tuple(p for p in range(self.pstates) if p not in other)

    @cached_property
    def plannable(self) -> tuple[int, ...]:
        """The P-states that a plan may choose: those of computing, and the sleep state that policies use."""
        return (*self.computing, self.sleep.pstate) if self.sleep else self.computing

    @cached_property
    def asleep_in(self) -> frozenset[int]:
        """The P-states of sleep."""
        return frozenset(s.pstate for s in self.sleeps)

    @cached_property
    def sleep(self) -> SleepState | None:
        """The sleep state that policies use: the first, or None for a server that cannot sleep."""
        return self.sleeps[0] if self.sleeps else None

    @cached_property
    def fastest(self) -> int:
        """The computing P-state of highest speed (the first one where speeds are not known)."""
        if not self.speeds_flops:
            return self.computing[0]
        return max(self.computing, key=lambda p: (self.speeds_flops[p], -p))

    @cached_property
    def reference_speed_flops(self) -> float:
        """F_ref: the median computing P-state's speed, flops/s (the faster of the two middle ones)."""
        speeds = sorted((self.speeds_flops[p] for p in self.computing), reverse=True)
        return speeds[(len(speeds) - 1) // 2]

    def off_duration_s(self) -> float:
        """Seconds from on to asleep (0 for a server that cannot sleep)."""
        return 1.0 / self.speeds_flops[self.sleep.off_pstate] if self.sleep and self.speeds_flops else 0.0

    def on_duration_s(self) -> float:
        """Seconds from asleep to on (0 for a server that cannot sleep)."""
        return 1.0 / self.speeds_flops[self.sleep.on_pstate] if self.sleep and self.speeds_flops else 0.0

    @classmethod
    def from_properties(cls, name: str, properties: Mapping[str, str]) -> ServerKind:
        """Read the kind from a Batsim host's properties.

        Raises ConfigError when a property is there but cannot be read or does not fit the others.
        """
        try:
            idle, epsilon, full = host_powers(properties)
            kind = cls(
                name=name,
                speeds_flops=_parse_speeds(properties.get(SPEEDS_PROPERTY, "")),
                idle_w=idle,
                epsilon_w=epsilon,
                full_w=full,
                sleeps=parse_sleep_states(properties.get("sleep_pstates", "")),
            )
            kind.check()
        except ConfigError as error:
            raise ConfigError(f"host {name!r}: {error}") from None
        return kind

    def check(self) -> None:
        """Raise ConfigError where the P-states of the speeds, powers and sleep states do not fit together."""
        speeds, powers = len(self.speeds_flops), len(self.idle_w)
        if speeds and powers and speeds != powers:
            raise ConfigError(
                f"{speeds} speeds but {powers} entries in {POWERS_PROPERTY}: expected one a P-state"
            )
        named = [p for s in self.sleeps for p in (s.pstate, s.off_pstate, s.on_pstate)]
        known = max(speeds, powers)
        too_many = max(known, *(p + 1 for p in named), 0) > MOST_PSTATES
        if (not known and (too_many or min(named, default=0) < 0)) or known > MOST_PSTATES:
            raise ConfigError(f"P-states are numbered 0 to {MOST_PSTATES - 1} at most")
        if known and not all(0 <= pstate < known for pstate in named):
            raise ConfigError(f"sleep_pstates names P-states {named}, but there are only 0 to {known - 1}")
        if any(len({s.pstate, s.off_pstate, s.on_pstate}) < 3 for s in self.sleeps):
            raise ConfigError(
                "sleep_pstates: sleep, switch-off and switch-on must be three different P-states"
            )
        if not self.computing:
            raise ConfigError(self.none_computes)
        if speeds and min(self.speeds_flops[p] for p in range(speeds) if p not in self.asleep_in) <= 0:
            raise ConfigError("the speeds of computing and transition P-states must be above 0")
        if max(self.off_duration_s(), self.on_duration_s()) > LATEST_S:
            raise ConfigError("the speeds of transition P-states make transitions last for ever")

    @property
    def none_computes(self) -> str:
        """What is wrong with a kind all of whose P-states are for sleeping."""
        all_of_them = f"sleep_pstates names all that there are, 0 to {self.pstates - 1}"
        return f"no P-state is left for computing: {all_of_them}"


@dataclass(frozen=True)
class Platform:
    """The compute hosts in Batsim's order of ids, without the master host."""

    kinds: tuple[ServerKind, ...]
    kind_of: IndexArray
    """Index into ``kinds`` for each host."""
    names: tuple[str, ...]
    """Host names, sorted as text: Batsim numbers hosts so."""
    initial_pstates: IndexArray | None = None
    properties: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    zone_properties: tuple[Mapping[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind_of", read_only(self.kind_of))
        if self.initial_pstates is not None:
            object.__setattr__(self, "initial_pstates", read_only(self.initial_pstates))

    @property
    def size(self) -> int:
        """Number of hosts."""
        return len(self.names)

    def telling_start(self) -> Platform:
        """Return the platform with `START_PROPERTY` on each host where it is not a computing P-state 0.

        A scheduler is told of properties only. One that is there already is made to fit.
        """
        if self.initial_pstates is None or not self.properties:
            return self
        from_zero = [0 in kind.computing for kind in self.kinds]
        rows = zip(self.properties, self.kind_of.tolist(), self.initial_pstates.tolist(), strict=True)
        told = tuple(
            properties
            if not pstate and from_zero[kind] and START_PROPERTY not in properties
            else {**properties, START_PROPERTY: str(pstate)}
            for properties, kind, pstate in rows
        )
        return replace(self, properties=told)

    def kind(self, host: int) -> ServerKind:
        """The kind of one host."""
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
    def fastest_of_kind(self) -> StateArray:
        """The fastest computing P-state of each kind."""
        return read_only(np.array([kind.fastest for kind in self.kinds], dtype=np.int8))

    @cached_property
    def has_speeds(self) -> bool:
        """Whether every kind's speeds are known."""
        return all(k.speeds_flops for k in self.kinds)

    @cached_property
    def has_powers(self) -> bool:
        """Whether every kind's powers are known."""
        return all(k.idle_w for k in self.kinds)


def sleep_pstates(kinds: Sequence[ServerKind]) -> StateArray:
    """P-state of sleep of each kind, -1 for a kind that cannot sleep."""
    return np.array([kind.sleep.pstate if kind.sleep else -1 for kind in kinds], dtype=np.int8)


def old_name_note(host: str, properties: Mapping[str, str]) -> str | None:
    """Tell what Batsim 4.2 makes of a host that has its powers under their older name alone, else None."""
    if properties.get(POWERS_PROPERTY, "").strip() or not properties.get(OLD_POWERS_PROPERTY, "").strip():
        return None
    return (
        f"host {host!r} has its powers under the name of Batsim 4.0 alone, {OLD_POWERS_PROPERTY}: they are"
        f" read, but Batsim 4.2 would meter 0 W; add {POWERS_PROPERTY} to such hosts"
    )


Powers = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Idle, epsilon and full power of each P-state, W."""


def host_powers(properties: Mapping[str, str], cores: int = 1) -> Powers:
    """Read a host's powers under either name, ``wattage_per_state`` or the older ``watt_per_state``.

    Where both are there, the newer one counts, and idle and full powers must be the same in both. Raises
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
    """Read ``wattage_per_state``: ``idle:full`` or ``idle:epsilon:full`` a P-state, in W.

    Returns the idle, epsilon and full powers. With two values, epsilon is the idle power (SimGrid's
    host_energy plugin). Raises ConfigError.
    """
    rows = [
        (watts[0], watts[0] if len(watts) < 3 else watts[1], watts[-1])
        for watts in _watts(POWERS_PROPERTY, text, "idle:epsilon:full")
    ]
    return _columns(rows)


def _old_powers(text: str, cores: int) -> Powers:
    """Read ``watt_per_state``: ``idle:full`` or ``idle:one core:full`` a P-state, in W.

    Epsilon is what the SimGrid that knew both names (before 3.28) made of it: on one core any load draws
    the full power; on more, the line from all cores to one goes on to no load.
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
            watts = [float(value) for value in entry.split(":")]
        except ValueError:
            watts = []
        if len(watts) not in (2, 3) or not all(0.0 <= watt <= LARGEST_POWER_W for watt in watts):
            raise ConfigError(f"{name}: {entry!r} is not 'idle:full' or {three!r} in watts")
        rows.append(watts)
    return rows


def _columns(rows: list[tuple[float, float, float]]) -> Powers:
    if not rows:
        return (), (), ()
    idle, epsilon, full = zip(*rows, strict=True)
    return idle, epsilon, full


def parse_sleep_states(text: str) -> tuple[SleepState, ...]:
    """Read ``sleep_pstates``: ``sleep:off:on`` triples, the order of Batsim's code. Raises ConfigError."""
    states = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        try:
            sleep, off, on = (int(value) for value in entry.split(":"))
        except ValueError:
            raise ConfigError(
                f"sleep_pstates: {entry!r} is not three P-state numbers 'sleep:switch_off:switch_on'"
            ) from None
        states.append(SleepState(sleep, off, on))
    return tuple(states)


def _parse_speeds(text: str) -> tuple[float, ...]:
    try:
        speeds = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        speeds = (math.nan,)
    if not all(0.0 <= speed < math.inf for speed in speeds):
        raise ConfigError(f"{SPEEDS_PROPERTY}: {text!r} is not a list of speeds in flops/s")
    return speeds
