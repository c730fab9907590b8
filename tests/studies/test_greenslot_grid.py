"""Price and carbon files of GreenSlot's study: the week that is taken, the site's file, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from studies.greenslot.inputs import AVERAGE, HOURS, distinct, grid_file, site_text

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.grid_rates import CARBON, PRICE
from beasy_sched.formats.site_file import parse_site

HEAD = "time,price_EUR_per_MWh\n"


def write(path: Path, first: str, days: int, head: str = HEAD, value: Callable[[int], float] = float) -> Path:
    """An hourly file from a moment (UTC) on; by default hour by hour 0, 1, 2 ..."""
    begin = datetime.fromisoformat(first).replace(tzinfo=timezone.utc)
    hours = range(24 * days)
    rows = (f"{(begin + timedelta(hours=hour)).isoformat()},{value(hour):g}\n" for hour in hours)
    path.write_text(head + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("first", "days", "start"),
    [
        ("2019-01-01", 365, "2019-07-15T09:00:00+02:00"),  # 3 days from 12 July, the other Monday 4
        ("2019-01-01", 100, "2019-04-01T09:00:00+02:00"),
        ("2019-10-14", 190, "2020-04-13T09:00:00+02:00"),
        ("2019-01-07", 6, "2019-01-07T09:00:00+01:00"),
    ],
)
def test_the_week_is_the_nearest_in_the_year(tmp_path: Path, first: str, days: int, start: str) -> None:
    path = write(tmp_path / "p.csv", first, days, value=lambda hour: 50.0)
    assert grid_file(str(path), PRICE, AVERAGE.start, HOURS).start.isoformat() == start


def test_a_week_and_a_place_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "2019-01-01", 100, value=lambda hour: 50.0)
    text = f'{{ file = "{path}", week = 2019-02-14, zone = "America/New_York" }}'
    found = grid_file(text, PRICE, AVERAGE.start, HOURS)
    assert found.start.isoformat() == "2019-02-11T09:00:00-05:00"
    assert found.label == "p: week of 2019-02-11, America/New_York"


def test_the_site_has_the_file_s_prices_of_that_week(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "2019-07-14", 20)
    file = grid_file(str(path), PRICE, AVERAGE.start, HOURS)
    week = AVERAGE.with_file(file)
    assert (week.name, week.hourly_w is AVERAGE.hourly_w) == ("p", True)
    (tmp_path / file.copy_name).write_bytes(file.content)
    (tmp_path / "c.csv").write_text("time_s,g_per_kwh\n0,7\n3600,8\n")
    site = parse_site(site_text(week, 900.0, "pseg", "c.csv"), tmp_path / "site.toml")
    assert site.grid is not None
    assert site.grid.price is not None
    # 15 July, 9:00 in Paris, is 7:00 UTC: 31 hours after the file's beginning
    assert site.grid.price.rate.means(np.array([0.0, 3600.0, 7200.0])) == pytest.approx([0.031, 0.032])
    assert site.window_s == HOURS * 3600


def test_a_carbon_file_leaves_the_paper_s_prices(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "2022-07-01", 30, "time,avg_CI\n", lambda hour: 300.0)
    file = grid_file(f'{{ file = "{path}", zone = "America/Los_Angeles" }}', CARBON, AVERAGE.start, HOURS)
    week = AVERAGE.with_file(file)
    (tmp_path / file.copy_name).write_bytes(file.content)
    site = parse_site(site_text(week, 900.0, "pseg", "none.csv"), tmp_path / "site.toml")
    assert site.grid is not None
    assert site.grid.carbon is not None
    assert site.grid.price is not None
    hours = np.arange(16) * 3600.0
    assert site.grid.carbon.rate.means(hours[:2]).tolist() == [300.0]
    prices = site.grid.price.rate.means(hours)  # local prices: 0.13 until 23:00 in California
    assert prices == pytest.approx([0.13] * 14 + [0.08])


def test_weeks_differ_by_their_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.csv", "2019-07-01", 30, value=lambda hour: 50.0) for name in "ab"]
    files = [grid_file(str(path), PRICE, AVERAGE.start, HOURS) for path in paths]
    contents = [AVERAGE.contents, *(AVERAGE.with_file(file).contents for file in files)]
    assert len({repr(content) for content in contents}) == 3
    assert distinct(files) == files
    with pytest.raises(ConfigError, match="two files have the name 'a'"):
        distinct([files[0], files[0]])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{folder}/none.csv", r"none\.csv: cannot be read"),
        ('{{ file = "{folder}/short.csv" }}', r"no whole week .*: it covers 2019-07-15 11:00 to 2019-07-18"),
        (
            '{{ file = "{folder}/year.csv", week = 2020-07-13 }}',
            "not cover the week of 2020-07-13: it covers",
        ),
        ('{{ file = "{folder}/year.csv", zone = "Paris" }}', r"zone: found 'Paris', expected a time zone"),
        ('{{ file = "{folder}/year.csv", day = 1 }}', "day"),
        ('{{ file = "{folder}/year.csv" ', "is not valid TOML"),
        ('{{ column = "x" }}', "file"),
        ('{{ file = "{folder}/year.csv", column = "y" }}', "y"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    write(tmp_path / "short.csv", "2019-07-15 09:00", 3, value=lambda hour: 50.0)
    write(tmp_path / "year.csv", "2019-01-01", 365, value=lambda hour: 50.0)
    with pytest.raises(InputError, match=told):
        grid_file(text.format(folder=tmp_path), PRICE, AVERAGE.start, HOURS)
