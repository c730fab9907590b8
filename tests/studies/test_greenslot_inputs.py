"""The weeks of sun of GreenSlot's evaluation, what is known of them, and the site's file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from studies.greenslot.inputs import (
    ACTUAL_W,
    AVERAGE,
    HOURS,
    PAPER_WEEKS,
    PREDICTED_W,
    SunWeek,
    carbon_lines,
    site_text,
    synthetic_weeks,
    weeks_of_file,
)

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.site_file import parse_site


def test_the_week_average_is_as_the_figures_show_it() -> None:
    assert len(ACTUAL_W) == len(PREDICTED_W) == HOURS
    assert ACTUAL_W.sum() / 1000 == pytest.approx(42.4, abs=0.05)
    days = (np.arange(HOURS) + 9) // 24
    errors = np.bincount(days, np.abs(ACTUAL_W - PREDICTED_W)) / 148.0
    assert np.round(errors, 1).tolist() == [10.3, 22.4, 17.8, 12.5, 16.5]  # measured in the figure, %


def known(week: SunWeek, kind: str) -> dict[tuple[int, int], float]:
    """W by hour of issue and valid hour."""
    return {(issued // 3600, valid // 3600): power_w for issued, valid, power_w in week.forecast_rows(kind)}


def test_the_papers_prediction_is_known_from_the_beginning() -> None:
    found = known(AVERAGE, "paper")
    assert {issued for issued, _ in found} == {0}
    assert [found[0, hour] for hour in range(HOURS)] == PREDICTED_W.tolist()


def test_persistence_repeats_the_last_day_and_never_looks_ahead() -> None:
    found = known(AVERAGE, "persistence")
    for (now, hour), power_w in found.items():
        before = hour if hour == now else hour - 24 * ((hour - now) // 24 + 1)
        assert before <= now
        assert power_w == (ACTUAL_W[before] if before >= 0 else 0.0)


def test_the_mean_day_is_known_beyond_three_hours() -> None:
    found = known(AVERAGE, "mean-day")
    assert [found[50, 50 + ahead] for ahead in range(3)] == PREDICTED_W[50:53].tolist()
    same_hour = ACTUAL_W[53 % 24 :: 24]
    assert found[50, 53] == pytest.approx(same_hour.mean())
    assert (HOURS - 1, HOURS - 1) in found


def test_a_week_without_the_papers_predictions_says_so() -> None:
    [first, *_] = synthetic_weeks(1)
    with pytest.raises(ConfigError, match="has no predictions"):
        [*first.forecast_rows("paper")]


def test_synthetic_weeks_are_on_the_papers_dates() -> None:
    weeks = synthetic_weeks(2)
    assert [week.name for week in weeks] == [f"{name}-{seed}" for name in PAPER_WEEKS for seed in (1, 2)]
    for week in weeks:
        assert week.start.weekday() == 0
        night = [(hour + 9) % 24 in (0, 1, 2) for hour in range(HOURS)]
        assert not week.hourly_w[night].any()
        assert 0 < week.hourly_w.max() <= 2300
    again = synthetic_weeks(2)
    assert all(np.array_equal(a.hourly_w, b.hourly_w) for a, b in zip(weeks, again, strict=True))


@pytest.mark.parametrize(("prices", "day", "night"), [("pseg", 0.13, 0.08), ("flat", 0.11, 0.11)])
def test_the_site_has_the_prices_of_new_jersey(tmp_path: Path, prices: str, day: float, night: float) -> None:
    (tmp_path / "carbon.csv").write_text("".join(carbon_lines()))
    text = site_text(AVERAGE, 900.0, prices, "carbon.csv")
    site = parse_site(text, str(tmp_path / "site.toml"))
    assert (site.base_w, site.steps, site.step_s) == (85.0, 416, 900.0)
    assert site.grid is not None
    assert site.grid.price is not None
    found = site.grid.price.expected(0.0, np.array([0.0, 900.0, 14 * 3600.0, 15 * 3600.0]))
    assert [found[0], found[2]] == [day, night]


def plant(path: Path, days: int) -> Path:
    """A plant of 1 kW from Friday, 1 January 2021, whose power is the number of the hour of the day."""
    start = datetime(2021, 1, 1, tzinfo=timezone.utc).timestamp()
    lines = ["time,electricity"]
    for hour in range(24 * days):
        moment = datetime.fromtimestamp(start + 3600 * hour, timezone.utc)
        lines.append(f"{moment:%Y-%m-%d %H:%M},{(hour % 24) / 24:.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_weeks_are_cut_from_monday_at_nine(tmp_path: Path) -> None:
    weeks = weeks_of_file(plant(tmp_path / "year.csv", 40), 3)
    assert len(weeks) == 3
    for week in weeks:
        assert (week.start.weekday(), week.start.hour) == (0, 9)
        assert np.argmax(week.hourly_w[:24]) == 23 - 13  # 9:00 in New Jersey is 13:00 UTC


def test_a_file_without_a_whole_week_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no whole week"):
        weeks_of_file(plant(tmp_path / "days.csv", 6), 3)
