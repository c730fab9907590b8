"""SimGrid's clock: steps of whatever length the next end needs, in double precision, operation by operation.

SimGrid's model of parallel tasks keeps no end dates. What runs has a *rest*, which every step of the clock
decreases by that step, rounding each time; two ends that are equal on paper can so fall into two steps, 0 to
1e-10 s apart, and Batsim tells them in two messages. This clock gives the same doubles.

It does so lazily. Estimated ends, with a margin for the rounding, stand in a heap; only what may end in the
next step has the steps that it has missed applied to its rest, one by one, in one vectorized call.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

TIMING_PRECISION_S: Final = 1e-9
"""A wait that has less left than this has ended (SimGrid's ``precision/timing``)."""

WORK_PRECISION: Final = 1e-14
"""Work of which a smaller fraction is left has ended (``precision/work-amount`` times that of time)."""

_MARGIN_S: Final = 1e-5
_MARGIN: Final = 1e-9
"""How much sooner than estimated an action may end: so many seconds, and this share of its length. Each
step rounds a rest by 2.3e-16 of it at most, so that the share covers four million steps."""

_FEW_STEPS: Final = 24
"""Up to so many steps are applied faster one by one."""

_FOREVER: Final = float("inf")
_OVER: Final = -1


class Action:
    """Something that takes time: work at a rate, or a wait (whose rate is 1)."""

    __slots__ = ("_precision", "_since", "_ticket", "kind", "left", "number", "rate", "subject")

    def __init__(
        self, kind: int, subject: Any, left: float, rate: float, precision: float, number: int, since: int
    ) -> None:
        """Use `StepClock.work` and `StepClock.wait` instead."""
        self.kind = kind
        self.subject = subject
        self.left = left
        """Fraction of the work, or seconds, left after the first ``_since`` steps."""
        self.rate = rate
        """Per second."""
        self.number = number
        """Order of creation."""
        self._precision = precision
        self._since = since
        self._ticket = _OVER

    @property
    def over(self) -> bool:
        """Whether it has ended or was cancelled."""
        return self._ticket == _OVER


class StepClock:
    """The clock and everything that runs on it."""

    __slots__ = ("_drift", "_heap", "_lengths", "_numbers", "now", "short")

    def __init__(self) -> None:
        """Start at time 0."""
        self.now = 0.0
        """Seconds."""
        self._drift = 0.0
        """What rounding has taken from the clock, s: estimates are made without it."""
        self._lengths = array("d")
        """The steps so far, s."""
        self._heap: list[tuple[float, int, Action]] = []
        """Earliest ends; an entry counts only while its action has that ticket."""
        self.short: list[Action] = []
        """Actions made with nothing to do: a zero step ends them."""
        self._numbers = 0

    def number(self) -> int:
        """Return the next number in the order of creation."""
        self._numbers += 1
        return self._numbers

    def work(self, kind: int, subject: Any, rate: float, left: float = 1.0) -> Action:
        """Begin work that is done at ``rate`` (a fraction per second)."""
        return self._begin(
            Action(kind, subject, left, rate, WORK_PRECISION, self.number(), len(self._lengths))
        )

    def wait(self, kind: int, subject: Any, lasts_s: float) -> Action:
        """Begin to wait."""
        return self._begin(
            Action(kind, subject, lasts_s, 1.0, TIMING_PRECISION_S, self.number(), len(self._lengths))
        )

    def _begin(self, action: Action) -> Action:
        if action.left < action._precision:
            self.short.append(action)
        self._enter(action)
        return action

    def _enter(self, action: Action) -> None:
        """Enter an action whose rest is up to date."""
        self._numbers = action._ticket = self._numbers + 1
        if action.rate > 0.0:
            lasts_s = action.left / action.rate
            sooner_s = _MARGIN_S + _MARGIN * lasts_s
            heappush(self._heap, (self.now + (self._drift + (lasts_s - sooner_s)), action._ticket, action))

    def change_rate(self, action: Action, rate: float) -> None:
        """Go on with work at another rate."""
        if rate != action.rate:
            self.settle(action)
            action.rate = rate
            self._enter(action)

    def cancel(self, action: Action) -> None:
        """Stop an action (nothing happens if it is over)."""
        action._ticket = _OVER

    def settle(self, action: Action) -> float:
        """Apply to an action the steps that it has missed; return what is left of it."""
        first, last = action._since, len(self._lengths)
        missed = last - first
        if missed:
            action._since = last
            left, rate = action.left, action.rate
            if missed <= _FEW_STEPS:
                for length in self._lengths[first:]:
                    left -= rate * length
            else:
                rests = np.empty(missed + 1)
                rests[0] = left
                np.multiply(np.frombuffer(self._lengths, offset=8 * first), rate, out=rests[1:])
                left = float(np.subtract.reduce(rests))
            action.left = left
        return action.left

    def step(self) -> list[Action]:
        """Make a step to the next end; return what has ended, by number (nothing: all is at rest)."""
        heap = self._heap
        true_now = self.now + self._drift
        near: list[Action] = []
        length = _FOREVER
        while heap and heap[0][0] <= true_now + length:
            _, ticket, action = heappop(heap)
            if action._ticket == ticket:
                near.append(action)
                lasts = self.settle(action) / action.rate
                if lasts < length:
                    length = lasts
        if not near:
            return near
        self._advance(length)
        ended: list[Action] = []
        for action in near:
            action._since = len(self._lengths)
            action.left -= action.rate * length
            if action.left < action._precision:
                action._ticket = _OVER
                ended.append(action)
            else:
                self._enter(action)
        if len(ended) > 1:
            ended.sort(key=_by_number)
        return ended

    def _advance(self, length: float) -> None:
        """Move the clock, and keep what the addition has rounded away."""
        before = self.now
        self.now = now = before + length
        moved = now - before
        self._drift += (before - (now - moved)) + (length - moved)
        self._lengths.append(length)

    def zero_step(self) -> list[Action]:
        """End the actions that were made with nothing to do, and return them by number.

        The clock stands still.
        """
        short, self.short = self.short, []
        ended = [action for action in short if action._ticket != _OVER]
        for action in ended:
            action._ticket = _OVER
        return ended


def _by_number(action: Action) -> int:
    return action.number
