"""Files of coarse plans: they come back as they were, and damaged or foreign ones are refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_cases import hand_plan, hand_season

from beasy_sched.errors import InputError
from beasy_sched.formats.plan_file import (
    SEASON_FORMAT,
    read_plans,
    read_season,
    season_csv_lines,
    season_json,
    write_plans,
    write_season,
)
from beasy_sched.planner.plan import PlanStore

SEASON = hand_season(years=2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_season(tmp_path / "season.msgpack", SEASON)
    return tmp_path / "season.msgpack"


def test_there_and_back(file: Path) -> None:
    found = read_season(file)
    assert (found.storage, found.provenance) == (SEASON.storage, SEASON.provenance)
    assert found.targets_kg == SEASON.targets_kg
    for one, other in zip(found.years, SEASON.years, strict=True):
        for name in one.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert SEASON_FORMAT.describes(file)


@pytest.mark.parametrize("place", [5, 20, 60, 200, -1])
def test_damage(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"season.msgpack: (is |has format version)"):
        read_season(file)


def test_cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(InputError, match="is corrupt or truncated: regenerate the plan of the season"):
        read_season(file)


def test_neither_kind_is_taken_for_the_other(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a beasy-sched plan"):
        read_plans(file)
    write_plans(tmp_path / "plan.msgpack", PlanStore([hand_plan()]))
    assert not SEASON_FORMAT.describes(tmp_path / "plan.msgpack")
    with pytest.raises(InputError, match="is not a beasy-sched season"):
        read_season(tmp_path / "plan.msgpack")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("unmet_w", np.full(4, 5.0), "the balance of power is violated at step 0"),
        ("hydrogen_kg", np.array([0.0, 1.0, 1.0, 1.0, np.nan]), "the development of the tank"),
        ("fuel_cell_w", np.zeros(3), r"fuel_cell_w: found an array of float64 of shape \(3,\), expected 4"),
    ],
)
def test_what_does_not_add_up(tmp_path: Path, name: str, values: np.ndarray, message: str) -> None:
    write_season(tmp_path / "s", replace(SEASON, years=(replace(SEASON.years[0], **{name: values}),)))
    with pytest.raises(InputError, match=message):
        read_season(tmp_path / "s")


def test_for_other_programs() -> None:
    told = json.loads(season_json(SEASON))
    assert told["targets_kg"] == list(SEASON.targets_kg)
    assert len(told["years"]) == 2
    rows = list(csv.DictReader(io.StringIO("".join(season_csv_lines(SEASON)))))
    assert [row["year"] for row in rows] == ["0"] * 4 + ["1"] * 4
    assert float(rows[3]["hydrogen_kg"]) == SEASON.years[0].hydrogen_kg[-1]
    assert float(rows[1]["renew_w"]) == SEASON.years[0].renew_w[1]
