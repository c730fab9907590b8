"""Words for the rules of `bid-price`."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.words import Sentences, Words
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD, IDLE_WORDS
from beasy_sched.policies.words import FILLER, HEAD_TOLD, LACKS, STEP

_PRICED: Final = "[ It is expected to need {job_j}][, and the price of energy is {price_j}][job_j?.]"
_AHEAD: Final = (
    " Production to count on and what hydrogen gives come to {supply_j} until {window_end_s}; all jobs, those"
    " expected among them, and sleeping servers need {demand_j}. {battery_j} are in the battery."
)
_BOUND: Final = (
    "[bound=target? What counts is the battery's target for {binding_at_s}.]"
    "[bound=floor? What counts is that the battery does not fall to SoC_min by {binding_at_s}.]"
)

BID_PRICE_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    **IDLE_WORDS,
    ("start", HEAD): Words(HEAD_TOLD + _PRICED + STEP),
    ("start", BACKFILLED): Words(FILLER + _PRICED + STEP),
    ("postpone", "dearer than the price of energy"): Words(
        "It is expected to need {job_j}; energy is rationed, and only jobs of up to {price_j} may"
        " start." + _BOUND,
        of_jobs="needed more energy than its price allowed",
    ),
    ("postpone", "not sure to end in time"): Words(
        "Jobs have needed so much of their walltimes that it might not end by {window_end_s}, the end of what"
        " is planned for.",
        of_jobs="were not sure to end before the plan does",
    ),
    ("postpone", "the battery would fall too low"): Words(
        "With all that runs, and with little sun and wind, it could take the battery to SoC_min by"
        " {lowest_at_s}.",
        of_jobs="could have emptied the battery",
    ),
    ("postpone", "the target would be missed"): Words(
        "With all that runs, and with little sun and wind, the battery could miss its target by"
        " {window_end_s}.",
        of_jobs="could have cost the battery's target",
    ),
    ("postpone", "waits for servers that are on"): Words(
        LACKS + "; servers are woken for it at {wakes_at_s} if no job ends before.",
        of_jobs="too few servers were on",
    ),
    ("postpone", "its servers are woken"): Words(
        LACKS + "; servers are being woken.",
        of_jobs="their servers were being woken",
    ),
    ("P-state", "speed of the step"): Words(
        "[speed=fast? Full speed: there is energy for all jobs at it.]"
        "[speed=thrifty? The speed that needs least energy for each flop: energy is rationed, or would be.]",
    ),
    ("compensate", "energy is rationed"): Words(
        "Energy is rationed: jobs of up to {price_j} may start, since {missing_j} would be missing for all of"
        " them." + _AHEAD + _BOUND,
    ),
    ("compensate", "energy is enough"): Words(
        "There is energy for all jobs[; {left_j} are left above what must be kept]." + _AHEAD,
    ),
}
