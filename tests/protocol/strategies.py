"""Arbitrary messages, replies and JSON for the codec's properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.notices import notice

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
micros = st.integers(0, 10**12).map(lambda n: n / 10**6)
"""Times that six decimals tell exactly."""
integers = st.integers(-(2**63), 2**63 - 1)
reals = st.integers(-(10**12), 10**12).map(lambda n: n / 10**6)

json_values = st.recursive(
    st.none() | st.booleans() | integers | reals | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=4)
hosts = st.sets(st.integers(0, 300), max_size=12).map(HostSet.of)
some_hosts = st.sets(st.integers(0, 300), min_size=1, max_size=12).map(HostSet.of)
pstates = st.integers(-1, 20)

_resources = st.builds(
    e.Resource,
    st.integers(0, 5000),
    texts,
    texts,
    st.dictionaries(texts, texts, max_size=3),
    st.dictionaries(texts, texts, max_size=3),
)
_several_resources = st.lists(_resources, max_size=4).map(tuple)
_extras = objects.map(
    lambda found: {k: v for k, v in found.items() if k not in e.JobRequest.__struct_fields__} or None
)
_jobs = st.builds(
    e.JobRequest,
    texts,
    micros | st.integers(0, 10**9),
    st.integers(1, 2**31 - 1),
    texts,
    st.none() | st.integers(1, 10**9) | micros.filter(lambda x: x > 0),
    _extras,
)
_known = {
    "SIMULATION_BEGINS",
    "SIMULATION_ENDS",
    "JOB_SUBMITTED",
    "JOB_COMPLETED",
    "JOB_KILLED",
    "RESOURCE_STATE_CHANGED",
    "NOTIFY",
    "REQUESTED_CALL",
    "ANSWER",
}

events = st.one_of(
    st.builds(
        e.SimulationBegins,
        micros,
        _several_resources,
        objects,
        st.dictionaries(texts, texts, max_size=3),
        st.dictionaries(texts, st.dictionaries(texts, objects, max_size=2), max_size=2),
        st.booleans(),
        st.booleans(),
        _several_resources,
    ),
    st.builds(e.SimulationEnds, micros),
    st.builds(e.JobSubmitted, micros, _jobs, st.none() | objects),
    st.builds(e.JobCompleted, micros, texts, st.sampled_from(e.JobEnd), hosts, integers),
    st.builds(e.JobsKilled, micros, st.lists(texts, max_size=3).map(tuple), objects),
    st.builds(e.ResourceStateChanged, micros, hosts, pstates),
    st.builds(lambda at, kind, more: notice(at, kind, {**more, "type": kind}), micros, texts, objects),
    st.builds(e.RequestedCall, micros),
    st.builds(e.EnergyAnswer, micros, reals),
    st.builds(e.UnknownEvent, micros, texts.filter(lambda kind: kind not in _known), json_values),
)
messages = st.builds(e.Message, micros, st.lists(events, max_size=5))

finite = st.floats(allow_nan=False, allow_infinity=False)
"""The scheduler's side writes every digit."""
_TIMED = [
    st.builds(d.ExecuteJob, finite, texts, some_hosts, st.none() | st.dictionaries(texts, texts, max_size=3)),
    st.builds(d.RejectJob, finite, texts),
    st.builds(d.KillJobs, finite, st.lists(texts, max_size=3).map(tuple)),
    st.builds(d.SetResourceState, finite, some_hosts, pstates),
    st.builds(d.CallMeLater, finite, finite),
    st.builds(d.QueryEnergy, finite),
    st.builds(d.SetJobMetadata, finite, texts, texts),
    st.builds(d.RegisterProfile, finite, texts, texts, objects),
    st.builds(d.RegisterJob, finite, texts, objects),
    st.builds(d.FinishRegistration, finite),
    st.builds(d.ContinueRegistration, finite),
    st.builds(d.ChangeJobState, finite, texts, texts),
]
decisions = st.one_of(_TIMED)


def _reply(now: float, found: list[d.Decision]) -> d.Reply:
    return d.Reply(max([now, *(decision.timestamp for decision in found)]), found)


replies = st.builds(_reply, finite, st.lists(decisions, max_size=5))


def one_wrong_value(value: Any, wrong: Sequence[Any], data: st.DataObject) -> Any:
    """Replace one part of ``value``, wherever it stands, by one of ``wrong``, or take it out."""
    *way, last = data.draw(st.sampled_from(_places(value)[1:]))
    owner = value
    for key in way:
        owner = owner[key]
    if data.draw(st.booleans()):
        owner[last] = data.draw(st.sampled_from(wrong))
    else:
        del owner[last]
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(deeper for key in keys for deeper in _places(value[key], (*path, key)))]
