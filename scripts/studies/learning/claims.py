"""Claims of the thesis about learned compensation, and the results that they are judged by.

A result is the sample of a case: of the average or the critical cases, or of the variations. As elsewhere,
pairs of days are resampled first, then noise seeds; all policies of an execution together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.plugins.campaigns.paired import ComparedPolicies, clusters_of, p_text, paired_difference
from beasy_sched.plugins.campaigns.samples import interval
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import Claim, Truth, Verdict, claim_table
from studies.comparison.results import blocks_by_case
from studies.learning.study import CHANCE, FIXED, FULL, GREEDY, LEARNERS, MIXES, VARIED

if TYPE_CHECKING:
    import pandas as pd

LearningResults = Mapping[str, ComparedPolicies]
"""Samples by case."""
MEASURED: Final[Mapping[str, tuple[str, str]]] = {
    "finished": ("finished %", "{:.2f}"),
    "work": ("work %", "{:.2f}"),
    "killed": ("killed %", "{:.2f}"),
    "off": ("off target", "{:.1f}"),
    "below": ("below target", "{:.1f}"),
    "wasted": ("wasted kWh", "{:.1f}"),
}
"""Figures that tables show of a policy: heading and form."""
DIFFERING: Final = ("finished", "killed", "off", "wasted")
"""Measures in which policies are compared."""
CASE_TITLES: Final = {"average": "average cases", "critical": "critical cases", VARIED: "variations"}
_MORE: Final = 1e-6
"""Points below which two shares of jobs are the same."""


def results_of_cases(*runs: pd.DataFrame) -> dict[str, ComparedPolicies]:
    """Arrange the runs of campaigns by case; executions in which a policy failed are omitted."""
    return {case: sample for each in runs for (case, _), sample in blocks_by_case(each).items()}


def best_fixed(sample: ComparedPolicies) -> str:
    """Return the fixed policy that finishes most jobs here. Raises KeyError where one did not run."""
    means = [float(sample.mean("finished", name)[0]) for name in FIXED]
    return FIXED[int(np.argmax(means))]


@dataclass(frozen=True)
class FinishesMore:
    """Statement: a policy finishes more jobs than each of some others (or as many), in the mean of a case."""

    case: str
    policy: str
    others: tuple[str, ...]
    or_as_many: bool = False

    def __call__(self, results: LearningResults) -> tuple[Truth, str]:
        """Return the truth, and our lead over the best of the others with its p-value. Raises KeyError."""
        sample = results[self.case]
        rivals = np.array([sample.mean("finished", other) for other in self.others])
        lead = sample.mean("finished", self.policy) - rivals.max(axis=0)
        best = self.others[int(rivals[:, 0].argmax())]
        low, high = interval(lead)
        p = paired_difference(sample, "finished", self.policy, best).p
        found = f"{lead[0]:+.2f} [{low:+.2f}, {high:+.2f}] points from {best}; p {p_text(p)}"
        return lead > (-_MORE if self.or_as_many else _MORE), found


_MAIN_CASES: Final = ("average", "critical")
CLAIMS: Final = (
    *(
        Claim(
            "C1", case, f"a mix is better than each of the four alone: {mix}", FinishesMore(case, mix, FIXED)
        )
        for case in _MAIN_CASES
        for mix in MIXES
    ),
    *(
        Claim(
            "C2", case, f"learned choices are better than random: {name}", FinishesMore(case, name, (CHANCE,))
        )
        for case in _MAIN_CASES
        for name in LEARNERS
    ),
    Claim(
        "C3",
        VARIED,
        "locally good choices add up: Q-learning finishes no fewer jobs with gamma = 0 than with 0.998",
        FinishesMore(VARIED, GREEDY, (FULL,), or_as_many=True),
    ),
)
"""C1 to C3: claims of the thesis, about finished jobs."""


def learning_claim_table(verdicts: Sequence[Verdict]) -> TextTable:
    """The claims and their verdicts."""
    columns = {
        "": "claim.name",
        "cases": "claim.part",
        "claim": "claim.text",
        "finished jobs": "ours",
        "true in": "true_in",
        "verdict": "ruling.value",
    }
    return claim_table(verdicts, columns, numbers=("true in",))


def case_tables(results: LearningResults) -> Iterator[TextTable]:
    """Yield, for each case, the means, and the differences that claims are about."""
    for case, sample in results.items():
        title = CASE_TITLES[case]
        yield mean_table(title, sample)
        if case == VARIED:
            yield lead_table(title, sample, FULL)
        else:
            yield lead_table(title, sample, CHANCE)
            yield lead_table(title, sample, best_fixed(sample))


def mean_table(title: str, sample: ComparedPolicies) -> TextTable:
    """Return means, a row a policy, those that finish most first."""
    means = {name: sample.means(name)[0] for name in MEASURED}
    rows: list[tuple[str, ...]] = [
        (sample.conditions[place], *(form.format(means[name][place]) for name, (_, form) in MEASURED.items()))
        for place in np.argsort(-means["finished"], kind="stable")
    ]
    numbers = tuple(head for head, _ in MEASURED.values())
    note = f"{len(sample.executions)} executions. Target and off it: points of charge."
    if sample.left_out:
        note += f" {sample.left_out} omitted: a run failed."
    return TextTable(f"Means: {title}", ("policy", *numbers), rows, numbers, note)


def lead_table(title: str, sample: ComparedPolicies, against: str) -> TextTable:
    """Return by how much policies differ from one of them: mean, interval and p-value, a row a policy."""
    rows: list[tuple[str, ...]] = []
    order = np.argsort(-sample.means("finished")[0], kind="stable")
    for policy in (sample.conditions[place] for place in order):
        if policy != against:
            found = [paired_difference(sample, name, policy, against) for name in DIFFERING]
            rows.append((policy, *(f"{each.text} {p_text(each.p)}" for each in found)))
    unit, cluster = clusters_of(sample.executions)
    kind = "pairs of days" if unit == "days" else "noise seeds of the same days"
    note = (
        f"Mean, 95 % interval (bootstrap), p (permutation test over {int(cluster.max()) + 1} {kind}, each"
        " measure for itself)."
    )
    heads = tuple(MEASURED[name][0].replace("%", "[points]") for name in DIFFERING)
    return TextTable(f"Differences from {against}: {title}", ("policy", *heads), rows, heads, note)
