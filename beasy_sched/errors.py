"""Errors by cause: the user's options or files, the peer on the wire, or a policy.

Every error that reaches the user is one of these; the command line prints its message, without a
traceback, and exits with ``exit_code`` (2 for usage and input, 1 for a failed run).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator

from beasy_sched.limits import LONGEST_ERROR, LONGEST_PATH, shortened

PathLike = str | os.PathLike[str]


class BeasyError(Exception):
    """Base of all errors that are reported to the user in one message."""

    exit_code = 1


class ConfigError(BeasyError):
    """An option or setting is invalid. The message names it, the value found and the expected values."""

    exit_code = 2


class InputError(BeasyError):
    """A file is invalid. The message names the file and line (or field), the value found, and a fix."""

    exit_code = 2

    def __init__(self, path: PathLike | None, message: str, *, line: int | None = None) -> None:
        """``path`` is None for a stream; ``line``, if available, counts from 1."""
        self.path = None if path is None else os.fspath(path)
        self.line = line
        self.message = message = shortened(message, LONGEST_ERROR)
        where = "" if self.path is None else shortened(self.path, LONGEST_PATH)
        if line is not None:
            where += f":{line}"
        super().__init__(f"{where}: {message}" if where else message)


class PeerError(BeasyError):
    """The peer violated the protocol, or disconnected."""


class ProtocolError(PeerError):
    """A message cannot be parsed. The error has the JSON path of the position."""

    def __init__(self, path: str, message: str) -> None:
        """``path`` is the JSON path of the position, for example ``$.events[0].data.job_id``."""
        self.json_path = path
        self.message = message
        super().__init__(f"malformed message: {message} - at `{path}`")


class PolicyError(BeasyError):
    """A policy requested an illegal action: a bug of beasy-sched (or of a plug-in), not of the user."""


class DecisionRefused(BeasyError):
    """The simulator cannot carry out a decision: a real Batsim would abort here."""


class RunIncomplete(BeasyError):
    """A simulation ended too early, or in a deadlock."""


class MachineError(BeasyError):
    """Disk space, memory or open files of the computer are exhausted, regardless of the run."""


class Interrupted(BaseException):
    """The user or the system requested a stop: not an error, so handlers of errors do not catch it."""

    exit_code = 1

    def __init__(self, text: str, number: int = signal.SIGINT) -> None:
        """``number`` is the signal's number."""
        super().__init__(text)
        self.number = number


class Failures:
    """Collector of errors while all steps are attempted; the first one is raised at the end."""

    def __init__(self) -> None:
        """Start without errors."""
        self.all: list[BaseException] = []

    @contextlib.contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Record an exception of the block and continue; ``what`` names the step if the error does not."""
        try:
            yield
        except (BeasyError, MemoryError, Interrupted) as error:
            self.all.append(error)
        except Exception as error:
            reported = BeasyError(f"{what}: {why(error)}")
            reported.__cause__ = error
            self.all.append(reported)

    def raise_first(self) -> None:
        """Raise the first recorded error, if any."""
        if self.all:
            raise self.all[0]


_USED_UP = {
    getattr(errno, name)
    for name in ("ENOSPC", "EFBIG", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM")
    if hasattr(errno, name)
}


def machine_error(error: BaseException | None) -> MachineError | None:
    """Return the lack of resources that caused ``error``; None if a policy caused it."""
    while error is not None and not isinstance(error, PolicyError):
        if isinstance(error, MachineError):
            return error
        if isinstance(error, MemoryError):
            return MachineError("not enough memory")
        if isinstance(error, OSError) and error.errno in _USED_UP:
            where = f"{error.filename}: " if error.filename else ""
            return MachineError(f"{where}{error.strerror or error}")
        error = error.__cause__ or error.__context__
    return None


def why(error: BaseException) -> str:
    """Return in a few words why a run ended early."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    is_message = isinstance(error, BeasyError | Interrupted)
    return shortened(str(error) if is_message else f"internal error: {error!r}", LONGEST_ERROR)
