"""The table of several runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import beasy_sched as bs
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.outputs.tables import COMPARISON_COLUMNS, Contender, comparison_lines


def test_figures_are_those_of_the_summaries(run: bs.Run, fcfs: bs.Run) -> None:
    table = bs.compare([run, fcfs])
    assert [*table.index] == ["easy", "fcfs"]
    assert set(table.columns) <= {column.name for column in COMPARISON_COLUMNS}
    for each in (run, fcfs):
        row = table.loc[each.summary["settings"]["policy"]]
        assert row["finished_pct"] == pytest.approx(100 * each.summary["jobs"]["finished"] / 60)
        assert row["wasted_kwh"] == each.summary["energy_kwh"]["wasted"]
        assert row["soc_final_pct"] == each.summary["site"]["soc_final_pct"]


def test_it_reads_as_the_table_of_scripts_run(run: bs.Run, fcfs: bs.Run) -> None:
    contenders = [
        Contender(name, read_summary(each.prefix)) for name, each in (("easy", run), ("fcfs", fcfs))
    ]
    expected = [line.split() for line in comparison_lines(contenders)]
    shown = [line.split() for line in repr(bs.compare([run, fcfs])).splitlines()]
    expected[1].remove("policy")
    assert shown == expected


def test_a_notebook_has_whole_headings(run: bs.Run) -> None:
    html = bs.compare(run)._repr_html_()
    assert "<th>wasted energy (kWh)</th>" in html
    assert f"<td>{run.summary['energy_kwh']['wasted']:,.1f}</td>" in html


def test_what_is_made_of_it_is_a_data_frame(run: bs.Run, fcfs: bs.Run) -> None:
    table = bs.compare([run, fcfs])
    assert isinstance(table, pd.DataFrame)
    best = table.sort_values("finished_pct", ascending=False)
    assert type(best) is pd.DataFrame
    assert type(table[["killed_pct"]]) is pd.DataFrame
    table["mine"] = ["a", "b"]
    assert "mine" in repr(table)
    assert "mine" in table._repr_html_()


def test_rows_are_named_by_run_where_the_policy_is_the_same(run: bs.Run, fcfs: bs.Run, days) -> None:
    again = days.folder / "again" / "easy"
    again.parent.mkdir()
    shutil.copy(f"{run.prefix}_summary.json", f"{again}_summary.json")
    assert [*bs.compare([run, again, fcfs]).index] == ["run", "easy", "fcfs"]
    assert [*bs.compare({"first": run, "second": again}).index] == ["first", "second"]


def test_folders_stand_for_their_runs(run: bs.Run, fcfs: bs.Run) -> None:
    assert sorted(bs.compare(Path(run.prefix).parent).index) == ["easy", "fcfs"]


def test_a_run_that_ended_early_says_why(run: bs.Run, tmp_path: Path) -> None:
    summary = {**run.summary, "complete": False, "error": "the sky fell"}
    (tmp_path / "bad_summary.json").write_text(json.dumps(summary))
    table = bs.compare({"good": run, "bad": tmp_path / "bad"})
    assert table.loc["bad", "problem"] == "ended early: the sky fell"
    assert table.loc["good", "problem"] == ""
    assert table.drop(columns="problem").loc["bad"].isna().all()
    assert "the sky fell" in repr(table)
    assert "the sky fell" in table._repr_html_()
    alone = bs.compare(tmp_path / "bad")
    assert [*alone.columns] == ["problem"]
    assert "the sky fell" in repr(alone)


def test_nothing_to_compare_is_told(tmp_path: Path, run: bs.Run, fcfs: bs.Run) -> None:
    with pytest.raises(ConfigError, match="expected at least one"):
        bs.compare([])
    with pytest.raises(InputError, match="is not a run"):
        bs.compare([tmp_path / "nothing"])
    with pytest.raises(ConfigError, match="'all' matches 2 runs"):
        bs.compare({"all": Path(run.prefix).parent})
