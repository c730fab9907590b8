"""The daemon as a process of its own, and peers that talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from command_line import exit_code
from processes import free_endpoint, program
from tiny import begins

from beasy_sched.model import events as e
from beasy_sched.protocol import batsim4

PATIENCE_S = 300.0
LISTENING = "listening on "
Frames = bytes | list[bytes]


def raw(*events: e.Event, now: float | None = None) -> bytes:
    """A message of Batsim's."""
    return batsim4.encode_message(e.Message(events[-1].timestamp if now is None else now, list(events)))


BEGIN = raw(begins(4))
END = raw(e.SimulationEnds(9.0))


def job(name: str, at: float = 1.0, res: int = 1) -> e.JobSubmitted:
    return e.JobSubmitted(at, e.JobRequest(f"w0!{name}", at, res, "p", 100))


class Outputs:
    """What a daemon has left: its files under ``folder/out``, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def stderr(self) -> str:
        raise NotImplementedError

    def wait(self) -> int:
        """Return its exit code."""
        raise NotImplementedError

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "out").glob("*"))

    def summary(self, name: str = "run") -> dict[str, Any]:
        return json.loads((self.folder / "out" / f"{name}_summary.json").read_text("utf-8"))

    def failed(self, error: str, *, begun: bool = True) -> None:
        """Check how it ended: exit code 1, one clear error, and what a run that began had done."""
        assert self.wait() == 1
        assert "Traceback" not in self.stderr
        last = [line for line in self.stderr.splitlines() if line.startswith("beasy-sched: ")][-1]
        assert error in last
        assert len(last) < 500
        assert not list(self.folder.glob("**/*.part"))
        if not begun:
            assert self.files() == []
            return
        summary = self.summary("run_failed")
        assert summary["complete"] is False
        assert last == f"beasy-sched: {summary['error']}"
        assert self.files()[-2:] == ["run_failed_decisions.jsonl", "run_failed_summary.json"]
        assert self.stderr.splitlines()[-1].startswith("wrote the results so far: ")


class Serving(Outputs):
    """``beasy-sched serve`` as a process, on a free port."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self._out, self._err = folder / "stdout.txt", folder / "stderr.txt"
        command = [program("beasy-sched"), "serve", "-s", "tcp://127.0.0.1:0", "-e", "out/run", *options]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            environment = {**os.environ, "PYTHONPATH": str(folder)}  # policies of a test's own
            self.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=environment)

    @property
    def endpoint(self) -> str:
        """The endpoint that it has printed, once it has."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for line in self.stderr.splitlines():
                if line.startswith(LISTENING):
                    return line.removeprefix(LISTENING)
            assert self.process.poll() is None, self.stderr
            time.sleep(0.01)
        raise AssertionError("no endpoint was printed")

    @property
    def stderr(self) -> str:
        return self._err.read_text("utf-8")

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def cpu_s(self) -> float:
        """The processor time it has used (Linux only)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Serving]:
    daemon = Serving(folder, *options)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.wait()


class Served(Outputs):
    """The same command inside the test's process, for a peer that has nothing to decide: much faster.

    Each of ``messages`` is sent when the one before has been answered.
    """

    def __init__(
        self, folder: Path, capfd: pytest.CaptureFixture[str], messages: Sequence[Frames], *options: str
    ) -> None:
        super().__init__(folder)
        endpoint = free_endpoint()
        peer = threading.Thread(target=self._talk, args=(endpoint, messages))
        self._over = threading.Event()
        peer.start()
        try:
            self._code = exit_code("serve", "-s", endpoint, "-e", str(folder / "out" / "run"), *options)
        finally:
            self._over.set()
            peer.join()
        self._said = capfd.readouterr().err

    def _talk(self, endpoint: str, messages: Sequence[Frames]) -> None:
        with Peer(endpoint) as peer:
            for message in messages:
                peer.socket.send_multipart([message] if isinstance(message, bytes) else message)
                while not peer.socket.poll(20):
                    if self._over.is_set():
                        return
                peer.socket.recv()
            self._over.wait()

    @property
    def stderr(self) -> str:
        return self._said

    def wait(self) -> int:
        return self._code


class Peer:
    """Someone who talks to the daemon, at once or when asked."""

    def __init__(self, endpoint: str, kind: int = zmq.REQ) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, int(1000 * PATIENCE_S))
        self.socket.connect(endpoint)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()
        self._context.term()

    def ask(self, message: bytes) -> bytes:
        self.socket.send(message)
        return self.socket.recv()

    def decisions(self, message: bytes) -> list[dict[str, Any]]:
        return json.loads(self.ask(message))["events"]

    def run(self, messages: Sequence[bytes] = (BEGIN, raw(job("a")), END)) -> None:
        for message in messages:
            self.ask(message)
