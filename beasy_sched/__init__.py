"""Battery-aware EASY backfilling for data centres powered only by renewable energy.

The names below are the Python interface (see `beasy_sched.api`); they are loaded on first use, so
that ``import beasy_sched`` takes hardly any time.
"""

from __future__ import annotations

from beasy_sched._version import __version__

TYPE_CHECKING = False  # importing `typing` only for this would take most of the time
if TYPE_CHECKING:
    from typing import Any

    from beasy_sched.api import (
        Run,
        campaign,
        compare,
        explain,
        foresee,
        generate_platform,
        generate_power,
        generate_workload,
        plan,
        read_run,
        report,
        simulate,
        what_if,
    )

__all__ = [
    "Run",
    "__version__",
    "campaign",
    "compare",
    "explain",
    "foresee",
    "generate_platform",
    "generate_power",
    "generate_workload",
    "plan",
    "read_run",
    "report",
    "simulate",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from beasy_sched import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
