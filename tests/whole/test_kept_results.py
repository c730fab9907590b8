"""Commands that are refused, stopped or fail: the results that were there stay, byte for byte."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from command_line import exit_code
from daemon.serving import BEGIN, END, Serving, job, raw, serving
from processes import PATIENCE_S, program
from simulator.small import InOrder
from whole.test_output_places import COMMANDS, OF_BATSIM, PLATFORM, folder, made, run

from beasy_sched.formats import atomic
from beasy_sched.formats.run_files import FAILED, OF_SCHEDULER
from beasy_sched.policies.easy import Easy
from beasy_sched.protocol import batsim4

__all__ = ["folder", "made"]  # fixtures

SIGNALS = [signal.SIGINT, signal.SIGTERM]
FAILING = " --policy whole.test_kept_results:Failing"
RUNS = {
    "simulate": COMMANDS["simulate"].call,
    "simulate with plans": COMMANDS["simulate with plans"].call,
}


class Failing(Easy):
    """Fails in the middle of a run, in the way that the environment names."""

    name = "failing"

    def schedule(self, view):
        if view.now > 0:
            how = os.environ["FAILS"]
            if how == "raises":
                raise ZeroDivisionError("oh")
            if how == "exits":
                os._exit(9)
            os.kill(os.getpid(), int(how))
        return super().schedule(view)

    def results(self):
        if os.environ["FAILS"] == "has results that cannot be written":
            raise ZeroDivisionError("oh")
        return {}


def put_old(out: Path, files: list[str]) -> dict[str, bytes]:
    """Put older files in place; return their contents."""
    for name in files:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(f"old {name}")
    return contents(out)


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def check_kept(out: Path, old: dict[str, bytes]) -> None:
    """Check that the older files are there as they were, and nothing new but what a failed run had done."""
    now = contents(out)
    assert {name: now.get(name) for name in old} == old
    new = {name for name in now if name not in old}
    assert all(FAILED in name or "_failed." in name for name in new), new
    assert not [*out.rglob(".*")]


def check_told(said: str, out: Path, old: dict[str, bytes]) -> None:
    """Check the line that lists what was kept."""
    [line] = [line for line in said.splitlines() if line.startswith("kept the earlier results: ")]
    listed = line.partition(": ")[2].split(", ")
    assert {Path(each).name for each in listed} <= {Path(name).name for name in old}
    assert listed == [*dict.fromkeys(listed)]


# --- every command, in this process ---------------------------------------------------------------------


@contextmanager
def no_room_at_the_end(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the file system find out that there is no room when the last file is closed."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(atomic, "_check_stored", full)
    yield


@contextmanager
def no_room_in_the_middle(_: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no file become longer than some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def stopped_while_writing(patch: pytest.MonkeyPatch) -> Iterator[None]:
    complete = atomic.PartFile.complete

    def stop(part: atomic.PartFile) -> None:
        patch.setattr(atomic.PartFile, "complete", complete)
        os.kill(os.getpid(), signal.SIGINT)
        complete(part)

    patch.setattr(atomic.PartFile, "complete", stop)
    yield


@contextmanager
def name_not_given(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the file system refuse the first name."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    patch.setattr("beasy_sched.formats.held_folder.os.replace", refuse)
    yield


@contextmanager
def damaged_inputs(_: pytest.MonkeyPatch) -> Iterator[None]:
    for path in Path().rglob("*"):
        if path.is_file() and path.parts[0] != "out":
            path.write_text("{damaged")
    yield


WAYS = [no_room_at_the_end, no_room_in_the_middle, stopped_while_writing, name_not_given, damaged_inputs]
WITHOUT_INPUTS = {"platform", "workload", "power", "site", "scenario", "policy"}


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_fails_keeps_what_was_there(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    way: Callable[[pytest.MonkeyPatch], object],
) -> None:
    writes = COMMANDS[name]
    if writes.needs:
        pytest.importorskip(writes.needs)
    if way is damaged_inputs and name in WITHOUT_INPUTS:
        pytest.skip("it reads nothing")
    if way is stopped_while_writing and name == "slurm run":
        pytest.skip("a signal is its usual end")
    out = folder / "out"
    old = put_old(out, [] if writes.reads else writes.files)
    with way(monkeypatch):  # type: ignore[attr-defined]
        code = exit_code(*writes.call.split())
    said = capsys.readouterr().err
    assert code in (1, 2, 130), said
    assert "Traceback" not in said
    if name == "learn":  # what was learned before is kept, as documented
        assert {*contents(out)} <= {"m.msgpack"}
        assert not [*out.rglob(".*")]
        return
    check_kept(out, old)
    if old and name != "inputs":  # the names in that folder are found out later
        check_told(said, out, old)


STALE = [
    "plan.msgpack",
    "plans.csv",
    "plans/0000.msgpack",
    "plans/0007.msgpack",
    "shadow.csv",
    "offers.csv",
    "deadlines.csv",
]


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["raises", "has results that cannot be written", "2", "15"])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_whose_policy_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, how: str
) -> None:
    if COMMANDS[name].needs:
        pytest.importorskip(str(COMMANDS[name].needs))
    out = folder / "out"
    old = put_old(out, [*COMMANDS[name].files, *run(*STALE)])
    monkeypatch.setenv("FAILS", how)
    assert exit_code(*RUNS[name].split(), *FAILING.split()) == 1
    check_kept(out, old)
    said = capsys.readouterr().err
    check_told(said, out, old)
    assert "wrote the results so far: " in said
    assert (out / "run_failed_summary.json").exists()
    assert (out / "run_failed_plans" / "0000.msgpack").exists() == (name == "simulate with plans")


@pytest.mark.sampled
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_ends_replaces_everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also what it does not write itself; the journal of a bridge stays."""
    if COMMANDS[name].needs:
        pytest.importorskip(str(COMMANDS[name].needs))
    out, files = folder / "out", COMMANDS[name].files
    monkeypatch.setenv("FAILS", "raises")
    assert exit_code(*RUNS[name].split(), *FAILING.split()) == 1
    put_old(out, [*files, *run(*STALE), "run_journal.msgpack", "run_plans/notes.txt", "runs.csv"])
    assert exit_code(*RUNS[name].split()) == 0
    plans = {path for path in contents(out) if path.startswith("run_plans/0")}
    assert {*contents(out)} - plans == {*files, "run_journal.msgpack", "run_plans/notes.txt", "runs.csv"} | (
        {"a_failed.rec"} if "--record" in RUNS[name] else set()
    )
    assert bool(plans) == (name == "simulate with plans")
    assert "run_plans/0007.msgpack" not in plans
    assert not any((out / file).read_bytes() == f"old {file}".encode() for file in [*files, *plans])


def test_a_run_beside_another_with_its_prefix(folder: Path) -> None:
    out = folder / "out"
    old = put_old(out, COMMANDS["simulate"].files)
    command = [program("beasy-sched"), *RUNS["simulate"].split()]
    other = atomic.PartFile(out / "run_summary.json", alone=True)
    done = subprocess.run(command, capture_output=True, text=True)
    assert [path.name for path in out.glob(".*")] == [".run_summary.json.part"]
    other.discard()
    assert done.returncode == 2
    assert "another process is writing it" in done.stderr
    check_told(done.stderr, out, old)
    assert contents(out) == old


@pytest.mark.slow
def test_a_failed_run_replaces_what_the_one_before_had_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("highspy")
    for name, how in (("simulate with plans", "raises"), ("simulate", "15")):
        monkeypatch.setenv("FAILS", how)
        assert exit_code(*RUNS[name].split(), *FAILING.split()) == 1
    names = {"summary.json", "decisions.jsonl", "energy_trace.csv"}
    assert {*contents(folder / "out")} == {*run(*(f"failed_{name}" for name in names)), "a_failed.rec"}
    assert b"SIGTERM" in (folder / "out" / "run_failed_summary.json").read_bytes()
    assert exit_code("explain", "out/run_failed") == 0


# --- the simulator as a process of its own --------------------------------------------------------------


class Peer:
    """A scheduler's socket that answers some messages, then in a last way, and no more."""

    def __init__(self, answers: int, last: bytes | None = None) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.REP)
        self.socket.linger = 500
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.heard = threading.Event()
        self.thread = threading.Thread(target=self._serve, args=(answers, last), daemon=True)

    def _serve(self, answers: int, last: bytes | None) -> None:
        decide = InOrder()
        for _ in range(answers):
            self.socket.send(batsim4.encode_reply(decide(batsim4.decode_message(self.socket.recv()))))
        self.socket.recv()
        self.heard.set()
        if last is not None:
            self.socket.send(last)
            self.socket.close()

    def __enter__(self) -> Peer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.context.destroy(linger=500)


def batsim_call(protocol: str, endpoint: str, *, platform: str = PLATFORM) -> list[str]:
    if protocol == "4":
        call = f"batsim {platform} --forward-unknown-events -E -s {endpoint} -e out/run -q"
    else:
        inputs = platform.replace("--events", "--external-events")
        call = f"batsim --protocol 5 {inputs} --energy-host -s {endpoint} '' -e out/run_ -q"
    return [program("beasy-sched"), *shlex.split(call)]


def batsim_files(protocol: str) -> list[str]:
    if protocol == "4":
        return run(*OF_BATSIM)
    return run(
        "jobs.csv", "schedule.json", "real_exec_info.json", "consumed_energy.csv", "machine_states.csv"
    )


@pytest.fixture(params=["4", "5"])
def protocol(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "5":
        for name in ("workload.json", "power.txt"):
            assert exit_code("convert", name, "-o", name, "-q") == 0
    return str(request.param)


OF_THE_OTHER_SIDE = [*run(*OF_SCHEDULER), "run_plans/0000.msgpack"]


@contextmanager
def beginning(folder: Path, protocol: str, endpoint: str, **how: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        batsim_call(protocol, endpoint), cwd=folder, stderr=subprocess.PIPE, text=True, **how
    )  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def check_simulator(folder: Path, process: subprocess.Popen[str], old: dict[str, bytes]) -> None:
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert contents(folder / "out") == old
    assert not [*(folder / "out").rglob(".*")]
    check_told(
        said, folder / "out", {name: text for name, text in old.items() if name not in OF_THE_OTHER_SIDE}
    )


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
def test_a_simulator_that_is_stopped_while_it_waits(
    folder: Path, protocol: str, number: signal.Signals
) -> None:
    old = put_old(folder / "out", [*batsim_files(protocol), *OF_THE_OTHER_SIDE])
    with Peer(0) as peer, beginning(folder, protocol, peer.endpoint) as process:
        assert peer.heard.wait(PATIENCE_S)
        process.send_signal(number)
        check_simulator(folder, process, old)


@pytest.mark.slow
def test_a_simulator_that_is_refused_by_a_daemon_that_serves_another(folder: Path, protocol: str) -> None:
    """The other one has no results yet; those that are there are of an earlier run."""
    old = put_old(folder / "out", [*batsim_files(protocol), *OF_THE_OTHER_SIDE])
    (folder / "daemon").mkdir()
    with (
        serving(folder / "daemon") as daemon,
        beginning_with(daemon),
        beginning(folder, protocol, daemon.endpoint) as process,
    ):
        check_simulator(folder, process, old)


@contextmanager
def beginning_with(daemon: Serving) -> Iterator[zmq.Socket[bytes]]:
    """Be the simulator that a daemon serves."""
    context = zmq.Context()
    with context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(daemon.endpoint)
        socket.send(BEGIN)
        assert socket.poll(1000 * PATIENCE_S)
        socket.recv()
        yield socket
    context.term()


@pytest.mark.sampled
@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_scheduler_that_dies(folder: Path, answers: int) -> None:
    old = put_old(folder / "out", [*batsim_files("4"), *OF_THE_OTHER_SIDE])
    with Peer(answers, b"nonsense") as peer, beginning(folder, "4", peer.endpoint) as process:
        check_simulator(folder, process, old)


@pytest.mark.slow
def test_a_policy_that_dies_at_the_other_end(folder: Path, protocol: str) -> None:
    (folder / "daemon").mkdir()
    old = put_old(folder / "out", [*batsim_files(protocol), *OF_THE_OTHER_SIDE])
    path = f"{Path(__file__).parents[1]}"
    (folder / "daemon" / "dying.py").write_text(
        f"import sys; sys.path.insert(0, {path!r})\nfrom whole.test_kept_results import Failing\n"
    )
    os.environ["FAILS"] = "exits"
    try:
        with (
            serving(folder / "daemon", "--policy", "dying:Failing") as daemon,
            beginning(folder, protocol, daemon.endpoint) as process,
        ):
            check_simulator(folder, process, old)
    finally:
        del os.environ["FAILS"]


@pytest.mark.slow
def test_a_simulator_without_room(folder: Path, protocol: str) -> None:
    (folder / "daemon").mkdir()
    old = put_old(folder / "out", [*batsim_files(protocol), *OF_THE_OTHER_SIDE])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))

    with (
        serving(folder / "daemon", "--policy", "easy") as daemon,
        beginning(folder, protocol, daemon.endpoint, preexec_fn=limit) as process,
    ):
        said = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 2, said
        assert "File too large" in said
    assert contents(folder / "out") == old
    assert not [*(folder / "out").rglob(".*")]


@pytest.mark.sampled
@pytest.mark.parametrize("damaged", ["platform.xml", "workload.json", "power.txt", None])
def test_a_simulator_with_a_wrong_file(folder: Path, protocol: str, damaged: str | None) -> None:
    old = put_old(folder / "out", [*batsim_files(protocol), *OF_THE_OTHER_SIDE])
    if damaged is not None:
        (folder / damaged).write_text("{")
    endpoint = "rubbish" if damaged is None else "tcp://127.0.0.1:1"
    done = subprocess.run(
        batsim_call(protocol, endpoint), cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2, done.stderr
    assert contents(folder / "out") == old


@pytest.mark.sampled
def test_a_simulator_that_ends_replaces_its_own_files_only(folder: Path, protocol: str) -> None:
    (folder / "daemon").mkdir()
    files = batsim_files(protocol)
    failed = {"4": "run_failed_jobs.csv", "5": "run_failed_jobs.csv"}[protocol]
    put_old(folder / "out", [*files, "run_pstate_changes.csv", failed, *OF_THE_OTHER_SIDE])
    with serving(folder / "daemon", "--policy", "easy") as daemon:
        with beginning(folder, protocol, daemon.endpoint) as process:
            assert process.wait(PATIENCE_S) == 0, process.stderr
        assert daemon.wait() == 0
    now = contents(folder / "out")
    ours = {name for name, text in now.items() if not text.startswith(b"old")}
    expected = {*run(*OF_BATSIM)} if protocol == "4" else {*files} - {"run_machine_states.csv"}
    assert ours == expected
    assert {*now} - ours == {*OF_THE_OTHER_SIDE}


# --- the daemon as a process of its own -----------------------------------------------------------------

OF_DAEMON = [*run(*OF_SCHEDULER), "run_plans/0000.msgpack"]
OF_SIMULATOR = run(*OF_BATSIM)


def check_daemon(daemon: Serving, old: dict[str, bytes], code: int, *, begun: bool) -> None:
    assert daemon.wait() == code, daemon.stderr
    check_kept(daemon.folder / "out", old)
    check_told(daemon.stderr, daemon.folder / "out", {name: b"" for name in old if name not in OF_SIMULATOR})
    assert ("run_failed_summary.json" in daemon.files()) == begun


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("begun", [False, True])
def test_a_daemon_that_is_stopped(tmp_path: Path, number: signal.Signals, begun: bool) -> None:
    old = put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR])
    with serving(tmp_path) as daemon:
        assert daemon.endpoint
        if begun:
            with beginning_with(daemon):
                daemon.signal(number)
                check_daemon(daemon, old, 1, begun=True)
        else:
            daemon.signal(number)
            check_daemon(daemon, old, 1, begun=False)


def made_out(folder: Path) -> Path:
    (folder / "out").mkdir()
    return folder / "out"


@pytest.mark.slow
def test_a_daemon_without_a_simulator(tmp_path: Path) -> None:
    old = put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR])
    with serving(tmp_path, "--timeout", "0.2") as daemon:
        check_daemon(daemon, old, 1, begun=False)


@pytest.mark.slow
def test_a_daemon_whose_port_is_in_use(tmp_path: Path) -> None:
    old = put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR])
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other, serving(tmp_path, "-s", other.endpoint) as daemon:
        check_daemon(daemon, old, 2, begun=False)


@pytest.mark.sampled
@pytest.mark.parametrize("options", [["--site", "nowhere.toml"], ["--policy", "nobody"], ["-p", "no.xml"]])
def test_a_daemon_with_a_wrong_option(tmp_path: Path, options: list[str]) -> None:
    old = put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR])
    with serving(tmp_path, *options) as daemon:
        check_daemon(daemon, old, 2, begun=False)


@pytest.mark.sampled
@pytest.mark.parametrize("last", [b"{", None])
def test_a_simulator_that_is_lost(tmp_path: Path, last: bytes | None) -> None:
    """It sends nonsense in the middle, or is gone."""
    old = put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR])
    with serving(tmp_path) as daemon:
        with beginning_with(daemon) as socket:
            if last is not None:
                socket.send(last)
                assert daemon.wait() == 1
        check_daemon(daemon, old, 1, begun=True)


def test_a_daemon_that_ends_replaces_its_own_files_only(tmp_path: Path) -> None:
    put_old(made_out(tmp_path), [*OF_DAEMON, *OF_SIMULATOR, "run_failed_summary.json", "run_journal.msgpack"])
    with serving(tmp_path) as daemon:
        with beginning_with(daemon) as socket:
            for message in (raw(job("a")), END):
                socket.send(message)
                socket.recv()
        assert daemon.wait() == 0
    now = contents(tmp_path / "out")
    assert {name for name, text in now.items() if not text.startswith(b"old")} == {
        *run("summary.json", "decisions.jsonl")
    }
    assert {*now} == {*run("summary.json", "decisions.jsonl"), *OF_SIMULATOR, "run_journal.msgpack"}


# --- Ctrl-C in the middle of a simulation in a process of its own ---------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGHUP])
def test_a_simulation_that_is_stopped_at_any_moment(folder: Path, number: signal.Signals) -> None:
    """While it loads, reads, runs or writes: the older files, or all of the new ones."""
    command = [program("beasy-sched"), *RUNS["simulate"].split()]
    begin_s = time.monotonic()
    assert subprocess.run(command, capture_output=True).returncode == 0
    lasts_s, names = time.monotonic() - begin_s, {*contents(folder / "out")}
    for share in (0.3, 0.6, 0.8, 0.9, 0.95):
        put_old(folder / "out", sorted(names))
        old = {name: text for name, text in contents(folder / "out").items() if name in names}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(share * lasts_s)
        process.send_signal(number)
        said = process.communicate(timeout=PATIENCE_S)[1]
        now = contents(folder / "out")
        assert not [*(folder / "out").rglob(".*")], said
        kept = [name for name, text in old.items() if now[name] == text]
        assert len(kept) in (0, len(old)), said
        assert not [name for name in now if name not in old and "failed" not in name]


if sys.platform == "win32":
    pytest.skip("signals and limits as POSIX has them", allow_module_level=True)
