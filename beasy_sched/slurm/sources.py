"""Where a live run reads what is produced now: a file that grows, a program that prints, or Prometheus.

Nothing here waits: files and pipes are read without blocking, and Prometheus is asked in a thread. Nothing
that happens during a run raises: a source that cannot be read says so once, in its ``notes``, and goes on
trying. A `Watcher` says what counts while a source is silent.
"""

from __future__ import annotations

import contextlib
import heapq
import http.client
import io
import itertools
import os
import queue
import re
import shlex
import signal
import stat
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from typing import IO, Final

from msgspec import Struct

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.decoding import Malformed, decode_json
from beasy_sched.formats.reading import is_number, open_file
from beasy_sched.limits import shortened
from beasy_sched.slurm.readings import LONGEST_LINE, POWER, Damaged, LineReader, Quantity, Reading

_AT_ONCE: Final = 1 << 18
"""Bytes that are taken of a file at a time."""
_END: Final = 1 << 16
"""Bytes at the end of a longer file that are read of what was written before the run."""
_PIPEFUL: Final = 1 << 16
"""Bytes that are taken of a pipe at a time."""
_LONGEST_ANSWER: Final = 1 << 20
"""Bytes that are read of an HTTP answer."""
_SEEN: Final = 256
"""Bytes before the place in a file that show whether it is still the same."""
_MOST_LATER: Final = 10_000
"""Readings for later that are kept; no more is read before some of them have come due."""
_FORGIVEN_S: Final = 3600.0
"""A trouble that is over and comes back is told again if so much time has passed."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
"""Between starts of a program that fails."""
_STEADY_S: Final = 60.0
"""After a program that has run for so long, pauses begin anew."""
_MOMENT_S: Final = 0.05
"""Time for a program that has closed its output to end."""
_FAREWELL_S: Final = 1.0
"""Time that programs and requests are given to end."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_QUERY: Final = "?query="
_API: Final = "/api/v1/query"


class Source(ABC):
    """Something that says again and again what is produced, or what the storage holds."""

    def __init__(self, label: str, quantity: Quantity, epoch_s: float | None) -> None:
        """``label`` names it in messages; ``epoch_s`` is that of `LineReader`."""
        self.label, self.quantity = label, quantity
        self.notes: list[str] = []
        """What the user should know, in order; whoever shows them clears the list."""
        self.damaged: Counter[str] = Counter()
        """Lines that could not be read, by what was wrong with them."""
        self._reader = LineReader(quantity, epoch_s)
        self._later: list[tuple[float, int, Reading]] = []
        """Readings that have not been returned, by their time and the order in which they came (a heap)."""
        self._order = itertools.count()
        self._last: Reading | None = None
        self._told: dict[str, float] = {}
        """When which trouble was told."""

    def read(self, now: float) -> Reading | None:
        """Return the newest reading that has come due by ``now`` (s since 1970); None if there is no new one.

        Does not wait, and does not raise.
        """
        if len(self._later) < _MOST_LATER:
            try:
                self._look(now)
            except (OSError, InputError) as error:
                why = error.message if isinstance(error, InputError) else f"cannot be read: {_why(error)}"
                self._trouble(now, "reading", why)
        newest = None
        while self._later and self._later[0][0] <= now:
            newest = heapq.heappop(self._later)[-1]
        last = self._last
        if newest is None or newest == last or (last is not None and newest.at < last.at <= now):
            return None
        self._last = newest
        self._forgive(now)
        return newest

    @property
    def next_s(self) -> float | None:
        """Moment (s since 1970) of the first reading for later; None if there is none."""
        return self._later[0][0] if self._later else None

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    @abstractmethod
    def _look(self, now: float) -> None:
        """Take the lines that have come. Raises OSError and InputError where the source cannot be read."""

    def _take(self, line: bytes, now: float, written: float | None = None) -> bool:
        """Read a line, which was written at ``written``; return whether it is a reading."""
        try:
            reading = self._reader.read(line, now if written is None else written)
        except Damaged as error:
            self.damaged[error.kind] += 1
            if self.damaged[error.kind] == 1:
                self.notes.append(f"{self.label}: {error}; further such lines are left out without a word")
            return False
        if reading is not None:
            heapq.heappush(self._later, (reading.at, next(self._order), reading))
        return reading is not None

    def _trouble(self, now: float, kind: str, text: str) -> None:
        """Tell the user about something that may pass, once."""
        if kind not in self._told:
            self._told[kind] = now
            self.notes.append(f"{self.label} {text}")

    def _forgive(self, now: float) -> None:
        self._told = {kind: told for kind, told in self._told.items() if abs(now - told) < _FORGIVEN_S}


def open_source(
    text: str,
    quantity: Quantity = POWER,
    *,
    epoch_s: float | None = None,
    interval_s: float = 15.0,
    timeout_s: float = 5.0,
) -> Source:
    """Return the source that a text names: a file, ``command:PROGRAM ARGS`` or ``prometheus:URL?query=...``.

    ``epoch_s``: the moment, s since 1970, from which timestamps below 3e8 s count, such as those that
    ``beasy-sched generate power`` writes; without, they hold from when they are read. ``interval_s``: how
    often Prometheus is asked, and a program started that says its reading and ends. ``timeout_s``: the time
    that Prometheus has for an answer. Nothing is started or opened yet. Raises ConfigError for a text that
    can never work.
    """
    if not text.strip() or "\0" in text:
        raise ConfigError(f"the {quantity.name} source is {text!r}: expected {_EXPECTED}")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return FileSource(text, quantity, epoch_s)
    kind, rest = scheme[1].lower(), text[scheme.end() :]
    if kind == "command":
        return CommandSource(rest, quantity, epoch_s, interval_s)
    if kind == "prometheus":
        return PrometheusSource(rest, quantity, interval_s, timeout_s)
    hint = f"; a file of this name is ./{text}" if "//" not in text else ""
    raise ConfigError(f"unknown kind of {quantity.name} source {kind!r}: expected {_EXPECTED}{hint}")


_EXPECTED: Final = "a file, command:PROGRAM ARGS or prometheus:URL?query=..."


def _why(error: BaseException | str) -> str:
    """The system's words for an error."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


class _Lines:
    """Cuts bytes into lines as they come; half a line waits for its other half."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: LONGEST_LINE + 1]
        return lines


class Pause:
    """When to try again."""

    def __init__(self) -> None:
        self._set_s = self._until_s = 0.0
        self._doubled_s = _FIRST_PAUSE_S

    def is_over(self, now: float) -> bool:
        """Whether the time has come, or the clock has been set back."""
        return not self._set_s <= now < self._until_s

    def begin(self, now: float, pause_s: float) -> None:
        """Wait for a time."""
        self._set_s, self._until_s, self._doubled_s = now, now + pause_s, _FIRST_PAUSE_S

    def begin_longer(self, now: float) -> float:
        """Wait twice as long as the last time, and return how long (s)."""
        pause_s = self._doubled_s
        self.begin(now, pause_s)
        self._doubled_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)
        return pause_s


# --- files ----------------------------------------------------------------------------------------------


class FileSource(Source):
    """A file that grows, or that is written anew for each reading.

    What is said on lines without a time holds from when the file was last written.
    """

    def __init__(self, path: str, quantity: Quantity, epoch_s: float | None) -> None:
        """Nothing is opened yet."""
        super().__init__(path, quantity, epoch_s)
        self._path = path
        self._file: io.BufferedReader | None = None
        self._lines = _Lines()
        self._at = 0
        """The byte from which the file is read on."""
        self._seen = b""
        """The last bytes before it."""
        self._mark = (0, 0)
        """Size of the file, and when it was written (ns), as of the last look."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _look(self, now: float) -> None:
        there = self._status(now)
        if self._file is not None and self._read_on(self._file.fileno(), now):
            return  # there is more of it
        if there is None:
            return
        if self._file is not None:
            own = os.fstat(self._file.fileno())
            if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino):
                return
            self.close()
        self._file = open_file(self._path)
        self._begin(0)
        self._skip_old(self._file.fileno(), now)
        self._read_on(self._file.fileno(), now)

    def _status(self, now: float) -> os.stat_result | None:
        """Return what the path leads to; None if that is no plain file."""
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._trouble(now, "missing", "is not there: waiting for it")
            return None
        if stat.S_ISREG(there.st_mode):
            return there
        self._trouble(now, "no file", "is no plain file: waiting for one (command:cat PIPE reads a pipe)")
        return None

    def _begin(self, at: int) -> None:
        self._lines, self._at, self._seen, self._mark = _Lines(), at, b"", (0, 0)
        self._reader.forget()

    def _skip_old(self, file: int, now: float) -> None:
        """Go to the last lines of a long file, unless it says something for later."""
        size = os.fstat(file).st_size
        if size <= _AT_ONCE:
            return
        head, ends = (_Lines().feed(os.pread(file, _END, at)) for at in (0, size - _END))
        later = False
        for line in [*head, *ends[1:]]:  # the first of the last ones is cut off
            with contextlib.suppress(Damaged):
                reading = self._reader.read(line, now)
                later |= reading is not None and reading.at > now
        if ends and not later:
            self._at = size - _END + len(ends[0]) + 1

    def _read_on(self, file: int, now: float) -> bool:
        """Take the lines that have been written since the last look; return whether there are more."""
        status = os.fstat(file)
        size, mark = status.st_size, (status.st_size, status.st_mtime_ns)
        if mark != self._mark and self._is_another(file, size):
            self._begin(0)
        self._mark = mark
        data = os.pread(file, min(size - self._at, _AT_ONCE), self._at)
        self._at += len(data)
        self._seen = (self._seen + data)[-_SEEN:]
        written = min(now, status.st_mtime)
        for line in self._lines.feed(data):
            self._take(line, now, written)
        return bool(data) and self._at < size

    def _is_another(self, file: int, size: int) -> bool:
        """Whether a file that has been written to since the last look is no longer what was read of it."""
        seen = len(self._seen)
        if size < self._at or os.pread(file, seen, self._at - seen) != self._seen:
            return True
        return size == self._at == seen  # a short file, as long as before: written anew with the same values


# --- programs -------------------------------------------------------------------------------------------


class CommandSource(Source):
    """A program that prints a reading on each line. One that ends is started again.

    It may go on running, or say its reading and end without an error.
    """

    def __init__(self, command: str, quantity: Quantity, epoch_s: float | None, interval_s: float) -> None:
        """``command`` is divided as a shell does, and run without one. Raises ConfigError."""
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise ConfigError(
                f"the {quantity.name} source command:{command} cannot be read: {str(error).lower()}"
            ) from None
        if not self._command or not self._command[0]:
            raise ConfigError(f"the {quantity.name} source names no program: expected command:PROGRAM ARGS")
        super().__init__(f"command:{self._command[0]}", quantity, epoch_s)
        self._interval_s = interval_s
        self._pause = Pause()
        self._process: subprocess.Popen[bytes] | None = None
        self._lines, self._errors = _Lines(), _Lines()
        self._last_words = ""
        self._started_s = 0.0
        self._said = False
        """Whether the process has given a reading."""

    def close(self) -> None:
        """End the program, and what it has started."""
        if self._process is not None:
            _signal(self._process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_FAREWELL_S)
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _signal(process, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def _look(self, now: float) -> None:
        if self._process is None and self._pause.is_over(now):
            self._start(now)
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            return
        has_ended = process.poll() is not None  # before its last words are read
        output, is_open = _available(process.stdout)
        for line in self._lines.feed(output):
            self._said |= self._take(line, now)
        for line in self._errors.feed(_available(process.stderr)[0]):
            self._last_words = line.decode(errors="replace").strip() or self._last_words
        if not is_open or (has_ended and len(output) < _PIPEFUL):
            self._end(process, now)

    def _start(self, now: float) -> None:
        self._lines, self._errors, self._last_words, self._said = _Lines(), _Lines(), "", False
        self._reader.forget()
        self._started_s = now
        try:
            self._process = subprocess.Popen(
                self._command,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._pause.begin_longer(now)
            self._trouble(now, "start", f"cannot be started: {_why(error)}; it is tried again and again")
            return
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        """Take the last words of a program that has ended, or said that nothing more comes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MOMENT_S)
        code = process.poll()
        self._kill()
        if code == 0 and self._lines.rest:
            self._said |= self._take(self._lines.rest, now)
        if code == 0 and self._said:
            self._pause.begin(now, self._interval_s)
            return
        if now - self._started_s >= _STEADY_S:
            self._pause = Pause()
        pause_s = self._pause.begin_longer(now)
        if code == 0 and self.damaged:
            return  # what it has said instead of a reading was told
        if code is None:
            how = "has closed its output"
        else:
            how = f"was ended by signal {-code}" if code < 0 else f"has ended with exit code {code}"
        words = self._errors.rest.decode(errors="replace").strip() or self._last_words
        told = f" ({shortened(words)})" if words else " without a reading" if code == 0 else ""
        self._trouble(
            now, "end", f"{how}{told}: it is started again in {pause_s:g} s, later after longer pauses"
        )


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a program and to what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _available(pipe: IO[bytes]) -> tuple[bytes, bool]:
    """Return what can be read of a pipe without waiting, and whether more may come."""
    taken = b""
    while len(taken) < _PIPEFUL:
        try:
            part = os.read(pipe.fileno(), _PIPEFUL - len(taken))
        except BlockingIOError:
            break
        if not part:
            return taken, False
        taken += part
    return taken, True


# --- Prometheus -----------------------------------------------------------------------------------------


class _Sample(Struct):
    value: tuple[float, str]


class _Vector(Struct, tag_field="resultType", tag="vector"):
    result: list[_Sample]


class _Scalar(Struct, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class _Matrix(Struct, tag_field="resultType", tag="matrix"):
    """The answer to a query for a time range."""


class _Answer(Struct):
    status: str
    data: _Vector | _Scalar | _Matrix | None = None
    error: str = ""


class _NoAnswer(Exception):
    """Prometheus has not answered, or not with a number: the text says so."""


class PrometheusSource(Source):
    """An instant query to Prometheus, or to what answers as it does: the sum of its values."""

    def __init__(self, text: str, quantity: Quantity, interval_s: float, timeout_s: float) -> None:
        """``text``: the server's URL and the query. Raises ConfigError."""
        self._url, shown = _query_url(text, quantity)
        super().__init__(f"prometheus:{shown}", quantity, None)
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._pause = Pause()
        self._thread: threading.Thread | None = None
        self._answers: queue.SimpleQueue[tuple[float, float | _NoAnswer]] = queue.SimpleQueue()
        """Each with the moment at which it was asked for."""

    def close(self) -> None:
        """Give a request under way a moment to end; it does so within its time limit."""
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _look(self, now: float) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                asked_s, answer = self._answers.get_nowait()
                if isinstance(answer, _NoAnswer):
                    self._trouble(now, str(answer).partition(":")[0], str(answer))
                else:
                    self._take(repr(answer).encode(), asked_s)
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and self._pause.is_over(now):
            self._pause.begin(now, self._interval_s)
            thread = threading.Thread(target=self._ask, args=(now,), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the machine has no thread left
                self._trouble(now, "thread", f"cannot be asked: {error}")
            else:
                self._thread = thread

    def _ask(self, now: float) -> None:
        answer: float | _NoAnswer
        try:
            answer = _value(_fetched(self._url, self._timeout_s))
        except _NoAnswer as error:
            answer = error
        except Exception as error:  # whatever a server, a proxy or the name service may cause
            answer = _NoAnswer(f"cannot be asked: {shortened(str(error) or repr(error))}")
        self._answers.put((now, answer))


def _query_url(text: str, quantity: Quantity) -> tuple[str, str]:
    """Return the URL to ask, and what messages show of it. Raises ConfigError."""
    server, has_query, query = text.partition(_QUERY)
    query = urllib.parse.unquote(query).strip()
    try:
        parts = urllib.parse.urlsplit(server)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if is_url and "@" in parts.netloc:
        raise ConfigError(
            f"the {quantity.name} source prometheus: names and passwords in its URL are not supported:"
            " use command:curl with its own file of them"
        )
    if not is_url or not has_query or not query or parts.query or parts.fragment or re.search(r"\s", server):
        raise ConfigError(
            f"the {quantity.name} source is {shortened(f'prometheus:{text}')!r}:"
            " expected prometheus:http://HOST:9090?query=QUERY"
        )
    base = server.rstrip("/").removesuffix(_API)
    return f"{base}{_API}?{urllib.parse.urlencode({'query': query})}", base


def _fetched(url: str, timeout_s: float) -> bytes:
    """Return what a server answers. Raises _NoAnswer."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            answer: bytes = response.read(_LONGEST_ANSWER)
            return answer
    except urllib.error.HTTPError as error:
        with error:
            said = _said(error.read(_LONGEST_ANSWER))
        raise _NoAnswer(f"answers with HTTP {error.code} {error.reason}{said}") from None
    except TimeoutError:
        raise _NoAnswer(f"has not answered for {timeout_s:g} s") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _NoAnswer(f"has not answered for {timeout_s:g} s") from None
        raise _NoAnswer(f"does not answer: {shortened(_why(error.reason))}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _NoAnswer(f"does not answer: {shortened(_why(error))}") from None


def _said(body: bytes) -> str:
    """Prometheus's own words about what was wrong, if there are any."""
    with contextlib.suppress(Malformed):
        return f": {shortened(decode_json(body, _Answer).error)}"
    return ""


def _value(body: bytes) -> float:
    """Return the one value, or the sum of the values, of an answer. Raises _NoAnswer."""
    try:
        answer = decode_json(body, _Answer)
    except Malformed as error:
        raise _NoAnswer(f"gives an answer that is not Prometheus's: {error}") from None
    if answer.status != "success" or answer.data is None:
        raise _NoAnswer(f"answers with {answer.status}: {shortened(answer.error)}")
    found = answer.data
    if isinstance(found, _Matrix):
        raise _NoAnswer("answers with a matrix, expected a vector or a scalar")
    values = [found.result] if isinstance(found, _Scalar) else [sample.value for sample in found.result]
    if not values:
        raise _NoAnswer("finds nothing for the query")
    for _, text in values:
        if not is_number(text):
            raise _NoAnswer(f"gives an answer that is not Prometheus's: found {shortened(repr(text), 60)}")
    return sum(float(text) for _, text in values)


# --- silence --------------------------------------------------------------------------------------------


class Watcher:
    """A source, and what counts while it is silent: the last reading for a while, then what is assumed.

    For power, 0 W are assumed; for a battery nothing, and the run goes on with its own balance.
    """

    def __init__(self, source: Source, stale_s: float, started_s: float) -> None:
        """``stale_s``: how long a reading counts, s. ``started_s``: when the run began, s since 1970."""
        self.source, self.quantity, self._stale_s = source, source.quantity, stale_s
        self.is_silent = False
        """Whether the last reading no longer counts."""
        self.notes = source.notes
        """What the user should know; whoever shows them clears the list."""
        self._heard_s = started_s

    def read(self, now: float) -> Reading | None:
        """Return what counts from now on (`Source.read`); None if nothing has changed.

        When the last reading has become too old, that is what is assumed, once.
        """
        reading = self.source.read(now)
        before_s = self.staleness_s(now)
        if reading is not None:
            self._heard_s = reading.at
        if self.staleness_s(now) > self._stale_s:
            return None if self.is_silent else self._fall_silent(now)
        if self.is_silent and reading is not None:
            self.is_silent = False
            self.notes.append(f"{self._name} speaks again, after {before_s:.0f} s")
        return reading

    def staleness_s(self, now: float) -> float:
        """Seconds since the moment of the last reading, or since the run began; at least 0."""
        return max(0.0, now - self._heard_s)

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    @property
    def _name(self) -> str:
        return f"the {self.quantity.name} source {self.source.label}"

    def _fall_silent(self, now: float) -> Reading | None:
        self.is_silent = True
        quantity, next_s = self.quantity, self.source.next_s
        later = f" (its next reading is for {next_s - now:.0f} s from now)" if next_s is not None else ""
        silence = f"has said nothing for {self.staleness_s(now):.0f} s{later}"
        self.notes.append(f"{self._name} {silence}: {quantity.assumption}")
        return None if quantity.assumed is None else Reading(now, dict(quantity.assumed))
