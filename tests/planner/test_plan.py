"""Plans: what holds together, what fits a platform and a site, and how windows chain."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from plan_cases import battery, hand_plan, hydrogen, two_kinds

from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import Place, Plan, PlanStore

PLAN = hand_plan()


def following(plan: Plan, **changes: Any) -> Plan:
    """The same plan again, as the next window: it ends at the levels where it starts."""
    return replace(plan, **{"start_s": plan.end_s, **changes})


class TestOnePlan:
    def test_holds_together(self) -> None:
        PLAN.check()
        PLAN.check_platform(two_kinds())
        PLAN.check_site(Site(PLAN.storage, 3600.0))

    def test_what_it_says(self) -> None:
        assert PLAN.servers is not None
        assert PLAN.servers.on_count.tolist() == [3, 2, 1]
        np.testing.assert_allclose(PLAN.soc_pct, [50, 70, 60, 50])
        np.testing.assert_allclose(PLAN.demand.low_w, [1900, 1800, 1700])
        np.testing.assert_allclose(PLAN.production.high_w, [6300, 1100, 0])
        assert PLAN.end_s == 3 * 3600.0

    @pytest.mark.parametrize(
        ("part", "changes", "message"),
        [
            (
                "power",
                {"charge_w": np.zeros(2)},
                "found an array of float64 of shape (2,), expected 3",
            ),
            (
                "power",
                {"battery_j": np.zeros(3)},
                "battery_j: found an array of float64 of shape (3,), expected 4",
            ),
            ("power", {"charge_w": np.zeros(3, int)}, "charge_w: found an array of int64"),
            ("power", {"fuel_cell_w": np.full(3, np.nan)}, "fuel_cell_w is not finite at step 0"),
            ("power", {"charge_w": np.array([1e3, 0, 0])}, "battery development (2.3): violated by"),
            ("servers", {"states": np.zeros((3, 2), np.int8)}, "of shape (3, 2), expected int8 of (3, 3)"),
            (
                "servers",
                {"states": np.full((3, 3), 3, np.int8)},
                "server 0 is planned in P-state 3 at step 0",
            ),
            ("servers", {"energy_j": np.full(3, 8e6)}, "more than the envelope of 7.2e+06 J (3.16)"),
            ("servers", {"energy_j": np.full(3, np.inf)}, "server energy: expected 3 finite numbers"),
            ("servers", {"kind_of": np.array([0, 0, 9])}, "has a kind that the plan does not describe"),
        ],
    )
    def test_broken(self, part: str, changes: dict[str, Any], message: str) -> None:
        plan = replace(PLAN, **{part: replace(getattr(PLAN, part), **changes)})
        with pytest.raises(ConfigError) as caught:
            plan.check()
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"load_uncertainty": np.array([0.1, 1.5, 0.1])}, "the uncertainty is 1.5 at step 1"),
            ({"renew_uncertainty": np.zeros(1)}, "renew_uncertainty: found an array"),
            ({"step_s": 0.0}, "has steps of 0.0 s"),
        ],
    )
    def test_broken_frame(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            replace(PLAN, **changes).check()
        assert message in str(caught.value)


class TestWrongPlace:
    @pytest.mark.parametrize(
        ("platform", "message"),
        [
            (two_kinds(count=4), "the plan is for 3 servers, but the platform has 4"),
            (
                two_kinds(full_w=(120.0, 105.0, 5.0, 101.0, 125.0)),
                "server 0 (n0): idle power of P-state 1 is 100",
            ),
            (
                two_kinds(speeds=(9.0, 2.0, 1e-9, 0.1, 0.01)),
                "server 0 (n0): speed of P-state 0 is 4 in the plan",
            ),
            (two_kinds(kind_of=(0, 1, 1)), "server 1 (n1): "),
        ],
    )
    def test_other_servers(self, platform: Platform, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            PLAN.check_platform(platform)
        assert message in str(caught.value)

    def test_unknown_speeds_are_not_compared(self) -> None:
        PLAN.check_platform(two_kinds(speeds=()))

    @pytest.mark.parametrize(
        ("site", "message"),
        [
            (Site(PLAN.storage), "the plan has steps of 3600 s, but the site 300 s"),
            (
                Site(Storage(battery(11.0)), 3600.0),
                "battery.capacity_j is 36000000.0 in the plan, 39600000.0 at the site",
            ),
            (
                Site(Storage(PLAN.storage.battery, hydrogen()), 3600.0),
                "hydrogen is none in the plan, there at",
            ),
        ],
    )
    def test_other_site(self, site: Site, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            PLAN.check_site(site)
        assert message in str(caught.value)


class TestChain:
    def test_a_week_and_more(self) -> None:
        plans = [PLAN]
        for _ in range(60):
            plans.append(following(plans[-1]))
        store = PlanStore(plans)
        assert (len(store), store.start_s, store.end_s) == (61, 0.0, 61 * 10_800.0)
        assert store.place(0.0) == Place(0, 0)
        assert store.place(3599.9999) == Place(0, 0)
        assert store.place(3599.9999999) == Place(0, 1)
        assert store.place(10_800.0) == Place(1, 0)
        assert store.place(61 * 10_800.0 - 1) == Place(60, 2)
        assert store.place(61 * 10_800.0) is None
        assert store.place(-1.0) is None
        store.check_fits(two_kinds(), Site(PLAN.storage, 3600.0))

    def test_nothing(self) -> None:
        with pytest.raises(ConfigError, match="no window"):
            PlanStore([])

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            (
                following(PLAN, start_s=20_000.0),
                "window 1: starts at 20000 s, the previous window ends at 10800 s: a gap of 9200 s",
            ),
            (following(PLAN, start_s=7200.0), "an overlap of 3600 s"),
            (following(PLAN, storage=Storage(battery(10.0, charge_limit_w=4e3))), "battery.charge_limit_w"),
            (
                following(PLAN, servers=None),
                "this window and the previous one must both plan servers, or neither",
            ),
            (
                following(hand_plan(start_kwh=5.5)),
                "starts with the battery at 55 %, the previous window ends at 50 %",
            ),
        ],
    )
    def test_windows_that_do_not_follow(self, second: Plan, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            PlanStore([PLAN, second])
        assert message in str(caught.value)

    def test_refused_window_is_not_kept(self) -> None:
        store = PlanStore([PLAN])
        with pytest.raises(ConfigError):
            store.add(PLAN)
        store.add(following(PLAN))
        assert len(store) == 2

    @pytest.mark.parametrize(("apart", "fits"), [(0.9e-6, True), (1.1e-6, False)])
    def test_levels_may_differ_by_the_rounding_of_a_plan(self, apart: float, fits: bool) -> None:
        """A level within a plan's tolerance of a bound is put on it: of the battery's size and of a step."""
        size_j, _ = PLAN.power.level_scales(PLAN.storage, PLAN.step_s)
        pct = 50.0 + 100.0 * apart * size_j / PLAN.storage.battery.capacity_j
        site = Site(Storage(replace(PLAN.storage.battery, soc_start_pct=pct)), 3600.0)
        check = partial(PlanStore([PLAN]).check_fits, two_kinds(), site)
        if fits:
            check()
        else:
            with pytest.raises(ConfigError, match="the plan starts with the battery"):
                check()

    def test_hydrogen_may_differ_by_the_rounding_of_a_plan(self) -> None:
        tank = hydrogen(tank_kg=100.0, level_start_kg=0.0)
        storage = Storage(PLAN.storage.battery, tank)
        plan = replace(PLAN, storage=storage)
        size_kg = plan.power.level_scales(storage, PLAN.step_s)[1]
        for kg, fits in ((0.9e-6 * size_kg, True), (1.1e-6 * size_kg, False)):
            site = Site(replace(storage, hydrogen=replace(tank, level_start_kg=kg)), 3600.0)
            if fits:
                PlanStore([plan]).check_fits(two_kinds(), site)
            else:
                with pytest.raises(ConfigError, match="kg of hydrogen, the site with"):
                    PlanStore([plan]).check_fits(two_kinds(), site)

    def test_another_site_than_the_plan_is_for(self) -> None:
        site = Site(Storage(replace(PLAN.storage.battery, capacity_j=1.0)), 3600.0)
        with pytest.raises(ConfigError, match=r"window 0: battery.capacity_j .*: pass the .* or plan again"):
            PlanStore([PLAN]).check_fits(two_kinds(), site)

    def test_first_window_starts_elsewhere(self) -> None:
        site = Site(Storage(replace(PLAN.storage.battery, soc_start_pct=60.0)), 3600.0)
        with pytest.raises(ConfigError, match="the plan starts with the battery at 50 %, the site at 60 %"):
            PlanStore([PLAN]).check_fits(two_kinds(), site)
