"""Runs beside each other, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.results import RunTables, find_runs, place_of

if TYPE_CHECKING:
    import pandas as pd

    from beasy_sched.outputs.tables import Contender


def compare(
    runs: RunTables | PathLike | Sequence[RunTables | PathLike] | Mapping[str, RunTables | PathLike],
) -> pd.DataFrame:
    """Return a table of runs: a run a row, with the columns that ``scripts/run`` prints.

    Args:
        runs: what `simulate` or `read_run` returned, prefixes of runs, or folders of them; or a dictionary
            of one run each, by the names that their rows shall have.

    Rows are named by policy where each run has another one, else by the runs' names. Jobs are in percent of
    those submitted, energies in kWh. A run that failed has no figures, and a ``problem``. The table shows
    itself as ``scripts/run`` does. Raises ConfigError where pandas is missing, and InputError where there is
    no run.
    """
    try:
        from beasy_sched.api.comparison_frame import comparison_frame
    except ImportError:
        raise ConfigError("data frames need pandas: pip install 'beasy-sched[data]'") from None
    return comparison_frame(_contenders(runs))


def _contenders(
    runs: RunTables | PathLike | Sequence[RunTables | PathLike] | Mapping[str, RunTables | PathLike],
) -> list[Contender]:
    """Return the runs with their names, each once."""
    if isinstance(runs, Mapping):
        named = {str(name): [*find_runs([place_of(run)]).values()] for name, run in runs.items()}
        for name, prefixes in named.items():
            if len(prefixes) > 1:
                raise ConfigError(f"runs: {name!r} stands for {len(prefixes)} runs, expected one")
        return [_contender(name, prefix) for name, (prefix,) in named.items()]
    places = [runs] if isinstance(runs, str | os.PathLike | RunTables) else [*runs]
    if not places:
        raise ConfigError("runs: found none, expected at least one")
    found = [
        _contender(name, prefix) for name, prefix in find_runs([place_of(run) for run in places]).items()
    ]
    policies = [each.summary["settings"]["policy"] for each in found if each.summary is not None]
    if len(set(policies)) == len(found):
        from dataclasses import replace

        return [replace(each, policy=policy) for each, policy in zip(found, policies, strict=True)]
    return found


def _contender(name: str, prefix: str) -> Contender:
    from beasy_sched.outputs.tables import Contender

    try:
        return Contender(name, RunTables(prefix).summary)
    except InputError as error:
        return Contender(name, None, str(error))
