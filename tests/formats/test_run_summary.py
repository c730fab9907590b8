"""A run's summary: the order of its file, what it leaves out, and that it is read as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from summaries import made_up, members

from beasy_sched.errors import InputError
from beasy_sched.formats.run_summary import SECTIONS, read_summary, summary_of


def written(prefix: Path, told: object) -> str:
    Path(f"{prefix}_summary.json").write_text(json.dumps(told))
    return str(prefix)


def test_the_policys_sections_stand_before_the_warnings(tmp_path: Path) -> None:
    summary = made_up(warnings=["mind the gap"], mine={"a": 1}, by_policy={"b": 2}, unmade={"c": 3})
    told = summary.to_builtins()
    names = [name for name in SECTIONS if name in told and name != "warnings"]
    assert [*told] == [*names, "mine", "by_policy", "unmade", "warnings"]
    assert read_summary(written(tmp_path / "a", told)) == summary
    assert summary.by_policy == {"mine": {"a": 1}, "by_policy": {"b": 2}, "unmade": {"c": 3}}


def test_what_has_no_value_is_null_or_left_out() -> None:
    site = {"guard": "shed", "veto": True, "steps": 3, "largest_relative_residual": 0.0}
    told = made_up(site=site, energy_kwh={"import": 1.5}).to_builtins()
    assert told["site"] == site
    assert (told["energy_kwh"]["import"], "export" in told["energy_kwh"]) == (1.5, False)
    assert told["quality"]["waiting_s_mean"] is None
    assert "grid" not in told


def test_a_section_that_could_not_be_made_is_empty() -> None:
    told = members() | {"site": {}, "quality": {}}
    summary = summary_of(told)
    assert (summary.site, summary.quality, summary.unmade) == (None, None, ("quality", "site"))
    assert summary.to_builtins() == told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"site": {"guard": "shed", "veto": True, "soc_start_pct": 1.0}}, "site.steps: is missing"),
        ({"grid": {"currency": 3}}, "grid.currency: found 3, expected a string"),
        ({"quality": {"waiting_s_mean": "long"}}, "quality.waiting_s_mean: found 'long', expected a number"),
    ],
)
def test_errors_name_file_and_field(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"a_summary.json: is not the summary of a run: {message}"):
        read_summary(written(tmp_path / "a", members() | changes))


def test_the_levels_of_a_battery_are_told_together(tmp_path: Path) -> None:
    told = members(site={"soc_start_pct": 50.0})
    del told["site"]["soc_max_pct"]
    with pytest.raises(InputError, match=r"a_summary.json: .*: site.soc_max_pct: is missing"):
        read_summary(written(tmp_path / "a", told))
