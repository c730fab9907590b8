"""Words for the rules of GreenSlot."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.policies.dispatch import SLOT_WORDS
from beasy_sched.policies.words import SPARE, STEP

_SLACK: Final = (
    "[ To meet its deadline {deadline_s}, it must start within {slack_s}.]"
    "[ To meet its deadline {deadline_s}, it should have started {overdue_s} ago.]"
)
_PLANNED: Final = (
    "[ It is planned to start at {planned_start_s}.]"
    "[ This costs {cost} ({brown_j} from the grid, {green_j} renewable), the cheapest of"
    " {slots_compared:possible start time}.][ The earliest, {earliest_s}, would cost {earliest_cost}.]"
    "[ It would be {late_s} late; the costs include a penalty for this.]"
)
_CHOSEN: Final = (
    "[ It costs {cost} ({brown_j} from the grid, {green_j} renewable), the cheapest of"
    " {slots_compared:possible start time}.][ The earliest, {earliest_s}, would have cost"
    " {earliest_cost}.]"
)
_LATER: Final = {
    "a cheaper slot": ("It waits because a later start is cheaper.", "waited for cheaper energy"),
    "a greener slot": (
        "It waits because a later start costs no more and takes less from the grid.",
        "waited for greener energy",
    ),
    "an equally cheap slot": (
        ("It waits because a later start costs the same, and production may turn out higher than predicted."),
        "waited for a later start that costs the same",
    ),
    "the first slot with room": (
        "It waits for the first slot with enough free hosts.",
        "not enough free hosts",
    ),
}
"""Reasons why a job has chosen a later slot, for one job and for several."""
_NOW: Final = {
    "cheapest slot": "No later slot is cheaper.",
    "a cheaper slot": "It was planned to start now, because this was cheaper than an earlier start.",
    "a greener slot": (
        "It was planned to start now, because this cost no more than an earlier start and took less from the"
        " grid."
    ),
    "an equally cheap slot": (
        "It was planned to start now, because this cost as much as an earlier start and left more time for"
        " solar power."
    ),
    "the first slot with room": ("It was planned to start now, in the first slot with enough free hosts."),
}
"""Reasons why a job starts in a slot."""

GREENSLOT_WORDS: Final[Sentences] = {
    **SLOT_WORDS,
    **{("start", why): Words(f"{words}{_CHOSEN}{STEP}{SPARE}") for why, words in _NOW.items()},
    **{
        ("postpone", why): Words(f"{words}{_PLANNED}{_SLACK}", of_jobs)
        for why, (words, of_jobs) in _LATER.items()
    },
    ("postpone", "its predecessors have not ended"): Words(
        "It waits because jobs that it depends on have not ended." + _PLANNED + _SLACK,
        of_jobs="jobs that they depend on had not ended",
    ),
    ("postpone", "waits for sun beyond the window"): Words(
        "Its deadline lies beyond the planning window, so it is only placed in slots with enough renewable"
        " power; there are none yet.[ The cheapest of {slots_compared:possible start time} would take"
        " {brown_j} from the grid.]" + _SLACK,
        of_jobs="waited for enough renewable power",
    ),
    ("postpone", "no slot in the window"): Words(
        "No slot in the planning window has room for it." + _SLACK,
        of_jobs="no free slot before the deadline",
    ),
    ("reject", "no slot before its deadline"): Words(
        "When it was submitted, no slot before its deadline had room for it." + _SLACK,
        of_jobs="could not have ended before their deadlines",
    ),
    ("reject", "its workflow was refused"): Words(
        "Another job of its workflow was rejected.",
        of_jobs="belong to workflows that were rejected",
    ),
    ("compensate", "deadline tightened"): Words(
        "Some jobs would miss their deadlines. {jobs:internal deadline} moved one slot earlier, so that these"
        " jobs are planned earlier in the next round.",
    ),
}
