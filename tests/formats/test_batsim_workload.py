"""Reading Batsim workloads and profiles."""

import json

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous, Parallel
from beasy_sched.formats.batsim_workload import read_workload, run_times_s

DELAY = {"type": "delay", "delay": 1}
JOB = {"id": "a", "subtime": 0, "res": 1, "profile": "p"}


def read(tmp_path, content, name="w0"):
    path = tmp_path / "workload.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_workload(path, name)


def one(tmp_path, profiles=None, **job):
    return read(tmp_path, {"nb_res": 4, "jobs": [JOB | job], "profiles": profiles or {"p": DELAY}})


def test_jobs_come_in_batsims_order(tmp_path):
    jobs = [JOB | {"id": i, "subtime": s} for i, s in [("b", 1), (10, 1), (9, 1), ("z", 0.5)]]
    found = read(tmp_path, {"nb_res": 4, "jobs": jobs, "profiles": {"p": DELAY, "unused": DELAY}})
    assert [job.id for job in found.jobs] == ["w0!z", "w0!10", "w0!9", "w0!b"]
    assert list(found.profiles) == list(found.raw_profiles) == ["p"]
    assert found.nb_res == 4


def test_integers_stay_integers(tmp_path):
    job = one(tmp_path, subtime=3, walltime=9).jobs[0]
    assert [type(job.subtime), type(job.walltime)] == [int, int]
    assert one(tmp_path, walltime=-1).jobs[0].walltime is None


def test_further_members_are_kept(tmp_path):
    job = one(tmp_path, power=1.23456789, extra={"id": "x", "n": [1, 2.5]}).jobs[0]
    assert job.extras == {"power": 1.234568, "extra": {"id": "w0!a", "n": [1, 2.5]}}
    assert one(tmp_path).jobs[0].extras is None


def test_ids(tmp_path):
    assert one(tmp_path, id=7).jobs[0].id == "w0!7"
    assert one(tmp_path, id="w0!z").jobs[0].id == "w0!z"


def test_profiles(tmp_path):
    profiles = {
        "p": {"type": "composed", "repeat": 2, "seq": ["h", "t", "v"]},
        "h": {"type": "parallel_homogeneous", "cpu": 5, "com": 0},
        "t": {"type": "parallel_homogeneous_total", "cpu": 6.0, "com": 0, "ret": 2},
        "v": {"type": "parallel", "cpu": [1, 2], "com": [0, 0, 0, 0]},
    }
    assert one(tmp_path, profiles).profiles == {
        "p": Composed("p", 0, ("h", "t", "v"), 2),
        "h": Homogeneous("h", 0, 5.0),
        "t": Homogeneous("t", 2, 6.0, total=True),
        "v": Parallel("v", 0, (1.0, 2.0)),
    }
    assert one(tmp_path).profiles == {"p": Delay("p", 0, 1.0)}


def test_a_profile_that_is_not_simulated_may_be_there_unused(tmp_path):
    smpi = {"type": "smpi", "trace": "x"}
    assert list(one(tmp_path, {"p": DELAY, "s": smpi}).profiles) == ["p"]
    with pytest.raises(InputError, match="profile 's' has type 'smpi', which needs the replay of MPI traces"):
        one(tmp_path, {"p": {"type": "composed", "seq": ["s"]}, "s": smpi})
    inner, outer = ({"type": "composed", "seq": [part]} for part in ("s", "inner"))
    with pytest.raises(InputError, match="profile 's' has type 'smpi'"):
        one(tmp_path, {"p": outer, "inner": inner, "s": smpi})
    with pytest.raises(InputError, match="profile 'c': 'seq' names 'q', which does not exist"):
        one(tmp_path, {"p": DELAY, "c": {"type": "composed", "seq": ["p", "q"]}})


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"walltime": 0}, r"invalid walltime \(0\)"),
        ({"walltime": -2}, r"invalid walltime \(-2\)"),
        ({"subtime": -1}, "'subtime' is -1"),
        ({"subtime": "soon"}, r"jobs\[0\].subtime: found 'soon', expected a number"),
        ({"res": 0}, "'res' is 0"),
        ({"res": 2**31}, "'res' is 2147483648, expected 1 to 2147483647"),
        ({"res": 1.5}, r"jobs\[0\].res: found 1.5, expected an integer"),
        ({"profile": "q"}, "the profile 'q' does not exist"),
        ({"id": "x!y"}, "Invalid string job identifier 'x!y'"),
        ({"id": "xw0y"}, "Invalid string job identifier 'xw0y'"),
        ({"id": None}, r"jobs\[0\].id: found null, expected"),
    ],
)
def test_wrong_jobs(tmp_path, job, message):
    with pytest.raises(InputError, match=message) as caught:
        one(tmp_path, **job)
    assert "workload.json" in str(caught.value)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"type": "delay", "delay": 0}, "'delay' is 0, expected a strictly positive number"),
        ({"type": "delay"}, "'delay' is missing"),
        ({"type": "parallel_homogeneous", "cpu": -1, "com": 0}, "'cpu' is -1"),
        ({"type": "parallel_homogeneous", "cpu": 1, "com": 9}, "the network is not simulated"),
        ({"type": "parallel_homogeneous", "cpu": True, "com": 0}, "expected a number"),
        ({"type": "parallel", "cpu": [1, 2], "com": [0]}, "expected 4"),
        ({"type": "parallel", "cpu": [1], "com": [1]}, "the network is not simulated"),
        (
            {"type": "parallel", "cpu": [1, 2], "com": [0] * 4},
            "'res' is 1, but 'cpu' of its profile 'p' has 2",
        ),
        ({"type": "parallel", "cpu": 1, "com": []}, "'cpu' is not an array"),
        ({"type": "composed", "seq": ["p"]}, "contains itself"),
        ({"type": "composed", "seq": ["none"]}, "which does not exist"),
        ({"type": "composed", "seq": []}, "'seq' is not an array of profile names"),
        ({"type": "composed", "seq": ["p"], "repeat": 0}, "'repeat' is 0"),
        ({"type": "delay", "delay": 1, "ret": -1}, "'ret' is -1"),
        ({"type": "msg_par_hg", "cpu": 1, "com": 0}, "sed -i 's/msg_par_hg/parallel_homogeneous/'"),
        ({"type": "parallel_homogeneous_pfs"}, "parallel file system"),
        ({"type": "teleport"}, "unknown type 'teleport'"),
        ({}, "has no 'type' text"),
    ],
)
def test_wrong_profiles(tmp_path, profile, message):
    with pytest.raises(InputError, match=message):
        one(tmp_path, {"p": profile})


def nested(levels, copies=1):
    """Profiles of which ``p`` has so many sequences in each other, each with so many copies of the next."""
    names = ["p", *(f"p{level}" for level in range(1, levels)), "last"]
    parts = [{"type": "composed", "seq": [name] * copies} for name in names[1:]]
    return dict(zip(names, [*parts, {"type": "delay", "delay": 1}], strict=True))


def test_sequences_may_be_nested_a_hundred_deep(tmp_path):
    workload = one(tmp_path, nested(100))
    assert workload.profiles.keys() == nested(100).keys()
    assert run_times_s(workload, 1.0).tolist() == [1.0]
    for levels in (101, 5000):
        with pytest.raises(InputError, match="nested more than 100 deep"):
            one(tmp_path, nested(levels))
    shared = {"q": {"type": "composed", "seq": ["p1", "p"]}, **nested(100)}
    with pytest.raises(InputError, match="'q': sequences are nested more than 100 deep"):
        one(tmp_path, shared, profile="q")


def test_a_part_that_comes_again_and_again_is_counted_once(tmp_path):
    workload = one(tmp_path, nested(60, copies=2))
    assert run_times_s(workload, 1.0).tolist() == [2.0**60]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ("<?xml version='1.0'?>", "is XML, as platforms are, but a workload is JSON: are"),
        ("; Version: 2.2\n", "workload.json: is an SWF trace: 'beasy-sched generate workload TRACE' makes"),
        (" ".join("1" * 18) + "\n" + " ".join("2" * 18), "workload.json: is an SWF trace"),
        ('\ufeff{"nb_res": 1, "jobs": [], "profiles": {}}', "workload.json:1: begins with a byte order mark"),
        ('{"jobs": [', "not valid JSON"),
        ('{"jobs": [{"id": 1, "subtime": NaN}]}', "not valid JSON"),
        ("[1]", "not a Batsim workload"),
        ({"jobs": [], "profiles": {}}, "not a Batsim workload: nb_res: is missing"),
        ({"nb_res": 0, "jobs": [], "profiles": {}}, "'nb_res' is 0, expected the number of hosts"),
        ({"nb_res": 1.5, "jobs": [], "profiles": {}}, "nb_res: found 1.5, expected an integer"),
        ({"nb_res": 4, "profiles": {}}, "jobs: is missing"),
        ({"nb_res": 4, "jobs": []}, "profiles: is missing"),
        ({"nb_res": 4, "jobs": [], "profiles": []}, "profiles: found \\[\\], expected an object"),
        ({"nb_res": 4, "jobs": [3], "profiles": {}}, "jobs"),
        (
            {"nb_res": 4, "jobs": [JOB, JOB], "profiles": {"p": DELAY}},
            r"jobs\[1\]: the id 'w0!a' occurs twice",
        ),
        (
            {"nb_res": 4, "jobs": [{**JOB, "id": "a" * 998}], "profiles": {"p": DELAY}},
            r"workload.json: jobs\[0\]: id: found 'w0!a{37}\.\.\.' with 1,001 characters",
        ),
        (
            {"nb_res": 4, "jobs": [{**JOB, "profile": "p" * 1001}], "profiles": {"p" * 1001: DELAY}},
            r"jobs\[0\]: profile: found 'p{40}...' with 1,001 characters",
        ),
        (
            {"nb_res": 4, "jobs": [{**JOB, "why": "a" * 1_048_576}], "profiles": {"p": DELAY}},
            r"workload.json: jobs\[0\]: has 1,048,\d+ bytes, expected 1,048,576 at most",
        ),
        (
            '{"nb_res": 4, "jobs": [], "profiles": {"p": {"type": "delay", "delay": 1}, "p": {"type": "x"}}}',
            "workload.json: .*the name 'p' occurs twice in an object: remove one of them",
        ),
        (
            '{"nb_res": 4, "jobs": [{"id": 1, "subtime": 0, "subtime": 9, "res": 1, "profile": "p"}],'
            ' "profiles": {"p": {"type": "delay", "delay": 1}}}',
            "the name 'subtime' occurs twice",
        ),
        (
            '{"nb_res": 4, "of": "x:y", "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "p",'
            ' "user": "a", "user": "b"}], "profiles": {"p": {"type": "delay", "delay": 1}}}',
            "the name 'user' occurs twice",
        ),
        ("[" * 100_000, "workload.json: "),
    ],
)
def test_damaged_files(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, content)


def test_an_empty_workload_is_fine(tmp_path):
    assert read(tmp_path, {"nb_res": 1, "jobs": [], "profiles": {}}).jobs[:] == []
