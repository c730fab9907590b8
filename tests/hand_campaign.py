"""Rows of a campaign's table, made by hand: ten jobs a run, finished or killed."""

from __future__ import annotations

from typing import Any

from beasy_sched.report.comparison import FIGURES

_COUNTS = ("submitted", "finished", "failed", "reached_walltime", "killed", "not_completely_finished",
           "postponed", "rejected")  # fmt: skip


def row(policy: str, seed: int, finished: int, **changes: Any) -> dict[str, Any]:
    """One run; ``changes`` are other values of its columns."""
    counts = {f"jobs_{name}": 0 for name in _COUNTS} | {
        "jobs_submitted": 10, "jobs_finished": finished, "jobs_killed": 10 - finished,
    }  # fmt: skip
    figures = dict.fromkeys((figure.column for figure in FIGURES), 0.0) | {"finished_pct": 10.0 * finished}
    known = {"run": f"{policy}-{seed}", "scenario": "s", "guard": "shed", "veto": True, "policy": policy,
             "seed": seed, "status": "ok", "error": "", "version": "1"}  # fmt: skip
    return {**known, **counts, **figures, **changes}
