"""Summaries of runs for tests: what a test gives, all else as of a run in which nothing happened."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from beasy_sched.formats.run_summary import BatteryLevels, RunSummary, SitePart, summary_of

_NOTHING = {str: "", int: 0, float: 0.0, bool: False, dict: {}, list: []}


def members(**given: Any) -> dict[str, Any]:
    """The members of a summary's file, those that every run has filled in."""
    return _filled(RunSummary, {"quality": {}, **given})


def made_up(**given: Any) -> RunSummary:
    """A summary with these members."""
    return summary_of(members(**given))


def _filled(kind: Any, given: Any) -> Any:
    """An object of a file, with what it lacks; anything else as it is."""
    if not isinstance(given, dict) or not issubclass(kind, msgspec.Struct):
        return given
    fields = msgspec.structs.fields(kind)
    missing = {field.encode_name: _nothing(field.type) for field in fields if field.required}
    if kind is SitePart and any("soc" in name for name in given):
        missing |= dict.fromkeys(BatteryLevels.__struct_fields__, 0.0)
    kinds = {field.encode_name: _kind(field.type) for field in fields}
    return missing | {name: _filled(kinds.get(name, object), value) for name, value in given.items()}


def _nothing(hint: Any) -> Any:
    kind = _kind(hint)
    if type(None) in get_args(getattr(hint, "__origin__", hint)):
        return None
    return _filled(kind, {}) if issubclass(kind, msgspec.Struct) else _NOTHING[kind]


def _kind(hint: Any) -> type:
    """The type itself, without what is said of it, and without None."""
    if hasattr(hint, "__metadata__"):
        return _kind(hint.__origin__)
    if isinstance(hint, type) and not get_args(hint):
        return hint
    options = [each for each in get_args(hint) if each is not type(None)]
    origin = getattr(hint, "__origin__", None)
    return origin if isinstance(origin, type) else _kind(options[0])
