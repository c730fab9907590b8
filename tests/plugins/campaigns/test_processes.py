"""Tasks in processes: results, failures, deaths; alone, with one thread, and leaving nothing."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from studies.energy_budget import study as study

from beasy_sched.errors import InputError, MachineError, PolicyError, machine_error
from beasy_sched.plugins.campaigns import processes, scratch_folder, tasks
from beasy_sched.plugins.campaigns.child_processes import ONE_THREAD
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.workers import Failure, work_through

COUNT = [0]


def double(value):
    return 2 * value


def count(_):
    COUNT[0] += 1
    return COUNT[0]


def threads(_):
    return {os.environ.get(name) for name in ONE_THREAD}


def fail(name):
    raise InputError(name, "is wrong", line=3)


def crash(_):
    return {}["x"]


def litter(_):
    path = Path(tempfile.mkdtemp()) / "left"
    path.write_text("x")
    if _:
        os.kill(os.getpid(), signal.SIGKILL)
    return str(path)


def sleep(_):
    time.sleep(600)


def sleep_on(folder):
    """Sleep, but not in folder 0; in folder 2, ignore the request to end."""
    if folder.name == "2":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folder.mkdir()
    if folder.name != "0":
        time.sleep(600)
    return 0


def throw(error):
    """Raise it as the writers of files do."""
    raise InputError("some.csv", "cannot be written") from error


def do(function, arguments, jobs=2, **options):
    executor, results = Processes(jobs, **options), {}
    try:
        work_through(executor, [(a, function, a) for a in arguments], results.__setitem__)
    finally:
        executor.close()
    return results


def test_every_task_has_its_result():
    assert do(double, range(5)) == {n: 2 * n for n in range(5)}


def test_every_task_is_alone():
    assert set(do(count, range(3)).values()) == {1}
    assert COUNT == [0]


def test_one_thread_each(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert do(threads, [0]) == {0: {"1"}}
    assert "OMP_NUM_THREADS" not in os.environ


def test_our_errors_are_told_as_they_are_and_others_by_their_kind():
    assert do(fail, ["a.txt"]) == {"a.txt": Failure("a.txt:3: is wrong")}
    assert do(crash, [0]) == {0: Failure("internal error: KeyError('x')")}


@pytest.mark.parametrize("dies", [False, True])
def test_nothing_is_left_behind(dies, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = do(litter, [dies])[dies]
    if dies:
        assert result == Failure("its process was ended by SIGKILL")
    else:
        assert result.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EMFILE, "Too many open files", "x.csv"), "x.csv: Too many open files"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_what_the_machine_lacks_ends_all(error, told):
    executor = Processes(1)
    try:
        with pytest.raises(MachineError, match=told):
            work_through(executor, [(0, throw, error), (1, throw, error)], lambda *_: pytest.fail("told"))
    finally:
        executor.close()


@pytest.mark.parametrize(
    ("module", "work"), [(tasks, "execute"), (study, "execute_week")], ids=["run", "week"]
)
def test_a_run_without_room_is_no_run_that_failed(module, work, monkeypatch):
    monkeypatch.setattr(module, "_run", lambda *_: throw(OSError(errno.EFBIG, "File too large")))
    with pytest.raises(MachineError, match="File too large"):
        getattr(module, work)(None)


def test_what_a_policy_asks_for_is_its_own_fault_and_the_rest_is_no_lack():
    policy = PolicyError("asked for too much")
    policy.__cause__ = MemoryError()
    for error in (policy, OSError(errno.ENOENT, "no such file"), ValueError("x")):
        assert machine_error(error) is None


def test_a_task_that_takes_too_long_is_ended_and_the_others_go_on(tmp_path, monkeypatch):
    """The clock leaps when a task has ended, so that nothing depends on how fast the processes are."""
    leap_s = [0.0]
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + leap_s[0]))
    executor, results, folders = Processes(2, limit_s=5000.0, patience_s=0.3), {}, iter("102")

    def submit_next():
        folder = tmp_path / next(folders)
        executor.submit(folder.name, sleep_on, folder)
        return folder

    def take():
        key, results[key] = executor.next_done()

    try:
        submit_next(), submit_next()
        take()
        last = submit_next()
        while not last.exists():
            time.sleep(0.02)
        leap_s[0] = 5000.0
        take(), take()
    finally:
        executor.close()
    late = Failure("it exceeded the time limit of 5000 s and was stopped")
    assert results == {"0": 0, "1": late, "2": late}


def test_others_that_keep_ending_do_not_hide_one_that_is_overdue():
    executor = Processes(2, limit_s=1.5)
    try:
        executor.submit("long", sleep, 0)
        ended = []
        while "long" not in ended:
            executor.submit("short", double, 1)
            time.sleep(0.3)
            ended.append(executor.next_done()[0])
            assert len(ended) < 20
    finally:
        executor.close()


def test_closing_stops_what_runs():
    executor = Processes(1)
    executor.submit("long", sleep, 0)
    executor.close()
    assert executor.busy == 0


def test_a_signal_waits_until_a_task_has_been_handed_over(monkeypatch):
    """A process that is told only half of its task would end in a traceback of its own."""
    processes = Processes(1)
    start = processes._context.Process.start

    def interrupted(process):
        signal.raise_signal(signal.SIGINT)
        start(process)

    monkeypatch.setattr(processes._context.Process, "start", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            processes.submit("late", abs, -1)
        assert processes.next_done() == ("late", 1)
    finally:
        processes.close()


@pytest.mark.skipif(os.name == "nt", reason="there are no such locks")
def test_what_a_killed_campaign_has_left_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("beasy-campaign-dead", "another"):
        (tmp_path / name / "beasy-run-x").mkdir(parents=True)
        (tmp_path / name / ".alive").touch()
    (tmp_path / "beasy-campaign-link").symlink_to(tmp_path / "another")
    first = Processes(1)
    assert len(list(tmp_path.glob("beasy-campaign-*"))) == 2  # its own, and the link
    second = Processes(1)
    assert len(list(tmp_path.glob("beasy-campaign-*"))) == 3  # the first is alive
    second.close()
    first.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "beasy-campaign-link"]
    assert (tmp_path / "another" / "beasy-run-x").is_dir()


SERVER = """
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.workers import work_through

if __name__ == "__main__":
    executor = Processes(1, preload=["struck"])
    done = []
    work_through(executor, [("a", abs, -1), ("b", abs, -2)], lambda key, result: done.append(result))
    executor.close()
    print(done)
"""
STRUCK = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
"""A module that is struck while the server imports it, as by Ctrl-C."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_the_server_does_not_notice_a_sigint(tmp_path: Path) -> None:
    (tmp_path / "struck.py").write_text(STRUCK)
    (tmp_path / "server.py").write_text(SERVER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "server.py"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert (done.stdout, done.stderr) == ("[1, 2]\n", "")


def test_a_new_folder_is_not_abandoned(tmp_path, monkeypatch):
    """Another campaign begins while this one has a folder, but no lock yet."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = fcntl.flock

    def locked_late(file, operation):
        if operation == fcntl.LOCK_SH:
            scratch_folder._remove_abandoned()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", locked_late)
    folder, held = scratch_folder.new_scratch_folder()
    with held:
        scratch_folder.hold(folder.name).close()
    folder.cleanup()
