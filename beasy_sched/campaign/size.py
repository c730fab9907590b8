"""The smallest size of one part of a site with which a policy reaches a goal: a search over whole runs.

Each probe is a run of a campaign, with inputs, plan and noise of its own point, and is kept in a folder by
the hash of its scenario: the same question again, or another goal for the same runs, executes nothing twice.
Each pair of tuple and seed is a *noise*; it has a smallest size of its own, found as `size_search` says. What
is told of a policy is the median and the range over the noises.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.campaign.campaign import Preparation, Progress, Work
from beasy_sched.campaign.folder import Folder, must_be_empty, scenario_hash
from beasy_sched.campaign.inputs import make_folder
from beasy_sched.campaign.runs import RunSpec
from beasy_sched.campaign.scenario import GuardPart, PolicyPart, Scenario
from beasy_sched.campaign.size_search import Found, found_by, next_rungs
from beasy_sched.campaign.sweep import Axis, Point, at_point
from beasy_sched.campaign.workers import Executor
from beasy_sched.formats.atomic import write_atomic

Measure = Literal["work", "jobs"]
Row = Mapping[str, Any]

MEASURES: Final[dict[Measure, str]] = {"work": "work_finished_pct", "jobs": "finished_pct"}
"""What a goal is about, and the column of a run that has it."""
NOTE: Final = "size.json"
"""File of the folder: what was asked last."""
_MARK_DIGITS: Final = 12


@dataclass(frozen=True)
class Goal:
    """What a run must reach."""

    measure: Measure = "work"
    least_pct: float = 99.0
    """Of the work (flops), or of the jobs, that are submitted."""
    of_unlimited: bool = False
    """Of what the same policy finishes in the same noise where power is unlimited, instead."""
    no_kills: bool = False
    """No job may be killed by the guard or the policy."""
    end_at_target: bool = False
    """The battery, and the hydrogen, may not end below their targets."""

    def value(self, row: Row) -> float:
        """What a run finished, %; NaN for one that failed."""
        found = row.get(MEASURES[self.measure]) if row["status"] == "ok" else None
        return math.nan if found is None else float(found)

    def met(self, row: Row, unlimited_pct: float = 100.0) -> bool:
        """Whether a run reached it; ``unlimited_pct`` is what an unlimited site does."""
        wanted = self.least_pct * (unlimited_pct / 100.0 if self.of_unlimited else 1.0)
        below = [row.get(name) for name in ("soc_distance_points", "hydrogen_distance_kg")]
        return (
            self.value(row) >= wanted - _ROUNDING
            and not (self.no_kills and row["jobs_killed"])
            and not (self.end_at_target and any(far is not None and far < -_ROUNDING for far in below))
        )

    @property
    def text(self) -> str:
        """``99 % of the work is finished, no job is killed``."""
        verb = "is" if self.measure == "work" else "are"
        whose = " that unlimited power finishes" if self.of_unlimited else ""
        first = f"{self.least_pct:g} % of the {self.measure}{whose} {verb} finished"
        kills = ["no job is killed"] if self.no_kills else []
        return ", ".join(
            [first, *kills, *(["the storages end at their targets"] if self.end_at_target else [])]
        )


_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class SizeQuestion:
    """What is asked for."""

    scenario: Scenario
    """Its policies, tuples and seeds are those that are tried, its other sizes are given."""
    axis: Axis
    sizes: tuple[float, ...]
    """Rungs, rising; see `size_search.ladder`."""
    goal: Goal
    guard: GuardPart

    @property
    def noises(self) -> list[tuple[int, int]]:
        """Tuple and seed of each."""
        return [(number, seed) for number in range(len(self.scenario.tuples)) for seed in self.scenario.seeds]


@dataclass(frozen=True)
class NoiseAnswer:
    """The smallest size in one noise."""

    tuple_number: int
    seed: int
    found: Found
    probes: dict[int, Row]
    """Rows of the runs, by rung."""
    unlimited: Row | None = None
    """That of an unlimited site, where it was asked for."""


@dataclass(frozen=True)
class PolicyAnswer:
    """What came out for a policy."""

    policy: PolicyPart
    noises: list[NoiseAnswer]
    sizes: tuple[float, ...]

    @property
    def found(self) -> list[float]:
        """The smallest size of each noise, infinite where the largest does not suffice."""
        rungs = [noise.found.rung for noise in self.noises]
        return [math.inf if rung is None else self.sizes[rung] for rung in rungs]

    @property
    def median(self) -> float:
        """Median over the noises; of an even number, the mean of the two in the middle."""
        return float(np.median(self.found))

    @property
    def runs(self) -> int:
        """Number of runs that the answer rests on."""
        return sum(len(noise.probes) + (noise.unlimited is not None) for noise in self.noises)


@dataclass(frozen=True)
class SizeAnswer:
    """All policies' answers."""

    question: SizeQuestion
    policies: list[PolicyAnswer]
    executed: int
    """Runs that this call executed; the others were there."""
    warnings: Mapping[str, int]


@dataclass
class _Search:
    """The search of one policy in one noise."""

    policy: PolicyPart
    tuple_number: int
    seed: int
    probes: dict[int, Row] = field(default_factory=dict)
    unlimited: Row | None = None

    def met(self, goal: Goal) -> dict[int, bool]:
        base = 100.0 if self.unlimited is None or not goal.of_unlimited else goal.value(self.unlimited)
        return {rung: goal.met(row, base) for rung, row in self.probes.items()}


def find_sizes(
    question: SizeQuestion,
    folder: Path,
    executor: Executor,
    *,
    progress: Progress | None = None,
    retry_failed: bool = False,
) -> SizeAnswer:
    """Search for all policies and noises at once, with the runs that ``folder`` has and new ones.

    ``executor`` is closed in any case; ``progress`` hears of an estimated total. A run that fails does not
    meet the goal; ``retry_failed`` executes such runs again. Raises ConfigError, InputError and MachineError.
    """
    with contextlib.closing(executor):
        place = _begin(question, folder)
        with place.locked():
            work = Work(place, Preparation(place), executor)
            if progress is not None:
                least = _least_runs(question)
                work.progress = lambda done, known: progress(done, max(known, least))
            searches = [
                _Search(policy, number, seed)
                for policy in question.scenario.policies
                for number, seed in question.noises
            ]
            _Searching(question, place, work, searches, retry_failed).do()
    by_policy = [
        PolicyAnswer(
            policy,
            [_answer(each, question.goal) for each in searches if each.policy is policy],
            question.sizes,
        )
        for policy in question.scenario.policies
    ]
    return SizeAnswer(question, by_policy, work.executed, work.warnings)


def _begin(question: SizeQuestion, folder: Path) -> Folder:
    """Make the folder, or see that it is one of searches, and note what is asked."""
    if not (folder / NOTE).exists():
        must_be_empty(folder, "that of a search for sizes")
    make_folder(folder)
    asked = {
        "version": __version__, "scenario": question.scenario.name, "axis": question.axis.name,
        "from": question.sizes[0], "to": question.sizes[-1], "goal": question.goal.text,
    }  # fmt: skip
    write_atomic(folder / NOTE, json.dumps(asked, indent=1) + "\n")
    return Folder(folder)


def _least_runs(question: SizeQuestion) -> int:
    """About how many runs the searches take, for the progress."""
    each = 7 + math.ceil(math.log2(max(len(question.sizes) / 4, 1))) + question.goal.of_unlimited
    return each * len(question.noises) * len(question.scenario.policies)


@dataclass(frozen=True)
class _Searching:
    """Rounds of runs: in each, what every search wants next."""

    question: SizeQuestion
    folder: Folder
    work: Work
    searches: Sequence[_Search]
    retry_failed: bool

    def do(self) -> None:
        goal, count = self.question.goal, len(self.question.sizes)
        if goal.of_unlimited:
            self._run_unlimited(self.searches)
        while wanted := [
            (search, rung) for search in self.searches for rung in next_rungs(count, search.met(goal))
        ]:
            rows = self._run([self._spec(search, rung) for search, rung in wanted])
            for (search, rung), row in zip(wanted, rows, strict=True):
                search.probes[rung] = row
        told = set[str]()  # one noise of each policy tells what limits it
        for search in self.searches:
            if not search.met(goal)[count - 1] and search.policy.label not in told:
                told.add(search.policy.label)
                self._run_unlimited([search])

    def _run_unlimited(self, searches: Sequence[_Search]) -> None:
        top = len(self.question.sizes) - 1
        rows = self._run([self._spec(search, top, unlimited=True) for search in searches])
        for search, row in zip(searches, rows, strict=True):
            search.unlimited = row

    def _run(self, specs: Sequence[RunSpec]) -> list[Row]:
        self.work.run(specs, retry_failed=self.retry_failed)
        ended = (self.folder.ended(spec.key) for spec in specs)
        return [each.row for each in ended if each is not None]

    def _spec(self, search: _Search, rung: int, *, unlimited: bool = False) -> RunSpec:
        """A run, in a scenario that has nothing but it, by whose hash it is known."""
        question = self.question
        point: Point = ((question.axis.name, question.sizes[rung]),)
        scenario = at_point(question.scenario, point)
        if unlimited:
            scenario = unlimited_site(scenario)
        alone = msgspec.structs.replace(
            scenario, policies=(search.policy,), guards=(question.guard,), seeds=(search.seed,)
        )
        mark = scenario_hash(alone)[:_MARK_DIGITS]
        return RunSpec(alone, search.tuple_number, search.seed, question.guard, search.policy, point, mark)


def unlimited_site(scenario: Scenario) -> Scenario:
    """Return the scenario with a grid that gives all that is asked for, under a name of its own."""
    grid = {**scenario.site.get("grid", {})}
    grid.pop("import_limit_kw", None)
    site = {**scenario.site, "grid": grid}
    return msgspec.structs.replace(scenario, name=f"{scenario.name}-unlimited", site=site)


def _answer(search: _Search, goal: Goal) -> NoiseAnswer:
    return NoiseAnswer(
        search.tuple_number, search.seed, found_by(search.met(goal)), search.probes, search.unlimited
    )
