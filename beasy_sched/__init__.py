"""Battery-aware EASY backfilling for data centres that run on renewable power alone."""

from beasy_sched._version import __version__

__all__ = ["__version__"]
