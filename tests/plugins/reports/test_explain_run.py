"""The overview of a run: why jobs waited, in job-hours, who was killed, when energy was tight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.reports import by_hand
from plugins.reports.story_files import DECISIONS, write_run
from small_site import SmallSite, small_site

from beasy_sched.engine.session_words import ENGINE_WORDS, QUEUED, RUN_OVER
from beasy_sched.errors import InputError
from beasy_sched.outputs.reasons import in_words, reason_rows
from beasy_sched.plugins.reports.explain_run import explain_killed, explain_run, explain_waits
from beasy_sched.plugins.reports.story import AT_ONCE_S
from beasy_sched.policies.registry import built_in, policy_class
from beasy_sched.run.results import read_jobs

Out = pytest.CaptureFixture[str]


OVERVIEW = """\
Run {prefix}

Why jobs waited: 0.3 job-hours of 3 jobs
  0.2 job-hours (77 %) of 2 jobs: waiting behind other jobs in the queue.
  0.1 job-hours (23 %) of 1 job: not enough free hosts (had a reservation).

Longest waits
  00:00:30  w0!d, 2 hosts: waited 9 min 30 s and never started; the run ended at 00:10:00.
            Why: waiting behind other jobs in the queue.
  00:00:20  w0!b, 1 host: waited 3 min 50 s, started at 00:04:10. Why: not enough free
            hosts (had a reservation).
  00:00:30  w0!c, 1 host: waited 3 min 40 s, started at 00:04:10. Why: waiting behind
            other jobs in the queue.

Jobs killed: 1
  00:05:00  w0!c: by the storage guard, for lack of energy, 5 Wh short in this step,
            battery at 20.00 %, 1.39 Wh of work lost.

Periods of energy shortage
  00:05:00  until 00:10:00: battery down to 20.00 %, 1 job killed by the guard, 0.333 Wh
            not served."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run in which jobs wait and are killed for lack of energy."""
    folder = tmp_path_factory.mktemp("ran")
    site: SmallSite = small_site(folder)
    files = ("-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events))
    prefix = str(folder / "run")
    assert exit_code("simulate", *files, "--site", str(site.site), "-o", prefix, "-q") == 0
    return prefix


def lines_of(story) -> list[str]:
    return [line for _, line in story.lines(90)]


def test_the_run_written_by_hand(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    assert "\n".join(lines_of(explain_run(prefix))) == OVERVIEW.format(prefix=prefix)


def test_without_jobs_csv_the_log_says_when_jobs_came(tmp_path: Path) -> None:
    with_rows = explain_run(write_run(tmp_path, "a")).data
    without = explain_run(write_run(tmp_path, "b", jobs=False, site=False)).data
    waited = [
        {each["job"]: each["waited_s"] for each in data["longest_waits"]} for data in (with_rows, without)
    ]
    assert waited[0] == waited[1] == {"w0!d": 570.0, "w0!b": 230.0, "w0!c": 220.0}
    assert without["tight_moments"][0]["jobs_killed"] == 1


def test_all_kills_and_the_longest_waits(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    killed = " ".join(" ".join(lines_of(explain_killed(prefix))).split())
    assert "00:05:00 w0!c on 1 host after 50 s. The storage guard found a shortage" in killed
    assert "It had used 1.39 Wh" in killed
    (wait,) = explain_waits(prefix, 1).data["longest_waits"]
    assert (wait["job"], wait["refused_for"], wait["waited_s_by_rule"]) == ("w0!d", RUN_OVER, {QUEUED: 570.0})


def test_many_kills_are_told_in_full_only_when_asked_for(tmp_path: Path) -> None:
    prefix = write_run(tmp_path)
    kill = next(each for each in DECISIONS if each["action"] == "kill")
    lines = [{**kill, "time": 300.0 + n, "job": f"w0!k{n}"} for n in range(40)]
    log = Path(f"{prefix}_decisions.jsonl")
    log.write_text(log.read_text() + "".join(json.dumps(line) + "\n" for line in lines))
    assert sum("w0!k" in line for line in lines_of(explain_run(prefix))) < 40
    assert sum("w0!k" in line for line in lines_of(explain_killed(prefix))) == 40
    assert len(explain_run(prefix).data["killed"]) == 41


def test_every_second_of_waiting_has_a_reason(ran: str) -> None:
    rows = {row.id: row for row in read_jobs(ran)}
    waits = explain_waits(ran, 10**6).data["longest_waits"]
    for wait in waits:
        assert sum(wait["waited_s_by_rule"].values()) == pytest.approx(wait["waited_s"], abs=1e-6)
    waited_s = {row.id: row.start_s - row.subtime_s for row in rows.values() if row.start_s is not None}
    told_s = {wait["job"]: wait["waited_s"] for wait in waits if wait["started_s"] is not None}
    assert told_s == pytest.approx({job: s for job, s in waited_s.items() if s > AT_ONCE_S}, abs=0.01)
    data = explain_run(ran).data
    assert sum(each["job_hours"] for each in data["waiting"]) * 3600 == pytest.approx(
        sum(wait["waited_s"] for wait in waits)
    )


def test_the_overview_agrees_with_the_summary(ran: str) -> None:
    data = explain_run(ran).data
    summary = json.loads(Path(f"{ran}_summary.json").read_text())
    assert data["jobs"] == summary["jobs"]
    assert len(data["killed"]) == summary["jobs"]["killed"] > 0
    for outcome, counts in summary["reasons"].items():
        assert sum(counts.values()) == summary["jobs"][outcome]
    assert sum(each["jobs_killed"] for each in data["tight_moments"]) == summary["jobs"]["killed"]


def test_every_rule_has_its_words() -> None:
    """Those by which jobs wait, are killed or refused, in a few words, too."""
    told = [ENGINE_WORDS, *(policy_class(name).words for name in built_in())]
    short = {key for each in told for key, words in each.items() if words.of_jobs}
    ends = {key for each in told for key in each if key[0] in ("postpone", "kill", "reject")}
    never_come = ("reject", "waits for jobs that never come")  # they count as postponed
    assert ends - short == {never_come, ("kill", RUN_OVER), ("reject", RUN_OVER)}
    assert ("postpone", never_come[1]) in short


def test_reasons_in_the_summary_of_a_run() -> None:
    assert (
        in_words("rejected", "asks for more hosts than there are", 4)
        == "request more than the 4 hosts of the platform"
    )
    assert in_words("killed", "a rule of one's own") == "a rule of one's own"
    rows = reason_rows("postponed", {"": 3, "ends after the last window": 13}, 4)
    assert rows == [
        ("    walltime exceeds the planned horizon", "13"),
        ("    waiting behind other jobs in the queue", "3"),
    ]
    assert reason_rows("postponed", {"": 3}, 4) == []


def test_the_command(tmp_path: Path, capsys: Out) -> None:
    prefix = write_run(tmp_path)
    for arguments in ((), ("--killed",), ("--longest-waits",), ("--longest-waits", "2")):
        assert exit_code("explain", prefix, *arguments) == 0
        assert capsys.readouterr().out.startswith(f"Run {prefix}\n")
        assert exit_code("explain", prefix, *arguments, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        if arguments[-1:] == ("2",):
            assert [wait["job"] for wait in told["longest_waits"]] == ["w0!d", "w0!b"]


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("jobs", {"finished": "x"}),
        ("jobs", 3),
        ("reasons", "x"),
        ("reasons", {"killed": [1]}),
        ("settings", -1.5),
        ("site", "x"),
        ("site", {"soc_min_pct": "x"}),
        ("hosts", "x"),
        ("error", 7),
    ],
)
def test_a_summary_with_parts_of_another_kind(part: str, found: object, tmp_path: Path, capsys: Out) -> None:
    prefix = by_hand.write_run(tmp_path / "a", summary=json.dumps(by_hand.summary(**{part: found})))
    assert exit_code("explain", prefix) == 2
    told = capsys.readouterr().err
    assert "a_summary.json: " in told
    assert f" {part}" in told


def test_a_summary_that_does_not_tell_how_many_jobs_came(tmp_path: Path) -> None:
    told = by_hand.summary()
    del told["jobs"]["submitted"]
    prefix = by_hand.write_run(tmp_path / "a", summary=json.dumps(told))
    with pytest.raises(InputError, match=r"a_summary.json: .*: jobs.submitted: is missing"):
        explain_run(prefix)
