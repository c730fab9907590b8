"""The daemon and a Batsim 5, over real sockets: the handshake, a run, its recording, Batsim 4 beside it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from command_line import exit_code
from daemon.serving import BEGIN, END, Peer, Served, job, raw, serving
from recording_files import exchanges_in
from tiny import resources
from worlds import FAST

from beasy_sched.errors import ProtocolError
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.protocol import batsim5
from beasy_sched.protocol.farewell import reason_of
from beasy_sched.protocol.notices import notice

START = batsim5.encode_start(b'{"init":1}')


def said(now: float, *events: e.Event) -> bytes:
    return batsim5.encode_message(e.Message(now, list(events)))


BEGINS = said(
    0.0, e.SimulationBegins(0.0, resources(4, **host_properties(FAST)), {"batsim_version": "v5.0.0-rc2"})
)
ENDED = e.JobCompleted(5.0, "w0!a", e.JobEnd.SUCCESS, NO_HOSTS)
RUN = (START, BEGINS, said(1.0, job("a", res=3)), said(5.0, ENDED), said(9.0, e.SimulationEnds(9.0)))


def run(peer: Peer) -> list[d.Reply]:
    hello, *replies = [peer.ask(message) for message in RUN]
    assert batsim5.decode_hello(hello).name == "beasy-sched"
    assert all(reply.endswith(b"\0") for reply in replies)
    return [batsim5.decode_reply(reply) for reply in replies]


@pytest.mark.slow
def test_one_simulation_and_its_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, "--record", "a.rec") as daemon, Peer(daemon.endpoint) as peer:
        replies = run(peer)
        assert daemon.wait() == 0
    assert replies[1].decisions == [d.ExecuteJob(1.0, "w0!a", HostSet.of([0, 1, 2]))]
    assert [reply.now for reply in replies] == [0.0, 1.0, 5.0, 9.0]
    summary = daemon.summary()
    assert (summary["complete"], summary["error"], summary["jobs"]["finished"]) == (True, None, 1)
    recording = tmp_path / "a.rec"
    assert len(exchanges_in(recording)) == 5
    assert exit_code("replay", str(recording)) == 0
    assert "5 messages, the same decisions" in capsys.readouterr().out


@pytest.mark.slow
def test_it_is_ended_by_a_daemon_that_cannot_continue(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(START)
        peer.ask(BEGINS)
        reply = peer.ask(said(2e15, e.RequestedCall(2e15)))
        assert reason_of(reply) == "the message is for 2e+15 s: no simulation lasts that long"
        with pytest.raises(ProtocolError):
            batsim5.decode_reply(reply)
        daemon.failed("no simulation lasts that long")


@pytest.mark.slow
def test_one_daemon_for_both(tmp_path: Path) -> None:
    with serving(tmp_path, "--keep-serving") as daemon:
        for number in range(4):
            with Peer(daemon.endpoint) as peer:
                if number % 2:
                    assert run(peer)[1].decisions
                else:
                    peer.run()
    for name in ("run", "run-2", "run-3"):  # the last one may still be written
        assert daemon.summary(name)["complete"] is True


@pytest.mark.sampled
@pytest.mark.parametrize(("option", "text"), [((), "0-0 2-3"), (("--batsim5-hosts", "comma"), "0-0,2-3")])
def test_how_sets_of_hosts_are_written(tmp_path: Path, option: tuple[str, ...], text: str) -> None:
    """Also the replay: it does not know of the option, and what separates hosts is no decision."""
    away = notice(0.5, "event_machine_unavailable", {"resources": "1", "type": "x"})
    with serving(tmp_path, "--record", "a.rec", *option) as daemon, Peer(daemon.endpoint) as peer:
        for message in (START, BEGINS, said(0.5, away)):
            peer.ask(message)
        (event,) = json.loads(peer.ask(said(1.0, job("a", res=3))).removesuffix(b"\0"))["events"]
        assert event["event"]["allocation"]["host_allocation"] == text
        peer.ask(said(5.0, ENDED))
        peer.ask(said(9.0, e.SimulationEnds(9.0)))
        assert daemon.wait() == 0
    assert exit_code("replay", str(tmp_path / "a.rec")) == 0


@pytest.mark.slow
def test_a_replay_finds_the_first_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, "--record", "a.rec", "--policy", "easy") as daemon, Peer(daemon.endpoint) as peer:
        jobs = [job("a", res=3), job("b", res=4), job("c", res=1)]
        for message in (START, BEGINS, said(1.0, *jobs), said(9.0, e.SimulationEnds(9.0))):
            peer.ask(message)
        assert daemon.wait() == 0
    (tmp_path / "last.py").write_text(
        "from beasy_sched.policies import Policy, Start\n"
        "from beasy_sched.model.hosts import HostSet\n"
        "class Last(Policy):\n"
        "    name = 'last'\n"
        "    def schedule(self, view):\n"
        "        jobs = [job for job in view.queue if job.res == 1]\n"
        "        return [Start(job, HostSet.of([3])) for job in jobs]\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        assert exit_code("replay", str(tmp_path / "a.rec"), "--policy", "last:Last") == 1
    error = capsys.readouterr().err
    assert "message 3 at 1.000000 s, decision 1" in error
    assert "ExecuteJob job_id=w0!a" in error


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([struct.pack("<II", 2, 3) + b"abc"], "handshake of a development version of Batsim 5"),
        ([START, START], "not JSON"),
        (
            [START, said(0.0, e.SimulationEnds(0.0))],
            "the first event of a simulation must be SIMULATION_BEGINS",
        ),
        ([START, BEGIN], "event_type"),
    ],
)
def test_peers_that_do_not_begin(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], messages: list[bytes], error: str
) -> None:
    served = Served(tmp_path, capfd, messages, "--timeout", "1")
    served.failed("no simulator sent a first message within 1 s; a message was rejected", begun=False)
    assert error in served.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([START, BEGINS, END], "event_type"),
        ([START, BEGINS, said(1.0, job("a")), said(0.5, e.SimulationEnds(0.5))], "simulated time decreased"),
        ([BEGIN, raw(job("a")), START], "not JSON"),
    ],
)
def test_bad_peers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], messages: list[bytes], error: str
) -> None:
    Served(tmp_path, capfd, messages).failed(error)


@pytest.mark.slow
def test_a_simulator_that_leaves_after_the_handshake(tmp_path: Path) -> None:
    """It has begun nothing, so the daemon serves the next one; the recording has only that."""
    with serving(tmp_path, "--record", "a.rec") as daemon:
        with Peer(daemon.endpoint) as peer:
            peer.ask(START)
        with Peer(daemon.endpoint) as peer:
            run(peer)
            assert daemon.wait() == 0
    assert len(exchanges_in(tmp_path / "a.rec")) == 5
