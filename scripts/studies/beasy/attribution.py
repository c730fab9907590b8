"""Effect of readings of the BEASY paper on its claims: one reading changed at a time, and all together.

The paper does not specify how its competitors treat running jobs and shortages, what its plans use of single
jobs, what `power-reactive` counts, and the sizes of its site. A variant changes one of our readings; the runs
of all policies that it affects are repeated, and judged together with the runs of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES, Scenario, SyntheticWorkload
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.beasy.claims import CLAIMS, CRITICAL
from studies.beasy.study import (
    PAPER_RANKS,
    SEPARATOR,
    TABLE_MEASURES,
    Change,
    PolicySample,
    Study,
    Variant,
    changed_battery,
    changed_plan,
    ranks,
    sample_of,
    study_of,
    with_options,
)
from studies.claims import Claim, Within, judge, rank_agreement

if TYPE_CHECKING:
    import pandas as pd

_REFITTING: Final = ("peak", "next", "last", "workload")
_PLANNED: Final = ("follow-plan", *_REFITTING, "beasy")


def with_workload(**values: Any) -> Change:
    """A change of the jobs that are drawn."""

    def change(scenario: Scenario) -> Scenario:
        tuples = []
        for part in scenario.tuples:
            if isinstance(part.workload, SyntheticWorkload):
                workload = msgspec.structs.replace(part.workload, **values)
                part = msgspec.structs.replace(part, workload=workload)
            tuples.append(part)
        return msgspec.structs.replace(scenario, tuples=tuple(tuples))

    return change


def together(*changes: Change) -> Change:
    """Return one change that makes several, one after the other."""

    def change(scenario: Scenario) -> Scenario:
        for each in changes:
            scenario = each(scenario)
        return scenario

    return change


def with_production(factor: float) -> Change:
    """Solar and wind power ``factor`` times as strong."""

    def change(scenario: Scenario) -> Scenario:
        tuples = []
        for part in scenario.tuples:
            sizes = {name: getattr(part.production, name) * factor for name in ("pv_kw", "wind_kw")}
            production = msgspec.structs.replace(part.production, **sizes)
            tuples.append(msgspec.structs.replace(part, production=production))
        return msgspec.structs.replace(scenario, tuples=tuple(tuples))

    return change


_KEEP_NEVER: Final = with_options(_REFITTING, keep="never")
_BY_STEP: Final = with_options(_REFITTING, shortage="by-step")
_COUNT_FULL: Final = with_options(("power-reactive",), count="full")
_SLEEP_FIRST: Final = with_options(("beasy",), shortage="sleep-first")
_EACH_STEP: Final = changed_plan(forecast_step="")
READINGS: Final[tuple[Variant, ...]] = (
    Variant("never", "servers of running jobs follow the plan", _KEEP_NEVER, _REFITTING),
    Variant(
        "surplus",
        "servers of running jobs stay on while E_comp > 0",
        with_options(_REFITTING, keep="surplus"),
        _REFITTING,
    ),
    Variant("by-step", "a shortage lowers busy servers step by step", _BY_STEP, _REFITTING),
    *(
        Variant(
            f"count-{count}",
            f"power-reactive counts {what}",
            with_options(("power-reactive",), count=count),
            ("power-reactive",),
        )
        for count, what in (
            ("actual", "busy servers at full power, others at idle power"),
            ("idle", "every server at idle power"),
            ("full", "every server at full power"),
        )
    ),
    Variant(
        "sleep-first",
        "in a shortage BEASY puts idle servers to sleep before any gets slower",
        _SLEEP_FIRST,
        ("beasy",),
    ),
    Variant("each-step", "plans know every job to the step", _EACH_STEP, _PLANNED),
    Variant(
        "none",
        "none of these readings",
        together(_KEEP_NEVER, _BY_STEP, _COUNT_FULL, _SLEEP_FIRST, _EACH_STEP),
        (*_PLANNED, "power-reactive"),
    ),
    Variant("battery-half", "half the battery (100 kWh)", changed_battery(0.5), PAPER_POLICIES),
    Variant("more-power", "a quarter more solar and wind power", with_production(1.25), PAPER_POLICIES),
    Variant("less-power", "15 % less solar and wind power", with_production(0.85), PAPER_POLICIES),
    Variant("jobs-to-the-end", "jobs arrive up to the end", with_workload(quiet_end_h=0.0), PAPER_POLICIES),
    Variant("jobs-900", "900 jobs in both workloads", with_workload(jobs=900), PAPER_POLICIES),
    Variant("spend-all", "BEASY spends all of a surplus", with_options(("beasy",), spend="all"), ("beasy",)),
    Variant(
        "window-work",
        "BEASY starts late jobs whose work can still be done",
        with_options(("beasy",), window_end="work"),
        ("beasy",),
    ),
)
"""Readings of the paper: each changes one or several of our readings, named in the table's first column."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a study with the paper."""

    true: int
    """Number of claims that are true of the means."""
    judged: int
    cells: int
    """Number of places in Table I that are the same."""
    all_cells: int
    rho: float
    """Mean of Spearman's correlation over the rows of Table I."""
    distance: float
    """Sum of the squared distances of our numbers to the printed ones, in units of the tolerances."""
    within: int
    """Number of printed numbers from which ours differ by no more than the tolerance."""
    printed: int


def agreement_of(study: Study) -> Agreement:
    """Compare a study with the claims about its scenarios and with Table I."""
    truths = [*truths_of(study).values()]
    rows = [
        (ranks(sample, measure)[0], PAPER_RANKS[name][measure])
        for name, sample in study.items()
        for measure in TABLE_MEASURES
    ]
    distances = np.array([*distances_of(study).values()])
    return Agreement(
        true=sum(truths),
        judged=len(truths),
        cells=sum(int(np.sum(ours == np.array(theirs))) for ours, theirs in rows),
        all_cells=sum(len(theirs) for _, theirs in rows),
        rho=float(np.nanmean([rank_agreement(ours, theirs) for ours, theirs in rows])),
        distance=float(np.sum(distances**2)),
        within=int(np.count_nonzero(np.abs(distances) <= 1.0)),
        printed=len(distances),
    )


def truths_of(study: Study) -> dict[str, bool]:
    """Whether each claim about a study's scenarios is true of its means, by name."""
    together = {"critical": CRITICAL, "table": (*CRITICAL, "average")}
    parts = {*study, *(part for part, scenarios in together.items() if set(study) >= set(scenarios))}
    return {claim.name: bool(claim.statement(study)[0][0]) for claim in CLAIMS if claim.part in parts}


def distances_of(study: Study) -> dict[str, float]:
    """Return the distance of our number from the printed one, in units of its tolerance, by claim."""
    found = {}
    for claim in CLAIMS:
        middle_and_width = _printed_range(claim)
        if claim.part in study and middle_and_width is not None and isinstance(claim.statement, Within):
            middle, width = middle_and_width
            found[claim.name] = (float(claim.statement.quantity.values(study)[0]) - middle) / width
    return found


def _printed_range(claim: Claim) -> tuple[float, float] | None:
    """The printed number and its tolerance; None where a claim has no number with a tolerance."""
    statement = claim.statement
    if claim.number is None or not isinstance(statement, Within):
        return None
    low, high = statement.low, statement.high
    return ((low + high) / 2.0, (high - low) / 2.0) if np.isfinite(low) and low < high < np.inf else None


def attribution(scenarios: Iterable[Scenario], variants: Sequence[Variant]) -> list[Scenario]:
    """Return the scenarios in all variants, named ``SCENARIO+VARIANT``, with the policies that change."""
    found = []
    for variant in variants:
        for scenario in scenarios:
            changed = variant.change(scenario)
            parts = tuple(part for part in changed.policies if part.name in variant.policies)
            name = f"{scenario.name}{SEPARATOR}{variant.name}"
            found.append(msgspec.structs.replace(changed, name=name, policies=parts))
    return found


def study_in_variant(runs: pd.DataFrame, varied: pd.DataFrame, variant: Variant) -> dict[str, PolicySample]:
    """Return the samples of ``runs`` with a variant's rows (of ``varied``) in the place of theirs.

    Only executions that both have count.
    """
    import pandas

    parts = varied["scenario"].str.split(SEPARATOR, n=1, regex=False).str
    own = varied[parts[1] == variant.name].assign(scenario=parts[0])
    keys = ["scenario", "tuple", "seed"]
    shared = runs.merge(own[keys].drop_duplicates(), on=keys)
    own = own.merge(runs[keys].drop_duplicates(), on=keys)
    rows = pandas.concat([shared[~shared["policy"].isin(variant.policies)], own])
    order = {name: place for place, name in enumerate(PAPER_POLICIES)}
    rows = rows.assign(_place=rows["policy"].map(order)).sort_values(
        ["tuple", "seed", "_place"], kind="stable"
    )
    samples = {
        str(name): sample_of(group, resamples=1) for name, group in rows.groupby("scenario", sort=False)
    }
    return {name: sample for name in runs["scenario"].unique() if (sample := samples.get(name)) is not None}


def attribution_table(
    runs: pd.DataFrame, varied: pd.DataFrame, variants: Sequence[Variant], *, title: str = "Readings"
) -> TextTable:
    """Agreement of each variant with the paper: of all days together, and of single days on average."""
    same, studies = _studies(runs, varied, variants)
    days = _days(same)
    body = [_agreement_row("unchanged", study_of(same), map(study_of, days))]
    for variant, study in studies:
        body.append(
            _agreement_row(variant.title, study, (study_in_variant(day, varied, variant) for day in days))
        )
    head = ("Reading", "Claims true", "by day", "Cells of Table I", "rho", "D2", "within")
    note = (
        "Claims that are true of the means of all executions, and of one day's on average; places of Table I"
        " that are the same; mean correlation with Table I; sum of squared distances to the printed numbers,"
        " in units of their tolerances; printed numbers within their tolerance."
    )
    return TextTable(title, head, body, head[1:], note)


def unmet_table(runs: pd.DataFrame, varied: pd.DataFrame, variants: Sequence[Variant]) -> TextTable:
    """The claims that are false of the means, and the variants in which they are true."""
    same, studies = _studies(runs, varied, variants)
    truths = [(variant.title, truths_of(study)) for variant, study in studies]
    study = study_of(same)
    true, body = truths_of(study), list[tuple[str, ...]]()
    for verdict in judge([claim for claim in CLAIMS if not true.get(claim.name, True)], study):
        claim = verdict.claim
        found = "; ".join(title for title, those in truths if those[claim.name])
        body.append((claim.name, claim.text, claim.paper, verdict.ours, found or "none"))
    head = ("Claim", "Statement of the paper", "Paper", "Ours", "True where")
    return TextTable("Claims that are false, and the readings in which they are true", head, body)


def _studies(
    runs: pd.DataFrame, varied: pd.DataFrame, variants: Sequence[Variant]
) -> tuple[pd.DataFrame, list[tuple[Variant, Study]]]:
    """The runs with the variants' seeds, and the studies of the variants that were run in all scenarios."""
    same = runs[runs["seed"].isin(varied["seed"].unique())]
    found: list[tuple[Variant, Study]] = []
    for variant in variants:
        study = study_in_variant(same, varied, variant)
        if set(study) == set(runs["scenario"].unique()):
            found.append((variant, study))
    return same, found


def _days(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The runs of each pair of workload and production, if all scenarios have as many of them."""
    if runs.groupby("scenario")["tuple"].nunique().nunique() > 1:
        return []
    return [runs[runs["tuple"] == number] for number in sorted(runs["tuple"].unique())]


def _agreement_row(title: str, study: Study, days: Iterable[Study]) -> tuple[str, ...]:
    whole, alone = agreement_of(study), [agreement_of(day).true for day in days]
    return (
        title,
        f"{whole.true} of {whole.judged}",
        f"{np.mean(alone):.1f}" if alone else "",
        f"{whole.cells} of {whole.all_cells}",
        f"{whole.rho:.2f}",
        f"{whole.distance:.0f}",
        f"{whole.within} of {whole.printed}",
    )
