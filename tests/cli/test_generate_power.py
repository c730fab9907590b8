import json
from pathlib import Path

import pytest

from beasy_sched.cli import main
from beasy_sched.formats.power_series import parse_power_csv


def run(capfd, *arguments):
    """Exit code, standard output and error of one command."""
    code = 0
    try:
        main(["generate", "power", *map(str, arguments)])
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 0
    out = capfd.readouterr()
    return code, out.out, out.err


def events(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    """Four days of a plant of 2 kW: 0.5 kW in even hours, 1.5 kW in odd ones."""
    rows = [f"2019-06-{1 + h // 24:02} {h % 24:02}:00,{0.5 + h % 2}" for h in range(96)]
    path = tmp_path / "plant.csv"
    path.write_text("time,pv_kw\n" + "\n".join(rows) + "\n")
    return path


def test_a_synthetic_profile_has_one_line_a_step_and_the_same_bytes_each_time(tmp_path, capfd):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        code, out, err = run(capfd, "--synthetic", "--seed", 3, "--pv-kw", 10, "--wind-kw", 7, "-o", path)
        assert (code, out) == (0, "")
        assert "864 steps of 300 s" in err
        assert "capacity factor" in err
    assert first.read_bytes() == second.read_bytes()
    lines = events(first.read_text())
    assert [line["timestamp"] for line in lines] == list(range(0, 259_200, 300))
    assert set(lines[0]) == {"type", "timestamp", "power_available", "sun_available"}
    assert all(0 <= line["sun_available"] <= line["power_available"] for line in lines)
    assert 0 < sum(line["sun_available"] for line in lines) < sum(line["power_available"] for line in lines)
    nights = [line["sun_available"] for line in lines if line["timestamp"] % 86_400 < 4 * 3600]
    assert {*nights} == {0.0}
    assert 0 < max(line["power_available"] for line in lines) <= 17_000


def test_a_file_scaled_to_the_site_starts_at_zero_and_keeps_its_energy(plant, capfd):
    code, out, err = run(
        capfd,
        "--pv",
        plant,
        "--pv-capacity-kw",
        2,
        "--pv-kw",
        10,
        "--start",
        "2019-06-02",
        "--days",
        1,
        "-o",
        "-",
    )
    lines = events(out)
    assert code == 0
    assert len(lines) == 288
    assert lines[0]["timestamp"] == 0
    energy_kwh = sum(line["power_available"] for line in lines) * 300 / 3.6e6
    assert energy_kwh == pytest.approx(120, rel=1e-9)
    assert "120.000 kWh" in err
    assert "from 2019-06-02 00:00 UTC" in err


def test_sun_and_wind_are_added_each_from_its_own_time(plant, capfd):
    size = ["--pv-capacity-kw", 2, "--wind-capacity-kw", 2, "--interpolation", "constant", "--days", 1]
    _, out, _ = run(
        capfd,
        "--pv",
        plant,
        "--wind",
        plant,
        *size,
        "--wind-start",
        "2019-06-02 01:00",
        "--dt",
        3600,
        "-qo",
        "-",
    )
    assert {line["power_available"] for line in events(out)} == {2000}


def test_batsim_5_and_steps_that_do_not_divide_the_hour(plant, capfd):
    _, out, _ = run(
        capfd, "--pv", plant, "--pv-capacity-kw", 2, "--dt", 700, "--format", "batsim5", "-qo", "-"
    )
    lines = events(out)
    assert len(lines) == 259_200 // 700
    assert {line["type"] for line in lines} == {"generic"}
    assert lines[1]["timestamp"] == 700
    assert json.loads(lines[1]["data"])["power_available"] > 0


def test_synthetic_exports_can_be_read_back(tmp_path, capfd):
    prefix = tmp_path / "sky"
    size = ["--pv-kw", 10, "--wind-kw", 7]
    run(capfd, "--synthetic", *size, "--write-ninja", prefix, "-o", tmp_path / "a.txt")
    code, _, err = run(
        capfd, "--pv", f"{prefix}_pv.csv", "--wind", f"{prefix}_wind.csv", *size, "-o", tmp_path / "b.txt"
    )
    assert (code, "from 2024-10-01 00:00 UTC" in err) == (0, True)
    energies = [
        sum(line["power_available"] for line in events((tmp_path / name).read_text()))
        for name in ("a.txt", "b.txt")
    ]
    assert energies[1] == pytest.approx(energies[0], rel=1e-3)


def test_a_note_about_repairs_goes_to_the_terminal(tmp_path, capfd):
    path = tmp_path / "turned.csv"
    path.write_text("time (UTC),p_kw\n2019-06-01 01:00,1\n2019-06-01 02:00,1\n2019-06-01 00:00,1\n")
    size = ["--pv-capacity-kw", 1, "--days", 0.125, "-qo", tmp_path / "o.txt"]
    _, _, err = run(capfd, "--pv", path, *size)
    assert err == f"note: {path}: rows are not in order of time (first at line 4): sorted\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input: give --pv FILE, --wind FILE or both, or --synthetic"),
        (["--synthetic"], "--synthetic needs the size of a plant: give --pv-kw, --wind-kw or both"),
        (["--synthetic", "--pv", "x"], "--synthetic generates the weather: do not combine it with --pv"),
        (["--synthetic", "--pv-kw", "nan"], "found 'nan', expected a number above 0"),
        (["--synthetic", "--pv-kw", "1", "--start", "soon"], "found 'soon', expected a time such as"),
        (
            ["--synthetic", "--pv-kw", "1", "--days", "0.001"],
            "--days 0.001 is shorter than one step of 300 s",
        ),
        (
            ["--synthetic", "--pv-kw", "1", "--cloudiness", "2"],
            "'--cloudiness': found '2', expected a number from 0 to 1",
        ),
        (["--synthetic", "--wind-kw", "1", "--cut-in", "13"], "expected above the cut-in speed (13 m/s)"),
        (["--pv", "nowhere.csv"], "nowhere.csv: cannot be read: No such file or directory"),
        (["--pv", "PLANT"], "does not state the capacity that its power refers to (its peak is 1.5 kW)"),
        (["--pv", "PLANT", "--pv-capacity-kw", "2", "--start", "2019-06-04"], "but the window is 2019-06-04"),
        (["--pv", "PLANT", "--write-ninja", "x"], "--write-ninja requires --synthetic"),
    ],
)
def test_mistakes_are_told_in_a_line_and_write_nothing(arguments, message, plant, tmp_path, capfd):
    output = tmp_path / "out.txt"
    arguments = [plant if argument == "PLANT" else argument for argument in arguments]
    code, _, err = run(capfd, *arguments, "-o", output)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not output.exists()


def test_the_plant_of_these_tests_is_read(plant):
    assert len(parse_power_csv(plant, plant.read_text())) == 96


def test_power_far_below_the_capacity_is_said(tmp_path, capfd):
    rows = [f"{(h % 24 >= 12) * 0.18:g}" for h in range(200 * 24)]
    (tmp_path / "pv.csv").write_text("pv\n" + "\n".join(rows) + "\n")
    arguments = (
        "--pv",
        tmp_path / "pv.csv",
        "--unit",
        "kW",
        "--interval",
        3600,
        "-o",
        tmp_path / "o.txt",
        "-q",
    )
    code, _, err = run(capfd, *arguments, "--pv-capacity-kw", 1)
    assert code == 0
    assert err.count("warning") == 1
    assert "in 200 days its power never exceeds 18 % of its capacity of 1 kW" in err
    assert "warning" not in run(capfd, *arguments, "--pv-capacity-kw", 0.3)[2]


@pytest.mark.parametrize(("column", "warned"), [("WS2M", True), ("WS10M", False)])
def test_wind_near_the_ground_is_said(column, warned, tmp_path, capfd):
    rows = [f"2020,6,{1 + h // 24},{h % 24},5.0" for h in range(72)]
    (tmp_path / "nasa.csv").write_text(f"YEAR,MO,DY,HR,{column}\n" + "\n".join(rows) + "\n")
    code, _, err = run(capfd, "--wind", tmp_path / "nasa.csv", "--wind-kw", 1, "-o", tmp_path / "o.txt", "-q")
    assert code == 0
    assert ("warning" in err and "2 m above the ground" in err) is warned


SITE = """
[time]
start = "2019-06-01T00:00:00+00:00"
window_h = 24
[grid]
price = { file = "prices.csv", known = "all" }
"""


@pytest.fixture
def priced_site(tmp_path: Path) -> Path:
    """A price of 0.1 in even hours and 0.2 in odd ones, for two days."""
    rows = [f"2019-06-{1 + h // 24:02} {h % 24:02}:00,{0.1 + 0.1 * (h % 2):g}" for h in range(48)]
    (tmp_path / "prices.csv").write_text("time,price_per_kwh\n" + "\n".join(rows) + "\n")
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    return path


SKY = ("--synthetic", "--pv-kw", 1, "-q", "-o", "-")


def test_the_grids_prices_beside_the_power(priced_site, capfd):
    plain = events(run(capfd, *SKY, "--days", 1)[1])
    code, out, err = run(capfd, *SKY, "--days", 1, "--grid", priced_site)
    assert (code, err) == (0, "")
    prices = [event.pop("import_price_per_kwh") for event in events(out)]
    assert prices == pytest.approx(([0.1] * 12 + [0.2] * 12) * 12)
    assert [{k: v for k, v in e.items() if k != "import_price_per_kwh"} for e in events(out)] == plain
    five = events(run(capfd, *SKY, "--days", 1, "--grid", priced_site, "--format", "batsim5")[1])
    assert set(json.loads(five[0]["data"])) == {
        "power_available", "sun_available", "import_price_per_kwh",
    }  # fmt: skip
    with priced_site.open("a") as file:
        file.write('carbon = { file = "carbon.csv", known = "all" }\n')
    rows = [f"2019-06-{1 + h // 24:02} {h % 24:02}:00,{300 + h}" for h in range(48)]
    (priced_site.parent / "carbon.csv").write_text("time,g_per_kwh\n" + "\n".join(rows) + "\n")
    code, out, err = run(capfd, *SKY, "--days", 1, "--dt", 3600, "--grid", priced_site)
    assert code == 0
    assert [event["carbon_g_per_kwh"] for event in events(out)] == [300 + hour for hour in range(24)]
    assert "its step is 300 s, --dt 3600 s: an announced price holds for one step" in err


@pytest.mark.parametrize(
    ("text", "days", "expected"),
    [
        (SITE, 3, "the file covers 2019-06-01 00:00 to 2019-06-03 00:00, the run 2019-06-01 00:00 to"),
        ("[grid]\n", 1, "has no price and no carbon intensity: add them to its section [grid]"),
        ("[time]\n", 1, "has no price and no carbon intensity"),
        ("[grid]\nprice = 3\n", 1, "grid.price"),
    ],
)
def test_sites_without_the_prices_wanted(priced_site, capfd, text, days, expected):
    priced_site.write_text(text)
    code, out, err = run(capfd, *SKY, "--days", days, "--grid", priced_site)
    assert (code, out) == (2, "")
    assert expected in err
    assert str(priced_site) in err


def test_energy_of_quarters_becomes_power(tmp_path, capfd):
    """A quarter of a kWh in each quarter of an hour is 1 kW; the message for a bare name offers both."""
    quarters = [f"2019-06-01 {row // 4:02}:{row % 4 * 15:02},{(row % 3) / 8:g}\n" for row in range(96)]
    power, file = tmp_path / "p.txt", tmp_path / "kwh.csv"
    options = ("--pv", file, "--pv-kw", 1, "--pv-capacity-kw", 1, "--days", 1, "--dt", 900, "-o", power)
    for name, more in (("energy_kwh", ()), ("energy", ("--unit", "kWh"))):
        file.write_text(f"time,{name}\n{''.join(quarters)}")
        code, _, told = run(capfd, *options, *more)
        assert (code, "12.000 kWh, peak 1.000 kW" in told) == (0, True), told
        written = [event["power_available"] for event in events(power.read_text())]
        assert written[:3] == pytest.approx([0.0, 500.0, 1000.0])
    code, _, told = run(capfd, *options)
    assert code == 2
    assert "give --unit (W, kW, MW or GW; Wh, kWh or MWh for the energy of each row; per-unit or %)" in told
    file.write_text(f"time,energy_kwh\n{''.join(quarters)}")
    code, _, told = run(capfd, *options, "--unit", "kw")
    assert code == 2
    assert "column 'energy_kwh' is in kwh, but --unit is kw" in told


def sun_only(folder: Path, lost: str = "") -> Path:
    """Three days of a logger that is silent from 19:00 to 06:00."""
    times = [f"2024-02-{day} {hour:02}:00" for day in (27, 28, 29) for hour in range(7, 19)]
    path = folder / "sun.csv"
    path.write_text("time,power_kw\n" + "".join(f"{time},1.5\n" for time in times if time != lost))
    return path


PLACE = ("--latitude", 50, "--longitude", 0)


def test_gaps_at_night_count_as_zero(tmp_path, capfd):
    given = ("--pv", sun_only(tmp_path), "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 2)
    out = tmp_path / "power.txt"
    code, _, err = run(capfd, *given, "-o", out)
    assert (code, "12 in a row: use another window; --night zero" in err) == (2, True)
    code, _, err = run(capfd, *given, "--night", "zero", "-o", out)
    assert (code, "give --latitude and --longitude" in err) == (2, True)
    code, _, err = run(capfd, *given, "--night", "zero", *PLACE, "-o", out)
    assert code == 0, err
    assert "24 intervals without a value at night count as 0" in err
    power = [event["power_available"] for event in events(out.read_text())]
    assert {*power[13 * 12 : 23 * 12]} == {0.0}
    assert "36.000 kWh" in err


def test_gaps_by_day_are_refused_with_nights_at_zero_too(tmp_path, capfd):
    path = sun_only(tmp_path, lost="2024-02-28 12:00")
    given = ("--pv", path, "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 2, "--night", "zero")
    code, _, err = run(capfd, *given, *PLACE, "-o", tmp_path / "power.txt")
    assert (code, "has no row for 2024-02-28 12:00" in err) == (2, True)
    code, _, err = run(capfd, *given, "--latitude", 50, "--longitude", 120, "-o", tmp_path / "power.txt")
    assert (code, "has no row for" in err) == (2, True)  # its night is the day at another place


def test_negative_power_is_clipped_on_request(tmp_path, capfd):
    path, out = tmp_path / "p.csv", tmp_path / "power.txt"
    path.write_text("time,power_kw\n" + "".join(f"{3600 * h},{-0.01 if h < 6 else 1}\n" for h in range(24)))
    given = ("--pv", path, "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 1, "-o", out)
    code, _, err = run(capfd, *given)
    assert (code, "--clip-negative" in err, out.exists()) == (2, True, False)
    code, _, err = run(capfd, *given, "--clip-negative")
    assert (code, "6 negative values counted as 0" in err) == (0, True)


def test_the_time_zone_of_a_file(tmp_path, capfd):
    path, out = tmp_path / "p.csv", tmp_path / "power.txt"
    path.write_text("time,power_kw\n" + "".join(f"2024-07-{1 + h // 24} {h % 24}:00,1\n" for h in range(72)))
    given = ("--pv", path, "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 1, "-o", out)
    code, _, err = run(capfd, *given, "--timezone", "Europe/Berlin")
    assert (code, "from 2024-06-30 22:00 UTC" in err, "times are Europe/Berlin" in err) == (0, True, True)
    code, _, err = run(capfd, *given, "--timezone", "+01:00")
    assert (code, "from 2024-06-30 23:00 UTC" in err) == (0, True)
    code, _, err = run(capfd, *given, "--timezone", "Berlin")
    assert (code, "found 'Berlin', expected a time zone such as Europe/Berlin" in err) == (2, True)


def test_a_time_zone_that_applies_to_no_file_is_an_error(tmp_path, capfd):
    stated, local, out = tmp_path / "p.csv", tmp_path / "w.csv", tmp_path / "power.txt"
    stated.write_text(
        "time (UTC),power_kw\n" + "".join(f"2024-07-{1 + h // 24} {h % 24}:00,1\n" for h in range(72))
    )
    local.write_text(stated.read_text().replace(" (UTC)", ""))
    given = (
        "--pv",
        stated,
        "--pv-kw",
        5,
        "--pv-capacity-kw",
        5,
        "--days",
        1,
        "-o",
        out,
        "--timezone",
        "+01:00",
    )
    code, _, err = run(capfd, *given)
    assert code == 2
    assert "--timezone applies to none of the files" in err
    assert "its column 'time (UTC)' states UTC; omit it" in err
    assert not out.exists()
    code, _, err = run(capfd, *given, "--wind", local, "--wind-kw", 5, "--wind-capacity-kw", 5)
    assert (code, "p.csv: --timezone does not apply: its column 'time (UTC)' states UTC" in err) == (0, True)


def test_advice_on_a_gap_by_day_with_nights_at_zero(tmp_path, capfd):
    path = sun_only(tmp_path, lost="2024-02-28 12:00")
    given = ("--pv", path, "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 2, "--night", "zero")
    code, _, err = run(capfd, *given, *PLACE, "-o", tmp_path / "power.txt")
    assert code == 2
    assert "--night zero does not apply, since the sun is at 31 degrees then: check --latitude" in err
    assert "for a logger" not in err


def test_a_logger_may_wake_within_the_hour_of_sunrise(tmp_path, capfd):
    given = ("--pv", sun_only(tmp_path), "--pv-kw", 5, "--pv-capacity-kw", 5, "--days", 2, "--night", "zero")
    for longitude in (-5, 0, 5, 10):
        place = ("--latitude", 50, "--longitude", longitude)
        code, _, err = run(capfd, *given, *place, "-o", tmp_path / "power.txt")
        assert (code, "24 intervals without a value at night count as 0" in err) == (0, True)


def test_a_share_of_the_capacity_has_no_other_capacity(tmp_path, capfd):
    path, out = tmp_path / "p.csv", tmp_path / "power.txt"
    path.write_text(
        "time (UTC),load (%)\n" + "".join(f"2024-07-{1 + h // 24} {h % 24}:00,50\n" for h in range(48))
    )
    given = ("--pv", path, "--pv-kw", 5, "--days", 1, "-o", out)
    assert run(capfd, *given)[0] == 0
    assert events(out.read_text())[0]["power_available"] == 2500
    code, _, err = run(capfd, *given, "--pv-capacity-kw", 10)
    assert (code, "is per unit of capacity: give the plant's size with --pv-kw, and omit" in err) == (2, True)
