"""Options are declared once: commands, scenario files and Python's help have what the field says."""

from __future__ import annotations

import dataclasses

import click
import pytest

from beasy_sched.campaigns.scenario import SwfWorkload, SyntheticProduction, SyntheticWorkload
from beasy_sched.cli.generate_power import power
from beasy_sched.cli.generate_workload import workload
from beasy_sched.errors import BeasyError
from beasy_sched.generate.declared import default_of, help_of, meaning_of, outside
from beasy_sched.generate.power import SyntheticWeather
from beasy_sched.generate.workload import SwfOptions, SyntheticOptions


def test_help_has_the_default() -> None:
    assert help_of(SyntheticOptions, "jobs") == "number of jobs (900)"
    shares = "relative number of jobs by the hosts that they ask for ({1: 70, 2: 15, 4: 15})"
    assert help_of(SyntheticOptions, "host_shares") == shares
    with pytest.raises(LookupError, match=r"SyntheticOptions\.seed: nothing says what it means"):
        meaning_of(SyntheticOptions, "seed")


def test_a_range_may_leave_out_its_least_number() -> None:
    made = SyntheticOptions(reference_speed_flops=1e9, night_ratio=1)
    assert not outside(made, "night_ratio", "jobs")
    for wrong in ({"night_ratio": 0.0}, {"night_ratio": 1.1}, {"gap_log_sd": 11.0}, {"jobs": 0}):
        with pytest.raises(BeasyError):
            SyntheticOptions(reference_speed_flops=1e9, **wrong)


@pytest.mark.parametrize(
    ("command", "kind", "called"),
    [
        (workload, SyntheticOptions, {}),
        (workload, SwfOptions, {}),
        (power, SyntheticWeather, {"latitude_deg": "latitude", "wind_mean_m_s": "wind_mean"}),
    ],
)
def test_commands_have_the_same_defaults_and_ranges(
    command: click.Command, kind: type, called: dict[str, str]
) -> None:
    options = {parameter.name: parameter for parameter in command.params}
    given, checked = command.make_context("", ["-o", "unwritten"]).params, 0
    for field in dataclasses.fields(kind):
        option = options.get(called.get(field.name, field.name))
        if option is None or field.name in ("night_ratio", "day_shares", "hosts"):  # others decide these
            continue
        try:
            means = meaning_of(kind, field.name)
        except LookupError:
            continue
        assert (given[option.name] or None) == (default_of(kind, field.name) or None), field.name
        assert option.help == (means.told or None)
        if means.range is not None:
            assert option.type.range.holds(means.range.least) is not means.range.above
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (SyntheticWorkload(seed=0), SyntheticOptions),
        (SwfWorkload(file="x.swf"), SwfOptions),
        (SyntheticProduction(seed=0), SyntheticWeather),
    ],
)
def test_scenario_files_have_the_same_defaults(part: object, kind: type) -> None:
    names = {field.name for field in dataclasses.fields(kind)} & set(part.__struct_fields__) - {"seed"}
    assert len(names) > 1
    for name in names - {"max_run_s"}:  # without a limit: infinite there, left out here
        assert getattr(part, name) == default_of(kind, name), name
