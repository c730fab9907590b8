"""What comes after the last window of a run: it changes no file, whether the session hears of it or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_site import SITE, SmallSite, differing, small_site

from beasy_sched.engine import Session
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, PowerAnnounced
from beasy_sched.outputs.files import RunFiles
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, Simulation

WINDOW_S = 86_400.0
LATER: list[dict[str, Any]] = [
    {"timestamp": WINDOW_S + 1000.0, "type": "machine_unavailable", "resources": "3"},
    {"timestamp": WINDOW_S + 3000.0, "type": "price", "price_per_kwh": 0.3, "power_available": 5.0},
    {"timestamp": WINDOW_S + 9000.0, "type": "machine_available", "resources": "3"},
]


@pytest.fixture
def long(tmp_path: Path) -> SmallSite:
    """A small site whose power is announced for two days more than its window; jobs and events come late."""
    made = small_site(tmp_path, jobs=60)
    lines = [json.loads(line) for line in made.events.read_text().splitlines()]
    days = [{**line, "timestamp": line["timestamp"] + day * WINDOW_S} for day in range(3) for line in lines]
    days.sort(key=lambda line: line["timestamp"])
    made.events.write_text("".join(json.dumps(line) + "\n" for line in days))
    workload = json.loads(made.workload.read_text())
    first = workload["jobs"][0]
    workload["jobs"] += [
        {**first, "id": f"late{n}", "subtime": WINDOW_S + 500.0 + 7000.5 * n} for n in range(3)
    ]
    made.workload.write_text(json.dumps(workload))
    return made


def heard(
    site: SmallSite, out: Path, policy: str, monkeypatch: pytest.MonkeyPatch, **how: Any
) -> list[Message]:
    """Run, and return the messages that the session got after the window."""
    messages: list[Message] = []
    step = Session.step

    def listening(self: Session, message: Message) -> Reply:
        if message.now > WINDOW_S + 1.0:
            messages.append(message)
        return step(self, message)

    out.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "step", listening)
        settings = RunSettings(policy=policy, site=SITE)
        files = RunFiles(str(out / "run"), settings, **how)
        run_in_process(Inputs(site.platform, [site.workload], [site.events]), files)
    return messages


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["easy", "power-reactive", "workload-reactive"])
def test_power_after_the_last_window_changes_nothing(
    policy: str, long: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = heard(long, tmp_path / "short", policy, monkeypatch)
    run = Simulation.run
    monkeypatch.setattr(Simulation, "run", lambda self, decide, *_: run(self, decide))
    whole = heard(long, tmp_path / "whole", policy, monkeypatch)
    assert differing(tmp_path / "short", tmp_path / "whole") == []
    assert len(whole) > 500
    assert len(short) < 20
    told = [event for message in short for event in message.events]
    assert not any(type(event) is PowerAnnounced for event in told)
    others = [event for message in whole for event in message.events if type(event) is not PowerAnnounced]
    assert told == others


def test_a_recording_has_all_messages(
    long: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = heard(long, tmp_path / "out", "easy", monkeypatch, record=tmp_path / "run.rec")
    assert len(messages) > 500
