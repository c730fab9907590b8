"""What a run wrote, as pandas data frames."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.reading import read_text, reading

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """The files of one run, read when they are asked for."""

    prefix: str

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Outcomes, quality, site and energy, as in ``PREFIX_summary.json``."""
        path = Path(f"{self.prefix}_summary.json")
        try:
            summary = json.loads(read_text(path), parse_constant=_no_number)
        except ValueError as error:
            raise InputError(path, f"is not JSON: {error}") from None
        except RecursionError:
            raise InputError(path, "is nested too deeply for a summary") from None
        if not isinstance(summary, dict):
            raise InputError(path, "is not the summary of a run: expected an object")
        return summary

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """One row a job, as Batsim writes them; times in s, energies in J."""
        return self._csv("jobs", {"job_id": str, "profile": str, "allocated_resources": str})

    @cached_property
    def energy_trace(self) -> pd.DataFrame:
        """One row a step of the site; powers in W."""
        return self._csv("energy_trace")

    @cached_property
    def machine_states(self) -> pd.DataFrame:
        """How many hosts are in each state, whenever that changes."""
        return self._csv("machine_states")

    @cached_property
    def pstate_changes(self) -> pd.DataFrame:
        """Every change of P-state."""
        return self._csv("pstate_changes", {"machine_id": str})

    @cached_property
    def consumed_energy(self) -> pd.DataFrame:
        """Energy (J) used since time 0, at job starts and ends and P-state changes."""
        return self._csv("consumed_energy")

    @cached_property
    def schedule(self) -> pd.DataFrame:
        """Batsim's one-row summary."""
        return self._csv("schedule")

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """The decision log: time (s), action, job, hosts, rule, facts (a dictionary)."""
        return self._read("decisions.jsonl", lambda pandas, path: pandas.read_json(path, lines=True))

    def _csv(self, name: str, types: dict[str, type] | None = None) -> pd.DataFrame:
        return self._read(f"{name}.csv", lambda pandas, path: pandas.read_csv(path, dtype=types))

    def _read(self, name: str, read: Callable[[Any, Path], pd.DataFrame]) -> pd.DataFrame:
        try:
            import pandas
        except ImportError:
            raise ConfigError("data frames need pandas: pip install 'beasy-sched[data]'") from None
        path = Path(f"{self.prefix}_{name}")
        try:
            with reading(path):
                return read(pandas, path)
        except (ValueError, OverflowError, RecursionError) as error:
            raise InputError(path, f"cannot be read as a table: {error}") from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON's")


def read_run(prefix: str | os.PathLike[str]) -> Run:
    """Open the results of a run by the prefix of its files. Raises InputError where there are none."""
    run = Run(os.fspath(prefix))
    _ = run.summary
    return run
