"""Tasks in processes: results, failures, deaths; alone, with one thread, and leaving nothing."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.experiments.processes import ONE_THREAD, Processes
from beasy_sched.experiments.tasks import Failure, work_through

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
    time.sleep(60)


def do(function, arguments, jobs=2):
    executor, results = Processes(jobs), {}
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


def test_closing_stops_what_runs():
    executor = Processes(1)
    executor.submit("long", sleep, 0)
    began = time.monotonic()
    executor.close()
    assert time.monotonic() - began < 10
    assert executor.busy == 0
