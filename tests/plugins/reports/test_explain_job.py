"""The story of one job, whole texts."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from plugins.reports.story_files import write_run

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.model.workflow import PHASE_CAME_LATE
from beasy_sched.plugins.reports.explain_job import explain_job
from beasy_sched.plugins.reports.story import Story


def text(story: Story) -> str:
    return "\n".join(line for _, line in story.lines(90)) + "\n"


def shown(block: str) -> str:
    return textwrap.dedent(block).lstrip("\n")


def test_a_job_that_did_not_wait(tmp_path: Path) -> None:
    assert text(explain_job(write_run(tmp_path), "a")) == shown("""
        Job w0!a

        Arrival
          00:00:10  It was submitted and requested 2 hosts with a walltime of 1 h 00 min.

        Start
          00:00:10  It started on 2 hosts (0-1). It was the first of the queue.

        End
          00:04:10  It finished after 4 min, 56 min before its walltime; its hosts used 13.3 Wh.
""")


def test_a_job_that_did_not_wait_for_a_lower_phase(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    log = Path(f"{prefix}_decisions.jsonl")
    line = {
        "time": 20.0,
        "action": "queue",
        "job": "w0!a",
        "rule": PHASE_CAME_LATE,
        "facts": {"lower_phase": 0},
    }
    log.write_text(log.read_text("utf-8") + json.dumps(line) + "\n", "utf-8")
    assert shown("""
        Workflow and deadline
          00:00:20  A job of the earlier phase 0 of its workflow was submitted too late to be
                    waited for.
    """) in text(explain_job(prefix, "a"))


def test_a_job_that_waited_and_was_slowed_down(tmp_path: Path) -> None:
    assert text(explain_job(write_run(tmp_path), "w0!b")) == shown("""
        Job w0!b

        Arrival
          00:00:20  It was submitted and requested 1 host with a walltime of 6 min 40 s.

        Waiting: 3 min 50 s
          00:00:20  It needs 1 host (0 free); its hosts are reserved for 01:00:10.

        Start
          00:04:10  It started on 1 host (0). It was the first of the queue, with the largest
                    bounded slowdown (1.5); 2 hosts free. It may use up to 1.39 Wh of the 20 Wh
                    available in the step.

        Servers while it ran
          00:05:00  P-state 1 for its host, as planned, changed online (a surplus: 1 Wh spent, in
                    1 step).

        End
          00:08:50  It finished after 4 min 40 s, 2 min before its walltime; its hosts used 6.94
                    Wh.
""")


def test_a_job_that_was_backfilled_and_killed(tmp_path: Path) -> None:
    assert text(explain_job(write_run(tmp_path), "c")) == shown("""
        Job w0!c

        Arrival
          00:00:30  It was submitted and requested 1 host with a walltime of 10 min.

        Waiting: 3 min 40 s
          00:00:30  Before it in the queue: w0!b.
          Meanwhile 1 other job started; it was not submitted later.

        Start
          00:04:10  It started on 1 host (1). It was backfilled ahead of w0!d; 1 host free. It may
                    run past that time, on hosts that the reservation does not need (1).

        End
          00:05:00  The storage guard found a shortage in this step: 15 Wh required, 10 Wh
                    available, 5 Wh short, at 20.00 % of charge. Killing it saves 7.92 Wh. It had
                    used 1.39 Wh; jobs that have used least are killed first.
          00:05:00  It was killed after 50 s; its hosts used 1.39 Wh.
""")


def test_a_job_that_never_started(tmp_path: Path) -> None:
    assert text(explain_job(write_run(tmp_path), "d")) == shown("""
        Job w0!d

        Arrival
          00:00:30  It was submitted and requested 2 hosts without a walltime.

        Waiting
          00:00:30  Before it in the queue: w0!b.
          Meanwhile 2 other jobs started; none of them were submitted later.

        End
          00:10:00  The run ended before it could start, after 9 min 30 s of waiting.
""")


def test_without_jobs_csv(tmp_path: Path) -> None:
    """Where Batsim runs elsewhere, only the decision log is there: the start says how long it had waited."""
    assert text(explain_job(write_run(tmp_path, jobs=False), "c")) == shown("""
        Job w0!c

        Arrival
          00:00:30  It was submitted. It ran on 1 host (1). (No jobs.csv was found, so details are
                    missing.)

        Waiting: 3 min 40 s
          00:00:30  Before it in the queue: w0!b.
          Meanwhile 1 other job started; it was not submitted later.

        Start
          00:04:10  It started on 1 host (1). It was backfilled ahead of w0!d; 1 host free. It may
                    run past that time, on hosts that the reservation does not need (1).

        End
          00:05:00  The storage guard found a shortage in this step: 15 Wh required, 10 Wh
                    available, 5 Wh short, at 20.00 % of charge. Killing it saves 7.92 Wh. It had
                    used 1.39 Wh; jobs that have used least are killed first.
""")


def test_as_data(tmp_path: Path) -> None:
    data = explain_job(write_run(tmp_path), "b").data
    decisions = data.pop("decisions")
    (change,) = data.pop("p_states_while_it_ran")
    assert data == {
        "job": "w0!b",
        "submitted_s": 20.0,
        "started_s": 250.0,
        "ended_s": 530.0,
        "hosts_asked": 1,
        "walltime_s": 400.0,
        "final_state": "COMPLETED_SUCCESSFULLY",
        "energy_j": 25_000.0,
        "others_started_while_it_waited": 0,
        "of_these_came_later": 0,
    }
    assert [each["action"] for each in decisions] == ["postpone", "start"]
    assert decisions[0]["facts"] == {"hosts_asked": 1, "hosts_free": 0, "reserved_at_s": 3610.0}
    assert change["facts"]["hosts_replanned"] == 2


@pytest.mark.parametrize("name", ["x", "w0!x", "w1!a", ""])
def test_a_job_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"this run has no such job; it has 4 jobs, w0!a to w0!d"):
        explain_job(write_run(tmp_path), name)


def test_an_id_of_two_workloads(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    log = Path(f"{prefix}_decisions.jsonl")
    log.write_text(log.read_text("utf-8").replace("w0!b", "w1!a"), "utf-8")
    with pytest.raises(ConfigError, match=r"found w0!a and w1!a, expected one job; give its full id"):
        explain_job(prefix, "a")
    assert explain_job(prefix, "w1!a").title == "Job w1!a"


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, jobs=False)
    log = Path(f"{prefix}_decisions.jsonl")
    log.write_text(log.read_text("utf-8").replace("w0!b", r"w0!\u001b[31m"), "utf-8")
    story = text(explain_job(prefix, "w0!\x1b[31m"))
    assert story.startswith("Job w0!\\x1b[31m\n")
    assert "\x1b" not in story + text(explain_job(prefix, "c"))


def test_a_start_that_the_log_has_lost(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    Path(f"{prefix}_decisions.jsonl").write_text("", "utf-8")
    with pytest.raises(InputError, match=r"jobs.csv: is from another run than .*which does not start w0!a"):
        explain_job(prefix, "a")
