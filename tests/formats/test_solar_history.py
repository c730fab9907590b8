"""Training data from each kind of file."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.forecast.conditions import CLEARNESS, CLOUD_COVER, NO_CONDITIONS, UNKNOWN, WORDS
from beasy_sched.forecast.solar import SolarModel
from beasy_sched.formats.solar_history import read_solar_history

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
UTC = timezone.utc
HOURS = 24 * 30
FIRST = datetime(2019, 6, 1, tzinfo=UTC)
FIRST_HOUR = int(FIRST.timestamp()) // 3600


def production(hour):
    return (hour % 24) * 2.0 if 6 <= hour % 24 < 20 else 0.0


def stamp(hour, minutes=0):
    return (FIRST + timedelta(hours=hour, minutes=minutes)).strftime("%Y-%m-%d %H:%M")


def write(tmp_path, header, row, hours=HOURS, *, before=""):
    path = tmp_path / "past.csv"
    lines = [header, *(row(hour) for hour in range(hours))]
    path.write_text(before + "\n".join(lines) + "\n", "utf-8")
    return path


def test_ninja_weather_has_radiation_and_cloud_cover(tmp_path):
    before = '# Weather\n# {"units": {"radiation_surface": "W/m2"}, "params": {"lon": "-72.85"}}\n'
    header = "time,temperature,radiation_surface,cloud_cover"
    path = write(tmp_path, header, lambda h: f"{stamp(h)},20,{production(h)},{h % 5 / 4}", before=before)
    data = read_solar_history(path)
    assert (data.scheme, data.capacity_w, data.utc_offset_h) == (CLOUD_COVER, 1000.0, -5)
    assert data.first_hour == FIRST_HOUR - 5
    assert data.production_w.tolist() == [production(hour) for hour in range(HOURS)]
    assert data.classes[:6].tolist() == [0, 1, 2, 3, 4, 0]


def test_ninja_solar_power_has_the_clearness_of_its_irradiance(tmp_path):
    header = "time,electricity,irradiance_direct,irradiance_diffuse"
    sun = [1.0, 0.6, 0.1]
    path = write(
        tmp_path,
        header,
        lambda h: f"{stamp(h)},{production(h)},{production(h) * sun[h // 24 % 3] / 100},0.0",
        before='# Solar photovoltaic power (PV)\n# {"params": {"capacity": 50, "lon": "0"}}\n',
    )
    data = read_solar_history(path)
    assert (data.scheme, data.capacity_w) == (CLEARNESS, 50e3)
    assert data.classes[[12, 36, 60, 0]].tolist() == [0, 2, 5, UNKNOWN]
    assert data.notes == ()


def test_ninja_power_without_irradiance_has_no_conditions(tmp_path):
    data = read_solar_history(write(tmp_path, "time,electricity", lambda h: f"{stamp(h)},{production(h)}"))
    assert data.scheme is NO_CONDITIONS
    assert set(data.classes.tolist()) == {UNKNOWN}
    assert any("has no conditions" in note for note in data.notes)


def test_wind_is_refused(tmp_path):
    path = write(tmp_path, "time,electricity,wind_speed", lambda h: f"{stamp(h)},1,5")
    with pytest.raises(InputError, match="no solar production: found power_w, wind_speed_m_s"):
        read_solar_history(path)


def nasa(tmp_path, names, values):
    def row(hour):
        moment = FIRST + timedelta(hours=hour)
        cells = ",".join(str(value(hour)) for value in values)
        return f"{moment.year},{moment.month},{moment.day},{moment.hour},{cells}"

    before = (
        "-BEGIN HEADER-\nDates (month/day/year): 06/01/2019 through 06/30/2019 in LST\n"
        "Location: Latitude  47.2   Longitude 32.0\nThe value for missing source data: -999\n-END HEADER-\n"
    )
    return write(tmp_path, f"YEAR,MO,DY,HR,{names}", row, before=before)


def test_nasa_power_has_a_clearness_index_or_cloud_amount_or_clear_sky(tmp_path):
    index = nasa(
        tmp_path,
        "ALLSKY_SFC_SW_DWN,ALLSKY_KT,CLOUD_AMT",
        [production, lambda h: 0.4 if production(h) else -999.0, lambda h: 50],
    )
    data = read_solar_history(index)
    assert (data.scheme, data.utc_offset_h) == (CLEARNESS, 2)
    assert data.first_hour == FIRST_HOUR  # local solar time is what the file has
    assert (data.classes[12], data.classes[0]) == (3, UNKNOWN)
    cloud = read_solar_history(nasa(tmp_path, "ALLSKY_SFC_SW_DWN,CLOUD_AMT", [production, lambda h: 90]))
    assert (cloud.scheme, cloud.classes[0]) == (CLOUD_COVER, 4)
    clear = nasa(tmp_path, "ALLSKY_SFC_SW_DWN,CLRSKY_SFC_SW_DWN", [production, lambda h: production(h) * 2])
    clear_sky = read_solar_history(clear)
    assert (clear_sky.scheme, clear_sky.classes[12], clear_sky.classes[0]) == (CLEARNESS, 3, UNKNOWN)


def test_a_plain_csv_of_words(tmp_path):
    words = ["Sunny", "Mostly Cloudy / Wind", "", "Heavy Rain"]
    path = write(tmp_path, "time,pv_kw,condition", lambda h: f"{stamp(h)},{production(h)},{words[h % 4]}")
    data = read_solar_history(path)
    assert data.scheme is WORDS
    assert data.classes[:4].tolist() == [0, 5, UNKNOWN, 12]
    assert data.production_w[12] == production(12) * 1e3
    assert data.capacity_w == max(map(production, range(24))) * 1e3


def test_an_unknown_word_is_refused_by_line_with_the_list(tmp_path):
    path = write(tmp_path, "time,pv_kw,condition", lambda h: f"{stamp(h)},1,{'Murky' if h == 7 else 'Sunny'}")
    with pytest.raises(
        InputError, match=r"past.csv:9: condition: found 'Murky', expected one of: .*blizzard"
    ):
        read_solar_history(path)


def test_rows_out_of_order_keep_their_words(tmp_path):
    def row(h):
        h = HOURS - 1 - h
        return f"{stamp(h)},{production(h)},{'Sunny' if h % 2 else 'Cloudy'}"

    data = read_solar_history(write(tmp_path, "time,pv_kw,condition", row))
    assert data.classes[:4].tolist() == [9, 0, 9, 0]
    assert data.production_w[:24].tolist() == [production(hour) * 1e3 for hour in range(24)]


@pytest.mark.parametrize(
    ("name", "value", "scheme", "code"),
    [
        ("cloud_cover", 0.5, CLOUD_COVER, 2),
        ("Clouds [%]", 50, CLOUD_COVER, 2),
        ("clearness", 0.5, CLEARNESS, 3),
    ],
)
def test_a_plain_csv_of_numbers(tmp_path, name, value, scheme, code):
    path = write(tmp_path, f"time,pv [W],{name}", lambda h: f"{stamp(h)},{production(h)},{value}")
    data = read_solar_history(path, conditions=name)
    assert data.scheme is scheme
    assert set(data.classes.tolist()) == {code}


def test_a_modelled_production_serves_as_weather(tmp_path):
    def row(h):
        share = 0.4 if h // 24 % 2 else 1.0
        return f"{stamp(h)},{production(h) / 100},{production(h) * share / 100}"

    path = write(tmp_path, "time,measured,modelled", row)
    data = read_solar_history(path, column="measured", conditions="model", unit="per-unit")
    assert (data.scheme, data.capacity_w, data.utc_offset_h) == (CLEARNESS, 1.0, 0)
    assert data.first_hour == FIRST_HOUR
    assert data.classes[[12, 36, 0]].tolist() == [0, 3, UNKNOWN]
    assert data.scaled_to(2300.0).production_w[12] == pytest.approx(0.24 * 2300)


def test_quarters_of_an_hour_are_averaged(tmp_path):
    def row(quarter):
        when = stamp(0, 15 * (quarter + 2))  # from half past
        return f"{when},{quarter % 4},{'Sunny' if quarter % 4 < 2 else 'Cloudy'}"

    data = read_solar_history(write(tmp_path, "time,pv_w,condition", row, 4 * HOURS))
    assert data.first_hour == FIRST_HOUR
    assert data.production_w[:2].tolist() == [0.5, (2 + 3 + 0 + 1) / 4]
    assert data.classes[:3].tolist() == [0, 9, 9]
    assert len(data) == HOURS + 1


def test_gaps_are_left_out_and_noted(tmp_path):
    def row(h):
        if h == 12:
            return f"{stamp(12)},,Sunny"
        return f"{stamp(h + 5 * (h > 40))},{production(h)},Sunny"

    data = read_solar_history(write(tmp_path, "time,pv_w,condition", row))
    assert np.flatnonzero(np.isnan(data.production_w)).tolist() == [12, *range(41, 46)]
    assert set(data.classes[41:46].tolist()) == {UNKNOWN}
    assert any("6 of 725 hours have no production" in note for note in data.notes)
    SolarModel(data, leave_out=1).day(data.first_day, data.first_day)


@pytest.mark.parametrize(
    ("header", "row", "options", "message"),
    [
        ("time,a_w,b_w", "{},1,2", {}, "which column is the production"),
        ("time,a_w,b_w", "{},1,2", {"column": "c"}, "'c' is not a column"),
        ("time,a_w", "{},1", {"conditions": "sky"}, "'sky' is not a column"),
        ("time,a", "{},1", {}, "does not state its unit"),
        (
            "time,a_w,cloud_cover",
            "{},1,8",
            {},
            "past.csv:2: cloud_cover: found 8, expected",
        ),
        ("time,a_w,clearness", "{},1,-1", {}, "past.csv:2: clearness: found -1, expected"),
        ("time,a_w", "{},-1", {}, "must not be negative"),
        ("time,a_w", "{},0", {}, "no production above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, header, row, options, message):
    path = write(tmp_path, header, lambda h: row.format(stamp(h)))
    with pytest.raises(InputError, match=message) as told:
        read_solar_history(path, **options)
    assert "past.csv" in str(told.value)


def test_less_than_a_month_is_refused(tmp_path):
    path = write(tmp_path, "time,a_w", lambda h: f"{stamp(h)},1", 24 * 27)
    with pytest.raises(InputError, match=r"past.csv: training data: found 27 days .* at least a month"):
        read_solar_history(path)


def test_a_file_without_dates_is_refused(tmp_path):
    path = write(tmp_path, "a_w,b_w", lambda h: "1,1")
    with pytest.raises(InputError, match=r"past.csv: has no dates: expected a column of times"):
        read_solar_history(path, column="a_w")


def test_rows_of_several_hours_are_refused(tmp_path):
    path = write(tmp_path, "time,a_w", lambda h: f"{stamp(3 * h)},1")
    with pytest.raises(InputError, match="a row every 10800 s, expected hours"):
        read_solar_history(path)


@pytest.mark.parametrize(
    ("name", "options", "scheme", "offset_h", "capacity_w"),
    [
        ("ninja/uk2019_ninja_weather", {}, CLOUD_COVER, 0, 1000.0),
        ("ninja/ny2019_ninja_pv", {}, CLEARNESS, -5, 12.5e6),
        ("ninja/berlin2014_ninja_pv_52.5170_13.3889_corrected_original", {}, CLEARNESS, 1, 1000.0),
        ("solar_measured/entsoe_BE", {"column": "Solar"}, NO_CONDITIONS, 0, 2708e6),
    ],
)
def test_real_files(name, options, scheme, offset_h, capacity_w):
    found = list(DATA.glob(name + "*"))
    if not found:
        pytest.skip("no real weather files beside the project (../shared/data)")
    data = read_solar_history(found[0], **options)
    assert (data.scheme, data.utc_offset_h, data.capacity_w) == (scheme, offset_h, capacity_w)
    assert len(data) == 8760
    ideal = SolarModel(data, leave_out=1).day(data.first_day + 180, data.first_day + 180).ideal_w
    assert 10 <= np.argmax(ideal) <= 14  # hours are those of local standard time
    assert ideal[0] == ideal[23] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nasa_power/EXCERPT", "found 3 days of production, expected at least a month"),
        ("nasa_power/barcelona2", "found RH2M, T2M; add ALLSKY_SFC_SW_DWN"),
        ("ninja/uk2019_ninja_wind", "has no solar production"),
    ],
)
def test_real_files_that_are_no_training_data(name, message):
    found = list(DATA.glob(name + "*"))
    if not found:
        pytest.skip("no real weather files beside the project (../shared/data)")
    with pytest.raises(InputError, match=message):
        read_solar_history(found[0])
