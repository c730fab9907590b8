"""Progress, speed and failures of a campaign."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.units import SECONDS_PER_MINUTE, format_duration

_MOST_FAILURES = 10
_MANY = 10
"""Number of finished runs from which only the later half determines the rate."""


@dataclass(frozen=True)
class ScenarioStatus:
    """Numbers of all, finished and failed runs of a scenario."""

    runs: int
    ended: int
    failed: int


@dataclass(frozen=True)
class CampaignStatus:
    """Progress of a campaign."""

    folder: Path
    scenarios: dict[str, ScenarioStatus]
    failures: dict[str, str]
    """Errors of the failed runs, by run."""
    running_for_s: float | None
    """Time since the campaign was started or resumed, s; None if it is not running."""
    rate_per_s: float | None
    """Current number of runs finished per second; None if unknown."""
    table: Path | None
    """File with the table of all runs, once it has been written."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(each.runs for each in self.scenarios.values())

    @property
    def ended(self) -> int:
        """Number of finished runs."""
        return sum(each.ended for each in self.scenarios.values())

    @property
    def left_s(self) -> float | None:
        """Estimated time until all runs are finished, s; None if the rate is unknown."""
        return None if self.rate_per_s is None else (self.runs - self.ended) / self.rate_per_s


def status_of(folder: Path) -> CampaignStatus:
    """Return the status of a campaign, running or not. Raises InputError if there is none."""
    campaign = read_campaign(folder)
    runs = campaign.runs.set_index("run")
    failures = runs[runs["status"] == "failed"]
    ended, failed = Counter(runs["scenario"]), Counter(failures["scenario"])
    now_s, since_s = time.time(), campaign.folder.running_since_s()
    return CampaignStatus(
        folder=folder,
        scenarios={
            name: ScenarioStatus(count, ended[name], failed[name])
            for name, count in Counter(spec.scenario.name for spec in campaign.specs).items()
        },
        failures={str(name): str(error) for name, error in failures["error"].items()},
        running_for_s=None if since_s is None else max(now_s - since_s, 0.0),
        rate_per_s=None if since_s is None else rate_per_s(campaign.folder.ended_at_s(), since_s, now_s),
        table=campaign.folder.table if campaign.complete else None,
    )


def rate_per_s(ended_at_s: Sequence[float], since_s: float, now_s: float) -> float | None:
    """Return the number of runs finished per second since ``since_s``; None without any.

    Of many, only the later half counts, because earlier runs are slowed by plans, which are made first.
    ``ended_at_s`` is in ascending order; all are s since 1970.
    """
    recent_s = [since_s, *(moment_s for moment_s in ended_at_s if moment_s > since_s)]
    ended = len(recent_s) - 1
    counted = ended if ended < _MANY else ended // 2
    took_s = now_s - recent_s[-1 - counted]
    return counted / took_s if counted and took_s > 0 else None


def status_lines(status: CampaignStatus) -> Iterator[str]:
    """Yield the status in words: the whole campaign, its scenarios, failures, and the next command."""
    yield f"{status.ended} of {status.runs} runs are finished{_pace(status)}"
    for name, each in status.scenarios.items():
        yield f"  {name}: {each.ended} of {each.runs}" + (f", {each.failed} failed" if each.failed else "")
    for name, error in [*status.failures.items()][:_MOST_FAILURES]:
        yield f"failed: {name}: {error}"
    if len(status.failures) > _MOST_FAILURES:
        left_out = len(status.failures) - _MOST_FAILURES
        yield f"... and {left_out} more: status is 'failed' in the table of runs (--json lists all)"
    if status.running_for_s is not None:
        return
    if status.ended < status.runs:
        yield f"to continue: beasy-sched campaign resume {shlex.quote(str(status.folder))}"
    else:
        yield f"the table is {status.table}" if status.table else "the table has not been written yet"


def _pace(status: CampaignStatus) -> str:
    """Return the speed of a running campaign, and the estimated time left."""
    if status.running_for_s is None:
        return ""
    if status.rate_per_s is None or status.left_s is None:
        return f"; running for {format_duration(round(status.running_for_s))}, none has finished since then"
    per_minute = status.rate_per_s * SECONDS_PER_MINUTE
    left = format_duration(float(f"{status.left_s:.2g}"))
    return f"; {per_minute:.3g} runs a minute, about {left} left"


def status_json(status: CampaignStatus) -> dict[str, Any]:
    """Return the status in JSON's types."""
    rate = status.rate_per_s
    return {
        "folder": str(status.folder),
        "runs": status.runs,
        "ended": status.ended,
        "failed": len(status.failures),
        "running": status.running_for_s is not None,
        "running_for_s": status.running_for_s,
        "runs_per_minute": None if rate is None else rate * SECONDS_PER_MINUTE,
        "left_s": status.left_s,
        "scenarios": {name: vars(each) for name, each in status.scenarios.items()},
        "failures": status.failures,
        "table": None if status.table is None else str(status.table),
    }
