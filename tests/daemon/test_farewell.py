"""A daemon that cannot continue ends its simulator, instead of leaving it to wait forever."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import pytest
from daemon.serving import BEGIN, END, Peer, Serving, job, raw, serving
from tiny import resources

from beasy_sched.daemon import Daemon
from beasy_sched.engine import Session
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import PeerError
from beasy_sched.model import events as e
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.farewell import farewell4, reason_of
from beasy_sched.simulator.zmq_client import ZmqScheduler

SIGNALS = [signal.SIGINT, signal.SIGTERM]

POLICY = """
from beasy_sched.engine.actions import CallAt
from beasy_sched.policies.easy import Easy

class Illegal(Easy):
    def schedule(self, view):
        return [CallAt(float("nan"))] if view.queue else []

class Faulty(Easy):
    def schedule(self, view):
        return 1 // (view.now < 1.0) and []
"""


def until_written(daemon: Serving) -> None:
    """Wait until the daemon has written its files."""
    deadline_s = time.monotonic() + 300
    while "run_failed_summary.json" not in daemon.files():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.mark.slow
def test_a_site_without_powers(tmp_path: Path) -> None:
    with serving(tmp_path, "--site", "default") as daemon, Peer(daemon.endpoint) as peer:
        reason = reason_of(peer.ask(raw(e.SimulationBegins(0.0, resources(4)))))
        assert reason is not None
        assert reason.startswith("the hosts have no wattage_per_state")
        assert daemon.wait() == 2
    assert f"beasy-sched: {reason}" in daemon.stderr.splitlines()
    assert daemon.summary("run_failed")["error"] == reason


@pytest.mark.sampled
@pytest.mark.parametrize(("policy", "reason"), [("Illegal", "CallAt with at nan"), ("Faulty", "division")])
def test_an_error_of_a_policy(tmp_path: Path, policy: str, reason: str) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    with serving(tmp_path, "--policy", f"mine:{policy}") as daemon, Peer(daemon.endpoint) as peer:
        assert peer.decisions(BEGIN) == []
        assert reason in str(reason_of(peer.ask(raw(job("a")))))
        assert daemon.wait() == 1


@pytest.mark.slow
def test_a_fault_of_ours(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from beasy_sched.engine import Session\nSession._on_submitted = lambda self, event: 1 / 0\n"
    )
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        assert "ZeroDivisionError" in str(reason_of(peer.ask(raw(job("a")))))
        assert daemon.wait() == 1


@pytest.mark.slow
def test_a_message_that_breaks_the_protocol(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        assert reason_of(peer.ask(raw(e.RequestedCall(2e15)))) == (
            "the message is for 2e+15 s: no simulation lasts that long"
        )
        daemon.failed("no simulation lasts that long")


@pytest.mark.slow
def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    """As on a full disk: the error comes after the decision, before the reply."""
    (tmp_path / "sitecustomize.py").write_text(
        "from beasy_sched.outputs.recording import RecordingWriter\n"
        "def add(self, message, reply):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "RecordingWriter.add = add\n"
    )
    with serving(tmp_path, "--record", "a.rec") as daemon, Peer(daemon.endpoint) as peer:
        assert "No space left on device" in str(reason_of(peer.ask(BEGIN)))
        assert daemon.wait() == 1


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_simulator_computes(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        daemon.signal(number)
        until_written(daemon)  # before the simulator has spoken again
        assert reason_of(peer.ask(raw(job("a")))) == f"stopped by {number.name}"
        daemon.failed(f"stopped by {number.name}")
    assert "may still run" not in daemon.stderr


@pytest.mark.slow
def test_a_simulator_that_is_silent_after_a_signal(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        daemon.signal(signal.SIGTERM)
        daemon.failed("stopped by SIGTERM")
    assert "the simulator may still run, without a scheduler: stop it if it does" in daemon.stderr


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait_for_the_simulator(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        daemon.signal(signal.SIGINT)
        until_written(daemon)
        daemon.signal(signal.SIGINT)
        assert daemon.wait() == 1
    assert "may still run" not in daemon.stderr
    assert "Traceback" not in daemon.stderr


@pytest.mark.slow
def test_a_simulator_that_leaves_after_a_signal_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        with Peer(daemon.endpoint) as peer:
            peer.ask(BEGIN)
            daemon.signal(signal.SIGTERM)
        daemon.failed("stopped by SIGTERM")
    assert "may still run" not in daemon.stderr


@pytest.mark.slow
def test_a_simulation_that_has_ended_is_not_aborted(tmp_path: Path) -> None:
    """It writes its files after the reply to its last message."""
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        daemon.signal(signal.SIGTERM)
        assert json.loads(peer.ask(END))["events"] == []
        assert daemon.wait() == 1


@pytest.mark.slow
def test_a_simulator_that_has_only_connected(tmp_path: Path) -> None:
    """Batsim connects first, and may then read its files for long."""
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        assert daemon.endpoint
        time.sleep(1.0)  # for the connection, and for the daemon to notice it
        daemon.signal(signal.SIGTERM)
        time.sleep(0.5)
        assert reason_of(peer.ask(BEGIN)) == "stopped by SIGTERM"
        peer.socket.close()  # as Batsim does when it aborts
        daemon.failed("stopped by SIGTERM", begun=False)


@pytest.mark.slow
def test_nobody_else_is_told(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer, Peer(daemon.endpoint) as other:
        peer.ask(BEGIN)
        daemon.signal(signal.SIGTERM)
        until_written(daemon)
        other.socket.send(BEGIN)
        assert reason_of(peer.ask(raw(job("a")))) == "stopped by SIGTERM"
        assert daemon.wait() == 1
        assert not other.socket.poll(200)


def test_the_embedded_simulator_names_the_reason() -> None:
    with Daemon("tcp://127.0.0.1:0") as daemon:
        session = Session(make_policy("easy"))

        run = ObservedSession(session)

        def step(message: e.Message) -> object:
            raise PeerError("the plan is for 3 servers")

        run.step = step  # type: ignore[method-assign, assignment]

        def serve() -> None:
            with pytest.raises(PeerError):
                daemon.serve(run)

        server = threading.Thread(target=serve)
        server.start()
        client = ZmqScheduler(daemon.endpoint)
        with pytest.raises(PeerError, match=r"has ended: the plan is for 3 servers$"):
            client(e.Message(0.0, [e.SimulationBegins(0.0, resources(4))]))
        server.join()
        client.close()


@pytest.mark.slow
def test_an_ordinary_reply_is_no_farewell(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        assert reason_of(peer.ask(BEGIN)) is None
        assert reason_of(peer.ask(raw(job("a")))) is None
        assert reason_of(farewell4("x")) == "x"
        peer.ask(END)
        assert daemon.wait() == 0
