"""`--energy model` beside a real Batsim: recorded events and decisions, the daemon's own account.

Qualified are the recordings of one-core hosts whose jobs are parallel_homogeneous or delay: what other
jobs draw cannot be known from the protocol. Hosts must start in P-state 0: SimGrid charges any other
initial P-state as P-state 0 until it first meters the host. The soaks mix in composed jobs; they count
up to the start of their first one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from recordings.archive import Recording, inputs, recordings

from beasy_sched.errors import InputError, PolicyError
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import HostState
from beasy_sched.model.jobs import ENDS, Job
from beasy_sched.protocol.batsim4 import decode_message, decode_reply

WHOLE = [
    "bad_on_while_switching_off",
    "dvfs_mid_one_of_two",
    "dvfs_mid_slow",
    "dvfs_mid_slow_fast",
    "dvfs_query_after",
    "eps_delay",
    "eps_full",
    "kill_cancel_sleeping_call",
    "late_reply_pstate",
    "onoff",
    "same_instant",
]
SOAKS = [f"soak_{number:02}" for number in range(1, 11)]


class OwnAccount:
    """Carries out what was recorded on a cluster with its account, as Batsim carried it out."""

    def __init__(self, recording: Recording) -> None:
        platform, workloads, _ = inputs(recording)
        self.cluster = Cluster(platform.platform)
        self.account = self.cluster.open_account()
        self.profiles = workloads[0].profiles
        self.jobs = {}
        self.now = 0.0
        self.pairs: list[tuple[float, float]] = []
        """Energy by our account and as Batsim answered, J."""

    def replay(self, recording: Recording) -> list[tuple[float, float]]:
        for who, raw in recording.messages:
            if who == "batsim":
                for event in decode_message(raw.encode()).events:
                    self.hear(event)
                continue
            for decision in decode_reply(raw.encode()).decisions:
                if isinstance(decision, d.ExecuteJob) and self.is_composed(decision.job_id):
                    return self.pairs
                self.carry_out(decision)
        return self.pairs

    def is_composed(self, job_id: str) -> bool:
        return isinstance(self.profiles[self.jobs[job_id].request.profile], Composed)

    def go_to(self, when: float) -> None:
        """Let transitions end, each host at its own time."""
        cluster, self.now = self.cluster, max(self.now, when)
        for state in (HostState.SWITCHING_OFF, HostState.SWITCHING_ON):
            for host in np.flatnonzero((cluster.state == state) & (cluster.switch_end_s <= self.now)):
                ids = np.array([host])
                end_s = float(cluster.switch_end_s[host])
                cluster.end_switch(ids, int(cluster.pstate[host]), max(end_s, self.account.now_s))

    def hear(self, event: e.Event) -> None:
        self.go_to(event.timestamp)
        if isinstance(event, e.JobSubmitted):
            job = self.jobs[event.job.id] = self.cluster.submit(Job(event.job))
            job.computes = not isinstance(self.profiles[event.job.profile], Delay)
        elif isinstance(event, e.JobCompleted):
            self.cluster.end(event.job_id, ENDS[event.end], self.now)
        elif isinstance(event, e.EnergyAnswer):
            self.account.advance(self.now)
            self.pairs.append((float(self.account.energy_by_use_j.sum()), event.consumed_energy_j))

    def carry_out(self, decision: d.Decision) -> None:
        self.go_to(decision.timestamp)
        if isinstance(decision, d.ExecuteJob):
            self.cluster.start(self.jobs[decision.job_id], decision.alloc, self.now)
        elif isinstance(decision, d.SetResourceState):
            self.set_state(decision.resources.ids, decision.state)

    def set_state(self, hosts: np.ndarray, pstate: int) -> None:
        cluster = self.cluster
        states = cluster.state[hosts]
        kind = cluster.platform.kind(int(hosts[0]))
        if kind.sleep is not None and pstate == kind.sleep.pstate:
            cluster.begin_switch(hosts[states == HostState.IDLE], HostState.SWITCHING_OFF, pstate, self.now)
            return
        woken = hosts[states == HostState.ASLEEP]
        if len(woken):
            cluster.begin_switch(woken, HostState.SWITCHING_ON, pstate, self.now)
        cluster.change_speed(hosts[states <= HostState.BUSY], pstate, self.now)


@cache
def qualified() -> list[str]:
    return [name for name, recording in recordings().items() if is_qualified(recording)]


def is_qualified(recording: Recording) -> bool:
    answers = sum(who == "batsim" and "consumed_energy" in raw for who, raw in recording.messages)
    if "-E" not in recording.arguments or not answers:
        return False
    try:
        platform, workloads, _ = inputs(recording)
    except InputError:
        return False
    one_core = all(kind.cores == 1 for kind in platform.platform.kinds)
    profiles = [profile for workload in workloads for profile in workload.profiles.values()]
    plain = all(isinstance(profile, Homogeneous | Delay) for profile in profiles)
    from_zero = not platform.platform.initial_pstates.any()
    return one_core and plain and from_zero and platform.latency is None


def test_these_recordings_qualify() -> None:
    assert sorted(qualified()) == WHOLE


@pytest.mark.parametrize("name", WHOLE)
def test_energy_as_batsim_answered(name: str) -> None:
    recording = recordings()[name]
    own = OwnAccount(recording)
    if recording.aborted:  # Batsim refuses a start; so does our cluster, at the same place
        with pytest.raises(PolicyError, match="not free"):
            own.replay(recording)
    else:
        own.replay(recording)
    pairs = own.pairs
    assert pairs
    for ours, theirs in pairs:
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_energy_of_the_soaks_up_to_their_first_composed_job() -> None:
    compared = 0
    for name in SOAKS:
        recording = recordings()[name]
        for ours, theirs in OwnAccount(recording).replay(recording):
            assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-3), name
            compared += theirs > 0
    assert compared > 20
