"""A week in three windows of 56 hours, planned and run: what crosses their boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code

from beasy_sched.energy.site import Site
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.workload import synthetic_workload
from beasy_sched.generate.workload_options import SyntheticOptions
from beasy_sched.model.decisions import RejectJob, Reply
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.summary import summarize
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files
from beasy_sched.testing.witness import Witness

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

STEP_S, WINDOW_S = 1800.0, 56 * 3600.0
BOUNDARIES_S = (WINDOW_S, 2 * WINDOW_S)
END_S = 3 * WINDOW_S
POLICIES = ["beasy", "easy", "follow-plan", "peak", "next", "last", "workload"]
SITE = f"""
[battery]
capacity_kwh = 12.0
charge_limit_kw = 3.0
discharge_limit_kw = 3.0
[hydrogen]
tank_kg = 0.5
level_start_kg = 0.2
level_target_kg = 0.1
electrolyzer_max_kw = 0.5
fuel_cell_max_kw = 0.3
[time]
step_s = {STEP_S}
window_h = 56
"""


@dataclass
class Week:
    """The files of a week, and its plans."""

    folder: Path
    platform: Platform
    site: Site
    plans: PlanStore

    def run(self, policy: str, plans: PlanStore | None = None, **how: str) -> Done:
        witness = Witness(self.platform)
        options = SessionOptions(site=self.site, plans=plans or self.plans, windows=3)
        session = Session(make_policy(policy, how), options, witness.log)
        done = Done(session, witness, [], {})

        def decide(message: Message) -> Reply:
            reply = session.step(message)
            witness.see(message, reply, session.power.budget if session.power else None)
            for boundary_s in BOUNDARIES_S:
                if message.now >= boundary_s and boundary_s not in done.at_boundary:
                    done.at_boundary[boundary_s] = (set(witness.running), set(witness.waiting))
            done.replies.append(reply)
            return reply

        inputs = Inputs(
            self.folder / "platform.xml", [self.folder / "workload.json"], [self.folder / "power.txt"]
        )
        simulation_from_files(inputs, SimulationOptions(energy=True, forward_unknown_events=True)).run(decide)
        return done


@dataclass
class Done:
    session: Session
    witness: Witness
    replies: list[Reply]
    at_boundary: dict[float, tuple[set[str], set[str]]]
    """Jobs that run and jobs that wait just after each boundary."""

    def outcomes(self) -> dict[str, dict[str, object]]:
        columns = self.session.outcomes.columns()
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return {
            job: dict(zip(columns, row, strict=True))
            for job, row in zip(self.session.outcomes.ids, rows, strict=True)
        }


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Week:
    """Eight servers, 260 jobs of up to 12 hours, sun by day and some wind; planned with an older forecast."""
    folder = tmp_path_factory.mktemp("week")
    platform = preset_platform({"gros": 5, "taurus": 3})
    write_platform(platform, folder / "platform.xml")
    options = SyntheticOptions(
        reference_speed_flops=platform.kinds[0].reference_speed_flops,
        jobs=260,
        hosts=8,
        day_shares=(1.0,) * 7,
        run_median_s=7200.0,
        run_cap_s=12 * 3600.0,
        host_shares={1: 60.0, 2: 30.0, 4: 10.0},
        seed=3,
    )
    synthetic_workload(options).write(folder / "workload.json")
    rng = np.random.default_rng(3)
    hours = np.arange(int(END_S / STEP_S)) * STEP_S / 3600.0
    sun_w = 2500.0 * np.sin((hours % 24 - 6) / 12 * np.pi).clip(0.0) + 350.0
    for name, noise in (("forecast", 0.0), ("power", 0.3)):
        powers_w = np.round(sun_w * rng.uniform(1 - noise, 1 + noise, len(hours)), 1)
        (folder / f"{name}.txt").write_text("".join(power_event_lines(powers_w, STEP_S)))
    (folder / "site.toml").write_text(SITE)
    names = {
        "-p": "platform.xml",
        "-w": "workload.json",
        "--production": "forecast.txt",
        "--site": "site.toml",
    }
    inputs = [part for option, name in names.items() for part in (option, str(folder / name))]
    assert exit_code("plan", "-q", "--windows", "3", *inputs, "-o", str(folder / "plan.msgpack")) == 0
    return Week(folder, platform, parse_site(SITE), read_plans(folder / "plan.msgpack"))


@pytest.fixture(scope="module", params=POLICIES)
def done(week: Week, request: pytest.FixtureRequest) -> Done:
    return week.run(request.param)


def test_a_plan_of_three_windows(week: Week) -> None:
    assert [plan.start_s for plan in week.plans] == [0.0, *BOUNDARIES_S]
    assert week.plans.end_s == END_S


@pytest.mark.sampled(3)
def test_running_jobs_run_on(done: Done) -> None:
    """Some of those that run at each boundary were started before it and end after it, as they would."""
    outcomes = done.outcomes()
    for boundary_s, (running, _) in done.at_boundary.items():
        over = [
            outcomes[job] for job in running if outcomes[job]["start_s"] < boundary_s < outcomes[job]["end_s"]
        ]
        assert over
        assert "finished" in {job["state"] for job in over}
    assert sorted(done.at_boundary) == list(BOUNDARIES_S)


@pytest.mark.sampled(3)
def test_the_run_ends_nothing_before_its_last_window(done: Done) -> None:
    """Only at the end of the week is anything refused; only the guard and the plan kill before it."""
    refused = {x.timestamp for reply in done.replies for x in reply.decisions if isinstance(x, RejectJob)}
    assert all(when >= END_S for when in refused)
    assert all(x.now >= END_S for x in done.witness.actions if x.rule == "the run is over")
    rules = {x.rule for x in done.witness.actions if x.what == "kill" and x.now < END_S}
    assert rules <= {"guard: no energy for it", "its server is planned to sleep"}


@pytest.mark.sampled(3)
def test_the_queue_is_kept(done: Done) -> None:
    """Jobs that wait at a boundary are still there: they start after it, or wait to the end of the week."""
    outcomes = done.outcomes()
    waiting = {job for _, jobs in done.at_boundary.values() for job in jobs}
    assert waiting
    fates = {
        "started" if outcomes[job]["start_s"] == outcomes[job]["start_s"] else outcomes[job]["state"]
        for job in waiting
    }
    assert "started" in fates
    assert fates <= {"started", "postponed"}


@pytest.mark.sampled(3)
def test_the_storage_is_continuous(done: Done) -> None:
    """Each step begins with what the one before left, at the boundaries as elsewhere."""
    power = done.session.power
    assert power is not None
    assert len(power.trace) == round(END_S / STEP_S)
    for before, after in zip(power.trace[:-1], power.trace[1:], strict=True):
        assert after.record.battery_before_j == before.record.battery_after_j
        assert after.record.hydrogen_before_kg == before.record.hydrogen_after_kg
        assert after.record.relative_residual <= 1e-6


@pytest.mark.sampled(3)
def test_the_summary_counts_by_window(done: Done) -> None:
    """Two snapshots, at the boundaries: of the jobs that had ended by then."""
    ends = [(job["end_s"], job["state"]) for job in done.outcomes().values()]
    summary = summarize(done.session, RunSettings(done.session.policy.name, windows=3))
    assert summary.settings.windows == 3
    assert len(summary.windows) == 2
    for boundary_s, counts in zip(BOUNDARIES_S, summary.windows, strict=True):
        for state in ("finished", "killed", "reached walltime"):
            by_then = sum(end_s <= boundary_s + 1e-6 and found == state for end_s, found in ends)
            assert counts[state] == by_then
    assert summary.jobs.submitted == 260


@pytest.mark.slow
def test_beasy_looks_into_the_windows_that_it_knows(week: Week) -> None:
    """With the first window's plan alone it starts nothing that could run past that; with all, it does."""
    for count in (1, 3):
        known = week.run("beasy", PlanStore([*week.plans][:count]), long_jobs="set-aside")
        ends = [
            job["start_s"] + job["walltime_s"] for job in known.outcomes().values() if job["start_s"] >= 0
        ]
        assert max(ends) <= count * WINDOW_S + 1e-6
        assert any(end > WINDOW_S for end in ends) == (count == 3)
