"""Events and fields of another version, or of a plug-in: kept or told, never a crash."""

from __future__ import annotations

import pytest
from protocol.raw import submitted

from beasy_sched.errors import ProtocolError
from beasy_sched.model import events as e
from beasy_sched.protocol import batsim4


def test_unknown_events_are_kept() -> None:
    raw = (
        b'{"now":1,"events":[{"timestamp":1,"type":"NE\\"WS","data":{"x":[1,2.5]}},'
        b'{"timestamp":1,"type":""}]}'
    )
    assert batsim4.decode_message(raw).events == [
        e.UnknownEvent(1.0, 'NE"WS', {"x": [1, 2.5]}),
        e.UnknownEvent(1.0, "", None),
    ]


def test_unknown_fields_are_told_wherever_they_are() -> None:
    raw = (
        b'{"now":1,"protocol":5,"events":[{"timestamp":1,"type":"SIMULATION_BEGINS","id":9,"data":{"nb_resources":1,'
        b'"gpus":2,"compute_resources":[{"id":0,"name":"n","cores":4,"state":"idle"}]}},'
        b'{"timestamp":1,"type":"JOB_KILLED","data":{"job_ids":[],"why not\\n":0}}]}'
    )
    found = batsim4.decode_message(raw)
    assert set(found.unknown_fields) == {
        "$.protocol",
        "$.events[0].id",
        "$.events[0].data.gpus",
        "$.events[0].data.compute_resources[0].cores",
        "$.events[1].data['why not\\n']",
    }
    assert [type(event).__name__ for event in found.events] == ["SimulationBegins", "JobsKilled"]


def test_fields_of_a_job_are_its_users() -> None:
    raw = submitted(user='"bob"', power="12.5")
    found = batsim4.decode_message(raw)
    assert found.unknown_fields == ()
    assert found.events[0].job.extras == {"user": "bob", "power": 12.5}


def test_only_so_many_unknown_fields_are_kept_and_one_more() -> None:
    many = ",".join(f'"f{number}":0' for number in range(10_000))
    assert len(batsim4.decode_message(f'{{"now":1,"events":[],{many}}}'.encode()).unknown_fields) == 101


def test_a_long_type_is_cut() -> None:
    raw = b'{"now":1,"events":[{"timestamp":1,"type":"%s"}]}' % (b"x" * 1_000_000)
    (event,) = batsim4.decode_message(raw).events
    assert isinstance(event, e.UnknownEvent)
    assert len(event.type) < 300


def test_a_message_of_more_hosts_than_the_cap() -> None:
    event = (
        b'{"timestamp":1,"type":"JOB_COMPLETED","data":{"job_id":"w0!1","job_state":"COMPLETED_SUCCESSFULLY",'
        b'"alloc":"0-999999"}}'
    )
    with pytest.raises(
        ProtocolError, match=r"more than 20,000,000 hosts in total - at `\$.events\[20\].data`"
    ):
        batsim4.decode_message(b'{"now":1,"events":[%s]}' % b",".join([event] * 100))


def test_a_reply_of_more_hosts_than_the_cap() -> None:
    event = b'{"timestamp":1,"type":"EXECUTE_JOB","data":{"job_id":"w0!1","alloc":"0-999999"}}'
    with pytest.raises(ProtocolError, match="more than 20,000,000 hosts in total"):
        batsim4.decode_reply(b'{"now":1,"events":[%s]}' % b",".join([event] * 100))
