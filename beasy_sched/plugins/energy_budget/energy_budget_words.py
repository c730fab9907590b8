"""Rules of the policies with an energy budget, with their words."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

_BUDGET: Final = (
    "[ It would add up to {job_w}; the budget has {available_j}, of which {reserved_j} are reserved.]"
    "[ It would add up to {job_w} to {drawn_w}, with {reserved_w} reserved; the limit is {limit_w}.]"
)
_HAD: Final = "{hosts_asked:host} are available, "
_PROMISED: Final = "[; its start is reserved for {reserved_at_s}]."

AWAKE: Final = Rule(
    "start",
    "its hosts are awake",
    Words("All its hosts, which were woken for it, are on."),
)
NO_BUDGET: Final = Rule(
    "postpone",
    "no energy in the budget",
    Words(
        _HAD
        + "but not the energy: if every running job uses its full walltime, the budget would be exceeded by"
        " {lacks_j} at some point. {available_j} are available now" + _PROMISED,
        of_jobs="not enough energy in the budget",
    ),
)
"""With the job, the future balance could fall below zero."""
NOT_SAVED: Final = Rule(
    "postpone",
    "not enough energy saved",
    Words(
        _HAD + "but over its walltime the current power would exceed the budget's average by {needed_j}."
        " Only {available_j} are saved; {lacks_j} are lacking" + _PROMISED,
        of_jobs="not enough of the energy budget saved",
    ),
)
"""The job's excess is above the stock."""
ABOVE_LIMIT: Final = Rule(
    "postpone",
    "above the power limit",
    Words(
        _HAD + "but its {job_w} would exceed the limit of {limit_w}, because {drawn_w} are already drawn:"
        " over its walltime this is an excess of {lacks_j}" + _PROMISED,
        of_jobs="would have exceeded the power limit",
    ),
)
"""With the job, the power could exceed the limit."""
SWITCHED_OFF: Final = Rule(
    "P-state",
    "idle within the budget's period",
    Words("No job needs it now, and its idle power counts against the budget."),
)
WOKEN_FOR_JOB: Final = Rule(
    "P-state",
    "given to a job",
    Words("Given to a job, which starts when all its hosts are on."),
)
WOKEN_TO_COME: Final = Rule(
    "P-state",
    "reserved for the first waiting job",
    Words("The first waiting job's reservation is due."),
)

BUDGET_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    **words_of(
        HEAD.told(HEAD_TOLD + STEP + _BUDGET),
        BACKFILLED.told(FILLER + STEP + _BUDGET),
        AWAKE,
        NO_BUDGET,
        NOT_SAVED,
        ABOVE_LIMIT,
        SWITCHED_OFF,
        WOKEN_FOR_JOB,
        WOKEN_TO_COME,
    ),
}
