"""What a run tells of the plans that were made during it: a table, the plan in effect, and each plan."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from beasy_sched.engine.replanning import Planning, PlanOutcome, Replanning
from beasy_sched.formats.atomic import own_folder, write_atomic
from beasy_sched.formats.plan_file import write_plans
from beasy_sched.formats.run_files import PLAN, PLAN_FOLDER, PLANS, path_of
from beasy_sched.plan.plan import PlanStore

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


def write_plans_of_run(prefix: str, replanning: Replanning, until_s: float) -> list[Path]:
    """Write the plan in effect up to ``until_s`` (s), the table, and each plan; return the files.

    Raises InputError.
    """
    written = keep_plans(prefix, replanning)
    if until_s > replanning.plans.start_s:
        write_plans(path_of(prefix, PLAN), replanning.plans.until(until_s))
        written.append(path_of(prefix, PLAN))
    return written


def keep_plans(prefix: str, replanning: Replanning) -> list[Path]:
    """Write the table, and each plan that is not there yet; return the table and the plans' folder.

    Raises InputError.
    """
    write_atomic(path_of(prefix, PLANS), plans_csv(replanning))
    folder = own_folder(path_of(prefix, PLAN_FOLDER))
    made = {0: replanning.first} | {p.request.rolled.number: p.answer.plans for p in replanning.done}
    for number, plans in made.items():
        path = folder / _NAME.format(number)
        if plans and not path.exists():
            write_plans(path, PlanStore(plans))
    return [path_of(prefix, PLANS), folder]


def old_plans(prefix: str) -> Iterator[Path]:
    """Where an earlier run has left its plans; a link in the place of their folder is one of them."""
    yield from (path_of(prefix, PLAN), path_of(prefix, PLANS))
    folder = path_of(prefix, PLAN_FOLDER)
    if folder.is_symlink():
        yield folder
        return
    with contextlib.suppress(OSError):
        yield from sorted(folder.glob("[0-9]*.msgpack"))


def replanning_part(replanning: Replanning) -> dict[str, Any]:
    """The summary's section: how many plans were made, late and failed, and how many steps lie between."""
    counts = {outcome.value: replanning.count(outcome) for outcome in PlanOutcome}
    return {"every_steps": replanning.rule.every_steps, "asked": len(replanning.done), **counts}
