"""Keys of [grid] for the battery and the peak: what they mean, and one message for each mistake."""

from __future__ import annotations

import math

import pytest

from beasy_sched.energy.grid import Announced
from beasy_sched.energy.grid_charging import grid_use
from beasy_sched.energy.grid_peak import PeakPeriod
from beasy_sched.energy.site import Site
from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import parse_site

BATTERY = "[battery]\ncapacity_kwh = 10.0\ncharge_limit_kw = 2.0\ndischarge_limit_kw = 2.0\n"
TIME = '[time]\nstart = "2022-01-31T00:00:00+01:00"\n'
TARIFF = "[[grid.tariff]]\nhours = [0, 6]\nper_kwh = 0.05\n[[grid.tariff]]\nhours = [6, 24]\nper_kwh = 0.30\n"


def site(grid: str, *, battery: bool = True, clock: bool = True, tariff: bool = True) -> Site:
    sections = [BATTERY if battery else "", TIME if clock else "", f"[grid]\n{grid}\n"]
    return parse_site("".join([*sections, TARIFF if tariff and clock else ""]), "site.toml")


def use_at(grid: str, hour: float) -> tuple[float, float, float]:
    return tuple(grid_use(site(grid).grid, hour * 3600.0, 300.0, Announced()))  # type: ignore[return-value]


def test_charge_by_price_and_by_hours() -> None:
    for rule in ("below_per_kwh = 0.08", "hours = [0, 6]"):
        grid = f"import_limit_kw = 1.5\ncharge = {{ {rule}, up_to_soc_pct = 80 }}"
        assert use_at(grid, 5.9) == (1500.0, 1500.0, 80.0)
        assert use_at(grid, 6.0) == (0.0, 0.0, 0.0)


def test_the_price_itself_is_not_below_it() -> None:
    assert use_at("charge = { below_per_kwh = 0.05 }", 1.0) == (0.0, 0.0, 0.0)
    assert use_at("charge = { below_per_kwh = 0.0501 }", 1.0) == (math.inf, math.inf, 90.0)


def test_the_battery_rests_up_to_the_price_of_discharge() -> None:
    assert use_at("discharge = { above_per_kwh = 0.05 }", 1.0)[0] == math.inf
    assert use_at("discharge = { above_per_kwh = 0.05 }", 7.0)[0] == 0.0


def test_shave_defends_the_peak_at_all_times() -> None:
    assert use_at('battery = "shave"\npeak_kw = 1.2', 7.0) == (1200.0, 0.0, 0.0)


def test_a_peak_costs_by_month_with_a_clock_else_by_window() -> None:
    of_month = site("peak_per_kw = 12.0").grid
    assert of_month is not None
    assert of_month.peak is not None
    assert (of_month.peak.per_kw, of_month.peak.period) == (12.0, PeakPeriod.MONTH)
    of_window = site("peak_per_kw = 12.0", clock=False).grid
    assert of_window is not None
    assert of_window.peak is not None
    assert of_window.peak.period is PeakPeriod.WINDOW
    chosen = site('peak_per_kw = 12.0\npeak_period = "window"').grid
    assert chosen is not None
    assert chosen.peak is not None
    assert chosen.peak.period is PeakPeriod.WINDOW


def test_a_grid_without_these_keys_has_no_rules() -> None:
    plain = site("import_limit_kw = 2.0").grid
    assert plain is not None
    assert plain.rules is None
    assert plain.peak is None


MISTAKES = {
    "no battery": (
        {"grid": "charge = { hours = [0, 5] }", "battery": False},
        "grid.charge: requires a battery: add a section [battery]",
    ),
    "rests without a battery": (
        {"grid": "discharge = { above_per_kwh = 0.2 }", "battery": False},
        "grid.discharge: requires a battery",
    ),
    "shaves without a battery": (
        {"grid": 'battery = "shave"\npeak_kw = 1.0', "battery": False},
        "grid.battery: requires a battery",
    ),
    "no import": (
        {"grid": "import_limit_kw = 0\ncharge = { hours = [0, 5] }"},
        "grid.charge: requires a grid that supplies power, but import_limit_kw is 0",
    ),
    "a peak without import": (
        {"grid": "import_limit_kw = 0\npeak_per_kw = 12"},
        "grid.peak_per_kw: requires a grid that supplies power",
    ),
    "no price": (
        {"grid": "charge = { below_per_kwh = 0.1 }", "tariff": False},
        "grid.charge.below_per_kwh: requires the grid's price: add a tariff, or price = FILE",
    ),
    "no price to rest by": (
        {"grid": "discharge = { above_per_kwh = 0.1 }", "tariff": False},
        "grid.discharge.above_per_kwh: requires the grid's price",
    ),
    "no carbon": (
        {"grid": "charge = { below_g_per_kwh = 100 }"},
        "grid.charge.below_g_per_kwh: requires the grid's carbon intensity: add carbon = FILE",
    ),
    "no clock": (
        {"grid": "charge = { hours = [0, 5] }", "clock": False},
        "grid.charge.hours: requires the site's clock: add [time] start",
    ),
    "hours": (
        {"grid": "charge = { hours = [0, 25] }"},
        "grid.charge.hours: found [0, 25], expected two different hours from 0 to 24",
    ),
    "no condition": ({"grid": "charge = { up_to_soc_pct = 80 }"}, "grid.charge: found none, expected one of"),
    "two conditions": (
        {"grid": "charge = { hours = [0, 5], below_per_kwh = 0.1 }"},
        "grid.charge: found below_per_kwh and hours, expected one of",
    ),
    "level": (
        {"grid": "charge = { hours = [0, 5], up_to_soc_pct = 95 }"},
        "grid.charge.up_to_soc_pct: found 95, expected above soc_min_pct (20) and at most soc_max_pct (90)",
    ),
    "low level": (
        {"grid": "charge = { hours = [0, 5], up_to_soc_pct = 20 }"},
        "grid.charge.up_to_soc_pct: found 20, expected above soc_min_pct (20)",
    ),
    "unit": (
        {"grid": "charge = { below_per_kwh = 80.0 }"},
        "grid.charge.below_per_kwh: found 80, expected at most",
    ),
    "serves where it charges": (
        {"grid": "charge = { below_per_kwh = 0.2 }\ndischarge = { above_per_kwh = 0.1 }"},
        "grid.discharge.above_per_kwh: found 0.1, below charge.below_per_kwh (0.2)",
    ),
    "shave without a peak": (
        {"grid": 'battery = "shave"'},
        'grid.battery: "shave" requires the import to defend: add peak_kw',
    ),
    "a peak that nothing defends": (
        {"grid": "peak_kw = 1.0"},
        'grid.peak_kw: requires battery = "shave": add it, or omit peak_kw',
    ),
    "a peak in watts": (
        {"grid": 'battery = "shave"\npeak_kw = 0'},
        "grid.peak_kw: found 0, expected above 0 and below 1e6 kW",
    ),
    "shaves and rests": (
        {"grid": 'battery = "shave"\npeak_kw = 1.0\ndischarge = { above_per_kwh = 0.1 }'},
        'grid.discharge: contradicts battery = "shave"',
    ),
    "negative peak price": (
        {"grid": "peak_per_kw = -1.0"},
        "grid.peak_per_kw: found -1, expected at least 0",
    ),
    "period without a price": (
        {"grid": 'peak_period = "window"'},
        "grid.peak_period: requires a price: add peak_per_kw",
    ),
    "month without a clock": (
        {"grid": 'peak_per_kw = 1.0\npeak_period = "month"', "clock": False},
        'grid.peak_period: "month" requires the site\'s clock',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_has_one_message(case: str) -> None:
    given, message = MISTAKES[case]
    with pytest.raises(InputError) as caught:
        site(**given)  # type: ignore[arg-type]
    assert str(caught.value).startswith("site.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
