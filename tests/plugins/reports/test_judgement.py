"""The first screen: figures of a run, and the verdicts on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugins.reports.by_hand import summary, write_run
from summaries import members

from beasy_sched.plugins.reports import judgement
from beasy_sched.plugins.reports.comparison import best_values
from beasy_sched.plugins.reports.judgement import Bounds, Grade, cards, cards_html, compared
from beasy_sched.plugins.reports.run_data import RunData, read_run_data

pytest.importorskip("pyarrow", reason="reports need pyarrow")

WORDS = ("a", "b", "c")


def run_of(tmp_path: Path, name: str = "a", **changes: Any) -> RunData:
    told = summary()
    for part, values in changes.items():
        told[part] = {**told.get(part, {}), **values}
    return read_run_data(name, write_run(tmp_path / name, summary=json.dumps(members(**told))))


@pytest.mark.parametrize(
    ("bounds", "judged", "verdict"),
    [
        (Bounds(1.0, 10.0, WORDS), 1.0, Grade.GOOD),
        (Bounds(1.0, 10.0, WORDS), 1.01, Grade.FAIR),
        (Bounds(1.0, 10.0, WORDS), 10.01, Grade.BAD),
        (Bounds(1.0, -0.5, WORDS, least=True), 1.0, Grade.GOOD),
        (Bounds(1.0, -0.5, WORDS, least=True), -0.5, Grade.FAIR),
        (Bounds(1.0, -0.5, WORDS, least=True), -0.51, Grade.BAD),
    ],
)
def test_bounds(bounds: Bounds, judged: float, verdict: Grade) -> None:
    card = bounds.card("t", "v", "d", judged)
    assert (card.verdict, card.word) == (verdict, WORDS[[*Grade].index(verdict)])


def test_every_bound_has_its_good_side_right() -> None:
    for name, bounds in vars(judgement).items():
        if isinstance(bounds, Bounds):
            assert bounds.good >= bounds.fair if bounds.least else bounds.good <= bounds.fair, name


def test_cards_of_a_run(tmp_path: Path) -> None:
    found = {card.title: (card.value, card.detail, card.verdict) for card in cards(run_of(tmp_path))}
    assert found == {
        "Finished": ("25.00 %", "1 of 4 jobs", Grade.BAD),
        "Killed": ("1", "25.00 % of the jobs; 1 not completely finished; 1 postponed", Grade.BAD),
        "Lowest charge": ("45.00 %", "its minimum is 20 %", Grade.GOOD),
        "Final charge": ("60.00 %", "10.00 points above its target of 50 %", Grade.GOOD),
        "Self-sufficiency": ("100.00 %", "of the load; 0.00 kWh unserved", Grade.GOOD),
        "Curtailed": ("0.10 kWh", "10.00 % of the production", Grade.FAIR),
        "Wasted": ("0.40 kWh", "44.44 % of the servers' energy", Grade.BAD),
        "Slowdown": ("1.50", "median 1.20; mean wait 20 s", Grade.GOOD),
    }


def test_a_target_missed_and_power_missing(tmp_path: Path) -> None:
    site = {"soc_final_pct": 44.9, "soc_distance_points": -5.1, "soc_lowest_pct": 20.5}
    found = {card.title: card for card in cards(run_of(tmp_path, site=site, energy_kwh={"unserved": 0.45}))}
    assert (found["Final charge"].verdict, found["Final charge"].word) == (Grade.BAD, "target missed")
    assert found["Final charge"].detail.startswith("5.10 points below")
    assert found["Lowest charge"].word == "down to its minimum"
    assert (found["Self-sufficiency"].value, found["Self-sufficiency"].verdict) == ("50.00 %", Grade.BAD)


@pytest.mark.parametrize(
    ("away", "verdict", "detail"),
    [
        (-7e-15, Grade.GOOD, "at its target of 50 %"),
        (-0.04, Grade.GOOD, "at its target of 50 %"),
        (-0.06, Grade.FAIR, "0.06 points below its target of 50 %"),
        (38.7, Grade.GOOD, "38.70 points above its target of 50 %"),
    ],
)
def test_a_target_is_reached_where_the_table_shows_no_difference(
    tmp_path: Path, away: float, verdict: Grade, detail: str
) -> None:
    run = run_of(tmp_path, site={"soc_final_pct": 50.0 + away, "soc_distance_points": away})
    card = next(card for card in cards(run) if card.title == "Final charge")
    assert (card.verdict, card.detail) == (verdict, detail)


def test_the_best_of_runs(tmp_path: Path) -> None:
    """Runs that reach the target are all marked, and the one that needed nothing from elsewhere."""
    changes = {
        "on it": ({"soc_distance_points": -7e-15}, {"unserved": 0.0}),
        "above": ({"soc_distance_points": 40.0}, {"unserved": 0.45}),
        "below": ({"soc_distance_points": -30.01}, {"unserved": 0.09}),
    }
    runs = [run_of(tmp_path, name, site=site, energy_kwh=kwh) for name, (site, kwh) in changes.items()]
    columns, rows = compared([*runs, read_run_data("none", write_run(tmp_path / "none", summary=None))])
    best = {c.title: found for c, found in zip(columns, best_values(columns, rows), strict=True) if found}
    assert best == {"charge off target": {0.0, 40.0}, "self-sufficient": {100.0}}


def test_with_a_grid_the_share_is_told_and_not_judged(tmp_path: Path) -> None:
    grid = {"currency": "EUR", "cost": 1.5, "import_kwh": 0.25, "green_kwh": 0.75, "mean_import_price": 6.0}
    energy = {"consumed": 0.9, "base": 0.1, "import": 0.25}
    found = {card.title: card for card in cards(run_of(tmp_path, grid=grid, energy_kwh=energy))}
    assert (found["Self-sufficiency"].value, found["Self-sufficiency"].verdict) == ("75.00 %", None)
    assert found["Cost of the import"].value == "1.50 EUR"
    assert 'class="verdict' not in cards_html([found["Self-sufficiency"]])


def test_the_life_of_the_battery_is_told_and_not_judged(tmp_path: Path) -> None:
    life = {"currency": "EUR", "soh_final_pct": 99.5, "years_to_80_pct": 8.44, "wear_cost": 3.0}
    run = run_of(tmp_path, battery_life={**life, "wear_cost_per_kwh": 0.0625})
    found = {card.title: card for card in cards(run)}
    assert (found["Battery life"].value, found["Battery life"].verdict) == ("8.4 years", None)
    assert "99.500 %" in found["Battery life"].detail
    assert (found["Battery degradation cost"].value, found["Battery degradation cost"].detail) == (
        "3.00 EUR",
        "0.0625 EUR per kWh discharged",
    )
    unpriced = {**life, "wear_cost": None, "wear_cost_per_kwh": None}
    titles = [card.title for card in cards(run_of(tmp_path, "b", battery_life=unpriced))]
    assert "Battery life" in titles
    assert "Battery degradation cost" not in titles


def test_a_run_without_summary_tells_of_its_jobs(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", summary=None))
    assert [card.title for card in cards(run)] == ["Finished", "Killed"]


def test_signs_and_words_beside_the_colour(tmp_path: Path) -> None:
    text = cards_html(cards(run_of(tmp_path)))
    assert '<p class="verdict bad"><span aria-hidden="true">\u2715</span> many did not</p>' in text
    assert cards_html([]) == ""


def test_figures_that_runs_are_compared_by(tmp_path: Path) -> None:
    columns, (first, second) = compared([run_of(tmp_path), run_of(tmp_path, "b", settings={"policy": "b"})])
    shown = {
        column.title: column.text(value)
        for column, value in zip(columns, first.values, strict=True)
        if value is not None
    }
    assert shown == {
        "finished": "25.00", "killed": "25.00", "lowest charge": "45.00", "charge off target": "+10.0",
        "self-sufficient": "100.00", "curtailed": "0.10", "wasted": "0.40", "slowdown": "1.50",
        "mean wait": "20",
    }  # fmt: skip
    assert (first.name, first.note) == ("a", "policy easy")
    assert (second.name, second.note) == ("b", "")
