"""The decision log: JSON lines, one an action."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from beasy_sched.errors import InputError, PolicyError
from beasy_sched.outputs.files import DecisionLogFile


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "run_decisions.jsonl"
    log = DecisionLogFile(path)
    log(0.0, "start", "w0!a", "0-3", "head of the queue")
    log(1.5, "P-state 1", "", "4 6", "it's dark")
    log(1 / 3, "reject", 'w0!"ä\n', "", "asks for 9 hosts")
    assert not path.exists()
    assert log.finish() == path
    assert lines(path) == [
        {"time": 0.0, "action": "start", "job": "w0!a", "hosts": "0-3", "rule": "head of the queue"},
        {"time": 1.5, "action": "P-state 1", "hosts": "4 6", "rule": "it's dark"},
        {"time": 1 / 3, "action": "reject", "job": 'w0!"ä\n', "rule": "asks for 9 hosts"},
    ]


def test_facts(tmp_path: Path) -> None:
    log = DecisionLogFile(tmp_path / "run_decisions.jsonl")
    facts = {"hosts_free": np.int64(4), "headroom_j": np.float64(0.5), "reserved_for": "w0!b", "cost_j": 1e6}
    log(2.0, "start", "w0!a", "0-3", "backfilled", facts)
    log(2.0, "kill", "w0!a", "0-3", "no energy", MappingProxyType({"ends_by_s": math.inf}))
    first, second = lines(log.finish())
    assert first["facts"] == {"hosts_free": 4, "headroom_j": 0.5, "reserved_for": "w0!b", "cost_j": 1e6}
    assert second["facts"] == {"ends_by_s": None}


def test_facts_that_are_none(tmp_path: Path) -> None:
    log = DecisionLogFile(tmp_path / "run_decisions.jsonl")
    with pytest.raises(PolicyError, match="facts: found <object"):
        log(2.0, "start", "w0!a", "0-3", "backfilled", {"oops": object()})  # type: ignore[dict-item]
    log.discard()


def test_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "run_decisions.jsonl"
    log = DecisionLogFile(path)
    for number in range(20_000):
        log(float(number), "start", f"w0!{number}", "0", "head of the queue")
    log.finish()
    assert [line["time"] for line in lines(path)] == list(range(20_000))


def test_no_lines(tmp_path: Path) -> None:
    assert DecisionLogFile(tmp_path / "empty.jsonl").finish().read_bytes() == b""


def test_discarded(tmp_path: Path) -> None:
    log = DecisionLogFile(tmp_path / "run_decisions.jsonl")
    log(0.0, "start", "w0!a", "0-3", "head of the queue")
    log.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its folder does not exist"):
        DecisionLogFile(tmp_path / "nowhere" / "run_decisions.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk() -> None:
    log = DecisionLogFile(Path("/dev/full"))
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
        log(0.0, "start", "w0!a", "0-3", "a rule " * 20_000)
    log.discard()


def test_a_rule_that_is_no_text_for_a_file(tmp_path: Path) -> None:
    log = DecisionLogFile(tmp_path / "a.jsonl")
    with pytest.raises(PolicyError, match="reject of w0!a: its rule or facts cannot be logged: 'utf"):
        log(0.0, "reject", "w0!a", "", "\ud800")
    log.discard()
