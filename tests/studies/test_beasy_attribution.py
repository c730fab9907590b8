"""Which reading makes which claims true: variants, and how far a study agrees with the paper."""

from __future__ import annotations

import pandas as pd
import pytest
from studies.beasy.attribution import (
    READINGS,
    agreement_of,
    attribution,
    attribution_table,
    distances_of,
    study_in_variant,
    unmet_table,
)
from studies.beasy.study import MEASURES, PAPER_RANKS, TABLE_MEASURES, study_of

from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES
from beasy_sched.plugins.campaigns.scenario_file import find_scenario

BASE = find_scenario("best-end")


def frame(scenario: str = "best-begin", policies: tuple[str, ...] = PAPER_POLICIES) -> pd.DataFrame:
    """Two executions, in which each policy has exactly its rank in the paper's best-begin."""
    rows = []
    for number in (0, 1):
        for policy in policies:
            place = PAPER_POLICIES.index(policy)
            row = {"scenario": scenario, "tuple": number, "seed": 1, "policy": policy, "status": "ok"}
            row |= {measure.column: 50.0 for measure in MEASURES.values()}
            for name in TABLE_MEASURES:
                rank, measure = PAPER_RANKS["best-begin"][name][place], MEASURES[name]
                row[measure.column] = 100.0 - rank if measure.higher_is_better else float(rank)
            rows.append(row)
    return pd.DataFrame(rows)


def test_where_all_ranks_are_the_papers_all_cells_agree() -> None:
    found = agreement_of(study_of(frame()))
    assert (found.cells, found.all_cells, found.judged) == (32, 32, 21)
    assert found.rho == pytest.approx(1.0)


def test_distances_are_in_units_of_the_tolerance() -> None:
    """BB2: BEASY finishes 99.01 %, to 2 points; here it finishes 99."""
    assert distances_of(study_of(frame()))["BB2"] == pytest.approx(-0.005)


def test_a_variant_has_the_policies_that_it_changes() -> None:
    made = {scenario.name: scenario for scenario in attribution([BASE], READINGS)}
    assert [*made] == [f"best-end+{variant.name}" for variant in READINGS]
    for variant in READINGS:
        parts = made[f"best-end+{variant.name}"].policies
        assert {part.name for part in parts} == set(variant.policies)
    (counting,) = made["best-end+count-idle"].policies
    assert counting.options == {"count": "idle"}
    assert made["best-end+never"].policies[0].options == {"keep": "never"}
    assert made["best-end+each-step"].plan.forecast_step == ""
    assert made["best-end+battery-half"].site["battery"]["capacity_kwh"] == 100.0
    assert made["best-end+more-power"].tuples[0].production.pv_kw == 12.5
    assert {part.workload.jobs for part in made["best-end+jobs-900"].tuples} == {900}


def test_a_variant_takes_the_place_of_its_policies_only() -> None:
    variant = next(each for each in READINGS if each.name == "spend-all")
    changed = frame("best-begin+spend-all", ("beasy",)).assign(finished_pct=1.0)
    study = study_in_variant(frame(), changed, variant)
    means = dict(zip(PAPER_POLICIES, study["best-begin"].means("finished")[0], strict=True))
    assert means["beasy"] == 1.0
    assert means["follow-plan"] == 92.0


def test_a_variant_of_a_day_has_the_runs_of_that_day_alone() -> None:
    variant = next(each for each in READINGS if each.name == "battery-half")
    runs, changed = frame(), frame("best-begin+battery-half")
    study = study_in_variant(runs[runs["tuple"] == 1], changed, variant)
    assert study["best-begin"].executions == ((1, 1),)


@pytest.mark.slow
def test_the_table_has_a_line_for_each_variant_that_ran() -> None:
    changed = frame("best-begin+spend-all", ("beasy",)).assign(finished_pct=1.0)
    table = attribution_table(frame(), changed, READINGS)
    assert [row[0] for row in table.rows] == ["unchanged", "BEASY spends all of a surplus"]
    true = [int(row[1].split()[0]) for row in table.rows]
    assert true[0] > true[1]


@pytest.mark.slow
def test_false_claims_come_with_the_readings_in_which_they_are_true() -> None:
    """BEASY finishes 1 % here (BB1, BB2 are false), but 99 % where it spends all of a surplus."""
    runs = frame()
    runs.loc[runs["policy"] == "beasy", "finished_pct"] = 1.0
    changed = frame("best-begin+spend-all", ("beasy",))
    rows = {row[0]: row for row in unmet_table(runs, changed, READINGS).rows}
    assert rows["BB2"][1:3] == ("BEASY finishes 99.01 %", "99.01 %")
    assert rows["BB2"][3].startswith("1.00")
    assert rows["BB2"][4] == "BEASY spends all of a surplus"
    assert "BB1" in rows
    assert "BB2" not in {row[0] for row in unmet_table(frame(), changed, READINGS).rows}
