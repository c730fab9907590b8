"""The level below which bid-price leaves the battery alone, since its wear costs too much."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import hand_plan

from beasy_sched.energy.battery_life import LMO, BatteryLife
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.policies.bid_price.battery import WearFloor

SITE = Site(hand_plan().storage, 3600.0, 3 * 3600.0)
PRICED = replace(SITE, battery_life=BatteryLife(LMO, price_per_kwh=300.0))


@pytest.mark.parametrize("life", [None, BatteryLife(LMO)])
def test_it_requires_a_price(life: BatteryLife | None) -> None:
    with pytest.raises(ConfigError, match=r"add \[battery.life\] with price_per_kwh to the site file"):
        WearFloor(replace(SITE, battery_life=life), 0.1)


def test_the_price_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="most_wear_per_kwh"):
        WearFloor(PRICED, -1.0)


@given(st.lists(st.tuples(st.floats(60.0, 86400.0), st.floats(0.0, 1e7)), min_size=1, max_size=30))
def test_the_floor_lies_a_depth_below_the_highest_level_of_a_day(steps: list[tuple[float, float]]) -> None:
    floor = WearFloor(PRICED, 0.05)
    depth_j = PRICED.battery_life.depth_worth(0.05) * SITE.storage.battery.capacity_j  # type: ignore[union-attr]
    now, seen = 0.0, []
    for passed_s, level_j in steps:
        now += passed_s
        seen.append((now, level_j))
        highest_j = max(level for at_s, level in seen if at_s >= now - 86400.0)
        assert floor.floor_j(now, level_j) == pytest.approx(highest_j - depth_j)
