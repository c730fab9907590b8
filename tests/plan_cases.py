"""Small storages and windows for the tests of planning."""

from __future__ import annotations

from typing import Any

import numpy as np

from beasy_sched.energy.battery import BatterySpec
from beasy_sched.energy.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.plan.power_problem import PowerProblem
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
