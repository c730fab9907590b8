"""Programs started by tests: a free port, a bounded time, and none left behind."""

from __future__ import annotations

import socket
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import zmq

from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.protocol import batsim4

PATIENCE_S = 300


def program(name: str) -> str:
    """The command of this environment, not whatever the path finds first."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def free_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Started:
    """A running program; what it says goes to a file, which never fills up as a pipe does."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._log = folder / f"{Path(command[0]).name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def wait(self) -> int:
        """Return its exit code."""
        return self._process.wait(PATIENCE_S)

    def said(self) -> str:
        return self._log.read_text("utf-8")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def started(command: Sequence[str], folder: Path) -> Iterator[Started]:
    """Run a program in ``folder``; it is killed if it still runs at the end."""
    program = Started(command, folder)
    try:
        yield program
    finally:
        program.kill()


class ZmqScheduler:
    """A scheduler at the other end of a socket, asked as Batsim asks."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.RCVTIMEO, PATIENCE_S * 1000)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(endpoint)

    def __enter__(self) -> ZmqScheduler:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()
        self._context.term()

    def send(self, raw: bytes) -> None:
        self._socket.send(raw)

    def ask(self, raw: bytes) -> bytes:
        self.send(raw)
        return self._socket.recv()

    def decide(self, message: Message) -> Reply:
        return batsim4.decode_reply(self.ask(batsim4.encode_message(message)))
