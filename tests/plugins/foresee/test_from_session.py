"""A simulation that begins from a session's state continues like the one that was there."""

from __future__ import annotations

import traceback
from pathlib import Path

import msgspec
import numpy as np
import pytest

from beasy_sched.engine.observed import ObservedSession, Observer
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.children import run_children
from beasy_sched.policies.registry import built_in
from beasy_sched.run.following import RunFollower
from beasy_sched.run.in_process import run_in_process
from beasy_sched.simulator import Simulation
from beasy_sched.simulator.from_session import simulation_of
from beasy_sched.simulator.future import Arrival, Future
from beasy_sched.simulator.simulated_jobs import RUNNING, SimJob
from tests.plugins.foresee.foreseen_site import (
    HOUR_S,
    FutureSite,
    replace,
    some_jobs,
    sunny_w,
)

POLICIES = [
    name
    for name in ("fcfs", "easy", "workload-reactive", "power-reactive", "bid-price")
    if name in built_in()
]
Line = tuple[float, str, str]


def _lines(reply) -> list[Line]:
    """Return the decisions of a reply, without its requests of calls and queries."""
    found = []
    for decision in reply.decisions:
        kind = type(decision).__name__
        if kind in ("CallMeLater", "QueryEnergy"):
            continue
        what = {name: getattr(decision, name) for name in decision.__struct_fields__ if name != "timestamp"}
        found.append((reply.now, kind, " ".join(f"{name}={value}" for name, value in sorted(what.items()))))
    return found


class _Continuing(RunFollower, Observer):
    """Pauses a run once, and continues it from the state of its session in a copy of the process."""

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        self.after_pause: list[Line] = []
        self.continued: list[Line] | None = None
        self.running = self.switching = self.waiting = 0

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        self._simulation, self._running = simulation, running
        real = running.step

        def step(message):
            reply = real(message)
            if self.continued is not None:
                self.after_pause += _lines(reply)
            return reply

        running.step = step
        self._real = real
        simulation.pause_at(self.at_s, self._pause)

    def _pause(self) -> None:
        session = self._running.session
        self.running, self.waiting = len(session.cluster.running), len(session.waiting_jobs())
        self.switching = self._simulation.world.switching
        (result,) = run_children([self._continue_or_say], 1, 300.0)
        assert isinstance(result, bytes), result
        assert not result.startswith(b"Traceback"), result.decode()
        self.continued = [tuple(line) for line in msgspec.json.decode(result)]

    def _continue_or_say(self) -> bytes:
        try:
            return self._continue()
        except Exception:
            return traceback.format_exc().encode()

    def _continue(self) -> bytes:
        old, session = self._simulation, self._running.session
        future, past, events = _real_future(old), old.arrivals.past_jobs(), old.arrivals.past_events()
        made = simulation_of(session, self.at_s, past, events)
        for workload, profiles in old.world.profiles.items():  # those of jobs to come, too
            made.world.profiles[workload] = {**profiles, **made.world.profiles[workload]}
        made.replace_future(future)
        copy = self._running.detached()
        found: list[Line] = []

        def step(message):
            reply = copy.step(message)
            found.extend(_lines(reply))
            return reply

        made.resume(step, ignores_power=lambda: session.over)
        return msgspec.json.encode(found)


def _real_future(old: Simulation) -> Future:
    """Return what will happen in a paused simulation."""
    speed, now = old.full_speed_flops, old.world.now
    runs_s = {job.request.id: _run_s(old, job, now, speed) for job in old.world.jobs.values()}
    arrivals, events = [], []
    for workload, sender in zip(old.workloads, old.arrivals._submitters, strict=True):
        for job in workload.jobs[sender.next :]:
            profile = workload.profiles[job.profile]
            arrivals.append(Arrival(workload.name, job, _whole_s(profile, speed)))
    for listed, sender in zip(old.arrivals._events, old.arrivals._players, strict=True):
        events += listed[sender.next :]
    return Future(runs_s, arrivals, events)


def _whole_s(profile, speed: float) -> float:
    assert not isinstance(profile, Composed)
    return profile.delay_s if isinstance(profile, Delay) else profile.flops / speed


def _run_s(old: Simulation, job: SimJob, now: float, speed: float) -> float:
    if job.state != RUNNING:
        return _whole_s(job.profile, speed)
    if isinstance(job.leaf, Delay):
        return job.leaf.delay_s
    assert isinstance(job.leaf, Homogeneous)
    return now - job.start + old.world.clock.settle(job.run) / job.run.rate


def _continue_at(site: FutureSite, folder: Path, policy: str, at_s: float) -> _Continuing:
    inputs, settings = site.write(folder)
    follower = _Continuing(at_s)
    settings = msgspec.structs.replace(settings, policy=policy)
    run_in_process(inputs, RunFiles(None, settings), followers=[follower])
    return follower


def _check(found: _Continuing) -> None:
    assert found.continued is not None
    assert found.after_pause, "nothing is decided after the pause"
    ours = [line[1:] for line in found.continued]
    theirs = [line[1:] for line in found.after_pause]
    assert ours == theirs
    times_s = [line[0] for line in found.continued], [line[0] for line in found.after_pause]
    assert times_s[0] == pytest.approx(times_s[1], abs=1e-4)


@pytest.mark.sampled
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_it_continues_like_the_simulation_that_was_there(tmp_path: Path, policy: str, seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    jobs = some_jobs(rng, until_s=20 * HOUR_S, count=80, hosts=8)
    site = FutureSite(jobs, sunny_w(24), window_h=24)
    found = _continue_at(site, tmp_path, policy, float(rng.uniform(3.0, 18.0) * HOUR_S))
    _check(found)


def test_without_a_site_it_continues_too(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(4), until_s=20 * HOUR_S, count=120, hosts=8)
    site = replace(FutureSite(jobs, sunny_w(24)), with_site=False, hosts=5)
    found = _continue_at(site, tmp_path, "easy", 9.37 * HOUR_S)
    assert found.running
    assert found.waiting
    _check(found)


@pytest.mark.slow
def test_transitions_under_way_are_continued(tmp_path: Path) -> None:
    """Servers that fall asleep or wake at the pause arrive when they would have."""
    job = {"res": 3, "walltime": 3000.0, "user": 0, "delay": False}
    jobs = [{**job, "id": f"j{number}", "at": 2000.0 * number, "run": 1000.0} for number in range(20)]
    site = FutureSite(jobs, np.full(24 * 12, 1500.0), window_h=24, hosts=6)
    switching = 0
    for at_s in np.linspace(7000.0, 11000.0, 33).tolist():
        found = _continue_at(site, tmp_path, "workload-reactive", at_s + 0.37)
        switching += found.switching
        _check(found)
    assert switching
