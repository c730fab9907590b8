"""Tables of a run as columns: every number is what the file says, and what is wrong is told with its line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.plugins.reports.run_table import RunTable

pytest.importorskip("pyarrow", reason="reports need pyarrow")

NUMBERS = st.floats(-1e17, 1e17).map(repr) | st.integers(-(10**15), 10**15).map(str)


def written(path: Path, text: str) -> RunTable:
    path.write_text(text, "utf-8")
    return RunTable.read(path, ())


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS | st.just("")), min_size=1, max_size=20))
def test_numbers_are_those_of_the_text(
    rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    table = written(path, "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert len(table) == len(rows)
    assert table.numbers("a").tolist() == [float(a) for a, _ in rows]
    np.testing.assert_array_equal(table.numbers("b", gaps=True), [float(b or "nan") for _, b in rows])
    assert table.knows_all("b") == all(b for _, b in rows)
    assert table.side_by_side(["b", "a"]).shape == (len(rows), 2)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "soon"], "csv:3: x: found soon, expected a number"),
        (["1", ""], "csv:3: x: found nothing, expected a number"),
        (["", "1", "1e999"], "csv:2: x: found nothing"),
        (["1", "2", "-1e999"], "csv:4: x: found -1e999"),
        (["1", "nan"], "csv:3: x: found nan"),
    ],
)
def test_what_is_no_number(tmp_path: Path, cells: list[str], message: str) -> None:
    table = written(tmp_path / "t.csv", "x,y\n" + "".join(f"{cell},0\n" for cell in cells))
    with pytest.raises(InputError, match=message):
        table.numbers("x")


def test_gaps_are_what_is_empty_or_not_a_number_by_name(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "x,y\n1,\n,\nnan,\nNaN,\n")
    np.testing.assert_array_equal(table.numbers("x", gaps=True), [1.0, math.nan, math.nan, math.nan])
    assert not any(table.texts("y"))
    with pytest.raises(InputError, match="csv:3: x: found later, expected a number"):
        written(tmp_path / "u.csv", "x,y\n1,\nlater,\n,\n").numbers("x", gaps=True)


def test_texts_stay_what_they_are(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", 'job,hosts\nNA,0-3\n007,"4 5"\n,null\n')
    assert table.texts("job") == ["NA", "007", ""]
    assert table.texts("hosts") == ["0-3", "4 5", "null"]


def test_a_row_longer_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    hosts = " ".join(map(str, range(400_000)))
    table = written(tmp_path / "t.csv", f"time,hosts\n1,0\n2,{hosts}\n")
    assert table.times("time").tolist() == [1.0, 2.0]
    assert table.texts("hosts")[1] == hosts


def test_no_file_is_a_table_without_rows(tmp_path: Path) -> None:
    missing = RunTable.read(tmp_path / "t.csv", ["time"])
    assert (missing.is_there, len(missing), "time" in missing) == (False, 0, False)
    (tmp_path / "t.csv").touch()
    assert not RunTable.read(tmp_path / "t.csv", ["time"]).is_there
    head = written(tmp_path / "t.csv", "time,x\n")
    assert (head.is_there, len(head)) == (True, 0)
    assert head.times("time").tolist() == []


def test_one_more_column_leaves_the_table_as_it_is() -> None:
    table = RunTable(Path("t.csv"), {"a": np.array([1.0, 2.0])})
    more = table.plus("b", np.array([3.0, math.nan]))
    assert ("b" in table, "b" in more, more.knows_all("a"), more.knows_all("b")) == (False, True, True, False)
