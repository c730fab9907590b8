"""Words for the rules of BEASY."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.policies.easy import BACKFILLED, HEAD, PLAN_CANNOT_PAY, SLEEPERS_PAY
from beasy_sched.policies.envelope import END_WORDS
from beasy_sched.policies.follow_plan import PLAN_WORDS
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

TOO_RISKY: Final = "the battery might not last"
"""With the production quantile of the risk limit, the battery could fall below SoC_min before the end."""

NO_WALLTIME: Final = "no walltime to plan with"
"""The job has no walltime, and `long_jobs` is "set-aside"."""

_PLAN: Final = (
    "[ The plan keeps its servers on until {planned_on_until_s}.]"
    "[ This changes {server_steps_changed:server-step} from asleep to on, which needs {needed_j}.]"
    "[long_job? (It has no walltime that ends within the planned horizon.)]"
)
_PAID: Final = (
    "[ To compensate, {hosts_to_sleep:idle server} will sleep ({server_steps_to_sleep:server-step}),"
    " saving {found_j}.]"
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
        " its walltime. Keeping them on needs {needed_j}; idle servers can save {found_j} by sleeping."
        "[ Its hosts are reserved for {reserved_at_s}.]",
        of_jobs="not enough energy in the plan",
    ),
    ("postpone", NO_WALLTIME): Words(
        "It is skipped: it has no walltime, so it might not end within the planned horizon, up to"
        " {window_end_s}.",
        of_jobs="no walltime, so they might not end within the plan",
    ),
    ("postpone", TOO_RISKY): Words(
        "With the production quantile used for starts, the battery would fall below SoC_min before its"
        " walltime."
        "[ Its hosts are reserved for {reserved_at_s}.]",
        of_jobs="the battery might have fallen below SoC_min",
    ),
}
