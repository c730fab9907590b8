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
from beasy_sched.slurm import actions as a
from beasy_sched.slurm.records import SlurmAway, SlurmJob, SlurmNode, read_jobs, read_nodes

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
    said = last_words(done)
    if "onfiguration" in said and "fatal" in said:
        raise NoSlurm(command, f"{said}; is SLURM_CONF right?")
    if _AWAY.search(said):
        raise SlurmAway(f"{command[0]}: {said}")
    raise CommandFailed(command, said)


def last_words(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program that failed has said, in one line."""
    said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").replace("\n", "; ")
    return shortened(said or f"ended with exit code {done.returncode}", 300)


class Slurm:
    """A cluster's commands; ``run`` runs each of them."""

    def __init__(self, run: Run = run_program) -> None:
        """Nothing is asked yet."""
        self._run = run

    def _text(self, *command: str) -> str:
        return self._run([*command]).decode(errors="replace")

    # --- what is there ------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> tuple[int, int]:
        """Year and month of the version, such as (22, 5). Raises CommandFailed."""
        printed = self._text("sinfo", "--version")
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
        text = self._text("scontrol", "show", "nodes", "--oneliner")
        return {
            found[1]: (frozenset(found[2].split("+")[1:]), float(found[3]) if found[3].isdecimal() else None)
            for found in re.finditer(r"^NodeName=(\S+) .*? State=(\S+) .*? CurrentWatts=(\S+)", text, re.M)
        }

    def config(self) -> dict[str, str]:
        """The controller's settings, as ``scontrol show config`` prints them, and its time.

        That is ``now``, in whole s since 1970, where the controller tells it.
        """
        text = self._text("scontrol", "show", "config")
        told = re.match(r"Configuration data as of (\d+)$", text, re.MULTILINE)
        return ({"now": told[1]} if told else {}) | dict(_settings(text.splitlines()))

    def partition(self, name: str) -> dict[str, str]:
        """A partition's settings, as ``scontrol show partition`` prints them."""
        return dict(_settings(self._text("scontrol", "show", "partition", name).split()))

    def admin_level(self, user: str) -> str:
        """A user's level in the accounting: None, Operator, Administrator; empty for an unknown one."""
        asked = ("--noheader", "--parsable2", "show", "user", user, "format=AdminLevel")
        return self._text("sacctmgr", *asked).strip()

    def history(
        self, start: str, end: str | None = None, partition: str | None = None, cluster: str | None = None
    ) -> bytes:
        """What ``sacct --json`` prints of all users' jobs that ran, or waited, between two times.

        ``start`` and ``end`` are times as Slurm takes them (``2026-01-01``, ``now-30days``); ``cluster`` is
        another one than this machine's.
        """
        until = [] if end is None else [f"--endtime={end}"]
        of = [] if partition is None else [f"--partition={partition}"]
        of += [] if cluster is None else [f"--clusters={cluster}"]
        return self._run(["sacct", "--json", "--allusers", f"--starttime={start}", *until, *of])

    # --- what changes it ------------------------------------------------------------------------------------

    def do(self, action: a.ClusterAction) -> None:
        """Have an action carried out. Raises SlurmAway and CommandFailed."""
        for command in _commands(action):
            self._run(command)


def _commands(action: a.ClusterAction) -> list[list[str]]:
    """What carries an action out, in order; nothing for what Slurm cannot do."""
    match action:
        case a.StartJob(job, nodes):
            where = f"ReqNodeList={','.join(nodes)}"
            return [["scontrol", "update", f"JobId={job}", where], ["scontrol", "release", job]]
        case a.ReleaseJob(job):
            return [["scontrol", "release", job]]
        case a.HoldJob(job):
            return [["scontrol", "hold", job]]
        case a.CancelJob(job):
            return [["scancel", job]]
        case a.RequeueJob(job):
            return [["scontrol", "requeuehold", job]]
        case a.MarkJob(job, text):
            return [["scontrol", "update", f"JobId={job}", f"AdminComment={text}"]]
        case a.SwitchOff(nodes):
            return [["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_DOWN"]]
        case a.SwitchOn(nodes):
            return [["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_UP"]]
    return []


def _settings(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Names and values of ``NAME=VALUE``."""
    pairs = (part.partition("=") for part in parts if "=" in part)
    return [(name.strip(), value.strip()) for name, _, value in pairs]
