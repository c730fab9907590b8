"""The part of a run's summary about its battery's life."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from summaries import made_up

import beasy_sched as bs
from beasy_sched.energy.battery_life import LMO, wear_of
from beasy_sched.formats.run_summary import read_members
from beasy_sched.outputs.tables import Contender, comparison_lines, summary_rows

SITE = """\
[battery]
capacity_kwh = 4
charge_limit_kw = 1
discharge_limit_kw = 2
[time]
window_h = 24
"""
LIFE = '[battery.life]\nchemistry = "lmo"\ntemperature_c = 30\nprice_per_kwh = 250\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that differ in whether the site says how its battery ages."""
    place = tmp_path_factory.mktemp("life")
    bs.generate_platform({"gros": 4}, place / "platform.xml")
    bs.generate_workload(place / "workload.json", hosts=4, jobs=40, seed=1)
    bs.generate_power(place / "power.txt", pv_kw=1, wind_kw=0.5)
    for name, text in {
        "plain": SITE,
        "life": SITE + LIFE,
        "unpriced": SITE + LIFE.rpartition("price")[0],
    }.items():
        (place / f"{name}.toml").write_text(text)
        bs.simulate(
            place / "platform.xml",
            place / "workload.json",
            place / "power.txt",
            site=place / f"{name}.toml",
            policy="easy",
            windows=3,
            export=place / name,
        )
    return place


@pytest.mark.slow
def test_it_is_the_wear_of_the_trace(folder: Path):
    run = bs.read_run(folder / "life")
    trace, part = run.energy_trace, run.summary["battery_life"]
    times_s = np.array([0.0, *(trace["start_s"] + trace["duration_s"])])
    wear = wear_of(LMO, 30.0, times_s, np.array([50.0, *trace["soc_pct"]]) / 100.0)
    assert wear.full_cycles > 0.1
    assert part["soh_final_pct"] == pytest.approx(100 * wear.health)
    assert part["full_cycles"] == pytest.approx(wear.full_cycles)
    assert part["years_to_80_pct"] == pytest.approx(wear.years_to_end)
    assert part["wear_cost"] == pytest.approx(wear.life_used * 4 * 250)
    assert part["wear_cost_per_kwh"] == pytest.approx(
        part["wear_cost"] / run.summary["energy_kwh"]["discharged"]
    )
    assert (part["chemistry"], part["currency"]) == ("lmo", "USD")


def test_without_it_all_files_are_the_same(folder: Path):
    plain, life = (read_members(str(folder / name)) for name in ("plain", "life"))
    assert life.pop("battery_life")
    for members in (plain, life):
        members["settings"].pop("site")
    assert plain == life
    for path in folder.glob("plain_*"):
        if not path.name.endswith(("summary.json", "inputs.json", "schedule.csv")):  # it has computing times
            assert path.read_bytes() == (folder / path.name.replace("plain", "life")).read_bytes()


def test_without_a_price_there_is_no_cost(folder: Path):
    priced, unpriced = (read_members(str(folder / name))["battery_life"] for name in ("life", "unpriced"))
    assert unpriced == {**priced, "wear_cost": None, "wear_cost_per_kwh": None}


def test_tables():
    figures = {"currency": "GBP", "soh_final_pct": 99.5, "years_to_80_pct": 8.44, "wear_cost": 3.0}
    life = made_up(complete=True, battery_life={**figures, "wear_cost_per_kwh": 0.0625})
    rows = dict(summary_rows(life))
    assert rows["battery's state of health at the end"] == "99.500 %"
    assert rows["  years until 80 % if this run repeats"] == "8.4"
    assert rows["  battery degradation cost"] == "3.00 GBP"
    assert rows["  per kWh discharged"] == "0.0625 GBP"
    plain = made_up(complete=True)
    assert not any("battery" in label or "wear" in label for label, _ in summary_rows(plain))
    lines = comparison_lines([Contender("a", life), Contender("b", plain)])
    assert "to 80 %" in lines[1]
    assert "GBP" in lines[2]
    assert lines[3].split()[-3:-1] == ["8.4", "3.00"]
    assert "to 80 %" not in comparison_lines([Contender("b", plain)])[1]
