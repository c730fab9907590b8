"""Runs from Python: simulate one, read it again, and how it shows itself."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beasy_sched.errors import BeasyError, ConfigError, PathLike
from beasy_sched.results import RunTables

if TYPE_CHECKING:
    from beasy_sched.engine.policy import Policy
    from beasy_sched.plan.plan import PlanStore


@dataclass(frozen=True, repr=False)
class Run(RunTables):
    """The results of a run, read from its files when they are asked for.

    ``summary`` is a dictionary; ``jobs``, ``energy_trace``, ``decisions`` and the other tables are pandas
    data frames. A notebook shows the main figures and the state of charge over time.
    """

    def plot(self, *, width: float = 11.0) -> Any:
        """Draw the run: its storages' levels, production and demand, and its servers by state, over time.

        Args:
            width: width of the picture, inches.

        Returns a matplotlib Figure, which ``savefig`` writes to a file. Raises ConfigError where matplotlib
        or pandas is missing, and InputError where the run has no files to draw.
        """
        from beasy_sched.report.notebook import draw_run

        return draw_run(self.prefix, width=width)

    def __repr__(self) -> str:
        """The main figures, as plain text."""
        from beasy_sched.outputs.tables import main_rows

        title = f"Run {self.prefix!r}"
        try:
            rows = main_rows(self.summary)
        except BeasyError as error:
            return f"{title}: {error}"
        width = max(len(name) for name, _ in rows)
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None, so that it shows the text, where the files cannot be read."""
        from beasy_sched.report.notebook import run_card

        try:
            return run_card(self.prefix, self.summary)
        except BeasyError:
            return None


def read_run(prefix: PathLike) -> Run:
    """Open the results of a run by the prefix of its files, as ``"out/easy"``.

    Raises InputError where there are none.
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
    export: PathLike | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run a policy on the embedded simulator, and return its results.

    Args:
        platform: SimGrid platform file.
        workload: Batsim workload file.
        events: external events, such as the power produced.
        policy: a policy's name, ``"package.module:Class"``, or a class of your own.
        options: options of the policy, as ``{"priority": "slowdown"}``.
        site: site file; ``"default"`` is the one that comes with the program.
        plan: an offline plan, which some policies require: its file, or what `plan` returned.
        windows: how many of the site's windows the run lasts.
        forecast: where predictions of the production come from, as ``--forecast`` names it: a file,
            ``"predictor:FILE"``, or ``"perfect"``, the production of ``events``.
        replan: make plans during the run, at each ``"window"`` or time such as ``"12h"``; they expect
            ``workload`` and the forecast, or else ``events``.
        export: prefix of the files to write, as ``"out/easy"`` (default: in a new temporary folder).
        progress: called now and then with the share of the jobs submitted, 0 to 1.

    Issues a UserWarning for unusual inputs and for an incomplete run. Raises ConfigError, InputError and
    whatever ends the run early.
    """
    from beasy_sched.formats.forecast_source import with_own_events
    from beasy_sched.formats.site_file import read_site_text
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.replan import with_own_inputs
    from beasy_sched.runner import run_in_process
    from beasy_sched.settings import ReplanSettings, RunSettings
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
    )
    settings = with_own_inputs(settings, [workload], all_events)
    prefix = os.fspath(export) if export is not None else os.path.join(_new_folder(), "run")
    summary = run_in_process(Inputs(platform, [workload], all_events), RunFiles(prefix, settings), progress)
    for text in summary["warnings"]:
        warnings.warn(text, stacklevel=2)
    if not summary["complete"]:
        warnings.warn(f"the run is not complete: {summary['error'] or 'it ended early'}", stacklevel=2)
    return read_run(prefix)


def policy_name(policy: str | type[Policy]) -> str:
    """Return the name by which a policy is found again; of a class, where it stands. Raises ConfigError."""
    if isinstance(policy, str):
        return policy
    if not isinstance(policy, type):
        raise ConfigError(f"policy: found {policy!r:.80}, expected a name or a class")
    if "." in policy.__qualname__:
        raise ConfigError(
            f"policy: found {policy.__qualname__}, expected a class that stands by itself in its module"
        )
    return f"{policy.__module__}:{policy.__qualname__}"


def _plan_file(plan: PathLike | PlanStore) -> str:
    """Return the file of a plan; one that has none is written to a new temporary folder."""
    if isinstance(plan, str | os.PathLike):
        return os.fspath(plan)
    from beasy_sched.formats.plan_file import write_plans

    path = Path(_new_folder()) / "plan.msgpack"
    write_plans(path, plan)
    return str(path)


def _new_folder() -> str:
    return tempfile.mkdtemp(prefix="beasy-sched-")
