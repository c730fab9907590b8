"""Quantities, statements and verdicts on studies by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hand_study import hand_sample
from studies.beasy.claims import (
    LeadOfWorst,
    LowPlaces,
    Mean,
    Ranked,
    SavedShare,
    ShareAbove,
    ShareBest,
    Spread,
    WhereWorst,
)
from studies.claims import Claim, Minus, Ruling, Several, Within, about, every, judge

POLICIES = ("a", "b", "c", "d")
STUDY = {
    "s": hand_sample(
        POLICIES,
        {
            "finished": [[90, 80, 70, 60], [92, 80, 70, 60], [88, 80, 70, 60], [90, 80, 70, 60]],
            "killed": [[0, 9, 1, 2], [0, 8, 2, 1], [1, 0, 1, 1], [0, 3, 1, 1]],
            "wasted": [[20, 40, 10, 40]] * 4,
            "soc": [[50, 40, 60, 60], [52, 40, 60, 60], [48, 40, 60, 60], [50, 40, 60, 60]],
            "lowest": [[30, 20, 25, 25], [31, 21, 25, 25], [32, 22, 25, 25], [33, 23, 25, 25]],
        },
    )
}


@pytest.mark.parametrize(
    ("quantity", "value", "unit"),
    [
        (Mean("s", "finished", "a"), 90.0, "%"),
        (Spread("s", "soc", "a"), np.std([50, 52, 48, 50], ddof=1), "%"),
        (ShareAbove("s", "killed", "b", 5.0), 50.0, "% of executions"),
        (ShareAbove("s", "killed", "b", 8.0), 25.0, "% of executions"),
        (ShareBest("s", "killed", "a"), 75.0, "% of executions"),
        (ShareBest("s", "finished", "a"), 100.0, "% of executions"),
        (SavedShare("s", "wasted", "a", "b"), 50.0, "% saved"),
        (SavedShare("s", "wasted", "a", "c"), -100.0, "% saved"),
        (Minus(Mean("s", "finished", "a"), Mean("s", "finished", "b")), 10.0, "points"),
        (Minus(Mean("s", "wasted", "a"), Mean("s", "wasted", "b")), -20.0, "kWh"),
        (WhereWorst("s", "lowest", "a", "b", "killed"), 30.0, "%"),
        (LowPlaces(("s",), "d"), 4.0, "results"),
        (LowPlaces(("s",), "a"), 2.0, "results"),
    ],
)
def test_quantities(quantity, value, unit):
    values = quantity.values(STUDY)
    assert values[0] == pytest.approx(value)
    assert values.shape == (201,)
    assert quantity.unit == unit


def test_the_worst_execution_is_sought_among_those_of_the_resample():
    sample = STUDY["s"]
    killed, lowest = sample.of("killed", "b"), sample.of("lowest", "a")
    drawn = [np.flatnonzero(weights) for weights in sample.weights]
    expected = [lowest[own[killed[own].argmax()]] for own in drawn]
    assert len(set(expected)) > 1
    assert WhereWorst("s", "lowest", "a", "b", "killed").values(STUDY).tolist() == expected


def test_lead_of_worst():
    study = {"s": hand_sample(("a", "b"), {"killed": [[9, 1], [8, 2], [0, 7]]})}
    assert LeadOfWorst("s", "killed", "a").values(study)[0] == 1.0
    assert LeadOfWorst("s", "killed", "b").values(study)[0] == 2.0 - 9.0


@pytest.mark.parametrize(
    ("statement", "true"),
    [
        (Within(Mean("s", "finished", "a"), low=90.0), True),
        (Within(Mean("s", "finished", "a"), high=89.9), False),
        (about(Mean("s", "finished", "a"), 91.0, 1.0), True),
        (about(Mean("s", "finished", "a"), 92.0, 1.0), False),
        (Within(Mean("s", "soc", "b"), 45.0, 55.0, outside=True), True),
        (Within(Mean("s", "soc", "a"), 45.0, 55.0, outside=True), False),
        (Ranked("s", "finished", "a"), True),
        (Ranked("s", "finished", "b"), False),
        (Ranked("s", "finished", "b", 2, 2), True),
        (Ranked("s", "finished", "d", from_worst=True), True),
        (Ranked("s", "soc", "d"), True),  # shares the first rank
        (Ranked("s", "finished", "b", among=("b", "c", "d")), True),
        (Ranked("s", "killed", "c", among=("b", "c")), True),
        (Ranked("s", "killed", "b", among=("b", "c")), False),
        (Ranked("s", "killed", "b", among=("b", "c"), from_worst=True), True),
        (every([Ranked("s", "finished", "a"), Ranked("s", "killed", "a")]), True),
        (every([Ranked("s", "finished", "a"), Ranked("s", "wasted", "a")]), False),
        (Several((Ranked("s", "finished", "a"), Ranked("s", "wasted", "a")), at_least=1), True),
    ],
)
def test_statements(statement, true):
    truth, ours = statement(STUDY)
    assert truth[0] == true
    assert len(truth) == 201
    assert ours


@pytest.mark.parametrize(
    ("values", "ruling"),
    [
        ([10.0, 11.0, 12.0, 13.0], Ruling.HOLDS),
        ([1.0, 2.0, 3.0, 2.0], Ruling.FAILS),
        ([0.0, 12.0, 3.0, 9.0], Ruling.UNDECIDED),
    ],
)
def test_verdicts(values, ruling):
    study = {"s": hand_sample(("a",), {"finished": [[value] for value in values]})}
    claim = Claim("X1", "s", "a finishes 5 % or more", Within(Mean("s", "finished", "a"), low=5.0))
    (verdict,) = judge([claim], study)
    assert verdict.ruling is ruling
    assert 0.0 <= verdict.support <= 1.0


def test_one_execution_refutes_what_is_said_of_all():
    study = {"s": hand_sample(("a", "b"), {"killed": [[0, 1], [0, 2], [3, 1], [0, 4]]})}
    statement = Within(ShareBest("s", "killed", "a"), low=100.0)
    undecided, refuted = judge(
        [Claim("X1", "s", "", statement), Claim("X2", "s", "", statement, universal=True)], study
    )
    assert (undecided.ruling, refuted.ruling) == (Ruling.UNDECIDED, Ruling.FAILS)


@pytest.mark.parametrize("missing", [Mean("t", "finished", "a"), Mean("s", "finished", "z")])
def test_what_was_not_run_is_not_judged(missing):
    (verdict,) = judge([Claim("X1", "s", "", Within(missing))], STUDY)
    assert verdict.ruling is Ruling.NOT_RUN
    assert verdict.ours in ("t was not run", "z was not run")


def test_what_ours_says():
    assert Ranked("s", "finished", "b")(STUDY)[1] == "2nd (80.00 %)"
    assert Ranked("s", "finished", "d", from_worst=True)(STUDY)[1] == "1st from the worst (60.00 %)"
    assert Within(Mean("s", "wasted", "a"))(STUDY)[1] == "20.00 [20.00, 20.00] kWh"
    many = every(Ranked("s", "finished", policy) for policy in (*POLICIES, "a"))
    assert many(STUDY)[1] == (
        "2 of 5; not: s b finished 2nd (80.00 %), s c finished 3rd (70.00 %), s d finished 4th (60.00 %)"
    )
