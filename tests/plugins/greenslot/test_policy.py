"""The policy `greenslot` in the embedded simulator: cases by hand, options, sleeping nodes."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest
from plugins.greenslot.slot_runs import ASLEEP, SLOT_S, Task, run_slots

from beasy_sched.errors import ConfigError, PolicyError
from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.forecast.weather import IssuedTable

REST = [0.0] * 4
"""Slots after those that matter."""


def test_a_job_waits_for_the_sun() -> None:
    assert run_slots("greenslot", [Task("a", 1, due=4)], [0, 0, 25, 0, *REST]).starts == {"a": 2}


@pytest.mark.parametrize(
    ("due", "daylight", "slot"), [(4, True, 2), (4, False, 1), (2, True, 1)], ids=["latest", "night", "due"]
)
def test_of_equally_cheap_slots_the_latest_but_at_night(due: int, daylight: bool, slot: int) -> None:
    """More sun than predicted may come until then, unless it is night; a slot too late costs more."""
    prices = [0.2, 0.1, 0.1, 0.2, *[0.2] * 4]
    sun = [0.1 if daylight else 0.0, 0, 0, 0, *[25.0] * 4]
    found = run_slots("greenslot", [Task("a", 1, due=due)], sun, prices)
    assert found.starts == {"a": slot}


def test_cheapest_for_each_job_is_not_cheapest_for_all() -> None:
    """Job a takes the sun, and the next slots' price rises for b: `conventional` pays less here."""
    tasks = [Task("a", 1, due=4), Task("b", 2, due=5)]
    prices = [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2]
    sun = [0, 50, 0, 0, 0, 0, 0, 0]
    green = run_slots("greenslot", tasks, sun, prices)
    plain = run_slots("conventional", tasks, sun, prices)
    assert green.starts == {"a": 1, "b": 2}
    assert plain.starts == {"a": 0, "b": 1}
    assert plain.cost < 0.005 < 0.0065 < green.cost < 0.0075


def test_a_new_forecast_moves_a_waiting_job() -> None:
    """At slot 0 no sun is expected, and the job waits for the last slot; at slot 1 there will be sun at 2."""
    hours_w = {0.0: [0.0] * 8, SLOT_S: [0.0, 100.0, *[0.0] * 5]}
    rows = [
        (issued, issued + SLOT_S * place, watts)
        for issued, values in hours_w.items()
        for place, watts in enumerate(values)
    ]
    issued, valid, watts = np.array(rows).T
    table = IssuedTable(issued, valid, watts, SLOT_S)
    forecast = FileForecast(table, datetime(2010, 7, 12, 12, tzinfo=timezone.utc))
    found = run_slots("greenslot", [Task("a", 1, due=4)], [0, 0, 25, 0, *REST], forecast=forecast)
    assert found.starts == {"a": 2}
    assert found.session.results()["greenslot"]["moved_earlier"] == 1
    noon = datetime(2010, 7, 12, 12, tzinfo=timezone.utc)
    without = FileForecast(IssuedTable(issued[:8], valid[:8], watts[:8], SLOT_S), noon)
    later = run_slots("greenslot", [Task("a", 1, due=4)], [0, 0, 25, 0, *REST], forecast=without)
    assert later.starts == {"a": 3}


@pytest.mark.parametrize("policy", ["greenslot", "conventional"])
def test_nodes_sleep_from_the_first_slot_and_wake_for_due_jobs(policy: str) -> None:
    """A job that comes within a slot waits for the next, for which its node is woken."""
    sun = [50.0] * 8
    tasks = [Task("a", 1, due=8, submit_s=1000.0)]
    found = run_slots(policy, tasks, sun, nodes=2)
    (start,) = [action for action in found.witness.actions if action.what == "start"]
    assert 2 * SLOT_S + 1.0 <= start.now <= 2 * SLOT_S + 2.0
    asleep, awake, again = found.switched
    assert asleep[0] < 1.0
    assert asleep[1:] == (2, ASLEEP)
    assert awake == (pytest.approx(2 * SLOT_S, abs=0.01), 1, 0)
    assert again == (pytest.approx(3 * SLOT_S, abs=0.01), 1, ASLEEP)


@pytest.mark.parametrize("policy", ["greenslot", "conventional"])
def test_nodes_that_never_sleep(policy: str) -> None:
    found = run_slots(policy, [Task("a", 1, due=8)], [50.0] * 8, nodes=2, options={"sleep": "never"})
    assert not found.switched
    assert found.starts == {"a": 0}


def test_a_default_deadline_brings_a_job_to_its_start() -> None:
    """Without sun, a job without a deadline waits for ever; the default is an hour after its walltime."""
    window = {"window_h": 2}
    starts = [
        run_slots(
            "greenslot", [Task("a", 1)], [0.0] * 12, options={**window, "default_slack_h": hours}
        ).starts
        for hours in (None, 1.0)
    ]
    assert starts[0] == {}
    assert starts[1]["a"] <= 4


def test_a_workflow_without_room_is_refused_as_a_whole() -> None:
    """Three slots of work in a row, due at the end of the window, where another job leaves one slot."""
    flow = [
        Task(name, 1, due=4, members=(("workflow", "f"), ("phase", phase)))
        for phase, name in enumerate("pqr")
    ]
    blocker = Task("x", 3, due=3)
    found = run_slots("greenslot", [blocker, *flow], [25.0] * 12, options={"window_h": 1})
    assert found.rejected == {"p", "q", "r"}
    assert found.starts == {"x": 0}


def test_with_endless_sun_every_job_starts_at_once() -> None:
    """Loose deadlines: as early as nodes allow, the most urgent first."""
    tasks = [Task("c", 2, due=40), Task("b", 2, 2, due=30), Task("a", 1, due=20)]
    found = run_slots("greenslot", tasks, [1000.0] * 48, nodes=2)
    assert found.starts == {"a": 0, "b": 1, "c": 3}


@pytest.mark.parametrize("factor", [0.01, 7.0])
def test_the_unit_of_prices_changes_nothing(factor: float) -> None:
    rng = np.random.default_rng(11)
    tasks = [
        Task(name, int(rng.integers(1, 4)), int(rng.integers(1, 3)), due=int(rng.integers(8, 20)))
        for name in "abcdefgh"
    ]
    sun = rng.choice([0.0, 25.0, 50.0], 24).tolist()
    prices = rng.choice([0.05, 0.1, 0.2], 24)
    found = [run_slots("greenslot", tasks, sun, scale * prices, nodes=4) for scale in (1.0, factor)]
    assert found[0].starts == found[1].starts
    assert len(set(found[0].starts.values())) > 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slot_s": 1000.0}, "slot_s: found 1000, expected a multiple of the site's step of 900 s"),
        ({"slot_s": 450.0}, "slot_s: found 450, expected a multiple of the site's step of 900 s"),
        ({"window_h": 0.1}, "window_h: found 0.1, expected at least one slot of 900 s"),
        ({"slot_s": 0.0}, "window_h: found 48, expected at least one slot of 0 s"),
        ({"slot_s": -900.0}, "slot_s: found -900, expected"),
        ({"objective": "carbon"}, r"objective: carbon requires \[grid\] carbon in the site file"),
        ({"objective": {"price": 1, "carbon": 2}}, r"objective: carbon requires \[grid\] carbon"),
        ({"tie": "middle"}, "tie"),
        ({"slots": 3}, "slots"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], told: str) -> None:
    with pytest.raises((ConfigError, PolicyError), match=told) as found:
        run_slots("greenslot", [Task("a", 1)], [0.0] * 4, options=options)
    assert isinstance(found.value, ConfigError)
