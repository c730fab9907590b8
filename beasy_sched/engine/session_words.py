"""Explanations of the rules of the decision log: their form, and those of the engine's own rules.

A sentence is a string with facts of the decision in braces (``{cost_j}``, ``{hosts_free:host}`` with the
noun that is counted). A part in square brackets is omitted if one of its facts is missing, and may have a
condition: ``[dangerous? ...]`` appears if the fact is not 0, ``[mode=shed? ...]`` if it has that value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from beasy_sched.model.workflow import PHASE_CAME_LATE


class Words(NamedTuple):
    """Explanation of a rule."""

    sentence: str = ""
    """Reason why one decision was taken, with the numbers behind it, for ``explain``."""
    of_jobs: str = ""
    """Reason why jobs were postponed, rejected or killed, in a few words for tables and overviews: "they" are
    the jobs; of a rejection they are the subject; of a kill it reads after "killed"."""
    in_short: str = ""
    """Effect of a compensation in a few words with facts, for lists of compensations."""


Sentences: TypeAlias = Mapping[tuple[str, str], Words]
"""The words for rules, by what was done (``start``, ``postpone``, ``reject``, ``kill``, ``queue``, ``plan``,
``lost``, ``back``, ``compensate``; ``P-state`` whatever its number) and the rule."""

_SHED: Final = (
    "[The storage guard found a shortage in this step: {needed_j} required, {supply_j} available,"
    " {missing_j} short][, at {soc_pct} of charge][missing_j?.]"
)

QUEUED: Final = ""
"""Key of the words for a job that waits without a separate rule: others are before it."""

NO_REASON: Final = "no reason given"
"""Key of the words for a job that waits although no job is before it, and whose policy gives no reason."""
STILL_WAITING: Final = "still waiting"
"""The rule of the lines for jobs that wait when a run ends early."""

ENGINE_WORDS: Final[Sentences] = {
    ("postpone", QUEUED): Words(of_jobs="waiting behind other jobs in the queue"),
    ("postpone", NO_REASON): Words(of_jobs="the policy gave no reason"),
    ("waiting", STILL_WAITING): Words(
        "It never started: the run ended early[, after {waited_s} of waiting]."
    ),
    ("postpone", "waits for jobs that never come"): Words(of_jobs="depend on jobs that were never submitted"),
    ("start", "runs already"): Words("It was already running when this run started."),
    ("kill", ""): Words(of_jobs="not by the scheduler"),
    ("queue", PHASE_CAME_LATE): Words(
        "A job of the earlier phase {lower_phase} of its workflow was submitted too late to be waited for.",
    ),
    ("reject", "asks for no host"): Words(
        "It requests 0 hosts.",
        of_jobs="request 0 hosts",
    ),
    ("reject", "asks for more hosts than there are"): Words(
        "It requests {hosts_asked:host}, but the platform has only {hosts_in_all}.",
        of_jobs="request more than the {hosts} hosts of the platform",
    ),
    ("reject", "its predecessor did not finish"): Words(
        "A job that it depends on did not finish.",
        of_jobs="depend on jobs that did not finish",
    ),
    ("reject", "waits for jobs that never come"): Words(
        "The jobs that it depends on were never submitted.",
    ),
    ("reject", "one of its members cannot be read"): Words(
        "One of its fields in the workload is invalid: {member}.",
        of_jobs="have invalid fields",
    ),
    ("reject", "taken out of the queue"): Words(
        "It was cancelled by its user or an administrator after {waited_s} of waiting.",
        of_jobs="were cancelled by their users or an administrator",
    ),
    ("reject", "the run is over"): Words(
        "The run ended before it could start[, after {waited_s} of waiting].",
    ),
    ("kill", "the run is over"): Words(
        "The run ended while it ran: it is not completely finished.",
    ),
    ("kill", "guard: no energy for it"): Words(
        _SHED + "[ After putting idle servers to sleep, {still_missing_j} were still missing.]"
        "[ Killing it saves {saves_j}.]"
        "[mode=shed? It had used {spent_j}; jobs that have used least are killed first.]"
        "[mode=kill-all? In this mode every running job is killed; it had used {spent_j}.]",
        of_jobs="by the storage guard, for lack of energy",
    ),
    ("P-state", "guard: no energy for it"): Words(
        "[Job {killed} ran there and is killed.]" + _SHED + "[ This saves {saves_j}.]",
    ),
    ("P-state", "guard: wake cancelled, no energy for it"): Words(
        _SHED + " Their wake-up was cancelled.[ That saves {saves_j}.]",
    ),
    ("lost", "did not wake"): Words(
        "They did not wake up[ within {waited_s}][failures? ({failures:failure} in a row)]."
        "[ They may be woken again after {retry_after_s}.]",
    ),
    ("lost", "did not wake, and is given up"): Words(
        "They did not wake up[ within {waited_s}][failures? ({failures:failure} in a row)]."
        " They will not be woken again until reported in service.",
    ),
    ("lost", "out of service"): Words(
        "They were reported out of service[hosts_busy?; {hosts_busy:host} of them had a job].",
    ),
    ("back", "in service again"): Words("They were reported back in service."),
    ("back", "may be asked on again"): Words("They may be woken again."),
    ("plan", "planned anew"): Words(
        "Plan {number} applies from {start_at_s}. It was requested at {asked_at_s}, with {battery_j} in the"
        " battery[hydrogen_kg? and {hydrogen_kg} kg of hydrogen in the tank], {jobs_running:job} running and"
        " {jobs_waiting:job} waiting."
    ),
    ("plan", "not planned anew: planning failed"): Words(
        "Plan {number}, requested at {asked_at_s}, should have applied from {start_at_s}, but planning"
        " failed; the previous plan stays in effect."
    ),
    ("plan", "not planned anew: planning took too long"): Words(
        "Plan {number}, requested at {asked_at_s}, should have applied from {start_at_s}, but planning took"
        " too long; the previous plan stays in effect."
    ),
}
