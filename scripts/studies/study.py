"""Common part of the papers' studies: runs in a folder, each executed once, despite interruptions.

The folder holds ``study.json`` (what the study is), ``rows/`` (one small file for each run that has ended:
the journal) and, once all have, ``runs.parquet``. Each study defines its runs and their inputs.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.extras import load_optional
from beasy_sched.formats.atomic import hold_folder, write_atomic, write_inside
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.campaign import Progress
from beasy_sched.plugins.campaigns.campaign_table import RunColumn, parquet_of
from beasy_sched.plugins.campaigns.folder import must_be_empty, read_ended
from beasy_sched.plugins.campaigns.tasks import Attempt
from beasy_sched.plugins.campaigns.workers import Executor, Failure, Task, work_through

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Measured(Attempt):
    """The result of a run."""

    values: dict[str, float | int | None] = field(default_factory=dict)
    """The study's measures, by name; empty where the run failed."""


Run = TypeVar("Run")
Result = TypeVar("Result", bound=Measured)


@dataclass(frozen=True)
class Study(ABC, Generic[Run, Result]):
    """Runs in a folder; more may be added to it later."""

    folder: Path

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Data that must be the same for runs to belong into one folder."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[RunColumn]:
        """The columns of ``runs.parquet``; ``error`` and ``version`` are among them."""

    @property
    @abstractmethod
    def runs(self) -> Sequence[Run]:
        """All runs, in the order of the table."""

    @property
    @abstractmethod
    def _kind(self) -> type[Result]:
        """Type of the results that runs return."""

    @abstractmethod
    def _name(self, run: Run) -> str:
        """The name of a run's file in the journal."""

    @abstractmethod
    def _size(self, run: Run) -> float:
        """Return how large a run is: the largest start first."""

    @abstractmethod
    def _work(self, run: Run) -> tuple[Callable[[Any], Result], Any]:
        """Return the work of a run: a function that can be imported by name, and its argument."""

    @abstractmethod
    def _described(self, run: Run) -> Mapping[str, Any]:
        """Return the columns of a run that do not depend on its result."""

    def begin(self) -> None:
        """Make the folder, or check that it belongs to the same study. Raises ConfigError."""
        path = self.folder / "study.json"
        content = msgspec.json.format(msgspec.json.encode(self.identity))
        if path.exists() and read_bytes(path) != content:
            raise ConfigError(
                f"{path} belongs to another study (other options or program version): choose another folder"
            )
        if not path.exists():
            must_be_empty(self.folder, "a study")
        self.folder.mkdir(parents=True, exist_ok=True)
        with hold_folder(self.folder) as folder, folder.inner("rows"):
            write_atomic(path, content)

    def go_on(self, executor: Executor, progress: Progress | None = None) -> int:
        """Execute the runs that have not ended well; return how many failed. ``executor`` is closed."""
        tell = progress or (lambda ended, total: None)
        pending = [run for run in self.runs if (found := self.result(run)) is None or found.error]
        pending.sort(key=self._size, reverse=True)
        ended, total = len(self.runs) - len(pending), len(self.runs)
        tasks: Iterator[Task] = ((run, *self._work(run)) for run in pending)

        def done(run: Run, result: Result | Failure) -> None:
            nonlocal ended
            if isinstance(result, Failure):
                result = self._kind(result.error)
            write_inside(self.folder, f"rows/{self._name(run)}.json", msgspec.json.encode(result))
            ended += 1
            tell(ended, total)

        with contextlib.closing(executor):
            tell(ended, total)
            work_through(executor, tasks, done)
        return len(self.failures())

    def _row_path(self, run: Run) -> Path:
        return self.folder / "rows" / f"{self._name(run)}.json"

    def result(self, run: Run) -> Result | None:
        """Return the result of a run; None if it has not ended."""
        return read_ended(self._row_path(run), self._kind)

    def _results(self) -> Iterator[tuple[Run, Result]]:
        """The results of all runs. Raises InputError if one has not ended."""
        for run in self.runs:
            if (found := self.result(run)) is None:
                raise InputError(self._row_path(run), "cannot be read: run the study again")
            yield run, found

    def results(self) -> dict[Run, Result]:
        """Return the results of all runs that ended well. Raises InputError."""
        return {run: result for run, result in self._results() if not result.error}

    def failures(self) -> list[tuple[Run, str]]:
        """Return the runs that failed, and why. Raises InputError."""
        return [(run, result.error) for run, result in self._results() if result.error]

    def _rows(self) -> Iterator[dict[str, Any]]:
        names = [column.name for column in self.columns]
        for run, result in self._results():
            told = {**self._described(run), "error": result.error or "", "version": __version__}
            yield dict.fromkeys(names) | told | result.values

    def write_table(self) -> Path:
        """Write ``runs.parquet``; the same study gives the same bytes. Raises ConfigError and InputError."""
        write_atomic(self.folder / "runs.parquet", parquet_of(list(self._rows()), self.columns))
        return self.folder / "runs.parquet"

    def table(self) -> pd.DataFrame:
        """Return the runs as a data frame. Raises InputError."""
        pandas = load_optional("pandas", "beasy-sched[data]", "tables of studies")
        return pandas.DataFrame(list(self._rows()))

    def cpu_s(self) -> float:
        """CPU time of all runs, s."""
        return sum(result.cpu_s for _, result in self._results())
