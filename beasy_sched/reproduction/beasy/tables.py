"""The tables of a reproduction: ranks, numbers, claims, guards, ablation.

Table I of the BEASY paper: its ranks, and ours beside them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from beasy_sched.campaign.scenario import PAPER_POLICIES
from beasy_sched.reproduction.beasy.study import POLICIES, SEPARATOR, VARIANTS
from beasy_sched.reproduction.claims import Finding, Verdict
from beasy_sched.reproduction.sample import MEASURES, TABLE_MEASURES, Study, sample_of
from beasy_sched.reproduction.statistics import interval, rank_agreement
from beasy_sched.reproduction.text_table import TextTable

SCENARIO_TITLES: Final[Mapping[str, str]] = {
    "best-begin": "Profile best-case and workload in beginning",
    "best-end": "Profile best-case and workload in end",
    "worst-begin": "Profile worst-case and workload in beginning",
    "worst-end": "Profile worst-case and workload in end",
    "average": "100 average cases",
}
PAPER_RANKS: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "best-begin": {
        "finished": (8, 7, 6, 4, 5, 2, 3, 1),
        "killed": (8, 7, 6, 4, 5, 2, 3, 1),
        "soc": (1, 8, 3, 6, 7, 4, 5, 2),
        "wasted": (7, 8, 2, 4, 6, 3, 5, 1),
    },
    "best-end": {
        "finished": (7, 4, 1, 6, 8, 3, 5, 2),
        "killed": (8, 5, 1, 6, 7, 4, 3, 1),
        "soc": (1, 8, 7, 3, 4, 5, 6, 2),
        "wasted": (5, 8, 1, 6, 7, 3, 4, 2),
    },
    "worst-begin": {
        "finished": (3, 1, 5, 6, 4, 7, 8, 2),
        "killed": (7, 6, 8, 3, 2, 4, 5, 1),
        "soc": (6, 8, 7, 3, 2, 4, 5, 1),
        "wasted": (7, 8, 6, 3, 2, 4, 5, 1),
    },
    "worst-end": {
        "finished": (1, 4, 2, 5, 6, 7, 8, 3),
        "killed": (8, 3, 6, 2, 7, 5, 4, 1),
        "soc": (6, 7, 8, 1, 3, 5, 4, 2),
        "wasted": (7, 8, 6, 3, 5, 4, 2, 1),
    },
    "average": {
        "finished": (7, 3, 1, 6, 8, 4, 5, 2),
        "killed": (8, 6, 2, 4, 7, 3, 5, 1),
        "soc": (1, 8, 3, 6, 7, 4, 5, 2),
        "wasted": (4, 8, 1, 5, 7, 3, 6, 2),
    },
}
"""By scenario and measure, in the order of `PAPER_POLICIES`."""


@dataclass(frozen=True)
class RankRow:
    """One line of Table I."""

    scenario: str
    measure: str
    policies: tuple[str, ...]
    ours: tuple[int, ...]
    means: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    theirs: tuple[int, ...] | None
    """None for a scenario that the paper does not have."""

    @property
    def agreement(self) -> float:
        """Spearman's correlation of our ranks with theirs; NaN without theirs."""
        return float("nan") if self.theirs is None else rank_agreement(self.ours, self.theirs)


def rank_rows(study: Study) -> Iterator[RankRow]:
    """Yield the lines of all scenarios of the study."""
    for scenario, sample in study.items():
        paper = PAPER_RANKS.get(scenario, {}) if sample.policies == PAPER_POLICIES else {}
        for measure in TABLE_MEASURES:
            means = sample.means(measure)
            yield RankRow(
                scenario,
                measure,
                sample.policies,
                tuple(int(rank) for rank in sample.ranks(measure)[0]),
                tuple(float(mean) for mean in means[0]),
                tuple(interval(column) for column in means.T),
                paper.get(measure),
            )


def measure_title(measure: str) -> str:
    """Return a measure's name and unit."""
    return f"{MEASURES[measure].title} [{MEASURES[measure].unit}]"


Rows = list[tuple[str, ...]]

_GUARD_POLICIES = ("beasy", "workload-reactive", "power-reactive", "follow-plan", "next")


def result_tables(rows: Iterable[RankRow]) -> list[TextTable]:
    """Table I and the means behind it; of each, one for all scenarios with the same policies."""
    groups: dict[tuple[str, ...], list[RankRow]] = {}
    for row in rows:
        groups.setdefault(row.policies, []).append(row)
    return [*map(rank_table, groups.values()), *map(mean_table, groups.values())]


def rank_table(rows: Sequence[RankRow]) -> TextTable:
    """Table I, our rank before the paper's."""
    policies = rows[0].policies
    body = []
    for row in rows:
        theirs: Iterable[str] = (
            [""] * len(policies) if row.theirs is None else [f" ({r})" for r in row.theirs]
        )
        cells = [f"{ours}{paper}" for ours, paper in zip(row.ours, theirs, strict=True)]
        rho = "" if math.isnan(row.agreement) else f"{row.agreement:.2f}"
        body.append((_scenario(row), MEASURES[row.measure].title, *cells, rho))
    note = (
        "Ranks of means: ours (the paper's); the best is 1, equals share a rank; SoC: the highest is best. "
        "rho: Spearman's correlation of the two rankings."
    )
    return TextTable(
        "Table I: ranks", ("Scenario", "Measure", *policies, "rho"), body, (*policies, "rho"), note
    )


def mean_table(rows: Sequence[RankRow]) -> TextTable:
    """The means behind the ranks, with intervals."""
    policies = rows[0].policies
    body = [
        (
            _scenario(row),
            measure_title(row.measure),
            *(
                f"{mean:.1f} [{low:.1f}, {high:.1f}]"
                for mean, (low, high) in zip(row.means, row.intervals, strict=True)
            ),
        )
        for row in rows
    ]
    return TextTable("Means and 95 % intervals", ("Scenario", "Measure", *policies), body, policies)


def number_table(findings: Sequence[Finding]) -> TextTable:
    """The numbers that the paper prints, and ours."""
    body: Rows = [
        (finding.claim.name, finding.claim.scenario, finding.claim.text, finding.claim.paper, finding.ours)
        for finding in findings
        if finding.claim.number is not None and finding.verdict is not Verdict.NOT_RUN
    ]
    return TextTable("Printed numbers", ("Claim", "Scenario", "What the paper says", "Paper", "Ours"), body)


def claim_table(findings: Sequence[Finding]) -> TextTable:
    """All claims that could be judged."""
    judged = [finding for finding in findings if finding.verdict is not Verdict.NOT_RUN]
    counts = Counter(finding.verdict for finding in judged)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    body: Rows = []
    for found in judged:
        claim, support = found.claim, f"{100 * found.support:.0f} %"
        body.append((claim.name, found.verdict.value, claim.text, claim.paper, found.ours, support))
    head = ("Claim", "Verdict", "What the paper says", "Paper", "Ours", "True in")
    return TextTable(f"Claims: {told}", head, body, ("True in",))


def guard_table(papers: pd.DataFrame, ours: pd.DataFrame) -> TextTable:
    """BEASY and rivals under both guards, on the executions that both have."""
    body = []
    keys = ["scenario", "tuple", "seed"]
    shared = ours[keys].drop_duplicates()
    for scenario in ours["scenario"].unique():
        for policy in _GUARD_POLICIES:
            cells = [str(scenario), policy]
            for measure in TABLE_MEASURES:
                for runs in (papers.merge(shared, on=keys), ours):
                    own = runs[(runs["scenario"] == scenario) & (runs["policy"] == policy)]
                    cells.append(f"{own[MEASURES[measure].column].mean():.1f}")
            body.append((*cells[:2], *(f"{a} → {b}" for a, b in zip(cells[2::2], cells[3::2], strict=True))))
    head = ("Scenario", "Policy", *(measure_title(measure) for measure in TABLE_MEASURES))
    seeds = len(ours["seed"].unique())
    return TextTable(f"Guard: kill-all without veto → shed with veto ({_seeds(seeds)})", head, body, head[2:])


def ablation_table(runs: pd.DataFrame) -> TextTable:
    """What each variant changes, means over scenarios and seeds."""
    runs = runs[runs["status"] == "ok"].copy()
    runs["variant"] = runs["scenario"].str.split(SEPARATOR, n=1, regex=False).str[1]
    body = []
    for variant in VARIANTS:
        cells = []
        for policy in POLICIES:
            own = runs[(runs["variant"] == variant.name) & (runs["policy"] == policy)]
            means = [own[MEASURES[measure].column].mean() for measure in TABLE_MEASURES]
            cells.append("" if own.empty else " / ".join(f"{mean:.1f}" for mean in means))
        body.append((variant.title, *cells))
    seeds = len(runs["seed"].unique())
    note = (
        "Each cell: finished % / killed % (as in Table I) / final SoC % / wasted kWh; means over the four "
        "critical scenarios."
    )
    return TextTable(f"Ablation ({_seeds(seeds)})", ("Variant", *POLICIES), body, POLICIES, note)


def left_out(runs: pd.DataFrame) -> int:
    """How many executions are not in the tables because a run of theirs failed."""
    samples = [(sample_of(own, resamples=1), own) for _, own in runs.groupby("scenario")]
    return sum(
        own.groupby(["tuple", "seed"]).ngroups if sample is None else sample.left_out
        for sample, own in samples
    )


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _scenario(row: RankRow) -> str:
    """The scenario's title, in the first line of its block only."""
    title = SCENARIO_TITLES.get(row.scenario, row.scenario)
    return title if row.measure == TABLE_MEASURES[0] else ""
