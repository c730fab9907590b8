"""The rows of a trace as columns, and the account of those that were left out."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.formats.swf import LINE_COLUMN, SWF_FIELDS, SwfFindings, SwfReader
from beasy_sched.generate.workload import Report
from beasy_sched.generate.workload_options import EXTRA_FIELDS, SwfOptions

OUTSIDE: Final = "outside the time window"
WAITING_SUBMIT_S: Final = 0.1
"""When jobs are submitted that already wait at the window's start: after those that run."""
_EXAMPLES: Final = 5
_ALWAYS: Final = (
    "job_number",
    "submit_s",
    "run_s",
    "allocated_processors",
    "requested_processors",
    "requested_time_s",
)


class Rows:
    """Columns of equal length by name: SWF fields, ``line``, and what the conversion adds."""

    def __init__(self, columns: dict[str, FloatArray], report: Report) -> None:
        self.columns = columns
        self.report = report
        self.window_s = math.inf
        """Length of the time window; infinite for one that has no end."""

    def __len__(self) -> int:
        return len(self.columns["line"])

    def __getitem__(self, name: str) -> FloatArray:
        return self.columns[name]

    def __setitem__(self, name: str, values: FloatArray) -> None:
        self.columns[name] = values

    def keep(self, mask: BoolArray, reason: str) -> None:
        """Keep the rows of ``mask``, count the others under ``reason``, and note where the first stand."""
        if mask.all():
            return
        lines = self["line"][~mask]
        self.report.dropped[reason] = self.report.dropped.get(reason, 0) + len(lines)
        if reason != OUTSIDE:
            self.report.examples[reason] = [f"line {line:.0f}" for line in lines[:_EXAMPLES].tolist()]
        self.take(mask)

    def take(self, rows: IndexArray | BoolArray) -> None:
        """Choose or reorder rows, as NumPy's indexing does."""
        for name in self.columns:
            self.columns[name] = self.columns[name][rows]


def read_rows(reader: SwfReader, options: SwfOptions) -> Rows:
    """Read the columns that ``options`` ask for, of the jobs submitted within the window.

    ``submit_s`` counts from the window's start. Raises InputError.
    """
    positions = _positions(options)
    names = list(positions)
    wanted = list(positions.values())
    report = Report()
    first, late, parts = math.inf, 0, []
    for chunk in reader.chunks():
        submit = chunk[:, positions["submit_s"]]
        first = min(first, float(submit[submit >= 0].min(initial=math.inf)))
        end = options.end_s + (0.0 if options.absolute else first)
        # A later row can only move the end of the window to the front: what is behind it stays out.
        outside = submit >= end
        late += int(np.count_nonzero(outside))
        parts.append(chunk[~outside][:, wanted])
    columns = {name: np.concatenate([part[:, i] for part in parts]) for i, name in enumerate(names)}
    _report_findings(report, reader.findings)
    rows = Rows(columns, report)
    rows.keep(rows["submit_s"] >= 0, "no submission time")
    start = _window_start(options, first)
    end = options.end_s + (0.0 if options.absolute else first)
    if options.carry_over:
        _carry_over(rows, start)
    rows.keep((rows["submit_s"] >= start) & (rows["submit_s"] < end), OUTSIDE)
    if late:
        report.dropped[OUTSIDE] = report.dropped.get(OUTSIDE, 0) + late
    rows["submit_s"] = np.round(rows["submit_s"] - start, 6)
    rows.window_s = end - start
    return rows


def _window_start(options: SwfOptions, first_submit_s: float) -> float:
    """Return the start of the window in the trace's time."""
    if options.start_s is None:
        return first_submit_s
    return options.start_s + (0.0 if options.absolute else first_submit_s)


def _carry_over(rows: Rows, start: float) -> None:
    """Move jobs that ran or waited at ``start`` to it: as the energy-budget study cut its weeks.

    A running job keeps what was left of its run time and its requested time.
    """
    begin = rows["submit_s"] + np.maximum(rows["wait_s"], 0.0)
    end = begin + rows["run_s"]
    earlier = (rows["submit_s"] < start) & (rows["run_s"] >= 0)
    running = earlier & (begin <= start) & (end > start)
    waiting = earlier & (begin > start)
    rows["run_s"] = np.where(running, end - start, rows["run_s"])
    left = rows["requested_time_s"] - (start - begin)
    rows["requested_time_s"] = np.where(running, left, rows["requested_time_s"])
    rows["submit_s"] = np.where(running, start, rows["submit_s"])
    rows["submit_s"] = np.where(waiting, start + WAITING_SUBMIT_S, rows["submit_s"])
    rows.report.notes.append(
        f"{running.sum()} jobs ran when the window starts, {waiting.sum()} waited: "
        f"submitted at 0 and {WAITING_SUBMIT_S}"
    )


def _positions(options: SwfOptions) -> dict[str, int]:
    """Choose the columns to keep, so that millions of jobs fit into memory."""
    extras = [EXTRA_FIELDS[name] for name in options.extras]
    names = dict.fromkeys([*_ALWAYS, *options.keep, *extras])
    if options.carry_over:
        names["wait_s"] = None
    positions = {name: SWF_FIELDS[name] - 1 for name in names}
    positions["requested_time_s"] = options.requested_time_field - 1
    positions["line"] = LINE_COLUMN
    return positions


def _report_findings(report: Report, found: SwfFindings) -> None:
    report.rows = found.rows
    if found.bad_rows:
        report.dropped["cannot be read"] = found.bad_rows
        report.examples["cannot be read"] = found.examples
        report.warnings.append(f"{found.bad_rows} of {found.rows} rows cannot be read: {found.examples[0]}")
    if found.long_rows:
        report.warnings.append(f"{found.long_rows} rows have more than 18 fields: the first 18 were taken")
    if found.damage:
        report.warnings.append(f"{found.damage}: only the jobs before that are in")
