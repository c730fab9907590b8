"""Comparison of policies on many executions of scenarios: means, and paired differences from one of them.

The runs are a campaign, which continues after an interruption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.declared import check_choice
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.plugins.campaigns.campaign import Outcome, Progress, begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import check_installed, read_campaign
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy
from beasy_sched.plugins.campaigns.comparisons.side_by_side import TABLE_NAME, with_short_labels
from beasy_sched.plugins.campaigns.folder import must_be_empty
from beasy_sched.plugins.campaigns.own_days import OwnFiles, on_own_days
from beasy_sched.plugins.campaigns.paired import Block, ComparedPolicies, blocks_of, paired_tables
from beasy_sched.plugins.campaigns.parts import CampaignPart
from beasy_sched.plugins.campaigns.scenario import PolicyPart, Scenario, quick
from beasy_sched.plugins.campaigns.scenario_file import check_scenario, find_scenario
from beasy_sched.plugins.campaigns.text_tables import TextTable, markdown_of
from beasy_sched.plugins.campaigns.workers import Executor

RUNS: Final = "campaign"
"""Name of the folder of the runs, in the folder of the comparison."""


@dataclass(frozen=True)
class ScenarioComparison:
    """The policies and scenarios of a comparison, and the folder of the results."""

    scenarios: Sequence[Scenario]
    out: Path
    against: str
    """Label of the policy that the others are compared with."""
    allowed: Sequence[str]
    """Policies ``package.module:Class`` named by the user."""
    small: bool = False
    """Whether the quick versions of the scenarios are run."""

    @property
    def folder(self) -> Path:
        """The folder of the campaign."""
        return self.out / RUNS

    def run(
        self,
        executor: Executor,
        progress: Progress | None,
        *,
        retry_failed: bool = False,
        part: CampaignPart | None = None,
    ) -> Outcome:
        """Execute the unfinished runs; see `go_on`. Raises BeasyError."""
        check_installed(self.scenarios)
        if not self.folder.is_dir():
            must_be_empty(self.out, "an earlier comparison")
        begin(self.scenarios, self.folder, small=self.small)
        return go_on(
            self.folder,
            executor,
            progress=progress,
            retry_failed=retry_failed,
            allowed=self.allowed,
            part=part,
        )

    def results(self) -> PairedResults:
        """Return the results so far, and write the tables in Markdown to the output folder.

        Raises BeasyError if no execution is complete.
        """
        paired = paired_results(self.folder, self.against)
        write_atomic(self.out / TABLE_NAME, markdown_of(paired.tables))
        return paired


@dataclass(frozen=True)
class PairedResults:
    """The policies of a campaign, compared with one of them on the same executions."""

    blocks: Mapping[Block, ComparedPolicies]
    against: str
    """Label of the policy that the others are compared with."""

    @cached_property
    def tables(self) -> list[TextTable]:
        """Means of all policies in each scenario, size and guard setting, and the differences."""
        return [*paired_tables(self.blocks, self.against)]


def paired_results(
    folder: Path, against: str | None = None, policies: Sequence[str] = (), scenarios: Sequence[str] = ()
) -> PairedResults:
    """Compare the policies of a campaign, which need not be complete, by their labels.

    ``against`` is one of them (None: the first); with ``policies`` and ``scenarios`` only these are compared.
    Raises ConfigError for an unknown label or scenario, InputError if there is no campaign, and BeasyError if
    no execution is complete.
    """
    campaign = read_campaign(folder)
    frozen = campaign.manifest.parsed()
    labels = [*dict.fromkeys(policy.label for scenario in frozen for policy in scenario.policies)]
    _check_known("--policy", policies, labels)
    _check_known("--scenario", scenarios, [scenario.name for scenario in frozen])
    shown = [label for label in labels if not policies or label in policies or label == against]
    chosen = against or shown[0]
    _check_known("--against", [chosen], shown)
    runs = campaign.runs
    runs = runs[runs["policy"].isin(shown)]
    if scenarios:
        runs = runs[runs["scenario"].isin(scenarios)]
    swept = [*dict.fromkeys(axis for scenario in frozen for axis in scenario.sweep)]
    blocks = blocks_of(runs, axes=[axis for axis in swept if axis in runs])
    if not blocks:
        raise BeasyError(
            f"no execution is complete: for the reasons, see 'beasy-sched campaign status {folder}'"
        )
    return PairedResults(blocks, chosen)


def _check_known(option: str, given: Sequence[str], choices: Sequence[str]) -> None:
    """Raise ConfigError for a name that is not in the campaign."""
    for name in given:
        check_choice(option, name, choices)


def scenario_comparison(
    names: Sequence[str],
    policies: Sequence[ComparedPolicy],
    out: Path,
    *,
    against: str | None = None,
    small: bool = False,
    files: OwnFiles | None = None,
    most_seeds: int | None = None,
) -> ScenarioComparison:
    """Read scenario files, or built-in scenarios by name, and set their policies.

    ``policies``, if any, replace those of the scenarios; ``against`` is one of them (None: the first). With
    ``files``, the scenarios use their jobs and weather (`on_own_days`), with ``most_seeds``, only the first
    seeds. Raises ConfigError and InputError.
    """
    if placed := next((policy for policy in policies if policy.placement is not None), None):
        raise ConfigError(
            f"--policy {placed.label!r}: placement is not supported with SCENARIOs: omit the scenarios"
        )
    allowed = tuple(policy.policy for policy in policies if ":" in policy.policy)
    labelled = with_short_labels(policies)
    parts = tuple(
        PolicyPart(
            name=policy.policy,
            options=policy.options(),
            label=policy.folder_name,
            on_kill=msgspec.UNSET if policy.on_kill is None else policy.on_kill,
        )
        for policy in labelled
    )
    as_given = {policy.label: part.label for policy, part in zip(policies, parts, strict=True)}
    scenarios = [find_scenario(name, allowed=allowed) for name in names]
    if most_seeds is not None:
        scenarios = [msgspec.structs.replace(each, seeds=each.seeds[:most_seeds]) for each in scenarios]
    if files:
        scenarios = [on_own_days(quick(each) if small else each, files) for each in scenarios]
    if parts:
        scenarios = [msgspec.structs.replace(scenario, policies=parts) for scenario in scenarios]
        for scenario in scenarios:
            check_scenario(scenario, allowed)
    labels = [policy.label for policy in scenarios[0].policies]
    chosen = labels[0] if against is None else as_given.get(against, ComparedPolicy.of(against).folder_name)
    for scenario in scenarios:
        if chosen not in (own := [policy.label for policy in scenario.policies]):
            raise ConfigError(
                f"--against: found {against or chosen!r}, expected a policy compared in"
                f" {scenario.name}: {', '.join(own)}"
            )
    return ScenarioComparison(scenarios, out, chosen, allowed, small)
