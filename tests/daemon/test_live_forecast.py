"""The daemon reads a forecast again while it serves, and does not wait for a slow program."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from daemon.serving import PATIENCE_S, Peer, Serving, raw, serving
from tiny import begins

from beasy_sched.model import events as e

SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 300
window_h = 24
start = "2026-06-01T00:00:00+00:00"
"""


def forecast(kw: float, hours: int = 48) -> str:
    """Hourly power from 2026-06-01, with dates and without an issue, as services print it."""
    rows = (f"2026-06-{1 + hour // 24:02} {hour % 24:02}:00,{kw}" for hour in range(hours))
    return "\n".join(["time,kW", *rows, ""])


class Talk:
    """A simulation of idle servers, a message every ten seconds of its time."""

    def __init__(self, daemon: Serving, peer: Peer) -> None:
        self._daemon, self._peer, self.now_s = daemon, peer, 0.0
        peer.ask(raw(begins(2, wattage_per_state="50:100")))

    def until(self, text: str) -> str:
        """Go on until the daemon has printed a line with ``text``; return the line."""
        end_s = time.monotonic() + PATIENCE_S
        while not (lines := [line for line in self._daemon.stderr.splitlines() if text in line]):
            assert time.monotonic() < end_s, self._daemon.stderr
            self.on()
        return lines[0]

    def on(self) -> None:
        self.now_s += 10.0
        self._peer.ask(raw(e.RequestedCall(self.now_s)))
        time.sleep(0.02)

    def end(self) -> None:
        self._peer.ask(raw(e.SimulationEnds(self.now_s)))
        assert self._daemon.wait() == 0, self._daemon.stderr


def options(folder: Path, *more: str) -> tuple[str, ...]:
    (folder / "site.toml").write_text(SITE)
    return ("--site", str(folder / "site.toml"), "--energy", "model", *more)


def in_log(daemon: Serving) -> list[dict]:
    """Events of forecasts in the decision log."""
    lines = (daemon.folder / "out" / "run_decisions.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["action"] == "forecast"]


def test_a_file_is_read_again_while_the_daemon_serves(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(forecast(2.0))
    with (
        serving(tmp_path, *options(tmp_path, "--forecast", str(path))) as daemon,
        Peer(daemon.endpoint) as peer,
    ):
        talk = Talk(daemon, peer)
        path.write_text(forecast(3.0, hours=12))
        line = talk.until("before the end of the window")
        short = "it ends 12.0 h before the end of the window: the one before is used after that"
        assert line == f"warning: forecast {path}: {short}"
        path.write_text("time,kW\n2026-06")
        assert talk.until("; the forecast before stays in use").startswith(f"warning: {path}:2: ")
        talk.end()
    assert [each["rule"] for each in in_log(daemon)] == [
        "forecast in use",
        "forecast ends too early",
        "forecast not renewed",
    ]
    assert in_log(daemon)[0]["facts"]["age_s"] == 0.0  # in the time of the run, from when it was read
    summary = daemon.summary()
    assert len([text for text in summary["warnings"] if "forecast" in text]) == 2
    assert daemon.stderr.count("before the end of the window") == 1


def test_a_slow_program_does_not_delay_an_answer(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="metrics need prometheus_client")
    ready, runs = tmp_path / "ready", tmp_path / "runs"
    code = (
        f"import os, pathlib, time; runs = pathlib.Path({str(runs)!r}); runs.open('a').write('x');"
        f" late = len(runs.read_text()) > 1\n"
        f"while late and not os.path.exists({str(ready)!r}): time.sleep(0.01)\n"
        f"print({forecast(2.0)!r})\n"
        "if late: print('2026-06-03 00:00,7')"
    )
    program = f"command:{shlex.join([sys.executable, '-c', code])}"
    given = ("--forecast", program, "--forecast-every", "1", "--metrics", "127.0.0.1:0")
    with serving(tmp_path, *options(tmp_path, *given)) as daemon, Peer(daemon.endpoint) as peer:
        url = re.search(r"^metrics at (http://127.0.0.1:\d+/metrics)$", daemon.stderr, re.MULTILINE)[1]
        talk = Talk(daemon, peer)
        end_s = time.monotonic() + PATIENCE_S
        while len(runs.read_text()) < 2:
            assert time.monotonic() < end_s, "it was not started again"
            talk.on()
        for _ in range(20):
            talk.on()  # answered while the program is running
        assert age_s(url) == talk.now_s
        ready.touch()
        while age_s(url) == talk.now_s:
            assert time.monotonic() < end_s + PATIENCE_S, "it was not renewed"
            talk.on()
        talk.end()
    assert {each["rule"] for each in in_log(daemon)} == {"forecast in use"}


def age_s(url: str) -> float:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:
        return float(
            re.search(rb'^beasy_forecast_age_seconds\{source="forecast"\} (\S+)$', page.read(), re.M)[1]
        )
