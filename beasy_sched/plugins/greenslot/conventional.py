"""The conventional scheduler of GreenSlot's paper: EASY by least slack time, without regard to energy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from beasy_sched.engine.actions import Action, CallAt
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.engine.session_words import Sentences, words_of
from beasy_sched.findings import Finding
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.plugins.greenslot.dispatch import (
    SLOT_WORDS,
    Deadlines,
    Dispatcher,
    SlotClock,
    SlotOptions,
    check_slot,
    unkept_deadlines,
    usable_count,
)
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD, EasyPass, Places
from beasy_sched.policies.words import FILLER, HEAD_TOLD, SPARE, STEP


class Conventional(Policy):
    """EASY backfilling on all servers, first and backfilled jobs by their latest start (least slack first).

    Jobs start at the starts of slots; idle servers sleep (Goiri et al., SC 2011, Section 5.1).
    """

    name = "conventional"
    summary = "GreenSlot's baseline: EASY by least slack time, idle servers sleep, energy ignored"
    words: ClassVar[Sentences] = {
        **EASY_WORDS,
        **SLOT_WORDS,
        **words_of(HEAD.told(HEAD_TOLD + STEP + SPARE), BACKFILLED.told(FILLER + STEP + SPARE)),
    }
    options_type = SlotOptions
    options: SlotOptions

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Warn of deadlines that are too tight for the slots."""
        return unkept_deadlines(self.options.slot_s, self.name, inputs.due_jobs)

    def begin(self, view: View) -> None:
        """Check that slots fit the site's steps."""
        check_slot(self.options.slot_s, view, self.name)
        self._clock = SlotClock(self.options.slot_s)
        self._deadlines = Deadlines(self.options)
        self._dispatcher = Dispatcher(self.options)

    def schedule(self, view: View) -> Sequence[Action]:
        """Decide at the start of a slot; in between, start due jobs as servers wake."""
        at_slot = self._clock.starts(view.now)
        actions: list[Action] = []
        if at_slot:
            self._deadlines.update([*view.queue, *view.held.values()])
            easy = _SlotPass(view, self._deadlines, self._dispatcher)
            actions += easy.run()
        elif view.site is None and len(view.queue):  # a site's steps bring a call at every slot
            actions.append(CallAt(self._clock.next_s))
        return [*actions, *self._dispatcher.actions(view, at_slot=at_slot)]


class _SlotPass(EasyPass):
    """EASY with sleeping servers counted as free: jobs become due, and start once their servers are awake."""

    def __init__(self, view: View, deadlines: Deadlines, dispatcher: Dispatcher) -> None:
        def by_latest_start(queue: JobQueue, places: Places, now: float) -> Places:
            starts_s = [deadlines.latest_start_s(queue.at(place)) for place in places.tolist()]
            return places[np.argsort(starts_s, kind="stable")]

        super().__init__(view, by_latest_start, by_latest_start)
        self._deadlines, self._dispatcher = deadlines, dispatcher
        self.started = [job for job, _, _ in dispatcher.due.values()]
        self.free = usable_count(view) - sum(job.res for job in self.started)

    def heads(self) -> Iterable[Job]:
        """Waiting jobs that are not yet due."""
        return (job for job in super().heads() if job.id not in self._dispatcher.due)

    def start(self, job: Job, late: bool = False) -> bool:
        """Mark ``job`` as due if there are enough servers, awake or not."""
        if job.res > self.free:
            return False
        facts = self.facts(job) | self._deadlines.facts(job, self.view.now)
        self._dispatcher.due[job.id] = job, self.rule, lambda: facts
        self.started.append(job)
        self.free -= job.res
        if late and self.reservation is not None:
            self.reservation.extra -= job.res
        return True
