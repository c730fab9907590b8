"""Slurm's jobs and nodes, read from the JSON output of its commands.

Two formats are read: that of 22.05 (plain values; a node's flags next to its state) and that of later
versions (numbers as ``{"set", "infinite", "number"}``, states as lists). 23.02 prints some fields in either.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sized
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from beasy_sched.errors import InputError, PathLike, PeerError
from beasy_sched.formats.decoding import JsonDecoder, Malformed
from beasy_sched.formats.reading import in_file
from beasy_sched.limits import MOST_HOSTS, shortened
from beasy_sched.model.events import JobEnd
from beasy_sched.numbers import wrong_number

T = TypeVar("T")
_NOT_SET: Final = (0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE)
"""Values of 22.05 for "not set", in 32 and 64 bits; the next number means "infinite"."""
_SHOWN_FIRST: Final = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
    "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
)  # fmt: skip
"""Flags of a job's state that 22.05 prints in place of the base state (its ``job_state_string``)."""
_LEAVING: Final = frozenset(
    {"COMPLETING", "STAGE_OUT", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
)
_COUNTED: Final = ("cpu", "mem", "node", "billing")
"""Kinds of trackable resources that are part of a whole node."""


class SlurmAway(PeerError):
    """The controller does not respond, so the state of the cluster is unknown."""


OFF: Final = "POWERED_DOWN"
FALLING: Final = "POWERING_DOWN"
WAKING: Final = frozenset({"POWER_UP", "POWERING_UP"})
"""Flags of nodes that power saving has switched off, or is switching."""
_SWITCHED: Final = WAKING | {OFF, FALLING}
_LOST_STATES: Final = frozenset({"DOWN", "ERROR", "FUTURE", "UNKNOWN"})
_LOST_FLAGS: Final = frozenset({"DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "INVALID_REG"})
_ENDS: Final[dict[str, JobEnd]] = {
    "COMPLETED": JobEnd.SUCCESS,
    "TIMEOUT": JobEnd.WALLTIME_REACHED,
    "DEADLINE": JobEnd.WALLTIME_REACHED,
    "CANCELLED": JobEnd.KILLED,
    "PREEMPTED": JobEnd.KILLED,
    **dict.fromkeys(("FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"), JobEnd.FAILED),
}
"""States of jobs that have ended, as Batsim names ends."""
MARK: Final = "beasy-sched"
"""Administrator's comment on the jobs that were held for the bridge; longer ones begin with it."""
PLACED: Final = f"{MARK}: placed"
"""Administrator's comment on jobs whose node list is that of the bridge, not their user's. The range of
numbers of nodes that the user requested may follow, such as ``2-4``."""
REJECTED: Final = f"{MARK}: rejected"
"""Administrator's comment on jobs that the scheduler has rejected and that remain held."""
STOPPED: Final = "(stopped by beasy-sched)"
"""End of the administrator's comment on a job that was signalled, until it waits or runs again."""
_PLACED: Final = re.compile(rf"{PLACED}(?: \d{{1,9}}-(\d{{1,9}}))?")
_SHARED_WITH: Final = frozenset({"user", "mcs", "topo"})
"""Kinds of ``--exclusive`` that are not one whole node per job."""


class SlurmNode(Struct, frozen=True):
    """A node in Slurm."""

    name: str
    state: str
    """The base state: IDLE, ALLOCATED, MIXED, DOWN, ERROR, UNKNOWN or FUTURE."""
    flags: frozenset[str] = frozenset()
    """Flags of the node's state: POWERED_DOWN, POWERING_UP, POWERING_DOWN, DRAIN, NOT_RESPONDING, ..."""
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    """CPUs for jobs; 0 if unknown, as for the following amounts."""
    memory_mb: int = 0
    disk_mb: int = 0
    """Temporary disk space."""
    suspend_s: float | None = None
    """The node's own SuspendTime, s; infinite if Slurm does not switch it, None if it is not reported."""

    @property
    def is_off(self) -> bool:
        """Whether the node is powered down and not switching."""
        return OFF in self.flags and not self.flags & WAKING

    @property
    def wakes(self) -> bool:
        """Whether the node is not up, and Slurm wakes it for a job that starts there, or is waking it."""
        return not self.is_lost and FALLING not in self.flags and bool(self.flags & (WAKING | {OFF}))

    @property
    def is_up(self) -> bool:
        """Whether the node can run jobs, or is running one."""
        return not self.is_lost and not self.flags & _SWITCHED

    @property
    def is_lost(self) -> bool:
        """Whether the node is out of service: broken, drained, or not responding although it should be up."""
        if self.state in _LOST_STATES or self.flags & _LOST_FLAGS:
            return True
        return "NOT_RESPONDING" in self.flags and not self.flags & _SWITCHED


class SlurmJob(Struct, frozen=True):
    """A waiting, running or ended job in Slurm. Rows of waiting arrays are one job per task."""

    id: str
    """Id for commands: ``4711``, or ``4711_3`` for the task of an array."""
    state: str
    """State as shown by squeue: PENDING, RUNNING, COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, ...

    CONFIGURING: it has its nodes and waits until they are up; COMPLETING: it has ended and still has them."""
    partition: str
    nodes: tuple[str, ...] = ()
    """Names of the nodes that the job uses or used; none while it waits."""
    node_count: int = 1
    """Number of nodes that the job requests, at least."""
    most_nodes: int = 0
    """Largest number of nodes that its user requests (``-N2-4``); 0 without a limit, or if unknown."""
    time_limit_s: float | None = None
    """Time limit, s; None without one."""
    submit_s: float = 0.0
    """Time of submission, s since 1970, as all times here; 0 if unknown."""
    eligible_s: float = 0.0
    """Earliest start of the job: that of ``--begin`` while it waits for it; 0 if it is held or depends."""
    start_s: float = 0.0
    """Start of a waiting job expected by Slurm or its user; 0 if there is none."""
    end_s: float = 0.0
    reason: str = ""
    """Reason for which the job waits."""
    priority: int = 0
    """0 for a job that is held."""
    required_nodes: tuple[str, ...] = ()
    """Nodes required by the job, as set by its user or, for a placed one, by the command to start it."""
    dependency: str = ""
    """Dependencies of the job, such as ``afterok:1(unfulfilled)``; empty once all of them are met."""
    admin_comment: str = ""
    comment: str = ""
    """The user's comment."""
    can_requeue: bool = True
    restarts: int = 0
    """Number of requeues."""
    lacks: str = ""
    """Requests beyond a number of whole nodes, such as ``gres``, ``licenses`` or nodes; empty for none."""
    cpus: int = 0
    """CPUs that the job requests in total, and on each node; 0 if unknown, as for the following amounts."""
    cpus_per_node: int = 0
    memory_per_node_mb: int = 0
    memory_per_cpu_mb: int = 0
    disk_per_node_mb: int = 0
    account: str = ""
    user: str = ""
    nice: int = 0
    """Amount that its user or an administrator subtracts from its priority."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partitions in which the job may start: several while it waits."""
        return tuple(self.partition.split(","))

    @property
    def order(self) -> tuple[float, tuple[int, ...]]:
        """Sort key: time of submission, then the numbers in the id."""
        return self.submit_s, numbers_in(self.id)

    @property
    def waits(self) -> bool:
        """Whether the job is waiting."""
        return self.state == "PENDING"

    @property
    def is_held(self) -> bool:
        """Whether the job waits until it is released."""
        return self.waits and self.priority == 0

    @property
    def is_ours(self) -> bool:
        """Whether the job was held for the bridge, and has not been rejected."""
        return self.admin_comment.startswith(MARK) and not self.admin_comment.startswith(REJECTED)

    @property
    def is_placed(self) -> bool:
        """Whether its node list is that of the bridge."""
        return self.admin_comment.startswith(PLACED)

    @property
    def is_configuring(self) -> bool:
        """Whether the job has its nodes, and waits until they are ready."""
        return self.state == "CONFIGURING"

    @property
    def is_leaving(self) -> bool:
        """Whether the job has ended, or goes back into the queue, and still has its nodes."""
        return self.state in _LEAVING

    @property
    def is_stopped(self) -> bool:
        """Whether the bridge has signalled it, and it has not been started again since then."""
        return self.admin_comment.endswith(STOPPED)

    @property
    def died_of_signal(self) -> bool:
        """Whether it has ended, without success, after the bridge's signal."""
        return self.is_stopped and self.end is JobEnd.FAILED

    @property
    def node_range(self) -> str:
        """The numbers of nodes that its user allows, such as ``2-4``; empty for exactly one number."""
        most = self.most_nodes or MOST_HOSTS
        return "" if most == self.node_count else f"{self.node_count}-{most}"

    @property
    def end(self) -> JobEnd | None:
        """End state of the job; None while it waits or runs."""
        return _ENDS.get(self.state)

    @property
    def has_nodes(self) -> bool:
        """Whether the job has its nodes: it is starting, running, or has ended and not yet released them."""
        return not self.waits and self.end is None


def numbers_in(job_id: str) -> tuple[int, ...]:
    """Return the sort key of a job's id: 9 before 10, 4711_2 before 4711_10."""
    return tuple(int(number) for number in re.findall(r"\d{1,18}", job_id))


class _MarkedNumber(Struct, frozen=True):
    number: float
    set: bool = True
    infinite: bool = False


_REMEMBERED: Final = 32_768
"""Rows whose contents are remembered."""

AnyNumber = int | float | None | _MarkedNumber
"""A number in either format."""
AnyNames = str | tuple[str, ...] | None
"""Names in either format: a string with separators, or a list."""


def number_of(value: AnyNumber) -> float | None:
    """Return a number in either format; None for one that is not set, infinity for one without a limit.

    Raises ValueError for one that is absurdly large.
    """
    if isinstance(value, _MarkedNumber):
        if value.infinite:
            return math.inf
        value = value.number if value.set else None
    if type(value) is int and 0 <= value < _NOT_SET[0]:  # nearly all of them
        return float(value)
    if value is None or value in _NOT_SET:
        return None
    if value - 1 in _NOT_SET:
        return math.inf
    if (wrong := wrong_number(value)) is not None:
        raise ValueError(wrong)
    return float(value)


def count_of(value: AnyNumber, default: int = 0) -> int:
    """Return an integer in either format, ``default`` for one that is not set or without a limit.

    Raises ValueError as `number_of` does.
    """
    if type(value) is int and 0 <= value < _NOT_SET[0]:
        return value
    number = number_of(value)
    return default if number is None or math.isinf(number) else int(number)


def minutes_of(value: AnyNumber) -> float | None:
    """Return a time limit, which is in minutes in Slurm, in s; None without one. Raises ValueError."""
    limit = number_of(value)
    return None if limit is None or math.isinf(limit) or limit <= 0 else 60.0 * limit


def names_of(value: AnyNames) -> tuple[str, ...]:
    """Return names in either format."""
    parts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(part for part in parts if part and part != "(null)")


def job_state(value: AnyNames) -> str:
    """Return a job's state in either format, as shown by squeue."""
    states = _states(value)
    return next((shown for shown in _SHOWN_FIRST if shown in states), states[0])


def _states(value: AnyNames) -> list[str]:
    return [state.upper() for state in names_of(value)] or ["UNKNOWN"]


class AnswerError(Struct):
    """Return the errors in the output."""

    error: Any = ""
    description: str | None = ""


class _ListedJob(Struct, frozen=True):
    job_id: AnyNumber
    job_state: AnyNames = None
    state_reason: str | None = ""
    partition: str | None = ""
    nodes: str | None = ""
    node_count: AnyNumber = 1
    time_limit: AnyNumber = None
    submit_time: AnyNumber = 0
    eligible_time: AnyNumber = 0
    start_time: AnyNumber = 0
    end_time: AnyNumber = 0
    priority: AnyNumber = None
    required_nodes: str | None = ""
    dependency: str | None = ""
    admin_comment: str | None = ""
    comment: str | None = ""
    requeue: bool = True
    restart_cnt: AnyNumber = 0
    array_job_id: AnyNumber = 0
    array_task_id: AnyNumber = None
    array_task_string: str | None = ""
    het_job_id: AnyNumber = 0
    licenses: str | None = ""
    features: str | None = ""
    tres_per_node: str | None = ""
    tres_per_job: str | None = ""
    tres_per_socket: str | None = ""
    tres_per_task: str | None = ""
    excluded_nodes: str | None = ""
    resv_name: str | None = ""
    max_nodes: AnyNumber = 0
    contiguous: bool | None = False
    required_switches: AnyNumber = 0
    prefer: str | None = ""
    shared: AnyNames = None
    exclusive: AnyNames = None
    cpus: AnyNumber = 0
    minimum_cpus_per_node: AnyNumber = 0
    memory_per_node: AnyNumber = 0
    memory_per_cpu: AnyNumber = 0
    minimum_tmp_disk_per_node: AnyNumber = 0
    account: str | None = ""
    user_name: str | None = ""
    nice: AnyNumber = 0


class _Jobs(Struct):
    jobs: list[_ListedJob]
    errors: list[AnswerError] = []


class _NodeEntry(Struct, frozen=True):
    name: str
    state: AnyNames = None
    state_flags: AnyNames = None
    features: AnyNames = None
    partitions: AnyNames = None
    cpus: AnyNumber = 0
    effective_cpus: AnyNumber = 0
    real_memory: AnyNumber = 0
    specialized_memory: AnyNumber = 0
    temporary_disk: AnyNumber = 0
    suspend_time: _MarkedNumber | None = None


class _NodeEntries(Struct):
    nodes: list[_NodeEntry] | None = None
    sinfo: list[msgspec.Raw] | None = None
    errors: list[AnswerError] = []


def decoded(text: bytes, kind: type[T], source: PathLike) -> T:
    """Decode the output of a command, or the file ``source`` in which it was saved.

    Raises InputError for output in an unknown format.
    """
    try:
        return JsonDecoder(kind).decode(text)
    except Malformed as error:
        start = shortened(repr(text[:60])[2:-1], 40) if text.strip() else "nothing"
        found = f"{error}: it begins with {start}; expected the JSON of Slurm 22.05 or later"
        raise InputError(source, found, line=error.line) from None


def check_answered(errors: list[AnswerError], rows: Sized, source: PathLike) -> None:
    """Raise SlurmAway for output that contains only errors, although the command succeeded.

    ``squeue --json`` of 22.05 does this while the controller does not respond.
    """
    if errors and not len(rows):
        texts = [error.description or str(error.error) for error in errors]
        why = shortened("; ".join(texts), 200)
        raise SlurmAway(f"{source}: {why}: does the controller respond (scontrol ping)?")


def read_jobs(text: bytes, source: PathLike = "squeue --json") -> list[SlurmJob]:
    """Read the output of ``squeue --json`` or ``scontrol show jobs --json``.

    Errors name ``source``. Raises InputError, and SlurmAway if the controller did not respond.
    """
    answer = decoded(text, _Jobs, source)
    check_answered(answer.errors, answer.jobs, source)
    with in_file(source, ValueError):
        return [job for row in answer.jobs for job in _jobs_of(row)]


@lru_cache(_REMEMBERED)
def _jobs_of(row: _ListedJob) -> tuple[SlurmJob, ...]:
    """Return a job, or one per waiting task of an array. Raises ValueError.

    Most rows are those of the look before.
    """
    whole = count_of(row.array_job_id)
    job = SlurmJob(
        id=str(count_of(row.job_id)),
        state=job_state(row.job_state),
        partition=row.partition or "",
        nodes=expanded(row.nodes),
        node_count=max(count_of(row.node_count, 1), 1),
        most_nodes=_most_nodes(row),
        time_limit_s=minutes_of(row.time_limit),
        submit_s=number_of(row.submit_time) or 0.0,
        eligible_s=number_of(row.eligible_time) or 0.0,
        start_s=number_of(row.start_time) or 0.0,
        end_s=number_of(row.end_time) or 0.0,
        reason=row.state_reason or "",
        priority=count_of(row.priority),
        required_nodes=expanded(row.required_nodes),
        dependency=row.dependency or "",
        admin_comment=row.admin_comment or "",
        comment=row.comment or "",
        can_requeue=row.requeue,
        restarts=count_of(row.restart_cnt),
        lacks=_beyond_nodes(row),
        cpus=count_of(row.cpus),
        cpus_per_node=count_of(row.minimum_cpus_per_node),
        memory_per_node_mb=count_of(row.memory_per_node),
        memory_per_cpu_mb=count_of(row.memory_per_cpu),
        disk_per_node_mb=count_of(row.minimum_tmp_disk_per_node),
        account=row.account or "",
        user=row.user_name or "",
        nice=count_of(row.nice),
    )
    task = count_of(row.array_task_id, -1)
    if whole and task >= 0:
        return (msgspec.structs.replace(job, id=f"{whole}_{task}"),)
    if whole and row.array_task_string:
        return tuple(
            msgspec.structs.replace(job, id=f"{whole}_{number}") for number in tasks(row.array_task_string)
        )
    return (job,)


def _placed(row: _ListedJob) -> re.Match[str] | None:
    """Return the comment on a placed job."""
    return _PLACED.fullmatch((row.admin_comment or "").removesuffix(STOPPED).rstrip())


def _most_nodes(row: _ListedJob) -> int:
    """Return the largest number of nodes that a job's user requests; for a placed job, from its comment."""
    placed = _placed(row)
    if placed:
        return int(placed[1] or count_of(row.node_count, 1))
    return count_of(row.max_nodes)


def _beyond_nodes(row: _ListedJob) -> str:
    """Return the requests of a job beyond a number of whole nodes of one kind."""
    shared = _SHARED_WITH & {*map(str.lower, (*names_of(row.shared), *names_of(row.exclusive)))}
    tres = (row.tres_per_node, row.tres_per_job, row.tres_per_socket, row.tres_per_task)
    gres = [
        part
        for text in tres
        for part in names_of(text)
        if re.split(r"[:=/]", part, maxsplit=1)[0] not in _COUNTED
    ]
    asked = {
        "het job": str(count_of(row.het_job_id) or ""),
        "licenses": row.licenses,
        "constraint": row.features,
        "gres": ",".join(gres),
        "exclude": row.excluded_nodes,
        "reservation": row.resv_name,
        "nodes": "" if _placed(row) else row.required_nodes,
        "contiguous": "nodes" if row.contiguous else "",
        "switches": str(count_of(row.required_switches) or ""),
        "preference": row.prefer,
        "exclusive": ",".join(sorted(shared)),
    }
    return ", ".join(f"{name} {value}" for name, value in asked.items() if value)


def read_nodes(text: bytes, source: PathLike = "the list of nodes") -> list[SlurmNode]:
    """Read the output of ``sinfo --json`` (22.05) or ``scontrol show nodes --json`` (23.02 and later).

    Errors name ``source``. Raises InputError, and SlurmAway if the controller did not respond.
    """
    answer = decoded(text, _NodeEntries, source)
    if answer.nodes is None:
        found = "the output of a later 'sinfo --json'" if answer.sinfo is not None else "no list of nodes"
        raise InputError(
            source,
            f"found {found}, expected that of 'scontrol show nodes --json' (with Slurm 22.05, of"
            " 'sinfo --json')",
        )
    check_answered(answer.errors, answer.nodes, source)
    for name, count in Counter(row.name for row in answer.nodes).items():
        if count > 1:
            raise InputError(source, f"{count} nodes are called {shortened(name)!r}")
    return [_node_of(row) for row in answer.nodes]


@lru_cache(_REMEMBERED)
def _node_of(row: _NodeEntry) -> SlurmNode:
    states = _states(row.state)
    return SlurmNode(
        name=row.name,
        state=states[0],
        flags=frozenset([*states[1:], *(flag.upper() for flag in names_of(row.state_flags))]),
        features=names_of(row.features),
        partitions=names_of(row.partitions),
        cpus=count_of(row.effective_cpus) or count_of(row.cpus),
        memory_mb=max(count_of(row.real_memory) - count_of(row.specialized_memory), 0),
        disk_mb=count_of(row.temporary_disk),
        suspend_s=None if row.suspend_time is None else _limit_of(row.suspend_time),
    )


def _limit_of(value: _MarkedNumber) -> float:
    """Return a duration, s: infinite without one, which later versions print as not set."""
    limit = number_of(value)
    return math.inf if limit is None else limit


def compressed(names: Iterable[str]) -> str:
    """Return node names in Slurm's short form, in order: n1, n2, n3 and login are ``n[1-3],login``."""
    parts: list[str] = []
    divided = map(_divided, names)
    for (before, is_numbered), group in itertools.groupby(divided, lambda name: (name[0], bool(name[1]))):
        if not is_numbered:
            parts += [before for _ in group]
            continue
        spans: list[list[str]] = []
        for _, number in group:
            if spans and number == str(int(spans[-1][1]) + 1).zfill(len(spans[-1][1])):
                spans[-1][1] = number
            else:
                spans.append([number, number])
        inside = ",".join(first if first == last else f"{first}-{last}" for first, last in spans)
        parts.append(f"{before}{inside}" if inside.isdecimal() else f"{before}[{inside}]")
    return ",".join(parts)


def _divided(name: str) -> tuple[str, str]:
    """Return a name without the number at its end, and the number; empty if there is none."""
    parts = re.fullmatch(r"(.*?)(\d{1,18})", name)
    return (parts[1], parts[2]) if parts else (name, "")


def expanded(nodes: str | None) -> tuple[str, ...]:
    """Expand names of nodes in Slurm's short form: ``n[1-3,07],login`` is n1, n2, n3, n07 and login.

    Raises ValueError for another string, or for more than `MOST_HOSTS` nodes.
    """
    if not nodes or nodes in ("(null)", "None assigned"):
        return ()
    names: list[str] = []
    for whole in re.split(r",(?![^\[]*\])", nodes):
        texts = re.split(r"\[([0-9,:-]+)\]", whole)  # every second one is of numbers
        if any(set("[],") & set(text) for text in texts[::2]):
            raise ValueError(f"{shortened(nodes, 60)!r} is not a list of nodes, such as n[1-4,7],login")
        parts = [_numbers(text, nodes) if at % 2 else [text] for at, text in enumerate(texts)]
        _check_number(math.prod(map(len, parts)) + len(names), nodes)
        names += filter(None, map("".join, itertools.product(*parts)))
    return tuple(names)


def tasks(text: str) -> list[int]:
    """Expand task numbers of an array in Slurm's short form: ``1-5:2,9`` is 1, 3, 5 and 9; ``%`` is ignored.

    Raises ValueError for another string, such as a truncated one (``1,3,...``).
    """
    return [int(number) for number in _numbers(text.partition("%")[0], text)]


_SPAN: Final = re.compile(r"(\d{1,14})(?:-(\d{1,14})(?::(\d{1,14}))?)?", re.ASCII)


def _numbers(text: str, whole: str) -> list[str]:
    """Return the numbers of an inclusive range, with as many digits as the first one at least."""
    written: list[str] = []
    for part in text.split(","):
        span = _SPAN.fullmatch(part)
        if span is None:
            raise ValueError(f"{shortened(whole, 60)!r} is not in Slurm's short form, such as 1-4,7")
        first, last, step = span[1], span[2] or span[1], int(span[3] or 1)
        numbers = range(int(first), int(last) + 1, max(step, 1))
        _check_number(len(written) + len(numbers), whole)
        written += [str(number).zfill(len(first)) for number in numbers]
    return written


def _check_number(count: int, text: str) -> None:
    if count > MOST_HOSTS:
        raise ValueError(f"{shortened(text, 60)!r} has more than {MOST_HOSTS:,} parts")
