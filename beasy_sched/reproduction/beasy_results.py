"""Results of the BEASY paper's experiments: measures, samples and tables; Table I compares ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.arrays import IndexArray
from beasy_sched.campaign.scenario import PAPER_POLICIES
from beasy_sched.reproduction.beasy_study import POLICIES, SEPARATOR, VARIANTS
from beasy_sched.reproduction.claims import (
    RESAMPLES,
    Sample,
    Verdict,
    bootstrap_weights,
    claim_table,
    competition_ranks,
    interval,
    rank_agreement,
    tally,
)
from beasy_sched.reproduction.text_table import TextTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Measure:
    """A column of results under the name that claims use."""

    column: str
    title: str
    unit: str
    higher_is_better: bool


MEASURES: Final[Mapping[str, Measure]] = {
    "finished": Measure("finished_pct", "Finished jobs", "%", True),
    "killed": Measure("killed_as_in_paper_pct", "Killed jobs", "%", False),
    "soc": Measure("soc_final_pct", "SoC", "%", True),
    "wasted": Measure("wasted_kwh", "Wasted energy", "kWh", False),
    "shot": Measure("killed_pct", "Killed for lack of energy", "%", False),
    "postponed": Measure("postponed_pct", "Postponed jobs", "%", False),
    "distance": Measure("soc_distance_points", "Distance from the target", "points", True),
    "lowest": Measure("soc_lowest_pct", "Lowest SoC", "%", True),
}
"""``killed`` is Table I's (killed, reached the walltime or still running), ``shot`` only those killed. SoC is
best where it is highest, as in the paper."""

TABLE_MEASURES: Final = ("finished", "killed", "soc", "wasted")
"""Those of Table I."""


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


PolicySample = Sample[str]
"""Conditions are policies; an execution is a (tuple, seed)."""
Study = Mapping[str, PolicySample]
"""Samples by scenario."""


def sample_of(runs: pd.DataFrame, *, resamples: int = RESAMPLES) -> PolicySample | None:
    """Return the sample of one scenario's rows of one guard setting; None without a whole execution."""
    names = list(runs["policy"].unique())
    ended = runs[runs["status"] == "ok"]
    keys = ["tuple", "seed"]
    counts = ended.groupby(keys)["policy"].nunique()
    whole = counts[counts == len(names)].index
    if len(whole) == 0:
        return None
    wide = ended.set_index([*keys, "policy"])
    values = {
        name: wide[measure.column].unstack("policy").loc[whole, names].to_numpy(np.float64)
        for name, measure in MEASURES.items()
    }
    weights = bootstrap_weights(whole.get_level_values("tuple").to_numpy(), resamples=resamples)
    executions = tuple((int(number), int(seed)) for number, seed in whole)
    return Sample(tuple(names), values, executions, weights, runs.groupby(keys).ngroups - len(whole))


def study_of(runs: pd.DataFrame) -> dict[str, PolicySample]:
    """Return the samples of all scenarios in rows of one guard setting, in the order of the rows."""
    found = {str(name): sample_of(own) for name, own in runs.groupby("scenario", sort=False)}
    return {name: sample for name, sample in found.items() if sample is not None}


def left_out(runs: pd.DataFrame) -> int:
    """Number of executions excluded from the tables because one of their runs failed."""
    samples = [sample_of(own, resamples=1) for _, own in runs.groupby("scenario")]
    whole = sum(len(sample.executions) for sample in samples if sample is not None)
    return int(runs.groupby(["scenario", "tuple", "seed"]).ngroups) - whole


def ranks(
    sample: PolicySample, measure: str, *, from_worst: bool = False, among: Sequence[str] | None = None
) -> IndexArray:
    """Ranks of the policies' means, of all or ``among`` some: ours, then in each resample."""
    means = sample.means(measure)[:, [sample.column(name) for name in among or sample.conditions]]
    better = MEASURES[measure].higher_is_better
    return competition_ranks(means, higher_is_better=better, from_worst=from_worst)


def result_tables(study: Study) -> list[TextTable]:
    """Table I and the means behind it; of each, one for all scenarios with the same policies."""
    groups: dict[tuple[str, ...], dict[str, PolicySample]] = {}
    for scenario, sample in study.items():
        groups.setdefault(sample.conditions, {})[scenario] = sample
    return [*map(_rank_table, groups.values()), *map(_mean_table, groups.values())]


def _rank_table(study: Study) -> TextTable:
    """Table I, our rank before the paper's."""
    rows = []
    for scenario, sample in study.items():
        paper = PAPER_RANKS.get(scenario, {}) if sample.conditions == PAPER_POLICIES else {}
        for measure in TABLE_MEASURES:
            ours = ranks(sample, measure)[0]
            cells, rho = [str(own) for own in ours], ""
            if (theirs := paper.get(measure)) is not None:
                cells = [f"{own} ({other})" for own, other in zip(ours, theirs, strict=True)]
                agreement = rank_agreement(ours, theirs)
                rho = "" if math.isnan(agreement) else f"{agreement:.2f}"
            rows.append((_row_title(scenario, measure), MEASURES[measure].title, *cells, rho))
    note = (
        "Ranks of means: ours (the paper's); the best is 1, equals share a rank; SoC: the highest is best. "
        "rho: Spearman's correlation of the two rankings."
    )
    numbers = (*sample.conditions, "rho")
    return TextTable("Table I: ranks", ("Scenario", "Measure", *numbers), rows, numbers, note)


def _mean_table(study: Study) -> TextTable:
    """The means behind the ranks, with intervals."""
    rows = []
    for scenario, sample in study.items():
        for measure in TABLE_MEASURES:
            means = sample.means(measure)
            ends = zip(means[0], *interval(means), strict=True)
            cells = (f"{mean:.1f} [{low:.1f}, {high:.1f}]" for mean, low, high in ends)
            rows.append((_row_title(scenario, measure), _with_unit(measure), *cells))
    policies = sample.conditions
    return TextTable("Means and 95 % intervals", ("Scenario", "Measure", *policies), rows, policies)


def _row_title(scenario: str, measure: str) -> str:
    """The scenario's title, in the first line of its block only."""
    return SCENARIO_TITLES.get(scenario, scenario) if measure == TABLE_MEASURES[0] else ""


def _with_unit(measure: str) -> str:
    return f"{MEASURES[measure].title} [{MEASURES[measure].unit}]"


def verdict_tables(verdicts: Sequence[Verdict]) -> list[TextTable]:
    """The numbers that the paper prints, and ours; and all claims that could be judged."""
    printed = [verdict for verdict in verdicts if verdict.claim.number is not None]
    name = {"Claim": "claim.name"}
    both = {"What the paper says": "claim.text", "Paper": "claim.paper", "Ours": "ours"}
    columns = {**name, "Verdict": "ruling.value", **both, "True in": "true_in"}
    title = f"Claims: {tally(verdicts)}"
    return [
        claim_table(printed, {**name, "Scenario": "claim.part", **both}, title="Printed numbers"),
        claim_table(verdicts, columns, title=title, numbers=("True in",)),
    ]


_GUARD_POLICIES: Final = ("beasy", "workload-reactive", "power-reactive", "follow-plan", "next")


def guard_table(papers: pd.DataFrame, ours: pd.DataFrame) -> TextTable:
    """BEASY and rivals under both guards, on the executions that both have."""
    body = []
    keys = ["scenario", "tuple", "seed"]
    under_both = papers.merge(ours[keys].drop_duplicates(), on=keys), ours
    for scenario in ours["scenario"].unique():
        for policy in _GUARD_POLICIES:
            both = [_means(r[(r["scenario"] == scenario) & (r["policy"] == policy)]) for r in under_both]
            body.append((str(scenario), policy, *map(" → ".join, zip(*both, strict=True))))
    head = ("Scenario", "Policy", *(_with_unit(measure) for measure in TABLE_MEASURES))
    return TextTable(f"Guard: kill-all without veto → shed with veto ({_seeds(ours)})", head, body, head[2:])


def _means(runs: pd.DataFrame) -> list[str]:
    return [f"{runs[MEASURES[measure].column].mean():.1f}" for measure in TABLE_MEASURES]


def ablation_table(runs: pd.DataFrame) -> TextTable:
    """What each variant changes, means over scenarios and seeds."""
    runs = runs[runs["status"] == "ok"].copy()
    runs["variant"] = runs["scenario"].str.split(SEPARATOR, n=1, regex=False).str[1]
    body = []
    for variant in VARIANTS:
        cells = []
        for policy in POLICIES:
            own = runs[(runs["variant"] == variant.name) & (runs["policy"] == policy)]
            cells.append("" if own.empty else " / ".join(_means(own)))
        body.append((variant.title, *cells))
    note = (
        "Each cell: finished % / killed % (as in Table I) / final SoC % / wasted kWh; means over the four "
        "critical scenarios."
    )
    return TextTable(f"Ablation ({_seeds(runs)})", ("Variant", *POLICIES), body, POLICIES, note)


def _seeds(runs: pd.DataFrame) -> str:
    count = runs["seed"].nunique()
    return f"{count} seed{'' if count == 1 else 's'}"
