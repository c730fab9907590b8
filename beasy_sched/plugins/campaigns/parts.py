"""Parts of a campaign, each a task of a job array."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class CampaignPart:
    """One of several parts of a campaign, which may be executed at the same time, on several computers."""

    number: int
    """From 1 to ``count``."""
    count: int

    @classmethod
    def of(cls, text: str) -> CampaignPart:
        """Read ``3/10``. Raises ValueError."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"found {text!r}, expected a part such as 3/10: the third of ten")
        return cls(int(match[1]), int(match[2]))

    def take(self, runs: Sequence[T]) -> Sequence[T]:
        """Return the runs of this part: consecutive ones, which share inputs and plans."""
        first, end = (len(runs) * number // self.count for number in (self.number - 1, self.number))
        return runs[first:end]
