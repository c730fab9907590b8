"""The runs that scenarios stand for: by tuple, seed, point of the sweep, guard and policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beasy_sched.campaign.scenario import GuardPart, PolicyPart, Scenario
from beasy_sched.campaign.sweep import Point, at_point, label_of, points_of
from beasy_sched.errors import ConfigError


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    scenario: Scenario
    """That of its point: it sweeps nothing."""
    tuple_number: int
    seed: int
    guard: GuardPart
    policy: PolicyPart
    point: Point = ()
    mark: str = ""
    """Tells it from runs that are called the same, in folders where those may be."""

    @property
    def key(self) -> str:
        """Its name, unique in a campaign and fit for a file."""
        parts = [self.scenario.name, f"t{self.tuple_number}", f"s{self.seed}", label_of(self.point),
                 self.guard.label, self.policy.label, self.mark]  # fmt: skip
        return ".".join(part for part in parts if part)


def expand(scenarios: Sequence[Scenario]) -> list[RunSpec]:
    """Return all runs in the order of result tables. Raises ConfigError for scenarios of one name."""
    names = [scenario.name for scenario in scenarios]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two scenarios are called {twice[0]!r}: rename one")
    places = {
        scenario.name: [(point, at_point(scenario, point)) for point in points_of(scenario)]
        for scenario in scenarios
    }
    return [
        RunSpec(sized, number, seed, guard, policy, point)
        for scenario in scenarios
        for number in range(len(scenario.tuples))
        for seed in scenario.seeds
        for point, sized in places[scenario.name]
        for guard in scenario.guards
        for policy in scenario.policies
    ]
