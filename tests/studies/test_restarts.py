"""The study of killed jobs that come back: its conditions, its tables, and a trial run."""

from __future__ import annotations

import pandas as pd
import pytest
from hand_runs import hand_runs
from studies.comparison.results import blocks_by_case
from studies.restarts import command
from studies.restarts.study import POLICIES, TREATMENTS, conditions, label_of, restart_tables

from beasy_sched.model.choices import OnKill


def test_the_conditions() -> None:
    parts = conditions(["beasy", "easy"])
    assert [part.label for part in parts] == [
        "beasy", "beasy.requeue", "beasy.checkpoint", "easy", "easy.requeue", "easy.checkpoint",
    ]  # fmt: skip
    assert [part.on_kill for part in parts] == [*TREATMENTS] * 2
    assert len(POLICIES) == 9


def test_the_extent() -> None:
    chosen = command.parse_arguments([])
    assert len(chosen.extent.days) == 10
    assert chosen.policies == POLICIES
    assert len(chosen.extent.guards) == 2
    fewer = command.parse_arguments(["--days", "3", "--guard", "shed"])
    assert fewer.extent.days == chosen.extent.days[:3]
    assert [guard.mode.value for guard in fewer.extent.guards] == ["shed"]
    with pytest.raises(SystemExit, match="2"):
        command.parse_arguments(["--days", "0"])


def rows() -> pd.DataFrame:
    """Requeued jobs of a finish 1 point more on each day, continued ones 2; of b 0 and 5."""
    more = {"a": (0.0, 1.0, 2.0), "b": (0.5, 0.5, 5.5)}
    table = hand_runs()
    table = table[table["policy"] == "a"]
    found = []
    for policy, points in more.items():
        for treatment, point in zip(TREATMENTS, points, strict=True):
            label = label_of(policy, treatment)
            own = table.assign(policy=label, finished_pct=table["finished_pct"] + point)
            found.append(own.assign(redone_kwh=0.0 if treatment is OnKill.DROP else 3.0))
    return pd.concat(found)


def test_the_tables_by_hand() -> None:
    means, differences, ranking = restart_tables(blocks_by_case(rows(), resamples=20), ["a", "b"], {})
    never = {(row[0], row[1]): row[2] for row in means.rows}
    assert (never["a", "drop"], never["", "checkpoint"]) == ("2.50", "-3.00")  # 90 + 7.5, and 5.5 more
    finished = [row for row in differences.rows if row[2] == "finished jobs"]
    assert [row[3].split()[0] for row in finished] == ["+1.00", "+2.00", "+0.00", "+5.00"]
    redone = [row[3].split()[0] for row in differences.rows if row[2] == "work redone"]
    assert redone == ["+3.00"] * 4
    ranks = {row[1]: row[2:4] for row in ranking.rows[:3]}
    assert ranks == {"drop": ("2", "1"), "requeue": ("1", "2"), "checkpoint": ("2", "1")}


@pytest.mark.slow
def test_a_trial(tmp_path, capsys) -> None:
    assert command.main(["--quick", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    for part in ("Killed jobs that come back:", "Differences from drop:", "Ranking:", "redone"):
        assert part in said
    assert (tmp_path / "out" / "tables.md").exists()
    runs = pd.read_parquet(tmp_path / "out" / "campaign" / "runs.parquet")
    assert (runs["status"] == "ok").all()
    comes_back = runs["policy"].str.contains(".", regex=False)
    assert (runs["restart_count"].notna() == comes_back).all()
