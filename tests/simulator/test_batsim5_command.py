"""``beasy-sched batsim --protocol 5`` as a process of its own, and the daemon at the other end."""

from __future__ import annotations

import csv
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import zmq
from command_line import exit_code
from processes import free_endpoint, program, started
from simulator.small import InOrder, Scripted
from simulator.test_batsim5 import job, start, write_files

from beasy_sched.model import events as e
from beasy_sched.protocol import batsim5

BATSIM = (program("beasy-sched"), "batsim", "--protocol", "5")


class Serving:
    """A REP socket that greets a Batsim 5 and lets a scheduler answer, in a thread."""

    def __init__(self, scheduler: Any, hello: batsim5.Hello | None = None, messages: int = -1) -> None:
        self.scheduler = scheduler
        self.hello = hello or batsim5.Hello()
        self.messages = messages
        self.init = b""
        self.endpoint = free_endpoint()
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.REP)
        self.socket.linger = 500
        self.socket.bind(self.endpoint)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while self.messages and self.socket.poll(20_000):
            raw = self.socket.recv()
            self.messages -= 1
            if batsim5.is_start(raw):
                self.init = batsim5.decode_start(raw)
                self.socket.send(batsim5.encode_hello(self.hello))
                continue
            message = batsim5.decode_message(raw)
            self.socket.send(batsim5.encode_reply(self.scheduler(message)))
            if isinstance(message.events[0], e.SimulationEnds):
                break
        self.socket.close()

    def __enter__(self) -> Serving:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join(20)
        self.context.term()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    files = ("-p", "platform.xml", "-w", "workload.json", "-e", "out_")
    return subprocess.run(
        [*BATSIM, *files, *arguments], cwd=folder, capture_output=True, text=True, timeout=600
    )


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("out*")}


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    write_files(tmp_path, [job("a"), job("b", 3, extra_data="text")], [[(1, "x")]])
    features = batsim5.RequestedFeatures(forward_profiles_on_job_submission=True)
    with Serving(InOrder(), batsim5.Hello(features=features)) as serving:
        done = run(
            tmp_path, "-s", serving.endpoint, "hello there", "--external-events", "events0.txt",
            "--energy-host", "--trace-machine-state", "--mmax", "2", "-r", "n003", "storage",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert serving.init == b"hello there"
    begins, submitted = serving.scheduler.events[:2]
    assert [host.name for host in begins.resources] == ["n000", "n001"]
    assert [host.name for host in begins.storage_resources] == ["n003"]
    assert begins.config["batsim_version"] == "v5.0.0-rc2"
    assert "--energy-host" in begins.config["batsim_arguments"]
    assert json.loads(begins.config["batsim_execution_context_json"]) == {
        "socket_endpoint": serving.endpoint,
        "export_prefix": "out_",
    }
    assert submitted.profile["type"] == "parallel_homogeneous"
    names = ("consumed_energy.csv", "jobs.csv", "machine_states.csv", "schedule.json", "real_exec_info.json")
    assert written(tmp_path) == {f"out_{name}" for name in names}
    assert "jobs=2, success=2" in done.stderr


@pytest.mark.slow
def test_the_text_for_the_scheduler_from_a_file(tmp_path: Path) -> None:
    write_files(tmp_path, [])
    (tmp_path / "init").write_bytes(b"\x00\xff")
    with Serving(InOrder()) as serving:
        done = run(tmp_path, "-S", serving.endpoint, "init", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert serving.init == b"\x00\xff"


@pytest.mark.slow
def test_a_refused_decision_and_a_deadlock(tmp_path: Path) -> None:
    write_files(tmp_path, [job("a")])
    with Serving(Scripted([], [start(0, "a", 9)]), messages=3) as serving:
        done = run(tmp_path, "-s", serving.endpoint, "")
    assert done.returncode == 1
    assert "Cannot get machine 9: it does not exist\nBatsim aborts here; no output file" in done.stderr
    assert written(tmp_path) == set()
    with Serving(Scripted(), messages=3) as serving:
        done = run(tmp_path, "-s", serving.endpoint, "")
    assert done.returncode == 1
    assert "Deadlock detected: no further events are scheduled, but jobs wait: w0!a" in done.stderr
    assert "out_schedule.json" in written(tmp_path)


@pytest.mark.slow
def test_who_does_not_greet(tmp_path: Path) -> None:
    write_files(tmp_path, [job("a")])
    done = run(tmp_path, "-s", "tcp://127.0.0.1:9", "", "--timeout", "0.3")
    assert done.returncode == 1
    assert "no reply from tcp://127.0.0.1:9 within 0.3 s" in done.stderr
    assert written(tmp_path) == set()
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    endpoint = free_endpoint()
    socket.bind(endpoint)

    def answer() -> None:
        socket.recv()
        socket.send(b'{"now": 0, "events": []}')

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    done = run(tmp_path, "-s", endpoint, "")
    thread.join(20)
    socket.close()
    context.term()
    assert done.returncode == 1
    assert "malformed message: expected a number of 4 bytes" in done.stderr
    assert "Traceback" not in done.stderr
    assert written(tmp_path) == set()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-W", "x"), "-W/--workflow is not supported"),
        (("-l", "lib.so"), "-l is not supported: give a scheduler that listens on a socket"),
        (("-L", "lib.so"), "-L is not supported"),
        (("--energy-link",), "--energy-link is not supported"),
        (("-E",), "--energy is not implemented in Batsim 5.0.0-rc2: give --energy-host"),
        (("-s", "tcp://a:1", "", "-S", "tcp://a:1", "file"), "give only one of -s and -S"),
        (("-s", "nowhere", ""), "cannot connect to 'nowhere'"),
        (("-S", "tcp://a:1", "no file"), "no file: cannot be read"),
        (("--events", "x"), "No such option"),
    ],
)
def test_options_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    write_files(tmp_path, [job("a")])
    assert exit_code("batsim", "--protocol", "5", "-p", str(tmp_path / "platform.xml"), *arguments) == 2
    assert text in capsys.readouterr().err


def test_help_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("batsim", "--protocol=5", "--help") == 0
    text = capsys.readouterr().out
    assert "--energy-host" in text
    assert "--external-events, --ee FILE" in text
    assert "--traceback" in text
    assert exit_code("batsim", "--protocol", "5", "--version") == 0
    assert capsys.readouterr().out.startswith("v5.0.0-rc2 (the simulator embedded in")
    assert exit_code("batsim", "--protocol", "4", "--help") == 0
    assert "--forward-unknown-events" in capsys.readouterr().out


# --- with the daemon ---


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs for both versions of Batsim."""
    made = tmp_path_factory.mktemp("both")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(made / "p.xml"), "-q") == 0
    assert exit_code("generate", "site", "--battery-kwh", "2", "-o", str(made / "site.toml"), "-q") == 0
    jobs = ("generate", "workload", "--synthetic", "--jobs", "40", "--hosts", "4", "--seed", "2", "-q")
    power = ("generate", "power", "--synthetic", "--pv-kw", "1", "--wind-kw", "1", "-q")
    for form in ("batsim4", "batsim5"):
        assert exit_code(*jobs, "--format", form, "-o", str(made / f"{form}.json")) == 0
        assert exit_code(*power, "--format", form, "-o", str(made / f"{form}.txt")) == 0
    return made


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["power-reactive", "easy"])
def test_the_daemon_has_the_same_schedule_on_both(made: Path, tmp_path: Path, policy: str) -> None:
    """One command line of the daemon serves either simulator; the files are those of the version."""
    tables = {}
    for form in ("batsim4", "batsim5"):
        endpoint, folder = free_endpoint(), tmp_path / form
        folder.mkdir()
        old = (
            "-e",
            "out",
            "-E",
            "--events",
            str(made / "batsim4.txt"),
            "--forward-unknown-events",
            "-s",
            endpoint,
        )
        new = (
            "--protocol",
            "5",
            "-e",
            "out_",
            "--energy-host",
            "--ee",
            str(made / "batsim5.txt"),
            "-s",
            endpoint,
            "",
        )
        serve = ("serve", "--policy", policy, "--site", str(made / "site.toml"), "--energy", "model")
        with started([program("beasy-sched"), *serve, "-o", "sched", "-s", endpoint], folder) as daemon:
            files = ("-p", str(made / "p.xml"), "-w", str(made / f"{form}.json"))
            arguments = [program("beasy-sched"), "batsim", *files, *(old if form == "batsim4" else new)]
            done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            assert daemon.wait() == 0, daemon.said()
        assert json.loads((folder / "sched_summary.json").read_text())["jobs"]["submitted"] == 40
        with (folder / "out_jobs.csv").open() as file:
            tables[form] = {row["job_id"]: row for row in csv.DictReader(file)}
    assert tables["batsim4"].keys() == tables["batsim5"].keys()
    for name, row in tables["batsim4"].items():
        other = tables["batsim5"][name]
        assert (row["final_state"], row["allocated_resources"]) == (
            other["final_state"],
            other["allocated_resources"],
        )
        if row["starting_time"]:
            assert float(other["starting_time"]) == pytest.approx(float(row["starting_time"]), abs=2e-3)
            assert float(other["finish_time"]) == pytest.approx(float(row["finish_time"]), abs=2e-3)
            assert float(other["consumed_energy"]) == pytest.approx(float(row["consumed_energy"]), rel=1e-4)
