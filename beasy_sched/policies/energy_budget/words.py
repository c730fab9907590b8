"""Words for the rules of the policies with an energy budget."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.words import Sentences, Words
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

_BUDGET: Final = (
    "[ It draws up to {job_w} more; the budget has {available_j}, of which {reserved_j} are reserved.]"
    "[ It draws up to {job_w} more, on top of {drawn_w} with {reserved_w} reserved; the limit is {limit_w}.]"
)
_HAD: Final = "Its {hosts_asked:host} could be had, "
_PROMISED: Final = "[; it is promised to start at {reserved_at_s}]."

BUDGET_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    ("start", HEAD): Words(HEAD_TOLD + STEP + _BUDGET),
    ("start", BACKFILLED): Words(FILLER + STEP + _BUDGET),
    ("start", "its hosts are awake"): Words(
        "Its hosts, woken for it, are all on.",
    ),
    ("postpone", "no energy in the budget"): Words(
        _HAD
        + "but not its energy: if every running job takes its walltime, {lacks_j} would be missing in the"
        " budget at some moment. {available_j} are available now" + _PROMISED,
        of_jobs="no energy was left for them in the budget",
    ),
    ("postpone", "not enough energy saved"): Words(
        _HAD
        + "but over its walltime the power, as it is now, would exceed the budget's average by {needed_j}."
        " Only {available_j} are saved: {lacks_j} are missing" + _PROMISED,
        of_jobs="not enough of the energy budget had been saved",
    ),
    ("postpone", "above the power limit"): Words(
        _HAD + "but its {job_w} would exceed the limit of {limit_w}, as {drawn_w} are drawn already: over its"
        " walltime that would be {lacks_j} too much" + _PROMISED,
        of_jobs="would have exceeded the power limit",
    ),
    ("P-state", "idle within the budget's period"): Words(
        "No job needs it now, and what it draws idle counts in the budget.",
    ),
    ("P-state", "given to a job"): Words(
        "Given to a job, which starts when all its hosts are on.",
    ),
    ("P-state", "reserved for the first waiting job"): Words(
        "The first waiting job's reservation is due.",
    ),
}
