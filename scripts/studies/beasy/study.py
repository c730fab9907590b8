"""The BEASY paper's experiments: campaigns, each in a folder of its own below one, and tables of results.

A variant of the ablation changes one thing of a scenario. Table I compares ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.energy.site import GuardMode
from beasy_sched.errors import BeasyError
from beasy_sched.model.choices import Surplus
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign
from beasy_sched.plugins.campaigns.folder import must_be_empty
from beasy_sched.plugins.campaigns.paired import Measure, policy_sample
from beasy_sched.plugins.campaigns.samples import RESAMPLES, Sample, bootstrap_weights, interval
from beasy_sched.plugins.campaigns.scenario import (
    PAPER_GUARDS,
    PAPER_POLICIES,
    GuardPart,
    Scenario,
    SyntheticWorkload,
    quick,
)
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import Verdict, claim_table, competition_ranks, rank_agreement, tally

if TYPE_CHECKING:
    import pandas as pd

Change = Callable[[Scenario], Scenario]
SEPARATOR: Final = "+"
"""Between the names of a scenario and of a variant."""
_BATTERY_SIZES: Final = ("capacity_kwh", "charge_limit_kw", "discharge_limit_kw")
POLICIES: Final = ("beasy", "workload-reactive", "power-reactive", "next")
"""BEASY and its main rivals."""


@dataclass(frozen=True)
class Variant:
    """A change of a scenario. ``policies`` are those that it can make a difference to."""

    name: str
    title: str
    change: Change
    policies: tuple[str, ...] = POLICIES


def changed_scenario(**values: Any) -> Change:
    """A change of some of a scenario's parts."""
    return lambda scenario: msgspec.structs.replace(scenario, **values)


def _guard(mode: GuardMode, veto: bool) -> Change:
    return changed_scenario(guards=(GuardPart(mode=mode, veto=veto),))


def changed_plan(**values: Any) -> Change:
    """A change of how plans are made."""
    return lambda scenario: changed_scenario(plan=msgspec.structs.replace(scenario.plan, **values))(scenario)


def changed_battery(factor: float) -> Change:
    """A battery ``factor`` times as large, its limits too."""

    def change(scenario: Scenario) -> Scenario:
        battery = scenario.site["battery"]
        sizes = {key: float(battery[key]) * factor for key in _BATTERY_SIZES if key in battery}
        return changed_scenario(site={**scenario.site, "battery": {**battery, **sizes}})(scenario)

    return change


def _run_times(factor: float) -> Change:
    """Jobs ``factor`` times as long, and fewer in proportion."""

    def change(scenario: Scenario) -> Scenario:
        tuples = []
        for part in scenario.tuples:
            if isinstance(part.workload, SyntheticWorkload):
                part = msgspec.structs.replace(part, workload=part.workload.stretched(factor))
            tuples.append(part)
        return msgspec.structs.replace(scenario, tuples=tuple(tuples))

    return change


def with_options(policies: Sequence[str], **options: Any) -> Change:
    """A change of some policies' options; their others stay."""

    def change(scenario: Scenario) -> Scenario:
        parts = tuple(
            msgspec.structs.replace(part, options={**part.options, **options})
            if part.name in policies
            else part
            for part in scenario.policies
        )
        return msgspec.structs.replace(scenario, policies=parts)

    return change


def _beasy(**options: Any) -> Change:
    return with_options(("beasy",), **options)


_ONLY_BEASY: Final = ("beasy",)
_PLANNED: Final = ("beasy", "next")
VARIANTS: Final[tuple[Variant, ...]] = (
    Variant("as-it-is", "as it is (guard kill-all, no veto)", lambda scenario: scenario),
    Variant("veto", "guard kill-all, veto", _guard(GuardMode.KILL_ALL, True)),
    Variant("shed", "guard shed, no veto", _guard(GuardMode.SHED, False)),
    Variant("shed-veto", "guard shed, veto", _guard(GuardMode.SHED, True)),
    Variant("release", "BEASY gives reservations back at once", _beasy(release="at-once"), _ONLY_BEASY),
    Variant("no-compensation", "BEASY does not compensate", _beasy(compensate=False), _ONLY_BEASY),
    Variant("idle-power", "BEASY counts idle power", _beasy(idle_power=True), _ONLY_BEASY),
    Variant("store", "plan: surplus is stored first", changed_plan(surplus=Surplus.STORE), _PLANNED),
    Variant("min-on-0", "plan: servers on for any time", changed_plan(minimum_on_s=0.0), _PLANNED),
    Variant("min-on-4h", "plan: servers on for 4 h or more", changed_plan(minimum_on_s=14_400.0), _PLANNED),
    Variant("battery-half", "half the battery", changed_battery(0.5)),
    Variant("battery-double", "twice the battery", changed_battery(2.0)),
    Variant("short-jobs", "jobs a third as long, three times as many", _run_times(1 / 3)),
    Variant("long-jobs", "jobs three times as long, a third as many", _run_times(3.0)),
)  # fmt: skip


def ablation(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios in all variants, named ``SCENARIO+VARIANT``."""
    found = []
    for variant in VARIANTS:
        for scenario in scenarios:
            policies = tuple(part for part in scenario.policies if part.name in variant.policies)
            named = changed_scenario(policies=policies, name=f"{scenario.name}{SEPARATOR}{variant.name}")
            found.append(variant.change(named(scenario)))
    return found


PAPERS_GUARD, OUR_GUARD = PAPER_GUARDS
SHED: Final = "-shed"
VARIED: Final = "-readings"
ABLATION: Final = "ablation"
HEADLINES: Final = ("critical", "average")


@dataclass(frozen=True)
class Size:
    """Number of seeds of each part; 0 omits the part."""

    headline: int
    shed: int
    ablation: int
    small: bool = False
    """Whether the scenarios' quick relatives are run."""


def experiments(headline: str, scenarios: Sequence[Scenario], size: Size) -> dict[str, list[Scenario]]:
    """Return the campaigns, by folder: under the papers' guard, ours, and the ablation, as far as wanted."""
    if size.small:
        scenarios = [quick(scenario) for scenario in scenarios]

    def under(guard: GuardPart, seeds: int) -> list[Scenario]:
        def first(scenario: Scenario) -> tuple[int, ...]:
            return tuple(range(scenario.seeds[0], scenario.seeds[0] + seeds))

        return [changed_scenario(guards=(guard,), seeds=first(scenario))(scenario) for scenario in scenarios]

    found = {headline: under(PAPERS_GUARD, size.headline)}
    if size.shed:
        found[headline + SHED] = under(OUR_GUARD, size.shed)
    if size.ablation:
        found[ABLATION] = ablation(under(PAPERS_GUARD, size.ablation))
    return found


def check_folder(folder: Path) -> None:
    """See that ``folder`` has a campaign of a reproduction, or nothing. Raises ConfigError."""
    names = [ABLATION, *(name + part for name in HEADLINES for part in ("", SHED, VARIED))]
    if not any((folder / name).is_dir() for name in names):
        must_be_empty(folder, "an earlier reproduction")


def campaign_in(folder: Path, name: str) -> Campaign | None:
    """Return the campaign ``name`` of a reproduction if it exists and is complete."""
    try:
        campaign = read_campaign(folder / name)
    except BeasyError:
        return None
    return campaign if campaign.complete else None


MEASURES: Final[Mapping[str, Measure]] = {
    "finished": Measure("finished_pct", "Finished jobs", "%", True),
    "killed": Measure("killed_as_in_paper_pct", "Killed jobs", "%", False),
    "soc": Measure("soc_final_pct", "SoC", "%", True),
    "wasted": Measure("wasted_kwh", "Wasted energy", "kWh", False),
    "shot": Measure("killed_pct", "Killed for lack of energy", "%", False),
    "postponed": Measure("postponed_pct", "Postponed jobs", "%", False),
    "distance": Measure("soc_distance_points", "Distance from the target", "points", True),
    "lowest": Measure("soc_lowest_pct", "Lowest SoC", "%", True),
    "slowdown": Measure("bounded_slowdown_mean", "Bounded slowdown", "", False),
}
"""``killed`` is Table I's (killed, reached the walltime or still running), ``shot`` only those killed. SoC is
best where it is highest, as in the paper."""

TABLE_MEASURES: Final = ("finished", "killed", "soc", "wasted")
"""Measures of Table I."""
MEAN_MEASURES: Final = (*TABLE_MEASURES, "slowdown")
"""Measures whose means are reported: the slowdown is in no table of the paper."""


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
"""Ranks that the paper prints, by scenario and measure, in the order of `PAPER_POLICIES`."""


PolicySample = Sample[str]
"""Conditions are policies; an execution is a (tuple, seed)."""
Study = Mapping[str, PolicySample]
"""Samples of a study, by scenario."""


def sample_of(runs: pd.DataFrame, *, resamples: int = RESAMPLES) -> PolicySample | None:
    """Return the sample of one scenario's rows of one guard setting; None without a whole execution."""

    def weights(executions: Sequence[tuple[int, int]]) -> FloatArray:
        return bootstrap_weights([number for number, _ in executions], resamples=resamples)

    return policy_sample(runs, ["tuple", "seed"], MEASURES, weights)


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
        for measure in MEAN_MEASURES:
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
    unit = MEASURES[measure].unit
    return f"{MEASURES[measure].title} [{unit}]" if unit else MEASURES[measure].title


def verdict_tables(verdicts: Sequence[Verdict]) -> list[TextTable]:
    """The numbers that the paper prints, and ours; and all claims that could be judged."""
    printed = [verdict for verdict in verdicts if verdict.claim.number is not None]
    name = {"Claim": "claim.name"}
    both = {"Statement of the paper": "claim.text", "Paper": "claim.paper", "Ours": "ours"}
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
    head = ("Scenario", "Policy", *(_with_unit(measure) for measure in MEAN_MEASURES))
    return TextTable(f"Guard: kill-all without veto → shed with veto ({_seeds(ours)})", head, body, head[2:])


def _means(runs: pd.DataFrame) -> list[str]:
    return [f"{runs[MEASURES[measure].column].mean():.1f}" for measure in MEAN_MEASURES]


def ablation_table(runs: pd.DataFrame) -> TextTable:
    """Return what each variant changes: means over scenarios and seeds."""
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
        "Each cell: finished % / killed % (as in Table I) / final SoC % / wasted kWh / bounded slowdown;"
        " means over the four critical scenarios."
    )
    return TextTable(f"Ablation ({_seeds(runs)})", ("Variant", *POLICIES), body, POLICIES, note)


def _seeds(runs: pd.DataFrame) -> str:
    count = runs["seed"].nunique()
    return f"{count} seed{'' if count == 1 else 's'}"
