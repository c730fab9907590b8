"""How rules of the decision log are told: the form of it, and the words for the engine's own rules.

A sentence is a text with facts of the decision in braces (``{cost_j}``, ``{hosts_free:host}`` with the noun
that is counted). A part in square brackets is left out where one of its facts is missing; it may ask for
more: ``[dangerous? ...]`` is there when the fact is not 0, ``[mode=shed? ...]`` when it has that value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from beasy_sched.model.workflow import PHASE_CAME_LATE


class Words(NamedTuple):
    """How a rule is told."""

    sentence: str = ""
    """Why one decision was taken, with the numbers behind it, for ``explain``."""
    of_jobs: str = ""
    """Why jobs were postponed, rejected or killed, in a few words for tables and overviews: "they" are the
    jobs; of a rejection they are the subject; of a kill it reads after "killed"."""
    in_short: str = ""
    """Effect of a compensation in a few words with facts, for lists of compensations."""


Sentences: TypeAlias = Mapping[tuple[str, str], Words]
"""The words for rules, by what was done (``start``, ``postpone``, ``reject``, ``kill``, ``queue``, ``plan``,
``lost``, ``back``, ``compensate``; ``P-state`` whatever its number) and the rule."""

_SHED: Final = (
    "[The storage guard found too little energy for the step: {needed_j} needed, {supply_j} to be had,"
    " {missing_j} missing][, at {soc_pct} of charge][missing_j?.]"
)

QUEUED: Final = ""
"""Key of the words for a job that waits without a rule of its own: others are before it."""

NO_REASON: Final = "no reason given"
"""Key of the words for a job that waits while nobody is before it, and whose policy gives no reason."""
STILL_WAITING: Final = "still waiting"
"""The rule of the lines for jobs that wait when a run ends early."""

ENGINE_WORDS: Final[Sentences] = {
    ("postpone", QUEUED): Words(of_jobs="others were before them in the queue"),
    ("postpone", NO_REASON): Words(of_jobs="the policy gave no reason"),
    ("waiting", STILL_WAITING): Words(
        "It never started: the run ended early[, after {waited_s} of waiting]."
    ),
    ("postpone", "waits for jobs that never come"): Words(of_jobs="depend on jobs that were never submitted"),
    ("start", "runs already"): Words("It was started before this run began, which took it over."),
    ("kill", ""): Words(of_jobs="not by the scheduler"),
    ("queue", PHASE_CAME_LATE): Words(
        "A job of phase {lower_phase} of its workflow was submitted only now: it did not wait for that one.",
    ),
    ("reject", "asks for no host"): Words(
        "It asks for no host at all, which no job can run on.",
        of_jobs="ask for no host at all",
    ),
    ("reject", "asks for more hosts than there are"): Words(
        "It asks for {hosts_asked:host}, and there are only {hosts_in_all}.",
        of_jobs="ask for more than the {hosts} hosts here",
    ),
    ("reject", "its predecessor did not finish"): Words(
        "A job that it depends on did not finish.",
        of_jobs="depend on jobs that did not finish",
    ),
    ("reject", "waits for jobs that never come"): Words(
        "The jobs that it depends on were never submitted.",
    ),
    ("reject", "one of its members cannot be read"): Words(
        "One of its members in the workload is wrong: {member}.",
        of_jobs="have members that cannot be read",
    ),
    ("reject", "taken out of the queue"): Words(
        "Its user, or an administrator, took it out of the queue, after {waited_s} of waiting.",
        of_jobs="were taken out of the queue by their users, or by an administrator",
    ),
    ("reject", "the run is over"): Words(
        "The run ended before it could start[, after {waited_s} of waiting].",
    ),
    ("kill", "the run is over"): Words(
        "The run ended while it ran: it is not completely finished.",
    ),
    ("kill", "guard: no energy for it"): Words(
        _SHED
        + "[ After what idle servers save, {still_missing_j} were to be found.][ Its end saves {saves_j}.]"
        "[mode=shed? It had spent {spent_j}: those that have spent least go first.]"
        "[mode=kill-all? Every running job is killed then; it had spent {spent_j}.]",
        of_jobs="by the storage guard, for lack of energy",
    ),
    ("P-state", "guard: no energy for it"): Words(
        "[Job {killed} ran there and is killed.]" + _SHED + "[ This saves {saves_j}.]",
    ),
    ("P-state", "guard: wake cancelled, no energy for it"): Words(
        _SHED + " They shall not wake now.[ That saves {saves_j}.]",
    ),
    ("lost", "did not wake"): Words(
        "They were woken[, {waited_s} before,] and did not come[failures? ({failures:failure} in a row)]."
        "[ They may be asked again after {retry_after_s}.]",
    ),
    ("lost", "did not wake, and is given up"): Words(
        "They were woken[, {waited_s} before,] and did not come[failures? ({failures:failure} in a row)]."
        " They are not asked again until they are said to be in service.",
    ),
    ("lost", "out of service"): Words(
        "They were said to be out of service[hosts_busy?; {hosts_busy:host} of them had a job].",
    ),
    ("back", "in service again"): Words("They were said to be in service again."),
    ("back", "may be asked on again"): Words("They may be asked on again."),
    ("plan", "planned anew"): Words(
        "Plan {number} counts from {start_at_s} on. It was asked for at {asked_at_s}, with {battery_j} in the"
        " battery[hydrogen_kg? and {hydrogen_kg} kg of hydrogen in the tank], {jobs_running:job} running and"
        " {jobs_waiting:job} waiting."
    ),
    ("plan", "not planned anew: planning failed"): Words(
        "Plan {number}, asked for at {asked_at_s}, was to count from {start_at_s} on, but planning failed:"
        " the plan before it stays in effect."
    ),
    ("plan", "not planned anew: planning took too long"): Words(
        "Plan {number}, asked for at {asked_at_s}, was to count from {start_at_s} on, but was late: the plan"
        " before it stays in effect."
    ),
}
