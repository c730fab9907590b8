"""SimGrid's time: steps of the clock, and the order of what happens within one instant.

SimGrid's model of parallel tasks keeps no end dates. An action has a *rest*, which every step of the clock
decreases by that step, rounding each time; so two ends that are equal in theory can fall into two steps, 0 to
1e-10 s apart, and Batsim sends them in two messages. `StepClock` makes steps of the length that the next end
needs, in double precision, operation by operation, and so gives the same doubles.

It works lazily. Estimated ends, with a margin for the rounding, are in an agenda; only actions that may end
in the next step have the steps that they have missed applied to their rests, one by one, in one vectorized
call.

Within an instant the order is that in which Batsim's server process takes items out of its mailbox
(`mailbox`).
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.limits import LATEST_S

TIMING_PRECISION_S: Final = 1e-9
"""Time below which the rest of a wait counts as none, s (SimGrid's ``precision/timing``)."""

WORK_PRECISION: Final = 1e-14
"""Fraction of the work below which its rest counts as none (``precision/work-amount`` times that of time)."""

_MARGIN_S: Final = 1e-5
_MARGIN: Final = 1e-9
"""Margins by which an action may end sooner than estimated: seconds, and a share of its length. Each
step rounds a rest by 2.3e-16 of it at most, so that the share covers four million steps."""


_FEW_STEPS: Final = 24
"""Number of steps up to which they are applied faster one by one."""

_FOREVER: Final = float("inf")
_OVER: Final = -1


CALL, ARRIVAL, SWITCH, LEAF, REPLY, PROBE, ROUTE, TRANSFER = range(8)
"""Kinds of actions: a requested call, the wait of a file's sender, a transition, a job's leaf or its
walltime, the wait of the scheduler's reply, the next reading of Batsim 5's probes; the latency of an item on
its way to Batsim's server, and its transfer."""


class Action(Struct, eq=False):
    """Something that takes time: work at a rate, or a wait (whose rate is 1)."""

    kind: int
    subject: Any
    left: float
    """Fraction of the work, or seconds, left after the first ``_since`` steps."""
    rate: float
    """Fraction of the work done per second; 1 for a wait."""
    _precision: float
    number: int
    """Place of the action in the order of creation."""
    _since: int
    _ticket: int = _OVER
    _limit: Action | None = None
    """Wait that cannot end sooner at this rate, and therefore is not in the clock's agenda."""

    @property
    def over(self) -> bool:
        """Whether the action has ended or was cancelled."""
        return self._ticket == _OVER

    def cancel(self) -> None:
        """Cancel the action (nothing happens if it is over)."""
        self._ticket = _OVER


_Entry = tuple[float, int, Action]
"""Entry of the agenda: the earliest end of an action, by a clock without rounding, and its ticket."""


class StepClock:
    """The clock and everything that runs on it."""

    __slots__ = ("_agenda", "_drift", "_lengths", "_numbers", "_steps", "now", "short")

    def __init__(self) -> None:
        self.now = 0.0
        """Time of the clock, s."""
        self._drift = 0.0
        """Time that rounding has taken from the clock, s: estimates are made without it."""
        self._steps = 0
        """Number of steps so far."""
        self._lengths = array("d")
        """Lengths of the steps so far, s."""
        self._agenda: list[_Entry] = []
        """Heap of earliest ends; an entry counts only while its action has the entry's ticket."""
        self.short: list[Action] = []
        """Actions made with nothing to do: a zero step ends them."""
        self._numbers = 0

    def number(self) -> int:
        """Return the next number in the order of creation."""
        self._numbers += 1
        return self._numbers

    def work(self, kind: int, subject: Any, rate: float, left: float = 1.0) -> Action:
        """Begin work that is done at ``rate`` (a fraction per second)."""
        self._numbers = number = self._numbers + 1
        action = Action(kind, subject, left, rate, WORK_PRECISION, number, self._steps)
        if left < WORK_PRECISION:
            self.short.append(action)
        self._enter(action)
        return action

    def wait(self, kind: int, subject: Any, lasts_s: float) -> Action:
        """Begin to wait."""
        self._numbers = number = self._numbers + 1
        action = Action(kind, subject, lasts_s, 1.0, TIMING_PRECISION_S, number, self._steps)
        if lasts_s < TIMING_PRECISION_S:
            self.short.append(action)
        self._enter(action)
        return action

    def limit(self, kind: int, work: Action, lasts_s: float) -> Action:
        """Begin to wait for the limit of ``work``, which has just begun; its end must cancel the wait.

        A wait that can end only after that end is not entered, unless the rate of the work changes.
        """
        left_s = work.left / work.rate if work.rate > 0.0 else _FOREVER
        if lasts_s - left_s <= 2 * (_MARGIN_S + _MARGIN * (lasts_s + left_s)):
            return self.wait(kind, work.subject, lasts_s)
        self._numbers = number = self._numbers + 1
        subject, since = work.subject, self._steps
        wait = work._limit = Action(kind, subject, lasts_s, 1.0, TIMING_PRECISION_S, number, since, number)
        return wait

    def _enter(self, action: Action) -> None:
        """Enter an action whose rest is up to date."""
        self._numbers = action._ticket = ticket = self._numbers + 1
        if action.rate > 0.0:
            lasts_s = action.left / action.rate
            sooner_s = _MARGIN_S + _MARGIN * lasts_s
            earliest_s = self.now + (self._drift + (lasts_s - sooner_s))
            if not earliest_s < LATEST_S:  # it is NaN for an end that never occurs
                earliest_s = LATEST_S
            heappush(self._agenda, (earliest_s, ticket, action))

    def change_rate(self, action: Action, rate: float) -> None:
        """Continue work at another rate."""
        if rate == action.rate:
            return
        self.settle(action)
        action.rate = rate
        self._enter(action)
        self._enter_limit(action)

    def _enter_limit(self, action: Action) -> None:
        """Enter the limit of work whose end has changed, if it was not entered before."""
        if (limit := action._limit) is not None:
            action._limit = None
            if limit._ticket != _OVER:
                self.settle(limit)
                self._enter(limit)

    def change_rest(self, action: Action, left: float) -> None:
        """Let ``left`` of an action be left to do instead, in its unit."""
        self.settle(action)
        action.left = left
        self._enter(action)
        self._enter_limit(action)

    def next_s(self) -> float:
        """Return a time before which nothing ends, s: just before the next end; infinite at rest."""
        agenda = self._agenda
        while agenda and agenda[0][2]._ticket != agenda[0][1]:
            heappop(agenda)
        return agenda[0][0] - self._drift if agenda else _FOREVER

    def settle(self, action: Action) -> float:
        """Apply to an action the steps that it has missed; return what is left of it."""
        missed = self._steps - action._since
        left, rate, lengths = action.left, action.rate, self._lengths[action._since :]
        if missed <= _FEW_STEPS:
            for length in lengths:
                left -= rate * length
        else:
            rests: FloatArray = np.empty(missed + 1)
            rests[0] = left
            np.multiply(np.frombuffer(lengths), rate, out=rests[1:])
            left = float(np.subtract.reduce(rests))
        action.left, action._since = left, self._steps
        return left

    def step(self) -> list[Action]:
        """Make a step to the next end; return what has ended, by number (nothing: all is at rest)."""
        agenda = self._agenda
        true_now = self.now + self._drift
        near: list[Action] = []
        length = until = _FOREVER
        while agenda and agenda[0][0] <= until:
            _, ticket, action = heappop(agenda)
            if action._ticket == ticket:
                near.append(action)
                if action._since < self._steps:
                    self.settle(action)
                lasts = action.left / action.rate
                if lasts < length:
                    length, until = lasts, true_now + lasts
        if not near:
            return near
        self._advance(length)
        ended: list[Action] = []
        for action in near:
            action._since = self._steps
            action.left -= action.rate * length
            if action.left < action._precision:
                action._ticket = _OVER
                ended.append(action)
            else:
                self._enter(action)
        if len(ended) > 1:
            ended.sort(key=attrgetter("number"))
        return ended

    def _advance(self, length: float) -> None:
        """Move the clock, and note the step."""
        before = self.now
        self.now = now = before + length
        moved = now - before
        self._drift += (before - (now - moved)) + (length - moved)  # what the addition has rounded away
        self._lengths.append(length)
        self._steps += 1

    def zero_step(self) -> list[Action]:
        """End the actions that were made with nothing to do, and return them by number.

        The clock stands still.
        """
        short, self.short = self.short, []
        ended = [action for action in short if action._ticket != _OVER]
        for action in ended:
            action._ticket = _OVER
        return ended
