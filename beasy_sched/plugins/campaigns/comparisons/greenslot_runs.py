"""The runs that compare GreenSlot with its conventional scheduler."""

from __future__ import annotations

from typing import Final

GREENSLOT_RUNS: Final = {
    "conventional": ("conventional", ()),
    "greenonly": ("greenslot", ("--option", "prices=flat")),
    "greenslot": ("greenslot", ()),
    "lowest-window": ("lowest-window", ()),
}
"""The policy of each name, and the arguments with its options. GreenOnly is the paper's name for GreenSlot
with a constant price of brown energy."""
