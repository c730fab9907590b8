"""Comparison of policies on the same executions of scenarios: means, and paired differences from one policy.

A *block* is a case under one guard setting. Its executions are (scenario, tuple, seed). Executions with the
same pair of days (tuple) and the same noise seed are resampled together across scenarios; days are drawn
first, then seeds. If a block has only one pair of days, its intervals and tests refer to the noise only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.plugins.campaigns.samples import RESAMPLES, Sample, bootstrap_weights, interval
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.units import counted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Measure:
    """Column of the table of runs by which policies are compared, with its better direction."""

    column: str
    title: str
    unit: str
    higher_is_better: bool
    head: str = ""
    """Short heading of the measure's means: a line without grid measures has at most 120 characters."""
    form: str = "{:.2f}"
    """Format of the means."""


COMPARED: Final[Mapping[str, Measure]] = {
    "finished": Measure("finished_pct", "finished jobs", "%", True, "fin. %"),
    "work": Measure("work_finished_pct", "finished work", "%", True, "work %"),
    "killed": Measure("killed_as_in_paper_pct", "killed jobs", "%", False, "killed"),
    "off": Measure("off_points", "distance from target", "points", False, "off", "{:.1f}"),
    "below": Measure("below_points", "below target", "points", False, "below", "{:.1f}"),
    "wasted": Measure("wasted_kwh", "wasted", "kWh", False, "wasted", "{:.1f}"),
    "redone": Measure("redone_kwh", "work redone", "kWh", False, "redone"),
    "curtailed": Measure("curtailed_kwh", "curtailed", "kWh", False, "curt.", "{:.1f}"),
    "lost": Measure("lost_kwh", "wasted + curtailed", "kWh", False, "w + c", "{:.1f}"),
    "slowdown": Measure("bounded_slowdown_mean", "slowdown, mean", "", False, "slowd."),
    "slowdown95": Measure("bounded_slowdown_p95", "slowdown, p95", "", False, "p95", "{:.1f}"),
    "cost": Measure("cost", "cost of imported energy", "", False, "cost"),
    "carbon": Measure("carbon_kg", "carbon of imported energy", "kg", False, "CO2 kg", "{:.1f}"),
    "missed": Measure("deadline_jobs_missed", "deadlines missed", "jobs", False, "missed", "{:.1f}"),
}
"""``killed`` is counted as in the paper (killed, reached the walltime or still running); the slowdown is
bounded, and counts only started jobs. The last three require a site with a grid, or jobs with deadlines,
and ``redone`` jobs that come back after a kill."""
_WHERE_KNOWN: Final = ("cost", "carbon", "missed", "redone")
_EXACT_UP_TO: Final = 16
"""Maximum number of clusters for which all sign patterns are tried."""
_DRAWN: Final = 1 << 16
"""Number of sign patterns drawn if not all are tried."""
_PATTERNS_AT_ONCE: Final = 1 << 12
_TIE: Final = 1e-9
SIGNIFICANT: Final = 0.05
Block = tuple[str, str]
"""Case, and the guard of its runs."""
ComparedPolicies = Sample[str]
"""Conditions are policies; an execution is (scenario, tuple, seed)."""
Execution = tuple[str, int, int]


def blocks_of(
    runs: pd.DataFrame,
    case_of: Callable[[str], str] = str,
    *,
    axes: Sequence[str] = (),
    resamples: int = RESAMPLES,
) -> dict[Block, ComparedPolicies]:
    """Return the samples of all blocks that have executions, in the order of the rows.

    ``case_of`` returns the case of a scenario, by its name: by default each is a separate case. ``axes`` are
    columns of swept sizes: each point of a sweep is a separate case.
    """
    blocks: dict[Block, ComparedPolicies] = {}
    weights = partial(execution_weights, resamples=resamples)
    for (case, setting), own in with_derived(runs, case_of, axes).groupby(["block", "setting"], sort=False):
        sample = policy_sample(own, ["scenario", "tuple", "seed"], _measured(own), weights)
        if sample is not None:
            blocks[str(case), str(setting)] = sample
    return blocks


def _measured(runs: pd.DataFrame) -> dict[str, Measure]:
    """Return the measures of the runs: those of a grid and of deadlines only if available."""
    return {
        name: measure
        for name, measure in COMPARED.items()
        if name not in _WHERE_KNOWN or (measure.column in runs and runs[measure.column].notna().any())
    }


def with_derived(
    runs: pd.DataFrame, case_of: Callable[[str], str] = str, axes: Sequence[str] = ()
) -> pd.DataFrame:
    """Return rows of a campaign with derived measures, case and guard setting."""
    derived = runs.copy()
    derived["off_points"] = derived["soc_distance_points"].abs()
    derived["below_points"] = (-derived["soc_distance_points"]).clip(lower=0.0)
    derived["lost_kwh"] = derived["wasted_kwh"] + derived["curtailed_kwh"]
    sizes = zip(*(derived[axis] for axis in axes), strict=True) if axes else [()] * len(derived)
    derived["block"] = [
        ", ".join([case_of(name), *(f"{a} {v:g}" for a, v in zip(axes, own, strict=True) if v == v)])
        for name, own in zip(derived["scenario"], sizes, strict=True)
    ]
    vetoes = np.where(derived["veto"].astype(bool), " with veto", " without veto")
    derived["setting"] = derived["guard"].astype(str) + vetoes
    return derived


def policy_sample(
    runs: pd.DataFrame,
    keys: list[str],
    measures: Mapping[str, Measure],
    weights_of: Callable[[Any], FloatArray],
) -> Sample[str] | None:
    """Return the executions, identified by ``keys``, in which all policies completed; None without one.

    ``weights_of`` returns the weights of executions, which are tuples of their keys.
    """
    names = list(runs["policy"].unique())
    ended = runs[runs["status"] == "ok"]
    counts = ended.groupby(keys, sort=False)["policy"].nunique()
    whole = counts[counts == len(names)].index
    if len(whole) == 0:
        return None
    wide = ended.set_index([*keys, "policy"])
    values = {
        name: wide[measure.column].unstack("policy").loc[whole, names].to_numpy(np.float64)
        for name, measure in measures.items()
    }
    left_out = int(runs.groupby(keys).ngroups) - len(whole)
    return Sample(tuple(names), values, tuple(whole), weights_of(tuple(whole)), left_out)


def execution_weights(executions: Sequence[Execution], *, resamples: int = RESAMPLES) -> FloatArray:
    """Return the weights of executions: pairs of days are drawn, then seeds, equally for all scenarios."""
    pairs = [(number, seed) for _, number, seed in executions]
    units = list(dict.fromkeys(pairs))
    weights = bootstrap_weights([number for number, _ in units], resamples=resamples)
    return weights[:, [units.index(pair) for pair in pairs]]


def clusters_of(executions: Sequence[Execution]) -> tuple[str, IndexArray]:
    """Return the independent unit of the executions, ``days`` or ``noises``, and the index of each.

    Pairs of days if there are several; else noise seeds.
    """
    days = [number for _, number, _ in executions]
    several = len(set(days)) > 1
    labels = days if several else [seed for *_, seed in executions]
    return "days" if several else "noises", np.unique(labels, return_inverse=True)[1]


def sign_flip_p(differences: npt.ArrayLike) -> float:
    """Return the two-sided p-value of the paired permutation test; NaN for fewer than two differences.

    Under the null hypothesis each difference may equally have the other sign. The p-value is the share of all
    sign patterns whose mean is at least as far from 0 as the observed one (Fisher, *The Design of
    Experiments*, 1935, section 21); if there are too many patterns, of a random sample plus the observed one.
    """
    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    if count < 2 or np.isnan(values).any():
        return math.nan
    limit = abs(values.sum()) - _TIE * np.abs(values).sum()
    if count <= _EXACT_UP_TO:
        total, drawn = 1 << count, None
    else:
        total, drawn = _DRAWN, np.random.default_rng(1)
    extreme = 0
    for start in range(0, total, _PATTERNS_AT_ONCE):
        size = min(_PATTERNS_AT_ONCE, total - start)
        if drawn is None:
            bits = (np.arange(start, start + size)[:, None] >> np.arange(count)) & 1
        else:
            bits = drawn.integers(2, size=(size, count))
        extreme += int(np.count_nonzero(np.abs((2.0 * bits - 1.0) @ values) >= limit))
    return extreme / total if drawn is None else (extreme + 1) / (total + 1)


@dataclass(frozen=True)
class PairedDifference:
    """Difference of one policy minus another in a measure, over the executions of a block."""

    mean: float
    low: float
    high: float
    """Interval of the mean (95 %)."""
    p: float
    """P-value of the permutation test on the means of independent clusters; NaN if there is only one."""
    as_good: float
    """Share of executions in which the policy is at least as good, 0 to 1; NaN if a value is missing."""
    higher_is_better: bool

    @property
    def text(self) -> str:
        """Mean and interval."""
        if math.isnan(self.mean):
            return "–"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"

    @property
    def verdict(self) -> str:
        """``better`` or ``worse``; ``""`` if interval or test are inconclusive."""
        if not (self.low > 0.0 or self.high < 0.0) or not self.p < SIGNIFICANT:
            return ""
        return "better" if (self.mean > 0.0) == self.higher_is_better else "worse"


def paired_difference(sample: ComparedPolicies, measure: str, policy: str, against: str) -> PairedDifference:
    """Compare two policies. Raises KeyError if one did not run."""
    better = COMPARED[measure].higher_is_better
    differences = sample.of(measure, policy) - sample.of(measure, against)
    resampled = sample.mean(measure, policy) - sample.mean(measure, against)
    low, high = interval(resampled)
    _, cluster = clusters_of(sample.executions)
    means = np.bincount(cluster, weights=differences) / np.bincount(cluster)
    signed = differences if better else -differences
    scale = np.maximum(np.abs(sample.of(measure, policy)), 1.0)
    as_good = math.nan if np.isnan(signed).any() else float(np.mean(signed >= -_TIE * scale))
    return PairedDifference(float(resampled[0]), float(low), float(high), sign_flip_p(means), as_good, better)


def mean_heads(sample: ComparedPolicies) -> tuple[str, ...]:
    """Return the headings of the measures of a block."""
    return tuple(measure.head for name, measure in COMPARED.items() if name in sample.values)


def mean_cells(means: Mapping[str, float]) -> tuple[str, ...]:
    """Return the cells below `mean_heads`."""
    shown = ((name, measure.form) for name, measure in COMPARED.items() if name in means)
    return tuple(number_text(means[name], form) for name, form in shown)


def means_table(title: str, sample: ComparedPolicies) -> TextTable:
    """Return the means of all measures, one row per policy."""
    rows: list[tuple[str, ...]] = [
        (policy, *mean_cells({name: float(sample.means(name)[0][place]) for name in sample.values}))
        for place, policy in enumerate(sample.conditions)
    ]
    note = (
        f"{executions_text(sample)}. fin., work: share of jobs and of work finished; killed: %; off, below: "
        "distance of the final state of charge from the target and shortfall below it, percentage points; "
        "wasted, curt., w + c: kWh; slowd., p95: "
        "bounded slowdown of started jobs, mean and 95 % quantile."
    )
    heads = mean_heads(sample)
    return TextTable(f"Means: {title}", ("Policy", *heads), rows, heads, note)


def difference_table(title: str, sample: ComparedPolicies, against: str) -> TextTable:
    """Return the differences of all policies from one, one row per policy and measure."""
    rows: list[tuple[str, ...]] = []
    unit, cluster = clusters_of(sample.executions)
    count = int(cluster.max()) + 1
    for policy in sample.conditions:
        if policy == against:
            continue
        for number, column in enumerate(sample.values):
            measure = COMPARED[column]
            paired = paired_difference(sample, column, policy, against)
            unit_of = "points" if measure.unit == "%" else measure.unit
            what = f"{measure.title} [{unit_of}]" if unit_of else measure.title
            difference = paired.text if count > 1 else number_text(paired.mean, "{:+.2f}")
            as_good = number_text(100.0 * paired.as_good, "{:.0f} %")
            name = policy if number == 0 else ""
            rows.append((name, what, difference, p_text(paired.p), as_good, paired.verdict))
    kind = "pairs of days" if unit == "days" else "noise seeds of the same days"
    note = (
        f"{executions_text(sample)}; intervals: 95 %, bootstrap; p: permutation test on the means of {count} "
        f"{kind}, each measure separately; as good: share of executions in which the policy is at least as "
        "good; verdict: given if the interval excludes 0 and p < 0.05."
    )
    if count == 1:
        note = f"{executions_text(sample)} of the same days and noise seed: no interval, no test."
    elif too_few := _too_few(count, unit):
        note += f" {too_few}"
    head = ("Policy", "Measure", "Difference", "p", "As good", "Verdict")
    return TextTable(f"Differences from {against}: {title}", head, rows, ("Difference", "p", "As good"), note)


def _too_few(count: int, unit: str) -> str:
    """Return a note if the number of clusters is too small for any verdict; else ""."""
    if (least_p := 2.0 / 2**count) < SIGNIFICANT:
        return ""
    needed = next(more for more in range(count, _EXACT_UP_TO) if 2.0 / 2**more < SIGNIFICANT)
    remedy = f"--seeds {needed} or more, with as many seeds in the scenario"
    if unit == "days":
        remedy = f"a scenario of {needed} or more pairs of days ([[tuples]]); more seeds do not lower p"
    return f"No verdict is possible with {count}: p cannot be below {least_p:.4g}. Use {remedy}."


def paired_tables(blocks: Mapping[Block, ComparedPolicies], against: str) -> Iterator[TextTable]:
    """Yield, for each block, the means of all policies and their differences from one of them, if it ran."""
    for (case, setting), sample in blocks.items():
        title = f"{case}, guard {setting}"
        yield means_table(title, sample)
        if len(sample.conditions) > 1 and against in sample.conditions:
            yield difference_table(title, sample, against)


def p_text(p: float) -> str:
    """Format a p-value for tables."""
    return "< 0.001" if p < 0.001 else number_text(p, "{:.3f}")


def number_text(value: float, form: str) -> str:
    """Format a number for tables: "–" if there is none, such as the slowdown if no job started."""
    return "–" if math.isnan(value) else form.format(value)


def executions_text(sample: Sample[Any]) -> str:
    """Return the number of executions, and of those excluded."""
    left = f" ({sample.left_out} excluded because a run failed)" if sample.left_out else ""
    return counted(len(sample.executions), "execution") + left
