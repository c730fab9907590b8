"""Explanations in a page: the same that `explain` says, for as many jobs and steps as a page can hold."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import exit_code
from plugins.reports import story_files
from small_site import small_site

from beasy_sched.plugins.reports import why
from beasy_sched.plugins.reports.explain_job import explain_job, explain_jobs
from beasy_sched.plugins.reports.explain_time import explain_steps, explain_time
from beasy_sched.plugins.reports.run_data import OUTCOMES, RunJobs, read_run_data
from beasy_sched.plugins.reports.why import MOST_ENTRIES, Packed, explained, explanations, most_relevant
from beasy_sched.run.results import read_jobs

pytest.importorskip("pyarrow", reason="reports need pyarrow")


def unpacked(chunks: list[str]) -> list[Any]:
    return [told for chunk in chunks for told in json.loads(zlib.decompress(base64.b64decode(chunk)))]


@pytest.fixture(scope="module", params=["easy", "workload-reactive", "bid-price"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("why")
    site = small_site(folder)
    common = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site, "-q"]
    prefix = str(folder / "out")
    assert exit_code("simulate", *map(str, common), "--policy", request.param, "-e", prefix) == 0
    return prefix


@pytest.mark.sampled
def test_all_jobs_at_once_are_told_as_each_alone(run: str) -> None:
    together = dict(explain_jobs(run))
    assert [*together] == [row.id for row in read_jobs(run)]
    for job_id, chapters in together.items():
        assert chapters == explain_job(run, job_id).chapters


@pytest.mark.sampled
def test_some_jobs_are_told_as_among_all(run: str) -> None:
    together = dict(explain_jobs(run))
    chosen = {*list(together)[::3]}
    assert dict(explain_jobs(run, chosen)) == {job: each for job, each in together.items() if job in chosen}


@pytest.mark.sampled
def test_all_steps_at_once_are_told_as_each_alone(run: str) -> None:
    edge_s = 0.0
    for start_s, end_s, title, chapters in explain_steps(run):
        alone = explain_time(run, (start_s + end_s) / 2)
        assert (title, chapters) == (alone.title, alone.chapters)
        assert start_s == edge_s
        edge_s = end_s


@pytest.mark.sampled
def test_jobs_beyond_the_most_are_counted(run: str) -> None:
    """A page shows no more of a chapter's jobs: those told, and how many there are, are the same."""
    pairs = zip(explain_steps(run), explain_steps(run, 1), strict=True)
    for (*_, whole), (*_, cut) in pairs:
        assert [chapter.title for chapter in whole] == [chapter.title for chapter in cut]
        for every, some in zip(whole, cut, strict=True):
            assert some.entries == every.entries[: len(some.entries)]
            assert len(some.entries) + some.left_out == len(every.entries)
    assert any(chapter.left_out for *_, cut in explain_steps(run, 1) for chapter in cut)
    steps = [(explained(whole), explained(cut)) for (*_, whole), (*_, cut) in
             zip(explain_steps(run), explain_steps(run, MOST_ENTRIES), strict=True)]  # fmt: skip
    assert all(whole == cut for whole, cut in steps)


@pytest.mark.parametrize(("jobs", "site"), [(True, True), (False, True), (True, False), (False, False)])
def test_with_fewer_files(jobs: bool, site: bool, tmp_path: Path) -> None:
    prefix = story_files.write_run(tmp_path, jobs=jobs, site=site)
    together = dict(explain_jobs(prefix))
    assert sorted(together) == ["w0!a", "w0!b", "w0!c", "w0!d"]
    for job_id, chapters in together.items():
        assert chapters == explain_job(prefix, job_id).chapters
    for start_s, end_s, title, chapters in explain_steps(prefix):
        alone = explain_time(prefix, (start_s + end_s) / 2)
        assert (title, chapters) == (alone.title, alone.chapters)


@pytest.mark.sampled
def test_the_page_has_the_texts(run: str) -> None:
    data = read_run_data("run", run)
    packed, note = explanations(data)
    assert packed is not None
    assert note == ""
    assert packed["ids"] is None
    assert data.jobs is not None
    texts = unpacked(packed["jobs"])
    assert texts == [explained(explain_job(run, job).chapters) for job in data.jobs.ids]
    steps, edges_s = unpacked(packed["steps"]), packed["edges"].reshape(-1, 2)
    assert len(steps) == len(edges_s) == len(data.trace)
    story = explain_time(run, float(edges_s[5].mean()))
    assert steps[5] == [story.title, explained(story.chapters)]


@pytest.mark.sampled
def test_limits_are_told(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_run_data("run", run)
    assert data.jobs is not None
    monkeypatch.setattr(why, "MOST_JOBS", 6)
    monkeypatch.setattr(why, "MOST_STEPS", 6)
    packed, note = explanations(data, share=0.5)
    assert packed is not None
    assert len(packed["ids"]) == len(unpacked(packed["jobs"])) == 3
    assert {*packed["ids"]} == {data.jobs.ids[n] for n in most_relevant(data.jobs, data.end_s, 3)}
    assert note.startswith(f"3 of {len(data.jobs.ids):,} jobs are explained")
    assert f"The {len(data.trace):,} steps are too many" in note
    assert (packed["steps"], len(packed["edges"])) == ([], 0)


def test_bad_ends_first_then_long_waits() -> None:
    submit_s, start_s = np.array([0.0, 0.0, 5.0, 0.0, 50.0]), np.array([9.0, 1.0, np.nan, 30.0, 50.0])
    outcomes = ["finished", "killed", "postponed", "finished", "rejected"]
    codes = [[each.value for each in OUTCOMES].index(name) for name in outcomes]
    jobs = RunJobs([*"abcde"], submit_s, start_s, start_s + 1, np.ones(5, np.int64),
                   np.array(codes, dtype=np.int8), [""] * 5)  # fmt: skip
    assert most_relevant(jobs, 100.0, 9).tolist() == [1, 4, 2, 3, 0]
    assert most_relevant(jobs, 100.0, 3).tolist() == [1, 4, 2]


def cut(log: str) -> str:
    return log + '{"time": 700.0, "action": "compens'


@pytest.mark.parametrize(
    ("change", "said"),
    [(cut, "is not a decision"), (None, "the run has no decisions.jsonl")],
)
def test_a_log_that_explains_nothing(change: Callable[[str], str] | None, said: str, tmp_path: Path) -> None:
    prefix = story_files.write_run(tmp_path)
    log = Path(f"{prefix}_decisions.jsonl")
    text = log.read_text("utf-8")
    if change is None:
        log.unlink()
    else:
        log.write_text(change(text), "utf-8")
    packed, note = explanations(read_run_data("run", prefix))
    assert packed is None
    assert note.startswith("Explanations are not available: ")
    assert said in note


def test_chunks() -> None:
    packed = Packed()
    for number in range(250):
        packed.add([number, "ä"])
    packed.close()
    assert packed.count == 250
    assert len(packed.chunks) == 3
    assert unpacked(packed.chunks) == [[number, "ä"] for number in range(250)]


def test_long_chapters_are_cut() -> None:
    from beasy_sched.plugins.reports.story import Chapter, Entry

    entries = [Entry("x", float(n)) for n in range(MOST_ENTRIES + 5)]
    ((title, told),) = explained([Chapter("c", entries)])
    assert title == "c"
    assert told[-1].startswith("... and 5 more")
    assert told[:2] == [[0.0, "x"], [1.0, "x"]]
    assert len(told) == MOST_ENTRIES + 1
