"""Kills beside a cluster: requeues, the signal before them, and the lives of a job in the results."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.kill_cases import POLICY
from plugins.slurm.live_cases import Beside, all_over, submit
from plugins.slurm.test_nodes_only_run import run, shared_slurm

from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.site_file import parse_site
from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.outputs.summary import summarize
from beasy_sched.plugins.slurm.acting import Acting
from beasy_sched.plugins.slurm.readings import Reading
from beasy_sched.plugins.slurm.records import STOPPED
from beasy_sched.plugins.slurm.told_starts import ToldStarts
from beasy_sched.run.settings import RunSettings

SITE = """
[time]
step_s = 100
window_h = 1
[restart]
interval_s = 100
dump_s = 10
read_s = 5
notice_s = 20
"""


def killed_at(slurm: FakeSlurm, *times_s: float, on_kill: str, site: str = SITE) -> Beside:
    given = {"times_s": list(times_s)}
    beside = Beside(slurm, POLICY, options=given, site=parse_site(site, "s.toml"), on_kill=on_kill)
    beside.bridge.announce(0.0, Reading(0.0, {"power_available": 5000.0}))
    return beside


def ended(beside: Beside) -> RunSummary:
    """The summary after the end of the run."""
    beside.go(2)
    beside.session.step(beside.bridge.end(beside.slurm.now_s - beside.bridge.epoch_s))
    return summarize(beside.session, RunSettings())


def commands(slurm: FakeSlurm, job: str) -> list[str]:
    """Commands that kill a job, or bring it back."""
    words = ("scancel", "requeue", "requeuehold")
    return [
        " ".join(command[:-1])
        for command in slurm.changing
        if command[-1] == job and any(word in words for word in command)
    ]


def test_a_requeued_job_is_one_job() -> None:
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=100)
    beside = killed_at(slurm, 50.0, 150.0, on_kill="requeue")
    beside.until(lambda: all_over(slurm))
    summary = ended(beside)
    assert commands(slurm, job) == ["scontrol requeuehold"] * 2
    assert [name for name, _ in beside.starts()] == ["slurm!1", "slurm!1#1", "slurm!1#2"]
    assert (summary.jobs.submitted, summary.jobs.finished, summary.jobs.killed) == (1, 1, 0)
    restarts = summary.restarts
    assert restarts is not None
    assert (restarts.jobs, restarts.count, restarts.checkpoints, restarts.saved_kwh) == (1, 2, 0, 0.0)
    assert restarts.redone_kwh is not None
    assert restarts.redone_kwh > 0.0


@pytest.mark.parametrize(
    ("on_term", "waits_s"), [("FAILED", 0.0), ("", 20.0)], ids=["dies of the signal", "continues"]
)
def test_a_signal_precedes_the_requeue(on_term: str, waits_s: float) -> None:
    """It comes back, whatever it does when it is signalled; the model counts the saved work."""
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=400, on_term=on_term)
    beside = killed_at(slurm, 250.0, on_kill="checkpoint")
    beside.until(lambda: "scancel --signal=TERM --batch" in commands(slurm, job))
    signalled_s = slurm.now_s
    assert slurm.jobs[job].admin_comment == f"beasy-sched: placed {STOPPED}"
    beside.until(lambda: slurm.jobs[job].restarts == 1)
    assert waits_s <= slurm.now_s - signalled_s <= waits_s + 5.0
    beside.until(lambda: all_over(slurm), 1000)
    assert commands(slurm, job) == ["scancel --signal=TERM --batch", "scontrol requeuehold"]
    assert slurm.jobs[job].admin_comment == "beasy-sched: placed"
    summary = ended(beside)
    assert (summary.jobs.submitted, summary.jobs.finished) == (1, 1)
    assert summary.restarts is not None
    assert (summary.restarts.jobs, summary.restarts.count) == (1, 1)
    assert (summary.restarts.saved_kwh or 0.0) > 0.0
    (facts,) = [line for line in beside.log if line[1] == "restart"]
    assert facts[2] == "slurm!1"


def test_requeues_while_expected_starts_are_told() -> None:
    slurm = FakeSlurm(1)
    killed, held = submit(slurm, run_s=400, on_term=""), submit(slurm)
    beside = killed_at(slurm, 50.0, on_kill="checkpoint")
    assert isinstance(beside.bridge, Acting)
    told = beside.bridge.told_starts = ToldStarts(beside.bridge.epoch_s)
    beside.until(lambda: bool(commands(slurm, killed)))
    told.take(ForecastNews(50.0, {f"slurm!{held}": (400.0, 500.0)}, 1, 0))
    beside.until(lambda: slurm.jobs[killed].restarts == 1, 30.0)
    assert slurm.jobs[held].comment.startswith("start expected ")


def test_what_is_saved_follows_from_the_site_file() -> None:
    """Checkpoints after 100 s and 210 s of work and writing, and one more at the notice of 20 s."""
    for notice_s, saved_s in ((0.0, 200.0), (20.0, 215.0)):
        slurm = FakeSlurm(1)
        submit(slurm, run_s=600, on_term="")
        site = SITE.replace("notice_s = 20", f"notice_s = {notice_s:g}")
        beside = killed_at(slurm, 240.0, on_kill="checkpoint", site=site)
        beside.until(lambda slurm=slurm: slurm.jobs["1"].restarts == 1)
        beside.go(5)
        (waiting,) = [*beside.session.cluster.running.values(), *beside.session.cluster.queue]
        assert waiting.past is not None
        assert waiting.past.saved_s == pytest.approx(saved_s, abs=10.0)


def test_a_job_that_ends_in_its_notice_has_finished() -> None:
    slurm = FakeSlurm(1)
    submit(slurm, run_s=60, on_term="")
    beside = killed_at(slurm, 50.0, on_kill="checkpoint")
    beside.until(lambda: all_over(slurm))
    beside.go(30)
    summary = ended(beside)
    assert (summary.jobs.submitted, summary.jobs.finished) == (1, 1)
    assert not any("requeue" in command for command in commands(slurm, "1"))


def test_a_job_that_is_cancelled_in_its_notice_is_counted_once() -> None:
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=400, on_term="")
    beside = killed_at(slurm, 50.0, on_kill="checkpoint")
    beside.until(lambda: bool(commands(slurm, job)))
    slurm.cancel(job)
    beside.go(60)
    assert not beside.session.cluster.queue
    summary = ended(beside)
    assert (summary.jobs.submitted, summary.jobs.finished) == (1, 0)
    assert commands(slurm, job) == ["scancel --signal=TERM --batch"]


def test_a_job_that_waits_again_at_the_end_is_not_finished() -> None:
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=400)
    beside = killed_at(slurm, 50.0, on_kill="requeue")
    beside.until(lambda: slurm.jobs[job].restarts == 1)
    now_s = slurm.now_s - beside.bridge.epoch_s
    beside.session.step(beside.bridge.end(now_s))
    jobs = summarize(beside.session, RunSettings()).jobs
    assert (jobs.submitted, jobs.finished, jobs.killed) == (1, 0, 0)


@pytest.mark.parametrize("case", [{"requeue": False}, {"most": 1}], ids=["no requeue", "most"])
def test_a_job_that_does_not_come_back_is_cancelled(case: dict[str, Any]) -> None:
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=400, **{name: value for name, value in case.items() if name != "most"})
    site = SITE + (f"most = {case['most']}\n" if "most" in case else "")
    beside = killed_at(slurm, 50.0, 150.0, on_kill="checkpoint", site=site)
    beside.go(200)
    assert slurm.jobs[job].state == "CANCELLED"
    assert slurm.jobs[job].restarts == case.get("most", 0)
    summary = ended(beside)
    assert (summary.jobs.submitted, summary.jobs.killed) == (1, 1)


@pytest.mark.parametrize("dies", [True, False])
def test_a_bridge_that_ends_between_signal_and_requeue(dies: bool) -> None:
    """The next one requeues what the signal has ended, or what still waits for it."""
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=400, on_term="FAILED" if dies else "")
    first = killed_at(slurm, 50.0, on_kill="checkpoint")
    first.until(lambda: bool(commands(slurm, job)))
    slurm.advance(10)
    assert (slurm.jobs[job].state == "FAILED") == dies
    second = killed_at(slurm, on_kill="checkpoint")
    second.until(lambda: slurm.jobs[job].restarts == 1)
    second.until(lambda: all_over(slurm), 1000)
    assert slurm.jobs[job].state == "COMPLETED"
    assert not any("held by others" in text for text in second.said)


def test_a_job_that_fails_by_itself_is_left_alone() -> None:
    slurm = FakeSlurm(1)
    job = submit(slurm, run_s=100, ends_as="FAILED")
    beside = killed_at(slurm, 50.0, on_kill="checkpoint")
    beside.until(lambda: slurm.jobs[job].restarts == 1)
    beside.until(lambda: all_over(slurm))
    beside.go(30)
    assert (slurm.jobs[job].state, slurm.jobs[job].restarts) == ("FAILED", 1)


def test_nodes_only(tmp_path: Any) -> None:
    """Jobs of a node are signalled together; their comments are as before once they wait again."""
    slurm = shared_slurm(2)
    jobs = [
        slurm.submit(cpus=1, run_s=1000, limit_s=2000, admin_comment=comment, on_term=on_term)
        for comment, on_term in (("mine", ""), ("", "FAILED"), ("mine", "FAILED"), ("", ""))
    ]
    _, summary, _ = run(slurm, tmp_path, [400.0, 0.0, 0.0], on_kill="checkpoint")
    assert [slurm.jobs[job].admin_comment for job in jobs] == ["mine", "", "mine", ""]
    assert {slurm.jobs[job].state for job in jobs} == {"PENDING"}
    for job in jobs:
        assert commands(slurm, job) == ["scancel --signal=TERM --batch", "scontrol requeue"]
    assert summary.restarts is not None
    assert summary.jobs.finished == 0
