"""`check_policy` finds what is wrong with a policy, names it, and lets it be repeated."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.policies import Action, Kill, Policy, Start, View
from beasy_sched.policies.easy import Easy
from beasy_sched.policies.registry import built_in
from beasy_sched.testing import PolicyCheckFailed, check_policy
from beasy_sched.testing.invariants import FINISHED, FLOOR, UNSERVED


class Careful(Policy):
    """In turn, within the energy of the step."""

    asks = True

    def schedule(self, view: View) -> Sequence[Action]:
        free, actions = view.free_mask(), []
        for job in view.queue:
            hosts = view.fastest(free, job.res)
            if len(hosts) < job.res:
                continue
            if self.asks and view.budget is not None and not view.budget.grant_start(hosts.ids):
                continue
            free[hosts.ids] = False
            actions.append(Start(job, hosts, "in turn"))
        return actions


class Careless(Careful):
    asks = False


class Crashing(Careful):
    def schedule(self, view: View) -> Sequence[Action]:
        return super().schedule(view) if view.now < 100 else [1 / 0]  # type: ignore[list-item]


class Idle(Policy):
    def schedule(self, view: View) -> Sequence[Action]:
        return ()


class Fickle(Careful):
    def schedule(self, view: View) -> Sequence[Action]:
        return super().schedule(view) if random.random() < 0.5 else ()


class Impatient(Careful):
    """Kills what runs for longer than 100 s: that is allowed."""

    def schedule(self, view: View) -> Sequence[Action]:
        kills = [Kill(job, "too long") for job in view.running.values() if view.now > job.start_s + 100]
        return [*super().schedule(view), *kills]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", [Careful, Impatient])
def test_what_is_right_passes(policy: type[Policy]) -> None:
    shares: list[float] = []
    check = check_policy(policy, runs=12, progress=shares.append)
    assert check.runs == 12
    assert check.windows >= 10  # two of the seeds have no site
    assert check.outcomes["finished"] > 10
    assert check.jobs == sum(check.outcomes.values()) > 100
    assert shares[-1] == 1.0
    assert str(check).startswith(f"{policy.__name__}: 12 runs, {check.windows} windows, {check.jobs} jobs (")
    assert str(check).splitlines()[1].startswith("easy in the same worlds: ")
    assert sum(check.of_easy.values()) == check.jobs
    if policy is Impatient:
        assert check.kill_decisions > 10
        assert check.of_easy["finished"] > check.outcomes["finished"]


@pytest.mark.slow
def test_easy_is_its_own_measure() -> None:
    check = check_policy("easy", runs=6)
    assert check.of_easy == check.outcomes


@pytest.mark.parametrize(
    ("policy", "invariants"),
    [(Careless, (FLOOR, UNSERVED)), (Idle, (FINISHED,))],
)
def test_what_is_wrong_is_named_and_can_be_repeated(
    policy: type[Policy], invariants: tuple[str, ...]
) -> None:
    with pytest.raises(PolicyCheckFailed) as caught:
        check_policy(policy, runs=30)
    error = caught.value
    assert error.invariant in invariants
    assert isinstance(error, AssertionError)
    assert f"seed {error.seed} (" in str(error)
    assert f"invariant broken: {error.invariant}: found " in str(error)
    assert str(error).endswith(f"To repeat it: check_policy({policy.__name__}, runs=1, seed={error.seed})")
    with pytest.raises(PolicyCheckFailed) as again:
        check_policy(policy, runs=1, seed=error.seed)
    assert str(again.value).partition("seed")[2] == str(error).partition("seed")[2]
    assert again.value.world == error.world


def test_chance_without_a_seed_is_found() -> None:
    random.seed(1)
    with pytest.raises(PolicyCheckFailed, match="the same run, repeated, has the same decisions"):
        check_policy(Fickle, runs=5)


def test_an_exception_is_the_cause() -> None:
    with pytest.raises(PolicyCheckFailed, match=r"ZeroDivisionError.*test_check_policy\.py:\d+\)") as caught:
        check_policy(Crashing, runs=5)
    assert caught.value.invariant is None
    policy_error = caught.value.__cause__
    assert policy_error is not None
    assert isinstance(policy_error.__cause__, ZeroDivisionError)


def test_policies_are_named_or_given_and_have_options() -> None:
    assert check_policy("fcfs", runs=2).policy == "fcfs"
    assert check_policy(Easy, runs=2, options={"priority": "arrival"}).runs == 2
    with pytest.raises(ConfigError, match="expected one of priority"):
        check_policy(Easy, options={"colour": "red"})
    with pytest.raises(ConfigError, match="unknown policy 'nobody'"):
        check_policy("nobody")
    with pytest.raises(ConfigError, match="is not a subclass of"):
        check_policy(int)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected at least 1 run"):
        check_policy(Easy, runs=0)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["beasy", "power-reactive", "conventional"])
def test_policies_of_ours_pass(name: str) -> None:
    assert name in built_in()
    assert check_policy(name, runs=4, seed=7).runs == 4


@pytest.mark.slow
def test_it_needs_no_test_framework() -> None:
    code = (
        "import sys; from beasy_sched.testing import check_policy; check_policy('fcfs', runs=3);"
        "print([m for m in ('pytest', 'hypothesis', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
