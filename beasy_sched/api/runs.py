"""Runs from Python: simulate, read and compare."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from beasy_sched.declared import check_choice
from beasy_sched.errors import BeasyError, ConfigError, InputError, PathLike
from beasy_sched.extras import load_optional
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.model.choices import OnKill, Placement
from beasy_sched.plugin import drawing
from beasy_sched.run.results import Places, RunTables, find_runs, place_of, places_of

if TYPE_CHECKING:
    import pandas as pd

    from beasy_sched.engine.policy import Policy
    from beasy_sched.outputs.tables import Contender
    from beasy_sched.planner.plan import PlanStore


@dataclass(frozen=True, repr=False)
class Run(RunTables):
    """The results of a run, read from its files on first use.

    ``summary`` is a dictionary; ``jobs``, ``energy_trace``, ``decisions`` and the other tables are pandas
    data frames. A notebook shows the main figures and the state of charge over time.
    """

    def plot(self, *, width: float = 11.0) -> Any:
        """Plot the run: storage levels, production and demand, and servers by state, over time.

        Args:
            width: width of the figure, inches.

        Returns a matplotlib Figure, which ``savefig`` writes to a file. Raises ConfigError if matplotlib
        or pandas is missing, and InputError if the run has no files to plot.
        """
        return drawing("run")(self.prefix, width=width)

    def __repr__(self) -> str:
        """The main figures, as plain text."""
        from beasy_sched.outputs.tables import main_rows

        title = f"Run {self.prefix!r}"
        try:
            rows = main_rows(read_summary(self.prefix))
        except BeasyError as error:
            return f"{title}: {error}"
        width = max(len(name) for name, _ in rows)
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str | None:
        """HTML for notebooks; None, so that they show the text, if the files cannot be read."""
        try:
            card: str = drawing("run in a notebook")(self.prefix)
            return card
        except BeasyError:
            return None


def read_run(prefix: PathLike) -> Run:
    """Open the results of a run by the prefix of its files, such as ``"out/easy"``.

    Raises InputError if there are none.
    """
    run = Run(os.fspath(prefix))
    _ = run.summary
    return run


def simulate(
    platform: PathLike,
    workload: PathLike,
    events: PathLike | None = None,
    *,
    policy: str | type[Policy] = "easy",
    options: Mapping[str, Any] | None = None,
    site: PathLike | None = None,
    plan: PathLike | PlanStore | None = None,
    windows: int = 1,
    forecast: str | None = None,
    replan: str | None = None,
    failures: PathLike | None = None,
    retry_s: float | None = None,
    placement: Literal["own", "external"] | None = None,
    suspend_s: float | None = None,
    on_kill: Literal["drop", "requeue", "checkpoint"] | None = None,
    export: PathLike | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run a policy on the embedded simulator, and return its results.

    Args:
        platform: SimGrid platform file.
        workload: Batsim workload file.
        events: external events, such as the power produced.
        policy: a policy's name, ``"package.module:Class"``, or your own class.
        options: options of the policy, as ``{"priority": "slowdown"}``.
        site: site file; ``"default"`` is the built-in site.
        plan: an offline plan, required by some policies: its file, or the return value of `plan`.
        windows: length of the run in planning windows of the site (72 h each by default).
        forecast: predictions of the production, as for ``--forecast``: a forecast file,
            ``"predictor:FILE"``, or ``"perfect"``, the production of ``events``.
        replan: replan during the run from the current storage levels: at each ``"window"``, or at an interval
            such as ``"12h"``; plans assume ``workload`` and the forecast, or else ``events``.
        failures: file of server failures (not available in Batsim): breakdowns and failed wake-ups.
        retry_s: initial delay before retrying to wake a server that failed to wake (default: 300;
            doubles with each further failure, up to 12 times), s.
        placement: who starts jobs: the policy (``"own"``, the default), or an EASY scheduler within the
            servers that the policy offers (``"external"``), as Slurm does when it keeps placing jobs.
        suspend_s: with external placement: put servers to sleep that have been idle for this time, s, as
            Slurm's SuspendTime (default: only those that are not offered).
        on_kill: treatment of a job that the guard, the policy or a broken server ends: it is lost
            (``"drop"``, the default), is submitted again from its beginning (``"requeue"``), or with what its
            last checkpoint left (``"checkpoint"``).
        export: prefix of the files to write, such as ``"out/easy"`` (default: in a new temporary folder).
        progress: called from time to time with the share of the jobs submitted, 0 to 1.

    Issues a UserWarning for unusual inputs and for an incomplete run. Raises ConfigError, InputError and
    any error that ends the run early.
    """
    from beasy_sched.formats.forecast_source import with_own_events
    from beasy_sched.formats.site_file import read_site_text
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.planner.replanner import with_own_inputs
    from beasy_sched.run.in_process import run_in_process
    from beasy_sched.run.repeating import InputsKeeper
    from beasy_sched.run.settings import ReplanSettings, RunSettings
    from beasy_sched.simulator import Inputs

    all_events = [] if events is None else [events]
    settings = RunSettings(
        policy=policy_name(policy),
        options=dict(options or {}),
        site=None if site is None else read_site_text(site),
        site_name=str(site),
        plan=None if plan is None else _plan_file(plan),
        forecast=with_own_events(forecast, all_events),
        windows=windows,
        replan=None if replan is None else ReplanSettings(replan),
        retry_s=UNSET if retry_s is None else retry_s,
        placement=UNSET if placement is None else _placement(placement),
        suspend_s=UNSET if suspend_s is None else suspend_s,
        on_kill=UNSET if on_kill is None else _on_kill(on_kill),
    )
    settings = with_own_inputs(settings, [workload], all_events)
    prefix = os.fspath(export) if export is not None else os.path.join(_new_folder(), "run")
    inputs = Inputs(platform, [workload], all_events, failures=failures)
    keeper = InputsKeeper(prefix, inputs, settings)
    summary = run_in_process(inputs, RunFiles(prefix, settings), progress, followers=[keeper])
    for text in summary.warnings:
        warnings.warn(text, stacklevel=2)
    if not summary.complete:
        warnings.warn(f"the run is incomplete: {summary.error or 'it ended early'}", stacklevel=2)
    return read_run(prefix)


def _placement(name: str) -> Placement:
    """Return a placement by its name. Raises ConfigError."""
    check_choice("placement", name, [each.value for each in Placement])
    return Placement(name)


def _on_kill(name: str) -> OnKill:
    """Return what a kill does by its name. Raises ConfigError."""
    check_choice("on_kill", name, [each.value for each in OnKill])
    return OnKill(name)


def policy_name(policy: str | type[Policy]) -> str:
    """Return the name by which a policy is loaded; for a class, its import path. Raises ConfigError."""
    if isinstance(policy, str):
        return policy
    if not isinstance(policy, type):
        raise ConfigError(f"policy: found {policy!r:.80}, expected a name or a class")
    if "." in policy.__qualname__:
        raise ConfigError(f"policy: found {policy.__qualname__}, expected a class defined at module level")
    return f"{policy.__module__}:{policy.__qualname__}"


def _plan_file(plan: PathLike | PlanStore) -> str:
    """Return the file of a plan; a plan without a file is written to a new temporary folder."""
    if isinstance(plan, str | os.PathLike):
        return os.fspath(plan)
    from beasy_sched.formats.plan_file import write_plans

    path = Path(_new_folder()) / "plan.msgpack"
    write_plans(path, plan)
    return str(path)


def _new_folder() -> str:
    return tempfile.mkdtemp(prefix="beasy-sched-")


def compare(
    runs: Places | Mapping[str, RunTables | PathLike],
) -> pd.DataFrame:
    """Return a table with one row per run and the columns of ``beasy-sched compare``.

    Args:
        runs: results of `simulate` or `read_run`, prefixes of runs, or folders of runs; or a dictionary of
            row names with one run each.

    Rows are named by policy if each run has a different one, else by the runs' names. Jobs are in percent of
    those submitted, energies in kWh. A run that failed has no figures, but a ``problem``. The table is
    displayed as the command prints it. Raises ConfigError if pandas is missing, and InputError if there is
    no run.
    """
    load_optional("pandas", "beasy-sched[data]", "data frames")
    from beasy_sched.api.comparison_frame import comparison_frame

    return comparison_frame(_contenders(runs))


def _contenders(
    runs: Places | Mapping[str, RunTables | PathLike],
) -> list[Contender]:
    """Return the runs with their names, each once."""
    if isinstance(runs, Mapping):
        named = {str(name): [*find_runs([place_of(run)]).values()] for name, run in runs.items()}
        for name, prefixes in named.items():
            if len(prefixes) > 1:
                raise ConfigError(f"runs: {name!r} matches {len(prefixes)} runs, expected one")
        return [_contender(name, prefix) for name, (prefix,) in named.items()]
    contenders = [_contender(name, prefix) for name, prefix in find_runs(places_of(runs)).items()]
    policies = [each.summary.settings.policy for each in contenders if each.summary is not None]
    if len(set(policies)) == len(contenders):
        return [replace(each, policy=policy) for each, policy in zip(contenders, policies, strict=True)]
    return contenders


def _contender(name: str, prefix: str) -> Contender:
    from beasy_sched.outputs.tables import Contender

    try:
        return Contender(name, read_summary(prefix))
    except InputError as error:
        return Contender(name, None, str(error))
