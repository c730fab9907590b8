"""The base class of policies, ours and others'.

Calling a policy, so that its own mistakes are told as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np

from beasy_sched.engine.actions import (
    NO_FACTS,
    Action,
    CallAt,
    Compensate,
    Kill,
    MeasureEnergy,
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.view import View
from beasy_sched.errors import ConfigError, PolicyError, own_mistakes
from beasy_sched.limits import MOST_ACTIONS, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobState


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of a policy's options (the ``--options`` JSON); the plain base has none."""


class Policy:
    """Decides which jobs start, where, and at what speed.

    A policy is asked once a message, after all its events have been applied. It reads a `View` and
    returns actions; it holds no socket, and never sees a run time or future production.

    Subclass it, give it a ``name`` and a one-line ``summary``, and write `schedule`. Options are a
    subclass of `Options` named in ``options_type``.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    options_type: ClassVar[type[Options]] = Options
    needs_power: ClassVar[bool] = False
    """Whether it makes sense only with a site (storage and production)."""
    needs_plan: ClassVar[bool] = False
    """Whether it follows an offline plan of servers (and so needs a site, too)."""

    needs_speeds: ClassVar[bool] = False
    """Whether it reckons with the servers' speeds, which Batsim itself does not tell."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError that names the option."""
        try:
            self.options = msgspec.convert(dict(options or {}), self.options_type)
        except msgspec.ValidationError as error:
            known = ", ".join(self.options_type.__struct_fields__) or "none"
            raise ConfigError(f"options of policy {self.name!r}: {error} (it knows: {known})") from None

    def begin(self, view: View) -> None:
        """Called once, when the platform is known."""

    def power_actions(self, view: View) -> Sequence[Action]:
        """Power actions at the beginning of a step, before the guard's and before any start."""
        return ()

    def results(self) -> dict[str, dict[str, Any]]:
        """Return sections that the policy adds to the run's summary, by name; called after the run."""
        return {}

    def schedule(self, view: View) -> Sequence[Action]:
        """Return what to do now. Every hosts set must be free, and large enough for its job."""
        raise NotImplementedError


T = TypeVar("T")
_LARGEST_FACT = 10**18


class PolicyCaller:
    """Calls one policy's methods, and looks at what it returns before anything is done."""

    def __init__(self, policy: Policy) -> None:
        """Speak for ``policy``."""
        kind = type(policy)
        self.name = kind.name or f"{kind.__module__}:{kind.__qualname__}"
        """The policy's name, or for one without a name its module and class."""
        self._policy = policy

    def ask(self, method: str, view: View, now: float) -> list[Action]:
        """Ask for actions at ``now`` (s); all of them are known, and well-formed, before the first is done.

        Raises PolicyError.
        """
        actions = self._call(method, lambda call: _listed(call(view)), now)
        for action in actions:
            check = _CHECKS.get(type(action))
            if check is None:
                raise self._error(method, now, f"returned {_shown(action)}, which is no action")
            problem = check(action)
            if problem is not None:
                raise self._error(method, now, f"returned {type(action).__name__} with {problem}")
        return actions

    def begin(self, view: View, now: float) -> None:
        """Tell the policy of its platform."""
        self._call("begin", lambda call: call(view), now)

    def results(self, now: float) -> Any:
        """What the policy adds to the summary."""
        return self._call("results", lambda call: call(), now)

    def _call(self, method: str, use: Callable[[Any], T], now: float) -> T:
        """Use a method of the policy. Its mistakes become a PolicyError that says where they are."""
        with own_mistakes(f"policy {self.name!r} failed at {now:g} s, in {method}"):
            try:
                return use(getattr(self._policy, method))
            except _NotActions as error:
                found = str(error)
        raise self._error(method, now, f"returned {found}, expected a list of actions")

    def _error(self, method: str, now: float, what: str) -> PolicyError:
        return PolicyError(f"policy {self.name!r} at {now:g} s: {method} {what}")


class _NotActions(Exception):
    """A policy returned something that holds no actions."""


def _listed(found: Iterable[Action]) -> list[Action]:
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        raise _NotActions(_shown(found))
    actions = list(islice(found, MOST_ACTIONS + 1))
    if len(actions) > MOST_ACTIONS:
        raise _NotActions(f"more than {MOST_ACTIONS:,} of them")
    return actions


def _shown(found: object) -> str:
    try:
        return shortened(repr(found))
    except Exception:  # a policy's own class
        return f"a {type(found).__name__}"


def _job_problem(action: Any) -> str | None:
    if not isinstance(action.job, Job):
        return f"job {_shown(action.job)}: expected a Job of the view"
    if action.job.id is not action.job.request.id or type(action.job.state) is not JobState:
        return f"job {action.job.request.id}, which the policy has changed: jobs are only to be read"
    return _words_problem(action)


def _words_problem(action: Any) -> str | None:
    if type(action.rule) is not str:
        return f"rule {_shown(action.rule)}: expected a text"
    facts = action.facts
    if facts is not NO_FACTS and not isinstance(facts, Mapping):
        return f"facts {_shown(facts)}: expected a dictionary"
    for name, value in facts.items():
        plain = isinstance(value, (float, str, np.generic)) or (
            isinstance(value, int) and abs(value) <= _LARGEST_FACT
        )
        if type(name) is not str or not plain:
            return f"facts {_shown({name: value})}: expected numbers and short texts by name"
    return None


def _hosts_problem(hosts: object) -> str | None:
    if not isinstance(hosts, HostSet):
        return f"hosts {_shown(hosts)}: expected a HostSet, such as HostSet.of([0, 1])"
    ids = hosts.ids
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        return f"hosts {_shown(ids)}: expected an array of whole numbers"
    return None


def _start_problem(action: Start) -> str | None:
    return _hosts_problem(action.hosts) or _job_problem(action)


def _pstate_problem(action: SetPState) -> str | None:
    pstate: object = action.pstate
    if isinstance(pstate, bool) or not isinstance(pstate, (int, np.integer)):
        return f"pstate {_shown(pstate)}: expected a whole number"
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


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Start: _start_problem,
    Kill: _job_problem,
    Reject: _job_problem,
    Postpone: _job_problem,
    SetPState: _pstate_problem,
    Compensate: _words_problem,
    CallAt: _call_problem,
    MeasureEnergy: lambda action: None,
}
