"""Whole runs: the simulator says what Batsim said, and the daemon decides what it decided."""

import csv
import io

import pytest
from recordings.replay import compare_csv, compare_messages, with_profiles_turned
from recordings.whole_runs import names, replay_whole_run, session_of, whole_run

from beasy_sched.model.events import Message
from beasy_sched.protocol.batsim4 import decode_message, decode_reply, encode_reply
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files


def test_all_ten_are_here():
    assert len(names()) == 10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", names())
def test_the_simulator_tells_what_batsim_told(name, tmp_path):
    run = whole_run(name)
    outcome = replay_whole_run(run, tmp_path)
    recorded = [decode_message(told.encode()) for told, _ in run.exchanges]
    assert outcome.ended == "finished"
    assert compare_messages(outcome.told[1:], recorded[1:]) == []  # the first names the files' paths
    faults = [f for kind, text in run.csv.items() for f in compare_csv(kind, outcome.csv[kind], text)]
    assert faults == []


@pytest.mark.plugins("greenslot")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", names())
def test_the_daemon_decides_what_it_decided(name, tmp_path):
    run = whole_run(name)
    run.write_inputs(tmp_path)
    session = session_of(run, tmp_path)
    for number, (told, replied) in enumerate(run.exchanges):
        reply = session.step(decode_message(told.encode()))
        assert encode_reply(reply).decode() == replied, (number, decode_reply(replied.encode()))


@pytest.mark.parametrize("name", ["mixed_beasy", "worst_power-reactive"])
def test_the_daemon_does_not_depend_on_the_order_of_profiles(name, tmp_path):
    run = whole_run(name)
    run.write_inputs(tmp_path)
    session = session_of(run, tmp_path)
    for number, (told, replied) in enumerate(run.exchanges[:400]):
        message = decode_message(told.encode())
        if number == 0:
            begins = message.events[0]
            assert len(begins.profiles["w0"]) > 10
            message = Message(message.now, [with_profiles_turned(begins), *message.events[1:]])
        assert encode_reply(session.step(message)).decode() == replied


@pytest.mark.slow
def test_a_week_in_the_closed_loop_has_every_start_and_every_host(tmp_path):
    run = whole_run("sdsc_easy")
    run.write_inputs(tmp_path)
    session = session_of(run, tmp_path)
    files = Inputs(tmp_path / "platform.xml", [tmp_path / "workload.json"])
    result = simulation_from_files(files, SimulationOptions(energy=True), tmp_path / "out").run(session.step)
    assert result.messages == len(run.exchanges) == 5046
    assert starts((tmp_path / "out_jobs.csv").read_text()) == starts(run.csv["jobs"])


def starts(jobs: str) -> dict[str, tuple[str, str]]:
    rows = csv.DictReader(io.StringIO(jobs))
    return {row["job_id"]: (row["starting_time"], row["allocated_resources"]) for row in rows}
