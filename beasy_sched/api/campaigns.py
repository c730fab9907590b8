"""Campaigns from Python: many runs, in parallel, and their table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beasy_sched.errors import ConfigError, PathLike

if TYPE_CHECKING:
    import pandas as pd

    from beasy_sched.campaign.tasks import Keep


def campaign(
    scenarios: PathLike | Sequence[PathLike],
    folder: PathLike,
    *,
    quick: bool = False,
    keep: Keep = "nothing",
    jobs: int | None = None,
    time_limit_s: float | None = None,
    retry_failed: bool = False,
    allow_policies: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Run scenarios, every policy, guard setting and seed of each, and return the table of the runs.

    A campaign that was interrupted continues when it is called again, and gives the same table. Each run has
    its own process; in a script, call this below ``if __name__ == "__main__":``.

    Args:
        scenarios: scenario files, or names of those that come with the program, such as ``"best-begin"``.
        folder: the campaign's folder; ``runs.parquet`` in it has the table, too.
        quick: try it out: 24 h, fewer jobs, two tuples, one seed.
        keep: what is kept of each run in the folder: ``"nothing"``, its energy ``"trace"`` or
            ``"everything"``.
        jobs: how many runs at a time (default: as many as there are processors).
        time_limit_s: stop a run that takes longer, s; it counts as failed (default: 6 h).
        retry_failed: run failed runs again.
        allow_policies: policies ``"package.module:Class"`` that the scenarios may import.
        progress: called with how many runs have ended, and how many there are.

    Issues a UserWarning for what the runs warned of, and for runs that failed: ``status`` and ``error`` of
    their rows tell why. Raises ConfigError, InputError and MachineError.
    """
    from beasy_sched.campaign.campaign import begin, go_on
    from beasy_sched.campaign.scenario_file import find_scenario
    from beasy_sched.campaign.table import read_campaign
    from beasy_sched.campaign.workers import TIME_LIMIT_S, Processes, processors

    names = [scenarios] if isinstance(scenarios, str | os.PathLike) else [*scenarios]
    if not names:
        raise ConfigError("scenarios: found none, expected at least one")
    if keep not in ("nothing", "trace", "everything"):
        raise ConfigError(f"keep: found {keep!r}, expected 'nothing', 'trace' or 'everything'")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: found {jobs}, expected at least 1")
    place = Path(folder)
    found = [find_scenario(os.fspath(name), allowed=tuple(allow_policies)) for name in names]
    begin(found, place, small=quick, keep=keep)
    outcome = go_on(
        place,
        Processes(jobs or processors(), TIME_LIMIT_S if time_limit_s is None else time_limit_s),
        progress=progress,
        retry_failed=retry_failed,
        allowed=allow_policies,
    )
    for text, count in outcome.warnings.items():
        warnings.warn(f"{count} of {outcome.executed} runs: {text}", stacklevel=2)
    if outcome.failed:
        warnings.warn(f"{outcome.failed} of {outcome.runs} runs failed", stacklevel=2)
    return read_campaign(place).runs
