"""The tables of a reproduction: ranks, numbers, claims, guards, ablation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from beasy_sched.experiments.ablation import POLICIES, SEPARATOR, VARIANTS
from beasy_sched.experiments.claims import Finding, Verdict
from beasy_sched.experiments.paper_table import SCENARIO_TITLES, RankRow, measure_title
from beasy_sched.experiments.sample import MEASURES, TABLE_MEASURES, sample_of
from beasy_sched.experiments.text_table import TextTable

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
