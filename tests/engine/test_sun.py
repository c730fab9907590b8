"""What of the production comes from the sun, where announcements tell it: means over steps of the trace."""

from __future__ import annotations

import csv

import pytest
from talk import Talk, small_battery

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PeerError
from beasy_sched.outputs.files import trace_csv
from beasy_sched.protocol.notices import notice

STEP_S = 60.0


def told(*powers: tuple[float, float, object]) -> Talk:
    """Announce (time, production, sun); the last announcement ends the last step."""
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    for now, power_w, sun_w in powers:
        data = {"type": "power", "power_available": power_w, "sun_available": sun_w}
        data = {name: value for name, value in data.items() if value is not None}
        talk.at(now, notice(now, "power", data))
    return talk


def suns(talk: Talk) -> list[float | None]:
    return [row.parts_w["sun"] for row in talk.session.power.trace]


def test_means_over_steps() -> None:
    talk = told((0.0, 100.0, 60.0), (15.0, 200.0, 20.0), (60.0, 50.0, 50.0), (120.0, 0.0, 0.0))
    assert suns(talk) == [pytest.approx(30.0), pytest.approx(50.0)]


def test_a_step_in_which_it_is_not_told_throughout() -> None:
    talk = told((0.0, 100.0, 60.0), (30.0, 100.0, None), (60.0, 100.0, 10.0), (120.0, 0.0, None))
    assert suns(talk) == [None, pytest.approx(10.0)]


def test_no_power_has_no_sun_in_it() -> None:
    assert suns(told((0.0, 0.0, None), (60.0, 80.0, 80.0), (120.0, 0.0, None))) == [0.0, pytest.approx(80.0)]


def test_the_column_of_the_trace() -> None:
    talk = told((0.0, 100.0, 60.0), (30.0, 100.0, None), (60.0, 100.0, 10.0), (120.0, 0.0, None))
    power = talk.session.power
    assert power.inputs.told == {"sun"}
    rows = [*csv.DictReader(trace_csv(power.trace, sources=power.inputs.told).splitlines())]
    assert [(row["renewable_w"], row["sun_w"]) for row in rows] == [("100.0", ""), ("100.0", "10.0")]
    untold = told((0.0, 100.0, None), (60.0, 0.0, None)).session.power
    assert not untold.inputs.told
    assert "sun_w" not in trace_csv(untold.trace, sources=untold.inputs.told)


@pytest.mark.parametrize("sun_w", [-1.0, 101.0, "1", True, float("nan")])
def test_what_cannot_be(sun_w: object) -> None:
    expected = r"NOTIFY power: found sun_available .*, expected watts, at least 0 and at most power_available"
    with pytest.raises(PeerError, match=expected):
        told((0.0, 100.0, sun_w))


def test_more_than_the_production_by_rounding_is_all_of_it() -> None:
    assert suns(told((0.0, 33.333333, 33.333334), (60.0, 0.0, 0.0))) == [pytest.approx(33.333333, abs=1e-9)]
