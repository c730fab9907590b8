"""The examples in ``platforms/`` and ``workloads/`` are what the commands in their READMEs make."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from beasy_sched.cli import cli

ROOT = Path(__file__).resolve().parents[2]


def commands(folder: str) -> list[list[str]]:
    lines = (ROOT / folder / "README.md").read_text().splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("    beasy-sched ")]


@pytest.mark.parametrize("folder", ["platforms", "workloads"])
def test_examples_are_up_to_date(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / folder)
    assert commands(folder)
    for command in commands(folder):
        name = command.pop()
        result = CliRunner().invoke(cli, [*command, str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).read_bytes() == Path(name).read_bytes()
