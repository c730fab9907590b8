"""Rules of the decision log with the words that explain them: their form, and those of the engine itself.

A sentence is a string with facts of the decision in braces (``{cost_j}``, ``{hosts_free:host}`` with the
noun that is counted). A part in square brackets is omitted if one of its facts is missing, and may have a
condition: ``[dangerous? ...]`` appears if the fact is not 0, ``[mode=shed? ...]`` if it has that value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from beasy_sched.model.workflow import PHASE_CAME_LATE, PREDECESSOR_LOST


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
"""The words for rules, by the action (`Done`) and the text of the rule."""

Done: TypeAlias = Literal[
    "start",
    "postpone",
    "reject",
    "kill",
    "P-state",
    "compensate",
    "queue",
    "plan",
    "forecast",
    "lost",
    "back",
    "waiting",
    "offer",
    "restart",
]
"""Action that a rule is the reason of; ``P-state`` for every number of a P-state."""


class Rule(str):
    """A rule of the decision log, declared once, with its words. As a string, it is its text in the log.

    Rules with the same text are equal, also to a plain string: a user's policy may use either.
    """

    __slots__ = ("done", "words")
    done: Done
    words: Words

    def __new__(cls, done: Done, text: str, words: Words) -> Rule:
        """Make the rule ``text`` of the action ``done``."""
        rule = super().__new__(cls, text)
        rule.done, rule.words = done, words
        return rule

    def __getnewargs__(self) -> tuple[Done, str, Words]:  # type: ignore[override]  # str has one argument
        return self.done, str(self), self.words

    def told(self, sentence: str) -> Rule:
        """Return the same rule with another sentence, for a policy that has more facts."""
        return Rule(self.done, self, self.words._replace(sentence=sentence))


def words_of(*rules: Rule) -> Sentences:
    """Return the words of rules, for `Policy.words`. Raises ValueError if two are the same."""
    sentences: dict[tuple[str, str], Words] = {(rule.done, str(rule)): rule.words for rule in rules}
    if len(sentences) < len(rules):
        raise ValueError("two rules of the same action have the same text")
    return sentences


# --- jobs ---------------------------------------------------------------------------------------------------

QUEUED: Final = Rule("postpone", "", Words(of_jobs="waiting behind other jobs in the queue"))
"""A job waits without a separate rule: others are before it."""
NO_REASON: Final = Rule("postpone", "no reason given", Words(of_jobs="the policy gave no reason"))
"""A job waits although no job is before it, and its policy gives no reason."""
STILL_WAITING: Final = Rule(
    "waiting",
    "still waiting",
    Words("It never started: the run ended early[, after {waited_s} of waiting]."),
)
"""A job waits when a run ends early."""
RUNS: Final = Rule("start", "runs already", Words("It was already running when this run started."))
"""A job that was started before the run is taken over."""
STARTED_BY_OTHERS: Final = Rule(
    "start",
    "started by the external scheduler",
    Words("The external scheduler started it[, after {waited_s} of waiting]."),
)
"""A waiting job was started by whoever places jobs."""
LOWER_PHASE_LATE: Final = Rule(
    "queue",
    PHASE_CAME_LATE,
    Words(
        "A job of the earlier phase {lower_phase} of its workflow was submitted too late to be waited for.",
    ),
)
NO_HOST_ASKED: Final = Rule(
    "reject", "asks for no host", Words("It requests 0 hosts.", of_jobs="request 0 hosts")
)
TOO_MANY_HOSTS_ASKED: Final = Rule(
    "reject",
    "asks for more hosts than there are",
    Words(
        "It requests {hosts_asked:host}, but the platform has only {hosts_in_all}.",
        of_jobs="request more than the {hosts} hosts of the platform",
    ),
)
INVALID_FIELDS: Final = Rule(
    "reject",
    "one of its members cannot be read",
    Words("One of its fields in the workload is invalid: {member}.", of_jobs="have invalid fields"),
)
PREDECESSOR_UNFINISHED: Final = Rule(
    "reject",
    PREDECESSOR_LOST,
    Words("A job that it depends on did not finish.", of_jobs="depend on jobs that did not finish"),
)
NEVER_FREE: Final = Rule(
    "reject",
    "waits for jobs that never come",
    Words("The jobs that it depends on were never submitted."),
)
"""A rejection that counts as postponed: see `NEVER_FREE_POSTPONED`."""
NEVER_FREE_POSTPONED: Final = Rule(
    "postpone", NEVER_FREE, Words(of_jobs="depend on jobs that were never submitted")
)
WITHDRAWN: Final = Rule(
    "reject",
    "taken out of the queue",
    Words(
        "It was cancelled by its user or an administrator after {waited_s} of waiting.",
        of_jobs="were cancelled by their users or an administrator",
    ),
)
RUN_OVER: Final = Rule(
    "reject",
    "the run is over",
    Words("The run ended before it could start[, after {waited_s} of waiting]."),
)
"""The end of the run rejects waiting jobs."""
RUN_OVER_KILLED: Final = Rule(
    "kill", RUN_OVER, Words("The run ended while it ran: it is not completely finished.")
)
"""The end of the run kills running jobs."""
NOT_STARTED: Final = Rule(
    "kill",
    "not started by the cluster",
    Words(
        "The cluster did not start it ({reason}); it is submitted again later.",
        of_jobs="because the cluster did not start them",
    ),
)
"""A job that the scheduler has started does not run."""
KILLED_BY_OTHERS: Final = Rule("kill", "", Words(of_jobs="not by the scheduler"))

SUBMITTED_AGAIN: Final = Rule(
    "restart",
    "submitted again",
    Words("{saved_s} of its work were saved, and {redone_s} are done again: it came back as {life}."),
)
"""A job that was killed comes back as another job of its lineage."""

# --- the storage guard --------------------------------------------------------------------------------------

_SHED: Final = (
    "[The storage guard found a shortage in this step: {needed_j} required, {supply_j} available,"
    " {missing_j} short][, at {soc_pct} of charge][missing_j?.]"
    "[ These are energies of the servers alone, whose cooling adds its part: the PUE was {pue}.]"
    "[ Services took {services_w} first.]"
)

NO_ENERGY: Final = Rule(
    "kill",
    "guard: no energy for it",
    Words(
        _SHED + "[ After putting idle servers to sleep, {still_missing_j} were still missing.]"
        "[ Killing it saves {saves_j}.]"
        "[ It costs {loses_s} of work and checkpoints; jobs with the least cost for the energy saved are"
        " killed first.]"
        "[mode=shed? It had used {spent_j}; jobs that have used least are killed first.]"
        "[mode=kill-all? In this mode every running job is killed; it had used {spent_j}.]",
        of_jobs="by the storage guard, for lack of energy",
    ),
)
NO_ENERGY_FOR_HOSTS: Final = Rule(
    "P-state",
    NO_ENERGY,
    Words("[Job {killed} ran there and is killed.]" + _SHED + "[ This saves {saves_j}.]"),
)
NO_ENERGY_TO_WAKE: Final = Rule(
    "P-state",
    "guard: wake cancelled, no energy for it",
    Words(_SHED + " Their wake-up was cancelled.[ That saves {saves_j}.]"),
)
OFFER_LIMITED: Final = Rule(
    "offer",
    "guard: no energy for more",
    Words(
        "The storage guard limits the offer in this step: {headroom_j} are left for servers beyond those with"
        " jobs."
    ),
)
"""The offer of a step is limited to the servers that the step's energy feeds at full load."""
GUARD_RULES: Final = (NO_ENERGY, NO_ENERGY_FOR_HOSTS, NO_ENERGY_TO_WAKE, OFFER_LIMITED)
"""Rules of the storage guard."""

# --- external placement: the EASY scheduler within the offers -----------------------------------------------

PLACED: Final = Rule(
    "start",
    "placed within the offer",
    Words("The external scheduler started it[, after {waited_s} of waiting]; {hosts_free:host} free."),
)
PLACED_AHEAD: Final = Rule(
    "start",
    "backfilled within the offer",
    Words(
        "The external scheduler backfilled it ahead of {reserved_for}[, whose hosts are reserved for"
        " {reserved_at_s}]; {hosts_free:host} free."
    ),
)
NOT_OFFERED: Final = Rule(
    "postpone",
    "too few servers offered",
    Words(
        "It needs {hosts_asked:host} for its walltime, and the offer leaves {hosts_fit}"
        "[; with the present offers, it starts at {reserved_at_s}].",
        of_jobs="not enough servers were offered, or free",
    ),
)
WOKEN: Final = Rule(
    "postpone",
    "the external scheduler wakes its servers",
    Words(
        "It needs {hosts_asked:host}, of which {hosts_awaited} must still wake.",
        of_jobs="their servers were waking",
    ),
)
WOKEN_FOR_JOBS: Final = Rule(
    "P-state", "woken for jobs, within the offer", Words("Jobs need them, and they are offered.")
)
SUSPENDED: Final = Rule(
    "P-state",
    "idle for the external scheduler's time",
    Words("They have been idle for {idle_s}, after which the external scheduler puts servers to sleep."),
)
BEYOND_OFFER: Final = Rule(
    "P-state",
    "idle, and not offered",
    Words("They are idle; {servers_offered:server} of their kind may be on."),
)

# --- hosts that are lost, and back --------------------------------------------------------------------------

NOT_COME: Final = Rule(
    "lost",
    "did not wake",
    Words(
        "They did not wake up[ within {waited_s}][failures? ({failures:failure} in a row)]."
        "[ They may be woken again after {retry_after_s}.]"
    ),
)
GIVEN_UP: Final = Rule(
    "lost",
    "did not wake, and is given up",
    Words(
        "They did not wake up[ within {waited_s}][failures? ({failures:failure} in a row)]."
        " They will not be woken again until reported in service."
    ),
)
OUT_OF_SERVICE: Final = Rule(
    "lost",
    "out of service",
    Words("They were reported out of service[hosts_busy?; {hosts_busy:host} of them had a job]."),
)
IN_SERVICE: Final = Rule("back", "in service again", Words("They were reported back in service."))
MAY_BE_ASKED: Final = Rule("back", "may be asked on again", Words("They may be woken again."))

# --- replanning ---------------------------------------------------------------------------------------------

PLAN_MADE: Final = Rule(
    "plan",
    "planned anew",
    Words(
        "Plan {number} applies from {start_at_s}. It was requested at {asked_at_s}, with {battery_j} in the"
        " battery[hydrogen_kg? and {hydrogen_kg} kg of hydrogen in the tank], {jobs_running:job} running and"
        " {jobs_waiting:job} waiting.[ The forecast was {forecast_age_s} old.]"
    ),
)
PLAN_FAILED: Final = Rule(
    "plan",
    "not planned anew: planning failed",
    Words(
        "Plan {number}, requested at {asked_at_s}, should have applied from {start_at_s}, but planning"
        " failed; the previous plan stays in effect."
    ),
)
PLAN_LATE: Final = Rule(
    "plan",
    "not planned anew: planning took too long",
    Words(
        "Plan {number}, requested at {asked_at_s}, should have applied from {start_at_s}, but planning took"
        " too long; the previous plan stays in effect."
    ),
)

# --- forecasts that are renewed during the run --------------------------------------------------------------

FORECAST_IN_USE: Final = Rule(
    "forecast",
    "forecast in use",
    Words("The forecast of {option} ({source}) took effect[; it was issued {age_s} before]."),
)
FORECAST_STALE: Final = Rule(
    "forecast",
    "forecast stale",
    Words("The forecast of {option} ({source}) was too old[: it was issued {age_s} before]."),
)
FORECAST_SHORT: Final = Rule(
    "forecast",
    "forecast ends too early",
    Words("The forecast of {option} ({source}) ended before the window."),
)
FORECAST_OLDER: Final = Rule(
    "forecast",
    "older forecast not used",
    Words("A forecast of {option} ({source}) was read that is older than the one in use, and was not used."),
)
FORECAST_FAILED: Final = Rule(
    "forecast",
    "forecast not renewed",
    Words("The forecast of {option} ({source}) could not be read; the one before stayed in use."),
)

ENGINE_RULES: Final = (
    QUEUED,
    NO_REASON,
    STILL_WAITING,
    RUNS,
    STARTED_BY_OTHERS,
    LOWER_PHASE_LATE,
    NO_HOST_ASKED,
    TOO_MANY_HOSTS_ASKED,
    INVALID_FIELDS,
    PREDECESSOR_UNFINISHED,
    NEVER_FREE,
    NEVER_FREE_POSTPONED,
    WITHDRAWN,
    RUN_OVER,
    RUN_OVER_KILLED,
    KILLED_BY_OTHERS,
    NOT_STARTED,
    SUBMITTED_AGAIN,
    *GUARD_RULES,
    PLACED,
    PLACED_AHEAD,
    NOT_OFFERED,
    WOKEN,
    WOKEN_FOR_JOBS,
    BEYOND_OFFER,
    SUSPENDED,
    NOT_COME,
    GIVEN_UP,
    OUT_OF_SERVICE,
    IN_SERVICE,
    MAY_BE_ASKED,
    PLAN_MADE,
    PLAN_FAILED,
    PLAN_LATE,
    FORECAST_IN_USE,
    FORECAST_STALE,
    FORECAST_SHORT,
    FORECAST_OLDER,
    FORECAST_FAILED,
)
"""Rules of the engine."""
ENGINE_WORDS: Final[Sentences] = words_of(*ENGINE_RULES)
