"""Explanation and report of a run in which jobs came back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from real_batsim.restart_runs import SITE, RestartRun

from beasy_sched.plugins.reports.explain_job import explain_job
from beasy_sched.plugins.reports.explain_run import explain_run
from beasy_sched.plugins.reports.judgement import cards, compared
from beasy_sched.plugins.reports.run_data import CAME_BACK, read_run_data
from beasy_sched.plugins.reports.server_charts import gantt
from beasy_sched.run.results import read_jobs


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("restarts")
    RestartRun(201).write(folder)
    (folder / "site.toml").write_text(SITE.format(interval_s=400, dump_s=7.5, notice_s=0))
    given = {"-p": "platform.xml", "-w": "workload.json", "--events": "power.txt", "--site": "site.toml"}
    arguments = [text for option, name in given.items() for text in (option, str(folder / name))]
    prefix = str(folder / "run")
    assert exit_code("simulate", *arguments, "--on-kill", "checkpoint", "-o", prefix, "-q") == 0
    return prefix


def test_all_lives_of_a_job_are_one_story(prefix: str) -> None:
    last = next(row for row in read_jobs(prefix) if row.id.endswith("#1") and row.start_s is not None)
    first = last.id.removesuffix("#1")
    story = explain_job(prefix, first)
    text = " ".join(str(story).split())
    assert f"it came back as {first}#1." in text
    assert f"Start ({first}#1)" in text
    assert "lives, " in text
    ids = [each["job"] for each in story.data["lives"]]
    assert ids[:2] == [first, f"{first}#1"]
    alone = explain_job(prefix, ids[-1])
    assert "lives" not in alone.data


def test_work_that_is_continued_is_not_lost(prefix: str) -> None:
    story = explain_run(prefix)
    summary, rows = read_run_data("run", prefix).summary, {row.id: row for row in read_jobs(prefix)}
    assert summary is not None
    assert summary.restarts is not None
    again_j = [kill["lost_j"] for kill in story.data["killed"] if _next_life(kill["job"]) in rows]
    assert len(again_j) == summary.restarts.count
    assert sum(again_j) == pytest.approx(3.6e6 * summary.restarts.redone_kwh, rel=0.05)
    assert "of work lost" in str(story)


def _next_life(job: str) -> str:
    first, _, number = job.partition("#")
    return f"{first}#{int(number or 0) + 1}"


def test_the_chart_joins_the_lives_of_a_job(prefix: str) -> None:
    run = read_run_data("run", prefix)
    jobs = run.jobs
    assert jobs is not None
    assert run.summary is not None
    assert jobs.count == run.summary.jobs.submitted < len(jobs.ids)
    spec = gantt(run, jobs, "r").spec
    assert spec["outcomes"][CAME_BACK] == "came back"
    following = spec["jobs"]["next"]
    for place, after in enumerate(following.tolist()):
        if after >= 0:
            assert jobs.ids[after].partition("#")[0] == jobs.ids[place].partition("#")[0]
            assert jobs.start_s[after] >= jobs.end_s[place] or np.isnan(jobs.start_s[after])
    assert (following >= 0).sum() == run.summary.restarts.count  # type: ignore[union-attr]
    assert sum(run.outcome_counts().values()) == run.summary.jobs.submitted


def test_work_redone_is_next_to_wasted_energy(prefix: str) -> None:
    run = read_run_data("run", prefix)
    columns, rows = compared([run])
    heads = [column.title for column in columns]
    assert heads.index("redone") == heads.index("wasted") + 1
    assert len(rows) == 1
    assert any(card.title == "Work redone" for card in cards(run))


def test_the_report_is_written(prefix: str, tmp_path: Path) -> None:
    assert exit_code("report", prefix, "-o", str(tmp_path / "r.html"), "-q") == 0
    assert "work redone" in (tmp_path / "r.html").read_text()
