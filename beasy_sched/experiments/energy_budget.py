"""The energy-budget study: all its runs, each once, whatever interrupts them.

The folder holds ``study.json`` (what the study is), ``weeks/`` (the workloads), ``rows/`` (one small file
a run that has ended: the journal) and, once all have, ``runs.parquet``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.experiments.energy_budget_runs import (
    MEASURES,
    Setting,
    WeekResult,
    WeekTask,
    execute_week,
)
from beasy_sched.experiments.energy_weeks import Week
from beasy_sched.experiments.folder import must_be_empty
from beasy_sched.experiments.tasks import Executor, Failure, Task, work_through
from beasy_sched.formats.atomic import write_atomic

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Told how many runs have ended, and how many there are."""
_COUNTS = ("jobs", "jobs_started", "debts", "switches")


@dataclass(frozen=True)
class EnergyStudy:
    """Weeks x settings in a folder; weeks may be added to a folder later."""

    folder: Path
    weeks: Sequence[Week]
    settings: Sequence[Setting]
    allocation: str

    def begin(self) -> None:
        """Make the folder, or see that it is that of the same study. Raises ConfigError."""
        path, content = self.folder / "study.json", msgspec.json.format(msgspec.json.encode(self._what()))
        if path.exists() and path.read_bytes() != content:
            raise ConfigError(
                f"{path} is of another study (other options or program version): choose another folder"
            )
        if not path.exists():
            must_be_empty(self.folder, "that of a study")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)

    def _what(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "allocation": self.allocation,
            "settings": [setting.options(self.allocation) for setting in self.settings],
        }

    @property
    def runs(self) -> list[tuple[Week, Setting]]:
        """All runs, in the order of the table."""
        return [(week, setting) for week in self.weeks for setting in self.settings]

    def go_on(self, executor: Executor, progress: Progress | None = None) -> int:
        """Execute the runs that have not ended well; return how many failed. ``executor`` is closed."""
        (self.folder / "rows").mkdir(exist_ok=True)
        pending = [run for run in self.runs if (found := self.result(*run)) is None or found.error]
        ended = len(self.runs) - len(pending)

        def done(key: tuple[Week, Setting], result: WeekResult | Failure) -> None:
            nonlocal ended
            if isinstance(result, Failure):
                result = WeekResult(dict.fromkeys(MEASURES), result.error)
            write_atomic(self._row_path(*key), msgspec.json.encode(result))
            ended += 1
            if progress is not None:
                progress(ended, len(self.runs))

        try:
            if progress is not None:
                progress(ended, len(self.runs))
            work_through(executor, self._tasks(pending), done)
        finally:
            executor.close()
        return sum(bool(self._must(*run).error) for run in self.runs)

    def _tasks(self, pending: Sequence[tuple[Week, Setting]]) -> Iterator[Task]:
        for week, setting in sorted(pending, key=lambda run: -run[0].jobs):  # the longest first
            task = WeekTask(week.hosts, week.workload.absolute(), setting, self.allocation)
            yield (week, setting), execute_week, task

    def _row_path(self, week: Week, setting: Setting) -> Path:
        return self.folder / "rows" / f"{week.name}-{week.sha256[:8]}-{setting.key}.json"

    def result(self, week: Week, setting: Setting) -> WeekResult | None:
        """Return what became of a run, None where it has not ended."""
        try:
            return msgspec.json.decode(self._row_path(week, setting).read_bytes(), type=WeekResult)
        except (OSError, msgspec.MsgspecError):
            return None

    def _must(self, week: Week, setting: Setting) -> WeekResult:
        found = self.result(week, setting)
        if found is None:
            raise InputError(self._row_path(week, setting), "cannot be read: run the study again")
        return found

    def write_table(self) -> Path:
        """Write ``runs.parquet``; the same study gives the same bytes. Raises ConfigError and InputError."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise ConfigError("the table needs pyarrow: pip install 'beasy-sched[data]'") from None
        rows = list(self._rows())
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        arrays = {
            name: pyarrow.array(
                values, pyarrow.float64() if name in MEASURES and name not in _COUNTS else None
            )
            for name, values in columns.items()
        }
        content = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(arrays), content)
        write_atomic(self.folder / "runs.parquet", content.getvalue())
        return self.folder / "runs.parquet"

    def _rows(self) -> Iterator[dict[str, Any]]:
        for week, setting in self.runs:
            result = self._must(week, setting)
            yield {
                "week": week.name,
                "hosts": week.hosts,
                "algorithm": setting.algorithm,
                "budget": setting.budget,
                "shutdown": setting.shutdown,
                "allocation": self.allocation,
                "error": result.error or "",
                **{name: result.values[name] for name in MEASURES},
                "workload_sha256": week.sha256,
                "version": __version__,
            }

    def table(self) -> pd.DataFrame:
        """Return the runs as a data frame."""
        import pandas

        return pandas.DataFrame(list(self._rows()))

    def cpu_s(self) -> float:
        """Processor time of all runs, s."""
        return sum(self._must(*run).cpu_s for run in self.runs)
