"""Slurm's commands: what they read, and what they change. Without a shell, and each with a time limit."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from beasy_sched.errors import RunIncomplete
from beasy_sched.limits import shortened
from beasy_sched.slurm.records import SlurmAway as SlurmAway
from beasy_sched.slurm.records import SlurmJob, SlurmNode, read_jobs, read_nodes

Run = Callable[[Sequence[str]], bytes]
"""Runs a program with its arguments, and returns what it printed. Raises CommandFailed or SlurmAway."""
TIMEOUT_S: Final = 30.0
_AWAY: Final = re.compile(
    r"Unable to contact slurm controller|Connection refused|Connection timed out|Socket timed out"
    r"|Zero Bytes were transmitted|Unexpected message received|Munge encode failed"
    r"|Protocol authentication error|in standby mode",
    re.IGNORECASE,
)
_OWN_DEFAULTS: Final = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SCANCEL_")
"""Variables that change what a command prints: a user's habits, which are not ours."""
_SETTINGS: Final = {
    "SLURM_BITSTR_LEN": "0",  # or the numbers of an array's tasks are cut after 64 characters
    "SLURM_TIME_FORMAT": "%s",  # times of what is printed as text: s since 1970
}


class CommandFailed(RunIncomplete):
    """Slurm refused a command."""

    def __init__(self, command: Sequence[str], said: str) -> None:
        """``said``: the command's own message."""
        self.command, self.said = tuple(command), said
        super().__init__(f"{' '.join(command)}: {said}")


class NoSlurm(CommandFailed):
    """A program of Slurm's is not on this machine, or does not know its cluster."""

    exit_code = 2


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment ``own`` without what changes the commands' answers, and with what they need."""
    return {name: value for name, value in own.items() if not name.startswith(_OWN_DEFAULTS)} | _SETTINGS


def run_program(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> bytes:
    """Run a program of Slurm's.

    Raises CommandFailed, NoSlurm where the program or its configuration is missing, and SlurmAway where the
    controller does not answer.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
            env=environment(os.environ),
        )
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"{command[0]} has not answered for {timeout_s:g} s") from None
    except OSError as error:
        why = f"cannot be started ({error.strerror}): install Slurm's client, or run this where it is"
        raise NoSlurm(command, why) from None
    if not done.returncode:
        return done.stdout
    said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").replace("\n", "; ")
    said = shortened(said or f"ended with exit code {done.returncode}", 300)
    if "onfiguration" in said and "fatal" in said:
        raise NoSlurm(command, f"{said}; is SLURM_CONF right?")
    if _AWAY.search(said):
        raise SlurmAway(f"{command[0]}: {said}")
    raise CommandFailed(command, said)


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
        """All jobs that the controller knows, those that ended a short while ago among them.

        Raises SlurmAway, CommandFailed, and InputError for an answer of another shape; so do all below.
        """
        return read_jobs(self._run(["squeue", "--all", "--states=all", "--json"]))

    def nodes(self) -> list[SlurmNode]:
        """All nodes."""
        if self.version < (23, 2):
            return read_nodes(self._run(["sinfo", "--all", "--json"]), "sinfo --json")
        return read_nodes(self._run(["scontrol", "show", "nodes", "--json"]), "scontrol show nodes --json")

    def node_powers(self) -> dict[str, tuple[frozenset[str], float | None]]:
        """Flags of each node, and the power that Slurm has measured last, W: None or 0 where it has none."""
        text = self._run(["scontrol", "show", "nodes", "--oneliner"]).decode(errors="replace")
        return {
            found[1]: (frozenset(found[2].split("+")[1:]), float(found[3]) if found[3].isdecimal() else None)
            for found in re.finditer(r"^NodeName=(\S+) .*? State=(\S+) .*? CurrentWatts=(\S+)", text, re.M)
        }

    def config(self) -> dict[str, str]:
        """The controller's settings, as ``scontrol show config`` prints them, and its time.

        That is ``now``, in whole s since 1970, where the controller tells it.
        """
        text = self._run(["scontrol", "show", "config"]).decode(errors="replace")
        told = re.match(r"Configuration data as of (\d+)$", text, re.MULTILINE)
        return ({"now": told[1]} if told else {}) | dict(_settings(text.splitlines()))

    def partition(self, name: str) -> dict[str, str]:
        """A partition's settings, as ``scontrol show partition`` prints them."""
        text = self._run(["scontrol", "show", "partition", name]).decode(errors="replace")
        return dict(_settings(text.split()))

    def admin_level(self, user: str) -> str:
        """A user's level in the accounting: None, Operator, Administrator; empty for an unknown one."""
        asked = ["sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=AdminLevel"]
        return self._run(asked).decode(errors="replace").strip()

    def history(self, start: str, end: str | None = None, partition: str | None = None) -> bytes:
        """What ``sacct --json`` prints of all users' jobs that ran, or waited, between two times.

        ``start`` and ``end`` are times as Slurm takes them (``2026-01-01``, ``now-30days``).
        """
        until = [] if end is None else [f"--endtime={end}"]
        of = [] if partition is None else [f"--partition={partition}"]
        return self._run(["sacct", "--json", "--allusers", f"--starttime={start}", *until, *of])

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
        """End a job, or take it out of the queue. Nothing is said of one that has ended before."""
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


def _settings(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Names and values of ``NAME=VALUE``."""
    pairs = (part.partition("=") for part in parts if "=" in part)
    return [(name.strip(), value.strip()) for name, _, value in pairs]
