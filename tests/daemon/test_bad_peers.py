"""Peers that break the protocol: one clear line, exit code 1, and outputs that are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from daemon.serving import BEGIN, END, Peer, Served, job, raw, serving
from recording_files import exchanges_in
from tiny import resources

from beasy_sched.engine import intake
from beasy_sched.limits import LONGEST_JOB
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.notices import notice

FIRST = [
    (b"", "malformed message: it is empty"),
    (b"\xff\x00 hello", "malformed message: not JSON"),
    (b"x" * 50_000_000, "malformed message: not JSON"),
    (b'{"now":0,"events":[' + b"[" * 50_000_000, "malformed message: Expected `object`, got `array`"),
    (b'{"now":0,"events":[]}', "the first event of a simulation must be SIMULATION_BEGINS"),
    (END, "the first event of a simulation must be SIMULATION_BEGINS"),
    (BEGIN.replace(b'"id":2', b'"id":"2"'), "at `$.events[0].data.compute_resources[2].id`"),
]

UNAVAILABLE = {"type": "event_machine_unavailable", "resources": "7"}
LATER = [
    (b"", "malformed message: it is empty"),
    (
        raw(e.SimulationBegins(2.0, resources(4))),
        "unexpected second SIMULATION_BEGINS",
    ),
    (raw(e.RequestedCall(0.5)), "simulated time decreased: message at 0.5 s after 1.0 s"),
    (raw(job("a", at=2.0)), "job w0!a was submitted twice"),
    (
        raw(e.JobCompleted(2.0, "w0!x", e.JobEnd.SUCCESS, HostSet.of([0]))),
        "the end of job w0!x, which is not running",
    ),
    (raw(e.ResourceStateChanged(2.0, HostSet.of([0]), 1)), "reached P-state 1, which was not requested"),
    (raw(notice(2.0, "event_machine_unavailable", UNAVAILABLE)), "found resources '7'"),
    (raw(job("b", at=2.0)).replace(b'"res":1', b'"res":0'), "at `$.events[0].data.job.res`"),
]


Capture = pytest.CaptureFixture[str]


@pytest.mark.sampled
@pytest.mark.parametrize(("message", "error"), FIRST, ids=range(len(FIRST)))
def test_first_messages(tmp_path: Path, capfd: Capture, message: bytes, error: str) -> None:
    """Nobody has begun: the sender is turned away, and the daemon waits as long as it was told to."""
    served = Served(tmp_path, capfd, [message], "--timeout", "1.5")
    said = "no simulator sent a first message within 1.5 s; a message was rejected"
    served.failed(said, begun=False)
    assert error in served.stderr.splitlines()[-1]


def test_hosts_that_are_not_numbered_from_0(tmp_path: Path, capfd: Capture) -> None:
    begin = raw(e.SimulationBegins(0.0, (e.Resource(1, "a"), e.Resource(3, "b"))))
    Served(tmp_path, capfd, [begin]).failed("not numbered 0, 1, 2")


@pytest.mark.parametrize(("message", "error"), LATER, ids=range(len(LATER)))
def test_later_messages(tmp_path: Path, capfd: Capture, message: bytes, error: str) -> None:
    record = tmp_path / "a.rec"
    daemon = Served(tmp_path, capfd, [BEGIN, raw(job("a")), message], "--record", str(record))
    daemon.failed(error)
    assert daemon.summary("run_failed")["jobs"]["submitted"] >= 1
    assert len(exchanges_in(tmp_path / "a_failed.rec")) == 2


def with_members(name: str, size: int) -> e.JobSubmitted:
    return e.JobSubmitted(1.0, e.JobRequest(f"w0!{name}", 1.0, 1, "p", 100, {"user": "x" * size}))


@pytest.mark.parametrize(
    ("limit", "most", "error"),
    [
        ("MOST_JOBS", 3, "more than 3 jobs were submitted: no simulation has that many"),
        ("MOST_JOBS_AT_ONCE", 3, "more than 3 jobs wait, run or have terms: no simulation has that many"),
        ("MOST_KEPT", 400, "the ids and fields of jobs have more than 200 characters together"),
    ],
)
def test_more_jobs_than_are_kept(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, error: str
) -> None:
    """Above a limit the run ends, and what it has done is written."""
    monkeypatch.setattr(intake, limit, most)
    record = tmp_path / "a.rec"
    jobs = [raw(with_members(f"{number}", 100)) for number in range(6)]
    daemon = Served(tmp_path, capfd, [BEGIN, *jobs, END], "--record", str(record))
    daemon.failed(error)
    assert daemon.files() == ["run_failed_decisions.jsonl", "run_failed_summary.json"]
    assert len((tmp_path / "out" / "run_failed_decisions.jsonl").read_text().splitlines()) == 3
    assert len(exchanges_in(tmp_path / "a_failed.rec")) == 1 + 3


@pytest.mark.slow
def test_a_job_with_endless_members(tmp_path: Path) -> None:
    """With the limits as they are, in a process of its own."""
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        peer.ask(raw(with_members("a", LONGEST_JOB - 100)))
        peer.socket.send(raw(with_members("b", LONGEST_JOB)))
        daemon.failed(f"job w0!b has more than {LONGEST_JOB:,} characters in its fields")
    assert daemon.files() == ["run_failed_decisions.jsonl", "run_failed_summary.json"]
    assert daemon.summary("run_failed")["jobs"]["submitted"] == 1


def test_several_frames(tmp_path: Path, capfd: Capture) -> None:
    daemon = Served(tmp_path, capfd, [BEGIN, [b"a", b"b", b"c"]])
    daemon.failed("found a message with 3 frames, expected one: is the peer Batsim?")


def test_what_is_odd_and_yet_allowed(tmp_path: Path, capfd: Capture) -> None:
    """Unknown events and fields, jobs too large, integers for times, several instants: served to the end."""
    odd = [
        BEGIN.replace(b'"now":0.000000', b' "now" : 0, "version": "5"'),
        b'{"now":1,"events":[{"timestamp":1,"type":"NEWS","data":[]},'
        b'{"timestamp":1,"type":"NOTIFY","data":{"type":"power","power_available":460}}]}\n',
        raw(job("big", at=1.0, res=2**31 - 1)),
        raw(job("a", at=1.0)).replace(b'"walltime":100', b'"walltime":-1,"user":"bob"'),
        b'{"now":1,"events":[]}',
        END,
    ]
    daemon = Served(tmp_path, capfd, odd)
    assert daemon.wait() == 0
    summary = daemon.summary()
    assert summary["complete"] is True
    assert summary["jobs"]["rejected"] == 1
    no_site, *unknown = sorted(summary["warnings"])
    assert len(unknown) == 2
    assert no_site.startswith("power events are ignored because no site is given")
    assert "'NEWS'" in unknown[0]
    assert "version" in unknown[1]


def test_a_platform_without_hosts(tmp_path: Path, capfd: Capture) -> None:
    messages = [raw(e.SimulationBegins(0.0, resources(0))), raw(job("a")), END]
    daemon = Served(tmp_path, capfd, messages)
    assert daemon.wait() == 0
    assert daemon.summary()["jobs"]["rejected"] == 1
