"""The command line: parse, call, print. Commands are loaded only when they are used."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import keyword
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

import click

from beasy_sched._version import __version__
from beasy_sched.errors import BeasyError, Interrupted, PolicyError
from beasy_sched.formats.atomic import discard_unfinished
from beasy_sched.formats.earlier import noting
from beasy_sched.limits import LONGEST_ERROR, shortened
from beasy_sched.signals import termination_signals

_SECTIONS: Final = {
    "Make inputs": ("generate", "convert", "plan", "check"),
    "Run": ("simulate", "serve", "batsim", "slurm", "replay", "recover"),
    "Compare": ("compare", "year", "campaign", "size", "learn"),
    "Understand": ("policies", "explain", "report"),
}
"""Headings of the help, and the commands below each, in the order in which a newcomer meets them."""
_ONCE_MORE_S = 0.01
_WRONG_NAMES = (errno.ENAMETOOLONG, errno.EACCES)
"""Errors of a file name that was only looked up."""


def _want_traceback(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Record, in the object that `main` passes to all commands, that a traceback is requested."""
    if wanted and isinstance(context.obj, dict):
        context.obj["traceback"] = True


_TRACEBACK = click.Option(
    ["--traceback"],
    is_flag=True,
    expose_value=False,
    show_default=False,
    callback=_want_traceback,
    help="Show the full Python traceback if the command fails.",
)
"""Option of the program and of each command, so that it can be appended to any command line."""


def _with_traceback(command: click.Command) -> click.Command:
    """Add the option to a command, once."""
    if _TRACEBACK not in command.params:
        command.params.append(_TRACEBACK)
    return command


class HelpfulGroup(click.Group):
    """A group whose help lists its commands in their order, each with its whole first sentence."""

    headed: Mapping[str, Sequence[str]] | None = None
    """Commands below each heading of the help; None for a single one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which a newcomer meets them."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, with the options common to all."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else _with_traceback(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their summaries, wrapped where click would truncate them."""
        for heading, names in (self.headed or {"Commands": self.list_commands(ctx)}).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(_WHOLE_SENTENCE))
                        for name, command in commands
                        if command is not None and not command.hidden
                    ]
                )


_WHOLE_SENTENCE = 1000
"""Largest length of the first sentence of a help text."""


class LazyGroup(HelpfulGroup):
    """A group whose commands live in separate modules, imported on use."""

    def __init__(
        self,
        *args: Any,
        lazy: dict[str, str],
        headed: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """``lazy`` maps the name of a command to its module, where it has that name (``import``: import_)."""
        super().__init__(*args, **kwargs)
        self.lazy, self.headed = lazy, headed

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which a newcomer meets them."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.lazy:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(importlib.import_module(self.lazy[cmd_name]), name)
        return _with_traceback(command)


@click.group(
    cls=LazyGroup,
    lazy={name: f"beasy_sched.cli.{name}" for names in _SECTIONS.values() for name in names},
    headed=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="beasy-sched")
def cli() -> None:
    """Schedule HPC jobs on a site powered only by solar, wind, a battery and hydrogen."""


_with_traceback(cli)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; beasy-sched's own errors become one message and their exit code.

    So do SIGINT, SIGTERM and SIGHUP; half-written files are removed in any case. If a command fails, the
    earlier results that it kept are listed.
    """
    _replace_closed_streams()
    with noting() as earlier:
        try:
            _main(arguments)
        except SystemExit as end:
            if end.code:
                _list_files("wrote the results so far", earlier.accounts)
                _list_files("kept the earlier results", earlier.kept())
            raise


def _main(arguments: Sequence[str] | None) -> None:
    told, hint = {"traceback": False}, ""
    try:
        with _stoppable():
            try:
                cli.main(args=arguments, prog_name="beasy-sched", obj=told)
            finally:
                discard_unfinished()
                _flush_output()
    except (BeasyError, Interrupted) as error:
        if told["traceback"]:
            click.echo(_printable("".join(traceback.format_exception(error))), err=True, nl=False)
        elif isinstance(error, PolicyError) and error.__cause__ is not None:
            hint = "\nbeasy-sched: add --traceback to see the full Python traceback"
        text = shortened(_printable(shortened(str(error), LONGEST_ERROR)), LONGEST_ERROR) + hint
        code = error.exit_code
    except MemoryError as error:
        text, code = (
            f"not enough memory: reduce the size of the problem ({error or 'fewer jobs or hosts'})",
            1,
        )
    except OSError as error:
        # Errors of files are BeasyErrors; the rest are names, the standard output, the machine.
        named = _printable(shortened(str(error.filename), LONGEST_ERROR)) if error.filename else ""
        text = f"{named or 'the output cannot be written'}: {error.strerror or error}"
        code = 2 if named and error.errno in _WRONG_NAMES else 1
    click.echo(f"beasy-sched: {text}", err=True)
    sys.exit(code)


def _list_files(what: str, paths: Collection[str]) -> None:
    """Print a line with the names of files to stderr, if there are any."""
    if paths:
        with contextlib.suppress(OSError):
            click.echo(_printable(f"{what}: {', '.join(paths)}"), err=True)


def _flush_output() -> None:
    """Flush the standard output. Raises OSError, unless its reader has gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails again
        if error.errno != errno.EPIPE:
            raise


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Raise `Interrupted` on the first termination signal; a further SIGINT stops at once.

    Other signals after the first are ignored, so that the results can be written. Signals that are ignored
    from the start, such as SIGHUP under ``nohup``, stay ignored, except SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped = ended = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if not stopped and not ended:
            stopped = True
            raise interruption(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    def interruption(number: int) -> Interrupted:
        """Return the exception that a signal raises; it is raised again if it is dropped on its way.

        Finalizers, and C code that looks up an attribute, drop any exception raised in them.
        """
        error = Interrupted(f"stopped by {signal.Signals(number).name}", number)
        weakref.finalize(error, once_more, number).atexit = False
        return error

    def once_more(number: int) -> None:
        nonlocal stopped
        if not ended and hasattr(signal, "setitimer"):
            stopped = False
            signal.signal(signal.SIGALRM, lambda _, frame: None if ended else stop(number, frame))
            signal.setitimer(signal.ITIMER_REAL, _ONCE_MORE_S)

    def told_unless_ours(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, Interrupted):
            told(dropped)

    before: dict[int, Any] = {}
    told, sys.unraisablehook = sys.unraisablehook, told_unless_ours
    try:
        for number in termination_signals():
            before[number] = signal.signal(number, stop)
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, Interrupted):
            cause = cause.__cause__
        if cause is None:
            raise
        raise Interrupted(str(cause), cause.number) from error  # class bodies replace it, up to 3.11
    finally:
        ended = True
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = told


def _replace_closed_streams() -> None:
    """Replace a stream that the shell has closed (``>&-``).

    The null device takes its file descriptor, which the next opened file would get otherwise. Writing to the
    output then fails, as on a full disk; text written to a closed stderr is lost.
    """
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


class _ClosedOutput(io.TextIOBase):
    """A standard output that was closed before the program began."""

    @property
    def buffer(self) -> Any:
        return self

    def write(self, text: Any) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _printable(text: str) -> str:
    """Escape terminal control characters: a message may quote a hostile peer or file."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
