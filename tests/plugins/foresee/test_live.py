"""Live forecasts: the run decides the same, and goes on whatever happens to them."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.recording import open_recording
from beasy_sched.plugins.foresee import batch, children, line_file
from beasy_sched.plugins.foresee.forecast import DECODER
from beasy_sched.plugins.foresee.line_file import LineFile
from beasy_sched.plugins.foresee.live import LiveForecaster
from beasy_sched.run.following import RunFollower, observers_of
from beasy_sched.run.in_process import run_in_process
from beasy_sched.simulator import Simulation
from tests.command_line import exit_code
from tests.daemon.serving import serving
from tests.plugins.foresee.foreseen_site import HOUR_S, FutureSite, some_jobs, sunny_w
from tests.processes import program, started
from tests.small_site import differing


@pytest.fixture(autouse=True)
def _at_usual_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine would hardly ever run them otherwise."""
    monkeypatch.setattr(batch, "_NICENESS", 0)
    monkeypatch.setattr(children, "_NICENESS", 0)


class _Patient(LiveForecaster):
    """Waits for each batch before the next look, as a run in real time does."""

    def look(self, now: float) -> None:
        if self._batch is not None:
            os.waitid(os.P_PID, self._batch.pid, os.WEXITED | os.WNOWAIT)
        super().look(now)


class _Joined(RunFollower):
    def __init__(self, live: LiveForecaster, files: RunFiles) -> None:
        self._live, self._files = live, files

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        self._live.join(running, self._files)

    def end(self, files: RunFiles) -> None:
        self._live.end(files)


def _site() -> FutureSite:
    jobs = some_jobs(np.random.default_rng(3), until_s=20 * HOUR_S, count=60)
    return FutureSite(jobs, sunny_w(24), window_h=24)


def _run(folder: Path, live: LiveForecaster | None, policy: str = "easy", read: Path | None = None) -> None:
    inputs, settings = _site().write(read or folder / "in")
    settings = msgspec.structs.replace(settings, policy=policy)
    (folder / "out").mkdir()
    files = RunFiles(str(folder / "out" / "run"), settings, record=folder / "rec")
    if live is None:
        run_in_process(inputs, files)
    else:
        run_in_process(inputs, files, followers=[_Joined(live, files)], observers=observers_of([live], ()))


def _exchanges(path: Path) -> list[tuple[bytes, bytes]]:
    with open_recording(path) as recording:
        return [*recording.exchanges()]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["easy", "bid-price"])
def test_a_session_decides_the_same_with_live_forecasts(tmp_path: Path, policy: str) -> None:
    live = _Patient(3 * HOUR_S, continuations=2, is_real_time=False)
    for folder in ("with", "without"):
        (tmp_path / folder).mkdir()
    _run(tmp_path / "with", live, policy, tmp_path / "in")
    _run(tmp_path / "without", None, policy, tmp_path / "in")
    assert _exchanges(tmp_path / "with" / "rec") == _exchanges(tmp_path / "without" / "rec")
    assert differing(tmp_path / "with" / "out", tmp_path / "without" / "out") == ["run_foresee.jsonl"]
    lines = (tmp_path / "with" / "out" / "run_foresee.jsonl").read_bytes().splitlines()
    forecasts = [DECODER.decode(line) for line in lines]
    assert len(forecasts) == live.made >= 4
    assert live.dropped == 0
    assert [forecast.continuations for forecast in forecasts] == [2] * len(forecasts)
    assert any(job.start_s for forecast in forecasts for job in forecast.jobs)
    assert all(forecast.steps is not None for forecast in forecasts)


def test_the_daemon_replies_the_same_bytes(tmp_path: Path) -> None:
    inputs, settings = _site().write(tmp_path / "in")
    (tmp_path / "site.toml").write_text(settings.site)
    platform, workload, events = inputs.platform, inputs.workloads[0], inputs.events[0]
    shared = ["--policy", "easy", "--site", str(tmp_path / "site.toml"), "-p", str(platform)]
    talks = []
    for name, options in (("with", ["--foresee", "1h", "-n", "1"]), ("without", [])):
        prefix = tmp_path / name
        with serving(tmp_path, *shared, *options, "--record", f"{name}.rec", "-o", str(prefix)) as daemon:
            batsim = [
                "batsim", "-q", "-E", "--forward-unknown-events", "-p", str(platform), "-w", str(workload),
                "--events", str(events), "-s", daemon.endpoint,
            ]  # fmt: skip
            with started([program("beasy-sched"), *batsim], tmp_path) as simulator:
                assert simulator.wait() == 0, simulator.said()
            assert daemon.wait() == 0, daemon.stderr
        talks.append(_exchanges(tmp_path / f"{name}.rec"))
    assert talks[0] == talks[1]
    assert len(talks[0]) > 100
    assert (tmp_path / "with_foresee.jsonl").exists()


def test_options_that_need_others(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("serve", "-n", "3", "--timeout", "0.01") == 2
    assert capfd.readouterr().err == "beasy-sched: -n and -j require --foresee\n"


# --- trouble ----------------------------------------------------------------------------------------------


def _troubled(folder: Path, **given: object) -> tuple[LiveForecaster, list[str]]:
    """Run with forecasts that fail in some way; the run itself ends as ever."""
    said: list[str] = []
    live = _Patient(6 * HOUR_S, continuations=1, is_real_time=False, warn=said.append, **given)
    _run(folder, live)
    assert (folder / "out" / "run_summary.json").exists()
    return live, said


def _begin_with(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    real = LiveForecaster._work

    def work(self: LiveForecaster, time_s: float) -> bytes:
        act()
        return real(self, time_s)

    monkeypatch.setattr(LiveForecaster, "_work", work)


def test_a_killed_process_costs_its_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _begin_with(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    live, said = _troubled(tmp_path)
    assert (live.made, live.dropped) == (0, 3)
    assert said == ["a forecast was killed by signal 9: it was omitted"]


def test_a_slow_process_is_killed_with_those_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = tmp_path / "alive"

    def hang() -> None:
        if os.fork() == 0:
            time.sleep(5.0)
            alive.touch()
            os._exit(0)
        time.sleep(600.0)

    _begin_with(monkeypatch, hang)
    monkeypatch.setattr(_Patient, "look", LiveForecaster.look)
    said: list[str] = []
    live = LiveForecaster(6 * HOUR_S, continuations=1, is_real_time=True, limit_s=0.01, warn=said.append)
    _run(tmp_path, live)
    assert live.made == 0
    assert live.dropped >= 1
    assert "a forecast took longer than 0.01 s: it was omitted" in said
    time.sleep(6.0)
    assert not alive.exists()


def test_a_forecast_that_is_due_while_another_is_computed_is_omitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _begin_with(monkeypatch, lambda: time.sleep(600.0))
    said: list[str] = []
    live = LiveForecaster(6 * HOUR_S, continuations=1, is_real_time=True, limit_s=600.0, warn=said.append)
    _run(tmp_path, live)
    assert (live.made, live.dropped) == (0, 4)
    assert said == [
        "a forecast was due while another one was computed: it was omitted",
        "no forecast: the run ended before the first one was computed",
    ]


def test_a_failing_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(batch.os, "fork", fork)
    live, said = _troubled(tmp_path)
    assert (live.made, live.dropped) == (0, 3)
    assert said == ["no forecast: its process could not be begun: Resource temporarily unavailable"]


def test_a_library_with_a_pipe_that_it_requires(tmp_path: Path) -> None:
    """Arrow aborts a process that forks after its pipe was closed."""
    pytest.importorskip("pyarrow")
    said: list[str] = []
    live = _Patient(6 * HOUR_S, continuations=1, is_real_time=False, warn=said.append)
    _run(tmp_path, live)
    assert (live.dropped, said) == (0, [])
    assert live.made


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that were written stay whole; later ones are written again once there is space."""
    real, full = os.write, [False]

    def write(file: int, data: bytes) -> int:
        if full[0] and bytes(data).startswith(b'{"time_s"'):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    class Filling(_Patient):
        def _write(self, line: bytes) -> None:
            full[0] = self.made == 2
            super()._write(line)

    monkeypatch.setattr(line_file.os, "write", write)
    said: list[str] = []
    live = Filling(6 * HOUR_S, continuations=1, is_real_time=False, warn=said.append)
    _run(tmp_path, live)
    lines = (tmp_path / "out" / "run_foresee.jsonl").read_bytes().splitlines()
    assert [DECODER.decode(line).time_s for line in lines] == [6 * HOUR_S, 18 * HOUR_S]
    assert said == ["a forecast could not be written: No space left on device"]


def test_a_half_written_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = LineFile(tmp_path / "lines")
    lines.add(b"one")
    real = os.write
    calls: list[int] = []

    def write(file: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:2])

    monkeypatch.setattr(line_file.os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        lines.add(b"two")
    monkeypatch.undo()
    lines.add(b"three")
    assert (tmp_path / "lines").read_bytes() == b"one\nthree\n"
    assert b"".join(lines.parts()) == b"one\nthree\n"
    lines.close()


def test_an_earlier_file_is_replaced_with_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("old\n")
    lines = LineFile(path)
    assert path.read_text() == "old\n"
    lines.add(b"new")
    assert path.read_text() == "new\n"
    lines.close()
