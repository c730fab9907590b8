"""The same inputs give the same bytes, every time."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from recording_files import exchanges_in
from small_site import differing, small_site


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["easy", "workload-reactive", "power-reactive"])
def test_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """Inputs are generated anew, too, from the same seed."""
    site = tmp_path / "site"
    for name in ("one", "two"):
        site.mkdir()
        small_site(site, seed=7, jobs=60)
        monkeypatch.chdir(site)
        inputs = ["-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml"]
        outputs = ["-e", f"../{name}/run", "--record", f"../{name}/a.rec"]
        assert exit_code("simulate", "-q", "--policy", policy, *inputs, *outputs) == 0
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(site)
    assert differing(tmp_path / "one", tmp_path / "two") == []
    assert len(exchanges_in(tmp_path / "one" / "a.rec")) > 100
    assert len(list((tmp_path / "one").iterdir())) == 10


def plain_sum(values: Iterable[Any], start: Any = 0) -> Any:
    """Sum as Python does before 3.12."""
    return reduce(add, values, start)


def compensated_sum(values: Iterable[Any], start: Any = 0) -> Any:
    """Sum as Python does from 3.12 on, which compensates for the rounding of numbers."""
    values = [start, *values]
    numbers = all(isinstance(value, (int, float)) for value in values)
    return math.fsum(values) if numbers and float in map(type, values) else reduce(add, values)


@pytest.mark.parametrize("policy", ["easy", "power-reactive"])
def test_on_every_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    small_site(tmp_path, seed=7, jobs=60)
    monkeypatch.chdir(tmp_path)
    inputs = ["-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml"]
    for name, total in (("warm", sum), ("plain", plain_sum), ("compensated", compensated_sum)):
        for module in [name for name in sys.modules if name.startswith("beasy_sched.")]:
            monkeypatch.setattr(sys.modules[module], "sum", total, raising=False)
        assert exit_code("simulate", "-q", "--policy", policy, *inputs, "-e", f"{name}/run") == 0
    assert differing(tmp_path / "plain", tmp_path / "compensated") == []
