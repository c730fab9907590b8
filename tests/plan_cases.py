"""Small storages and windows for the tests of planning, and a coarse plan made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.planner.plan import Plan, PlannedServers, Provenance
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem
from beasy_sched.planner.season import Season, SeasonYear
from beasy_sched.units import kw_to_w, kwh_to_j

HOUR_S = 3600.0


def battery(capacity_kwh: float = 10.0, **changes: Any) -> BatterySpec:
    """A lossless battery without limits, from 0 to 100 %, half full, free at the end."""
    values = {
        "soc_min_pct": 0.0,
        "soc_max_pct": 100.0,
        "soc_target_pct": 0.0,
        "charge_efficiency": 1.0,
        "discharge_efficiency": 1.0,
    }
    return BatterySpec(kwh_to_j(capacity_kwh), **{**values, **changes})


def hydrogen(**changes: Any) -> HydrogenSpec:
    """1 kg of a 2 kg tank; electrolyzer to 4 kW, fuel cell to 2 kW."""
    values = {
        "tank_kg": 2.0,
        "level_start_kg": 1.0,
        "level_target_kg": 1.0,
        "electrolyzer_max_w": 4e3,
        "fuel_cell_max_w": 2e3,
    }
    return HydrogenSpec(**{**values, **changes})


def problem(load_kw: Any, renew_kw: Any, storage: Storage | BatterySpec, **more: Any) -> PowerProblem:
    """Steps of an hour, powers in kW."""
    if isinstance(storage, BatterySpec):
        storage = Storage(storage)
    load, renew = (kw_to_w(1.0) * np.asarray(values, dtype=np.float64) for values in (load_kw, renew_kw))
    return PowerProblem(storage, load, renew, **{"step_s": HOUR_S, **more})


def three_days(seed: int = 1, demand_kw: float = 6.0, steps: int = 864) -> tuple[np.ndarray, np.ndarray]:
    """Demand and production (W) of days with sun, clouds and some wind, in steps of 5 minutes."""
    rng = np.random.default_rng(seed)
    hour = np.arange(steps) / 12
    sun = 14e3 * np.maximum(0.0, np.sin((hour % 24 - 6) / 12 * np.pi))
    clouds = np.repeat(rng.uniform(0.3, 1.0, steps // 12 + 1), 12)[:steps]
    wind = np.repeat(rng.uniform(0.0, 3e3, steps // 36 + 1), 36)[:steps]
    daily = 0.6 + 0.4 * np.sin((hour % 24 - 9) / 12 * np.pi)
    load = demand_kw * 1e3 * daily * np.repeat(rng.uniform(0.7, 1.2, steps // 6 + 1), 6)[:steps]
    return load, sun * clouds + wind


def two_kinds(
    count: int = 3,
    *,
    speeds: tuple[float, ...] = (4.0, 2.0, 1e-9, 1 / 6, 1 / 150),
    full_w: tuple[float, ...] = (120.0, 100.0, 5.0, 101.0, 125.0),
    kind_of: tuple[int, ...] | None = None,
) -> Platform:
    """Servers n0, n1, ...: two computing P-states and sleep; the last is of a kind that never sleeps."""
    sleeper = ServerKind("sleeper", speeds, full_w, full_w, full_w, (SleepState(2, 3, 4),))
    always_on = ServerKind("always-on", (3.0,), (50.0,), (50.0,), (90.0,))
    kinds = np.array(kind_of if kind_of is not None else [0] * (count - 1) + [1])
    return Platform((sleeper, always_on), kinds, tuple(f"n{i}" for i in range(count)))


def hand_plan(start_kwh: float = 5.0) -> Plan:
    """Three hours by hand: charge 2 kWh, then give 1 and 1; three, two and one servers on."""
    platform = two_kinds()
    power = PowerPlan(
        load_w=np.array([2e3, 2e3, 2e3]),
        renew_w=np.array([6e3, 1e3, 0.0]),
        charge_w=np.array([2e3, 0.0, 0.0]),
        discharge_w=np.array([0.0, 1e3, 1e3]),
        electrolyzer_w=np.zeros(3),
        fuel_cell_w=np.zeros(3),
        curtailed_w=np.array([2e3, 0.0, 0.0]),
        battery_j=3.6e6 * (start_kwh + np.array([0.0, 2.0, 1.0, 0.0])),
        hydrogen_kg=np.zeros(4),
    )
    states = np.array([[0, 1, 0], [2, 1, 0], [2, 2, 0]], dtype=np.int8)
    servers = PlannedServers(platform.kinds, platform.kind_of, states, np.array([1.1e6, 8e5, 5e5]))
    shares = np.array([0.05, 0.1, 0.15])
    storage = Storage(battery())
    return Plan(0.0, HOUR_S, storage, power, shares, shares, servers, Provenance("a test"))


DAY_S = 86_400.0


def hand_season(years: int = 1, *, repeat: int = 1, start: str | None = None) -> Season:
    """Days of 6 kW, 6 kW, 0 and 0, with 1 kW wanted; a tank that starts empty, filled on the first day.

    ``repeat`` fills the tank once, and then goes on with such days, curtailing and not meeting what is left.
    """
    spec = HydrogenSpec(2.0, 0.0, 0.0, 1e4, 1e4, electrolyzer_efficiency=1.0, fuel_cell_efficiency=1.0)
    days = 4 * repeat
    renew_w, load_w = np.tile([6e3, 6e3, 0.0, 0.0], repeat), np.full(days, 1e3)
    into_w, out_w, zero = np.zeros(days), np.zeros(days), np.zeros(days)
    into_w[0] = 2.0 * 39.4 / 0.024
    out_w[2:4] = 1e3
    unmet_w = np.maximum(load_w - renew_w - out_w, 0.0)
    curtailed_w = renew_w + out_w + unmet_w - load_w - into_w
    gains_kg = into_w * 0.024 / 39.4 - out_w * 0.024 / 33.3
    cells = battery(10.0)
    year = SeasonYear(
        renew_w=renew_w,
        charge_w=zero,
        discharge_w=zero,
        electrolyzer_w=into_w,
        fuel_cell_w=out_w,
        import_w=zero,
        curtailed_w=curtailed_w,
        unmet_w=unmet_w,
        battery_j=np.full(days + 1, cells.start_j),
        hydrogen_kg=np.concatenate(([0.0], np.cumsum(gains_kg))),
    )
    settings = {} if start is None else {"start": start}
    made_by = Provenance("a test", inputs={"site": "0"}, settings=settings)
    season = Season(Storage(cells, spec), DAY_S, DAY_S, load_w, 0.0, (year,) * years, made_by)
    season.check()
    return replace(season)
