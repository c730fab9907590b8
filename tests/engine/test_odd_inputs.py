"""What a session says of inputs that it knows from messages only: what it can of `beasy-sched check`."""

from __future__ import annotations

import pytest
from talk import Scripted, Talk, completed, production, small_battery, submitted
from worlds import FAST

from beasy_sched.engine import Session
from beasy_sched.engine.actions import MeasureEnergy
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PeerError
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import events as e

MODEL = {"energy": EnergySource.MODEL}


def site_run(announced: int, **options: object) -> list[str]:
    """A run of three steps of 60 s, the power announced for so many of them; return the warnings."""
    talk = Talk(site=small_battery(steps=3), **MODEL, **options)
    for step in range(4):
        events = [production(60.0 * step, 100.0)] if step < announced else [e.RequestedCall(60.0 * step)]
        talk.at(60.0 * step, *events)
        talk.at(60.0 * step + 1, e.RequestedCall(60.0 * step + 1))
    talk.at(190.0, e.SimulationEnds(190.0))
    return talk.session.warnings


def test_power_that_ends_before_the_run() -> None:
    assert site_run(3) == site_run(4) == []
    (told,) = site_run(2)
    assert told.startswith(
        "the power covers 0.03333 h, the run needs 0.05 h: its last value, 0.1 kW, is used"
    )
    assert site_run(2, inputs_checked=True) == []  # whoever has looked at the file has said so


def shares(walltime_s: float, **options: object) -> list[str]:
    """Three jobs of a second each; return the warnings."""
    talk = Talk(**options)
    for number, name in enumerate("abc"):
        talk.run_job(number, name, "0", walltime_s)
        talk.at(number + 1, completed(number + 1, name))
    talk.at(3.0, e.SimulationEnds(3.0))
    return talk.session.warnings


def test_jobs_far_shorter_than_their_walltime() -> None:
    assert shares(40.0) == []
    (told,) = shares(100.0)
    assert (
        told == "the median job runs for 1 % of its walltime: was the workload generated for this platform?"
    )
    assert shares(100.0, inputs_checked=True) == []


@pytest.mark.parametrize("powers", [True, False])
def test_energy_measured_on_hosts_without_powers(powers: bool) -> None:
    policy = Scripted()
    session = Session(policy)
    full = host_properties(FAST)
    bare = full if powers else {name: text for name, text in full.items() if "watt" not in name}
    resources = (e.Resource(0, "n000", properties=full), e.Resource(1, "n001", properties=bare))
    session.step(e.Message(0.0, [e.SimulationBegins(0.0, resources)]))
    for now in (1.0, 2.0):
        policy.say = lambda view: [MeasureEnergy()]
        session.step(e.Message(now, [e.RequestedCall(now)]))
    expected = [] if powers else ["1 of 2 hosts have no powers (host 'n001' lacks wattage_per_state)"]
    assert [text.partition(":")[0] for text in session.warnings] == expected


def test_jobs_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beasy_sched.engine.intake.MOST_JOBS", 3)
    talk = Talk()
    talk.at(1.0, *(submitted(1.0, str(number)) for number in range(3)))
    with pytest.raises(PeerError, match="more than 3 jobs were submitted"):
        talk.at(2.0, submitted(2.0, "3"))
