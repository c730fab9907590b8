"""The offline plan of a window (power, server states, forecasts, origin), and the store of several."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import PowerBand, Quantiles
from beasy_sched.model.platform import Platform, ServerKind, sleep_pstates
from beasy_sched.planner.forecast import Forecast, Predictions, check_shape, checked_powers, predict
from beasy_sched.planner.power_problem import TOLERANCE, PowerPlan, storage_violations
from beasy_sched.units import TIME_TOLERANCE_S

BOUNDS_LEVEL: Final = 0.1
"""Quantile level of the low demand, if the demand has quantiles; that of the high demand is 0.9."""


OPTIMAL: Final = "optimal"
"""Status of a plan within the requested gap."""
FEASIBLE: Final = "feasible"
"""Status of a valid plan of which a limit ended the search, with a larger gap than requested."""
INFEASIBLE: Final = "infeasible"
"""Status without a plan: none exists; the message names the unreachable requirement."""
NO_PLAN: Final = "no plan"
"""Status without a plan: a limit ended the search before one was found."""


@dataclass(frozen=True)
class Solved:
    """Result of one of the optimizations of a plan.

    It is the same on every machine, unless a time limit, named in the message, ended the solver.
    """

    name: str
    status: str
    """`OPTIMAL` or `FEASIBLE`; without a plan, `INFEASIBLE` or `NO_PLAN`."""
    gap: float = math.inf
    """Proven relative distance to the best possible plan; infinite without a plan."""
    message: str = ""
    """Message for the user; empty only if the status is `OPTIMAL`."""


@dataclass(frozen=True)
class Rolled:
    """Origin of a plan made during a run."""

    number: int
    """Number of plans requested in the run before this one; 0 for the initial plan."""
    asked_s: float
    """Simulated time at which the plan was requested, s."""
    battery_j: float
    """Battery energy when the plan was requested, J."""
    hydrogen_kg: float
    jobs_running: int
    jobs_waiting: int
    production: str = ""
    """Source of the production assumed in the plan."""
    others_levels: tuple[float, ...] | UnsetType = UNSET
    """Levels of devices other than battery and hydrogen when the plan was requested; unset without any."""
    forecast_age_s: float | UnsetType = UNSET
    """Age of the forecast of the production, s; unset unless it is renewed during the run."""

    @property
    def others(self) -> tuple[float, ...]:
        """Levels of the other devices; none without any."""
        return () if self.others_levels is UNSET else self.others_levels


@dataclass(frozen=True)
class Provenance:
    """Origin of a plan."""

    program: str
    """Name and version of the program that made it."""
    solver: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each input by its role: site, platform, demand, production."""
    settings: dict[str, str] = field(default_factory=dict)
    """Planning options, such as ``surplus``."""
    solved: tuple[Solved, ...] = ()
    rolled: Rolled | UnsetType = UNSET
    """Unset for a plan made before the run."""


@dataclass(frozen=True)
class PlannedServers:
    """Servers of a plan, and their states in each step."""

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
        """Whether each server is asleep in each step, of shape (T, N)."""
        return np.asarray(self.states == sleep_pstates(self.kinds)[self.kind_of])

    @property
    def on_count(self) -> IndexArray:
        """Servers that are not asleep, in each step."""
        return np.asarray((~self.asleep).sum(axis=1))


@dataclass(frozen=True)
class Plan:
    """Plan of a window. `check` verifies its consistency and is called by file readers."""

    start_s: float
    """Start of the window on the run's clock, s."""
    step_s: float
    storage: Storage
    power: PowerPlan
    load_uncertainty: FloatArray
    """u_load of each step."""
    renew_uncertainty: FloatArray
    """u_renew of each step."""
    servers: PlannedServers | None
    """Plan of the servers; None if only the power was planned."""
    provenance: Provenance
    load_quantiles: Quantiles | UnsetType = UNSET
    """Quantiles of the demand, which replace u_load; unset if its forecast has none."""

    @property
    def steps(self) -> int:
        """T."""
        return len(self.power.load_w)

    @property
    def end_s(self) -> float:
        """End of the window on the run's clock, s."""
        return self.start_s + self.steps * self.step_s

    @property
    def demand(self) -> Forecast | PowerBand:
        """P_load and its bounds: by u_load, or the quantiles of `BOUNDS_LEVEL`."""
        return self.demand_within(BOUNDS_LEVEL)

    @property
    def production(self) -> Forecast:
        """P_renew and u_renew."""
        return Forecast(self.power.renew_w, self.renew_uncertainty)

    @property
    def soc_pct(self) -> FloatArray:
        """SoC (%) at the start of each step and at the end of the last (T + 1); NaN without a battery."""
        if not self.storage.battery.exists:
            return np.full(self.steps + 1, np.nan)
        return 100.0 * self.power.battery_j / self.storage.battery.capacity_j

    def demand_within(self, level: float) -> Forecast | PowerBand:
        """Return P_load between its quantiles of ``level`` and 1 - ``level``, or else P_load and u_load."""
        load_w = self.power.load_w
        if self.load_quantiles is UNSET:
            return Forecast(load_w, self.load_uncertainty)
        low_w, _, high_w = self.load_quantiles.bounds(level)
        return PowerBand(np.minimum(low_w, load_w), load_w, np.maximum(high_w, load_w))

    def _cooled(self, demand: Forecast | PowerBand) -> Forecast | PowerBand:
        """Return a demand of servers with that of their cooling."""
        cooled = self.power.site_load.cooled
        if self.power.pue is UNSET:
            return demand
        if isinstance(demand, Forecast):
            return replace(demand, value_w=cooled(demand.value_w))
        return PowerBand(cooled(demand.low_w), cooled(demand.value_w), cooled(demand.high_w))

    def level_at(self, step: int) -> StorageState:
        """Planned levels at the start of a step; ``steps`` (or -1) is the end of the window."""
        others = (self.power.flows_of(device).level for device in self.storage.other_devices)
        return StorageState(
            float(self.power.battery_j[step]),
            float(self.power.hydrogen_kg[step]),
            tuple(float(level[step]) for level in others),
        )

    @property
    def asked_level(self) -> StorageState:
        """Levels from which the plan was requested to start.

        They equal those at its start, except for the initial plan of a run on a site that cannot stay above
        SoC_min even with all servers asleep: such a plan starts above the battery's level.
        """
        rolled = self.provenance.rolled
        if rolled is UNSET or rolled.number > 0:
            return self.level_at(0)
        return StorageState(rolled.battery_j, rolled.hydrogen_kg, rolled.others)

    @property
    def shortage(self) -> str:
        """Shortage of the site with all servers asleep, if the plan therefore starts above `asked_level`."""
        raised_j = self.level_at(0).battery_j - self.asked_level.battery_j
        if raised_j <= TOLERANCE * self.power.level_scales(self.storage, self.step_s)[0]:
            return ""
        return next((solved.message for solved in self.provenance.solved if solved.name == "power"), "")

    def until(self, steps: int) -> Plan:
        """The first ``steps`` steps of the plan."""
        servers = self.servers
        if servers is not None:
            servers = replace(servers, states=servers.states[:steps], energy_j=servers.energy_j[:steps])
        return replace(
            self,
            power=self.power.until(steps),
            load_uncertainty=self.load_uncertainty[:steps],
            renew_uncertainty=self.renew_uncertainty[:steps],
            servers=servers,
            load_quantiles=self.load_quantiles and self.load_quantiles.during(slice(steps)),
        )

    def predictions(
        self,
        start_j: float | None = None,
        production: PowerBand | None = None,
        level: float = BOUNDS_LEVEL,
    ) -> Predictions:
        """Return battery trajectories in the window, from the planned initial level or the actual one (J).

        ``production`` replaces the plan's own forecast and may extend beyond the window. ``level`` is the
        quantile level of the low demand, if the demand has quantiles.
        """
        power = self.power
        return predict(
            self.storage.battery,
            self.level_at(0).battery_j if start_j is None else start_j,
            self._cooled(self.demand_within(level)),
            self.production if production is None else PowerBand(*(w[: self.steps] for w in production)),
            self.step_s,
            electrolyzer_w=power.electrolyzer_w,
            fuel_cell_w=power.with_grid(power.with_others(power.fuel_cell_w)),
        )

    def check(self) -> None:
        """Raise ConfigError for the first inconsistency: shapes, bounds, balance, energy of servers."""
        if not (0 < self.step_s < np.inf and np.isfinite(self.start_s)):
            raise ConfigError(
                f"invalid window: it starts at {self.start_s} s and has steps of {self.step_s} s"
            )
        self._check_shapes()
        _ = Forecast(self.power.load_w, self.load_uncertainty), self.production  # Raise for invalid values.
        for broken in storage_violations(self.power, self.storage, self.step_s):
            raise ConfigError(str(broken))
        if self.servers is not None:
            self._check_servers(self.servers)

    def check_site(self, site: Site) -> None:
        """Raise ConfigError, naming the first difference, if the plan was made for another site."""
        if site.step_s != self.step_s:
            raise ConfigError(f"the plan has steps of {self.step_s:g} s, but the site {site.step_s:g} s")
        ours, theirs = (_described(storage) for storage in (self.storage, site.storage))
        for name in ours | theirs:
            planned, found = ours.get(name, "none"), theirs.get(name, "none")
            if planned != found:
                raise ConfigError(f"{name} is {planned} in the plan, {found} at the site")

    def check_platform(self, platform: Platform) -> None:
        """Raise ConfigError, naming the first difference, if the plan was made for other servers."""
        if self.servers is None:
            return
        count = len(self.servers.kind_of)
        if platform.size != count:
            raise ConfigError(f"the plan is for {count} servers, but the platform has {platform.size}")
        pairs = np.stack((self.servers.kind_of, platform.kind_of), axis=1)
        unique, first = np.unique(pairs, axis=0, return_index=True)
        for at in np.argsort(first):
            planned, present = self.servers.kinds[unique[at, 0]], platform.kinds[unique[at, 1]]
            difference = _kind_difference(planned, present)
            if difference:
                host = int(first[at])
                raise ConfigError(f"server {host} ({platform.names[host]}): {difference}")

    def _check_shapes(self) -> None:
        steps = self.steps
        if steps < 1:
            raise ConfigError("the window has no steps")
        base_w = self.power.base_w
        if base_w is not UNSET and not 0.0 <= base_w < np.inf:
            raise ConfigError(f"base_w: found {base_w!r}, expected watts, at least 0")
        arrays = self.power.series()
        arrays |= {name: getattr(self, name) for name in ("load_uncertainty", "renew_uncertainty")}
        for name, values in arrays.items():
            count = steps + (name in ("battery_j", "hydrogen_kg"))
            check_shape(name, values, count)
            if not np.isfinite(values).all():
                raise ConfigError(f"{name} is not finite at step {int(np.argmin(np.isfinite(values)))}")
        for device in self.storage.other_devices:
            for part, values in self.power.flows_of(device)._asdict().items():
                check_shape(f"others.{device.section}.{part}", values, steps + (part == "level"))
                if not np.isfinite(values).all():
                    raise ConfigError(f"others.{device.section}.{part} is not finite")
        if self.load_quantiles is not UNSET:
            check_shape("load_quantiles.levels", self.load_quantiles.levels, len(self.load_quantiles.levels))
            for quantile_w in self.load_quantiles.power_w:
                check_shape("load_quantiles.power_w", checked_powers("demand", quantile_w), steps)

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
            raise ConfigError("a server has a kind that the plan does not describe")
        for index, kind in enumerate(servers.kinds):
            allowed = [*kind.computing, *(sleep.pstate for sleep in kind.sleeps)]
            wrong = ~np.isin(servers.states, allowed) & (servers.kind_of == index)
            if wrong.any():
                step, host = (int(axis[0]) for axis in np.nonzero(wrong))
                raise ConfigError(
                    f"server {host} is planned in P-state {servers.states[step, host]} at step {step}, "
                    f"which is not a computing or sleeping P-state of its kind ({kind.name})"
                )
        most_j = self.power.envelope_w * self.step_s
        over = servers.energy_j - most_j > 1e-6 * self.power.scale_w * self.step_s
        if over.any():
            step = int(np.argmax(over))
            raise ConfigError(
                f"the servers are planned to use {servers.energy_j[step]:.6g} J in step {step}, "
                f"more than the envelope of {most_j[step]:.6g} J (3.16)"
            )


def _described(storage: Storage) -> dict[str, Any]:
    """The numbers that describe a storage, by their names in messages."""
    described: dict[str, Any] = {}
    for device in storage.devices:
        described[device.section] = "there"
        for name, value in msgspec.to_builtins(device).items():
            if name not in device.varies:
                described[f"{device.section}.{name}"] = value
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


class Place(NamedTuple):
    """A step of a window."""

    window: int
    step: int


class PlanStore:
    """Plans by window, each checked; each starts at the time and levels at which the previous one ends.

    Plans that were made during a run start at the levels that were really there, and may cover parts of
    windows.
    """

    version = 0
    """Counter that increases when plans are replaced."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        """Raises ConfigError without a plan, for an invalid plan, or for windows that are not consecutive."""
        if not plans:
            raise ConfigError("the plan has no windows")
        self._plans: list[Plan] = []
        self._starts_s: list[float] = []
        """Start of each window minus the tolerance of times, s."""
        for plan in plans:
            self.add(plan)

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._plans)

    def __getitem__(self, window: int) -> Plan:
        return self._plans[window]

    @property
    def start_s(self) -> float:
        """Start of the first window, s."""
        return self._plans[0].start_s

    @property
    def end_s(self) -> float:
        """End of the last known window, s; there are no plans after it."""
        return self._plans[-1].end_s

    def add(self, plan: Plan) -> None:
        """Add the plan of the next window. Raises ConfigError and leaves the store unchanged."""
        window = len(self._plans)
        try:
            plan.check()
            if self._plans:
                _check_follows(self._plans[-1], plan)
        except ConfigError as error:
            raise ConfigError(f"window {window}: {error}") from None
        self._plans.append(plan)
        self._starts_s.append(plan.start_s - TIME_TOLERANCE_S)

    def renew(self, plans: Sequence[Plan]) -> None:
        """Replace the plans of a time by plans made during the run.

        Plans before and after it stay. Raises ConfigError and leaves the store unchanged.
        """
        start_s, end_s = plans[0].start_s, plans[-1].end_s
        kept = []
        for plan in self._plans:
            steps = min(round((start_s - plan.start_s) / plan.step_s), plan.steps)
            if steps > 0:
                kept.append(plan if steps == plan.steps else plan.until(steps))
        later = [plan for plan in self._plans if plan.start_s > end_s - TIME_TOLERANCE_S]
        for plan in plans:
            plan.check()
        for before, after in itertools.pairwise([*kept[-1:], *plans, *later[:1]]):
            _check_follows(before, after)
        self._plans = [*kept, *plans, *later]
        self._starts_s = [plan.start_s - TIME_TOLERANCE_S for plan in self._plans]
        self.version += 1

    def until(self, time_s: float) -> PlanStore:
        """Return the plans up to ``time_s``."""
        steps = [(plan, round((time_s - plan.start_s) / plan.step_s)) for plan in self._plans]
        return PlanStore([plan if n >= plan.steps else plan.until(n) for plan, n in steps if n > 0])

    def place(self, time_s: float) -> Place | None:
        """Return the window and step at a time; None outside all windows."""
        window = bisect_right(self._starts_s, time_s) - 1
        if window < 0:
            return None
        plan = self._plans[window]
        step = int((time_s - plan.start_s + TIME_TOLERANCE_S) / plan.step_s)
        return Place(window, step) if step < plan.steps else None

    def check_fits(self, platform: Platform, site: Site) -> None:
        """Raise ConfigError, naming the first difference, if the plans are for another platform or site.

        The first window must also start at the site's levels, or have been requested to.
        """
        for window, plan in enumerate(self._plans):
            try:
                plan.check_platform(platform)
                plan.check_site(site)
            except ConfigError as error:
                advice = "pass the platform and site of the plan, or plan again"
                raise ConfigError(f"window {window}: {error}: {advice}") from None
        first = self._plans[0]
        _check_levels(first, first.asked_level, site.storage.start(), "the plan starts", "the site")


def _check_follows(before: Plan, after: Plan) -> None:
    """Raise ConfigError unless ``after`` starts where ``before`` ends."""
    gap_s = after.start_s - before.end_s
    rolled = before.provenance.rolled is not UNSET or after.provenance.rolled is not UNSET
    if abs(gap_s) > TIME_TOLERANCE_S and not (rolled and gap_s > 0):
        kind = "a gap" if gap_s > 0 else "an overlap"
        raise ConfigError(
            f"starts at {after.start_s:g} s, the previous window ends at {before.end_s:g} s: "
            f"{kind} of {abs(gap_s):g} s"
        )
    if after.step_s != before.step_s:
        raise ConfigError(f"has steps of {after.step_s:g} s, the previous window of {before.step_s:g} s")
    after.check_site(Site(before.storage, before.step_s))
    if (before.servers is None) != (after.servers is None):
        raise ConfigError("this window and the previous one must both plan servers, or neither")
    if before.servers is not None and after.servers is not None:
        same = np.array_equal(before.servers.kind_of, after.servers.kind_of)
        if before.servers.kinds != after.servers.kinds or not same:
            raise ConfigError("has different servers than the previous window")
    if not rolled:
        _check_levels(after, after.level_at(0), before.level_at(-1), "starts", "the previous window ends")


def _check_levels(plan: Plan, level: StorageState, wanted: StorageState, starts: str, other: str) -> None:
    """Raise ConfigError unless ``plan``, which starts at ``level``, starts at the levels of ``other``.

    They may differ by rounding, up to the tolerance of a plan's levels.
    """
    battery = plan.storage.battery
    size_j, size_kg = plan.power.level_scales(plan.storage, plan.step_s)
    if abs(level.battery_j - wanted.battery_j) > TOLERANCE * size_j:
        raise ConfigError(
            f"{starts} with the battery at {battery.soc_pct(level.battery_j):.6g} %, "
            f"{other} at {battery.soc_pct(wanted.battery_j):.6g} %"
        )
    if abs(level.hydrogen_kg - wanted.hydrogen_kg) > TOLERANCE * max(1.0, size_kg):
        raise ConfigError(
            f"{starts} with {level.hydrogen_kg:.6g} kg of hydrogen, {other} with {wanted.hydrogen_kg:.6g} kg"
        )
    for device, found, expected in zip(plan.storage.other_devices, level.others, wanted.others, strict=True):
        if abs(found - expected) > TOLERANCE * device.level_scale(plan.power.scale_w, plan.step_s):
            texts = (device.level_text(device.shown(each)) for each in (found, expected))
            raise ConfigError(f"{starts} with {device.section} at {next(texts)}, {other} at {next(texts)}")
