"""Ranges in the help of options."""

from __future__ import annotations

import pytest
from command_line import ALL_COMMANDS, exit_code


@pytest.mark.parametrize("name", sorted(ALL_COMMANDS))
def test_a_number_without_limits_has_no_range(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*name.split(), "--help") == 0
    out = capfd.readouterr().out
    assert "None" not in out.replace("'none'", "").split()
    assert "=None" not in out


def test_a_size_without_limits_is_a_number(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("size", "--help") == 0
    out = capfd.readouterr().out
    assert "--from FLOAT  " in out
    assert "--least FLOAT RANGE" in out
