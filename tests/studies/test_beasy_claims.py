"""The claims as data: they can all be judged, and the paper's own results make its claims true."""

from __future__ import annotations

import pytest
from hand_study import hand_sample
from studies.beasy.claims import ALL, CLAIMS, LowPlaces, Ranked
from studies.beasy.study import MEASURES, PAPER_RANKS
from studies.claims import Ruling, Several, judge

from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES


def study_of_ranks(ranks=PAPER_RANKS):
    """A study whose means have given ranks."""
    return {
        scenario: hand_sample(
            PAPER_POLICIES,
            {m: [[-r if MEASURES[m].higher_is_better else r for r in row]] for m, row in rows.items()},
            resamples=3,
        )
        for scenario, rows in ranks.items()
    }


def is_about_ranks(statement) -> bool:
    if isinstance(statement, Several):
        return all(is_about_ranks(part) for part in statement.statements)
    quantity = getattr(statement, "quantity", None)
    if isinstance(quantity, LowPlaces):
        return True
    return isinstance(statement, Ranked) and statement.measure in ("finished", "killed", "soc", "wasted")


OF_RANKS = [claim for claim in CLAIMS if is_about_ranks(claim.statement)]


def test_names_are_unique():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) > 100


def test_all_can_be_judged():
    assert not [v for v in judge(CLAIMS, study_of_ranks()) if v.ruling is Ruling.NOT_RUN]


@pytest.mark.parametrize("claim", OF_RANKS, ids=lambda claim: claim.name)
def test_the_papers_table_makes_its_claims_true(claim):
    (verdict,) = judge([claim], study_of_ranks())
    assert verdict.ruling is Ruling.HOLDS, verdict.ours


@pytest.mark.parametrize("claim", OF_RANKS, ids=lambda claim: claim.name)
def test_a_reversed_table_makes_them_false(claim):
    reversed_ranks = {
        scenario: {measure: [9 - rank for rank in row] for measure, row in rows.items()}
        for scenario, rows in PAPER_RANKS.items()
    }
    (verdict,) = judge([claim], study_of_ranks(reversed_ranks))
    if claim.name in ("T7", "T8", "T10"):  # said of the middle of the field, which stays there
        return
    assert verdict.ruling is Ruling.FAILS, verdict.ours


def test_the_table_is_complete():
    assert tuple(PAPER_RANKS) == ALL
    for rows in PAPER_RANKS.values():
        assert tuple(rows) == ("finished", "killed", "soc", "wasted")
        for row in rows.values():  # equals share a rank, and the next is skipped
            assert [1 + sum(other < rank for other in row) for rank in row] == list(row)
