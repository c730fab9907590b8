"""Slurm's commands, for queries and actions, run without a shell and with a time limit."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from beasy_sched.errors import RunIncomplete
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.records import (
    PLACED,
    SlurmAway,
    SlurmJob,
    SlurmNode,
    compressed,
    read_jobs,
    read_nodes,
)
from beasy_sched.plugins.slurm.reservations import FLAGS, OWNER, NodeReservation, read_reservations

Run = Callable[[Sequence[str]], bytes]
"""Function that runs a program and returns its output. Raises CommandFailed or SlurmAway."""
TIMEOUT_S: Final = 30.0
_AWAY: Final = re.compile(
    r"Unable to contact slurm controller|Connection refused|Connection timed out|Socket timed out"
    r"|Zero Bytes were transmitted|Unexpected message received|Munge encode failed"
    r"|Protocol authentication error|in standby mode",
    re.IGNORECASE,
)
_OWN_DEFAULTS: Final = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SCANCEL_")
"""Environment variables that change a command's output, such as a user's preferences."""
_SETTINGS: Final = {
    "SLURM_BITSTR_LEN": "0",  # otherwise the task numbers of an array are cut after 64 characters
    "SLURM_TIME_FORMAT": "%s",  # times in text output: s since 1970
}


class CommandFailed(RunIncomplete):
    """Slurm rejected a command."""

    def __init__(self, command: Sequence[str], said: str) -> None:
        """``said``: the command's own message."""
        self.command, self.said = tuple(command), said
        super().__init__(f"{' '.join(command)}: {said}")


class NoSlurm(CommandFailed):
    """A Slurm command is not installed, or its cluster is not configured."""

    exit_code = 2


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment ``own`` with the settings that the parsing of the output requires."""
    return {name: value for name, value in own.items() if not name.startswith(_OWN_DEFAULTS)} | _SETTINGS


def run_program(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> bytes:
    """Run a Slurm command.

    Raises CommandFailed, NoSlurm if the program or its configuration is missing, and SlurmAway if the
    controller does not respond.
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
        raise SlurmAway(f"{command[0]} did not respond within {timeout_s:g} s") from None
    except OSError as error:
        why = (
            f"cannot be started ({error.strerror}): install Slurm's client commands, or run this on a host"
            " that has them"
        )
        raise NoSlurm(command, why) from None
    if not done.returncode:
        return done.stdout
    said = error_output(done)
    if "onfiguration" in said and "fatal" in said:
        raise NoSlurm(command, f"{said}; is SLURM_CONF correct?")
    if _AWAY.search(said):
        raise SlurmAway(f"{command[0]}: {said}")
    raise CommandFailed(command, said)


def error_output(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the error output of a failed command, in one line."""
    said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").replace("\n", "; ")
    return shortened(said or f"ended with exit code {done.returncode}", 300)


class Slurm:
    """The commands of a cluster; ``run`` runs each of them."""

    def __init__(self, run: Run = run_program) -> None:
        """Start without running a command."""
        self._run = run

    def query(self, command: Sequence[str]) -> bytes:
        """Run a command that changes nothing; return its output. Raises CommandFailed and SlurmAway."""
        return self._run(command)

    def _text(self, *command: str) -> str:
        return self._run([*command]).decode(errors="replace")

    # --- queries ------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> tuple[int, int]:
        """Return year and month of the version, such as (22, 5). Raises CommandFailed."""
        printed = self._text("sinfo", "--version")
        numbers = re.search(r"(\d+)\.(\d+)", printed)
        if numbers is None:
            raise CommandFailed(["sinfo", "--version"], f"found {shortened(printed)!r}, expected a version")
        return int(numbers[1]), int(numbers[2])

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs that the controller lists, including those that ended recently.

        Raises SlurmAway, CommandFailed, and InputError for output in another format, as all queries below.
        """
        return read_jobs(self._run(["squeue", "--all", "--states=all", "--json"]))

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        if self.version < (23, 2):
            return read_nodes(self._run(["sinfo", "--all", "--json"]), "sinfo --json")
        return read_nodes(self._run(["scontrol", "show", "nodes", "--json"]), "scontrol show nodes --json")

    def node_powers(self) -> dict[str, tuple[frozenset[str], float | None]]:
        """Return the flags and the last measured power of each node, W; None or 0 if not measured."""
        text = self._text("scontrol", "show", "nodes", "--oneliner")
        return {
            node[1]: (frozenset(node[2].split("+")[1:]), float(node[3]) if node[3].isdecimal() else None)
            for node in re.finditer(r"^NodeName=(\S+) .*? State=(\S+) .*? CurrentWatts=(\S+)", text, re.M)
        }

    def reservations(self) -> list[NodeReservation]:
        """Return all reservations, those that have not begun yet included."""
        return read_reservations(self._text("scontrol", "show", "reservation", "--oneliner"))

    def config(self) -> dict[str, str]:
        """Return the controller's settings, as printed by ``scontrol show config``, and its time.

        The time is ``now``, in whole s since 1970, if the controller reports it.
        """
        text = self._text("scontrol", "show", "config")
        time = re.match(r"Configuration data as of (\d+)$", text, re.MULTILINE)
        return ({"now": time[1]} if time else {}) | dict(_settings(text.splitlines()))

    def partition(self, name: str) -> dict[str, str]:
        """Return a partition's settings, as printed by ``scontrol show partition``."""
        return dict(_settings(self._text("scontrol", "show", "partition", name).split()))

    def admin_level(self, user: str) -> str:
        """Return a user's level in the accounting: None, Operator, Administrator; empty if unknown."""
        asked = ("--noheader", "--parsable2", "show", "user", user, "format=AdminLevel")
        return self._text("sacctmgr", *asked).strip()

    def shares(self) -> dict[tuple[str, str], float]:
        """Return the fair-share factor of each account and user in the accounting, from 0 to 1."""
        asked = ("--all", "--noheader", "--parsable2", "--format=Account,User,FairShare")
        rows = [line.split("|") for line in self._text("sshare", *asked).splitlines()]
        return {
            (row[0].strip(), row[1].strip()): float(row[2])
            for row in rows
            if len(row) == 3 and row[1].strip() and re.fullmatch(r"\d+(\.\d+)?", row[2])
        }

    def history(
        self, start: str, end: str | None = None, partition: str | None = None, cluster: str | None = None
    ) -> bytes:
        """Return the output of ``sacct --json`` for all jobs that ran, or waited, between two times.

        ``start`` and ``end`` are times in Slurm's notation (``2026-01-01``, ``now-30days``); ``cluster``
        selects another cluster than the local one.
        """
        until = [] if end is None else [f"--endtime={end}"]
        of = [] if partition is None else [f"--partition={partition}"]
        of += [] if cluster is None else [f"--clusters={cluster}"]
        return self._run(["sacct", "--json", "--allusers", f"--starttime={start}", *until, *of])

    # --- actions ------------------------------------------------------------------------------------

    def do(self, action: a.ClusterAction) -> None:
        """Carry out an action. Raises SlurmAway and CommandFailed."""
        for command in commands_of(action):
            self._run(command)


def commands_of(action: a.ClusterAction) -> list[list[str]]:
    """Return the commands for an action, in order; none for an action that Slurm does not support."""
    match action:
        case a.StartJob(job, nodes, node_range):
            changes = [f"ReqNodeList={','.join(nodes)}"]
            if node_range:  # otherwise Slurm would add nodes, up to the largest number
                changes.append(f"NumNodes={len(nodes)}-{len(nodes)}")
            comment = f"AdminComment={PLACED} {node_range}".rstrip()
            return [["scontrol", "update", f"JobId={job}", *changes, comment], ["scontrol", "release", job]]
        case a.UnplaceJob(job, node_range, comment):
            changes = ["ReqNodeList=", *([f"NumNodes={node_range}"] if node_range else [])]
            return [["scontrol", "update", f"JobId={job}", *changes, f"AdminComment={comment}"]]
        case a.ReleaseJob(job):
            return [["scontrol", "release", job]]
        case a.HoldJob(job):
            return [["scontrol", "hold", job]]
        case a.CancelJob(job):
            return [["scancel", job]]
        case a.SignalJob(job, comment):
            mark = ["scontrol", "update", f"JobId={job}", f"AdminComment={comment}"]
            return [mark, ["scancel", "--signal=TERM", "--batch", job]]
        case a.RequeueJob(job):
            return [["scontrol", "requeuehold", job]]
        case a.RestartJob(job):
            return [["scontrol", "requeue", job]]
        case a.MarkJob(job, text):
            return [["scontrol", "update", f"JobId={job}", f"AdminComment={text}"]]
        case a.CommentJob(job, text):
            return [["scontrol", "update", f"JobId={job}", f"Comment={text}"]]
        case a.SwitchOff(nodes):
            off = ["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_DOWN"]
            return [off] if nodes else []
        case a.SwitchOn(nodes):
            return [["scontrol", "update", f"NodeName={','.join(nodes)}", "State=POWER_UP"]]
        case a.MakeReservation(name, nodes, start_s, end_s):
            fixed = [f"Users={OWNER}", f"Flags={','.join(sorted(FLAGS))}"]
            start = ["StartTime=now"] if start_s is None else []
            what = [f"ReservationName={name}", *fixed, *start, *_reserved(nodes, start_s, end_s)]
            return [["scontrol", "create", "reservation", *what]]
        case a.ChangeReservation(name, nodes, start_s, end_s):
            return [["scontrol", "update", f"ReservationName={name}", *_reserved(nodes, start_s, end_s)]]
        case a.DeleteReservation(name):
            return [["scontrol", "delete", f"ReservationName={name}"]]
        case a.SwitchPartition(partition, is_up):
            state = "UP" if is_up else "DOWN"
            return [["scontrol", "update", f"PartitionName={partition}", f"State={state}"]]
    return []


def _reserved(nodes: tuple[str, ...] | None, start_s: float | None, end_s: float | None) -> list[str]:
    """Return nodes and times of a reservation as Slurm's commands take them, without those that are None."""
    times = {"StartTime": start_s, "EndTime": end_s}
    named = [] if nodes is None else [f"Nodes={compressed(nodes)}"]
    return [*named, *(f"{name}=uts{at_s:.0f}" for name, at_s in times.items() if at_s is not None)]


def _settings(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return names and values of ``NAME=VALUE``."""
    pairs = (part.partition("=") for part in parts if "=" in part)
    return [(name.strip(), value.strip()) for name, _, value in pairs]
