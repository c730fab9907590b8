"""What a message may contain: any order of events, ids, sizes, times and hosts."""

from __future__ import annotations

import math
import sys
from copy import copy
from typing import Any

import numpy as np
import pytest
from talk import Scripted, Talk, completed, hosts, small_battery, start, submitted
from worlds import FAST, SLEEP_FIRST, SLOW, plans_of

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, CallAt, MeasureEnergy, Postpone, Reject, SetPState, Start
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import BeasyError, ConfigError, PeerError, PolicyError
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform, ServerKind, platform_of
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import notice


def test_the_order_of_events_in_a_message_does_not_matter() -> None:
    """The end of one job and the arrival of another: the policy sees both, asked once."""
    for reverse in (False, True):
        talk = Talk(make_policy("fcfs"))
        talk.at(0.0, submitted(0.0, "a", 4))
        events = [completed(5.0, "a", "0-3"), submitted(5.0, "b", 4)]
        found = talk.at(5.0, *(reversed(events) if reverse else events))
        assert found == [d.ExecuteJob(5.0, "w0!b", hosts("0-3"))]


@pytest.mark.parametrize(
    ("dynamic", "expected"), [(True, [d.FinishRegistration(0.0)]), (False, []), (None, [])]
)
def test_no_job_will_be_registered(dynamic: bool | None, expected: list[d.Decision]) -> None:
    session = Session(Scripted())
    config = {} if dynamic is None else {"dynamic-jobs-enabled": dynamic}
    told = e.SimulationBegins(0.0, (e.Resource(0, "n0"),), config)
    assert session.step(e.Message(0.0, [told])).decisions == expected


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_deciding_twice_in_an_instant_starts_nothing_twice(policy: str) -> None:
    talk = Talk(make_policy(policy))
    assert len(talk.at(1.0, submitted(1.0, "a", 2))) == 1
    assert talk.at(1.0) == []
    assert talk.at(1.0, submitted(1.0, "b", 2)) == [d.ExecuteJob(1.0, "w0!b", hosts("2-3"))]
    assert talk.at(1.0) == []


def test_a_policy_is_asked_once_a_message() -> None:
    talk = Talk()
    talk.at(1.0, submitted(1.0, "a"), submitted(1.0, "b"), e.RequestedCall(1.0))
    assert talk.policy.asked == [0.0, 1.0]


@pytest.mark.parametrize("back_s", [0.0, 5e-7, 1e-6])
def test_times_within_a_microsecond_are_the_same_instant(back_s: float) -> None:
    talk = Talk()
    talk.at(10.0)
    talk.at(10.0 - back_s, submitted(10.0 - back_s, "a"))


def test_time_does_not_run_backwards() -> None:
    talk = Talk()
    talk.at(10.0)
    with pytest.raises(PeerError, match=r"simulated time decreased: message at 9\.99999 s after 10"):
        talk.at(9.99999)


def test_a_simulation_begins_with_its_beginning() -> None:
    session = Session(Scripted())
    with pytest.raises(PeerError, match="must be SIMULATION_BEGINS"):
        session.step(e.Message(0.0, [submitted(0.0, "a")]))


# --- jobs ---


@pytest.mark.parametrize("res", [5, 2**63 - 2])
def test_a_job_that_is_too_large_is_rejected_with_a_log_line(res: int) -> None:
    talk = Talk()
    assert talk.at(0.0, submitted(0.0, "a", res)) == [d.RejectJob(0.0, "w0!a")]
    assert talk.log == [(0.0, "reject", "w0!a", "", "asks for more hosts than there are")]
    assert talk.facts == [{"hosts_asked": res, "hosts_in_all": 4}]
    assert talk.session.outcomes.counts()["rejected"] == 1
    assert talk.session.view.arrived == []


@pytest.mark.parametrize("job_id", ["w0!7", "w1!7", "w0!a b", "w0!é"])
def test_ids_come_back_as_they_came(job_id: str) -> None:
    talk = Talk(make_policy("fcfs"))
    job = e.JobRequest(job_id, 0, 1, "p", 10)
    assert talk.at(0.0, e.JobSubmitted(0.0, job)) == [d.ExecuteJob(0.0, job_id, hosts("0"))]


def test_no_walltime_is_no_limit() -> None:
    talk = Talk(make_policy("fcfs"))
    talk.at(0.0, submitted(0.0, "a", walltime=None))
    assert talk.session.view.ends[0][0] == math.inf


def test_a_job_submitted_twice_is_the_peers_fault() -> None:
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"))
    with pytest.raises(PeerError, match="w0!a was submitted twice"):
        talk.at(1.0, submitted(1.0, "a"))


@pytest.mark.parametrize("job", ["a", "never"])
def test_the_end_of_a_job_that_does_not_run_is_the_peers_fault(job: str) -> None:
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"))
    with pytest.raises(PeerError, match=rf"the end of job w0!{job}, which is not running"):
        talk.at(1.0, completed(1.0, job))


# --- a policy's mistakes ---


@pytest.mark.parametrize("where", ["0", "0-2", "3-4"])
def test_an_illegal_start_never_leaves_the_session(where: str) -> None:
    talk = Talk()
    with pytest.raises(PolicyError, match="w0!a"):
        talk.ask(0.0, lambda view: [start(view, "a", where)], submitted(0.0, "a", 2))


def test_two_jobs_on_one_host_are_refused() -> None:
    talk = Talk()
    both = lambda view: [start(view, "a", "0"), start(view, "b", "0")]  # noqa: E731
    with pytest.raises(PolicyError, match=r"w0!b was given hosts that are not free: 0 \(busy\)"):
        talk.ask(0.0, both, submitted(0.0, "a"), submitted(0.0, "b"))


def test_a_running_job_cannot_be_rejected() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    with pytest.raises(PolicyError, match="w0!a is running: it cannot be rejected"):
        talk.ask(1.0, lambda view: [Reject(view.running["w0!a"])])


def test_what_is_no_action_is_the_policys_fault() -> None:
    with pytest.raises(
        PolicyError, match="'scripted' at 0 s: schedule returned 'start', which is not an action"
    ):
        Talk().ask(0.0, lambda view: ["start"])  # type: ignore[list-item]


def test_a_policy_can_reject() -> None:
    talk = Talk()
    found = talk.ask(0.0, lambda view: [Reject(view.queue.first, "why not")], submitted(0.0, "a"))
    assert found == [d.RejectJob(0.0, "w0!a")]


def leave(view: View) -> list[Action]:
    sys.exit(0)


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError


def renamed(view: View) -> list[Action]:
    job = first(view)
    job.id = 7  # type: ignore[assignment]
    return [Reject(job)]


def first(view: View) -> Job:
    job = view.queue.first
    assert job is not None
    return job


@pytest.mark.parametrize(
    ("say", "told"),
    [
        (leave, r"failed at 1 s, in schedule: SystemExit: 0 \(.*test_messages.py:\d+\)"),
        (lambda view: None, "schedule returned None, expected a list of actions"),
        (lambda view: "start", "schedule returned 'start', expected a list of actions"),
        (lambda view: {"a": 1}, "expected a list of actions"),
        (lambda view: [Unshowable()], "returned a Unshowable, which is not an action"),
        (lambda view: [CallAt("x")], "returned CallAt with at 'x': expected a time"),
        (lambda view: [CallAt(10**400)], "CallAt with at 1000+"),
        (lambda view: [Start(first(view), [0])], r"Start with hosts \[0\]: expected a HostSet"),
        (lambda view: [Start(first(view), HostSet([0]))], "expected an array of integers"),
        (lambda view: [Start(first(view), HostSet(np.array([0.0])))], "expected an array of integers"),
        (lambda view: [Start(first(view), HostSet.of([0.5]))], "'float' object cannot be interpreted"),
        (lambda view: [Start("w0!a", HostSet.of([0]))], "Start with job 'w0!a': expected a Job"),
        (lambda view: [Start(copy(first(view)), HostSet.of([0]))], "w0!a is not in the queue: was it copied"),
        (lambda view: [Reject(copy(first(view)))], "w0!a is not in the queue: was it copied"),
        (lambda view: [Start(first(view), HostSet.of([0]), 7)], "Start with rule 7: expected a string"),
        (lambda view: [Postpone(first(view), "r", [1])], r"Postpone with facts \[1\]: expected a dict"),
        (
            lambda view: [Postpone(first(view), "r", {"a": [1]})],
            r"facts \{'a': \[1\]\}: expected a dict",
        ),
        (
            lambda view: [Postpone(first(view), "r", {1: 1})],
            r"facts \{1: 1\}: expected a dict",
        ),
        (lambda view: [Postpone(first(view), "r", {"a": 10**400})], r"facts \{'a': 1000+"),
        (renamed, "Reject with job w0!a, which was modified by the policy"),
        (lambda view: [SetPState(HostSet.of([0]), 1.0)], "SetPState with pstate 1.0: expected an integer"),
        (lambda view: [SetPState(HostSet.of([0]), 10**30)], "is neither a computing nor the sleep state"),
        (lambda view: view.running.clear(), "no attribute 'clear'"),
        (lambda view: view.queue.res.fill(0), "read-only"),
    ],
)
def test_whatever_a_policy_gets_wrong_is_told_with_its_name_and_call(say: Any, told: str) -> None:
    talk = Talk()
    with pytest.raises(PolicyError, match=told) as found:
        talk.ask(1.0, say, submitted(1.0, "a"))
    assert "'scripted'" in str(found.value) or "w0!a" in str(found.value) or "P-state" in str(found.value)
    assert not talk.session.cluster.running


def test_a_policy_that_overwrites_its_view_harms_nobody_else() -> None:
    talk = Talk()

    def overwrite(view: View) -> list[Action]:
        view.now = view.arrived = view.ended = view.budget = "mine"  # type: ignore[assignment]
        return []

    talk.ask(1.0, overwrite, submitted(1.0, "a"))
    talk.ask(2.0, lambda view: [Start(first(view), HostSet.of([0]))], submitted(2.0, "b"))
    talk.at(3.0, completed(3.0, "a"))
    assert talk.session.view.now == 3.0


def test_hosts_of_a_job_are_a_copy_of_the_policys() -> None:
    talk, ids = Talk(), np.array([1])
    told = talk.ask(1.0, lambda view: [Start(first(view), HostSet(ids, "3"))], submitted(1.0, "a"))
    ids[0] = 2
    talk.at(2.0, completed(2.0, "a", "1"))
    assert told == [d.ExecuteJob(1.0, "w0!a", HostSet.of([1]))]
    assert [str(x.alloc) for x in told if isinstance(x, d.ExecuteJob)] == ["1"]
    assert talk.session.cluster.free.all()


def test_only_so_much_of_what_is_unknown_is_told() -> None:
    talk = Talk()
    talk.at(1.0, *(e.UnknownEvent(1.0, f"TYPE{number}", None) for number in range(30_000)))
    talk.at(2.0, e.UnknownEvent(2.0, "x" * 1_000_000, None))
    warnings = talk.session.warnings
    assert len(warnings) == 101
    assert warnings[0] == "unknown event type 'TYPE0' (ignored)"
    assert warnings[-1] == "more than 100 unknown event types and fields: the rest are not listed"


def test_a_long_type_is_cut() -> None:
    talk = Talk()
    talk.at(1.0, e.UnknownEvent(1.0, "x" * 1_000_000, None))
    assert len(talk.session.warnings[0]) < 300


@pytest.mark.parametrize("name", ["beasy", "peak", "next", "last", "workload"])
def test_a_policy_that_reckons_with_speeds_says_so_where_there_are_none(name: str) -> None:
    properties = {key: text for key, text in host_properties(FAST).items() if key != "speed_per_state"}
    site = small_battery()
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n0",))
    plans = plans_of(site, platform, [np.zeros((3, 1), dtype=np.int8)])
    session = Session(make_policy(name), SessionOptions(site=site, plans=plans, energy=EnergySource.MODEL))
    begins = e.SimulationBegins(0.0, (e.Resource(0, "n0", properties=properties),))
    with pytest.raises(ConfigError, match=r"requires the servers' speeds.*host 'n0'.*-p/--platform"):
        session.step(e.Message(0.0, [begins]))


@pytest.mark.parametrize("say", [lambda view: view.oops, lambda view: 1 / 0, lambda view: None])
def test_whatever_a_policy_raises_is_told_in_one_message(say: object) -> None:
    with pytest.raises(BeasyError):
        Talk().ask(0.0, say)  # type: ignore[arg-type]


def test_a_policy_cannot_write_to_what_it_sees() -> None:
    view = Talk().session.view
    arrays = (
        view.host_state, view.pstate, view.available, view.state_since_s, view.sleep_requested(),
        view.wake_requested(), view.state_counts, view.platform.kind_of, view.power_model.idle_w,
    )  # fmt: skip
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    view.free_mask()[:] = False
    assert view.free_count == 4


# --- hosts ---


def resources(*kinds: object, names: str = "abcdefgh") -> tuple[e.Resource, ...]:
    return tuple(e.Resource(i, names[i], properties=host_properties(kind)) for i, kind in enumerate(kinds))  # type: ignore[arg-type]


def test_hosts_of_equal_properties_are_of_one_kind_whatever_the_order_of_properties() -> None:
    same = host_properties(FAST)
    turned = dict(reversed(same.items()))
    given = (*resources(FAST, SLOW), e.Resource(2, "c", properties=turned))
    platform = platform_of(e.SimulationBegins(0.0, given))
    assert platform.kind_of.tolist() == [0, 1, 0]
    assert platform.kinds[0].speeds_flops == FAST.speeds_flops
    assert platform.kinds[0].sleep == FAST.sleep


def test_hosts_are_numbered_by_id_not_by_place() -> None:
    given = tuple(reversed(resources(FAST, SLOW)))
    assert platform_of(e.SimulationBegins(0.0, given)).names == ("a", "b")


def test_ids_with_holes_are_refused() -> None:
    with pytest.raises(PeerError, match="not numbered 0, 1, 2"):
        platform_of(e.SimulationBegins(0.0, (e.Resource(0, "a"), e.Resource(2, "b"))))


def known() -> Platform:
    """As a platform file gives it: more hosts, another order, one of them asleep at the start."""
    return Platform((SLOW, FAST), np.array([1, 0, 0]), ("c", "b", "a"), np.array([2, 0, 1]))


def test_a_platform_file_is_matched_by_name() -> None:
    bare = (e.Resource(0, "a"), e.Resource(1, "c"))
    session = Session(Scripted(), SessionOptions(platform=known()))
    session.step(e.Message(0.0, [e.SimulationBegins(0.0, bare)]))
    assert [session.cluster.platform.kind(i).name for i in (0, 1)] == ["slow", "fast"]
    assert session.cluster.pstate.tolist() == [1, 2]
    assert session.view.free_count == 1


def test_a_host_that_the_platform_file_lacks_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"does not contain the simulator's host 'x'.*\(1 of 2 hosts are missing\)"
    ):
        platform_of(e.SimulationBegins(0.0, (e.Resource(0, "a"), e.Resource(1, "x"))), known())


@pytest.mark.parametrize(
    ("kind", "state", "told", "expected"),
    [
        (FAST, "idle", None, 0),
        (FAST, "sleeping", None, 2),
        (FAST, "idle", "1", 1),
        (FAST, "idle", "2", 2),
        (SLEEP_FIRST, "idle", None, 1),
        (SLEEP_FIRST, "sleeping", None, 0),
        (SLEEP_FIRST, "idle", "0", 0),
        (SLEEP_FIRST, "idle", "2", 2),
    ],
)
def test_where_a_host_starts(kind: ServerKind, state: str, told: str | None, expected: int) -> None:
    properties = {**host_properties(kind), **({} if told is None else {"initial_pstate": told})}
    session = Session(Scripted())
    session.step(e.Message(0.0, [e.SimulationBegins(0.0, (e.Resource(0, "a", state, properties),))]))
    asleep = kind.sleep is not None and expected == kind.sleep.pstate
    assert session.cluster.pstate.tolist() == [expected]
    assert session.view.free_count == (not asleep)
    guessed = told is None and kind is SLEEP_FIRST
    assert len(session.warnings) == guessed
    if guessed:
        assert "'a'" in session.warnings[0]
        assert f"start {'asleep' if asleep else 'on'}, in P-state {expected}" in session.warnings[0]


@pytest.mark.parametrize("told", ["5", "-1", "on", "1.0"])
def test_a_start_that_is_no_p_state_is_refused(told: str) -> None:
    given = e.Resource(0, "a", "idle", {**host_properties(FAST), "initial_pstate": told})
    with pytest.raises(ConfigError, match=rf"'a': initial_pstate '{told}' .* expected 0 to 4"):
        platform_of(e.SimulationBegins(0.0, (given,)))


# --- what nobody knows ---


def test_unknown_events_and_fields_are_told_once() -> None:
    talk = Talk()
    for now in (1.0, 2.0):
        talk.at(now, e.UnknownEvent(now, "NEWS", {}))
        talk.session.step(e.Message(now, [], ("$.events[0].data.colour",)))
    assert talk.session.warnings == [
        "unknown event type 'NEWS' (ignored)",
        "unknown field data.colour (ignored)",
    ]


@pytest.mark.parametrize("kind", ["no_more_static_job_to_submit", "no_more_external_event_to_occur", "news"])
def test_other_notices_change_nothing(kind: str) -> None:
    assert Talk().at(1.0, notice(1.0, kind, {"type": kind})) == []


def test_production_without_a_site_is_passed_over() -> None:
    assert Talk().at(1.0, notice(1.0, "power", {"power_available": "much"})) == []


def test_start_is_the_policys_word() -> None:
    assert Start.__struct_fields__ == ("job", "hosts", "rule", "facts")


@pytest.mark.parametrize("say", [lambda view: [CallAt(-1.0)], lambda view: [MeasureEnergy()]])
def test_a_policy_that_keeps_itself_busy_is_stopped(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beasy_sched.engine.pstate_commands.MOST_BUSY_CALLS", 100)
    talk = Talk()
    for number in range(300):  # with news in between it may go on
        talk.ask(1.0 + number, say, submitted(1.0 + number, f"a{number}"))
    times = [1000.0 + number / 1000 for number in range(101)]
    for now in times[:-1]:
        talk.ask(now, say, e.RequestedCall(now), e.EnergyAnswer(now, 1.0))
    with pytest.raises(PolicyError, match=r"100 times to be called immediately or measured.*endless loop"):
        talk.ask(times[-1], say, e.RequestedCall(times[-1]), e.EnergyAnswer(times[-1], 1.0))


@pytest.mark.parametrize(
    ("now", "event", "told"),
    [
        (1e308, e.RequestedCall(1.0), "the message is for 1e.308 s"),
        (math.nan, e.RequestedCall(1.0), "the message is for nan"),
        (2.0, e.RequestedCall(1e308), "an event's timestamp is 1e.308 s"),
        (2.0, e.EnergyAnswer(2.0, 1e308), "found consumed_energy 1e.308"),
        (2.0, e.EnergyAnswer(2.0, -1.0), "found consumed_energy -1"),
        (
            2.0,
            notice(2.0, "power", {"type": "power", "power_available": 1e308}),
            "found power_available 1e.308",
        ),
    ],
)
def test_numbers_beyond_any_simulation_are_the_peers_fault(now: float, event: e.Event, told: str) -> None:
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    with pytest.raises(PeerError, match=told):
        talk.at(now, event)
