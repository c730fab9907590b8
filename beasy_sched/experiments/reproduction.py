"""The BEASY paper's experiments as campaigns, each in a folder of its own below one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.errors import BeasyError
from beasy_sched.experiments.ablation import ablation
from beasy_sched.experiments.expansion import quick
from beasy_sched.experiments.folder import must_be_empty
from beasy_sched.experiments.scenario import PAPER_GUARDS, GuardPart, Scenario
from beasy_sched.experiments.tables import Campaign, read_campaign

PAPERS_GUARD, OUR_GUARD = PAPER_GUARDS
SHED: Final = "-shed"
ABLATION: Final = "ablation"
HEADLINES: Final = ("critical", "average")


@dataclass(frozen=True)
class Part:
    """One campaign of a reproduction."""

    name: str
    """Name of its folder."""
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Size:
    """How many seeds each part gets; none leaves it out."""

    headline: int
    shed: int
    ablation: int
    small: bool = False
    """Take the scenarios' quick relatives."""


def parts(headline: str, scenarios: Sequence[Scenario], size: Size) -> list[Part]:
    """Return the campaigns: under the papers' guard, under ours, and the ablation, as far as wanted."""
    if size.small:
        scenarios = [quick(scenario) for scenario in scenarios]
    found = [Part(headline, _with(scenarios, PAPERS_GUARD, size.headline))]
    if size.shed:
        found.append(Part(headline + SHED, _with(scenarios, OUR_GUARD, size.shed)))
    if size.ablation:
        base = _with(scenarios, PAPERS_GUARD, size.ablation)
        found.append(Part(ABLATION, tuple(ablation(base))))
    return found


def _with(scenarios: Iterable[Scenario], guard: GuardPart, seeds: int) -> tuple[Scenario, ...]:
    numbers = tuple(range(1, seeds + 1))
    return tuple(msgspec.structs.replace(scenario, guards=(guard,), seeds=numbers) for scenario in scenarios)


def check_folder(folder: Path) -> None:
    """See that ``folder`` has a campaign of a reproduction, or nothing. Raises ConfigError."""
    names = [ABLATION, *(name + shed for name in HEADLINES for shed in ("", SHED))]
    if not any((folder / name).is_dir() for name in names):
        must_be_empty(folder, "that of an earlier reproduction")


def campaign_in(folder: Path, name: str) -> Campaign | None:
    """Return the campaign ``name`` of a reproduction where it is there and complete."""
    try:
        campaign = read_campaign(folder / name)
    except BeasyError:
        return None
    return campaign if campaign.complete else None
