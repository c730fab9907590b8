"""Explanations that rest on what every run has, whatever its policy tells; and the story of a host."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.reports.pages import explain

NARROW = """
from beasy_sched.policies import Policy, Start

class Narrow{n}(Policy):
    name = "narrow"
    summary = "jobs of one host only, the last that came first"

    def schedule(self, view):
        free, out = view.free_mask(), []
        for job in reversed([*view.queue]):
            hosts = view.fastest(free, 1)
            if job.res == 1 and len(hosts) == 1:
                free[hosts.ids] = False
                out.append(Start(job, hosts, "narrow"{facts}))
        return out
"""


def simulated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, jobs: list[dict[str, object]], facts: str = ""
) -> str:
    """Run the policy on two hosts; return the prefix of the run."""
    monkeypatch.syspath_prepend(str(folder))
    module = f"narrow_{folder.name}"
    (folder / f"{module}.py").write_text(NARROW.format(n="", facts=facts))
    profiles = {"p": {"type": "delay", "delay": 50}}
    workload = {"nb_res": 2, "jobs": [{"profile": "p", **job} for job in jobs], "profiles": profiles}
    (folder / "w.json").write_text(json.dumps(workload))
    platform = str(folder / "p.xml")
    assert exit_code("generate", "platform", "-n", "gros:2", "-o", platform, "-q") == 0
    run = str(folder / "run")
    how = ("-w", str(folder / "w.json"), "--policy", f"{module}:Narrow", "-o", run, "-q")
    assert exit_code("simulate", "-p", platform, *how) in (0, 1)
    return run


def job(name: str, subtime: float, res: int = 1, **more: object) -> dict[str, object]:
    return {"id": name, "subtime": subtime, "res": res, **more}


def test_a_job_that_never_starts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither in jobs.csv nor in what the policy logs."""
    jobs = [job("wide", 0, 2, walltime=100), job("endless", 5, 2), job("a", 10), job("b", 20)]
    run = simulated(tmp_path, monkeypatch, jobs)
    story = explain(run, job="wide")
    text = str(story)
    assert "00:00:00  It was submitted and requested 2 hosts with a walltime of 1 min 40 s." in text
    assert "The policy gave no reason for the wait." in text
    assert "Meanwhile 2 other jobs started; all of them were submitted later." in text
    assert "It never started: the run ended early, after 1 min 10 s of waiting." in text
    assert (story.data["submitted_s"], story.data["started_s"]) == (0.0, None)
    assert "requested 2 hosts without a walltime" in str(explain(run, job="endless"))
    whole = explain(run)
    assert [(each["rule"], each["jobs"]) for each in whole.data["waiting"]] == [("no reason given", 2)]
    longest = whole.data["longest_waits"][0]
    assert (longest["job"], longest["started_s"], longest["hosts_asked"]) == ("w0!wide", None, 2)
    assert "and never started; the run ended at 00:01:10. Why: the policy gave no reason." in " ".join(
        str(whole).split()
    )


@pytest.mark.parametrize("facts", ["", ', {"waited_s": 1e6}'])
def test_times_of_submission_are_those_of_the_table_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str
) -> None:
    """Whatever the policy tells of them, or does not."""
    jobs = [job("a", 0), job("b", 0), job("first", 1), job("second", 2), job("third", 3), job("fourth", 4)]
    run = simulated(tmp_path, monkeypatch, jobs, facts)
    text = str(explain(run, job="first"))
    assert "Meanwhile 3 other jobs started; all of them were submitted later." in text
    assert "The policy gave no reason for the wait." in text
    assert {each["rule"] for each in explain(run).data["waiting"]} == {"no reason given"}


def test_the_story_of_a_host(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It sleeps once it has been idle, and is woken for the next job."""
    workload = {
        "nb_res": 2,
        "jobs": [job("a", 0, 2, profile="p", walltime=600), job("b", 7200, 2, profile="p", walltime=600)],
        "profiles": {"p": {"type": "delay", "delay": 300}},
    }
    (tmp_path / "w.json").write_text(json.dumps(workload))
    platform, run = str(tmp_path / "p.xml"), str(tmp_path / "run")
    assert exit_code("generate", "platform", "-n", "gros:2", "-o", platform, "-q") == 0
    power = tmp_path / "power.txt"
    power.write_text('{"timestamp": 0, "type": "power", "power_available": 5000}\n')
    files = ("-p", platform, "-w", str(tmp_path / "w.json"), "--events", str(power), "--site", "default")
    assert exit_code("simulate", *files, "--policy", "workload-reactive", "-o", run, "-q") == 0
    story = explain(run, host=1)
    periods = story.data["periods"]
    assert [each["state"] for each in periods] == ["on", "asleep", "on", "asleep"]
    assert [[one["job"] for one in each["jobs"]] for each in periods] == [["w0!a"], [], ["w0!b"], []]
    assert [each["busy_s"] for each in periods] == pytest.approx([300.0, 0.0, 300.0, 0.0])
    assert periods[2]["start_s"] == pytest.approx(7200.0)
    assert all(one["end_s"] == two["start_s"] for one, two in pairwise(periods))
    text = " ".join(str(story).split())
    assert "2 jobs ran on it, for 10 min." in text
    assert "Asleep until 02:00:00" in text
    assert "sleeping saves energy after" in text
    assert "Why: Waiting jobs need 2 hosts; 0 are free or waking." in text
    assert "1 job ran: w0!b, for 5 min." in text
    assert exit_code("explain", run, "--host", "1") == 0
    assert capfd.readouterr().out.startswith("Host 1\n")
    assert exit_code("explain", run, "--host", "2") == 2
    assert "host 2: no such host in this run; it has 2 hosts, 0 to 1" in capfd.readouterr().err
    assert exit_code("explain", run, "--host", "1", "--killed") == 2
    with pytest.raises(ConfigError, match="give only one of"):
        explain(run, host=1, job="a")


def test_the_story_of_a_host_that_is_lost(tmp_path: Path) -> None:
    """Lost and back, by the decision log alone."""
    prefix = tmp_path / "run"
    lines = [
        {"time": 10.0, "action": "start", "job": "w0!a", "hosts": "0-1", "rule": "head of the queue"},
        {"time": 20.0, "action": "lost", "hosts": "1", "rule": "out of service", "facts": {"hosts_busy": 1}},
        {"time": 20.0, "action": "kill", "job": "w0!a", "hosts": "0-1", "rule": "x"},
        {"time": 80.0, "action": "back", "hosts": "1", "rule": "in service again"},
        {"time": 90.0, "action": "P-state 13", "hosts": "0-1", "rule": "x", "facts": {"hosts_to_sleep": 2}},
        {"time": 95.0, "action": "P-state 0", "hosts": "0", "rule": "x", "facts": {"hosts_to_wake": 1}},
    ]
    Path(f"{prefix}_decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    periods = explain(str(prefix), host=1).data["periods"]
    assert [(each["state"], each["start_s"], each["end_s"]) for each in periods] == [
        ("on", 0.0, 20.0),
        ("out of service", 20.0, 80.0),
        ("on", 80.0, 90.0),
        ("asleep", 90.0, 95.0),
    ]
    assert periods[0]["busy_s"] == 10.0
    assert [each["state"] for each in explain(str(prefix), host=0).data["periods"]] == ["on", "asleep", "on"]
    assert [each["state"] for each in explain(str(prefix), host=7).data["periods"]] == ["on"]
