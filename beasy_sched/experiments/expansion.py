"""From scenarios to runs: scenario x tuple x seed x guard x policy, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from beasy_sched.errors import ConfigError
from beasy_sched.experiments.scenario import GuardPart, PolicyPart, Scenario, SyntheticWorkload

QUICK_WINDOW_H = 24.0
QUICK_TUPLES = 2


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    scenario: Scenario
    tuple_number: int
    seed: int
    guard: GuardPart
    policy: PolicyPart

    @property
    def key(self) -> str:
        """Its name, unique in a campaign and fit for a file."""
        where = f"{self.scenario.name}.t{self.tuple_number}.s{self.seed}"
        return f"{where}.{self.guard.label}.{self.policy.label}"


def expand(scenarios: Sequence[Scenario]) -> list[RunSpec]:
    """Return all runs in the order of result tables. Raises ConfigError for scenarios of one name."""
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two scenarios are called {name!r}: rename one")
    return [
        RunSpec(scenario, number, seed, guard, policy)
        for scenario in scenarios
        for number in range(len(scenario.tuples))
        for seed in scenario.seeds
        for guard in scenario.guards
        for policy in scenario.policies
    ]


def quick(scenario: Scenario) -> Scenario:
    """Return a small relative of a scenario, to try things out: 24 h, two tuples, one seed.

    Synthetic jobs become fewer in proportion; the rest stays. Its results say little about the scenario.
    """
    site = scenario.parsed_site()
    window_h = min(site.window_s / 3600.0, QUICK_WINDOW_H)
    share = window_h * 3600.0 / site.window_s
    sections = {**scenario.site, "time": {**scenario.site.get("time", {}), "window_h": window_h}}
    tuples = []
    for part in scenario.tuples[:QUICK_TUPLES]:
        workload = part.workload
        if isinstance(workload, SyntheticWorkload):
            workload = msgspec.structs.replace(workload, jobs=max(round(workload.jobs * share), 1))
        tuples.append(msgspec.structs.replace(part, workload=workload))
    return msgspec.structs.replace(scenario, site=sections, tuples=tuple(tuples), seeds=scenario.seeds[:1])
