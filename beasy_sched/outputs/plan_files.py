"""Output files about plans made during a run: a table, the plan in effect, and each plan."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beasy_sched.errors import InputError
from beasy_sched.formats.atomic import PartFile, remove_old, write_atomic
from beasy_sched.formats.file_set import FileSet
from beasy_sched.formats.held_folder import HeldFolder, kind_of
from beasy_sched.formats.run_files import FAILED, PLAN, PLAN_FOLDER, PLANS, both_paths_of, path_of
from beasy_sched.formats.run_summary import ReplanningPart
from beasy_sched.planner.plan import PlanStore

if TYPE_CHECKING:
    from beasy_sched.engine.replanning import Replanning
    from beasy_sched.planner.requests import PlanAnswer

_NAME: Final = "{:04}.msgpack"

_COLUMNS: Final[dict[str, Callable[[PlanAnswer], Any]]] = {
    "number": lambda answer: answer.request.rolled.number,
    "asked_s": lambda answer: answer.request.asked_s,
    "start_s": lambda answer: answer.request.start_s,
    "end_s": lambda answer: answer.plans[-1].end_s if answer.plans else "",
    "outcome": lambda answer: answer.outcome,
    "battery_j": lambda answer: answer.request.rolled.battery_j,
    "hydrogen_kg": lambda answer: answer.request.rolled.hydrogen_kg,
    "jobs_running": lambda answer: answer.request.rolled.jobs_running,
    "jobs_waiting": lambda answer: answer.request.rolled.jobs_waiting,
    "relax_factor": lambda answer: answer.plans[0].power.relax_factor if answer.plans else "",
    "gap": lambda answer: _gap(answer),
    "solver_s": lambda answer: f"{answer.took_s:.3f}",
    "problem": lambda answer: _quoted(answer.problem),
}
"""Columns of the table; ``solver_s`` is wall-clock time, the only one that is not reproducible."""


def plans_csv(replanning: Replanning) -> str:
    """Return the table as CSV: one row for each plan requested during the run."""
    rows = (",".join(str(get(answer)) for get in _COLUMNS.values()) for answer in replanning.done)
    return "".join(line + "\n" for line in (",".join(_COLUMNS), *rows))


def _gap(answer: PlanAnswer) -> float | str:
    """Return the largest gap of the optimizations of the plan for the rest of the window."""
    gaps = [solved.gap for plan in answer.plans[:1] for solved in plan.provenance.solved]
    return max(gaps) if gaps else ""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""').replace("\n", " ") + '"' if text else ""


class PlansOfRun:
    """Files of the plans made during a run: the table, each plan, and the plan in effect.

    Plans are in a hidden folder until the run's files get their final names.
    """

    def __init__(self, prefix: str, folder: HeldFolder) -> None:
        """Prepare to replace the plans of an earlier run; ``folder`` is that of the prefix.

        Raises InputError if the path of their folder is something else.
        """
        self._prefix, self._folder = prefix, folder
        self._table: PartFile | None = None
        self._hidden = hidden_folder(prefix)
        for name in both_paths_of(prefix, PLAN_FOLDER):
            mode = folder.mode(name.name)
            if mode is not None and not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise InputError(folder.path / name.name, f"is {kind_of(mode)}, expected a folder: remove it")
        self.discard()  # remains of a killed run

    def keep(self, replanning: Replanning) -> int:
        """Flush all plans and the table to the system; return its size, bytes. Raises InputError."""
        from beasy_sched.formats.plan_file import plan_bytes

        if self._table is None:
            self._table = PartFile(path_of(self._prefix, PLANS), folder=self._folder)
        self._table.start_again()
        self._table.write(plans_csv(replanning))
        made = {0: replanning.first} | {each.request.rolled.number: each.plans for each in replanning.done}
        with self._folder.inner(self._hidden) as inner:
            for number, plans in made.items():
                name = _NAME.format(number)
                if plans and inner.mode(name) is None:
                    write_atomic(inner.path / name, plan_bytes(PlanStore(plans)), inner)
        return self._table.keep()

    def add_to(self, files: FileSet, replanning: Replanning, until_s: float) -> None:
        """Add all to the files of the run, with the plan in effect up to ``until_s`` (s).

        Raises InputError.
        """
        from beasy_sched.formats.plan_file import plan_bytes

        self.keep(replanning)
        if self._table is not None:
            files.add(self._table, path_of(self._prefix, FAILED + PLANS))
        if until_s > replanning.plans.start_s:
            part = PartFile(path_of(self._prefix, PLAN), folder=self._folder)
            part.write(plan_bytes(replanning.plans.until(until_s)))
            files.add(part, path_of(self._prefix, FAILED + PLAN))

    def publish(self, failed: bool) -> list[Path]:
        """Move the plans into their folder, replacing old ones; return the folder, if there is one.

        Raises InputError.
        """
        return publish_plans(self._prefix, self._folder, failed=failed)

    def discard(self) -> None:
        """Remove unpublished plans."""
        if self._table is not None:
            self._table.discard()
        if self._folder.mode(self._hidden) is not None:
            with self._folder.inner(self._hidden) as inner:
                inner.clear()
            self._folder.remove_empty(self._hidden)


def hidden_folder(prefix: str) -> str:
    """Return the name of the folder for plans until the run ends."""
    return f".{path_of(prefix, PLAN_FOLDER).name}.part"


def publish_plans(prefix: str, folder: HeldFolder, *, failed: bool) -> list[Path]:
    """Implement `PlansOfRun.publish`."""
    target, other = both_paths_of(prefix, PLAN_FOLDER)
    if failed:
        target, other = other, target
    else:
        _remove_plans(other, folder)
    _remove_plans(target, folder)
    hidden = hidden_folder(prefix)
    if folder.mode(hidden) is None:
        return []
    with folder.inner(hidden) as source, folder.inner(target.name) as inner:
        for name in source.names():
            source.move(name, inner)
    folder.remove_empty(hidden)
    return [target]


def _remove_plans(place: Path, folder: HeldFolder) -> None:
    """Remove the plans in a folder, and the folder if it is then empty; for a link, the link."""
    mode = folder.mode(place.name)
    if mode is None:
        return
    if stat.S_ISLNK(mode):
        remove_old([place], folder)
        return
    with folder.inner(place.name) as inner:
        remove_old((place / name for name in inner.names() if fnmatch(name, "[0-9]*.msgpack")), inner)
    with contextlib.suppress(OSError):  # it contains files of the user
        folder.remove_empty(place.name)


def replanning_part(replanning: Replanning) -> ReplanningPart:
    """Return the summary's section: the numbers of plans made, late and failed, and of steps between them."""
    return ReplanningPart(
        every_steps=replanning.rule.every_steps,
        asked=len(replanning.done),
        made=replanning.count("made"),
        late=replanning.count("late"),
        failed=replanning.count("failed"),
    )
