"""An offline plan of one window: power plan, server states, forecasts, and where all that came from.

The power plan: what every source and storage does in each step of a window (Section 3.1.2).

Every constraint of the power decisions, evaluated on a plan as the equations are printed.

Nothing here knows the solver or its model: a plan is judged by its numbers alone.

What came out of a solver: a status, how far from the optimum at most, and a message for people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage, StorageState, energy_after_step, level_after_step
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform, ServerKind, sleep_pstates
from beasy_sched.plan.forecast import Forecast
from beasy_sched.plan.power_problem import PowerProblem

ROUNDING = 2e-7
"""Share of the largest power that is a solver's rounding."""


@dataclass(frozen=True)
class PowerPlan:
    """One window's powers (W, one value a step, T of them) and levels (T + 1, from start to end)."""

    load_w: FloatArray
    """P_load: the demand that was asked for."""
    renew_w: FloatArray
    """P_renew: the production that was expected."""
    charge_w: FloatArray
    discharge_w: FloatArray
    electrolyzer_w: FloatArray
    fuel_cell_w: FloatArray
    curtailed_w: FloatArray
    """What nobody can take."""
    battery_j: FloatArray
    """Energy in the battery at the start of each step, and at the end of the last."""
    hydrogen_kg: FloatArray
    """LoH at the start of each step, and at the end of the last."""

    @property
    def steps(self) -> int:
        """T."""
        return int(self.load_w.size)

    @cached_property
    def scale_w(self) -> float:
        """The largest power of demand and production (W, at least 1): what tolerances are relative to."""
        return max(1.0, float(self.load_w.max()), float(self.renew_w.max()))

    @cached_property
    def produced_w(self) -> FloatArray:
        """P_prod of Eq. 3.1, before curtailment."""
        arriving = self.renew_w + self.fuel_cell_w + self.discharge_w
        return arriving - self.electrolyzer_w - self.charge_w

    @cached_property
    def envelope_w(self) -> FloatArray:
        """What the servers may draw: P_prod less what is curtailed."""
        return self.produced_w - self.curtailed_w

    @cached_property
    def shortfall_w(self) -> FloatArray:
        """Demand that is not met."""
        return np.maximum(self.load_w - self.produced_w, 0.0)

    @cached_property
    def relax_factor(self) -> float:
        """rf: the largest share of a step's demand that is not met (Eq. 3.11); 0 without demand.

        What the solver's rounding leaves open does not count: it can be any share of a tiny demand.
        """
        missing_w = np.maximum(self.shortfall_w - ROUNDING * self.scale_w, 0.0)
        shares = np.divide(missing_w, self.load_w, out=np.zeros_like(missing_w), where=missing_w > 0.0)
        return float(shares.max(initial=0.0))


TOLERANCE = 1e-6
"""Share of the size of a quantity by which a bound or balance may be missed: rounding, not a choice."""


class Violation(NamedTuple):
    """A constraint that a plan breaks: which, at which step, by how much."""

    constraint: str
    step: int
    """The last of the T + 1 levels is step T."""
    amount: float
    """In the constraint's unit (W, J or kg)."""

    def __str__(self) -> str:
        return f"{self.constraint}: broken by {self.amount:.6g} at step {self.step}"


def storage_violations(plan: PowerPlan, storage: Storage, step_s: float) -> tuple[Violation, ...]:
    """What the storage itself cannot do: limits, levels and their development; the worst step of each."""
    return tuple(_storage_checks(plan, storage, step_s))


def power_violations(plan: PowerPlan, problem: PowerProblem) -> tuple[Violation, ...]:
    """Every constraint of Eq. 3.1 to 3.11 that the plan breaks for this problem; the worst step of each."""
    return (*storage_violations(plan, problem.storage, problem.step_s), *_problem_checks(plan, problem))


def level_scale_j(storage: Storage, scale_w: float, step_s: float) -> float:
    """What tolerances of battery levels are relative to: its capacity, and a step at the largest power."""
    return storage.battery.capacity_j + scale_w * step_s


def level_scale_kg(storage: Storage, scale_w: float, step_s: float) -> float:
    """The same for hydrogen; 0 for a site without."""
    if storage.hydrogen is None:
        return 0.0
    return storage.hydrogen.tank_kg + storage.hydrogen.produced_kg(scale_w, step_s)


def _storage_checks(plan: PowerPlan, storage: Storage, step_s: float) -> Iterator[Violation]:
    power_w = plan.scale_w
    battery, level = storage.battery, plan.battery_j
    size_j = level_scale_j(storage, power_w, step_s)
    for name in ("charge", "discharge", "electrolyzer", "fuel_cell", "curtailed"):
        yield from _worst(f"{name}_w >= 0", -getattr(plan, f"{name}_w"), power_w)
    yield from _worst("P_ch <= P_ch_max (3.6)", plan.charge_w - battery.charge_limit_w, power_w)
    yield from _worst("P_dch <= P_dch_max (3.5)", plan.discharge_w - battery.discharge_limit_w, power_w)
    both = np.minimum(plan.charge_w, plan.discharge_w)
    yield from _worst("charging excludes discharging (2.3)", both, power_w)
    expected = energy_after_step(battery, level[:-1], plan.charge_w, plan.discharge_w, step_s)  # type: ignore[arg-type]
    yield from _worst("battery development (2.3)", np.abs(level[1:] - expected), size_j)
    yield from _worst("SoC >= SoC_min (3.3)", battery.min_j - level, size_j)
    yield from _worst("SoC <= SoC_max (3.3)", level - battery.max_j, size_j)
    hydrogen = storage.hydrogen
    if hydrogen is None:
        used = plan.electrolyzer_w + plan.fuel_cell_w + plan.hydrogen_kg[:-1] + plan.hydrogen_kg[1:]
        yield from _worst("no hydrogen at this site", used, 0.0)
        return
    tank, stored = hydrogen.tank_kg, plan.hydrogen_kg
    size_kg = level_scale_kg(storage, power_w, step_s)
    ez, fc = plan.electrolyzer_w, plan.fuel_cell_w
    yield from _worst("P_fc <= P_fc_max (3.7)", fc - hydrogen.fuel_cell_max_w, power_w)
    yield from _worst("P_ez <= P_ez_max (3.8)", ez - hydrogen.electrolyzer_max_w, power_w)
    below = np.where(ez > TOLERANCE * power_w, hydrogen.electrolyzer_min_w - ez, 0.0)
    yield from _worst("P_ez = 0 or P_ez >= P_ez_min (3.8)", below, power_w)
    following = level_after_step(hydrogen, stored[:-1], ez, fc, step_s)  # type: ignore[arg-type]
    yield from _worst("hydrogen development (2.7)", np.abs(stored[1:] - following), size_kg)
    yield from _worst("LoH >= 0 (3.4)", -stored, size_kg)
    yield from _worst("LoH <= LoH_max (3.4)", stored - tank, size_kg)


def _problem_checks(plan: PowerPlan, problem: PowerProblem) -> Iterator[Violation]:
    power_w = plan.scale_w
    size_j = level_scale_j(problem.storage, power_w, problem.step_s)
    start = problem.start_state
    yield from _worst("starts at the level given", np.abs(plan.battery_j[:1] - start.battery_j), size_j)
    yield from _worst("keeps the production given", np.abs(plan.renew_w - problem.renew_w), power_w)
    yield from _worst("keeps the demand given", np.abs(plan.load_w - problem.load_w), power_w)
    yield from _worst("SoC(T) >= SoC_target (3.9)", _at_end(problem.target_j - plan.battery_j), size_j)
    if problem.storage.hydrogen is not None:
        size_kg = level_scale_kg(problem.storage, power_w, problem.step_s)
        yield from _worst(
            "starts with the hydrogen given", np.abs(plan.hydrogen_kg[:1] - start.hydrogen_kg), size_kg
        )
        yield from _worst(
            "LoH(T) >= LoH_target (3.10)", _at_end(problem.target_kg - plan.hydrogen_kg), size_kg
        )
    least = np.maximum(problem.floors_w, (1.0 - plan.relax_factor) * problem.load_w)
    yield from _worst("P_prod >= max((1 - rf) * P_load, floor) (3.11)", least - plan.produced_w, power_w)
    yield from _worst("the servers' most", plan.envelope_w - problem.most_w, power_w)
    under = np.minimum(plan.produced_w, problem.most_w) - plan.envelope_w
    yield from _worst("curtailed only beyond the servers' most", under, power_w)


def _at_end(excess: FloatArray) -> FloatArray:
    """The same array with only its last value able to be a violation."""
    last = np.full_like(excess, -np.inf)
    last[-1] = excess[-1]
    return last


def _worst(constraint: str, excess: FloatArray, scale: float) -> Iterator[Violation]:
    """The step where ``excess`` is largest, if it is beyond the tolerance (or not a number)."""
    broken = ~(excess <= TOLERANCE * scale)
    if broken.any():
        step = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        yield Violation(constraint, step, float(excess[step]))


_LEVELS = ("soc_start_pct", "soc_target_pct", "level_start_kg", "level_target_kg")
"""What differs from window to window, and says nothing about the place."""
_NOT_PLANNED = ("hold",)
"""How a run uses the storage; a plan is the same with all of them."""


@dataclass(frozen=True)
class Solved:
    """How one of the optimizations behind a plan ended."""

    name: str
    status: str
    gap: float
    message: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where a plan came from."""

    program: str
    """Name and version of the program that made it."""
    solver: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each input, by what it was: site, platform, demand, production."""
    settings: dict[str, str] = field(default_factory=dict)
    """Choices that shaped it, such as ``surplus``."""
    solved: tuple[Solved, ...] = ()


@dataclass(frozen=True)
class PlannedServers:
    """The servers that a plan is for, and the state of each in each step."""

    kinds: tuple[ServerKind, ...]
    kind_of: IntArray
    """Index into ``kinds`` of each of the N servers."""
    states: StateArray
    """P-states as numbered in the platform file, of shape (T, N); the sleep state's number when asleep.

    A server whose state changes between computing and asleep at a step switches at the step's start.
    """
    energy_j: FloatArray
    """Planned worst-case energy of all servers in each step (Eq. 3.17)."""

    @property
    def asleep(self) -> BoolArray:
        """Which servers sleep, of shape (T, N)."""
        return np.asarray(self.states == sleep_pstates(self.kinds)[self.kind_of])

    @property
    def on_count(self) -> IndexArray:
        """Servers that are not asleep, in each step."""
        return np.asarray((~self.asleep).sum(axis=1))


@dataclass(frozen=True)
class Plan:
    """One window's plan. `check` says whether it holds together; readers call it."""

    start_s: float
    """When the window starts, on the run's clock."""
    step_s: float
    storage: Storage
    power: PowerPlan
    load_uncertainty: FloatArray
    """u_load of each step."""
    renew_uncertainty: FloatArray
    """u_renew of each step."""
    servers: PlannedServers | None
    """None where only the power was planned."""
    provenance: Provenance

    @property
    def steps(self) -> int:
        """T."""
        return self.power.steps

    @property
    def end_s(self) -> float:
        """When the window ends, on the run's clock."""
        return self.start_s + self.steps * self.step_s

    @property
    def demand(self) -> Forecast:
        """P_load and u_load."""
        return Forecast(self.power.load_w, self.load_uncertainty)

    @property
    def production(self) -> Forecast:
        """P_renew and u_renew."""
        return Forecast(self.power.renew_w, self.renew_uncertainty)

    @property
    def soc_pct(self) -> FloatArray:
        """SoC (%) at the start of each step and at the end of the last: T + 1 values."""
        return 100.0 * self.power.battery_j / self.storage.battery.capacity_j

    def level_at(self, step: int) -> StorageState:
        """Planned levels at the start of a step; ``steps`` (or -1) is the end of the window."""
        return StorageState(float(self.power.battery_j[step]), float(self.power.hydrogen_kg[step]))

    def check(self) -> None:
        """Raise ConfigError, naming the first thing wrong: shapes, bounds, balance, energy of servers."""
        if not (0 < self.step_s < np.inf and np.isfinite(self.start_s)):
            raise ConfigError(f"a window from {self.start_s} s in steps of {self.step_s} s")
        self._check_shapes()
        for forecast in ("demand", "production"):
            getattr(self, forecast)  # Raises for powers and uncertainties that cannot be.
        broken = storage_violations(self.power, self.storage, self.step_s)
        if broken:
            raise ConfigError(str(broken[0]))
        if self.servers is not None:
            self._check_servers(self.servers)

    def check_site(self, site: Site) -> None:
        """Raise ConfigError, naming the first difference, where the plan was made for another site."""
        if site.step_s != self.step_s:
            raise ConfigError(f"the plan has steps of {self.step_s:g} s, the site of {site.step_s:g} s")
        ours, theirs = (_described(storage) for storage in (self.storage, site.storage))
        for name in (*ours, *(name for name in theirs if name not in ours)):
            if ours.get(name) != theirs.get(name):
                raise ConfigError(f"{name} is {ours.get(name)} in the plan, {theirs.get(name)} at the site")

    def check_platform(self, platform: Platform) -> None:
        """Raise ConfigError, naming the first difference, where the plan was made for other servers."""
        if self.servers is None:
            return
        count = len(self.servers.kind_of)
        if platform.size != count:
            raise ConfigError(f"the plan is for {count} servers, the platform has {platform.size}")
        pairs = np.stack((self.servers.kind_of, platform.kind_of), axis=1)
        unique, first = np.unique(pairs, axis=0, return_index=True)
        for at in np.argsort(first):
            planned, found = self.servers.kinds[unique[at, 0]], platform.kinds[unique[at, 1]]
            difference = _kind_difference(planned, found)
            if difference:
                host = int(first[at])
                raise ConfigError(f"server {host} ({platform.names[host]}): {difference}")

    def _check_shapes(self) -> None:
        steps = self.power.steps
        if steps < 1:
            raise ConfigError("the window has no steps")
        wanted: dict[str, int] = dict.fromkeys(self.power.__dataclass_fields__, steps)
        wanted["battery_j"] = wanted["hydrogen_kg"] = steps + 1
        arrays: dict[str, FloatArray] = {name: getattr(self.power, name) for name in wanted}
        arrays.update(load_uncertainty=self.load_uncertainty, renew_uncertainty=self.renew_uncertainty)
        for name, values in arrays.items():
            count = wanted.get(name, steps)
            if values.dtype != np.float64 or values.shape != (count,):
                raise ConfigError(
                    f"{name} is an array of {values.dtype} of shape {values.shape}, expected {count} numbers"
                )
            if not np.isfinite(values).all():
                raise ConfigError(f"{name} is not finite at step {int(np.argmin(np.isfinite(values)))}")

    def _check_servers(self, servers: PlannedServers) -> None:
        count = len(servers.kind_of)
        if servers.states.dtype != np.int8 or servers.states.shape != (self.steps, count):
            raise ConfigError(
                f"server states: an array of {servers.states.dtype} of shape {servers.states.shape}, "
                f"expected int8 of ({self.steps}, {count})"
            )
        if servers.energy_j.shape != (self.steps,) or not np.isfinite(servers.energy_j).all():
            raise ConfigError(f"server energy: expected {self.steps} finite numbers")
        if count and not (servers.kind_of.min() >= 0 and servers.kind_of.max() < len(servers.kinds)):
            raise ConfigError("a server is of a kind that the plan does not describe")
        for index, kind in enumerate(servers.kinds):
            allowed = [*kind.computing, *(sleep.pstate for sleep in kind.sleeps)]
            wrong = ~np.isin(servers.states, allowed) & (servers.kind_of == index)
            if wrong.any():
                step, host = (int(axis[0]) for axis in np.nonzero(wrong))
                raise ConfigError(
                    f"server {host} is to be in P-state {servers.states[step, host]} at step {step}, "
                    f"which its kind ({kind.name}) does not have for computing or sleeping"
                )
        most_j = self.power.envelope_w * self.step_s
        over = servers.energy_j - most_j > 1e-6 * self.power.scale_w * self.step_s
        if over.any():
            step = int(np.argmax(over))
            raise ConfigError(
                f"the servers are to use {servers.energy_j[step]:.6g} J in step {step}, "
                f"more than the envelope of {most_j[step]:.6g} J (3.16)"
            )


def _described(storage: Storage) -> dict[str, Any]:
    """The numbers that say what a storage is, by their names in messages."""
    parts = {"battery": storage.battery, "hydrogen": storage.hydrogen}
    described: dict[str, Any] = {}
    for part, spec in parts.items():
        if spec is None:
            described[part] = "none"
            continue
        described[part] = "there"
        for name, value in msgspec.to_builtins(spec).items():
            if name not in (*_LEVELS, *_NOT_PLANNED):
                described[f"{part}.{name}"] = value
    return described


def _kind_difference(planned: ServerKind, found: ServerKind) -> str:
    """The first difference between two kinds as far as both are known, "" if there is none."""
    if planned.sleeps != found.sleeps:
        return f"sleep states {_sleeps(planned)} in the plan, {_sleeps(found)} on the platform"
    for name, what in (("speeds_flops", "speed"), ("idle_w", "idle power"), ("full_w", "full power")):
        ours, theirs = getattr(planned, name), getattr(found, name)
        if not ours or not theirs:
            continue
        if len(ours) != len(theirs):
            return f"{len(ours)} P-states in the plan, {len(theirs)} on the platform"
        for pstate, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if abs(one - other) > 1e-9 * max(abs(one), abs(other)):
                return f"{what} of P-state {pstate} is {one:g} in the plan, {other:g} on the platform"
    return ""


def _sleeps(kind: ServerKind) -> str:
    return ",".join(f"{s.pstate}:{s.off_pstate}:{s.on_pstate}" for s in kind.sleeps) or "none"


class SolverStatus(str, Enum):
    """How an optimization ended."""

    OPTIMAL = "optimal"
    """A point within the gap that was asked for."""
    FEASIBLE = "feasible"
    """A point that a node or time limit ended before the gap was closed; the message says which."""
    NO_POINT = "no point"
    """A limit was hit before any point was found: nothing is known about the problem."""
    INFEASIBLE = "infeasible"
    """No point exists; the message names what cannot be met."""


@dataclass(frozen=True)
class SolverOutcome:
    """The result of an optimization, without its point. Raises ValueError where the parts disagree.

    Everything here is the same on any machine unless a time limit ended the solver, and then the
    message says so. Timings are kept elsewhere.
    """

    status: SolverStatus
    message: str = ""
    """In the user's terms; never empty unless the status is `OPTIMAL`."""
    objective: float = math.nan
    """Value of the point found; NaN without one."""
    gap: float = math.inf
    """Proven relative distance to the best possible objective; infinite without a point."""

    def __post_init__(self) -> None:
        if self.has_point != (math.isfinite(self.objective) and self.gap >= 0.0):
            raise ValueError(f"{self.status.value}: objective {self.objective}, gap {self.gap}")
        if self.status is not SolverStatus.OPTIMAL and not self.message:
            raise ValueError(f"{self.status.value}: needs a message")

    @property
    def has_point(self) -> bool:
        """Whether there is a point that can be used."""
        return self.status in (SolverStatus.OPTIMAL, SolverStatus.FEASIBLE)
