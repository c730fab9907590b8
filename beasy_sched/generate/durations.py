"""Durations as people write them."""

from beasy_sched.model.durations import format_duration, parse_duration

__all__ = ["format_duration", "parse_duration"]
