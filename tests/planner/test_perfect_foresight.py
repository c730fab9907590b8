"""Perfect foresight, by hand and against an enumeration of all powers of tiny cases."""

from __future__ import annotations

import itertools
import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid_peak import PeakMeter, PeakPeriod, PeakPrice
from beasy_sched.planner.perfect_foresight import (
    BatteryTerms,
    ForesightProblem,
    cost_without_battery,
    perfect_foresight,
)

pytest.importorskip("highspy", reason="perfect foresight needs the HiGHS solver")

KWH, HOUR = 3.6e6, 3600.0


def hours(net_kw: list[float], prices: list[float], battery: BatteryTerms, **more: Any) -> ForesightProblem:
    count = len(net_kw)
    earned = more.pop("earned", [0.0] * count)
    return ForesightProblem(
        HOUR * np.arange(count),
        np.full(count, HOUR),
        1e3 * np.array(net_kw),
        np.array(prices),
        np.array(earned),
        battery,
        **more,
    )


def battery(kwh: float, start: float = 0.0, end: float = 0.0, **more: Any) -> BatteryTerms:
    return BatteryTerms(0.0, kwh * KWH, start * KWH, end * KWH, **more)


def test_it_buys_at_the_lowest_price_and_uses_it_at_the_highest() -> None:
    case = hours([1.0, 1.0, 2.0], [0.3, 0.1, 0.5], battery(3.0, charge_limit_w=1500.0))
    found = perfect_foresight(case)
    assert found is not None
    assert found.charge_w.tolist() == pytest.approx([500.0, 1500.0, 0.0], abs=0.01)
    assert found.cost == pytest.approx(1.5 * 0.3 + 2.5 * 0.1)
    assert cost_without_battery(case) == pytest.approx(0.3 + 0.1 + 1.0)


def test_losses_decide_whether_it_is_worth_it() -> None:
    lossy = battery(3.0, charge_efficiency=0.8, drawn_per_delivered=1.25)
    for dear, charged in ((0.15, 0.0), (0.16, 1.0 / 0.64)):
        found = perfect_foresight(hours([0.0, 1.0], [0.1, dear], lossy))
        assert found is not None
        assert found.charge_w[0] == pytest.approx(1e3 * charged, abs=0.01)


def test_the_battery_ends_as_the_run_did() -> None:
    found = perfect_foresight(hours([1.0, 1.0], [0.1, 0.5], battery(2.0, start=1.0, end=1.0)))
    assert found is not None
    assert found.cost == pytest.approx(0.2)  # it buys 2 kWh in the first hour


def test_a_peak_that_costs_is_levelled() -> None:
    clock = Calendar(datetime.fromisoformat("2022-03-01T00:00:00+01:00"))
    meter = PeakMeter(PeakPrice(12.0, PeakPeriod.MONTH, clock), 1e9)
    case = hours([1.0, 5.0], [0.1, 0.1], battery(10.0), peak=meter)
    found = perfect_foresight(case)
    assert found is not None
    assert found.import_w.tolist() == pytest.approx([3000.0, 3000.0], abs=0.01)
    assert found.peak_cost == pytest.approx(36.0)
    assert found.cost == pytest.approx(36.6)
    assert cost_without_battery(case) == pytest.approx(60.6)


def test_a_load_beyond_the_import_limit_needs_the_battery() -> None:
    case = hours([1.0, 3.0], [0.1, 0.1], battery(2.0), import_limit_w=2000.0)
    found = perfect_foresight(case)
    assert found is not None
    assert found.charge_w[0] == pytest.approx(1000.0, abs=0.01)
    assert cost_without_battery(case) is None
    assert perfect_foresight(hours([3.0, 3.0], [0.1, 0.1], battery(2.0), import_limit_w=2000.0)) is None


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_optimum_of_all_powers(seed: int) -> None:
    """Without losses, all data are multiples of half a kW, so that an optimum has such powers."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 5))
    net = (rng.integers(-3, 5, count) / 2).tolist()
    prices = rng.choice([-0.1, 0.0, 0.1, 0.2, 0.5], count).tolist()
    earned = rng.choice([0.0, 0.15], count).tolist()
    size = float(rng.choice([0.5, 1.0, 1.5]))
    start = float(rng.choice([0.0, 0.5]))
    limit_kw, export_kw = float(rng.choice([1.0, 2.0, math.inf])), float(rng.choice([0.0, 0.5, math.inf]))
    peak = PeakMeter(PeakPrice(0.1), 7200.0) if seed % 2 else None
    case = hours(
        net,
        prices,
        battery(size, start, charge_limit_w=1000.0, discharge_limit_w=1000.0),
        earned=earned,
        import_limit_w=1e3 * limit_kw,
        may_export_w=1e3 * export_kw,
        peak=peak,
    )
    parts = 8 if peak is not None else 2
    best = _enumerated(net, prices, earned, size, start, limit_kw, export_kw, peak, parts)
    found = perfect_foresight(case)
    if math.isinf(best):
        assert found is None
        return
    assert found is not None
    assert found.cost <= best + 1e-6
    slack = 0.0 if peak is None else count * (0.5 + 0.2) / parts
    assert found.cost >= best - slack - 1e-6
    assert not (np.minimum(found.charge_w, found.discharge_w) > 1.0).any()
    assert not (np.minimum(found.import_w, found.export_w) > 1.0).any()


def _enumerated(
    net: list[float],
    prices: list[float],
    earned: list[float],
    size: float,
    start: float,
    limit_kw: float,
    export_kw: float,
    peak: PeakMeter | None,
    parts: int,
) -> float:
    """Return the least cost over all battery powers in multiples of 1 / ``parts`` kW; infinite if none."""
    kw = [n / parts for n in range(-parts, parts + 1)]
    kw = kw if peak is None or len(net) < 4 else [n / 4 for n in range(-4, 5)]
    best = math.inf
    for powers in itertools.product(kw, repeat=len(net)):
        level, cost, imports = start, 0.0, []
        for power, load, price, price_out in zip(powers, net, prices, earned, strict=True):
            level += power
            if not -1e-9 <= level <= size + 1e-9 or power < -max(load, 0.0):
                break
            imported = max(load + power, 0.0)
            if imported > limit_kw:
                break
            exported = min(max(-load - power, 0.0), export_kw) if price_out >= 0 else 0.0
            imports.append(imported)
            cost += imported * price - exported * price_out
        else:
            for first in range(0, len(net), 2) if peak is not None else ():
                cost += 0.1 * max(imports[first : first + 2])
            best = min(best, cost)
    return best
