"""What a run tells of the plans that were made during it: a table, the plan in effect, and each plan."""

from __future__ import annotations

import stat
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beasy_sched.formats.atomic import remove_old, write_atomic
from beasy_sched.formats.held_folder import HeldFolder
from beasy_sched.formats.run_files import PLAN, PLAN_FOLDER, PLANS, path_of
from beasy_sched.formats.run_summary import ReplanningPart
from beasy_sched.planner.plan import PlanStore

if TYPE_CHECKING:
    from beasy_sched.engine.rolling import Planning, Replanning

_NAME: Final = "{:04}.msgpack"

_COLUMNS: Final[dict[str, Callable[[Planning], Any]]] = {
    "number": lambda planning: planning.request.rolled.number,
    "asked_s": lambda planning: planning.request.asked_s,
    "start_s": lambda planning: planning.request.start_s,
    "end_s": lambda planning: planning.answer.plans[-1].end_s if planning.answer.plans else "",
    "outcome": lambda planning: planning.answer.outcome.value,
    "battery_j": lambda planning: planning.request.rolled.battery_j,
    "hydrogen_kg": lambda planning: planning.request.rolled.hydrogen_kg,
    "jobs_running": lambda planning: planning.request.rolled.jobs_running,
    "jobs_waiting": lambda planning: planning.request.rolled.jobs_waiting,
    "relax_factor": lambda planning: (
        planning.answer.plans[0].power.relax_factor if planning.answer.plans else ""
    ),
    "gap": lambda planning: _gap(planning),
    "solver_s": lambda planning: f"{planning.answer.took_s:.3f}",
    "problem": lambda planning: _quoted(planning.answer.problem),
}
"""Columns of the table; ``solver_s`` is real time, and the only one that differs when a run is repeated."""


def plans_csv(replanning: Replanning) -> str:
    """The table as CSV: one row for each plan asked for during the run."""
    rows = (",".join(str(get(planning)) for get in _COLUMNS.values()) for planning in replanning.done)
    return "".join(line + "\n" for line in (",".join(_COLUMNS), *rows))


def _gap(planning: Planning) -> float | str:
    """The largest gap of the optimizations behind the plan of the rest of the window."""
    gaps = [solved.gap for plan in planning.answer.plans[:1] for solved in plan.provenance.solved]
    return max(gaps) if gaps else ""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""').replace("\n", " ") + '"' if text else ""


def write_plans_of_run(prefix: str, folder: HeldFolder, replanning: Replanning, until_s: float) -> list[Path]:
    """Write the plan in effect up to ``until_s`` (s), the table, and each plan; return the files.

    ``folder`` is that of the prefix. Raises InputError.
    """
    from beasy_sched.formats.plan_file import plan_bytes

    written = keep_plans(prefix, folder, replanning)
    if until_s > replanning.plans.start_s:
        write_atomic(path_of(prefix, PLAN), plan_bytes(replanning.plans.until(until_s)), folder)
        written.append(path_of(prefix, PLAN))
    return written


def keep_plans(prefix: str, folder: HeldFolder, replanning: Replanning) -> list[Path]:
    """Write the table, and each plan that is not there yet; return the table and the plans' folder.

    ``folder`` is that of the prefix. Raises InputError.
    """
    from beasy_sched.formats.plan_file import plan_bytes

    table, place = path_of(prefix, PLANS), path_of(prefix, PLAN_FOLDER)
    write_atomic(table, plans_csv(replanning), folder)
    made = {0: replanning.first} | {p.request.rolled.number: p.answer.plans for p in replanning.done}
    with folder.inner(place.name) as inner:
        for number, plans in made.items():
            name = _NAME.format(number)
            if plans and inner.mode(name) is None:
                write_atomic(place / name, plan_bytes(PlanStore(plans)), inner)
    return [table, place]


def remove_old_plans(prefix: str, folder: HeldFolder) -> None:
    """Remove an earlier run's plans, and a link in the place of their folder; ``folder`` is the prefix's.

    Raises InputError; also where something else is in the place of that folder.
    """
    remove_old((path_of(prefix, PLAN), path_of(prefix, PLANS)), folder)
    place = path_of(prefix, PLAN_FOLDER)
    mode = folder.mode(place.name)
    if mode is None:
        return
    if stat.S_ISLNK(mode):
        remove_old([place], folder)
        return
    with folder.inner(place.name) as inner:
        remove_old((place / name for name in inner.names() if fnmatch(name, "[0-9]*.msgpack")), inner)


def replanning_part(replanning: Replanning) -> ReplanningPart:
    """The summary's section: how many plans were made, late and failed, and how many steps lie between."""
    from beasy_sched.engine.rolling import PlanOutcome

    counts = {outcome.value: replanning.count(outcome) for outcome in PlanOutcome}
    return ReplanningPart(every_steps=replanning.rule.every_steps, asked=len(replanning.done), **counts)
