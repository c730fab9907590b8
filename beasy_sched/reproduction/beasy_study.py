"""The BEASY paper's experiments as campaigns, each in a folder of its own below one.

What the choices behind a scenario change: each variant changes one thing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from beasy_sched.campaign.folder import must_be_empty
from beasy_sched.campaign.scenario import (
    PAPER_GUARDS,
    GuardPart,
    PolicyPart,
    Scenario,
    SyntheticWorkload,
    quick,
)
from beasy_sched.campaign.table import Campaign, read_campaign
from beasy_sched.energy.site import GuardMode
from beasy_sched.errors import BeasyError
from beasy_sched.plan.power_problem import Surplus

Change = Callable[[Scenario], Scenario]
SEPARATOR: Final = "+"
"""Between the names of a scenario and of a variant."""
_BATTERY_SIZES: Final = ("capacity_kwh", "charge_limit_kw", "discharge_limit_kw")
POLICIES: Final = ("beasy", "workload-reactive", "power-reactive", "next")
"""BEASY and its main rivals."""


@dataclass(frozen=True)
class Variant:
    """A change of a scenario. ``policies`` are those that it can make a difference to."""

    name: str
    title: str
    change: Change
    policies: tuple[str, ...] = POLICIES


def _replaced(**values: Any) -> Change:
    return lambda scenario: msgspec.structs.replace(scenario, **values)


def _guard(mode: GuardMode, veto: bool) -> Change:
    return _replaced(guards=(GuardPart(mode=mode, veto=veto),))


def _plan(**values: Any) -> Change:
    return lambda scenario: _replaced(plan=msgspec.structs.replace(scenario.plan, **values))(scenario)


def _battery(factor: float) -> Change:
    def change(scenario: Scenario) -> Scenario:
        battery = scenario.site["battery"]
        sizes = {key: float(battery[key]) * factor for key in _BATTERY_SIZES if key in battery}
        return _replaced(site={**scenario.site, "battery": {**battery, **sizes}})(scenario)

    return change


def _run_times(factor: float) -> Change:
    """Jobs so many times as long, and fewer in proportion: the demand stays about the same."""

    def change(scenario: Scenario) -> Scenario:
        tuples = []
        for part in scenario.tuples:
            if isinstance(part.workload, SyntheticWorkload):
                workload = msgspec.structs.replace(
                    part.workload,
                    run_median_s=part.workload.run_median_s * factor,
                    run_cap_s=part.workload.run_cap_s * factor,
                    jobs=max(round(part.workload.jobs / factor), 1),
                )
                part = msgspec.structs.replace(part, workload=workload)
            tuples.append(part)
        return msgspec.structs.replace(scenario, tuples=tuple(tuples))

    return change


def _beasy(**options: Any) -> Change:
    return _replaced(policies=(PolicyPart(name="beasy", label="beasy", options=options),))


_ONLY_BEASY: Final = ("beasy",)
_PLANNED: Final = ("beasy", "next")
VARIANTS: Final[tuple[Variant, ...]] = (
    Variant("as-it-is", "as it is (guard kill-all, no veto)", lambda scenario: scenario),
    Variant("veto", "guard kill-all, veto", _guard(GuardMode.KILL_ALL, True)),
    Variant("shed", "guard shed, no veto", _guard(GuardMode.SHED, False)),
    Variant("shed-veto", "guard shed, veto", _guard(GuardMode.SHED, True)),
    Variant("release", "BEASY gives reservations back at once", _beasy(release="at-once"), _ONLY_BEASY),
    Variant("no-compensation", "BEASY does not compensate", _beasy(compensate=False), _ONLY_BEASY),
    Variant("idle-power", "BEASY counts idle power", _beasy(idle_power=True), _ONLY_BEASY),
    Variant("store", "plan: surplus is stored first", _plan(surplus=Surplus.STORE), _PLANNED),
    Variant("min-on-0", "plan: servers on for any time", _plan(minimum_on_s=0.0), _PLANNED),
    Variant("min-on-4h", "plan: servers on for 4 h or more", _plan(minimum_on_s=14_400.0), _PLANNED),
    Variant("battery-half", "half the battery", _battery(0.5)),
    Variant("battery-double", "twice the battery", _battery(2.0)),
    Variant("short-jobs", "jobs a third as long, three times as many", _run_times(1 / 3)),
    Variant("long-jobs", "jobs three times as long, a third as many", _run_times(3.0)),
)  # fmt: skip


def ablation(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios in all variants, named ``SCENARIO+VARIANT``."""
    found = []
    for variant in VARIANTS:
        policies = tuple(PolicyPart(name=name, label=name) for name in variant.policies)
        for scenario in scenarios:
            named = _replaced(policies=policies, name=f"{scenario.name}{SEPARATOR}{variant.name}")
            found.append(variant.change(named(scenario)))
    return found


PAPERS_GUARD, OUR_GUARD = PAPER_GUARDS
SHED: Final = "-shed"
ABLATION: Final = "ablation"
HEADLINES: Final = ("critical", "average")


@dataclass(frozen=True)
class Size:
    """How many seeds each part gets; none leaves it out."""

    headline: int
    shed: int
    ablation: int
    small: bool = False
    """Take the scenarios' quick relatives."""


def experiments(headline: str, scenarios: Sequence[Scenario], size: Size) -> dict[str, list[Scenario]]:
    """Return the campaigns, by folder: under the papers' guard, ours, and the ablation, as far as wanted."""
    if size.small:
        scenarios = [quick(scenario) for scenario in scenarios]

    def under(guard: GuardPart, seeds: int) -> list[Scenario]:
        change = _replaced(guards=(guard,), seeds=tuple(range(1, seeds + 1)))
        return [change(scenario) for scenario in scenarios]

    found = {headline: under(PAPERS_GUARD, size.headline)}
    if size.shed:
        found[headline + SHED] = under(OUR_GUARD, size.shed)
    if size.ablation:
        found[ABLATION] = ablation(under(PAPERS_GUARD, size.ablation))
    return found


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
