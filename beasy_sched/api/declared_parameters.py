"""Functions whose parameters are declared as fields of classes: names, types, defaults and meanings.

Such a function reads its data from files or generates them, with the options of one class or another. Type
checkers and editors see the fields as keywords; `help` and `inspect.signature` show their declarations.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, get_args, get_origin, get_type_hints, overload

from beasy_sched.declared import check_choice, default_of, help_of
from beasy_sched.errors import ConfigError, PathLike

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")


class Generator(Protocol[P, Q]):
    """A function that writes a file, with the options of one class or those of another."""

    @overload
    def __call__(self, path: PathLike, *args: P.args, **options: P.kwargs) -> Path: ...
    @overload
    def __call__(self, path: PathLike, *args: Q.args, **options: Q.kwargs) -> Path: ...


def generator(
    read: Callable[P, S], drawn: Callable[Q, T], inputs: tuple[str, ...], only: dict[str, str]
) -> Callable[[Callable[[PathLike, S | T], Path]], Generator[P, Q]]:
    """Let a function take the fields of ``read`` or of ``drawn`` as keywords; None means the default.

    The class is ``read`` if one of the ``inputs`` is given; ``only`` describes, by the names ``read`` and
    ``drawn``, what the options of each class apply to. In the function's docstring, ``{both}``, ``{read}``
    and ``{drawn}`` are replaced by the meanings of the options.
    """
    kinds: dict[str, Any] = {"read": read, "drawn": drawn}

    def declare(function: Callable[[PathLike, S | T], Path]) -> Generator[P, Q]:
        signature = _signature(function, *kinds.values())

        @functools.wraps(function)
        def generate(*args: Any, **keywords: Any) -> Path:
            given = dict(signature.bind(*args, **keywords).arguments)
            path: PathLike = given.pop("path")
            given = {name: value for name, value in given.items() if value is not None}
            kind, other = ("read", "drawn") if any(name in given for name in inputs) else ("drawn", "read")
            if wrong := sorted(given.keys() - _fields(kinds[kind]).keys()):
                raise ConfigError(f"{', '.join(wrong)}: only for {only[other]}")
            _check_choices(kinds[kind], given)
            return function(path, kinds[kind](**given))

        generate.__doc__ = _documented(inspect.getdoc(function) or "", **kinds)
        generate.__signature__ = signature  # type: ignore[attr-defined]
        return generate

    return declare


@functools.cache
def _fields(kind: Any) -> Mapping[str, Any]:
    """Return the fields of a class and their types, in its order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _signature(function: Callable[..., Any], read: Any, drawn: Any) -> inspect.Signature:
    """Return the first parameter and the fields of both classes; the default is None if theirs differ."""
    own = inspect.signature(function)
    types: dict[str, Any] = {}
    for kind in (drawn, read):
        for name, hint in _fields(kind).items():
            types[name] = types[name] | hint if name in types else hint
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hint,
            default=default_of(drawn if name in _fields(drawn) else read, name)
            if _agree(name, read, drawn)
            else None,
        )
        for name, hint in types.items()
    ]
    return own.replace(parameters=[next(iter(own.parameters.values())), *keywords])


def _agree(name: str, *kinds: Any) -> bool:
    """Whether a field has the same default in all classes that have it."""
    defaults = [default_of(kind, name) for kind in kinds if name in _fields(kind)]
    return all(each == defaults[0] for each in defaults)


def _documented(text: str, read: Any, drawn: Any) -> str:
    """Return the docstring with the meanings of the options, one parameter each."""
    told: dict[str, list[str]] = {"{both}": [], "{drawn}": [], "{read}": []}
    for name in dict.fromkeys([*_fields(drawn), *_fields(read)]):
        mine = [place for place, kind in (("{drawn}", drawn), ("{read}", read)) if name in _fields(kind)]
        kind = drawn if "{drawn}" in mine else read
        words = help_of(kind, name, default=_agree(name, read, drawn))
        lines = textwrap.wrap(f"{name}: {words}.", 106, subsequent_indent="    ")
        told[mine[0] if len(mine) == 1 else "{both}"] += lines
    for place, lines in told.items():
        text = text.replace(place, "\n    ".join(lines))
    return text


def _check_choices(kind: Any, given: dict[str, Any]) -> None:
    """Raise ConfigError for a value that is not one of the choices of its type."""
    hints = _fields(kind)
    for name, value in given.items():
        if hints[name] is bool or get_origin(hints[name]) is Literal:
            check_choice(name, value, (True, False) if hints[name] is bool else get_args(hints[name]))
