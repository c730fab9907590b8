"""Slurm's commands: what they read, and what they change. Without a shell, and each with a time limit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from beasy_sched.errors import PeerError, RunIncomplete
from beasy_sched.limits import shortened
from beasy_sched.slurm.records import SlurmJob, SlurmNode, read_jobs, read_nodes

Run = Callable[[Sequence[str]], bytes]
"""Runs a program with its arguments, and returns what it printed. Raises CommandFailed or SlurmAway."""
TIMEOUT_S: Final = 30.0
_AWAY: Final = re.compile(
    r"Unable to contact slurm controller|Connection refused|Connection timed out|Socket timed out"
    r"|Zero Bytes were transmitted|backup controller",
    re.IGNORECASE,
)


class SlurmAway(PeerError):
    """The controller does not answer: nothing is known of the cluster meanwhile."""


class CommandFailed(RunIncomplete):
    """Slurm refused a command."""

    def __init__(self, command: Sequence[str], said: str) -> None:
        """``said``: the command's own message."""
        self.command, self.said = tuple(command), said
        super().__init__(f"{' '.join(command)}: {said}")


def run_program(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> bytes:
    """Run a program of Slurm's. Raises CommandFailed, and SlurmAway where the controller does not answer."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"{command[0]} has not answered for {timeout_s:g} s") from None
    except OSError as error:
        raise CommandFailed(
            command, f"cannot be started: {error.strerror}; is Slurm's client installed?"
        ) from None
    said = shortened(done.stderr.decode(errors="replace").strip().replace("\n", "; "), 300)
    if _AWAY.search(said):
        raise SlurmAway(said)
    if done.returncode:
        raise CommandFailed(command, said or f"ended with exit code {done.returncode}")
    return done.stdout


class Slurm:
    """A cluster's commands; ``run`` runs each of them."""

    def __init__(self, run: Run = run_program) -> None:
        """Nothing is asked yet."""
        self._run = run

    # --- what is there ------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> tuple[int, int]:
        """Year and month of the version, such as (22, 5). Raises CommandFailed."""
        printed = self._run(["sinfo", "--version"]).decode(errors="replace")
        found = re.search(r"(\d+)\.(\d+)", printed)
        if found is None:
            raise CommandFailed(["sinfo", "--version"], f"found {shortened(printed)!r}, expected a version")
        return int(found[1]), int(found[2])

    def jobs(self) -> list[SlurmJob]:
        """All jobs that the controller knows, those that ended a short while ago among them."""
        return read_jobs(self._run(["squeue", "--all", "--states=all", "--json"]))

    def nodes(self) -> list[SlurmNode]:
        """All nodes."""
        if self.version < (23, 2):
            return read_nodes(self._run(["sinfo", "--all", "--json"]))
        return read_nodes(self._run(["scontrol", "show", "nodes", "--json"]))

    def config(self) -> dict[str, str]:
        """The controller's settings, as ``scontrol show config`` prints them."""
        lines = self._run(["scontrol", "show", "config"]).decode(errors="replace").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    # --- what changes it ------------------------------------------------------------------------------------

    def start(self, job: str, nodes: Sequence[str]) -> None:
        """Have a held job start on these nodes."""
        self._run(["scontrol", "update", f"JobId={job}", f"ReqNodeList={','.join(nodes)}"])
        self._run(["scontrol", "release", job])

    def release(self, job: str) -> None:
        """Have Slurm choose the nodes of a held job."""
        self._run(["scontrol", "release", job])

    def mark(self, job: str, text: str) -> None:
        """Write an administrator's comment on a job."""
        self._run(["scontrol", "update", f"JobId={job}", f"AdminComment={text}"])

    def hold(self, job: str) -> None:
        """Keep a waiting job from starting."""
        self._run(["scontrol", "hold", job])

    def cancel(self, job: str) -> None:
        """End a job, or take it out of the queue."""
        self._run(["scancel", job])

    def requeue(self, job: str) -> None:
        """End a running job, and hold it in the queue."""
        self._run(["scontrol", "requeuehold", job])

    def power_down(self, nodes: Sequence[str]) -> None:
        """Have Slurm's power saving switch these nodes off."""
        self._run(["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_DOWN"])

    def power_up(self, nodes: Sequence[str]) -> None:
        """Have it switch them on. Lost without a word for a node that is still falling asleep."""
        self._run(["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_UP"])
