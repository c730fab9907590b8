"""Records of a run: where it is, and what is wrong with its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plugins.reports.story_files import write_run

from beasy_sched.errors import InputError
from beasy_sched.run.results import (
    JobRow,
    LogLine,
    check_same_run,
    find_prefix,
    glance_over,
    read_jobs,
    read_log,
    read_trace,
)


def test_a_prefix_or_the_folder_of_one_run(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, "easy")
    assert find_prefix(prefix) == prefix
    assert find_prefix(tmp_path) == prefix


def test_a_folder_of_several_runs(tmp_path: Path) -> None:
    for name in ("easy", "beasy"):
        write_run(tmp_path, name)
    with pytest.raises(
        InputError, match=r"contains several runs: beasy, easy; give the prefix of one, such as .*beasy$"
    ):
        find_prefix(tmp_path)
    assert find_prefix(tmp_path / "easy") == str(tmp_path / "easy")


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contains no decision log \(\*_decisions.jsonl\)"):
        find_prefix(tmp_path)
    with pytest.raises(
        InputError, match=r"nowhere_decisions.jsonl: no such decision log: give the output prefix"
    ):
        find_prefix(tmp_path / "nowhere")


def test_a_folder_of_folders_of_runs(tmp_path: Path) -> None:
    (tmp_path / "easy").mkdir()
    write_run(tmp_path / "easy")
    with pytest.raises(InputError, match=r"contains no decision log .* such as .*easy.run$"):
        find_prefix(tmp_path)


def test_a_log_that_was_cut_between_two_lines(tmp_path: Path) -> None:
    log = Path(f"{write_run(tmp_path)}_decisions.jsonl")
    log.write_text(log.read_text("utf-8")[:-1], "utf-8")
    with pytest.raises(InputError, match=r"decisions.jsonl:9: is truncated in the middle of a line"):
        list(read_log(str(tmp_path / "run")))


def test_decisions(tmp_path: Path) -> None:
    first, second, *_, last = read_log(write_run(tmp_path))
    assert first == LogLine(10.0, "start", "w0!a", "0-1", "head of the queue")
    assert second.facts == {"hosts_asked": 1, "hosts_free": 0, "reserved_at_s": 3610.0}
    assert (last.kind, last.job) == ("reject", "w0!d")
    assert LogLine(0.0, "P-state 3", hosts="0 2-3").kind == "P-state"
    assert LogLine(0.0, "P-state 3", hosts="0 2-3").host_set().ids.tolist() == [0, 2, 3]


def test_jobs(tmp_path: Path) -> None:
    first, *_, last = read_jobs(write_run(tmp_path))
    assert first == JobRow("w0!a", 10.0, 2, 3600.0, "COMPLETED_SUCCESSFULLY", 10.0, 250.0, 48_000.0)
    assert last == JobRow("w0!d", 30.0, 2, None, "REJECTED", None, None, None)


def test_the_trace_without_its_empty_fields(tmp_path: Path) -> None:
    planned, bare = read_trace(write_run(tmp_path))
    assert (planned["planned_soc_pct"], bare["soc_pct"]) == (22.0, 20.0)
    assert "planned_soc_pct" not in bare


def test_files_that_need_not_be_there(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, jobs=False, site=False)
    assert [*read_jobs(prefix)] == [*read_trace(prefix)] == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "decisions.jsonl",
            '{"time": 1, "action": "start"}\n{"time":\n',
            r":2: is not a decision: is not valid JSON: it ends",
        ),
        ("decisions.jsonl", '{"action": "start"}\n', r":1: is not a decision: time: is missing"),
        (
            "decisions.jsonl",
            '{"time": 1, "action": "start", "facts": 3}\n',
            r":1: is not a decision: facts: found 3, expected an object",
        ),
        (
            "jobs.csv",
            "job_id,metadata\n1,2\n",
            r":2: is not a row of Batsim's jobs.csv: it has no 'workload_name'",
        ),
        (
            "energy_trace.csv",
            "step,start_s,duration_s\n0,0,1\n1,x,1\n",
            r":3: is not a row of an energy trace: found 'x', expected a number",
        ),
    ],
)
def test_broken_files(file: str, text: str, message: str, tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    Path(f"{prefix}_{file}").write_text(text)
    with pytest.raises(InputError, match=f"run_{file}{message}"):
        _ = [*read_log(prefix)], [*read_jobs(prefix)], [*read_trace(prefix)]


def test_records_of_different_runs_are_refused(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    check_same_run(prefix)
    log = Path(f"{prefix}_decisions.jsonl")
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"w0!b"' not in line))
    with pytest.raises(InputError, match=r"jobs.csv: is from another run than .*which does not start w0!b"):
        check_same_run(prefix)
    Path(f"{prefix}_jobs.csv").unlink()
    check_same_run(prefix)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"time":1e300,"action":"start"}', "time: found 1e+300, expected a number, at most"),
        ('{"time":1,"action":"start","hosts":"0-9999999999"}', "is not a host id or an interval"),
        ('{"time":1,"action":"start","hosts":"5-1"}', "runs backwards"),
        ('{"time":1,"action":"postpone","facts":{"waited_s":"long"}}', "facts.waited_s: found 'long'"),
        ('{"time":1,"action":"postpone","facts":{"x_s":1e30}}', "is not a decision"),
        ("[" * 100_000, "is not a decision"),
    ],
)
def test_lines_of_the_log_that_are_none(tmp_path: Path, line: str, told: str) -> None:
    log = Path(f"{write_run(tmp_path)}_decisions.jsonl")
    log.write_text(line + "\n", "utf-8")
    with pytest.raises(InputError, match=rf"decisions.jsonl:1: .*{re.escape(told)}"):
        list(read_log(str(tmp_path / "run")))


@pytest.mark.parametrize("header", ["begin", "nan"])
def test_a_trace_without_what_every_step_has(tmp_path: Path, header: str) -> None:
    trace = Path(f"{write_run(tmp_path)}_energy_trace.csv")
    text = trace.read_text("utf-8")
    wrong = text.replace("step,", "begin,", 1) if header == "begin" else text.replace(",20.0", ",nan")
    trace.write_text(wrong, "utf-8")
    told = r"energy_trace.csv:\d+: is not a row of an energy trace: (it has no step|found 'nan')"
    with pytest.raises(InputError, match=told):
        list(read_trace(str(tmp_path / "run")))


def written(folder: Path, log: str, jobs: str = "") -> str:
    """A run of a decision log, and of a ``jobs.csv`` with the rows that are given."""
    Path(folder, "run_decisions.jsonl").write_text(log, "utf-8", newline="")
    if jobs:
        head = (
            "job_id,workload_name,submission_time,requested_number_of_resources,requested_time,final_state,"
            "starting_time,finish_time,consumed_energy,metadata\n"
        )
        Path(folder, "run_jobs.csv").write_text(head + jobs, "utf-8", newline="")
    return str(folder / "run")


LINES = [
    '{"time":1.5,"action":"start","job":"w0!a","hosts":"0-1","rule":"backfilled","facts":{"waited_s":0.5}}',
    '{"facts": {"cost_j": null, "waited_s": 2}, "job": "w0!\\u00e4\\"", "action": "reject", "time": 2}',
    '{"time":3,"action":"P-state 4","hosts":"3 5","rule":"plänned","facts":{"hosts_to_wake":2}}',
    '{"time":3,"action":"postpone","job":"w0!\\n","facts":{"waited_s":null,"mode":"{[{["}}',
]


@pytest.mark.parametrize("block_bytes", [1, 7, 100, 1 << 18])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_the_log_in_blocks_at_a_glance(
    block_bytes: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the blocks, each line is read once, and a glance tells the same as the whole line."""
    monkeypatch.setattr("beasy_sched.formats.reading._BLOCK_BYTES", block_bytes)
    prefix = written(tmp_path, "".join(line + end for line in LINES))
    log = [*read_log(prefix)]
    assert [line.action for line in log] == ["start", "reject", "P-state 4", "postpone"]
    assert log[1].job == 'w0!ä"'
    assert [*read_log(prefix, "reject", "start")] == log[:2]
    glances = [*glance_over(prefix)]
    assert [whole() for _, whole in glances] == log
    for (glance, _), line in zip(glances, log, strict=True):
        told = (glance.time, glance.action, glance.kind, glance.job, glance.rule, glance.facts.waited_s)
        assert told == (line.time, line.action, line.kind, line.job, line.rule, line.facts.get("waited_s"))


@pytest.mark.parametrize("wrong", ["", "[]", '{"time":1}', LINES[0] + LINES[0], '{"time":1,"action":"start"'])
@pytest.mark.parametrize("block_bytes", [1, 1 << 18])
def test_a_line_that_is_none_is_named(
    wrong: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beasy_sched.formats.reading._BLOCK_BYTES", block_bytes)
    prefix = written(tmp_path, "\n".join([*LINES, wrong, LINES[0], ""]))
    for read in (read_log, glance_over):
        found = read(prefix)
        _ = [next(found) for _ in LINES]
        with pytest.raises(InputError, match=r"decisions.jsonl:5: is not a decision"):
            next(found)


def test_a_log_that_was_cut_at_a_glance(tmp_path: Path) -> None:
    prefix = written(tmp_path, "\n".join(LINES))
    with pytest.raises(InputError, match=r"decisions.jsonl:4: is truncated in the middle of a line"):
        _ = [*glance_over(prefix)]


@pytest.mark.parametrize("metadata", ["", '""', '"a,\n12,b"'])
@pytest.mark.parametrize("mentioned", ["12", "w1", "x", "job_id"])
def test_rows_that_mention_a_text(metadata: str, mentioned: str, tmp_path: Path) -> None:
    """All jobs of that name are among them, those that are there are right, and so are lines in errors."""
    rows = [
        f"{job},{workload},1,2,9,COMPLETED_SUCCESSFULLY,1,5,7,{metadata}\n"
        for workload in ("w0", "w1")
        for job in ("12", "112", "3", "x")
    ]
    prefix = written(tmp_path, "", "".join(rows))
    every, some = [*read_jobs(prefix)], [*read_jobs(prefix, mentioned)]
    assert len(every) == 8
    assert all(row in every for row in some)
    assert [row for row in some if mentioned in row.id] == [row for row in every if mentioned in row.id]
    written(tmp_path, "", "".join([*rows, rows[0].replace(",2,9,", ",two,9,")]))
    last = 10 + "".join(rows).count("\n12,b")
    with pytest.raises(InputError, match=rf"jobs.csv:{last + metadata.count(chr(10))}: .*found 'two'"):
        _ = [*read_jobs(prefix, "12")]
