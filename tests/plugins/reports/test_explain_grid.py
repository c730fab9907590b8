"""Sentences of `explain` about a battery that rests at low prices, or defends a peak."""

from __future__ import annotations

from pathlib import Path

import pytest
from complete_site import CHARGING, SHAVING, complete_site

import beasy_sched.api as bs
from beasy_sched.formats.run_summary import GridTerms
from beasy_sched.plugins.reports.explain_time import _kept, explain_steps


def terms(**changes: float) -> GridTerms:
    return GridTerms(
        capacity_j=3.6e7,
        min_j=7.2e6,
        max_j=3.24e7,
        start_j=1.8e7,
        charge_efficiency=1.0,
        drawn_per_delivered=1.0,
        self_discharge_per_day=0.0,
        window_s=86_400.0,
        **changes,
    )


def row(**changes: float) -> dict[str, float]:
    usual = {"grid_import_w": 500.0, "discharge_w": 0.0, "soc_pct": 60.0, "import_price_per_kwh": 0.1}
    return {**usual, **changes}


RESTS = "at a price of at most 0.2 EUR/kWh, it rests ([grid] discharge)"
KEEPS = "the battery keeps its charge for imports above 600 W, [grid] peak_kw"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, [f"The battery did not serve: {RESTS}"]),
        ({"import_price_per_kwh": 0.2}, [f"The battery did not serve: {RESTS}"]),
        ({"discharge_w": 30.0}, [f"The battery served only what exceeded the import limit: {RESTS}"]),
        ({"import_price_per_kwh": 0.3}, []),
        ({"grid_charge_w": 100.0}, []),
        ({"soc_pct": 20.0}, []),
    ],
)
def test_a_battery_that_rests(changes: dict, told: list[str]) -> None:
    assert [*_kept(row(**changes), terms(rests_up_to_per_kwh=0.2), "EUR")] == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, [f"The battery did not serve: {KEEPS}"]),
        ({"grid_import_w": 600.0, "discharge_w": 200.0}, [f"The grid served first: {KEEPS}"]),
        (
            {"grid_import_w": 700.0, "discharge_w": 200.0},
            ["The import exceeded [grid] peak_kw by 100 W: beyond the power and energy of the battery"],
        ),
        (
            {"grid_import_w": 700.0, "soc_pct": 20.0},
            ["The import exceeded [grid] peak_kw by 100 W: the battery was empty"],
        ),
        ({"soc_pct": 20.0}, []),
        ({"grid_charge_w": 100.0}, []),
    ],
)
def test_a_battery_that_shaves(changes: dict, told: list[str]) -> None:
    assert [*_kept(row(**changes), terms(defended_w=600.0), "EUR")] == told


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (CHARGING, f"The battery served only what exceeded the import limit: {RESTS}.".replace("EUR", "USD")),
        (SHAVING, f"The grid served first: {KEEPS}."),
    ],
    ids=["charging", "shaving"],
)
def test_what_a_run_shows(rules: str, words: str, tmp_path: Path) -> None:
    site = complete_site(tmp_path, rules)
    bs.simulate(site.platform, site.workload, site.events, site=site.site, export=tmp_path / "run")
    steps = explain_steps(str(tmp_path / "run"))
    told = [entry.text for *_, chapters in steps for entry in chapters[0].entries]
    assert words in told
    assert any("peak_kw" in text for text in told) == (rules == SHAVING)
