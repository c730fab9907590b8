"""Arbitrary messages and replies that Batsim 5 can have."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from protocol.strategies import hosts, json_values, micros, objects, reals, some_hosts, texts

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS
from beasy_sched.protocol import batsim5
from beasy_sched.protocol.notices import notice

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="!"), min_size=1, max_size=6)
job_ids = st.builds("{}!{}".format, names, names)
counts = st.integers(0, 2**31 - 1)
states = st.sampled_from(["idle", "sleeping", "computing", "switching_on", "switching_off"])
pstates = st.integers(0, 20)

plain_profiles = st.one_of(
    st.fixed_dictionaries({"type": st.just("delay"), "delay": reals}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["parallel_homogeneous", "parallel_homogeneous_total"]),
            "cpu": reals,
            "com": reals,
        },
        optional={"extra_data": texts},
    ),
    st.fixed_dictionaries({"type": st.just("parallel"), "cpu": st.lists(reals, max_size=3)}),
    st.fixed_dictionaries(
        {
            "type": st.just("composed"),
            "repeat": st.integers(1, 9),
            "seq": st.lists(names | job_ids.map("elsewhere-{}".format), max_size=3),  # of another workload
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("ForkJoinCompositionProfile"), "profile_ids": st.lists(texts, max_size=2)}
    ),
)
several_profiles = st.dictionaries(
    names, st.dictionaries(names, plain_profiles, min_size=1, max_size=2), max_size=2
)

_resources = st.builds(
    e.Resource,
    st.integers(0, 5000),
    texts,
    states,
    st.dictionaries(texts, texts, max_size=3),
    st.dictionaries(texts, texts, max_size=3),
    st.integers(0, 20),
    st.lists(reals, max_size=3).map(tuple),
    st.integers(1, 64),
)
_several_resources = st.lists(_resources, max_size=4).map(tuple)
_taken = {"profiles", "workloads", "computation_hosts", "storage_hosts", "host_number"}
_config = objects.map(lambda found: {name: value for name, value in found.items() if name not in _taken})
_extras = st.none() | objects.map(lambda found: found or None)


def _other_workload(job: e.JobRequest) -> bool:
    """Whether a profile's name is one that the codec gives: the job's own workload is left out."""
    return not job.profile.startswith(job.id.partition("!")[0] + "!")


_jobs = st.builds(
    e.JobRequest,
    job_ids,
    micros,
    counts,
    st.just("") | names | job_ids,
    st.none() | micros.filter(lambda x: x > 0),
    _extras | texts.filter(bool).map(lambda text: {"extra_data": text}),
    st.booleans(),
).filter(_other_workload)

progress = st.recursive(
    st.fixed_dictionaries({"profile_name": names, "progress": reals}),
    lambda inner: (
        st.fixed_dictionaries(
            {
                "profile_name": names,
                "current_repetition": counts,
                "current_task_index": counts,
                "current_task": inner,
            }
        )
        | st.fixed_dictionaries({"profile_name": names, "tasks": st.lists(inner, max_size=2)})
    ),
    max_leaves=4,
)

_LATE = ("no_more_static_job_to_submit", "no_more_external_event_to_occur")
_MACHINES = ("event_machine_available", "event_machine_unavailable")


def _notify(at: float, kind: str, more: dict[str, Any], event_id: str) -> e.Notify:
    if kind in _LATE:
        return notice(at, kind, {"type": kind})
    return notice(at, kind, {**more, "type": kind}, event_id)


_kinds = st.sampled_from([*_LATE, *_MACHINES]) | texts.filter(lambda kind: not kind.startswith("machine_"))
_known = {
    *(
        "SimulationBeginsEvent",
        "SimulationEndsEvent",
        "JobSubmittedEvent",
        "JobCompletedEvent",
        "JobsKilledEvent",
    ),
    *("HostsTurnedOnOffEvent", "HostsPStateChangedEvent", "ExternalEventOccurredEvent", "RequestedCallEvent"),
    *("AllStaticJobsHaveBeenSubmittedEvent", "AllStaticExternalEventsHaveBeenInjectedEvent"),
}

events = st.one_of(
    st.builds(
        lambda at, hosts, config, workloads, profiles, storage: e.SimulationBegins(
            at, hosts, config, workloads, profiles, storage_resources=storage, answers_queries=False
        ),
        micros,
        _several_resources,
        _config,
        st.dictionaries(texts, texts, max_size=3),
        several_profiles,
        _several_resources,
    ),
    st.builds(e.SimulationEnds, micros),
    st.builds(e.JobSubmitted, micros, _jobs, st.none() | plain_profiles),
    st.builds(
        e.JobCompleted,
        micros,
        texts,
        st.sampled_from(e.JobEnd),
        st.just(NO_HOSTS),
        st.integers(-(2**31), 2**31 - 1),
    ),
    st.builds(
        e.JobsKilled,
        micros,
        st.lists(texts, max_size=3).map(tuple),
        st.dictionaries(job_ids, progress, max_size=2),
        st.none() | several_profiles,
    ),
    st.builds(e.ResourceStateChanged, micros, hosts, pstates, st.booleans()),
    st.builds(_notify, micros, _kinds, objects, texts),
    st.builds(lambda at, text: notice(at, "generic", {"data": f"so: {text}"}, "ee0!1"), micros, texts),
    st.builds(e.RequestedCall, micros, texts, st.booleans()),
    st.builds(
        e.UnknownEvent,
        micros,
        texts.filter(lambda kind: kind not in _known),
        json_values.filter(lambda value: value is not None),
    ),
)
messages = st.builds(e.Message, micros, st.lists(events, max_size=5))

_milliseconds = st.integers(0, 10**12).map(lambda ms: ms / 1000)
_placements = (
    st.none()
    | st.just({"strategy": "FillOneHostCoresFirst"})
    | st.just({"storage_placement": [{"storage_name": "pfs", "host_id": 3}]})
)
_fields = st.dictionaries(
    texts.filter(lambda n: n not in ("id", "res", "profile", "rigid", "walltime", "subtime")),
    json_values,
    max_size=3,
)


def _registered(
    at: float,
    workload: str,
    name: str,
    res: int,
    profile: str,
    walltime: float | None,
    extras: dict[str, Any],
) -> d.RegisterJob:
    job_id = f"{workload}!{name}"
    limit = {} if walltime is None else {"walltime": walltime}
    return d.RegisterJob(at, job_id, {**extras, "id": job_id, "res": res, "profile": profile, **limit})


_TIMED = [
    st.builds(d.ExecuteJob, micros, texts, some_hosts, st.none(), _placements),
    st.builds(
        lambda at, job, hosts, places: d.ExecuteJob(
            at, job, hosts, {str(n): str(place) for n, place in enumerate(places)}
        ),
        micros,
        texts,
        some_hosts,
        st.lists(st.integers(0, 9), min_size=1, max_size=4),
    ),
    st.builds(d.RejectJob, micros, texts),
    st.builds(d.KillJobs, micros, st.lists(texts, max_size=3).map(tuple)),
    st.builds(d.SetResourceState, micros, some_hosts, pstates, st.booleans()),
    st.builds(d.CallMeLater, micros, _milliseconds, texts.filter(bool)),
    st.builds(d.CallPeriodically, micros, texts, counts, counts, st.none() | counts),
    st.builds(d.StopCalls, micros, texts),
    st.builds(d.ProbeRequest, micros, st.just("StopProbeEvent"), st.fixed_dictionaries({"probe_id": texts})),
    st.builds(d.RegisterProfile, micros, names, names, plain_profiles),
    st.builds(_registered, micros, names, names, counts, names, st.none() | micros.filter(bool), _fields),
    st.builds(d.FinishRegistration, micros),
    st.builds(d.ForceStop, micros),
]


def _reply(now: float, found: list[d.Decision]) -> d.Reply:
    found = sorted(found, key=lambda decision: decision.timestamp)
    return d.Reply(max([now, *(decision.timestamp for decision in found)]), found)


replies = st.builds(_reply, micros, st.lists(st.one_of(_TIMED), max_size=5))

hellos = st.builds(
    batsim5.Hello,
    texts,
    texts,
    texts,
    st.builds(batsim5.RequestedFeatures, *[st.booleans()] * len(batsim5.RequestedFeatures.__struct_fields__)),
    st.builds(
        batsim5.Constraints, st.booleans(), st.booleans(), st.sampled_from(["None", "MatchJobRequestExactly"])
    ),
    texts,
)
