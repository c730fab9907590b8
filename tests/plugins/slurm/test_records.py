"""What Slurm's commands print, as jobs and nodes: recorded answers of 22.05.8, and the later shape."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from plugins.slurm.later_answers import answer, as_of, node_row, number, squeue_row

from beasy_sched.errors import InputError
from beasy_sched.plugins.slurm.node_sizes import beyond_size, smallest_size
from beasy_sched.plugins.slurm.records import (
    MARK,
    PLACED,
    SlurmAway,
    SlurmJob,
    SlurmNode,
    expanded,
    read_jobs,
    read_nodes,
    tasks,
)

ANSWERS = Path(__file__).parent / "answers"


def recorded(name: str) -> bytes:
    return (ANSWERS / name).read_bytes()


def test_the_jobs_of_22_05():
    jobs = {job.id: job for job in read_jobs(recorded("squeue-22.05.json"))}
    ended = [f"15_{task}" for task in range(1, 401, 3)]
    waiting = ["7", "3", "5", "2_1", "2_5", "17", "18", *(f"19_{task}" for task in range(1, 8))]
    assert sorted(jobs) == sorted([*ended, *waiting])
    assert jobs["15_400"].state == "CANCELLED"
    assert jobs["19_2"].required_nodes == ("n1",), "a row of its own"
    running = jobs["17"]
    assert (running.state, running.nodes, running.admin_comment) == ("RUNNING", ("n1",), "beasy: started")
    assert running.time_limit_s == 600.0
    assert running.end_s == running.start_s + 600
    assert not running.is_held
    waits = jobs["18"]
    assert (waits.state, waits.nodes, waits.required_nodes) == ("CONFIGURING", ("n2",), ("n2",))
    for task in range(1, 8):
        held = jobs[f"19_{task}"]
        assert held.is_held
        assert (held.time_limit_s, held.nodes, held.node_count) == (1200.0, (), 1)
    requeued = jobs["2_1"]
    assert requeued.is_held
    assert (requeued.restarts, requeued.nodes, requeued.required_nodes) == (1, (), ("n1",))
    assert (jobs["5"].node_count, jobs["5"].time_limit_s) == (2, None)
    assert jobs["7"].eligible_s - jobs["7"].submit_s == 3600, "--begin=now+1hour"
    assert jobs["3"].time_limit_s == 2 * 86_400


def test_a_dependency_is_told_while_it_is_not_met():
    jobs = {job.id: job for job in read_jobs(recorded("squeue-22.05-dependency.json"))}
    assert jobs["3"].dependency == "afterok:1(unfulfilled)"
    assert jobs["3"].is_held
    assert (jobs["1"].state, jobs["1"].nodes) == ("RUNNING", ("n1", "n2"))
    assert (jobs["2_1"].state, jobs["2_1"].nodes) == ("RUNNING", ("n3",))
    assert {"2_3", "2_5"} <= set(jobs), "tasks that wait are one row"


def test_the_nodes_of_22_05():
    nodes = {node.name: node for node in read_nodes(recorded("sinfo-22.05.json"))}
    assert {name: node.state for name, node in nodes.items()} == {
        "n1": "ALLOCATED", "n2": "ALLOCATED", "n3": "IDLE", "n4": "IDLE",
    }  # fmt: skip
    assert {name: node.flags for name, node in nodes.items()} == {
        "n1": frozenset(),
        "n2": {"POWERING_UP", "NOT_RESPONDING"},
        "n3": {"POWERED_DOWN"},
        "n4": {"DRAIN"},
    }
    assert nodes["n4"].partitions == ("main",)
    lost = {node.name: node for node in read_nodes(recorded("sinfo-22.05-down.json"))}["n2"]
    assert lost.state == "DOWN"
    assert lost.flags >= {"POWERED_DOWN", "NOT_RESPONDING"}


def test_the_later_shape():
    rows = [
        squeue_row(),
        squeue_row(
            job_id=671,
            job_state=["PENDING"],
            nodes="",
            state_reason="JobHeldUser",
            priority=number(0),
            time_limit=number(infinite=True),
            start_time=number(0),
            end_time=number(0),
            tres_per_node="gres/gpu:2",
        ),
        squeue_row(job_id=7, job_state=["RUNNING", "CONFIGURING", "POWER_UP_NODE"]),
        squeue_row(job_id=8, job_state=["COMPLETED", "COMPLETING"]),
        squeue_row(
            job_id=9,
            job_state=["PENDING"],
            array_job_id=number(9),
            array_task_string="1-3,7%2",
            priority=number(0),
        ),
        squeue_row(job_id=12, array_job_id=number(9), array_task_id=number(4)),
    ]
    jobs = {job.id: job for job in read_jobs(answer("jobs", rows))}
    assert list(jobs) == ["424855", "671", "7", "8", "9_1", "9_2", "9_3", "9_7", "9_4"]
    assert jobs["424855"] == SlurmJob(
        id="424855",
        state="RUNNING",
        partition="normal",
        nodes=("cn975", "cn976", "cn977", "cn978", "cn979", "cn980"),
        node_count=6,
        time_limit_s=3600.0,
        submit_s=1731425717,
        eligible_s=1731425717,
        start_s=1732027016,
        end_s=1732030616,
        reason="None",
        priority=90,
        cpus=256,
        account="acoustic",
        user="pkerr",
    )
    held = jobs["671"]
    assert held.is_held
    assert (held.time_limit_s, held.start_s, held.lacks) == (None, 0.0, "gres gres/gpu:2")
    assert (jobs["7"].state, jobs["8"].state) == ("CONFIGURING", "COMPLETING")
    assert jobs["9_7"].is_held


def test_the_nodes_of_the_later_shape():
    rows = [
        node_row(),
        node_row(name="cn2", state=["IDLE", "POWERED_DOWN"]),
        node_row(name="cn3", state=["DOWN", "NOT_RESPONDING"]),
    ]
    first, asleep, down = read_nodes(answer("nodes", rows))
    assert (first.state, first.flags, first.features) == ("IDLE", frozenset(), ("gpu", "ib"))
    assert first.partitions == ("normal", "long")
    assert (asleep.state, asleep.flags) == ("IDLE", {"POWERED_DOWN"})
    assert (down.state, down.flags) == ("DOWN", {"NOT_RESPONDING"})


VERSIONS = ["24.11", "25.11", "26.05"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_held_job_of_current_versions(version: str):
    row = squeue_row(
        job_id=12,
        job_state=["PENDING"],
        nodes="",
        node_count=number(2),
        max_nodes=number(4),
        cpus=number(8),
        priority=number(0),
        hold=True,
        state_reason="JobHeldUser",
        admin_comment=MARK,
        memory_per_node=number(300),
        minimum_cpus_per_node=number(4),
        memory_per_cpu=number(),
        user_name="alice",
        account="acc",
        nice=0,
    )
    (job,) = read_jobs(answer("jobs", [as_of(version, row)]))
    assert job.is_held
    assert job.is_ours
    assert not job.is_placed
    assert (job.node_count, job.most_nodes, job.node_range, job.lacks) == (2, 4, "2-4", "")
    assert (job.cpus, job.cpus_per_node, job.memory_per_node_mb, job.memory_per_cpu_mb) == (8, 4, 300, 0)
    assert (job.user, job.account, job.nice) == ("alice", "acc", 0)
    (placed,) = read_jobs(
        answer("jobs", [as_of(version, row | {"admin_comment": f"{PLACED} 2-4", "max_nodes": number(2),
                                              "required_nodes": "n[1-2]"})])
    )  # fmt: skip
    assert (placed.is_placed, placed.required_nodes, placed.node_range) == (True, ("n1", "n2"), "2-4")
    assert placed.lacks == ""
    (again,) = read_jobs(
        answer("jobs", [as_of(version, row | {"admin_comment": PLACED, "max_nodes": number(0)})])
    )
    assert again.node_range == "", "of a requeued job, max_nodes is 0"


@pytest.mark.parametrize(
    ("suspend", "expected"),
    [
        ({}, None),
        ({"suspend_time": number(8_640_000)}, 8_640_000),
        ({"suspend_time": {"set": False, "infinite": True, "number": 0}}, math.inf),
        ({"suspend_time": number()}, math.inf),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_sizes_of_nodes(version: str, suspend: dict[str, Any], expected: float | None):
    row = node_row(real_memory=1000, specialized_memory=100, temporary_disk=5, effective_cpus=60, **suspend)
    (node,) = read_nodes(answer("nodes", [as_of(version, row)]))
    assert (node.cpus, node.memory_mb, node.disk_mb, node.suspend_s) == (60, 900, 5, expected)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ""),
        ({"memory_per_node_mb": 900, "cpus_per_node": 4}, ""),
        ({"memory_per_node_mb": 901}, "901 MB of memory per node, the smallest node has 900"),
        ({"memory_per_cpu_mb": 300, "cpus": 8}, "1200 MB of memory per node, the smallest node has 900"),
        ({"memory_per_cpu_mb": 300, "cpus": 6}, ""),
        ({"cpus_per_node": 5}, "5 CPUs per node, the smallest node has 4"),
        ({"cpus": 9}, "5 CPUs per node, the smallest node has 4"),
        ({"disk_per_node_mb": 1}, ""),
    ],
)
def test_requests_beyond_the_smallest_node(asked: dict[str, int], found: str):
    nodes = [
        SlurmNode("n1", "IDLE", cpus=4, memory_mb=1000),
        SlurmNode("n2", "IDLE", cpus=64, memory_mb=900),
        SlurmNode("n3", "IDLE"),
    ]
    job = SlurmJob(id="1", state="PENDING", partition="main", node_count=2, **asked)  # type: ignore[arg-type]
    assert beyond_size(job, smallest_size(nodes)) == found
    assert beyond_size(job, smallest_size([])) == ""


SHARED = Path(__file__).parents[4] / "shared" / "found" / "turn4-slurm" / "answers"


@pytest.mark.parametrize("version", ["25", "26"])
def test_real_answers_of_current_versions(version: str):
    """One row per kind: array, heterogeneous, requeued, cancelled, timed out, failed, without a limit."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}")
    jobs = {job.id: job for job in read_jobs((SHARED / f"squeue-{version}.json").read_bytes())}
    assert {"COMPLETED", "FAILED", "CANCELLED", "PENDING"} <= {job.state for job in jobs.values()}
    held = [job for job in jobs.values() if job.is_held]
    assert [(job.reason, job.node_count, job.most_nodes, job.lacks) for job in held] == [
        ("JobHeldUser", 1, 1, "")
    ]
    assert {(job.user, job.account) for job in jobs.values()} == {("alice", "acc")}
    for node in read_nodes((SHARED / f"nodes-{version}.json").read_bytes()):
        assert (node.cpus, node.memory_mb) == (1, 100)
        assert node.suspend_s == (8_640_000 if version == "26" else None)


@pytest.mark.parametrize(
    ("changed", "lacks"),
    [
        ({}, ""),
        ({"required_nodes": "n[4-5]"}, "nodes n[4-5]"),
        ({"contiguous": True}, "contiguous nodes"),
        ({"required_switches": 2}, "switches 2"),
        ({"required_switches": number(2)}, "switches 2"),
        ({"exclusive": ["user"]}, "exclusive user"),
        ({"shared": ["topo"]}, "exclusive topo"),
        ({"shared": ["none"], "exclusive": ["true"]}, ""),
        ({"prefer": "ib"}, "preference ib"),
        ({"tres_per_task": "cpu=4"}, ""),
        ({"tres_per_task": "cpu:4,gres/gpu:1"}, "gres gres/gpu:1"),
        ({"tres_per_node": "gres:gpu:1"}, "gres gres:gpu:1"),
        ({"licenses": "ansys:3"}, "licenses ansys:3"),
        ({"features": "ib&gpu"}, "constraint ib&gpu"),
        ({"het_job_id": number(77)}, "het job 77"),
        ({"excluded_nodes": "n[1-2]", "resv_name": "maint"}, "exclude n[1-2], reservation maint"),
    ],
)
def test_what_whole_nodes_do_not_say(changed: dict[str, Any], lacks: str):
    (job,) = read_jobs(answer("jobs", [squeue_row(**changed)]))
    assert job.lacks == lacks


def test_a_controller_that_is_away_has_no_empty_queue():
    with pytest.raises(SlurmAway, match="Failed while looking for jobs"):
        read_jobs(recorded("squeue-22.05-away.json"))
    assert read_jobs(b'{"jobs": [], "errors": []}') == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", r"squeue --json: is not valid JSON: it is empty: it begins with nothing; expected the JSON of"),
        (b"JOBID PARTITION\n1 main\n", r"squeue --json:1: is not valid JSON: .*begins with JOBID PARTITION"),
        (b'{"jobs": [{"job_id": 1,', r"ends in the middle"),
        (b'{"jobs": 3}', r"squeue --json: jobs: found 3, expected a list"),
        (b'{"nodes": []}', r"jobs.*expected the JSON of Slurm 22.05 or later"),
        (b'{"jobs": [{"job_id": {"id": "x"}}]}', r"jobs\[0\].job_id.*"),
        (b'{"jobs": [{"job_id": 1, "nodes": "n[1-"}]}', r"squeue --json: 'n\[1-' is not a list of nodes"),
        (
            b'{"jobs": [{"job_id": 1, "array_job_id": 1, "array_task_string": "1,3,..."}]}',
            r"'1,3,...' is not in Slurm's short form",
        ),
        (b'{"jobs": [{"job_id": 1, "nodes": "n[1-999999999]"}]}', r"more than 1,000,000"),
        (b"\xff\xfe", r"UTF-8"),
    ],
)
def test_bad_answers_are_one_message(text: bytes, expected: str):
    with pytest.raises(InputError, match=expected) as caught:
        read_jobs(text)
    assert len(str(caught.value)) < 300


def test_nodes_have_names_of_their_own():
    twice = answer("nodes", [node_row(name=name) for name in ("n1", "n2", "n1")])
    with pytest.raises(InputError, match=r"^nodes\.json: 2 nodes are called 'n1'$"):
        read_nodes(twice, "nodes.json")


HUGE = "9" * 400
ABSURD = [HUGE, "1e300", f'{{"set": true, "number": {HUGE}}}', '{"set": true, "number": -1e300}']


@pytest.mark.parametrize("number", ABSURD)
def test_absurd_numbers_are_one_message(number: str):
    for field in ("job_id", "array_task_id", "submit_time", "time_limit", "node_count"):
        text = answer("jobs", [squeue_row(array_job_id=7) | {field: "HERE"}]).replace(
            b'"HERE"', number.encode()
        )
        with pytest.raises(InputError, match=r"^squeue --json(:1)?: found .*, expected a"):
            read_jobs(text)


@pytest.mark.parametrize(
    "number", [0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, {"set": True, "infinite": True, "number": 0}]
)
def test_a_task_without_a_number_is_none(number: object):
    (job,) = read_jobs(answer("jobs", [squeue_row(job_id=7, array_job_id=7, array_task_id=number)]))
    assert job.id == "7"


def test_an_answer_without_nodes_says_which_command_has_them():
    for text, found in ((b'{"sinfo": [{"a": 1}]}', "a later 'sinfo --json'"), (b'{"jobs": []}', "no list")):
        with pytest.raises(InputError, match=f"nodes.json: found .*{found}.*scontrol show nodes --json"):
            read_nodes(text, "nodes.json")


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("", ()),
        (None, ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("login", ("login",)),
        ("n[1-3,07],login", ("n1", "n2", "n3", "n07", "login")),
        ("cn[009-011]", ("cn009", "cn010", "cn011")),
        ("r[1-2]n[3,5]", ("r1n3", "r1n5", "r2n3", "r2n5")),
        ("a1-ib,b[2]-ib", ("a1-ib", "b2-ib")),
        ("n[3-1]", ()),
    ],
)
def test_names_in_short_form(short: str | None, names: tuple[str, ...]):
    assert expanded(short) == names


@pytest.mark.parametrize("short", ["n[1-", "n]", "n[a-b]", "n[1--3]", "[", "n[1-2", "n[]", "n[-3]"])
def test_what_is_not_in_short_form(short: str):
    with pytest.raises(ValueError, match="is not"):
        expanded(short)


@pytest.mark.parametrize(
    ("short", "numbers"),
    [("3", [3]), ("1-5:2,9", [1, 3, 5, 9]), ("0-2%4", [0, 1, 2]), ("1-400:133", [1, 134, 267, 400])],
)
def test_numbers_of_tasks(short: str, numbers: list[int]):
    assert tasks(short) == numbers


@pytest.mark.parametrize("short", ["1,3,...", "a", "1-b", "1-5:x", "", "1-99999999"])
def test_what_are_no_numbers_of_tasks(short: str):
    with pytest.raises(ValueError, match=r"is not in Slurm's short form|more than"):
        tasks(short)
