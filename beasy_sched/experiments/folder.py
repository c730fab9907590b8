"""The folder of a campaign.

    campaign.json     what the campaign is (`manifest`)
    inputs/           what the runs read, named by content; plans by what they were made of
    rows/             one small file a run that has ended: the journal
    traces/, runs/    what is kept of the runs, where that is wanted
    runs.parquet      the table, once all runs have ended
    timings.parquet   how long they took

Every file appears under its name only when it is complete, so that the folder is sound whenever the
campaign is interrupted, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.experiments.execute import TRACE, Keep, RunResult
from beasy_sched.formats.atomic import remove_if_dead, write_atomic
from beasy_sched.formats.plan_file import read_plans

_ENDINGS = {"platform": "xml", "workload": "json", "power": "txt", "plan": "msgpack", "site": "toml"}


class Ended(msgspec.Struct, frozen=True):
    """What the journal says of a run that has ended."""

    row: dict[str, Any]
    wall_s: float
    cpu_s: float
    traceback: str | None = None


def must_be_empty(folder: Path, otherwise: str) -> None:
    """Raise ConfigError where a folder that is not ours has files; ``otherwise`` says what it might be."""
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ConfigError(f"{folder} is neither empty nor {otherwise}: choose another folder")


@dataclass(frozen=True)
class Folder:
    """Paths in the folder, and what is written to them."""

    path: Path

    @property
    def manifest(self) -> Path:
        """``campaign.json``."""
        return self.path / "campaign.json"

    @property
    def table(self) -> Path:
        """``runs.parquet``."""
        return self.path / "runs.parquet"

    @property
    def timings(self) -> Path:
        """``timings.parquet``."""
        return self.path / "timings.parquet"

    def create(self) -> None:
        """Make the folder. Raises ConfigError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write to {self.path}: {error.strerror or error}") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other campaigns out; the lock goes with the process. Raises ConfigError."""
        no_link = getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | no_link, 0o666), "w") as file:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise ConfigError(f"another campaign is running in {self.path}") from None
            for left in self.path.rglob(".*.part"):  # by one that was killed
                remove_if_dead(left)
            for name in ("inputs", "rows"):
                (self.path / name).mkdir(exist_ok=True)
            yield

    def add_input(self, kind: str, content: bytes) -> str:
        """Keep what runs read; return its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.input_path(kind, digest)
        if not path.exists() or path.stat().st_size != len(content):  # a power cut may leave it empty
            write_atomic(path, content)
        return digest

    def has_plan(self, recipe: str) -> bool:
        """Whether the plan is there, whole."""
        try:
            read_plans(self.input_path("plan", recipe))
        except BeasyError:
            return False
        return True

    def input_path(self, kind: str, digest: str) -> Path:
        """Where an input lies. ``digest`` is that of its content; of a plan, its recipe."""
        return self.path / "inputs" / f"{kind}-{digest[:16]}.{_ENDINGS[kind]}"

    def has(self, run: str, keep: Keep) -> bool:
        """Whether a run has ended, and all is there that is to be kept of it."""
        kept = {
            "nothing": True,
            "trace": self.trace(run) is not None,
            "everything": (self.path / "runs" / run).is_dir(),
        }
        return self.row_path(run).exists() and kept[keep]

    def row_path(self, run: str) -> Path:
        """The journal's file of a run."""
        return self.path / "rows" / f"{run}.json"

    def ended(self, run: str) -> Ended | None:
        """Return what became of a run, None where it has not ended."""
        try:
            return msgspec.json.decode(self.row_path(run).read_bytes(), type=Ended)
        except (OSError, msgspec.MsgspecError):
            return None

    def add(self, run: str, row: dict[str, Any], result: RunResult, keep: Keep) -> None:
        """Write what is kept of a run, then its row. Raises InputError."""
        if keep == "everything":
            (self.path / "runs" / run).mkdir(parents=True, exist_ok=True)
            for left in (self.path / "runs" / run).iterdir():  # of the same run, when it failed
                left.unlink()
            for name, content in result.files.items():
                write_atomic(self.path / "runs" / run / name, content)
        elif keep == "trace" and TRACE in result.files:
            (self.path / "traces").mkdir(exist_ok=True)
            write_atomic(self.path / "traces" / f"{run}.csv", result.files[TRACE])
        ended = Ended(row, result.wall_s, result.cpu_s, result.trace)
        write_atomic(self.row_path(run), msgspec.json.encode(ended))

    def trace(self, run: str) -> Path | None:
        """The energy trace of a run, None where it was not kept."""
        for path in (self.path / "traces" / f"{run}.csv", self.path / "runs" / run / TRACE):
            if path.exists():
                return path
        return None
