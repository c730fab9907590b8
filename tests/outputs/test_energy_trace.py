"""The energy trace: a row a step, plain numbers, and the same sums as the summary's."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import exit_code
from small_site import STEPS, small_site
from talk import small_battery
from worlds import FAST, plans_of

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import TraceRow
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import trace_csv
from beasy_sched.outputs.summary import _planned_part
from beasy_sched.planner.plan import PlanStore

Columns = dict[str, list[float]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run on a small site."""
    folder = tmp_path_factory.mktemp("run")
    site = small_site(folder)
    files = {"-p": site.platform, "-w": site.workload, "--events": site.events, "--site": site.site}
    arguments = [str(part) for pair in files.items() for part in pair]
    assert (
        exit_code("simulate", "-q", "--policy", "power-reactive", *arguments, "-e", str(folder / "run")) == 0
    )
    return folder


@pytest.fixture(scope="module")
def trace(folder: Path) -> Columns:
    with (folder / "run_energy_trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def test_one_row_a_step(trace: Columns) -> None:
    assert trace["step"] == list(range(STEPS))
    starts = trace["start_s"]
    ends = [start + length for start, length in zip(starts, trace["duration_s"], strict=True)]
    assert ends[:-1] == pytest.approx(starts[1:], abs=1e-6)
    assert ends[-1] == pytest.approx(86400, abs=0.01)


def test_what_comes_in_goes_out(trace: Columns) -> None:
    """Each step: sun and storage feed the servers and the storage, and what is left is curtailed or lacks."""
    assert max(trace["curtailed_w"]) > 0
    assert max(trace["discharge_w"]) > 0
    for row in zip(*(trace[name] for name in _POWERS), strict=True):
        renewable, discharge, fuel_cell, unserved, demand, charge, electrolyzer, curtailed = row
        supply = renewable + discharge + fuel_cell + unserved
        assert supply == pytest.approx(demand + charge + electrolyzer + curtailed, abs=1e-6)


_POWERS = [
    "renewable_w",
    "discharge_w",
    "fuel_cell_w",
    "unserved_w",
    "demand_w",
    "charge_w",
    "electrolyzer_w",
    "curtailed_w",
]


def test_levels(trace: Columns, folder: Path) -> None:
    site = json.loads((folder / "run_summary.json").read_text())["site"]
    assert all(0 <= level <= 100 for level in trace["soc_pct"])
    assert min(trace["soc_pct"]) == site["soc_lowest_pct"]
    assert trace["soc_pct"][-1] == site["soc_final_pct"]
    assert site["steps"] == STEPS


@pytest.mark.parametrize(
    ("column", "total"),
    [
        ("renewable_w", "production"),
        ("demand_w", "consumed"),
        ("charge_w", "charged"),
        ("discharge_w", "discharged"),
        ("curtailed_w", "curtailed"),
        ("unserved_w", "unserved"),
    ],
)
def test_sums_are_the_summarys(trace: Columns, folder: Path, column: str, total: str) -> None:
    energy_kwh = json.loads((folder / "run_summary.json").read_text())["energy_kwh"]
    found_j = sum(power * length for power, length in zip(trace[column], trace["duration_s"], strict=True))
    assert found_j / 3.6e6 == pytest.approx(energy_kwh[total], rel=1e-9, abs=1e-9)


def test_no_steps() -> None:
    (header,) = trace_csv([]).splitlines()
    assert header.startswith("step,start_s,duration_s,renewable_w,")


def test_what_servers_used_is_shared_out_without_a_rest(folder: Path) -> None:
    energy_kwh = json.loads((folder / "run_summary.json").read_text())["energy_kwh"]
    jobs_kwh = energy_kwh["finished_jobs"] + energy_kwh["other_jobs"]
    rest_kwh = energy_kwh["idle"] + energy_kwh["transitions"] + energy_kwh["sleeping"]
    assert min(jobs_kwh, rest_kwh) > 0
    assert jobs_kwh + rest_kwh == pytest.approx(energy_kwh["consumed_by_own_account"])
    assert energy_kwh["wasted"] == pytest.approx(energy_kwh["other_jobs"] + rest_kwh)


def test_planned_levels_are_those_at_the_end_of_the_step_like_the_true_ones() -> None:
    """Beyond the plan's window the planned columns are empty."""
    hydrogen = HydrogenSpec(1.0, 0.5, 0.0, electrolyzer_max_w=200.0, fuel_cell_max_w=200.0)
    site = small_battery(steps=2)
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, hydrogen))
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    (plan,) = plans_of(site, platform, [np.zeros((2, 1), dtype=np.int8)], [100.0, -50.0])
    more_w = np.array([1000.0, 2000.0]) / 60
    rising = dataclasses.replace(
        plan.power,
        renew_w=plan.power.renew_w + more_w,
        charge_w=plan.power.charge_w + more_w,
        battery_j=np.array([50_000.0, 51_000.0, 53_000.0]),
    )
    plans = PlanStore([dataclasses.replace(plan, power=rising)])
    record, _ = settle_step(site.storage, site.storage.start(), dt_s=60.0, consumed_j=0.0, renew_w=0.0)
    text = trace_csv([TraceRow(step, 60.0 * step, record) for step in range(3)], plans)
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["planned_soc_pct"] for row in rows] == ["51.0", "53.0", ""]
    levels_kg = [repr(float(level)) for level in plan.power.hydrogen_kg]
    assert len(set(levels_kg)) == 3
    assert [row["planned_hydrogen_kg"] for row in rows] == [*levels_kg[1:], ""]
    assert [row["planned_servers_on"] for row in rows] == ["1", "1", ""]


def test_the_summary_tells_how_far_demand_was_relaxed_at_most() -> None:
    site = small_battery(steps=1)
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    windows = plans_of(site, platform, [np.zeros((1, 1), dtype=np.int8)] * 3)
    plans = PlanStore(
        dataclasses.replace(
            plan, power=dataclasses.replace(plan.power, load_w=plan.power.load_w / (1 - factor))
        )
        for plan, factor in zip(windows, (0.1, 0.3, 0.6), strict=True)
    )
    record, _ = settle_step(site.storage, site.storage.start(), dt_s=60.0, consumed_j=0.0, renew_w=0.0)
    power = SimpleNamespace(trace=[TraceRow(step, 60.0 * step, record) for step in range(2)])
    part = _planned_part(power, plans)
    assert part.steps == 2
    assert part.relax_factor == pytest.approx(0.3)
    assert part.energy_kwh.servers == pytest.approx(2 * 60 * 100 / 3.6e6)
