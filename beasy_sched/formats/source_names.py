"""Names of sources that are read during a run: a file, ``command:PROGRAM ARGS``, and other schemes."""

from __future__ import annotations

import re
import shlex
from typing import Final

from beasy_sched.errors import ConfigError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
COMMAND: Final = "command"
"""Scheme of the output of a program."""


def split_scheme(text: str) -> tuple[str, str]:
    """Return the scheme of a source, in lower case, and the rest; "" as the scheme of a file."""
    scheme = _SCHEME.match(text)
    return ("", text) if scheme is None else (scheme[1].lower(), text[scheme.end() :])


def is_command(text: str | None) -> bool:
    """Whether a source is the output of a program."""
    return text is not None and split_scheme(text)[0] == COMMAND


def command_words(command: str, what: str) -> list[str]:
    """Split a program and its arguments as a shell does; ``what`` names the source in errors.

    Raises ConfigError.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the {what} command:{command} cannot be read: {str(error).lower()}") from None
    if not words or not words[0]:
        raise ConfigError(f"the {what} does not name a program: expected command:PROGRAM ARGS")
    return words
