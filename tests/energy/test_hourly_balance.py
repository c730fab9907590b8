"""The hourly balance of many storages against the balance of a step, one at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.hourly_balance import balance_hours
from beasy_sched.energy.storage import Storage
from beasy_sched.units import JOULES_PER_KWH

HOUR_S = 3600.0
POWERS = st.lists(st.floats(0, 2000), min_size=1, max_size=40)


def battery(kwh: float, **more: float) -> BatterySpec:
    return BatterySpec(kwh * JOULES_PER_KWH, charge_limit_w=700.0, discharge_limit_w=900.0, **more)


@given(production=POWERS, seed=st.integers(0, 1000))
@settings(max_examples=examples(25), derandomize=True)
def test_batteries_are_balanced_as_in_a_run(production, seed):
    """The same limits, levels and losses as `settle_step`, which knows one battery and no greedy hydrogen."""
    demand = np.random.default_rng(seed).uniform(0, 2000, len(production))
    storages = [Storage(battery(kwh, self_discharge_per_day=0.01)) for kwh in (0.5, 2.0, 8.0)]
    storages.append(Storage(NO_BATTERY))
    found = balance_hours(np.array(production)[:, None], demand[:, None], storages)
    for index, storage in enumerate(storages):
        state, unserved_j, curtailed_j, lowest = storage.start(), 0.0, 0.0, storage.battery.soc_start_pct
        for renew_w, need_w in zip(production, demand, strict=True):
            record, state = settle_step(
                storage, state, dt_s=HOUR_S, consumed_j=need_w * HOUR_S, renew_w=renew_w
            )
            unserved_j += record.unserved_w * HOUR_S
            curtailed_j += record.curtailed_w * HOUR_S
            lowest = min(lowest, record.soc_after_pct)
        assert found.unserved_j[index] == pytest.approx(unserved_j, rel=1e-9, abs=1e-3)
        assert found.curtailed_j[index] == pytest.approx(curtailed_j, rel=1e-9, abs=1e-3)
        if storage.battery.exists:
            assert found.soc_lowest_pct[index] == pytest.approx(lowest, rel=1e-9)
        else:
            assert math.isnan(found.soc_lowest_pct[index])


def test_hydrogen_takes_what_the_battery_leaves_and_gives_after_it():
    """1 kWh for the electrolyzer at efficiency 1, then 0.4 kWh of it are needed; all by hand."""
    tank = HydrogenSpec(10.0, 0.0, 0.0, 1500.0, 300.0, electrolyzer_efficiency=1.0, fuel_cell_efficiency=1.0)
    full = BatterySpec(
        JOULES_PER_KWH, soc_min_pct=0, soc_max_pct=100, soc_start_pct=100, charge_efficiency=1,
        discharge_efficiency=1,
    )  # fmt: skip
    found = balance_hours([[2000.0], [0.0], [0.0]], [[1000.0], [1000.0], [400.0]], [Storage(full, tank)])
    assert found.curtailed_j[0] == pytest.approx(0)
    assert found.unserved_j[0] == pytest.approx(0.1 * JOULES_PER_KWH)  # the fuel cell gives 300 W at most
    small = balance_hours([[1300.0]], [[1000.0]], [Storage(NO_BATTERY, HydrogenSpec(1, 0, 0, 900, 1, 500))])
    assert small.curtailed_j[0] == pytest.approx(0.3 * JOULES_PER_KWH)  # below the electrolyzer's least


@given(production=POWERS, seed=st.integers(0, 1000))
@settings(max_examples=examples(25), derandomize=True)
def test_the_tank_never_gives_more_than_it_has(production, seed):
    rng = np.random.default_rng(seed)
    demand = rng.uniform(0, 2000, len(production))
    tank = HydrogenSpec(0.05, 0.02, 0.02, 1000.0, 800.0)
    storage = Storage(battery(1.0), tank)
    found = balance_hours(np.array(production)[:, None], demand[:, None], [storage])
    given_j = demand.sum() * HOUR_S - found.unserved_j[0]
    start_j = storage.battery.start_j + 0.02 * 33.3 * JOULES_PER_KWH
    assert given_j <= sum(production) * HOUR_S - found.curtailed_j[0] + start_j + 1e-3
    assert found.unserved_j[0] >= 0
    assert found.curtailed_j[0] >= -1e-6


def test_every_storage_may_have_powers_of_its_own_and_a_grid():
    storages = [Storage(NO_BATTERY), Storage(NO_BATTERY)]
    found = balance_hours([[100.0, 300.0]], [[200.0]], storages, import_limit_w=[0.0, 50.0])
    assert (found.unserved_j / HOUR_S).tolist() == [100.0, 0.0]
    found = balance_hours([[100.0]], [[200.0]], storages, import_limit_w=[60.0, math.inf])
    assert (found.unserved_j / HOUR_S).tolist() == [40.0, 0.0]
    with pytest.raises(ValueError, match="broadcast"):
        balance_hours([[1.0, 2.0, 3.0]], [[1.0]], storages)
