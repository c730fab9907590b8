"""Prices and carbon intensities as markets and services write them."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from beasy_sched.energy.calendar import Calendar
from beasy_sched.errors import InputError
from beasy_sched.formats.grid_rates import CARBON, PRICE, RateFile, RateGaps, read_rate

REAL = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "price_carbon"
HOUR = 3600.0


def calendar(text="2022-01-01T00:00:00+01:00", zone="Europe/Paris"):
    return Calendar(datetime.fromisoformat(text), ZoneInfo(zone) if zone else None)


def rate(tmp_path, text, quantity=PRICE, at=None, **how):
    path = tmp_path / "rates.csv"
    path.write_text(text, encoding="utf-8")
    return read_rate(RateFile(path, quantity, **how), at or calendar()).signal


def hours(signal):
    return (signal.times_s / HOUR).tolist(), signal.values.tolist()


def entsoe(rows, *, zone="CET"):
    return f'"MTU ({zone})","Day-ahead Price [EUR/MWh]","BZN|FR"\n' + "".join(
        f'"{day} {first} - {day} {last}","{price}"\n' for day, first, last, price in rows
    )


def test_entsoe_on_the_day_of_the_change_to_summer_time(tmp_path):
    day = "27.03.2022"
    rows = [(day, "00:00", "01:00", 10), (day, "01:00", "02:00", -20), (day, "02:00", "03:00", ""),
            (day, "03:00", "04:00", 40)]  # fmt: skip
    signal = rate(tmp_path, entsoe(rows), at=calendar("2022-03-27T00:00:00+01:00"))
    assert hours(signal) == ([0, 1, 2, 3], [0.01, -0.02, 0.04])


def test_entsoe_on_the_day_of_the_change_back(tmp_path):
    day = "30.10.2022"
    rows = [(day, "01:00", "02:00", 10), (day, "02:00", "03:00", 20), (day, "02:00", "03:00", 30),
            (day, "03:00", "04:00", 40)]  # fmt: skip
    signal = rate(tmp_path, entsoe(rows), at=calendar("2022-10-30T00:00:00+02:00"))
    assert hours(signal) == ([1, 2, 3, 4, 5], [0.01, 0.02, 0.03, 0.04])


def test_entsoe_quoted_once_more_and_not_yet_published(tmp_path):
    text = (
        '"MTU (CET/CEST),""Day-ahead Price [EUR/MWh]"",""Currency"",""BZN|AT"""\n'
        '"01.01.2022 00:00 - 01.01.2022 01:00,""61.84"",""EUR"""\n'
        '"01.01.2022 01:00 - 01.01.2022 02:00,""51.44"",""EUR"""\n'
        '"01.01.2022 02:00 - 01.01.2022 03:00,""-"","""""\n'
    )
    times, values = hours(rate(tmp_path, text))
    assert times == [0, 1, 2]
    assert values == pytest.approx([0.06184, 0.05144])


def omie(day, count):
    rows = "".join(f"{day},{hour},{hour}\n" for hour in range(1, count + 1))
    return f"date,hour,price_eur_per_mwh\n{rows}"


@pytest.mark.parametrize(
    ("day", "start", "count", "lengths"),
    [
        ("2026-01-01", "2026-01-01T00:00:00+01:00", 24, [1] * 24),
        ("2026-03-29", "2026-03-29T00:00:00+01:00", 23, [1] * 23),
        ("2026-03-29", "2026-03-29T00:00:00+01:00", 24, [1] * 23),
        ("2026-10-25", "2026-10-25T00:00:00+02:00", 25, [1] * 25),
        ("2026-10-25", "2026-10-25T00:00:00+02:00", 24, [1, 1, 2] + [1] * 21),
    ],
)
def test_hours_of_local_days(tmp_path, day, start, count, lengths):
    signal = rate(tmp_path, omie(day, count), at=calendar(start, "Europe/Madrid"))
    assert (np.diff(signal.times_s) / HOUR).tolist() == lengths
    skipped = [3] if len(lengths) < count else []
    expected = [hour / 1000 for hour in range(1, count + 1) if hour not in skipped]
    assert signal.values.tolist() == pytest.approx(expected)


def test_nord_pool_has_no_times(tmp_path):
    text = "Spot price (SEK/MWh)\n100\n200\n"
    with pytest.raises(InputError, match="has no time column: give the time of the first value"):
        rate(tmp_path, text)
    start = datetime.fromisoformat("2022-01-01T02:00:00+01:00")
    assert hours(rate(tmp_path, text, start=start)) == ([2, 3, 4], [0.1, 0.2])


def test_times_without_an_offset_are_utc(tmp_path):
    text = "time,price_per_kwh\n2022-01-01 00:00,0.1\n2022-01-01 01:00,0.2\n"
    assert hours(rate(tmp_path, text)) == ([1, 2, 3], [0.1, 0.2])


CHOICES = (
    "Datetime (UTC),Carbon Intensity gCO2eq/kWh (direct),Carbon Intensity gCO2eq/kWh (LCA),"
    "Low Carbon Percentage\n01/01/2022 00:00,25.09,43.84,94\n"
    "01/01/2022 01:00,26.73,46.22,93\n01/01/2022 02:00,26.73,46.22,93\n"
)


def test_direct_or_life_cycle_must_be_chosen(tmp_path):
    with pytest.raises(InputError, match=r"2 columns seem to hold the carbon: choose one with carbon = "):
        rate(tmp_path, CHOICES, CARBON)
    chosen = rate(tmp_path, CHOICES, CARBON, column="Carbon Intensity gCO2eq/kWh (LCA)")
    assert hours(chosen) == ([1, 2, 3, 4], [43.84, 46.22, 46.22])
    with pytest.raises(InputError, match="has no column 'CO2'"):
        rate(tmp_path, CHOICES, CARBON, column="CO2")


GAP = "time_s,price_per_kwh\n0,0.1\n3600,0.2\n14400,0.5\n18000,\n21600,0.7\n25200,\n"


def test_gaps(tmp_path):
    with pytest.raises(InputError, match=r"rates.csv:3: has 3 intervals without a value"):
        rate(tmp_path, GAP)
    held = rate(tmp_path, GAP, gaps=RateGaps.HOLD)
    assert hours(held) == ([0, 1, 2, 3, 4, 5, 6, 7], [0.1, 0.2, 0.2, 0.2, 0.5, 0.5, 0.7])
    line = rate(tmp_path, GAP, gaps=RateGaps.INTERPOLATE)
    assert line.values.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "time_s,price_per_kwh\n0,51\n3600,50\n",
            "rates.csv:2: price_per_kwh: 51 USD per kWh is not a credible",
        ),
        ("time_s,price\n0,51\n3600,50\n", "column 'price' does not state its unit"),
        ("time_s,price_per_kwh\n0,1\n", "has 1 values in column"),
        ("time_s,price_per_kwh\n0,1\n3600,1\n3600,2\n", "rates.csv:4: is not later than line 3"),
        ("time_s,price_per_kwh\n0,1\n3600,cheap\n", "rates.csv:3: price_per_kwh: found 'cheap'"),
        ("date,hour,price_per_kwh\n2022-01-01,0,1\n2022-01-01,1,1\n", "hour: found '0', expected 1 to 24"),
        ("date,hour,price_per_kwh\n1.1.2022,1,1\n1.1.2022,2,1\n", "date: found '1.1.2022', expected a day"),
        ("wind,sun\n1,2\n", "no header line was found"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    with pytest.raises(InputError) as told:
        rate(tmp_path, text)
    assert message in str(told.value)


@pytest.mark.parametrize("unit", ["EUR/MWh", "EUR per MWh"])
def test_a_unit_beside_the_file(tmp_path, unit):
    assert rate(tmp_path, "time_s,price\n0,51\n3600,50\n", unit=unit).values.tolist() == [0.051, 0.05]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "quantity", "start", "zone", "how", "count"),
    [
        ("entsoe_FR_day_ahead_2019.csv", PRICE, "2019-01-01T00:00:00+01:00", "Europe/Paris", {}, 8760),
        ("entsoe_AT_day_ahead_2022.csv", PRICE, "2022-01-01T00:00:00+01:00", "Europe/Vienna", {}, 4943),
        ("omie_ES_2026H1_DA_IDA.csv", PRICE, "2026-01-01T00:00:00+01:00", "Europe/Madrid",
         {"column": "Precio_DA", "gaps": RateGaps.HOLD}, 4343),
        ("electricitymaps_FR_2022_hourly.csv", CARBON, "2022-01-01T00:00:00+00:00", None,
         {"column": "Carbon Intensity gCO2eq/kWh (direct)"}, 8760),
        ("eia_CISO_NG_avgCI.csv", CARBON, "2022-01-01T00:00:00+00:00", None,
         {"gaps": RateGaps.INTERPOLATE}, 8760),
    ],
)  # fmt: skip
def test_real_files(name, quantity, start, zone, how, count):
    if not REAL.is_dir():
        pytest.skip("no real prices beside the project (../shared/data)")
    signal = read_rate(RateFile(REAL / name, quantity, **how), calendar(start, zone)).signal
    assert len(signal.values) == count
    assert signal.times_s[0] == 0
    assert set(np.diff(signal.times_s)) == {HOUR}


def column(name, *values):
    return f"time,{name}\n" + "".join(
        f"2022-01-01 {hour:02}:00,{value}\n" for hour, value in enumerate(values)
    )


@pytest.mark.parametrize(
    ("name", "currency", "unit"),
    [
        ("price [ct/kWh]", "EUR", None),
        ("price [Cent/kWh]", "EUR", None),
        ("price [EURct/kWh]", "EUR", None),
        ("price [p/kWh]", "GBP", None),
        ("price [¢/kWh]", "USD", None),
        ("price [øre/kWh]", "NOK", None),
        ("price", "EUR", "ct/kWh"),
        ("price [ct/kWh]", "EUR", "Cent/kWh"),
    ],
)
def test_prices_in_the_currency_s_minor_unit(tmp_path, name, currency, unit):
    signal = rate(tmp_path, column(name, "4.00", "4.05", "-1"), currency=currency, unit=unit)
    assert signal.values.tolist() == [0.04, 0.0405, -0.01]


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("carbon [kg/kWh]", 0.4, None),
        ("carbon [kg/MWh]", 400, None),
        ("carbon [g/kWh]", 400, None),
        ("carbon [t/MWh]", 0.4, None),
        ("carbon [lb/MWh]", 881.84904873951, None),
        ("intensity", 0.4, "kgCO2/kWh"),
    ],
)
def test_carbon_in_any_unit_of_mass(tmp_path, name, value, unit):
    signal = rate(tmp_path, column(name, value, value), CARBON, unit=unit)
    assert signal.values.tolist() == pytest.approx([400, 400], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        (
            "price [foo/kWh]",
            {},
            "column 'price [foo/kWh]': unit 'foo/kWh': expected money per energy, such as",
        ),
        (
            "price",
            {"unit": "foo/kWh"},
            "price.unit: unit 'foo/kWh': expected money per energy, such as EUR/MWh",
        ),
        ("price [EUR/MW]", {}, "column 'price [EUR/MW]': unit 'EUR/MW': expected money per energy"),
        ("price [INR/MWh]", {"currency": "EUR"}, "'INR/MWh' is not one of EUR, the site's currency: convert"),
        (
            "price [INR/MWh]",
            {"currency": "EUR", "unit": "EUR/MWh"},
            "column 'price [INR/MWh]' is in INR/MWh, but its unit is given as 'EUR/MWh'",
        ),
        (
            "price_per_kwh",
            {"unit": "EUR/MWh"},
            "column 'price_per_kwh' is in /kwh, but its unit is given as 'EUR/MWh'",
        ),
        ("price [kr/kWh]", {}, "unit 'kr/kWh' may be one of SEK, NOK, DKK, ISK: set currency in [grid]"),
        (
            "price",
            {},
            "column 'price' does not state its unit: expected it in the name, as in price [EUR/MWh]",
        ),
    ],
)
def test_units_of_prices_that_are_refused(tmp_path, name, how, message):
    with pytest.raises(InputError) as told:
        rate(tmp_path, column(name, 1, 1), **how)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "carbon [ton/MWh]",
            "column 'carbon [ton/MWh]': unit 'ton/MWh': expected mass per energy, such as g/kWh",
        ),
        ("carbon_g_per_kwh (gC/kWh)", "unit 'gC/kWh': expected mass per energy"),
        ("carbon intensity", "column 'carbon intensity' does not state its unit"),
    ],
)
def test_units_of_carbon_that_are_refused(tmp_path, name, message):
    with pytest.raises(InputError) as told:
        rate(tmp_path, column(name, 1, 1), CARBON)
    assert message in str(told.value)


def test_a_name_with_brackets_of_another_kind_takes_the_unit_beside_the_file(tmp_path):
    text = column("price (import/export)", 50, 51)
    assert rate(tmp_path, text, unit="EUR/MWh").values.tolist() == [0.05, 0.051]


def test_the_column_is_found_by_its_unit(tmp_path):
    text = "time,Volume [MWh],Elspot [NOK/MWh],CO2 [kg/MWh]\n0,1,500,20\n3600,1,400,30\n"
    assert rate(tmp_path, text.replace("time", "time_s"), currency="NOK").values.tolist() == [0.5, 0.4]
    assert rate(tmp_path, text.replace("time", "time_s"), CARBON).values.tolist() == [20, 30]


def test_yen_and_the_largest_price_of_each_currency(tmp_path):
    signal = rate(tmp_path, column("price [JPY/kWh]", 15, 200), currency="JPY")
    assert signal.values.tolist() == [15, 200]
    wrong = [("JPY", 15_000, 1000), ("EUR", 51, 10), ("AUD", 51, 25), ("Taler", 2e6, 1e6)]
    for currency, value, most in wrong:
        with pytest.raises(InputError) as told:
            rate(tmp_path, column("price_per_kwh", 1, value), currency=currency)
        message = f"{value:g} {currency} per kWh is not a credible price (at most {most:g})"
        assert message in str(told.value)
    assert rate(tmp_path, column("RRP [$/MWh]", 20_300, -1000), currency="AUD").values.tolist() == [20.3, -1]
    with pytest.raises(InputError, match="400000 g per kWh is not a credible carbon intensity"):
        rate(tmp_path, column("carbon [g/kWh]", 400_000, 1), CARBON)


@pytest.mark.parametrize(
    ("name", "stated", "code"),
    [
        ("price [EUR/MWh]", None, "EUR"),
        ("price_per_kwh", None, "USD"),
        ("price_per_kwh", "SEK", "SEK"),
        ("price [$/MWh]", None, "USD"),
    ],
)
def test_the_currency_of_a_site_that_states_none_is_the_file_s(tmp_path, name, stated, code):
    path = tmp_path / "rates.csv"
    path.write_text(column(name, 1, 1))
    assert read_rate(RateFile(path, PRICE, currency=stated), calendar()).currency == code


def test_a_column_of_currencies(tmp_path):
    text = "time_s,Price[Currency/MWh],Currency\n0,50,GBP\n3600,51,\n7200,52,GBP\n"
    path = tmp_path / "rates.csv"
    path.write_text(text)
    read = read_rate(RateFile(path, PRICE), calendar())
    assert (read.currency, read.signal.values.tolist()) == ("GBP", [0.05, 0.051, 0.052])
    with pytest.raises(InputError, match=r"rates.csv:2: Currency: found 'GBP', expected prices in EUR only"):
        rate(tmp_path, text, currency="EUR")
    with pytest.raises(InputError, match=r"rates.csv:4: Currency: found 'EUR', expected prices in GBP only"):
        rate(tmp_path, text.replace("52,GBP", "52,EUR"))


def test_smard_prices(tmp_path):
    text = (
        "Datum von;Datum bis;Deutschland/Luxemburg [€/MWh] Berechnete Auflösungen;"
        "Österreich [€/MWh] Berechnete Auflösungen\n"
        "27.10.2024 01:00;27.10.2024 02:00;1.000,5;-\n27.10.2024 02:00;27.10.2024 02:00;20,00;7\n"
        "27.10.2024 02:00;27.10.2024 03:00;30,00;8\n27.10.2024 03:00;27.10.2024 04:00;40;9\n"
    )
    at, column = calendar("2024-10-27T00:00:00+02:00"), "Deutschland/Luxemburg [€/MWh] Berechnete Auflösungen"
    assert hours(rate(tmp_path, text, at=at, column=column)) == (
        [1, 2, 3, 4, 5],
        [1.0005, 0.02, 0.03, 0.04],
    )
    with pytest.raises(InputError, match="2 columns seem to hold the price: choose one"):
        rate(tmp_path, text, at=at)
    with pytest.raises(InputError, match=r"price.zone: SMARD's times are local time of Germany: omit zone"):
        rate(tmp_path, text, at=at, column=column, zone=ZoneInfo("Europe/London"))


def test_energy_charts_prices(tmp_path):
    at = calendar("2024-06-01T12:00:00+02:00")
    text = (
        '"Datum (MEZ)","Day Ahead Auktion (DE-LU)"\n,"Preis (EUR/MWh, EUR/tCO2)"\n'
        "2024-06-01T12:00+02:00,50.5\n2024-06-01T13:00+02:00,-3\n"
    )
    assert hours(rate(tmp_path, text, at=at)) == ([0, 1, 2], [0.0505, -0.003])
    contents = '{"unix_seconds": [1717236000, 1717239600], "price": [50.5, -3], "unit": "EUR / MWh"}'
    assert hours(rate(tmp_path, contents, at=at)) == ([0, 1, 2], [0.0505, -0.003])
    with pytest.raises(InputError, match="without price and unit: found production_types, unix_seconds"):
        rate(tmp_path, '{"unix_seconds": [1], "production_types": []}')


AUCTIONS = (
    '"MTU (CET/CEST)","Area","Sequence","Day-ahead Price (EUR/MWh)","Intraday Period (CET/CEST)",'
    '"Intraday Price (EUR/MWh)"\n'
    + "".join(
        f'"01/01/2025 0{hour}:00:00 - 01/01/2025 0{hour + 1}:00:00","BZN|DE-LU",'
        f'"Sequence Sequence {auction}","{50 * auction + hour}.00","",""\n'
        for hour in range(3)
        for auction in (1, 2)
    )
)


def test_entsoe_prices_of_several_auctions(tmp_path):
    at = calendar("2025-01-01T00:00:00+01:00")
    for name in ("1", "Sequence 1", "Sequence Sequence 1"):
        assert rate(tmp_path, AUCTIONS, at=at, sequence=name).values.tolist() == [0.05, 0.051, 0.052]
    assert rate(tmp_path, AUCTIONS, at=at, sequence="2").values.tolist() == [0.1, 0.101, 0.102]
    with pytest.raises(InputError, match=r"has several auctions: choose one with .*sequence.*found 1, 2"):
        rate(tmp_path, AUCTIONS, at=at)
    with pytest.raises(InputError, match=r"has no sequence '3': .*found 1, 2"):
        rate(tmp_path, AUCTIONS, at=at, sequence="3")
    with pytest.raises(InputError, match="Area has 2 values"):
        rate(tmp_path, AUCTIONS.replace("DE-LU", "FR", 1), at=at, sequence="1")
    with pytest.raises(InputError, match="has no column 'Sequence': omit sequence"):
        rate(tmp_path, "time_s,price_per_kwh\n0,1\n3600,1\n", sequence="1")
    one = "".join(line for line in AUCTIONS.splitlines(keepends=True) if "Sequence 2" not in line)
    assert rate(tmp_path, one, at=at).values.tolist() == [0.05, 0.051, 0.052]


def test_local_times_of_a_price_file(tmp_path):
    text = "time,price_eur_per_mwh\n" + "".join(f"2024-10-27 {h:02}:00,{h}\n" for h in (0, 1, 2, 2, 3))
    at = calendar("2024-10-27T00:00:00+02:00")
    times, values = hours(rate(tmp_path, text, at=at, zone=ZoneInfo("Europe/Berlin")))
    assert (times, values) == ([0, 1, 2, 3, 4, 5], [0, 0.001, 0.002, 0.002, 0.003])
    assert hours(rate(tmp_path, text.replace("time,", "cet_cest_timestamp,"), at=at))[0] == times
    with pytest.raises(InputError, match=r"price.zone: its times are simulated seconds: omit zone"):
        rate(tmp_path, "time_s,price_per_kwh\n0,1\n3600,1\n", zone=ZoneInfo("Europe/Berlin"))
    ends = text.replace("time,", "period_end,")
    assert hours(rate(tmp_path, ends, at=at, zone=ZoneInfo("Europe/Berlin")))[0] == [-1, 0, 1, 2, 3, 4]
