"""The names of a run's files, which all begin with the run's prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SUMMARY: Final = "summary.json"
TRACE: Final = "energy_trace.csv"
DECISIONS: Final = "decisions.jsonl"
JOBS: Final = "jobs.csv"
DEADLINES: Final = "deadlines.csv"
STATES: Final = "machine_states.csv"
PSTATES: Final = "pstate_changes.csv"
ENERGY: Final = "consumed_energy.csv"
SCHEDULE: Final = "schedule.csv"
PLAN: Final = "plan.msgpack"
"""File of the plans that were in effect, in a run with plans made during it."""
PLANS: Final = "plans.csv"
"""File that lists the plans made during the run: when each was requested, and its outcome."""
PLAN_FOLDER: Final = "plans"
"""Folder with each plan made during the run."""
JOURNAL: Final = "journal.msgpack"
"""Commands that a bridge has sent to a cluster, and levels of the storage: kept from one run to the next."""
SHADOW: Final = "shadow.csv"
"""Jobs as the cluster ran them, and as the policy would have."""
OFFERS: Final = "offers.csv"
"""Numbers of nodes that a policy offered to the cluster, and those that were on."""
FORESEE: Final = "foresee.jsonl"
"""Forecasts of the run's future, a line per moment, with what happened."""
INPUTS: Final = "inputs.json"
"""Inputs and settings of a simulated run, from which it can be repeated."""
FILES: Final = (SUMMARY, JOBS, TRACE, DECISIONS, STATES, PSTATES)
"""Files that make a run, the most informative first."""


OF_BATSIM: Final = (JOBS, SCHEDULE, STATES, PSTATES, ENERGY)
"""Files that the simulator writes."""
OF_SCHEDULER: Final = (SUMMARY, DECISIONS, TRACE, DEADLINES, PLAN, PLANS, SHADOW, OFFERS, FORESEE, INPUTS)
"""Files that the scheduler writes, without `PLAN_FOLDER` and the journal."""
FAILED: Final = "failed_"
"""Beginning of the names of what a failed run had done: ``PREFIX_failed_summary.json``."""


def path_of(prefix: str, name: str) -> Path:
    """Return where a run has one of its files."""
    return Path(f"{prefix}_{name}")


def both_paths_of(prefix: str, name: str) -> tuple[Path, Path]:
    """Return where a run has one of its files, and where it has it if it fails."""
    return path_of(prefix, name), path_of(prefix, FAILED + name)


def failed_prefix(prefix: str) -> str:
    """Return the prefix of what a failed run had done."""
    return f"{prefix}_{FAILED.removesuffix('_')}"
