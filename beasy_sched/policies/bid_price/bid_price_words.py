"""Rules of `bid-price` with their words."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.policies.easy import BACKFILLED, EASY_WORDS, HEAD, IDLE_WORDS
from beasy_sched.policies.offering import OFFERED_FOR_QUEUE
from beasy_sched.policies.words import FILLER, HEAD_TOLD, LACKS, STEP

_PRICED: Final = "[ It is expected to need {job_j}][; the price of energy is {price_j}][job_j?.]"
_AHEAD: Final = (
    " Expected production and hydrogen provide {supply_j} until {window_end_s}; all jobs, including expected"
    " ones, and sleeping servers need {demand_j}. The battery holds {battery_j}."
)
_BOUND: Final = (
    "[bound=target? The binding constraint is the battery target][, minus its band of {band_pct},]"
    "[bound=target? at {binding_at_s}.]"
    "[bound=floor? The binding constraint is SoC_min at {binding_at_s}.]"
    "[bound=value? The charge that a dearer job takes is worth more at {window_end_s} than the job.]"
)

TOO_DEAR: Final = Rule(
    "postpone",
    "dearer than the price of energy",
    Words(
        "It is expected to need {job_j}; energy is rationed, and only jobs of up to {price_j} may"
        " start." + _BOUND,
        of_jobs="needed more energy than the price allowed",
    ),
)
TOO_LATE: Final = Rule(
    "postpone",
    "not sure to end in time",
    Words(
        "Given how much of their walltimes past jobs used, it might not end by {window_end_s}, the end of the"
        " horizon.",
        of_jobs="might not finish before the end of the plan",
    ),
)
TOO_LOW: Final = Rule(
    "postpone",
    "the battery would fall too low",
    Words(
        "Together with the running jobs and low production, it could drain the battery to SoC_min by"
        " {lowest_at_s}.",
        of_jobs="could have emptied the battery",
    ),
)
MISSES_TARGET: Final = Rule(
    "postpone",
    "the target would be missed",
    Words(
        "Together with the running jobs and low production, it could make the battery miss its target"
        "[, minus its band of {band_pct},] by {window_end_s}.",
        of_jobs="could have made the battery miss its target",
    ),
)
PATIENT: Final = Rule(
    "postpone",
    "waits for servers that are on",
    Words(
        LACKS + "; servers will be woken for it at {wakes_at_s} if no job ends before.",
        of_jobs="not enough servers were on",
    ),
)
WAKING: Final = Rule(
    "postpone",
    "its servers are woken",
    Words(
        LACKS + "; servers are being woken.",
        of_jobs="their servers were being woken",
    ),
)
SPEED: Final = Rule(
    "P-state",
    "speed of the step",
    Words(
        "[speed=fast? Full speed, because there is enough energy for all jobs.]"
        "[speed=thrifty? Most energy-efficient speed, because energy is rationed or would be at full speed.]",
    ),
)
RATIONED: Final = Rule(
    "compensate",
    "energy is rationed",
    Words(
        "Energy is rationed: jobs of up to {price_j} may start[, because {missing_j} are lacking for all of"
        " them]." + _AHEAD + _BOUND,
    ),
)
ENOUGH: Final = Rule(
    "compensate",
    "energy is enough",
    Words("There is enough energy for all jobs[; {left_j} remain above the reserve]." + _AHEAD),
)

ADMITTED: Final = Rule(
    "offer",
    "wanted by admitted jobs",
    Words("{hosts_busy:server} with jobs, and {hosts_wanted} for waiting jobs that the price admits."),
)

BID_PRICE_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    **IDLE_WORDS,
    **words_of(
        HEAD.told(HEAD_TOLD + _PRICED + STEP),
        BACKFILLED.told(FILLER + _PRICED + STEP),
        TOO_DEAR,
        TOO_LATE,
        TOO_LOW,
        MISSES_TARGET,
        PATIENT,
        WAKING,
        SPEED,
        RATIONED,
        ENOUGH,
        ADMITTED,
        OFFERED_FOR_QUEUE,
    ),
}
