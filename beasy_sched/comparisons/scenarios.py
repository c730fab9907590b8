"""Policies on many executions of scenarios: means, and paired differences from one of them.

The runs are a campaign, which goes on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.campaigns.campaign import Outcome, Progress, begin, go_on
from beasy_sched.campaigns.folder import must_be_empty
from beasy_sched.campaigns.scenario import PolicyPart, Scenario
from beasy_sched.campaigns.scenario_file import check_scenario, find_scenario
from beasy_sched.campaigns.table import check_installed, read_campaign
from beasy_sched.campaigns.workers import Executor
from beasy_sched.comparisons.side_by_side import TABLE_NAME, ComparedPolicy
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.reports.paired import blocks_of, difference_table, means_table
from beasy_sched.reports.text_tables import TextTable, markdown_of

RUNS: Final = "campaign"
"""Name of the folder of the runs, in the folder of the comparison."""


@dataclass(frozen=True)
class ScenarioComparison:
    """Which policies are compared in which scenarios, and where the results go."""

    scenarios: Sequence[Scenario]
    out: Path
    against: str
    """Label of the policy that the others are compared with."""
    allowed: Sequence[str]
    """Policies ``package.module:Class`` that were named by the user."""
    small: bool = False
    """Whether the scenarios' quick relatives are run."""

    @property
    def folder(self) -> Path:
        """The folder of the campaign."""
        return self.out / RUNS

    def run(self, executor: Executor, progress: Progress | None) -> Outcome:
        """Execute the runs that have not ended. ``executor`` is closed. Raises BeasyError."""
        check_installed(self.scenarios)
        if not self.folder.is_dir():
            must_be_empty(self.out, "that of an earlier comparison")
        begin(self.scenarios, self.folder, small=self.small)
        return go_on(self.folder, executor, progress=progress, allowed=self.allowed)

    def tables(self) -> list[TextTable]:
        """Return the means of all policies in each scenario and guard setting, and the differences.

        Writes them in Markdown to the output folder. Raises BeasyError where no execution is complete.
        """
        found = []
        for (scenario, setting), sample in blocks_of(read_campaign(self.folder).runs).items():
            title = f"{scenario}, guard {setting}"
            found.append(means_table(title, sample))
            if len(sample.conditions) > 1:
                found.append(difference_table(title, sample, self.against))
        if not found:
            raise BeasyError(
                f"no execution is complete: see 'beasy-sched campaign status {self.folder}', which tells why"
            )
        write_atomic(self.out / TABLE_NAME, markdown_of(found))
        return found


def scenario_comparison(
    names: Sequence[str],
    policies: Sequence[ComparedPolicy],
    out: Path,
    *,
    against: str | None = None,
    small: bool = False,
) -> ScenarioComparison:
    """Read scenario files, or those of the program by name, and what is compared in them.

    ``policies`` take the place of the scenarios' own, if there are any; ``against`` is one of them (None: the
    first). Raises ConfigError and InputError.
    """
    allowed = tuple(policy.policy for policy in policies if ":" in policy.policy)
    parts = tuple(
        PolicyPart(name=policy.policy, options=policy.options(), label=policy.folder_name)
        for policy in policies
    )
    scenarios = [find_scenario(name) for name in names]
    if parts:
        scenarios = [msgspec.structs.replace(scenario, policies=parts) for scenario in scenarios]
        for scenario in scenarios:
            check_scenario(scenario, allowed)
    labels = [policy.label for policy in scenarios[0].policies]
    chosen = labels[0] if against is None else ComparedPolicy.of(against).folder_name
    for scenario in scenarios:
        if chosen not in (own := [policy.label for policy in scenario.policies]):
            raise ConfigError(
                f"--against: found {against or chosen!r}, expected a policy that is compared in"
                f" {scenario.name}: {', '.join(own)}"
            )
    return ScenarioComparison(scenarios, out, chosen, allowed, small)
