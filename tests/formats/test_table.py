import gzip

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import parse_table, read_table_text


def table(text):
    return parse_table("f.csv", text, lambda cells: cells[0] == "time")


@pytest.mark.parametrize(
    "text",
    [
        "time,a\n1,2.5\n3,\n",
        "# title\n# more\ntime,a\r\n1,2.5\r\n3,\r\n",
        "time,a,,,\n1,2.5,,,\n\n,,,,\n3,n/e,,,\n",
        "time;a\n1;2,5\n3;-\n",
        "time\ta\n1\t2.5\n3\tnan\n",
        '"time","a"\n"1","2.5"\n"3",""\n',
        " time , a \n 1 , 2.5 \n 3 , \n",
    ],
)
def test_the_same_table_in_many_clothes(text):
    read = table(text)
    assert read.names == ("time", "a")
    np.testing.assert_array_equal(read.numbers("time"), [1, 3])
    np.testing.assert_array_equal(read.numbers("a"), [2.5, np.nan])


def test_rows_know_their_lines():
    assert table("# x\n\ntime,a\n1,2\n\n3,4\n").lines.tolist() == [4, 6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,a\n1,2\n3\n", "f.csv:3: has 1 value but the header has 2 columns: is the file truncated"),
        ("time,a\n1,2,5\n", "f.csv:2: has 3 values but the header has 2 columns (decimal commas?)"),
        ("time,a\n1,2\n3,x\n", "f.csv:3: a: found 'x', expected a number"),
        ("time,a\n1,2\n3,1_0\n", "f.csv:3: a: found '1_0', expected a number"),
        ("time,a\n1,2\n3,１２\n", "f.csv:3: a: found '１２', expected a number"),
        ("time,a\n1,inf\n", "f.csv:2: a: found 'inf'"),
        ("nothing\n", "f.csv: no header line was found in 1 line"),
    ],
)
def test_damage_is_named_with_its_line(text, message):
    with pytest.raises(InputError) as error:
        table(text).numbers("a")
    assert message in str(error.value)


def test_a_column_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(InputError, match="has no column 'b'; its columns are: time, a"):
        table("time,a\n1,2\n").numbers("b")


def test_gzip_byte_order_marks_and_old_encodings_are_read(tmp_path):
    path = tmp_path / "f"
    texts = ("kW/m²".encode(), b"\xef\xbb\xbf" + "kW/m²".encode(), "kW/m²".encode("latin-1"))
    for data in (*texts, "kW/m²".encode("utf-16"), b"\xfe\xff" + "kW/m²".encode("utf-16-be")):
        path.write_bytes(data)
        assert read_table_text(path) == "kW/m²"
        path.write_bytes(gzip.compress(data))
        assert read_table_text(path) == "kW/m²"


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "f.xlsx").write_bytes(b"PK\x03\x04\0\0")
    with pytest.raises(InputError, match="is not a text file"):
        read_table_text(tmp_path / "f.xlsx")
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"time,a\n" * 1000)[:-20])
    with pytest.raises(InputError, match="is a damaged gzip file"):
        read_table_text(tmp_path / "f.gz")


def test_a_line_longer_than_any_cell_is_no_header():
    assert table("x" * 200_000 + "\ntime,a\n1,2\n").names == ("time", "a")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_more_text_than_the_cap(tmp_path, monkeypatch, pack):
    monkeypatch.setattr("beasy_sched.formats.table.MOST_TABLE_BYTES", 1 << 20)
    (tmp_path / "a.csv").write_bytes(pack(b"1,2\n" * 300_000))
    with pytest.raises(InputError, match=r"a.csv: is larger than the limit of 1 MiB of text"):
        read_table_text(tmp_path / "a.csv")


def test_a_gzip_file_with_garbage_in_it(tmp_path):
    packed = bytearray(gzip.compress(b"1,2\n" * 3000))
    for place in range(12, len(packed), 3):
        packed[place] ^= 0xFF
    (tmp_path / "a.csv").write_bytes(packed)
    with pytest.raises(InputError, match=r"a.csv: is a damaged gzip file"):
        read_table_text(tmp_path / "a.csv")


LONG = "x" * 3000


@pytest.mark.parametrize(
    "text",
    [
        "time," + LONG + "\n1,2\n",
        "time," + ",".join(f"column_{i}" for i in range(400)) + "\n" + "1," * 400 + "1\n",
        f"time,a\n{LONG},2\n",
        f"time,a\n1,{LONG}\n2,3\n",
        f"MTU (CET),Solar (MW)\n{LONG},2\n",
        "YEAR," + LONG + "\n1,2\n",
        f"YEAR,MO,DY,HR,ALLSKY_SFC_SW_DWN\n{LONG},1,1,1,1\n",
        '{"a": "' + LONG + '"}',
        f"a_kw,time\n1,2019-06-01\n2,{LONG}\n",
    ],
)
def test_a_message_prints_one_short_line_of_a_file(tmp_path, text):
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_weather_file(tmp_path / "f.csv", column=None)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 420
