import math

import numpy as np
import pytest

from beasy_sched.energy.battery_life import LMO, BatteryLife, data_sheet_cell
from beasy_sched.energy.devices.battery import LossConvention
from beasy_sched.energy.devices.hydrogen import Hold
from beasy_sched.energy.grid import Known
from beasy_sched.energy.site import GuardMode
from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import default_site, default_site_text, parse_site, read_site

HYDROGEN = """
[hydrogen]
tank_kg = 10
level_start_kg = 5
level_target_kg = 4
electrolyzer_min_kw = 0.5
electrolyzer_max_kw = 5
fuel_cell_max_kw = 3
"""


def test_the_default_site_is_the_one_of_the_experiments():
    site = default_site()
    battery = site.storage.battery
    assert battery.capacity_j == pytest.approx(360e6)
    assert (battery.charge_limit_w, battery.discharge_limit_w) == (25e3, 50e3)
    assert (battery.soc_min_pct, battery.soc_max_pct) == (20, 90)
    assert battery.loss is LossConvention.PHYSICAL
    assert battery.self_discharge_per_day == pytest.approx(0.002)
    assert site.storage.hydrogen is None
    assert (site.step_s, site.window_s, site.steps) == (300, 259_200, 864)
    assert (site.guard.mode, site.guard.veto) == (GuardMode.SHED, True)


def test_hydrogen_guard_and_time_are_read_in_si(tmp_path):
    path = tmp_path / "site.toml"
    text = default_site_text().replace('"shed"', '"kill-all"').replace("window_h = 72", "window_h = 24")
    path.write_text(text + HYDROGEN, encoding="utf-8")
    site = read_site(path)
    assert site.storage.hydrogen is not None
    assert site.storage.hydrogen.electrolyzer_max_w == 5000
    assert site.storage.start().hydrogen_kg == 5
    assert site.storage.hydrogen.hold is Hold.SURPLUS
    assert site.guard.mode is GuardMode.KILL_ALL
    assert site.steps == 288
    assert site.guard.veto


@pytest.mark.parametrize("hold", Hold)
def test_when_the_hydrogen_is_held(hold):
    site = parse_site(f'{default_site_text()}{HYDROGEN}hold = "{hold.value}"')
    assert site.storage.hydrogen.hold is hold


def test_a_way_of_holding_that_nobody_knows():
    with pytest.raises(InputError) as told:
        parse_site(f'{default_site_text()}{HYDROGEN}hold = "always"')
    assert "hydrogen.hold: found 'always', expected one of never, curtailment, surplus" in str(told.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "capacity_kwh = 100.0",
            "capacity_kwh = -5",
            "battery.capacity_kwh: found -5, expected a finite number > 0",
        ),
        ("capacity_kwh = 100.0", "capacity_kwh = 0", "battery.capacity_kwh: found 0, expected"),
        ("capacity_kwh = 100.0", "capacity_kwh = nan", "battery.capacity_kwh: found nan, expected"),
        ("capacity_kwh = 100.0", "capacity_kwh = inf", "battery.capacity_kwh: found inf, expected"),
        ("capacity_kwh = 100.0", "capacity_kwh = 360000000", "found 360000000, expected at most 1e6 kWh (is"),
        (
            "capacity_kwh = 100.0",
            'capacity_kwh = "100"',
            "battery.capacity_kwh: found '100', expected a number",
        ),
        (
            "capacity_kwh = 100.0",
            "capacity_kwh = true",
            "battery.capacity_kwh: found true, expected a number",
        ),
        ("capacity_kwh = 100.0", "", "battery.capacity_kwh: is missing"),
        (
            "capacity_kwh = 100.0",
            "capacity_kwh = 1" + 400 * "0",
            "battery.capacity_kwh: found an integer of 401",
        ),
        (
            "capacity_kwh = 100.0",
            "capacity_kwh = 2019-01-01",
            "battery.capacity_kwh: found 2019-01-01, expected a number",
        ),
        (
            "capacity_kwh = 100.0",
            "capacity_wh = 1",
            "battery.capacity_wh: no such field, expected one of capacity_kwh",
        ),
        (
            "charge_limit_kw = 25.0",
            "charge_limit_kw = 25000",
            "battery.charge_limit_kw: found 25000, expected",
        ),
        ("discharge_limit_kw = 50.0", "discharge_limit_kw = nan", "battery.discharge_limit_kw: found nan"),
        (
            "soc_target_pct = 50.0",
            "soc_target_pct = 95",
            "battery.soc_target_pct: found 95, expected between",
        ),
        ("soc_start_pct = 50.0", "soc_start_pct = 0.5", "battery.soc_start_pct: found 0.5, expected between"),
        (
            "soc_max_pct = 90.0",
            "soc_max_pct = 0.9",
            "battery.soc_max_pct: found 0.9, expected above soc_min_pct",
        ),
        (
            "charge_efficiency = 0.95",
            "charge_efficiency = 95",
            "battery.charge_efficiency: found 95, expected",
        ),
        ("per_day = 0.2", "per_day = 100", "battery.self_discharge_pct_per_day: found 100, expected"),
        (
            'loss = "physical"',
            'loss = "none"',
            "battery.loss: found 'none', expected one of physical, printed",
        ),
        ("step_s = 300", "step_s = 0", "time.step_s: found 0, expected between 1 and 86400 seconds"),
        (
            "step_s = 300",
            "step_s = 700",
            "time.window_h: found 72, expected a whole number of steps of 700 s",
        ),
        (
            "window_h = 72",
            "window_h = 259200",
            "time.window_h: found 259200, expected above 0 and at most 8784",
        ),
        ('mode = "shed"', 'mode = "kill"', "guard.mode: found 'kill', expected one of shed, kill-all"),
        ("veto = true", "veto = 1", "guard.veto: found 1, expected true or false"),
        (
            "[guard]",
            "[gard]",
            "gard: no such field, expected one of battery, hydrogen, grid, cooling, load, time",
        ),
        ("[guard]", "[guard", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_field(old, new, message):
    text = default_site_text()
    assert old in text
    with pytest.raises(InputError) as error:
        parse_site(text.replace(old, new, 1), "my-site.toml")
    assert str(error.value).startswith("my-site.toml: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "level_start_kg = 5",
            "level_start_kg = 11",
            "hydrogen.level_start_kg: found 11, expected between 0",
        ),
        (
            "fuel_cell_max_kw = 3",
            "fuel_cell_max_kw = 3e6",
            "hydrogen.fuel_cell_max_kw: found 3000000, expected",
        ),
        (
            "electrolyzer_min_kw = 0.5",
            "electrolyzer_min_kw = 6",
            "hydrogen.electrolyzer_min_kw: found 6, expected",
        ),
        ("tank_kg = 10", "tank_kg = 1e7", "hydrogen.tank_kg: found 10000000, expected at most"),
    ],
)
def test_wrong_hydrogen_is_refused(old, new, message):
    with pytest.raises(InputError) as error:
        parse_site(default_site_text() + HYDROGEN.replace(old, new, 1))
    assert message in str(error.value)


GRID = """
[grid]
import_limit_kw = 2.0
[[grid.tariff]]
hours = [9, 23]
per_kwh = 0.13
[[grid.tariff]]
hours = [23, 9]
per_kwh = 0.08
[load]
base_kw = 0.085
[time]
start = "2010-07-12T09:00:00-04:00"
zone = "America/New_York"
"""


def test_a_site_with_a_grid_and_without_a_battery():
    site = parse_site(GRID)
    assert site.grid is not None
    assert site.calendar is not None
    assert not site.storage.battery.exists
    assert (site.grid.import_limit_w, site.base_w) == (2000, 85)
    assert site.grid.price.expected(0.0, 3600 * np.arange(13, 17)).tolist() == [0.13, 0.08, 0.08]
    assert str(site.calendar.zone) == "America/New_York"
    assert (site.step_s, site.window_s) == (300, 259_200)


def test_prices_and_carbon_from_files_beside_the_site_file(tmp_path):
    (tmp_path / "prices.csv").write_text("time_s,price_eur_per_mwh\n0,50\n3600,-20\n7200,80\n")
    (tmp_path / "carbon.csv").write_text("time,grams\n2010-07-12 13:00,300\n2010-07-12 14:00,400\n")
    (tmp_path / "site.toml").write_text(
        '[grid]\nexport = "net"\ncurrency = "EUR"\nprice = "prices.csv"\n'
        'carbon = { file = "carbon.csv", unit = "g/kWh", known = "24h" }\n'
        '[time]\nstart = "2010-07-12T09:00:00-04:00"\n'
    )
    grid = read_site(tmp_path / "site.toml").grid
    assert grid.price.rate.means(np.array([0.0, 3600.0, 7200.0])).tolist() == [0.05, -0.02]
    assert (grid.price.known, grid.carbon.known) == (Known.DAY_AHEAD, Known.DAY)
    assert grid.carbon.rate.means(np.array([0.0, 3600.0, 7200.0])).tolist() == [300, 400]
    assert (grid.import_limit_w, grid.may_export_w, grid.currency) == (math.inf, math.inf, "EUR")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("import_limit_kw = 2.0", "import_limit_kw = -1", "grid.import_limit_kw: found -1, expected >= 0"),
        ("import_limit_kw = 2.0", 'export = "sell"', "grid.export: found 'sell', expected one of none, feed"),
        ("import_limit_kw = 2.0", 'price = "p.csv"', "grid.price: found both a tariff and a price file"),
        ("hours = [9, 23]", "hours = [9, 22]", "grid.tariff: month 1 has no price from 22:00 on"),
        ("hours = [9, 23]", "hours = [8, 23]", "grid.tariff: month 1 has two prices from 8:00 on"),
        ("hours = [9, 23]", "hours = [9, 25]", "grid.tariff[0].hours: found [9, 25], expected"),
        ("hours = [9, 23]", "months = [0]", "grid.tariff[0].months: found 0, expected months from 1 to 12"),
        (
            "per_kwh = 0.13",
            "per_kwh = 13",
            "grid.tariff[0].per_kwh: found 13, expected at most 10 USD per kWh",
        ),
        ('start = "2010-07-12T09:00:00-04:00"', "", "time.zone: requires time.start"),
        ("09:00:00-04:00", "09:00:00", "found 2010-07-12T09:00:00, expected a time with its offset"),
        ("09:00:00-04:00", "09:00:00-05:00", "has another offset from UTC than America/New_York"),
        ("America/New_York", "New York", "time.zone: found 'New York', expected a time zone such as"),
        ("base_kw = 0.085", "base_kw = -1", "load.base_kw: found -1, expected at least 0"),
        ("base_kw = 0.085", "base_kw = 85000000", "load.base_kw: found 85000000, expected at least 0"),
    ],
)
def test_a_wrong_grid_is_refused(old, new, message):
    assert old in GRID
    with pytest.raises(InputError) as error:
        parse_site(GRID.replace(old, new, 1), "my-site.toml")
    assert str(error.value).startswith("my-site.toml: ")
    assert message in str(error.value)


LIFE = """\
[battery]
capacity_kwh = 10
charge_limit_kw = 2.5
discharge_limit_kw = 5
[battery.life]
cycles = [[20, 20000], [80, 4000]]
calendar_years = 15
temperature_c = 30
price_per_kwh = 300
"""


def test_how_the_battery_ages():
    site = parse_site(LIFE)
    life = site.battery_life
    assert life.model == data_sheet_cell([(0.2, 20_000), (0.8, 4_000)], 15)
    assert (life.temperature_c, life.price_per_kwh, life.currency) == (30, 300, "USD")
    assert site.storage == parse_site(LIFE.partition("[battery.life]")[0]).storage
    assert parse_site(LIFE + '[grid]\ncurrency = "EUR"\n').battery_life.currency == "EUR"
    cells = LIFE.partition("[battery.life]")[0] + '[battery.life]\nchemistry = "lmo"\ncurrency = "GBP"\n'
    assert parse_site(cells).battery_life == BatteryLife(LMO, currency="GBP")
    assert default_site().battery_life is None


SHEET = "cycles = [[20, 20000], [80, 4000]]\ncalendar_years = 15\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            SHEET,
            'chemistry = "nmc"\n',
            "chemistry: found 'nmc', expected lmo, or in its place a data sheet: cycl",
        ),
        (SHEET, "", "battery.life.price_per_kwh: requires a chemistry or a data sheet: add chemistry"),
        (
            SHEET + "temperature_c = 30\nprice_per_kwh = 300\n",
            "",
            "battery.life: requires a chemistry or a data",
        ),
        (
            "calendar_years",
            'chemistry = "lmo"\ncalendar_years',
            "found both a chemistry and a table of cycles",
        ),
        (
            SHEET,
            'chemistry = "lmo"\ncalendar_years = 9\n',
            "calendar_years: found 9, expected no value together with a che",
        ),
        ("calendar_years = 15\n", "", "battery.life.calendar_years: is missing: the years until 80 %"),
        ("years = 15", "years = 0", "battery.life.calendar_years: found 0, expected above 0 and at most 100"),
        ("[[20, 20000], [80, 4000]]", "[]", "battery.life.cycles: found [], expected at least one row"),
        (
            "[80, 4000]",
            "[120, 4000]",
            "life.cycles[1]: found 120, expected a depth of discharge above 20 and at",
        ),
        (
            "[80, 4000]",
            "[10, 4000]",
            "life.cycles[1]: found 10, expected a depth of discharge above 20 and at",
        ),
        (
            "[80, 4000]",
            "[80, 40000]",
            "life.cycles[1]: found 40000, expected cycles above 0, and not more than",
        ),
        (
            "[80, 4000]",
            "[80, 0]",
            "life.cycles[1]: found 0, expected cycles above 0, and not more than those",
        ),
        (
            "temperature_c = 30",
            "temperature_c = 300",
            "battery.life.temperature_c: found 300, expected between 0",
        ),
        (
            "price_per_kwh = 300",
            "price_per_kwh = -1",
            "battery.life.price_per_kwh: found -1, expected at least 0",
        ),
        (
            "price_per_kwh = 300\n",
            'currency = "EUR"\n[grid]\n',
            "battery.life.currency: found 'EUR', expected USD, the",
        ),
        ("price_per_kwh", "price", "battery.life.price: no such field, expected one of chemistry, cycles"),
    ],
)
def test_a_wrong_life_is_refused(old, new, message):
    assert old in LIFE
    with pytest.raises(InputError) as error:
        parse_site(LIFE.replace(old, new, 1), "my-site.toml")
    assert str(error.value).startswith("my-site.toml: ")
    assert message in str(error.value)


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("beasy_sched.extras.is_installed", lambda module: False)
    with pytest.raises(InputError, match=r"battery life needs rainflow: pip install '\.\[life\]'"):
        parse_site(LIFE)


@pytest.mark.parametrize("section", ["[[grid.tariff]]\nper_kwh = 0.1", '[grid]\nprice = "prices.csv"'])
def test_prices_require_the_moment_of_time_0(section):
    with pytest.raises(InputError, match=r"requires \[time\] start"):
        parse_site(section)


def test_net_metering_requires_a_price():
    with pytest.raises(InputError, match=r'grid\.export: "net" requires a price'):
        parse_site('[grid]\nexport = "net"')


def test_a_missing_or_binary_file_is_told_plainly(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_site(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_site(tmp_path / "binary.toml")


def priced(tmp_path, name, value, grid=""):
    rows = "".join(f"{3600 * hour},{value}\n" for hour in range(3))
    (tmp_path / "prices.csv").write_text(f"time_s,{name}\n{rows}")
    text = f'[time]\nstart = "2024-01-01T00:00:00+00:00"\n[grid]\nprice = "prices.csv"\n{grid}'
    return parse_site(text, tmp_path / "site.toml").grid


def test_all_prices_are_in_the_currency_of_the_price_file_unless_the_site_states_one(tmp_path):
    assert priced(tmp_path, "price [EUR/MWh]", 50).currency == "EUR"
    assert priced(tmp_path, "price_per_kwh", 0.05).currency == "USD"
    grid = priced(tmp_path, "price [ct/kWh]", 4, 'currency = "€"\n')
    assert (grid.currency, grid.price.rate.values.tolist()) == ("€", [0.04] * 3)
    with pytest.raises(InputError, match=r"unit 'INR/MWh' is not one of EUR, the site's currency"):
        priced(tmp_path, "price [INR/MWh]", 50, 'currency = "EUR"\n')


def test_a_feed_in_price_is_per_kwh(tmp_path):
    assert priced(tmp_path, "price [JPY/kWh]", 15, "feed_in_per_kwh = 16\n").feed_in_per_kwh == 16
    with pytest.raises(InputError, match=r"grid\.feed_in_per_kwh: found 60, expected at most 10 EUR per kWh"):
        priced(tmp_path, "price [EUR/MWh]", 50, "feed_in_per_kwh = 60\n")


def test_tariffs_go_by_the_currency():
    yen = GRID.replace("[grid]", '[grid]\ncurrency = "JPY"').replace("per_kwh = 0.13", "per_kwh = 31.5")
    assert parse_site(yen).grid.price.rate.per_kwh.max() == 31.5
    with pytest.raises(InputError, match=r"per_kwh: found 31500, expected at most 1000 JPY per kWh"):
        parse_site(yen.replace("31.5", "31500"))
