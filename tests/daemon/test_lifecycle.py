"""The daemon from its start to its end, over real sockets."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq
from daemon.serving import BEGIN, END, Peer, job, raw, serving
from recording_files import exchanges_in

from beasy_sched.cli.serve import say_waiting
from beasy_sched.daemon import Daemon
from beasy_sched.engine import Session
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import ConfigError, Interrupted
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol import batsim4
from beasy_sched.protocol.wire import reachable
from beasy_sched.simulator.zmq_client import ZmqScheduler

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.slow
def test_one_simulation(tmp_path: Path) -> None:
    with serving(tmp_path, "--record", "a.rec") as daemon:
        assert daemon.endpoint.startswith("tcp://127.0.0.1:")
        assert not daemon.endpoint.endswith(":0")
        with Peer(daemon.endpoint) as peer:
            assert peer.decisions(BEGIN) == []
            (start,) = peer.decisions(raw(job("a", res=2)))
            assert (start["type"], start["data"]) == ("EXECUTE_JOB", {"job_id": "w0!a", "alloc": "0-1"})
            end = e.JobCompleted(5.0, "w0!a", e.JobEnd.SUCCESS, HostSet.of([0, 1]))
            assert peer.decisions(raw(end)) == []
            assert json.loads(peer.ask(END)) == {"now": 9.0, "events": []}
            assert daemon.wait() == 0
    assert daemon.files() == ["run_decisions.jsonl", "run_summary.json"]
    summary = daemon.summary()
    assert (summary["complete"], summary["error"], summary["jobs"]["finished"]) == (True, None, 1)
    assert len(exchanges_in(tmp_path / "a.rec")) == 4


@pytest.mark.slow
def test_keep_serving(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("run-2_energy_trace.csv", "run-4_summary.json"):
        (tmp_path / "out" / name).write_text("of an earlier day")
    with serving(tmp_path, "--keep-serving", "--record", "a.rec") as daemon:
        for _ in range(3):
            with Peer(daemon.endpoint) as peer:
                peer.run()
        while daemon.stderr.count("wrote") < 9:
            time.sleep(0.01)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 1
    last, kept = daemon.stderr.splitlines()[-2:]
    assert last == "beasy-sched: stopped by SIGTERM"
    assert kept == "kept the earlier results: out/run-4_summary.json"
    written = [f"run{n}_{what}" for n in ("-2", "-3", "") for what in ("decisions.jsonl", "summary.json")]
    assert daemon.files() == sorted([*written, "run-4_summary.json"])  # the fourth run has not begun
    assert all(daemon.summary(name)["complete"] for name in ("run", "run-2", "run-3"))
    assert sorted(path.name for path in tmp_path.glob("*.rec")) == ["a-2.rec", "a-3.rec", "a.rec"]


@pytest.mark.slow
def test_no_simulator_comes(tmp_path: Path) -> None:
    with serving(tmp_path, "--timeout", "0.3") as daemon:
        daemon.failed("no simulator sent a first message within 0.3 s", begun=False)


@pytest.mark.slow
def test_the_time_limit_is_for_the_first_message_only(tmp_path: Path) -> None:
    with serving(tmp_path, "--timeout", "1.5") as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        time.sleep(1.8)
        peer.ask(END)
        assert daemon.wait() == 0


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_waiting(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as daemon:
        assert daemon.endpoint
        daemon.signal(number)
        daemon.failed(f"stopped by {number.name}", begun=False)


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_middle(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--record", "a.rec") as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        peer.ask(raw(job("a")))
        daemon.signal(number)
        daemon.failed(f"stopped by {number.name}")
    assert daemon.summary("run_failed")["jobs"]["still_running"] == 1
    lines = (tmp_path / "out" / "run_failed_decisions.jsonl").read_text().splitlines()
    assert [json.loads(line)["job"] for line in lines] == ["w0!a"]
    assert len(exchanges_in(tmp_path / "a_failed.rec")) == 2


KILLED_PEER = """
import sys, time, zmq
s = zmq.Context().socket(zmq.REQ)
s.connect(sys.argv[1])
s.send(bytes.fromhex(sys.argv[2]))
s.recv()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_peer_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        command = [sys.executable, "-c", KILLED_PEER, daemon.endpoint, BEGIN.hex()]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as peer:
            assert peer.stdout is not None
            assert peer.stdout.readline() == b"ready\n"
            peer.kill()
        daemon.failed("the simulator disconnected during the simulation")


@pytest.mark.slow
def test_a_peer_that_leaves_before_it_speaks_is_no_matter(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        with Peer(daemon.endpoint):
            time.sleep(0.1)
        with Peer(daemon.endpoint) as peer:
            peer.run()
            assert daemon.wait() == 0


def probe(endpoint: str) -> None:
    """Connect as a port scanner does."""
    port = int(endpoint.rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.slow
def test_a_port_scanner_does_not_end_the_run(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        probe(daemon.endpoint)
        peer.ask(BEGIN)
        probe(daemon.endpoint)
        with Peer(daemon.endpoint):
            time.sleep(0.5)
        peer.ask(END)
        assert daemon.wait() == 0
    assert daemon.summary()["warnings"] == []


@pytest.mark.slow
def test_a_second_simulator_is_turned_away(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer, Peer(daemon.endpoint) as intruder:
        peer.ask(BEGIN)
        for _ in range(2):
            assert json.loads(intruder.ask(BEGIN)) == {"error": "this scheduler serves another simulation"}
        assert len(peer.decisions(raw(job("a")))) == 1
        peer.ask(END)
        assert daemon.wait() == 0
    assert daemon.stderr.count("another simulator tried to connect and was rejected") == 1
    summary = daemon.summary()
    assert (summary["complete"], summary["jobs"]["submitted"], len(summary["warnings"])) == (True, 1, 1)


@pytest.mark.slow
def test_a_peer_that_never_reads(tmp_path: Path) -> None:
    """Thousands of messages and not one reply taken: the daemon neither blocks nor grows mad."""
    with serving(tmp_path) as daemon, Peer(daemon.endpoint, zmq.DEALER) as peer:
        for message in (BEGIN, *(raw(job(str(n), at=n / 1000)) for n in range(3000)), END):
            peer.socket.send_multipart([b"", message])
        assert daemon.wait() == 0
    assert daemon.summary()["jobs"]["submitted"] == 3000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time is read from /proc")
def test_a_slow_peer_costs_no_processor_time(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        before_s = daemon.cpu_s()
        time.sleep(1.5)
        assert daemon.cpu_s() - before_s < 0.2
        peer.ask(END)
        assert daemon.wait() == 0


POLICY = """
from beasy_sched.policies.easy import Easy

class Mine(Easy):
    def schedule(self, view):
        open("busy", "w").close()
        while True:
            pass
"""


@pytest.mark.slow
def test_a_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    """A policy that does not come back cannot hold the daemon: Ctrl-C twice is enough."""
    (tmp_path / "mine.py").write_text(POLICY)
    with serving(tmp_path, "--policy", "mine:Mine") as daemon, Peer(daemon.endpoint) as peer:
        peer.socket.send(BEGIN)
        while not (tmp_path / "busy").exists():
            time.sleep(0.01)
        daemon.signal(signal.SIGINT)
        time.sleep(0.2)
        assert daemon.process.poll() is None
        daemon.signal(signal.SIGINT)
        assert daemon.wait() == 1
    assert "Traceback" not in daemon.stderr
    assert daemon.files() == ["run_failed_decisions.jsonl", "run_failed_summary.json"]
    assert daemon.summary("run_failed")["error"] == "stopped by the user"


@pytest.mark.sampled
@pytest.mark.parametrize("options", [["--decisions"], ["--no-decisions"]])
def test_a_fault_of_ours_leaves_the_outputs(tmp_path: Path, options: list[str]) -> None:
    """A bug may show a traceback; what has been simulated is saved all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "from beasy_sched.engine import Session\nSession._on_ends = lambda self, event: 1 / 0\n"
    )
    with serving(tmp_path, "--record", "a.rec", *options) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        peer.socket.send(END)
        assert daemon.wait() == 1
    assert "ZeroDivisionError" in daemon.stderr
    written = ["run_failed_decisions.jsonl", "run_failed_summary.json"]
    assert daemon.files() == written[options == ["--no-decisions"] :]
    assert daemon.summary("run_failed")["error"] == "internal error: ZeroDivisionError('division by zero')"
    assert len(exchanges_in(tmp_path / "a_failed.rec")) == 1


class Nobody:
    """Clock of a daemon that nobody speaks to: a look at it is 7 s of waiting; stops after a day."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.daemon: Daemon | None = None

    def __call__(self) -> float:
        self.now_s += 7.0
        if self.now_s > 86_400 and self.daemon is not None:
            self.daemon._stop = "the test"
        return self.now_s


def wait_a_day(monkeypatch: pytest.MonkeyPatch, *, connect: bool = False) -> list[tuple[str, float]]:
    said: list[tuple[str, float]] = []
    clock = Nobody()
    monkeypatch.setattr("beasy_sched.daemon._TICK_MS", 0)
    with (
        Daemon("tcp://127.0.0.1:0", waiting=lambda *what: said.append(what), clock=clock) as daemon,
        contextlib.ExitStack() as peers,
    ):
        clock.daemon = daemon
        if connect:
            peers.enter_context(Peer(daemon.endpoint))
            assert daemon._monitor.poll(30_000)
        with pytest.raises(Interrupted):
            daemon.serve(ObservedSession(Session(make_policy("easy"))))
        assert all(endpoint == daemon.endpoint for endpoint, _ in said)
    return said


def test_a_daemon_that_nobody_connects_to_says_so_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited_s = [waited_s for _, waited_s in wait_a_day(monkeypatch)]
    gaps_s = np.diff([0.0, *waited_s])
    assert 10 <= gaps_s[0] < 20
    assert 50 <= gaps_s[1] < 120
    assert (np.diff(gaps_s[:4]) > 0).all()
    assert (gaps_s[4:] >= 3600).all()
    assert 20 < len(gaps_s) < 30


def test_it_says_nothing_to_one_that_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_a_day(monkeypatch, connect=True) == []


def test_what_a_daemon_that_waits_says(capfd: pytest.CaptureFixture[str]) -> None:
    say_waiting("tcp://0.0.0.0:28000", 61.2)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        "no simulator has connected to tcp://127.0.0.1:28000 for 61 s; still waiting: start Batsim with"
        " '-s tcp://127.0.0.1:28000'\n"
    )


@pytest.mark.parametrize("stderr", ["closed", "gone"])
def test_a_closed_terminal_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch, stderr: str) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr("sys.stderr", stream if stderr == "closed" else None)
    say_waiting("tcp://0.0.0.0:28000", 10.0)


def test_a_file_that_is_no_socket_is_not_deleted(tmp_path: Path) -> None:
    """ZeroMQ deletes whatever has the name."""
    file, link = tmp_path / "thesis.tex", tmp_path / "link"
    file.write_text("precious")
    link.symlink_to(file)
    for path in (file, link, tmp_path):
        with pytest.raises(ConfigError, match="exists and is not a socket"):
            Daemon(f"ipc://{path}")
    assert file.read_text() == "precious"
    assert link.is_symlink()


def test_the_socket_of_another_daemon_is_not_taken(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/socket"
    with Daemon(endpoint) as first:
        with pytest.raises(ConfigError, match="another program is listening there"):
            Daemon(endpoint)
        assert first.endpoint == endpoint
        assert (tmp_path / "socket").is_socket()
    (tmp_path / "socket").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "socket"))
    with Daemon(endpoint):  # what a killed one has left is in nobody's way
        pass


@pytest.mark.slow
def test_a_daemon_removes_its_own_old_files_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("energy_trace.csv", "jobs.csv", "summary.json"):
        (tmp_path / "out" / f"run_{name}").write_text("old")
    with serving(tmp_path) as daemon:
        assert daemon.endpoint
        daemon.signal(signal.SIGKILL)
        daemon.wait()
    old = ["run_energy_trace.csv", "run_jobs.csv", "run_summary.json"]
    assert [name for name in daemon.files() if not name.startswith(".")] == old
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.run()
        assert daemon.wait() == 0
    assert daemon.files() == ["run_decisions.jsonl", "run_jobs.csv", "run_summary.json"]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize("endpoint", ["tcp://[::1]:0", "tcp://[::]:0"])
def test_ipv6(endpoint: str) -> None:
    with Daemon(endpoint, timeout_s=300) as daemon:
        served = threading.Thread(target=lambda: daemon.serve(ObservedSession(Session(make_policy("easy")))))
        served.start()
        scheduler = ZmqScheduler(reachable(daemon.endpoint), timeout_s=300)
        begins, end = batsim4.decode_message(BEGIN), batsim4.decode_message(END)
        assert scheduler(begins).now == begins.now
        scheduler(end)
        scheduler.close()
        served.join(20)
    assert daemon.messages == 2


@pytest.mark.parametrize(
    "endpoint", ["tcp://localhost:-1", "tcp://localhost:0", "tcp://localhost:99999", "tcp://::1:5"]
)
def test_endpoints_that_zeromq_would_take_for_others(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot connect to '{re.escape(endpoint)}': "):
        ZmqScheduler(endpoint)
