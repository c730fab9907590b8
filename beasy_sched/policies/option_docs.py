"""Descriptions of a policy's options: the docstrings below the fields of its options class."""

from __future__ import annotations

import ast
import inspect
import textwrap

from beasy_sched.engine.policy import Options


def option_meanings(options: type[Options]) -> dict[str, str]:
    """Return the description of each documented option, in one line.

    The docstrings are read from the source of the class and of its base classes, if available.
    """
    meanings: dict[str, str] = {}
    for kind in reversed(options.__mro__):
        if issubclass(kind, Options) and kind is not Options:
            meanings |= _told_in(kind)
    return {name: text for name, text in meanings.items() if name in options.__struct_fields__}


def _told_in(kind: type[Options]) -> dict[str, str]:
    """Return the docstring below each field of a class; none if there is no source."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    if not isinstance(body, ast.ClassDef):
        return {}
    meanings = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            meanings[field.target.id] = " ".join(below.value.value.split()).replace("`", "")
    return meanings
