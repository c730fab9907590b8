"""Files of failures of hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.failures import HostFailure, HostFailureKind, read_failures
from beasy_sched.model.hosts import HostSet


def read(tmp_path: Path, text: str) -> list[HostFailure]:
    path = tmp_path / "failures.txt"
    path.write_text(text)
    return read_failures(path)


def test_lines_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '{"timestamp": 7200, "type": "repaired", "resources": "3 5"}\n'
        "\n"
        '{"timestamp": 0, "type": "wakes_fail", "resources": "0-9", "percent": 20, "seed": 1}\n'
        '{"timestamp": 3600.5, "type": "breaks", "resources": "3"}\n'
        '{"timestamp": 3600.5, "type": "wakes_fail", "resources": "1"}\n',
    )
    where = str(tmp_path / "failures.txt")
    assert found == [
        HostFailure(0.0, HostFailureKind.WAKES_FAIL, HostSet.parse("0-9"), 20.0, 1, f"{where}:3"),
        HostFailure(3600.5, HostFailureKind.BREAKS, HostSet.parse("3"), where=f"{where}:4"),
        HostFailure(3600.5, HostFailureKind.WAKES_FAIL, HostSet.parse("1"), 100.0, 0, f"{where}:5"),
        HostFailure(7200.0, HostFailureKind.REPAIRED, HostSet.parse("3 5"), where=f"{where}:1"),
    ]


def test_times_are_read_as_those_of_events_are(tmp_path: Path) -> None:
    found = read(tmp_path, '{"timestamp": 0.30000000000000004, "type": "breaks", "resources": "3"}')
    assert found[0].timestamp == 0.30000000000000007


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("breaks 3", "expected such as"),
        ('{"timestamp": 1, "type": "explodes", "resources": "3"}', "explodes"),
        ('{"timestamp": -1, "type": "breaks", "resources": "3"}', "timestamp"),
        ('{"timestamp": 1, "type": "breaks"}', "resources"),
        ('{"timestamp": 1, "type": "breaks", "resources": "x"}', "expected machine ids such as '0-3 5'"),
        ('{"timestamp": 1, "type": "breaks", "resources": ""}', "expected machine ids such as '0-3 5'"),
        ('{"timestamp": 1, "type": "breaks", "resources": "3", "until": 4}', "until"),
        ('{"timestamp": 1, "type": "breaks", "resources": "3", "percent": 4}', "belong to 'wakes_fail'"),
        ('{"timestamp": 1, "type": "wakes_fail", "resources": "3", "percent": 101}', "percent"),
        ('{"timestamp": 1, "type": "wakes_fail", "resources": "3", "seed": -1}', "seed"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    good = '{"timestamp": 1, "type": "breaks", "resources": "3"}\n'
    with pytest.raises(InputError, match=r"failures\.txt:2: ") as caught:
        read(tmp_path, good + line + "\n")
    assert problem in str(caught.value)
