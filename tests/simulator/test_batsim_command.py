"""``beasy-sched batsim`` as a process of its own, with a scheduler on the other end of the wire."""

import json
import signal
import subprocess
import sys
import threading

import pytest
import zmq
from command_line import exit_code
from simulator.small import InOrder, Scripted, job, simulation, write_files

from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol import batsim4

FILES = ["consumed_energy", "jobs", "machine_states", "pstate_changes", "schedule"]


class Serving:
    """A REP socket that lets a scheduler answer, in a thread."""

    def __init__(self, scheduler, messages=None):
        self.scheduler = scheduler
        self.messages = messages
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.REP)
        self.socket.linger = 500
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        count = 0
        while count != self.messages:
            if not self.socket.poll(600_000):
                break
            message = batsim4.decode_message(self.socket.recv())
            self.socket.send(batsim4.encode_reply(self.scheduler(message)))
            count += 1
            if type(message.events[0]).__name__ == "SimulationEnds":
                break
        self.socket.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join(20)
        self.context.term()


def command(folder, *arguments, port=1):
    return [
        sys.executable, "-m", "beasy_sched", "batsim", "-p", str(folder / "platform.xml"),
        "-w", str(folder / "workload.json"), "-s", f"tcp://127.0.0.1:{port}", "-e", str(folder / "out"),
        *arguments,
    ]  # fmt: skip


def run(folder, *arguments, port=1):
    return subprocess.run(command(folder, *arguments, port=port), capture_output=True, text=True, timeout=600)


def written(folder):
    return sorted(p.name for p in folder.iterdir() if "out" in p.name)


@pytest.mark.slow
def test_it_writes_what_the_same_scheduler_gets_in_process(tmp_path):
    jobs = [job(str(i), i * 1.1, 1 + i % 3) for i in range(20)]
    simulation(tmp_path, jobs, files=True, slow=2).run(InOrder())
    direct = {name: (tmp_path / f"out_{name}.csv").read_text() for name in FILES if name != "schedule"}
    for file in tmp_path.glob("out_*"):
        file.unlink()
    with Serving(InOrder()) as serving:
        done = run(tmp_path, "-E", port=serving.port)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == [f"out_{name}.csv" for name in FILES]
    assert {name: (tmp_path / f"out_{name}.csv").read_text() for name in direct} == direct


@pytest.mark.slow
def test_options_reach_the_scheduler(tmp_path):
    write_files(tmp_path, [job("a")])
    with Serving(InOrder()) as serving:
        done = run(tmp_path, "--mmax", "2", "--sched-cfg", "hello", "--forward-profiles-on-submission", "-q",
                   "--disable-machine-state-tracing", "-r", "n003:storage", port=serving.port)  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""
    begins, submitted = serving.scheduler.events[:2]
    assert [r.name for r in begins.resources] == ["n000", "n001"]
    assert [r.name for r in begins.storage_resources] == ["n003"]
    assert begins.config["sched-config"] == "hello"
    assert submitted.profile["type"] == "parallel_homogeneous"
    assert written(tmp_path) == ["out_jobs.csv", "out_schedule.csv"]


@pytest.mark.slow
def test_a_refused_decision_exits_with_1_and_leaves_no_file(tmp_path):
    write_files(tmp_path, [job("a")])
    bad = Scripted([], [d.ExecuteJob(0, "w0!a", HostSet.of([0, 1]))])
    with Serving(bad, messages=2) as serving:
        done = run(tmp_path, port=serving.port)
    assert done.returncode == 1
    assert "The job requires 1 machines but 2 were given" in done.stderr
    assert "Traceback" not in done.stderr
    assert written(tmp_path) == []


@pytest.mark.slow
def test_a_deadlock_is_said_and_exits_with_1(tmp_path):
    write_files(tmp_path, [job("a")])
    with Serving(Scripted(), messages=3) as serving:
        done = run(tmp_path, port=serving.port)
    assert done.returncode == 1
    assert ": Deadlock detected: no further events are scheduled, but jobs wait: w0!a\n" in done.stderr
    assert "out_schedule.csv" in written(tmp_path)


@pytest.mark.slow
def test_a_scheduler_that_vanishes_ends_it(tmp_path):
    write_files(tmp_path, [job("a")])
    with Serving(InOrder(), messages=1) as serving:
        done = run(tmp_path, port=serving.port)
    assert done.returncode == 1
    assert "disconnected during" in done.stderr
    assert written(tmp_path) == []


@pytest.mark.slow
def test_nobody_listens(tmp_path):
    write_files(tmp_path, [job("a")])
    done = run(tmp_path, "--timeout", "0.3", port=9)
    assert done.returncode == 1
    assert "no reply from tcp://127.0.0.1:9 within 0.3 s" in done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(tmp_path, number):
    write_files(tmp_path, [job("a")])
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    process = subprocess.Popen(command(tmp_path, port=port), stderr=subprocess.PIPE, text=True)
    assert socket.poll(600_000)
    process.send_signal(number)
    _, said = process.communicate(timeout=600)
    socket.close(0)
    context.term()
    assert process.returncode == 1
    assert f"stopped by {signal.Signals(number).name}" in said
    assert "Traceback" not in said
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--enable-redis"], 2, "--enable-redis is not supported"),
        (["-W", "x.xml"], 2, "-W/--workflow is not supported"),
        (["--WS", "x.xml", "3"], 2, "--WS is not supported"),
        (["--no-sched"], 2, "--no-sched is not supported"),
        (["-r", "n001"], 2, "expected HOSTS:ROLE"),
        (["-r", "n001:storage:master"], 2, "expected HOSTS:ROLE"),
        (["-r", "n001:boss"], 2, "has the role 'boss'"),
        (["--mmax", "9"], 2, "only 4 are described"),
        (["--nonsense"], 2, "No such option"),
        (["--events", "nowhere.txt"], 2, "nowhere.txt: cannot be read"),
        (["--sched-cfg", "a", "--sched-cfg-file", "b"], 2, "give only one of"),
        (["-s", "rubbish"], 2, "cannot connect to 'rubbish'"),
        (["-e", "no/such/folder/out"], 2, "cannot be written"),
        (["--version"], 0, "v4.2.1"),
        (["--simgrid-version"], 0, "3.34.0"),
        (["--help"], 0, "--forward-unknown-events"),
    ],
)
def test_usage(tmp_path, capfd, arguments, code, text):
    write_files(tmp_path, [job("a")])
    ended = exit_code(*command(tmp_path, *arguments)[3:])
    told = capfd.readouterr()
    assert ended == code, told.err
    assert text in told.out + told.err
    assert "Traceback" not in told.err
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    ("role", "arguments", "code", "text"),
    [
        ("master", [], 2, "role='master', and is given the role 'master' as well"),
        ("master", ["-m", "none"], 1, "no reply from"),
        ("", [], 1, "no reply from"),
        ("storage", ["-r", "master_host:compute_node"], 2, "cannot read 'storage,compute_node'"),
        ("", ["-m", "none", "-r", "master_host:storage", "-r", "master_host:master"], 1, "no reply from"),
    ],
)
def test_the_master_host_is_told_once(tmp_path, capfd, role, arguments, code, text):
    write_files(tmp_path, [job("a")])
    platform = tmp_path / "platform.xml"
    master = '<host id="master_host" coordinates="0 0 0" speed="1Gf"'
    platform.write_text(
        platform.read_text().replace(f"{master}/>", f'{master}><prop id="role" value="{role}"/></host>')
    )
    ended = exit_code(*command(tmp_path, "--timeout", "0.3", *arguments)[3:])
    told = capfd.readouterr().err
    assert (ended, "Traceback" in told) == (code, False)
    assert text in told


@pytest.mark.slow
def test_powers_that_batsim_would_not_find_are_refused(tmp_path, capfd):
    """Batsim 4.2.1 aborts at the first submission, with exit code 134; without -E it runs."""
    write_files(tmp_path, [job("a")])
    platform = tmp_path / "platform.xml"
    platform.write_text(platform.read_text().replace("wattage_per_state", "watt_per_state"))
    assert exit_code(*command(tmp_path, "-E")[3:]) == 2
    told = capfd.readouterr().err
    assert "platform.xml:1: host 'n000' has no wattage_per_state, and Batsim 4.2 aborts" in told
    assert "add it next to watt_per_state, which only Batsim 4.0 reads, or run without -E" in told
    assert written(tmp_path) == []
    with Serving(InOrder()) as serving:
        done = run(tmp_path, port=serving.port)
    assert (done.returncode, "note:" in done.stderr) == (0, False)


@pytest.mark.slow
def test_the_execution_context(tmp_path):
    write_files(tmp_path, [job("a")])
    context = json.loads(run(tmp_path, "--dump-execution-context").stdout)
    assert context["socket_endpoint"] == "tcp://127.0.0.1:1"
    assert context["redis_enabled"] is False
