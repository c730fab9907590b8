"""The same inputs give the same bytes, every time."""

from __future__ import annotations

import shutil
from pathlib import Path

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
