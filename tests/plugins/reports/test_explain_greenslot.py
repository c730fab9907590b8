"""The stories of jobs with deadlines and of steps on a site with a grid, whole texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugins.reports.story_files import JOBS
from plugins.reports.test_explain_job import shown, text
from plugins.reports.test_grid_charts import HEAD
from summaries import members

from beasy_sched.errors import InputError
from beasy_sched.plugins.reports.explain_job import explain_job
from beasy_sched.plugins.reports.explain_rules import sentence
from beasy_sched.plugins.reports.explain_time import explain_time

pytestmark = pytest.mark.plugins("greenslot")

DEADLINES = (
    "job,workflow,phase,submitted_s,start_s,end_s,internal_deadline_s,deadline_s,lateness_s,outcome\n"
    "w0!a,w0!x,0,0.0,0.0,900.0,3600.0,7200.0,0.0,met\n"
    "w0!b,w0!x,0,0.0,0.0,1800.0,3600.0,7200.0,0.0,met\n"
    "w0!c,w0!x,1,0.0,3600.0,4500.0,7200.0,7200.0,0.0,met\n"
    "w0!d,w0!x,2,0.0,7200.0,9000.0,7200.0,7200.0,1800.0,missed\n"
    "w0!e,,,0.0,,,7200.0,7200.0,,refused\n"
)
SLOT = {"cost": 0.0125, "brown_j": 360_000.0, "green_j": 720_000.0, "slots_compared": 94}
LOG: list[dict[str, Any]] = [
    {"time": 0.0, "action": "start", "job": "w0!a", "hosts": "0", "rule": "cheapest slot",
     "facts": {**SLOT, "slack_s": 600.0, "deadline_s": 3600.0}},
    {"time": 0.0, "action": "start", "job": "w0!b", "hosts": "1", "rule": "cheapest slot"},
    {"time": 0.0, "action": "postpone", "job": "w0!c", "rule": "its predecessors have not ended",
     "facts": {**SLOT, "planned_start_s": 1800.0, "slack_s": 5400.0, "deadline_s": 7200.0}},
    {"time": 1800.0, "action": "postpone", "job": "w0!c", "rule": "a cheaper slot",
     "facts": {**SLOT, "planned_start_s": 3600.0, "earliest_s": 1800.0, "earliest_cost": 0.025,
               "slack_s": 3600.0, "deadline_s": 7200.0}},
    {"time": 1800.0, "action": "compensate", "rule": "deadline tightened", "facts": {"jobs": 1}},
    {"time": 1800.0, "action": "postpone", "job": "w0!d", "rule": "the first slot with room",
     "facts": {**SLOT, "cost": 50.0125, "planned_start_s": 7200.0, "slack_s": 3600.0, "deadline_s": 7200.0}},
    {"time": 3600.0, "action": "start", "job": "w0!c", "hosts": "0", "rule": "a cheaper slot",
     "facts": {**SLOT, "earliest_s": 1800.0, "earliest_cost": 0.025, "slack_s": 1800.0,
               "deadline_s": 7200.0}},
    {"time": 7200.0, "action": "start", "job": "w0!d", "hosts": "0", "rule": "the first slot with room",
     "facts": {**SLOT, "overdue_s": 1800.0, "deadline_s": 7200.0}},
]  # fmt: skip
STEPS = (
    "0,0.0,1800.0,500.0,300.0,0,0,0,0,150.0,0,50.0,0,0,0.25,0.0,,,,,0.0,0.0\n"
    "1,1800.0,1800.0,100.0,300.0,0,0,0,0,0,0,50.0,250.0,0,0.25,0.03125,10.0,120.0,,,0.0,0.0\n"
    "2,3600.0,1800.0,90.0,0.0,0,0,0,0,0,0,50.0,0,40.0,,,,80.0,,,0.0,0.0\n"
)


def write(folder: Path, *, deadlines: str = DEADLINES, **settings: Any) -> str:
    """Write a run of five jobs; ``settings`` are the policy's options."""
    prefix = folder / "run"
    Path(f"{prefix}_decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LOG))
    Path(f"{prefix}_deadlines.csv").write_text(deadlines)
    Path(f"{prefix}_energy_trace.csv").write_text(HEAD + STEPS)
    times = {"a": (0, 900), "b": (0, 1800), "c": (3600, 4500), "d": (7200, 9000)}
    rows = [
        f"{name},w0,p,0.0,1,1800.0,1,COMPLETED_SUCCESSFULLY,{start}.0,{end - start}.0,{end}.0,"
        '0.0,0.0,1.0,0,3600.0,""'
        for name, (start, end) in times.items()
    ]
    rows.append('e,w0,p,0.0,1,1800.0,0,REJECTED,,,,,,,,,""')
    Path(f"{prefix}_jobs.csv").write_text("\n".join([JOBS, *rows]) + "\n")
    summary = members(grid={"currency": "EUR"}, settings={"policy": "greenslot", "options": settings})
    Path(f"{prefix}_summary.json").write_text(json.dumps(summary))
    return str(prefix)


def test_a_job_in_the_middle_of_a_workflow(tmp_path: Path) -> None:
    assert text(explain_job(write(tmp_path), "c")) == shown("""
        Job w0!c

        Arrival
          00:00:00  It was submitted and requested 1 host with a walltime of 30 min.

        Workflow and deadline
          It belongs to phase 1 of w0!x (4 jobs in 3 phases).
          It depends on w0!a, w0!b; the last of them, w0!b, ended at 00:30:00.
          Its workflow is due at 02:00:00. It met its deadline, 45 min early.

        Waiting: 1 h 00 min
          00:00:00  It waits because jobs that it depends on have not ended. It is planned to
                    start at 00:30:00. This costs 0.0125 EUR (100 Wh from the grid, 200 Wh
                    renewable), the cheapest of 94 possible start times. To meet its deadline
                    02:00:00, it must start within 1 h 30 min.
          00:30:00  It waits because a later start is cheaper. It is planned to start at 01:00:00.
                    This costs 0.0125 EUR (100 Wh from the grid, 200 Wh renewable), the cheapest
                    of 94 possible start times. The earliest, 00:30:00, would cost 0.025 EUR.
          Meanwhile 2 other jobs started; none of them were submitted later.

        Start
          01:00:00  It started on 1 host (0). It was planned to start now, because this was
                    cheaper than an earlier start. It costs 0.0125 EUR (100 Wh from the grid, 200
                    Wh renewable), the cheapest of 94 possible start times. The earliest,
                    00:30:00, would have cost 0.025 EUR. It could have waited 30 min longer and
                    still met its deadline 02:00:00.

        End
          01:15:00  It finished after 15 min, 15 min before its walltime; its hosts used 1 Wh.
""")


def test_a_job_that_is_late(tmp_path: Path) -> None:
    told = text(explain_job(write(tmp_path), "d")).replace("\n", " ")
    told = " ".join(told.split())
    assert "It depends on 3 jobs" not in told
    assert "It depends on w0!a, w0!b, w0!c; the last of them, w0!c, ended at 01:15:00." in told
    assert "It missed its deadline by 30 min." in told
    assert "It would be 30 min late; the costs include a penalty for this." in told
    assert "To meet its deadline 02:00:00, it should have started 30 min ago." in told


def test_the_first_job_and_one_that_was_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path)
    first = " ".join(text(explain_job(prefix, "a")).split())
    assert "It does not depend on other jobs." in first
    assert "due at 02:00:00; it should end by 01:00:00 to leave time for its successors. It met" in first
    refused = text(explain_job(prefix, "e"))
    assert "  It is due at 02:00:00. It was rejected.\n" in refused
    assert "phase" not in refused


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("w0!a,w0!x,0,0.0,,,3600.0,7200.0,,missed", "It depends on w0!a, which never ended."),
        ("w0!a,w0!x,0,0.0,0.0,900.0,3600.0,7200.0,0.0,met", "It depends on w0!a, which ended at 00:15:00."),
    ],
)
def test_one_predecessor(row: str, words: str, tmp_path: Path) -> None:
    own = "w0!c,w0!x,1,0.0,3600.0,4500.0,7200.0,7200.0,,missed"
    told = text(explain_job(write(tmp_path, deadlines=f"{DEADLINES.splitlines()[0]}\n{row}\n{own}\n"), "c"))
    assert f"  {words}\n" in told
    assert "It missed its deadline, because it did not finish." in told


def test_many_predecessors(tmp_path: Path) -> None:
    rows = "".join(f"w0!{n},w0!x,0,0.0,0.0,{n}.0,9.0,9.0,0.0,met\n" for n in range(1, 6))
    own = "w0!c,w0!x,1,0.0,3600.0,4500.0,7200.0,7200.0,0.0,met\n"
    told = text(explain_job(write(tmp_path, deadlines=DEADLINES.splitlines()[0] + "\n" + rows + own), "c"))
    expected = (
        "It depends on 5 jobs of earlier phases, w0!1, w0!2, w0!3 and so on; the last of them, w0!5, ended"
    )
    assert expected in " ".join(told.split())


def test_as_data(tmp_path: Path) -> None:
    data = explain_job(write(tmp_path), "c").data
    wanted = {"workflow": "w0!x", "phase": 1, "predecessors": ["w0!a", "w0!b"], "internal_deadline_s": 7200.0,
              "deadline_s": 7200.0, "deadline_outcome": "met"}  # fmt: skip
    assert {name: data[name] for name in wanted} == wanted
    assert data["decisions"][1]["facts"]["cost"] == 0.0125


@pytest.mark.parametrize("settings", [{"prices": "flat"}, {"objective": "carbon"}])
def test_costs_that_are_no_money_have_no_currency(settings: dict[str, str], tmp_path: Path) -> None:
    told = text(explain_job(write(tmp_path, **settings), "c"))
    assert "costs 0.0125 (100 Wh" in told
    assert "EUR" not in told


def test_a_step_with_brown_energy(tmp_path: Path) -> None:
    assert text(explain_time(write(tmp_path), 2000.0)) == shown("""
        Step 1, 00:30:00 to 01:00:00

        Energy
          Production: 100 W (50 Wh in 30 min); 120 W predicted an hour before.
          Servers: 300 W (150 Wh in 30 min).
          Load, with the base load of 50 W: 350 W (175 Wh in 30 min), 28.57 % of it green.
          Grid: 250 W (125 Wh in 30 min) imported at 0.25 EUR/kWh, for 0.0312 EUR, 10 g of CO2.

        The rest of the window
          00:30:00  Some jobs would miss their deadlines. 1 internal deadline moved one slot
                    earlier, so that these jobs are planned earlier in the next round.

        Jobs postponed: 2
          00:30:00  w0!c. It waits because a later start is cheaper. It is planned to start at
                    01:00:00. This costs 0.0125 EUR (100 Wh from the grid, 200 Wh renewable), the
                    cheapest of 94 possible start times. The earliest, 00:30:00, would cost 0.025
                    EUR. To meet its deadline 02:00:00, it must start within 1 h 00 min.
          00:30:00  w0!d. It waits for the first slot with enough free hosts. It is planned to
                    start at 02:00:00. This costs 50 EUR (100 Wh from the grid, 200 Wh renewable),
                    the cheapest of 94 possible start times. It would be 30 min late; the costs
                    include a penalty for this. To meet its deadline 02:00:00, it must start
                    within 1 h 00 min.
""")


def test_steps_with_the_sun_alone(tmp_path: Path) -> None:
    prefix = write(tmp_path)
    first, last = text(explain_time(prefix, 0.0)), text(explain_time(prefix, 4000.0))
    assert "350 W (175 Wh in 30 min), 100.00 % of it green." in first
    assert "Grid: nothing imported; the price was 0.25 EUR/kWh." in first
    assert "Curtailed for lack of a use: 150 W" in first
    assert "Grid: nothing imported, 40 W (20 Wh in 30 min) exported." in last
    assert "Battery" not in first + last


def test_a_site_with_a_base_load_and_no_grid(tmp_path: Path) -> None:
    prefix = write(tmp_path)
    step = "0,0.0,1800.0,500.0,300.0,0,0,0,0,150.0,0,50.0,0,0,,,,,,,0.0,0.0\n"
    Path(f"{prefix}_energy_trace.csv").write_text(HEAD + step)
    told = text(explain_time(prefix, 0.0))
    assert "350 W (175 Wh in 30 min), 100.00 % of it green." in told
    assert "Grid" not in told


@pytest.mark.parametrize("summary", ["{}", json.dumps(members(grid=3))])
def test_a_damaged_summary_is_told(summary: str, tmp_path: Path) -> None:
    prefix = write(tmp_path)
    Path(f"{prefix}_summary.json").write_text(summary)
    with pytest.raises(InputError, match="is not the summary of a run"):
        explain_time(prefix, 2000.0)


def test_without_a_summary_there_is_no_currency(tmp_path: Path) -> None:
    prefix = write(tmp_path)
    Path(f"{prefix}_summary.json").unlink()
    assert "at 0.25/kWh, for 0.0312, 10 g" in text(explain_time(prefix, 2000.0))


@pytest.mark.parametrize("row", ["w0!c,w0!x,one,0,0,0,0,9,0,met", "w0!c,w0!x,1,0,0,0,0,,0,met"])
def test_a_wrong_row_of_deadlines_is_told(row: str, tmp_path: Path) -> None:
    prefix = write(tmp_path, deadlines=f"{DEADLINES.splitlines()[0]}\n{row}\n")
    with pytest.raises(InputError, match="is not a row of deadlines") as told:
        explain_job(prefix, "c")
    assert told.value.line == 2


@pytest.mark.parametrize(
    ("action", "rule", "facts", "words"),
    [
        (
            "postpone",
            "waits for sun beyond the window",
            {**SLOT, "slack_s": 7200.0, "deadline_s": 200_000.0},
            "Its deadline lies beyond the planning window, so it is only placed in slots with enough"
            " renewable power; there are none yet. The cheapest of 94 possible start times would take 100"
            " Wh from the grid. To meet its deadline 2d 07:33:20, it must start within 2 h 00 min.",
        ),
        (
            "postpone",
            "an equally cheap slot",
            {"planned_start_s": 900.0},
            "It waits because a later start costs the same, and production may turn out higher than"
            " predicted. It is planned to start at 00:15:00.",
        ),
        (
            "reject",
            "no slot before its deadline",
            {},
            "When it was submitted, no slot before its deadline had room for it.",
        ),
        ("start", "cheapest slot", {}, "No later slot is cheaper."),
    ],
)
def test_sentences(action: str, rule: str, facts: dict[str, float], words: str) -> None:
    assert sentence(action, rule, facts) == words
