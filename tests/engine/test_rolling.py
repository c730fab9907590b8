"""Runs whose plans are made meanwhile, by planners of all kinds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_site import SmallSite, small_site

from beasy_sched.engine import Session
from beasy_sched.engine.agenda import Agenda, Turn
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.engine.replanning import Replanning
from beasy_sched.formats.batsim_workload import expected_jobs
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.model.jobs import JobState
from beasy_sched.planner.plan import Plan, PlanStore
from beasy_sched.planner.process import PlannerSetup, solve
from beasy_sched.planner.replan_sources import first_request
from beasy_sched.planner.replanner import Replanner
from beasy_sched.planner.requests import PlanAnswer, PlanRequest
from beasy_sched.planner.windows import ReplanRule
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

WINDOWS = 4


@dataclass
class Prepared:
    """A small site with windows of six hours, and the plans that runs begin with."""

    files: SmallSite
    settings: RunSettings
    rule: ReplanRule
    setup: PlannerSetup
    first: PlanStore


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    files = small_site(tmp_path_factory.mktemp("site"), jobs=60)
    text = files.site.read_text().replace("window_h = 24", "window_h = 6")
    settings = RunSettings("beasy", site=text, windows=WINDOWS)
    site, platform = parse_site(text, "site.toml"), read_simgrid_platform(files.platform).platform
    renew_w = read_power_series(files.events, steps=WINDOWS * site.steps, step_s=site.step_s, as_run=True)
    rule = ReplanRule(site.steps, expected_jobs([files.workload], platform), renew_w)
    setup = PlannerSetup.of(site, platform, rule.options)
    first = solve(setup, first_request(rule, site, platform, settings))
    assert not first.problem
    return Prepared(files, settings, rule, setup, PlanStore(first.plans))


Fate = Callable[[int], dict[str, Any] | None]
"""How the planning of a request fails, by its number: members of its answer; None where it is made."""


@dataclass
class FakePlanner:
    """Plans here and at once, unless ``fate`` says otherwise."""

    setup: PlannerSetup
    fate: Fate = lambda number: None
    asked: list[PlanRequest] = field(default_factory=list)

    def ask(self, request: PlanRequest) -> None:
        self.asked.append(request)

    def answer(self, limit_s: float, stopped: object = None) -> PlanAnswer:
        failure = self.fate(len(self.asked))
        request = self.asked[-1]
        return solve(self.setup, request) if failure is None else PlanAnswer(request, **failure)

    def close(self) -> None:
        pass


@dataclass
class Ran:
    session: Session
    planner: FakePlanner
    lines: list[tuple]


def run(
    prepared: Prepared,
    policy: str = "beasy",
    fate: Fate = lambda n: None,
    **rule: object,
) -> Ran:
    lines: list[tuple] = []
    given = replace(prepared.rule, **rule)  # type: ignore[arg-type]
    store = PlanStore([*prepared.first])
    settings = RunSettings(policy, site=prepared.settings.site, windows=WINDOWS)
    session = build_session(settings, log=lambda *line: lines.append(line), replan=given, plans=store)
    planner = FakePlanner(prepared.setup, fate)
    replanner = Replanner(given, store, lambda platform: planner, 1.0)  # type: ignore[arg-type, return-value]
    prepared.files.simulation().run(ObservedSession(session, replanner.observers).step)
    return Ran(session, planner, lines)


def ended(ran: Ran) -> Iterator[int]:
    counts = ran.session.outcomes.counts()
    return (counts[state.value] for state in (JobState.FINISHED, JobState.REACHED_WALLTIME))


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["beasy", "peak", "bid-price"])
def test_each_window_is_planned_from_the_levels_that_were_there(prepared: Prepared, policy: str):
    ran = run(prepared, policy)
    power, replanning = ran.session.power, ran.session.replanning
    assert power is not None
    assert replanning is not None
    assert ran.session.ended
    assert [asked.start_s for asked in ran.planner.asked] == [21_600.0, 43_200.0, 64_800.0]
    assert replanning.count("made") == 3
    levels_j = {row.start_s + row.record.dt_s: row.record.battery_after_j for row in power.trace}
    capacity_j = power.site.storage.battery.capacity_j
    for asked in ran.planner.asked:
        real_j = min(levels_j.items(), key=lambda item: abs(item[0] - asked.start_s))[1]
        assert asked.level.battery_j == pytest.approx(real_j, abs=0.02 * capacity_j)
        plan = replanning.plans[round(asked.start_s / 21_600)]
        assert plan.level_at(0).battery_j == pytest.approx(real_j, abs=0.02 * capacity_j)
        assert plan.provenance.rolled.asked_s == pytest.approx(asked.start_s - 300.0, abs=1.0)


@pytest.mark.slow
def test_the_plan_is_followed_from_the_window_on(prepared: Prepared):
    ran = run(prepared, "follow-plan")
    replanning = ran.session.replanning
    assert replanning is not None
    policy = ran.session.policy
    for window, plan in enumerate(replanning.plans):
        assert plan.servers is not None
        states = policy.plan.states[window * 72 : (window + 1) * 72]  # type: ignore[attr-defined]
        assert (states == plan.servers.states).all()


@pytest.mark.slow
def test_the_rest_of_a_window_can_be_planned(prepared: Prepared):
    ran = run(prepared, every_steps=24)
    assert [asked.start_s / 7200.0 for asked in ran.planner.asked] == [*range(1, 12)]
    assert [len(asked.parts[0].load_w) for asked in ran.planner.asked[:4]] == [48, 24, 72, 48]
    assert [len(asked.parts) for asked in ran.planner.asked] == [2] * 8 + [1] * 3
    replanning = ran.session.replanning
    assert replanning is not None
    assert replanning.count("made") == 11


FATES: dict[str, Fate] = {
    "never": lambda n: {"problem": "it rained"},
    "late": lambda n: {"problem": "it was late", "is_late": True},
    "second": lambda n: None if n > 1 else {"problem": "it rained"},
    "empty": lambda n: {},
}


@pytest.mark.sampled
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("policy", ["beasy", "peak"])
def test_a_planner_that_fails_loses_nothing(prepared: Prepared, policy: str, fate: str):
    ran = run(prepared, policy, FATES[fate])
    session, replanning = ran.session, ran.session.replanning
    assert replanning is not None
    assert session.ended
    assert sum(session.outcomes.counts().values()) == session.submitted
    failed = replanning.count("failed") + replanning.count("late")
    assert failed >= 1
    assert [w for w in session.warnings if "the previous one stays in effect" in w]
    told = [line for line in ran.lines if line[1] == "plan"]
    assert len(told) == len(replanning.done)
    if fate == "second":
        # Tried again an hour later, for the rest of the window.
        assert [asked.start_s for asked in ran.planner.asked][:2] == [21_600.0, 25_200.0]
        assert replanning.count("made") == 3
    else:
        # There was a plan for the second window, but none for the rest, which is asked for once an hour.
        assert replanning.plans.end_s == 43_200.0
        assert len(replanning.done) == 18


@pytest.mark.slow
def test_a_gap_in_the_plans_is_closed_when_a_later_one_comes(prepared: Prepared):
    """Windows 0 and 1 are planned; then nothing until 13 hours."""

    def fate(number: int) -> dict[str, Any] | None:
        return None if number >= 8 else {"problem": "it rained"}

    ran = run(prepared, fate=fate)
    replanning = ran.session.replanning
    assert replanning is not None
    assert [plan.start_s / 3600.0 for plan in replanning.plans][:3] == [0.0, 6.0, 13.0]
    started = [line[0] / 3600.0 for line in ran.lines if line[1] == "start"]
    assert not [hour for hour in started if 12.0 < hour < 13.0]
    assert [hour for hour in started if hour >= 13.0]


@pytest.mark.slow
def test_the_decision_log_stays_in_order(prepared: Prepared):
    times = [line[0] for line in run(prepared, "follow-plan").lines]
    assert times == sorted(times)


@pytest.mark.slow
def test_two_runs_decide_alike(prepared: Prepared):
    first, second = run(prepared, "peak"), run(prepared, "peak")
    assert json.dumps(first.lines, default=str) == json.dumps(second.lines, default=str)


def test_without_a_rule_nothing_observes_the_run():
    assert Replanner(None, None, lambda platform: None, 1.0).observers == ()  # type: ignore[arg-type, return-value]


class FourSteps:
    """Stands in for a store of plans: the states of two servers in the steps 0 to 3, of 60 s; then none."""

    states = np.array([[0, 1], [2, 1], [2, 0], [0, 0]], dtype=np.int8)

    def __iter__(self) -> Iterator[Plan]:
        return iter(())

    def place(self, time_s: float) -> SimpleNamespace | None:
        step = round(time_s / 60.0)
        return SimpleNamespace(window=0, step=step) if step < len(self.states) else None

    def __getitem__(self, window: int) -> SimpleNamespace:
        return SimpleNamespace(servers=SimpleNamespace(states=self.states))


@pytest.mark.parametrize(
    ("step", "count", "rows"),
    [(1, 1, [0]), (3, 2, [1, 2]), (4, 1, [3]), (3, 3, [0, 1, 2]), (2, 5, [0, 1]), (6, 3, [3]), (3, 0, []),
     (0, 2, [])],
)  # fmt: skip
def test_the_states_planned_before_a_step(step: int, count: int, rows: list[int]) -> None:
    """The last ``count`` steps before it, none of them before time 0, as far as they are planned."""
    site = SimpleNamespace(step_s=60.0, steps=4)
    rule = SimpleNamespace(every_steps=4)
    replanning = Replanning(rule, FourSteps(), site, None, 2, Agenda().enter(Turn.PLAN))  # type: ignore[arg-type]
    found = replanning._planned_states(step, count)
    assert ([] if found is None else found.tolist()) == FourSteps.states[rows].tolist()
