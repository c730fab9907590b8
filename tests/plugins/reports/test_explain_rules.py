"""Every rule that a policy names has its sentence, and every fact that a sentence asks for is there."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from worlds import (
    DEFAULT_SLOTS,
    SLOT_POLICIES,
    World,
    WorldJob,
    complete_world,
    green_world,
    policy_of,
    random_world,
    rich_world,
    world_plans,
)

import beasy_sched
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.policy import Policy
from beasy_sched.engine.session import RUNS, WITHDRAWN
from beasy_sched.engine.session_words import ENGINE_WORDS, NOT_STARTED, STARTED_BY_OTHERS, STILL_WAITING
from beasy_sched.model.choices import Placement
from beasy_sched.plugins.reports.explain_rules import in_short, sentence
from beasy_sched.policies.offered_easy import OfferedEasy
from beasy_sched.policies.registry import built_in, make_policy, policy_class
from beasy_sched.testing.grids import WorldGrid, forecast_of

SEEDS = range(30)
ALL = [ENGINE_WORDS, *(policy_class(name).words for name in built_in())]
RULES = {key for told in ALL for key, words in told.items() if words.sentence and key[0] != "plan"}
"""What was done, and the rule, wherever there is a sentence for it; not those of plans."""


class Listener:
    """Hears every line of the decision log."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, dict[str, object]]] = []

    def log(
        self, time_s: float, action: str, job: str, hosts: str, rule: str, facts: dict[str, object]
    ) -> None:
        self.heard.append((action, rule, dict(facts)))


BUDGET = '{"budget": 0.4, "period_end": 600, "shutdown": "opportunistic"}'
CASES = [
    *((policy, "{}") for policy in built_in()),
    ("beasy", '{"risk": 0.05}'),
    ("beasy", '{"long_jobs": "set-aside"}'),
    ("energybud", BUDGET),
    ("energybud", BUDGET.replace("}", ', "reservation": "strict"}')),
    ("powercap", BUDGET),
]


NEVER_THERE = World(
    fast=2,
    slow=0,
    jobs=(WorldJob(0.0, 2, 60.0, 30.0), WorldJob(200.0, 2, 60.0, 30.0)),
    production_w=(300.0,) * 12,
    start_pstates=(2, 2),
    failing_wakes=((0.0, 100.0, "0"),),
    breakdowns=((100.0, 101.0, "1"),),
    retry_s=1.0,
)
"""A server is given up after ten failures, and another one goes out of service and comes back."""

QUIET = World(
    fast=1,
    slow=0,
    jobs=(
        WorldJob(0.0, 1, 60.0, 50.0, members=(("deadline_s", 300.0),)),
        WorldJob(240.0, 1, 60.0, 50.0, members=(("deadline_s", 480.0),)),
        WorldJob(0.0, 1, 60.0, 50.0, members=(("phase", -1),)),
    ),
    production_w=(0.0, 0.0, 200.0, 200.0, *[0.0] * 7, 200.0),
    predicted_w=(0.0, 200.0, 0.0, 0.0, 0.0, 200.0),
    grid=WorldGrid(),
    capacity_j=0.0,
)
"""One server, free energy, and nothing happens before the first job starts in the sun, the second as late as
it can; the third is refused."""


LATE = World(
    fast=0,
    slow=0,
    geared=2,
    jobs=(WorldJob(390.0, 1, 300.0, 180.0),),
    production_w=(60.0,) * 12,
)
"""A job that ends before the run does only if its server runs at full speed, for which energy is too scarce
otherwise."""


def worlds_for(policy: str) -> list[World]:
    """The worlds in which the policy shall say all that it can."""
    if policy in SLOT_POLICIES:
        worlds = [green_world(np.random.default_rng(seed)) for seed in SEEDS]
        priced = [
            complete_world(np.random.default_rng(seed)) for seed in SEEDS
        ]  # in which peaks have a price
        return [QUIET, *worlds, *(world for world in priced if world.grid and world.grid.peak_per_kw)]
    draws = (random_world, rich_world)
    if policy == "workload-reactive":
        worlds = [draws[seed % 2](np.random.default_rng(seed)) for seed in SEEDS]
        return [NEVER_THERE, *worlds]
    if policy == "bid-price":  # which has reasons to change speeds
        return [LATE, *(draws[seed % 2](np.random.default_rng(seed)).but(geared=3) for seed in SEEDS)]
    return [draws[seed % 2](np.random.default_rng(seed)) for seed in SEEDS]


@cache
def heard(policy: str, options: str) -> list[tuple[str, str, dict[str, object]]]:
    """What the policy says in all of the worlds."""
    listener = Listener()
    for world in worlds_for(policy):
        slots = DEFAULT_SLOTS if world is QUIET else None
        for placement in (Placement.OWN, Placement.EXTERNAL)[: 2 if policy_class(policy).can_offer else 1]:
            own = policy_of(world, policy, slots)
            decider = make_policy(policy, json.loads(options)) if options != "{}" else own
            world.simulation().run(listening(decider, world, listener, placement).step)
    return listener.heard


def listening(decider: Policy, world: World, listener: Listener, placement: Placement) -> Session:
    """A session whose decision log is heard; with external placement, an EASY scheduler places the jobs."""
    options = SessionOptions(
        site=world.site,
        plans=world_plans(world) if decider.needs_plan else None,
        forecast=forecast_of(world),
        windows=world.windows,
        energy=world.energy,
        retry_s=world.retry_s,
        placement=placement,
        placer=OfferedEasy() if placement is Placement.EXTERNAL else None,
    )
    return Session(decider, options, listener.log)


@pytest.mark.sampled
@pytest.mark.parametrize(("policy", "options"), CASES)
def test_every_rule_has_a_sentence_and_every_sentence_its_facts(policy: str, options: str) -> None:
    assert heard(policy, options)
    own = ENGINE_WORDS | policy_class(policy).words
    for action, rule, facts in heard(policy, options):
        assert own[action.partition(" ")[0], rule].sentence, (action, rule, facts)
        words = sentence(action, rule, facts)
        assert re.fullmatch(r"[A-Z\d][^\[\]{}?]*[.]", words), (action, rule, facts, words)


FORECASTS = {
    (
        "forecast",
        "forecast in use",
    ): "The forecast of --forecast (f.csv) took effect; it was issued 2 h 00 min before.",
    ("forecast", "forecast stale"): "The forecast of --forecast (f.csv) was too old: it was issued 2 h 00 min"
    " before.",
    ("forecast", "forecast ends too early"): "The forecast of --forecast (f.csv) ended before the window.",
    (
        "forecast",
        "older forecast not used",
    ): "A forecast of --forecast (f.csv) was read that is older than the one in use, and was not used.",
    (
        "forecast",
        "forecast not renewed",
    ): "The forecast of --forecast (f.csv) could not be read; the one before stayed in use.",
}


@pytest.mark.slow
@pytest.mark.plugins("greenslot", "energy_budget", "learned")
def test_every_sentence_is_of_a_rule_that_some_policy_names() -> None:
    """No sentence is left over from a rule that is gone. (The test above looks from the other side.)"""
    said = {(action.partition(" ")[0], rule) for case in CASES for action, rule, _ in heard(*case)}
    no_hosts = ("reject", "asks for no host")  # Batsim 5 may send such a job; no job of these worlds is one
    assert sentence(*no_hosts, {"hosts_asked": 0}) == ENGINE_WORDS[no_hosts].sentence
    withdrawn = ("reject", WITHDRAWN)  # only a real cluster says so
    told = "It was cancelled by its user or an administrator after 5 s of waiting."
    assert sentence(*withdrawn, {"waited_s": 5.0}) == told
    runs = ("start", RUNS)  # so does this
    assert sentence(*runs, {}) == "It was already running when this run started."
    waiting = ("waiting", STILL_WAITING)  # and this, runs that end early
    assert sentence(*waiting, {"waited_s": 5.0}).endswith("ended early, after 5 s of waiting.")
    others = ("start", STARTED_BY_OTHERS)  # and this
    assert sentence(*others, {"waited_s": 5.0}).endswith("started it, after 5 s of waiting.")
    forecasts = dict(FORECASTS)  # and these, forecasts that are renewed while the run follows the clock
    facts = {"option": "--forecast", "source": "f.csv", "age_s": 7200.0}
    assert {key: sentence(*key, facts) for key in forecasts} == forecasts
    again = ("restart", "submitted again")  # and this, runs whose killed jobs come back
    told = "1 h 00 min of its work were saved, and 10 min are done again: it came back as w0!1#2."
    assert sentence(*again, {"saved_s": 3600.0, "redone_s": 600.0, "life": "w0!1#2"}) == told
    suspended = ("P-state", "idle for the external scheduler's time")  # and this, runs with --suspend
    assert sentence(*suspended, {"idle_s": 600.0}).startswith("They have been idle for 10 min")
    not_started = ("kill", NOT_STARTED)  # only a real cluster refuses starts
    assert sentence(*not_started, {"reason": "QOS limit"}).startswith(
        "The cluster did not start it (QOS limit)"
    )
    elsewhere = {no_hosts, withdrawn, runs, waiting, not_started, others, again, suspended, *forecasts}
    assert said | elsewhere == RULES


def test_no_rule_is_only_declared() -> None:
    """A rule with words that no code gives is left over: the fast half of the test above."""
    texts = [path.read_text("utf-8") for path in Path(beasy_sched.__file__).parent.rglob("*.py")]
    declared = {
        name for text in texts for name in re.findall(r"^(\w+)(?:: Final)? = Rule\(", text, re.MULTILINE)
    }
    assert len(declared) > 50
    given = set[str]()
    for tree in (ast.parse(text) for text in texts if not declared.isdisjoint(re.findall(r"\w+", text))):
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        lists = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "words_of"]
        only_listed = {id(node) for call in lists for node in ast.walk(call)}
        names = [
            node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in only_listed
        ]
        given |= {name.id for name in names if isinstance(name.ctx, ast.Load)}
    assert declared <= given


@pytest.mark.parametrize(
    ("rule", "facts", "words"),
    [
        ("surplus", {"spent_on_jobs_j": 3600.0}, " (a surplus: 1 Wh spent on faster servers)"),
        ("surplus", {"spent_on_jobs_j": 0.0}, ""),
        ("surplus", {"spent_j": 3600.0, "steps_changed": 2}, " (a surplus: 1 Wh spent, in 2 steps)"),
        ("shortage", {"saved_j": 3600.0}, " (a shortage: 1 Wh saved)"),
        ("", {}, ""),
    ],
)
def test_compensation_in_short(rule: str, facts: dict[str, float | str | None], words: str) -> None:
    assert in_short(rule, facts) == words


@pytest.mark.plugins("greenslot", "energy_budget", "learned")
def test_the_rules_that_the_page_shows_exist() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/files.md").read_text("utf-8")
    log = page.partition("## The decision log")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w[\w-]*).*\| ([^|]*) \|$", log, re.MULTILINE)
    shown = {rule for _, rules in rows for rule in re.findall("`([^`]+)`", rules)}
    assert len(shown) > 15
    assert shown <= {rule for told in ALL for _, rule in told}


@pytest.mark.parametrize(
    ("action", "rule", "facts", "words"),
    [
        (
            "postpone",
            "reserved",
            {"hosts_asked": 4, "hosts_free": 1, "reserved_at_s": 97_565.0},
            "It needs 4 hosts (1 free); its hosts are reserved for 1d 03:06:05.",
        ),
        (
            "start",
            "backfilled",
            {"hosts_free": 1, "reserved_for": "w0!7", "reserved_at_s": 900.0, "hosts_extra": 2},
            "It was backfilled ahead of w0!7, whose hosts are reserved for 00:15:00; 1 host free. It may"
            " run past that time, on hosts that the reservation does not need (2).",
        ),
        (
            "start",
            "head of the queue; idle servers sleep for it",
            {
                "hosts_free": 2,
                "waited_s": 0.0,
                "size_host_s": 5400.0,
                "dangerous": 1,
                "planned_on_until_s": 3600.0,
                "server_steps_changed": 3,
                "needed_j": 360_000.0,
                "found_j": 432_000.0,
                "server_steps_to_sleep": 1,
                "hosts_to_sleep": 1,
                "headroom_j": 7.2e6,
                "cost_j": 36_000.0,
            },
            "It was the first of the queue, the smallest (1.5 host-hours) in a dangerous step; 2 hosts"
            " free. The plan keeps its servers on until 01:00:00. This changes 3 server-steps from asleep"
            " to on, which needs 100 Wh. To compensate, 1 idle server will sleep (1 server-step), saving"
            " 120 Wh. It may use up to 10 Wh of the 2 kWh available in the step.",
        ),
        (
            "kill",
            "guard: no energy for it",
            {
                "needed_j": 720_000.0,
                "supply_j": 360_000.0,
                "missing_j": 360_000.0,
                "soc_pct": 20.004,
                "mode": "kill-all",
                "still_missing_j": 180_000.0,
                "saves_j": 216_000.0,
                "spent_j": 1.8e7,
            },
            "The storage guard found a shortage in this step: 200 Wh required, 100 Wh available, 100 Wh"
            " short, at 20.00 % of charge. After putting idle servers to sleep, 50 Wh were still missing."
            " Killing it saves 60 Wh. In this mode every running job is killed; it had used 5 kWh.",
        ),
        (
            "compensate",
            "shortage",
            {"diff_j": -3.6e6, "comp_j": -4e6, "window_end_s": 259_200.0, "saved_j": 0.0, "steps_changed": 0},
            "According to the plan, the battery would end the window (3d 00:00:00) 1 kWh below its target:"
            " 1.11 kWh had to be saved; 0 Wh was saved by servers that sleep or run slower in 0 future"
            " steps.",
        ),
        ("start", "widest first", {}, "widest first"),
        ("start", "widest first", {"idle_s": 90.0, "x_w": None}, "widest first (idle_s 1 min 30 s)"),
        ("P-state 3", "", {}, "no rule was given"),
        ("postpone", "reserved", {"hosts_asked": 4, "hosts_free": None}, "reserved (hosts_asked 4)"),
    ],
)
def test_sentences(action: str, rule: str, facts: dict[str, float | str | None], words: str) -> None:
    assert sentence(action, rule, facts) == words
