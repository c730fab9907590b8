"""Rules of BEASY with their words."""

from __future__ import annotations

from typing import Final

from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.policies.easy import BACKFILLED, HEAD
from beasy_sched.policies.envelope import END_WORDS
from beasy_sched.policies.follow_plan import PLAN_WORDS
from beasy_sched.policies.words import FILLER, HEAD_TOLD, STEP

_PLAN: Final = (
    "[ The plan keeps its servers on until {planned_on_until_s}.]"
    "[ This changes {server_steps_changed:server-step} from asleep to on, which needs {needed_j}.]"
    "[long_job? (It has no walltime that ends within the planned horizon.)]"
)
_PAID: Final = (
    "[ To compensate, {hosts_to_sleep:idle server} will sleep ({server_steps_to_sleep:server-step}),"
    " saving {found_j}.]"
)

HEAD_PAID: Final = Rule(
    "start", HEAD + "; idle servers sleep for it", Words(HEAD_TOLD + _PLAN + _PAID + STEP)
)
BACKFILLED_PAID: Final = Rule(
    "start", BACKFILLED + "; idle servers sleep for it", Words(FILLER + _PLAN + _PAID + STEP)
)
PAID: Final = {str(HEAD): HEAD_PAID, str(BACKFILLED): BACKFILLED_PAID}
"""Rule of a start for which idle servers are put to sleep, by the rule of other starts."""
PLAN_CANNOT_PAY: Final = Rule(
    "postpone",
    "plan cannot pay",
    Words(
        "Enough hosts are free, but the plan has some asleep[full_speed?, or slower than it needs,] before"
        " its walltime. Keeping them on needs {needed_j}; idle servers can save {found_j} by sleeping."
        "[ Its hosts are reserved for {reserved_at_s}.]",
        of_jobs="not enough energy in the plan",
    ),
)
"""The energy test failed."""
NO_WALLTIME: Final = Rule(
    "postpone",
    "no walltime to plan with",
    Words(
        "It is skipped: it has no walltime, so it might not end within the planned horizon, up to"
        " {window_end_s}.",
        of_jobs="no walltime, so they might not end within the plan",
    ),
)
"""The job has no walltime, and `long_jobs` is "set-aside"."""
TOO_RISKY: Final = Rule(
    "postpone",
    "the battery might not last",
    Words(
        "With the production quantile used for starts, the battery would fall below SoC_min before its"
        " walltime."
        "[ Its hosts are reserved for {reserved_at_s}.]",
        of_jobs="the battery might have fallen below SoC_min",
    ),
)
"""With the production quantile of the risk limit, the battery could fall below SoC_min before the end."""

BEASY_WORDS: Final[Sentences] = {
    **PLAN_WORDS,
    **END_WORDS,
    **words_of(
        HEAD.told(HEAD_TOLD + _PLAN + STEP),
        BACKFILLED.told(FILLER + _PLAN + STEP),
        HEAD_PAID,
        BACKFILLED_PAID,
        PLAN_CANNOT_PAY,
        NO_WALLTIME,
        TOO_RISKY,
    ),
}
