"""Input and output of the power decisions: a window's problem, its power plan, and the constraints.

`PowerProblem` has the forecasts, storage, start, targets and the servers' bounds, checked; `PowerPlan` has
the powers of every source and storage in each step (thesis, Section 3.1.2). The constraints (Eq. 3.1 to 3.11)
are evaluated on the plan's numbers alone, as the equations are printed, independently of the solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.device import Device, Flows
from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.energy.site_load import LoadAhead
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.model.choices import Surplus
from beasy_sched.planner.forecast import checked_forecasts, checked_powers
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw


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
    """Maximum grid power for the servers and the load besides them, W; 0 without a grid."""
    base_w: float = 0.0
    """Base load."""
    services_w: FloatArray | None = None
    """Services; None for a site without any."""
    pue: FloatArray | None = None
    """Power of servers and their cooling, in units of the servers' power; None without cooling."""
    tank_from_surplus: bool = False
    """Whether the tank is filled to a target above its start only with power not needed otherwise, and the
    target yields to the needs of sleeping servers, as in a season's plan."""
    grid_charge: GridCharge | None = None
    """Charge from the grid that is allowed in each step; None: the grid feeds no storage."""
    end_worth: float = 0.0
    """Demand (J) worth as much as a joule left in the battery at the end; 0: energy left has no value."""
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
        if not 0 <= self.end_worth < np.inf:
            raise ConfigError(f"end_worth: found {self.end_worth!r}, expected a finite number >= 0")
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
        for device, level in zip(self.storage.other_devices, start.others, strict=True):
            least, most, slack = device.bounds.least, device.bounds.most, 1e-6 * device.bounds.most
            if not least - slack <= level <= most + slack:
                raise ConfigError(
                    f"the window starts with {device.section} at {_text(device, level)}, expected between "
                    f"{_text(device, least)} and {_text(device, most)}"
                )

    @property
    def steps(self) -> int:
        """T."""
        return len(self.load_w)

    @property
    def site_load(self) -> LoadAhead:
        """Load besides the servers."""
        return LoadAhead(self.base_w, self.services_w, self.pue)

    @property
    def start_state(self) -> StorageState:
        """Levels at the start of the window."""
        return self.storage.start() if self.start is None else self.start

    def start_of(self, device: Device) -> float:
        """Return the level of a device at the start of the window, in its unit."""
        levels = zip(self.storage.devices, self.storage.levels(self.start_state), strict=True)
        return next(level for each, level in levels if each.section == device.section)

    def target_of(self, device: Device) -> float:
        """Return the least level of a device at the end, in its unit; see `target_kg`."""
        return self.target_kg if device is self.storage.hydrogen else device.least_end

    @property
    def target_j(self) -> float:
        """Minimum battery energy at the end, J: the target, or the lower edge of its band."""
        return self.storage.battery.least_end_j

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
    services_w: FloatArray | UnsetType = UNSET
    """Services; unset without any."""
    pue: FloatArray | UnsetType = UNSET
    """Power of servers and their cooling, in units of the servers' power; unset without cooling."""
    others: dict[str, Flows] | UnsetType = UNSET
    """Powers and levels of devices other than battery and hydrogen, by section; unset without any."""
    grid_charge_w: FloatArray | UnsetType = UNSET
    """Part of ``charge_w`` and of ``import_w``; unset for a site whose grid does not charge the battery."""

    @property
    def steps(self) -> int:
        """T."""
        return int(self.load_w.size)

    def series(self) -> dict[str, FloatArray]:
        """Return the existing powers and levels, by name."""
        apart = ("base_w", "others")
        names = (name for name in self.__dataclass_fields__ if name not in apart)
        return {name: values for name in names if (values := getattr(self, name)) is not UNSET}

    def flows_of(self, device: Device) -> Flows:
        """Return powers and levels of a device. Raises ConfigError if the plan has none for it."""
        if device.fields is not None:
            columns = device.columns
            return Flows(*(getattr(self, name) for name in (columns.into, columns.out, device.fields.level)))
        if self.others is UNSET or device.section not in self.others:
            raise ConfigError(f"the plan has no powers of the device {device.section!r}")
        return self.others[device.section]

    def until(self, steps: int) -> PowerPlan:
        """The first ``steps`` steps of the plan."""
        cut: dict[str, Any] = {
            name: values[: steps + (len(values) > self.steps)] for name, values in self.series().items()
        }
        if self.others is not UNSET:
            cut["others"] = {
                section: Flows(flows.in_w[:steps], flows.out_w[:steps], flows.level[: steps + 1])
                for section, flows in self.others.items()
            }
        return replace(self, **cut)

    @cached_property
    def scale_w(self) -> float:
        """Largest power of demand and production (W, at least 1), to which tolerances are relative."""
        return max(1.0, float(self.load_w.max()), float(self.renew_w.max()))

    @cached_property
    def produced_w(self) -> FloatArray:
        """P_prod of Eq. 3.1 for the servers, before curtailment.

        It includes grid power; base load, services and the servers' cooling are subtracted.
        """
        arriving = self.renew_w + self.fuel_cell_w + self.discharge_w
        left_w = self.with_grid(self.with_others(arriving - self.electrolyzer_w - self.charge_w))
        return left_w if self.pue is UNSET else left_w / self.pue

    @cached_property
    def given_w(self) -> FloatArray:
        """Power in addition to production and battery, minus the base load and services.

        It is that of hydrogen, the grid and other devices.
        """
        return self.with_grid(self.with_others(self.fuel_cell_w - self.electrolyzer_w))

    def with_others(self, power_w: FloatArray) -> FloatArray:
        """Add the power out of other devices, and subtract their power in."""
        for flows in {} if self.others is UNSET else self.others.values():
            power_w = power_w + flows.out_w - flows.in_w
        return power_w

    def with_grid(self, power_w: FloatArray) -> FloatArray:
        """Add the grid power, and subtract the base load and services."""
        if self.import_w is not UNSET:
            power_w = power_w + self.import_w
        if self.base_w is not UNSET:
            power_w = power_w - self.base_w
        return power_w if self.services_w is UNSET else power_w - self.services_w

    @property
    def site_load(self) -> LoadAhead:
        """Load besides the servers."""
        return LoadAhead(
            0.0 if self.base_w is UNSET else self.base_w,
            None if self.services_w is UNSET else self.services_w,
            None if self.pue is UNSET else self.pue,
        )

    @cached_property
    def envelope_w(self) -> FloatArray:
        """Power available to the servers: P_prod minus curtailed power."""
        curtailed_w = self.curtailed_w if self.pue is UNSET else self.curtailed_w / self.pue
        return self.produced_w - curtailed_w

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
        size_j = storage.battery.level_scale(self.scale_w, step_s)
        hydrogen = storage.hydrogen
        return size_j, 0.0 if hydrogen is None else hydrogen.level_scale(self.scale_w, step_s)


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
    for name in ("charge", "discharge", "electrolyzer", "fuel_cell", "curtailed"):
        yield from _worst(f"{name}_w >= 0", -getattr(plan, f"{name}_w"), power_w)
    for device in storage.other_devices:
        flows = plan.flows_of(device)
        yield from _worst(f"{device.section}: power in >= 0", -flows.in_w, power_w)
        yield from _worst(f"{device.section}: power out >= 0", -flows.out_w, power_w)
    for device in storage.devices:
        for excess in device.violations(plan.flows_of(device), step_s, power_w):
            yield from _worst(excess.constraint, excess.amount, excess.scale)
    if storage.hydrogen is None:
        used = plan.electrolyzer_w + plan.fuel_cell_w + plan.hydrogen_kg[:-1] + plan.hydrogen_kg[1:]
        yield from _worst("no hydrogen at this site", used, 0.0)


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
        used_w = problem.site_load.cooled(plan.produced_w) + problem.site_load.always_w
        if plan.grid_charge_w is not UNSET:
            used_w = used_w + plan.grid_charge_w
            yield from _grid_charge_checks(plan, plan.grid_charge_w, problem)
        yield from _worst("the grid feeds no storage but by its rule", plan.import_w - used_w, power_w)
    missing_j, missing_kg = problem.target_j - plan.battery_j[-1:], problem.target_kg - plan.hydrogen_kg[-1:]
    yield from _worst("SoC(T) >= SoC_target (3.9)", missing_j, size_j, plan.steps)
    if problem.storage.hydrogen is not None:
        started_kg = np.abs(plan.hydrogen_kg[:1] - start.hydrogen_kg)
        yield from _worst("starts with the hydrogen given", started_kg, size_kg)
        yield from _worst("LoH(T) >= LoH_target (3.10)", missing_kg, size_kg, plan.steps)
    for device in problem.storage.other_devices:
        level, size = plan.flows_of(device).level, device.level_scale(power_w, problem.step_s)
        started = np.abs(level[:1] - problem.start_of(device))
        yield from _worst(f"{device.section}: starts at the level given", started, size)
        missing = device.least_end - level[-1:]
        yield from _worst(f"{device.section}: level(T) >= target", missing, size, plan.steps)
    least = np.maximum(problem.floors_w, (1.0 - plan.relax_factor) * problem.load_w)
    yield from _worst("P_prod >= max((1 - rf) * P_load, floor) (3.11)", least - plan.produced_w, power_w)
    yield from _worst("the servers' most", plan.envelope_w - problem.most_w, power_w)
    under = np.minimum(plan.produced_w, problem.most_w) - plan.envelope_w
    yield from _worst("curtailed only beyond the servers' most", under, power_w)


def _grid_charge_checks(plan: PowerPlan, charge_w: FloatArray, problem: PowerProblem) -> Iterator[Violation]:
    """Yield charges from the grid that its rule does not allow."""
    power_w, size_j = plan.scale_w, plan.level_scales(problem.storage, problem.step_s)[0]
    allowed, steps = problem.grid_charge, charge_w > TOLERANCE * plan.scale_w
    least_w = np.minimum(plan.charge_w, charge_w)
    yield from _worst("P_grid_charge >= 0", -charge_w, power_w)
    yield from _worst("P_grid_charge <= P_ch", charge_w - least_w, power_w)
    if allowed is None:
        yield from _worst("the grid charges only by its rule", charge_w, power_w)
    elif not np.isnan(plan.battery_j).any():
        import_w = plan.charge_w if plan.import_w is UNSET else plan.import_w
        most_w = np.where(steps, allowed.import_w, np.inf)
        yield from _worst("the grid charges only by its rule", import_w - most_w, power_w)
        most_j = np.where(steps, allowed.most_j, np.inf)
        yield from _worst(
            "SoC <= that of the rule while the grid charges", plan.battery_j[1:] - most_j, size_j
        )


def _worst(constraint: str, excess: FloatArray, scale: float, first: int = 0) -> Iterator[Violation]:
    """Yield the step of the largest ``excess``, from step ``first``, if beyond the tolerance (or NaN)."""
    broken = ~(excess <= TOLERANCE * scale)
    if broken.any():
        step = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        yield Violation(constraint, first + step, float(excess[step]))


def _text(device: Device, level: float) -> str:
    return device.level_text(device.shown(level))
