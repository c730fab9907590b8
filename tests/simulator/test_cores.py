"""Hosts with several cores and two powers, ``idle:all_cores``: the least load draws the idle power."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from command_line import exit_code
from simulator.small import InOrder, job, write_files

from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

TWO_POWERS = {"100:110:200": "100:200", "90:95:150": "90:150"}


def four_cores(folder: Path) -> tuple[Path, Path]:
    """Two hosts of four cores, and jobs that compute on one core of each host for 10 s."""
    xml, workload = write_files(folder, [job("a"), job("b", 20, res=2)], fast=2, cores=4)
    text = xml.read_text()
    for three, two in TWO_POWERS.items():
        text = text.replace(three, two)
    xml.write_text(text)
    return xml, workload


def test_a_job_on_one_core_of_four_draws_a_quarter_above_the_idle_power(tmp_path: Path) -> None:
    xml, workload = four_cores(tmp_path)
    options = SimulationOptions(energy=True)
    simulation_from_files(Inputs(xml, [workload]), options, tmp_path / "out").run(InOrder())
    rows = [*csv.DictReader((tmp_path / "out_jobs.csv").open())]
    assert [float(row["consumed_energy"]) for row in rows] == [10 * 125, 2 * 10 * 125]


def test_the_daemons_own_account_agrees_with_the_meter(tmp_path: Path) -> None:
    xml, workload = four_cores(tmp_path)
    (tmp_path / "site.toml").write_text("[grid]\n[time]\nstep_s = 9\nwindow_h = 0.01\n")
    demand_w = {}
    for source in ("batsim", "model"):
        prefix = tmp_path / source
        files = ("-p", xml, "-w", workload, "--site", tmp_path / "site.toml", "-o", prefix, "-q")
        arguments = [*map(str, files), "--policy", "fcfs", "--energy", source]
        assert exit_code("simulate", *arguments) == 0
        with Path(f"{prefix}_energy_trace.csv").open() as file:
            demand_w[source] = [float(row["demand_w"]) for row in csv.DictReader(file)]
    assert max(demand_w["batsim"]) > 0.0
    assert demand_w["model"] == pytest.approx(demand_w["batsim"])
