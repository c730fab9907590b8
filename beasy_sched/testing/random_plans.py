"""Plans of small worlds: given, random, or computed by the planner from a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from beasy_sched.energy.devices.hydrogen import (
    Hold,
    HydrogenSpec,
    electrolyzer_power,
    fuel_cell_power,
    level_after_step,
)
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import StorageState
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.planner.forecast import full_draw_w
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import Plan, PlannedServers, PlanStore, Provenance
from beasy_sched.planner.power_problem import PowerPlan
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.windows import NoPlan, plan_windows

if TYPE_CHECKING:
    from beasy_sched.testing.worlds import SmallWorld


def plans_of(
    site: Site, platform: Platform, states: Sequence[np.ndarray], hydrogen_w: Sequence[float] = ()
) -> PlanStore:
    """Return plans of consecutive windows with these states, [steps, hosts] each.

    The battery keeps its level: production equals the demand of the servers and the losses.
    ``hydrogen_w``: power from hydrogen in each step of all windows, negative if it takes power.
    """
    battery = site.storage.battery
    lost_j = battery.start_j * (1 - battery.kept_fraction(site.step_s))
    before, state, plans = np.zeros(platform.size, dtype=np.int8), site.storage.start(), []
    wanted_w = iter(hydrogen_w)
    for number, window in enumerate(states):
        steps = len(window)
        energy_j = CellEnergies(PowerModel(platform)).plan_energy_j(window, before, site.step_s)
        levels_kg, flows_w = [state.hydrogen_kg], []
        for _ in range(steps):
            step_w, level_kg = _hydrogen(site, levels_kg[-1], next(wanted_w, 0.0))
            flows_w.append(step_w)
            levels_kg.append(level_kg)
        flow_w, envelope_w = np.array(flows_w), energy_j / site.step_s
        charge_w = np.full(steps, lost_j / (battery.charge_efficiency * site.step_s))
        needed_w = envelope_w + charge_w - flow_w
        power = PowerPlan(
            load_w=envelope_w,
            renew_w=np.maximum(needed_w, 0.0),
            charge_w=charge_w,
            discharge_w=np.zeros(steps),
            electrolyzer_w=np.maximum(-flow_w, 0.0),
            fuel_cell_w=np.maximum(flow_w, 0.0),
            curtailed_w=np.maximum(-needed_w, 0.0),
            battery_j=np.full(steps + 1, battery.start_j),
            hydrogen_kg=np.array(levels_kg),
        )
        servers = PlannedServers(platform.kinds, platform.kind_of, window, energy_j)
        shares, made_by = np.full(steps, 0.1), Provenance("a test")
        start_s = number * site.window_s
        plans.append(Plan(start_s, site.step_s, site.storage, power, shares, shares, servers, made_by))
        before, state = window[-1], StorageState(battery.start_j, levels_kg[-1])
    return PlanStore(plans)


def _hydrogen(site: Site, level_kg: float, wanted_w: float) -> tuple[float, float]:
    """Return the feasible part of ``wanted_w`` for the hydrogen chain, and its level after a step."""
    spec = site.storage.hydrogen
    if spec is None:
        return 0.0, 0.0
    takes_w = electrolyzer_power(spec, level_kg, max(-wanted_w, 0.0), site.step_s)
    gives_w = fuel_cell_power(spec, level_kg, max(wanted_w, 0.0), site.step_s)
    after_kg = level_after_step(spec, level_kg, takes_w, gives_w, site.step_s)
    return gives_w - takes_w, min(max(after_kg, 0.0), spec.tank_kg)


def world_plans(world: SmallWorld) -> PlanStore:
    """Return plans of a world: from its forecast if it has a feasible one, else random.

    They do not depend on later events: neither on run times nor on the actual production.
    """
    planned = planner_plans(world) if world.forecast_w else None
    return planned or random_plans(world)


@lru_cache(maxsize=1024)
def planner_plans(world: SmallWorld) -> PlanStore | None:
    """Return the plan computed from the forecast; None if there is no feasible plan."""
    steps = world.site.steps * world.planned_windows
    rng = np.random.default_rng([world.hosts, len(world.jobs)])
    load_w = full_draw_w(world.platform) * rng.random(steps)
    renew_w = np.array(world.forecast_w[:steps])
    options = OfflineOptions(rules=ServerRules(minimum_on_s=120.0, switch_cost_s=10.0))
    made_by = Provenance("a test")
    try:
        return plan_windows(world.site, world.platform, load_w, renew_w, options=options, provenance=made_by)
    except NoPlan:
        return None


def random_plans(world: SmallWorld) -> PlanStore:
    """Return plans of the world's windows with random states, regardless of the production."""
    rng = np.random.default_rng([world.fast, world.slow, len(world.jobs)])
    windows = []
    for _ in range(world.planned_windows):
        draws = rng.choice(3, (world.site.steps, world.hosts), p=[0.5, 0.2, 0.3])
        draws = np.repeat(draws, rng.integers(1, 4), axis=0)[: world.site.steps]
        windows.append(_states(world.platform, draws))
    hydrogen_w = rng.choice([-1.0, 0.0, 1.0], world.site.steps * world.planned_windows) * 100.0
    return plans_of(world.site, world.platform, windows, hydrogen_w.tolist() if world.hydrogen else ())


def _states(platform: Platform, draws: np.ndarray) -> np.ndarray:
    """Return P-states of servers for values of 0 (fastest), 1 (slowest) and 2 (asleep, if possible)."""
    table = np.array([_choices(kind) for kind in platform.kinds], dtype=np.int8)
    states: np.ndarray = table[platform.kind_of, draws]
    return states


def _choices(kind: ServerKind) -> tuple[int, int, int]:
    return kind.computing[0], kind.computing[-1], kind.sleep.pstate if kind.sleep else kind.computing[0]


def small_hydrogen(rng: np.random.Generator) -> HydrogenSpec:
    """Return a tank that some steps of a world can fill or empty."""
    return HydrogenSpec(
        tank_kg=4e-4,
        level_start_kg=float(rng.choice([0.0, 2e-4, 4e-4])),
        level_target_kg=0.0,
        electrolyzer_max_w=150.0,
        fuel_cell_max_w=120.0,
        electrolyzer_min_w=float(rng.choice([0.0, 40.0])),
        hold=Hold(rng.choice([hold.value for hold in Hold])),
    )
