"""Jobs in the scheduler: terms, life cycle, the queue of waiting jobs, and outcomes."""

from __future__ import annotations

import math
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, read_only
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.limits import LATEST_S, SHORTEST_S, shortened
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.hosts import NO_HOSTS, HostSet

SLOWDOWN_FLOOR_S: Final = 10.0
"""tau of the bounded slowdown (Eq. 4 of the BEASY paper, 3.26 of the thesis)."""


class JobState(Enum):
    """State of a job; values are the outcome names in tables."""

    __hash__ = object.__hash__  # Enum's own is a Python function

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    """The job ended with an error code: counted with the finished jobs and shown separately."""
    WALLTIME_REACHED = "reached walltime"
    KILLED = "killed"
    UNFINISHED = "not completely finished"
    """The job was still running when the run ended."""
    POSTPONED = "postponed"
    """The job never started in the run."""
    REJECTED = "rejected"
    """The job could never have fit."""
    CAME_BACK = "came back"
    """A life of the job was ended by guard, policy or a broken host, and the job was submitted again: this
    is not an outcome."""


_NEXT: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.WAITING: frozenset(
        {JobState.RUNNING, JobState.POSTPONED, JobState.REJECTED, JobState.UNFINISHED}
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.FINISHED,
            JobState.FAILED,
            JobState.WALLTIME_REACHED,
            JobState.KILLED,
            JobState.UNFINISHED,
            JobState.CAME_BACK,
        }
    ),
    **dict.fromkeys(
        (
            JobState.CAME_BACK,
            JobState.FINISHED,
            JobState.FAILED,
            JobState.WALLTIME_REACHED,
            JobState.KILLED,
            JobState.UNFINISHED,
            JobState.POSTPONED,
            JobState.REJECTED,
        ),
        frozenset(),
    ),
}
"""Legal transitions; most states are final."""

ENDS: Final[dict[JobEnd, JobState]] = {
    JobEnd.SUCCESS: JobState.FINISHED,
    JobEnd.FAILED: JobState.FAILED,
    JobEnd.WALLTIME_REACHED: JobState.WALLTIME_REACHED,
    JobEnd.KILLED: JobState.KILLED,
}


class Terms(Struct, frozen=True, gc=False):
    """Optional job attributes (deadline, dependencies and others).

    Batsim forwards unknown fields of a job, so deadlines and dependencies are written in the
    workload (GreenSlot: Goiri et al., SC 2011, Section 3).
    """

    deadline_s: float = math.inf
    """Simulated time by which the job, or its workflow, must end, s."""
    workflow: str = ""
    """The workflow with its workload: ``"w0!blast"``; empty for a job on its own."""
    phase: int | None = None
    """Phase in the workflow, whose jobs wait for all jobs of lower phases; None without one."""
    after: tuple[str, ...] = ()
    """Ids of jobs that must have finished before the job starts."""
    think_time_s: float = 0.0
    """Time between the end of the last predecessor and the earliest start, s."""
    estimate_s: float | None = None
    """User's estimate of the run time, s, for a job without a walltime."""
    power_w: float | None = None
    """Power of one of the job's hosts while it computes, W, if given by the user."""
    host_share: float = 1.0
    """Share of each of its hosts that the job takes, above 0, at most 1: less than 1 where jobs can share
    hosts (external placement only)."""


NO_TERMS: Final = Terms()


class TermsError(ValueError):
    """Invalid value of a job field; the message has its name, the found and the expected value."""


def read_terms(job_id: str, members: Mapping[str, Any] | None, subtime_s: float) -> Terms:
    """Read the supported fields of a job; ``job_id`` includes the workload.

    Raises TermsError.
    """
    if members is None or _MEMBERS.isdisjoint(members):
        return NO_TERMS
    values: dict[str, Any] = {}
    for name in ("deadline_s", "think_time_s", "estimate_s", "power_w"):
        if members.get(name) is not None:
            values[name] = _number(name, members[name])
    if (share := members.get("host_share")) is not None:
        values["host_share"] = _share(share)
    if values.get("deadline_s", math.inf) < subtime_s:
        raise TermsError(
            f"deadline_s: found {values['deadline_s']:g}, before the submission at {subtime_s:g} s"
        )
    if (workflow := members.get("workflow")) is not None:
        values["workflow"] = f"{_workload(job_id)}!{_text('workflow', workflow)}"
    if (phase := members.get("phase")) is not None:
        if isinstance(phase, bool) or not isinstance(phase, int) or phase < 0:
            raise TermsError(f"phase: found {shortened(repr(phase))}, expected an integer of 0 or more")
        if not values.get("workflow"):
            raise TermsError(f"phase: found {phase} without a workflow, expected a workflow")
        values["phase"] = phase
    if (after := members.get("after")) is not None:
        values["after"] = _ids(job_id, after)
    return Terms(**values)


_MEMBERS: Final = frozenset(Terms.__struct_fields__)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_S:
        raise TermsError(f"{name}: found {shortened(repr(value))}, expected a number of 0 or more")
    return float(value)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise TermsError(f"host_share: found {shortened(repr(value))}, expected a number above 0, at most 1")
    return float(value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TermsError(f"{name}: found {shortened(repr(value))}, expected a string")
    return str(value)


def _ids(job_id: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TermsError(f"after: found {shortened(repr(value))}, expected a list of job ids")
    names = [_text("after", each) for each in value]
    ids = tuple(dict.fromkeys(name if "!" in name else f"{_workload(job_id)}!{name}" for name in names))
    if job_id in ids:
        raise TermsError("after: the job waits for itself")
    return ids


def _workload(job_id: str) -> str:
    return job_id.partition("!")[0]


class Past(Struct, frozen=True, gc=False):
    """Earlier lives of a job that came back."""

    first_id: str
    """Id of the job as it was submitted, that of its lineage."""
    subtime_s: float
    """Time of the first submission, s."""
    waited_s: float
    """Sum of the waits of the earlier lives, s."""
    saved_s: float
    """Time of work that the earlier lives did and that this one continues, s."""


class LifeShares(Struct, frozen=True, gc=False):
    """Shares of the energy of one life of a job that has come back."""

    first_id: str
    useful: float
    """Share of the work that a later life continued, or that the job finished with, 0 to 1."""
    checkpoints: float
    """Share of writing and reading checkpoints, 0 to 1; what is left was done again."""


def _loses_nothing(job: Job) -> float:
    return 0.0


class Job:
    """Submitted job, without its actual run time."""

    __slots__ = (
        "computes",
        "end_s",
        "energy_j",
        "expected_end_s",
        "hosts",
        "id",
        "lose",
        "past",
        "place",
        "postponed_for",
        "request",
        "res",
        "shares",
        "start_order",
        "start_s",
        "state",
        "subtime_s",
        "terms",
        "walltime_s",
        "work_flops",
        "worked_until_s",
    )

    def __init__(self, request: JobRequest) -> None:
        """Create a job that has just been submitted."""
        self.request = request
        self.id = request.id
        self.res = request.res
        self.subtime_s = float(request.subtime)
        walltime_s = math.inf if request.walltime is None else float(request.walltime)
        self.walltime_s = walltime_s if walltime_s > SHORTEST_S else SHORTEST_S
        self.terms = NO_TERMS
        """Deadline, workflow and predecessors."""
        self.state = JobState.WAITING
        self.hosts: HostSet = NO_HOSTS
        """Hosts on which the job was started; empty before."""
        self.start_s = math.nan
        self.end_s = math.nan
        self.expected_end_s = math.inf
        """Latest end of the job: its start plus its walltime, s."""
        self.place = -1
        """Position of the job in the queue; -1 if it is not in the queue."""
        self.postponed_for = ""
        """Last logged rule for the job's wait."""
        self.computes = True
        """Whether the job loads its hosts: a ``delay`` job leaves them at idle power."""
        self.energy_j = math.nan
        """Energy of the job's hosts while it ran, J; NaN until it has ended, or if energy is not counted."""
        self.work_flops = 0.0
        """Flops done on each of the job's hosts: all of them once it has ended; while it runs, those up to
        ``worked_until_s`` (`View.progress` has those up to now). NaN if speeds are unknown."""
        self.worked_until_s = math.nan
        """Time up to which the job's work has been counted, s."""
        self.start_order = 0
        """Position of the job in the order of starts, from 1; 0 if it has not started."""
        self.past: Past | None = None
        """Earlier lives of the job; None for one that has not come back."""
        self.shares: LifeShares | None = None
        """Shares of this life's energy, once it has ended, if the job has several lives."""
        self.lose: Callable[[Job], float] = _loses_nothing
        """Function that returns `lost_if_killed_flops`."""

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state.value}, res={self.res}, walltime={self.walltime_s:g} s)"

    def move(self, state: JobState) -> None:
        """Change to ``state``. Raises PeerError if that is not a legal transition."""
        if state not in _NEXT[self.state]:
            raise PeerError(f"job {self.id} is {self.state.value}: it cannot become {state.value}")
        self.state = state

    @property
    def first_id(self) -> str:
        """Id of the job as it was submitted; differs from ``id`` once it has come back."""
        return self.id if self.past is None else self.past.first_id

    @property
    def lost_if_killed_flops(self) -> float:
        """Flops on each host of the running job that would have to be done again, or be lost, if it were
        killed now: all without restarts, those since the last checkpoint with them. NaN if speeds are
        unknown; 0 for a ``delay`` job."""
        return self.lose(self)

    @property
    def size(self) -> float:
        """Walltime times hosts, host-seconds (infinite without a walltime)."""
        return self.walltime_s * self.res


def bounded_slowdown(wait_s: FloatArray | float, duration_s: FloatArray | float) -> FloatArray:
    """Bounded slowdown (Eq. 4 / 3.26), with the walltime to order jobs or the run time to report."""
    return np.maximum((wait_s + duration_s) / np.maximum(duration_s, SLOWDOWN_FLOOR_S), 1.0)


_GONE = np.iinfo(np.int64).max
"""Number of hosts "requested" at an empty position: never available."""
_NO_JOB: Final = Job(JobRequest("", 0.0, int(_GONE)))
"""The job at an empty position."""


class JobQueue:
    """Waiting jobs in order of submission.

    A job keeps its position until the queue is compacted, when most positions are empty. Adding, removing and
    finding the first job take amortized constant time. The numeric columns are filled when they are read,
    because most jobs of a cluster with free hosts have left by then.
    """

    __slots__ = (
        "_computes",
        "_end",
        "_filled",
        "_head",
        "_jobs",
        "_least_res",
        "_longest_s",
        "_places",
        "_res",
        "_seen",
        "_subtime_s",
        "_walltime_s",
        "count",
        "hosts_asked",
    )

    def __init__(self) -> None:
        """Start empty."""
        self._jobs: list[Job] = []
        self._res = np.zeros(64, dtype=np.int64)
        self._walltime_s = np.zeros(64, dtype=np.float64)
        self._subtime_s = np.zeros(64, dtype=np.float64)
        self._computes = np.zeros(64, dtype=np.bool_)
        self._seen = self._read_only()
        """Read-only views of the four arrays."""
        self._filled = 0
        """Number of positions in the arrays."""
        self._end = 0
        """Number of all positions."""
        self._head = 0
        self.count = 0
        """Number of waiting jobs."""
        self.hosts_asked = 0
        """Total number of hosts requested by waiting jobs."""
        self._places: IndexArray | None = None
        """Result of the last call of `places`, until the queue changes."""
        self._least_res: int | None = None
        self._longest_s: float | None = None
        """Minimum number of hosts and maximum walltime of all jobs, likewise."""

    def _read_only(self) -> tuple[IntArray, FloatArray, FloatArray, BoolArray]:
        times_s = read_only(self._walltime_s), read_only(self._subtime_s)
        return read_only(self._res), *times_s, read_only(self._computes)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Job]:
        for place in range(self._head, self._end):
            job = self._jobs[place]
            if job is not _NO_JOB:
                yield job

    @property
    def first(self) -> Job | None:
        """Return the job that has waited longest, or None."""
        return self._jobs[self._head] if self.count else None

    def append(self, job: Job) -> None:
        """Add a job at the end."""
        self._places = self._least_res = self._longest_s = None
        job.place = self._end
        self._jobs.append(job)
        self._end += 1
        self.count += 1
        self.hosts_asked += job.res

    def _fill(self) -> None:
        """Add all jobs to the columns."""
        size = self._end
        if size > len(self._res):
            self._res = np.resize(self._res, 2 * size)
            self._walltime_s = np.resize(self._walltime_s, 2 * size)
            self._subtime_s = np.resize(self._subtime_s, 2 * size)
            self._computes = np.resize(self._computes, 2 * size)
            self._seen = self._read_only()
        for place in range(self._filled, size):
            job = self._jobs[place]
            self._res[place] = job.res
            self._walltime_s[place] = job.walltime_s
            self._subtime_s[place] = job.subtime_s
            self._computes[place] = job.computes
        self._filled = size

    def check_holds(self, job: Job) -> None:
        """Raise PolicyError unless this job itself is in the queue: not a copy, or a job that has left."""
        place = job.place
        try:
            holds = type(place) is int and place >= 0 and self._jobs[place] is job
        except IndexError:
            holds = False
        if not holds:
            raise PolicyError(f"job {job.id} is not in the queue: was it copied, or made by the policy?")

    def remove(self, job: Job) -> None:
        """Remove a job."""
        self._places = self._least_res = self._longest_s = None
        jobs, place = self._jobs, job.place
        jobs[place] = _NO_JOB
        job.place = -1
        self.count -= 1
        self.hosts_asked -= job.res
        if not self.count:
            jobs.clear()
            self._head = self._filled = self._end = 0
            return
        if place < self._filled:
            self._res[place] = _GONE
        while jobs[self._head] is _NO_JOB:
            self._head += 1
        if self._end > 64 and 2 * self.count < self._end:
            self._compact()

    def _compact(self) -> None:
        self._fill()
        places = np.flatnonzero(self._res[: self._end] != _GONE)
        for column in (self._res, self._walltime_s, self._subtime_s, self._computes):
            column[: len(places)] = column[places]
        self._jobs = [job for job in self._jobs if job is not _NO_JOB]
        for place, job in enumerate(self._jobs):
            job.place = place
        self._head, self._filled, self._end = 0, len(self._jobs), len(self._jobs)

    def at(self, place: int) -> Job:
        """Return the job at a position of the arrays."""
        return self._jobs[self._head + place]

    @property
    def res(self) -> IntArray:
        """Hosts requested, by position; an empty position requests more than any platform has."""
        if self._filled < self._end:
            self._fill()
        return self._seen[0][self._head : self._end]

    @property
    def walltime_s(self) -> FloatArray:
        """Walltimes by position, s."""
        if self._filled < self._end:
            self._fill()
        return self._seen[1][self._head : self._end]

    @property
    def subtime_s(self) -> FloatArray:
        """Submission times by position, s."""
        if self._filled < self._end:
            self._fill()
        return self._seen[2][self._head : self._end]

    @property
    def computes(self) -> BoolArray:
        """Whether jobs load their hosts, by position."""
        if self._filled < self._end:
            self._fill()
        return self._seen[3][self._head : self._end]

    @property
    def least_res(self) -> int:
        """Minimum number of hosts requested by a waiting job; more than any platform has without a job."""
        if self._least_res is None:
            self._least_res = int(np.minimum.reduce(self.res, initial=_GONE))
        return self._least_res

    @property
    def longest_walltime_s(self) -> float:
        """The longest walltime of a waiting job, s; 0 without a job."""
        if self._longest_s is None:
            self._longest_s = float(np.maximum.reduce(self.walltime_s[self.places()], initial=0.0))
        return self._longest_s

    def places(self) -> IndexArray:
        """Return the positions with a job, in order of submission, as a read-only array."""
        if self._places is None:
            self._places = (self.res != _GONE).nonzero()[0]
            self._places.setflags(write=False)
        return self._places


_COLUMNS = ("subtime_s", "start_s", "end_s", "walltime_s", "energy_j", "res")
"""Columns of `Outcomes`, by the jobs' attributes."""
_packed: Final = struct.Struct(f"{len(_COLUMNS)}d").pack
_STATES = list(JobState)
_CODES = {state: code for code, state in enumerate(_STATES)}
NOT_OUTCOMES: Final = (JobState.WAITING, JobState.RUNNING, JobState.CAME_BACK)
"""States that are not outcomes of jobs."""


class RestartEnergies(Struct, frozen=True, gc=False):
    """Energies of jobs that came back, J."""

    useful_j: float = 0.0
    """In earlier lives of jobs that finished: work that was not done again."""
    costs_j: float = 0.0
    """In last lives of jobs that finished: writing and reading checkpoints."""
    redone_j: float = 0.0
    """In lives after which a job came back: work that was done again."""
    saved_j: float = 0.0
    """In lives after which a job came back: work that a later life continued."""
    checkpoints_j: float = 0.0
    """In all lives: writing and reading checkpoints."""


class Outcomes:
    """One row per job that has left the system, and one per earlier life of a job that came back."""

    __slots__ = ("_finished", "_pasts", "_rows", "_shares", "_state", "ids")

    def __init__(self) -> None:
        """Begin without rows."""
        self.ids: list[str] = []
        self._rows = bytearray()
        """The `_COLUMNS` of every job, one job after the other, as numbers of eight bytes."""
        self._state = array("b")
        self._pasts: dict[int, Past] = {}
        """Earlier lives of the jobs that came back, by the row of their last life."""
        self._shares: dict[int, LifeShares] = {}
        """Shares of the energy of lives, by row, of jobs that came back."""
        self._finished: set[str] = set()
        """Ids of lineages of which a life has finished."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def names(self) -> list[str]:
        """Ids of the rows; that of its lineage for the last life of a job that came back."""
        if not self._pasts:
            return self.ids
        names = self.ids[:]
        for row, past in self._pasts.items():
            names[row] = past.first_id
        return names

    def add(self, job: Job) -> None:
        """Add a job whose state is final."""
        self.ids.append(job.id)
        self._rows += _packed(job.subtime_s, job.start_s, job.end_s, job.walltime_s, job.energy_j, job.res)
        self._state.append(_CODES[job.state])
        if job.shares is not None:
            self._shares[len(self.ids) - 1] = job.shares
        if job.past is not None and job.state is not JobState.CAME_BACK:
            self._pasts[len(self.ids) - 1] = job.past
            if job.state in (JobState.FINISHED, JobState.FAILED):
                self._finished.add(job.past.first_id)

    def counts(self, first: int = 0, end: int | None = None) -> dict[str, int]:
        """Count the outcomes by name, including those with no jobs; of the rows ``first`` to ``end`` only."""
        counter = Counter(self._state[first:end])
        return {state.value: counter[code] for code, state in enumerate(_STATES) if state not in NOT_OUTCOMES}

    def energy_j(
        self, *states: JobState, until_s: float = math.inf, running_j: Mapping[str, float] | None = None
    ) -> float:
        """Energy up to ``until_s`` of the jobs that ended in one of ``states``, if it was counted, J.

        ``running_j`` is the energy spent by each job running at ``until_s``.
        """
        numbers = self._numbers()
        chosen = np.isin(np.array(self._state), [_CODES[state] for state in states])
        chosen &= numbers["start_s"] < until_s  # false for those that never started
        spent_j, known_j = numbers["energy_j"], running_j or {}
        for row in np.flatnonzero(chosen).tolist():
            spent_j[row] = known_j.get(self.ids[row], spent_j[row])
        return float(np.nansum(spent_j[chosen]))

    def restart_energies(
        self, until_s: float = math.inf, running_j: Mapping[str, float] | None = None
    ) -> RestartEnergies:
        """Return energies up to ``until_s`` of jobs that came back; ``running_j`` is as in `energy_j`."""
        numbers, known_j, total = self._numbers(), running_j or {}, RestartEnergies()
        for row, shares in self._shares.items():
            spent_j = known_j.get(self.ids[row], numbers["energy_j"].item(row))
            if not numbers["start_s"][row] < until_s or math.isnan(spent_j):
                continue
            useful_j, costs_j = spent_j * shares.useful, spent_j * shares.checkpoints
            came_back = self._state[row] == _CODES[JobState.CAME_BACK]
            finished = shares.first_id in self._finished
            total = RestartEnergies(
                total.useful_j + (useful_j if came_back and finished else 0.0),
                total.costs_j + (0.0 if came_back else costs_j),
                total.redone_j + (spent_j - useful_j - costs_j if came_back else 0.0),
                total.saved_j + (useful_j if came_back else 0.0),
                total.checkpoints_j + costs_j,
            )
        return total

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as arrays; times in s, NaN for a job that never started."""
        numbers = self._numbers()
        return {
            **numbers,
            "res": numbers["res"].astype(np.int64),
            "state": np.array([state.value for state in _STATES])[np.array(self._state, dtype=np.intp)],
        }

    def _numbers(self) -> dict[str, FloatArray]:
        """Return the columns of numbers, as copies."""
        rows: FloatArray = np.frombuffer(self._rows).reshape(-1, len(_COLUMNS))
        return dict(zip(_COLUMNS, rows.T.copy(), strict=True))

    def median_run_share(self) -> float | None:
        """Return the median of run time over walltime of the finished jobs; None if there are none."""
        columns = self._numbers()
        finished = np.array(self._state) == _CODES[JobState.FINISHED]
        chosen = finished & np.isfinite(columns["walltime_s"])
        run_s = (columns["end_s"] - columns["start_s"])[chosen]
        return float(np.median(run_s / columns["walltime_s"][chosen])) if len(run_s) else None

    def metrics(self, *, until_s: float = math.inf) -> dict[str, float | int | None]:
        """Return mean and quantiles of waiting time and bounded slowdown over the started jobs.

        ``host_seconds`` counts use up to ``until_s``, the end of the last window.
        """
        columns = self._numbers()
        started = np.isfinite(columns["start_s"]) & np.isfinite(columns["end_s"])
        used_s = np.minimum(columns["end_s"], until_s)[started] - columns["start_s"][started]
        host_seconds = float((used_s * columns["res"][started]).sum())
        wait_s, run_s = columns["start_s"] - columns["subtime_s"], columns["end_s"] - columns["start_s"]
        behind_s = wait_s
        if self._shares:  # a job counts once, with the sum of its waits
            started &= np.array(self._state) != _CODES[JobState.CAME_BACK]
            behind_s = wait_s.copy()
            for row, past in self._pasts.items():
                run_s[row] += past.saved_s
                wait_s[row] += past.waited_s
                behind_s[row] = columns["end_s"][row] - past.subtime_s - run_s[row]
        wait_s, run_s = wait_s[started], run_s[started]
        slowdown = bounded_slowdown(behind_s[started], run_s)
        result: dict[str, float | int | None] = {
            "started": int(started.sum()),
            "host_seconds": host_seconds,
        }
        for name, values in (("waiting_s", wait_s), ("bounded_slowdown", slowdown)):
            result[f"{name}_mean"] = float(values.mean()) if len(values) else None
            for quantile in (50, 95, 100):
                key = f"{name}_max" if quantile == 100 else f"{name}_p{quantile}"
                result[key] = float(np.percentile(values, quantile)) if len(values) else None
        return result
