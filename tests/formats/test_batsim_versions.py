"""Files of Batsim 5: reading them, and making them of files of Batsim 4."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import event_lines_for, read_external_events
from beasy_sched.formats.batsim_profiles import Homogeneous
from beasy_sched.formats.batsim_versions import (
    JOB_MEMBERS,
    extras_from,
    profile_for_batsim5,
    profile_from_batsim5,
    workload_for_batsim4,
    workload_for_batsim5,
)
from beasy_sched.formats.batsim_workload import Workload, read_workload
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.protocol.batsim5_terms import write_extras

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "batsim5-recordings" / "workloads"

# Numbers have six decimals: Batsim 4 forwards no more of what users add, and Batsim 5 forwards all.
names = st.text("abcdefgh", min_size=1, max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.integers(-(10**9), 10**9).map(lambda n: n / 1e6)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
members = st.dictionaries(names | st.just("extra_data"), values, max_size=3).filter(
    lambda some: not JOB_MEMBERS.intersection(some)
)
sixth = st.integers(1, 10**12).map(lambda n: n / 1e6)
numbers = st.integers(0, 10**6) | sixth
amounts = st.integers(0, 10**15) | sixth
lasting = st.integers(1, 10**6) | sixth
codes = st.one_of(st.just({}), st.integers(0, 5).map(lambda code: {"ret": code}))
leaves = st.builds(
    lambda own, ret, kind: {**own, **kind, **ret},
    st.dictionaries(names, values, max_size=2),
    codes,
    st.one_of(
        lasting.map(lambda s: {"type": "delay", "delay": s}),
        amounts.map(lambda flops: {"type": "parallel_homogeneous", "cpu": flops, "com": 0}),
        amounts.map(lambda flops: {"type": "parallel_homogeneous_total", "cpu": flops, "com": 0}),
    ),
)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """A workload of Batsim 4 with members of its own, sequences, and names that Batsim 5 refuses."""
    profiles = draw(st.dictionaries(names | st.sampled_from(["w0", "xw0y", "w0!p"]), leaves, min_size=1))
    if draw(st.booleans()):
        sequence = draw(st.lists(st.sampled_from(sorted(profiles)), min_size=1, max_size=3))
        profiles["all"] = {"type": "composed", "repeat": draw(st.integers(1, 3)), "seq": sequence}
    jobs = []
    for number in range(draw(st.integers(0, 4))):
        job = {"id": draw(st.sampled_from([number, f"w0!{number}", f"j{number}"]))}
        job |= {"subtime": draw(numbers), "res": draw(st.integers(1, 4))}
        job["profile"] = draw(st.sampled_from(sorted(profiles)))
        if (limit := draw(st.one_of(st.none(), st.just(-1), lasting))) is not None:
            job["walltime"] = limit
        jobs.append(job | draw(members))
    return {"nb_res": draw(st.integers(1, 9)), "jobs": jobs, "profiles": profiles}


def read(content: dict[str, Any]) -> Workload:
    """Read a workload, and leave out what is not in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.json"
        path.write_text(json.dumps(content))
        return replace(read_workload(path), path="")


def renamed(found: Workload, content: dict[str, Any], made: dict[str, Any]) -> Workload:
    """Give the profiles of a converted workload their old names."""
    old = dict(zip(made["profiles"], content["profiles"], strict=True))
    names = found.jobs.profile_names
    names[:] = [old[name] for name in names]
    again = {}
    for name, profile in found.profiles.items():
        parts = {"sequence": tuple(old[part] for part in profile.sequence)} if name == "all" else {}
        again[old[name]] = replace(profile, name=old[name], **parts)
    raw = {old[name]: profile for name, profile in found.raw_profiles.items()}
    for profile in raw.values():
        if "seq" in profile:
            profile["seq"] = [old[part] for part in profile["seq"]]
    return replace(found, profiles=again, raw_profiles=raw)


@pytest.mark.slow
@given(workloads())
def test_converted_is_read_as_the_same(content: dict[str, Any]) -> None:
    made, notes = workload_for_batsim5(content)
    before, after = read(content), read(made)
    assert len(notes) == sum("w0" in name for name in content["profiles"])
    if made["profiles"]:
        assert after.form is BatsimFormat.BATSIM5
    assert replace(renamed(after, content, made), form=before.form) == before


@given(workloads())
def test_there_and_back(content: dict[str, Any]) -> None:
    made, _ = workload_for_batsim5(content)
    again, notes = workload_for_batsim4(made)
    assert not notes
    before, after = read(content), read(again)
    assert renamed(after, content, made) == before


@given(members)
def test_what_users_add_survives_as_a_text(extras: dict[str, Any]) -> None:
    if extras:
        assert extras_from(write_extras(extras)) == extras


def test_extra_data() -> None:
    assert extras_from('{"deadline_s": 5}') == extras_from({"deadline_s": 5}) == {"deadline_s": 5}
    assert extras_from("plain text") == {"extra_data": "plain text"}
    assert extras_from("[1]") == {"extra_data": "[1]"}
    assert extras_from('{"res": 9}') == {"extra_data": '{"res": 9}'}  # it must not hide the job's own
    assert extras_from("") is extras_from(None) is extras_from("{}") is None
    assert write_extras({"extra_data": "plain text"}) == "plain text"


def test_a_workload_of_batsim_5(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    job = {
        "id": 1,
        "subtime": 0,
        "res": 2,
        "profile": "h",
        "user": "bob",
        "extra_data": {"power": 1.23456789},
    }
    profiles = {
        "h": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0},
        "d": {"type": "DelayProfile", "delay": 5, "extra_data": "x", "np": 3},
    }
    path.write_text(json.dumps({"nb_res": 4, "jobs": [job], "profiles": profiles}))
    found = read_workload(path)
    assert found.form is BatsimFormat.BATSIM5
    assert found.jobs[0].extras == {"power": 1.23456789}
    assert found.dropped == ("user",)
    assert found.profiles == {"h": Homogeneous("h", 0, 1e9)}
    assert found.raw_profiles == {"h": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}


@pytest.mark.parametrize(
    ("job", "profile", "reason"),
    [
        ({"walltime": -1}, {}, "'walltime' is -1, which Batsim 5 refuses: omit it"),
        ({"walltime": -1, "extra_data": "x"}, {}, "'walltime' is -1, which Batsim 5 refuses: omit it"),
        ({"walltime": 0}, {}, "invalid walltime"),
        ({"id": "row01"}, {}, "Invalid string job identifier 'row01'"),
        ({"id": "x w0 y"}, {}, "Invalid string job identifier 'x w0 y'"),
        ({}, {"w0p": {"type": "DelayProfile", "delay": 1}}, "names that contain 'w0', the workload's"),
        ({}, {"q": {"type": "delay", "delay": 1}}, "called 'DelayProfile'"),
        ({"profile": "f"}, {"f": {"type": "ForkJoinCompositionProfile"}}, "use Batsim 5 itself"),
        (
            {},
            {"s": {"type": "ParallelTaskHomogeneousProfile", "generation_strategy": "Half", "cpu": 1}},
            "'generation_strategy' is 'Half'",
        ),
        ({}, {"n": {"type": "DelayProfile"}}, "'delay' is missing"),
        ({"subtime": "now"}, {}, "subtime: found 'now', expected a number"),
    ],
)
def test_what_batsim_5_refuses(
    tmp_path: Path, job: dict[str, Any], profile: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "w.json"
    base = {"id": "a", "subtime": 0, "res": 1, "profile": "p"}
    profiles = {"p": {"type": "DelayProfile", "delay": 1}, **profile}
    path.write_text(json.dumps({"nb_res": 4, "jobs": [base | job], "profiles": profiles}))
    with pytest.raises(InputError) as error:
        read_workload(path)
    assert reason in str(error.value)


def test_what_has_no_counterpart() -> None:
    with pytest.raises(ValueError, match="has the type 'smpi'"):
        profile_for_batsim5("p", {"type": "smpi"})
    with pytest.raises(ValueError, match="Batsim 4 has no counterpart of 'TraceReplayProfile'"):
        workload_for_batsim4({"jobs": [], "profiles": {"p": {"type": "TraceReplayProfile"}}})
    with pytest.raises(ValueError, match="ids that contain the workload's name, 'w0'"):
        workload_for_batsim5({"jobs": [{"id": "row01"}], "profiles": {}})
    for broken in ({"jobs": 1, "profiles": {}}, {"jobs": [], "profiles": {"p": 1}}, {}):
        with pytest.raises(ValueError, match="is not an"):
            workload_for_batsim5(broken)


def test_communication_survives_though_it_is_not_simulated() -> None:
    old = {"type": "parallel", "cpu": [1, 2], "com": [0, 1, 1, 0]}
    new = profile_for_batsim5("p", old)
    assert new == {**old, "type": "ParallelTaskProfile"}
    assert profile_from_batsim5("p", new) == old


events = st.lists(
    st.builds(
        lambda t, kind, own: {"type": kind, "timestamp": t, **own},
        numbers,
        st.sampled_from(["user_specific_type", "power", "generic"]),
        st.dictionaries(names.filter(lambda name: name != "data"), values, max_size=3),
    )
    | st.builds(
        lambda t, kind: {"type": kind, "timestamp": t, "resources": "0-2 4"},
        numbers,
        st.sampled_from(["machine_available", "machine_unavailable"]),
    ),
    max_size=5,
)


def events_of(lines: list[str]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.txt"
        path.write_text("".join(lines))
        found = read_external_events(path, forward_unknown=True)
    return [(event.timestamp, event.kind, event.data, event.hosts) for event in found]


@given(events)
def test_converted_events_are_read_as_the_same(some: list[dict[str, Any]]) -> None:
    old = [json.dumps(event) + "\n" for event in some]
    new = list(event_lines_for(BatsimFormat.BATSIM5, "events", "".join(old).encode()))
    for line in map(json.loads, new):
        assert line["type"] == "generic"
        assert isinstance(line["timestamp"], float)
        assert isinstance(line["data"], str)
        assert len(line) == 3
    again = list(event_lines_for(BatsimFormat.BATSIM4, "events", "".join(new).encode()))
    assert events_of(new) == events_of(old) == events_of(again)
    assert list(event_lines_for(BatsimFormat.BATSIM5, "events", "".join(new).encode())) == new


def test_generic_events_need_no_option(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text('{"type": "generic", "timestamp": 5.5, "data": "some \\"quoted\\" data"}\n')
    (event,) = read_external_events(path)
    assert (event.kind, event.data["data"], event.text) == (
        "generic",
        'some "quoted" data',
        event.data["data"],
    )
    path.write_text('{"type": "generic", "timestamp": 5.5, "data": {"power_available": 1}}\n')
    with pytest.raises(InputError, match="unknown event type 'generic'"):
        read_external_events(path)


# --- the files that Batsim 5 was recorded with ---

recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings of Batsim 5 are not here")
ABORTED = {"dup", "id_int", "id_w0", "old", "wt_neg"}
"""Workloads that Batsim 5 itself refuses; old.json is one of Batsim 4."""


@recorded
def test_recorded_workloads() -> None:
    for path in sorted(RECORDED.glob("*.json")):
        if path.stem in ABORTED - {"old"} | {"twoA"}:  # the last has names of a development version
            with pytest.raises(InputError):
                read_workload(path)
            continue
        of_batsim4 = path.stem in ("old", "two")
        found = read_workload(path)
        assert (found.form is BatsimFormat.BATSIM4) == of_batsim4, path
        assert found.jobs


@recorded
def test_recorded_conversion() -> None:
    """The workload that somebody else converted by hand, but for the members of users."""
    old, new = (json.loads((RECORDED / name).read_text()) for name in ("two.json", "twoB.json"))
    made, _ = workload_for_batsim5(old)
    for job in (*made["jobs"], *new["jobs"]):
        for member in ("extra_data", "user", "power"):
            job.pop(member, None)
    for profile in (*made["profiles"].values(), *new["profiles"].values()):
        profile.pop("extra_data", None)
        profile.pop("np", None)
    assert made == new


@recorded
def test_recorded_events() -> None:
    kinds = [(event.timestamp, event.kind) for event in read_external_events(RECORDED / "events.txt")]
    assert kinds == [(5.5, "generic"), (5.5, "machine_unavailable"), (20.0, "generic")]
    for name in ("events_obj.txt", "events_old.txt"):
        assert all(
            event.text is None for event in read_external_events(RECORDED / name, forward_unknown=True)
        )
