"""Why jobs waited, were killed or never ran, in a few words for each rule: for tables and overviews.

The sentences, with the numbers behind a single decision, are in `beasy_sched.reports.explain_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beasy_sched.policies import easy as rules

QUEUED: Final = ""
"""Stands for the rule of a job that waits without one of its own: others are before it."""

WAITED: Final[dict[str, str]] = {
    QUEUED: "others were before them in the queue",
    rules.RESERVED: "too few hosts were free (a start was promised)",
    rules.NOT_RESERVED: "too few hosts were free",
    rules.NO_STEP_ENERGY: "no energy was left for them in the step",
    rules.PLAN_CANNOT_PAY: "the plan had no energy for them",
    rules.SET_ASIDE: "would outlast the plan",
    "no energy in the budget": "no energy was left for them in the budget",
    "not enough energy saved": "not enough of the energy budget had been saved",
    "above the power limit": "would have exceeded the power limit",
    "dearer than the price of energy": "needed more energy than its price allowed",
    "not sure to end in time": "were not sure to end before the plan does",
    "the battery would fall too low": "could have emptied the battery",
    "the target would be missed": "could have cost the battery's target",
    "waits for servers that are on": "too few servers were on",
    "its servers are woken": "their servers were being woken",
    "a cheaper slot": "waited for cheaper energy",
    "a greener slot": "waited for greener energy",
    "an equally cheap slot": "waited for a later start that costs the same",
    "the first slot with room": "too few hosts were free",
    "its predecessors have not ended": "jobs that they depend on had not ended",
    "waits for sun beyond the window": "waited for enough sun",
    "no slot in the window": "no time before their deadlines had room for them",
    "waits for jobs that never come": "depend on jobs that were never submitted",
}
"""By the rule of a postponement; "they" are the jobs."""

REJECTED: Final[dict[str, str]] = {
    "asks for no host": "ask for no host at all",
    "asks for more hosts than there are": "ask for more than the {hosts} hosts here",
    "no slot before its deadline": "could not have ended before their deadlines",
    "its workflow was refused": "belong to workflows that were refused",
    "its predecessor did not finish": "depend on jobs that did not finish",
    "one of its members cannot be read": "have members that cannot be read",
}
"""By the rule of a rejection; the jobs are its subject."""

KILLED: Final[dict[str, str]] = {
    "": "not by the scheduler",
    "guard: no energy for it": "by the storage guard, for lack of energy",
    "ended before the guard ends all jobs": "by the policy, before the guard would have killed all",
    "its server is planned to sleep": "since the plan put their servers to sleep",
}
"""By the rule of a kill; each reads after "killed"."""

_WORDS: Final = {"postponed": WAITED, "rejected": REJECTED, "killed": KILLED}


def in_words(outcome: str, rule: str, hosts: int | None = None) -> str:
    """Return why jobs were ``postponed``, ``rejected`` or ``killed``; ``hosts`` is the number of all hosts.

    A rule of a policy of one's own is shown as it is.
    """
    words = _WORDS[outcome].get(rule, rule or "no reason was given")
    return words.replace("{hosts}", "all" if hosts is None else f"{hosts:,}")


def reason_rows(outcome: str, reasons: Mapping[str, int], hosts: int | None) -> list[tuple[str, str]]:
    """Return a row for each reason: what it was, and how many jobs it concerned; the most frequent first."""
    if outcome == "postponed" and not any(reasons):  # without a decision log, nothing is known
        return []
    ranked = sorted(reasons.items(), key=lambda item: -item[1])
    return [(f"    {in_words(outcome, rule, hosts)}", f"{count:,}") for rule, count in ranked]
