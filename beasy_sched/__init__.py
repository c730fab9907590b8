"""Battery-aware EASY backfilling for data centres that run on renewable power alone.

The names below are the Python interface (see `beasy_sched.api`); they are loaded when first used, so
that ``import beasy_sched`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beasy_sched._version import __version__

if TYPE_CHECKING:
    from beasy_sched.api import (
        Run,
        campaign,
        compare,
        explain,
        generate_platform,
        generate_power,
        generate_workload,
        plan,
        read_run,
        report,
        simulate,
    )

__all__ = [
    "Run",
    "__version__",
    "campaign",
    "compare",
    "explain",
    "generate_platform",
    "generate_power",
    "generate_workload",
    "plan",
    "read_run",
    "report",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from beasy_sched import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
