"""The summary of a run: one dictionary, which `summary.json` and the terminal's table are made of."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.errors import own_mistakes
from beasy_sched.model.job import JobState
from beasy_sched.model.power import USES
from beasy_sched.plan.store import PlanStore
from beasy_sched.session import Session
from beasy_sched.session.power import PowerSide
from beasy_sched.settings import RunSettings
from beasy_sched.units import j_to_kwh

_LOST = (JobState.KILLED, JobState.WALLTIME_REACHED, JobState.UNFINISHED)
"""What the BEASY paper's tables call killed."""


def summarize(
    session: Session, settings: RunSettings, error: str | None = None, *, results: bool = True
) -> dict[str, Any]:
    """Return what a run came to; ``error`` says why it ended early, where it did.

    ``results``: with the policy's own sections. Raises PolicyError where those cannot be had.
    """
    counts = session.outcomes.counts()
    summary: dict[str, Any] = {
        "version": __version__,
        "complete": error is None and session.ended,
        "error": error,
        "settings": {
            "policy": settings.policy,
            "options": settings.options,
            "plan": settings.plan,
            "windows": settings.windows if session.power else None,
            "energy": settings.energy.value,
            "power_actions": settings.power_actions,
        },
        "end_s": session.now if np.isfinite(session.now) else None,
        "hosts": session.cluster.size if session.cluster else None,
        "jobs": {
            "submitted": session.submitted,
            **{name.replace(" ", "_"): count for name, count in counts.items()},
            "still_waiting": len(session.cluster.queue) if session.cluster else 0,
            "still_running": len(session.cluster.running) if session.cluster else 0,
        },
        "killed_as_in_paper": sum(counts[state.value] for state in _LOST),
        "windows": [*session.windows],
        "quality": _quality_part(session),
        "warnings": [*session.warnings, *(session.power.warnings if session.power else ())],
    }
    if session.power is not None:
        summary["site"] = _site_part(session.power)
        summary["energy_kwh"] = _energy_part(session, session.power)
        if session.power.plans is not None:
            summary["planned"] = _planned_part(session.power, session.power.plans)
    if results and session.cluster is not None:
        summary |= _policy_part(session, settings, summary)
    return summary


def _policy_part(session: Session, settings: RunSettings, ours: Collection[str]) -> dict[str, Any]:
    """Return the sections that the policy adds. Raises PolicyError for what no file can hold."""
    with own_mistakes(f"policy {settings.policy!r} failed at the end of the run, in results"):
        found = session.policy.results()
        if not isinstance(found, dict):
            raise TypeError(f"it returned {type(found).__name__}, expected a dictionary of sections")
        taken = sorted(set(ours) & set(found))
        if taken:
            raise ValueError(f"the summary has a section {taken[0]!r} already")
        json.dumps(found, allow_nan=False)
    return found


def _quality_part(session: Session) -> dict[str, Any]:
    quality: dict[str, Any] = {**session.outcomes.metrics(), "utilization": None}
    if session.cluster is not None:
        offered = session.cluster.size * session.now
        quality["utilization"] = quality["host_seconds"] / offered if offered > 0 else None
        quality["server_switches"] = session.commander.switches
        quality["speed_changes"] = session.commander.speed_changes
    return quality


def _site_part(power: PowerSide) -> dict[str, Any]:
    battery, guard = power.site.storage.battery, power.site.guard
    soc_pct = battery.soc_pct(power.storage.battery_j)
    part = {
        "guard": guard.mode.value,
        "veto": guard.veto,
        "steps": len(power.trace),
        "soc_start_pct": battery.soc_start_pct,
        "soc_final_pct": soc_pct,
        "soc_target_pct": battery.soc_target_pct,
        "soc_min_pct": battery.soc_min_pct,
        "soc_max_pct": battery.soc_max_pct,
        "soc_distance_points": soc_pct - battery.soc_target_pct,
        "soc_lowest_pct": min((row.record.soc_after_pct for row in power.trace), default=soc_pct),
        "largest_relative_residual": max((row.record.relative_residual for row in power.trace), default=0.0),
    }
    hydrogen = power.site.storage.hydrogen
    if hydrogen is not None:
        part["hydrogen_final_kg"] = power.storage.hydrogen_kg
        part["hydrogen_distance_kg"] = power.storage.hydrogen_kg - hydrogen.level_target_kg
    return part


def _planned_part(power: PowerSide, plans: PlanStore) -> dict[str, Any]:
    """Return what the plan had foreseen for the time that has been settled."""
    places = [place for row in power.trace if (place := plans.place(row.start_s)) is not None]
    totals_j = dict.fromkeys(("production", "load", "servers", "charged", "discharged", "curtailed"), 0.0)
    for window, step in places:
        plan = plans[window]
        planned_w = plan.power
        totals_j["production"] += planned_w.renew_w[step] * plan.step_s
        totals_j["load"] += planned_w.load_w[step] * plan.step_s
        totals_j["servers"] += 0.0 if plan.servers is None else plan.servers.energy_j[step]
        totals_j["charged"] += planned_w.charge_w[step] * plan.step_s
        totals_j["discharged"] += planned_w.discharge_w[step] * plan.step_s
        totals_j["curtailed"] += planned_w.curtailed_w[step] * plan.step_s
    part: dict[str, Any] = {
        "steps": len(places),
        "energy_kwh": {name: j_to_kwh(float(value)) for name, value in totals_j.items()},
    }
    if places:
        last = plans[places[-1].window]
        part["soc_final_pct"] = float(last.soc_pct[places[-1].step + 1])
        part["hydrogen_final_kg"] = float(last.power.hydrogen_kg[places[-1].step + 1])
        part["relax_factor"] = max(plans[window].power.relax_factor for window, _ in places)
    return part


def _energy_part(session: Session, power: PowerSide) -> dict[str, float]:
    records = [row.record for row in power.trace]
    by_use = dict(zip(USES, power.account.energy_by_use_j.tolist(), strict=True))
    finished_j = session.outcomes.energy_j(JobState.FINISHED, JobState.FAILED)
    used_j = sum(by_use.values())
    parts_j = {
        "production": sum(r.renew_w * r.dt_s for r in records),
        "consumed": sum(r.consumed_j for r in records),
        "consumed_by_own_account": used_j,
        "finished_jobs": finished_j,
        "other_jobs": by_use["computing"] - finished_j,
        "idle": by_use["idle"],
        "transitions": by_use["switching off"] + by_use["switching on"],
        "sleeping": by_use["sleeping"],
        "wasted": used_j - finished_j,
        "charged": sum(r.charge_w * r.dt_s for r in records),
        "discharged": sum(r.discharge_w * r.dt_s for r in records),
        "electrolyzer": sum(r.electrolyzer_w * r.dt_s for r in records),
        "fuel_cell": sum(r.fuel_cell_w * r.dt_s for r in records),
        "curtailed": sum(r.curtailed_w * r.dt_s for r in records),
        "unserved": sum(r.unserved_w * r.dt_s for r in records),
    }
    return {name: j_to_kwh(value) for name, value in parts_j.items()}
