"""Explanations of jobs and steps, embedded in an HTML report to be shown on a click.

The texts are compressed in chunks, of which the page unpacks only the one that it needs. With more jobs than
`MOST_JOBS`, killed and rejected jobs have priority, then those that waited longest; with more steps than
`MOST_STEPS` no step is explained. The page then shows the command line of `beasy-sched explain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.formats.run_files import DECISIONS
from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.reports.explain_job import explain_jobs
from beasy_sched.plugins.reports.explain_time import explain_steps
from beasy_sched.plugins.reports.page import compressed
from beasy_sched.plugins.reports.run_data import OUTCOMES, RunData, RunJobs
from beasy_sched.plugins.reports.story import Chapter

MOST_JOBS: Final = 5_000
"""Maximum number of jobs explained in a page, shared by all runs; this takes no longer than the charts."""
MOST_STEPS: Final = 20_000
"""Maximum number of steps explained in a page; shared by all runs."""
MOST_ENTRIES: Final = 30
"""Maximum number of entries per chapter; the others are counted."""
_IN_A_CHUNK: Final = 100
_ENDED_BADLY: Final = tuple(OUTCOMES.index(state) for state in (JobState.KILLED, JobState.REJECTED))


@dataclass
class Packed:
    """Texts in compressed chunks of `_IN_A_CHUNK`."""

    chunks: list[str] = field(default_factory=list)
    count: int = 0
    _waiting: list[Any] = field(default_factory=list)

    def add(self, child: object) -> None:
        """Add a JSON value."""
        self._waiting.append(child)
        self.count += 1
        if len(self._waiting) == _IN_A_CHUNK:
            self.close()

    def close(self) -> None:
        """Compress the remaining values."""
        if self._waiting:
            self.chunks.append(compressed(msgspec.json.encode(self._waiting)))
            self._waiting = []


def explanations(run: RunData, share: float = 1.0) -> tuple[dict[str, Any] | None, str]:
    """Return the explanations of a run's jobs and steps for the page, and a note on their limits.

    ``share`` is the run's share of `MOST_JOBS` and `MOST_STEPS`. None if the run has no decision log, or one
    that cannot be explained.
    """
    if run.endings is None:
        return None, f"Explanations are not available: the run has no {DECISIONS}."
    try:
        jobs, ids, note = _jobs(run, int(MOST_JOBS * share))
        steps, edges_s, more = _steps(run, int(MOST_STEPS * share))
    except InputError as error:
        return None, f"Explanations are not available: {error}."
    packed = {
        "prefix": run.prefix,
        "chunk": _IN_A_CHUNK,
        "jobs": jobs.chunks,
        "ids": ids,
        "steps": steps.chunks,
        "edges": edges_s,
    }
    return packed, " ".join(text for text in (note, more) if text)


def _jobs(run: RunData, most: int) -> tuple[Packed, list[str] | None, str]:
    """Return the explanations of jobs; if not of all jobs, also their ids and a note."""
    chosen: set[str] | None = None
    note = ""
    if run.jobs is not None and len(run.jobs.ids) > most:
        chosen = {run.jobs.ids[place] for place in most_relevant(run.jobs, run.end_s, most)}
        note = (
            f"{len(chosen):,} of {len(run.jobs.ids):,} jobs are explained on this page: those that were"
            " killed or rejected, and those that waited longest. Use 'beasy-sched explain' for the others."
        )
    packed, ids = Packed(), list[str]()
    for job_id, chapters in explain_jobs(run.prefix, chosen):
        ids.append(job_id)
        packed.add(explained(chapters))
    packed.close()
    same = run.jobs is not None and ids == run.jobs.ids
    return packed, None if same else ids, note


def most_relevant(jobs: RunJobs, end_s: float, most: int) -> IntArray:
    """Return the indices of the most relevant jobs: those killed or rejected, then the longest waits."""
    until_s = np.where(np.isnan(jobs.start_s), end_s, jobs.start_s)
    badly = np.isin(jobs.outcome, _ENDED_BADLY)
    return np.lexsort((jobs.submit_s - until_s, ~badly))[:most]


def _steps(run: RunData, most: int) -> tuple[Packed, FloatArray, str]:
    """Return the explanations of steps, start and end of each (s), and a note if there are too many."""
    packed, edges_s = Packed(), list[float]()
    count = len(run.trace)
    if count > most:
        note = f"The {count:,} steps are too many to be explained on this page; use 'beasy-sched explain'."
        return packed, np.empty(0), note
    for start_s, end_s, title, chapters in explain_steps(run.prefix, MOST_ENTRIES):
        edges_s += (start_s, end_s)
        packed.add([title, explained(chapters)])
        if packed.count > most:
            return Packed(), np.empty(0), "The steps are too many to be explained on this page."
    packed.close()
    return packed, np.array(edges_s), ""


def explained(chapters: Iterable[Chapter]) -> list[list[Any]]:
    """Return chapters as (title, entries), each entry a string, or (time, string) if it has a time (s)."""
    return [[chapter.title, [*_entries(chapter)]] for chapter in chapters]


def _entries(chapter: Chapter) -> Iterator[object]:
    left_out = len(chapter.entries) - MOST_ENTRIES + chapter.left_out
    for entry in chapter.entries[:MOST_ENTRIES]:
        yield entry.text if entry.time_s is None else [round(entry.time_s, 3), entry.text]
    if left_out > 0:
        yield f"... and {left_out:,} more: beasy-sched explain --json has all"
