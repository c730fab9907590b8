"""A site's sections as the text of a site file."""

from __future__ import annotations

import json
from collections.abc import Mapping

Value = bool | int | float | str
SiteSections = dict[str, dict[str, Value]]


def site_text(sections: Mapping[str, Mapping[str, Value]]) -> str:
    """Write TOML; the same sections give the same text, whatever their order."""
    lines = []
    for name in sorted(sections):
        lines.append(f"[{name}]")
        lines += [f"{key} = {_value(sections[name][key])}" for key in sorted(sections[name])]
        lines.append("")
    return "\n".join(lines)


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value)
