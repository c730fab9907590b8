"""Notices: external events, typed by the content of their fields.

Both versions of Batsim forward the lines of events files with unchanged fields. The fields of power
(`POWER_FIELD` and the following ones) are those of the files written by `beasy-sched generate power`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from beasy_sched.energy.sources import KINDS, SUN
from beasy_sched.limits import LARGEST_POWER_W, shortened
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.numbers import found_text

POWER_FIELD = "power_available"
"""Field of an event (and of the NOTIFY that forwards it) with the production, W."""
PRICE_FIELD = "import_price_per_kwh"
"""Field of an event with the price of energy from the grid for the step that begins."""
CARBON_FIELD = "carbon_g_per_kwh"
"""Field of an event with the grid's carbon intensity for the step that begins, g/kWh."""
SUN_FIELD = SUN.field
"""Field of an event with the solar part of the production, W; parts of other kinds of source have theirs."""
PART_ROUNDING = 2e-6
"""Share of the production (or watts, if more) by which a part may exceed it by rounding."""

NO_MORE_JOBS = "no_more_static_job_to_submit"
MACHINES_LEAVE, MACHINES_RETURN = "event_machine_unavailable", "event_machine_available"
JOB_WITHDRAWN = "job_withdrawn"
"""A waiting job must no longer be started, for example because its user cancelled it. Not sent by Batsim."""
JOB_RUNS = "job_runs"
"""A job that has just been submitted is already running on ``resources``; with external placement, a waiting
job was started on them. Not sent by Batsim."""
JOB_NOT_STARTED = "job_not_started"
"""A job that the scheduler has started does not run, for a ``reason``; its completion follows. Not sent by
Batsim."""
QUEUE_ORDER = "queue_order"
"""Waiting ``jobs`` in the order that now applies; others are before them. Not sent by Batsim."""
LEVELS_MEASURED = "storage_levels"
"""Actual storage levels: ``soc_pct`` of the battery, ``hydrogen_kg`` of the tank. Not sent by Batsim."""


def is_power(value: object) -> bool:
    """Whether an event's `POWER_FIELD` is a power: watts, 0 to `LARGEST_POWER_W`."""
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value <= LARGEST_POWER_W


def wrong_part(data: Mapping[str, Any]) -> str | None:
    """Return the field of an event whose part of the production is not a power, or above it; None if none."""
    power_w = data.get(POWER_FIELD)
    if power_w is None or not is_power(power_w):
        return None
    for kind in KINDS.values():
        part_w = data.get(kind.field)
        if part_w is not None and not (
            is_power(part_w) and part_w <= power_w + PART_ROUNDING * max(power_w, 1.0)
        ):
            return kind.field
    return None


def is_rate(value: object) -> bool:
    """Whether an event's `PRICE_FIELD` or `CARBON_FIELD` is a finite number."""
    return not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value)


def power_problem(data: Mapping[str, Any]) -> str:
    """Return the problem of a power event's fields, which include `POWER_FIELD`; empty if there is none."""
    if not is_power(data[POWER_FIELD]):
        return (
            f"found {POWER_FIELD} {found_text(data[POWER_FIELD])}, expected watts, 0 to {LARGEST_POWER_W:g}"
        )
    if (field := wrong_part(data)) is not None:
        found = found_text(data[field])
        return f"found {field} {found}, expected watts, at least 0 and at most {POWER_FIELD}"
    for field in (PRICE_FIELD, CARBON_FIELD):
        if data.get(field) is not None and not is_rate(data[field]):
            return f"found {field} {found_text(data[field])}, expected a number"
    return ""


def notice(timestamp: float, kind: str, data: dict[str, Any], event_id: str = "") -> e.Notify:
    """Return the event of a notice: its content, and ``data`` unchanged.

    Fields that cannot be read make it an `e.UnreadableNotice`, which names the field.
    """
    if kind == NO_MORE_JOBS:
        return e.NoMoreJobs(timestamp, kind, data, event_id)
    if kind in (MACHINES_LEAVE, MACHINES_RETURN) or (
        kind == JOB_RUNS and isinstance(data.get("job_id"), str)
    ):
        return _on_hosts(timestamp, kind, data, event_id)
    if kind == JOB_WITHDRAWN and isinstance(job_id := data.get("job_id"), str):
        return e.JobWithdrawn(timestamp, kind, data, event_id, job_id)
    if kind == JOB_NOT_STARTED and isinstance(job_id := data.get("job_id"), str):
        return e.JobNotStarted(timestamp, kind, data, event_id, job_id, str(data.get("reason", "")))
    if kind == QUEUE_ORDER and isinstance(jobs := data.get("jobs"), list):
        return e.QueueOrdered(timestamp, kind, data, event_id, tuple(map(str, jobs)))
    if kind == LEVELS_MEASURED:
        return _levels(timestamp, kind, data, event_id)
    if POWER_FIELD in data:
        return _power(timestamp, kind, data, event_id)
    return e.Notify(timestamp, kind, data, event_id)


def _on_hosts(timestamp: float, kind: str, data: dict[str, Any], event_id: str) -> e.Notify:
    text = data.get("resources")
    try:
        hosts = HostSet.parse(text) if isinstance(text, str) else None
    except ValueError:
        hosts = None
    if hosts is None:
        problem = f"found resources {shortened(repr(text))}, expected hosts such as '0-3'"
        return e.UnreadableNotice(timestamp, kind, data, event_id, _named(data, problem))
    if kind == JOB_RUNS:
        return e.JobRuns(timestamp, kind, data, event_id, data["job_id"], hosts)
    return e.MachinesChanged(timestamp, kind, data, event_id, hosts, kind == MACHINES_RETURN)


def _levels(timestamp: float, kind: str, data: dict[str, Any], event_id: str) -> e.Notify:
    soc_pct, hydrogen_kg = data.get("soc_pct"), data.get("hydrogen_kg")
    for field, value, most in (("soc_pct", soc_pct, 100.0), ("hydrogen_kg", hydrogen_kg, math.inf)):
        if value is not None and not (is_rate(value) and 0 <= value <= most):
            problem = f"found {field} {found_text(value)}, expected a number of at least 0"
            return e.UnreadableNotice(timestamp, kind, data, event_id, _named(data, problem))
    return e.LevelsMeasured(timestamp, kind, data, event_id, soc_pct, hydrogen_kg)


def _power(timestamp: float, kind: str, data: dict[str, Any], event_id: str) -> e.Notify:
    problem = power_problem(data)
    if problem:
        return e.UnreadableNotice(timestamp, kind, data, event_id, _named(data, problem))
    power_w = float(data[POWER_FIELD])
    parts_w = {
        source.name: min(float(data[source.field]), power_w)
        for source in KINDS.values()
        if data.get(source.field) is not None
    }
    rates = (None if data.get(field) is None else float(data[field]) for field in (PRICE_FIELD, CARBON_FIELD))
    return e.PowerAnnounced(timestamp, kind, data, event_id, power_w, parts_w, *rates)


def _named(data: Mapping[str, Any], problem: str) -> str:
    return f"NOTIFY {shortened(str(data.get('type')))}: {problem}"
