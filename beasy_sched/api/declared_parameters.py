"""Functions whose parameters are declared as fields of classes: names, types, defaults and meanings.

Such a function reads its data from files or generates them, with the options of one class or another. Type
checkers and editors see the fields as keywords; `help` and `inspect.signature` show their declarations.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    *,
    from_files: Callable[P, S],
    synthetic: Callable[Q, T],
    inputs: tuple[str, ...],
    only_from_files: str,
    only_synthetic: str,
) -> Callable[[Callable[[PathLike, S | T], Path]], Generator[P, Q]]:
    """Let a function take the fields of ``from_files`` or of ``synthetic`` as keywords; None: the default.

    The options are of the class ``from_files`` if one of the ``inputs`` is given. ``only_from_files`` and
    ``only_synthetic`` describe, in the error about an option of the other class, when it applies. In the
    function's docstring, ``{both}``, ``{from_files}`` and ``{synthetic}`` are replaced by the meanings of
    the options.
    """
    classes = _TwoClasses(from_files, synthetic, inputs, only_from_files, only_synthetic)

    def declare(function: Callable[[PathLike, S | T], Path]) -> Generator[P, Q]:
        signature = classes.signature(function)

        @functools.wraps(function)
        def generate(*args: Any, **keywords: Any) -> Path:
            arguments = dict(signature.bind(*args, **keywords).arguments)
            path: PathLike = arguments.pop("path")
            return function(path, classes.options_of(arguments))

        generate.__doc__ = classes.documented(inspect.getdoc(function) or "")
        generate.__signature__ = signature  # type: ignore[attr-defined]
        return generate

    return declare


@dataclass(frozen=True)
class _TwoClasses:
    """The two classes of options of a function."""

    from_files: Any
    synthetic: Any
    inputs: tuple[str, ...]
    """Options that name files: with one of them, the options are of the class ``from_files``."""
    only_from_files: str
    only_synthetic: str

    def options_of(self, arguments: Mapping[str, Any]) -> Any:
        """Return the options of one class. Raises ConfigError for an option of the other one."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if any(name in given for name in self.inputs):
            kind, others_apply_to = self.from_files, self.only_synthetic
        else:
            kind, others_apply_to = self.synthetic, self.only_from_files
        if wrong := sorted(given.keys() - _fields(kind).keys()):
            raise ConfigError(f"{', '.join(wrong)}: only for {others_apply_to}")
        _check_choices(kind, given)
        return kind(**given)

    def signature(self, function: Callable[..., Any]) -> inspect.Signature:
        """Return the first parameter of a function, and the fields of both classes as keywords."""
        own = inspect.signature(function)
        keywords = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=self._type(name), default=self._default(name)
            )
            for name in self._names()
        ]
        return own.replace(parameters=[next(iter(own.parameters.values())), *keywords])

    def documented(self, text: str) -> str:
        """Return a docstring with the meanings of the options, one parameter each."""
        meanings: dict[str, list[str]] = {"{both}": [], "{synthetic}": [], "{from_files}": []}
        for name in self._names():
            kinds = self._with(name)
            words = help_of(kinds[0], name, default=self._has_one_default(name))
            lines = textwrap.wrap(f"{name}: {words}.", 106, subsequent_indent="    ")
            only = "{synthetic}" if kinds == [self.synthetic] else "{from_files}"
            meanings["{both}" if len(kinds) > 1 else only] += lines
        for place, lines in meanings.items():
            text = text.replace(place, "\n    ".join(lines))
        return text

    def _names(self) -> list[str]:
        return [*dict.fromkeys([*_fields(self.synthetic), *_fields(self.from_files)])]

    def _with(self, name: str) -> list[Any]:
        """Return the classes that have a field."""
        return [kind for kind in (self.synthetic, self.from_files) if name in _fields(kind)]

    def _type(self, name: str) -> Any:
        """Return the type of a field: the union if it has one in each class."""
        return functools.reduce(operator.or_, (_fields(kind)[name] for kind in self._with(name)))

    def _has_one_default(self, name: str) -> bool:
        """Whether a field has the same default in all classes that have it."""
        defaults = [default_of(kind, name) for kind in self._with(name)]
        return all(each == defaults[0] for each in defaults)

    def _default(self, name: str) -> Any:
        """Return the default of a field; None if it differs between the classes."""
        return default_of(self._with(name)[0], name) if self._has_one_default(name) else None


@functools.cache
def _fields(kind: Any) -> Mapping[str, Any]:
    """Return the fields of a class and their types, in its order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _check_choices(kind: Any, given: dict[str, Any]) -> None:
    """Raise ConfigError for a value that is not one of the choices of its type."""
    hints = _fields(kind)
    for name, value in given.items():
        if hints[name] is bool or get_origin(hints[name]) is Literal:
            check_choice(name, value, (True, False) if hints[name] is bool else get_args(hints[name]))
