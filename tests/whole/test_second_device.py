"""A second battery and a river, one file each (`flow_battery`, `river`): they are in every part of a run."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from flow_battery import FlowBattery
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import battery, hydrogen, problem
from river import RIVER
from small_site import SmallSite, small_site

from beasy_sched.energy import sources
from beasy_sched.energy.balance import StepRecord, settle_step, step_headroom_j
from beasy_sched.energy.devices import kinds
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenPlan
from beasy_sched.energy.hourly_balance import balance_hours
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.plan_file import read_plans, write_plans
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.formats.site_file import parse_site
from beasy_sched.planner.power_plan import plan_power
from beasy_sched.planner.power_problem import power_violations
from beasy_sched.plugins.reports.energy_charts import SITE as SITE_NODE
from beasy_sched.plugins.reports.energy_charts import energy_flows
from beasy_sched.plugins.reports.run_data import read_run_data
from beasy_sched.protocol.notices import notice

KWH = 3.6e6
SITE = """
[flow_battery]
electrolyte_kwh = 8
power_kw = 2
start_kwh = 4
target_kwh = 2

[[source]]
name = "mill"
kind = "river"
flow_m3_s = 0.01
head_m = 2.5
"""
RIVER_W = 1000 * 9.81 * 0.01 * 2.5 * 0.8


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two kinds are registered, as an entry point of another package would do it."""
    for table, name, kind in ((kinds.KINDS, "flow_battery", FlowBattery), (sources.KINDS, "river", RIVER)):
        monkeypatch.setitem(table, name, kind)  # which removes it after the test
        del table[name]
    kinds.register(FlowBattery)
    sources.register(RIVER)


def run(*arguments: str) -> None:
    assert exit_code(*arguments) == 0


def flow(**changes: float) -> FlowBattery:
    return FlowBattery(**{"electrolyte_j": 8 * KWH, "power_w": 2e3, "start_j": 4 * KWH, **changes})


def both(flow_battery: FlowBattery | None = None, first: BatterySpec | None = None) -> Storage:
    return Storage.of([first or battery(1.0), flow_battery or flow()], NO_BATTERY)


class TestSiteFile:
    def test_its_sections(self) -> None:
        site = parse_site(SITE)
        assert site.storage.other_devices == (flow(target_j=2 * KWH),)
        (mill,) = site.sources
        assert (mill.name, mill.kind) == ("mill", RIVER)
        assert mill.series is not None
        assert mill.series.mean_w(0.0, 300.0) == pytest.approx(RIVER_W)

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            (
                "power_kw = 2",
                "power_kw = -2",
                r"flow_battery.power_kw: found -2, expected a finite number > 0",
            ),
            (
                "power_kw = 2",
                "power_w = 2",
                r"flow_battery.power_w: no such field, expected one of electrolyte_kwh",
            ),
            ("head_m = 2.5", "head_m = 0", r"source\[0\].head_m: found 0, expected a finite number > 0"),
            ("head_m = 2.5", "", r"source\[0\].head_m: is missing"),
            ('"river"', '"tide"', r"source\[0\].kind: found 'tide', expected one of sun, river"),
            (
                "[flow_battery]",
                "[tank]",
                r"tank: no such field, expected one of battery, hydrogen, flow_battery",
            ),
        ],
    )
    def test_its_errors_name_the_key(self, before: str, after: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            parse_site(SITE.replace(before, after))

    def test_a_source_is_named_once(self) -> None:
        with pytest.raises(InputError, match=r"source\[1\].name: found 'mill' twice"):
            parse_site(SITE + SITE[SITE.index("[[source]]") :])


class TestBalance:
    def settled(self, storage: Storage, renew_w: float, demand_w: float) -> tuple[StepRecord, StorageState]:
        state = storage.start()
        record, after = settle_step(storage, state, dt_s=3600.0, consumed_j=demand_w * 3600, renew_w=renew_w)
        assert record.relative_residual < 1e-12
        return record, after

    def test_it_serves_after_the_first(self) -> None:
        record, after = self.settled(both(), 0.0, 2000.0)
        step = record.others["flow_battery"]
        assert record.discharge_w == pytest.approx(500.0)  # all of half a kWh
        assert (step.out_w, step.in_w) == (pytest.approx(1500.0), 0.0)
        assert after.others == (pytest.approx(4 * KWH - 1500 * 3600 / 0.9),)
        assert record.unserved_w == pytest.approx(0.0)

    def test_it_takes_what_the_first_leaves(self) -> None:
        record, after = self.settled(both(), 3000.0, 0.0)
        assert record.charge_w == pytest.approx(500.0)
        assert record.others["flow_battery"].in_w == pytest.approx(2000.0)
        assert record.curtailed_w == pytest.approx(500.0)
        assert after.others == (pytest.approx(6 * KWH),)

    def test_its_limits(self) -> None:
        record, after = self.settled(both(flow(start_j=7.5 * KWH)), 3000.0, 0.0)
        assert after.others == (8 * KWH,)
        assert record.curtailed_w == pytest.approx(2000.0)
        record, after = self.settled(both(flow(start_j=0.9 * KWH)), 0.0, 3000.0)
        assert after.others == (pytest.approx(0.0),)
        assert record.unserved_w == pytest.approx(3000.0 - 500.0 - 810.0)

    @given(
        first_pct=st.floats(0.0, 100.0),
        level=st.floats(0.0, 8.0),
        level_kg=st.floats(0.0, 2.0),
        renew_w=st.floats(0.0, 12e3),
        demand_w=st.floats(0.0, 12e3),
        planned=st.tuples(st.floats(0.0, 4e3), st.floats(0.0, 2e3)),
        dt_s=st.sampled_from([60.0, 300.0, 3600.0]),
    )
    def test_any_step(
        self,
        first_pct: float,
        level: float,
        level_kg: float,
        renew_w: float,
        demand_w: float,
        planned: tuple[float, float],
        dt_s: float,
    ) -> None:
        """Energy closes, limits hold, and nothing is curtailed or unserved that a device could help with."""
        storage = Storage.of([battery(1.0), hydrogen(), flow()], NO_BATTERY)
        state = StorageState(first_pct / 100 * KWH, level_kg, (level * KWH,))
        record, after = settle_step(
            storage,
            state,
            dt_s=dt_s,
            consumed_j=demand_w * dt_s,
            renew_w=renew_w,
            planned=HydrogenPlan(*planned, 0.5 * KWH),
        )
        assert record.relative_residual < 1e-9
        step = record.others["flow_battery"]
        assert min(step.in_w, step.out_w) == 0.0
        assert -1e-3 <= after.others[0] <= 8 * KWH + 1e-3
        device = storage.other_devices[0]
        if record.curtailed_w > 1e-6:
            assert step.in_w == pytest.approx(device.takes_w(level * KWH, math.inf, dt_s))
        if record.unserved_w > 1e-6:
            assert step.out_w == pytest.approx(device.gives_w(level * KWH, math.inf, dt_s))

    def test_the_servers_may_use_it(self) -> None:
        storage = both()
        headroom_j = step_headroom_j(storage, storage.start(), dt_s=3600.0, renew_w=100.0)
        assert headroom_j == pytest.approx((100 + 500 + 2000) * 3600)


class TestPlan:
    def test_it_serves_the_night(self) -> None:
        """The first battery alone cannot."""
        alone = plan_power(problem([1] * 4, [4, 4, 0, 0], battery(1.0)))
        together = plan_power(problem([1] * 4, [4, 4, 0, 0], both(flow(start_j=0.0))))
        assert alone.plan is not None
        assert together.plan is not None
        assert alone.plan.relax_factor > 0.4
        assert together.plan.relax_factor == 0.0
        flows = together.plan.flows_of(flow())
        assert flows.out_w.sum() >= 999.0
        assert flows.in_w.sum() == pytest.approx(flows.out_w.sum() / 0.9)
        assert (np.minimum(flows.in_w, flows.out_w) == 0.0).all()

    def test_its_target(self) -> None:
        case = problem([1] * 3, [3, 3, 3], both(flow(start_j=0.0, target_j=3 * KWH)))
        plan = plan_power(case).plan
        assert plan is not None
        assert plan.flows_of(flow()).level[-1] >= 3 * KWH * (1 - 1e-9)
        decision = plan_power(replace(case, renew_w=case.renew_w / 10))
        assert "flow_battery: cannot reach 3 kWh after 3 h" in decision.solved.message

    @pytest.mark.parametrize(
        ("part", "step", "value", "constraint"),
        [
            ("in_w", 0, 2100.0, "flow_battery: power in <= its limit"),
            ("in_w", 1, -10.0, "flow_battery: power in >= 0"),
            ("out_w", 2, 2100.0, "flow_battery: power out <= its limit"),
            ("out_w", 0, 100.0, "flow_battery: power in excludes power out"),
            ("level", 1, 8.1 * KWH, "flow_battery: level <= its most"),
            ("level", 2, -0.1 * KWH, "flow_battery: level >= its least"),
            ("level", 1, 0.5 * KWH, "flow_battery: development"),
            ("level", 0, 0.5 * KWH, "flow_battery: starts at the level given"),
        ],
    )
    def test_the_check_finds_what_the_step_could_not_do(
        self, part: str, step: int, value: float, constraint: str
    ) -> None:
        case = problem([1] * 4, [4, 4, 0, 0], both(flow(start_j=0.0)))
        plan = plan_power(case).plan
        assert plan is not None
        assert power_violations(plan, case) == ()
        flows = plan.flows_of(flow())
        values = getattr(flows, part).copy()
        values[step] = value
        flows = flows._replace(**{part: values})
        if constraint.endswith("excludes power out"):
            flows = flows._replace(in_w=np.maximum(flows.in_w, 50.0))
        wrong = replace(plan, others={"flow_battery": flows})
        assert constraint in [violation.constraint for violation in power_violations(wrong, case)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    site = small_site(tmp_path_factory.mktemp("site"), jobs=60)
    small = site.site.read_text().replace("capacity_kwh = 6.0", "capacity_kwh = 0.5")
    site.site.write_text(small + SITE)
    return site


def planned(made: SmallSite, folder: Path) -> Path:
    path = folder / "plan.msgpack"
    inputs = ["-p", made.platform, "-w", made.workload, "--site", made.site, "--production", made.events]
    run("plan", *map(str, inputs), "-q", "-o", str(path))
    return path


class TestRun:
    """A plan, a run with it, and what the run's files and commands say."""

    def test_a_whole_run(self, made: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        plan_path, prefix = planned(made, tmp_path), tmp_path / "run"
        plans = read_plans(plan_path)
        level = plans[0].power.flows_of(plans[0].storage.other_devices[0]).level
        assert level[0] == 4 * KWH
        assert np.ptp(level) > 0.0
        assert plans[0].power.renew_w.min() >= RIVER_W * (1 - 1e-9)  # the river is in the plan
        write_plans(tmp_path / "again.msgpack", plans)
        assert (tmp_path / "again.msgpack").read_bytes() == plan_path.read_bytes()

        inputs = ["-p", made.platform, "-w", made.workload, "--events", made.events, "--site", made.site]
        run(
            "simulate",
            *map(str, inputs),
            "--plan",
            str(plan_path),
            "--policy",
            "easy",
            "-q",
            "-o",
            str(prefix),
        )

        rows = [*csv.DictReader(Path(f"{prefix}_energy_trace.csv").read_text().splitlines())]
        assert len(rows) == 288
        trace = {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}
        assert np.abs(trace["residual_j"]).max() < 1e-3
        assert trace["river_w"] == pytest.approx(RIVER_W)
        assert (trace["renewable_w"] >= RIVER_W * (1 - 1e-9)).all()
        supply_w = sum(trace[name] for name in ("renewable_w", "discharge_w", "fuel_cell_w", "unserved_w"))
        uses_w = sum(trace[name] for name in ("demand_w", "charge_w", "electrolyzer_w", "curtailed_w"))
        net_w = trace["flow_battery_out_w"] - trace["flow_battery_in_w"]
        np.testing.assert_allclose(supply_w + net_w, uses_w, atol=1e-6)  # by the columns alone
        assert trace["flow_battery_out_w"].max() > 0.0
        change_j = 300 * (trace["flow_battery_in_w"] - trace["flow_battery_out_w"] / 0.9)
        np.testing.assert_allclose(trace["flow_battery_kwh"], 4 + np.cumsum(change_j) / KWH, atol=1e-9)
        np.testing.assert_allclose(trace["planned_flow_battery_kwh"], level[1:] / KWH)

        summary = read_summary(str(prefix))
        assert summary.site is not None
        figures = summary.site.devices["flow_battery"]
        assert figures["size_kwh"] == 8.0
        assert figures["final_kwh"] == pytest.approx(trace["flow_battery_kwh"][-1])
        assert figures["out_kwh"] == pytest.approx(trace["flow_battery_out_w"].sum() * 300 / KWH)

        capsys.readouterr()
        active = int(np.argmax(trace["flow_battery_out_w"]))
        run("explain", str(prefix), "--at", str(active * 300))
        told = capsys.readouterr().out
        assert "Flow battery: discharged with" in told
        assert "River: 196 W of the production." in told
        run("plan", "show", str(plan_path))
        assert "from flow battery" in capsys.readouterr().out
        run("plan", "show", str(plan_path), "-q", "--export-csv", str(tmp_path / "plan.csv"))
        (last,) = [*csv.DictReader((tmp_path / "plan.csv").read_text().splitlines())][-1:]
        assert float(last["flow_battery_kwh"]) == pytest.approx(level[-1] / KWH)
        run("report", str(prefix), "-o", str(tmp_path / "report.html"))
        page = (tmp_path / "report.html").read_text()
        assert "a flow battery (8 kWh)" in page
        assert "Flow battery: energy stored" in page
        flows = energy_flows(read_run_data("run", str(prefix)))
        assert {"river_w", "flow_battery_out_w"} <= {each.start for each in flows}
        came, went = (sum(e.kwh for e in flows if getattr(e, end) == SITE_NODE) for end in ("end", "start"))
        assert came == pytest.approx(went)
        from beasy_sched.plugins.reports.notebook import draw_run

        assert "flow battery [kWh]" in {panel.get_ylabel() for panel in draw_run(str(prefix)).axes}
        rows[0]["river_w"] = ""
        lines = [",".join(row.values()) for row in rows]
        Path(f"{prefix}_energy_trace.csv").write_text("\n".join([",".join(rows[0]), *lines, ""]))
        assert math.isnan(read_run_data("run", str(prefix)).trace["river_w"][0])

    def test_a_plan_of_another_site(self, made: SmallSite, tmp_path: Path) -> None:
        plans = read_plans(planned(made, tmp_path))
        site = parse_site(made.site.read_text())
        plans[0].check_site(site)
        bigger = parse_site(made.site.read_text().replace("electrolyte_kwh = 8", "electrolyte_kwh = 9"))
        with pytest.raises(
            ConfigError, match=r"flow_battery.electrolyte_j is 28800000.0 in the plan, 32400000"
        ):
            plans[0].check_site(bigger)
        without = replace(site, storage=Storage(site.storage.battery))
        with pytest.raises(ConfigError, match=r"flow_battery is there in the plan, none at the site"):
            plans[0].check_site(without)

    def test_its_part_may_be_announced(self) -> None:
        event = notice(
            0.0, "power", {"power_available": 500.0, "sun_available": 100.0, "river_available": 300.0}
        )
        assert event.parts_w == {"sun": 100.0, "river": 300.0}  # type: ignore[attr-defined]
        wrong = notice(0.0, "power", {"type": "power", "power_available": 500.0, "river_available": 600.0})
        assert "found river_available 600.0" in wrong.problem  # type: ignore[attr-defined]


def test_what_does_not_model_it_says_so() -> None:
    with pytest.raises(ConfigError, match=r"sizing by energy alone does not model the device 'flow_battery'"):
        balance_hours(np.ones((2, 1)), np.ones((2, 1)), [both()])


class TestRegistry:
    def test_a_subclass_has_its_own_columns(self) -> None:
        @dataclass(frozen=True)
        class Second(BatterySpec):
            section = "second_battery"
            title = "second battery"

        assert Second.fields is None
        assert Second.columns[:3] == ("second_battery_in_w", "second_battery_out_w", "second_battery_soc_pct")
        kinds.register(Second)
        del kinds.KINDS["second_battery"]

    def test_two_kinds_of_one_name(self) -> None:
        @dataclass(frozen=True)
        class Other(BatterySpec):
            section = "flow_battery"

        with pytest.raises(ConfigError, match=r"device 'flow_battery' .* choose other names"):
            kinds.register(Other)
        with pytest.raises(ConfigError, match=r"source 'brook': its name, field or column"):
            sources.register(replace(RIVER, name="brook"))

    def test_a_plan_with_an_unknown_device(self) -> None:
        with pytest.raises(ConfigError, match=r"device 'flywheel': unknown; expected one of battery"):
            Storage(NO_BATTERY, None, {"flywheel": {}})
