"""Every numeric option of every command: finite, in its range, or a usage error of one line."""

from __future__ import annotations

from typing import Any, get_args

import click
import pytest
from command_line import ALL_COMMANDS, exit_code

from beasy_sched.cli.options import DeclaredOption, Number, Whole

PREFIXES = {"--set": "pv_kw=", "--servers": "gros:", "--host-shares": "1:"}
"""What stands before the number in the text of an option."""
WRONG = ("nan", "inf", "-inf", "1e308", "-1e308", "9" * 400, "9" * 5000, "1_000", "１２")


def is_numeric(hint: Any) -> bool:
    """Whether an option's attribute holds a number anywhere."""
    return hint in (int, float) or any(map(is_numeric, get_args(hint)))


OPTIONS = [
    (name, parameter)
    for name, command in ALL_COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count
]
NUMERIC = [
    (name, parameter)
    for name, parameter in OPTIONS
    if isinstance(parameter, DeclaredOption) and is_numeric(parameter.hint)
]


def long_name(parameter: click.Option) -> str:
    return max(parameter.opts, key=len)


def types_of(parameter: click.Option) -> list[click.ParamType]:
    return [*parameter.type.types] if isinstance(parameter.type, click.Tuple) else [parameter.type]


def test_there_are_many() -> None:
    assert len(NUMERIC) > 80


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "parameter"), OPTIONS, ids=[f"{n} {long_name(p)}" for n, p in OPTIONS])
def test_no_option_has_a_number_without_a_range(name: str, parameter: click.Option) -> None:
    plain = (type(click.INT), type(click.FLOAT), click.IntRange, click.FloatRange)
    for kind in types_of(parameter):
        assert isinstance(kind, Number | Whole) or not isinstance(kind, plain), "use Number or Whole"


@pytest.mark.parametrize(("name", "parameter"), NUMERIC, ids=[f"{n} {long_name(p)}" for n, p in NUMERIC])
def test_only_finite_numbers_in_the_range(
    name: str, parameter: click.Option, capfd: pytest.CaptureFixture[str]
) -> None:
    option = long_name(parameter)
    wrong = [PREFIXES.get(option, "") + text for text in WRONG]
    for kind in types_of(parameter):
        if isinstance(kind, Number | Whole):
            wrong += [str(edge) for edge in beyond(kind)]
    if parameter.flag_value is not None:  # what may have no value takes none that looks like an option
        wrong = [text for text in wrong if not text.startswith("-")]
    for text in wrong:
        values = [f"{option}={text}"] if parameter.nargs == 1 else [option, *[text] * parameter.nargs]
        assert exit_code(*name.split(), *values) == 2
        told = capfd.readouterr().err
        assert "Traceback" not in told
        *usage, message = told.rstrip().splitlines()
        assert all(line.startswith(("Usage:", "Try ")) or not line for line in usage), told
        assert option in message
        assert len(message) < 400


def beyond(kind: Number | Whole) -> list[float]:
    """Numbers just outside of a range."""
    least, most = kind.range.least, kind.range.most
    if isinstance(kind, Whole):
        return [int(least) - 1, int(most) + 1]
    return [least if kind.range.above else least - max(1e-3, abs(least) * 1e-9), most + max(1.0, most * 1e-9)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--replan", "1e300h"),
        ("simulate", "--budget", "1e308kWh", "--policy", "energybud", "--period", "0:1d"),
        ("simulate", "--budget", "nan", "--policy", "energybud", "--period", "0:1d"),
        ("simulate", "--period", "0:1e308", "--budget", "60%", "--policy", "energybud"),
        ("simulate", "--option", "x=1e308"),
        ("simulate", "--option", "x=" + "9" * 400),
        ("simulate", "--options", '{"a": 1e300}'),
        ("simulate", "--options", "[" * 100_000),
        ("generate", "workload", "--deadlines", "factor:" + "9" * 400),
        ("generate", "workload", "--deadlines", "hours:" + "9" * 400),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_numbers_in_texts(
    arguments: tuple[str, ...], site_options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    given = site_options if arguments[0] == "simulate" else ["--synthetic", "-o", "-"]
    assert exit_code(*arguments, *given) == 2
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert len(told.rstrip().splitlines()[-1]) < 500


@pytest.fixture
def site_options(tmp_path: Any) -> list[str]:
    from small_site import small_site

    site = small_site(tmp_path, jobs=3)
    files = ("-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site)
    return [*map(str, files), "-o", str(tmp_path / "run")]
