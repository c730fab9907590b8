"""Files of plans, and plans for other programs: JSON with everything, CSV with one row per step.

A file holds the plans of some windows, or a coarse plan of the season: MessagePack with compressed arrays and
a checksum, so that a damaged one never loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from beasy_sched.errors import PathLike
from beasy_sched.formats.packed_file import PackedFormat
from beasy_sched.formats.reading import in_file
from beasy_sched.planner.plan import Plan, PlannedServers, PlanStore
from beasy_sched.planner.season import Season

PLAN_FORMAT = PackedFormat("beasy-sched plan", 1, "plan")
SEASON_FORMAT = PackedFormat("beasy-sched season", 1, "plan of the season")


def write_plans(path: PathLike, plans: PlanStore) -> None:
    """Write all windows to ``path`` atomically. Raises InputError."""
    PLAN_FORMAT.write(path, list(plans))


def plan_bytes(plans: PlanStore) -> bytes:
    """Return the file of all windows."""
    return PLAN_FORMAT.packed(list(plans))


def read_plans(path: PathLike) -> PlanStore:
    """Read and check a plan file. Raises InputError: not a plan, damaged, too new, or inconsistent."""
    plans = PLAN_FORMAT.read(path, list[Plan])
    with in_file(path):
        return PlanStore(plans)


def write_season(path: PathLike, season: Season) -> None:
    """Write a coarse plan to ``path`` atomically. Raises InputError."""
    SEASON_FORMAT.write(path, season)


def read_season(path: PathLike) -> Season:
    """Read and check a coarse plan. Raises InputError: not one, damaged, too new, or inconsistent."""
    season = SEASON_FORMAT.read(path, Season)
    with in_file(path):
        season.check()
    return season


def csv_lines(plans: PlanStore) -> Iterator[str]:
    """The header, then one line per step, window by window; numbers read back as the same doubles.

    Levels are those at the end of the step; the last two columns are empty where no servers are planned.
    """
    bounded = any(plan.load_quantiles is not UNSET for plan in plans)
    for window, plan in enumerate(plans):
        power, servers = plan.power, plan.servers
        nothing = np.full(plan.steps, "")
        columns: dict[str, npt.NDArray[Any]] = {
            "window": np.full(plan.steps, window),
            "step": np.arange(plan.steps),
            "time_s": plan.start_s + plan.step_s * np.arange(plan.steps),
            "load_w": power.load_w,
            "load_uncertainty": plan.load_uncertainty,
            **({"load_low_w": plan.demand.low_w, "load_high_w": plan.demand.high_w} if bounded else {}),
            "renew_w": power.renew_w,
            "renew_uncertainty": plan.renew_uncertainty,
            "charge_w": power.charge_w,
            "discharge_w": power.discharge_w,
            "electrolyzer_w": power.electrolyzer_w,
            "fuel_cell_w": power.fuel_cell_w,
            **_others(plan, "in_w"),
            **_others(plan, "out_w"),
            "curtailed_w": power.curtailed_w,
            "envelope_w": power.envelope_w,
            **({} if power.import_w is UNSET else {"import_w": power.import_w}),
            **({} if power.services_w is UNSET else {"services_w": power.services_w}),
            **({} if power.pue is UNSET else {"pue": power.pue}),
            **({} if power.grid_charge_w is UNSET else {"grid_charge_w": power.grid_charge_w}),
            "soc_pct": plan.soc_pct[1:] if plan.storage.battery.exists else nothing,
            "hydrogen_kg": power.hydrogen_kg[1:],
            **_others(plan, "level"),
            "servers_on": servers.on_count if servers else nothing,
            "server_energy_j": servers.energy_j if servers else nothing,
        }
        yield from _table_lines(columns, with_head=window == 0)


def _others(plan: Plan, part: Literal["in_w", "out_w", "level"]) -> dict[str, npt.NDArray[Any]]:
    """Return a column of each device other than battery and hydrogen; levels are as people read them."""
    columns = {}
    for device in plan.storage.other_devices:
        flows, names = plan.power.flows_of(device), device.columns
        level, values = names.level, device.shown(flows.level[1:])
        own = {"in_w": (names.into, flows.in_w), "out_w": (names.out, flows.out_w), "level": (level, values)}
        name, column = own[part]
        columns[name] = column
    return columns


def json_text(plans: PlanStore) -> bytes:
    """All windows as one JSON object; server states as changes: ``[step, P-state]`` pairs per server."""
    windows = [
        {
            "start_s": plan.start_s,
            "step_s": plan.step_s,
            "steps": plan.steps,
            "relax_factor": plan.power.relax_factor,
            "storage": plan.storage,
            "power": plan.power,
            "envelope_w": plan.power.envelope_w,
            "soc_pct": plan.soc_pct,
            "load_uncertainty": plan.load_uncertainty,
            **({} if plan.load_quantiles is UNSET else {"load_quantiles": plan.load_quantiles}),
            "renew_uncertainty": plan.renew_uncertainty,
            "servers": _servers(plan.servers) if plan.servers else None,
            "provenance": plan.provenance,
        }
        for plan in plans
    ]
    return msgspec.json.encode({"windows": windows}, enc_hook=np.ndarray.tolist) + b"\n"


def season_csv_lines(season: Season) -> Iterator[str]:
    """The header, then one line per year and step; levels are those at the end of the step."""
    for number, year in enumerate(season.years):
        columns: dict[str, npt.NDArray[Any]] = {
            "year": np.full(season.steps, number),
            "time_s": season.step_s * np.arange(season.steps),
            "load_w": season.load_w,
            **{name: values[-season.steps :] for name, values in vars(year).items()},
        }
        yield from _table_lines(columns, with_head=number == 0)


def season_json(season: Season) -> bytes:
    """The whole plan and its targets as one JSON object."""
    set_values = ((field.name, getattr(season, field.name)) for field in fields(season))
    values = {name: value for name, value in set_values if value is not UNSET}
    values = {"targets_kg": season.targets_kg, **values}
    return msgspec.json.encode(values, enc_hook=np.ndarray.tolist) + b"\n"


def _table_lines(columns: Mapping[str, npt.NDArray[Any]], *, with_head: bool) -> Iterator[str]:
    if with_head:
        yield ",".join(columns) + "\n"
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield ",".join(map(str, row)) + "\n"


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
