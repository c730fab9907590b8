"""Options are declared once: commands, scenario files and Python's help have what the field says."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal, get_type_hints

import click
import numpy as np
import pytest

from beasy_sched.cli.generate import site
from beasy_sched.cli.generate_power import power
from beasy_sched.cli.generate_workload import workload
from beasy_sched.cli.plan import plan
from beasy_sched.declared import AT_LEAST_1, OptionDoc, check, default_of, help_of, made_of, meaning_of
from beasy_sched.errors import ConfigError
from beasy_sched.generate.power_options import FileOptions, PowerOptions, SyntheticWeather
from beasy_sched.generate.site_template import SiteSizes
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions
from beasy_sched.numbers import Range
from beasy_sched.planner.plan_options import PlanOptions
from beasy_sched.plugins.campaigns.commands.compare import compare
from beasy_sched.plugins.campaigns.commands.year import year
from beasy_sched.plugins.campaigns.comparisons.days import GeneratedDays
from beasy_sched.plugins.campaigns.comparisons.year_run import Year
from beasy_sched.plugins.campaigns.scenario import (
    FileProduction,
    PlanPart,
    SwfWorkload,
    SyntheticProduction,
    SyntheticWorkload,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    length_s: Annotated[float, OptionDoc("how long it is", range=Range(1, 5), unit="s")] = 3.0
    least: Annotated[float, OptionDoc("the least ({default}: none)", "Least of all.")] = 0.0
    most: Annotated[float, OptionDoc("the most")] = math.inf
    name: Annotated[str, OptionDoc("what it is called")] = "x"
    number: Annotated[int | None, OptionDoc("how many", range=AT_LEAST_1)] = None
    factor: Annotated[float | Literal["none"], OptionDoc("by what", range=Range(0, 2))] = 1.0
    bare: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Longer(Options):
    length_s: float = 4.0


def test_help_has_unit_and_default() -> None:
    assert help_of(Options, "length_s") == "how long it is, s (3)"
    assert help_of(Options, "length_s", default=False) == "how long it is, s"
    assert help_of(Longer, "length_s") == "how long it is, s (4)"
    assert help_of(Options, "least", default=False) == "the least (0: none)"
    assert [help_of(Options, name) for name in ("most", "number")] == ["the most", "how many"]
    assert help_of(Options, "name") == 'what it is called (``"x"``)'
    shares = "numbers of hosts that jobs request, and the share of each ({1: 70, 2: 15, 4: 15})"
    assert help_of(SyntheticOptions, "host_shares") == shares
    with pytest.raises(LookupError, match=r"Options\.bare: has no description"):
        meaning_of(Options, "bare")


def test_the_command_line_has_sentences() -> None:
    assert meaning_of(Options, "length_s").sentence == "How long it is."
    assert meaning_of(Options, "least").sentence == "Least of all."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"length_s": 0.5}, "length_s: found 0.5, expected a number from 1 to 5"),
        ({"length_s": math.nan}, "length_s: found nan, expected a number from 1 to 5"),
        ({"length_s": None}, "length_s: found null, expected a number from 1 to 5"),
        ({"number": 0}, "number: found 0, expected an integer, 1 or more"),
        ({"number": 1.5}, "number: found 1.5, expected an integer, 1 or more"),
        ({"number": "many"}, "number: found 'many', expected an integer, 1 or more"),
        ({"number": np.int64(3), "length_s": np.float64(2), "factor": "none"}, None),
        ({"factor": "some"}, "factor: found 'some', expected a number from 0 to 2"),
        ({"length_s": 5, "number": 1, "bare": -1}, None),
        ({}, None),
    ],
)
def test_numbers_are_checked(given: dict[str, Any], told: str | None) -> None:
    if told is None:
        check(Options(**given))
        return
    with pytest.raises(ConfigError, match=f"^{told}$"):
        check(Longer(**given))


@pytest.mark.parametrize(
    ("command", "kind", "called"),
    [
        (workload, SyntheticOptions, {}),
        (workload, SwfOptions, {}),
        (workload, WorkflowOptions, {}),
        (power, SyntheticWeather, {"wind_mean_m_s": "wind_mean"}),  # --latitude is also that of files
        (power, FileOptions, {}),
        (power, PowerOptions, {}),
        (site, SiteSizes, {}),
        (plan, PlanOptions, {}),
        (compare, GeneratedDays, {"cores_per_host": "none"}),
        (year, Year, {"cores_per_host": "none"}),
    ],
)
def test_commands_have_the_same_defaults_and_ranges(
    command: click.Command, kind: type, called: dict[str, str]
) -> None:
    options = {parameter.name: parameter for parameter in command.params}
    given, checked = command.make_context("", ["-o", "unwritten"]).params, 0
    for field in dataclasses.fields(kind):
        option = options.get(called.get(field.name, field.name))
        if option is None or field.name in ("night_ratio", "day_shares", "hosts", "reference", "walltimes"):
            continue  # other options decide these, or whether they are given counts
        try:
            means = meaning_of(kind, field.name)
        except LookupError:
            continue
        default = default_of(kind, field.name)
        assert (given[option.name] or None) == (None if default == math.inf else default or None), field.name
        assert option.help == means.sentence
        if means.range is not None and hasattr(option.type, "range"):
            assert option.type.range.holds(means.range.least) is not means.range.above
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (SyntheticWorkload, SyntheticOptions),
        (SwfWorkload, SwfOptions),
        (SyntheticProduction, SyntheticWeather),
        (SyntheticProduction, PowerOptions),
        (FileProduction, FileOptions),
        (PlanPart, PlanOptions),
    ],
)
def test_keys_of_scenario_files_have_the_same_types_and_defaults(part: type, kind: type) -> None:
    ours, theirs = get_type_hints(part), get_type_hints(kind)
    names = ours.keys() & theirs.keys() - {"seed", "start"}  # which are required, or times of the trace
    assert len(names) > 1
    for name in names - {"max_run_s"}:  # without a limit: infinite there, left out here
        assert default_of(part, name) == default_of(kind, name), name
        assert ours[name] == theirs[name] or name == "host_shares", name


def test_options_are_made_of_what_is_given() -> None:
    given = {"length_s": 2.0, "name": None, "other": 3}
    assert made_of(Options, given, number=4) == Options(length_s=2.0, number=4)
