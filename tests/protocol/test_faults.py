"""What a refused message is told: the place as a JSON path, what was found, what was expected."""

from __future__ import annotations

import pytest
from protocol.raw import DECODERS, message, nested, submitted

from beasy_sched.errors import ProtocolError
from beasy_sched.protocol import batsim4, batsim5


def fault(raw, decode=batsim4.decode_message) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode(raw)
    return caught.value


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "it is empty"),
        (b" ", "not JSON"),
        (b"\x00\xff", "not JSON"),
        (b'\xef\xbb\xbf{"now":0,"events":[]}', "not JSON"),
        (b'{"now":NaN,"events":[]}', "not JSON"),
        (b'{"now":0,"events":[]}{"now":0,"events":[]}', "not JSON"),
        (b'{"now":0,"events":[', "truncated"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"now":0,"events":' + b"[" * 100_000, "Expected `object`"),
        (message("NEWS", nested(100_000)), "nested too deeply"),
        (f'{{"now":0,"events":[],"more":{nested(100_000)}}}'.encode(), "nested too deeply"),
        (b'{"now":0,"events":[],"more":"\xff"}', "not JSON"),
        (b'{"now":0,"events":[],"more":"\\ud800"}', "not JSON"),
        (b"null", "Expected `object`"),
    ],
)
def test_not_a_message(decode, raw: bytes, text: str) -> None:
    error = fault(raw, decode)
    assert text in str(error)
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("raw", "path", "text"),
    [
        (b'{"events":[]}', "$", "`now`"),
        (b'{"now":1}', "$", "`events`"),
        (b'{"now":true,"events":[]}', "$.now", "got `bool`"),
        (b'{"now":"1","events":[]}', "$.now", "got `str`"),
        (b'{"now":1e999,"events":[]}', "$.now", "out of range"),
        (b'{"now":1' + b"0" * 400 + b',"events":[]}', "$.now", "out of range"),
        (b'{"now":1,"events":{}}', "$.events", "`array`"),
        (b'{"now":1,"events":[7]}', "$.events[0]", "`object`"),
        (b'{"now":1,"events":[{"type":"NOTIFY"}]}', "$.events[0]", "`timestamp`"),
        (b'{"now":1,"events":[{"timestamp":1}]}', "$.events[0]", "`type`"),
        (b'{"now":1,"events":[{"timestamp":1,"type":3}]}', "$.events[0].type", "got `int`"),
    ],
)
def test_faults_of_the_envelope(raw: bytes, path: str, text: str) -> None:
    error = fault(raw)
    assert error.json_path == path
    assert text in str(error)


@pytest.mark.parametrize(
    ("kind", "data", "place", "text"),
    [
        ("JOB_SUBMITTED", '{"job_id":7,"job":{}}', ".job_id", "got `int`"),
        ("JOB_SUBMITTED", '{"job_id":"a"}', "", "`job`"),
        ("JOB_SUBMITTED", "null", "", "got `null`"),
        ("JOB_COMPLETED", '{"job_id":"a","job_state":"LOST"}', ".job_state", "'LOST'"),
        ("JOB_COMPLETED", '{"job_id":"a","job_state":"%s"}' % ("x" * 10**6), ".job_state", "xxx..."),
        ("RESOURCE_STATE_CHANGED", '{"resources":"3-1","state":"1"}', ".resources", "backwards"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"a","state":"1"}', ".resources", "'a'"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"%s","state":"1"}' % ("9" * 30), ".resources", "'999"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"0-%s","state":"1"}' % ("9" * 30), ".resources", "'0-999"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"0","state":3}', ".state", "got `int`"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"0","state":"1_0"}', ".state", "'1_0'"),
        ("RESOURCE_STATE_CHANGED", '{"resources":"0","state":"%s"}' % ("9" * 5000), ".state", "'999"),
        ("JOB_KILLED", '{"job_ids":["a",3]}', ".job_ids[1]", "got `int`"),
        ("ANSWER", '{"consumed_energy":"1"}', ".consumed_energy", "got `str`"),
        ("NOTIFY", '{"kind":"x"}', "", "`type`"),
        (
            "SIMULATION_BEGINS",
            '{"compute_resources":[{"id":0,"name":"a"},{"id":1,"name":3}]}',
            ".compute_resources[1].name",
            "got `int`",
        ),
        (
            "SIMULATION_BEGINS",
            '{"compute_resources":[],"config":{"redis-enabled":true}}',
            ".config",
            "start Batsim without --enable-redis",
        ),
        (
            "SIMULATION_BEGINS",
            '{"compute_resources":[],"profiles":{"w0":{"p":7}}}',
            ".profiles[...][...]",
            "`object`",
        ),
    ],
)
def test_faults_of_an_event(kind: str, data: str, place: str, text: str) -> None:
    error = fault(message(kind, data))
    assert error.json_path == f"$.events[0].data{place}"
    assert text in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("res", "-1", ">= 1"),
        ("res", "0", ">= 1"),
        ("res", "true", "got `bool`"),
        ("res", "1.5", "got `float`"),
        ("res", "1" + "0" * 30, "<= 2147483647"),
        ("id", '"w0!b"', "'w0!a'"),
        ("walltime", "0", "more than 0, or -1"),
        ("walltime", "-2", "more than 0, or -1"),
        ("walltime", "1" + "0" * 400, "found 1000"),
        ("subtime", '"0"', "got `str`"),
        ("subtime", "1" + "0" * 400, "found 1000"),
        ("profile", "7", "got `int`"),
    ],
)
def test_faults_of_a_job(field: str, value: str, text: str) -> None:
    error = fault(submitted(**{field: value}))
    assert error.json_path == f"$.events[0].data.job.{field}"
    assert text in str(error)
    assert len(str(error)) < 400


def test_numbers_beyond_a_double() -> None:
    error = fault(submitted(user="1e999"))
    assert error.json_path.startswith("$.events[0].data")
    assert "out of range" in str(error)


def test_the_last_of_repeated_keys_counts() -> None:
    found = batsim4.decode_message(b'{"now":1,"now":2,"events":[],"events":[]}')
    assert (found.now, found.unknown_fields) == (2.0, ())


def test_a_host_of_batsim_5_without_cores() -> None:
    host = '{"id":0,"name":"a","core_count":0}'
    raw = (
        '{"now":0,"events":[{"timestamp":0,"event_type":"SimulationBeginsEvent","event":{"computation_hosts":['
        f"{host}]}}}}]}}"
    )
    with pytest.raises(ProtocolError, match=r"computation_hosts\[0\].core_count"):
        batsim5.decode_message(raw.encode())
