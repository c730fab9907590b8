"""All policies with killed jobs lost, requeued, and continued from checkpoints, on the same executions.

The cases are those of the comparison of policies (`studies.comparison`). A policy has one condition for each
treatment of killed jobs; the first is that of the BEASY paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.model.choices import OnKill
from beasy_sched.plugins.campaigns.paired import (
    COMPARED,
    Block,
    ComparedPolicies,
    PairedDifference,
    executions_text,
    p_text,
    paired_difference,
    with_derived,
)
from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES, PolicyPart
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import competition_ranks, ordinal, rank_agreement
from studies.comparison.study import case_of

if TYPE_CHECKING:
    import pandas as pd

POLICIES: Final = (*PAPER_POLICIES, "bid-price")
TREATMENTS: Final = tuple(OnKill)
AGAINST: Final = "beasy"
"""The policy with which the others are compared."""
_MEASURES: Final = ("finished", "killed", "off", "wasted", "redone", "slowdown")
_RANKED: Final = ("finished", "off", "wasted", "slowdown")
_AGAINST: Final = ("finished", "wasted")
"""Measures in which the policies are compared with `AGAINST`."""
_COUNTED: Final = {"restart_count": "{:.1f}", "soc_final_pct": "{:.1f}"}
"""Columns of the table of runs whose means are shown without comparisons, with their format."""
Counts = Mapping[tuple[str, str, str], Mapping[str, float]]
"""Means of `_COUNTED`, by case, guard setting and condition."""
_INTERVALS: Final = "intervals: 95 %, bootstrap; p: permutation test on the means of days"


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


def counts_of(runs: pd.DataFrame) -> Counts:
    """Return means of what is counted, not compared: the jobs that came back, and the final charge."""
    completed = with_derived(runs[runs["status"] == "ok"], lambda scenario: case_of(scenario)[0])
    means = completed.groupby(["block", "setting", "policy"], sort=False)[[*_COUNTED]].mean()
    return {key: row.to_dict() for key, row in means.iterrows()}


def restart_tables(
    blocks: Mapping[Block, ComparedPolicies],
    policies: Sequence[str],
    titles: Mapping[str, str],
    counts: Counts,
) -> Iterator[TextTable]:
    """Yield, for each block, means, differences from lost jobs, and the ranking under each treatment.

    ``policies`` must include `AGAINST`, here and in `findings`.
    """
    for (case, setting), sample in blocks.items():
        title = f"{titles.get(case, case)}, guard {setting}"
        own = {label: counts[case, setting, label] for label in sample.conditions}
        yield means_table(title, sample, policies, own)
        yield difference_table(title, sample, policies)
        yield rank_table(title, sample, policies)
        yield against_table(title, sample, policies)


def findings(
    blocks: Mapping[Block, ComparedPolicies],
    policies: Sequence[str],
    titles: Mapping[str, str],
    counts: Counts,
) -> Iterator[str]:
    """Yield, for each block, whose jobs never come back, and the rank of `AGAINST` under each treatment."""
    for (case, setting), sample in blocks.items():
        never = [
            policy
            for policy in policies
            if not any(
                counts[case, setting, label_of(policy, treatment)]["restart_count"]
                for treatment in TREATMENTS
            )
        ]
        ranks = [_ranks(sample, "finished", treatment, policies) for treatment in TREATMENTS]
        places = [
            f"{ordinal(own[policies.index(AGAINST)])} ({treatment.value})"
            for own, treatment in zip(ranks, TREATMENTS, strict=True)
        ]
        returns = counts[case, setting, label_of(AGAINST, OnKill.REQUEUE)]["restart_count"]
        yield (
            f"{titles.get(case, case).capitalize()}, guard {setting}: jobs never come back with"
            f" {', '.join(never) or 'no policy'}, and {returns:.2f} times per execution with {AGAINST}"
            f" (requeue). By finished jobs, {AGAINST} is {', '.join(places)} of {len(policies)}."
        )


def means_table(
    title: str,
    sample: ComparedPolicies,
    policies: Sequence[str],
    counts: Mapping[str, Mapping[str, float]],
) -> TextTable:
    """Return the means of all conditions: jobs that never finished among them."""
    measures = [name for name in _MEASURES if name in sample.values]
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        for treatment in TREATMENTS:
            label = label_of(policy, treatment)
            means = {name: float(sample.mean(name, label)[0]) for name in measures}
            cells = [COMPARED[name].form.format(means[name]) for name in measures[1:]]
            never = f"{100.0 - means['finished']:.2f}"
            counted = [form.format(counts[label][name]) for name, form in _COUNTED.items()]
            rows.append(
                (policy if treatment is OnKill.DROP else "", treatment.value, never, *counted, *cells)
            )
    heads = ("never fin. %", "back", "final %", *(COMPARED[name].head for name in measures[1:]))
    note = (
        f"{executions_text(sample)}. never fin.: jobs that did not finish; back: number of times that jobs"
        " came back; final: charge at the end; killed: %, as in the paper; off: distance of the final charge"
        " from the target, points; wasted, redone: kWh; slowd.: bounded slowdown."
    )
    return TextTable(f"Killed jobs that come back: {title}", ("Policy", "On kill", *heads), rows, heads, note)


def difference_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the differences of requeued and continued jobs from lost ones, policy by policy.

    That of work redone is its mean, as no work of lost jobs is redone.
    """
    measures = [name for name in _MEASURES if name in sample.values]
    rows: list[tuple[str, ...]] = []
    same: list[str] = []
    for policy in policies:
        for treatment in TREATMENTS[1:]:
            label = label_of(policy, treatment)
            if all(np.array_equal(sample.of(name, label), sample.of(name, policy)) for name in measures):
                same.append(f"{policy} ({treatment.value})")
                continue
            for number, name in enumerate(each for each in measures if each != "redone"):
                paired = paired_difference(sample, name, label, policy)
                first = (policy, treatment.value) if number == 0 else ("", "")
                rows.append((*first, COMPARED[name].title, paired.text, p_text(paired.p), paired.verdict))
    head = ("Policy", "On kill", "Measure", "Difference", "p", "Verdict")
    note = (
        f"{executions_text(sample)}; differences from lost jobs (drop) of the same policy; {_INTERVALS};"
        " verdict: given if the interval excludes 0 and p < 0.05."
    )
    if same:
        note += f" All executions are the same with {', '.join(same)}."
    return TextTable(f"Differences from drop: {title}", head, rows, ("Difference", "p"), note)


def rank_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the ranks of the policies under each treatment, and their agreement with those of lost jobs."""
    rows: list[tuple[str, ...]] = []
    for name in _RANKED:
        before = None
        for treatment in TREATMENTS:
            ranks = _ranks(sample, name, treatment, policies)
            before = ranks if before is None else before
            first = COMPARED[name].title if treatment is OnKill.DROP else ""
            agreement = f"{rank_agreement(ranks, before):.2f}"
            rows.append((first, treatment.value, *map(str, ranks), agreement))
    numbers = (*policies, "rho")
    note = "Ranks of means, the best is 1; rho: Spearman's correlation with the ranking of lost jobs."
    return TextTable(f"Ranking: {title}", ("Measure", "On kill", *numbers), rows, numbers, note)


def _ranks(sample: ComparedPolicies, measure: str, treatment: OnKill, policies: Sequence[str]) -> list[int]:
    """Return the ranks of the policies by their means, the best is 1."""
    means = [float(sample.mean(measure, label_of(policy, treatment))[0]) for policy in policies]
    return [*map(int, competition_ranks(means, higher_is_better=COMPARED[measure].higher_is_better))]


def against_table(title: str, sample: ComparedPolicies, policies: Sequence[str]) -> TextTable:
    """Return the differences of the policies from one of them under the same treatment of killed jobs."""
    rows: list[tuple[str, ...]] = []
    for name in _AGAINST:
        for number, policy in enumerate(each for each in policies if each != AGAINST):
            pairs = [
                paired_difference(sample, name, label_of(policy, treatment), label_of(AGAINST, treatment))
                for treatment in TREATMENTS
            ]
            rows.append((COMPARED[name].title if number == 0 else "", policy, *map(_pair_text, pairs)))
    heads = tuple(treatment.value for treatment in TREATMENTS)
    note = f"{executions_text(sample)}; {_INTERVALS}; *: the interval excludes 0, and p < 0.05."
    return TextTable(
        f"Differences from {AGAINST}, killed jobs treated alike: {title}",
        ("Measure", "Policy", *heads),
        rows,
        heads,
        note,
    )


def _pair_text(paired: PairedDifference) -> str:
    return f"{paired.text}, p {p_text(paired.p)}{' *' if paired.verdict else ''}"
