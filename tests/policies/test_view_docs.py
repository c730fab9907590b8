"""docs/guides/own-policies.md lists all of the view."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from worlds import FAST, random_world

from beasy_sched.engine import SessionOptions
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.power import PowerModel

PAGE = (Path(__file__).parents[2] / "docs/guides/own-policies.md").read_text("utf-8")
SECTION = PAGE.partition("## What a policy sees")[2].partition("**Walltimes and speeds.**")[0]


def rows() -> dict[str, str]:
    """Attribute and what is told of it, of all tables."""
    found = re.findall(r"^\| `([\w.\[\]]+)(?:\([^)]*\))?` \| (.+) \| (.+) \|$", SECTION, re.MULTILINE)
    return {name: f"{kind} {meaning}" for name, kind, meaning in found}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def a_view() -> View:
    world = random_world(np.random.default_rng(1))
    return View(Cluster(world.platform), SessionOptions(site=world.site))


def test_every_attribute_of_the_view_is_listed_and_exists() -> None:
    (engine,) = re.findall(r"^\((.+) are called by the engine\.\)$", SECTION, re.MULTILINE)
    listed = {name for name in rows() if "." not in name} | set(re.findall(r"`(\w+)`", engine))
    assert listed == public(a_view())


def test_every_row_has_type_and_meaning() -> None:
    for name, told in rows().items():
        assert len(told) > 15, name


def test_powers_and_kinds_are_listed_and_exist() -> None:
    told = rows()
    powers = public(PowerModel(a_view().platform)) - {"kind_of", "sleep_pstate", "busy_w", "state_w"}
    assert powers <= set(re.findall(r"`(\w+)", told["power_model"]))
    named = set(re.findall(r"`([a-z]\w+)", told["platform.kinds[k]"])) - {"pstate", "off_pstate", "on_pstate"}
    assert named <= public(FAST)
    assert {"idle_w", "epsilon_w", "full_w", "speeds_flops"} <= named
    assert set(re.findall(r"`([a-z]\w+)`", told["platform"])) <= public(a_view().platform)


def test_the_budget_is_as_told() -> None:
    named = set(re.findall(r"`([a-z]\w+)", rows()["budget"]))
    fields = public(StepBudget) | set(StepBudget.__dataclass_fields__)
    assert named <= fields
    assert fields - named <= {"cluster", "now", "release"}
