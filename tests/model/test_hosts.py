"""Host sets and their text form, beside procset as an independent reader and writer; values by host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.arrays import all_of, any_of, are_places, total
from beasy_sched.model.hosts import HostSet, one_host

sets = st.sets(st.integers(0, 400), max_size=60)


@given(sets)
def test_text_is_what_procset_writes(ids: set[int]) -> None:
    procset = pytest.importorskip("procset")
    text = format(procset.ProcSet(*ids), "- ") if ids else ""
    assert str(HostSet.of(ids)) == text
    assert set(HostSet.parse(text)) == ids


@given(sets, st.randoms())
def test_parts_in_any_order_overlapping_and_with_commas(ids: set[int], random: object) -> None:
    parts = [f"{i}-{i + 2}" for i in ids] + [str(i) for i in ids]
    random.shuffle(parts)  # type: ignore[attr-defined]
    assert set(HostSet.parse(", ".join(parts))) == {j for i in ids for j in (i, i + 1, i + 2)}


@pytest.mark.parametrize("ids", [[7], [2, 7], []])
def test_what_picks_the_hosts_out_of_an_array(ids: list[int]) -> None:
    for hosts in (HostSet.of(ids), HostSet.of(ids).kept(), HostSet.parse(str(HostSet.of(ids)))):
        array = np.zeros(10)
        array[hosts.index] = 1.0
        assert np.flatnonzero(array).tolist() == ids


def test_a_single_host_is_one_set_that_nobody_changes() -> None:
    hosts = one_host(7)
    assert HostSet.of([7]).kept() is hosts
    assert (hosts.index, str(hosts)) == (7, "7")
    with pytest.raises(ValueError, match="read-only"):
        hosts.ids[0] = 8


@given(sets, sets)
def test_equal_sets_are_equal_and_hash_alike(a: set[int], b: set[int]) -> None:
    one, other = HostSet.of(a), HostSet.parse(str(HostSet.of(b)))
    assert (one == other) == (a == b)
    assert a != b or hash(one) == hash(other)
    assert len(one) == len(a)
    assert list(one) == sorted(a)
    assert all(host in one for host in a)
    assert 1000 not in one


@given(st.lists(st.integers(-1, 6), max_size=6), st.sampled_from((0, 100)), st.integers(0, 7))
def test_places_are_sorted_each_once_and_below_the_size(ids: list[int], more: int, size: int) -> None:
    ids = [*range(more), *(more + each for each in ids)]
    expected = ids == sorted(set(ids)) and set(ids) <= {*range(more + size)}
    assert are_places(np.array(ids, dtype=np.intp), more + size) == expected


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("  ", []),
        ("7", [7]),
        ("007", [7]),
        ("0-3 5", [0, 1, 2, 3, 5]),
        ("3,1", [1, 3]),
        ("2-2", [2]),
    ],
)
def test_accepted(text: str, ids: list[int]) -> None:
    hosts = HostSet.parse(text)
    assert hosts.ids.tolist() == ids
    assert HostSet.parse(str(hosts)) == hosts
    assert str(hosts) == str(HostSet(np.array(ids, dtype=np.intp)))


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "1-",
        "-",
        "3-1",
        "1--2",
        "a",
        "1.0",
        "1e3",
        "0x1",
        "+1",
        "1_0",
        "٣",
        "²",
        "0-3;5",
        "1-2-3",
        "\x00",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        HostSet.parse(text)


@pytest.mark.parametrize(
    "text", ["10000000", "9" * 30, "9" * 5000, "0-99999999999", " ".join(["0-9999999"] * 100)]
)
def test_a_set_too_large_for_any_platform_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(ValueError, match=r"platform|interval"):
        HostSet.parse(text)


@given(st.text(alphabet="0123456789-, \t", max_size=12))
def test_any_text_is_a_set_or_a_value_error(text: str) -> None:
    try:
        hosts = HostSet.parse(text)
    except ValueError:
        return
    assert (np.diff(hosts.ids) > 0).all()
    assert HostSet.parse(str(hosts)) == hosts


@given(st.lists(st.floats(-1e12, 1e12), max_size=20))
def test_a_total_has_the_same_bits(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    assert total(array) == float(array.sum())


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 3))
def test_any_and_all(values: list[bool], stride: int) -> None:
    mask = np.array(values, dtype=np.bool_)[::stride]
    assert any_of(mask) is bool(mask.any())
    assert all_of(mask) is bool(mask.all())
