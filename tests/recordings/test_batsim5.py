"""Recorded runs of a real Batsim 5 as a peer: what the scheduler's side answers, and what it must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from protocol.batsim5_files import Recorded, needs_recordings, recorded
from protocol.test_batsim5_recorded import BAD_HELLOS, REFUSED

from beasy_sched.engine import Session
from beasy_sched.engine.actions import Action, CallAt, Kill, Reject, SetPState, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.errors import BeasyError, DecisionRefused, PolicyError
from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol import batsim5
from beasy_sched.protocol.batsim5_rules import Rules
from beasy_sched.protocol.detection import meet

pytestmark = needs_recordings

PLAYED = [
    name for name, run in recorded().items() if len(run.frames) > 2 and name not in (*REFUSED, *BAD_HELLOS)
]
"""Runs whose every message can be read."""

ABORTED = {
    "exec_oob": "there are only 0 to 3",
    "exec_sleeping": "not in a computing P-state",
    "exec_switching": "is switching on or off",
    "exec_twice": "it is already running",
    "exec_unknown": "it was not submitted",
    "kill10": "its end was announced",
    "kill_done": "its end was announced",
    "kill_done_later": "its end was announced",
    "kill_queued": "is not running",
    "kill_twice": "a second time",
    "kill_unknown": "is not running",
    "off_already": "cannot change to it from P-state 3",
    "off_busy": "a job runs on host 0",
    "off_unknown_ps": "cannot change to it",
    "off_virtual": "cannot change to it",
    "off_while_off": "switching on or off",
    "off_while_on": "switching on or off",
    "on_while_off": "switching on or off",
    "ps_unknown": "cannot change to it",
    "ps_unknown_host": "there are only 0 to 3",
    "reject_running": "it is already running",
    "reject_then_exec": "it was not submitted, or has ended",
    "reject_unknown": "it was not submitted",
}
"""Runs that Batsim aborted at the last reply, and what is said instead of sending that."""
NOT_OURS = {
    "call_dup_periodic": "CallPeriodically",
    "call_incompatible": "CallPeriodically",
    "call_offset": "CallPeriodically",
    "dyn": "RegisterProfile",
    "dyn_disabled": "RegisterProfile",
    "force_stop": "ForceStop",
    "infinite_call_end": "CallPeriodically",
    "init_probe1": "ProbeRequest",
    "not_implemented_trigger": "ProbeRequest",
    "probe_then_switch": "ProbeRequest",
    "probes": "ProbeRequest",
    "probes_noenergy": "ProbeRequest",
    "stop_at_tick": "ProbeRequest",
    "stop_between": "ProbeRequest",
    "stop_next_tick": "ProbeRequest",
    "stop_offtick": "ProbeRequest",
    "stopcall_at_tick": "CallPeriodically",
}
"""Runs with a request that no scheduler of ours sends, whatever Batsim does with it."""
TAKEN_IN_SILENCE = {
    "exec_busy": "is busy",
    "exec_comma": "on 2 hosts: it requests 1",
    "exec_fewer": "on 1 hosts: it requests 2",
    "exec_more": "on 4 hosts: it requests 1",
    "ps_sleep": "switching on or off",
    "ps_in_transition": "switching on or off",
    "ps_virtual": "cannot change to it",
    "calls": "a call was requested for 0 s",
}
"""Runs in which Batsim took what is wrong; the last: answered at once, which makes a scheduler spin."""
CHANGED = {
    "on_already": "waking what is awake is a change of speed",
    "ps_asleep": "a change of speed of what sleeps is a switch",
}
"""Runs with a P-state request that is sent in the other form, and why."""
DEADLOCKS = {"donothing"}
"""Runs in which the scheduler starts nothing, and every message is in order."""


def replies_of(run: Recorded) -> Iterator[tuple[bytes, d.Reply]]:
    """Each message with its recorded reply, after the handshake."""
    for (_, message), (_, reply) in zip(run.frames[2::2], run.frames[3::2], strict=True):
        yield message, batsim5.decode_reply(reply)


# --- the rules against what the real one aborted on ---


@pytest.mark.parametrize("name", PLAYED)
def test_the_rules_refuse_what_batsim_aborted_on_and_allow_the_rest(name: str) -> None:
    run, rules = recorded()[name], Rules()
    *before, last = replies_of(run)
    refused = {**ABORTED, **NOT_OURS, **TAKEN_IN_SILENCE}.get(name)
    if name in ABORTED:
        for message, reply in before:
            rules.hear(batsim5.decode_message(message))
            assert rules.allow(reply) == reply
        rules.hear(batsim5.decode_message(last[0]))
        with pytest.raises(DecisionRefused, match=str(refused)):
            rules.allow(last[1])
        return
    changes, refusal = 0, None
    for message, reply in (*before, last):
        rules.hear(batsim5.decode_message(message))
        try:
            changes += rules.allow(reply) != reply
        except DecisionRefused as error:
            refusal = str(error)
            break
    if refused is not None:
        assert refusal is not None
        assert refused in refusal
        return
    assert refusal is None
    assert (changes > 0) == (name in CHANGED)
    assert run.exit_code in (0, None) or name in DEADLOCKS | set(CHANGED)


def test_every_run_that_batsim_aborted_is_in_a_list() -> None:
    aborted = {name for name, run in recorded().items() if run.exit_code not in (0, None)}
    at_load = {name for name in aborted if not recorded()[name].frames}
    assert aborted == at_load | {
        name for name in {**ABORTED, **NOT_OURS, **REFUSED, **BAD_HELLOS} if name in aborted
    } | {
        "on_already",
        "donothing",
    }
    assert set(ABORTED) <= aborted


# --- sessions against recorded messages ---


class FirstCome(Policy):
    """Jobs in the order of their arrival, each on the free hosts with the lowest numbers: as recorded."""

    name = "first-come"

    def schedule(self, view: View) -> Sequence[Action]:
        actions: list[Action] = []
        free = np.flatnonzero(view.free_mask())
        for job in view.queue:
            if job.res > len(free):
                break
            actions.append(Start(job, HostSet.of(free[: job.res])))
            free = free[job.res :]
        return actions


class Recited(Policy):
    """Wants what the recorded scheduler answered to this message, as far as a policy can say it."""

    name = "recited"

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[d.Decision] = []

    def schedule(self, view: View) -> Sequence[Action]:
        wanted, self.wanted = self.wanted, []
        return [action for each in wanted for action in _action(each, view)]


def _action(decision: d.Decision, view: View) -> Iterator[Action]:
    waiting = {job.id: job for job in view.queue}
    if isinstance(decision, d.ExecuteJob) and decision.job_id in waiting:
        yield Start(waiting[decision.job_id], decision.alloc)
    elif isinstance(decision, d.RejectJob) and decision.job_id in waiting:
        yield Reject(waiting[decision.job_id])
    elif isinstance(decision, d.SetResourceState):
        yield SetPState(decision.resources, decision.state)
    elif isinstance(decision, d.CallMeLater):
        yield CallAt(decision.at)
    elif isinstance(decision, d.KillJobs):
        yield from (Kill(view.running[job]) for job in decision.job_ids if job in view.running)


COMPARED = (d.ExecuteJob, d.RejectJob, d.SetResourceState)


def told(reply: d.Reply) -> list[d.Decision]:
    """The decisions that must be as recorded, whatever their order within a message."""
    return sorted((each for each in reply.decisions if isinstance(each, COMPARED)), key=repr)


@dataclass
class Answers:
    """What a session of ours said to the messages of a recorded Batsim."""

    ours: list[d.Reply]
    recorded: list[d.Reply]
    error: BeasyError | None = None

    @property
    def same(self) -> bool:
        return self.error is None and list(map(told, self.ours)) == list(map(told, self.recorded))


def play(run: Recorded, policy: Policy, before: Callable[[d.Reply], None] = lambda reply: None) -> Answers:
    """Answer a recorded Batsim; every answer goes through the rules and the codec."""
    session, talk = Session(policy), meet(run.frames[0][1])
    assert talk.greeting is not None
    assert batsim5.decode_hello(talk.greeting).features.forward_profiles_on_simulation_begins
    answers = Answers([], [])
    for message, reply in replies_of(run):
        before(reply)
        answers.recorded.append(reply)
        try:
            answers.ours.append(batsim5.decode_reply(talk.encode(session.step(talk.decode(message)))))
        except BeasyError as error:
            answers.error = error
            break
    return answers


FIRST_COME = (
    *("delayed_reply", "events", "exec_min_placement", "extra", "fcfs", "fcfs_noenergy", "fwd_kill4"),
    *(
        "hello_no_constraints",
        "init_fcfs",
        "kill4",
        "kill_race",
        "kill_race_after",
        "kill_race_eps",
        "natural",
    ),
    *(
        "no_nul",
        "order_sorted",
        "precise",
        "probes",
        "res0",
        "same_end",
        "stop_between",
        "tcp",
        "walltime_race",
    ),
)
"""Runs whose scheduler started jobs in the order of their arrival at once, whatever else it did."""


@pytest.mark.parametrize("name", FIRST_COME)
def test_a_rule_decides_as_recorded(name: str) -> None:
    answers = play(recorded()[name], FirstCome())
    assert answers.error is None
    starts = [
        [x for x in told(reply) if isinstance(x, d.ExecuteJob | d.RejectJob)] for reply in answers.recorded
    ]
    at = [reply.now for reply in answers.ours]  # one recorded scheduler took its time
    untimed = [[(x.job_id, getattr(x, "alloc", None)) for x in some] for some in starts]
    assert [[(x.job_id, getattr(x, "alloc", None)) for x in told(reply)] for reply in answers.ours] == untimed
    assert at == sorted(at)


LEGAL = sorted(set(PLAYED) - {*ABORTED, *NOT_OURS, *TAKEN_IN_SILENCE, *CHANGED})
OTHERWISE = {
    "delayed_reply": "the recorded scheduler took three seconds to answer",
    "now_past": "the recorded reply is stamped with a time in the past",
    "ts_past": "the recorded reply is stamped with a time in the past",
}
"""Runs without a fault that a session answers in another way."""
NOT_SENT = {
    "ps_same": "a request for the state that hosts are in is not sent",
    "switches": "host 2 is wanted in two states at once: only the later request is sent",
    "switches_noenergy": "host 2 is wanted in two states at once: only the later request is sent",
}
"""Runs without a fault in which a recorded request is not sent, so that its recorded answer surprises."""


@pytest.mark.parametrize("name", LEGAL)
def test_what_a_policy_wants_is_sent_as_it_was_recorded(name: str) -> None:
    policy = Recited()

    def prompt(reply: d.Reply) -> None:
        policy.wanted = reply.decisions

    answers = play(recorded()[name], policy, prompt)
    if name in NOT_SENT:
        assert "which was not requested" in str(answers.error)
        return
    assert answers.error is None
    assert answers.same == (name not in OTHERWISE), list(zip(answers.ours, answers.recorded, strict=False))


@pytest.mark.parametrize("name", ABORTED)
def test_what_made_batsim_abort_is_never_sent(name: str) -> None:
    """A policy that wants it is stopped by the engine, or its request waits."""
    policy = Recited()

    def prompt(reply: d.Reply) -> None:
        policy.wanted = reply.decisions

    answers = play(recorded()[name], policy, prompt)
    if answers.error is None:
        assert told(answers.ours[-1]) != told(answers.recorded[-1]) or name.startswith("kill")
        assert not any(isinstance(each, d.KillJobs) for each in answers.ours[-1].decisions)
    else:
        assert isinstance(answers.error, PolicyError)
