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
from pathlib import Path
from typing import Any

import click
import pytest

import beasy_sched as bs
from beasy_sched.declared import default_of, help_of
from beasy_sched.errors import ConfigError
from beasy_sched.generate.power_options import PowerOptions, SyntheticWeather
from beasy_sched.generate.server_presets import ONE_PSTATE
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions
from beasy_sched.planner.plan_options import PlanOptions
from beasy_sched.plugins.campaigns.commands.campaign import run
from beasy_sched.run.settings import ReplanSettings, RunSettings

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
    workload = inspect.signature(bs.generate_workload).parameters
    assert workload.keys() - {"path", "swf", "deadlines"} == fields(SwfOptions) | fields(SyntheticOptions)
    assert (workload["jobs"].default, workload["jobs"].annotation) == (900, int)
    assert workload["hosts"].default is workload["walltimes"].default is None  # which the two kinds have
    power = inspect.signature(bs.generate_power).parameters
    assert power.keys() >= fields(SyntheticWeather) | fields(PowerOptions)
    assert power["cloudiness"].default == SyntheticWeather.cloudiness


def test_a_parameter_that_there_is_not_is_an_error_as_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        bs.generate_workload(tmp_path / "w.json", job=3)
    with pytest.raises(TypeError, match="too many positional arguments"):
        bs.generate_workload(tmp_path / "w.json", "trace.swf")
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow  # reads NumPy's types
def test_type_checkers_see_the_options(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        "import beasy_sched as bs\n"
        "trace: str | None = None\n"
        "bs.generate_workload('w.json', jobs=3, day_shares=[1, 1])\n"
        "bs.generate_workload('w.json', swf='x', start_s=3, keep={'status': [1]}, extras=['user'])\n"
        "bs.generate_workload('w.json', swf=trace, seed=3)\n"
        "bs.generate_power('p.txt', pv_kw=3, cloudiness=0.5)\n"
        "bs.generate_power('p.txt', pv='pv.csv', pv_kw=3)\n"
        "bs.generate_workload('w.json', jobs='many')\n"
        "bs.generate_workload('w.json', swf='x', jobs=3)\n"
        "bs.generate_power('p.txt', pv='pv.csv', cloudiness=0.5)\n"
        "bs.generate_workload('w.json', job=3)\n"
    )
    api = pytest.importorskip("mypy.api")
    told, _, _ = api.run(["--strict", "--python-version", "3.10", str(tmp_path / "user.py")])
    wrong = sorted({int(line) for line in re.findall(r"user\.py:(\d+): error", told)})
    assert wrong == [8, 9, 10, 11], told


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
    ("function", "kinds"),
    [
        (bs.generate_workload, (SyntheticOptions, SwfOptions)),
        (bs.generate_power, (SyntheticWeather, PowerOptions)),
    ],
)
def test_help_says_what_is_declared_with_the_options(
    function: Callable[..., Any], kinds: tuple[type, type]
) -> None:
    told, (first, second) = documented(function), kinds
    for kind in kinds:
        for name in fields(kind):
            agree = not fields(first) >= {name} <= fields(second) or name not in ("hosts", "walltimes")
            assert told[name] == help_of(kind, name, default=agree)
    assert "{" not in (function.__doc__ or "").replace("{1: 70", "").replace('{"status": {1}}', "")


@pytest.mark.parametrize(
    ("function", "parameter", "kind", "field"),
    [
        *((bs.simulate, name, RunSettings, name) for name in ("policy", "options", "site", "plan")),
        *((bs.simulate, name, RunSettings, name) for name in ("forecast", "windows", "retry_s")),
        (bs.simulate, "replan", ReplanSettings, "every"),
        *((bs.plan, name, PlanOptions, name) for name in sorted(fields(PlanOptions))),
    ],
)
def test_parameters_that_are_written_out_are_as_declared(
    function: Callable[..., Any], parameter: str, kind: type, field: str
) -> None:
    """Where Python's parameter has a type of its own, such as a class or a plan, it is in the signature."""
    assert documented(function)[parameter] == help_of(kind, field, default=False)
    default = inspect.signature(function).parameters[parameter].default
    assert (default or None) == (default_of(kind, field) or None)


@pytest.mark.parametrize(
    ("function", "parameter", "command"),
    [
        (bs.campaign, "quick", run),
        (bs.campaign, "retry_failed", run),
        (bs.generate_platform, "one_pstate", None),
    ],
)
def test_flags_mean_the_same_on_the_command_line(
    function: Callable[..., Any], parameter: str, command: click.Command | None
) -> None:
    said = ONE_PSTATE.meaning
    if command is not None:
        help = next(option.help for option in command.params if option.name == parameter)
        said = help[0].lower() + help.removesuffix(".")[1:]
    assert documented(function)[parameter] == said


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
