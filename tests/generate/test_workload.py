from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.cli.generate_workload import workload as command
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.generate.random_streams import GROUP_FACTORS, grouped_walltimes
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.units import format_duration, parse_duration

SPEED = 1e9
FIELDS = (
    "number submit wait run alloc cpu mem req time reqmem status user group exe queue partition pre think"
)
DEFAULTS: dict[str, float] = dict.fromkeys(FIELDS.split(), -1) | {
    "run": 100,
    "alloc": 4,
    "req": 4,
    "time": 200,
}


def trace(folder: Path, *jobs: dict[str, float], header: str = "; MaxProcs: 64") -> Path:
    lines = [header]
    for number, job in enumerate(jobs, start=1):
        row = DEFAULTS | {"number": number, "submit": 10 * number, "status": 1} | job
        lines.append(" ".join(f"{row[name]:.17g}" for name in FIELDS.split()))
    path = folder / "t.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def convert(path: Path, **options: Any) -> GeneratedWorkload:
    return workload_from_swf(path, SwfOptions(**{"reference_speed_flops": SPEED, **options}))


def as_json(made: GeneratedWorkload) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(b"".join(made.json_pieces()))
    return loaded


def test_the_whole_file(tmp_path: Path) -> None:
    path = trace(
        tmp_path, {"submit": 30}, {"submit": 30.5, "run": 0.5, "time": -1}, {"submit": 31, "alloc": 9}
    )
    made = convert(path, cores_per_host=4)
    made.write(tmp_path / "w.json")
    assert (tmp_path / "w.json").read_text() == (
        '{"nb_res":16,"jobs":[\n'
        '{"id":"1","subtime":0,"res":1,"walltime":200,"profile":"p1"},\n'
        '{"id":"2","subtime":0.5,"res":1,"walltime":1,"profile":"p2"},\n'
        '{"id":"3","subtime":1,"res":3,"walltime":200,"profile":"p1"}\n'
        '],"profiles":{\n'
        '"p1":{"type":"parallel_homogeneous","cpu":100000000000,"com":0},\n'
        '"p2":{"type":"parallel_homogeneous","cpu":500000000,"com":0}\n'
        "}}\n"
    )
    assert made.report.notes == ["1 jobs have no requested time: their walltime is 2 x the run time"]


def test_delay_profiles(tmp_path: Path) -> None:
    made = convert(trace(tmp_path, {}, {"run": 200}), profile_type="delay")
    assert as_json(made)["profiles"]["p1"] == {"type": "delay", "delay": 100}
    assert made.beyond_walltime == 1
    assert convert(trace(tmp_path, {}, {"run": 200})).beyond_walltime == 0


DROPS = [
    ({"submit": -1}, {}, "no submission time"),
    ({"run": -1}, {}, "no run time"),
    ({"run": 0}, {}, "run time 0"),
    ({"alloc": -1, "req": 0}, {}, "no number of processors"),
    ({"status": 5}, {"keep": {"status": frozenset({0, 1})}}, "other status"),
    ({"user": 8}, {"keep": {"user": frozenset({-1})}}, "other user"),
    ({"partition": 8}, {"keep": {"partition": frozenset({-1})}}, "other partition"),
    ({"run": 99}, {"min_run_s": 100}, "run time out of bounds"),
    ({"run": 101}, {"max_run_s": 100}, "run time out of bounds"),
    ({"alloc": 5}, {"max_hosts": 4}, "more than 4 hosts"),
    ({"alloc": 9}, {"hosts": 2, "cores_per_host": 4}, "larger than the site (2 hosts)"),
    ({"time": -1}, {"missing_walltime": "drop"}, "no requested time"),
    ({"submit": 1000}, {"end_s": 900.0}, "outside the time window"),
]


@pytest.mark.parametrize(("job", "options", "reason"), DROPS)
def test_dropped_rows_are_counted(
    tmp_path: Path, job: dict[str, float], options: dict[str, Any], reason: str
) -> None:
    made = convert(trace(tmp_path, {}, job, {}), **options)
    assert made.ids == ["1", "3"]
    assert made.report.dropped == {reason: 1}
    assert made.report.rows == 3
    assert made.report.examples.get(reason, ["line 3"]) == ["line 3"]


def test_a_suspended_job_counts_once(tmp_path: Path) -> None:
    """The rows of its parts (status 2, 3, 4) are omitted where it has a row for the whole."""
    parts = [{"number": 1, "run": 60, "status": 2}, {"number": 1, "submit": -1, "run": 40, "status": 3}]
    path = trace(tmp_path, {"number": 1, "run": 120, "status": 1}, *parts, {"number": 2, "status": 0})
    made = convert(path)
    assert made.ids == ["1", "2"]
    assert made.run_s.tolist() == [120.0, 100.0]
    reason = "part of a job that also has a row for the whole (status 2, 3 or 4)"
    assert made.report.dropped == {reason: 2}
    assert made.report.examples == {reason: ["line 3", "line 4"]}
    only = convert(path, keep={"status": frozenset({2, 3})})  # who asks for the parts gets them
    assert only.run_s.tolist() == [60.0]
    assert only.report.dropped == {"no submission time": 1, "other status": 2}


def test_parts_without_a_row_for_the_whole_are_one_job(tmp_path: Path) -> None:
    rows = ({"run": 60, "status": 2}, {"submit": -1, "run": 30, "status": 2}, {"submit": -1, "status": 4})
    made = convert(trace(tmp_path, {"number": 7}, *({"number": 3, **row} for row in rows), {"status": 3}))
    assert made.ids == ["7", "3", "5"]
    assert made.run_s.tolist() == [100.0, 190.0, 100.0]
    assert made.report.dropped == {"part that was added to the first part of its job": 2}
    assert made.report.notes[0] == "1 job of which the trace has parts only: their run times were added"


def test_nothing_left_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    path = trace(tmp_path, {"run": 0}, {"run": -1})
    with pytest.raises(InputError, match="no job is left of 2: 1 no run time; 1 run time 0"):
        convert(path)


def test_jobs_that_all_come_at_once_have_no_load(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, {"submit": 5}, {"submit": 5})
    assert exit_code("generate", "workload", "--swf", str(path), "-o", str(tmp_path / "w.json")) == 0
    first = capfd.readouterr().err.splitlines()[0]
    assert "2 jobs, all at once, for" in first
    assert "load" not in first


def test_rows_that_cannot_be_read_are_warned_of(tmp_path: Path) -> None:
    path = trace(tmp_path, {})
    path.write_text(path.read_text() + "oops\n")
    report = convert(path).report
    assert report.dropped == {"cannot be read": 1}
    assert report.warnings == ["1 of 2 rows cannot be read: line 3: 1 field, expected 18"]


@pytest.mark.parametrize(
    ("options", "ids", "first", "window"),
    [
        ({}, ["1", "2", "3", "4"], 0, 30),
        ({"start_s": 10.0}, ["2", "3", "4"], 0, 20),
        ({"start_s": 5.0}, ["2", "3", "4"], 5, 25),
        ({"end_s": 20.0}, ["1", "2"], 0, 20),
        ({"start_s": 5.0, "end_s": 25.0}, ["2", "3"], 5, 20),
        ({"absolute": True}, ["1", "2", "3", "4"], 0, 30),
        ({"absolute": True, "start_s": 1005.0, "end_s": 1030.0}, ["2", "3"], 5, 25),
        ({"absolute": True, "end_s": 1025.0}, ["1", "2", "3"], 0, 25),
    ],
)
def test_windows(
    tmp_path: Path, options: dict[str, Any], ids: list[str], first: float, window: float
) -> None:
    jobs = [{"submit": 1000.0 + 10 * i, "number": i + 1.0} for i in range(4)]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        made = convert(trace(tmp_path, *(jobs[i] for i in order)), **options)
        assert made.ids == ids
        assert made.submit_s[0] == first
        assert made.window_s == window
        assert made.report.dropped_total == 4 - len(ids)


def test_load(tmp_path: Path) -> None:
    made = convert(trace(tmp_path, {}, {"alloc": 8, "run": 50}), hosts=8, end_s=100.0)
    assert made.load == (100 * 4 + 50 * 8) / (8 * 100)


def test_carry_over(tmp_path: Path) -> None:
    path = trace(
        tmp_path,
        {"submit": 0, "wait": 0, "run": 10},  # over before the window
        {"submit": 0, "wait": 20, "run": 100, "time": 150},  # runs 20-120
        {"submit": 5, "wait": 60, "run": 7},  # waits until 65
        {"submit": 50, "wait": 5, "run": 9},
        {"submit": 49, "wait": 1, "run": 9, "time": 30},  # starts as the window does
    )
    made = convert(path, start_s=50.0, carry_over=True)
    rows = zip(made.ids, made.submit_s, made.run_s, made.walltime_s, strict=True)
    assert list(rows) == [("2", 0, 70, 120), ("4", 0, 9, 200), ("5", 0, 9, 30), ("3", 0.1, 7, 200)]
    assert made.report.dropped == {"outside the time window": 1}


def test_jobs_of_one_instant_stay_in_order(tmp_path: Path) -> None:
    path = trace(tmp_path, {"submit": 5}, {"submit": 0}, {"submit": 5}, {"submit": 0})
    made = convert(path)
    assert made.ids == ["2", "4", "1", "3"]
    assert made.report.notes == ["rows were out of order (2 steps back): sorted by submission"]


@pytest.mark.parametrize("numbers", [(7, 7, 8), (-1, 3, 4)])
def test_job_numbers_that_are_no_ids(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    made = convert(trace(tmp_path, *({"number": number} for number in numbers)))
    assert made.ids == ["1", "2", "3"]
    assert [job.get("job_number", -1) for job in as_json(made)["jobs"]] == list(numbers)


def test_extras(tmp_path: Path) -> None:
    made = convert(
        trace(tmp_path, {"user": 3, "queue": 2}, {"user": 35012304659472}), extras=("user", "queue")
    )
    first, second = as_json(made)["jobs"]
    assert (first["user"], first["queue"]) == (3, 2)
    assert second["user"] == 35012304659472
    assert "queue" not in second


def test_processor_counts(tmp_path: Path) -> None:
    path = trace(tmp_path, {"alloc": 5, "req": 8}, {"alloc": -1, "req": 8}, {"alloc": 5, "req": 0})
    assert convert(path).hosts.tolist() == [5, 8, 5]
    made = convert(path, processors="requested", cores_per_host=3)
    assert made.hosts.tolist() == [3, 3, 2]
    assert made.report.notes == ["1 jobs have no requested processors: the allocated ones were used"]


def test_a_header_with_an_absurd_size(tmp_path: Path) -> None:
    path = trace(tmp_path, {}, header="; MaxProcs: 2147483648")
    with pytest.raises(InputError, match=r"t.swf: its header .* states 2147483648 .*: give .* --hosts"):
        convert(path)
    assert convert(path, cores_per_host=2).nb_res == 2**30
    assert convert(path, hosts=5).nb_res == 5


@pytest.mark.parametrize(
    ("header", "options", "site", "remark"),
    [
        ("; MaxProcs: 64", {}, 64, None),
        ("; MaxProcs: 63", {"cores_per_host": 2}, 32, None),
        ("; MaxProcs: -1\n; MaxNodes: 20", {}, 20, None),
        ("; MaxProcs: 3", {}, 9, "the header's size is 3 hosts, but the largest job needs 9"),
        (";", {}, 9, "the header states no size"),
        ("; MaxProcs: 64", {"hosts": 5}, 5, None),
        (
            "; MaxProcs: 64",
            {"hosts": 5, "keep_oversize": True},
            5,
            "1 jobs need more than the site's 5 hosts",
        ),
    ],
)
def test_site_size(
    tmp_path: Path, header: str, options: dict[str, Any], site: int, remark: str | None
) -> None:
    made = convert(trace(tmp_path, {}, {"alloc": 9}, header=header), **options)
    assert made.nb_res == site
    remarks = made.report.notes + made.report.warnings
    assert len(remarks) == (remark is not None)
    assert not remark or remarks[0].startswith(remark)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [200, 600]),
        ({"missing_walltime": 1.5}, [200, 450]),
        ({"missing_walltime": "none"}, [200, None]),
        ({"walltimes": "none"}, [None, None]),
        ({"requested_time_field": 7}, [555, 600]),
    ],
)
def test_walltimes(tmp_path: Path, options: dict[str, Any], expected: list[float | None]) -> None:
    made = convert(trace(tmp_path, {"mem": 555}, {"run": 300, "time": 0}), **options)
    assert [job.get("walltime") for job in as_json(made)["jobs"]] == expected


def test_no_requested_time_at_all_is_warned_of(tmp_path: Path) -> None:
    assert "--requested-time-field" in convert(trace(tmp_path, {"time": -1})).report.warnings[0]


def test_runs_beyond_the_walltime(tmp_path: Path) -> None:
    path = trace(tmp_path, {"run": 300}, {"run": 200})
    assert convert(path).beyond_walltime == 1
    clipped = convert(path, clip_run_time=True)
    assert clipped.run_s.tolist() == [200, 200]
    assert clipped.beyond_walltime == 0


def test_zero_run_times_can_be_lengthened(tmp_path: Path) -> None:
    made = convert(trace(tmp_path, {"run": 0}, {}), zero_run_time_s=1.0)
    assert made.run_s.tolist() == [1, 100]
    assert made.report.notes == ["1 run times of 0 became 1 s"]


@given(st.integers(1, 60), st.integers(0, 2**70))
def test_five_equal_groups(jobs: int, seed: int) -> None:
    walltimes = grouped_walltimes(np.full(jobs, 1e6), seed)
    sizes = Counter(walltimes.tolist())
    assert set(sizes) <= {1e6 * factor for factor in GROUP_FACTORS}
    counts = [sizes[1e6 * factor] for factor in GROUP_FACTORS]
    assert max(counts) - min(counts) <= 1


def test_groups_depend_on_the_seed_alone() -> None:
    run = np.arange(1.0, 101)
    assert np.array_equal(grouped_walltimes(run, 3), grouped_walltimes(run, 3))
    assert not np.array_equal(grouped_walltimes(run, 3), grouped_walltimes(run, 4))


@pytest.mark.parametrize(
    "wrong",
    [
        {"reference_speed_flops": 0},
        {"start_s": 5.0, "end_s": 5.0},
        {"start_s": -1.0},
        {"cores_per_host": 0},
        {"hosts": 0},
        {"min_run_s": 2, "max_run_s": 1},
        {"zero_run_time_s": 0.0},
        {"requested_time_field": 19},
        {"missing_walltime": 0.5},
        {"missing_walltime": math.nan},
        {"extras": ("name",)},
        {"keep": {"name": frozenset({1})}},
        {"seed": -1},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SwfOptions(**{"reference_speed_flops": 1.0, **wrong})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("3d", 259_200),
        ("1d12h", 129_600),
        ("90m", 5400),
        ("2min 5s", 125),
        ("0.5h", 1800),
        ("1w", 604_800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "3x", "-1", "3d!", "nan", "inf", "1_0", "3 d x"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_format_duration() -> None:
    assert [format_duration(s) for s in (5, 90, 5400, 259_200)] == ["5 s", "1.5 min", "1.5 h", "3 d"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_command_line(tmp_path: Path) -> None:
    path = trace(tmp_path, {"user": 3}, {"run": 0}, {"submit": 86_500, "run": 300})
    target = tmp_path / "w.json"
    result = run(
        str(path), "-o", str(target), "--extra", "user", "--platform-preset", "parasilo", "--hosts", "4"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{target}: 2 jobs in 1.001 d for 4 hosts, load 0.005",
        "  reference speed: 32.84 Gflops (median P-state of parasilo)",
        "  longer than their walltime: 1 of 2 jobs, which Batsim will kill",
        "  omitted: 1 of 3",
        "    1 run time 0 (line 3)",
        "  run times: log-normal with median 173.2 s, log-sd 0.55:"
        " Kolmogorov-Smirnov distance 0.341 (2 values)",
    ]
    job = json.loads(target.read_text())["jobs"][0]
    assert job == {"id": "1", "subtime": 0, "res": 4, "walltime": 200, "profile": "p1", "user": 3}
    windowed = run(str(path), "-o", "-", "--duration", "12h", "--reference-speed", "2Gf", "--quiet")
    assert windowed.stderr == ""
    assert json.loads(windowed.stdout)["profiles"] == {
        "p1": {"type": "parallel_homogeneous", "cpu": 200_000_000_000, "com": 0}
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give one of --swf FILE, --synthetic and --workflows"),
        (["t.swf", "--synthetic"], "Give one of --swf FILE, --synthetic and --workflows"),
        (["t.swf", "--jobs", "3"], "--jobs is only for --synthetic"),
        (["--synthetic", "--from", "3d"], "--from is only for --swf"),
        (["--synthetic", "--walltimes", "trace"], "only for --swf"),
        (["t.swf", "--to", "3d", "--duration", "1d"], "either --to or --duration"),
        (["t.swf", "--duration", "1d", "--absolute"], "needs --from"),
        (["t.swf", "--carry-over"], "needs --from"),
        (["t.swf", "--from", "x"], "'x' is not a duration"),
        (["t.swf", "--status", "a"], "a list of integers"),
        (["t.swf", "--extra", "name"], "'name' is not one of user"),
        (["t.swf", "--missing-walltime", "x"], "'drop', 'none' or a multiple"),
        (["t.swf", "--reference-speed", "0"], "speed above 0"),
        (["t.swf", "--reference-speed", "1Gf", "--platform-preset", "gros"], "either --reference-speed or"),
        (["--synthetic", "--host-shares", "1"], "HOSTS:SHARE"),
        (["--synthetic", "--day-shares", "a"], "one number a day"),
    ],
)
def test_command_line_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments, "-o", "-")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_nothing_is_written_on_an_error(tmp_path: Path) -> None:
    path = trace(tmp_path, {"run": 0})
    result = run(str(path), "-o", str(tmp_path / "w.json"))
    assert isinstance(result.exception, InputError)
    assert list(tmp_path.iterdir()) == [path]
