"""Runs by month: which steps and jobs belong to a month, and what the table says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flow_battery import FlowBattery
from summaries import made_up

from beasy_sched.energy.devices import kinds
from beasy_sched.errors import ConfigError
from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.campaigns import months
from beasy_sched.plugins.campaigns.months import draw_year, month_lines, months_of
from beasy_sched.plugins.reports.drawing import RUN_COLORS
from beasy_sched.plugins.reports.html import MOST_DETAILED
from beasy_sched.plugins.reports.run_data import OUTCOMES, RunData, RunJobs
from beasy_sched.plugins.reports.run_table import RunTable

DAY_S = 86_400.0


def hand_run(days, start=None, name="easy", jobs=()):
    """A run of one step a day: 1 kW produced, 0.5 kW used, 0.25 kW curtailed, a level that falls by 1 a day.

    ``jobs`` are pairs of submission (days) and outcome.
    """
    number = np.arange(days)
    always = {"renewable_w": 1000.0, "demand_w": 500.0, "curtailed_w": 250.0, "unserved_w": 0.0}
    columns = {"start_s": number * DAY_S, "duration_s": np.full(days, DAY_S)}
    columns |= {column: np.full(days, power_w) for column, power_w in always.items()}
    columns |= {"soc_pct": 90.0 - number, "hydrogen_kg": 5.0 + number}
    none = RunTable(Path())
    submit_s = np.array([day * DAY_S for day, _ in jobs])
    outcome = np.array([OUTCOMES.index(state) for _, state in jobs], dtype=np.int8)
    nothing = np.full(len(jobs), np.nan)
    ids = [str(number) for number in range(len(jobs))]
    done = RunJobs(ids, submit_s, nothing, nothing, np.ones(len(jobs), np.int64), outcome, [""] * len(jobs))
    summary = made_up(site={"soc_min_pct": 20.0} | ({"start": start} if start else {}))
    return RunData(name, name, summary, done, RunTable(Path(), columns), none, none, none, None)


def test_steps_and_jobs_belong_to_the_month_of_their_start():
    jobs = [
        (16.9, JobState.FINISHED),
        (16.9, JobState.KILLED),
        (17.0, JobState.FAILED),
        (44.0, JobState.POSTPONED),
    ]
    may, june, july = months_of(hand_run(50, "2019-05-15T00:00:00+02:00", jobs=jobs))
    assert [month.name for month in (may, june, july)] == ["2019-05", "2019-06", "2019-07"]
    assert [month.production_kwh for month in (may, june, july)] == [17 * 24, 30 * 24, 3 * 24]
    assert [month.jobs for month in (may, june, july)] == [2, 2, 0]
    assert (may.finished_pct, may.killed_pct, june.finished_pct, june.killed_pct) == (50, 50, 50, 0)
    assert np.isnan(july.finished_pct)
    assert [month.soc_lowest_pct for month in (may, june, july)] == [90 - 16, 90 - 46, 90 - 49]
    assert [month.hydrogen_kg for month in (may, june, july)] == [5 + 16, 5 + 46, 5 + 49]


def test_the_months_use_the_clock_of_the_site():
    (may, june) = months_of(hand_run(2, "2019-05-31T00:00:00+02:00", jobs=[(0.99, JobState.FINISHED)]))
    assert (may.jobs, june.jobs) == (1, 0)
    assert may.production_kwh == june.production_kwh == 24


def test_a_run_that_ends_with_its_month_has_no_further_one():
    assert [month.name for month in months_of(hand_run(31, "2019-05-01T00:00:00+00:00"))] == ["2019-05"]


def test_without_dates_a_month_has_30_days():
    names = [month.name for month in months_of(hand_run(65))]
    assert names == ["days 1-30", "days 31-60", "days 61-65"]
    assert [month.name for month in months_of(hand_run(60))] == ["days 1-30", "days 31-60"]


def test_a_run_without_a_site_has_no_months():
    run = hand_run(3)
    with pytest.raises(ConfigError, match="expected a run with a site"):
        months_of(replace(run, trace=RunTable(Path())))


def test_the_table_puts_runs_side_by_side_and_below_each_other():
    jobs = [(0.5, JobState.FINISHED), (0.5, JobState.KILLED), (40.0, JobState.FINISHED)]
    runs = [hand_run(45, "2019-05-15T00:00:00+00:00", name, jobs) for name in ("easy", "a-policy-of-my-own")]
    wide, narrow = month_lines(runs, 100), month_lines(runs, 60)
    assert len(wide) == 3 + 2
    assert wide[0].split("|")[1].strip() == "easy"
    assert wide[3].split() == ["2019-05", "408", "2", *(["|", "50.0", "50.00", "74", "21.0"] * 2)]
    assert len(narrow) == 2 * len(wide) + 1
    assert max(map(len, narrow)) <= 60
    assert narrow[-2].split()[:3] == ["2019-05", "408", "2"]


def test_months_without_jobs_have_no_shares():
    assert month_lines([hand_run(3)], 100)[-1].split() == ["days", "1-3", "72", "0", "|", "88", "7.0"]


@pytest.mark.slow
def test_the_picture_is_a_png():
    runs = [hand_run(45, "2019-05-15T00:00:00+00:00", name, [(0.5, JobState.FINISHED)]) for name in "ab"]
    picture = draw_year(runs, "45 days")
    assert picture.startswith(b"\x89PNG")
    assert picture == draw_year(runs, "45 days")


def test_the_last_day_is_drawn(monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    run = hand_run(4)
    run.trace["duration_s"][3] = 0.001  # the run ends
    run.trace["soc_pct"][3] = run.trace["soc_pct"][2]
    draw_year([run], "three days")
    energy, level, *_ = drawn[0].axes
    for panel, values in ((energy, [24.0] * 3), (level, [90.0, 89.0, 88.0])):
        shown, edges, _ = panel.patches[0].get_data()
        assert (shown.tolist(), edges.tolist()) == (values, [0.0, 1.0, 2.0, 3.0])


def test_a_last_step_that_began_late_has_no_day_of_its_own(monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    run = hand_run(3)
    run.trace["start_s"][1:] += 0.001
    draw_year([run], "three days")
    _, edges, _ = drawn[0].axes[0].patches[0].get_data()
    assert edges.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_long_run_is_drawn_by_weeks(monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    draw_year([hand_run(65)], "65 days")
    energy, level, *_ = drawn[0].axes
    made, edges, _ = energy.patches[0].get_data()
    assert edges.tolist() == [0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 65]
    assert made.tolist() == [24.0] * 10
    mean, lowest = (patch.get_data().values for patch in level.patches)
    assert mean.tolist() == [90.0 - 3 - 7 * week for week in range(9)] + [90.0 - 63.5]
    assert lowest.tolist() == [90.0 - 6 - 7 * week for week in range(9)] + [90.0 - 64]


def test_runs_that_ended_earlier_have_no_values_in_the_last_months():
    start, jobs = "2019-05-15T00:00:00+00:00", [(0.5, JobState.FINISHED)]
    lines = month_lines([hand_run(10, start, "a", jobs), hand_run(45, start, "b", jobs)], 100)
    assert lines[3].split() == ["2019-05", "408", "1", "|", *["100.0", "0.00", "81", "14.0"], "|",
                                *["100.0", "0.00", "74", "21.0"]]  # fmt: skip
    assert lines[4].split()[:7] == ["2019-06", "672", "0", "|", "-", "-", "-"]


def test_runs_of_different_lengths_are_drawn_whole_and_alike(monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    draw_year([hand_run(10, name="a"), hand_run(65, name="b")], "10 and 65 days")
    energy, _, hydrogen = drawn[0].axes
    assert energy.get_xlim() == (0.0, 65.0)
    made, short, long = (patch.get_data().edges for patch in energy.patches)
    assert (made.tolist(), short.tolist()) == (long.tolist(), [0.0, 7.0, 10.0])
    assert [line.get_xdata()[-1] for line in hydrogen.lines] == [10.0, 65.0]
    assert hydrogen.lines[0].get_xdata()[0] == 1.0  # a level is that of a step's end


def panels_of(runs, monkeypatch):
    """The panels of a picture, by the first word of their labels."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    draw_year(runs, "title")
    return {panel.get_ylabel().split()[0].strip(","): panel for panel in drawn[0].axes}


def test_a_short_run_is_drawn_and_marked_by_days(monkeypatch):
    jobs = [
        (0.5, JobState.FINISHED),
        (2.1, JobState.KILLED),
        (2.2, JobState.FINISHED),
        (9.0, JobState.FINISHED),
    ]
    panels = panels_of([hand_run(3, "2019-05-15T06:00:00+02:00", jobs=jobs)], monkeypatch)
    share, edges, _ = panels["finished"].patches[0].get_data()
    assert np.array_equal(share, [100.0, np.nan, 200 / 3], equal_nan=True)
    assert edges.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert panels["finished"].get_xticks().tolist() == [0.75, 1.75, 2.75]
    assert [text.get_text() for text in panels["finished"].get_xticklabels()] == [
        "16 May",
        "17 May",
        "18 May",
    ]


def test_a_long_run_is_drawn_by_months(monkeypatch):
    jobs = [(0.5, JobState.FINISHED), (20.0, JobState.KILLED)]
    panels = panels_of([hand_run(80, "2019-05-15T00:00:00+02:00", jobs=jobs)], monkeypatch)
    share, edges, _ = panels["finished"].patches[0].get_data()
    assert np.array_equal(share, [100.0, 0.0, np.nan, np.nan][: len(share)], equal_nan=True)
    assert edges.tolist() == [0.0, 17.0, 47.0, 78.0, 80.0]
    assert panels["finished"].get_xticks().tolist() == [0.0, 17.0, 47.0, 78.0]


def test_curves_do_not_touch_the_top_and_no_panel_is_empty(monkeypatch):
    panels = panels_of([hand_run(5, jobs=[(0.5, JobState.FINISHED)])], monkeypatch)
    assert panels["hydrogen"].get_ylim()[1] > 1.05 * 9.0
    low, high = panels["finished"].get_ylim()
    assert low < 90.0
    assert high > 100.0
    assert "finished" not in panels_of([hand_run(5)], monkeypatch)


def test_each_run_that_is_shown_in_full_has_a_colour_of_its_own():
    assert len({*RUN_COLORS.values()}) == len(RUN_COLORS) >= MOST_DETAILED


def test_a_tank_that_hardly_changes_is_seen_to_change_and_one_that_does_not_is_left_out(monkeypatch):
    little = hand_run(5, jobs=[(0.5, JobState.FINISHED)])
    little.trace["hydrogen_kg"][:] = np.linspace(20.0, 20.5, 5)
    low, high = panels_of([little], monkeypatch)["hydrogen"].get_ylim()
    assert 19.9 < low < 20.0
    assert 20.5 < high < 20.6
    little.trace["hydrogen_kg"][:] = 20.0
    assert "hydrogen" not in panels_of([little], monkeypatch)


def test_another_device_has_a_panel(monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = []
    monkeypatch.setitem(kinds.KINDS, "flow_battery", FlowBattery)
    monkeypatch.setattr(months, "figure_bytes", lambda figure, suffix: drawn.append(figure) or b"")
    run = hand_run(3)
    flow = replace(run, trace=run.trace.plus(FlowBattery.columns.level, np.array([1.0, 4.0, 2.0])))
    draw_year([run, flow], "three days")
    (panel,) = (each for each in drawn[0].axes if each.get_ylabel() == "flow battery, kWh")
    (line,) = panel.lines
    assert line.get_ydata().tolist() == [1.0, 4.0, 2.0]
