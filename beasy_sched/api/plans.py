"""Offline plans from Python."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from beasy_sched.declared import WINDOWS, check_choice
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugin import drawing


class OfflinePlan(PlanStore):
    """The plans of a run's windows, which notebooks display."""

    def plot(self) -> Any:
        """Plot the plan: powers, use and levels of the storages, servers that are on.

        Returns a matplotlib Figure. Raises ConfigError if matplotlib is missing.
        """
        return drawing("plan in a notebook")(self)

    def __repr__(self) -> str:
        """The text that ``beasy-sched plan show`` prints."""
        from beasy_sched.outputs.tables import plan_rows

        rows = [*plan_rows(self)]
        width = max(len(name) for name, _ in rows)
        lines = (f"  {name:<{width}}  {value}".rstrip() for name, value in rows)
        return "\n".join(["Offline plan", *lines])

    def _repr_html_(self) -> str:
        from beasy_sched.outputs.tables import plan_rows

        table: str = drawing("table in a notebook")([*plan_rows(self)], caption="Offline plan")
        return table


def plan(
    platform: PathLike,
    workload: PathLike | Sequence[PathLike] | None = None,
    *,
    demand: PathLike | None = None,
    production: PathLike | None = None,
    production_forecast: str | None = None,
    site: PathLike = "default",
    path: PathLike | None = None,
    windows: int = 1,
    season: PathLike | None = None,
    surplus: Literal["envelope", "store"] = "envelope",
    runs: Literal["profile", "walltime"] = "profile",
    load_uncertainty_pct: tuple[float, float] = (5.0, 30.0),
    renew_uncertainty_pct: tuple[float, float] = (5.0, 30.0),
    minimum_on_s: float = 3600.0,
    forecast_step_s: float = 0.0,
    unit: str | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> OfflinePlan:
    """Compute a plan for power and servers from forecasts of demand and production.

    Pass the plan to `simulate` as ``plan``. The demand is that of ``workload``, or ``demand``; the production
    is ``production``, or the prediction of ``production_forecast``.

    Args:
        platform: SimGrid platform file.
        workload: Batsim workload file, or several.
        demand: file of powers (CSV or events), or of their quantiles (CSV), instead of a workload.
        production: file of powers (CSV or events).
        production_forecast: a forecast, as issued at time 0: a forecast file, ``"predictor:FILE"``,
            ``"perfect:EVENTS"`` or ``"none"``.
        site: site file; ``"default"`` is the built-in site.
        path: also write the plan to this file.
        windows: number of planning windows of the site to plan in sequence.
        season: seasonal plan (``beasy-sched plan --season``) with the hydrogen targets of the windows.
        surplus: priority for surplus power: the servers (``"envelope"``), or the battery (``"store"``).
        runs: expected run time of jobs: from their ``"profile"``, or their ``"walltime"``.
        load_uncertainty_pct: uncertainty of the demand, at the start and after 72 h, percent.
        renew_uncertainty_pct: the same for the production.
        minimum_on_s: minimum time that a server stays on after waking, seconds.
        forecast_step_s: plan for the demand's mean over this time, s, a multiple of the site's step; 0: over
            each step.
        unit: unit of CSV columns whose name states none: ``"W"``, ``"kW"``, ``"MW"``, or ``"kWh"`` for the
            energy of each row.
        time_limit_s: stop each search after this time, s; the plan then depends on the machine.
        progress: called with the share that is done, 0 to 1.

    Issues a UserWarning for anything unusual. Raises ConfigError and InputError, and `NoPlan` (a
    BeasyError) if there is no feasible plan.
    """
    from beasy_sched.formats.plan_file import write_plans
    from beasy_sched.model.choices import Surplus
    from beasy_sched.planner.offline import PlanSources, plan_from_files
    from beasy_sched.planner.plan_options import PlanOptions

    workloads = [workload] if isinstance(workload, str | os.PathLike) else [*(workload or ())]
    _check_one("the demand", {"workload": workloads or None, "demand": demand})
    _check_one("the production", {"production": production, "production_forecast": production_forecast})
    check_choice("surplus", surplus, [each.value for each in Surplus])
    check_choice("runs", runs, ["profile", "walltime"])
    if not WINDOWS.holds(windows):
        raise ConfigError(f"windows: found {windows}, expected {WINDOWS.expected}")
    texts: list[str] = []
    sources = PlanSources(
        platform,
        site,
        workloads=workloads,
        demand=demand,
        production=production,
        production_forecast=production_forecast,
        windows=windows,
        season=season,
        walltimes=runs == "walltime",
        unit=unit,
        tell=lambda kind, text: texts.append(text),
    )
    options = PlanOptions(
        surplus=Surplus(surplus),
        load_uncertainty_pct=load_uncertainty_pct,
        renew_uncertainty_pct=renew_uncertainty_pct,
        minimum_on_s=minimum_on_s,
        forecast_step_s=forecast_step_s,
        time_limit_s=time_limit_s,
    )
    try:
        made = OfflinePlan([*plan_from_files(sources, options.settled(), progress)])
    finally:
        for text in texts:
            warnings.warn(text, stacklevel=2)
    if path is not None:
        write_plans(path, made)
    return made


def _check_one(what: str, given: dict[str, object]) -> None:
    """Raise ConfigError unless exactly one is given."""
    if sum(value is not None for value in given.values()) != 1:
        raise ConfigError(f"{what} must have one source: give either {' or '.join(given)}")
