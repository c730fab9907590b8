"""Runs of a real Batsim on its own platforms, whose network has latency: messages, clock and files."""

from __future__ import annotations

import pytest
from recordings.archive import LATENCY, recordings
from recordings.replay import compare_csv, compare_messages, recorded_messages, replay

ABORTED = {"14": "You asked to be awaken in the past! (you ask: 0.001000, it is: 0.001800)"}


@pytest.mark.parametrize("name", sorted(recordings(LATENCY)))
def test_a_run_with_latency_is_the_same(name: str) -> None:
    recording = recordings(LATENCY)[name]
    outcome = replay(recording)
    recorded = recorded_messages(recording)
    assert not compare_messages(outcome.told[1:], recorded[1:])
    assert outcome.refusal == ABORTED.get(name, "")
    told = outcome.clocks_s if recording.aborted else [*outcome.clocks_s, recording.clocks_s[-1]]
    assert tuple(told[: len(recorded)]) == recording.clocks_s, "a message was sent at another clock"
    if not recording.aborted:
        assert outcome.csv.keys() == recording.csv.keys()
        assert not [
            f for kind, text in recording.csv.items() for f in compare_csv(kind, outcome.csv[kind], text)
        ]


def test_none_is_left_out() -> None:
    assert len(recordings(LATENCY)) == 20
    assert sum(len(recorded_messages(recording)) for recording in recordings(LATENCY).values()) > 12_000
