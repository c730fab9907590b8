"""Deadlines and chains for jobs that come from a trace or a model, which have none.

The members that they write are read by the scheduler: see `beasy_sched.model.jobs.Terms`.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from beasy_sched.declared import OptionDoc
from beasy_sched.errors import ConfigError
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.arrays import FloatArray
    from beasy_sched.generate.workload import GeneratedWorkload
    from beasy_sched.generate.workload_options import Chains


RULES: Final = "factor:3, factor:2..10, hours:24, clock:09:00,14:00 or none"
DEADLINES: Final = OptionDoc(
    'a rule such as ``"factor:2..10"``, ``"hours:24"`` or ``"clock:09:00"``',
    "Give jobs deadlines. factor:3: submission + 3 x walltime; factor:2..10: a number between these, "
    "drawn for each job; hours:24: submission + 24 h; clock:09:00,14:00: the first of these local times "
    "that leaves the job its walltime.",
)
"""The option that has one of `RULES`."""
_FACTOR: Final = re.compile(r"factor:(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?$")
_HOURS: Final = re.compile(r"hours:(\d+(?:\.\d+)?)$")
_CLOCK: Final = re.compile(r"clock:(\d{1,2}:\d{2}(?:,\d{1,2}:\d{2})*)$")


@dataclass(frozen=True)
class DeadlineRule:
    """By when jobs are due; exactly one of the three is given."""

    factors: tuple[float, float] | None = None
    """Submission plus the walltime times a number between these two, drawn for each job."""
    after_s: float | None = None
    """Submission plus this time, s."""
    clock_s: tuple[float, ...] = ()
    """The first of these times of day (s after midnight) that leaves the job its walltime."""

    def deadlines_s(self, workload: GeneratedWorkload, *, seed: int, midnight_s: float = 0.0) -> FloatArray:
        """Return the deadline of each job, s; NaN for a job without the walltime that the rule needs.

        ``midnight_s`` is the simulated time of any midnight, for times of day.
        """
        import numpy as np

        from beasy_sched.generate.random_streams import Stream, uniforms

        submit_s, walltime_s = workload.submit_s, workload.walltime_s
        if self.after_s is not None:
            return submit_s + self.after_s
        if self.factors is not None:
            low, high = self.factors
            drawn = low + (high - low) * uniforms(seed, Stream.DEADLINES, workload.size)
            return submit_s + drawn * walltime_s
        ready_s = submit_s + walltime_s - midnight_s
        days = np.floor(ready_s / SECONDS_PER_DAY)
        offers = np.array([*self.clock_s, self.clock_s[0] + SECONDS_PER_DAY])
        times_s = ready_s - days * SECONDS_PER_DAY
        place = np.searchsorted(offers, times_s - TIME_TOLERANCE_S)
        offered_s = midnight_s + days * SECONDS_PER_DAY + offers[np.minimum(place, len(offers) - 1)]
        return np.where(np.isnan(ready_s), np.nan, offered_s)


_LARGEST_FACTOR = 1e6


def parse_deadlines(text: str) -> DeadlineRule | None:
    """Read a rule such as ``factor:2..10``; None for ``none``. Raises ValueError that names the rules."""
    if text == "none":
        return None
    if match := _FACTOR.match(text):
        low = float(match[1])
        high = float(match[2] or low)
        if 0.0 < low <= high <= _LARGEST_FACTOR:
            return DeadlineRule(factors=(low, high))
    if (match := _HOURS.match(text)) and 0.0 < float(match[1]) <= LATEST_S / SECONDS_PER_HOUR:
        return DeadlineRule(after_s=float(match[1]) * SECONDS_PER_HOUR)
    if match := _CLOCK.match(text):
        with contextlib.suppress(ValueError):
            return DeadlineRule(clock_s=tuple(sorted(map(clock_s, match[1].split(",")))))
    raise ValueError(f"found {shortened(text, 40)!r}, expected {RULES}")


def clock_s(text: str) -> float:
    """Read a time of day, ``09:00``, as s after midnight. Raises ValueError."""
    hour, _, minute = text.partition(":")
    if hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60:
        return 3600.0 * int(hour) + 60.0 * int(minute)
    raise ValueError(f"{text!r} is not a time of day such as 09:00")


def with_deadlines(workload: GeneratedWorkload, rule: DeadlineRule, *, seed: int = 0) -> GeneratedWorkload:
    """Give the jobs of a workload the member ``deadline_s``.

    Times of day count from the workload's ``midnight_s``. Raises ConfigError where it has none.
    """
    if rule.clock_s and workload.midnight_s is None:
        raise ConfigError(
            "deadlines at times of day require the local time at time 0, but the trace's header does not"
            " state it (UnixStartTime with TimeZoneString): give it, such as --clock-at-0 09:00"
        )
    due_s = rule.deadlines_s(workload, seed=seed, midnight_s=workload.midnight_s or 0.0)
    members = [None if math.isnan(value) else round(value, 6) for value in due_s.tolist()]
    without = members.count(None)
    if without:
        workload.report.notes.append(f"{without} jobs have no walltime, and so no deadline")
    workload.report.notes.append(f"{len(members) - without} of {workload.size} jobs have a deadline")
    return replace(workload, extras={**workload.extras, "deadline_s": members})


def with_chains(
    workload: GeneratedWorkload,
    how: Chains,
    numbers: FloatArray,
    preceding: FloatArray,
    think_time_s: FloatArray,
) -> GeneratedWorkload:
    """Give the jobs of a trace the member ``after``; the arrays are its columns 1, 17 and 18, by job.

    A preceding job that is not among the jobs, or not before the job, counts as none. The report states
    how many jobs have one.
    """
    import numpy as np

    if how == "none":
        return workload
    places = {number: place for place, number in enumerate(numbers.tolist())}
    before = [places.get(number) if number >= 0 else None for number in preceding.tolist()]
    before = [None if other is None or other >= place else other for place, other in enumerate(before)]
    count = sum(other is not None for other in before)
    workload.report.notes.append(
        f"chains ({how}): {count} of {workload.size} jobs wait for a preceding job"
        + ("" if count else ": the trace names none that is among them (column 17)")
    )
    after = [None if other is None else [workload.ids[other]] for other in before]
    extras = {**workload.extras, "after": after}
    if how == "keep":
        return replace(workload, extras=extras)
    submit_s = workload.submit_s.copy()
    for place, other in enumerate(before):
        if other is not None:
            submit_s[place] = submit_s[other]
    think = np.where(think_time_s > 0.0, think_time_s, np.nan).tolist()
    extras["think_time_s"] = [
        None if other is None or math.isnan(time_s) else time_s
        for other, time_s in zip(before, think, strict=True)
    ]
    return _sorted(replace(workload, submit_s=submit_s, extras=extras))


def _sorted(workload: GeneratedWorkload) -> GeneratedWorkload:
    import numpy as np

    order = np.argsort(workload.submit_s, kind="stable")
    return replace(
        workload,
        ids=[workload.ids[place] for place in order.tolist()],
        submit_s=workload.submit_s[order],
        run_s=workload.run_s[order],
        hosts=workload.hosts[order],
        walltime_s=workload.walltime_s[order],
        extras={
            name: [values[place] for place in order.tolist()] for name, values in workload.extras.items()
        },
    )
