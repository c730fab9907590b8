from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.formats.swf import LINE_COLUMN, SwfReader
from beasy_sched.formats.swf_fields import SWF_FIELDS

ROW = "{} {} 0 100 4 -1 -1 4 200 -1 1 7 3 -1 1 1 -1 -1"


def row(number: float | str, submit: float | str = 0) -> str:
    return ROW.format(number, submit)


def write(folder: Path, text: str | bytes, name: str = "t.swf") -> Path:
    path = folder / name
    path.write_bytes(text.encode("latin-1") if isinstance(text, str) else text)
    return path


def read(path: Path, **options: bool) -> tuple[list[float], SwfReader]:
    reader = SwfReader(path, **options)
    return [number for chunk in reader.chunks() for number in chunk[:, 0].tolist()], reader


def test_fields_and_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "; MaxProcs: 64\n1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n")
    (chunk,) = SwfReader(path).chunks()
    assert chunk.tolist() == [[*range(1, 19), 2]]
    assert list(SWF_FIELDS.values()) == list(range(1, 19))


def test_header(tmp_path: Path) -> None:
    text = (
        "; MaxProcs: 64 nodes\n;MaxNodes: -1\n; Note: a: b\n; UnixStartTime: 1.362e+09\n; MaxJobs:\n" + row(1)
    )
    numbers, reader = read(write(tmp_path, text))
    assert numbers == [1]
    assert reader.header["Note"] == "a: b"
    assert reader.header_number("MaxProcs") == 64
    assert reader.header_number("MaxNodes") is None
    assert reader.header_number("MaxNodes", "MaxProcs") == 64
    assert reader.header_number("MaxJobs") is None
    assert reader.header_number("UnixStartTime") == 1.362e9


def test_of_a_header_that_is_given_twice_the_first_counts(tmp_path: Path) -> None:
    """Comments between the rows can look like headers."""
    text = f"; MaxProcs: 64\n; MaxProcs: 32\n{row(1)}\n; MaxProcs: 16\n{row(2)}\n"
    numbers, reader = read(write(tmp_path, text))
    assert numbers == [1, 2]
    assert reader.header == {"MaxProcs": "64"}


@pytest.mark.parametrize(
    ("text", "numbers", "bad"),
    [
        (f"{row(1)}\r\n{row(2)}\r\n", [1, 2], []),
        (f"{row(1)}\r{row(2)}\r", [1, 2], []),
        (f"{row(1)}\n\n   \n; in the middle\n{row(2)}", [1, 2], []),
        (f"  {row(1)}  \n\t{row(2)}".replace(" ", "\t"), [1, 2], []),
        (f"\xef\xbb\xbf; MaxProcs: 8\n{row(1)}\n", [1], []),
        (f"{row('5e+05')}\n{row(2.0, '0.1')}\n", [500000, 2], []),
        (f"{row(1)} 0\n{row(2)} ; a remark\n", [1, 2], []),
        (f"{row(1)}\n1 2 3\n{row(2)}\n", [1, 2], ["line 2: 3 fields, expected 18"]),
        (f"{row('x')}\n{row(2)}\n", [2], ["line 1: field 1 is 'x', expected a number"]),
        (f"{row(1)}\n{row('1_0', 3)}\n", [1], ["line 2: field 1 is '1_0', expected a number"]),
        (f"{row(1)}\n{row(2, 'nan')}\n", [1], ["line 2: field 2 is nan"]),
        (
            f"{row(1)}\n{row(2, '-inf')}\n{row(3, '1e300')}\n",
            [1],
            ["line 2: field 2 is -inf", "line 3: field 2 is 1e+300"],
        ),
        (
            f"{row(1)}\n{row(2, '1e16')}\n1 0 0 1 3e9 0 0 1 1 0 1 1 1 1 1 1 1 1\n",
            [1],
            ["line 2: field 2 is 1e+16", "line 3: field 5 is 3e+09"],
        ),
        (f"{row(1)}\n{'9' * 30_000}\n{row(2)}\n", [1, 2], ["line 2: 1 field, expected 18"]),
        (f"{row(1)}\n\x00\x01\xff\n{row(2)}\n", [1, 2], ["line 2: 1 field, expected 18"]),
    ],
)
def test_rows(tmp_path: Path, text: str, numbers: list[float], bad: list[str]) -> None:
    for packed in (False, True):
        data = text.encode("latin-1")
        got, reader = read(write(tmp_path, gzip.compress(data) if packed else data))
        assert got == numbers
        assert reader.findings.examples == bad
        assert reader.findings.bad_rows == len(bad)
        assert reader.findings.rows == len(numbers) + len(bad)


def test_rows_with_more_fields_are_counted(tmp_path: Path) -> None:
    _, reader = read(write(tmp_path, f"{row(1)} 0\n{row(2)}\n"))
    assert reader.findings.long_rows == 1


def test_only_the_first_bad_rows_are_told(tmp_path: Path) -> None:
    numbers, reader = read(write(tmp_path, "bad\n" * 20_000 + row(1)))
    assert numbers == [1]
    assert reader.findings.bad_rows == 20_000
    assert [text.split(":")[0] for text in reader.findings.examples] == [f"line {i}" for i in range(1, 6)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "contains no job"),
        (b"; MaxProcs: 3\n\n", "contains no job"),
        (bytes(range(256)) * 50, "not an SWF trace, no row can be read; line"),
        (b"id,submit,run\n1,2,3\n", "not an SWF trace, no row can be read; line 1: 1 field"),
        (row(1).encode("utf-16"), "not an SWF trace"),
        (b"BZh91AY&SY", "is a bzip2 file: unpack it"),
        (b"PK\x03\x04xxxx", "is a zip file"),
        (b"\x1f\x8b", "the gzip file is truncated after line 0"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 40, "the gzip file is corrupt"),
    ],
)
def test_files_that_are_no_traces(tmp_path: Path, data: bytes, message: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "none.swf")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_a_cut_gzip_file_is_refused_or_taken_as_far_as_it_goes(tmp_path: Path) -> None:
    text = "".join(f"{row(i, i * 7919 % 1000)}\n" for i in range(60_000))
    data = gzip.compress(text.encode())
    path = write(tmp_path, data[: len(data) // 2])
    with pytest.raises(InputError, match=r"truncated after line \d+: download it again, or use"):
        read(path)
    numbers, reader = read(path, accept_damaged=True)
    assert 10_000 < len(numbers) < 60_000
    assert numbers == list(range(len(numbers)))
    assert reader.findings.damage == f"the gzip file is truncated after line {len(numbers)}"
    assert reader.findings.bad_rows == 0


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    path = write(tmp_path, f"{row(1)}\n" * 40_000)
    seen: list[tuple[int, int]] = []
    list(SwfReader(path, progress=lambda done, total: seen.append((done, total))).chunks())
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


values = st.floats(-(2**31) + 1, 2**31 - 1) | st.integers(-(2**31) + 1, 2**31 - 1)


@given(st.lists(st.lists(values, min_size=18, max_size=18), min_size=1, max_size=5), st.data())
def test_every_number_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], data: st.DataObject
) -> None:
    space = st.sampled_from([" ", "\t", "   "])
    lines = [data.draw(space).join(map(repr, numbers)) for numbers in rows]
    path = write(tmp_path_factory.mktemp("swf"), data.draw(st.sampled_from(["\n", "\r\n"])).join(lines))
    (chunk,) = SwfReader(path).chunks()
    assert np.array_equal(chunk[:, :LINE_COLUMN], np.array(rows, dtype=float))


@given(st.binary(max_size=400))
def test_no_bytes_make_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = write(tmp_path_factory.mktemp("swf"), data + b"\n" + row(1).encode())
    try:
        read(path)
    except InputError:
        assert data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"))


def test_a_trace_that_unpacks_to_more_than_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beasy_sched.formats.swf.MOST_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(b"; comment\n" * 200_000))
    with pytest.raises(InputError, match=r"trace.swf.gz: unpacks to more than 1 MiB"):
        list(SwfReader(path, accept_damaged=True).chunks())
