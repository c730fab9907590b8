"""The files of a run: all or nothing, whole JSON, and as much as can be saved when something fails."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import TinyJob, begins, request, resources

from beasy_sched.engine import Session
from beasy_sched.errors import BeasyError, ConfigError, InputError, PolicyError, why
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.model import events as e
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.tables import print_summary, summary_rows
from beasy_sched.protocol.notices import notice
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings

POWERS = "100.0:100.0:200.0, 10.0:10.0:10.0, 110.0:110.0:110.0, 130.0:130.0:130.0"
SITE = """
[battery]
capacity_kwh = 6.0
charge_limit_kw = 3.0
discharge_limit_kw = 3.0
[time]
step_s = 300
window_h = 24
"""
PLAIN = RunSettings()
ON_SITE = RunSettings(site=SITE)


def strict(path: Path) -> Any:
    """Read JSON as the standard has it: no NaN, no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(path.read_text("utf-8"), parse_constant=refuse)


def messages() -> list[e.Message]:
    first = begins(2, wattage_per_state=POWERS, sleep_pstates="1:2:3")
    power = notice(0.0, "power", {"type": "power", "power_available": 1000})
    jobs = [
        e.JobSubmitted(1.0, request(TinyJob(f"w0!{n}", 1.0, res, 100.0, 5.0)))
        for n, res in enumerate((1, 2, 3))
    ]
    return [
        e.Message(0.0, [first]),
        e.Message(0.0, [power]),
        e.Message(1.0, list(jobs)),
        e.Message(301.0, [e.RequestedCall(301.0)]),
        e.Message(302.0, [e.SimulationEnds(302.0)]),
    ]


def fed(settings: RunSettings, count: int, files: RunFiles | None = None) -> Session:
    session = build_session(settings, log=files.log if files else None)
    for message in messages()[:count]:
        session.step(message)
    return session


@pytest.mark.parametrize("settings", [PLAIN, ON_SITE], ids=["no site", "site"])
@pytest.mark.parametrize("count", range(6))
def test_the_summary_at_every_moment(tmp_path: Path, settings: RunSettings, count: int) -> None:
    """A run may end early anywhere, and its summary is JSON all the same."""
    files = RunFiles(str(tmp_path / "run"), settings)
    session = fed(settings, count, files)
    error = None if count == 5 else "the reason"
    made = files.finish(session, error)
    name = "run" if error is None else "run_failed"
    summary = strict(tmp_path / f"{name}_summary.json")
    assert summary == made.to_builtins()
    assert read_summary(str(tmp_path / name)) == made
    assert (summary["complete"], summary["error"]) == (count == 5, error)
    jobs = summary["jobs"]
    assert jobs["submitted"] == (3 if count >= 3 else 0) == sum(jobs.values()) - jobs["submitted"]
    assert all(math.isfinite(x) for x in summary.get("energy_kwh", {}).values())
    expected = {f"{name}_summary.json", f"{name}_decisions.jsonl"}
    if settings is ON_SITE and count:
        expected.add(f"{name}_energy_trace.csv")
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert {path.name for path in files.written} == expected


@pytest.mark.parametrize("settings", [PLAIN, ON_SITE], ids=["no site", "site"])
@pytest.mark.parametrize("count", range(1, 6))
def test_the_table_at_every_moment(
    capsys: pytest.CaptureFixture[str], settings: RunSettings, count: int
) -> None:
    summary = RunFiles(None, settings).finish(fed(settings, count), "the reason")
    print_summary(summary)
    out = capsys.readouterr().out
    assert len(out.splitlines()) == len(summary_rows(summary))
    assert "the reason" in out
    assert "nan" not in out


def test_nothing_is_written_without_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunFiles(None, PLAIN).finish(fed(PLAIN, 5)).complete
    assert list(tmp_path.iterdir()) == []


def test_files_left_unfinished_leave_nothing(tmp_path: Path) -> None:
    with RunFiles(str(tmp_path / "run"), PLAIN, record=tmp_path / "a.rec"):
        assert len(list(tmp_path.iterdir())) == 3  # under temporary names
    assert list(tmp_path.iterdir()) == []


def test_finished_files_stay(tmp_path: Path) -> None:
    with RunFiles(str(tmp_path / "run"), PLAIN, record=tmp_path / "a.rec") as files:
        files.finish(fed(PLAIN, 2, files))
    assert {path.name for path in tmp_path.iterdir()} == {"a.rec", "run_decisions.jsonl", "run_summary.json"}


def test_one_run_at_a_time_under_a_prefix(tmp_path: Path) -> None:
    """The files of two would be mixed in the end."""
    with RunFiles(str(tmp_path / "run"), PLAIN) as files:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(InputError, match=r"run_summary\.json: cannot be written: another process"):
            RunFiles(str(tmp_path / "run"), ON_SITE, record=tmp_path / "a.rec")
        assert sorted(tmp_path.iterdir()) == before
        RunFiles(str(tmp_path / "other"), PLAIN).discard()
        files.finish(fed(PLAIN, 5, files))
    RunFiles(str(tmp_path / "run"), PLAIN).discard()


def test_older_files_go_when_those_of_the_run_take_their_place(tmp_path: Path) -> None:
    old = {f"run_{name}" for name in ("decisions.jsonl", "energy_trace.csv", "jobs.csv")}
    for name in old:
        (tmp_path / name).write_text("old")
    with RunFiles(str(tmp_path / "run"), PLAIN) as files:
        session = fed(PLAIN, 3, files)
        assert {path.name for path in tmp_path.glob("run*") if path.read_text() == "old"} == old
        files.finish(session)
    assert "w0!0" in (tmp_path / "run_decisions.jsonl").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {  # the last one is Batsim's
        "run_decisions.jsonl",
        "run_summary.json",
        "run_jobs.csv",
    }


def test_older_files_stay_if_the_run_fails(tmp_path: Path) -> None:
    old = {f"run_{name}" for name in ("decisions.jsonl", "energy_trace.csv", "summary.json")}
    for name in old:
        (tmp_path / name).write_text("old")
    with RunFiles(str(tmp_path / "run"), PLAIN) as files:
        files.finish(fed(PLAIN, 3, files), "the reason")
    assert {(tmp_path / name).read_text() for name in old} == {"old"}
    new = {"run_failed_decisions.jsonl", "run_failed_summary.json"}
    assert {path.name for path in tmp_path.iterdir()} == old | new
    assert {path.name for path in files.written} == new


@pytest.mark.parametrize("error", [InputError(Path("power.txt"), "the reason"), KeyboardInterrupt()])
def test_an_error_finishes_the_files_of_a_failed_run(tmp_path: Path, error: BaseException) -> None:
    with (
        RunFiles(str(tmp_path / "run"), PLAIN) as files,
        pytest.raises(type(error)) as raised,
        files.finished_on_error(fed(PLAIN, 3, files)),
    ):
        raise error
    assert raised.value is error
    assert {path.name for path in tmp_path.iterdir()} == {
        "run_failed_decisions.jsonl",
        "run_failed_summary.json",
    }
    assert json.loads((tmp_path / "run_failed_summary.json").read_text())["error"] == why(error)


def with_results(results: Any) -> Session:
    """A session whose policy ends with ``results``: a value, or an exception to raise."""
    session = fed(PLAIN, 5)

    def told() -> Any:
        if isinstance(results, Exception):
            raise results
        return results

    session.policy.results = told  # type: ignore[method-assign]
    return session


@pytest.mark.parametrize(
    ("results", "error", "kept"),
    [
        (ZeroDivisionError("oh"), "policy 'easy' failed at 302 s, in results: ZeroDivisionError: oh", None),
        (["a"], r"found \['a'\], expected a dictionary", None),
        ({"mine": {"x": math.nan, "y": 1}}, "mine.x: found nan, expected a finite", {"x": None, "y": 1}),
        ({"mine": {"x": {1, 2}}}, r"mine.x: found \{1, 2\}, expected numbers", {"x": None}),
        ({"mine": {"x": [b"1"]}}, "mine.x.0: found b'1'", {"x": [None]}),
        ({"jobs": {}, "mine": {"x": 1}}, "'jobs', a name reserved for the summary", {"x": 1}),
    ],
)
def test_results_of_a_policy_that_cannot_be_written_cost_nothing_else(
    tmp_path: Path, results: Any, error: str, kept: Any
) -> None:
    session = with_results(results)
    with RunFiles(str(tmp_path / "run"), PLAIN) as files, pytest.raises(PolicyError, match=error):
        files.finish(session)
    summary = strict(tmp_path / "run_failed_summary.json")
    assert summary["jobs"]["submitted"] == 3
    assert summary.get("mine") == kept
    assert re.search(error, summary["warnings"][-1])
    assert {path.name for path in tmp_path.iterdir()} == {
        "run_failed_decisions.jsonl",
        "run_failed_summary.json",
    }


def test_results_may_have_the_numbers_of_numpy() -> None:
    results = {"mine": {"a": np.float64(1.5), "b": np.arange(2), "c": {1: np.int64(3)}}}
    summary = RunFiles(None, PLAIN).finish(with_results(results))
    assert summary.by_policy["mine"] == {"a": 1.5, "b": [0, 1], "c": {"1": 3}}


def test_numbers_beyond_all_bounds_are_null(tmp_path: Path) -> None:
    session = fed(ON_SITE, 5)
    assert session.power is not None
    session.power.settled.by_use_j[:2] = 1e308
    with (
        RunFiles(str(tmp_path / "run"), ON_SITE) as files,
        pytest.raises(BeasyError, match=r"energy_kwh.consumed_by_own_account: found inf") as told,
    ):
        files.finish(session)
    assert told.value.exit_code == 1
    summary = strict(tmp_path / "run_failed_summary.json")
    assert summary["energy_kwh"]["consumed_by_own_account"] is None
    assert summary["energy_kwh"]["production"] == 0
    assert (tmp_path / "run_failed_energy_trace.csv").exists()


def test_a_trace_that_cannot_be_made_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beasy_sched.outputs.files.trace_csv", lambda *_, **__: 1 / 0)
    with (
        RunFiles(str(tmp_path / "run"), ON_SITE) as files,
        pytest.raises(BeasyError, match="internal error: ZeroDivisionError"),
    ):
        files.finish(fed(ON_SITE, 5, files))
    assert {path.name for path in tmp_path.iterdir()} == {
        "run_failed_decisions.jsonl",
        "run_failed_summary.json",
    }


@pytest.mark.parametrize("decisions", [True, False])
def test_a_bad_place_is_told_at_once(tmp_path: Path, decisions: bool) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot write to .*file/deep: Not a directory"):
        RunFiles(str(tmp_path / "file" / "deep" / "run"), PLAIN, decisions=decisions)


def test_a_bad_recording_leaves_no_decision_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError):
        RunFiles(str(tmp_path / "run"), PLAIN, record=tmp_path / "file" / "a.rec")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_one_file_that_fails_does_not_cost_the_others(tmp_path: Path) -> None:
    with RunFiles(str(tmp_path / "run"), ON_SITE, record=Path("/dev/full")) as files:
        session = fed(ON_SITE, 5, files)
        with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
            files.finish(session)
    assert {path.name for path in tmp_path.iterdir()} == {
        "run_failed_decisions.jsonl",
        "run_failed_energy_trace.csv",
        "run_failed_summary.json",
    }
    assert strict(tmp_path / "run_failed_summary.json")["complete"]


def test_hosts_without_powers_and_without_hosts(tmp_path: Path) -> None:
    session = build_session(PLAIN)
    session.step(e.Message(0.0, [e.SimulationBegins(0.0, resources(0))]))
    session.step(e.Message(0.0, [e.SimulationEnds(0.0)]))
    RunFiles(str(tmp_path / "run"), PLAIN).finish(session)
    assert strict(tmp_path / "run_summary.json")["hosts"] == 0
