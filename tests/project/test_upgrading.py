"""The page about upgrading: old names give one message that states the new one."""

from __future__ import annotations

import importlib
import re

import pytest
from command_line import exit_code
from project.shell import ROOT

from beasy_sched.outputs.tables import COMPARISON_COLUMNS

PAGE = (ROOT / "docs/upgrading.md").read_text("utf-8")
NAMES = re.findall(r"^\| `([^`]+)` \| `([^`]+)`", PAGE.partition("## Names")[2].partition("## Out")[0], re.M)


def test_a_value_of_an_option_that_has_another_name(capfd: pytest.CaptureFixture[str]) -> None:
    old, new = (name.split() for name in NAMES[0])
    assert old[:3] == ["slurm", "run", "--on-kill"] == new[:3]
    assert exit_code(*old, "--partition", "main") == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert f"found {old[3]!r}, which is now called {new[3]!r}: use --on-kill {new[3]}" in error


@pytest.mark.parametrize(("old", "new"), NAMES[1:])
def test_a_module_that_has_another_name(old: str, new: str) -> None:
    if old.startswith("from "):
        _, old_module, _, old_name = old.split()
        _, new_module, _, new_name = new.split()
    else:
        (old_module, old_name), (new_module, new_name) = (name.rsplit(".", 1) for name in (old, new))
    with pytest.raises(
        ImportError, match=rf"^{old_module} is now {new_module}: import {old_name} from there$"
    ):
        importlib.import_module(old_module)
    assert hasattr(importlib.import_module(new_module), new_name)


def test_the_names_of_the_page() -> None:
    assert len(NAMES) == 3
    assert "off target" in {" ".join(column.heading) for column in COMPARISON_COLUMNS}
    for name in re.findall(r"`((?:docker/)?compose[\w.]*yaml|scripts/\w+)", PAGE):
        folder = "" if "/" in name else "docker/"
        assert (ROOT / f"{folder}{name}").exists(), name
