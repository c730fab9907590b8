"""External placement: the policy offers servers, others start jobs and switch servers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from talk import Talk, production, small_battery, submitted

from beasy_sched.engine.actions import Action, Offer, Start
from beasy_sched.engine.placement import offered
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.engine.session_words import STARTED_BY_OTHERS
from beasy_sched.errors import ConfigError, PeerError, PolicyError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import JOB_RUNS, notice


class Scripted(Policy):
    """Returns the given actions, one list per call."""

    name = "scripted"
    can_offer = True

    def __init__(self, *answers: Sequence[Action]) -> None:
        super().__init__()
        self.answers = [*answers]

    def schedule(self, view: View) -> Sequence[Action]:
        return self.answers.pop(0) if self.answers else ()


class StartsAll(Policy):
    name = "starts-all"
    can_offer = True

    def schedule(self, view: View) -> Sequence[Action]:
        return [Start(job, HostSet.of([0])) for job in view.queue]


def runs(now: float, job: str, where: str) -> e.Notify:
    return notice(now, JOB_RUNS, {"type": JOB_RUNS, "job_id": f"w0!{job}", "resources": where})


def ended(now: float, job: str, where: str) -> e.JobCompleted:
    return e.JobCompleted(now, f"w0!{job}", e.JobEnd.SUCCESS, HostSet.parse(where))


def external(policy: Policy, count: int = 4, **options: object) -> Talk:
    return Talk(policy, count=count, placement=Placement.EXTERNAL, **options)


def kind_of(talk: Talk) -> str:
    return talk.session.view.platform.kinds[0].name


def test_a_policy_that_cannot_offer_is_an_error_before_the_run() -> None:
    with pytest.raises(ConfigError, match="policy 'greenslot' does not support external placement"):
        external(NoOffers())


class NoOffers(Policy):
    name = "greenslot"

    def schedule(self, view: View) -> Sequence[Action]:
        return ()


def test_a_start_is_the_policys_error() -> None:
    talk = external(StartsAll())
    with pytest.raises(PolicyError, match="starts job w0!1, but others place the jobs"):
        talk.at(0.0, submitted(0.0, "1", 1))


def test_an_offer_without_external_placement_is_the_policys_error() -> None:
    with pytest.raises(PolicyError, match="offers require external placement"):
        Talk(Scripted((), [Offer("x", 1, 0.0, math.inf)]), count=4).at(1.0, submitted(1.0, "1", 1))


@pytest.mark.parametrize(
    ("offer", "told"),
    [
        (Offer("nothing", 1, 0.0, 1.0), "kind 'nothing' are offered; the kinds are"),
        (Offer("x", -1, 0.0, 1.0), "count -1: expected an integer"),
        (Offer("x", 1, math.nan, 1.0), "a time nan: expected seconds"),
    ],
)
def test_a_wrong_offer_is_the_policys_error(offer: Offer, told: str) -> None:
    talk = external(Scripted((), [offer]))
    with pytest.raises(PolicyError, match=told):
        talk.at(1.0, submitted(1.0, "1", 1))


def test_offers_are_kept_until_others_replace_them_all() -> None:
    policy = Scripted()
    talk = external(policy)
    assert talk.session.offers == ()
    kind = kind_of(talk)
    first = (Offer(kind, 3, 0.0, 60.0, "r"), Offer(kind, 1, 60.0, math.inf, "r"))
    second = (Offer(kind, 2, 0.0, math.inf, "r"),)
    policy.answers = [first, (), second]
    for now, kept in ((1.0, first), (2.0, first), (3.0, second)):
        talk.at(now, submitted(now, str(now), 1))
        assert talk.session.offers == kept
    assert [row[:2] for row in talk.log if row[1] == "offer"] == [(1.0, "offer"), (3.0, "offer")]


def test_the_lowest_offer_applies_and_a_time_without_one_is_not_limited() -> None:
    offers = [Offer("a", 3, 0.0, 60.0), Offer("a", 1, 30.0, 40.0), Offer("b", 0, 0.0, math.inf)]
    assert [offered(offers, "a", at_s) for at_s in (0.0, 30.0, 40.0, 60.0)] == [3, 1, 3, math.inf]
    assert offered(offers, "b", 1e9) == 0
    assert offered(offers, "c", 0.0) == math.inf


def test_jobs_that_others_start_run_without_a_decision() -> None:
    talk = external(make_policy("easy"))
    decisions = talk.at(0.0, submitted(0.0, "1", 2), submitted(0.0, "2", 1))
    assert not [each for each in decisions if isinstance(each, d.ExecuteJob)]
    assert talk.session.cluster.queue.count == 2
    talk.at(5.0, runs(5.0, "2", "3"))
    assert [*talk.session.cluster.running] == ["w0!2"]
    assert (5.0, "start", "w0!2", "3", STARTED_BY_OTHERS) in talk.log
    talk.at(9.0, ended(9.0, "2", "3"))
    assert talk.session.outcomes.columns()["start_s"].tolist() == [5.0]
    with pytest.raises(PeerError, match=r"w0!2 does not wait"):
        talk.at(10.0, runs(10.0, "2", "3"))


def test_a_host_with_several_jobs_is_busy_until_the_last_has_ended() -> None:
    """Job 1 takes half of hosts 0 and 1, job 2 half of host 1; the hosts' energy counts once."""
    talk = external(make_policy("easy"), site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 0.0), submitted(0.0, "1", 2), submitted(0.0, "2", 1))
    talk.at(10.0, runs(10.0, "1", "0-1"))
    talk.at(20.0, runs(20.0, "2", "1"))
    cluster = talk.session.cluster
    assert cluster.state.tolist() == [BUSY, BUSY, IDLE, IDLE]
    talk.at(30.0, ended(30.0, "1", "0-1"))
    assert cluster.state.tolist() == [IDLE, BUSY, IDLE, IDLE]
    assert cluster.free_count == 3
    talk.at(40.0, ended(40.0, "2", "1"))
    assert cluster.state.tolist() == [IDLE] * 4
    first, second = talk.session.outcomes.columns()["energy_j"].tolist()
    busy_w = first / 40.0  # 2 hosts, 20 s
    assert second == pytest.approx(20.0 * busy_w)
    talk.at(60.001, production(60.001, 0.0))
    assert talk.session.power is not None
    idle_w = 50.0
    used_j = talk.session.power.trace[0].record.demand_w * 60.001
    assert used_j == pytest.approx(4 * idle_w * 60.001 + 50.0 * (busy_w - idle_w))


def test_a_job_may_get_other_numbers_of_hosts_than_it_asked_for() -> None:
    talk = external(make_policy("easy"))
    talk.at(0.0, submitted(0.0, "1", 2), submitted(0.0, "2", 1))
    talk.at(1.0, runs(1.0, "1", "0-2"))
    assert talk.session.cluster.running["w0!1"].res == 3
    assert talk.session.cluster.queue.hosts_asked == 1


def test_hosts_may_be_switched_without_a_command() -> None:
    talk = external(make_policy("easy"))
    platform = talk.session.view.platform
    asleep = int(platform.sleep_pstate[0])
    talk.at(1.0, e.ResourceStateChanged(1.0, HostSet.parse("2-3"), asleep))
    assert talk.session.cluster.state.tolist() == [IDLE, IDLE, ASLEEP, ASLEEP]
    talk.at(2.0, submitted(2.0, "1", 1), e.ResourceStateChanged(2.0, HostSet.parse("3"), 0))
    assert talk.session.cluster.state.tolist() == [IDLE, IDLE, ASLEEP, IDLE]
    talk.at(3.0, runs(3.0, "1", "3"))
    with pytest.raises(PeerError, match="reached P-state"):
        talk.at(4.0, e.ResourceStateChanged(4.0, HostSet.parse("3"), asleep))


def test_no_job_runs_on_a_sleeping_host() -> None:
    talk = external(make_policy("easy"))
    asleep = int(talk.session.view.platform.sleep_pstate[0])
    talk.at(1.0, submitted(1.0, "1", 1), e.ResourceStateChanged(1.0, HostSet.parse("3"), asleep))
    with pytest.raises(PeerError, match="not on: 3 \\(asleep\\)"):
        talk.at(2.0, runs(2.0, "1", "3"))


def test_a_waiting_job_may_take_a_share_of_a_host() -> None:
    talk = external(make_policy("easy"))
    request = e.JobRequest("w0!1", 0.0, 1, "p", None, extras={"host_share": 0.25})
    talk.at(0.0, e.JobSubmitted(0.0, request))
    job = talk.session.cluster.queue.first
    assert job is not None
    assert job.terms.host_share == 0.25
    wrong = e.JobRequest("w0!2", 1.0, 1, "p", None, extras={"host_share": 2})
    talk.at(1.0, e.JobSubmitted(1.0, wrong))
    assert any("host_share: found 2, expected a number above 0" in text for text in talk.session.warnings)
