"""The columns of a workload's jobs, and that reading by column sees what a look at each job sees."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.formats import batsim_jobs
from beasy_sched.formats.batsim_jobs import JobColumns, WorkloadJob
from beasy_sched.formats.batsim_profiles import Delay, Homogeneous
from beasy_sched.formats.batsim_workload import Workload, expected_runs_s, read_workload, run_times_s
from beasy_sched.protocol.batsim5_terms import PROFILE_TYPES
from beasy_sched.protocol.json_numbers import as_batsim_reads, as_batsim_reads_all

PROFILES = {"p": {"type": "delay", "delay": 1}, "q": {"type": "parallel", "cpu": [1, 2], "com": [0] * 4}}
numbers = st.integers(0, 5) | st.sampled_from([0.5, 1.0, 2.25])
jobs = st.lists(
    st.builds(
        WorkloadJob,
        id=st.uuids().map(lambda key: f"w0!{key}"),
        subtime=numbers,
        res=st.integers(0, 3),
        profile=st.sampled_from(["p", "q", "r"]),
        walltime=st.none() | numbers,
        extras=st.none() | st.just({"user": 1}),
    )
)


@given(jobs)
def test_columns_return_the_jobs_that_they_were_made_of(jobs):
    columns = JobColumns.of(jobs)
    assert columns[:] == [*columns] == jobs
    assert [type(job.subtime) for job in columns] == [type(job.subtime) for job in jobs]
    assert [type(job.walltime) for job in columns] == [type(job.walltime) for job in jobs]
    assert columns[-1:] == jobs[-1:]
    assert jobs == [] or columns[-1] == jobs[-1]
    with pytest.raises(IndexError):
        columns[len(jobs)]


@given(jobs, st.slices(40))
def test_columns_are_a_sequence_in_parts(jobs, some):
    columns = JobColumns.of(jobs)
    assert columns[some] == jobs[some]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beasy_sched.formats.batsim_jobs._PART", 2)
        assert [*columns] == jobs


@given(jobs)
def test_jobs_are_sorted_by_time_then_by_id(jobs):
    assert JobColumns.of(jobs).sorted()[:] == sorted(jobs, key=lambda job: (job.subtime, job.id))


@given(jobs)
def test_shapes_are_pairs_of_profile_and_hosts(jobs):
    first, shape = JobColumns.of(jobs).shapes()
    pairs = [(job.profile, job.res) for job in jobs]
    assert [pairs[first[number]] for number in shape] == pairs
    assert [pairs.index(pairs[place]) for place in first] == first.tolist()


@given(jobs, st.sampled_from([1.0, 3.0]))
def test_run_times_are_those_of_each_job(jobs, speed):
    profiles = {
        "p": Delay("p", 0, 2.0),
        "q": Homogeneous("q", 0, 7.0),
        "r": Homogeneous("r", 0, 7.0, total=True),
    }
    workload = Workload("w0", "hand.json", 4, JobColumns.of(jobs), profiles, {})
    each = {"p": lambda _: 2.0, "q": lambda _: 7.0 / speed, "r": lambda job: 7.0 / max(job.res, 1) / speed}
    runs = [each[job.profile](job) for job in jobs]
    limits = [math.inf if job.walltime is None else job.walltime for job in jobs]
    assert run_times_s(workload, speed).tolist() == runs
    assert expected_runs_s(workload, speed).tolist() == list(map(min, runs, limits))


texts = st.sampled_from(["a", "b", "c", "w0!a", "x!y", "7", "long" * 300])
members = st.fixed_dictionaries(
    {
        "id": texts | st.integers(0, 9),
        "subtime": numbers | st.sampled_from([-1, 1e16, 10**30, "soon", None]),
        "res": st.integers(1, 3) | st.sampled_from([0, 2**31, 10**30, 1.0, 1.5, True]),
        "profile": st.sampled_from(["p", "p", "q", "none"]),
    },
    optional={
        "walltime": numbers | st.sampled_from([-1, -1.0, -2, 10**30]),
        "user": st.sampled_from([1, 1.23456789, 10**400, "u:v", None, {"id": 3}, [{"id": "x"}]]),
        "deadline_s": st.sampled_from([9, 0, "soon"]),
        "after": st.sampled_from([["a"], ["b"], "a"]),
    },
)
usual = st.fixed_dictionaries(
    {"id": st.integers(0, 10**6), "subtime": numbers, "res": st.just(2), "profile": st.sampled_from("pq")},
    optional={
        "walltime": st.integers(1, 9) | st.just(-1),
        "user": st.sampled_from([1, 1.23456789, {"id": 3}]),
    },
)


def read(path):
    """What is in a file, or what is wrong with it."""
    try:
        found = read_workload(path)
    except InputError as error:
        return str(error)
    return found.jobs[:], [*map(repr, found.jobs)], found.profiles, found.raw_profiles, found.dropped


@pytest.mark.sampled
@pytest.mark.parametrize("jobs", [members, usual], ids=["odd", "usual"])
@pytest.mark.parametrize("form", ["batsim4", "batsim5"])
def test_a_file_is_read_as_by_a_look_at_each_job(jobs, form, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "workload.json"
    profiles = PROFILES
    if form == "batsim5":
        profiles = {name: {**one, "type": PROFILE_TYPES[one["type"]]} for name, one in PROFILES.items()}

    @given(st.lists(jobs, max_size=4))
    def check(jobs):
        path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
        by_column = read(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batsim_jobs, "_sound_columns", lambda *_: None)
            assert read(path) == by_column

    check()


def test_usual_files_are_read_by_column(tmp_path, monkeypatch):
    monkeypatch.setattr(batsim_jobs, "_one_by_one", None)
    job = {"id": "a", "subtime": 1, "res": 1, "profile": "p", "walltime": -1}
    path = tmp_path / "w.json"
    for own in ({}, {"user": "x", "start": 1.5}):
        path.write_text(json.dumps({"nb_res": 4, "jobs": [job | own], "profiles": PROFILES}))
        assert read_workload(path).jobs[:] == [WorkloadJob("w0!a", 1, 1, "p", None, own or None)]


times = st.floats(0, 1e16) | st.decimals(0, 10**9, places=6).map(float) | st.integers(0, 10**15).map(float)


@given(st.lists(times))
def test_times_are_read_as_batsim_reads_each(values):
    assert as_batsim_reads_all(np.array(values, dtype=float)).tolist() == list(map(as_batsim_reads, values))


def test_jobs_whose_times_are_read_alike_are_sorted_by_id(tmp_path):
    """Batsim reads 3699.5516654807925 as 3699.551665480793, as tried with a real Batsim 4.2.1."""
    jobs = [
        {"id": name, "subtime": at, "res": 1, "profile": "w"}
        for name, at in (("j1", 3699.5516654807925), ("j0", 3699.551665480793))
    ]
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": {"w": {"type": "delay", "delay": 1}}}))
    assert [job.id for job in read_workload(path).jobs] == ["w0!j0", "w0!j1"]
