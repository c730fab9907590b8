"""Parts of sentences that several policies tell their rules with, written as `engine.words` shows."""

from __future__ import annotations

from typing import Final

HEAD_TOLD: Final = (
    "It was the first of the queue[, with the largest bounded slowdown ({slowdown})]"
    "[, the smallest ({size_host_s})][dangerous? in a dangerous step][; {hosts_free:host} free]."
)
"""Sentence on how the first job of the queue started in an EASY pass."""
FILLER: Final = (
    "It was backfilled ahead of {reserved_for}[, whose hosts are reserved for {reserved_at_s}]"
    "[, which has its hosts and waits for {reserved_lacks}][; {hosts_free:host} free]."
    "[ By its walltime it ends by {ends_by_s}, before that.]"
    "[ It may run longer, on hosts that the reservation leaves over ({hosts_extra}).]"
    "[ It may run longer, but leaves the {hosts_left_alone:reserved host} alone.]"
)
"""Sentence on how a job started that was not the first of the queue."""
LACKS: Final = "It asks for {hosts_asked:host}, with {hosts_free} free"
"""Beginning of a sentence on why a job waits; the promise made to it follows."""
STEP: Final = "[ It takes up to {cost_j} of the {headroom_j} left in the step.]"
"""Sentence on the energy of a step that a start takes."""
SPARE: Final = (
    "[ It could have waited for {slack_s} more and still ended by {deadline_s}.]"
    "[ To end by {deadline_s} it should have started {overdue_s} ago.]"
)
"""Sentence on how long a job with a deadline could have waited."""
