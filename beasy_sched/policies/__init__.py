"""Scheduling policies, and what is needed to write one."""

from beasy_sched.engine.actions import (
    NO_FACTS,
    Action,
    CallAt,
    Compensate,
    FactDict,
    Facts,
    Kill,
    MeasureEnergy,
    Offer,
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.policy import Measurement, Options, Policy, View
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.choices import Placement
from beasy_sched.model.cluster import Progress
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.policies.easy import (
    EASY_WORDS,
    EasyPass,
    Reservation,
    by_arrival,
    largest_slowdown,
    smallest_size,
)

__all__ = [
    "EASY_WORDS",
    "NO_FACTS",
    "Action",
    "CallAt",
    "Compensate",
    "EasyPass",
    "FactDict",
    "Facts",
    "HostSet",
    "Job",
    "JobState",
    "Kill",
    "MeasureEnergy",
    "Measurement",
    "Offer",
    "Options",
    "Placement",
    "Policy",
    "Postpone",
    "Progress",
    "Reject",
    "Reservation",
    "Rule",
    "Sentences",
    "SetPState",
    "Start",
    "View",
    "Words",
    "by_arrival",
    "largest_slowdown",
    "smallest_size",
    "words_of",
]
