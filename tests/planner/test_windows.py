"""Windows planned one after the other, on a small platform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET
from plan_cases import battery, two_kinds

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.plan_file import json_text, plan_bytes, read_plans, write_plans
from beasy_sched.model.choices import Surplus
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.tables import plan_kwh, plan_rows
from beasy_sched.planner.forecast import full_draw_w
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import PlanStore, Provenance
from beasy_sched.planner.windows import NoPlan, plan_windows

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

SPEC = battery(2.0, soc_min_pct=10.0, soc_target_pct=50.0, self_discharge_per_day=0.01)
SITE = Site(Storage(SPEC), step_s=300.0, window_s=6 * 3600.0)
PLATFORM = two_kinds(6)
HOURS = np.arange(4 * 72) / 12.0
LOAD_W = 200.0 + 150.0 * (HOURS % 6 < 3)
RENEW_W = 500.0 * np.maximum(0.0, np.sin(HOURS / 3.0 * np.pi)) + 120.0


def planned(
    load_w: FloatArray = LOAD_W,
    renew_w: FloatArray = RENEW_W,
    load_quantiles: Quantiles | None = None,
    **choices: object,
) -> PlanStore:
    options = OfflineOptions(**choices)  # type: ignore[arg-type]
    return plan_windows(
        SITE,
        PLATFORM,
        load_w,
        renew_w,
        options=options,
        provenance=Provenance("a test", inputs={"site": "0"}),
        load_quantiles=load_quantiles,
    )


def test_four_windows_follow_each_other() -> None:
    seen: list[float] = []
    plans = plan_windows(SITE, PLATFORM, LOAD_W, RENEW_W, provenance=Provenance("a test"), report=seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]
    assert [plan.start_s for plan in plans] == [0.0, 21_600.0, 43_200.0, 64_800.0]
    for before, after in zip(list(plans)[:-1], list(plans)[1:], strict=True):
        assert after.level_at(0) == before.level_at(-1)
        assert before.soc_pct[-1] >= 50.0 - 1e-4
    plans.check_fits(PLATFORM, SITE)


def test_servers_stay_within_the_envelope_and_the_floor_is_kept() -> None:
    dark = planned(renew_w=RENEW_W * (RENEW_W > 121.0) + 70.0)
    for plan in dark:
        assert plan.servers is not None
        assert np.all(plan.servers.energy_j <= plan.power.envelope_w * 300.0 * (1 + 1e-6))


def test_provenance() -> None:
    provenance = planned(surplus=Surplus.STORE)[1].provenance
    assert provenance.solver.startswith("HiGHS ")
    assert provenance.inputs == {"site": "0"}
    assert provenance.settings["surplus"] == "store"
    assert [(solved.name, solved.status) for solved in provenance.solved] == [
        ("power", "optimal"),
        ("servers", "optimal"),
    ]
    assert provenance.solved[0].gap <= 1e-4


def test_demand_beyond_the_servers_is_not_planned_for() -> None:
    assert planned(LOAD_W * 10)[0].power.load_w.max() == 5 * 120.0 + 90.0


def test_summary() -> None:
    plan = planned()[0]
    kwh = plan_kwh(plan)
    power = plan.power
    hours = 300.0 / 3600.0 / 1000.0
    assert kwh["demand"] == pytest.approx(LOAD_W[:72].sum() * hours)
    assert kwh["production"] == pytest.approx(RENEW_W[:72].sum() * hours)
    assert kwh["envelope"] == pytest.approx(
        kwh["production"] + kwh["discharged"] - kwh["charged"] - kwh["curtailed"]
    )
    assert kwh["served"] <= kwh["demand"] + 1e-9
    rows = dict(plan_rows(PlanStore([plan])))
    least_pct = float(plan.soc_pct.min())
    assert least_pct == pytest.approx(100 * power.battery_j.min() / SPEC.capacity_j)
    assert rows["state of charge: start, lowest, end"].split(", ")[1] == f"{least_pct:.2f}"
    assert rows["servers on, mean"].endswith(" of 6")
    assert kwh["servers"] <= kwh["envelope"]


class TestRefusals:
    def test_forecasts_that_fill_no_window(self) -> None:
        with pytest.raises(ConfigError, match="whole windows of 72 steps"):
            planned(LOAD_W[:80], RENEW_W[:80])

    def test_platform_without_powers(self) -> None:
        bare = replace(PLATFORM.kinds[0], idle_w=(), epsilon_w=(), full_w=())
        platform = Platform((bare,), np.zeros(2, dtype=np.intp), ("a", "b"))
        with pytest.raises(ConfigError, match="speed and power of every P-state of every host"):
            plan_windows(SITE, platform, LOAD_W, RENEW_W, provenance=Provenance("a test"))

    def test_window_without_a_plan_is_named(self) -> None:
        dark = np.concatenate((RENEW_W[:72], np.zeros(72)))
        with pytest.raises(
            NoPlan, match=r"window 1: soc_target_pct: the battery cannot reach 50.00 % after 6 h"
        ):
            planned(LOAD_W[:144], dark)


def test_a_site_with_a_grid_and_without_a_battery(tmp_path: Path) -> None:
    """The plan, its table and its file tell the grid; other plans have nothing of it."""
    site = Site(Storage(NO_BATTERY), 300.0, 6 * 3600.0, grid=Grid(150.0), base_w=20.0)
    plans = plan_windows(site, PLATFORM, LOAD_W, RENEW_W * 0.5, provenance=Provenance("a test"))
    for plan in plans:
        assert plan.power.import_w.max() > 1.0
        assert plan.power.import_w.max() <= 150.0 * (1 + 1e-6)
        assert np.isnan(plan.soc_pct).all()
        produced_w = plan.power.renew_w + plan.power.import_w - 20.0
        np.testing.assert_allclose(plan.power.produced_w, produced_w, atol=1e-6)
        np.testing.assert_allclose(plan.predictions().energy_j, 0.0)
    rows = dict(plan_rows(PlanStore([plans[0]])))
    assert rows["  from the grid"] == f"{plan_kwh(plans[0])['import']:,.2f} kWh"
    assert rows["  for the base load"] == "-0.12 kWh"
    assert "state of charge: start, lowest, end" not in rows
    plans.check_fits(PLATFORM, site)
    write_plans(tmp_path / "plan", plans)
    back = read_plans(tmp_path / "plan")
    np.testing.assert_array_equal(back[0].power.import_w, plans[0].power.import_w)
    assert back[0].power.base_w == 20.0
    assert '"import_w"' not in json_text(planned()).decode()
    assert "  from the grid" not in dict(plan_rows(planned()))


def test_the_demand_is_its_mean_over_the_forecast_step() -> None:
    """The plan keeps it, with its provenance; the last block of a window may be shorter."""
    plans = planned(forecast_step_s=7200.0)
    for window, plan in enumerate(plans):
        asked_w = LOAD_W[window * 72 : (window + 1) * 72].reshape(3, 24)
        assert plan.power.load_w.reshape(3, 24) == pytest.approx(
            np.repeat(asked_w.mean(1), 24).reshape(3, 24)
        )
        assert plan.provenance.settings["forecast_step_s"] == "7200"
    assert "forecast_step_s" not in planned()[0].provenance.settings


@pytest.mark.parametrize("step_s", [100.0, 450.0, 1e-9])
def test_a_forecast_step_is_a_multiple_of_the_sites_step(step_s: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a multiple of the site's step \(300 s\)"):
        planned(forecast_step_s=step_s)


def test_quantiles_of_the_demand_change_nothing_but_its_bounds() -> None:
    by_level_w = np.stack([0.5 * LOAD_W, LOAD_W, np.full(len(LOAD_W), 1e9)])
    quantiles = Quantiles(np.array([0.1, 0.5, 0.9]), by_level_w)
    plain, bounded = planned(), planned(load_quantiles=quantiles)
    for before, plan in zip(plain, bounded, strict=True):
        assert before.load_quantiles is UNSET
        assert plan.power.battery_j.tolist() == before.power.battery_j.tolist()
        rows = slice(round(plan.start_s / 300.0), round(plan.end_s / 300.0))
        assert plan.demand.low_w.tolist() == (0.5 * LOAD_W[rows]).tolist()
        assert plan.demand.value_w.tolist() == before.demand.value_w.tolist()
        assert plan.demand.high_w.tolist() == [full_draw_w(PLATFORM)] * plan.steps
    assert plan_bytes(PlanStore([replace(plan, load_quantiles=UNSET) for plan in bounded])) == plan_bytes(
        plain
    )


def test_quantiles_are_averaged_as_the_demand_is() -> None:
    quantiles = Quantiles(np.array([0.1, 0.9]), np.stack([0.5 * LOAD_W, 1.5 * LOAD_W]))
    plan = planned(load_quantiles=quantiles, forecast_step_s=6 * 3600.0)[0]
    mean_w = LOAD_W[:72].mean()
    assert np.stack(plan.demand) == pytest.approx(np.outer([0.5, 1.0, 1.5], np.full(72, mean_w)))
