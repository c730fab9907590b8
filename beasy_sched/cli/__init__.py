"""The command line: parse, call, print. Commands are loaded only when they are used."""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
import keyword
import os
import re
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from beasy_sched._version import __version__
from beasy_sched.cli.stopping import stoppable
from beasy_sched.errors import BeasyError, Interrupted, PolicyError
from beasy_sched.formats.atomic import discard_unfinished
from beasy_sched.formats.earlier import noting
from beasy_sched.limits import LONGEST_ERROR, shortened
from beasy_sched.plugin import Target, command_target, commands_of, load

_SECTIONS: Final = {
    "Make inputs": ("generate", "convert", "plan", "check"),
    "Run": ("simulate", "serve", "batsim", "replay", "recover"),
    "Compare": (),
    "Understand": ("policies",),
}
"""Headings of the help, and the commands of the core below each, in the order in which a newcomer meets them;
those of plug-ins follow."""
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

    def headed(self) -> Mapping[str, Sequence[str]]:
        """Return the commands below each heading of the help, which is not shown if it is the only one."""
        return {"": list(self.commands)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which a newcomer meets them."""
        return [name for names in self.headed().values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, with the options common to all."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else _with_traceback(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their summaries, wrapped where click would truncate them."""
        headed = self.headed()
        for heading, names in headed.items():
            summaries = [(name, self.summary(ctx, name)) for name in names]
            with formatter.section(heading if len(headed) > 1 else "Commands"):
                formatter.write_dl([(name, summary) for name, summary in summaries if summary is not None])

    def summary(self, ctx: click.Context, name: str) -> str | None:
        """Return the first sentence of a command's help; None if the help does not list it."""
        command = self.get_command(ctx, name)
        return None if command is None or command.hidden else command.get_short_help_str(_WHOLE_SENTENCE)


_WHOLE_SENTENCE = 1000
"""Largest length of the first sentence of a help text."""


class LazyGroup(HelpfulGroup):
    """A group whose commands live in separate modules, imported on use."""

    def __init__(self, *args: Any, lazy: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        """``lazy`` maps the commands of each heading to their modules; plug-ins may add others.

        A command has its name in its module (``import``: import_).
        """
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def headed(self) -> Mapping[str, Sequence[str]]:
        """Return the commands below each heading of the help."""
        all_of = {heading: [*names, *commands_of(heading)] for heading, names in self.lazy.items()}
        return {heading: names for heading, names in all_of.items() if names}

    def summary(self, ctx: click.Context, name: str) -> str | None:
        """Return the first sentence of a command's help, of our commands without importing them."""
        target = self._target(name)
        return (None if target is None else _summary_in_source(target)) or super().summary(ctx, name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        target = self._target(cmd_name)
        return None if target is None else _with_traceback(load(target))

    def _target(self, cmd_name: str) -> Target | None:
        """Return where a command is defined; None if there is none of this name."""
        function = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        ours = (f"{names[cmd_name]}:{function}" for names in self.lazy.values() if cmd_name in names)
        added = (command_target(heading, cmd_name) for heading in self.lazy)
        return next(ours, None) or next(filter(None, added), None)


def _summary_in_source(target: Target) -> str | None:
    """Return the first sentence of the docstring of our function ``target``; None if it is not found.

    It is read from the source, because importing the modules of all commands for a list takes long.
    """
    module, _, function = target.partition(":")
    package, *inner = module.split(".")
    if package != __name__.partition(".")[0]:
        return None
    place = Path(__file__).parents[1].joinpath(*inner)
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    try:
        source = path.read_text("utf-8")
    except OSError:  # the package is not in a folder
        return None
    pattern = rf'^def {function}\([^"]*?\) -> None:\n    """(.*?)"""'
    found = re.search(pattern, source, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    return click.Command(function, help=inspect.cleandoc(found[1])).get_short_help_str(_WHOLE_SENTENCE)


@click.group(
    cls=LazyGroup,
    lazy={head: {name: f"beasy_sched.cli.{name}" for name in names} for head, names in _SECTIONS.items()},
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
    wishes, hint = {"traceback": False}, ""
    try:
        with stoppable():
            try:
                cli.main(args=arguments, prog_name="beasy-sched", obj=wishes)
            finally:
                discard_unfinished()
                _flush_output()
    except (BeasyError, Interrupted) as error:
        if wishes["traceback"]:
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
