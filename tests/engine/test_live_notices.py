"""What only a real cluster tells: jobs that somebody else took, or that run already, and measured levels."""

from __future__ import annotations

import pytest
from talk import Talk, production, small_battery, submitted

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.engine.session import RUNS, WITHDRAWN
from beasy_sched.engine.session_words import ENGINE_WORDS, NOT_STARTED
from beasy_sched.errors import PeerError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.files import trace_csv
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import (
    JOB_NOT_STARTED,
    JOB_RUNS,
    JOB_WITHDRAWN,
    LEVELS_MEASURED,
    QUEUE_ORDER,
    notice,
)


def withdrawn(now: float, job: str) -> e.Notify:
    return notice(now, JOB_WITHDRAWN, {"type": JOB_WITHDRAWN, "job_id": f"w0!{job}"})


def levels(now: float, **fields: object) -> e.Notify:
    return notice(now, LEVELS_MEASURED, {"type": LEVELS_MEASURED, **fields})


def test_a_withdrawn_job_makes_room_for_the_next() -> None:
    talk = Talk(make_policy("fcfs"), count=2)
    talk.at(0.0, submitted(0.0, "1", 1))
    talk.at(1.0, submitted(1.0, "2", 2), submitted(1.0, "3", 1))
    assert {job.id for job in talk.session.cluster.running.values()} == {"w0!1"}
    talk.at(2.0, withdrawn(2.0, "2"))
    assert {job.id for job in talk.session.cluster.running.values()} == {"w0!1", "w0!3"}
    assert talk.session.outcomes.columns()["state"].tolist() == [JobState.REJECTED.value]
    assert talk.session.reasons[JobState.REJECTED] == {WITHDRAWN: 1}
    assert (2.0, "reject", "w0!2", "", WITHDRAWN) in talk.log


def test_a_job_that_does_not_wait_cannot_be_withdrawn() -> None:
    talk = Talk(make_policy("fcfs"), count=2)
    talk.at(0.0, submitted(0.0, "1", 1))
    talk.at(1.0, withdrawn(1.0, "1"), withdrawn(1.0, "never"))
    assert [*talk.session.cluster.running] == ["w0!1"]


def test_measured_levels_count_from_the_next_step_on() -> None:
    """100 kJ, half full; 4 idle servers draw 12 kJ a step. Measured: 36 kJ at the end of the first."""
    talk = Talk(count=4, site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 0.0))
    talk.at(30.0, levels(30.0, soc_pct=45.0))
    talk.at(59.0, levels(59.0, soc_pct=36.0))
    talk.at(60.001, production(60.001, 0.0))
    power = talk.session.power
    assert power is not None
    first = power.trace[0]
    assert first.correction_j == pytest.approx(36_000.0 - (50_000.0 - 200.0 * 60.001))
    assert power.storage.battery_j == pytest.approx(36_000.0)
    talk.at(120.001, production(120.001, 0.0))
    assert power.trace[1].correction_j is None
    assert power.storage.battery_j == pytest.approx(36_000.0 - 200.0 * 60.0)
    header, row, after = trace_csv(power.trace, measured=True).splitlines()
    assert header.endswith("correction_j,correction_kg")
    assert row.split(",")[-2] == repr(first.correction_j)
    assert after.endswith(",,")


@pytest.mark.parametrize("fields", [{"soc_pct": 101.0}, {"soc_pct": "full"}, {"hydrogen_kg": -1}])
def test_levels_that_cannot_be_are_refused(fields: dict[str, object]) -> None:
    talk = Talk(count=4, site=small_battery(), energy=EnergySource.MODEL)
    with pytest.raises(PeerError, match=f"found {next(iter(fields))}"):
        talk.at(0.0, production(0.0, 0.0), levels(0.0, **fields))


# --- jobs that run already ----------------------------------------------------------------------------------


def runs(now: float, job: str, where: str) -> e.Notify:
    return notice(now, JOB_RUNS, {"type": JOB_RUNS, "job_id": f"w0!{job}", "resources": where})


def test_a_job_that_runs_already_is_taken_over() -> None:
    talk = Talk(make_policy("fcfs"), count=3)
    decisions = talk.at(0.0, submitted(0.0, "1", 2), runs(0.0, "1", "1-2"), submitted(0.0, "2", 2))
    assert not [decision for decision in decisions if isinstance(decision, d.ExecuteJob)]
    assert str(talk.session.cluster.running["w0!1"].hosts) == "1-2"
    assert (0.0, "start", "w0!1", "1-2", RUNS) in talk.log
    talk.at(5.0, e.JobCompleted(5.0, "w0!1", e.JobEnd.SUCCESS, HostSet.parse("1-2")))
    assert [*talk.session.cluster.running] == ["w0!2"]


def test_a_step_begins_with_the_jobs_that_run_already() -> None:
    """Two of four idle servers compute: the first step's energy is theirs, too."""
    used_j = {}
    for told in (True, False):
        talk = Talk(count=4, site=small_battery(), energy=EnergySource.MODEL)
        running = (submitted(0.0, "1", 2), runs(0.0, "1", "0-1")) if told else ()
        talk.at(0.0, *running, production(0.0, 0.0))
        talk.at(60.001, production(60.001, 0.0))
        assert talk.session.power is not None
        used_j[told] = talk.session.power.trace[0].record.demand_w
    assert used_j[True] > used_j[False] + 2 * 40.0


@pytest.mark.parametrize(
    ("job", "where", "told"),
    [
        ("2", "0-1", "job w0!2 was not submitted with it"),
        ("1", "0", "requests 2 hosts and was given 1"),
        ("1", "7-8", "w0!1 was given"),
        ("1", "all", "found resources 'all', expected hosts"),
    ],
)
def test_what_cannot_run_already_is_refused(job: str, where: str, told: str) -> None:
    talk = Talk(make_policy("fcfs"), count=3)
    with pytest.raises(PeerError, match=f"NOTIFY job_runs: .*{told}"):
        talk.at(0.0, submitted(0.0, "1", 2), runs(0.0, job, where))


# --- the order of the queue, and starts that fail -----------------------------------------------------------


def ordered(now: float, *jobs: str) -> e.Notify:
    return notice(now, QUEUE_ORDER, {"type": QUEUE_ORDER, "jobs": [f"w0!{job}" for job in jobs]})


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_waiting_jobs_have_the_order_that_was_told(policy: str) -> None:
    """Also after a pass that has found no host, whose reservation is that of the job that was first."""
    talk = Talk(make_policy(policy), count=2)
    talk.at(0.0, *(submitted(0.0, job, 2) for job in ("1", "2", "3", "4")))
    talk.at(1.0, submitted(1.0, "5", 2), ordered(1.0, "4", "unknown", "2"))
    assert [job.id for job in talk.session.cluster.queue] == ["w0!3", "w0!5", "w0!4", "w0!2"]
    started = []
    for at, ended in enumerate("1354", 2):
        talk.at(at, e.JobCompleted(at, f"w0!{ended}", e.JobEnd.SUCCESS, HostSet.parse("0-1")))
        started += [*talk.session.cluster.running]
    assert started == ["w0!3", "w0!5", "w0!4", "w0!2"]


def test_a_reservation_is_that_of_the_job_that_is_first_now() -> None:
    """Narrow jobs that would delay it are not backfilled; those that do not are."""
    talk = Talk(make_policy("easy"), count=4)
    talk.at(0.0, submitted(0.0, "1", 2), submitted(0.0, "2", 4), submitted(0.0, "3", 3))
    talk.at(1.0, ordered(1.0, "2"))
    assert talk.session.cluster.running.keys() == {"w0!1"}
    talk.at(2.0, submitted(2.0, "4", 1))
    assert talk.session.cluster.running.keys() == {"w0!1", "w0!4"}


def test_a_start_that_fails_is_logged_with_its_reason() -> None:
    talk = Talk(make_policy("fcfs"), count=2)
    talk.at(0.0, submitted(0.0, "1", 2))
    fields = {"type": JOB_NOT_STARTED, "job_id": "w0!1", "reason": "QOSMaxJobsPerUserLimit"}
    talk.at(30.0, notice(30.0, JOB_NOT_STARTED, fields),
            e.JobCompleted(30.0, "w0!1", e.JobEnd.KILLED, HostSet.parse("0-1")))  # fmt: skip
    assert (30.0, "kill", "w0!1", "0-1", NOT_STARTED) in talk.log
    assert not talk.session.cluster.running
    assert "({reason})" in ENGINE_WORDS["kill", NOT_STARTED].sentence
