"""Numbers that policies tell of their runs become columns of a campaign's table."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from small_campaign import scenario
from summaries import made_up
from worlds import green_world, session_of

from beasy_sched.formats.run_summary import SECTIONS
from beasy_sched.outputs.summary import summarize
from beasy_sched.plugins.campaigns.campaign_table import COLUMNS, parquet_of, policy_columns, row_of
from beasy_sched.plugins.campaigns.sweep import expand
from beasy_sched.run.settings import RunSettings

HASHES = {column.name: "" for column in COLUMNS if "sha256" in column.name or "version" in column.name}


def row(**sections: Any) -> dict[str, Any]:
    summary = made_up(end_s=10.0, site={"steps": 4}, **sections)
    return row_of(expand([scenario()])[0], HASHES, summary, None)


def kinds(*rows: dict[str, Any]) -> dict[str, str]:
    return {column.name: column.kind for column in policy_columns(rows)}


def test_only_numbers_of_sections_count() -> None:
    mine = {
        "rounds": 3,
        "mean_s": 0.5,
        "open": None,
        "sure": True,
        "name": "x",
        "all": [1],
        "deeper": {"x": 1},
    }
    found = row(mine=mine, count=7, texts=["a"])
    assert {name: value for name, value in found.items() if "." in name} == {
        "mine.rounds": 3,
        "mine.mean_s": 0.5,
    }
    assert list(found)[: len(COLUMNS)] == [column.name for column in COLUMNS]


def test_columns_are_in_order_of_first_use_and_of_a_type_for_all() -> None:
    rows = [row(), row(b={"x": 1, "y": 2}), row(a={"z": 2**70}, b={"y": 0.5, "x": 2}), row(b={"x": None})]
    assert kinds(*rows) == {"b.x": "integer", "b.y": "number", "a.z": "number"}
    table = pyarrow.parquet.read_table(io.BytesIO(parquet_of(rows, [*COLUMNS, *policy_columns(rows)])))
    assert table["b.x"].to_pylist() == [None, 1, 2, None]
    assert table["b.y"].to_pylist() == [None, 2.0, 0.5, None]
    assert table["a.z"].to_pylist() == [None, None, 2.0**70, None]


def test_what_cannot_be_a_number_of_a_table_is_left_out() -> None:
    assert kinds(row(mine={"huge": 10**400, "fine": 1})) == {"mine.fine": "integer"}


@pytest.mark.plugins("greenslot")
def test_all_parts_of_the_summary_are_known_as_its_own() -> None:
    """Otherwise their numbers would be taken for the policy's."""
    seen: set[str] = set()
    for seed in range(6):
        world = green_world(np.random.default_rng(seed))
        session = session_of(world, "greenslot" if seed % 2 else "beasy")
        world.simulation().run(session.step)
        summary = summarize(session, RunSettings()).to_builtins()
        assert summary.keys() - {*SECTIONS} == ({"greenslot"} if seed % 2 else set())
        seen |= summary.keys()
    # tests of replanning, words, battery life, restarts and the value of energy left have these
    others = {"replanning", "words", "battery_life", "restarts", "end_value"}
    assert seen - {"greenslot"} | others == {*SECTIONS}
