"""A scenario whose runs take a fraction of a second, a way to run it, and an executor of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from beasy_sched.plugins.campaigns.campaign import Outcome, begin, go_on
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario

SMALL = """\
name = "small"
seeds = [1, 2]
policies = ["easy", "follow-plan", "workload-reactive"]

[platform]
servers = { gros = 4 }

[workload]
source = "synthetic"
seed = 1
jobs = 30
run_median_s = 300
run_cap_s = 1800
host_shares = { 1 = 3, 2 = 1 }

[production]
source = "synthetic"
seed = 1
start = "2024-10-01 09:00"
case = "best"
pv_kw = 1

[site.battery]
capacity_kwh = 2.0
charge_limit_kw = 0.5
discharge_limit_kw = 1.0

[site.time]
window_h = 3
"""

BAD = tuple(f"bad_policies:{name}" for name in ("Raises", "Dies", "Hangs", "Leaves", "Exits"))


def scenario(*changes: tuple[str, str]):
    """The small scenario with some of its text replaced."""
    text = SMALL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_scenario(text, allowed=BAD)


def run_campaign(folder: Path, *scenarios: Any, jobs: int = 2, **options: Any) -> Outcome:
    """Run scenarios (the small one) in processes."""
    retry = options.pop("retry_failed", False)
    begin(scenarios or [scenario()], folder, **options)
    return go_on(folder, Processes(jobs), retry_failed=retry, allowed=BAD)


class Here:
    """Does tasks one after the other, in this process; is interrupted after ``most``."""

    slots = 1

    def __init__(self, most: int = 10**6) -> None:
        self.most = most
        self.done: list[tuple[Any, Any]] = []

    @property
    def busy(self) -> int:
        return len(self.done)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        self.most -= 1
        if self.most < 0:
            raise KeyboardInterrupt
        self.done.append((key, function(argument)))

    def next_done(self) -> tuple[Any, Any]:
        return self.done.pop()

    def close(self) -> None:
        pass
