"""Claims of GreenSlot's paper in Sections 2 and 5.

A claim has one of three kinds of data. *A*: the week "Average", whose solar power is measured in the paper's
figures: one week, so numbers are judged with a tolerance of 5 points. *S*: other weeks replace the
paper's, so only directions and ranges are judged, over all weeks and their resamples. *N*: cannot be checked;
such claims are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from beasy_sched.forecast.accuracy import HORIZONS_H
from beasy_sched.generate.greenslot_week import ACTUAL_W, PREDICTED_W
from beasy_sched.plugins.campaigns.samples import weighted_mean
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import Claim, Ruling, Truth, Verdict, judge
from studies.greenslot.cases import (
    CONVENTIONAL,
    COPIES,
    ERROR_SEEDS,
    ERRORS_PCT,
    GREEN_ONLY,
    MULTI_NODE,
    STAGGERED,
    VAR_PRICES,
    Case,
    Load,
    loaded,
)
from studies.greenslot.inputs import IDEAL_DAY_KWH
from studies.greenslot.results import READ_OFF, READ_OFF_BARS, GreenResults

TOLERANCE: Final = 5.0
"""Points by which a number of the one week "Average" may differ from the printed one."""
# --- statements ---

Number = Callable[[GreenResults], float]


def _once(true: Any) -> Truth:
    """A truth about one week: resamples do not matter."""
    return np.array([bool(true)] * 2)


def _green(case: Case) -> Number:
    return lambda results: results.green_pct(case)


def _saving(case: Case) -> Number:
    return lambda results: results.saving_pct(case)


def near(*expected: tuple[Number, float]) -> Callable[..., tuple[Truth, str]]:
    """Statement: numbers (%) are the printed ones, give or take the tolerance."""

    def statement(results: GreenResults) -> tuple[Truth, str]:
        found = [number(results) for number, _ in expected]
        off = [abs(value - printed) for value, (_, printed) in zip(found, expected, strict=True)]
        return _once(max(off) <= TOLERANCE), ", ".join(f"{value:+.1f}" for value in found) + " %"

    return statement


def _printed_errors(column: str, printed: Sequence[float], results: GreenResults) -> tuple[Truth, str]:
    """Whether no error is larger than printed: their level depends on the place."""
    if results.accuracy is None:
        raise KeyError("training data of the predictor")
    found = getattr(results.accuracy, column)
    return _once(np.all(found <= np.array(printed) + TOLERANCE)), " ".join(f"{v:.1f}" for v in found) + " %"


def _flat_beyond_3h(results: GreenResults) -> tuple[Truth, str]:
    if results.accuracy is None:
        raise KeyError("training data of the predictor")
    at = dict(zip(HORIZONS_H, results.accuracy.median_pct, strict=True))
    return _once(at[48] - at[3] <= TOLERANCE), f"{at[3]:.1f} -> {at[48]:.1f} %"


def _average_error(results: GreenResults) -> tuple[Truth, str]:
    days = (np.arange(len(ACTUAL_W)) + 9) // 24
    errors = np.bincount(days, np.abs(ACTUAL_W - PREDICTED_W)) / (10.0 * IDEAL_DAY_KWH)
    median = float(np.median(errors))
    return _once(abs(median - 12.9) <= TOLERANCE), f"Average {median:.1f} %"


def _ideal_day(results: GreenResults) -> tuple[Truth, str]:
    """The sunniest of the week's five days, hour by hour: a lower bound of the predictor's ideal day."""
    padded = np.concatenate((np.zeros(9), ACTUAL_W, np.zeros(7)))
    found = float(padded.reshape(5, 24).max(axis=0).sum()) / 1000.0
    return _once(
        abs(found / IDEAL_DAY_KWH - 1) <= 0.1
    ), f"{found:.1f} kWh, the most at each hour of five days"


def _utilization(results: GreenResults) -> tuple[Truth, str]:
    load = 100 * results.value("load", CONVENTIONAL)
    return _once(abs(load - 50) <= TOLERANCE), f"{load:.1f} %"


def _green_share(results: GreenResults) -> tuple[Truth, str]:
    green, total = (results.value(name, CONVENTIONAL) for name in ("green_kwh", "total_kwh"))
    return _once(abs(100 * green / total - 26) <= TOLERANCE), f"{100 * green / total:.1f} %"


def _replaced(results: GreenResults) -> tuple[Truth, str]:
    """Brown energy replaced, at Conventional's mean price, over all that is saved."""
    before_kwh, before = (results.value(name, CONVENTIONAL) for name in ("import_kwh", "cost"))
    after_kwh, after = (results.value(name, GREEN_ONLY) for name in ("import_kwh", "cost"))
    share = 100 * (before_kwh - after_kwh) * before / before_kwh / (before - after)
    return _once(share > 80), f"{share:.0f} %"


def _perfect_knowledge(results: GreenResults) -> tuple[Truth, str]:
    perfect = replace(GREEN_ONLY, forecast="perfect")
    change = [
        100 * (results.value(name, perfect) / results.value(name, GREEN_ONLY) - 1)
        for name in ("green_kwh", "cost")
    ]
    return _once(max(map(abs, change)) <= 2), f"green {change[0]:+.1f} %, cost {change[1]:+.1f} %"


def _almost_the_green(results: GreenResults) -> tuple[Truth, str]:
    ours, theirs = (results.value("green_kwh", case) for case in (VAR_PRICES, GREEN_ONLY))
    return _once(ours >= 0.95 * theirs), f"{ours:.1f} of {theirs:.1f} kWh"


def _none_missed(results: GreenResults) -> tuple[Truth, str]:
    cases = (CONVENTIONAL, GREEN_ONLY, VAR_PRICES)
    missed, refused = ([int(results.value(name, case)) for case in cases] for name in ("missed", "refused"))
    return _once(not any(missed + refused)), f"missed {_slashed(missed)}, refused {_slashed(refused)}"


def _slashed(numbers: Iterable[int]) -> str:
    return "/".join(map(str, numbers))


def _both_variations(results: GreenResults) -> tuple[Truth, str]:
    cases = [loaded(load) for load in (STAGGERED, MULTI_NODE)]
    green, cost = (min(map(gain, cases)) for gain in (results.green_pct, results.saving_pct))
    return _once(green >= 19 - TOLERANCE and cost >= 25 - TOLERANCE), f"{green:+.1f}, {cost:+.1f} %"


def _first_missed(policy: str, printed: int, results: GreenResults) -> tuple[Truth, str]:
    """Whether some workflow is late at the printed utilization, and none at lower ones."""
    missed = _missed_by_load(policy, Load(), results)
    told = ", ".join(f"{count} at {load} %" for load, count in missed.items())
    if policy == "greenvarprices":  # the paper's program took no account of precedence here
        loose = _missed_by_load(policy, Load(independent=True), results)
        told += "; without precedence " + ", ".join(f"{count} at {load} %" for load, count in loose.items())
    first = next((load for load, count in missed.items() if count), None)
    return _once(first is not None and abs(first - printed) <= 1), told


def _missed_by_load(policy: str, load: Load, results: GreenResults) -> dict[int, int]:
    """Workflows that missed their deadlines, by utilization in %."""
    cases = [loaded(replace(load, copies=copies)) for copies in (*([] if load.independent else [0]), *COPIES)]
    cases = [case.reference if policy == "conventional" else case for case in cases]
    return {round(100 * results.value("load", case)): int(results.value("missed", case)) for case in cases}


def _utilizations(results: GreenResults) -> tuple[Truth, str]:
    found = [100 * results.value("load", loaded(Load(copies=copies))) for copies in COPIES]
    close = np.all(np.abs(np.array(found) - (67, 72, 87, 92)) <= 1)
    return _once(close), " ".join(f"{v:.1f}" for v in found) + " %"


def _with_errors(error: tuple[float, float], case: Case) -> list[Case]:
    return [replace(case, load=Load(estimate_error_pct=error, seed=seed)) for seed in ERROR_SEEDS]


def _mean(results: GreenResults, measure: str, cases: Sequence[Case]) -> float:
    return float(np.mean([results.value(measure, case) for case in cases]))


def _conventional_insensitive(results: GreenResults) -> tuple[Truth, str]:
    exact = results.value("green_kwh", CONVENTIONAL)
    found = _mean(results, "green_kwh", _with_errors(ERRORS_PCT[0], CONVENTIONAL))
    return _once(abs(found / exact - 1) <= 0.02), f"green {found:.1f} of {exact:.1f} kWh (-20 to 20 %)"


def _small_errors(results: GreenResults) -> tuple[Truth, str]:
    cases = _with_errors(ERRORS_PCT[0], VAR_PRICES)
    cost, green = (
        100 * (_mean(results, name, cases) / results.value(name, VAR_PRICES) - 1)
        for name in ("cost", "green_kwh")
    )
    return _once(cost < 2 and abs(green) <= 1), f"cost {cost:+.1f} %, green {green:+.1f} %"


def _other_errors_change_less(results: GreenResults) -> tuple[Truth, str]:
    """Whether other errors cost less of the saving against Conventional with the same run times.

    So the changed work does not count.
    """
    exact = results.saving_pct(VAR_PRICES)
    change = {
        error: np.mean([results.saving_pct(case) for case in _with_errors(error, VAR_PRICES)]) - exact
        for error in ERRORS_PCT
    }
    first, *rest = (max(0.0, -float(points)) for points in change.values())
    told = ", ".join(f"{points:+.1f} ({a:g} to {b:g} %)" for (a, b), points in change.items())
    return _once(max(rest) <= first), f"saving, points: {told}"


def _proportional(results: GreenResults) -> tuple[Truth, str]:
    if len(results.round_s) < 2:
        raise KeyError("timing of rounds")
    (few, short_s), (many, long_s) = sorted(results.round_s.items())
    told = f"{1e3 * short_s:.1f} ms for {few} jobs, {1e3 * long_s:.1f} ms for {many}"
    return _once(long_s / short_s <= 2 * many / few), told


def _peak(results: GreenResults) -> tuple[Truth, str]:
    found = results.value("peak_w", CONVENTIONAL)
    return _once(abs(found - 1765) <= 1), f"{found:.0f} W"


def _all_weeks(policy: str, which: int, low: float, high: float, results: GreenResults) -> tuple[Truth, str]:
    """Whether there is a gain in every week, and the mean lies in the printed range."""
    gains = results.gains_of_weeks(policy)[which]
    weights = results.other_weeks.weights
    means = weighted_mean(weights, gains)
    true = (weights @ (gains <= 0) == 0) & (means >= low) & (means <= high)
    return true, f"{gains.min():.0f} to {gains.max():.0f} %, mean {means[0]:.0f}"


def _both_positive(results: GreenResults) -> tuple[Truth, str]:
    """Whether both gains are above 0 in every week; reports the least of them."""
    green, cost = results.gains_of_weeks("greenonly")
    true = results.other_weeks.weights @ ((green <= 0) | (cost <= 0)) == 0
    return true, f"least: green {green.min():+.0f} %, cost saved {cost.min():+.0f} %"


def _cheaper_than_green_only(results: GreenResults) -> tuple[Truth, str]:
    own = results.saving_pct(VAR_PRICES) - results.saving_pct(GREEN_ONLY)
    cheaper = results.gains_of_weeks("greenvarprices")[1] - results.gains_of_weeks("greenonly")[1]
    true = (results.other_weeks.weights @ (cheaper <= 0) == 0) & (own > 0)
    return true, f"Average by {own:.1f} points, other weeks by {cheaper.min():.1f} to {cheaper.max():.1f}"


def _areas(results: GreenResults) -> tuple[Truth, str]:
    """Whether total, green and cost of each figure are within 5 % of what was measured in it."""
    off = []
    for number, (case, *printed) in READ_OFF.items():
        for name, theirs in zip(("total_kwh", "green_kwh", "cost"), printed, strict=True):
            share = 100 * (results.value(name, case) / theirs - 1)
            if abs(share) > 5:
                off.append(f"Fig. {number} {name.removesuffix('_kwh')} {share:+.0f} %")
    count = 3 * len(READ_OFF)
    return _once(not off), f"{count - len(off)} of {count}" + (f"; not: {', '.join(off)}" if off else "")


def _payback(results: GreenResults) -> tuple[Truth, str]:
    """Yearly saving of the panels with GreenSlot divided by that with Conventional: 18 over 11 years.

    The cost of the panels cancels out. Both numbers of years are rounded, hence the range.
    """
    dark, without, greenslot = (
        results.value("cost", case) for case in (_DARK.reference, CONVENTIONAL, VAR_PRICES)
    )
    if dark <= without:
        return _once(False), "Conventional saves nothing with the panels"
    ratio = (dark - greenslot) / (dark - without)
    return _once(17.5 / 11.5 <= ratio <= 18.5 / 10.5), f"{ratio:.2f}"


# --- claims ---


@dataclass(frozen=True)
class GreenClaim(Claim):
    """A claim, and what it can be judged by: A, S or N; one of kind N has no statement but a reason."""

    data: str = "A"


def _bar(policy: str, case: Case) -> Callable[..., tuple[Truth, str]]:
    green, cost = READ_OFF_BARS[policy]["average"]
    return near((_green(case), green), (_saving(case), cost))


def _no_check(results: GreenResults) -> tuple[Truth, str]:
    raise KeyError("this")


_DARK: Final = replace(VAR_PRICES, panels=0)
_S, _M, _67 = loaded(STAGGERED), loaded(MULTI_NODE), loaded(Load(copies=4))
_MEDIANS: Final = (12.9, 15.6, 15.8, 16.1, 16.5, 19.0)
_P90S: Final = (24.6, 33.9, 40.5, 44.1, 42.5, 44.4)
_CLAIMS: Final[tuple[tuple[str, str, str, str, Any], ...]] = (
    ("median prediction error is at most (1, 3, 6, 12, 24, 48 h ahead)", "12.9 15.6 15.8 16.1 16.5 19.0 %",
     "Table 1", "S", partial(_printed_errors, "median_pct", _MEDIANS)),
    ("90th percentile of it", "24.6 33.9 40.5 44.1 42.5 44.4 %", "Table 1", "S",
     partial(_printed_errors, "p90_pct", _P90S)),
    ("beyond 3 h predictions get little worse", "15.6 -> 19.0 %", "5.2", "S", _flat_beyond_3h),
    ("median 1 h error in week Best", "9.3 %", "5.2", "N", "its weather and forecasts are not at hand"),
    ("median 1 h error in week Worst", "18.4 %", "5.2", "N", "its weather and forecasts are not at hand"),
    ("weeks Most and Average: near Table 1", "12.9 %", "5.2", "A", _average_error),
    ("production of an ideal day (10 %)", "14.8 kWh", "5.2", "A", _ideal_day),
    ("utilization", "about 50 %", "5.2", "A", _utilization),
    ("Conventional's share of green energy", "26 %", "5.2, Fig. 6", "A", _green_share),
    ("GreenOnly: more green energy", "+47 %", "5.2, Fig. 7", "A", near((_green(GREEN_ONLY), 47))),
    ("GreenOnly: cost saved", "20 %", "5.2, Fig. 7", "A", near((_saving(GREEN_ONLY), 20))),
    ("most of that by replacing brown energy", "> 80 %", "5.2", "A", _replaced),
    ("GreenOnly: more green energy, four weeks", "13 to 118 %", "5.2, Fig. 8", "S",
     partial(_all_weeks, "greenonly", 0, 13, 118)),
    ("GreenOnly: cost saved, four weeks", "7 to 35 %", "5.2, Fig. 8", "S",
     partial(_all_weeks, "greenonly", 1, 7, 35)),
    ("GreenOnly gains even in the worst week", "both > 0", "5.2", "S", _both_positive),
    ("perfect predictions change GreenOnly little (2 points)", "1 % each", "5.2, Fig. 9", "A",
     _perfect_knowledge),
    ("GreenVarPrices: cost saved", "25 %", "5.2, Fig. 10", "A", near((_saving(VAR_PRICES), 25))),
    ("GreenVarPrices uses almost GreenOnly's green energy", "almost", "5.2", "A", _almost_the_green),
    ("GreenVarPrices: cost saved, four weeks", "13 to 39 %", "abstract, 5.2", "S",
     partial(_all_weeks, "greenvarprices", 1, 13, 39)),
    ("GreenVarPrices: more green energy, four weeks", "11 to 117 %", "abstract, 5.2", "S",
     partial(_all_weeks, "greenvarprices", 0, 11, 117)),
    ("GreenVarPrices is cheaper than GreenOnly in each week", "yes", "Figs. 8, 11", "S",
     _cheaper_than_green_only),
    ("GreenVarPrices without any sun: cost saved", "13 %", "5.2", "A", near((_saving(_DARK), 13))),
    ("no deadline missed, no job refused, all three", "0", "5.2", "A", _none_missed),
    ("Staggered: more green energy, cost saved", "+19 %, 30 %", "5.2, Figs. 12, 13", "A",
     near((_green(_S), 19), (_saving(_S), 30))),
    ("Multi-node: more green energy, cost saved", "+45 %, 25 %", "5.2, Figs. 14, 15", "A",
     near((_green(_M), 45), (_saving(_M), 25))),
    ("both variations gain at least", "19 %, 25 %", "5.2", "A",
     _both_variations),
    ("GreenVarPrices first misses deadlines at a utilization of", "72 %", "5.2", "A",
     partial(_first_missed, "greenvarprices", 72)),
    ("67 %: more green energy, cost saved", "+31 %, 14 %", "5.2", "A",
     near((_green(_67), 31), (_saving(_67), 14))),
    ("Conventional first misses deadlines at a utilization of", "92 %", "5.2", "A",
     partial(_first_missed, "conventional", 92)),
    ("4, 5, 8, 9 further copies of W3: utilization", "67 72 87 92 %", "5.2", "A", _utilizations),
    ("Conventional is insensitive to wrong estimates", "essentially", "5.2", "A", _conventional_insensitive),
    ("estimates wrong by -20 to 20 %: cost, green", "< +2 %, the same", "5.2", "A", _small_errors),
    ("other wrong estimates cost less of the saving", "less", "5.2", "A", _other_errors_change_less),
    ("real and accelerated runs differ by at most", "2.3 %", "5.1", "N",
     "no such machines; instead, Batsim's wire and one process give the same runs"),
    ("a full schedule of 70 queued jobs takes", "<= 0.3 s", "5.1", "N", "another machine: see C36 for ours"),
    ("its time is proportional to the jobs (at most doubled per job)", "linear", "5.1", "A", _proportional),
    ("payback of the panels, Conventional over GreenSlot (1.52 to 1.76: both are rounded)",
     "18 / 11 years = 1.64", "2, 6", "A", _payback),
    ("common-case peak power", "1765 W", "5.1", "A", _peak),
    ("Figure 8, Average: green, cost saved", "+46.3, 19.5 %", "Fig. 8", "A", _bar("greenonly", GREEN_ONLY)),
    ("Figure 11, Average: green, cost saved", "+45.2, 24.8 %", "Fig. 11", "A",
     _bar("greenvarprices", VAR_PRICES)),
    ("total, green and cost of Figures 6 to 15, within 5 %", "see below", "Figs. 6 to 15", "A", _areas),
)  # fmt: skip
"""Text, what is printed, where, kind of data, and the statement; of kind N, the reason."""
CLAIMS: Final = tuple(
    GreenClaim(
        f"C{number:02}",
        where,
        text if data != "N" else f"{text} (not judged: {test})",
        _no_check if data == "N" else test,
        printed,
        universal=data == "A" or test is _flat_beyond_3h,
        data=data,
    )
    for number, (text, printed, where, data, test) in enumerate(_CLAIMS, 1)
)


def verdicts_of(results: GreenResults) -> list[Verdict]:
    """Judge each claim."""
    return judge(CLAIMS, results)


def green_claim_table(verdicts: Sequence[Verdict], *, only_judged: bool = False) -> TextTable:
    """All claims; those that cannot be judged state the reason. ``only_judged`` omits them."""
    rows: list[tuple[str, ...]] = []
    for verdict in verdicts:
        claim = verdict.claim
        data = claim.data if isinstance(claim, GreenClaim) else ""
        judged = verdict.ruling is not Ruling.NOT_RUN
        if only_judged and not judged:
            continue
        ruling = verdict.ruling.value if judged else "not judged" if data == "N" else "not run"
        rows.append(
            (claim.name, claim.text, claim.part, data, claim.paper, verdict.ours if judged else "", ruling)
        )
    head = ("id", "claim", "where", "data", "paper", "ours", "verdict")
    note = (
        "Data: A, the paper's week Average (tolerance 5 points); S, stand-ins for what is not at hand"
        " (direction and range only); N, not checkable here."
    )
    if only_judged:
        note += " Claims that need more runs are omitted."
    return TextTable("Claims", head, rows, note=note)
