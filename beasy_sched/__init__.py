"""Battery-aware EASY backfilling for data centres that run on renewable power alone.

The names below are the Python interface (see `beasy_sched.api`); they are loaded when first used, so
that ``import beasy_sched`` costs next to nothing.
"""

from __future__ import annotations

from beasy_sched._version import __version__

TYPE_CHECKING = False  # that of `typing` would be its only use, and take most of the time
if TYPE_CHECKING:
    from typing import Any

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
