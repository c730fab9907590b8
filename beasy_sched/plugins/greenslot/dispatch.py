"""Starting jobs slot by slot: common code of `greenslot`, `conventional` and `lowest-window`.

Decisions are taken at the starts of slots, multiples of the slot's length. Due jobs start as soon as enough
servers, which are woken for them, are awake; idle servers are put to sleep (Section 4.1 of GreenSlot,
Goiri et al., SC 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from beasy_sched.engine.actions import Action, FactDict, Facts, Start
from beasy_sched.engine.policy import Options, View
from beasy_sched.engine.power_actions import headroom_j, sleep, spent_facts
from beasy_sched.engine.run_findings import DueJob
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, odd
from beasy_sched.model.host_states import ASLEEP, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.model.workflow import due_times
from beasy_sched.policies.easy import WANTED, wake_for_queue
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

ESTIMATE_TOLERANCE: Final = 1.2
"""Factor by which a user's estimate is multiplied for the reservation: the paper adds 20 %."""
NOT_NEEDED: Final = Rule("P-state", "idle at the start of a slot", Words("No job starts on it in this slot."))
SLOT_WORDS: Final[Sentences] = words_of(NOT_NEEDED, WANTED)
"""Words for the rules shared by the slot policies."""


class SlotOptions(Options, frozen=True):
    """Options shared by the slot policies."""

    slot_s: float = 900.0
    """Length of a slot, s; 0 for `conventional`: jobs start at any time."""
    sleep: Literal["slot", "at-once", "never"] = "slot"
    """Time at which idle servers are put to sleep: at the start of a slot, immediately, or never."""
    default_slack_h: float | None = 24.0
    """Slack of a job without a deadline, hours, added to its submission and walltime; null: no deadline."""
    internal_deadlines: Literal["slots", "exact"] = "slots"
    """Whether the deadline of a phase leaves whole slots to the next phase, or only its duration."""


class Deadlines:
    """Deadlines of waiting jobs: their own, or those derived from their successors."""

    def __init__(self, options: SlotOptions) -> None:
        """Begin with no jobs."""
        self._options = options
        self._due_s: dict[str, float] = {}
        self._order: dict[str, int] = {}

    def update(self, jobs: Iterable[Job]) -> list[Job]:
        """Update with the waiting jobs, drop all others, and return the new ones in order of submission."""
        waiting = {job.id: job for job in jobs}
        new = [job for job_id, job in waiting.items() if job_id not in self._due_s]
        new.sort(key=lambda job: (job.subtime_s, job.id))
        for number, job in enumerate(new, start=1 + max(self._order.values(), default=0)):
            self._order[job.id] = number
        if new:
            slot_s = self._options.slot_s if self._options.internal_deadlines == "slots" else 0.0
            asked = [
                (job.id, job.terms, self.own_s(job), reserved_s(job)) for job in self._concerned(waiting, new)
            ]
            self._due_s |= due_times(asked, slot_s)
        if len(self._due_s) > 2 * len(waiting) + 64:
            self._due_s = {job_id: self._due_s[job_id] for job_id in waiting}
            self._order = {job_id: self._order[job_id] for job_id in waiting}
        return new

    @staticmethod
    def _concerned(waiting: Mapping[str, Job], new: Sequence[Job]) -> Iterable[Job]:
        """Return the jobs whose deadlines may depend on new ones."""
        if any(job.terms.after for job in new):
            return waiting.values()
        workflows = {job.terms.workflow for job in new} - {""}
        older = (job for job in waiting.values() if job.terms.workflow in workflows)
        return {job.id: job for job in (*new, *older)}.values()

    def own_s(self, job: Job) -> float:
        """Return the deadline given by a job's user, else the default one, s."""
        slack_h = self._options.default_slack_h
        if job.terms.deadline_s < math.inf or slack_h is None:
            return job.terms.deadline_s
        return job.subtime_s + reserved_s(job) + slack_h * SECONDS_PER_HOUR

    def due_s(self, job: Job) -> float:
        """Return the time by which a job must end so that its successors can meet their deadlines, s."""
        return self._due_s[job.id]

    def latest_start_s(self, job: Job) -> float:
        """Return the latest start that meets the deadline, s: infinite without one."""
        due_s = self._due_s[job.id]
        return due_s - reserved_s(job) if due_s < math.inf else math.inf

    def facts(self, job: Job, now: float) -> FactDict:
        """Return a job's slack and deadline at ``now`` for the log; empty without a deadline."""
        slack_s = self.latest_start_s(job) - now
        if math.isinf(slack_s):
            return {}
        slack = {"slack_s": slack_s} if slack_s >= 0.0 else {"overdue_s": -slack_s}
        return {**slack, "deadline_s": self.due_s(job)}

    def number(self, job: Job) -> int:
        """Return a job's position in the order of submission."""
        return self._order[job.id]


def reserved_s(job: Job | DueJob) -> float:
    """Return the planned length of a job, s: its walltime, else 1.2 times its estimate, else infinite."""
    if math.isfinite(job.walltime_s) or job.terms.estimate_s is None:
        return job.walltime_s
    return ESTIMATE_TOLERANCE * job.terms.estimate_s


def unkept_deadlines(slot_s: float, policy: str, jobs: Sequence[DueJob]) -> list[Finding]:
    """Return a warning if slots of ``slot_s`` make it impossible to plan jobs to end in time.

    These are the jobs that could end in time if they started when they are submitted, but not from the start
    of the next slot on. Jobs of workflows are counted individually, so more of them may be late.
    """
    if not (slot_s > 0 and jobs):
        return []
    submit_s, due_s, lasts_s = np.array(
        [(job.submit_s, job.terms.deadline_s, reserved_s(job)) for job in jobs], dtype=np.float64
    ).T
    slot_start_s = np.ceil((submit_s - TIME_TOLERANCE_S) / slot_s) * slot_s
    in_time = submit_s + lasts_s <= due_s + TIME_TOLERANCE_S
    late = int(np.count_nonzero(in_time & (slot_start_s + lasts_s > due_s + TIME_TOLERANCE_S)))
    if not late:
        return []
    return [
        odd(
            "slots-long",
            f"{late:,} of {len(jobs):,} deadlines {'is' if late == 1 else 'are'} too tight: the walltime"
            " and the wait for the next slot together exceed the available time, because policy"
            f" {policy!r} starts jobs only at the starts of slots of {slot_s:g} s; set a shorter slot_s"
            " (and step_s of the site)",
        )
    ]


def check_slot(slot_s: float, view: View, policy: str) -> None:
    """Raise ConfigError if the slot length is not a multiple of the site's step."""
    if view.site is None or not slot_s:
        return
    steps = slot_s / view.site.step_s
    if not (steps >= 1 and abs(steps - round(steps)) < 1e-9 * steps):
        raise ConfigError(
            f"options of policy {policy!r}: slot_s: found {slot_s:g}, expected a multiple of the site's step"
            f" of {view.site.step_s:g} s"
        )


class Dispatcher:
    """Due jobs, which start in order when enough servers are awake."""

    def __init__(self, options: SlotOptions) -> None:
        """Begin with no jobs due."""
        self._options = options
        self.due: dict[str, tuple[Job, str, Callable[[], Facts]]] = {}
        """Jobs to start, the most urgent first: job, rule, facts."""

    def actions(self, view: View, *, at_slot: bool) -> list[Action]:
        """Start the jobs that can start, wake servers for the others, and put unneeded servers to sleep."""
        actions: list[Action] = []
        mask, free = view.free_mask(), view.free_count
        self.due = {job_id: entry for job_id, entry in self.due.items() if entry[0].state is JobState.WAITING}
        for job_id, (job, rule, facts) in [*self.due.items()]:
            if job.res > free or job.place < 0:
                continue
            hosts, before_j = view.fastest(mask, job.res), headroom_j(view)
            if view.budget is not None and not view.budget.grant_start(hosts.ids, computes=job.computes):
                continue
            why = {**facts(), **spent_facts(view, before_j)} if view.wants_facts else {}
            actions.append(Start(job, hosts, rule, why))
            mask[hosts.ids] = False
            free -= job.res
            del self.due[job_id]
        wanted = sum(job.res for job, _, _ in self.due.values())
        actions += wake_for_queue(view, wanted, free)
        if view.power_actions_allowed and (
            self._options.sleep == "at-once" or (at_slot and self._options.sleep == "slot")
        ):
            idle = np.flatnonzero(mask & (view.host_state == IDLE))
            actions += sleep(view, idle[::-1][: max(0, free - wanted)][::-1], NOT_NEEDED)
        return actions


def usable_count(view: View) -> int:
    """Return the number of servers available to a job: those that are free, asleep or in transition."""
    down = (
        (view.host_state == ASLEEP) | (view.host_state == SWITCHING_OFF) | (view.host_state == SWITCHING_ON)
    )
    return view.free_count + int(np.count_nonzero(down & view.available))


class SlotClock:
    """Computes slot boundaries; messages may arrive slightly after a boundary."""

    def __init__(self, slot_s: float) -> None:
        """No slot has started."""
        self.slot_s = slot_s
        self.index = -1

    @property
    def next_s(self) -> float:
        """Start of the next slot, s."""
        return (self.index + 1) * self.slot_s

    def starts(self, now: float) -> bool:
        """Return whether a slot has started since the last call, and record it."""
        index = int((now + TIME_TOLERANCE_S) // self.slot_s) if self.slot_s else self.index + 1
        new, self.index = index != self.index, index
        return new
