"""The figure of a coarse plan: formats, panels, months, the same bytes each time."""

from __future__ import annotations

import pytest
from plan_cases import hand_season

from beasy_sched.errors import ConfigError
from beasy_sched.report.season_figure import draw_season

pytest.importorskip("matplotlib", reason="figures need matplotlib")

SEASON = hand_season(years=2, repeat=10, start="2019-12-20T00:00:00+01:00")


def test_unknown_format() -> None:
    with pytest.raises(ConfigError, match=r"found '.gif'"):
        draw_season(SEASON, ".gif")


def test_panels_and_months(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    drawn = draw_season(SEASON, ".svg")
    for part in ("Dec 2019", "Jan 2020", "production", "curtailed", "battery [%]", "all years", "mean of 2"):
        assert part in drawn.decode()
    assert "45.0 % of the demand is not met" in drawn.decode()
    assert draw_season(SEASON, ".svg") == drawn


def test_days_where_no_date_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    assert "time [days]" in draw_season(hand_season(), ".svg").decode()
