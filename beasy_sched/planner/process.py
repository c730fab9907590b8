"""The planner's process: background solver of the plans requested by a run.

`PlannerProcess` starts a Python that does `work`, and exchanges messages with it over its standard input and
output: a length of eight bytes, then MessagePack of one of the types below. The process has no other
dependency, and ends when its input ends, so that it does not outlive its parent. A process that does not
reply in time is killed; the next request starts another one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from beasy_sched._version import __version__
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import BeasyError, Interrupted, why
from beasy_sched.formats.packed_file import array_decoder, encode_array
from beasy_sched.limits import MOST_UNPACKED_BYTES
from beasy_sched.model.platform import Platform
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import Provenance
from beasy_sched.planner.requests import PlanAnswer, PlanRequest
from beasy_sched.planner.windows import make_plans

T = TypeVar("T")
_LENGTH: Final = struct.Struct("<Q")
_POLL_S: Final = 0.1
_FAREWELL_S: Final = 1.0
_START: Final = "import sys; sys.path[0] = {!r}; from beasy_sched.planner.process import work; work()"
COMMAND: Final = (sys.executable, "-c", _START.format(str(Path(__file__).resolve().parents[2])))
"""Command that starts the process with this package, regardless of the working directory."""


@dataclass(frozen=True)
class PlannerSetup:
    """First message to the process: data common to all plans of a run."""

    storage: Storage
    step_s: float
    window_s: float
    base_w: float
    import_limit_w: float | None
    """Maximum grid power, W; None for a site without a grid."""
    platform: Platform
    options: OfflineOptions
    inputs: dict[str, str]
    """SHA-256 of the plans' inputs, by role."""

    @classmethod
    def of(
        cls, site: Site, platform: Platform, options: OfflineOptions, inputs: dict[str, str] | None = None
    ) -> PlannerSetup:
        """Return the setup of the plans for ``site`` and ``platform``."""
        limit_w = None if site.grid is None else site.grid.import_limit_w
        bare = Platform(platform.kinds, platform.kind_of, platform.names)
        return cls(
            site.storage, site.step_s, site.window_s, site.base_w, limit_w, bare, options, inputs or {}
        )

    @property
    def site(self) -> Site:
        """Return the part of the site on which plans depend."""
        grid = None if self.import_limit_w is None else Grid(self.import_limit_w)
        return Site(self.storage, self.step_s, self.window_s, grid=grid, base_w=self.base_w)


def solve(setup: PlannerSetup, request: PlanRequest) -> PlanAnswer:
    """Make the requested plans; errors are reported in the answer."""
    provenance = Provenance(f"beasy-sched {__version__}", inputs=setup.inputs)
    try:
        plans = make_plans(setup.site, setup.platform, request, setup.options, provenance)
        return PlanAnswer(request, plans)
    except Exception as error:  # a failing planner must not end the run
        return PlanAnswer(request, problem=why(error))


def packed(message: PlannerSetup | PlanRequest | PlanAnswer) -> bytes:
    """Encode a message for sending."""
    content = msgspec.msgpack.encode(message, enc_hook=encode_array)
    return _LENGTH.pack(len(content)) + content


def receive(stream: IO[bytes], kind: type[T]) -> T | None:
    """Wait for a message; None when the stream ends. Raises msgspec.MsgspecError for another one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MOST_UNPACKED_BYTES:
        raise msgspec.DecodeError(f"found a message of {length} bytes")
    content = stream.read(length)
    if len(content) < length:
        return None
    return msgspec.msgpack.decode(content, type=kind, dec_hook=array_decoder())


def work() -> None:
    """Serve requests from the standard input until it ends, which ends the process immediately."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    setup = receive(source, PlannerSetup)
    requests: queue.SimpleQueue[PlanRequest] = queue.SimpleQueue()

    def listen() -> None:
        while (request := receive(source, PlanRequest)) is not None:
            requests.put(request)
        os._exit(0)

    if setup is None:
        return
    threading.Thread(target=listen, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while True:
            target.write(packed(solve(setup, requests.get())))
            target.flush()


class PlannerProcess:
    """Planner process, as used by the run. Must be closed."""

    def __init__(self, setup: PlannerSetup, command: Sequence[str] = COMMAND) -> None:
        """The process starts at the first request."""
        self.setup, self._command = setup, command
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._answers: queue.SimpleQueue[PlanAnswer | None] = queue.SimpleQueue()
        self._asked: PlanRequest | None = None
        self._asked_s = 0.0

    def ask(self, request: PlanRequest) -> None:
        """Begin to plan. Raises BeasyError if the process cannot be started."""
        self._asked, self._asked_s = request, time.monotonic()
        messages = [packed(request)]
        if self._process is None or self._process.poll() is not None:
            self.close()
            messages.insert(0, packed(self.setup))
            self._start()
        process = self._process
        if process is not None and process.stdin is not None:
            threading.Thread(target=_send, args=(process.stdin, messages), daemon=True).start()

    def answer(self, limit_s: float, stopped: Callable[[], bool] | None = None) -> PlanAnswer:
        """Wait for the requested plans, up to ``limit_s`` after the request; then the process is killed.

        ``stopped`` is polled; if it returns true, raises Interrupted.
        """
        while True:
            left_s = self._asked_s + limit_s - time.monotonic()
            with contextlib.suppress(queue.Empty):
                return self._answer(self._answers.get(timeout=max(min(left_s, _POLL_S), 0.001)))
            if stopped is not None and stopped():
                self.close()
                raise Interrupted("stopped during planning")
            if left_s <= 0.0:
                self.close()
                return self._failed(f"it was not made within {limit_s:g} s", is_late=True)

    def close(self) -> None:
        """End the process, whatever its state."""
        process, self._process = self._process, None
        self._answers = queue.SimpleQueue()
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):  # of unread data
                    process.stdin.close()
        if self._listener is not None:
            self._listener.join(_FAREWELL_S)

    def _answer(self, answer: PlanAnswer | None) -> PlanAnswer:
        took_s = time.monotonic() - self._asked_s
        if answer is None:
            status = None if self._process is None else _status(self._process)
            self.close()
            ended = f"was killed by signal {-status}" if status and status < 0 else "ended"
            answer = self._failed(f"the planner's process {ended}")
        return replace(answer, took_s=took_s)

    def _failed(self, problem: str, *, is_late: bool = False) -> PlanAnswer:
        if self._asked is None:
            raise RuntimeError("no plan was requested")
        return PlanAnswer(self._asked, problem=problem, is_late=is_late)

    def _start(self) -> None:
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )  # Ctrl-C must not reach it, or it would print a traceback
        except OSError as error:
            raise BeasyError(f"the planner's process cannot be started: {error.strerror or error}") from None
        self._process = process
        if process.stdout is not None:
            arguments = process.stdout, self._answers
            self._listener = threading.Thread(target=_listen, args=arguments, daemon=True)
            self._listener.start()


class PlannerInPlace:
    """Planner of a copy of a run, which has no planner process: it solves in the process that asks."""

    def __init__(self, setup: PlannerSetup) -> None:
        """``setup`` is that of the planner process of the run."""
        self.setup = setup
        self._asked: PlanRequest | None = None

    def ask(self, request: PlanRequest) -> None:
        """Note the request; `answer` solves it."""
        self._asked = request

    def answer(self, limit_s: float, stopped: Callable[[], bool] | None = None) -> PlanAnswer:
        """Make the requested plans; they are never late, whatever ``limit_s``."""
        if self._asked is None:
            raise RuntimeError("no plan was requested")
        return solve(self.setup, self._asked)

    def close(self) -> None:
        """Do nothing: there is no process to end."""


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit status of a process that closed its output; None if it still runs."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_FAREWELL_S)
    return None


def _send(stream: IO[bytes], messages: Sequence[bytes]) -> None:
    """Write to a process, which may be dead: its reader detects that."""
    with contextlib.suppress(OSError, ValueError):
        for message in messages:
            stream.write(message)
        stream.flush()


def _listen(stream: IO[bytes], answers: queue.SimpleQueue[PlanAnswer | None]) -> None:
    """Forward the answers of a process, None at its end, and close the stream."""
    try:
        with stream, contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            while (answer := receive(stream, PlanAnswer)) is not None:
                answers.put(answer)
    finally:
        answers.put(None)
