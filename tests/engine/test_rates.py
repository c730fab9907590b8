"""Prices and carbon intensities that the simulator announces: they count for their step, and are compared."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from talk import Talk, small_battery

from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Foreseen, Grid, Signal
from beasy_sched.energy.grid_charging import GridRules, RateBelow
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PeerError
from beasy_sched.model import events as e
from beasy_sched.protocol.notices import notice
from beasy_sched.units import JOULES_PER_KWH

STEP_S, IDLE_W = 60.0, 200.0


def site(**grid: object) -> Site:
    """Steps of 60 s on the grid; prices 0.1, 0.2, 0.3 and 400 g/kWh unless said."""
    edges_s = STEP_S * np.arange(4)
    known = {
        "price": Foreseen(Signal(edges_s, np.array([0.1, 0.2, 0.3]))),
        "carbon": Foreseen(Signal(edges_s[[0, 3]], np.array([400.0]))),
    }
    return dataclasses.replace(small_battery(), storage=Storage(NO_BATTERY), grid=Grid(**(known | grid)))


def power(now: float, **rates: object) -> e.Notify:
    return notice(now, "power", {"type": "power", "power_available": 0.0, **rates})


def told(*steps: dict[str, object], at: Site | None = None) -> Talk:
    """Announce these rates, one step after the other, and settle them all."""
    talk = Talk(site=at or site(), energy=EnergySource.MODEL)
    for step, rates in enumerate(steps):
        talk.at(step * STEP_S, power(step * STEP_S, **rates))
    talk.at(len(steps) * STEP_S, power(len(steps) * STEP_S))
    return talk


def metered(talk: Talk) -> list[tuple[float, float | None]]:
    kwh = IDLE_W * STEP_S / JOULES_PER_KWH
    rows = [row.metered for row in talk.session.power.trace if row.metered is not None]
    return [(row.cost / kwh, None if row.carbon_g is None else row.carbon_g / kwh) for row in rows]


def warnings(talk: Talk) -> list[str]:
    return [text for text in talk.session.power.warnings if text.startswith("grid.")]


def test_without_announcements_the_files_count() -> None:
    talk = told({}, {})
    assert metered(talk) == [pytest.approx(pair) for pair in [(0.1, 400), (0.2, 400)]]
    assert warnings(talk) == []


def test_what_is_announced_counts_for_its_own_step() -> None:
    talk = told({"import_price_per_kwh": 0.5}, {}, {"carbon_g_per_kwh": 100})
    assert metered(talk) == [pytest.approx(pair) for pair in [(0.5, 400), (0.2, 400), (0.3, 100)]]


def test_a_difference_is_told_once_with_time_and_both_values() -> None:
    other = {"import_price_per_kwh": 0.5}
    assert warnings(told({}, other, other)) == [
        "grid.price: at 60 s, 0.5 per kWh was announced, but the site file has 0.2:"
        " announced values take precedence, here and later"
    ]
    both = {"import_price_per_kwh": 0.5, "carbon_g_per_kwh": 0.0}
    assert [text.split(" ")[0] for text in warnings(told(both, both))] == ["grid.price:", "grid.carbon:"]


def test_the_same_values_are_no_difference() -> None:
    same = {"import_price_per_kwh": 0.1000004, "carbon_g_per_kwh": 400}  # six decimals are forwarded
    assert warnings(told(same)) == []


def test_a_site_without_files_takes_what_is_announced() -> None:
    bare = site(price=None, carbon=None)
    talk = told({"import_price_per_kwh": -0.5, "carbon_g_per_kwh": 50}, {}, at=bare)
    assert metered(talk) == [pytest.approx((-0.5, 50)), (0.0, None)]
    assert warnings(talk) == []
    assert warnings(told({"import_price_per_kwh": 1.0}, at=small_battery())) == []  # no grid, no matter


@pytest.mark.parametrize("value", ["0.1", True, [1], float("nan")])
def test_a_price_that_is_no_number(value: object) -> None:
    with pytest.raises(PeerError, match=r"NOTIFY power: found import_price_per_kwh .*, expected a number"):
        told({"import_price_per_kwh": value})


def test_a_step_that_ends_late_has_its_own_price() -> None:
    """The price rises at 60 s, and the simulator reports the end of the step 1 ms later."""
    price = Foreseen(Signal(STEP_S * np.arange(4), np.array([0.1, 0.3, 0.3])))
    rest = RateBelow(price, math.nextafter(0.1, math.inf))
    late = dataclasses.replace(small_battery(), grid=Grid(price=price, rules=GridRules(rest=rest)))
    talk = Talk(site=late, energy=EnergySource.MODEL)
    talk.at(0.0, power(0.0))
    talk.at(STEP_S + 0.001)
    talk.at(2 * STEP_S, power(2 * STEP_S))
    assert [row.record.discharge_w for row in talk.session.power.trace] == [0.0, IDLE_W]
