"""The summary of a run: one dictionary, which `summary.json` and the terminal's table are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.storage import BatterySpec
from beasy_sched.engine import Session
from beasy_sched.engine.power import PowerSide
from beasy_sched.errors import BeasyError, Failures, PolicyError
from beasy_sched.model.host_states import USES
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.deadlines import deadlines_part
from beasy_sched.outputs.plans import replanning_part
from beasy_sched.planner.plan import PlanStore
from beasy_sched.run.settings import RunSettings
from beasy_sched.units import j_to_kwh

SITE_CHOICES: Final = ("start", "guard", "veto", "hydrogen_hold")
"""Entries of the section ``site`` that are choices of the site file; the others are numbers."""
LOST = (JobState.KILLED, JobState.WALLTIME_REACHED, JobState.UNFINISHED)
"""What the BEASY paper's tables call killed."""
DONE = (JobState.FINISHED, JobState.FAILED)
"""Jobs whose energy is not wasted."""
_ACCOUNTS_APART = 0.01
"""The share of the metered energy by which the daemon's own account may differ without a warning."""


OWN_PARTS: Final = frozenset(
    {"version", "complete", "error", "settings", "end_s", "hosts", "jobs", "killed_as_in_paper", "windows"}
    | {"reasons", "quality", "deadlines", "site", "energy_kwh", "grid", "planned", "replanning", "warnings"}
)
"""Names of the summary's own parts; all others are sections of the policy."""


def summarize(
    session: Session, settings: RunSettings, error: str | None = None, failures: Failures | None = None
) -> dict[str, Any]:
    """Return the results of a run as plain JSON values; ``error`` says why it ended early, where it did.

    A section that cannot be made is empty, a number that is infinite null; ``failures`` is told, and the
    summary's warnings.
    """
    failures = Failures() if failures is None else failures
    known = len(failures.all)
    summary = _section("settings and jobs", lambda: _head(session, settings, error), failures)
    summary |= {name: _section(name, make, failures) for name, make in _sections(session).items()}
    with failures.noted("the policy's results"):
        summary |= _policy_part(session, failures)
    told = [str(failure) for failure in failures.all[known:]]
    power_warnings = _power_warnings(session.power) if session.power else ()
    warnings = [*session.warnings, *session.workflows.warnings, *power_warnings, *told]
    return {**summary, "warnings": [*dict.fromkeys(warnings)]}


def brief_summary(session: Session, settings: RunSettings, error: str) -> dict[str, Any]:
    """Return the parts of a summary that take no time to make: settings, jobs and their quality."""
    failures = Failures()
    summary = _section("settings and jobs", lambda: _head(session, settings, error), failures)
    summary["quality"] = _section("quality", lambda: _quality_part(session), failures)
    told = (*session.warnings, *session.workflows.warnings, *map(str, failures.all))
    return {**summary, "warnings": [*dict.fromkeys(told)]}


def _head(session: Session, settings: RunSettings, error: str | None) -> dict[str, Any]:
    counts = session.outcomes.counts()
    return {
        "version": __version__,
        "complete": error is None and session.ended,
        "error": error,
        "settings": {
            "policy": settings.policy,
            "options": settings.options,
            "site": None if settings.site is None else settings.site_name,
            "plan": settings.plan,
            **({} if settings.forecast is None else {"forecast": settings.forecast}),
            **({} if settings.replan is None else {"replan": msgspec.to_builtins(settings.replan)}),
            "windows": settings.windows if session.power else None,
            "energy": (session.power or settings).energy.value,
            "power_actions": settings.power_actions,
        },
        "end_s": session.now if np.isfinite(session.now) else None,
        "hosts": session.cluster.size if session.begun else None,
        "jobs": {
            "submitted": session.submitted,
            **{name.replace(" ", "_"): count for name, count in counts.items()},
            "still_waiting": len(session.cluster.queue) + len(session.workflows.held),
            "still_running": len(session.cluster.running),
        },
        "reasons": {
            state.value: dict(rules.most_common()) for state, rules in session.reasons.items() if rules
        },
        "killed_as_in_paper": sum(counts[state.value] for state in LOST),
        "windows": [*session.windows],
    }


def _sections(session: Session) -> dict[str, Callable[[], dict[str, Any]]]:
    sections: dict[str, Callable[[], dict[str, Any]]] = {"quality": lambda: _quality_part(session)}
    if jobs := session.workflows.with_deadline:
        sections["deadlines"] = lambda: deadlines_part(jobs)
    power = session.power
    if power is not None:
        sections["site"] = lambda: _site_part(power)
        sections["energy_kwh"] = lambda: _energy_part(session, power)
        grid = power.site.grid
        if grid is not None:
            sections["grid"] = lambda: _grid_part(power, grid)
        plans = power.plans
        if plans is not None:
            sections["planned"] = lambda: _planned_part(power, plans)
    if (replanning := session.replanning) is not None:
        sections["replanning"] = lambda: replanning_part(replanning)
    return sections


def _section(name: str, make: Callable[[], dict[str, Any]], failures: Failures) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    with failures.noted(f"the summary's section {name!r}"), np.errstate(all="ignore"):
        plain, wrong = _plain(make(), name)
        if wrong:
            raise BeasyError(f"the summary's section {name!r}: {wrong[0]}")
    return plain


def _policy_part(session: Session, failures: Failures) -> dict[str, Any]:
    """The sections that the policy adds."""
    results = session.results()
    if not isinstance(results, Mapping):
        raise PolicyError(
            f"results() of the policy: found {results!r:.80}, expected a dictionary of sections"
        )
    plain, wrong = _plain(results, "")
    for name in sorted(OWN_PARTS & plain.keys()):
        wrong.append(f"found a section {name!r}, which is the summary's own: choose another name")
    if wrong:
        failures.all.append(PolicyError(f"results() of the policy: {wrong[0]}"))
    return {name: value for name, value in plain.items() if name not in OWN_PARTS}


_DEEPEST = 50


def _plain(value: Any, place: str, depth: int = 0) -> tuple[Any, list[str]]:
    """The value in JSON's own types, null for what JSON has not; and what that was, and where."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value, []
    if isinstance(value, float):
        if np.isfinite(value):
            return value, []
        return None, [f"{place}: found {value}, expected a finite number"]
    if isinstance(value, Mapping | Sequence) and not isinstance(value, bytes) and depth < _DEEPEST:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        found = {
            str(key): _plain(each, f"{place}.{key}" if place else str(key), depth + 1) for key, each in items
        }
        wrong = [text for _, texts in found.values() for text in texts]
        plain = {key: each for key, (each, _) in found.items()}
        return plain if isinstance(value, Mapping) else [*plain.values()], wrong
    return None, [f"{place}: found {value!r:.80}, expected numbers, texts, lists and dictionaries"]


def _power_warnings(power: PowerSide) -> list[str]:
    metered_j, own_j = sum(row.record.consumed_j for row in power.trace), power.settled.used_j
    if abs(own_j - metered_j) <= _ACCOUNTS_APART * max(metered_j, own_j):
        return power.warnings
    apart = (
        f"{100.0 * (own_j / metered_j - 1.0):+.2f} %" if metered_j > 0.0 else "the simulator meters nothing"
    )
    return [
        *power.warnings,
        f"the simulator metered {j_to_kwh(metered_j):.2f} kWh, the daemon's own account has"
        f" {j_to_kwh(own_j):.2f} kWh ({apart}): what it assumes about the hosts is wrong, and so are"
        " the guard's decisions and all energies but 'consumed'; check that the powers and start states in"
        " the platform file are Batsim's, and pass that file with -p",
    ]


def _quality_part(session: Session) -> dict[str, Any]:
    end_s = session.now if session.power is None else min(session.now, session.power.end_s)
    quality: dict[str, Any] = {**session.outcomes.metrics(until_s=end_s), "utilization": None}
    if session.begun:
        offered = session.cluster.size * end_s
        quality["utilization"] = quality["host_seconds"] / offered if offered > 0 else None
        quality["server_switches"] = session.commander.switches
        quality["speed_changes"] = session.commander.speed_changes
    return quality


def _site_part(power: PowerSide) -> dict[str, Any]:
    guard, battery, calendar = power.site.guard, power.site.storage.battery, power.site.calendar
    part: dict[str, Any] = {} if calendar is None else {"start": calendar.local(0.0).isoformat()}
    part |= {
        "guard": guard.mode.value,
        "veto": guard.veto,
        "steps": len(power.trace),
    }
    if battery.exists:
        part |= _battery_part(power, battery)
    part["largest_relative_residual"] = max(
        (row.record.relative_residual for row in power.trace), default=0.0
    )
    hydrogen = power.site.storage.hydrogen
    if hydrogen is not None:
        part["hydrogen_hold"] = hydrogen.hold.value
        part["hydrogen_final_kg"] = power.storage.hydrogen_kg
        part["hydrogen_distance_kg"] = power.storage.hydrogen_kg - hydrogen.level_target_kg
    return part


def _battery_part(power: PowerSide, battery: BatterySpec) -> dict[str, float]:
    soc_pct = battery.soc_pct(power.storage.battery_j)
    return {
        "battery_kwh": j_to_kwh(battery.capacity_j),
        "soc_start_pct": battery.soc_start_pct,
        "soc_final_pct": soc_pct,
        "soc_target_pct": battery.soc_target_pct,
        "soc_min_pct": battery.soc_min_pct,
        "soc_max_pct": battery.soc_max_pct,
        "soc_distance_points": soc_pct - battery.soc_target_pct,
        "soc_lowest_pct": min((row.record.soc_after_pct for row in power.trace), default=soc_pct),
    }


def _grid_part(power: PowerSide, grid: Grid) -> dict[str, Any]:
    """What the grid gave and took, and at what cost; energies in kWh, costs in the site's currency."""
    steps = [(row.record, row.metered) for row in power.trace if row.metered is not None]

    def kwh(name: str) -> float:
        return j_to_kwh(math.fsum(getattr(record, name) * record.dt_s for record, _ in steps))

    import_kwh, load_kwh = kwh("import_w"), kwh("demand_w") + kwh("base_w")
    cost = math.fsum(metered.cost for _, metered in steps)
    grams = [metered.carbon_g for _, metered in steps if metered.carbon_g is not None]
    return {
        "currency": grid.currency,
        "import_limit_w": None if grid.unlimited else grid.import_limit_w,
        "import_kwh": import_kwh,
        "export_kwh": kwh("export_w"),
        "cost": cost,
        "export_revenue": math.fsum(metered.revenue for _, metered in steps),
        "carbon_kg": math.fsum(grams) / 1000.0 if steps and len(grams) == len(steps) else None,
        "green_kwh": kwh("green_w"),
        "green_share": kwh("green_w") / load_kwh if load_kwh > 0.0 else None,
        "mean_import_price": cost / import_kwh if import_kwh > 0.0 else None,
        "peak_import_w": max((record.import_w for record, _ in steps), default=0.0),
    }


def _planned_part(power: PowerSide, plans: PlanStore) -> dict[str, Any]:
    """Return what the plan had foreseen for the time that has been settled."""
    places = (plans.place(row.start_s) for row in power.trace)
    steps = [(plans[place.window], place.step) for place in places if place is not None]

    def kwh(name: str) -> float:
        return j_to_kwh(float(sum(getattr(plan.power, name)[step] * plan.step_s for plan, step in steps)))

    servers_j = sum(plan.servers.energy_j[step] for plan, step in steps if plan.servers is not None)
    part: dict[str, Any] = {
        "steps": len(steps),
        "energy_kwh": {
            "production": kwh("renew_w"),
            "load": kwh("load_w"),
            "servers": j_to_kwh(float(servers_j)),
            "charged": kwh("charge_w"),
            "discharged": kwh("discharge_w"),
            "curtailed": kwh("curtailed_w"),
        },
    }
    if steps:
        last, step = steps[-1]
        if last.storage.battery.exists:
            part["soc_final_pct"] = float(last.soc_pct[step + 1])
        part["hydrogen_final_kg"] = float(last.power.hydrogen_kg[step + 1])
        part["relax_factor"] = max(plan.power.relax_factor for plan, _ in steps)
    return part


def _energy_part(session: Session, power: PowerSide) -> dict[str, float]:
    records = [row.record for row in power.trace]
    settled = power.settled
    by_use = dict(zip(USES, settled.by_use_j.tolist(), strict=True))
    finished_j, others_j = (
        session.outcomes.energy_j(*states, until_s=settled.time_s, running_j=settled.running_j)
        for states in (DONE, tuple(set(JobState) - set(DONE)))
    )
    others_j += sum(settled.running_j.get(job_id, 0.0) for job_id in session.cluster.running)
    switching_j = by_use["switching off"] + by_use["switching on"]

    def total_j(name: str) -> Any:
        return sum(getattr(record, name) * record.dt_s for record in records)

    parts_j = {
        "production": total_j("renew_w"),
        "consumed": sum(record.consumed_j for record in records),
        "consumed_by_own_account": settled.used_j,
        "finished_jobs": finished_j,
        "other_jobs": others_j,
        "idle": by_use["idle"],
        "transitions": switching_j,
        "sleeping": by_use["sleeping"],
        "wasted": others_j + by_use["idle"] + switching_j + by_use["sleeping"],
        "charged": total_j("charge_w"),
        "discharged": total_j("discharge_w"),
        "electrolyzer": total_j("electrolyzer_w"),
        "fuel_cell": total_j("fuel_cell_w"),
        "curtailed": total_j("curtailed_w"),
        "unserved": total_j("unserved_w"),
    }
    if power.site.metered:
        parts_j |= {"base": total_j("base_w"), "import": total_j("import_w"), "export": total_j("export_w")}
    return {name: j_to_kwh(value) for name, value in parts_j.items()}
