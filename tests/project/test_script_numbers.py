"""Every numeric option of every script: finite, in its range, or a usage error of one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from console import Number
from studies.beasy import command as reproduce
from studies.comparison import command as compare_policies
from studies.energy_budget import command as reproduce_energy_budget
from studies.greenslot import command as reproduce_greenslot
from studies.learning import command as reproduce_learning

Parse = Callable[[Sequence[str]], Any]
SCRIPTS: dict[str, tuple[Parse, tuple[str, ...]]] = {
    "compare_policies": (compare_policies.parse_arguments, ()),
    "reproduce_critical": (reproduce.parse_arguments, ("critical",)),
    "reproduce_average": (reproduce.parse_arguments, ("average",)),
    "reproduce_greenslot": (reproduce_greenslot.parse_arguments, ()),
    "reproduce_energy_budget": (reproduce_energy_budget.parse_arguments, ()),
    "reproduce_learning": (reproduce_learning.parse_arguments, ()),
}
WRONG = ("nan", "inf", "-inf", "1e308", "-1e308", "9" * 400, "9" * 5000, "x", "")


class _Parsed(Exception):
    pass


def options_of(name: str) -> list[argparse.Action]:
    """The options of a script's parser, caught when it is about to read the arguments."""
    parse, first = SCRIPTS[name]
    caught: list[argparse.ArgumentParser] = []

    def parse_args(parser: argparse.ArgumentParser, *_: object) -> None:
        caught.append(parser)
        raise _Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        with pytest.raises(_Parsed):
            parse([*first])
    return [action for action in caught[0]._actions if action.option_strings]


OPTIONS = [(name, action) for name in SCRIPTS for action in options_of(name)]
NUMERIC = [(name, action) for name, action in OPTIONS if isinstance(action.type, Number)]
FILES = [(name, action) for name, action in OPTIONS if getattr(action.type, "__name__", "") == "readable"]


def ids(options: Sequence[tuple[str, argparse.Action]]) -> list[str]:
    return [f"{name} {action.option_strings[-1]}" for name, action in options]


def refused(name: str, option: str, text: str, capfd: pytest.CaptureFixture[str]) -> str:
    parse, first = SCRIPTS[name]
    with pytest.raises(SystemExit) as end:
        parse([*first, f"{option}={text}"])
    assert end.value.code == 2
    message = capfd.readouterr().err.splitlines()[-1]
    assert option in message
    assert len(message) < 400
    return message


def test_there_are_many() -> None:
    assert len(NUMERIC) > 10
    assert len(FILES) > 5


@pytest.mark.parametrize(("name", "action"), OPTIONS, ids=ids(OPTIONS))
def test_no_option_has_a_number_without_a_range(name: str, action: argparse.Action) -> None:
    assert action.type not in (int, float)
    if not isinstance(action.type, Number):
        assert action.default is None or action.nargs == 0 or not isinstance(action.default, (int, float))


@pytest.mark.parametrize(("name", "action"), NUMERIC, ids=ids(NUMERIC))
def test_only_finite_numbers_in_the_range(
    name: str, action: argparse.Action, capfd: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(action.type, Number)
    allowed = action.type.allowed
    for text in (*WRONG, str(allowed.least - 1), str(allowed.most + 1)):
        assert "found" in refused(name, action.option_strings[-1], text, capfd)


@pytest.mark.parametrize(("name", "action"), FILES, ids=ids(FILES))
def test_files_that_are_none(
    name: str, action: argparse.Action, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        message = refused(name, action.option_strings[-1], str(path), capfd)
        assert f"found '{path}'"[:150] in message
        assert "expected a file that exists" in message


@pytest.mark.parametrize("text", ["0:1000000000000", "5:5", "9:5", "-1:5", "0:1e3", "a:b", "0:" + "9" * 400])
@pytest.mark.parametrize("option", ["--seeds", "--days"])
def test_ranges_of_seeds(option: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "expected a range" in refused("compare_policies", option, text, capfd)
