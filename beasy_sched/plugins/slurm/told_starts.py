"""The expected starts of held jobs, written into their comments for their users.

A comment of the user's stays: the expected start follows it. Once a job has started, its comment is the
user's alone again. All waiting tasks of an array have one comment, because Slurm would split the array
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.bridge import Phase, Tracked

_MOVE_S: Final = 600.0
"""Least change of an expected start that is reported, s."""
_MOST_AT_ONCE: Final = 5
"""Most comments that are written after one look at the cluster; the others follow."""
_BETWEEN: Final = "; "
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME: Final = rf"(?:\d{{1,2}} (?:{'|'.join(_MONTHS)}) )?\d\d:\d\d"
_OURS: Final = re.compile(rf"(?:^|{_BETWEEN})start expected {_TIME} to {_TIME}$")


def own_comment(comment: str) -> str:
    """Return what a user has written of a job's comment."""
    return _OURS.sub("", comment)


def comment_of(own: str, low_s: float, high_s: float, now: float) -> str:
    """Return a comment with an expected start; times are s since 1970, and shown as local times.

    Times of other days than that of ``now`` have the day as well.
    """
    text = f"start expected {_clock(low_s, now)} to {_clock(high_s, now)}"
    return f"{own}{_BETWEEN}{text}" if own else text


def _clock(time_s: float, now: float) -> str:
    at, today = datetime.fromtimestamp(time_s), datetime.fromtimestamp(now)
    day = "" if at.date() == today.date() else f"{at.day} {_MONTHS[at.month - 1]} "
    return f"{day}{at.hour:02}:{at.minute:02}"


class ToldStarts:
    """The starts in comments of jobs, and those that are to be written."""

    def __init__(self, epoch_s: float) -> None:
        """``epoch_s``: time 0 of the run, s since 1970."""
        self._epoch_s = epoch_s
        self._told: dict[str, tuple[float, float]] = {}
        """Expected starts in the comments, by job or array, s of the run."""
        self._expected: dict[str, tuple[float, float]] = {}
        """The newest, by the scheduler's names of jobs."""
        self._is_behind = False
        """Whether comments may have to be written."""

    def take(self, news: ForecastNews) -> None:
        """Take the newest forecast."""
        self._expected, self._is_behind = dict(news.starts_s), True

    def due(self, now_s: float, tracked: Iterable[Tracked]) -> list[a.ClusterAction]:
        """Return the comments to write now, at most some; call it after each look at the cluster."""
        if not self._is_behind and not self._told:
            return []
        waiting: dict[str, list[Tracked]] = {}
        others: dict[str, Tracked] = {}
        for one in tracked:
            job_id = one.job.id.partition("_")[0]
            if one.phase is Phase.WAITING:
                waiting.setdefault(job_id, []).append(one)
            else:
                others[job_id] = one
        actions: list[a.ClusterAction] = []
        for job_id in [job_id for job_id in self._told if job_id not in waiting]:
            if len(actions) == _MOST_AT_ONCE:
                return actions
            actions += self._restore(job_id, others.get(job_id))
        if self._is_behind:
            actions += self._tell(now_s, waiting, _MOST_AT_ONCE - len(actions))
        return actions

    def _restore(self, job_id: str, one: Tracked | None) -> list[a.ClusterAction]:
        """Return the action that leaves a job that has started its user's comment."""
        del self._told[job_id]
        if one is None:
            return []  # it has ended or left
        own = own_comment(one.job.comment)
        return [] if own == one.job.comment else [a.CommentJob(job_id, own)]

    def _tell(self, now_s: float, waiting: dict[str, list[Tracked]], most: int) -> list[a.ClusterAction]:
        """Return comments for the jobs whose expected start has moved, the earliest first."""
        moved: list[tuple[float, float, str]] = []
        for job_id, several in waiting.items():
            spans_s = [self._expected[one.name] for one in several if one.name in self._expected]
            if not spans_s:
                continue
            low_s, high_s = min(low for low, _ in spans_s), max(high for _, high in spans_s)
            before = self._told.get(job_id)
            if before is None or max(abs(low_s - before[0]), abs(high_s - before[1])) > _MOVE_S:
                moved.append((low_s, high_s, job_id))
        moved.sort()
        self._is_behind = len(moved) > most
        return [self._comment(now_s, job_id, waiting[job_id], span) for *span, job_id in moved[:most]]

    def _comment(
        self, now_s: float, job_id: str, several: Sequence[Tracked], span_s: Sequence[float]
    ) -> a.ClusterAction:
        low_s, high_s = span_s
        self._told[job_id] = (low_s, high_s)
        own, epoch_s = own_comment(several[0].job.comment), self._epoch_s
        text = comment_of(own, epoch_s + low_s, epoch_s + high_s, epoch_s + now_s)
        return a.CommentJob(job_id, text)
