"""Runs of a real Batsim on its own platforms, whose network has latency: messages, clock and files."""

import pytest
from recordings.archive import LATENCY, recordings
from recordings.replay import recorded_messages
from recordings.verdicts import REFUSED_LATENCY, judge


@pytest.mark.parametrize("name", sorted(recordings(LATENCY)))
def test_a_run_with_latency_is_matched_or_refused_alike(name: str) -> None:
    assert judge(recordings(LATENCY)[name]).faults == ()


def test_no_recording_is_left_out() -> None:
    runs = recordings(LATENCY)
    assert len(runs) == 20
    assert {name for name, run in runs.items() if run.aborted} == set(REFUSED_LATENCY)
    for run in runs.values():
        assert len(run.clocks_s) == len(recorded_messages(run))
