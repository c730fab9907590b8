"""Several events files: the simulator says what a real Batsim 4.2.1 said."""

import pytest
from recordings.replay import compare_messages
from recordings.several_events import OPTIONS, AtOnce, several_events

from beasy_sched.formats.batsim_events import merge_events
from beasy_sched.model.events import Notify
from beasy_sched.simulator import simulation_from_files


def test_all_twelve_are_here():
    assert sorted(several_events()) == [f"{number:02}" for number in range(12)]


@pytest.mark.parametrize("name", several_events())
def test_the_simulator_tells_what_batsim_told(name, tmp_path):
    run, scheduler = several_events()[name], AtOnce()
    simulation_from_files(run.write_inputs(tmp_path), OPTIONS).run(scheduler)
    assert compare_messages(scheduler.told[1:], run.recorded[1:]) == []  # the first names the files' paths


@pytest.mark.parametrize("name", several_events())
def test_the_checks_see_the_events_in_the_order_of_the_run(name, tmp_path):
    run = several_events()[name]
    _, _, lists = run.write_inputs(tmp_path).read(OPTIONS)
    told = [
        event.data
        for message in run.recorded
        for event in message.events
        if isinstance(event, Notify) and event.kind == "power"
    ]
    assert [event.data for event in merge_events(lists)] == told
