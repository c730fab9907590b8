"""The tables of a campaign: written when all runs have ended, and read as data frames."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.experiments.columns import COLUMNS, TIMING_COLUMNS, Column
from beasy_sched.experiments.expansion import RunSpec, expand
from beasy_sched.experiments.folder import Folder
from beasy_sched.experiments.manifest import Manifest, read_manifest
from beasy_sched.experiments.scenario import Scenario
from beasy_sched.formats.atomic import write_atomic

if TYPE_CHECKING:
    import pandas as pd

_NEEDS_DATA = "tables of campaigns need pandas and pyarrow: pip install 'beasy-sched[data]'"


def check_installed(scenarios: Sequence[Scenario]) -> None:
    """Raise ConfigError, before any run, where a package is missing that the campaign will need."""
    needed = {"pandas": "data", "pyarrow": "data"}
    if any(scenario.plan.make for scenario in scenarios):
        needed["highspy"] = "plan"
    for name, extra in needed.items():
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"this campaign needs {name}: pip install 'beasy-sched[{extra}]'")


def write_tables(folder: Folder, specs: Sequence[RunSpec]) -> int:
    """Write ``runs.parquet`` and ``timings.parquet`` in the order of ``specs``; return the failed runs.

    Raises ConfigError where a run has not ended, or pyarrow is missing, and InputError.
    """
    rows, timings = _collected(folder, specs)
    if len(rows) < len(specs):
        raise ConfigError(f"{len(specs) - len(rows)} runs of {folder.path} have not ended")
    write_atomic(folder.table, _parquet(rows, COLUMNS))
    write_atomic(folder.timings, _parquet(timings, TIMING_COLUMNS))
    return sum(row["status"] == "failed" for row in rows)


def _collected(folder: Folder, specs: Sequence[RunSpec]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows and timings of the runs that have ended."""
    rows, timings = [], []
    for spec in specs:
        ended = folder.ended(spec.key)
        if ended is not None:
            rows.append(ended.row)
            timings.append({"run": spec.key, "wall_s": ended.wall_s, "cpu_s": ended.cpu_s})
    return rows, timings


def _parquet(rows: list[dict[str, Any]], columns: Sequence[Column]) -> bytes:
    """The same rows give the same bytes."""
    table = _table(rows, columns)
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(table, content, compression="snappy")
    return content.getvalue()


def _table(rows: list[dict[str, Any]], columns: Sequence[Column]) -> Any:
    """Rows as an Arrow table."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(_NEEDS_DATA) from None
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
    }
    arrays = [pyarrow.array([row[column.name] for row in rows], types[column.kind]) for column in columns]
    return pyarrow.table(arrays, names=[column.name for column in columns])


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder, to read from."""

    folder: Folder
    manifest: Manifest

    @cached_property
    def specs(self) -> list[RunSpec]:
        """All runs, in the order of the tables."""
        return expand(self.manifest.parsed())

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run that has ended; the columns are in ``docs/campaigns.md``."""
        return self._frame(_collected(self.folder, self.specs)[0], COLUMNS)

    @cached_property
    def timings(self) -> pd.DataFrame:
        """How long each of them took, s."""
        return self._frame(_collected(self.folder, self.specs)[1], TIMING_COLUMNS)

    @property
    def complete(self) -> bool:
        """Whether all runs have ended and the tables are written."""
        return self.folder.table.exists() and len(self.runs) == len(self.specs)

    def trace(self, run: str) -> pd.DataFrame:
        """Return the energy trace of a run, a row a step; see ``docs/outputs.md``.

        Raises InputError where it was not kept.
        """
        path = self.folder.trace(run)
        if path is None:
            raise InputError(
                self.folder.path, f"has no trace of {run!r}: run the campaign with --keep-traces"
            )
        return _pandas().read_csv(path)

    @staticmethod
    def _frame(rows: list[dict[str, Any]], columns: Sequence[Column]) -> pd.DataFrame:
        _pandas()
        # Arrow's own threads now and then abort the interpreter at its end.
        return _table(rows, columns).to_pandas(use_threads=False)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ConfigError(_NEEDS_DATA) from None
    return pandas


def read_campaign(folder: str | Path) -> Campaign:
    """Open a campaign, complete or not. Raises InputError where there is none."""
    place = Folder(Path(folder))
    return Campaign(place, read_manifest(place.manifest))
