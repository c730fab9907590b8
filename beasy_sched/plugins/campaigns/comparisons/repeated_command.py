"""The steps of a comparison, which are commands of the program that a user can repeat manually.

Each is printed, then executed in a separate process, forked from a server that has imported its modules.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from beasy_sched.errors import BeasyError
from beasy_sched.formats.atomic import leaving_unnamed, name_unnamed, remove_unnamed
from beasy_sched.plugins.campaigns.workers import Executor, Failure, work_through

Program = Callable[[Sequence[str]], None]
"""Function that runs a command and exits by SystemExit: the program's entry point, importable by name."""
Tell = Callable[[str], None]
"""Function that reports a line to the user."""


class StepFailed(BeasyError):
    """A step of a comparison failed; the message names it, and the reason."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code if exit_code > 0 else 1


@dataclass(frozen=True)
class Commands:
    """Executor of commands of the program, each in a separate process."""

    program: Program
    executor: Executor
    tell: Tell
    quiet: bool = False
    """Whether commands, notes and output of commands are suppressed."""
    spent_s: dict[str, float] = field(default_factory=dict)
    """Wall-clock time of the executed commands by their first word, s."""

    def say(self, text: str) -> None:
        """Print a note, unless quiet."""
        if not self.quiet:
            self.tell(text)

    def show(self, arguments: Sequence[str]) -> None:
        """Print a command as a user would type it."""
        self.say(f"$ beasy-sched {shlex.join(arguments)}")

    def run(self, *arguments: str, shown: bool = True) -> int:
        """Execute a command; return its exit code. Raises StepFailed if a signal ended it."""
        if shown:
            self.show(arguments)
        begin = time.monotonic()
        code = int(self.call(_execute, (self.program, arguments), f"'beasy-sched {arguments[0]}'"))
        self.spent_s[arguments[0]] = self.spent_s.get(arguments[0], 0.0) + time.monotonic() - begin
        return code

    def generate(self, *commands: Sequence[str]) -> None:
        """Execute `beasy-sched generate` for several files, each by its arguments, ``-o FILE`` among them.

        The files replace older ones after all of them are complete. Raises StepFailed and InputError.
        """
        files = [arguments[[*arguments].index("-o") + 1] for arguments in commands]
        try:
            for arguments in commands:
                words = ("generate", *arguments, *(("-q",) if self.quiet else ()))
                self.show(words)
                name = f"'beasy-sched generate {arguments[0]}'"
                if code := int(self.call(_execute_without_names, (self.program, words), name)):
                    raise StepFailed(f"{name} ended with exit code {code}", code)
            name_unnamed(files)
        finally:
            remove_unnamed(files)

    def call(self, function: Callable[[Any], Any], argument: Any, name: str) -> Any:
        """Call a function, which does not return None, in a separate process.

        Raises StepFailed if it fails, and MachineError.
        """
        results: list[Any] = []
        work_through(self.executor, [(name, function, argument)], lambda _, result: results.append(result))
        if isinstance(results[0], Failure):
            raise StepFailed(f"{name}: {results[0].error}")
        return results[0]


def _execute_without_names(work: tuple[Program, Sequence[str]]) -> int:
    with leaving_unnamed():
        return _execute(work)


def _execute(work: tuple[Program, Sequence[str]]) -> int:
    program, arguments = work
    return exit_code_of(program, arguments)


def exit_code_of(program: Program, arguments: Sequence[str], log: TextIO | None = None) -> int:
    """Execute a command in this process; return its exit code. ``log`` receives its output, if given."""
    with contextlib.ExitStack() as stack:
        if log is not None:
            stack.enter_context(contextlib.redirect_stdout(log))
            stack.enter_context(contextlib.redirect_stderr(log))
        try:
            program(arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
