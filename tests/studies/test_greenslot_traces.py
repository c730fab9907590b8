"""Weeks of traces in GreenSlot's study: which week, on how many nodes, due by when; a run of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from small_campaign import Here
from studies.greenslot.cases import MAIN, trace_rows
from studies.greenslot.inputs import AVERAGE, HOURS
from studies.greenslot.study import GreenSlotStudy
from studies.greenslot.traces import LONG_WEEK, RULES, trace_week

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.swf_fields import FIELDS_A_ROW

HOUR, DAY = 3600, 86_400
STOCKHOLM = ZoneInfo("Europe/Stockholm")
BEGIN = datetime(1996, 10, 16, 12, tzinfo=STOCKHOLM)  # a Wednesday; the clocks change on 27 October
DATED = f"; MaxProcs: 16\n; UnixStartTime: {BEGIN.timestamp():.0f}\n; TimeZoneString: Europe/Stockholm"


def at(day: int, hour: int, month: int = 10) -> float:
    """The time of the trace at a local time."""
    return datetime(1996, month, day, hour, tzinfo=STOCKHOLM).timestamp() - BEGIN.timestamp()


def weeks_of_jobs(tmp_path: Path, header: str = DATED) -> Path:
    """Three weeks: a little work, half of the machine's time, and all of it; a job each outside them."""
    jobs = [(0.0, 60.0, 1, 120.0)]
    jobs += [(at(21, 9), 2 * HOUR, 16, 3 * HOUR), (at(26, 9), HOUR, 1, HOUR)]
    jobs += [(at(28, 9) + n * HOUR, HOUR, 8, 2 * HOUR) for n in range(104)]
    jobs += [(at(4, 9, 11) + n * HOUR, HOUR, 16, HOUR) for n in range(104)] + [(at(9, 9, 11), 60.0, 1, 60.0)]
    return write_trace(tmp_path / "small.swf", jobs, header)


def test_the_week_with_the_paper_s_load_from_monday_nine_on(tmp_path: Path) -> None:
    found = trace_week(weeks_of_jobs(tmp_path))
    assert found.name == "small"
    assert found.start == "week of 1996-10-28"
    assert (found.nodes, found.panels) == (16, 10)
    assert found.workload.submit_s.tolist() == [n * HOUR for n in range(104)]
    assert found.workload.load == pytest.approx(0.5)
    assert found.label == "small: week of 1996-10-28, 104 jobs, 16 nodes, 10 panels, load 50.0 %"


def test_a_trace_without_dates_is_cut_from_its_first_job(tmp_path: Path) -> None:
    jobs = [(100.0 + n * HOUR, HOUR, 1 + 7 * (n >= 7 * 24), HOUR) for n in range(14 * 24)]
    found = trace_week(write_trace(tmp_path / "x.swf", jobs, "; MaxProcs: 16\n; UnixStartTime: 61845732"))
    assert found.start == "day 7 of the trace"
    assert found.workload.size == HOURS
    assert found.workload.submit_s[0] == 0.0


def test_processors_share_nodes_where_there_are_too_many(tmp_path: Path) -> None:
    found = trace_week(weeks_of_jobs(tmp_path), most_nodes=6)
    assert (found.nodes, found.panels) == (6, 4)
    assert set(found.workload.hosts.tolist()) == {3}  # 8 processors


def test_deadlines_are_those_of_generate_workload(tmp_path: Path) -> None:
    week = trace_week(weeks_of_jobs(tmp_path))
    jobs = week.due_by("factor:3")
    assert jobs.extras["deadline_s"] == [n * HOUR + 3 * 2 * HOUR for n in range(104)]
    assert week.due_by("clock:14:00").extras["deadline_s"][0] == 5 * HOUR  # from 9:00 to 14:00
    assert "deadline_s" not in week.due_by("none").extras
    with pytest.raises(ConfigError, match="--deadlines: found 'soon', expected factor:3"):
        week.due_by("soon")


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([(0.0, 60.0, 1, 60.0), (DAY, 60.0, 1, 60.0)], r"no jobs in a whole week .* extend over 24\.0 h"),
        ([(0.0, 60.0, 1, 60.0), (30 * DAY, 60.0, 1, 60.0)], "no jobs in a whole week"),
    ],
)
def test_a_trace_without_a_week_is_refused(
    tmp_path: Path, jobs: list[tuple[float, float, int, float]], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        trace_week(write_trace(tmp_path / "few.swf", jobs, DATED))


def test_the_long_week_goes_on_as_its_last_days_were() -> None:
    assert LONG_WEEK.hourly_w[:HOURS].tolist() == AVERAGE.hourly_w.tolist()
    assert LONG_WEEK.hourly_w[HOURS : HOURS + 72].tolist() == AVERAGE.hourly_w[HOURS - 72 :].tolist()
    assert LONG_WEEK.predicted_w is not None
    assert len(LONG_WEEK.predicted_w) == LONG_WEEK.hours == HOURS + 14 * 24
    night = [(hour + 9) % 24 in (0, 1, 2) for hour in range(LONG_WEEK.hours)]
    assert np.all(LONG_WEEK.hourly_w[night] == 0.0)


@pytest.mark.slow
def test_a_run_of_a_trace(tmp_path: Path) -> None:
    jobs = [(at(28, 9) + n * 4 * HOUR, 2 * HOUR, 16, 3 * HOUR) for n in range(26)]
    trace = trace_week(write_trace(tmp_path / "s.swf", [*jobs, (at(2, 9, 11), 9.0, 1, 9.0)], DATED))
    rows = trace_rows([trace], ["factor:4"])
    assert [(row.setting, row.case.policy) for row in rows] == [("s, factor:4", policy) for policy in MAIN]
    assert len(trace_rows([trace], RULES)) == 3 * len(RULES)
    cases = [rows[0].case, rows[-1].case]
    week = replace(AVERAGE.longer(HOURS + 24), name=LONG_WEEK.name)
    study = GreenSlotStudy(tmp_path / "out", [week], cases, [trace])
    study.begin()
    assert study.go_on(Here()) == 0
    found = [result.values for result in study.results().values()]
    assert {values["finished"] for values in found} == {26}
    assert [values["load"] for values in found] == pytest.approx([0.5] * 2)
    conventional, green = found
    assert green["total_kwh"] == pytest.approx(
        conventional["total_kwh"], rel=0.03
    )  # idle until the slot ends
    assert green["cost"] < conventional["cost"]
    assert green["missed_jobs"] == green["refused_jobs"] == 0


def test_another_trace_is_another_run(tmp_path: Path) -> None:
    path = weeks_of_jobs(tmp_path)
    [case, *_] = (row.case for row in trace_rows([trace_week(path)], ["factor:4"]))
    names = set()
    for nodes in (16, 8):
        study = GreenSlotStudy(tmp_path / "out", [LONG_WEEK], [case], [trace_week(path, nodes)])
        names.add(study._name(case))
    assert len(names) == 2
    with pytest.raises(ConfigError, match="trace small: is not one of the study"):
        GreenSlotStudy(tmp_path / "out", [LONG_WEEK], [case])._name(case)


def write_trace(path: Path, jobs: Iterable[tuple[float, float, int, float]], header: str) -> Path:
    """Write an SWF trace; jobs are (submission, run time, processors, requested time)."""
    lines = [header]
    for number, (submit_s, run_s, processors, requested_s) in enumerate(jobs, 1):
        fields = {1: number, 2: submit_s, 3: 0, 4: run_s, 5: processors, 8: processors, 9: requested_s, 11: 1}
        lines.append(" ".join(str(fields.get(i, -1)) for i in range(1, FIELDS_A_ROW + 1)))
    path.write_text("\n".join(lines) + "\n")
    return path
