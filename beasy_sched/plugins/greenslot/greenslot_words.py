"""Rules of GreenSlot with their words."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.plugins.greenslot.dispatch import SLOT_WORDS
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


def _later(text: str, sentence: str, of_jobs: str) -> Rule:
    """Return the rule of a job that waits for a later slot."""
    return Rule("postpone", text, Words(f"{sentence}{_PLANNED}{_SLACK}", of_jobs))


def _now(text: str, sentence: str) -> Rule:
    """Return the rule of a job that starts in the slot that was chosen for the reason ``text``."""
    return Rule("start", text, Words(f"{sentence}{_CHOSEN}{STEP}{SPARE}"))


CHEAPEST: Final = _now("cheapest slot", "No later slot is cheaper.")
"""The task starts now."""
CHEAPER_LATER: Final = _later(
    "a cheaper slot", "It waits because a later start is cheaper.", "waited for cheaper energy"
)
PEAK_LATER: Final = _later(
    "a slot that keeps the peak low",
    "It waits because an earlier start would raise the highest import of 15 minutes, which has a price.",
    "waited to keep the highest import low",
)
"""The task starts later, because the energy is not cheaper, but the peak is."""
GREENER_LATER: Final = _later(
    "a greener slot",
    "It waits because a later start costs no more and takes less from the grid.",
    "waited for greener energy",
)
"""The task starts later, with less brown energy at no lower cost."""
AS_CHEAP_LATER: Final = _later(
    "an equally cheap slot",
    "It waits because a later start costs the same, and production may turn out higher than predicted.",
    "waited for a later start that costs the same",
)
"""The task starts later at the same cost, because there may be more solar power by then."""
FIRST_ROOM: Final = _later(
    "the first slot with room", "It waits for the first slot with enough free hosts.", "not enough free hosts"
)
"""Nodes are not free before; always the reason of a job longer than the window."""
PREDECESSORS: Final = Rule(
    "postpone",
    "its predecessors have not ended",
    Words(
        "It waits because jobs that it depends on have not ended." + _PLANNED + _SLACK,
        of_jobs="jobs that they depend on had not ended",
    ),
)
SUN_BEYOND: Final = Rule(
    "postpone",
    "waits for sun beyond the window",
    Words(
        "Its deadline lies beyond the planning window, so it is only placed in slots with enough renewable"
        " power; there are none yet.[ The cheapest of {slots_compared:possible start time} would take"
        " {brown_j} from the grid.]" + _SLACK,
        of_jobs="waited for enough renewable power",
    ),
)
NO_SLOT: Final = Rule(
    "postpone",
    "no slot in the window",
    Words(
        "No slot in the planning window has room for it." + _SLACK,
        of_jobs="no free slot before the deadline",
    ),
)
REFUSED: Final = Rule(
    "reject",
    "no slot before its deadline",
    Words(
        "When it was submitted, no slot before its deadline had room for it." + _SLACK,
        of_jobs="could not have ended before their deadlines",
    ),
)
WORKFLOW_REFUSED: Final = Rule(
    "reject",
    "its workflow was refused",
    Words(
        "Another job of its workflow was rejected.",
        of_jobs="belong to workflows that were rejected",
    ),
)
TIGHTENED: Final = Rule(
    "compensate",
    "deadline tightened",
    Words(
        "Some jobs would miss their deadlines. {jobs:internal deadline} moved one slot earlier, so that these"
        " jobs are planned earlier in the next round.",
    ),
)

_STARTED: Final = (
    CHEAPEST,
    _now(CHEAPER_LATER, "It was planned to start now, because this was cheaper than an earlier start."),
    _now(
        PEAK_LATER,
        "It was planned to start now, because an earlier start would have raised the highest import of 15"
        " minutes, which has a price.",
    ),
    _now(
        GREENER_LATER,
        "It was planned to start now, because this cost no more than an earlier start and took less from the"
        " grid.",
    ),
    _now(
        AS_CHEAP_LATER,
        "It was planned to start now, because this cost as much as an earlier start and left more time for"
        " solar power.",
    ),
    _now(FIRST_ROOM, "It was planned to start now, in the first slot with enough free hosts."),
)
STARTED_FOR: Final = {str(rule): rule for rule in _STARTED}
"""Rule of a job that starts in its slot, by the reason why the slot was chosen."""

GREENSLOT_WORDS: Final[Sentences] = {
    **SLOT_WORDS,
    **words_of(
        *_STARTED,
        CHEAPER_LATER,
        PEAK_LATER,
        GREENER_LATER,
        AS_CHEAP_LATER,
        FIRST_ROOM,
        PREDECESSORS,
        SUN_BEYOND,
        NO_SLOT,
        REFUSED,
        WORKFLOW_REFUSED,
        TIGHTENED,
    ),
}
