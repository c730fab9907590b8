"""Parts of sentences shared by the words of several policies, in the syntax of `engine.session_words`."""

from __future__ import annotations

from typing import Final

HEAD_TOLD: Final = (
    "It was the first of the queue[, with the largest bounded slowdown ({slowdown})]"
    "[, the smallest ({size_host_s})][dangerous? in a dangerous step][; {hosts_free:host} free]."
)
"""Sentence about the start of the first job of the queue in an EASY pass."""
FILLER: Final = (
    "It was backfilled ahead of {reserved_for}[, whose hosts are reserved for {reserved_at_s}]"
    "[, which has its hosts and waits for {reserved_lacks}][; {hosts_free:host} free]."
    "[ Its walltime ends at {ends_by_s}, before that.]"
    "[ It may run past that time, on hosts that the reservation does not need ({hosts_extra}).]"
    "[ It may run past that time, because it does not use the {hosts_left_alone:reserved host}.]"
)
"""Sentence about the start of a job that was not the first of the queue."""
LACKS: Final = "It needs {hosts_asked:host} ({hosts_free} free)"
"""Beginning of a sentence about the reason of a wait; its reservation follows."""
STEP: Final = "[ It may use up to {cost_j} of the {headroom_j} available in the step.]"
"""Sentence about the energy of the step used by a start."""
SPARE: Final = (
    "[ It could have waited {slack_s} longer and still met its deadline {deadline_s}.]"
    "[ To meet its deadline {deadline_s}, it should have started {overdue_s} ago.]"
)
"""Sentence about the slack of a job with a deadline."""
