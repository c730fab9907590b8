"""The embedded simulator against every recorded run of a real Batsim 4.2.1."""

import re
from pathlib import Path

import pytest
from recordings.archive import recordings
from recordings.replay import (
    compare_csv,
    compare_messages,
    recorded_messages,
    replay,
    with_profiles_turned,
)
from recordings.verdicts import OUT_OF_SCOPE, REFUSALS, judge
from recordings.whole_runs import names

from beasy_sched.model.events import Message

DOCS = Path(__file__).resolve().parents[2] / "docs" / "results" / "conformance.md"


@pytest.mark.parametrize("name", sorted(recordings()))
def test_a_recording_is_matched_or_refused_alike(name):
    assert judge(recordings()[name]).faults == ()


@pytest.mark.parametrize("name", ["share", "cores_share2"])
def test_recorded_sharing_is_not_doubted(name):
    assert not replay(recordings()[name]).notes


def test_no_recording_is_left_out():
    runs = recordings()
    assert len(runs) == 152
    assert {name for name, run in runs.items() if run.aborted} == set(REFUSALS)
    assert set(OUT_OF_SCOPE) == {"com_half"}
    assert sum(name.startswith("soak_") for name in runs) == 10


def test_the_lists_in_the_docs_are_up_to_date():
    text = DOCS.read_text()
    found = {
        word: text.partition(f"**{word}**: ")[2].partition("\n")[0] for word in ("Match", "Refused alike")
    }
    assert re.findall("`(.+?)`", found["Refused alike"]) == sorted(REFUSALS)
    matched = sorted(set(recordings()) - set(REFUSALS) - set(OUT_OF_SCOPE))
    assert re.findall("`(.+?)`", found["Match"]) == matched
    assert "DIFFERS" not in text
    assert [row.split("`")[1] for row in text.splitlines() if row.startswith("| `")] == names()


def test_the_comparison_notices_messages_that_are_joined_or_shifted_or_missing():
    recording = recordings()["dvfs_mid_slow"]
    told, recorded = replay(recording).told, recorded_messages(recording)
    assert compare_messages(told, recorded) == []
    joined = [*told[:-2], Message(told[-2].now, told[-2].events + told[-1].events)]
    swapped = [*told[:-2], told[-1], told[-2]]
    shifted = [*told[:-1], Message(told[-1].now + 1e-6, told[-1].events)]
    for wrong in (joined, swapped, shifted, told[:-1]):
        assert compare_messages(wrong, recorded)


def test_the_comparison_notices_the_order_of_events():
    recording = recordings()["kill_two"]
    told, recorded = replay(recording).told, recorded_messages(recording)
    turned = [Message(message.now, message.events[::-1]) for message in told]
    assert compare_messages(turned, recorded)


def test_the_order_of_profiles_does_not_count():
    """Batsim lists them in that of an unordered map."""
    recorded = recorded_messages(recordings()["soak_01"])
    begins = recorded[0].events[0]
    assert len(begins.profiles["w0"]) > 1
    turned = Message(recorded[0].now, [with_profiles_turned(begins)])
    assert [*turned.events[0].profiles["w0"]] != [*begins.profiles["w0"]]
    assert compare_messages([turned], recorded[:1]) == []


def test_the_comparison_notices_a_wrong_figure():
    theirs = recordings()["dvfs_mid_slow"].csv["consumed_energy"]
    assert compare_csv("consumed_energy", theirs.replace("7400.000000", "7400.010000"), theirs)
    assert compare_csv("consumed_energy", theirs.replace("450.000000", "450.010000"), theirs)
