"""Renewal of a forecast during a run: the forecast in use, its age, and what to report about it.

Nothing here reads a clock or a file: times are arguments, seconds since time 0 of the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, TIME_TOLERANCE_S

STALE_S: Final = SECONDS_PER_DAY
"""Age from which a forecast is reported as old by default, s."""
_KEPT_S: Final = 15 * SECONDS_PER_DAY
"""Time for which past values are kept, s: the ideal production of an hour is the maximum of these days."""

Happening: TypeAlias = Literal["renewed", "stale", "short", "older", "failed"]
"""Event of a forecast that is renewed."""


@dataclass(frozen=True)
class ForecastReport:
    """One event of a forecast, for the user and the decision log."""

    happening: Happening
    time_s: float
    text: str = ""
    """Warning; "" for an event that is not one."""


class KnownIssues(NamedTuple):
    """Known values of a table at one time."""

    issued_s: float | None
    """Time of the newest issue; None if nothing has been issued yet."""
    end_s: float
    """End of the values of the newest issue; -inf without one."""
    last_s: float
    """End of the values of all issues; -inf without one."""
    until_s: float
    """Time of the next issue, up to which this is so; inf if there is none."""

    @classmethod
    def of(cls, table: IssuedTable, now_s: float) -> KnownIssues:
        """Return the known values at ``now_s``."""
        by_now = table.issued_s <= now_s + TIME_TOLERANCE_S
        until_s = math.inf if by_now.all() else float(table.issued_s[~by_now].min())
        if not by_now.any():
            return cls(None, -math.inf, -math.inf, until_s)
        issued_s = float(table.issued_s[by_now].max())
        ends_s = table.valid_s + table.interval_s
        newest = table.issued_s == issued_s
        return cls(issued_s, float(ends_s[newest].max()), float(ends_s[by_now].max()), until_s)


def merged(before: IssuedTable, new: IssuedTable, now_s: float) -> IssuedTable | None:
    """Return ``new`` with the values of ``before`` for all times for which ``new`` has none.

    Values that can no longer be used, and those from more than 15 days ago, are dropped. Returns None if the
    two do not fit together: other intervals, or other quantiles.
    """
    if not _fits(before, new):
        return None
    first_s = float(new.valid_s.min())

    def numbers(times_s: FloatArray) -> FloatArray:
        return np.rint((times_s - first_s) / new.interval_s)

    kept = before.issued_s <= now_s + TIME_TOLERANCE_S
    kept &= before.valid_s >= now_s - _KEPT_S
    is_issued = new.issued_s <= now_s + TIME_TOLERANCE_S
    kept &= ~np.isin(numbers(before.valid_s), numbers(new.valid_s[is_issued]))
    by_level = None
    if new.by_level is not None and before.by_level is not None:
        by_level = np.concatenate((before.by_level[:, kept], new.by_level), axis=1)
    members_w, old_w = new.members_w, before.members_w
    if members_w is not None:
        fits = old_w is not None and len(old_w) == len(members_w)
        members_w = np.hstack((old_w[:, kept], members_w)) if old_w is not None and fits else None
    return replace(
        new,
        issued_s=np.concatenate((before.issued_s[kept], new.issued_s)),
        valid_s=np.concatenate((before.valid_s[kept], new.valid_s)),
        values=np.concatenate((before.values[kept], new.values)),
        by_level=by_level,
        members_w=members_w,
    )


def _fits(before: IssuedTable, new: IssuedTable) -> bool:
    levels = (before.levels, new.levels)
    some = [each for each in levels if each is not None]
    if (
        before.interval_s != new.interval_s
        or len(some) == 1
        or (some and not np.array_equal(some[0], some[1]))
    ):
        return False
    apart = (float(before.valid_s.min()) - float(new.valid_s.min())) / new.interval_s
    return abs(apart - round(apart)) < 1e-9


class RenewedForecast:
    """Forecast that is renewed during a run: the values in use, and the reports on them.

    Reports are collected in ``reports``, which the reader clears. Each case is reported once, until it is
    over.
    """

    def __init__(
        self, name: str, table: IssuedTable, *, stale_s: float, window_s: float, run_s: float, watched: bool
    ) -> None:
        """Begin with ``table``, for a run of ``run_s`` in windows of ``window_s``.

        ``name`` is that of the source in reports. ``stale_s``: age from which the forecast is reported as
        old. Without ``watched``, nothing is reported before the first renewal.
        """
        self.table = table
        self.watched = watched
        """Whether age and end are checked."""
        self.reports: list[ForecastReport] = []
        self.name, self._stale_s, self._window_s, self._run_s = name, stale_s, window_s, run_s
        self._seen = KnownIssues.of(table, 0.0)
        self._open: set[Happening] = set()
        """Cases that were reported and are not over."""

    def renew(self, new: IssuedTable, now_s: float) -> bool:
        """Take a newly read forecast; return whether it is in use.

        A forecast that was issued before the one in use, or one that ends before the window and does not fit
        to the one in use, is reported and not used.
        """
        self.watched = True
        self._open.discard("failed")
        before, issues = self._known(now_s), KnownIssues.of(new, now_s)
        issued_s = -math.inf if issues.issued_s is None else issues.issued_s
        if before.issued_s is not None and issued_s < before.issued_s - TIME_TOLERANCE_S:
            is_older = f"it was issued {_ago(now_s, issues)}"
            in_use = f"the one in use, issued {_ago(now_s, before)}, stays in use"
            self._report("older", now_s, f"{self._title}: {is_older}: {in_use}")
            return False
        self._open.discard("older")
        both = merged(self.table, new, now_s)
        if both is None and self._is_short(issues, now_s) and before.last_s > issues.last_s:
            self._report("short", now_s, f"{self._shortage(issues, now_s)}: the one before stays in use")
            return False
        self.table = new if both is None else both
        self._seen = KnownIssues.of(self.table, now_s)
        self.reports.append(ForecastReport("renewed", now_s))
        return True

    def fail(self, problem: str, now_s: float) -> None:
        """Report that the source could not be read, once until it can be."""
        self.watched = True
        self._report("failed", now_s, f"{problem}; the forecast before stays in use")

    def check(self, now_s: float) -> None:
        """Report a forecast that is too old, or that ends before the window; nothing after the run."""
        if not self.watched or now_s >= self._run_s - TIME_TOLERANCE_S:
            return
        issues = self._known(now_s)
        if issues.issued_s is not None and now_s - issues.issued_s > self._stale_s + TIME_TOLERANCE_S:
            limit = f"--forecast-stale ({_span(self._stale_s)})"
            stays = "it stays in use until there is a newer one"
            was_issued = f"{self._title}: it was issued {_ago(now_s, issues)}"
            self._report("stale", now_s, f"{was_issued}, longer than {limit}: {stays}")
        else:
            self._open.discard("stale")
        if not self._is_short(issues, now_s):
            self._open.discard("short")
            return
        is_continued = issues.last_s > issues.end_s + TIME_TOLERANCE_S
        rest = "the one before is used after that" if is_continued else "no production is expected after that"
        self._report("short", now_s, f"{self._shortage(issues, now_s)}: {rest}")

    def _known(self, now_s: float) -> KnownIssues:
        if now_s >= self._seen.until_s - TIME_TOLERANCE_S:
            self._seen = KnownIssues.of(self.table, now_s)
        return self._seen

    def _is_short(self, issues: KnownIssues, now_s: float) -> bool:
        return issues.end_s < self._window_end_s(now_s) - TIME_TOLERANCE_S

    def _window_end_s(self, now_s: float) -> float:
        windows = math.floor((max(now_s, 0.0) + TIME_TOLERANCE_S) / self._window_s) + 1
        return min(windows * self._window_s, self._run_s)

    @property
    def _title(self) -> str:
        return f"forecast {self.name}"

    def _shortage(self, issues: KnownIssues, now_s: float) -> str:
        if issues.issued_s is None:
            return f"{self._title}: nothing of it has been issued yet"
        lacking_s = self._window_end_s(now_s) - issues.end_s
        return f"{self._title}: it ends {_span(lacking_s)} before the end of the window"

    def _report(self, case: Happening, now_s: float, text: str) -> None:
        if case not in self._open:
            self._open.add(case)
            self.reports.append(ForecastReport(case, now_s, text))


def _span(time_s: float) -> str:
    """Return a time in hours, or in minutes below an hour."""
    if time_s < SECONDS_PER_HOUR:
        return f"{time_s / 60.0:.0f} min"
    return f"{time_s / SECONDS_PER_HOUR:.1f} h"


def _ago(now_s: float, issues: KnownIssues) -> str:
    """Return the age of the newest issue, for a report."""
    return "in the future" if issues.issued_s is None else f"{_span(now_s - issues.issued_s)} ago"


def with_issue(table: IssuedTable, issued_s: float) -> IssuedTable:
    """Return the table as issued at one time."""
    issued: FloatArray = np.full(len(table.valid_s), issued_s)
    return replace(table, issued_s=issued)
