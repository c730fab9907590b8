"""Input and output of the power decisions: a window's problem, its power plan, and the constraints.

`PowerProblem` has the forecasts, storage, start, targets and the servers' bounds, checked; `PowerPlan` has
the powers of every source and storage in each step (thesis, Section 3.1.2). The constraints (Eq. 3.1 to 3.11)
are evaluated on the plan's numbers alone, as the equations are printed, independently of the solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.storage import Storage, StorageState, energy_after_step, level_after_step
from beasy_sched.errors import ConfigError
from beasy_sched.planner.forecast import checked_forecasts, checked_powers
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw


class Surplus(str, Enum):
    """Use of power beyond the demand. Shortfalls are the same in both cases."""

    ENVELOPE = "envelope"
    """The servers may use power beyond the demand, up to their maximum (Eq. 3.11 as printed)."""
    STORE = "store"
    """Power beyond the demand goes into the battery first, up to SoC_max; the servers may use the rest."""


@dataclass(frozen=True)
class PowerProblem:
    """One window for the power decisions. Raises ConfigError, naming the field and the step.

    ``load_w`` and ``renew_w`` are forecasts, one value (W) per step, of the same length T.
    """

    storage: Storage
    load_w: FloatArray
    """P_load: requested power of the servers."""
    renew_w: FloatArray
    """P_renew: solar and wind power."""
    step_s: float = 300.0
    floor_w: float | FloatArray = 0.0
    """Minimum power, of sleeping servers; one value, or one per step."""
    most_w: float = np.inf
    """Maximum power of the servers: power beyond it is curtailed."""
    surplus: Surplus = Surplus.ENVELOPE
    start: StorageState | None = None
    """Levels at the start of the window; None for the site's."""
    import_limit_w: float = 0.0
    """Maximum grid power for the servers and the base load, W; 0 without a grid."""
    base_w: float = 0.0
    """Base load."""
    tank_from_surplus: bool = False
    """Whether the tank is filled to a target above its start only with power not needed otherwise, and the
    target yields to the needs of sleeping servers, as in a season's plan."""
    floors_w: FloatArray = field(init=False, repr=False)
    """``floor_w`` as one value per step."""

    def __post_init__(self) -> None:
        load, renew = checked_forecasts(self.load_w, self.renew_w)
        if not (np.isfinite(self.step_s) and self.step_s > 0):
            raise ConfigError(f"step_s: found {self.step_s!r}, expected a finite number > 0")
        if not (self.import_limit_w >= 0 and 0 <= self.base_w < np.inf):
            raise ConfigError(
                f"import_limit_w and base_w: found {self.import_limit_w!r} and {self.base_w!r}, expected >= 0"
            )
        if not self.most_w > 0:
            raise ConfigError(f"most_w: found {self.most_w!r}, expected a number > 0")
        floors = np.broadcast_to(np.asarray(self.floor_w, dtype=np.float64), len(load))
        object.__setattr__(self, "load_w", load)
        object.__setattr__(self, "renew_w", renew)
        object.__setattr__(self, "floors_w", checked_powers("sleep floor", floors))
        battery, start = self.storage.battery, self.start_state
        slack_j = 1e-6 * battery.capacity_j
        if not battery.min_j - slack_j <= start.battery_j <= battery.max_j + slack_j:
            raise ConfigError(
                f"the window starts with the battery at {battery.soc_pct(start.battery_j):.2f} %, expected "
                f"between soc_min_pct ({battery.soc_min_pct:g}) and soc_max_pct ({battery.soc_max_pct:g})"
            )
        tank_kg = self.storage.tank_kg
        if not 0.0 <= start.hydrogen_kg <= tank_kg * (1 + 1e-9):
            raise ConfigError(
                f"the window starts with {start.hydrogen_kg!r} kg of hydrogen, "
                f"expected 0 to tank_kg ({tank_kg:g})"
            )

    @property
    def steps(self) -> int:
        """T."""
        return len(self.load_w)

    @property
    def start_state(self) -> StorageState:
        """Levels at the start of the window."""
        return self.storage.start() if self.start is None else self.start

    @property
    def target_j(self) -> float:
        """Minimum battery energy at the end, J."""
        return self.storage.battery.target_j

    @property
    def target_kg(self) -> float:
        """Minimum hydrogen at the end, kg; 0 for a site without hydrogen, or if it may be missed."""
        return 0.0 if self.tank_from_surplus else self.wished_kg

    @property
    def wished_kg(self) -> float:
        """Desired hydrogen at the end, kg; 0 for a site without hydrogen."""
        return self.storage.hydrogen.level_target_kg if self.storage.hydrogen else 0.0

    @property
    def held_kg(self) -> float:
        """Part of the tank's target stored at the start, kg; the fuel cell preserves it if possible."""
        return min(self.wished_kg, self.start_state.hydrogen_kg)

    def hour(self, step: int) -> float:
        """Return the hours from the start of the window to the end of a step."""
        return (step + 1) * self.step_s / SECONDS_PER_HOUR


def check_sizes(problem: PowerProblem) -> tuple[str, ...]:
    """Warnings about forecasts and storage whose sizes suggest a wrong unit.

    Returns one sentence for each pair that differs by a factor of more than a thousand.
    """
    notes = []
    load, renew = problem.load_w.max(), problem.renew_w.max()
    if min(load, renew) > 0 and not 1e-3 <= load / renew <= 1e3:
        notes.append(
            f"the demand reaches {w_to_kw(load):g} kW and the production {w_to_kw(renew):g} kW: "
            "are both in watts?"
        )
    size_kwh = j_to_kwh(problem.storage.battery.capacity_j)
    hours = size_kwh / w_to_kw(load) if load > 0 and size_kwh > 0 else 1.0
    if not 1e-3 <= hours <= 1e4:
        notes.append(
            f"a battery of {size_kwh:g} kWh holds {hours:.3g} hours of the largest demand "
            f"({w_to_kw(load):g} kW): is a unit wrong?"
        )
    return tuple(notes)


ROUNDING = 2e-7
"""Share of the largest power attributed to the solver's rounding."""


@dataclass(frozen=True)
class PowerPlan:
    """One window's powers (W, one value per step: T values) and levels (T + 1, from start to end)."""

    load_w: FloatArray
    """P_load: the requested demand."""
    renew_w: FloatArray
    """P_renew: the expected production."""
    charge_w: FloatArray
    discharge_w: FloatArray
    electrolyzer_w: FloatArray
    fuel_cell_w: FloatArray
    curtailed_w: FloatArray
    """Curtailed power."""
    battery_j: FloatArray
    """Energy in the battery at the start of each step, and at the end of the last."""
    hydrogen_kg: FloatArray
    """LoH at the start of each step, and at the end of the last."""
    import_w: FloatArray | UnsetType = UNSET
    """Planned grid power; unset for a site without a grid."""
    base_w: float | UnsetType = UNSET
    """Base load; unset without one."""

    @property
    def steps(self) -> int:
        """T."""
        return int(self.load_w.size)

    def series(self) -> dict[str, FloatArray]:
        """Return the existing powers and levels, by name."""
        names = (name for name in self.__dataclass_fields__ if name != "base_w")
        return {name: values for name in names if (values := getattr(self, name)) is not UNSET}

    @cached_property
    def scale_w(self) -> float:
        """Largest power of demand and production (W, at least 1), to which tolerances are relative."""
        return max(1.0, float(self.load_w.max()), float(self.renew_w.max()))

    @cached_property
    def produced_w(self) -> FloatArray:
        """P_prod of Eq. 3.1, before curtailment; including grid power, minus the base load."""
        arriving = self.renew_w + self.fuel_cell_w + self.discharge_w
        return self.with_grid(arriving - self.electrolyzer_w - self.charge_w)

    @cached_property
    def given_w(self) -> FloatArray:
        """Hydrogen and grid power in addition to the production, minus the electrolyzer and the base load."""
        return self.with_grid(self.fuel_cell_w - self.electrolyzer_w)

    def with_grid(self, power_w: FloatArray) -> FloatArray:
        """Add the grid power, and subtract the base load."""
        if self.import_w is not UNSET:
            power_w = power_w + self.import_w
        return power_w if self.base_w is UNSET else power_w - self.base_w

    @cached_property
    def envelope_w(self) -> FloatArray:
        """Power available to the servers: P_prod minus curtailed power."""
        return self.produced_w - self.curtailed_w

    @cached_property
    def shortfall_w(self) -> FloatArray:
        """Unmet demand."""
        return np.maximum(self.load_w - self.produced_w, 0.0)

    @cached_property
    def relax_factor(self) -> float:
        """rf: the largest share of unmet demand in a step (Eq. 3.11); 0 without demand.

        Amounts within the solver's rounding are ignored: they can be any share of a tiny demand.
        """
        missing_w = np.maximum(self.shortfall_w - ROUNDING * self.scale_w, 0.0)
        shares = np.divide(missing_w, self.load_w, out=np.zeros_like(missing_w), where=missing_w > 0.0)
        return float(shares.max(initial=0.0))

    def level_scales(self, storage: Storage, step_s: float) -> tuple[float, float]:
        """Return the reference of level tolerances (J, kg): the size, and a step at the largest power."""
        size_j = storage.battery.capacity_j + self.scale_w * step_s
        if storage.hydrogen is None:
            return size_j, 0.0
        return size_j, storage.hydrogen.tank_kg + storage.hydrogen.produced_kg(self.scale_w, step_s)


TOLERANCE = 1e-6
"""Share of a quantity's size by which a bound or balance may be missed because of rounding."""


class Violation(NamedTuple):
    """Violated constraint: its name, step and amount."""

    constraint: str
    step: int
    """Step of the violation; the last of the T + 1 levels is step T."""
    amount: float
    """Amount by which the constraint is violated, in its unit (W, J or kg)."""

    def __str__(self) -> str:
        return f"{self.constraint}: violated by {self.amount:.6g} at step {self.step}"


def power_violations(plan: PowerPlan, problem: PowerProblem) -> tuple[Violation, ...]:
    """Return the constraints of Eq. 3.1 to 3.11 violated by the plan, with the worst step of each."""
    return (*storage_violations(plan, problem.storage, problem.step_s), *_problem_checks(plan, problem))


def storage_violations(plan: PowerPlan, storage: Storage, step_s: float) -> Iterator[Violation]:
    """Yield violations of the storage's limits, levels and dynamics, with the worst step of each."""
    power_w = plan.scale_w
    battery, level = storage.battery, plan.battery_j
    size_j, size_kg = plan.level_scales(storage, step_s)
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
    size_j, size_kg = plan.level_scales(problem.storage, problem.step_s)
    start = problem.start_state
    yield from _worst("starts at the level given", np.abs(plan.battery_j[:1] - start.battery_j), size_j)
    yield from _worst("keeps the production given", np.abs(plan.renew_w - problem.renew_w), power_w)
    yield from _worst("keeps the demand given", np.abs(plan.load_w - problem.load_w), power_w)
    if plan.import_w is not UNSET:
        yield from _worst("P_import >= 0", -plan.import_w, power_w)
        yield from _worst("P_import <= the grid's limit", plan.import_w - problem.import_limit_w, power_w)
        used_w = plan.produced_w + problem.base_w
        yield from _worst("the grid feeds no storage", plan.import_w - used_w, power_w)
    missing_j, missing_kg = problem.target_j - plan.battery_j[-1:], problem.target_kg - plan.hydrogen_kg[-1:]
    yield from _worst("SoC(T) >= SoC_target (3.9)", missing_j, size_j, plan.steps)
    if problem.storage.hydrogen is not None:
        started_kg = np.abs(plan.hydrogen_kg[:1] - start.hydrogen_kg)
        yield from _worst("starts with the hydrogen given", started_kg, size_kg)
        yield from _worst("LoH(T) >= LoH_target (3.10)", missing_kg, size_kg, plan.steps)
    least = np.maximum(problem.floors_w, (1.0 - plan.relax_factor) * problem.load_w)
    yield from _worst("P_prod >= max((1 - rf) * P_load, floor) (3.11)", least - plan.produced_w, power_w)
    yield from _worst("the servers' most", plan.envelope_w - problem.most_w, power_w)
    under = np.minimum(plan.produced_w, problem.most_w) - plan.envelope_w
    yield from _worst("curtailed only beyond the servers' most", under, power_w)


def _worst(constraint: str, excess: FloatArray, scale: float, first: int = 0) -> Iterator[Violation]:
    """Yield the step of the largest ``excess``, from step ``first``, if beyond the tolerance (or NaN)."""
    broken = ~(excess <= TOLERANCE * scale)
    if broken.any():
        step = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        yield Violation(constraint, first + step, float(excess[step]))
