import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.formats.batsim_events import power_event_lines, read_external_events
from beasy_sched.model.choices import BatsimFormat


def test_the_lines_of_batsim_4():
    assert list(power_event_lines([460.4, 0], 300)) == [
        '{"type": "user_specific_type", "timestamp": 0, "power_available": 460.4}\n',
        '{"type": "user_specific_type", "timestamp": 300, "power_available": 0.0}\n',
    ]


def test_the_lines_of_batsim_5():
    assert list(power_event_lines([1, 460.4], 300, BatsimFormat.BATSIM5))[1] == (
        '{"type": "generic", "timestamp": 300.0, "data": "{\\"power_available\\": 460.4}"}\n'
    )


def test_steps_that_are_no_whole_seconds():
    times = [json.loads(line)["timestamp"] for line in power_event_lines(np.zeros(4), 0.1)]
    assert times == [0, 0.1, 0.2, 0.3]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_powers_read_back_as_the_same_numbers(powers):
    assert [json.loads(line)["power_available"] for line in power_event_lines(powers, 300)] == powers


def test_the_simulator_reads_what_is_written(tmp_path):
    path = tmp_path / "power.txt"
    path.write_text("".join(power_event_lines([1.5, 2.25], 300)))
    events = read_external_events(path, forward_unknown=True)
    assert [(event.timestamp, event.data["power_available"]) for event in events] == [(0, 1.5), (300, 2.25)]


@pytest.mark.parametrize("power", [-1, np.nan, np.inf])
def test_powers_that_cannot_be_are_not_written(power):
    with pytest.raises(ValueError, match="finite and not negative"):
        list(power_event_lines([power], 300))
