"""Past jobs as a workload: recorded answers of sacct, the later shape, and what is left out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins.slurm.later_answers import answer, number, sacct_row

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.plugins.slurm.history_options import HistoryOptions
from beasy_sched.plugins.slurm.job_history import moment_s, read_history, workload_from_history
from beasy_sched.plugins.slurm.records import SlurmAway

ANSWERS = Path(__file__).parent / "answers"
HEAD = "JobID|Partition|State|Submit|Start|End|Elapsed|Timelimit|NNodes|NodeList\n"


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time has a change of clocks."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def made(data: bytes | str, **options: Any) -> GeneratedWorkload:
    text = data.encode() if isinstance(data, str) else data
    history = read_history(text, "jobs.txt")
    return workload_from_history(history, HistoryOptions(reference_speed_flops=1e9, **options), "jobs.txt")


def row(job_id: object = 1, **changed: Any) -> str:
    """A line of text of a job that ran for an hour on two nodes."""
    cells = {
        "JobID": job_id,
        "Partition": "main",
        "State": "COMPLETED",
        "Submit": 1000,
        "Start": 2000,
        "End": 5600,
        "Elapsed": "01:00:00",
        "Timelimit": "02:00:00",
        "NNodes": 2,
        "NodeList": "n[1-2]",
        **changed,
    }
    return "|".join(str(cell) for cell in cells.values()) + "\n"


def test_the_same_jobs_from_json_and_from_texts():
    workloads = [
        made((ANSWERS / "sacct-22.05.json").read_bytes()),
        made((ANSWERS / "sacct-22.05-epoch.txt").read_bytes()),
    ]
    for workload in workloads:
        assert list(workload.ids) == ["1", "2", "3_1", "3_5", "4", "5", "8", "12"]
        assert workload.submit_s.tolist() == [0, 15, 15, 15, 15, 15, 15, 27]
        assert workload.run_s.tolist() == [2, 3, 3, 3, 4, 2, 1, 4]
        assert workload.hosts.tolist() == [1, 2, 1, 1, 1, 1, 1, 4]
        limits = [None if math.isnan(limit) else limit for limit in workload.walltime_s.tolist()]
        assert limits == [None, 60, 300, 300, None, 183_600, None, None]
        assert workload.nb_res == 4
        assert workload.report.rows == 12
        assert workload.report.dropped == {
            "cancelled before the start": 1,
            "still waiting": 1,
            "requeued, and not run again": 1,
            "still running": 1,
        }
        assert not workload.report.warnings
    assert b"".join(workloads[0].json_pieces()) == b"".join(workloads[1].json_pieces())
    assert workloads[0].report.examples["still running"] == ["job 13"]
    assert workloads[1].report.examples["still running"] == ["line 28"]
    assert "19 rows of job steps: omitted, as intended" in workloads[1].report.notes


def test_times_without_an_offset_are_local_ones():
    """The recorded text has no epochs: in this zone, its times are an hour earlier."""
    local = made((ANSWERS / "sacct-22.05.txt").read_bytes())
    assert list(local.ids) == ["1", "2", "3_1", "3_5", "4", "5", "8", "12"]
    assert local.midnight_s == -(15 * 3600 + 49 * 60 + 22)
    assert "time 0 is 2026-11-25T15:49:22+01:00" in " ".join(local.report.notes)
    assert "--start '2026-11-25 14:49:22' (UTC)" in " ".join(local.report.notes)
    over_the_change = HEAD + row(Submit="2026-03-29T01:30:00") + row(2, Submit="2026-03-29T03:30:00")
    assert made(over_the_change).submit_s.tolist() == [0, 3600]


def test_the_later_shape():
    rows = [
        sacct_row(),
        sacct_row(job_id=7, array={"job_id": 5, "task_id": number(3), "task": ""}),
        sacct_row(job_id=9, het={"job_id": 8, "job_offset": number(1)}, nodes="cn1", allocation_nodes=1),
        sacct_row(job_id=10, state={"current": ["RUNNING"], "reason": "None"},
                  time=sacct_row()["time"] | {"end": 0}),
        sacct_row(job_id=11, time=sacct_row()["time"] | {"limit": number(infinite=True)}),
    ]  # fmt: skip
    workload = made(answer("jobs", rows))
    assert list(workload.ids) == ["5_3", "8+1", "11", "599930"]
    assert workload.hosts.tolist() == [87, 1, 87, 87], "nodes that it had, not those that it asked for"
    assert workload.run_s.tolist() == [622] * 4
    assert workload.walltime_s.tolist()[0] == 600
    assert math.isnan(workload.walltime_s.tolist()[2])
    assert workload.nb_res == 88
    assert workload.report.dropped == {"still running": 1}
    assert "ended as: 4 TIMEOUT" in workload.report.notes


def test_batsim_takes_the_workload(tmp_path: Path):
    workload = made(HEAD + row("4711_3") + row("4711_4", Submit=1500) + row("8+1", Timelimit="UNLIMITED"))
    workload.write(tmp_path / "w.json")
    read = read_workload(tmp_path / "w.json", "w0")
    assert [job.id for job in read.jobs] == ["w0!4711_3", "w0!8+1", "w0!4711_4"]
    profiles = json.loads((tmp_path / "w.json").read_text())["profiles"]
    assert profiles == {"p1": {"type": "parallel_homogeneous", "cpu": 3600 * 10**9, "com": 0}}


def test_suspended_time_is_no_run_time():
    assert made(HEAD + row(Elapsed="00:20:00")).run_s.tolist() == [1200]
    raw = HEAD.replace("Elapsed", "ElapsedRaw").replace("Timelimit", "TimelimitRaw")
    workload = made(raw + row(Elapsed="1200", Timelimit="90"))
    assert (workload.run_s.tolist(), workload.walltime_s.tolist()) == ([1200], [5400])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"State": "CANCELLED by 0", "Start": "None"}, "cancelled before the start"),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, "still waiting"),
        ({"State": "RUNNING", "End": "Unknown"}, "still running"),
        ({"State": "REQUEUED"}, "requeued, and not run again"),
        ({"Elapsed": "00:00:00"}, "run time 0"),
        ({"NNodes": 0}, "no number of nodes"),
        ({"Submit": "Unknown"}, "without a time of submission"),
        ({"Partition": "other"}, "of other partitions"),
        ({"Submit": 50}, "submitted before the start"),
        ({"Submit": 9000}, "submitted at or after the end"),
        ({"NNodes": 5}, "larger than the site (4 hosts)"),
        ({"Submit": "yesterday"}, "cannot be read"),
        ({"NNodes": "two"}, "cannot be read"),
        ({"Elapsed": "an hour"}, "cannot be read"),
        ({"NodeList": "n1|n2"}, "cannot be read"),
    ],
)
def test_what_is_left_out_is_counted(changed: dict[str, Any], reason: str):
    workload = made(HEAD + row() + row(2, **changed), partition="main", from_s=100, to_s=8000, hosts=4)
    assert list(workload.ids) == ["1"]
    assert workload.report.dropped == {reason: 1}
    assert workload.report.examples[reason][0].startswith("line 3")
    assert workload.window_s == 7000


def test_of_a_requeued_job_the_last_run_counts():
    workload = made(HEAD + row(State="REQUEUED") + row(Start=7000, End=7060, Elapsed="00:01:00"))
    assert workload.run_s.tolist() == [60]
    assert workload.report.dropped == {"earlier run of a job that was requeued": 1}


def test_jobs_of_two_clusters_are_not_mixed():
    """Job ids are unique within a cluster only: of one id, the last run would count."""
    with_name = HEAD.replace("\n", "|Cluster\n")
    text = with_name + "".join(row(1).replace("\n", f"|{name}\n") for name in "ab")
    rows = [sacct_row(cluster="a"), sacct_row(cluster="b", allocation_nodes=5)]
    for data in (text, answer("jobs", rows)):
        with pytest.raises(InputError, match=r"2 clusters, a \(1 job\), b \(1 job\).*--cluster NAME"):
            made(data)
        with pytest.raises(InputError, match="no job of cluster 'c'; clusters in it: a, b"):
            made(data, cluster="c")
        one = made(data, cluster="b")
        assert one.report.dropped == {"of other clusters": 1}
        assert one.size == 1
    assert made(answer("jobs", rows), cluster="b").hosts.tolist() == [5]
    with pytest.raises(InputError, match="clusters in it: none: the table has no column Cluster"):
        made(HEAD + row(), cluster="b")


def test_runs_of_one_id_at_one_time_are_warned_of():
    (warning,) = made(HEAD + row() + row(Partition="gpu", Start=3000)).report.warnings[:1]
    assert "(line 3): are these jobs of several clusters? Add the column Cluster" in warning
    assert not made(HEAD + row(State="REQUEUED") + row(Start=5600, End=6000)).report.warnings


@pytest.mark.parametrize(
    ("rule", "walltimes", "note"),
    [
        ("none", [None, 7200], "1 job without a time limit: no walltime. 'beasy' and 'bid-price' reserve"),
        (2.0, [7200, 7200], "1 job without a time limit: their walltime is 2 x the run time"),
        ("drop", [7200], None),
    ],
)
@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", ""])
def test_jobs_without_a_time_limit(rule, walltimes, note, limit):
    workload = made(HEAD + row(1, Timelimit=limit) + row(2), missing_walltime=rule)
    assert [None if math.isnan(each) else each for each in workload.walltime_s.tolist()] == walltimes
    assert any(each.startswith(note) for each in workload.report.notes) if note else workload.size == 1
    assert workload.report.dropped == ({} if note else {"without a time limit": 1})


def test_jobs_that_shared_nodes_are_told():
    workload = made(HEAD + "".join(row(n, NodeList="n1", NNodes=1) for n in range(1, 4)))
    (warning,) = workload.report.warnings
    assert "at one time, jobs used 3 nodes, more than 1" in warning
    after_each_other = HEAD + row(1, NodeList="n1", NNodes=1) + row(2, NodeList="n1", NNodes=1, Start=5600,
                                                                    End=9200)  # fmt: skip
    assert not made(after_each_other).report.warnings


def test_a_text_needs_its_columns():
    with pytest.raises(InputError, match=r"jobs.txt:1: .*missing: End, NNodes\); create it with: SLURM_TIME"):
        made("JobID|State|Submit|Start|Timelimit\n")
    for other in ("", "a poem\n", "[section]\n", "JobID       State\n----- ----\n"):
        with pytest.raises(
            InputError, match=r"jobs.txt:1: found .*expected JSON \('sacct --json'\) or a table"
        ):
            made(other)
    few = "JobID|State|Submit|Start|End|NNodes|Timelimit\n1|COMPLETED|0100|200|300|2|UNLIMITED\n"
    workload = made(few)
    assert (workload.nb_res, workload.run_s.tolist()) == (2, [100])
    assert "2, the size of the largest job" in workload.report.notes[0]
    with_end = HEAD.replace("\n", "|\n") + row().replace("\n", "|\n")
    assert list(made(with_end).ids) == ["1"], "as sacct -p prints it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"jobs": []}', "no jobs left of 0$"),
        ('{"jobs": [{"job_id": 1}]}', r"jobs\[0\].*time"),
        (
            '{"jobs": [{"job_id": 1, "time": {"limit": 1e300}, "state": {}}]}',
            "^jobs.txt: found 1e.300, expected",
        ),
        ('{"jobs": [', "ends in the middle"),
        ('{"nodes": []}', "expected the JSON of Slurm 22.05 or later"),
        (HEAD + row(State="RUNNING", End="Unknown"), "no jobs left of 1: 1 still running"),
        (HEAD + row(NodeList="n[1-"), "'n.1-' is not a list of nodes"),
    ],
)
def test_bad_input_is_one_message(text: str, expected: str):
    with pytest.raises(InputError, match=expected):
        made(text)


def test_an_accounting_that_does_not_answer_has_no_empty_history():
    refused = {"jobs": [], "errors": [{"error": "Unable to connect", "description": "slurmdbd is away"}]}
    with pytest.raises(SlurmAway, match="slurmdbd is away"):
        read_history(json.dumps(refused).encode(), "sacct --json")


def test_moments():
    assert moment_s("1970-01-02T00:00:00+00:00") == 86_400
    assert moment_s("1970-01-02") == 86_400 - 3600
    for wrong in ("", "now", "2026-13-01", "1"):
        with pytest.raises(ValueError, match="expected a time such as 2026-01-01"):
            moment_s(wrong)
