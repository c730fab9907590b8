"""A plan for other programs: JSON with everything, CSV with one row a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from beasy_sched.plan.plan import Plan, PlannedServers
from beasy_sched.plan.store import PlanStore

CSV_COLUMNS = (
    "window",
    "step",
    "time_s",
    "load_w",
    "load_uncertainty",
    "renew_w",
    "renew_uncertainty",
    "charge_w",
    "discharge_w",
    "electrolyzer_w",
    "fuel_cell_w",
    "curtailed_w",
    "envelope_w",
    "soc_pct",
    "hydrogen_kg",
    "servers_on",
    "server_energy_j",
)
"""Levels are those at the end of the step; the last two columns are empty where no servers are planned."""


def csv_lines(plans: PlanStore) -> Iterator[str]:
    """The header, then one line a step, window by window; numbers read back as the same doubles."""
    yield ",".join(CSV_COLUMNS) + "\n"
    for window, plan in enumerate(plans):
        power, servers = plan.power, plan.servers
        columns: list[list[Any]] = [
            [window] * plan.steps,
            list(range(plan.steps)),
            (plan.start_s + plan.step_s * np.arange(plan.steps)).tolist(),
            power.load_w.tolist(),
            plan.load_uncertainty.tolist(),
            power.renew_w.tolist(),
            plan.renew_uncertainty.tolist(),
            power.charge_w.tolist(),
            power.discharge_w.tolist(),
            power.electrolyzer_w.tolist(),
            power.fuel_cell_w.tolist(),
            power.curtailed_w.tolist(),
            power.envelope_w.tolist(),
            plan.soc_pct[1:].tolist(),
            power.hydrogen_kg[1:].tolist(),
            servers.on_count.tolist() if servers else [""] * plan.steps,
            servers.energy_j.tolist() if servers else [""] * plan.steps,
        ]
        for row in zip(*columns, strict=True):
            yield ",".join(map(str, row)) + "\n"


def json_text(plans: PlanStore) -> bytes:
    """All windows as one JSON object; server states as changes: ``[step, P-state]`` pairs a server."""
    windows = [_window(plan) for plan in plans]
    return msgspec.json.encode({"windows": windows}, enc_hook=_plain) + b"\n"


def _window(plan: Plan) -> dict[str, Any]:
    return {
        "start_s": plan.start_s,
        "step_s": plan.step_s,
        "steps": plan.steps,
        "relax_factor": plan.power.relax_factor,
        "storage": plan.storage,
        "power": plan.power,
        "envelope_w": plan.power.envelope_w,
        "soc_pct": plan.soc_pct,
        "load_uncertainty": plan.load_uncertainty,
        "renew_uncertainty": plan.renew_uncertainty,
        "servers": _servers(plan.servers) if plan.servers else None,
        "provenance": plan.provenance,
    }


def _servers(servers: PlannedServers) -> dict[str, Any]:
    changed = np.diff(servers.states, axis=0) != 0
    runs = []
    for states, changes in zip(servers.states.T, changed.T, strict=True):
        steps = np.concatenate(([0], np.flatnonzero(changes) + 1))
        runs.append(np.stack((steps, states[steps]), axis=1))
    return {
        "kinds": servers.kinds,
        "kind_of": servers.kind_of,
        "state_changes": runs,
        "energy_j": servers.energy_j,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(type(value))
