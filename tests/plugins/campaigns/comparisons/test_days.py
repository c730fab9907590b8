"""Days that are generated or given: what is asked of the generators, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beasy_sched.formats.site_file import parse_site
from beasy_sched.plugins.campaigns.comparisons.days import DayInputs, GeneratedDays
from beasy_sched.plugins.campaigns.comparisons.greenslot_days import GreenslotDays


@pytest.mark.parametrize("days", [{}, {"quick": True}, {"swf": Path("/dev/null")}], ids=str)
def test_the_seed_goes_to_all_that_is_drawn(days: dict) -> None:
    chosen = GeneratedDays(seed=7, **days)
    for asked in (chosen.workload_arguments(3.0), chosen.power_arguments(parse_site(chosen.site_text))):
        assert asked[asked.index("--seed") + 1] == "7"


def test_the_options_of_a_trace_go_to_its_workload() -> None:
    chosen = GeneratedDays(swf=Path("t.swf"), cores_per_host=4, max_run_s=5400.5, begin="2d")
    asked = chosen.workload_arguments(3.0)
    assert asked[:6] == ["--swf", "t.swf", "--duration", "3d", "--cores-per-host", "4"]
    assert asked[6:10] == ["--max-run-time", "5400.5", "--from", "2d"]
    assert "--max-run-time" not in GeneratedDays(swf=Path("t.swf")).workload_arguments(3.0)


def test_a_job_of_a_trace_is_no_example() -> None:
    assert GeneratedDays().example_job == "17"
    assert GeneratedDays(swf=Path("t.swf")).example_job is None


def test_arrivals_go_to_the_workload_and_all_is_said() -> None:
    chosen = GeneratedDays(arrivals="end", production="worst", sigma_pct=12.5, seed=3)
    asked = chosen.workload_arguments(3.0)
    assert asked[asked.index("--arrivals") + 1] == "end"
    assert chosen.in_words == (
        "arrivals: end; production at the lower bound of its forecast; "
        "12.5 % noise on arrivals and run times; seed 3"
    )


def test_a_quick_run_has_a_window_of_a_day() -> None:
    assert parse_site(GeneratedDays().site_text).window_s == 72 * 3600
    assert parse_site(GeneratedDays(quick=True).site_text).window_s == 24 * 3600


def test_inputs_as_arguments() -> None:
    few = DayInputs("p.xml", ["w.json"], ["e.txt"])
    assert few.simulator == ["-p", "p.xml", "-w", "w.json", "--events", "e.txt"]
    assert few.place == []
    more = DayInputs("p", ["w", "v"], [], "s", "plan", "perfect:e", windows=2, master_host="m")
    assert more.simulator == ["-p", "p", "-w", "w", "-w", "v", "-m", "m"]
    assert more.place == ["--site", "s", "--plan", "plan", "--forecast", "perfect:e", "--windows", "2"]


def test_the_week_of_greenslot_s_paper() -> None:
    assert [*GreenslotDays.policies] == ["conventional", "greenonly", "greenslot", "lowest-window"]
    assert GreenslotDays.policies["greenonly"] == ("greenslot", ("--option", "prices=flat"))
    assert GreenslotDays(exact=True).in_words.endswith("predicted exactly")
    site = parse_site(GreenslotDays().site_text)
    assert (site.window_s, site.step_s, site.storage.battery.exists) == (104 * 3600, 900, False)
