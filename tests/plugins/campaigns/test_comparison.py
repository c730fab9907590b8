"""Several policies in one table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from small_campaign import scenario
from summaries import made_up

from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.outputs.tables import (
    COMPARISON_COLUMNS,
    Contender,
    GrowingTable,
    comparison_lines,
    comparison_markdown,
    conditions,
    own_warnings,
    summary_rows,
)
from beasy_sched.plugins.campaigns.campaign_table import COLUMNS as CAMPAIGN_COLUMNS
from beasy_sched.plugins.campaigns.campaign_table import row_of
from beasy_sched.plugins.campaigns.sweep import expand

JOBS = dict.fromkeys(
    ("finished", "failed", "reached_walltime", "killed", "not_completely_finished", "postponed", "rejected"),
    0,
)


def summary(soc_pct: float = 44.96, wasted_kwh: float = 1234.56, **jobs: int) -> RunSummary:
    return made_up(complete=True, **told(soc_pct, wasted_kwh, **jobs))


def told(soc_pct: float = 44.96, wasted_kwh: float = 1234.56, **jobs: int) -> dict[str, Any]:
    return {
        "hosts": 50,
        "jobs": {"submitted": 800, **JOBS, **jobs},
        "quality": {"bounded_slowdown_mean": 1.456},
        "site": {
            "guard": "shed", "veto": True, "soc_start_pct": 50.0, "soc_target_pct": 50.0,
            "soc_final_pct": soc_pct, "soc_distance_points": soc_pct - 50.0,
        },
        "energy_kwh": {"wasted": wasted_kwh, "curtailed": 0.0, "unserved": 0.0},
    }  # fmt: skip


def cells(line: str) -> list[str]:
    return line.split()


def test_a_row_holds_the_figures_of_the_summary():
    row = comparison_lines([Contender("beasy", summary(finished=797, postponed=2, killed=1))])[-1]
    #                     fin.   postp. wallt. not    killed SoC    off     wasted     curt.  slowdown
    assert cells(row) == [
        "beasy",
        "99.6",
        "0.2",
        "0.0",
        "0.0",
        "0.1",
        "45.0",
        "-5.0",
        "1,234.6",
        "0.0",
        "1.46",
    ]


def test_every_state_has_its_own_column():
    numbers = dict(zip(JOBS, (100, 8, 16, 24, 32, 40, 48), strict=True))
    values = {column.name: column.value(summary(**numbers)) for column in COMPARISON_COLUMNS}
    shares = {name: n / 8 for name, n in numbers.items()} | {"finished": (100 + 8) / 8}
    assert {name: values[f"{name}_pct"] for name in JOBS} == shares


def test_finished_means_the_same_in_every_table():
    """Jobs that ended by themselves, with an error code or without."""
    given = summary(finished=500, failed=100, killed=200)
    given.killed_as_in_paper = 200
    (column,) = [column for column in COMPARISON_COLUMNS if column.name == "finished_pct"]
    assert column.value(given) == 75.0
    hashes = {
        column.name: "" for column in CAMPAIGN_COLUMNS if "sha256" in column.name or "version" in column.name
    }
    row = row_of(expand([scenario()])[0], hashes, given, None)
    assert (row["finished_pct"], row["jobs_finished"], row["jobs_failed"]) == (75.0, 500, 100)
    rows = dict(summary_rows(given))
    assert rows["  finished"] == "600 (75.00 %)"
    assert rows["    of these, with an error code"] == "100 (12.50 %)"


@pytest.mark.parametrize("state", ["failed", "rejected"])
def test_rare_states_are_shown_where_there_are_any(state: str):
    none, some = Contender("a", summary(finished=800)), Contender("b", summary(**{state: 400}))
    assert state not in comparison_markdown([none])
    header, _, *rows = comparison_markdown([none, some]).splitlines()
    place = [name.strip() for name in header.split("|")].index(f"{state} (%)")
    assert [row.split("|")[place].strip() for row in rows] == ["0.00", "50.00"]


def test_the_eight_fit_80_columns_and_stand_wider_where_there_is_room():
    longest = Contender("workload-reactive", summary(finished=800, wasted_kwh=999.9, soc_pct=20.0))
    usual = Contender("power-reactive", summary(finished=700, killed=100, wasted_kwh=999.9))
    narrow, wide = (comparison_lines([longest, usual], width) for width in (80, 100))
    assert max(map(len, narrow)) <= 80
    assert 80 < max(map(len, wide)) <= 100
    assert [cells(line) for line in narrow] == [cells(line) for line in wide]


def test_columns_are_aligned_at_the_right():
    lines = comparison_lines(
        [Contender("a", summary(finished=800)), Contender("longer-name", summary(killed=8))]
    )
    ends = [[match.end() for match in re.finditer(r"\S+", line)][1:] for line in lines[3:]]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("contender", "text"),
    [
        (Contender("bad", None, "exit code 3"), "failed: exit code 3"),
        (Contender("bad", summary(finished=800), "the simulator died"), "failed: the simulator died"),
        (Contender("bad"), "failed: no summary was written"),
        (Contender("bad", made_up(**told(), complete=False, error="two\nlines")), "ended early: two lines"),
    ],
)  # fmt: skip
def test_a_run_without_a_result_is_a_row_that_says_so(contender: Contender, text: str):
    good = Contender("good", summary(finished=800))
    assert comparison_lines([good, contender])[-1] == f"bad     {text}"
    last = comparison_markdown([good, contender]).splitlines()[-1]
    assert last.startswith(f"| bad | {text} |")
    assert last.count("|") == comparison_markdown([good]).splitlines()[0].count("|")
    assert comparison_lines([good, contender], 60)[:-1] == comparison_lines([good], 60)


def test_a_long_complaint_is_cut_to_the_width():
    line = comparison_lines([Contender("bad", None, "why " * 50)], 60)[-1]
    assert len(line) <= 60
    assert line.endswith("...")


def test_without_a_site_there_is_no_state_of_charge():
    bare = summary(finished=800)
    bare.site = bare.energy_kwh = None
    assert cells(comparison_lines([Contender("easy", bare)])[-1])[6:] == ["-", "-", "1.46"]
    assert conditions([Contender("easy", bare)]) == ["800 jobs on 50 servers"]


def on_a_grid(
    *,
    cost: float = 7.786,
    carbon_kg: float | None = None,
    missed: int = 0,
    battery: bool = False,
    **jobs: int,
) -> RunSummary:
    """A run on a site with a grid, and without a battery but where it is asked for."""
    given = told(**jobs)
    if not battery:
        given["site"] = {"guard": "shed", "veto": True}
    given["grid"] = {"currency": "EUR", "cost": cost, "carbon_kg": carbon_kg, "green_share": 0.2601}
    given["deadlines"] = {"jobs": 800, "jobs_missed": missed}
    return made_up(complete=True, **given)


def test_on_a_site_with_a_grid_cost_and_green_share_stand_in_the_place_of_the_battery():
    runs = [Contender("conventional", on_a_grid(finished=800)), Contender("b", on_a_grid(missed=1234))]
    names, units, first, second = (cells(line) for line in comparison_lines(runs)[1:])
    assert names[6:] == ["wasted", "tailed", "cost", "green", "deadl.", "down"]
    assert units[5:] == ["kWh", "kWh", "EUR", "%", "jobs"]
    assert first[6:] == ["1,234.6", "0.0", "7.79", "26.0", "0", "1.46"]
    assert second[-2] == "1,234"
    header = comparison_markdown(runs)
    assert (
        "cost of the imported energy (EUR) | green share of the load (%) | deadlines missed (jobs)" in header
    )
    assert "the grid covers the remaining demand" in conditions(runs)


def test_carbon_is_shown_where_a_run_has_it():
    runs = [Contender("a", on_a_grid(carbon_kg=16.24)), Contender("b", on_a_grid())]
    names, _, first, second = (cells(line) for line in comparison_lines(runs)[1:])
    place = names.index("CO2")
    assert (first[place], second[place]) == ("16.2", "-")


def test_a_site_with_everything_still_fits_100_columns():
    """Kinds of ends that no job had give way."""
    both = on_a_grid(cost=12345.67, carbon_kg=4321.0, missed=17, battery=True, finished=700, killed=100)
    lines = comparison_lines([Contender("workload-reactive", both), Contender("power-reactive", both)], 100)
    assert max(map(len, lines)) <= 100
    assert {"SoC", "cost", "CO2", "green", "deadl.", "killed"} < {*cells(lines[1])}
    assert "poned" not in cells(lines[1])


def test_no_minus_before_zero():
    row = comparison_lines([Contender("a", summary(soc_pct=49.999))])[-1]
    assert cells(row)[7] == "+0.0"


def test_a_run_that_ended_early_adds_no_column_and_no_condition():
    early = made_up(**told(failed=800) | {"hosts": 7})
    contenders = [Contender("a", summary(finished=800)), Contender("b", early)]
    assert "failed" not in comparison_markdown(contenders).splitlines()[0]
    assert conditions(contenders) == conditions(contenders[:1])


def test_conditions_are_those_of_all_runs():
    other = summary()
    assert other.site is not None
    other.site.guard, other.site.veto = "none", False
    said = conditions([Contender("a", summary()), Contender("b", summary()), Contender("c", None, "x")])
    assert said == [
        "800 jobs on 50 servers", "guard shed, with veto", "battery from 50 % to a target of 50 %",
    ]  # fmt: skip
    assert "guard none, without veto" in conditions([Contender("a", summary()), Contender("b", other)])


def test_warnings_that_not_all_runs_have() -> None:
    """Those of all are about the days, which are checked before."""
    warned = [["of the days", "2 jobs cannot start"], ["of the days"]]
    runs = [made_up(complete=True, **told(), warnings=warnings) for warnings in warned]
    contenders = [Contender("beasy", runs[0]), Contender("easy", runs[1]), Contender("failed", None, "why")]
    assert own_warnings(contenders) == [("beasy", "2 jobs cannot start")]
    assert own_warnings(contenders[:1]) == []


def test_a_growing_table_has_the_cells_of_the_whole_one():
    runs = [
        Contender("workload-reactive", summary(finished=797, killed=1)),
        Contender("easy", summary(finished=800)),
    ]
    growing = GrowingTable([run.policy for run in runs])
    lines = [line for run in runs for line in growing.lines(run, "1.0 s")]
    whole = comparison_lines(runs)
    assert [line.split() for line in lines[:3]] == [line.split() for line in whole[:3]]
    assert [line.split()[:-2] for line in lines[3:]] == [line.split() for line in whole[3:]]
    assert len({len(line) for line in lines[3:]}) == 1


def test_a_growing_table_fits_a_narrow_terminal_and_has_rows_that_failed():
    growing = GrowingTable(["workload-reactive", "easy"], 78)
    failed = growing.lines(Contender("easy", None, "no energy"))
    lines = growing.lines(Contender("workload-reactive", summary(finished=800)), "120.0 s")
    assert failed == ["easy               failed: no energy"]
    assert max(map(len, lines)) <= 78
    assert "killed" in lines[1]
