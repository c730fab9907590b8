"""The built-in servers, and the option of platforms with one P-state."""

from __future__ import annotations

from importlib import resources
from typing import Final

from beasy_sched.declared import OptionDoc

ONE_PSTATE: Final = OptionDoc(
    "keep only the fastest P-state of each server, and its sleep state",
    "Keep the fastest P-state of each server (and its sleep state): a small file for studies without DVFS,"
    " such as one host per processor of a large machine.",
)
"""Help text of the option ``one_pstate``."""


def preset_names() -> list[str]:
    """Names of the shipped server presets, sorted."""
    folder = resources.files(__package__) / "servers"
    return sorted(entry.name[: -len(".toml")] for entry in folder.iterdir() if entry.name.endswith(".toml"))
