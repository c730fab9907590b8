"""docs/guides/own-policies.md names all of the view, whose docstrings say what each attribute is."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import numpy as np
from worlds import random_world

from beasy_sched.engine import SessionOptions
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster

PAGE = (Path(__file__).parents[2] / "docs/guides/own-policies.md").read_text("utf-8")
SECTION, _, ENERGY = (
    PAGE.partition("## The view")[2].partition("\n## ")[0].partition("### Energy of the current step")
)
LISTS = SECTION.partition("A `Job` has")[0]


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def a_view() -> View:
    world = random_world(np.random.default_rng(1))
    return View(Cluster(world.platform), SessionOptions(site=world.site))


def test_every_attribute_of_the_view_is_named_and_exists() -> None:
    assert set(re.findall(r"`(\w+)`", LISTS)) - {"View"} == public(a_view())


def test_every_attribute_of_the_view_is_explained() -> None:
    """By a docstring of its own: after its assignment, or of its method."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(View.__init__))).body
    assert isinstance(made, ast.FunctionDef)
    told = set()
    for statement, after in zip(made.body, made.body[1:], strict=False):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
            told |= {target.attr for target in targets if isinstance(target, ast.Attribute)}
    told |= {name for name in public(View) if (getattr(View, name).__doc__ or "").rstrip().endswith(".")}
    assert public(a_view()) <= told


def test_the_budget_is_as_told() -> None:
    named = set(re.findall(r"`([a-z]+_\w+)", ENERGY.partition("\n### ")[0]))
    assert {"supply_j", "grant_start", "grant_wakes"} <= named
    assert named <= public(StepBudget) | set(StepBudget.__dataclass_fields__)
