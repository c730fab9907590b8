"""Kinds of devices and sources that other packages add."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from beasy_sched.energy import sources
from beasy_sched.energy.devices import kinds


@pytest.mark.parametrize(("module", "ask"), [(kinds, kinds.all_kinds), (sources, sources.source_kinds)])
def test_entry_points_are_read_once(
    module: Any, ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    true_entry_points = metadata.entry_points

    def entry_points(**wanted: Any) -> Any:
        read.append(wanted)
        return true_entry_points(**wanted)

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    module._load_others.cache_clear()
    assert ask() == ask() == ask()
    assert len(read) == 1  # a report asks for every step, and each reading opens a file per package
