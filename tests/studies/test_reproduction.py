"""The experiments of a reproduction, its tables and its ablation."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hand_study import hand_sample
from small_campaign import run_campaign, scenario
from studies.beasy.claims import CLAIMS
from studies.beasy.figures import make_closeups
from studies.beasy.study import (
    MEASURES,
    OUR_GUARD,
    PAPER_RANKS,
    PAPERS_GUARD,
    VARIANTS,
    Size,
    ablation,
    ablation_table,
    campaign_in,
    experiments,
    guard_table,
    left_out,
    result_tables,
    sample_of,
    study_of,
    verdict_tables,
)
from studies.claims import judge

from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.scenario import PAPER_POLICIES
from beasy_sched.plugins.campaigns.scenario_file import find_scenario
from beasy_sched.plugins.campaigns.text_tables import TextTable, markdown_of

BEST_BEGIN = {
    "best-begin": hand_sample(
        PAPER_POLICIES,
        {
            "finished": [[70, 80, 85, 90, 88, 95, 92, 99.0]] * 3,
            "killed": [[9, 8, 7, 4, 5, 2, 3, 0]] * 3,
            "soc": [[70, 30, 50, 50, 50, 50, 50, 52]] * 3,
            "wasted": [[50, 60, 20, 30, 40, 25, 35, 12.9]] * 3,
        },
    )
}


def test_table_one_is_laid_out_as_the_papers():
    ranks, means = result_tables(BEST_BEGIN)
    assert ranks.head == ("Scenario", "Measure", *PAPER_POLICIES, "rho")
    title = "Profile best-case and workload in beginning"
    assert [row[0] for row in ranks.rows] == [title, "", "", ""]
    assert [row[1] for row in ranks.rows] == ["Finished jobs", "Killed jobs", "SoC", "Wasted energy"]
    assert ranks.rows[0][2:] == (
        "8 (8)",
        "7 (7)",
        "6 (6)",
        "4 (4)",
        "5 (5)",
        "2 (2)",
        "3 (3)",
        "1 (1)",
        "1.00",
    )
    assert ranks.rows[2][2:10] == ("1 (1)", "8 (8)", "3 (3)", "3 (6)", "3 (7)", "3 (4)", "3 (5)", "2 (2)")
    assert means.rows[3][-1] == "12.9 [12.9, 12.9]"
    assert means.rows[3][1] == "Wasted energy [kWh]"


def test_a_scenario_of_ones_own_has_no_ranks_beside():
    ranks, _ = result_tables({"mine": hand_sample(("a", "b"), {"soc": [[1, 2]]})})
    assert ranks.rows[2] == ("", "SoC", "2", "1", "")
    assert ranks.rows[0][0] == "mine"


def test_scenarios_with_other_policies_get_tables_of_their_own():
    study = {"one": hand_sample(("a",), {"soc": [[1]]}), "two": hand_sample(("b",), {"soc": [[1]]})}
    assert [table.head[2] for table in result_tables(study)] == ["a", "b", "a", "b"]


def test_claims_and_numbers():
    numbers, claims = verdict_tables(judge(CLAIMS, BEST_BEGIN))
    rows = {row[0]: row for row in claims.rows}
    assert rows["BB1"][1:] == ("holds", "BEASY finishes the most jobs", "1st", "1st (99.00 %)", "100 %")
    assert rows["BB6"][1:] == (
        "holds",
        "BEASY wastes 35.33 % less than workload-reactive",
        "35.33 % less",
        "35.50 [35.50, 35.50] % saved",
        "100 %",
    )
    assert "AV1" not in rows
    assert {row[0] for row in numbers.rows} >= {"BB2", "BB6", "BB15"}
    holding = sum(row[1] == "holds" for row in claims.rows)
    assert claims.title.startswith(f"Claims: {holding} holds")


def frame(**changes: object) -> pd.DataFrame:
    """Rows of two policies in two executions."""
    rows = []
    for seed in (1, 2):
        for policy in ("a", "b"):
            row = {"scenario": "s", "tuple": 0, "seed": seed, "policy": policy, "status": "ok"}
            rows.append({**row, **{m.column: float(seed) for m in MEASURES.values()}})
    table = pd.DataFrame(rows)
    for name, value in changes.items():
        table.loc[0, name] = value
    return table


def test_an_execution_with_a_failed_run_is_left_out_for_all():
    sample = sample_of(frame())
    assert sample is not None
    assert sample.executions == ((0, 1), (0, 2))
    partial = sample_of(frame(status="failed", finished_pct=math.nan))
    assert partial is not None
    assert partial.executions == ((0, 2),)
    assert left_out(frame(status="failed")) == 1
    assert left_out(frame()) == 0
    assert study_of(frame(status="failed").iloc[:2]) == {}
    assert left_out(frame(status="failed").iloc[:2]) == 1


def test_experiments():
    size = Size(headline=4, shed=2, ablation=1)
    found = experiments("critical", [scenario()], size)
    assert list(found) == ["critical", "critical-shed", "ablation"]
    assert (found["critical"][0].seeds, found["critical"][0].guards) == ((1, 2, 3, 4), (PAPERS_GUARD,))
    assert (found["critical-shed"][0].seeds, found["critical-shed"][0].guards) == ((1, 2), (OUR_GUARD,))
    assert [each.name for each in found["ablation"]] == [f"small+{variant.name}" for variant in VARIANTS]
    assert [*experiments("average", [scenario()], Size(1, 0, 0))] == ["average"]


def test_each_variant_changes_what_it_says():
    base = find_scenario("best-end")
    varied = dict(zip([v.name for v in VARIANTS], ablation([base]), strict=True))
    assert varied["as-it-is"].site == base.site
    assert varied["battery-double"].site["battery"]["capacity_kwh"] == 400.0
    assert varied["battery-double"].site["battery"]["soc_min_pct"] == 20.0
    assert varied["battery-half"].parsed_site().storage.battery.charge_limit_w == 25_000.0
    workload = varied["long-jobs"].tuples[0].workload
    assert (workload.jobs, workload.run_median_s, workload.run_cap_s) == (345, 5400.0, 64_800.0)
    assert varied["release"].policies[0].options == {"release": "at-once"}
    assert varied["shed-veto"].guards == (OUR_GUARD,)
    assert varied["min-on-4h"].plan.minimum_on_s == 14_400.0
    assert varied["store"].plan.surplus.value == "store"
    texts = {(v.site_text(v.guards[0]), str(v.plan), str(v.policies), str(v.tuples)) for v in varied.values()}
    assert len(texts) == len(VARIANTS)


def test_guards_and_ablation_in_tables():
    both = guard_table(
        frame().replace({"a": "beasy", "b": "next"}), frame().replace({"a": "beasy", "b": "next"})
    )
    assert both.rows[0][:3] == ("s", "beasy", "1.5 → 1.5")
    runs = frame().assign(scenario="s+shed").replace({"a": "beasy", "b": "next"})
    shed = next(row for row in ablation_table(runs).rows if row[0] == "guard shed, no veto")
    assert shed[1:] == ("1.5 / 1.5 / 1.5 / 1.5 / 1.5", "", "", "1.5 / 1.5 / 1.5 / 1.5 / 1.5")


def test_closeups_are_the_same_runs_with_all_their_files(tmp_path):
    run_campaign(tmp_path / "c", scenario(("seeds = [1, 2]", "seeds = [1]")))
    campaign = read_campaign(tmp_path / "c")
    name = campaign.runs["run"].iloc[0]
    found = make_closeups(campaign, [name], tmp_path, jobs=1)
    trace = found[name].trace
    assert trace["soc_pct"].iloc[-1] == pytest.approx(campaign.runs["soc_final_pct"].iloc[0], abs=1e-3)
    assert (tmp_path / "closeups" / name / "run_decisions.jsonl").exists()
    killed = campaign.runs["jobs_killed"].iloc[0]
    assert sum(found[name].kills().values()) == killed


def test_no_campaign_is_none(tmp_path):
    assert campaign_in(tmp_path, "critical") is None


def test_markdown():
    table = TextTable("Title", ("a", "b"), [("x|y", "< 1")], ("b",), "A note.")
    assert markdown_of([table]) == ("### Title\n\nA note.\n\n| a | b |\n| --- | ---: |\n| x\\|y | &lt; 1 |\n")


def test_text(capsys):
    TextTable("Title", ("a", "b"), [("word " * 30, "1")], ("b",), "A note.").print(60)
    out = capsys.readouterr().out
    assert "Title" in out
    assert "A note." in out
    assert max(map(len, out.splitlines())) <= 60
    assert out.count("word") == 30


def test_the_papers_ranks_cover_its_policies():
    assert {len(row) for rows in PAPER_RANKS.values() for row in rows.values()} == {len(PAPER_POLICIES)}
