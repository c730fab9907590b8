"""A coarse plan by month, in 80 columns."""

from __future__ import annotations

from plan_cases import hand_season

from beasy_sched.outputs.season_table import season_lines


def test_by_month() -> None:
    """Forty days from 20 December: twelve of them in that month."""
    lines = season_lines(hand_season(repeat=10, start="2019-12-20T00:00:00+01:00"))
    assert [line.split()[0] for line in lines[2:5]] == ["2019-12", "2020-01", "all"]
    assert lines[2].split()[1:] == ["288", "864", "96", "641", "79", "48", "0.0", "0.6"]
    demand, produced = (float(cell.replace(",", "")) for cell in lines[4].split()[1:3])
    assert (demand, produced) == (960.0, 2880.0)
    assert all(len(line) <= 80 for line in lines)


def test_where_no_date_is_known() -> None:
    lines = season_lines(hand_season(repeat=16))
    assert [line[:10].strip() for line in lines[2:6]] == ["days 1-30", "days 31-60", "days 61-90", "all"]


def test_large_sites_fit_too() -> None:
    season = hand_season(years=3, repeat=100, start="2019-01-01T00:00:00+00:00")
    object.__setattr__(season, "load_w", season.load_w * 1e4)
    lines = season_lines(season)
    assert max(map(len, lines)) <= 80
    assert "mean of 3 years" in lines[-2]
