"""All policies with killed jobs lost, requeued, and continued from checkpoints, on the same executions.

The cases are those of the comparison of policies (`studies.comparison`). A policy has one condition for each
treatment of killed jobs; the first is that of the BEASY paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from beasy_sched.model.choices import OnKill
from beasy_sched.plugins.campaigns.paired import (
    COMPARED,
    Block,
    ComparedPolicies,
    executions_text,
    p_text,
    paired_difference,
)
from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES, PolicyPart
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import competition_ranks, rank_agreement

POLICIES: Final = (*PAPER_POLICIES, "bid-price")
TREATMENTS: Final = tuple(OnKill)
_MEASURES: Final = ("finished", "killed", "off", "wasted", "redone", "slowdown")
_RANKED: Final = ("finished", "off", "wasted", "slowdown")


def label_of(policy: str, treatment: OnKill) -> str:
    """Return the name of a condition: ``beasy``, ``beasy.requeue`` and so on."""
    return policy if treatment is OnKill.DROP else f"{policy}.{treatment.value}"


def conditions(policies: Sequence[str]) -> list[PolicyPart]:
    """Return each policy with each treatment of killed jobs."""
    return [
        PolicyPart(name=name, label=label_of(name, treatment), on_kill=treatment)
        for name in policies
        for treatment in TREATMENTS
    ]


def restart_tables(
    blocks: Mapping[Block, ComparedPolicies], policies: Sequence[str], titles: Mapping[str, str]
) -> Iterator[TextTable]:
    """Yield, for each block, means, differences from lost jobs, and the ranking under each treatment."""
    for (case, setting), sample in blocks.items():
        title = f"{titles.get(case, case)}, guard {setting}"
        yield means_table(title, sample, policies)
        yield difference_table(title, sample, policies)
        yield rank_table(title, sample, policies)


def means_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the means of all conditions: jobs that never finished among them."""
    measures = [name for name in _MEASURES if name in sample.values]
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        for treatment in TREATMENTS:
            label = label_of(policy, treatment)
            means = {name: float(sample.mean(name, label)[0]) for name in measures}
            cells = [COMPARED[name].form.format(means[name]) for name in measures]
            never = f"{100.0 - means['finished']:.2f}"
            rows.append((policy if treatment is OnKill.DROP else "", treatment.value, never, *cells))
    heads = ("never fin. %", *(COMPARED[name].head for name in measures))
    note = (
        f"{executions_text(sample)}. never fin.: jobs that did not finish; killed: as in the paper; off:"
        " distance of the final charge from the target, points; wasted, redone: kWh; slowd.: bounded"
        " slowdown."
    )
    return TextTable(f"Killed jobs that come back: {title}", ("Policy", "On kill", *heads), rows, heads, note)


def difference_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the differences of requeued and continued jobs from lost ones, policy by policy."""
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        for treatment in TREATMENTS[1:]:
            label = label_of(policy, treatment)
            for number, name in enumerate(each for each in _MEASURES if each in sample.values):
                paired = paired_difference(sample, name, label, policy)
                first = (policy, treatment.value) if number == 0 else ("", "")
                rows.append((*first, COMPARED[name].title, paired.text, p_text(paired.p), paired.verdict))
    head = ("Policy", "On kill", "Measure", "Difference", "p", "Verdict")
    note = (
        f"{executions_text(sample)}; differences from lost jobs (drop) of the same policy, intervals: 95 %."
    )
    return TextTable(f"Differences from drop: {title}", head, rows, ("Difference", "p"), note)


def rank_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the ranks of the policies under each treatment, and their agreement with those of lost jobs."""
    rows: list[tuple[str, ...]] = []
    for name in _RANKED:
        before = None
        for treatment in TREATMENTS:
            means = np.array([[float(sample.mean(name, label_of(each, treatment))[0]) for each in policies]])
            ranks = competition_ranks(means, higher_is_better=COMPARED[name].higher_is_better)[0]
            before = ranks if before is None else before
            first = COMPARED[name].title if treatment is OnKill.DROP else ""
            agreement = f"{rank_agreement(ranks, before):.2f}"
            rows.append((first, treatment.value, *map(str, ranks), agreement))
    numbers = (*policies, "rho")
    note = "Ranks of means, the best is 1; rho: Spearman's correlation with the ranking of lost jobs."
    return TextTable(f"Ranking: {title}", ("Measure", "On kill", *numbers), rows, numbers, note)
