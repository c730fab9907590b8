"""Jobs that come back after a kill, in runs of the embedded simulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from real_batsim.restart_runs import RestartRun
from simulator.small import job, platform_text
from tiny import resources

from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session
from beasy_sched.engine.actions import Action, CallAt, Kill, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.power_side import SessionOptions
from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import events as e
from beasy_sched.model.choices import OnKill
from beasy_sched.model.host_states import USES
from beasy_sched.model.jobs import JobState
from beasy_sched.model.restarts import RestartSettings, first_id
from beasy_sched.outputs.summary import summarize
from beasy_sched.run.results import JobRow, read_jobs
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Ending, Inputs, SimulationOptions, simulation_from_files

CHECKPOINT = {"interval_s": 100, "dump_s": 10, "read_s": 5}
WORK = {"type": "parallel_homogeneous", "cpu": 1e11, "com": 0}
"""1,000 s on a fast host."""
PROFILES = {
    "w": WORK,
    "d": {"type": "delay", "delay": 1000},
    "s": {"type": "composed", "repeat": 5, "seq": ["half", "half"]},
    "half": {"type": "parallel_homogeneous", "cpu": 1e10, "com": 0},
    "m": {"type": "composed", "seq": ["pause", "rest"]},
    "pause": {"type": "delay", "delay": 300},
    "rest": {"type": "parallel_homogeneous", "cpu": 7e10, "com": 0},
    "pauses": {"type": "composed", "repeat": 3, "seq": ["pause", "pause"]},
}
_KILLED = JobState.KILLED
LATE_S = 0.001
"""Delay of a kill after its decision, s."""


class KillsAt(Policy):
    """Starts jobs in order of arrival, and kills what runs at given times."""

    name = "kills-at"

    def __init__(self, times_s: Sequence[float]) -> None:
        super().__init__()
        self.left_s = [*times_s]
        self.losses_flops: list[float] = []

    def schedule(self, view: View) -> list[Action]:
        actions: list[Action] = []
        if self.left_s and view.now >= self.left_s[0] - 1e-6:
            del self.left_s[0]
            self.losses_flops += [job.lost_if_killed_flops for job in view.running.values()]
            actions += [Kill(job, "test") for job in view.running.values()]
        free = view.free_mask()
        for waiting in view.queue:
            if free.sum() >= waiting.res:
                hosts = view.fastest(free, waiting.res)
                free[hosts.ids] = False
                actions.append(Start(waiting, hosts, "test"))
        if self.left_s:
            actions.append(CallAt(self.left_s[0]))
        return actions


class Restarted:
    """A run of `KillsAt`, with jobs on a small platform."""

    def __init__(
        self,
        folder: Path,
        jobs: list[dict[str, Any]],
        kills_s: Sequence[float],
        on_kill: OnKill,
        *,
        failures: str = "",
        most: int | None = None,
        **options: bool,
    ) -> None:
        (folder / "platform.xml").write_text(platform_text())
        (folder / "workload.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": PROFILES}))
        (folder / "failures.txt").write_text(failures)
        inputs = Inputs(
            folder / "platform.xml",
            [folder / "workload.json"],
            failures=folder / "failures.txt" if failures else None,
        )
        self.policy = KillsAt(kills_s)
        platform = read_simgrid_platform(inputs.platform).platform
        site = None
        if most is not None:
            site = Site(Storage(NO_BATTERY), grid=Grid(), restarts=RestartSettings(most=most))
        self.session = Session(self.policy, SessionOptions(platform=platform, site=site, on_kill=on_kill))
        dynamic = SimulationOptions(energy=True, dynamic_jobs=on_kill is not OnKill.DROP, **options)
        simulation = simulation_from_files(inputs, dynamic, folder / "out")
        self.ending = simulation.run(self.session.step).ending
        self.rows: list[JobRow] = [*read_jobs(str(folder / "out"))]
        self.summary: RunSummary = summarize(self.session, RunSettings(on_kill=on_kill))

    def lives(self) -> dict[str, tuple[float, float, str]]:
        """Start, end and final state of each life."""
        return {
            row.id: (row.start_s or 0.0, row.end_s or 0.0, row.final_state.removeprefix("COMPLETED_"))
            for row in self.rows
        }


def lasts(life: tuple[float, float, str]) -> float:
    return life[1] - life[0]


def one(profile: str = "w", **more: Any) -> list[dict[str, Any]]:
    return [job("a", profile=profile, walltime=2000, **{"checkpoint": CHECKPOINT, **more})]


def test_a_job_that_is_dropped_is_lost(tmp_path: Path) -> None:
    run = Restarted(tmp_path, one(), [500.0], OnKill.DROP)
    assert run.lives() == {"w0!a": (0.0, 500 + LATE_S, "KILLED")}
    assert (run.summary.jobs.killed, run.summary.restarts) == (1, None)
    assert run.policy.losses_flops == [500 * 1e8]


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("reuse", [False, True])
def test_a_requeued_job_begins_again(tmp_path: Path, acknowledged: bool, reuse: bool) -> None:
    options = {"acknowledge_dynamic_jobs": acknowledged, "profile_reuse": reuse}
    run = Restarted(tmp_path, one(), [500.0, 600.0], OnKill.REQUEUE, **options)
    lives = run.lives()
    assert [*lives] == ["w0!a", "w0!a#1", "w0!a#2"]
    assert [state for *_, state in lives.values()] == ["KILLED", "KILLED", "SUCCESSFULLY"]
    assert lasts(lives["w0!a#2"]) == pytest.approx(1000.0)
    assert {row.walltime_s for row in run.rows} == {2000.0}
    assert run.ending is Ending.FINISHED
    assert (run.summary.jobs.submitted, run.summary.jobs.finished) == (1, 1)
    restarts = run.summary.restarts
    assert restarts is not None
    assert (restarts.jobs, restarts.count, restarts.checkpoints) == (1, 2, 0)
    assert run.policy.losses_flops == pytest.approx([500 * 1e8, (100 - LATE_S) * 1e8])


@pytest.mark.parametrize(
    ("profile", "rest_s"),
    [("w", 600.0), ("d", 600.0), ("s", 600.0), ("m", 600.0)],
)
def test_a_job_continues_from_its_last_checkpoint(tmp_path: Path, profile: str, rest_s: float) -> None:
    """Killed after 500 s: 4 checkpoints of 110 s each. The rest is read, and writes 5 more."""
    run = Restarted(tmp_path, one(profile), [500.0], OnKill.CHECKPOINT)
    lives = run.lives()
    assert lasts(lives["w0!a#1"]) == pytest.approx(5 + rest_s + 5 * 10, abs=0.01)
    assert run.rows[1].walltime_s == pytest.approx(2000 - 400 + 5, abs=0.01)
    restarts = run.summary.restarts
    assert restarts is not None
    assert (restarts.jobs, restarts.count, restarts.checkpoints) == (1, 1, 4 + 5)


def test_a_second_kill_keeps_what_the_first_life_saved(tmp_path: Path) -> None:
    """The second life starts at 500 s, reads 5 s, and has written 2 checkpoints 250 s later."""
    run = Restarted(tmp_path, one(), [500.0, 750.0], OnKill.CHECKPOINT)
    assert lasts(run.lives()["w0!a#2"]) == pytest.approx(5 + 400 + 3 * 10, abs=0.01)
    assert run.policy.losses_flops == pytest.approx([60 * 1e8, 25 * 1e8], rel=0.01)
    quality = run.summary.quality
    assert quality is not None
    assert quality.started == 1
    assert quality.waiting_s_max == pytest.approx(0.0, abs=1e-6)
    wasted_s = 500 + 250 - 400 - 200
    assert quality.bounded_slowdown_mean == pytest.approx(1 + wasted_s / (600 + 435), rel=1e-3)


def test_a_life_without_a_checkpoint_begins_again_without_reading(tmp_path: Path) -> None:
    run = Restarted(tmp_path, one(), [105.0], OnKill.CHECKPOINT)
    assert lasts(run.lives()["w0!a#1"]) == pytest.approx(1000 + 9 * 10, abs=0.01)
    assert run.rows[1].walltime_s == 2000.0


def test_jobs_that_state_otherwise(tmp_path: Path) -> None:
    jobs = [
        job("lost", requeue=False),
        job("again", checkpoint=False),
        job("saved", checkpoint=CHECKPOINT),
    ]
    run = Restarted(tmp_path, jobs, [500.0], OnKill.CHECKPOINT)
    lives = run.lives()
    assert {*lives} == {"w0!lost", "w0!again", "w0!saved", "w0!again#1", "w0!saved#1"}
    assert lasts(lives["w0!again#1"]) == pytest.approx(1000.0)
    assert lasts(lives["w0!saved#1"]) == pytest.approx(655.0, abs=0.01)
    assert (run.summary.jobs.killed, run.summary.jobs.finished) == (1, 2)
    assert run.session.reasons  # the job that is lost counts once, for its rule
    assert run.summary.reasons["killed"] == {"test": 1}


def test_the_walltime_of_a_rest_has_a_minimum(tmp_path: Path) -> None:
    run = Restarted(tmp_path, [job("a", walltime=510, checkpoint=CHECKPOINT)], [500.0], OnKill.CHECKPOINT)
    assert run.rows[1].walltime_s == pytest.approx(510 - 400 + 5, abs=0.01)
    short = {"interval_s": 10, "dump_s": 0, "read_s": 7}
    run = Restarted(tmp_path, [job("a", walltime=510, checkpoint=short)], [500.0], OnKill.CHECKPOINT)
    assert run.rows[1].walltime_s == 67.0
    assert run.rows[1].final_state == "COMPLETED_WALLTIME_REACHED"
    assert run.summary.jobs.reached_walltime == 1


@pytest.mark.parametrize(("on_kill", "rest_s"), [(OnKill.REQUEUE, 1000.0), (OnKill.CHECKPOINT, 655.0)])
def test_a_job_whose_server_breaks_comes_back(tmp_path: Path, on_kill: OnKill, rest_s: float) -> None:
    breaks = json.dumps({"timestamp": 500, "type": "breaks", "resources": "0"})
    run = Restarted(tmp_path, one(), [], on_kill, failures=breaks + "\n")
    lives = run.lives()
    assert lives["w0!a"] == (0.0, 500.0, "FAILED")
    assert lasts(lives["w0!a#1"]) == pytest.approx(rest_s, abs=0.01)


def test_a_last_life_whose_server_breaks_has_not_written_all_its_checkpoints(tmp_path: Path) -> None:
    breaks = [{"timestamp": 500 + 100 * host, "type": "breaks", "resources": str(host)} for host in (0, 1)]
    failures = "\n".join(map(json.dumps, breaks))
    run = Restarted(tmp_path, one(), [], OnKill.CHECKPOINT, failures=failures, most=1)
    assert [state for *_, state in run.lives().values()] == ["FAILED", "FAILED"]
    assert run.summary.restarts is not None
    assert run.summary.restarts.checkpoints == 4


def test_all_lives_of_a_sequence_that_only_waits_draw_idle_power(tmp_path: Path) -> None:
    run = Restarted(tmp_path, one("pauses"), [500.0], OnKill.REQUEUE, most=1)
    energy = run.summary.energy_kwh
    assert energy is not None
    assert (run.summary.jobs.finished, [*run.lives()]) == (1, ["w0!a", "w0!a#1"])
    assert energy.consumed_by_own_account == pytest.approx(energy.consumed)


def test_successors_wait_for_the_last_life(tmp_path: Path) -> None:
    run = Restarted(tmp_path, [*one(), job("b", after=["a"])], [500.0], OnKill.REQUEUE)
    assert run.lives()["w0!b"][0] == pytest.approx(run.lives()["w0!a#1"][1])
    assert run.summary.jobs.finished == 2


def test_a_deadline_is_that_of_the_job(tmp_path: Path) -> None:
    run = Restarted(tmp_path, one(deadline_s=1200), [500.0], OnKill.REQUEUE)
    due = run.summary.deadlines
    assert due is not None
    assert (due.jobs, due.jobs_missed) == (1, 1)
    assert due.lateness_s_max == pytest.approx(300.0, abs=0.01)


def begun(on_kill: OnKill, profiles: dict[str, Any], **config: bool) -> Session:
    session = Session(KillsAt([]), SessionOptions(on_kill=on_kill))
    event = e.SimulationBegins(
        0.0, resources(4), config, workloads={"w0": "w.json"}, profiles={"w0": profiles}
    )
    session.step(e.Message(0.0, [event]))
    return session


DYNAMIC = {"dynamic-jobs-enabled": True}


def test_a_simulator_that_lets_nothing_be_registered() -> None:
    with pytest.raises(ConfigError, match="start Batsim 4 with --enable-dynamic-jobs, or use --on-kill drop"):
        begun(OnKill.REQUEUE, PROFILES)
    begun(OnKill.DROP, PROFILES)


def test_batsim_5_is_not_supported() -> None:
    session = Session(KillsAt([]), SessionOptions(on_kill=OnKill.REQUEUE))
    event = e.SimulationBegins(0.0, resources(4), answers_queries=False)
    with pytest.raises(ConfigError, match="with Batsim 5, use --on-kill drop"):
        session.step(e.Message(0.0, [event]))


def test_profiles_with_which_no_job_can_come_back() -> None:
    """Batsim can run a sequence or a trace again only if it keeps the profiles of its workloads."""
    trace = {"x": {"type": "smpi", "trace": "t"}}
    expected = "delay, parallel_homogeneous, parallel_homogeneous_total, parallel, composed"
    with pytest.raises(ConfigError, match=f"'smpi', which cannot be continued from .* one of {expected}"):
        begun(OnKill.CHECKPOINT, trace, **DYNAMIC)
    with pytest.raises(ConfigError, match="or Batsim's --enable-profile-reuse"):
        begun(OnKill.REQUEUE, trace, **DYNAMIC)
    begun(OnKill.REQUEUE, trace, **DYNAMIC, **{"profile-reuse-enabled": True})
    with pytest.raises(ConfigError, match=r"'m' of workload w0 both waits and computes: .* -p/--platform"):
        begun(OnKill.CHECKPOINT, PROFILES, **DYNAMIC)


SEEDS = range(200, 212)


REAL_SITE = """
[cooling]
pue = 1.25
[load]
base_kw = 0.03
[grid]
import_limit_kw = 0.3
charge = { hours = [20, 6], up_to_soc_pct = 70 }
"""


def played(
    folder: Path, seed: int, on_kill: OnKill | None = None, more_site: str = ""
) -> tuple[RestartRun, Session, RunSummary]:
    folder.mkdir(exist_ok=True)
    run = RestartRun(seed, on_kill, more_site=more_site)
    inputs = run.write(folder)
    session = run.session(inputs)
    simulation = simulation_from_files(inputs, run.options, folder / "run")
    assert simulation.run(session.step).ending is Ending.FINISHED
    return run, session, summarize(session, RunSettings(on_kill=run.on_kill))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("more_site", ["", REAL_SITE], ids=["servers only", "cooling, load and grid charge"])
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_with_restarts(tmp_path: Path, seed: int, more_site: str) -> None:
    """Energy closes, each job ends once, and progress never exceeds the work."""
    _, session, summary = played(tmp_path, seed, more_site=more_site)
    power, site, energy = session.power, summary.site, summary.energy_kwh
    assert power is not None
    assert site is not None
    assert energy is not None
    assert site.largest_relative_residual < 1e-6
    by_use = dict(zip(USES, power.settled.by_use_j.tolist(), strict=True))
    parts_kwh = energy.finished_jobs + energy.other_jobs + energy.idle + energy.transitions + energy.sleeping
    assert parts_kwh == pytest.approx(energy.consumed_by_own_account, rel=1e-9)
    assert by_use["computing"] / 3.6e6 == pytest.approx(energy.finished_jobs + energy.other_jobs, rel=1e-6)
    rows = [*read_jobs(str(tmp_path / "run"))]
    submitted = json.loads((tmp_path / "workload.json").read_text())["jobs"]
    counts = session.outcomes.counts()
    assert sum(counts.values()) == summary.jobs.submitted == len(submitted)
    ends: dict[str, list[str]] = {}
    for row in rows:
        ends.setdefault(first_id(row.id), []).append(row.final_state)
    assert all(states.count("COMPLETED_SUCCESSFULLY") <= 1 for states in ends.values())
    assert all("COMPLETED_SUCCESSFULLY" not in states[:-1] for states in ends.values())
    restarts = summary.restarts
    assert restarts is not None
    assert restarts.count == sum("#" in row.id for row in rows)
    redone = (restarts.redone_kwh or 0.0) + (restarts.checkpoints_kwh or 0.0)
    assert 0.0 <= redone <= energy.wasted + 1e-9
    for past in session.outcomes._pasts.values():
        assert past.saved_s >= 0.0


@pytest.mark.slow
def test_the_runs_have_restarts(tmp_path: Path) -> None:
    counts = {OnKill.REQUEUE: 0, OnKill.CHECKPOINT: 0}
    real = dict(counts)
    charged_w = 0.0
    for seed in SEEDS:
        run, session, _ = played(tmp_path / str(seed), seed)
        counts[run.on_kill] += session.lives.count
        run, session, summary = played(tmp_path / str(seed), seed, more_site=REAL_SITE)
        real[run.on_kill] += session.lives.count
        assert session.power is not None
        assert summary.energy_kwh is not None
        assert (summary.energy_kwh.cooling or 0.0) > 0.0
        charged_w += sum(row.record.grid_charge_w for row in session.power.trace)
    assert min(counts.values()) > 20
    assert min(real.values()) > 5
    assert charged_w > 0.0


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        played(tmp_path / name, SEEDS[1])
        texts.append((tmp_path / name / "run_jobs.csv").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("most", [1, 2])
def test_a_job_whose_lives_all_end_by_kills_counts_as_killed_once(tmp_path: Path, most: int) -> None:
    run = RestartRun(SEEDS[0], OnKill.REQUEUE, most)
    inputs = run.write(tmp_path)
    session = run.session(inputs)
    simulation_from_files(inputs, run.options, tmp_path / "run").run(session.step)
    lives: dict[str, int] = {}
    for row in read_jobs(str(tmp_path / "run")):
        lives[first_id(row.id)] = lives.get(first_id(row.id), 0) + 1
    assert max(lives.values()) == most + 1
    assert session.outcomes.counts()["killed"] == sum(session.reasons[_KILLED].values()) > 0
