"""Words for the rules of the policies with an energy budget."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

_BUDGET: Final = (
    "[ It would add up to {job_w}; the budget has {available_j}, of which {reserved_j} are reserved.]"
    "[ It would add up to {job_w} to {drawn_w}, with {reserved_w} reserved; the limit is {limit_w}.]"
)
_HAD: Final = "{hosts_asked:host} are available, "
_PROMISED: Final = "[; its start is reserved for {reserved_at_s}]."

BUDGET_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    ("start", HEAD): Words(HEAD_TOLD + STEP + _BUDGET),
    ("start", BACKFILLED): Words(FILLER + STEP + _BUDGET),
    ("start", "its hosts are awake"): Words(
        "All its hosts, which were woken for it, are on.",
    ),
    ("postpone", "no energy in the budget"): Words(
        _HAD
        + "but not the energy: if every running job uses its full walltime, the budget would be exceeded by"
        " {lacks_j} at some point. {available_j} are available now" + _PROMISED,
        of_jobs="not enough energy in the budget",
    ),
    ("postpone", "not enough energy saved"): Words(
        _HAD + "but over its walltime the current power would exceed the budget's average by {needed_j}."
        " Only {available_j} are saved; {lacks_j} are lacking" + _PROMISED,
        of_jobs="not enough of the energy budget saved",
    ),
    ("postpone", "above the power limit"): Words(
        _HAD + "but its {job_w} would exceed the limit of {limit_w}, because {drawn_w} are already drawn:"
        " over its walltime this is an excess of {lacks_j}" + _PROMISED,
        of_jobs="would have exceeded the power limit",
    ),
    ("P-state", "idle within the budget's period"): Words(
        "No job needs it now, and its idle power counts against the budget.",
    ),
    ("P-state", "given to a job"): Words(
        "Given to a job, which starts when all its hosts are on.",
    ),
    ("P-state", "reserved for the first waiting job"): Words(
        "The first waiting job's reservation is due.",
    ),
}
