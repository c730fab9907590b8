"""Plans shared by the campaigns in one folder: each is solved once, by the first campaign that needs it.

They are stored in a hidden folder next to the campaigns, so that results and their inputs stay together and
nothing is kept elsewhere. Each campaign also has a copy of its plans, so the store may be removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from beasy_sched import _version
from beasy_sched.errors import BeasyError
from beasy_sched.formats.atomic import hold_folder, write_atomic
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.run_inputs import PlanTask, make_plan

STORE = ".beasy-plans"
"""Name of the folder next to those of the campaigns."""


@cache
def planner_hash() -> str:
    """Return the SHA-256 of the planner: the source of this program, and the versions of the solvers."""
    source = Path(_version.__file__).parent
    digest = hashlib.sha256(platform.python_version().encode())
    for name in ("highspy", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            digest.update(f"\n{name} {metadata.version(name)}".encode())
    for path in sorted(source.rglob("*.py")):
        digest.update(f"\n{path.relative_to(source).as_posix()}\n".encode())
        digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class MadePlan:
    """A plan that has just been solved."""

    content: bytes
    """The plan file."""
    planner: str
    """`planner_hash` of the process that solved it, which may be on another computer."""


def solve(task: PlanTask) -> MadePlan:
    """Compute a plan. Raises ConfigError, InputError and NoPlan."""
    return MadePlan(make_plan(task), planner_hash())


@dataclass(frozen=True)
class SharedPlans:
    """The store: a file for each plan, named by its inputs and planner.

    A store that cannot be read or written, or belongs to another user, is ignored.
    """

    path: Path

    @classmethod
    def beside(cls, campaign: Path) -> SharedPlans:
        """Return the store of the campaigns in the same folder as ``campaign``."""
        return cls(Path(os.path.realpath(campaign)).parent / STORE)

    def find(self, recipe: str) -> bytes | None:
        """Return the file of this planner's plan of ``recipe``, if there is one.

        The file may be damaged.
        """
        if not self._is_ours():
            return None
        try:
            return read_bytes(self._place(recipe, planner_hash()))
        except BeasyError:
            return None

    def add(self, recipe: str, plan: MadePlan) -> None:
        """Store a plan atomically."""
        with (
            contextlib.suppress(BeasyError, OSError),
            hold_folder(self.path.parent) as outer,
            outer.inner(STORE) as folder,
        ):
            if self._is_ours():
                write_atomic(self._place(recipe, plan.planner), plan.content, folder)

    def _place(self, recipe: str, planner: str) -> Path:
        key = hashlib.sha256(f"{recipe} {planner}".encode()).hexdigest()
        return self.path / f"{key}.msgpack"

    def _is_ours(self) -> bool:
        """Whether only this user and group can have written plans there."""
        try:
            status = self.path.lstat()
        except OSError:
            return False
        ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        return stat.S_ISDIR(status.st_mode) and ours and not status.st_mode & stat.S_IWOTH
