"""The policy `conventional`: EASY by least slack time in slots, blind to energy."""

from __future__ import annotations

import pytest
from plugins.greenslot.slot_runs import SLOT_S, Task, run_slots

from beasy_sched.errors import ConfigError

SUN = [0.0, 0.0, 25.0, 0.0, *[0.0] * 8]


def test_it_does_not_wait_for_the_sun() -> None:
    found = run_slots("conventional", [Task("a", 1, due=4)], SUN)
    assert found.starts == {"a": 0}
    assert found.cost == pytest.approx(0.0025 * 840 / 900)


def test_least_slack_goes_first_and_others_are_backfilled() -> None:
    """Job w needs both nodes and is due first after a; c fits before it, d would delay it."""
    tasks = [
        Task("a", 2, due=2),
        Task("w", 1, 2, due=4),
        Task("d", 4, due=30),
        Task("c", 2, due=31),
    ]
    assert run_slots("conventional", tasks, [0.0] * 16, nodes=2).starts == {"a": 0, "c": 0, "w": 2, "d": 3}


def test_jobs_wait_for_the_start_of_a_slot_but_for_slots_of_no_length() -> None:
    tasks = [Task("a", 1, due=8, submit_s=1000.0)]
    (start,) = [x for x in run_slots("conventional", tasks, SUN).witness.actions if x.what == "start"]
    assert start.now // SLOT_S == 2
    options = {"slot_s": 0.0, "sleep": "never"}
    at_once = run_slots("conventional", tasks, SUN, options=options).witness.actions
    assert [x.now for x in at_once if x.what == "start"] == [1000.0]


def test_phases_run_one_after_the_other() -> None:
    flow = [
        Task(name, 1, due=8, members=(("workflow", "f"), ("phase", phase)))
        for phase, name in ((0, "p"), (1, "q"), (1, "r"), (2, "s"))
    ]
    assert run_slots("conventional", flow, SUN, nodes=2).starts == {"p": 0, "q": 1, "r": 1, "s": 2}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slot_s": 1000.0}, "slot_s: found 1000, expected a multiple of the site's step of 900 s"),
        ({"window_h": 48}, "window_h"),
        ({"sleep": "late"}, "sleep"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run_slots("conventional", [Task("a", 1)], SUN, options=options)
