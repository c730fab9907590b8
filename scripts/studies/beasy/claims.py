"""Claims of Sections V-A and V-B of the BEASY paper about its results, in our words.

"Killed" is Table I's count (killed, reached the walltime, still running) in claims about ranks, and ``shot`` (killed
for lack of energy) in claims about a share of killed jobs. Where the text is vague, the limit is ours and part of the
claim's text. A printed number is reproduced within the tolerances below: our site is not the paper's.
"""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.campaigns.samples import weighted_mean, weighted_spread
from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES
from studies.beasy.study import MEASURES, TABLE_MEASURES, PolicySample, Study, ranks
from studies.claims import SLACK, Claim, Minus, Several, Statement, Truth, Within, about, every, ordinal


@dataclass(frozen=True)
class PolicyQuantity:
    """A number of one policy in one scenario."""

    scenario: str
    measure: str
    policy: str

    @property
    def unit(self) -> str:
        """Unit of the measure, unless given."""
        return MEASURES[self.measure].unit

    def values(self, study: Study) -> FloatArray:
        """Return the quantity in our executions, then in each resample."""
        return self._of(study[self.scenario])

    def _of(self, sample: PolicySample) -> FloatArray:
        raise NotImplementedError


class Mean(PolicyQuantity):
    """Mean of a measure over the executions."""

    def _of(self, sample: PolicySample) -> FloatArray:
        return sample.mean(self.measure, self.policy)


class Spread(PolicyQuantity):
    """Standard deviation of a measure over the executions."""

    def _of(self, sample: PolicySample) -> FloatArray:
        return weighted_spread(sample.weights, sample.of(self.measure, self.policy))


@dataclass(frozen=True)
class ShareAbove(PolicyQuantity):
    """Share of the executions in which a measure is above a limit, %."""

    limit: float
    unit = "% of executions"

    def _of(self, sample: PolicySample) -> FloatArray:
        above = sample.of(self.measure, self.policy) > self.limit
        return weighted_mean(sample.weights, np.where(above, 100.0, 0.0))


class ShareBest(PolicyQuantity):
    """Share of the executions in which no other policy is better in a measure, %."""

    unit = "% of executions"

    def _of(self, sample: PolicySample) -> FloatArray:
        signed = sample.values[self.measure] * (1.0 if MEASURES[self.measure].higher_is_better else -1.0)
        best = signed[:, sample.column(self.policy)] >= signed.max(axis=1) - SLACK
        return weighted_mean(sample.weights, np.where(best, 100.0, 0.0))


@dataclass(frozen=True)
class WhereWorst(PolicyQuantity):
    """A measure of a policy, in the execution in which another policy's ``by`` is largest."""

    other: str
    by: str

    def _of(self, sample: PolicySample) -> FloatArray:
        drawn = np.where(sample.weights > 0, sample.of(self.by, self.other), -np.inf)
        worst: FloatArray = sample.of(self.measure, self.policy)[drawn.argmax(axis=1)]
        return worst


class LeadOfWorst(PolicyQuantity):
    """Difference of the second largest value of a policy and the largest of all others."""

    def _of(self, sample: PolicySample) -> FloatArray:
        own = np.where(sample.weights > 0, sample.of(self.measure, self.policy), -np.inf)
        others = np.delete(sample.values[self.measure], sample.column(self.policy), axis=1).max(axis=1)
        second = np.sort(own, axis=1)[:, -min(2, own.shape[1])]
        lead: FloatArray = second - np.where(sample.weights > 0, others, -np.inf).max(axis=1)
        return np.where(np.isfinite(lead), lead, -100.0)


@dataclass(frozen=True)
class SavedShare(PolicyQuantity):
    """Quantity: by how many percent the mean of a policy is below another's."""

    than: str
    unit = "% saved"

    def _of(self, sample: PolicySample) -> FloatArray:
        own, other = (sample.mean(self.measure, policy) for policy in (self.policy, self.than))
        return 100.0 * (1.0 - own / other)


@dataclass(frozen=True)
class LowPlaces:
    """Quantity: number of results (Table I's, some scenarios) with a policy among the worst three."""

    scenarios: tuple[str, ...]
    policy: str
    unit = "results"

    def values(self, study: Study) -> FloatArray:
        """Return the number of places in our executions, then in each resample."""
        found = [
            ranks(study[name], measure, from_worst=True)[:, study[name].column(self.policy)] <= 3
            for name in self.scenarios
            for measure in TABLE_MEASURES
        ]
        return np.asarray(np.sum(found, axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Ranked:
    """Statement: the rank of a policy's mean lies between two ranks; ``from_worst`` counts from the worst."""

    scenario: str
    measure: str
    policy: str
    best: int = 1
    worst: int = 1
    from_worst: bool = False
    among: tuple[str, ...] | None = None
    """Policies that are compared; None for all."""

    def __call__(self, study: Study) -> tuple[Truth, str]:
        """Return the statement's truth, and our rank with its mean."""
        sample = study[self.scenario]
        mean = sample.means(self.measure)[0, sample.column(self.policy)]
        among = self.among or sample.conditions
        found = ranks(sample, self.measure, from_worst=self.from_worst, among=among)
        places = found[:, among.index(self.policy)]
        place = ordinal(int(places[0])) + (" from the worst" if self.from_worst else "")
        truth = (places >= self.best) & (places <= self.worst)
        return truth, f"{place} ({mean:.2f} {MEASURES[self.measure].unit})"


JOBS_TOLERANCE: Final = 2.0
"""Tolerance of shares of jobs, points."""
SOC_TOLERANCE: Final = 5.0
"""Tolerance of states of charge, points."""
SPREAD_TOLERANCE: Final = 3.0
"""Tolerance of the standard deviations of states of charge, points."""
SAVING_TOLERANCE: Final = 10.0
"""Tolerance of savings of energy and of shares of executions, points."""

CRITICAL: Final = ("best-begin", "best-end", "worst-begin", "worst-end")
AVERAGE: Final = "average"
ALL: Final = (*CRITICAL, AVERAGE)
_FP, _PR, _WR, _PEAK, _NEXT, _LAST, _WORKLOAD, _BEASY = PAPER_POLICIES
_COMPENSATING: Final = (_PEAK, _NEXT, _LAST, _WORKLOAD)
_RIVALS: Final = PAPER_POLICIES[:-1]


def _worst(scenario: str, measure: str, policy: str, count: int = 1) -> Ranked:
    return Ranked(scenario, measure, policy, 1, count, from_worst=True)


def _place(scenario: str, measure: str, policy: str, place: int) -> Ranked:
    return Ranked(scenario, measure, policy, place, place)


def _near(scenario: str, policy: str, *, outside: bool = False) -> Within:
    """Ends within 5 points of the target; or ``outside``, 5 points or more off it."""
    return Within(Mean(scenario, "distance", policy), -SOC_TOLERANCE, SOC_TOLERANCE, outside)


def _jobs(scenario: str, measure: str, policy: str, value: float) -> Within:
    return about(Mean(scenario, measure, policy), value, JOBS_TOLERANCE)


def _distance(scenario: str, policy: str, value: float) -> Within:
    return about(Mean(scenario, "distance", policy), value, SOC_TOLERANCE)


def _saving(scenario: str, than: str, value: float) -> Within:
    return about(SavedShare(scenario, "wasted", _BEASY, than), value, SAVING_TOLERANCE)


_UNIVERSAL: Final = ("C6", "AV9", "AV35")
"""Claims about every single execution."""
_Row = tuple[str, str, Statement, str] | tuple[str, str, Statement, str, float]


def _claims(scenario: str, *rows: _Row) -> tuple[Claim, ...]:
    """Name, text, statement, what the paper prints, and its number where it prints one."""
    found = [Claim(row[0], scenario, *row[1:]) for row in rows]
    return tuple(replace(claim, universal=claim.name in _UNIVERSAL) for claim in found)


_BB, _BE, _WB, _WE = CRITICAL
_BEST_BEGIN = _claims(
    _BB,
    ("BB1", "BEASY finishes the most jobs", Ranked(_BB, "finished", _BEASY), "1st"),
    ("BB2", "BEASY finishes 99.01 %", _jobs(_BB, "finished", _BEASY, 99.01), "99.01 %", 99.01),
    ("BB3", "BEASY kills none: what it does not finish it postpones", Within(Mean(_BB, "killed", _BEASY), high=0.0), "0 %", 0.0),
    ("BB4", "BEASY ends a little above the target (0 to 5 points)", Within(Mean(_BB, "distance", _BEASY), 0.0, SOC_TOLERANCE), "a little above"),
    ("BB5", "BEASY wastes the least", Ranked(_BB, "wasted", _BEASY), "1st"),
    ("BB6", "BEASY wastes 35.33 % less than workload-reactive", _saving(_BB, _WR, 35.33), "35.33 % less", 35.33),
    ("BB7", "workload-reactive wastes the second least", _place(_BB, "wasted", _WR, 2), "2nd"),
    ("BB8", "follow-plan finishes the fewest jobs", _worst(_BB, "finished", _FP), "8th"),
    ("BB9", "follow-plan kills several jobs (1 % or more)", Within(Mean(_BB, "shot", _FP), low=1.0), "several"),
    ("BB10", "follow-plan ends 20 points above the target", _distance(_BB, _FP, 20.0), "+20 points", 20.0),
    ("BB11", "follow-plan wastes the second most", Ranked(_BB, "wasted", _FP, 2, 2, from_worst=True), "7th"),
    ("BB12", "power-reactive wastes the most", _worst(_BB, "wasted", _PR), "8th"),
    ("BB13", "power-reactive does not finish almost 10 %", _jobs(_BB, "finished", _PR, 90.0), "about 90 %", 90.0),
    ("BB14", "power-reactive uses 20 points of the battery more", _distance(_BB, _PR, -20.0), "-20 points", -20.0),
    ("BB15", "workload-reactive kills 8.05 %", _jobs(_BB, "shot", _WR, 8.05), "8.05 %", 8.05),
    ("BB16", "workload-reactive drains the battery: its lowest SoC is 20 % (to 1 point)", Within(Mean(_BB, "lowest", _WR), high=21.0), "20 %", 20.0),
    ("BB17", "BEASY's lowest SoC is above workload-reactive's", Within(Minus(Mean(_BB, "lowest", _BEASY), Mean(_BB, "lowest", _WR)), low=1e-6), "above"),
    ("BB18", "peak, next, last, workload finish many jobs (90 % or more)", every(Within(Mean(_BB, "finished", p), low=90.0) for p in _COMPENSATING), "good"),
    ("BB19", "peak, next, last, workload end near the target (5 points)", every(_near(_BB, p) for p in _COMPENSATING), "good"),
    ("BB20", "peak, next, last, workload waste less than follow-plan", every(Within(SavedShare(_BB, "wasted", p, _FP), low=0.0) for p in _COMPENSATING), "not bad"),
    ("BB21", "peak, next, last, workload each kill some jobs", every(Within(Mean(_BB, "shot", p), low=1e-6) for p in _COMPENSATING), "some"),
)  # fmt: skip
_BEST_END = _claims(
    _BE,
    ("BE1", "follow-plan finishes the second fewest jobs", Ranked(_BE, "finished", _FP, 2, 2, from_worst=True), "7th"),
    ("BE2", "follow-plan kills the most", _worst(_BE, "killed", _FP), "8th"),
    ("BE3", "follow-plan ends 20 points above the target", _distance(_BE, _FP, 20.0), "+20 points", 20.0),
    ("BE4", "next finishes about as many as follow-plan (5 points)", about(Minus(Mean(_BE, "finished", _NEXT), Mean(_BE, "finished", _FP)), 0.0, 5.0), "similar"),
    ("BE5", "next kills fewer than follow-plan", Within(Minus(Mean(_BE, "shot", _NEXT), Mean(_BE, "shot", _FP)), high=0.0), "fewer"),
    ("BE6", "power-reactive wastes the most", _worst(_BE, "wasted", _PR), "8th"),
    ("BE7", "power-reactive uses the most battery", _worst(_BE, "soc", _PR), "8th"),
    ("BE8", "workload-reactive finishes all (99.5 % or more)", Within(Mean(_BE, "finished", _WR), low=99.5), "100 %", 100.0),
    ("BE9", "workload-reactive wastes the least", Ranked(_BE, "wasted", _WR), "1st"),
    ("BE10", "workload-reactive uses 6 points of the battery more", _distance(_BE, _WR, -6.0), "-6 points", -6.0),
    ("BE11", "last finishes the third most, yet kills some", every((_place(_BE, "finished", _LAST, 3), Within(Mean(_BE, "shot", _LAST), low=1e-6))), "3rd, some killed"),
    ("BE12", "BEASY finishes the second most jobs", _place(_BE, "finished", _BEASY, 2), "2nd"),
    ("BE13", "BEASY wastes the second least", _place(_BE, "wasted", _BEASY, 2), "2nd"),
    ("BE14", "BEASY kills none", Within(Mean(_BE, "shot", _BEASY), high=0.0), "0 %", 0.0),
    ("BE15", "BEASY postpones what it cannot guarantee", Within(Mean(_BE, "postponed", _BEASY), low=1e-6), "some"),
    ("BE16", "BEASY wastes 22.10 % more than workload-reactive", _saving(_BE, _WR, -22.10), "22.10 % more", -22.10),
)  # fmt: skip
_WORST_BEGIN = _claims(
    _WB,
    ("WB1", "follow-plan ends 13.12 points under the target", _distance(_WB, _FP, -13.12), "-13.12 points", -13.12),
    ("WB2", "power-reactive ends 28.17 points under the target", _distance(_WB, _PR, -28.17), "-28.17 points", -28.17),
    ("WB3", "workload-reactive ends 17.60 points under the target", _distance(_WB, _WR, -17.60), "-17.60 points", -17.60),
    ("WB4", "these three kill the most", every(_worst(_WB, "killed", p, 3) for p in (_FP, _PR, _WR)), "6th to 8th"),
    ("WB5", "workload-reactive kills more than 20 %", Within(Mean(_WB, "shot", _WR), low=20.0), "> 20 %", 20.0),
    ("WB6", "power-reactive finishes the most jobs", Ranked(_WB, "finished", _PR), "1st"),
    ("WB7", "power-reactive kills more than 14 %", Within(Mean(_WB, "shot", _PR), low=14.0), "> 14 %", 14.0),
    ("WB8", "last, next, peak kill less than 10 %", every(Within(Mean(_WB, "shot", p), high=10.0) for p in (_LAST, _NEXT, _PEAK)), "< 10 %", 10.0),
    ("WB9", "of last, next, peak only next finishes more than 80 %", every((Within(Mean(_WB, "finished", _NEXT), low=80.0), Within(Mean(_WB, "finished", _LAST), high=80.0), Within(Mean(_WB, "finished", _PEAK), high=80.0))), "only next"),
    ("WB10", "BEASY finishes the second most jobs", _place(_WB, "finished", _BEASY, 2), "2nd"),
    ("WB11", "BEASY finishes nearly as many as the best (within 3 points)", every(Within(Minus(Mean(_WB, "finished", _BEASY), Mean(_WB, "finished", p)), low=-3.0) for p in _RIVALS), "very close"),
    ("WB12", "BEASY kills less than 1 %", Within(Mean(_WB, "shot", _BEASY), high=1.0), "< 1 %", 1.0),
    ("WB13", "BEASY wastes the least", Ranked(_WB, "wasted", _BEASY), "1st"),
    ("WB14", "BEASY wastes 31.17 % less than next", _saving(_WB, _NEXT, 31.17), "31.17 % less", 31.17),
    ("WB15", "next wastes the second least", _place(_WB, "wasted", _NEXT, 2), "2nd"),
    ("WB16", "BEASY ends with the fullest battery", Ranked(_WB, "soc", _BEASY), "1st"),
    ("WB17", "peak, next, last, workload end close to it (5 points)", every(about(Minus(Mean(_WB, "soc", _BEASY), Mean(_WB, "soc", p)), 0.0, SOC_TOLERANCE) for p in _COMPENSATING), "very close"),
)  # fmt: skip
_KEEPING = (_BEASY, *_COMPENSATING)
_WORST_END = _claims(
    _WE,
    ("WE1", "follow-plan, power-reactive, workload-reactive end far from the target (5 points or more)", every(_near(_WE, p, outside=True) for p in (_FP, _PR, _WR)), "far"),
    ("WE2", "follow-plan finishes the most jobs", Ranked(_WE, "finished", _FP), "1st"),
    ("WE3", "follow-plan kills the most", _worst(_WE, "killed", _FP), "8th"),
    ("WE4", "workload-reactive finishes the second most jobs", _place(_WE, "finished", _WR, 2), "2nd"),
    ("WE5", "workload-reactive kills almost 10 %", _jobs(_WE, "shot", _WR, 10.0), "almost 10 %", 10.0),
    ("WE6", "follow-plan and workload-reactive use more battery than BEASY, peak, next, last, workload", every(_worst(_WE, "soc", p, 3) for p in (_FP, _WR)), "6th, 8th"),
    ("WE7", "BEASY, peak, next, last, workload keep the level (5 points)", every(_near(_WE, p) for p in _KEEPING), "respected"),
    ("WE8", "of these five, BEASY finishes the most jobs", Ranked(_WE, "finished", _BEASY, among=_KEEPING), "1st of 5"),
    ("WE9", "of these five, BEASY kills the fewest", Ranked(_WE, "killed", _BEASY, among=_KEEPING), "1st of 5"),
    ("WE10", "BEASY wastes the least", Ranked(_WE, "wasted", _BEASY), "1st"),
    ("WE11", "BEASY wastes 19.70 % less than workload", _saving(_WE, _WORKLOAD, 19.70), "19.70 % less", 19.70),
    ("WE12", "workload wastes the second least", _place(_WE, "wasted", _WORKLOAD, 2), "2nd"),
    ("WE13", "BEASY finishes the third most jobs", _place(_WE, "finished", _BEASY, 3), "3rd"),
)  # fmt: skip
_CONCLUSIONS = _claims(
    "critical",
    ("C1", "BEASY kills the fewest in all four", every(Ranked(s, "killed", _BEASY) for s in CRITICAL), "1st in 4"),
    ("C2", "BEASY is among the best three in finished jobs in all four", every(Ranked(s, "finished", _BEASY, 1, 3) for s in CRITICAL), "top 3 in 4"),
    ("C3", "power-reactive and workload-reactive miss the target (5 points or more, in three of four each)", every(Several(tuple(_near(s, p, outside=True) for s in CRITICAL), 3) for p in (_PR, _WR)), "missed"),
    ("C4", "BEASY ends close to the target (5 points) in all four", every(_near(s, _BEASY) for s in CRITICAL), "close"),
    ("C5", "BEASY generally wastes the least (in three of four)", Several(tuple(Ranked(s, "wasted", _BEASY) for s in CRITICAL), 3), "3 of 4"),
    ("C6", "BEASY kills the fewest in every single execution", every(Within(ShareBest(s, "killed", _BEASY), low=100.0) for s in CRITICAL), "all"),
)  # fmt: skip
_AV = AVERAGE
_AVERAGE_CASES = _claims(
    _AV,
    ("AV1", "BEASY kills the fewest", Ranked(_AV, "killed", _BEASY), "1st"),
    ("AV2", "BEASY kills 0.67 %", _jobs(_AV, "killed", _BEASY, 0.67), "0.67 %", 0.67),
    ("AV3", "BEASY finishes the second most jobs", _place(_AV, "finished", _BEASY, 2), "2nd"),
    ("AV4", "BEASY finishes 93.29 %", _jobs(_AV, "finished", _BEASY, 93.29), "93.29 %", 93.29),
    ("AV5", "workload-reactive finishes the most jobs", Ranked(_AV, "finished", _WR), "1st"),
    ("AV6", "workload-reactive finishes 97.27 %", _jobs(_AV, "finished", _WR, 97.27), "97.27 %", 97.27),
    ("AV7", "where workload-reactive kills the most, it falls to 20 % and BEASY kills none", every((Within(WhereWorst(_AV, "lowest", _WR, _WR, "shot"), high=21.0), Within(WhereWorst(_AV, "shot", _BEASY, _WR, "shot"), high=0.0))), "Fig. 15"),
    ("AV8", "workload-reactive kills more than 5 % in 19 % of the executions", about(ShareAbove(_AV, "killed", _WR, 5.0), 19.0, SAVING_TOLERANCE), "19 %", 19.0),
    ("AV9", "BEASY kills more than 5 % in none", Within(ShareAbove(_AV, "killed", _BEASY, 5.0), high=0.0), "none", 0.0),
    ("AV10", "power-reactive kills more than 5 % in 19 % of the executions", about(ShareAbove(_AV, "killed", _PR, 5.0), 19.0, SAVING_TOLERANCE), "19 %", 19.0),
    ("AV11", "the two largest shares of killed jobs are workload-reactive's", Within(LeadOfWorst(_AV, "killed", _WR), low=0.0), "both"),
    ("AV12", "power-reactive finishes the third most jobs", _place(_AV, "finished", _PR, 3), "3rd"),
    ("AV13", "follow-plan, peak, next, last, workload finish near 90 % (5 points)", every(about(Mean(_AV, "finished", p), 90.0, 5.0) for p in (_FP, *_COMPENSATING)), "near 90 %", 90.0),
    ("AV14", "and kill more than workload-reactive", every(Within(Minus(Mean(_AV, "killed", p), Mean(_AV, "killed", _WR)), low=0.0) for p in (_FP, *_COMPENSATING)), "more"),
    ("AV15", "next finishes the fewest jobs", _worst(_AV, "finished", _NEXT), "8th"),
    ("AV16", "next finishes 86.72 %", _jobs(_AV, "finished", _NEXT, 86.72), "86.72 %", 86.72),
    ("AV17", "follow-plan kills the most", _worst(_AV, "killed", _FP), "8th"),
    ("AV18", "follow-plan kills 8.96 %", _jobs(_AV, "killed", _FP, 8.96), "8.96 %", 8.96),
    ("AV19", "BEASY ends at 54.47 % on average", about(Mean(_AV, "soc", _BEASY), 54.47, SOC_TOLERANCE), "54.47 %", 54.47),
    ("AV20", "with a standard deviation of 7.84", about(Spread(_AV, "soc", _BEASY), 7.84, SPREAD_TOLERANCE), "7.84", 7.84),
    ("AV21", "peak, next, last, workload end around 50 % (5 points)", every(about(Mean(_AV, "soc", p), 50.0, SOC_TOLERANCE) for p in _COMPENSATING), "around 50 %", 50.0),
    ("AV22", "with a very low standard deviation (3 or less)", every(Within(Spread(_AV, "soc", p), high=3.0) for p in _COMPENSATING), "very low"),
    ("AV23", "and kill more than BEASY", every(Within(Minus(Mean(_AV, "killed", p), Mean(_AV, "killed", _BEASY)), low=1e-6) for p in _COMPENSATING), "more"),
    ("AV24", "the final SoC of workload-reactive, power-reactive, follow-plan varies more than BEASY's", every(Within(Minus(Spread(_AV, "soc", p), Spread(_AV, "soc", _BEASY)), low=0.0) for p in (_WR, _PR, _FP)), "large"),
    ("AV25", "workload-reactive ends at 53.92 %", about(Mean(_AV, "soc", _WR), 53.92, SOC_TOLERANCE), "53.92 %", 53.92),
    ("AV26", "with a standard deviation of 18.50", about(Spread(_AV, "soc", _WR), 18.50, SPREAD_TOLERANCE), "18.50", 18.50),
    ("AV27", "follow-plan ends at 59.09 %", about(Mean(_AV, "soc", _FP), 59.09, SOC_TOLERANCE), "59.09 %", 59.09),
    ("AV28", "with a standard deviation of 13.64", about(Spread(_AV, "soc", _FP), 13.64, SPREAD_TOLERANCE), "13.64", 13.64),
    ("AV29", "power-reactive ends at 40.03 %", about(Mean(_AV, "soc", _PR), 40.03, SOC_TOLERANCE), "40.03 %", 40.03),
    ("AV30", "with a standard deviation of 16.78", about(Spread(_AV, "soc", _PR), 16.78, SPREAD_TOLERANCE), "16.78", 16.78),
    ("AV31", "power-reactive ends with the emptiest battery", _worst(_AV, "soc", _PR), "8th"),
    ("AV32", "workload-reactive and BEASY waste the least", every(Ranked(_AV, "wasted", p, 1, 2) for p in (_WR, _BEASY)), "1st, 2nd"),
    ("AV33", "all others waste well more than BEASY (which wastes 10 % less, or better)", every(Within(SavedShare(_AV, "wasted", _BEASY, p), low=10.0) for p in _RIVALS if p != _WR), "well below"),
    ("AV34", "BEASY wastes about as much as workload-reactive (10 %)", about(SavedShare(_AV, "wasted", _BEASY, _WR), 0.0, 10.0), "close"),
    ("AV35", "BEASY kills the fewest in every single execution", Within(ShareBest(_AV, "killed", _BEASY), low=100.0), "all"),
)  # fmt: skip
_TABLE = _claims(
    "table",
    ("T1", "BEASY is among the best three in every measure of all five scenarios", every(Ranked(s, m, _BEASY, 1, 3) for s in ALL for m in TABLE_MEASURES), "20 of 20"),
    ("T2", "BEASY kills the fewest in all five", every(Ranked(s, "killed", _BEASY) for s in ALL), "1st in 5"),
    ("T3", "in worst-end, the two that finish more than BEASY are worst and third worst in killed jobs", every((_place(_WE, "finished", _FP, 1), _place(_WE, "finished", _WR, 2), _worst(_WE, "killed", _FP), Ranked(_WE, "killed", _WR, 3, 3, from_worst=True))), "8th, 6th"),
    ("T4", "in best-end the one that finishes more than BEASY, workload-reactive, ends second emptiest", every((_place(_BE, "finished", _WR, 1), Ranked(_BE, "soc", _WR, 2, 2, from_worst=True))), "7th"),
    ("T5", "in worst-begin the one that finishes more than BEASY, power-reactive, ends emptiest", every((_place(_WB, "finished", _PR, 1), _worst(_WB, "soc", _PR))), "8th"),
    ("T6", "in the average cases workload-reactive is third in SoC", _place(_AV, "soc", _WR, 3), "3rd"),
    ("T7", "every rival is among the worst three at least once", every(Within(LowPlaces(ALL, p), low=1.0) for p in _RIVALS), "all"),
    ("T8", "follow-plan is among the worst three several times (4 of 20 or more)", Within(LowPlaces(ALL, _FP), low=4.0), "13 of 20", 13.0),
    ("T9", "power-reactive is so more often than follow-plan", Within(Minus(LowPlaces(ALL, _PR), LowPlaces(ALL, _FP)), low=1.0), "14 of 20"),
    ("T10", "last is never the best", every(Ranked(s, m, _LAST, 2, 8) for s in ALL for m in TABLE_MEASURES), "never"),
)  # fmt: skip

CLAIMS: Final[tuple[Claim, ...]] = (
    *_BEST_BEGIN, *_BEST_END, *_WORST_BEGIN, *_WORST_END, *_CONCLUSIONS, *_AVERAGE_CASES, *_TABLE,
)  # fmt: skip
"""All claims of Sections V-A and V-B, in the paper's order."""
