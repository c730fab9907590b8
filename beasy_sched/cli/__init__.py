"""The command line: parse, call, print. Commands are loaded only when they are asked for."""

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
from beasy_sched.signals import heeded_signals

_SECTIONS: Final = {
    "Make inputs": ("generate", "convert", "plan", "check"),
    "Run": ("simulate", "serve", "batsim", "slurm", "replay", "recover"),
    "Compare": ("compare", "year", "campaign", "size", "learn"),
    "Understand": ("policies", "explain", "report"),
}
"""Headings of the help, and the commands below each, in the order in which a newcomer meets them."""
_ONCE_MORE_S = 0.01
_WRONG_NAMES = (errno.ENAMETOOLONG, errno.EACCES)
"""What is wrong with a file's name that has only been looked at."""


def _want_traceback(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Note in the object that `main` gives to all commands that a traceback is wanted."""
    if wanted and isinstance(context.obj, dict):
        context.obj["traceback"] = True


_TRACEBACK = click.Option(
    ["--traceback"],
    is_flag=True,
    expose_value=False,
    show_default=False,
    callback=_want_traceback,
    help="Show the traceback of an error, such as one of your own policy.",
)
"""An option of the program and of each of its commands, so that it may be appended to any command line."""


def _with_traceback(command: click.Command) -> click.Command:
    """Give a command the option, once."""
    if _TRACEBACK not in command.params:
        command.params.append(_TRACEBACK)
    return command


class HelpfulGroup(click.Group):
    """A group whose help has its commands in their order, each with its whole first sentence."""

    headed: Mapping[str, Sequence[str]] | None = None
    """Commands below each heading of the help; None for a single one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, in the order in which a newcomer meets them."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, which has the options of all."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else _with_traceback(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and what they do, wrapped where click would cut them."""
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
"""No first sentence of a help text is longer."""


class LazyGroup(HelpfulGroup):
    """A group whose commands live in modules of their own, imported on use."""

    def __init__(
        self,
        *args: Any,
        lazy: dict[str, str],
        headed: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """``lazy`` maps a command's name to its module, where it has the same name (``import``: import_)."""
        super().__init__(*args, **kwargs)
        self.lazy, self.headed = lazy, headed

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, in the order in which a newcomer meets them."""
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
    """Schedule HPC jobs on a site that runs on sun, wind, a battery and hydrogen alone."""


_with_traceback(cli)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; our own errors become one message and their exit code.

    So do SIGINT, SIGTERM and SIGHUP; what is half-written is removed in any case. Of a command that fails,
    the earlier results that it has kept are listed.
    """
    _replace_closed_streams()
    with noting() as earlier:
        try:
            _main(arguments)
        except SystemExit as end:
            if end.code:
                _list_files("wrote what had been done", earlier.accounts)
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
            hint = "\nbeasy-sched: to see the calls that led to it, add --traceback"
        text = shortened(_printable(shortened(str(error), LONGEST_ERROR)), LONGEST_ERROR) + hint
        code = error.exit_code
    except MemoryError as error:
        text, code = f"not enough memory: ask for less ({error or 'fewer jobs or hosts'})", 1
    except OSError as error:
        # Those of files are BeasyErrors; left are names, the standard output, the machine.
        named = _printable(shortened(str(error.filename), LONGEST_ERROR)) if error.filename else ""
        text = f"{named or 'the output cannot be written'}: {error.strerror or error}"
        code = 2 if named and error.errno in _WRONG_NAMES else 1
    click.echo(f"beasy-sched: {text}", err=True)
    sys.exit(code)


def _list_files(what: str, paths: Collection[str]) -> None:
    """Print a line on the standard error with the names of files, if there are any."""
    if paths:
        with contextlib.suppress(OSError):
            click.echo(_printable(f"{what}: {', '.join(paths)}"), err=True)


def _flush_output() -> None:
    """Write what is left for the standard output. Raises OSError, unless nobody reads it any more."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or it fails again at the end
        if error.errno != errno.EPIPE:
            raise


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Raise `Interrupted` on the first signal that asks to end; a further SIGINT stops at once.

    Whatever comes after the first is ignored but for that: what there is shall be written. What is ignored
    from the start, as SIGHUP is under ``nohup``, stays so, except SIGINT.
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
        """Return what a signal raises; where that is dropped before it has left, it is raised once more.

        Finalizers, and C code that asks for an attribute, drop whatever is raised in them.
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
        for number in heeded_signals():
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
    """Where the shell has closed a stream (``>&-``), put another in its place.

    The null device takes its number, which the next file to be opened would get. Writing to the output then
    fails, as to a full disk; what goes to a closed standard error is lost.
    """
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


class _ClosedOutput(io.TextIOBase):
    """A standard output that was closed before we began."""

    @property
    def buffer(self) -> Any:
        return self

    def write(self, text: Any) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _printable(text: str) -> str:
    """Escape what could steer a terminal: a message may quote a hostile peer or file."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
