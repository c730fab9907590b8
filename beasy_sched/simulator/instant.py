"""What counts as one moment."""

from __future__ import annotations

from typing import Final

SAME_INSTANT_S: Final = 1e-9
"""Two moments closer than this are one (SimGrid's timing precision)."""
