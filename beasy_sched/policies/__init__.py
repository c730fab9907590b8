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
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.policy import Measurement, Options, Policy, View
from beasy_sched.engine.session_words import Sentences, Words
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
    "Options",
    "Policy",
    "Postpone",
    "Progress",
    "Reject",
    "Reservation",
    "Sentences",
    "SetPState",
    "Start",
    "View",
    "Words",
    "by_arrival",
    "largest_slowdown",
    "smallest_size",
]
