"""A Slurm cluster in memory, for tests: nodes and jobs, and the commands that show and change them.

``FakeSlurm()`` runs commands as `slurm_commands.run_program` does: it prints JSON as 22.05 or 23.11 does,
carries out ``scontrol`` and ``scancel``, and keeps every command. Time passes with ``advance`` alone. What
takes a controller or a node some time takes `Delays`; what Slurm refuses is refused in its words.

    slurm = FakeSlurm(4)
    bridge_side = Slurm(slurm)  # of `slurm_commands`, with `actions` as a
    job = slurm.submit(nodes=2, run_s=60)
    bridge_side.do(a.StartJob(job, ("n1", "n2")))
    slurm.advance(2)
    assert slurm.jobs[job].state == "RUNNING"
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beasy_sched.plugins.slurm.records import SlurmAway, compressed, expanded
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed

START_S = 1_800_000_000.0
"""What the clock says at first, s since 1970."""
CHANGING = ("create", "delete", "update", "release", "hold", "requeue", "requeuehold", "suspend", "resume")
"""What ``scontrol`` does to change a cluster, as `changing` has it; ``scancel`` and ``sbatch`` do, too."""
_BUSY = ("RUNNING", "CONFIGURING", "COMPLETING")


@dataclass
class Delays:
    """What takes how long, s."""

    start_s: float = 1.0
    """From a release, or the moment when nodes are free, to the start."""
    end_s: float = 0.0
    """From a job's end to the moment when its nodes are free; it is COMPLETING meanwhile."""
    down_s: float = 3.0
    up_s: float = 10.0
    resume_timeout_s: float = 20.0
    """After this, a node that does not come is DOWN."""
    min_job_age_s: float = 300.0
    """For so long, jobs that have ended are shown."""
    check_s: float = 0.0
    """Interval of the checks whether the nodes of a job that is CONFIGURING are ready; 0: at once."""
    suspend_s: float = math.inf
    """SuspendTime: after this without a job, Slurm itself powers a node down."""


@dataclass
class FakeNode:
    """A node; ``base`` and ``flags`` may be set at will, such as ``flags.add("DRAIN")``."""

    name: str
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("main",)
    cpus: int = 1
    memory_mb: int = 100_000
    suspend_s: float | None = None
    """SuspendTime of the node itself, which 26.05 prints."""
    reserved_until_s: float = -math.inf
    """Until then, a reservation of others keeps jobs away, as one does that begins soon."""
    base: str = "IDLE"
    """IDLE, or DOWN; ALLOCATED is made of the jobs."""
    flags: set[str] = field(default_factory=set)
    reason: str = ""
    up_s: float = -math.inf
    """When it was last woken."""
    until_s: float = math.inf
    """When powering down or up ends."""
    idle_since_s: float = math.inf
    """Since when it is up and without a job."""

    @property
    def is_up(self) -> bool:
        """Whether jobs can start here."""
        return self.base == "IDLE" and not self.flags & {
            "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "DRAIN", "NOT_RESPONDING",
            "MAINTENANCE",
        }  # fmt: skip


@dataclass
class FakeReservation:
    """A reservation of whole nodes, with the flags IGNORE_JOBS and OVERLAP or others."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    users: str = "root"
    flags: tuple[str, ...] = ("OVERLAP", "IGNORE_JOBS", "SPEC_NODES")


@dataclass
class FakeJob:
    """A job, or a task of an array."""

    id: str
    number: int
    """Its own number, which differs from the array's for tasks that have been released."""
    nodes: int
    run_s: float
    limit_s: float | None
    partition: str
    submit_s: float
    state: str = "PENDING"
    ends_as: str = "COMPLETED"
    """What its state is when its run time is over."""
    held: bool = True
    free_s: float = -math.inf
    """When it was released."""
    required: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    """Nodes that it has, or had."""
    start_s: float = 0.0
    end_s: float = 0.0
    dependency: str = ""
    begin_s: float = 0.0
    """Not to start before this (``--begin``)."""
    comment: str = ""
    admin_comment: str = ""
    name: str = "job"
    user: str = "ada"
    requeue: bool = True
    restarts: int = 0
    rank: int = 0
    """Its priority once it is released."""
    features: str = ""
    licenses: str = ""
    tres_per_node: str = ""
    most: int | None = None
    """Largest number of nodes (``-N2-4``); None: exactly ``nodes``; 0: nothing was said of a largest one."""
    memory_mb: int = 0
    """Memory that it asks for on each node."""
    contiguous: bool = False
    exclusive: str = ""
    stuck: str = ""
    """Why Slurm does not start it although it could, such as AssocMaxJobsLimit; empty: it does."""
    held_as: str = "JobHeldUser"
    """Reason while it is held."""
    on_term: str = "FAILED"
    """What it does when it gets SIGTERM: it ends in this state; empty: it continues."""
    ends_later_as: str = ""
    """What its state is to be at the end of its next run."""
    account: str = ""
    nice: int = 0
    cpus: int = 0
    """CPUs of each of its nodes; 0: whole nodes."""

    @property
    def array(self) -> tuple[int, int] | None:
        """The array's number and the task's; None for a job that is no array's."""
        whole, _, task = self.id.partition("_")
        return (int(whole), int(task)) if task else None

    @property
    def priority(self) -> int:
        return 0 if self.held else self.rank

    @property
    def reason(self) -> str:
        if self.state != "PENDING":
            return "None"
        if self.held:
            return self.held_as
        return "Dependency" if self.dependency else self.stuck or "Resources"


class FakeSlurm:
    """The cluster: call it with a command to run that."""

    def __init__(
        self,
        nodes: int | Iterable[str] = 4,
        *,
        version: str = "22.05.8",
        delays: Delays | None = None,
        holding: bool = True,
        now_s: float = START_S,
    ) -> None:
        """``holding``: the submission of a job holds it, as the script of job_submit/lua does."""
        names = [f"n{number}" for number in range(1, nodes + 1)] if isinstance(nodes, int) else nodes
        self.nodes = {name: FakeNode(name) for name in names}
        self.jobs: dict[str, FakeJob] = {}
        self.delays = delays or Delays()
        self.version = version
        self.now_s = now_s
        self.holding = holding
        self.commands: list[tuple[str, ...]] = []
        """All that were run, those that were refused among them."""
        self.away = False
        """Whether the controller does not answer: commands fail, or print the JSON of an error."""
        self.broken: set[str] = set()
        """Nodes that do not come when they are woken."""
        self.denied = False
        """Whether changes are refused, as to a user without rights."""
        self.admins: dict[str, str] | None = None
        """Levels of users in the accounting; None: there is none."""
        self.watts: dict[str, int] = {}
        """Power of nodes, as the energy accounting has measured it, W."""
        self.settings: dict[str, str] = {}
        """Settings that ``scontrol show config`` prints beside, or instead of, its usual ones."""
        self.partition_settings = "OverSubscribe=NO State=UP"
        """What ``scontrol show partition`` prints of every partition."""
        self.shares: dict[tuple[str, str], float] | None = None
        """Fair-share factors by account and user; None: there is no accounting."""
        self.clock_ahead_s = 0.0
        """By how much the controller's clock is ahead of the others'."""
        self.down_partitions: set[str] = set()
        """Partitions whose State is DOWN: their jobs do not start."""
        self.reservations: dict[str, FakeReservation] = {}
        self._next = 1

    # --- what a test does -------------------------------------------------------------------------------

    def submit(
        self,
        *,
        nodes: int = 1,
        run_s: float = 60.0,
        limit_s: float | None = 3600.0,
        partition: str = "main",
        tasks: Iterable[int] = (),
        **other: Any,
    ) -> str:
        """Have a user submit a job; return its id, or that of the array for ``tasks`` (``7_1``, ``7_2``...).

        ``other`` are further fields of `FakeJob`, such as ``dependency="afterok:1(unfulfilled)"``.
        """
        number, self._next = self._next, self._next + 1
        other = {"held": self.holding, "free_s": self.now_s, "rank": 4_000_000_000 - number} | other
        for job_id in [f"{number}_{task}" for task in tasks] or [str(number)]:
            self.jobs[job_id] = FakeJob(
                job_id, number, nodes, run_s, limit_s, partition, submit_s=self.now_s, **other
            )
        return str(number)

    def cancel(self, job: str) -> None:
        """Have the user end a job, without a command."""
        self._end(self.jobs[job], "CANCELLED")

    def lose(self, node: str, reason: str = "Not responding") -> None:
        """Let a node vanish; its job is requeued, or ends as NODE_FAIL."""
        lost = self.nodes[node]
        lost.base, lost.reason, lost.until_s = "DOWN", reason, math.inf
        lost.flags = {"NOT_RESPONDING"}
        for job in self.jobs.values():
            if node in job.on and job.state in _BUSY:
                if job.requeue:
                    self._requeue(job, held=False)
                else:
                    self._end(job, "NODE_FAIL")

    def bring_back(self, node: str) -> None:
        """Let a lost node work again."""
        found = self.nodes[node]
        found.base, found.reason, found.until_s, found.flags = "IDLE", "", math.inf, set()

    def advance(self, seconds: float) -> None:
        """Let time pass: nodes come and go, jobs start and end, each at its moment."""
        end_s = self.now_s + seconds
        while True:
            self._settle()
            moments = [moment for moment in self._moments() if moment > self.now_s]
            following = min(moments, default=math.inf)
            if following > end_s:
                break
            self.now_s = following
        self.now_s = end_s
        self._settle()

    @property
    def changing(self) -> list[tuple[str, ...]]:
        """Commands that were to change something."""
        return [
            command
            for command in self.commands
            if command[0] in ("scancel", "sbatch") or (command[0] == "scontrol" and command[1] in CHANGING)
        ]

    # --- time -----------------------------------------------------------------------------------------------

    def _moments(self) -> Iterable[float]:
        for node in self.nodes.values():
            yield node.until_s
        for job in self.jobs.values():
            if job.state == "RUNNING":
                yield self._due_s(job)
            elif job.state == "COMPLETING":
                yield job.end_s + self.delays.end_s
            elif job.state == "PENDING" and not job.held:
                yield max(job.free_s + self.delays.start_s, job.begin_s)
        for node in self.nodes.values():
            yield node.reserved_until_s
        for reservation in self.reservations.values():
            yield from (reservation.start_s, reservation.end_s)
        if self.delays.suspend_s < math.inf:
            for node in self.nodes.values():
                yield node.idle_since_s + self.delays.suspend_s

    def _due_s(self, job: FakeJob) -> float:
        return job.start_s + min(job.run_s, math.inf if job.limit_s is None else job.limit_s)

    def _settle(self) -> None:
        """Carry out what is due now."""
        for node in self.nodes.values():
            if node.until_s <= self.now_s:
                self._powered(node)
        for job in self.jobs.values():
            if job.state == "RUNNING" and self._due_s(job) <= self.now_s:
                timeout = job.limit_s is not None and job.run_s > job.limit_s
                self._end(job, "TIMEOUT" if timeout else job.ends_as)
            if job.state == "COMPLETING" and job.end_s + self.delays.end_s <= self.now_s:
                job.state = job.ends_as
                self._left(job)
            if job.state == "CONFIGURING" and self._checks and all(self.nodes[name].is_up for name in job.on):
                job.state, job.start_s = "RUNNING", self.now_s
        for name in [name for name, each in self.reservations.items() if each.end_s <= self.now_s]:
            del self.reservations[name]
        for job in sorted(self.jobs.values(), key=lambda job: -job.priority):
            self._try_start(job)
        self._suspend()

    @property
    def _checks(self) -> bool:
        return not self.delays.check_s or self.now_s % self.delays.check_s == 0.0

    def _suspend(self) -> None:
        """Power down nodes that have been without a job for SuspendTime."""
        if self.delays.suspend_s == math.inf:
            return
        busy = self._busy_nodes()
        for node in self.nodes.values():
            if not node.is_up or node.name in busy:
                node.idle_since_s = math.inf
            else:
                node.idle_since_s = min(node.idle_since_s, self.now_s)
                if self.now_s - node.idle_since_s >= self.delays.suspend_s:
                    self._sleep(node)

    def _busy_nodes(self) -> dict[str, int]:
        """CPUs in use on the nodes that have jobs."""
        used: dict[str, int] = {}
        for job in self.jobs.values():
            if job.state in _BUSY:
                for name in self.nodes.keys() & {*job.on}:
                    used[name] = used.get(name, 0) + (job.cpus or self.nodes[name].cpus)
        return used

    def _reserved(self, job: FakeJob) -> set[str]:
        """Nodes on which a job cannot start now: those whose reservation it would run into."""
        end_s = math.inf if job.limit_s is None else self.now_s + job.limit_s
        return {
            name
            for each in self.reservations.values()
            if each.start_s < end_s and self.now_s < each.end_s
            for name in each.nodes
        }

    @property
    def reserved_now(self) -> set[str]:
        """Nodes that are reserved now."""
        active = [each for each in self.reservations.values() if each.start_s <= self.now_s < each.end_s]
        return {name for each in active for name in each.nodes}

    @property
    def on(self) -> set[str]:
        """Nodes that are not powered down."""
        return {name for name, node in self.nodes.items() if "POWERED_DOWN" not in node.flags}

    def _powered(self, node: FakeNode) -> None:
        """End the transition of a node."""
        if "POWERING_DOWN" in node.flags:
            node.flags ^= {"POWERING_DOWN", "POWERED_DOWN"}
        elif node.name in self.broken:
            node.base, node.flags = "DOWN", {"POWERED_DOWN", "NOT_RESPONDING"}
            node.reason = "ResumeTimeout reached"
            for job in self.jobs.values():
                if job.state == "CONFIGURING" and node.name in job.on:
                    self._requeue(job, held=False)
        else:
            node.base, node.reason, node.up_s = "IDLE", "", self.now_s
            node.flags -= {"POWERING_UP", "NOT_RESPONDING"}
        node.until_s = math.inf

    def _try_start(self, job: FakeJob) -> None:
        waits = job.state == "PENDING" and not job.held and not job.dependency
        if not waits or max(job.free_s + self.delays.start_s, job.begin_s) > self.now_s:
            return
        if self._is_impossible(job):
            job.held, job.held_as = True, "BadConstraints"
            return
        if job.stuck:
            return
        used, reserved = self._busy_nodes(), self._reserved(job)
        free = [
            node
            for node in self.nodes.values()
            if used.get(node.name, 0) + (job.cpus or node.cpus) <= node.cpus
            and node.name not in reserved
            and node.reserved_until_s <= self.now_s
            and job.partition in node.partitions
            and job.partition not in self.down_partitions
            and node.base == "IDLE"
            and not node.flags & {"POWERING_DOWN", "POWER_DOWN", "DRAIN", "MAINTENANCE"}
            and ("POWERING_UP" in node.flags or "NOT_RESPONDING" not in node.flags)
        ]
        names = [node.name for node in sorted(free, key=lambda node: not node.is_up)]
        if not set(job.required) <= set(names) or len(names) < job.nodes:
            return
        more = [name for name in names if name not in job.required and self._fits(job, name)]
        chosen = {*job.required, *more[: max((job.most or job.nodes) - len(job.required), 0)]}
        job.on = tuple(name for name in self.nodes if name in chosen)
        job.state, job.start_s = "RUNNING", self.now_s
        for name in job.on:
            node = self.nodes[name]
            if "POWERED_DOWN" in node.flags:
                self._wake(node)
            if not node.is_up:  # Slurm's power saving wakes what a job needs
                job.state = "CONFIGURING"

    def _fits(self, job: FakeJob, name: str) -> bool:
        return self.nodes[name].memory_mb >= job.memory_mb

    def _is_impossible(self, job: FakeJob) -> bool:
        """Whether the nodes are too small: those that it requires, or all but a few."""
        fit = [name for name in self.nodes if self._fits(job, name)]
        return not set(job.required) <= set(fit) or len(fit) < min(job.nodes, len(self.nodes))

    def _end(self, job: FakeJob, state: str) -> None:
        """End a job, which keeps its nodes for a moment where it had some."""
        if job.state == "PENDING":
            job.state, job.end_s = state, self.now_s
        elif job.state in _BUSY:
            job.ends_as, job.end_s = state, self.now_s
            job.state = "COMPLETING"
            if self.delays.end_s <= 0:
                job.state = state
                self._left(job)

    def _left(self, job: FakeJob) -> None:
        """Let nodes that were to be powered down when their job has ended do that."""
        busy = self._busy_nodes()
        for name in job.on:
            node = self.nodes[name]
            if "POWER_DOWN" in node.flags and name not in busy:
                node.flags.remove("POWER_DOWN")
                self._sleep(node)

    def _requeue(self, job: FakeJob, *, held: bool) -> None:
        freed, job.held_as = job.on, "JobHeldUser"
        job.state, job.held, job.on, job.free_s = "PENDING", held, (), self.now_s
        job.start_s, job.end_s, job.restarts = 0.0, 0.0, job.restarts + 1
        job.ends_as, job.ends_later_as = job.ends_later_as or job.ends_as, ""
        self._left(FakeJob(job.id, 0, 0, 0, None, "", 0, on=freed))

    def _sleep(self, node: FakeNode) -> None:
        node.flags.add("POWERING_DOWN")
        node.until_s = self.now_s + self.delays.down_s

    def _wake(self, node: FakeNode) -> None:
        node.flags.discard("POWERED_DOWN")
        node.flags |= {"POWERING_UP", "NOT_RESPONDING"}  # as a real one, until its daemon is there
        node.base, node.reason = "IDLE", ""
        broken = node.name in self.broken
        node.until_s = self.now_s + (self.delays.resume_timeout_s if broken else self.delays.up_s)

    # --- commands -------------------------------------------------------------------------------------

    def __call__(self, command: Sequence[str]) -> bytes:
        """Run a command; return what it prints. Raises CommandFailed, and SlurmAway."""
        self.commands.append(tuple(command))
        if command[1:] == ["--version"]:
            return f"slurm-wlm {self.version}\n".encode()
        if self.away and command[0] in ("squeue", "sinfo"):
            failed = {"description": "Failed while looking", "error_number": -1, "error": "Unspecified error"}
            return self._printed("jobs" if command[0] == "squeue" else "nodes", [], [failed])
        if self.away:
            raise SlurmAway(f"{command[0]}: Unable to contact slurm controller (connect failure)")
        self._settle()
        program, *arguments = command
        if (program == "scancel" or arguments[:1] in ([word] for word in CHANGING)) and self.denied:
            said = "Access/permission denied" if program == "scancel" else "Invalid user id"
            raise CommandFailed(command, said)
        if program == "squeue":
            return self._jobs_json()
        if program == "sinfo" and self._is_old:
            return self._nodes_json()
        if program == "scancel":
            return self._scancel(command)
        if program == "sshare":
            if self.shares is None:
                raise CommandFailed(command, "You are not running a supported priority plugin")
            rows = (f" {account}|{user}|{share:f}" for (account, user), share in self.shares.items())
            return "\n".join([f" {account}||" for account, _ in self.shares] + [*rows, ""]).encode()
        if program == "sacctmgr":
            if self.admins is None:
                raise CommandFailed(command, "You are not running a supported accounting_storage plugin")
            return f"{self.admins.get(arguments[4], '')}\n".encode()
        if program == "scontrol":
            return self._scontrol(command)
        raise CommandFailed(command, "this fake does not know the command")

    def _scontrol(self, command: Sequence[str]) -> bytes:
        action, *words = command[1:]
        if action == "show":
            if words == ["config"]:
                return self._config()
            if words == ["nodes", "--json"] and not self._is_old:
                return self._nodes_json()
            if words == ["nodes", "--oneliner"]:
                return self._nodes_text()
            if words == ["reservation", "--oneliner"]:
                return self._reservations_text()
            if words[0] == "partition":
                return self._partition(command, words[1])
            if words == ["hostnames"]:
                return b""
        elif action == "create" and words[0] == "reservation":
            return self._reserve(command, dict(word.split("=", 1) for word in words[1:]))
        elif action == "delete":
            name = words[0].removeprefix("ReservationName=")
            if self.reservations.pop(name, None) is None:
                raise CommandFailed(command, "Requested reservation is invalid")
            return b""
        elif action == "update":
            changes = dict(word.split("=", 1) for word in words)
            if "ReservationName" in changes:
                return self._reserve(command, changes)
            if "NodeName" in changes:
                return self._update_nodes(command, changes)
            if "PartitionName" in changes:
                return self._update_partition(command, changes)
            return self._update_job(command, changes)
        elif action == "release":
            for job in self._named(command, words[0]):
                if job.state == "PENDING":
                    job.held, job.free_s = False, self.now_s
            return b""
        elif action == "hold":
            for job in self._named(command, words[0]):
                if job.state != "PENDING":
                    raise CommandFailed(command, f"Job is no longer pending execution for job {words[0]}")
                job.held, job.held_as = True, "JobHeldAdmin"
            return b""
        elif action in ("requeue", "requeuehold"):
            for job in self._named(command, words[0]):
                if job.state in _BUSY or job.end_s:
                    self._requeue(job, held=action == "requeuehold")
                else:
                    raise CommandFailed(command, f"Job is pending execution for job {words[0]}")
            return b""
        raise CommandFailed(command, "invalid keyword")

    def _named(self, command: Sequence[str], job_id: str) -> list[FakeJob]:
        """What a command names. Raises CommandFailed for a job that is not there."""
        found = self._find(job_id)
        if not found:
            raise CommandFailed(command, f"Invalid job id specified for job {job_id}")
        return found

    def _find(self, job_id: str) -> list[FakeJob]:
        """The job, or all tasks of an array."""
        if job_id in self.jobs:
            return [self.jobs[job_id]]
        return [job for job in self.jobs.values() if job.id.partition("_")[0] == job_id]

    def _scancel(self, command: Sequence[str]) -> bytes:
        """Nothing is said of a job that has ended, or was never there."""
        for job in self._find(command[-1]):
            if "--signal=TERM" not in command:
                self._end(job, "CANCELLED")
            elif job.on_term and job.state == "RUNNING":
                job.ends_later_as = job.ends_as
                self._end(job, job.on_term)
        return b""

    def _update_job(self, command: Sequence[str], changes: dict[str, str]) -> bytes:
        for job in self._named(command, changes.pop("JobId")):
            for name, value in changes.items():
                if name == "ReqNodeList":
                    if job.state != "PENDING":
                        raise CommandFailed(command, "Job is no longer pending execution")
                    nodes = expanded(value)
                    if not set(nodes) <= set(self.nodes):
                        raise CommandFailed(command, "Invalid node name specified")
                    job.required = nodes
                    if job.held_as == "BadConstraints":  # Slurm tries again
                        job.held, job.held_as, job.free_s = False, "JobHeldUser", self.now_s
                elif name == "NumNodes":
                    least, _, most = value.partition("-")
                    job.nodes, job.most = int(least), int(most or least)
                elif name == "AdminComment":
                    job.admin_comment = value
                elif name == "Comment":
                    job.comment = value
                else:
                    raise CommandFailed(command, f"Update of this parameter is not supported: {name}={value}")
        return b""

    def _reserve(self, command: Sequence[str], changes: dict[str, str]) -> bytes:
        """Make or change a reservation, with the refusals of a real controller."""
        name, is_new = changes["ReservationName"], command[1] == "create"
        found = self.reservations.get(name)
        if is_new and found is not None:
            raise CommandFailed(command, "Duplicate reservation name")
        if not is_new and found is None:
            raise CommandFailed(command, "Requested reservation is invalid")
        nodes = expanded(changes["Nodes"]) if "Nodes" in changes else found.nodes
        if not nodes or not set(nodes) <= set(self.nodes):
            raise CommandFailed(command, "Invalid node name specified")
        start_s, end_s = (
            self.now_s if text == "now" else float(text.removeprefix("uts")) if text else None
            for text in (changes.get("StartTime"), changes.get("EndTime"))
        )
        if found is not None and start_s is not None and found.start_s <= self.now_s:
            raise CommandFailed(command, "Reservation already started")
        start_s = found.start_s if start_s is None else start_s
        end_s = found.end_s if end_s is None else end_s
        if end_s <= max(start_s, self.now_s):
            raise CommandFailed(command, "Start time cannot be after end time.  No reservation created.")
        flags = tuple(changes["Flags"].split(",")) if is_new else found.flags
        users = changes["Users"] if is_new else found.users
        self.reservations[name] = FakeReservation(name, nodes, start_s, end_s, users, flags)
        return b""

    def _reservations_text(self) -> bytes:
        if not self.reservations:
            return b"No reservations in the system\n"
        lines = (
            f"ReservationName={each.name} StartTime={each.start_s:.0f} EndTime={each.end_s:.0f}"
            f" Duration=00:10:00 Nodes={compressed(each.nodes)} NodeCnt={len(each.nodes)} CoreCnt=1"
            f" Features=(null) PartitionName=(null) Flags={','.join(each.flags)} TRES=cpu=1"
            f" Users={each.users} Groups=(null)"
            " Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a"
            " MaxStartDelay=(null)\n"
            for each in self.reservations.values()
        )
        return "".join(lines).encode()

    def _update_nodes(self, command: Sequence[str], changes: dict[str, str]) -> bytes:
        names, state = expanded(changes["NodeName"]), changes["State"]
        if not set(names) <= set(self.nodes):
            raise CommandFailed(command, "Invalid node name specified")
        if "SuspendTime" in self.settings and self.settings["SuspendTime"] in ("NONE", "INFINITE"):
            raise CommandFailed(command, "Invalid node state specified")
        for name in names:
            node = self.nodes[name]
            busy = any(job.state in _BUSY and name in job.on for job in self.jobs.values())
            if state == "POWER_DOWN":
                if node.flags & {"POWERED_DOWN", "POWERING_DOWN"}:
                    continue
                if busy:
                    node.flags.add("POWER_DOWN")
                else:
                    node.flags.discard("POWERING_UP")
                    self._sleep(node)
            elif state == "POWER_UP":
                if "POWERED_DOWN" in node.flags:  # of one that is still falling asleep it is lost
                    self._wake(node)
                node.flags.discard("POWER_DOWN")
            elif state in ("RESUME", "IDLE"):
                node.flags.discard("DRAIN")
                if node.base == "DOWN":
                    node.base, node.reason = "IDLE", ""
            elif state in ("DRAIN", "DOWN"):
                node.reason = changes.get("Reason", "")
                if state == "DRAIN":
                    node.flags.add("DRAIN")
                else:
                    self.lose(name, node.reason)
            else:
                raise CommandFailed(command, "Invalid node state specified")
        return b""

    # --- what is printed ------------------------------------------------------------------------------

    @property
    def _is_old(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) < (23, 2)

    def _number(self, value: float | None, *, infinite: bool = False) -> Any:
        """A number as this version prints it; None: not set."""
        if not self._is_old:
            return {
                "set": value is not None and not infinite,
                "infinite": infinite,
                "number": int(value or 0),
            }
        return None if value is None else int(value)

    def _config(self) -> bytes:
        found = {
            "ClusterName": "green",
            "JobSubmitPlugins": "lua" if self.holding else "(null)",
            "ResumeProgram": "/etc/slurm/resume",
            "ResumeTimeout": f"{self.delays.resume_timeout_s:g} sec",
            "SelectType": "select/linear",
            "SelectTypeParameters": "(null)",
            "SlurmUser": "slurm(64030)",
            "SuspendExcNodes": "(null)",
            "SuspendExcParts": "(null)",
            "SuspendProgram": "/etc/slurm/suspend",
            "SuspendTime": "8640000 sec",
            "SuspendTimeout": f"{self.delays.down_s:g} sec",
            "SLURM_VERSION": self.version,
            **self.settings,
        }
        lines = [f"{name:<23} = {value}" for name, value in found.items()]
        return (
            f"Configuration data as of {self.now_s + self.clock_ahead_s:.0f}\n" + "\n".join(lines) + "\n"
        ).encode()

    def _nodes_text(self) -> bytes:
        """As ``scontrol show nodes --oneliner`` prints nodes, without most of it."""
        lines = (
            f"NodeName={node.name} Arch=x86_64 CPUTot={node.cpus} OS=Linux 6.1 #1 SMP"
            f" State={'+'.join([node.base, *sorted(node.flags)])} ThreadsPerCore=1 CfgTRES=cpu=1 CapWatts=n/a"
            f" CurrentWatts={self.watts.get(node.name, 0)} AveWatts=0 ExtSensorsJoules=n/s"
            " Reason=CurrentWatts=7 is what it was\n"
            for node in self.nodes.values()
        )
        return "".join(lines).encode()

    def _partition(self, command: Sequence[str], name: str) -> bytes:
        nodes = [node.name for node in self.nodes.values() if name in node.partitions]
        if not nodes:
            raise CommandFailed(command, f"Partition {name} not found")
        settings = self.partition_settings
        if name in self.down_partitions:
            settings = settings.replace("State=UP", "State=DOWN")
        return f"PartitionName={name}\n   Nodes={','.join(nodes)}\n   {settings}\n".encode()

    def _update_partition(self, command: Sequence[str], changes: Mapping[str, str]) -> bytes:
        name, state = changes["PartitionName"], changes["State"]
        self._partition(command, name)
        if state not in ("UP", "DOWN"):
            raise CommandFailed(command, "invalid partition state")
        (self.down_partitions.add if state == "DOWN" else self.down_partitions.discard)(name)
        return b""

    def _printed(self, key: str, rows: list[dict[str, Any]], errors: Sequence[Any] = ()) -> bytes:
        year, month, micro = self.version.split(".")
        old = {"major": int(year), "micro": int(micro), "minor": int(month)}
        new = {"major": year, "micro": micro, "minor": month}
        if self._is_old:
            meta: Any = {
                "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
                "Slurm": {"version": old, "release": self.version},
            }
            return json.dumps({"meta": meta, "errors": errors, key: rows}).encode()
        meta = {
            "plugin": {"type": "openapi/slurmctld", "name": "Slurm OpenAPI slurmctld"},
            "slurm": {"version": new, "release": self.version, "cluster": "green"},
        }
        return json.dumps({key: rows, "meta": meta, "errors": errors, "warnings": []}).encode()

    def _nodes_json(self) -> bytes:
        rows = []
        used, reserved = self._busy_nodes(), self.reserved_now
        for node in self.nodes.values():
            base = node.base
            if base == "IDLE" and node.name in used:
                base = "ALLOCATED" if used[node.name] >= node.cpus else "MIXED"
            flags = sorted(node.flags | ({"RESERVED"} if node.name in reserved else set()))
            row: dict[str, Any] = {"name": node.name, "hostname": node.name, "cpus": node.cpus}
            row["real_memory"] = node.memory_mb
            if node.suspend_s is not None:
                row["suspend_time"] = self._number(node.suspend_s)
            if self._is_old:
                row |= {"state": base.lower(), "state_flags": flags}
                row["features"] = ",".join(node.features)
            else:
                row |= {"state": [base, *flags], "features": list(node.features)}
            rows.append({**row, "partitions": list(node.partitions), "reason": node.reason})
        return self._printed("nodes", rows)

    def _jobs_json(self) -> bytes:
        arrays: dict[int, list[FakeJob]] = {}
        rows = []
        for job in self.jobs.values():
            shown = job.end_s <= 0 or self.now_s - job.end_s <= self.delays.min_job_age_s
            if job.array and job.state == "PENDING" and job.held and not job.restarts and not job.required:
                arrays.setdefault(job.array[0], []).append(job)
            elif shown or job.state in ("PENDING", *_BUSY):
                rows.append(self._job_row(job))
        rows += [self._array_row(number, waiting) for number, waiting in arrays.items()]
        return self._printed("jobs", rows)

    def _array_row(self, number: int, waiting: list[FakeJob]) -> dict[str, Any]:
        """Tasks that wait are one row, the last one of them a row of its own."""
        tasks = [job.array[1] for job in waiting if job.array]
        row = self._job_row(waiting[0]) | {"job_id": number}
        if len(tasks) > 1:
            row |= {"array_task_string": _short(tasks), "array_task_id": self._number(None)}
        return row

    def _job_row(self, job: FakeJob) -> dict[str, Any]:
        number = self._number
        base = {"CONFIGURING": "RUNNING", "COMPLETING": job.ends_as}.get(job.state, job.state)
        states = [base] if base == job.state else [base, job.state]
        limit_min = None if job.limit_s is None else math.ceil(job.limit_s / 60)
        return {
            "job_id": job.number,
            "job_state": job.state if self._is_old else states,
            "state_reason": job.reason,
            "array_job_id": number(job.array[0] if job.array else 0),
            "array_task_id": number(job.array[1] if job.array else None),
            "array_task_string": "",
            "het_job_id": number(0),
            "partition": job.partition,
            "nodes": ",".join(job.on),
            "node_count": number(job.nodes),
            "time_limit": number(limit_min, infinite=limit_min is None),
            "submit_time": number(job.submit_s),
            "start_time": number(job.start_s or job.begin_s),
            "end_time": number(job.end_s),
            "priority": number(job.priority),
            "required_nodes": ",".join(job.required),
            "excluded_nodes": "",
            "dependency": job.dependency,
            "comment": job.comment,
            "admin_comment": job.admin_comment,
            "name": job.name,
            "user_name": job.user,
            "requeue": job.requeue,
            "restart_cnt": job.restarts,
            "licenses": job.licenses,
            "features": job.features,
            "tres_per_node": job.tres_per_node,
            "resv_name": "",
            "max_nodes": number(0 if job.on else job.nodes if job.most is None else job.most),
            "memory_per_node": number(job.memory_mb or None),
            "contiguous": job.contiguous,
            "shared": job.exclusive if self._is_old else [job.exclusive] * bool(job.exclusive),
            "account": job.account,
            "nice": job.nice or None,
        }


def _short(tasks: list[int]) -> str:
    """Task numbers as Slurm shortens them: ``1-3,7``."""
    parts: list[list[int]] = []
    for task in sorted(tasks):
        if parts and parts[-1][1] == task - 1:
            parts[-1][1] = task
        else:
            parts.append([task, task])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
