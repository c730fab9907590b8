"""`check_policy`: run a policy in many small random worlds, and check all invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from beasy_sched.engine.policy import Policy
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.model.decisions import KillJobs
from beasy_sched.policies.easy import Easy
from beasy_sched.policies.registry import check_class, make_policy, policy_class
from beasy_sched.testing.invariants import check_jobs, check_run
from beasy_sched.testing.witness import BrokenInvariant, require
from beasy_sched.testing.worlds import (
    SmallWorld,
    WorldRun,
    breaking_world,
    failing_world,
    green_world,
    play_world,
    random_world,
    rich_world,
    run_world,
)

MOST_JOBS: Final = 60
"""Most jobs of a world."""
_SORTS: Final = (
    ("plain", random_world, 30),
    ("rich", rich_world, 18),
    ("green", green_world, 24),
    ("failing", failing_world, 18),
    ("breaking", breaking_world, 18),
)
"""Kinds of worlds, in turn: name, generator, number of steps of 60 s."""
_WITHOUT_SITE_EACH: Final = 7
"""Each seventh seed has no site, if the policy does not require one."""
AGAIN: Final = (
    "the same run, repeated, has the same decisions: use only random generators seeded from an option"
)


class PolicyCheckFailed(BeasyError, AssertionError):
    """A run of `check_policy` failed; its cause is the policy's error, or the broken invariant."""

    def __init__(self, message: str, *, seed: int, world: SmallWorld, invariant: str | None) -> None:
        """``invariant`` is None if the run itself failed."""
        super().__init__(message)
        self.seed = seed
        """Seed of the run: ``check_policy(..., runs=1, seed=SEED)`` repeats it."""
        self.world = world
        """World in which the policy failed."""
        self.invariant = invariant
        """Invariant that does not hold; None if the policy failed."""


@dataclass
class PolicyCheck:
    """Summary of the runs of `check_policy`; a policy that never acts breaks no invariant."""

    policy: str
    runs: int = 0
    windows: int = 0
    """Windows of the runs with a site."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of jobs by end state, such as ``finished`` and ``killed``."""
    kill_decisions: int = 0
    """Number of kills by the policy or the guard, including those at the end of a run."""
    of_easy: Counter[str] = field(default_factory=Counter)
    """Number of jobs by end state in the same worlds with `easy`."""

    @property
    def jobs(self) -> int:
        """Number of jobs that were submitted."""
        return sum(self.outcomes.values())

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.runs:,} runs, {self.windows:,} windows, {self.jobs:,} jobs"
            f" ({_ends(self.outcomes)}); all invariants hold\n"
            f"easy in the same worlds: {_ends(self.of_easy)}"
        )


def _ends(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in outcomes.items() if count)


def check_policy(
    policy: type[Policy] | str,
    runs: int = 100,
    seed: int = 0,
    *,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> PolicyCheck:
    """Run a policy in small random worlds, and check all invariants in every run.

    Each seed generates a data centre of 1 to 11 servers of up to four kinds, up to 60 jobs, storage,
    production and a guard setting, in turn with hydrogen, gusts, outages and plans; with a grid, prices,
    forecasts, deadlines and workflows; with servers that repeatedly go out of service; or with servers that
    break while running jobs and fail to wake. One in seven has no site, unless the policy requires one. The
    embedded simulator runs each world twice, and once with `easy` for comparison.

    Args:
        policy: a class, or a name as for ``--policy``.
        runs: number of worlds.
        seed: seed of the first world; the others have the following numbers.
        options: options of the policy.
        progress: called with the share that is done, 0 to 1.

    Returns a summary of the runs. Raises PolicyCheckFailed, which is an AssertionError, for the first run
    in which the policy fails or an invariant does not hold; it names the seed and the invariant. Raises
    ConfigError for invalid options.
    """
    if runs < 1 or seed < 0:
        raise ConfigError(f"found runs={runs}, seed={seed}: expected at least 1 run, and a seed of 0 or more")
    name = policy if isinstance(policy, str) else policy.__qualname__
    make = _maker(policy, options)
    first = make()
    bare_allowed = not (first.needs_power or first.needs_plan)
    given = "" if not options else f", options={dict(options)!r}"
    check = PolicyCheck(name)
    for number, each in enumerate(range(seed, seed + runs), 1):
        sort, draw, steps = _SORTS[each % len(_SORTS)]
        world = draw(np.random.default_rng(each), most_jobs=MOST_JOBS, steps=steps)
        with_site = not (bare_allowed and each % _WITHOUT_SITE_EACH == 0)
        try:
            done = _checked(world, make, with_site=with_site)
        except (ConfigError, InputError, MemoryError):
            raise  # errors in the options, or of the installation
        except Exception as error:
            invariant = error.invariant if isinstance(error, BrokenInvariant) else None
            about = f"a {sort} world of {world.hosts} hosts, {len(world.jobs)} jobs and {steps} steps"
            raise PolicyCheckFailed(
                f"run {number} of {runs}, seed {each} ({about}, {'with' if with_site else 'without'} a site):"
                f" {_described(error)}\nTo repeat it: check_policy({name}, runs=1, seed={each}{given})",
                seed=each,
                world=world,
                invariant=invariant,
            ) from error
        _count(check, world, done)
        check.of_easy.update(play_world(world, Easy, with_site=with_site)[1].session.outcomes.counts())
        if progress is not None:
            progress(number / runs)
    return check


def _maker(policy: type[Policy] | str, options: Mapping[str, Any] | None) -> Callable[[], Policy]:
    """Return a function that creates a policy for each run. Raises ConfigError."""
    kind = policy_class(policy) if isinstance(policy, str) else check_class(policy, repr(policy))
    name = policy if isinstance(policy, str) else kind.__qualname__
    return lambda: make_policy(name, options, kind=kind)


def _checked(world: SmallWorld, make: Callable[[], Policy], *, with_site: bool) -> WorldRun:
    """Run a world twice, and check the first. Raises BrokenInvariant and any error of the run."""
    world, done = play_world(world, make, with_site=with_site)
    if with_site:
        check_run(world, done)
    else:
        check_jobs(world, done)
    again = run_world(world, make(), with_site=with_site)
    pairs = zip(done.decisions, again.decisions, strict=False)
    differs = next((f"{one}, then {other}" for one, other in pairs if one != other), None)
    counts = (len(done.decisions), len(again.decisions))
    require(
        differs is None and counts[0] == counts[1],
        AGAIN,
        differs or f"{counts[0]}, then {counts[1]} decisions",
    )
    return done


def _count(check: PolicyCheck, world: SmallWorld, done: WorldRun) -> None:
    check.runs += 1
    check.windows += world.windows if done.session.power is not None else 0
    check.outcomes.update(done.session.outcomes.counts())
    check.kill_decisions += sum(isinstance(x, KillJobs) for x in done.decisions)


def _described(error: Exception) -> str:
    if isinstance(error, BrokenInvariant):
        return f"invariant broken: {error}"
    return str(error) if isinstance(error, BeasyError) else f"{type(error).__name__}: {error}"
