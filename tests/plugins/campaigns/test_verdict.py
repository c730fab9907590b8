"""What a comparison comes to, in words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.campaigns.test_comparison import JOBS
from summaries import made_up

from beasy_sched.outputs.tables import Contender
from beasy_sched.outputs.verdict import verdict


def ran(
    name: str,
    finished: int = 100,
    killed: int = 0,
    wait_s: float | None = 60.0,
    *,
    submitted: int = 100,
    complete: bool = True,
    **sections: Any,
) -> Contender:
    jobs = {**JOBS, "submitted": submitted, "finished": finished, "killed": killed}
    parts = {"hosts": 4, "jobs": jobs, "quality": {"waiting_s_mean": wait_s}, **sections}
    return Contender(name, made_up(complete=complete, **parts))


def battery(off_points: float, unserved_kwh: float = 0.0) -> dict[str, Any]:
    levels = {"soc_target_pct": 50.0, "soc_final_pct": 50.0 + off_points, "soc_distance_points": off_points}
    return {"site": levels, "energy_kwh": {"unserved": unserved_kwh}}


def came_back(count: int) -> dict[str, Any]:
    return {"restarts": {"jobs": 1, "count": count, "checkpoints": 0}}


def on_grid(cost: float, met: int = 10, import_kwh: float = 1.0) -> dict[str, Any]:
    return {
        "site": {"guard": "shed"},
        "grid": {"currency": "USD", "cost": cost, "import_kwh": import_kwh},
        "deadlines": {"jobs": 10, "jobs_met": met, "jobs_missed": 10 - met},
    }


@pytest.mark.parametrize(
    ("contenders", "said"),
    [
        ([ran("easy", 90, 4, 12.4)], ["easy finished 90 of 100 jobs (90.0 %) and killed 4; jobs that started"
                                      " waited 12 s on average."]),
        ([ran("easy", wait_s=None)], ["easy finished 100 of 100 jobs (100.0 %) and killed none."]),
        ([ran("a"), ran("b")],
         ["No policy killed a job.",
          "Every policy finished all 100 jobs; jobs that started waited 60 s on average."]),
        ([ran("a", **came_back(3))],
         ["a finished 100 of 100 jobs (100.0 %) and lost none; jobs that started waited 60 s on average.",
          "Killed jobs came back 3 times."]),
        ([ran("a", **came_back(3)), ran("b", **came_back(1500)), ran("c")],
         ["No killed job was lost.",
          "Killed jobs came back 1,500 times with b (most), and 0 with c.",
          "Every policy finished all 100 jobs; jobs that started waited 60 s on average."]),
        ([ran("a", wait_s=9.0), ran("b", wait_s=2000.0)],
         ["No policy killed a job.",
          "Every policy finished all 100 jobs; jobs that started waited from 9 s on average (a)"
          " to 2,000 s (b)."]),
        ([ran("a", 95, 5), ran("b", 95, 5)],
         ["Every policy killed 5 of 100 jobs.",
          "Every policy finished 95 of 100 jobs; jobs that started waited 60 s on average."]),
        # the one that finishes most has the longer waits
        ([ran("a", 99, 0, 2000.0), ran("b", 98, 0, 300.0), ran("c", 80, 20, 10.0)],
         ["a and b killed none of the 100 jobs, c 20.",
          "a finished the most jobs, 99 of 100 (99.0 %), but its jobs waited 2,000 s on average;"
          " b finished 1 fewer, and its jobs waited 300 s."]),
        # nothing comes near it at a shorter wait: c kills, d is too far
        ([ran("a", 99, 0, 2000.0), ran("c", 98, 1, 10.0), ran("d", 90, 10, 10.0)],
         ["a killed none of the 100 jobs, the others 1 to 10 (most: d).",
          "a finished the most jobs, 99 of 100 (99.0 %); d the fewest, 90; jobs that started waited from"
          " 10 s on average (c and d) to 2,000 s (a)."]),
        ([ran("a", 90, 2), ran("b", 80, 7), ran("c", 80, 7)],
         ["a killed the fewest jobs, 2 of 100; b and c the most, 7.",
          "a finished the most jobs, 90 of 100 (90.0 %); b and c the fewest, 80; jobs that started waited"
          " 60 s on average."]),
        ([ran("a", 99, 0), ran("b", 99, 1), ran("c", 99, 1)],
         ["a killed none of the 100 jobs, b and c 1 each.",
          "Every policy finished 99 of 100 jobs; jobs that started waited 60 s on average."]),
        # of equals, the one with the shorter wait is set against the rival
        ([ran("a", 99, 0, 900.0), ran("b", 99, 0, 800.0), ran("c", 98, 0, 5.0)],
         ["No policy killed a job.",
          "a and b finished the most jobs, 99 of 100 (99.0 %), but those of b waited 800 s on average;"
          " c finished 1 fewer, and its jobs waited 5 s."]),
    ],
)  # fmt: skip
def test_jobs(contenders: list[Contender], said: list[str]) -> None:
    assert verdict(contenders) == said


REACHED = "The battery ended at or above its target with every policy."


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ([battery(3.0), battery(0.0)], [REACHED]),
        ([battery(-0.04), battery(0.0)], [REACHED]),
        ([battery(3.0), battery(-2.06)], ["b left the battery below its target, by 2.1 points."]),
        ([battery(-1.0), battery(-5.0)],
         ["Every policy left the battery below its target, by up to 5.0 points (b)."]),
        ([battery(3.0), battery(3.0, 1.25)], ["b had unserved demand: 1.2 kWh."]),
        ([battery(-3.0, 2.0), battery(3.0, 1.0)],
         ["Every policy had unserved demand: up to 2.0 kWh (a)."]),
        ([on_grid(4.349), on_grid(6.88)],
         ["Every policy met all 10 deadlines.",
          "Energy from the grid cost 4.35 USD with a, the least, and 6.88 USD with b, the most."]),
        ([on_grid(-1.0, 10), on_grid(2.0, 7)],
         ["a met all 10 deadlines; b the fewest, 7.",
          "Energy from the grid cost -1.00 USD with a, the least, and 2.00 USD with b, the most."]),
        ([on_grid(2.0, 7), on_grid(2.0, 7)],
         ["Every policy met 7 of 10 deadlines.", "Energy from the grid cost 2.00 USD with every policy."]),
        ([on_grid(0.0, 9, 2.0), on_grid(0.0, 8, 4.0)],
         ["a met the most deadlines, 9 of 10; b the fewest, 8.",
          "Energy from the grid: 2.0 kWh with a, the least, and 4.0 kWh with b, the most."]),
        ([{}, {}], []),
    ],
)  # fmt: skip
def test_energy_and_deadlines(sections: list[dict[str, Any]], said: list[str]) -> None:
    contenders = [ran(name, **each) for name, each in zip("ab", sections, strict=True)]
    assert verdict(contenders)[2:] == said


def test_runs_that_are_not_complete_are_named_and_do_not_count() -> None:
    broken = [Contender("c", None, "it failed"), ran("d", 1, 99, complete=False)]
    said = verdict([ran("a"), ran("b"), *broken])
    assert said == [
        *verdict([ran("a"), ran("b")]),
        "Not compared, because their runs are incomplete: c and d.",
    ]
    assert verdict(broken) == verdict([]) == []


def test_nothing_is_said_of_runs_without_jobs_or_with_other_jobs() -> None:
    assert verdict([ran("a", submitted=0, finished=0)]) == []
    assert verdict([ran("a"), ran("b", submitted=101)]) == []


def test_many_are_counted_instead_of_named() -> None:
    many = [ran(f"p{n}") for n in range(6)]
    assert (
        verdict([*many, ran("q", 90, 10)], "run")[0] == "6 of the 7 runs killed none of the 100 jobs, q 10."
    )


counts = st.tuples(st.integers(0, 50), st.integers(0, 50), st.none() | st.floats(0.0, 1e6))


@given(st.lists(counts, min_size=1, max_size=7))
def test_every_figure_is_that_of_the_policy_beside_it(figures: list[tuple[int, int, float | None]]) -> None:
    runs = [ran(f"p{n}", *each) for n, each in enumerate(figures)]
    said = " ".join(verdict(runs))
    assert said.startswith(("p", "Every", "No", "1", "2", "3", "4", "5", "6"))
    assert 1 <= len(verdict(runs)) <= 2
    finished = {f"p{n}": each[0] for n, each in enumerate(figures)}
    killed = {f"p{n}": each[1] for n, each in enumerate(figures)}
    waits = {f"p{n}": None if each[2] is None else round(each[2]) for n, each in enumerate(figures)}
    for name, number in re.findall(r"(p\d) finished the most jobs, (\d+) of", said):
        assert finished[name] == int(number) == max(finished.values())
    for name, number in re.findall(r"(p\d) the fewest, (\d+)", said):
        assert finished[name] == int(number) == min(finished.values())
    for name, number in re.findall(r"(p\d) killed the fewest jobs, (\d+)", said):
        assert killed[name] == int(number) == min(killed.values())
    for number, name in re.findall(r"to (\d+) \(most: [^)]*(p\d)\)", said):
        assert killed[name] == int(number) == max(killed.values())
    for name, number, wait in re.findall(
        r"; (p\d) finished (\d+) fewer, and its jobs waited ([\d,]+) s", said
    ):
        assert finished[name] == max(finished.values()) - int(number)
        assert waits[name] == int(wait.replace(",", ""))
    if len(runs) > 1 and not any(killed.values()):
        assert said.startswith("No policy killed a job. ")
