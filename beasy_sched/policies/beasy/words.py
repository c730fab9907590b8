"""Words for the rules of BEASY."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.words import Sentences, Words
from beasy_sched.policies.easy import BACKFILLED, HEAD, PLAN_CANNOT_PAY, SLEEPERS_PAY
from beasy_sched.policies.envelope import END_WORDS
from beasy_sched.policies.follow_plan import PLAN_WORDS
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

TOO_RISKY: Final = "the battery might not last"
"""With the production that the promised risk counts on, the battery could fall below SoC_min on the way."""

NO_WALLTIME: Final = "no walltime to plan with"
"""The job has no walltime, and `long_jobs` is "set-aside"."""

_PLAN: Final = (
    "[ The plan keeps its servers on until {planned_on_until_s}.]"
    "[ For that {server_steps_changed:server-step} that it had asleep had to be on, which takes {needed_j}.]"
    "[long_job? (It has no walltime that ends within what is planned.)]"
)
_PAID: Final = (
    "[ To pay for it {hosts_to_sleep:idle server} will sleep ({server_steps_to_sleep:server-step}):"
    " that saves {found_j}.]"
)

BEASY_WORDS: Final[Sentences] = {
    **PLAN_WORDS,
    **END_WORDS,
    ("start", HEAD): Words(HEAD_TOLD + _PLAN + STEP),
    ("start", BACKFILLED): Words(FILLER + _PLAN + STEP),
    ("start", HEAD + SLEEPERS_PAY): Words(HEAD_TOLD + _PLAN + _PAID + STEP),
    ("start", BACKFILLED + SLEEPERS_PAY): Words(FILLER + _PLAN + _PAID + STEP),
    ("postpone", PLAN_CANNOT_PAY): Words(
        "Enough hosts are free, but the plan has some asleep[full_speed?, or slower than it needs,] before"
        " its walltime. To keep them on takes {needed_j}; idle servers could save {found_j} by sleeping."
        "[ It is promised its hosts for {reserved_at_s}.]",
        of_jobs="the plan had no energy for them",
    ),
    ("postpone", NO_WALLTIME): Words(
        "It is set aside: it has no walltime, so it might not end within what is planned, up to"
        " {window_end_s}.",
        of_jobs="had no walltime, and might have outlasted the plan",
    ),
    ("postpone", TOO_RISKY): Words(
        "With the production that starts may count on, the battery falls below SoC_min before its walltime."
        "[ It is promised its hosts for {reserved_at_s}.]",
        of_jobs="the battery might not have lasted",
    ),
}
