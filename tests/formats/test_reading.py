"""Reading files: what is said where one cannot be read, or a value is not what it should be."""

from __future__ import annotations

import codecs
import gzip
import re
import sys
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from beasy_sched import limits
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.decoding import read_frame_of_lines
from beasy_sched.formats.reading import in_file, parse_toml, read_bytes, read_lines, read_text
from beasy_sched.formats.swf import SwfReader
from beasy_sched.structs import as_type, field_names


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


class Round(msgspec.Struct, forbid_unknown_fields=True, tag_field="shape", tag="round"):
    radius_m: float


class Square(msgspec.Struct, forbid_unknown_fields=True, tag_field="shape", tag="square"):
    side_m: float


class Part(msgspec.Struct, forbid_unknown_fields=True):
    form: Round | Square
    colour: Colour = Colour.RED


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[Part]
    size: Literal["small", "large"] = "small"
    spare: Part | None = None
    begin: int = msgspec.field(name="from", default=0)
    row: tuple[float, float] | None = None


GOOD = {"parts": [{"form": {"shape": "round", "radius_m": 1}}]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "parts: is missing"),
        ({"parts": 1}, "parts: found 1, expected a list"),
        ({**GOOD, "x": 1}, "x: no such field, expected one of short, parts, size, spare, from, row"),
        ({**GOOD, "row": [1, 2, 3]}, "row: found [1, 2, 3], expected a list of 2"),
        ({**GOOD, "from": "1"}, "from: found '1', expected an integer"),
        ({**GOOD, "size": "huge"}, "size: found 'huge', expected one of small, large"),
        ({**GOOD, "spare": {}}, "spare.form: is missing"),
        (
            {**GOOD, "spare": {**GOOD["parts"][0], "colour": "grey"}},
            "spare.colour: found 'grey', expected",
        ),
        (
            {"parts": [{"form": {"shape": "flat"}}]},
            "parts[0].form.shape: found 'flat', expected",
        ),
        (
            {"parts": [{"form": {"shape": "round", "side_m": 1}}]},
            "parts[0].form.side_m: no such field, expected one of shape, radius_m",
        ),
        ({"parts": [{"form": {"shape": "square"}}]}, "parts[0].form.side_m: is missing"),
    ],
)
def test_a_wrong_value_is_told_by_its_field(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        as_type(values, Thing, shorthands=["short"])
    assert str(caught.value).startswith(message)


class Tables(msgspec.Struct):
    shares: dict[int, float] = {}
    facts: dict[str, dict[str, float]] = {}
    start: datetime | None = None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shares": {"1": 0.5, "0.1": 1}}, "shares: found '0.1', expected an integer"),
        ({"shares": {"1": 0.5, "2": "much"}}, "shares.2: found 'much', expected a number"),
        ({"facts": {"a": {}, "b": {"c": 1, "d": []}}}, "facts.b.d: found [], expected a number"),
        ({"start": "2019-inf-03"}, "start: found '2019-inf-03', expected a date and time with its offset"),
        ({"start": 7}, "start: found 7, expected a date and time or nothing"),
        ({"shares": {"1": -1e308}}, "shares.1: found -1e+308, expected a number, at least -1e+18"),
        ({"shares": {"1": date(2024, 1, 2)}}, "shares.1: found 2024-01-02, expected a number"),
    ],
)
def test_a_wrong_entry_of_a_table_is_told_by_its_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        as_type(values, Tables)
    assert str(caught.value).startswith(message)


def test_what_is_right_becomes_the_type() -> None:
    found = as_type(GOOD, Thing)
    assert found == Thing([Part(Round(1.0))])
    assert field_names(Round) == ["shape", "radius_m"]


def swf_rows(path: Path) -> list[object]:
    return list(SwfReader(path).chunks())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for read in (read_bytes, read_text):
        with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'no'}: cannot be read: No such file")):
            read(tmp_path / "no")
    (tmp_path / "latin").write_bytes(b"a\xe9b")
    with pytest.raises(InputError, match=r"latin:1: is not UTF-8 text: found the byte 0xe9 as byte 2"):
        read_text(tmp_path / "latin")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"a = 1"), "t:1: is a gzip file: unpack it first"),
        (
            codecs.BOM_UTF16_LE + "é = 1".encode("utf-16-le"),
            "t:1: is not UTF-8 text but UTF-16: save it",
        ),
        (
            codecs.BOM_UTF16_BE + "é = 1".encode("utf-16-be"),
            "t:1: is not UTF-8 text but UTF-16: save it",
        ),
    ],
)
def test_what_is_not_utf8_is_told_with_the_remedy(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(InputError, match=re.escape(message)):
        read_text(tmp_path / "t")


def test_toml_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(codecs.BOM_UTF8 + b"a = 1\r\n")
    assert parse_toml(read_text(tmp_path / "t"), "t") == {"a": 1}


def test_toml_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"^a\.toml: is not valid TOML: .*line 2"):
        parse_toml("a = 1\nb = ?\n", "a.toml")


def test_an_error_about_the_contents_names_the_file() -> None:
    with pytest.raises(InputError, match=r"^a\.toml: size: too large"), in_file("a.toml"):
        raise ConfigError("size: too large")


@pytest.mark.skipif(sys.platform == "win32", reason="devices as POSIX has them")
@pytest.mark.parametrize("read", [read_bytes, lambda path: list(read_lines(path)), swf_rows])
def test_a_device_that_never_ends(read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(InputError, match="/dev/zero: is not a regular file and exceeds 1 MiB"):
        read(Path("/dev/zero"))


def test_lines_of_any_number_of_members_are_a_frame(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"time":0}\n{"time":1,"rule":"a, b","facts":{"n":1}}\n')
    assert [*read_frame_of_lines(log)["time"]] == [0, 1]
