"""Policies carry the words for their rules; a policy of one's own hands them on in the run's summary."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from command_line import exit_code
from effort import examples
from small_site import SmallSite, small_site
from worlds import green_world, rich_world
from worlds import run as run_world

from beasy_sched.engine.policy import PolicyCaller
from beasy_sched.engine.session_words import ENGINE_WORDS, Rule, words_of
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.policies import (
    Action,
    Compensate,
    HostSet,
    Kill,
    Policy,
    Postpone,
    Reject,
    Sentences,
    SetPState,
    Start,
    View,
    Words,
)
from beasy_sched.policies.easy import EASY_WORDS, HEAD, Easy
from beasy_sched.policies.registry import built_in, policy_class

REST_S = 600.0


class Rested(Policy):
    """Starts no job before it has waited for ten minutes, and refuses those of more than four servers."""

    name = "rested"
    words: ClassVar[Sentences] = {
        ("start", "rested"): Words("It had rested for {waited_s}[; {hosts_free:host} free]."),
        ("postpone", "rests"): Words("It rests until {rests_until_s}.", of_jobs="rested"),
        ("reject", "too wide"): Words(of_jobs="are too wide"),
    }

    def schedule(self, view: View) -> list[Action]:
        """Start what has rested."""
        actions: list[Action] = []
        free = view.free_mask().nonzero()[0].tolist()
        for job in view.queue:
            if job.res > 4:
                actions.append(Reject(job, "too wide"))
            elif view.now < (until_s := job.subtime_s + REST_S):
                actions.append(Postpone(job, "rests", {"rests_until_s": until_s}))
            elif job.res <= len(free):
                hosts, free = free[: job.res], free[job.res :]
                facts = {"waited_s": view.now - job.subtime_s, "hosts_free": len(free)}
                actions.append(Start(job, HostSet.of(hosts), "rested", facts))
        return actions


class Hurried(Easy):
    """EASY under another name."""

    name = "hurried"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    return small_site(tmp_path_factory.mktemp("words"), jobs=40)


def run(site: SmallSite, prefix: Path, policy: str) -> str:
    arguments = ("-p", site.platform, "-w", site.workload, "--policy", policy, "-o", prefix)
    assert exit_code("simulate", *map(str, arguments)) in (0, 1)  # the last jobs may not have rested
    return str(prefix)


@pytest.mark.plugins("reports")
def test_explain_and_the_table_tell_the_rules_of_a_policy_of_ones_own(
    site: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = run(site, tmp_path / "run", f"{__name__}:Rested")
    table = capsys.readouterr().out
    assert "    are too wide" in table
    summary = read_summary(prefix)
    assert summary.words is not None
    assert summary.words["postpone"] == {"rests": tuple(Rested.words["postpone", "rests"])}
    started = next(
        line
        for line in map(json.loads, Path(f"{prefix}_decisions.jsonl").read_text().splitlines())
        if line["action"] == "start"
    )
    assert exit_code("explain", prefix, "--job", started["job"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "It rests until " in told
    assert "It had rested for " in told
    assert exit_code("explain", prefix) == 0
    assert "are too wide (" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("policy", ["easy", f"{__name__}:Hurried"])
def test_a_summary_has_no_words_that_the_program_knows(site: SmallSite, tmp_path: Path, policy: str) -> None:
    prefix = run(site, tmp_path / "run", policy)
    assert "words" not in json.loads(Path(f"{prefix}_summary.json").read_text())
    assert Hurried.words == Easy.words
    assert EASY_WORDS.items() < Easy.words.items()


@pytest.mark.parametrize("name", built_in())
def test_policies_leave_the_rules_of_the_engine_to_it(name: str) -> None:
    own = policy_class(name).words
    assert own
    assert not own.keys() & ENGINE_WORDS.keys()
    for (done, rule), words in own.items():
        assert words.sentence, (done, rule)
        assert bool(words.of_jobs) == (done in ("postpone", "kill", "reject")), (done, rule)


DONE = {
    Start: "start",
    Kill: "kill",
    Reject: "reject",
    Postpone: "postpone",
    SetPState: "P-state",
    Compensate: "compensate",
}


@pytest.mark.parametrize("name", built_in())
def test_built_in_policies_give_declared_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = PolicyCaller._checked
    given: set[str] = set()

    def checked(self: PolicyCaller, method: str, now: float, given_now: Iterable[Action]) -> Sequence[Action]:
        actions = check(self, method, now, given_now)
        for action in actions:
            if type(action) in DONE:
                assert isinstance(action.rule, Rule), action
                assert action.rule.done == DONE[type(action)], action
                given.add(action.rule)
        return actions

    monkeypatch.setattr(PolicyCaller, "_checked", checked)
    for draw, steps in ((rich_world, 18), (green_world, 24)):
        for seed in range(examples(3)):
            run_world(draw(np.random.default_rng(seed), most_jobs=40, steps=steps), name)
    assert len(given) > 1


def declared() -> Iterator[Rule]:
    """The rules that are named in any module of the package."""
    for name in built_in():
        policy_class(name)
    for name, module in sorted(sys.modules.items()):
        if name.startswith("beasy_sched."):
            yield from (each for each in vars(module).values() if isinstance(each, Rule))


def test_each_rule_is_declared_once_and_explained() -> None:
    explained = ENGINE_WORDS.keys() | {key for name in built_in() for key in policy_class(name).words}
    rules = {id(rule): rule for rule in declared()}
    assert len(rules) > 40
    keys = [(rule.done, str(rule)) for rule in rules.values()]
    assert len({*keys}) == len(keys)
    assert not {*keys} - explained


def test_two_rules_of_one_action_have_different_texts() -> None:
    with pytest.raises(ValueError, match="the same text"):
        words_of(HEAD, Rule("start", HEAD, Words("Twice.")))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda rule: pickle.loads(pickle.dumps(rule))])
def test_a_rule_is_its_text_and_can_be_copied(again) -> None:
    found = again(HEAD)
    assert (found, found.done, found.words) == ("head of the queue", "start", HEAD.words)
    assert json.dumps({found: found}) == '{"head of the queue": "head of the queue"}'
