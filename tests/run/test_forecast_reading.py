"""Reading of forecasts at the edge: files that change, programs that fail or hang; the clock is a number."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.forecast_contents import ForecastContents, ForecastScale, parse_contents
from beasy_sched.run.forecast_reading import (
    ChangingFile,
    ForecastReader,
    Input,
    ReadForecast,
    RepeatedProgram,
    open_input,
)

NOW = 1_780_056_000.0
HOUR = 3600.0
PATIENCE_S = 60.0
SCALE = ForecastScale(step_s=300.0, most_steps=12, time_0_s=NOW)


def csv(*values: float) -> str:
    return "issued,valid,W\n" + "".join(f"0,{3600 * n},{value}\n" for n, value in enumerate(values))


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader_of(clock: Clock) -> Iterator[Callable[[Input], ForecastReader]]:
    readers: list[ForecastReader] = []

    def made(source: Input) -> ForecastReader:
        readers.append(
            ForecastReader(source, lambda name, data: parse_contents(name, data, SCALE), clock=clock)
        )
        return readers[-1]

    yield made
    for reader in readers:
        reader.close()


def values(read: ReadForecast) -> list[float]:
    assert read.contents is not None, read.problem
    return read.contents.table.values.tolist()


def looks(reader: ForecastReader, count: int = 2) -> list[ReadForecast]:
    for _ in range(count):
        reader.look()
    return reader.take()


def problem(found: list[ReadForecast]) -> str:
    (read,) = found
    assert read.contents is None
    return read.problem


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


# --- files ------------------------------------------------------------------------------------------------


def test_a_file_is_read_again_once_it_has_stayed_the_same(tmp_path, reader_of):
    path = tmp_path / "f.csv"
    path.write_text(csv(1))
    os.utime(path, (NOW - 60, NOW - 60))
    reader = reader_of(ChangingFile(str(path)))
    first = reader.first()
    assert (first.at_s, values(first)) == (NOW - 60, [1.0])
    assert looks(reader) == []
    path.write_text(csv(2, 3))
    os.utime(path, (NOW, NOW))
    assert looks(reader, 1) == []  # it may still be written
    (found,) = looks(reader, 1)
    assert (found.at_s, values(found)) == (NOW, [2.0, 3.0])
    assert looks(reader) == []


def test_a_file_that_is_being_written_is_not_read(tmp_path, reader_of):
    path = tmp_path / "f.csv"
    path.write_text(csv(1))
    reader = reader_of(ChangingFile(str(path)))
    reader.first()
    for number in range(5):
        with path.open("a") as file:
            file.write(f"0,{3600 * (number + 1)},7\n")
        assert looks(reader, 1) == []
    assert values(*looks(reader, 1)) == [1.0] + [7.0] * 5


def test_a_replaced_file_is_read(tmp_path, reader_of):
    path, new = tmp_path / "f.csv", tmp_path / "new"
    path.write_text(csv(1))
    reader = reader_of(ChangingFile(str(path)))
    reader.first()
    new.write_text(csv(5))
    os.replace(new, path)
    assert values(*looks(reader)) == [5.0]


def test_a_file_that_disappears_or_is_cut_is_reported_once(tmp_path, reader_of):
    path = tmp_path / "f.csv"
    path.write_text(csv(1))
    reader = reader_of(ChangingFile(str(path)))
    reader.first()
    path.unlink()
    assert problem(looks(reader, 5)) == f"{path}: cannot be read: No such file or directory"
    path.write_text("issued,valid,W\n0,0,1\n0,36")
    assert problem(looks(reader, 5)).startswith(f"{path}:3: ")
    path.write_text(csv(4))
    assert values(*looks(reader, 5)) == [4.0]
    path.unlink()
    assert problem(looks(reader, 5)) == f"{path}: cannot be read: No such file or directory"


def test_a_missing_file_at_the_beginning_is_an_error(tmp_path, reader_of):
    with pytest.raises(InputError, match="No such file"):
        reader_of(ChangingFile(str(tmp_path / "none.csv"))).first()


def test_a_pipe_can_be_read_only_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert open_input(str(tmp_path / "pipe"), HOUR) is None


# --- programs ---------------------------------------------------------------------------------------------


def test_a_program_is_run_at_its_interval(tmp_path, reader_of, clock):
    path = tmp_path / "f.csv"
    path.write_text(csv(1))
    reader = reader_of(RepeatedProgram(shlex.join(["cat", str(path)]), HOUR))
    assert values(reader.first()) == [1.0]
    path.write_text(csv(2))
    assert looks(reader) == []
    clock.now += HOUR
    (found,) = looks(reader)
    assert (found.at_s, values(found)) == (clock.now, [2.0])


def test_a_program_that_fails_is_tried_again_soon_and_then_less_often(tmp_path, reader_of, clock):
    path = tmp_path / "f.csv"
    path.write_text(csv(1))
    reader = reader_of(RepeatedProgram(shlex.join(["cat", str(path)]), HOUR))
    reader.first()
    path.unlink()
    clock.now += HOUR
    told = f"command:cat has ended with exit code 1 (cat: {path}: No such file or directory)"
    assert problem(looks(reader)) == told
    path.write_text(csv(3))
    assert looks(reader) == []
    clock.now += 60
    assert values(*looks(reader)) == [3.0]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os.kill(os.getpid(), 15)", "command:.* was ended by signal 15"),
        ("print('oops')", "command:.*: column 'oops' does not state its unit: expected a forecast"),
        ("pass", "command:.*: is empty: expected a forecast"),
        ("import sys; sys.exit('no key')", "has ended with exit code 1 \\(no key\\)"),
        ("import os; os.write(1, bytes(range(256)))", "is not a text file"),
    ],
)
def test_a_program_without_a_forecast_is_one_line(code, told, reader_of):
    reader = reader_of(RepeatedProgram(python(code), HOUR))
    with pytest.raises((ConfigError, InputError), match=told) as error:
        reader.first()
    assert "\n" not in str(error.value)


def test_a_program_that_cannot_be_started(reader_of):
    with pytest.raises(ConfigError, match="no forecast: command:/nowhere cannot be started: No such file"):
        reader_of(RepeatedProgram("/nowhere", HOUR)).first()


def test_a_program_that_does_not_end_is_stopped_with_its_children(tmp_path, reader_of):
    child = "p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True)"
    code = f"import subprocess, time; {child}; time.sleep(600)"
    pids = tmp_path / "pids"
    source = RepeatedProgram(shlex.join(["sh", "-c", f"{python(code)} > {pids}"]), HOUR, limit_s=1.0)
    with pytest.raises(ConfigError, match="command:sh has not ended within 1 s: it was stopped"):
        reader_of(source).first()
    assert_ended(int(pids.read_text()))


def test_a_large_forecast_fits_through_the_pipe(reader_of):
    code = "print('issued,valid,W'); [print(f'0,{300 * n},1') for n in range(50000)]"
    assert len(values(reader_of(RepeatedProgram(python(code), HOUR)).first())) == 50_000


def test_a_program_whose_child_keeps_its_output_open_has_ended(reader_of):
    code = f"import subprocess; subprocess.Popen(['sleep', '600']); print({csv(6)!r})"
    assert values(reader_of(RepeatedProgram(python(code), HOUR)).first()) == [6.0]


def assert_ended(pid: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < end_s, "it still runs"
        time.sleep(0.01)


# --- the thread -------------------------------------------------------------------------------------------


class Slow(Input):
    """A source that reads until it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.is_reading, self.may_end = threading.Event(), threading.Event()

    def first(self, now: float) -> tuple[float, bytes]:
        return now, csv(1).encode()

    def read(self, now: float, is_stopped: Callable[[], bool]) -> tuple[float, bytes] | None:
        self.is_reading.set()
        assert self.may_end.wait(PATIENCE_S)
        return now, csv(2).encode()


def test_a_slow_source_does_not_delay_the_run():
    def parse(name: object, data: bytes) -> ForecastContents:
        return parse_contents(str(name), data, SCALE)

    source = Slow()
    reader = ForecastReader(source, parse, clock=lambda: NOW, look_s=0.001)
    reader.start()
    assert source.is_reading.wait(PATIENCE_S)
    assert reader.take() == []  # at once
    source.may_end.set()
    end_s = time.monotonic() + PATIENCE_S
    while not (found := reader.take()):
        assert time.monotonic() < end_s, "nothing was read"
        time.sleep(0.001)
    assert values(found[0]) == [2.0]
    reader.close()


def test_closing_stops_a_running_program(tmp_path):
    started = tmp_path / "pid"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid()) + chr(10)); time.sleep(600)"
    reader = ForecastReader(RepeatedProgram(python(code), HOUR), lambda name, data: None, look_s=0.001)
    reader.start()
    end_s = time.monotonic() + PATIENCE_S
    while not started.exists() or not started.read_text().endswith("\n"):
        assert time.monotonic() < end_s, "it was not started"
        time.sleep(0.01)
    reader.close()
    assert_ended(int(started.read_text()))
