"""Which nodes are withheld, for any nodes and offers: exactly those beyond the offer, and none flaps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.reservations import (
    Names,
    NodeReservation,
    Wanted,
    after,
    changes,
    is_ours,
    read_reservations,
)
from beasy_sched.plugins.slurm.slurm_commands import commands_of
from beasy_sched.plugins.slurm.withheld_nodes import (
    NodeNow,
    OfferSpan,
    Use,
    Withheld,
    counts_at,
    longest_limit_s,
    next_fall,
    withheld,
)
from beasy_sched.plugins.slurm.withholder import Withholder, check_names

KINDS = ("big", "small")


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeNow]:
    count = draw(st.integers(1, 12))
    uses = st.sampled_from(Use)
    free = st.sampled_from([0.0, 50.0, 150.0, 1000.0, math.inf])
    return [
        NodeNow(f"n{number}", draw(st.sampled_from(KINDS)), use, draw(free) if use is Use.BUSY else 0.0)
        for number in range(1, count + 1)
        for use in [draw(uses)]
    ]


@st.composite
def offers(draw: st.DrawFn) -> list[OfferSpan]:
    spans = []
    for _ in range(draw(st.integers(0, 6))):
        start_s = draw(st.integers(0, 50)) * 10.0
        spans.append(
            OfferSpan(
                draw(st.sampled_from(KINDS)),
                draw(st.integers(0, 12)),
                start_s,
                start_s + draw(st.sampled_from([10.0, 100.0, math.inf])),
            )
        )
    return spans


def sets_of(nodes: list[NodeNow]) -> st.SearchStrategy[frozenset[str]]:
    return st.sets(st.sampled_from([node.name for node in nodes])).map(frozenset)


LIMITS = st.sampled_from([0.0, 60.0, 300.0, math.inf])


@given(st.data(), clusters(), offers(), LIMITS)
def test_exactly_the_nodes_beyond_the_offer(
    data: st.DataObject, nodes: list[NodeNow], spans: list[OfferSpan], longest_s: float
):
    before = Withheld(data.draw(sets_of(nodes)), data.draw(sets_of(nodes)))
    now_s = 100.0
    chosen = withheld(nodes, spans, before, now_s, longest_s)
    counts = counts_at(spans, now_s)
    available = {kind: sum(node.kind == kind for node in nodes) for kind in KINDS}
    for kind in KINDS:
        names = {node.name for node in nodes if node.kind == kind}
        assert len(names & chosen.now) == max(available[kind] - counts.get(kind, 12), 0)
    fall = next_fall(spans, available, now_s, longest_s)
    assert (fall is None) == (chosen.fall_s is None) == (not chosen.ahead)
    if fall is not None:
        assert chosen.now <= chosen.ahead
        for kind in KINDS:
            names = {node.name for node in nodes if node.kind == kind}
            assert len(names & chosen.ahead) == available[kind] - min(fall[1][kind], available[kind])


@given(st.data(), clusters(), offers(), LIMITS)
def test_nothing_changes_while_nothing_changes(
    data: st.DataObject, nodes: list[NodeNow], spans: list[OfferSpan], longest_s: float
):
    before = Withheld(data.draw(sets_of(nodes)), data.draw(sets_of(nodes)))
    first = withheld(nodes, spans, before, 100.0, longest_s)
    assert withheld(nodes, spans, first, 100.0, longest_s) == first


@given(st.data(), clusters(), st.integers(0, 12))
def test_no_node_flaps_as_jobs_end(data: st.DataObject, nodes: list[NodeNow], count: int):
    """With one number, a withheld node without a job stays, and each change frees another node of jobs."""
    spans = [OfferSpan(kind, count, 0.0, math.inf) for kind in KINDS]
    chosen = withheld(nodes, spans, Withheld(), 0.0, 0.0)
    for _ in range(6):
        ends = data.draw(sets_of(nodes))
        nodes = [
            NodeNow(node.name, node.kind, Use.IDLE) if node.name in ends and node.use is Use.BUSY else node
            for node in nodes
        ]
        free = {node.name for node in nodes if node.use is not Use.BUSY}
        following = withheld(nodes, spans, chosen, 0.0, 0.0)
        left, entered = chosen.now - following.now, following.now - chosen.now
        assert len(left) == len(entered)
        assert not left & free
        assert entered <= free
        chosen = following


@given(clusters(), st.integers(0, 12), st.integers(0, 12))
def test_a_smaller_offer_withholds_more_of_the_same(nodes: list[NodeNow], one: int, other: int):
    many, few = max(one, other), min(one, other)
    first = withheld(nodes, [OfferSpan(kind, many, 0.0, math.inf) for kind in KINDS], Withheld(), 0.0, 0.0)
    second = withheld(nodes, [OfferSpan(kind, few, 0.0, math.inf) for kind in KINDS], first, 0.0, 0.0)
    assert first.now <= second.now


def test_nodes_that_sleep_come_first_then_idle_ones_then_those_free_soonest():
    nodes = [
        NodeNow("n1", "big", Use.BUSY, 500.0),
        NodeNow("n2", "big", Use.IDLE),
        NodeNow("n3", "big", Use.BUSY, 100.0),
        NodeNow("n4", "big", Use.ASLEEP),
        NodeNow("n5", "big", Use.IDLE),
    ]
    order = []
    for count in (4, 3, 2, 1, 0):
        chosen = withheld(nodes, [OfferSpan("big", count, 0.0, math.inf)], Withheld(), 0.0, 0.0)
        order += sorted(chosen.now - {*order})
    assert order == ["n4", "n5", "n2", "n3", "n1"]


def test_falls():
    spans = [
        OfferSpan("big", 4, 0, 100),
        OfferSpan("big", 3, 100, 200),
        OfferSpan("big", 1, 200, 300),
        OfferSpan("big", 0, 9e3, 1e4),
    ]
    have = {"big": 4}
    assert next_fall(spans, have, 0, 0) == (100, {"big": 3})
    assert next_fall(spans, have, 0, 250) == (100, {"big": 1})
    assert next_fall(spans, have, 0, math.inf) == (100, {"big": 0})
    assert next_fall(spans, have, 150, 0) == (200, {"big": 1})
    assert next_fall(spans, have, 250, 0) == (9e3, {"big": 0}), "none is below the present one before"
    assert next_fall(spans, {"big": 1}, 0, 0) == (9e3, {"big": 0}), "there are no more to lose"
    assert next_fall([], have, 0, math.inf) is None


def test_overlapping_offers_and_limits():
    spans = [OfferSpan("big", 4, 0, 100), OfferSpan("big", 2, 50, 60)]
    assert [counts_at(spans, at_s) for at_s in (0, 50, 60, 100)] == [{"big": 4}, {"big": 2}, {"big": 4}, {}]
    assert longest_limit_s([]) == 0
    assert longest_limit_s([60, 120]) == 120
    assert longest_limit_s([60, None]) == math.inf


# --- reservations -------------------------------------------------------------------------------------------

TEXT = (
    "ReservationName=beasy-now-main StartTime=1795897272 EndTime=1795897336 Duration=00:01:04 Nodes=n[3-4]"
    " NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=OVERLAP,IGNORE_JOBS,SPEC_NODES"
    " TRES=cpu=8 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null)"
    " Watts=n/a MaxStartDelay=(null)\n"
    "ReservationName=licences StartTime=1795897272 EndTime=1795897336 Duration=00:01:04 Nodes=(null)"
    " NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=ANY_NODES"
    " TRES=(null) Users=(null) Groups=(null)"
    " Accounts=physics,-bob Licenses=matlab:2 State=INACTIVE BurstBuffer=(null) Watts=n/a"
    " MaxStartDelay=(null)\n"
)
"""As Slurm 22.05.8 prints it."""


def test_reservations_are_read():
    ours, other = read_reservations(TEXT)
    assert (ours.name, ours.nodes, ours.users) == ("beasy-now-main", ("n3", "n4"), ("root",))
    assert (ours.start_s, ours.end_s) == (1795897272, 1795897336)
    assert is_ours(ours, ["n1", "n2", "n3", "n4"])
    assert not is_ours(ours, ["n3"])
    assert (other.nodes, other.users) == ((), ())
    assert not is_ours(other, ["n3"])
    assert read_reservations("No reservations in the system\n") == read_reservations("") == []


@pytest.mark.parametrize(
    "text", ["hello", "ReservationName=x StartTime=2026-11-28T20:21:12 EndTime=1 Nodes=n1", "Nodes=n[1-"]
)
def test_other_text_is_one_message(text: str):
    with pytest.raises(InputError, match=r"scontrol show reservation.*expected 'ReservationName="):
        read_reservations(text)


NOW_S = 1000.0
TIMES = st.integers(0, 40).map(lambda at: 900.0 + 10.0 * at)
NODES = st.sets(st.sampled_from(["n1", "n2", "n3"]), min_size=1).map(lambda names: tuple(sorted(names)))


@given(
    st.none() | st.tuples(NODES, TIMES, TIMES),
    st.none() | st.tuples(NODES, st.none() | TIMES, TIMES),
)
def test_changes_lead_from_what_is_to_what_should_be(
    found: tuple[tuple[str, ...], float, float] | None,
    wanted: tuple[tuple[str, ...], float | None, float] | None,
):
    has = None if found is None or found[2] <= found[1] else NodeReservation("r", *found)
    wants = None
    if wanted is not None:
        nodes, start_s, end_s = wanted
        begins = start_s is not None and start_s > NOW_S
        wants = Wanted(nodes, start_s if begins else None, max(end_s, (start_s or 0.0) + 10.0, NOW_S + 10.0))
    actions = changes("r", has, wants, NOW_S)
    assert len(actions) <= 2
    state = {} if has is None or has.end_s <= NOW_S else {"r": has}
    for action in actions:
        made = isinstance(action, a.MakeReservation)
        assert made == ("r" not in state)
        begun = not made and state["r"].start_s <= NOW_S
        assert not (begun and isinstance(action, a.ChangeReservation) and action.start_s is not None)
        state = after(state, action, NOW_S)
    assert ("r" in state) == (wants is not None)
    if wants is not None:
        now = state["r"]
        assert {*now.nodes} == {*wants.nodes}
        assert now.end_s == wants.end_s
        assert now.start_s <= NOW_S if wants.start_s is None else now.start_s == wants.start_s
        assert changes("r", now, wants, NOW_S) == []


def test_the_commands():
    make = a.MakeReservation("r", ("n1", "n2"), None, 1010.0)
    assert commands_of(make) == [
        ["scontrol", "create", "reservation", "ReservationName=r", "Users=root", "Flags=IGNORE_JOBS,OVERLAP",
         "StartTime=now", "Nodes=n[1-2]", "EndTime=uts1010"],
    ]  # fmt: skip
    assert commands_of(a.ChangeReservation("r", None, None, 1020.0)) == [
        ["scontrol", "update", "ReservationName=r", "EndTime=uts1020"]
    ]
    assert commands_of(a.DeleteReservation("r")) == [["scontrol", "delete", "ReservationName=r"]]
    assert commands_of(a.RestartJob("7")) == [["scontrol", "requeue", "7"]]
    assert commands_of(a.SwitchOff(())) == []


def test_a_name_that_another_has_taken():
    names = Names.of("main")
    other = NodeReservation(names.now, ("n1",), 0.0, 100.0, ("ada",), frozenset({"MAINT"}))
    with pytest.raises(
        ConfigError, match=r"reservation 'beasy-now-main' \(nodes n1, users ada\) was not made"
    ):
        check_names([other], "main", ["n1"])
    check_names([other], "night", ["n1"])


def test_an_idle_node_is_powered_down_only_once_it_was_reserved():
    """Otherwise a job could have started there between the look and the reservation."""
    holder = Withholder(["n1", "n2"], "main", epoch_s=0.0, step_s=60.0)
    nodes = [NodeNow("n1", "big", Use.IDLE), NodeNow("n2", "big", Use.IDLE)]
    spans = [OfferSpan("big", 1, 0.0, math.inf)]
    holder.look(0.0, [])
    (made,) = holder.decide(0.0, nodes, spans, 0.0)
    assert isinstance(made, a.MakeReservation)
    assert holder.decide(1.0, nodes, spans, 0.0) == [a.SwitchOff(("n2",))]
    assert holder.decide(2.0, nodes, spans, 0.0) == [], "it is asked once"
