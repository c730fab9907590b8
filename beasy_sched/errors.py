"""Errors, by who caused them: the user's options or files, the peer on the wire, or a policy.

Every error that reaches a person is one of these; the command line prints its text, without a
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
    """An option or setting is wrong: says which, what was found, and what is expected."""

    exit_code = 2


class InputError(BeasyError):
    """A file is wrong: says which file and line (or field), what was found, and what to do."""

    exit_code = 2

    def __init__(self, path: PathLike | None, message: str, *, line: int | None = None) -> None:
        """Point at ``path`` (None for a stream) and, where known, the 1-based ``line``."""
        self.path = None if path is None else os.fspath(path)
        self.line = line
        self.message = message = shortened(message, LONGEST_ERROR)
        where = "" if self.path is None else shortened(self.path, LONGEST_PATH)
        if line is not None:
            where += f":{line}"
        super().__init__(f"{where}: {message}" if where else message)


class PeerError(BeasyError):
    """The other end of the wire sent what the protocol does not allow, or went away."""


class ProtocolError(PeerError):
    """A message cannot be read: carries the JSON path of the place."""

    def __init__(self, path: str, message: str) -> None:
        """Name the place as a JSON path, for example ``$.events[0].data.job_id``."""
        self.json_path = path
        self.message = message
        super().__init__(f"malformed message: {message} - at `{path}`")


class PolicyError(BeasyError):
    """A policy asked for something illegal: a bug of ours (or of a plug-in), not of the user."""


class DecisionRefused(BeasyError):
    """The simulator cannot carry out a decision: a real Batsim would abort here."""


class RunIncomplete(BeasyError):
    """A simulation ended too early, or in a deadlock."""


class MachineError(BeasyError):
    """Disk, memory or open files of the machine are used up: no fault of what was run."""


class Interrupted(BaseException):
    """The user or the system asked the program to stop: no error, and nothing that guards against those."""

    exit_code = 1

    def __init__(self, text: str, number: int = signal.SIGINT) -> None:
        """``number`` is that of the signal."""
        super().__init__(text)
        self.number = number


class Failures:
    """Collects errors while everything is attempted; the first one is raised at the end."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.all: list[BaseException] = []

    @contextlib.contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Note an exception of the block, and go on; ``what`` says what failed, where the error cannot."""
        try:
            yield
        except (BeasyError, MemoryError, Interrupted) as error:
            self.all.append(error)
        except Exception as error:
            told = BeasyError(f"{what}: {why(error)}")
            told.__cause__ = error
            self.all.append(told)

    def raise_first(self) -> None:
        """Raise the first that was noted, if any."""
        if self.all:
            raise self.all[0]


_USED_UP = {
    getattr(errno, name)
    for name in ("ENOSPC", "EFBIG", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM")
    if hasattr(errno, name)
}


def machine_error(error: BaseException | None) -> MachineError | None:
    """Return what the machine lacks, where that caused ``error``; None for a policy's own doing."""
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
    """Say in a few words why a run ended early."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    told = isinstance(error, BeasyError | Interrupted)
    return shortened(str(error) if told else f"internal error: {error!r}", LONGEST_ERROR)
