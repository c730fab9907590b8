"""Policies, built-in and users': their base class, their view, and the calls to them."""

from __future__ import annotations

import contextlib
import math
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, all_of, read_only
from beasy_sched.energy.grid_peak import PeakMeter
from beasy_sched.energy.storage import StorageState
from beasy_sched.engine.actions import (
    NO_FACTS,
    Action,
    CallAt,
    Compensate,
    Facts,
    Kill,
    MeasureEnergy,
    Offer,
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.power_actions import sleep, wake
from beasy_sched.engine.power_side import SessionOptions
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.engine.session_words import Rule, Sentences
from beasy_sched.errors import BeasyError, ConfigError, Interrupted, PolicyError
from beasy_sched.findings import Finding
from beasy_sched.limits import MOST_ACTIONS, shortened
from beasy_sched.model.cluster import Cluster, Progress
from beasy_sched.model.hosts import HostSet, one_host
from beasy_sched.model.jobs import Job, JobState, Outcomes
from beasy_sched.model.workflow import Workflows
from beasy_sched.structs import as_type


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base class of a policy's options (the ``--options`` JSON); it has none itself."""


class Policy:
    """Decides which jobs start, where, and at what speed.

    A policy is called once per message, after all its events have been applied. It reads a `View` and
    returns actions; it never sees actual run times or future production.

    Subclass it, give it a ``name`` and a one-line ``summary``, and write `schedule`. Options are a
    subclass of `Options` named in ``options_type``.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    words: ClassVar[Sentences] = {}
    """Words for the policy's rules in ``explain``, reports and tables; a rule without words is shown
    unchanged."""
    options_type: ClassVar[type[Options]] = Options
    needs_power: ClassVar[bool] = False
    """Whether the policy requires a site (storage and production)."""
    needs_plan: ClassVar[bool] = False
    """Whether the policy requires an offline plan of servers, and so a site."""

    needs_speeds: ClassVar[bool] = False
    """Whether the policy requires the servers' speeds, which Batsim itself does not send."""

    can_offer: ClassVar[bool] = False
    """Whether the policy returns `Offer` actions, and starts no job, if others place jobs
    (`View.placement`)."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError that names the option."""
        try:
            self.options = as_type(dict(options or {}), self.options_type)
        except ConfigError as error:
            raise ConfigError(f"options of policy {self.name!r}: {error}") from None

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Return warnings about a run's inputs for this policy; called before `begin`.

        ``inputs`` contains what is available: if the simulator is another program, the platform and the site;
        and in a further call, after the run, only the submitted jobs with deadlines (``due_jobs``).
        """
        return ()

    def begin(self, view: View) -> None:
        """Begin a run: called once, when the platform is available."""

    def power_actions(self, view: View) -> Sequence[Action]:
        """Power actions at the beginning of a step, before the guard's and before any start."""
        return ()

    def results(self) -> dict[str, dict[str, Any]]:
        """Return sections that the policy adds to the run's summary, by name; called after the run."""
        return {}

    def schedule(self, view: View) -> Sequence[Action]:
        """Return the actions to take now. Each job's hosts must be free and as many as requested."""
        raise NotImplementedError


class Measurement(NamedTuple):
    """An answer of the simulator's energy meter."""

    at_s: float
    energy_j: float
    """Energy that all servers have used since time 0, J."""


class View:
    """The read-only view of the cluster and of the power side, passed to a policy."""

    def __init__(
        self,
        cluster: Cluster,
        options: SessionOptions | None = None,
        *,
        workflows: Workflows | None = None,
        wants_facts: bool = True,
    ) -> None:
        """Show ``cluster``, and the jobs that wait for others from ``workflows``."""
        self._workflows = Workflows(Outcomes()) if workflows is None else workflows
        options = options or SessionOptions()
        self._cluster = cluster
        self.platform = cluster.platform
        """The `Platform`: ``size`` (hosts), ``kinds`` (a `ServerKind` each), ``kind_of`` (index into
        ``kinds`` for each host), ``names``, ``sleep_pstate`` (of each host; -1 for one that cannot sleep) and
        ``fastest_of_kind``."""
        self.power_model = cluster.power
        """The `PowerModel`: powers, speeds and transition times by kind and P-state, as arrays."""
        self.now = 0.0
        """Simulated time, s."""
        self.arrived: list[Job] = []
        """Jobs submitted in this message."""
        self.ended: list[Job] = []
        """Jobs that have ended since the same method of the policy was last called: `Policy.schedule` and
        `Policy.power_actions` each see every ended job once. Their ``state`` is the way they ended."""
        self.measured: Measurement | None = None
        """The energy used, as last measured; None until an answer to a `MeasureEnergy` has arrived."""
        self.budget: StepBudget | None = None
        """The `StepBudget`, power and energy of the present step; None without a site."""
        self.site = site = options.site
        """The `Site`: ``storage`` (battery and hydrogen), ``step_s``, ``window_s`` (s), ``steps`` (of a
        window), ``guard``, ``grid``, ``base_w`` (W), ``calendar`` and ``battery_life``; None without a
        site."""
        self.end_s = math.inf if site is None else site.window_s * options.windows
        """Time at which the run ends, s: the end of its last window; infinite without a site."""
        self.has_site = site is not None
        """Whether the run has a site: storage, production, steps."""
        self.storage_state = None if site is None else site.storage.start()
        """The `StorageState`, actual levels at the start of the present step: ``battery_j``
        (J) and ``hydrogen_kg`` (kg); None without a site."""
        self.outlook = None if options.forecast is None else options.forecast.outlook
        """Predictions of the production: ``renewable_w(now_s, slot_s, slots)`` and ``clear_sky_w(...)``
        return the predicted and the ideal mean production of each slot, W; ``revision`` grows when
        predictions are adjusted. None without a forecast."""
        self.plans = None if site is None else options.plans
        """The `PlanStore`, the offline plans of the run's windows; None without a plan. A copy that a policy
        can change is made by `beasy_sched.policies.planned.working_plan`."""
        self.peaks: PeakMeter | None = None
        """The `PeakMeter` of the site's grid: ``peak_at_w(time_s)`` returns the highest mean import of 15
        minutes so far (W) in the period of a time; None if peaks have no price, and before the first step."""
        self.placement = options.placement
        """The `Placement`: who starts jobs. ``EXTERNAL``: the policy returns offers (`Offer`) and no starts;
        jobs start and servers are switched without its action."""
        self.power_actions_allowed = options.power_actions
        """Whether P-states may be changed."""
        self.wants_facts = wants_facts
        """Whether the facts of actions are logged; if not, they need not be collected."""
        self.host_state = read_only(cluster.state)
        """`HostState` of each host: ``IDLE`` 0, ``BUSY`` 1, ``ASLEEP`` 2, ``SWITCHING_OFF`` 3,
        ``SWITCHING_ON`` 4."""
        self.pstate = read_only(cluster.pstate)
        """P-state of each host; the target while switching."""
        self.state_since_s = read_only(cluster.state_since_s)
        """Time at which each host entered its present state, s."""
        self.available = read_only(cluster.available)
        """Whether each host is in service, and not lost: a host that failed to wake is lost."""
        self._sleep_requested = read_only(cluster.sleep_requested)
        self._wake_requested = read_only(cluster.wake_requested)
        self.state_counts = read_only(cluster.state_counts)
        """Number of hosts of each kind in each `HostState`, [kind, state]."""
        self.queue = cluster.queue
        """Waiting jobs by order of arrival: iterable, with a length; ``queue.res``, ``queue.walltime_s`` (s)
        and ``queue.subtime_s`` (s) are arrays. A policy only reads it."""
        self.held: Mapping[str, Job] = MappingProxyType(self._workflows.held)
        """Submitted jobs that are not in the queue yet, by id: they wait for their predecessors."""
        self.running: Mapping[str, Job] = MappingProxyType(cluster.running)
        """Running jobs by id, in the order of their starts."""

    def show(self, now: float, arrived: list[Job], ended: list[Job], budget: StepBudget | None) -> None:
        """Show the present state, overwriting whatever the policy has written."""
        self.now, self.arrived, self.ended, self.budget = now, arrived, ended, budget

    def show_step(
        self, budget: StepBudget, storage: StorageState, ended: list[Job], peaks: PeakMeter | None = None
    ) -> None:
        """Show a step that has just been opened, the storage at its start, and the jobs that ended before.

        ``peaks`` has the highest mean imports so far.
        """
        self.budget, self.storage_state, self.ended, self.peaks = budget, storage, ended, peaks

    def measure(self, at_s: float, energy_j: float) -> None:
        """Show an answer of the simulator's energy meter."""
        self.measured = Measurement(at_s, energy_j)

    @property
    def planned_until_s(self) -> float:
        """The end of the run's last window that has a plan, s; minus infinity without a plan."""
        return -math.inf if self.plans is None else min(self.plans.end_s, self.end_s)

    def progress(self, jobs: Iterable[Job] | None = None) -> Progress:
        """Return the progress of jobs: run time, work done, its share of the walltime, and energy used.

        ``jobs`` may run or have ended (without it: all that run, in the order of ``running``); the work of
        an ended job is what it did until its end, also if it was killed or its walltime was reached. What
        a job has left to do is unknown.
        """
        return self._cluster.progress([*(self.running.values() if jobs is None else jobs)], self.now)

    def work_flops(self, jobs: Sequence[Job]) -> FloatArray:
        """Return the work that running jobs have done by now on each of their hosts, as `progress` does."""
        return self._cluster.work_flops(jobs, self.now)

    def has_finished(self, job_id: str) -> bool:
        """Return whether a job has finished that a submitted job names as its predecessor."""
        return self._workflows.has_finished(job_id)

    def earliest_start_s(self, job: Job) -> float:
        """Time at which the think time of a held job is over, counted from ended predecessors, s."""
        return self._workflows.earliest_s(job)

    def wants_reason(self, job: Job, rule: str) -> bool:
        """Return whether ``rule`` would be logged as a new reason why ``job`` waits."""
        return self.wants_facts and job.postponed_for != rule

    def sleep_requested(self) -> BoolArray:
        """Return the mask of hosts that are to sleep and have not started to."""
        return self._sleep_requested

    def wake_requested(self) -> BoolArray:
        """Return the mask of sleeping hosts that are to wake and have not started to."""
        return self._wake_requested

    @property
    def ends(self) -> list[tuple[float, int, Job]]:
        """Running jobs sorted by their latest end: (s, order of start, job)."""
        return self._cluster.ends[:]

    @property
    def shares_hosts(self) -> bool:
        """Whether a job has been submitted that takes only a part of its hosts (external placement)."""
        return self._cluster.shares_hosts

    def usable_hosts(self, job: Job) -> int:
        """Count the hosts of a running job that are still in service, and so usable after it."""
        if self._cluster.all_available:
            return job.res
        return int(np.count_nonzero(self.available[job.hosts.ids]))

    @property
    def wakes(self) -> list[tuple[float, int]]:
        """Hosts that are waking: (when ready in s, how many), sorted."""
        return self._cluster.wakes()

    @property
    def all_available(self) -> bool:
        """Whether every host is in service."""
        return self._cluster.all_available

    @property
    def availability_version(self) -> int:
        """A counter that changes whenever something happens that could let a waiting job start.

        The hosts have changed, or a waiting job has left.
        """
        cluster = self._cluster
        return cluster.hosts_version + cluster.departures

    @property
    def free_count(self) -> int:
        """Number of hosts that are on, idle and in service."""
        return self._cluster.free_count

    def sleep(self, hosts: Iterable[int], rule: str, facts: Facts = NO_FACTS) -> list[Action]:
        """Return the actions that put idle ``hosts`` to sleep, for ``rule``.

        Hosts that cannot sleep are skipped. There are no actions where P-states may not be changed.
        """
        if not self.power_actions_allowed:
            return []
        return sleep(self, HostSet.of(hosts).ids, rule, facts)

    def wake(self, hosts: Iterable[int], rule: str, facts: Facts = NO_FACTS) -> list[Action]:
        """Return the actions that wake sleeping ``hosts`` to full speed, for ``rule``.

        Only as many are woken, in the order of their ids, as the energy left in the step suffices for, which
        they take. There are no actions where P-states may not be changed.
        """
        if not self.power_actions_allowed:
            return []
        return wake(self, HostSet.of(hosts).ids, rule, facts)

    def free_mask(self) -> BoolArray:
        """Return a copy of the mask of free hosts, which the caller may modify."""
        return self._cluster.free.copy()

    def fastest(self, mask: BoolArray, count: int) -> HostSet:
        """Choose ``count`` hosts of ``mask``: the faster ones first, then the lower ids."""
        if self._cluster.uniform_speed:
            return _lowest(mask, count)
        ids = mask.nonzero()[0]
        if len(ids) <= count:
            return HostSet(ids)
        speeds = self._cluster.speed_flops(ids)
        if all_of(speeds == speeds[0]):
            return HostSet(ids[:count])
        return HostSet(np.sort(ids[np.argsort(-speeds, kind="stable")[:count]]))


_LOOK_HOSTS: Final = 128


def _lowest(mask: BoolArray, count: int) -> HostSet:
    """Return the ``count`` lowest ids of ``mask`` (all if there are fewer); reads no further than needed."""
    size = mask.size
    first = int(mask.argmax()) if size else 0
    if count == 1 and size and mask[first]:
        return one_host(first)
    look = 4 * count if 4 * count > _LOOK_HOSTS else _LOOK_HOSTS
    while True:
        ids = mask[first : first + look].nonzero()[0]
        if ids.size >= count or first + look >= size:
            ids = ids[:count]
            ids += first
            return HostSet(ids)
        look *= 4


_LARGEST_FACT = 10**18
_NOTHING: Final[tuple[()]] = ()


class PolicyCaller:
    """Calls a policy's methods and checks what they return before anything is carried out."""

    __slots__ = ("_policy", "begun", "name")

    def __init__(self, policy: Policy) -> None:
        """Call ``policy``."""
        kind = type(policy)
        self.name = kind.name or f"{kind.__module__}:{kind.__qualname__}"
        """The policy's name, or its module and class if it has none."""
        self._policy = policy
        self.begun = False
        """Whether `Policy.begin` was called: before that, the policy has no results."""

    def schedule(self, view: View, now: float) -> Sequence[Action]:
        """Return the policy's actions at ``now`` (s), all of them checked to be well-formed.

        Raises PolicyError.
        """
        try:
            returned = self._policy.schedule(view)
        except _NOT_MISTAKES:
            raise
        except BaseException as error:
            raise self._mistake("schedule", now, error) from error
        if returned is _NOTHING or (type(returned) is list and not returned):
            return _NOTHING
        return self._checked("schedule", now, returned)

    def power_actions(self, view: View, now: float) -> Sequence[Action]:
        """Return the policy's power actions of a step, likewise."""
        return self._checked("power_actions", now, self._call("power_actions", now, view))

    def _checked(self, method: str, now: float, returned: Iterable[Action]) -> Sequence[Action]:
        """Return what a method of the policy has returned as a list of well-formed actions."""
        try:
            actions = _listed(returned)
        except _NotActions as error:
            raise self._error(method, now, f"returned {error}, expected a list of actions") from None
        except _NOT_MISTAKES:
            raise
        except BaseException as error:
            raise self._mistake(method, now, error) from error
        for action in actions:
            kind = type(action)
            if kind not in _CHECKS:
                raise self._error(method, now, f"returned {_shown(action)}, which is not an action")
            problem = _CHECKS[kind](action)
            if problem is not None:
                raise self._error(method, now, f"returned {kind.__name__} with {problem}")
        return actions

    def check_inputs(self, inputs: KnownInputs) -> list[Finding]:
        """Return the policy's warnings about a run's inputs. Raises PolicyError."""
        with own_mistakes(f"policy {self.name!r} failed in check_inputs"):
            findings = [*self._policy.check_inputs(inputs)]
            if strange := [each for each in findings if not isinstance(each, Finding)]:
                raise TypeError(f"found {_shown(strange[0])}, expected a Finding")
        return findings

    def begin(self, view: View, now: float) -> None:
        """Notify the policy that the platform is known."""
        self._call("begin", now, view)
        self.begun = True

    def results(self, now: float) -> Any:
        """Return the sections that the policy adds to the summary."""
        return self._call("results", now)

    def _call(self, method: str, now: float, *given: View) -> Any:
        """Call a method of the policy. Its exceptions are turned into a PolicyError that names the method."""
        try:
            return getattr(self._policy, method)(*given)
        except _NOT_MISTAKES:
            raise
        except BaseException as error:
            raise self._mistake(method, now, error) from error

    def _mistake(self, method: str, now: float, error: BaseException) -> PolicyError:
        return _mistake(f"policy {self.name!r} failed at {now:g} s, in {method}", error)

    def _error(self, method: str, now: float, what: str) -> PolicyError:
        return PolicyError(f"policy {self.name!r} at {now:g} s: {method} {what}")


class _NotActions(Exception):
    """A policy returned something other than a list of actions."""


def _listed(returned: Iterable[Action]) -> list[Action]:
    if (type(returned) is list or type(returned) is tuple) and len(returned) <= MOST_ACTIONS:
        return list(returned)
    if isinstance(returned, (str, bytes, Mapping)) or not isinstance(returned, Iterable):
        raise _NotActions(_shown(returned))
    actions = list(islice(returned, MOST_ACTIONS + 1))
    if len(actions) > MOST_ACTIONS:
        raise _NotActions(f"more than {MOST_ACTIONS:,} of them")
    return actions


def _shown(value: object) -> str:
    try:
        return shortened(repr(value))
    except Exception:  # a policy's own class
        return f"a {type(value).__name__}"


def _job_problem(action: Any) -> str | None:
    if not isinstance(action.job, Job):
        return f"job {_shown(action.job)}: expected a Job of the view"
    if action.job.id is not action.job.request.id or type(action.job.state) is not JobState:
        return f"job {action.job.request.id}, which was modified by the policy; jobs are read-only"
    return _words_problem(action)


def _words_problem(action: Any) -> str | None:
    if type(action.rule) is not Rule and type(action.rule) is not str:
        return f"rule {_shown(action.rule)}: expected a string"
    facts = action.facts
    if facts is NO_FACTS:
        return None
    if type(facts) is not dict and not isinstance(facts, Mapping):
        return f"facts {_shown(facts)}: expected a dictionary"
    for name, value in facts.items():
        kind = type(value)
        if kind is float or kind is str or (kind is int and -_LARGEST_FACT <= value <= _LARGEST_FACT):
            known = True
        else:
            known = _is_plain(value)
        if type(name) is not str or not known:
            return f"facts {_shown({name: value})}: expected a dictionary of numbers and short strings"
    return None


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= _LARGEST_FACT
    return isinstance(value, (float, str, np.generic))


def _hosts_problem(hosts: object) -> str | None:
    if not isinstance(hosts, HostSet):
        return f"hosts {_shown(hosts)}: expected a HostSet, such as HostSet.of([0, 1])"
    ids = hosts.ids
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        return f"hosts {_shown(ids)}: expected an array of integers"
    return None


def _start_problem(action: Start) -> str | None:
    job, hosts = action.job, action.hosts
    if type(job) is Job and type(hosts) is HostSet:  # otherwise it is a mistake, or of an author's own class
        ids = hosts.ids
        if (
            type(ids) is np.ndarray
            and ids.ndim == 1
            and ids.dtype.kind in "iu"
            and job.id is job.request.id
            and type(job.state) is JobState
        ):
            return _words_problem(action)
    return _hosts_problem(hosts) or _job_problem(action)


def _pstate_problem(action: SetPState) -> str | None:
    pstate: object = action.pstate
    if isinstance(pstate, bool) or not isinstance(pstate, (int, np.integer)):
        return f"pstate {_shown(pstate)}: expected an integer"
    return _hosts_problem(action.hosts) or _words_problem(action)


def _call_problem(action: CallAt) -> str | None:
    at: object = action.at
    if isinstance(at, (int, float, np.integer, np.floating)) and not isinstance(at, bool):
        try:
            if math.isfinite(at):
                return None
        except OverflowError:
            pass
    return f"at {_shown(at)}: expected a time in seconds"


def _offer_problem(action: Offer) -> str | None:
    count: object = action.count
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        return f"count {_shown(count)}: expected an integer of at least 0"
    if type(action.kind) is not str:
        return f"kind {_shown(action.kind)}: expected the name of a kind of servers"
    times: tuple[object, ...] = (action.from_s, action.until_s)
    for at in times:
        if isinstance(at, bool) or not isinstance(at, (int, float, np.number)) or math.isnan(at):
            return f"a time {_shown(at)}: expected seconds"
    return _words_problem(action)


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Start: _start_problem,
    Kill: _job_problem,
    Reject: _job_problem,
    Postpone: _job_problem,
    SetPState: _pstate_problem,
    Compensate: _words_problem,
    CallAt: _call_problem,
    MeasureEnergy: lambda action: None,
    Offer: _offer_problem,
}


_NOT_MISTAKES: Final = (BeasyError, Interrupted, KeyboardInterrupt)
"""Exceptions that are not wrapped when policy code is called."""


@contextlib.contextmanager
def own_mistakes(what: str) -> Iterator[None]:
    """Turn whatever a policy raises in the block into a PolicyError: ``what``, the error, and its position.

    This package's own errors and the user's Ctrl-C pass unchanged. A call of ``sys.exit`` is also an error:
    it would end the program with the exit code of success.
    """
    try:
        yield
    except _NOT_MISTAKES:
        raise
    except BaseException as error:
        raise _mistake(what, error) from error


def _mistake(what: str, error: BaseException) -> PolicyError:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({_place(frames)})" if len(frames) > 1 else ""
    return PolicyError(f"{what}: {_described(error)}{place}")


def _place(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return file and line of the innermost call in the author's own code; of all calls, if there is none."""
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}"


_LIBRARIES: Final = (
    *(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    f"{Path(__file__).parents[1]}{os.sep}",  # this package, wherever it is installed
    "<frozen ",
)
"""First parts of the names of files that are not the author's own."""


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # another author's exception, which cannot be formatted
        text = "(it cannot be shown)"
    return f"{type(error).__name__}: {shortened(text, 1000)}"
