"""Reading of forecasts during a run: a file that changes, or a program that prints a forecast.

A `ForecastReader` reads in a thread, so that neither a slow program nor a slow disk delays a step. Errors
during the run are results, not exceptions: the run continues with the forecast before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import selectors
import stat
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from beasy_sched.errors import BeasyError, ConfigError, InputError, PathLike
from beasy_sched.formats.forecast_contents import ForecastContents
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.source_names import COMMAND, command_words, split_scheme
from beasy_sched.limits import MOST_TABLE_BYTES, shortened
from beasy_sched.run.programs import (
    MOMENT_S,
    Pause,
    available,
    ended_words,
    kill_program,
    start_program,
    words_of,
)

LOOK_S: Final = 1.0
"""Interval at which a file is checked, s; it is read if it has changed since, and not any more."""
LIMIT_S: Final = 60.0
"""Time limit of a program, s."""
_WAIT_S: Final = 0.1
_FAREWELL_S: Final = 2.0
"""Time limit for the thread to end, s."""
_FIRST_RETRY_S: Final = 60.0
_LAST_WORDS: Final = 4096
"""Number of bytes of a program's error output that are kept."""

Parse = Callable[[PathLike, bytes], ForecastContents]
"""Reads a content; its arguments are the name of the source, for errors, and the bytes. Raises InputError."""


class Unreadable(Exception):
    """A source cannot be read now; the message names it and states the reason."""


@dataclass(frozen=True, eq=False)
class ReadForecast:
    """Result of one reading."""

    at_s: float
    """Time of the file's last change, or at which the program was started, s since 1970."""
    contents: ForecastContents | None = None
    problem: str = ""
    """Reason why there are no contents."""
    sha256: str = ""
    """SHA-256 of the first content of a source."""


class Input(ABC):
    """A file or a program."""

    name: str
    """Name in messages."""

    @abstractmethod
    def read(self, now: float, is_stopped: Callable[[], bool]) -> tuple[float, bytes] | None:
        """Return new bytes and their time, s since 1970; None if there is nothing new at ``now``.

        Returns early when ``is_stopped``. Raises Unreadable.
        """

    @abstractmethod
    def first(self, now: float) -> tuple[float, bytes]:
        """Return the bytes at the beginning. Raises Unreadable, and InputError for a file."""


class ChangingFile(Input):
    """A file that is read again when it changes."""

    def __init__(self, path: str) -> None:
        """Begin without reading it."""
        self.name = path
        self._used: tuple[int, ...] | None = None
        """Inode, size and modification time of the file that was read last."""
        self._seen: tuple[int, ...] | None = None
        """The same at the last check."""

    def first(self, now: float) -> tuple[float, bytes]:
        """See `Input.first`."""
        written_s = now
        with contextlib.suppress(OSError):  # reported below
            status = os.stat(self.name)
            self._used = self._seen = _mark(status)
            written_s = status.st_mtime
        return written_s, read_bytes(self.name, most=MOST_TABLE_BYTES, what="for a table")

    def read(self, now: float, is_stopped: Callable[[], bool]) -> tuple[float, bytes] | None:
        """See `Input.read`: a change is read at the second check that finds it."""
        try:
            status = os.stat(self.name)
            mark, before = _mark(status), self._seen
            self._seen = mark
            if mark == self._used or mark != before:
                return None
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(f"{self.name}: is not a regular file")
            data = read_bytes(self.name, most=MOST_TABLE_BYTES, what="for a table")
            if _mark(os.stat(self.name)) != mark:
                return None  # changed meanwhile
        except OSError as error:
            self._used = self._seen = None
            raise Unreadable(f"{self.name}: cannot be read: {words_of(error)}") from None
        except InputError as error:
            self._used = mark
            raise Unreadable(str(error)) from None
        self._used = mark
        return status.st_mtime, data


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class RepeatedProgram(Input):
    """A program that prints a forecast and ends; it is started again at an interval."""

    def __init__(self, command: str, every_s: float, limit_s: float = LIMIT_S) -> None:
        """``every_s``: interval of its starts; ``limit_s``: time limit, s. Raises ConfigError."""
        self._words = command_words(command, "forecast")
        self.name = f"{COMMAND}:{self._words[0]}"
        self._every_s, self._limit_s = every_s, limit_s
        self._pause = Pause(min(_FIRST_RETRY_S, every_s), every_s)

    def first(self, now: float) -> tuple[float, bytes]:
        """See `Input.first`."""
        self._pause.begin(now, self._every_s)
        return now, self._output(lambda: False)

    def read(self, now: float, is_stopped: Callable[[], bool]) -> tuple[float, bytes] | None:
        """See `Input.read`: after a failure, the program is started again after a minute, then less often."""
        if not self._pause.is_over(now):
            return None
        try:
            data = self._output(is_stopped)
        except Unreadable:
            self._pause.begin_longer(now)
            raise
        self._pause.begin(now, self._every_s)
        return None if is_stopped() else (now, data)

    def _output(self, is_stopped: Callable[[], bool]) -> bytes:
        """Run the program, and return what it prints. Raises Unreadable."""
        try:
            process = start_program(self._words)
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.name} cannot be started: {words_of(error)}") from None
        try:
            output, errors = self._outputs(process, is_stopped)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(MOMENT_S)
            code = process.poll()
        finally:
            kill_program(process)
        if is_stopped() or code == 0:
            return output
        words = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unreadable(f"{self.name} {ended_words(code)}{f' ({shortened(words)})' if words else ''}")

    def _outputs(
        self, process: subprocess.Popen[bytes], is_stopped: Callable[[], bool]
    ) -> tuple[bytes, bytes]:
        """Read both outputs until the first one ends, or the program. Raises Unreadable."""
        end_s = time.monotonic() + self._limit_s
        output, errors = bytearray(), b""
        with selectors.DefaultSelector() as ready:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    ready.register(pipe, selectors.EVENT_READ)
            while process.stdout is not None and not is_stopped():
                has_ended = process.poll() is not None  # before the rest of its output is read
                for key, _ in ready.select(0.0 if has_ended else _WAIT_S):
                    data, is_open = available(key.fileobj)  # type: ignore[arg-type]
                    if key.fileobj is process.stdout:
                        output += data
                    else:
                        errors = (errors + data)[-_LAST_WORDS:]
                    if not is_open:
                        ready.unregister(key.fileobj)
                is_over = process.stdout not in {key.fileobj for key in ready.get_map().values()}
                if is_over or (has_ended and not ready.select(0.0)):
                    break
                if len(output) > MOST_TABLE_BYTES:
                    raise Unreadable(f"{self.name} prints more than {MOST_TABLE_BYTES >> 20} MiB")
                if time.monotonic() > end_s:
                    raise Unreadable(f"{self.name} has not ended within {self._limit_s:g} s: it was stopped")
            if process.stderr is not None:
                errors = (errors + available(process.stderr)[0])[-_LAST_WORDS:]
        return bytes(output), errors


class ForecastReader:
    """Reads a source again and again, in a thread from `start` on. Must be closed."""

    def __init__(
        self,
        source: Input,
        parse: Parse,
        *,
        clock: Callable[[], float] = time.time,
        look_s: float = LOOK_S,
    ) -> None:
        """``clock`` returns the time, s since 1970; ``look_s``: interval of the checks."""
        self.name = source.name
        self._source, self._clock, self._look_s = source, clock, look_s
        self.parse = parse
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = ""
        """The last problem; "" after a reading without one."""
        self._found: queue.SimpleQueue[ReadForecast] = queue.SimpleQueue()

    def first(self) -> ReadForecast:
        """Read the source at the beginning of a run. Raises ConfigError and InputError."""
        try:
            at_s, data = self._source.first(self._clock())
        except Unreadable as error:
            raise ConfigError(f"no forecast: {error}") from None
        return ReadForecast(at_s, self.parse(self.name, data), sha256=hashlib.sha256(data).hexdigest())

    def start(self) -> None:
        """Begin to read in a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Read the source once, if it is time, and keep the result for `take`."""
        now = self._clock()
        try:
            found = self._source.read(now, self._stop.is_set)
            if found is not None:
                self._found.put(ReadForecast(found[0], self.parse(self.name, found[1])))
                self._problem = ""
        except (Unreadable, BeasyError) as error:
            self._note(now, str(error))
        except Exception as error:  # a reader must not end silently
            self._note(now, f"{self.name}: cannot be read: {error!r}")

    def take(self) -> list[ReadForecast]:
        """Return the results since the last call, without waiting."""
        found = []
        while not self._found.empty():
            found.append(self._found.get_nowait())
        return found

    def close(self) -> None:
        """End the thread and a running program."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _note(self, now: float, problem: str) -> None:
        """Keep a problem for `take`, once until the source can be read."""
        if problem != self._problem:
            self._problem = problem
            self._found.put(ReadForecast(now, problem=problem))

    def _work(self) -> None:
        while not self._stop.wait(self._look_s):
            self.look()


def open_input(text: str, every_s: float) -> Input | None:
    """Return the input that ``text`` names; None for a file that can be read only once, such as a pipe.

    ``every_s``: interval of the starts of a program, s. Raises ConfigError.
    """
    kind, rest = split_scheme(text)
    if kind == COMMAND:
        return RepeatedProgram(rest, every_s)
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.stat(text).st_mode):
            return None
    return ChangingFile(text)
