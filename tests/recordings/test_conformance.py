"""The embedded simulator against every recorded run of a real Batsim 4.2.1."""

from pathlib import Path

import pytest
from recordings.archive import recordings
from recordings.replay import compare_csv, compare_events, on_the_wire, recorded_events, replay
from recordings.verdicts import OUT_OF_SCOPE, REFUSALS, judge

DOCS = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"


@pytest.mark.parametrize("name", sorted(recordings()))
def test_a_recording_is_matched_or_refused_alike(name):
    assert judge(recordings()[name]).faults == ()


def test_no_recording_is_left_out():
    runs = recordings()
    assert len(runs) == 152
    assert {name for name, run in runs.items() if run.aborted} == set(REFUSALS)
    networks = {name for name, run in runs.items() if run.platform_name.startswith("cluster")}
    assert set(OUT_OF_SCOPE) == networks
    assert sum(name.startswith("soak_") for name in runs) == 10


def test_the_table_in_the_docs_is_up_to_date():
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == sorted(recordings())
    for row in rows:
        name = row.split("`")[1]
        word = "out of scope" if name in OUT_OF_SCOPE else "refused alike" if name in REFUSALS else "match"
        assert f"| {word} |" in row


def test_the_comparison_notices_a_shifted_event():
    recording = recordings()["dvfs_mid_slow"]
    told = on_the_wire(replay(recording).told)
    shifted = [type(told[-1])(told[-1].timestamp + 1e-5)]
    assert compare_events(told[:-1] + shifted, recorded_events(recording))
    assert compare_events(told[:-2], recorded_events(recording))


def test_the_comparison_notices_a_wrong_figure():
    theirs = recordings()["dvfs_mid_slow"].csv["consumed_energy"]
    assert compare_csv("consumed_energy", theirs.replace("7400.000000", "7400.010000"), theirs)
    assert compare_csv("consumed_energy", theirs.replace("450.000000", "450.010000"), theirs)
