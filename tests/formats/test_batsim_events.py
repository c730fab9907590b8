"""Reading external events."""

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import merge_events, mixed_up, read_external_events


def read(tmp_path, text, **options):
    path = tmp_path / "events.txt"
    path.write_bytes(text.encode())
    return read_external_events(path, **{"forward_unknown": True, **options})


def test_events_are_sorted_by_time_and_then_by_batsims_order_of_types(tmp_path):
    lines = [
        '{"type": "power", "timestamp": 3, "w": 1.23456789}',
        '{"type": "machine_unavailable", "resources": "1-2", "timestamp": 3}',
        '{"type": "machine_available", "resources": "0 2", "timestamp": 3.0}\r',
        "",
        '{"timestamp": 0, "type": "power"}',
    ]
    found = read(tmp_path, "\n".join(lines))
    assert [(x.timestamp, x.kind, str(x.hosts)) for x in found] == [
        (0, "power", "None"),
        (3, "machine_available", "0 2"),
        (3, "machine_unavailable", "1-2"),
        (3, "power", "None"),
    ]
    assert found[-1].data == {"type": "power", "timestamp": 3, "w": 1.234568}


@pytest.mark.parametrize(
    ("line", "translate"),
    [
        ('{"type": "power", "timestamp": 0.30000000000000004, "w": 1}', True),
        ('{"type": "machine_available", "resources": "0", "timestamp": 0.30000000000000004}', True),
        ('{"type": "generic", "timestamp": 0.30000000000000004, "data": "{\\"w\\": 1}"}', True),
        ('{"type": "generic", "timestamp": 0.30000000000000004, "data": "{\\"w\\": 1}"}', False),
    ],
)
def test_the_time_of_an_event_is_the_number_as_read(tmp_path, line, translate):
    """Batsim's reading is one unit in the last place away from the nearest double."""
    event = read(tmp_path, line, translate=translate)[0]
    assert event.timestamp == 0.30000000000000007


def test_forwarded_numbers_have_the_digits_that_batsim_prints(tmp_path):
    event = read(tmp_path, '{"type": "p", "timestamp": 1, "w": [62127799526.145546, {"x": 0.1234565}]}')[0]
    assert [f"{event.data['w'][0]:.6f}", event.data["w"][1]] == ["62127799526.145554", {"x": 0.123456}]


def test_files_are_merged(tmp_path):
    files = [
        read(tmp_path, "\n".join(f'{{"type": "x", "timestamp": {t}}}' for t in times))
        for times in ([1, 5], [2, 3])
    ]
    assert [x.timestamp for x in merge_events(files)] == [1, 2, 3, 5]


def lines(*events):
    return "\n".join(
        f'{{"type": "{kind}", "timestamp": {at}, "w": {w}, "resources": "0"}}' for at, kind, w in events
    )


@pytest.mark.parametrize(
    ("more", "tied", "found"),
    [
        (15, [(20, "x", 1), (20, "x", 2)], True),
        (14, [(20, "x", 1), (20, "x", 2)], False),  # 16 lines keep their order
        (30, [(20, "x", 1), (20, "x", 1)], False),  # they are the same
        (30, [(20, "x", 1), (21, "x", 2)], False),
        (30, [(20, "x", 1), (20, "y", 2), (20, "x", 1)], True),
        (30, [(20, "x", 1), (20, "machine_available", 2)], False),  # sorted by type
    ],
)
def test_events_that_batsim_may_mix_up(tmp_path, more, tied, found):
    events = read(tmp_path, lines(*((n % 15, "machine_available", 0) for n in range(more)), *tied))
    pair = mixed_up(merge_events([events]))
    assert (pair is not None) == found
    if pair is not None:
        assert pair[0].data["w"] != pair[1].data["w"]


def test_events_of_two_files_are_not_mixed_up(tmp_path):
    some = read(tmp_path, lines(*((n, "x", 1) for n in range(20))))
    (tmp_path / "other").mkdir()
    others = read(tmp_path / "other", lines(*((n, "x", 2) for n in range(20))))
    assert mixed_up(merge_events([some, others])) is None


def test_an_empty_file_is_fine(tmp_path):
    assert read(tmp_path, "") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "could not be parsed: expected .*; 'beasy-sched generate power' makes events"),
        ('[{"type": "x", "timestamp": 1}]', "could not be parsed"),
        ('{"timestamp": 1, "type": "x", "timestamp": 2}', "the name 'timestamp' occurs twice in an object"),
        ('{"timestamp": 1, "type": "a:b", "x": {"y": 1, "y": 1}}', "the name 'y' occurs twice"),
        ('{"timestamp": 1}', "no 'type' text"),
        ('{"type": "x"}', "no 'timestamp' number"),
        ('{"type": "x", "timestamp": true}', "no 'timestamp' number"),
        ('{"type": "x", "timestamp": -1}', "timestamp is -1"),
        ('{"type": "machine_available", "timestamp": 1}', "'resources' is None"),
        ('{"type": "machine_available", "timestamp": 1, "resources": "3-1"}', "'resources' is '3-1'"),
    ],
)
def test_wrong_lines(tmp_path, line, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, '{"type": "x", "timestamp": 0}\n' + line)
    assert "events.txt:2" in str(caught.value)


def test_unknown_types_need_the_option(tmp_path):
    with pytest.raises(InputError, match="--forward-unknown-events"):
        read(tmp_path, '{"type": "x", "timestamp": 0}', forward_unknown=False)


def test_more_hosts_in_all_than_the_cap(tmp_path, monkeypatch):
    monkeypatch.setattr("beasy_sched.formats.batsim_events.MOST_HOSTS_NAMED", 10_000)
    line = '{"timestamp": 1, "type": "machine_unavailable", "resources": "0-999"}\n'
    (tmp_path / "e.txt").write_text(line * 11)
    with pytest.raises(InputError, match=r"e.txt:11: the events name more than 10,000 hosts in total"):
        read_external_events(tmp_path / "e.txt")


@pytest.mark.sampled
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_members_nested_too_deeply_to_be_walked_through(tmp_path, opening, closing):
    def line(depth):
        return f'{{"type": "power", "timestamp": 3, "x": {opening * depth}1{closing * depth}}}'

    assert len(read(tmp_path, line(40))) == 1
    for depth in (150, 460, 900, 100_000):
        with pytest.raises(InputError, match=r"events\.txt:1: .*nested too deeply"):
            read(tmp_path, line(depth))


@pytest.mark.parametrize("text", ["{" * 500, "[" * 500 + "]" * 500, '\\"' + "{[" * 500 + "]}" * 500])
def test_brackets_in_texts_are_no_levels(tmp_path, text):
    lists = "[]," * 500
    assert read(tmp_path, f'{{"type": "power", "timestamp": 3, "x": "{text}", "y": [{lists}1]}}')
