"""What a report takes from a run's files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from plugins.reports.by_hand import DECISIONS, JOBS, PSTATES, STATES, TRACE, summary, write_run

from beasy_sched.errors import InputError
from beasy_sched.plugins.reports.run_data import OUTCOMES, read_run_data

pytest.importorskip("pyarrow", reason="reports need pyarrow")


def test_jobs(tmp_path: Path) -> None:
    jobs = read_run_data("a", write_run(tmp_path / "a")).jobs
    assert jobs is not None
    assert jobs.ids == ["w!1", "w!2", "w!3", "w!4"]
    assert jobs.hosts == ["0 2", "1", "", "1"]
    assert jobs.submit_s.tolist() == [0.0, 20.0, 30.0, 300.0]
    assert np.isnan(jobs.start_s).tolist() == [False, False, True, False]
    assert jobs.servers.tolist() == [2, 1, 4, 1]


def test_the_decision_log_tells_what_the_end_of_the_run_cut_off(tmp_path: Path) -> None:
    def outcomes(**changes: str | None) -> list[str]:
        jobs = read_run_data("a", write_run(tmp_path / "a", **changes)).jobs
        assert jobs is not None
        return [OUTCOMES[code].value for code in jobs.outcome]

    assert outcomes() == ["finished", "killed", "postponed", "not completely finished"]
    (tmp_path / "a_decisions.jsonl").unlink()
    assert outcomes(decisions=None) == ["finished", "killed", "rejected", "killed"]


def test_counts_without_a_summary_are_those_of_the_jobs(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", summary=None))
    assert run.outcome_counts() == {
        "finished": 1, "failed": 0, "reached walltime": 0, "killed": 1, "not completely finished": 1,
        "postponed": 1, "rejected": 0,
    }  # fmt: skip
    assert run.end_s == 400.001


def test_nothing_but_a_summary(tmp_path: Path) -> None:
    others = ("jobs", "decisions", "pstate_changes", "machine_states", "energy_trace")
    run = read_run_data("a", write_run(tmp_path / "a", **dict.fromkeys(others)))
    assert (run.jobs, run.endings) == (None, None)
    assert not any(table.is_there or len(table) for table in (run.trace, run.states, run.pstates))
    assert run.end_s == 400.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobs": "job_id\n1\n"}, r"a_jobs.csv: has no column 'workload_name'"),
        ({"jobs": JOBS.replace("REJECTED", "EATEN")}, r"final_state: found 'EATEN', expected COMP"),
        ({"jobs": JOBS.replace("COMPLETED_SUCCESSFULLY", "").replace("REJECTED", "eaten")}, r"found 'eaten'"),
        ({"jobs": JOBS.replace(",50.000000", ",soon")}, r"jobs.csv:3: starting_time: found soon"),
        ({"decisions": json.dumps(DECISIONS[0]) + '\n{"action":"kill"\n'}, r"s.jsonl:2: is not a decision"),
        ({"decisions": '{"action":"kill","time":"soon"}\n'}, r"jsonl:1: is not a decision: time: found"),
        ({"summary": "[1"}, r"a_summary.json:1: .*is not valid JSON"),
        ({"summary": json.dumps({"jobs": {}})}, r"is not the summary of a run: it has no 'settings'"),
        ({"energy_trace": "start_s\n0\n"}, r"a_energy_trace.csv: has no column 'duration_s'"),
        ({"energy_trace": TRACE.rstrip().rpartition(",")[0] + "\n"}, r"csv:5: has \d+ values but"),
        ({"energy_trace": "start_s\n0" + "," * 200_000}, r"csv:2: has 200001 values but the header"),
        ({"energy_trace": "\n"}, r"a_energy_trace.csv: cannot be read as a table"),
        ({"energy_trace": TRACE.replace("2,200.0", "2,50.0")}, r"trace.csv:4: start_s: found 50 after 100"),
        ({"jobs": JOBS.replace("20.000000,1,", "20.000000,1e300,")}, r"jobs.csv:3: requested_number_of_res"),
        ({"jobs": JOBS.replace(",50.000000", ",")}, r"jobs.csv:3: has only one of starting_time"),
        ({"machine_states": STATES.replace("\n100,", "\nlater,")}, r"states.csv:5: time: found later, exp"),
        ({"machine_states": STATES.replace("\n100,", "\n1,")}, r"states.csv:5: time: found 1 after 10"),
        ({"machine_states": STATES.replace("0,0,2,0,2", "0,0,2,0,x")}, r"states.csv:5: nb_computing: found"),
        ({"pstate_changes": PSTATES.replace("150,1,4", "150,1,1e400")}, r"changes.csv:5: new_pstate: found"),
        ({"pstate_changes": PSTATES.replace("150,1,4", "150,1,")}, r"csv:5: new_pstate: found nothing"),
        ({"decisions": '{"action":"kill","time":1e300}\n'}, r"time: found 1e\+300, expected a number, at"),
        ({"summary": json.dumps([1])}, r"a_summary.json: is not the summary of a run"),
        ({"summary": "[" * 100_000}, r"a_summary.json: .*is nested too deeply"),
        ({"summary": json.dumps(summary(end_s=float("nan")))}, r"a_summary.json:\d+: .*is not valid JSON"),
        ({"summary": json.dumps(summary(jobs=[1]))}, r"of a run: jobs: found \[1\], expected an object"),
        ({"summary": json.dumps(summary(warnings=7))}, r"warnings: found 7, expected a list"),
        ({"summary": json.dumps(summary(site={"soc_start_pct": "x"}))}, r"site.soc_start_pct: found 'x'"),
        ({"summary": json.dumps(summary(hosts=10**30))}, r"a_summary.json: is not the summary of a run"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    prefix = write_run(tmp_path / "a", **changes)
    with pytest.raises(InputError, match=message):
        read_run_data("a", prefix)


def test_the_summary_counts_where_there_is_one(tmp_path: Path) -> None:
    told = summary()
    told["jobs"]["finished"] = 17
    run = read_run_data("a", write_run(tmp_path / "a", summary=json.dumps(told)))
    assert run.outcome_counts()["finished"] == 17


def test_files_of_different_runs_are_refused(tmp_path: Path) -> None:
    later = JOBS.replace("COMPLETED_SUCCESSFULLY,10.0", "COMPLETED_SUCCESSFULLY,90.0")
    one_less = "".join(line + "\n" for line in JOBS.splitlines() if not line.startswith("3,"))
    with pytest.raises(InputError, match=r"a_jobs.csv: is from another run than .*which starts w!1 at 10 s"):
        read_run_data("a", write_run(tmp_path / "a", jobs=later))
    with pytest.raises(InputError, match=r"which does not start w!1, while it started at 10 s"):
        read_run_data("b", write_run(tmp_path / "b", decisions=""))
    for jobs in (one_less, JOBS + "9" + JOBS.splitlines()[3][1:] + "\n"):
        with pytest.raises(InputError, match=r"not belong to .*c_summary.json: found \d jobs, expected 4"):
            read_run_data("c", write_run(tmp_path / "c", jobs=jobs, decisions=None))
    cut = json.dumps(summary(complete=False, error="stopped by SIGTERM"))
    assert read_run_data("d", write_run(tmp_path / "d", jobs=one_less, summary=cut)).jobs is not None
