"""Site files from a few sizes: what they say, with and without battery, hydrogen and grid."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.grid import Announced
from beasy_sched.energy.grid_charging import grid_use
from beasy_sched.energy.site import GuardMode
from beasy_sched.errors import ConfigError
from beasy_sched.formats.site_file import default_site, default_site_text, parse_site, read_site
from beasy_sched.generate.site_template import SiteSizes, site_text
from beasy_sched.units import j_to_kwh, w_to_kw

START = "2024-07-01T00:00:00+02:00"
SIZES = st.floats(0.1, 1000)


def test_without_sizes_it_is_the_site_of_the_program():
    text = site_text(SiteSizes())
    assert parse_site(text) == default_site()
    comments = [re.findall("#.*", text)[3:] for text in (text, default_site_text())]
    assert [" ".join(line.split()) for line in comments[0]] == [
        " ".join(line.split()) for line in comments[1]
    ]


@given(battery=st.none() | SIZES, hydrogen=st.none() | SIZES, grid=st.sampled_from([0.0, 5.0, math.inf]),
       base=st.sampled_from([0.0, 0.2]), price=st.none() | st.floats(0, 1), start=st.booleans(),
       veto=st.booleans())  # fmt: skip
def test_the_file_says_what_was_asked_for(battery, hydrogen, grid, base, price, start, veto):
    sizes = SiteSizes(
        battery_kwh=battery or 0.0,
        hydrogen_kg=hydrogen or 0.0,
        grid_kw=grid,
        base_kw=base,
        price_per_kwh=price if grid else None,
        start=START if start or price is not None else None,
        guard="kill-all",
        veto=veto,
    )
    site = parse_site(site_text(sizes))
    assert site.storage.battery.exists == (battery is not None)
    if battery is not None:
        assert j_to_kwh(site.storage.battery.capacity_j) == pytest.approx(battery)
        assert w_to_kw(site.storage.battery.charge_limit_w) == pytest.approx(battery / 4)
    assert (site.storage.hydrogen is None) == (hydrogen is None)
    if hydrogen is not None:
        assert site.storage.hydrogen.tank_kg == pytest.approx(hydrogen)
        assert w_to_kw(site.storage.hydrogen.fuel_cell_max_w) == pytest.approx(0.3 * hydrogen)
    assert (site.grid is None) == (not grid)
    if site.grid is not None:
        assert w_to_kw(site.grid.import_limit_w) == grid
        assert (site.grid.price is None) == (price is None)
    assert w_to_kw(site.base_w) == base
    assert (site.calendar is None) == (not sizes.start)
    assert (site.guard.mode, site.guard.veto) == (GuardMode.KILL_ALL, veto)


def test_every_line_of_the_programs_file_is_there_even_without_anything():
    text = site_text(SiteSizes(battery_kwh=0.0))
    fields = [re.findall(r"^(?:# )?(\w+) =", each, re.MULTILINE) for each in (text, default_site_text())]
    assert fields[0] == fields[1]
    assert "[battery]" not in re.findall(r"^\S+$", text, re.MULTILINE)


def test_comments_fit_the_values():
    text = site_text(SiteSizes(battery_kwh=50, charge_kw=50, grid_kw=1, price_per_kwh=0.2, start=START))
    assert re.search(r"^charge_limit_kw = 50 +# 1 of the capacity an hour$", text, re.MULTILINE)
    assert re.search(r"^hours = \[0, 24\] +# all hours;", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 115


def test_rules_of_the_grid_cooling_and_a_band():
    sizes = SiteSizes(
        grid_kw=2.4,
        start=START,
        charge_hours=(22, 6),
        peak_kw=1.8,
        peak_price_per_kw=12.0,
        pue=1.25,
        target_band_pct=3.0,
    )
    site = parse_site(site_text(sizes))
    grid = site.grid
    assert grid is not None
    assert grid.rules is not None
    assert grid.peak is not None
    assert (grid.rules.peak_w, grid.rules.rest, grid.peak.per_kw) == (1800.0, None, 12.0)
    nights = [grid_use(grid, 3600.0 * hour, 300.0, Announced()).charge_w > 0.0 for hour in (5, 6, 21, 22)]
    assert nights == [True, False, False, True]
    assert site.load_during(0.0, 300.0).pue == 1.25
    assert site.storage.battery.target_band_pct == 3.0


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"battery_kwh": 0.0, "discharge_kw": 3.0}, "--discharge-kw requires --battery-kwh"),
        ({"fuel_cell_kw": 3.0}, "--fuel-cell-kw requires --hydrogen-kg"),
        ({"price_per_kwh": 0.1}, "--price requires --grid-kw"),
        ({"price_per_kwh": 0.1, "grid_kw": 1.0}, "--price requires --start"),
        ({"charge_hours": (0, 5)}, "--charge-hours requires --grid-kw"),
        ({"charge_hours": (0, 5), "grid_kw": 1.0}, "--charge-hours requires --start"),
        ({"peak_kw": 1.0, "battery_kwh": 0.0}, "--peak-kw requires --battery-kwh"),
        ({"peak_price_per_kw": 1.0}, "--peak-price requires --grid-kw"),
        ({"target_band_pct": 1.0, "battery_kwh": 0.0}, "--target-band requires --battery-kwh"),
    ],
)
def test_sizes_of_what_is_not_there(sizes, told):
    with pytest.raises(ConfigError, match=told):
        site_text(SiteSizes(**sizes))


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    out = tmp_path / "site.toml"
    arguments = ("--battery-kwh", "none", "--hydrogen-kg", "8", "--start", "2024-07-01T00:00:00Z")
    assert exit_code("generate", "site", *arguments, "-o", str(out)) == 0
    site = read_site(out)
    assert not site.storage.battery.exists
    assert site.storage.hydrogen is not None
    assert capfd.readouterr().err == f"wrote {out}\n"
    assert exit_code("generate", "site", "-o", "-") == 0
    assert parse_site(capfd.readouterr().out) == default_site()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--battery-kwh", "-1"], "expected a number, 0 or more, or none"),
        (["--battery-kwh", "10", "--charge-kw", "1e6"], "battery.charge_limit_kw: found 1000000,"),
        (["--soc-start", "10"], "battery.soc_start_pct: found 10, expected between soc_min_pct (20)"),
        (["--start", "2024-07-01"], "expected a time with its offset from UTC"),
        (["--grid-kw", "much"], "expected a number, 0 or more, or none"),
        (["--window-h", "0.01"], "time.window_h"),
        (["--pue", "0.9"], "found '0.9', expected a number from 1 to 5"),
        (["--charge-hours", "night"], "found 'night', expected two hours, such as 22-6"),
        (["--charge-hours", "5-5", "--grid-kw", "1", "--start", START], "grid.charge.hours: found [5, 5]"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(arguments, told, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert exit_code("generate", "site", *arguments, "-o", str(tmp_path / "site.toml")) == 2
    assert told in " ".join(capfd.readouterr().err.split())
    assert not (tmp_path / "site.toml").exists()
