"""Campaigns from Python."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from beasy_sched.declared import check_choice
from beasy_sched.errors import ConfigError, PathLike

if TYPE_CHECKING:
    import pandas as pd

    from beasy_sched.plugins.campaigns.tasks import Keep


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
    """Run scenarios, with every policy, guard setting and seed, and return the table of the runs.

    A campaign that was interrupted continues when called again, and gives the same table. Each run has
    its own process; in a script, call this below ``if __name__ == "__main__":``.

    Args:
        scenarios: scenario files, or names of built-in scenarios, such as ``"best-begin"``.
        folder: the campaign's folder; it also contains the table, ``runs.parquet``.
        quick: quick trial: 24 h, fewer jobs, two tuples, one seed.
        keep: files of each run to keep in the folder: ``"nothing"``, its energy ``"trace"`` or
            ``"everything"``.
        jobs: number of runs executed in parallel (default: the number of processors).
        time_limit_s: stop a run that takes longer, s; it counts as failed (default: 6 h).
        retry_failed: rerun failed runs.
        allow_policies: policies ``"package.module:Class"`` that the scenarios may import.
        progress: called with the number of finished runs and the number of all runs.

    Issues a UserWarning for warnings of the runs, and for runs that failed: ``status`` and ``error`` of
    their rows give the reasons. Raises ConfigError, InputError and MachineError.
    """
    from beasy_sched.plugins.campaigns.campaign import begin, go_on
    from beasy_sched.plugins.campaigns.campaign_table import read_campaign
    from beasy_sched.plugins.campaigns.processes import Processes
    from beasy_sched.plugins.campaigns.scenario_file import find_scenario
    from beasy_sched.plugins.campaigns.tasks import Keep
    from beasy_sched.plugins.campaigns.workers import TIME_LIMIT_S, processors

    names = [scenarios] if isinstance(scenarios, str | os.PathLike) else [*scenarios]
    if not names:
        raise ConfigError("scenarios: found none, expected at least one")
    check_choice("keep", keep, get_args(Keep))
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: found {jobs}, expected at least 1")
    place = Path(folder)
    chosen = [find_scenario(os.fspath(name), allowed=tuple(allow_policies)) for name in names]
    begin(chosen, place, small=quick, keep=keep)
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
