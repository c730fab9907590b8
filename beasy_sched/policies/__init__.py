"""Scheduling policies, and what is needed to write one.

The names below are loaded on first use: a list of the policies does not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_PLACES: Final = {
    "beasy_sched.engine.actions": (
        "Action",
        "CallAt",
        "Compensate",
        "FactDict",
        "Facts",
        "Kill",
        "MeasureEnergy",
        "NO_FACTS",
        "Offer",
        "Postpone",
        "Reject",
        "SetPState",
        "Start",
    ),
    "beasy_sched.engine.policy": (
        "Measurement",
        "Options",
        "Policy",
        "View",
    ),
    "beasy_sched.engine.session_words": (
        "Rule",
        "Sentences",
        "Words",
        "words_of",
    ),
    "beasy_sched.model.choices": ("Placement",),
    "beasy_sched.model.cluster": ("Progress",),
    "beasy_sched.model.hosts": ("HostSet",),
    "beasy_sched.model.jobs": (
        "Job",
        "JobState",
    ),
    "beasy_sched.policies.easy": (
        "EASY_WORDS",
        "EasyPass",
        "Reservation",
        "by_arrival",
        "largest_slowdown",
        "smallest_size",
    ),
}
"""Names by the module that defines them."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
