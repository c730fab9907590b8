"""The smallest size of one part of a site with which a policy reaches a goal: a search over whole runs.

Each probe is a run of a campaign, with the inputs, plan and noise of its point, stored in a folder by the
hash of its scenario: a repeated question, or another goal for the same runs, executes no run twice. Each pair
of tuple and seed is a noise realization with its own smallest size. The result for a policy is the median and
the range over the realizations.

Sizes are rungs of a ladder, numbered from 0. Schedulers are not monotone: with a larger battery, a policy may
start a job that then blocks others. The search therefore relies only on sizes that it has tested: the largest
size first, then a coarse grid, then bisection between the largest size that failed and the next one that did
not, and finally the neighbours of the result. If one of these fails, the search continues above it.
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
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.plugins.campaigns.axes import Axis
from beasy_sched.plugins.campaigns.campaign import Preparation, Progress, Work
from beasy_sched.plugins.campaigns.folder import Folder, must_be_empty, scenario_hash
from beasy_sched.plugins.campaigns.run_inputs import make_folder
from beasy_sched.plugins.campaigns.scenario import GuardPart, PolicyPart, Scenario
from beasy_sched.plugins.campaigns.sweep import Point, RunSpec, at_point
from beasy_sched.plugins.campaigns.workers import Executor

Measure = Literal["work", "jobs"]
Row = Mapping[str, Any]

MEASURES: Final[dict[Measure, str]] = {"work": "work_finished_pct", "jobs": "finished_pct"}
"""Quantities of a goal, and the columns of a run with them."""
NOTE: Final = "size.json"
"""Name of the folder's file that holds the last question asked."""
_MARK_DIGITS: Final = 12


@dataclass(frozen=True)
class Goal:
    """Goal that a run must reach."""

    measure: Measure = "work"
    least_pct: float = 99.0
    """Least share to be finished of the work (flops) or of the jobs submitted, %."""
    of_unlimited: bool = False
    """Whether ``least_pct`` is relative to the same policy and noise seed with unlimited power."""
    no_kills: bool = False
    """Whether no job may be killed by the guard or the policy."""
    end_at_target: bool = False
    """Whether battery and hydrogen must end at or above their targets."""

    def value(self, row: Row) -> float:
        """Share that a run finished, %; NaN for one that failed."""
        measured = row.get(MEASURES[self.measure]) if row["status"] == "ok" else None
        return math.nan if measured is None else float(measured)

    def met(self, row: Row, unlimited_pct: float = 100.0) -> bool:
        """Whether a run reached the goal; an unlimited site finishes ``unlimited_pct``."""
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
    """Question of a search: the policies, the axis, its rungs and the goal."""

    scenario: Scenario
    """Scenario with the policies, tuples and seeds to test, and all other sizes."""
    axis: Axis
    sizes: tuple[float, ...]
    """Rungs of the axis, rising; see `ladder`."""
    goal: Goal
    guard: GuardPart
    years: float | None = None
    """Years of use after which a battery must still suffice; None: until it is replaced."""

    @property
    def noises(self) -> list[tuple[int, int]]:
        """Tuple number and seed of each noise realization."""
        return [(number, seed) for number in range(len(self.scenario.tuples)) for seed in self.scenario.seeds]


@dataclass
class NoiseAnswer:
    """The search for one policy and noise realization, and its result."""

    policy: PolicyPart
    tuple_number: int
    seed: int
    goal: Goal
    probes: dict[int, Row] = field(default_factory=dict)
    """Rows of the tested runs, by rung."""
    unlimited: Row | None = None
    """Row of the run on an unlimited site, if requested."""

    @property
    def unlimited_pct(self) -> float:
        """Share that an unlimited site finishes, %; 100 if no such run was requested."""
        return 100.0 if self.unlimited is None else self.goal.value(self.unlimited)

    @property
    def met(self) -> dict[int, bool]:
        """Whether each tested rung met the goal, by rung."""
        return {rung: self.goal.met(row, self.unlimited_pct) for rung, row in self.probes.items()}

    @property
    def found(self) -> Found:
        """The smallest rung that meets the goal."""
        return found_by(self.met)


@dataclass(frozen=True)
class PolicyAnswer:
    """Result for one policy, over all noise realizations."""

    policy: PolicyPart
    noises: list[NoiseAnswer]
    sizes: tuple[float, ...]

    @property
    def found(self) -> list[float]:
        """The smallest size of each realization, infinite if the largest does not suffice."""
        return [noise.found.size(self.sizes) for noise in self.noises]

    @property
    def median(self) -> float:
        """Median over the realizations; of an even number, the mean of the two in the middle."""
        return float(np.median(self.found))

    @property
    def runs(self) -> int:
        """Number of runs on which the result is based."""
        return sum(len(noise.probes) + (noise.unlimited is not None) for noise in self.noises)


@dataclass(frozen=True)
class SizeAnswer:
    """Results of a search for all policies."""

    question: SizeQuestion
    policies: list[PolicyAnswer]
    executed: int
    """Number of runs that this call executed, without those already in the folder."""
    warnings: Mapping[str, int]


def find_sizes(
    question: SizeQuestion,
    folder: Path,
    executor: Executor,
    *,
    progress: Progress | None = None,
    retry_failed: bool = False,
) -> SizeAnswer:
    """Search for all policies and noise realizations at once, with the runs in ``folder`` and new ones.

    ``executor`` is closed in any case; ``progress`` gets an estimated total. A run that fails does not
    meet the goal; ``retry_failed`` executes such runs again. Raises ConfigError, InputError and MachineError.
    """
    with contextlib.closing(executor):
        place = _begin(question, folder)
        with place.locked():
            work = Work(place, Preparation(place), executor)
            if progress is not None:
                least = _least_runs(question)
                work.progress = lambda done, total: progress(done, max(total, least))
            noises = [
                NoiseAnswer(policy, number, seed, question.goal)
                for policy in question.scenario.policies
                for number, seed in question.noises
            ]
            _Searching(question, place, work, noises, retry_failed).do()
    by_policy = [
        PolicyAnswer(policy, [noise for noise in noises if noise.policy is policy], question.sizes)
        for policy in question.scenario.policies
    ]
    return SizeAnswer(question, by_policy, work.executed, work.warnings)


def _begin(question: SizeQuestion, folder: Path) -> Folder:
    """Create the folder, or check that it is one of searches, and record the question."""
    if not (folder / NOTE).exists():
        must_be_empty(folder, "a search for sizes")
    make_folder(folder)
    asked = {
        "version": __version__, "scenario": question.scenario.name, "axis": question.axis.name,
        "from": question.sizes[0], "to": question.sizes[-1], "goal": question.goal.text,
    }  # fmt: skip
    write_atomic(folder / NOTE, json.dumps(asked, indent=1) + "\n")
    return Folder(folder)


def _least_runs(question: SizeQuestion) -> int:
    """Return the estimated number of runs of the searches, for the progress."""
    each = 7 + math.ceil(math.log2(max(len(question.sizes) / 4, 1))) + question.goal.of_unlimited
    return each * len(question.noises) * len(question.scenario.policies)


@dataclass(frozen=True)
class _Searching:
    """Yield rounds of runs: in each, the next runs of every search."""

    question: SizeQuestion
    folder: Folder
    work: Work
    noises: Sequence[NoiseAnswer]
    retry_failed: bool

    def do(self) -> None:
        count = len(self.question.sizes)
        if self.question.goal.of_unlimited:
            self._run_unlimited(self.noises)
        while wanted := [(noise, rung) for noise in self.noises for rung in next_rungs(count, noise.met)]:
            rows = self._run([self._spec(noise, rung) for noise, rung in wanted])
            for (noise, rung), row in zip(wanted, rows, strict=True):
                noise.probes[rung] = row
        explained = set[str]()  # one realization of each policy shows the limiting factor
        for noise in self.noises:
            if not noise.met[count - 1] and noise.policy.label not in explained:
                explained.add(noise.policy.label)
                self._run_unlimited([noise])

    def _run_unlimited(self, noises: Sequence[NoiseAnswer]) -> None:
        top = len(self.question.sizes) - 1
        rows = self._run([self._spec(noise, top, unlimited=True) for noise in noises])
        for noise, row in zip(noises, rows, strict=True):
            noise.unlimited = row

    def _run(self, specs: Sequence[RunSpec]) -> list[Row]:
        self.work.run(specs, retry_failed=self.retry_failed)
        ended = (self.folder.ended(spec.key) for spec in specs)
        return [each.row for each in ended if each is not None]

    def _spec(self, noise: NoiseAnswer, rung: int, *, unlimited: bool = False) -> RunSpec:
        """Return a run in a scenario that contains only this run, and is identified by its hash."""
        question = self.question
        point: Point = ((question.axis.name, question.sizes[rung]),)
        scenario = at_point(question.scenario, point)
        if unlimited:
            scenario = unlimited_site(scenario)
        alone = msgspec.structs.replace(
            scenario, policies=(noise.policy,), guards=(question.guard,), seeds=(noise.seed,)
        )
        mark = scenario_hash(alone)[:_MARK_DIGITS]
        return RunSpec(alone, noise.tuple_number, noise.seed, question.guard, noise.policy, point, mark)


def unlimited_site(scenario: Scenario) -> Scenario:
    """Return the scenario with an unlimited grid, under a separate name."""
    grid = {**scenario.site.get("grid", {})}
    grid.pop("import_limit_kw", None)
    site = {**scenario.site, "grid": grid}
    return msgspec.structs.replace(scenario, name=f"{scenario.name}-unlimited", site=site)


_COARSE: Final = 4
"""Number of parts into which the ladder is divided at first."""
_NEIGHBOURS: Final = 2
"""Number of rungs tested on either side of the result."""
_MOST_RUNGS: Final = 100_000
_DIGITS: Final = 4


def ladder(least: float, most: float, resolution_pct: float, *, whole: bool = False) -> tuple[float, ...]:
    """Return sizes from ``least`` to ``most``, each about ``resolution_pct`` % above the one before.

    They have four significant digits, except for the two ends; with ``whole``, they are integers. Raises
    ConfigError.
    """
    if not 0 < least <= most < math.inf:
        raise ConfigError(
            f"--from {least:g} --to {most:g}: expected two sizes above 0, the smaller one first"
        )
    if not 0 < resolution_pct <= 100:
        raise ConfigError(f"resolution: found {resolution_pct:g} %, expected above 0 and at most 100 %")
    parts = math.ceil(math.log(most / least) / math.log1p(resolution_pct / 100.0) - 1e-9)
    if parts >= _MOST_RUNGS:
        raise ConfigError(
            f"too many sizes ({parts + 1:,}, at most {_MOST_RUNGS:,}): use a coarser --resolution"
        )
    between = (least * (most / least) ** (part / parts) for part in range(1, parts))
    rounded = (round(size) if whole else float(f"{size:.{_DIGITS}g}") for size in between)
    inside = {size for size in rounded if least < size < most}
    return tuple(sorted({float(least), float(most), *map(float, inside)}))


def next_rungs(count: int, met: Mapping[int, bool]) -> list[int]:
    """Return the next of ``count`` rungs to test, given which of them met the goal; empty at the end."""
    last = count - 1
    if last not in met:
        return [last]
    if not met[last]:
        return []
    coarse = sorted({last * part // _COARSE for part in range(_COARSE)})
    if missing := [rung for rung in coarse if rung not in met]:
        return missing
    failed = max((rung for rung, good in met.items() if not good), default=-1)
    reached = min(rung for rung, good in met.items() if good and rung > failed)
    if reached - failed > 1:
        return [(failed + reached) // 2]
    near = (*range(failed - _NEIGHBOURS, failed), *range(reached + 1, reached + 1 + _NEIGHBOURS))
    return [rung for rung in near if 0 <= rung < count and rung not in met]


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    rung: int | None
    """Smallest rung from which all tested rungs met the goal; None if the largest did not."""
    met_below: tuple[int, ...]
    """Rungs below ``rung`` that met the goal, although a rung between them and ``rung`` did not."""
    failed_above: tuple[int, ...]
    """Rungs that did not meet the goal, although a smaller rung did."""

    def size(self, sizes: Sequence[float]) -> float:
        """The smallest size that meets the goal, infinite if the largest does not suffice."""
        return math.inf if self.rung is None else sizes[self.rung]

    @property
    def monotone(self) -> bool:
        """Whether no rung failed above one that met the goal."""
        return not self.failed_above


def found_by(met: Mapping[int, bool]) -> Found:
    """Return the result after `next_rungs` returns no more rungs."""
    failed = max((rung for rung, good in met.items() if not good), default=-1)
    good = sorted(rung for rung, value in met.items() if value)
    above = [rung for rung in good if rung > failed]
    bad = sorted(rung for rung, value in met.items() if not value)
    return Found(
        above[0] if above else None,
        tuple(rung for rung in good if rung < failed),
        tuple(rung for rung in bad if good and rung > good[0]),
    )
