"""The energy trace: a row a step, plain numbers, and the same sums as the summary's."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import exit_code
from small_site import STEPS, small_site

from beasy_sched.outputs.energy_trace import trace_csv

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
