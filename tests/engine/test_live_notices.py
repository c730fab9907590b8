"""What only a real cluster tells: jobs that somebody else took, and levels that were measured."""

from __future__ import annotations

import pytest
from talk import Talk, production, small_battery, submitted

from beasy_sched.engine.power import EnergySource
from beasy_sched.engine.session import WITHDRAWN
from beasy_sched.errors import PeerError
from beasy_sched.model import events as e
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.files import trace_csv
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import JOB_WITHDRAWN, LEVELS_MEASURED, notice


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
