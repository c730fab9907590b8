"""Names, parameters and documentation of the Python interface."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import beasy_sched as bs
from beasy_sched.errors import ConfigError
from beasy_sched.generate.declared import help_of
from beasy_sched.generate.power import SyntheticWeather
from beasy_sched.generate.workload import SwfOptions, SyntheticOptions

FUNCTIONS = [getattr(bs, name) for name in bs.__all__ if inspect.isfunction(getattr(bs, name))]


def test_all_functions_are_here() -> None:
    names = {function.__name__ for function in FUNCTIONS}
    assert names == set(bs.__all__) - {"Run", "__version__"}
    assert names >= {"simulate", "plan", "report", "explain", "campaign", "compare"}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_parameter_is_named_typed_and_documented(function: Callable[..., Any]) -> None:
    signature, text = inspect.signature(function), inspect.getdoc(function) or ""
    documented = set()
    for line in text.splitlines():
        name, colon, _ = line.strip().partition(": ")
        if colon and line.startswith("    "):
            documented |= {each.strip() for each in name.split(",")}
    for name, parameter in signature.parameters.items():
        assert parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD), name
        assert parameter.annotation is not parameter.empty, name
        assert name in documented or (len(signature.parameters) == 1 and f"{name}" in text), name
    assert signature.return_annotation is not signature.empty


def fields(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_options_of_workloads_and_weather_are_parameters() -> None:
    workload = set(inspect.signature(bs.generate_workload).parameters)
    own = {"path", "swf", "reference", "deadlines"}
    assert workload - own == fields(SwfOptions) | fields(SyntheticOptions)
    power = set(inspect.signature(bs.generate_power).parameters)
    assert power >= fields(SyntheticWeather)


@pytest.mark.parametrize(
    ("kind", "other", "swf"), [(SwfOptions, SyntheticOptions, None), (SyntheticOptions, SwfOptions, "x.swf")]
)
def test_options_of_the_other_kind_are_refused(kind: type, other: type, swf: str | None) -> None:
    for name in fields(kind) - fields(other):
        with pytest.raises(ConfigError, match=f"^{name}: only for"):
            bs.generate_workload("unwritten.json", swf=swf, **{name: 1})


def documented(function: Callable[..., Any]) -> dict[str, str]:
    """What the help of a function says of each parameter, in one line each."""
    told: dict[str, str] = {}
    names: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        if re.match(r" {4}\w", line):
            listed, _, text = line.strip().partition(": ")
            names = listed.split(", ")
            told |= dict.fromkeys(names, text)
        elif re.match(r" {8}\S", line):
            told |= {name: f"{told[name]} {line.strip()}" for name in names}
        else:
            names = []
    return {name: text.removesuffix(".") for name, text in told.items()}


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (bs.generate_workload, SyntheticOptions),
        (bs.generate_workload, SwfOptions),
        (bs.generate_power, SyntheticWeather),
    ],
)
def test_help_says_what_is_declared_with_the_option(function: Callable[..., Any], kind: type) -> None:
    """The meaning and the default that stand beside the field, from which commands have theirs, too."""
    told, checked = documented(function), 0
    types = typing.get_type_hints(kind)
    given = inspect.signature(function).parameters
    for name in fields(kind):
        try:
            expected = help_of(kind, name)
        except LookupError:
            continue
        if name != "hosts":  # of which both kinds have one, with another default
            assert told[name] == expected
        plain = typing.get_origin(types[name]) is None  # in Python 3.10, generics are types
        if plain and isinstance(types[name], type):
            assert given[name].annotation == f"{types[name].__name__} | None"
        checked += 1
    assert checked > 5


@pytest.mark.parametrize("name", ["profile_type", "chains", "processors", "walltimes"])
def test_choices_are_those_of_the_options(name: str) -> None:
    choices = ", ".join(typing.get_args(typing.get_type_hints(SwfOptions)[name]))
    with pytest.raises(ConfigError, match=f"{name}: found 'other', expected one of {choices}$"):
        bs.generate_workload("unwritten.json", swf="x.swf", **{name: "other"})


def test_no_package_has_the_name_of_a_function() -> None:
    packages = {module.name for module in pkgutil.iter_modules(bs.__path__)}
    assert not packages & set(bs.__all__)


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, beasy_sched; print(any(m in sys.modules for m in ('numpy', 'beasy_sched.api')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
