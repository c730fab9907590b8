"""Short reasons why jobs waited, were killed or never ran, by rule: for tables and overviews.

The words are those of the policies and of the engine (`engine.session_words`), or, for a user's policy, those
in the run's summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.policies.registry import words_for
from beasy_sched.units import counted

_DONE: Final = {"postponed": "postpone", "rejected": "reject", "killed": "kill"}


def words_in(summary: RunSummary | None) -> Sentences:
    """Return the words of a run's policy if it is a user's own; else none."""
    by_action = (None if summary is None else summary.words) or {}
    return {(done, rule): Words(*words) for done, rules in by_action.items() for rule, words in rules.items()}


def in_words(outcome: str, rule: str, hosts: int | None = None, own: Sentences | None = None) -> str:
    """Describe why jobs were ``postponed``, ``rejected`` or ``killed``; ``hosts`` is the number of all hosts.

    ``own`` are the words of a user's policy. A rule without words is shown by its name.
    """
    key = _DONE[outcome], rule
    all_words = chain([own[key]] if own and key in own else (), words_for(*key))
    words = next((each.of_jobs for each in all_words if each.of_jobs), rule or "no reason was given")
    words = words.replace(
        "the {hosts} hosts", "all hosts" if hosts is None else f"the {counted(hosts, 'host')}"
    )
    return words.replace("{hosts}", "all" if hosts is None else f"{hosts:,}")


def reason_rows(
    outcome: str, reasons: Mapping[str, int], hosts: int | None, own: Sentences | None = None
) -> list[tuple[str, str]]:
    """Return a row for each reason with its number of jobs, the most frequent first."""
    if outcome == "postponed" and not any(reasons):  # without a decision log, reasons are unknown
        return []
    ranked = sorted(reasons.items(), key=lambda item: -item[1])
    return [(f"    {in_words(outcome, rule, hosts, own)}", f"{count:,}") for rule, count in ranked]
