"""The story of one step, whole texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.reports.story_files import write_run
from plugins.reports.test_explain_job import shown, text

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.reports.explain_time import explain_time


@pytest.mark.parametrize("time_s", [0.0, 123.4, 299.9])
def test_a_step_with_starts(time_s: float, tmp_path: Path) -> None:
    assert text(explain_time(write_run(tmp_path), time_s)) == shown("""
        Step 0, 00:00:00 to 00:05:00

        Energy
          Production: 400 W (33.3 Wh in 5 min), 400 W planned.
          Servers: 200 W (16.7 Wh in 5 min), 180 W planned; 2 servers planned on.
          Battery: charged with 200 W (planned: charged with 220 W); state of charge to 21.00 %,
          22.00 % planned.

        Jobs started: 3
          00:00:10  w0!a on 2 hosts. It was the first of the queue.
          00:04:10  w0!b on 1 host. It was the first of the queue, with the largest bounded
                    slowdown (1.5); 2 hosts free. It may use up to 1.39 Wh of the 20 Wh available
                    in the step.
          00:04:10  w0!c on 1 host. It was backfilled ahead of w0!d; 1 host free. It may run past
                    that time, on hosts that the reservation does not need (1).

        Jobs postponed: 1
          00:00:20  w0!b. It needs 1 host (0 free); its hosts are reserved for 01:00:10.
""")


def test_a_step_without_enough_energy_and_past_the_plan(tmp_path: Path) -> None:
    assert text(explain_time(write_run(tmp_path), 300.0)) == shown("""
        Step 1, 00:05:00 to 00:10:00

        Energy
          Production: 90 W (7.5 Wh in 5 min).
          Servers: 130 W (10.8 Wh in 5 min).
          Battery: discharged with 36 W; state of charge from 21.00 % to 20.00 %.
          Hydrogen: fuel cell 0 W, 50 W planned; 0.5 kg in the tank at the end.
          Unserved for lack of supply: 4 W (0.333 Wh in 5 min).

        The rest of the window
          00:05:00  According to the plan, the battery would end the window (00:10:00) 10 Wh above
                    its target: 11.1 Wh could be spent. 1 Wh were spent in 1 future step.

        Servers
          00:05:00  2 servers to another speed. As planned, changed online for 2 of them: all
                    servers draw up to 150 W in the step.
          00:05:00  1 server to sleep. Job w0!c ran there and is killed.

        Jobs killed: 1
          00:05:00  w0!c. The storage guard found a shortage in this step: 15 Wh required, 10 Wh
                    available, 5 Wh short, at 20.00 % of charge. Killing it saves 7.92 Wh. It had
                    used 1.39 Wh; jobs that have used least are killed first.
""")


def test_without_a_site_five_minutes_are_told(tmp_path: Path) -> None:
    story = explain_time(write_run(tmp_path, site=False), 650.0)
    assert text(story) == shown("""
        00:10:00 to 00:15:00

        Jobs rejected: 1
          00:10:00  w0!d. The run ended before it could start, after 9 min 30 s of waiting.
""")
    assert story.data["energy"] is None


def test_a_time_when_nothing_was_decided(tmp_path: Path) -> None:
    story = explain_time(write_run(tmp_path, site=False), 899.0)
    assert [chapter.title for chapter in story.chapters] == ["Jobs rejected: 1"]
    (tmp_path / "run_decisions.jsonl").write_text('{"time": 900.0, "action": "compensate"}\n')
    assert text(explain_time(str(tmp_path / "run"), 10.0)) == shown("""
        00:00:00 to 00:05:00

        Decisions
          None.
""")


def test_as_data(tmp_path: Path) -> None:
    data = explain_time(write_run(tmp_path), 10.0).data
    assert (data["start_s"], data["end_s"], data["energy"]["soc_pct"]) == (0.0, 300.0, 21.0)
    assert [each["job"] for each in data["decisions"]] == ["w0!a", "w0!b", "w0!b", "w0!c"]


@pytest.mark.parametrize(
    ("site", "message"),
    [(True, "1d 00:00:00: the steps of this run end at 00:10:00"), (False, "was taken at 00:10:00")],
)
def test_a_time_after_the_run(site: bool, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        explain_time(write_run(tmp_path, site=site), 86_400.0)
