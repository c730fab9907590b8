"""Options of the workflows of GreenSlot's week."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from beasy_sched.declared import AT_LEAST_0, OptionDoc, check
from beasy_sched.errors import ConfigError
from beasy_sched.numbers import Range


@dataclass(frozen=True, kw_only=True)
class WorkflowOptions:
    """Choice of one of the paper's workloads; the defaults are those of its main figures."""

    staggered: Annotated[
        bool,
        OptionDoc("submit workflows on the morning of the day before they are due, not all on Monday"),
    ] = False
    multi_node: Annotated[bool, OptionDoc("make the second phase of W3 one job on 8 hosts")] = False
    copies: Annotated[
        int, OptionDoc("further copies of W3, each of which adds 5 % of the hosts' time", range=AT_LEAST_0)
    ] = 0
    estimate_error_pct: Annotated[
        tuple[float, float],
        OptionDoc("least and largest deviation of run times from their estimates, percent"),
    ] = (0.0, 0.0)
    """Deviations are normal, with a sixth of the range as standard deviation."""
    deadline_shift_h: Annotated[
        float, OptionDoc("add this to all deadlines, hours", range=Range(-1e6, 1e6))
    ] = 0.0
    seed: int = 1
    reference_speed_flops: float = 1e9
    """Speed of a host at which jobs take their run times, flops/s."""

    def __post_init__(self) -> None:
        check(self)
        low, high = self.estimate_error_pct
        if not -100.0 < low <= high:
            raise ConfigError(f"estimate errors: found {low:g} to {high:g} %, expected above -100, ascending")
