"""Deadlines and chains for jobs of traces."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.cli.generate_workload import workload as command
from beasy_sched.errors import ConfigError
from beasy_sched.generate.job_deadlines import DeadlineRule, parse_deadlines, with_chains, with_deadlines
from beasy_sched.generate.workload import GeneratedWorkload

HOUR, DAY = 3600.0, 86_400.0


def jobs(submit_s, walltime_s):
    count = len(submit_s)
    return GeneratedWorkload(
        nb_res=4,
        window_s=DAY,
        ids=[str(number) for number in range(1, count + 1)],
        submit_s=np.array(submit_s, dtype=np.float64),
        run_s=np.ones(count),
        hosts=np.ones(count, dtype=np.int64),
        walltime_s=np.array(walltime_s, dtype=np.float64),
        reference_speed_flops=1e9,
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", None),
        ("factor:3", DeadlineRule(factors=(3, 3))),
        ("factor:2..10", DeadlineRule(factors=(2, 10))),
        ("factor:1.5..2.5", DeadlineRule(factors=(1.5, 2.5))),
        ("hours:24", DeadlineRule(after_s=DAY)),
        ("clock:14:00,09:30", DeadlineRule(clock_s=(9.5 * HOUR, 14 * HOUR))),
    ],
)
def test_rules(text, rule):
    assert parse_deadlines(text) == rule


@pytest.mark.parametrize(
    "text",
    ["", "factor", "factor:0", "factor:5..2", "hours:0", "hours:-1", "clock:24:00", "clock:9", "soon:3"],
)
def test_rules_that_are_none(text):
    with pytest.raises(ValueError, match="expected factor:3, factor:2") as told:
        parse_deadlines(text)
    assert str(told.value).startswith(f"found {text!r}")


def test_deadlines_by_hours_and_factor():
    work = jobs([0, 100], [60, math.nan])
    assert with_deadlines(work, parse_deadlines("hours:1")).extras["deadline_s"] == [3600, 3700]
    assert with_deadlines(work, parse_deadlines("factor:3")).extras["deadline_s"] == [180, None]
    assert work.report.notes == [
        "2 of 2 jobs have a deadline",
        "1 jobs have no walltime, and so no deadline",
        "1 of 2 jobs have a deadline",
    ]


@given(st.integers(0, 5), st.lists(st.floats(1, 1e5), min_size=1, max_size=20))
def test_factors_are_drawn_by_seed(seed, walltimes):
    work = jobs(np.arange(len(walltimes)), walltimes)
    rule = parse_deadlines("factor:2..10")
    due = rule.deadlines_s(work, seed=seed)
    factors = (due - work.submit_s) / work.walltime_s
    assert np.all((factors >= 2 - 1e-6) & (factors <= 10 + 1e-6))
    assert np.array_equal(due, rule.deadlines_s(work, seed=seed))


spans = st.tuples(st.floats(0, 5 * DAY), st.floats(1, 2 * DAY))


@given(st.lists(spans, min_size=1, max_size=20), st.floats(0, DAY))
def test_the_first_time_of_day_that_leaves_the_walltime(pairs, midnight_s):
    submit, walltime = zip(*sorted(pairs), strict=True)
    work = jobs(submit, walltime)
    found = parse_deadlines("clock:09:00,14:00").deadlines_s(work, seed=0, midnight_s=midnight_s)
    offers = sorted(midnight_s + day * DAY + hour * HOUR for day in range(-2, 12) for hour in (9, 14))
    for due, ready in zip(found, np.add(submit, walltime), strict=True):
        assert due == pytest.approx(next(offer for offer in offers if offer >= ready - 1e-6))


COLUMNS = (
    np.array([11.0, 12.0, 13.0, 14.0, 15.0]),  # job numbers
    np.array([-1.0, 11.0, 12.0, 99.0, 15.0]),  # preceding jobs: 99 is not there, 15 is the job itself
    np.array([-1.0, 30.0, 0.0, 5.0, 5.0]),  # think times
)


def test_chains_that_keep_the_submission():
    work = jobs([0, 100, 200, 300, 400], [60] * 5)
    made = with_chains(work, "keep", *COLUMNS)
    assert made.extras["after"] == [None, ["1"], ["2"], None, None]
    assert "think_time_s" not in made.extras
    assert made.submit_s.tolist() == [0, 100, 200, 300, 400]
    assert made.report.notes == ["chains (keep): 2 of 5 jobs wait for a preceding job"]


def test_chains_that_wait_are_submitted_with_their_first_job():
    work = jobs([10, 100, 200, 300, 400], [60] * 5)
    made = with_chains(work, "wait", *COLUMNS)
    assert made.ids == ["1", "2", "3", "4", "5"]
    assert made.submit_s.tolist() == [10, 10, 10, 300, 400]
    assert made.extras["think_time_s"] == [None, 30, None, None, None]
    assert made.extras["after"] == [None, ["1"], ["2"], None, None]


def test_chains_are_sorted_by_submission():
    work = jobs([0, 50, 100, 200], [60] * 4)
    numbers = np.array([1.0, 2.0, 3.0, 4.0])
    made = with_chains(work, "wait", numbers, np.array([-1.0, -1.0, -1.0, 1.0]), np.full(4, -1.0))
    assert made.ids == ["1", "4", "2", "3"]
    assert made.extras["after"] == [None, ["1"], None, None]
    assert with_chains(work, "none", *COLUMNS) is work


def test_times_of_day_need_the_local_clock():
    rule = parse_deadlines("clock:09:00")
    work = jobs([0], [60])
    assert with_deadlines(replace(work, midnight_s=-8 * HOUR), rule).extras["deadline_s"] == [HOUR]
    with pytest.raises(ConfigError, match="give it, such as --clock-at-0"):
        with_deadlines(replace(work, midnight_s=None), rule)


ROW = "{number} {submit} 0 100 1 -1 -1 1 200 -1 1 -1 -1 -1 -1 -1 {pre} {think}\n"
HEADER = "; UnixStartTime: 843480031\n; TimeZoneString: Europe/Stockholm\n"  # 14:00:31 local time


def trace(folder, header=HEADER):
    path = folder / "t.swf"
    rows = [(1, 0, -1, -1), (2, 500, 1, 60), (3, 900, 1, -1), (4, 1000, -1, -1)]
    lines = [ROW.format(number=n, submit=s, pre=p, think=t) for n, s, p, t in rows]
    path.write_text(header + "".join(lines))
    return str(path)


def generate(*arguments):
    done = CliRunner().invoke(command, [*arguments, "-o", "-"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stderr, done.stdout


def made_jobs(*arguments):
    code, told, text = generate(*arguments)
    assert code == 0, told
    return json.loads(text)["jobs"], told


def test_a_trace_with_deadlines_at_the_local_clock(tmp_path):
    found, told = made_jobs(trace(tmp_path), "--deadlines", "clock:09:00,14:05")
    # 14:00:31 + 200 s is 14:03:51; 500 s later it is too late for 14:05
    assert [job["deadline_s"] for job in found] == [269, *[19 * HOUR - 31] * 3]
    assert "4 of 4 jobs have a deadline" in told
    moved, _ = made_jobs(trace(tmp_path), "--from", "500", "--deadlines", "clock:09:00")
    assert [job["deadline_s"] for job in moved] == [19 * HOUR - 531] * 3


def test_the_clock_can_be_given(tmp_path):
    given, _ = made_jobs(trace(tmp_path), "--deadlines", "clock:09:00", "--clock-at-0", "08:30")
    assert given[0]["deadline_s"] == HOUR / 2
    with pytest.raises(ConfigError, match="give it, such as --clock-at-0"):
        made_jobs(trace(tmp_path, ""), "--deadlines", "clock:09:00")
    found, _ = made_jobs(trace(tmp_path, ""), "--deadlines", "clock:09:00", "--clock-at-0", "08:30")
    assert found == given


@pytest.mark.parametrize(("how", "submit"), [("keep", [0, 500, 900, 1000]), ("wait", [0, 0, 0, 1000])])
def test_a_trace_with_chains(tmp_path, how, submit):
    found, told = made_jobs(trace(tmp_path), "--chains", how)
    assert [job["subtime"] for job in found] == submit
    assert [job.get("after") for job in found] == [None, ["1"], ["1"], None]
    assert [job.get("think_time_s") for job in found] == [None, 60 if how == "wait" else None, None, None]
    assert f"chains ({how}): 2 of 4 jobs wait" in told


def test_synthetic_jobs_get_deadlines_after_the_noise():
    arguments = ("--synthetic", "--jobs", "40", "--noise", "20", "--deadlines", "factor:3")
    found, _ = made_jobs(*arguments)
    for job in found:
        assert job["deadline_s"] == pytest.approx(job["subtime"] + 3 * job["walltime"])
    drawn = ("--synthetic", "--jobs", "40", "--deadlines", "factor:2..10", "--seed")
    assert made_jobs(*drawn, "1") == made_jobs(*drawn, "1") != made_jobs(*drawn, "2")


def test_the_papers_workflows():
    found, told = made_jobs("--workflows")
    assert "median P-state of greenslot-xeon" in told
    assert len(found) == 352
    assert {job["workflow"] for job in found} >= {"W1.1", "W2.12", "W3.8"}
    assert "load 0.468" in told
    more, _ = made_jobs(
        "--workflows", "--copies", "1", "--deadline-shift", "6", "--staggered", "--multi-node"
    )
    assert {job["workflow"] for job in more} >= {"W3-2.8"}
    first = next(job for job in more if job["workflow"] == "W1.1")
    assert first["deadline_s"] == DAY + 6 * HOUR
    assert sum(job["res"] == 8 for job in more) == 16


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--workflows", "--jobs", "3"), "--jobs is only for --synthetic"),
        (("--workflows", "--synthetic"), "Give one of --swf FILE, --synthetic and --workflows"),
        (("--workflows", "--deadlines", "hours:3"), "--deadlines is not for --workflows"),
        (("--workflows", "--profile-type", "delay"), "--profile-type is not for --workflows"),
        (("--workflows", "--estimate-error", "3"), "--estimate-error: give two numbers"),
        (("--synthetic", "--chains", "keep"), "--chains is only for --swf"),
        (("--synthetic", "--copies", "2"), "--copies is only for --workflows"),
        (("--synthetic", "--deadlines", "soon"), "found 'soon', expected factor:3"),
        (("--synthetic", "--clock-at-0", "9:00"), "--clock-at-0 is only for --deadlines clock"),
        (("--synthetic", "--deadlines", "clock:9:00", "--clock-at-0", "25:00"), "is not a time of day"),
    ],
)
def test_options_without_effect_are_refused(arguments, expected):
    code, told, _ = generate(*arguments)
    assert code == 2
    assert expected in told
