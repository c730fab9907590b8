"""Units as public data and people write them: each is converted, or refused by name."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.formats.currencies import CURRENCIES, currency_named
from beasy_sched.formats.unit_table import (
    ENERGY_J,
    POWER_W,
    PowerUnit,
    UnitError,
    carbon_unit,
    cover_share,
    energy_j,
    irradiance_w_m2,
    power_unit,
    price_unit,
    rate_in_name,
    share_in_name,
    speed_m_s,
    temperature_c,
    unit_in_name,
)


@pytest.mark.parametrize(
    ("column", "currency", "one_is_per_kwh"),
    [
        ("Day-ahead Price [EUR/MWh]", "EUR", 1e-3),  # ENTSO-E
        ("Day-ahead Price (EUR/MWh)", "EUR", 1e-3),
        ("Price[Currency/MWh]", "GBP", 1e-3),
        ("Spot price (SEK/MWh)", "SEK", 1e-3),  # Nord Pool
        ("Elspot [NOK/kWh]", "NOK", 1.0),
        ("Timpris öre/kWh", "SEK", 0.01),
        ("spot_ore_per_kwh", "DKK", 0.01),
        ("Spot (øre/kWh)", "NOK", 0.01),
        ("Price (AUD/MWh)", "AUD", 1e-3),  # AEMO
        ("RRP ($/MWh)", "AUD", 1e-3),
        ("c/kWh", "AUD", 0.01),
        ("LMP ($/MWh)", "USD", 1e-3),  # CAISO
        ("price_usd_per_mwh", "USD", 1e-3),
        ("Average Price (¢/KWh)", "USD", 0.01),  # EIA
        ("Residential Cents per Kilowatthour", "USD", 0.01),
        ("US cents/kWh", "USD", 0.01),
        ("BPA rate (mills/kWh)", "USD", 0.001),
        ("price [£/MWh]", "GBP", 1e-3),
        ("Agile import p/kWh", "GBP", 0.01),
        ("unit rate (pence per kWh)", "GBP", 0.01),
        ("price [ct/kWh]", "EUR", 0.01),
        ("Strompreis in Cent/kWh", "EUR", 0.01),
        ("LCOH_EURct_kWh", "EUR", 0.01),
        ("Preis €-ct/kWh", "EUR", 0.01),
        ("Prix (c€/kWh)", "EUR", 0.01),
        ("Börsihind senti/kWh (sisaldab käibemaksu)", "EUR", 0.01),
        ("€/kWh", "EUR", 1.0),
        ("Tarif Rp./kWh", "CHF", 0.01),
        ("Tarif Rp/kWh", "IDR", 1.0),
        ("system price (JPY/kWh)", "JPY", 1.0),
        ("エリアプライス東京(円/kWh)", "JPY", 1.0),
        ("MCP (Rs/MWh)", "INR", 1e-3),
        ("MCP [INR/MWh]", "INR", 1e-3),
        ("tariff paise/kWh", "INR", 0.01),
        ("price 元/MWh", "CNY", 1e-3),
        ("cena [zł/MWh]", "PLN", 1e-3),
        ("cena gr/kWh", "PLN", 0.01),
        ("PTF (TL/MWh)", "TRY", 1e-3),
        ("ár Ft/kWh", "HUF", 1.0),
        ("Cena Kč/MWh", "CZK", 1e-3),
        ("price_EUR_per_GWh", "EUR", 1e-6),
        ("price [EUR/Wh]", "EUR", 1e3),
        ("price [EUR/GJ]", "EUR", 3.6e-3),
        ("price_per_kwh", "CLP", 1.0),
        ("Electricity_price_MWh", "EUR", 1e-3),
        ("per_kwh", "EUR", 1.0),
        ("price_per_MWh_EUR", "EUR", 1e-3),
        ("Price EUR/MWh incl. VAT", "EUR", 1e-3),
        ("Deutschland/Luxemburg [€/MWh] Originalauflösungen", "EUR", 1e-3),  # SMARD
        ("PUN INDEX GME (€/MWh)", "EUR", 1e-3),
        ("Price in EUR cents per kWh", "EUR", 0.01),
        ("price [Taler/kWh]", "Taler", 1.0),
    ],
)
def test_prices(column, currency, one_is_per_kwh):
    unit = price_unit(rate_in_name(column), currency)
    assert 1.0 / unit.in_one == pytest.approx(one_is_per_kwh, rel=1e-12)
    assert unit.currency == currency_named(currency)


@pytest.mark.parametrize(
    ("column", "one_is_g_per_kwh"),
    [
        ("Carbon Intensity gCO2eq/kWh (direct)", 1.0),  # Electricity Maps
        ("Carbon intensity gCO₂eq/kWh (JobHistory cycle)", 1.0),
        ("Carbon Intensity gCO2eq/kWh (direct/LCA)", 1.0),
        ("actual [gCO2/kWh]", 1.0),  # National Grid ESO
        ("g_per_kwh", 1.0),
        ("carbon_intensity_gco2_kwh", 1.0),
        ("MOER (lbs/MWh)", 0.45359237),  # WattTime
        ("lbs_co2_per_mwh", 0.45359237),
        ("pounds CO2 per MWh", 0.45359237),
        ("CO2 rate lb/MWh", 0.45359237),  # EIA, eGRID
        ("short tons/MWh", 907.18474),
        ("intensity tCO2-e/MWh", 1000.0),  # AEMO
        ("Average emissions (t CO2-e / MWh)", 1000.0),
        ("carbon [kg/kWh]", 1000.0),
        ("gCO2/kWh direct", 1.0),
        ("carbon [kg/MWh]", 1.0),
        ("kgCO2e per kWh", 1000.0),
        ("carbon [g/MWh]", 1e-3),
        ("carbon (gCO2e/MJ)", 3.6),
        ("carbon (kg/GJ)", 3.6),
        ("carbon [metric tons/MWh]", 1000.0),
    ],
)
def test_carbon_intensities(column, one_is_g_per_kwh):
    assert 1.0 / carbon_unit(rate_in_name(column)).in_one == pytest.approx(one_is_g_per_kwh, rel=1e-12)


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("Solar [MW]", PowerUnit(1e6)),
        ("Solar  - Actual Aggregated [MW]", PowerUnit(1e6)),
        ("power (W)", PowerUnit(1.0)),
        ("pv_kw", PowerUnit(1e3)),
        ("p_mw", PowerUnit(1e6)),
        ("turbine_1_kw", PowerUnit(1e3)),
        ("PowerKW", PowerUnit(1e3)),
        ("MW", PowerUnit(1e6)),
        ("load (kilowatts)", PowerUnit(1e3)),
        ("feed-in kW_el", PowerUnit(1e3)),
        ("Generation (GW)", PowerUnit(1e9)),
        ("Generation [MWh/h]", PowerUnit(1e6)),
        ("energy_kwh", PowerUnit(3.6e6, of_rows=True)),
        ("Energy (Wh)", PowerUnit(3.6e3, of_rows=True)),
        ("Generation [MWh]", PowerUnit(3.6e9, of_rows=True)),
        ("kWh total", PowerUnit(3.6e6, of_rows=True)),
        ("KWH/hh (per half hour) ", PowerUnit(2e3)),  # Low Carbon London
        ("import [kWh/15min]", PowerUnit(4e3)),
        ("activeEnergyWh", PowerUnit(3.6e3, of_rows=True)),
        ("energy [kJ]", PowerUnit(1e3, of_rows=True)),
        ("energy_mj", PowerUnit(1e6, of_rows=True)),
        ("output (kilowatt hours)", PowerUnit(3.6e6, of_rows=True)),
        ("output [kW-hr]", PowerUnit(3.6e6, of_rows=True)),
        ("capacity factor (%)", PowerUnit(0.01, per_unit=True)),
        ("output [p.u.]", PowerUnit(1.0, per_unit=True)),
        ("output [kW/kWp]", PowerUnit(1.0, per_unit=True)),
        ("P [W/kWp]", PowerUnit(1e-3, per_unit=True)),
        ("yield [kWh/kWp]", PowerUnit(3600.0, of_rows=True, per_unit=True)),
    ],
)
def test_powers_and_energies(column, unit):
    found = power_unit(unit_in_name(column))
    assert (found.of_rows, found.per_unit) == (unit.of_rows, unit.per_unit)
    assert found.worth == pytest.approx(unit.worth, rel=1e-12)


@pytest.mark.parametrize(
    "column",
    ["time", "PV-MEAS", "power", "peakW", "networkWh", "Nordex 2.5 MWh storage", "price per kWh", "x" * 500],
)
def test_names_without_a_unit(column):
    assert unit_in_name(column) is None


@pytest.mark.parametrize("column", ["price", "avg_CI", "price (day-ahead)", "power [kW]", "x/" * 500])
def test_names_without_a_unit_per_energy(column):
    assert rate_in_name(column) is None


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("p [kVA]", "unit 'kVA' is apparent power, from which the power does not follow: expected W, kW"),
        ("pv_kwp", "unit 'kwp' is a plant's capacity, not its power: expected W, kW"),
        ("q (kVAr)", "unit 'kVAr' is reactive power: expected"),
        ("p [hp]", "unit 'hp' is not one of the units of electric power: expected"),
        ("p [mW]", "unit 'mW' has thousandths (write MW for millions): expected W, kW"),
        ("energy_mWh", "unit 'mWh' has thousandths (write MWh for millions): expected"),
    ],
)
def test_what_must_not_be_taken_for_power(column, message):
    with pytest.raises(UnitError) as error:
        power_unit(unit_in_name(column))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("unit", "currency", "message"),
    [
        ("foo/kWh", "EUR", "unit 'foo/kWh': expected money per energy, such as EUR/MWh or ct/kWh"),
        (rate_in_name("price_per_MWh_INR"), "EUR", "unit 'INR/MWh' is not one of EUR, the site's currency"),
        (rate_in_name("price_foo_per_kwh"), "EUR", "unit 'foo/kwh': expected money per energy"),
        ("EUR/MW", "EUR", "unit 'EUR/MW': expected money per energy"),
        ("EUR/MW/h", "EUR", "unit 'EUR/MW/h': expected money per energy"),
        ("EUR", "EUR", "unit 'EUR': expected money per energy"),
        ("EUR/mWh", "EUR", "unit 'EUR/mWh' has thousandths (write MWh for millions): expected money"),
        ("kEUR/MWh", "EUR", "unit 'kEUR/MWh': expected money per energy"),
        ("g/kWh", "EUR", "unit 'g/kWh': expected money per energy"),
        (
            "INR/MWh",
            "EUR",
            "unit 'INR/MWh' is not one of EUR, the site's currency: convert the prices, or set",
        ),
        ("$/MWh", "EUR", "unit '$/MWh' is not one of EUR, the site's currency"),
        ("p/kWh", "EUR", "unit 'p/kWh' is not one of EUR, the site's currency"),
        ("EUR/MWh", "Taler", "unit 'EUR/MWh' is not one of Taler, the site's currency"),
        ("ct/kWh", "JPY", "unit 'ct/kWh' is not one of JPY, the site's currency"),
        ("øre/kWh", None, "unit 'øre/kWh' may be one of NOK, DKK: set currency in [grid]"),
        ("¥/kWh", None, "unit '¥/kWh' may be one of CNY, JPY: set currency in [grid]"),
    ],
)
def test_prices_that_are_refused(unit, currency, message):
    with pytest.raises(UnitError) as error:
        price_unit(unit, currency)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "unit", ["ton/MWh", "MtCO2/MWh", "gC/kWh", "kWh/kg", "g", "EUR/kWh", "mg/kWh", "/kWh", "kg/kW", "oz/kWh"]
)
def test_carbon_that_is_refused(unit):
    """A ton may be short or metric; the mass of carbon is not that of carbon dioxide."""
    with pytest.raises(
        UnitError, match=r"^unit '.*': expected mass per energy, such as g/kWh, kg/MWh or lb/MWh"
    ):
        carbon_unit(unit)


@pytest.mark.parametrize(
    ("unit", "code"),
    [("EUR/MWh", "EUR"), ("$/MWh", "USD"), ("ct/kWh", "USD"), ("/kWh", "USD"), ("£/MWh", "GBP")],
)
def test_a_site_without_a_currency_has_the_unit_s(unit, code):
    assert price_unit(unit, None).currency.name == code


@pytest.mark.parametrize(
    ("unit", "w_m2"),
    [
        ("W/m2", 1.0),
        ("W/m²", 1.0),
        ("W m-2", 1.0),
        ("kW/m^2", 1e3),
        ("kW/m??", 1e3),
        ("Wh/m^2", 1.0),
        ("kWh/m²", 1e3),
        ("kW-hr/m^2", 1e3),
        ("MJ/hr", 1e6 / 3600),
        ("MJ/m^2/hr", 1e6 / 3600),
        ("J m**-2", 1 / 3600),
        ("kJ/m2", 1e3 / 3600),
        ("J/cm2", 1e4 / 3600),
    ],
)
def test_irradiance_of_an_hour(unit, w_m2):
    assert irradiance_w_m2(unit, 3600.0) == pytest.approx(w_m2, rel=1e-12)


def test_irradiation_counts_for_the_length_of_its_row():
    assert irradiance_w_m2("Wh/m2", 900.0) == irradiance_w_m2("Wh/m2", 3600.0) * 4
    assert irradiance_w_m2("W/m2", 900.0) == 1.0
    assert irradiance_w_m2("kWh/m2/h", 900.0) == 1000.0


@pytest.mark.parametrize("unit", ["langley", "kW-hr/m^2/day", "mW/cm2", "kW", "kWh", "W/m2/h", "umol/m2/s"])
def test_irradiance_that_is_refused(unit):
    with pytest.raises(UnitError, match="expected W/m2, kW/m2, Wh/m2"):
        irradiance_w_m2(unit, 3600.0)


@pytest.mark.parametrize(
    ("unit", "m_s"),
    [("m/s", 1), ("m s-1", 1), ("m s**-1", 1), ("km/h", 1 / 3.6), ("kmh", 1 / 3.6), ("mph", 0.44704),
     ("mp/h", 0.44704), ("kn", 0.514444), ("knots", 0.514444)],
)  # fmt: skip
def test_wind_speeds(unit, m_s):
    assert speed_m_s(unit) == pytest.approx(m_s, rel=1e-5)


def test_temperatures_and_shares():
    for unit, value in (("°C", 25.0), ("ºC", 25.0), ("C", 25.0), ("°F", 77.0), ("degF", 77.0), ("K", 298.15)):
        factor, offset = temperature_c(unit)
        assert value * factor + offset == pytest.approx(25.0)
    assert [cover_share(unit) for unit in ("fraction", "%", "oktas", "percent")] == [1.0, 0.01, 0.125, 0.01]
    assert [
        share_in_name(name) for name in ("cloud (%)", "cloud_pct", "clouds", "cloud oktas", "cloud%")
    ] == [
        "%",
        "pct",
        None,
        "oktas",
        "%",
    ]
    for refused in (lambda: speed_m_s("Beaufort"), lambda: temperature_c("R"), lambda: cover_share("1/10")):
        with pytest.raises(UnitError, match="expected"):
            refused()


@given(
    st.sampled_from(sorted(POWER_W)), st.sampled_from([str.lower, str.upper, str.title, lambda name: name])
)
def test_case_does_not_matter_for_power(name, spelled):
    text = spelled(name)
    assert power_unit(text).worth == POWER_W[name]
    assert power_unit(f" {text} ").is_power


@given(st.sampled_from(sorted(ENERGY_J)), st.floats(1.0, 1e5))
def test_the_energy_of_a_row_over_its_length_is_its_power(name, row_s):
    unit = power_unit(name)
    assert unit.watts(row_s) * row_s == pytest.approx(energy_j(name), rel=1e-12)


@pytest.mark.parametrize("code", sorted(CURRENCIES))
def test_each_unit_of_a_currency_is_itself_in_all_energies(code):
    """A price is the same whatever the energy that it is for, and its currency's name comes back."""
    currency = CURRENCIES[code]
    assert currency_named(code.lower()) is currency
    assert price_unit(f"{code}/kWh", code).in_one == 1.0
    for (unit, worth), energy in itertools.product(currency.units.items(), ("Wh", "kWh", "MWh", "GJ")):
        found = price_unit(f"{unit}/{energy}", code)
        assert 1.0 / found.in_one == pytest.approx(worth * 3.6e6 / energy_j(energy), rel=1e-12)


def test_a_currency_by_its_sign():
    assert currency_named("€").name == "EUR"
    assert currency_named("zł").name == "PLN"
    assert currency_named("Taler").name == "Taler"
    assert currency_named("kr").name == "kr"  # of several countries


@pytest.mark.parametrize(
    ("code", "credible", "wrong"),
    [("EUR", 5.0, 51.0), ("AUD", 20.3, 51.0), ("JPY", 999.0, 15_000.0), ("INR", 15.0, 4000.0),
     ("SEK", 9.0, 500.0), ("HUF", 400.0, 40_000.0), ("KRW", 250.0, 120_000.0)],
)  # fmt: skip
def test_the_largest_credible_price_goes_by_the_currency(code, credible, wrong):
    """``wrong`` is an ordinary price of a MWh."""
    assert credible <= CURRENCIES[code].most_per_kwh < wrong
