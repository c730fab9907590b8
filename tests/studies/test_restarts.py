"""The study of killed jobs that come back: its conditions, its tables, and a trial run."""

from __future__ import annotations

import pandas as pd
import pytest
from hand_runs import hand_runs
from studies.comparison.results import blocks_by_case
from studies.restarts import command
from studies.restarts.study import (
    POLICIES,
    TREATMENTS,
    conditions,
    counts_of,
    findings,
    label_of,
    restart_tables,
)

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
    """Requeued jobs of beasy finish 1 point more on each day, continued ones 2; of b 0 and 5; of c 0."""
    more = {"beasy": (0.0, 1.0, 2.0), "b": (0.5, 0.5, 5.5), "c": (0.25, 0.25, 0.25)}
    table = hand_runs()
    table = table[table["policy"] == "a"]
    found = []
    for policy, points in more.items():
        for treatment, point in zip(TREATMENTS, points, strict=True):
            label, back = label_of(policy, treatment), treatment is not OnKill.DROP and policy != "c"
            own = table.assign(policy=label, finished_pct=table["finished_pct"] + point)
            own = own.assign(redone_kwh=3.0 * back, restart_count=7 * back)
            found.append(own.assign(soc_final_pct=49.0 + own["seed"] - 7))
    return pd.concat(found)


def test_the_tables_by_hand() -> None:
    blocks = blocks_by_case(rows(), resamples=20)
    tables = restart_tables(blocks, ["beasy", "b", "c"], {}, counts_of(rows()))
    means, differences, ranking, against = tables
    by_condition = {(row[0], row[1]): row[2:5] for row in means.rows}
    assert by_condition["beasy", "drop"] == ("2.50", "0.0", "49.5")  # 90 + 7.5
    assert by_condition["", "checkpoint"] == ("2.25", "0.0", "49.5")  # of c
    assert [row[3] for row in means.rows] == ["0.0", "7.0", "7.0"] * 2 + ["0.0"] * 3
    finished = [row for row in differences.rows if row[2] == "finished jobs"]
    assert [row[3].split()[0] for row in finished] == ["+1.00", "+2.00", "+0.00", "+5.00"]
    assert [row[-2] for row in means.rows] == ["0.00", "3.00", "3.00"] * 2 + ["0.00"] * 3  # redone
    assert differences.note.endswith("the same with c (requeue), c (checkpoint).")
    ranks = {row[1]: row[2:5] for row in ranking.rows[:3]}
    assert ranks == {"drop": ("3", "1", "2"), "requeue": ("1", "2", "3"), "checkpoint": ("2", "1", "3")}
    first, second = ([cell.split()[0] for cell in row[2:]] for row in against.rows[:2])
    assert [row[1] for row in against.rows[:2]] == ["b", "c"]
    assert (first, second) == (["+0.50", "-0.50", "+3.50"], ["+0.25", "-0.75", "-1.75"])
    assert against.rows[0][2].endswith("p 0.250")  # of three days
    [finding] = findings(blocks, ["beasy", "b", "c"], {}, counts_of(rows()))
    assert "never come back with c, and 7.00 times per execution with beasy" in finding
    assert finding.endswith("beasy is 3rd (drop), 1st (requeue), 2nd (checkpoint) of 3.")


@pytest.mark.slow
def test_a_trial(tmp_path, capsys) -> None:
    assert command.main(["--quick", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    for part in ("Killed jobs that come back:", "Ranking:", "treated alike:", "redone"):  # no job is killed
        assert part in said
    assert (tmp_path / "out" / "tables.md").exists()
    runs = pd.read_parquet(tmp_path / "out" / "campaign" / "runs.parquet")
    assert (runs["status"] == "ok").all()
    comes_back = runs["policy"].str.contains(".", regex=False)
    assert (runs["restart_count"].notna() == comes_back).all()
