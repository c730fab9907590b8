"""Slurm's jobs and nodes, read from what its commands print as JSON.

Two shapes are read: that of 22.05 (plain values; a node's flags beside its state) and that of 23.02 and later
(numbers as ``{"set", "infinite", "number"}``, states as lists).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from beasy_sched.errors import InputError
from beasy_sched.limits import shortened

T = TypeVar("T")
HELD_REASONS: Final = frozenset({"JobHeldUser", "JobHeldAdmin"})
_NO_VALUE: Final = 0xFFFFFFFE
"""What 22.05 prints for "not set" and, one more, for "infinite", in 32 bits."""


class SlurmNode(Struct, frozen=True):
    """A node, as Slurm has it."""

    name: str
    state: str
    """The base state: IDLE, ALLOCATED, MIXED, DOWN, ERROR, UNKNOWN or FUTURE."""
    flags: frozenset[str] = frozenset()
    """What goes on with the node: POWERED_DOWN, POWERING_UP, POWERING_DOWN, DRAIN, NOT_RESPONDING, ..."""
    cpus: int = 1
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reason: str = ""
    """Why an administrator, or Slurm, took the node out of service."""


class SlurmJob(Struct, frozen=True):
    """A job that waits, runs or has ended, as Slurm has it. Rows of waiting arrays are one job per task."""

    id: str
    """As commands name it: ``4711``, or ``4711_3`` for the task of an array."""
    state: str
    """PENDING, RUNNING, COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, ..."""
    partition: str
    nodes: tuple[str, ...] = ()
    """Names of the nodes that the job has, or had; none while it waits."""
    node_count: int = 1
    """Nodes that the job asks for."""
    time_limit_s: float | None = None
    """None without a limit."""
    submit_s: float = 0.0
    """When the job was submitted, s since 1970, as all times here; 0 where it is not known."""
    start_s: float = 0.0
    end_s: float = 0.0
    reason: str = ""
    """Why the job waits."""
    priority: int = 0
    """0 for a job that is held."""
    required_nodes: tuple[str, ...] = ()
    dependency: str = ""
    admin_comment: str = ""
    name: str = ""
    user: str = ""
    restarts: int = 0
    """How often the job was requeued."""
    lacks: str = ""
    """What the job asks for beyond whole nodes, such as ``gres`` or ``licenses``; empty if nothing."""

    @property
    def is_held(self) -> bool:
        """Whether the job waits until somebody releases it."""
        return self.state == "PENDING" and self.priority == 0


class _Number(Struct):
    set: bool = True
    infinite: bool = False
    number: float = 0


_AnyNumber = int | float | None | _Number
_AnyNames = str | list[str] | None


def _number(value: _AnyNumber) -> float | None:
    """Return a number in either shape; None for one that is not set, infinity for one without end."""
    if isinstance(value, _Number):
        if value.infinite:
            return math.inf
        return value.number if value.set else None
    if value is None or value == _NO_VALUE:
        return None
    return math.inf if value == _NO_VALUE + 1 else float(value)


def _count(value: _AnyNumber, default: int = 0) -> int:
    number = _number(value)
    return default if number is None or math.isinf(number) else int(number)


def _names(value: _AnyNames, separator: str = ",") -> tuple[str, ...]:
    parts = value.split(separator) if isinstance(value, str) else value or ()
    return tuple(part for part in parts if part and part != "(null)")


class _Job(Struct):
    job_id: _AnyNumber
    job_state: _AnyNames = None
    state_reason: str = ""
    partition: str = ""
    nodes: str = ""
    node_count: _AnyNumber = 1
    time_limit: _AnyNumber = None
    submit_time: _AnyNumber = 0
    start_time: _AnyNumber = 0
    end_time: _AnyNumber = 0
    priority: _AnyNumber = None
    required_nodes: str = ""
    dependency: str = ""
    admin_comment: str = ""
    name: str = ""
    user_name: str = ""
    restart_cnt: _AnyNumber = 0
    array_job_id: _AnyNumber = 0
    array_task_id: _AnyNumber = None
    array_task_string: str | None = ""
    het_job_id: _AnyNumber = 0
    licenses: str = ""
    features: str = ""
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_task: str = ""
    excluded_nodes: str = ""
    resv_name: str = ""


class _Jobs(Struct):
    jobs: list[_Job]


class _Node(Struct):
    name: str
    state: _AnyNames = None
    state_flags: _AnyNames = None
    cpus: _AnyNumber = 1
    features: _AnyNames = None
    partitions: _AnyNames = None
    reason: str = ""


class _Nodes(Struct):
    nodes: list[_Node]


def _decoded(text: bytes, kind: type[T], told: str) -> T:
    """Raises InputError that names the command, for what no known version of Slurm prints."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(
            None,
            f"{told} printed what cannot be read ({error}): found {shortened(repr(text), 60)},"
            " expected Slurm's JSON of 22.05 or later",
        ) from None


def read_jobs(text: bytes) -> list[SlurmJob]:
    """Read what ``squeue --json`` or ``scontrol show jobs --json`` printed. Raises InputError."""
    rows = _decoded(text, _Jobs, "squeue --json").jobs
    return [job for row in rows for job in _jobs_of(row)]


def _jobs_of(row: _Job) -> Iterable[SlurmJob]:
    """A job, or one per waiting task of an array."""
    limit = _number(row.time_limit)
    state = _names(row.job_state) or ("UNKNOWN",)
    whole = _count(row.array_job_id)
    job = SlurmJob(
        id=str(_count(row.job_id)),
        state=state[0].upper(),
        partition=row.partition,
        nodes=expanded(row.nodes),
        node_count=max(_count(row.node_count, 1), 1),
        time_limit_s=None if limit is None or math.isinf(limit) or limit <= 0 else 60.0 * limit,
        submit_s=_number(row.submit_time) or 0.0,
        start_s=_number(row.start_time) or 0.0,
        end_s=_number(row.end_time) or 0.0,
        reason=row.state_reason,
        priority=_count(row.priority),
        required_nodes=expanded(row.required_nodes),
        dependency=row.dependency,
        admin_comment=row.admin_comment,
        name=row.name,
        user=row.user_name,
        restarts=_count(row.restart_cnt),
        lacks=_beyond_nodes(row),
    )
    task = _number(row.array_task_id)
    if whole and task is not None:
        return [msgspec.structs.replace(job, id=f"{whole}_{int(task)}")]
    if whole and row.array_task_string:
        return [
            msgspec.structs.replace(job, id=f"{whole}_{number}") for number in tasks(row.array_task_string)
        ]
    return [job]


def _beyond_nodes(row: _Job) -> str:
    """What a job asks for that whole nodes of one kind do not say."""
    asked = {
        "het job": str(_count(row.het_job_id) or ""),
        "licenses": row.licenses,
        "constraint": row.features,
        "gres": row.tres_per_node or row.tres_per_job or row.tres_per_task,
        "exclude": row.excluded_nodes,
        "reservation": row.resv_name,
    }
    return ", ".join(f"{name} {value}" for name, value in asked.items() if value)


def read_nodes(text: bytes) -> list[SlurmNode]:
    """Read what ``sinfo --json`` (22.05) or ``scontrol show nodes --json`` printed. Raises InputError."""
    found = []
    for row in _decoded(text, _Nodes, "the list of nodes").nodes:
        states = [state.upper() for state in _names(row.state)] or ["UNKNOWN"]
        flags = frozenset([*states[1:], *(flag.upper() for flag in _names(row.state_flags))])
        found.append(
            SlurmNode(
                name=row.name,
                state=states[0],
                flags=flags,
                cpus=max(_count(row.cpus, 1), 1),
                features=_names(row.features),
                partitions=_names(row.partitions),
                reason=row.reason,
            )
        )
    return found


def expanded(nodes: str) -> tuple[str, ...]:
    """Names of nodes in Slurm's short form: ``n[1-3,07],login`` is n1, n2, n3, n07 and login."""
    found: list[str] = []
    for part in _split(nodes):
        names = [""]
        for before, numbers in re.findall(r"([^\[\]]*)(?:\[([^\]]*)\])?", part):
            if before or numbers:
                names = [name + before + number for name in names for number in _numbers(numbers)]
        found += names
    return tuple(found)


def _split(nodes: str) -> list[str]:
    """Split at the commas outside brackets."""
    if not nodes or nodes == "(null)":
        return []
    return re.split(r",(?![^\[]*\])", nodes)


def _numbers(text: str) -> Sequence[str]:
    if not text:
        return [""]
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last or first) + 1)]
    return found


def tasks(text: str) -> list[int]:
    """Numbers of an array's tasks in Slurm's short form: ``1-5:2,9`` is 1, 3, 5 and 9; ``%`` is left out."""
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found
