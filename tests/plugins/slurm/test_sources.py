"""Where a live run reads the power now: real files, real programs, and a server like Prometheus."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.slurm.readings import BATTERY, POWER, Quantity, Reading
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.plugins.slurm.sources.command import CommandSource
from beasy_sched.plugins.slurm.sources.source_opening import open_source
from beasy_sched.plugins.slurm.sources.watcher import Watcher

NOW = 1_780_000_000.0
PATIENCE_S = 30.0


@pytest.fixture
def opened() -> Iterator[Callable[..., Source]]:
    """Opens sources, and closes them in the end."""
    sources: list[Source] = []

    def open_one(text: str, quantity: Quantity = POWER, **options: float) -> Source:
        sources.append(open_source(text, quantity, **options))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def wait_for(what: Callable[[], object]) -> None:
    """Look again and again until something is so."""
    end_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.005)


def first(source: Source, now: float) -> Reading:
    """The next reading, at one moment of the source's clock."""
    found: list[Reading] = []
    wait_for(lambda: found.extend(filter(None, [source.read(now)])) or found)
    return found[0]


def until_noted(source: Source, now: float) -> str:
    """What the source tells next, at one moment of its clock."""
    wait_for(lambda: source.read(now) or source.notes)
    note = " | ".join(source.notes)
    source.notes.clear()
    return note


def watts(power_w: float, at: float = NOW) -> Reading:
    return Reading(at, {"power_available": power_w})


# --- what can never work ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the power source is '': expected a file, command:PROGRAM ARGS or prometheus:URL"),
        ("  ", "the power source is '  ': expected a file"),
        ("a\0b", "expected a file"),
        ("mqtt://broker/pv", "unknown kind of power source 'mqtt': expected a file, command:PROGRAM ARGS or"),
        ("day:1.csv", "unknown kind of power source 'day': .*; a file of this name is ./day:1.csv"),
        ("command:", "the power source does not name a program: expected command:PROGRAM ARGS"),
        ("command:''", "the power source does not name a program"),
        ("command:echo 'a", "the power source command:echo 'a cannot be read: no closing quotation"),
        ("prometheus:", "expected prometheus:http://HOST:9090\\?query=QUERY"),
        ("prometheus:localhost:9090?query=pv", "expected prometheus:http://HOST"),
        ("prometheus:ftp://localhost?query=pv", "expected prometheus:http://HOST"),
        ("prometheus:http://localhost:90x0?query=pv", "expected prometheus:http://HOST"),
        ("prometheus:http://[::1?query=pv", "expected prometheus:http://HOST"),
        ("prometheus:http://local host?query=pv", "expected prometheus:http://HOST"),
        ("prometheus:http://localhost:9090", "expected prometheus:http://HOST"),
        ("prometheus:http://localhost:9090?query=", "expected prometheus:http://HOST"),
        ("prometheus:http://localhost:9090?timeout=5s&query=pv", "expected prometheus:http://HOST"),
        ("prometheus:http://me:secret@localhost?query=pv", "user names and passwords in the URL"),
    ],
)  # fmt: skip
def test_a_text_that_can_never_work_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_source(text)


def test_passwords_are_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        open_source("prometheus:http://me:secret@localhost?query=pv")
    assert "secret" not in str(caught.value)
    assert open_source("command:mosquitto_sub -P secret").label == "command:mosquitto_sub"


# --- files ------------------------------------------------------------------------------------------------


def append(path: Path, text: str, written: float = NOW) -> None:
    """Write to the end of a file, as of a moment of the source's clock."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (written, written))


def replace(path: Path, text: str, written: float = NOW) -> None:
    """Write a file anew, under the same inode."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (written, written))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "power.txt"


@pytest.fixture
def source(path: Path, opened: Callable[..., Source]) -> Source:
    return opened(str(path))


def test_a_file_that_grows(path: Path, source: Source) -> None:
    append(path, "100\n200\n", NOW - 60)
    assert source.read(NOW) == watts(200, NOW - 60)
    assert source.read(NOW) is None
    append(path, "30")
    assert source.read(NOW) is None, "half a line waits"
    append(path, "0\n", NOW + 5)
    assert source.read(NOW + 5) == watts(300, NOW + 5)
    assert source.read(NOW + 6) is None
    assert source.notes == []


def test_what_is_written_without_a_time_holds_from_when_it_was_written(path: Path, source: Source) -> None:
    append(path, "100\n", NOW - 10_000)
    assert source.read(NOW) == watts(100, NOW - 10_000)
    append(path, "100\n", NOW + 500)
    assert source.read(NOW) == watts(100, NOW), "a file system's clock that is ahead"


def test_a_table_that_grows(path: Path, source: Source) -> None:
    append(path, "time,PV [kW]\n2026-05-28 20:26:40,1\n")
    assert source.read(NOW) == watts(1000)
    append(path, "2026-05-28 20:27:40,1.5\n")
    assert source.read(NOW + 60) == watts(1500, NOW + 60)


@pytest.mark.slow
def test_readings_for_later_wait_for_their_time(path: Path, opened: Callable[..., Source]) -> None:
    source = opened(str(path), epoch_s=NOW)
    lines = [{"timestamp": step * 300, "type": "power", "power_available": step} for step in range(20_000)]
    append(path, "".join(json.dumps(line) + "\n" for line in lines), NOW - 10)
    assert source.read(NOW) == watts(0)
    assert source.next_s == NOW + 300
    assert source.read(NOW + 299) is None
    assert source.read(NOW + 300) == watts(1, NOW + 300)
    for step in (5_000, 10_001, 19_999):
        source.read(NOW + step * 300)
    assert source.read(NOW + 1e9) is None
    assert source.next_s is None
    assert source._last == watts(19_999, NOW + 19_999 * 300)


def test_a_reading_that_comes_late_does_not_count(path: Path, source: Source) -> None:
    append(path, f'{{"time": {NOW}, "power_available": 5}}\n')
    assert source.read(NOW) == watts(5)
    append(path, f'{{"time": {NOW - 60}, "power_available": 6}}\n')
    assert source.read(NOW) is None
    append(path, f'{{"time": {NOW - 50}, "power_available": 7}}\n')
    assert source.read(NOW - 50) == watts(7, NOW - 50), "the clock has been set back"


def test_a_truncated_file_begins_anew(path: Path, source: Source) -> None:
    append(path, "time,power_w\n" + "2026-05-28 20:26:40,5\n" * 20)
    assert source.read(NOW) == watts(5)
    replace(path, "power_kw\n7\n", NOW + 60)
    assert source.read(NOW + 60) == watts(7000, NOW + 60)
    append(path, "8\n", NOW + 120)
    assert source.read(NOW + 120) == watts(8000, NOW + 120)


def test_a_file_that_is_written_anew_for_each_reading(path: Path, source: Source) -> None:
    for minute, (text, power_w) in enumerate(
        [("100\n", 100), ("101\n", 101), ("101\n", 101), ("102.5\n", 102.5)]
    ):
        now = NOW + 60 * minute
        replace(path, text, now)
        assert source.read(now) == watts(power_w, now)
        assert source.read(now + 1) is None


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(path: Path, source: Source) -> None:
    append(path, "power_w\n100\n")
    assert source.read(NOW) == watts(100)
    old = path.rename(path.with_suffix(".1"))
    append(old, "200\n", NOW + 1)
    assert source.read(NOW + 1) == watts(200, NOW + 1), "whoever writes has not noticed yet"
    append(old, "300\n", NOW + 2)
    append(path, "power_kw\n4\n", NOW + 3)
    assert source.read(NOW + 3) == watts(4000, NOW + 3)
    append(old, "500\n", NOW + 4)
    assert source.read(NOW + 4) is None
    append(path, "5\n", NOW + 5)
    assert source.read(NOW + 5) == watts(5000, NOW + 5)


def test_a_file_replaced_with_the_same_text_speaks_anew(path: Path, source: Source) -> None:
    append(path, "100\n")
    assert source.read(NOW) == watts(100)
    fresh = path.with_suffix(".new")
    append(fresh, "100\n", NOW + 60)
    fresh.replace(path)
    assert source.read(NOW + 60) == watts(100, NOW + 60)


def test_a_missing_file_is_waited_for(path: Path, source: Source) -> None:
    for _ in range(3):
        assert source.read(NOW) is None
    assert source.notes == [f"{path} does not exist: waiting for it"]
    append(path, "100\n")
    assert source.read(NOW) == watts(100)
    assert len(source.notes) == 1


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: os.mkfifo(path)])
def test_what_is_no_file_is_told_and_waited_for(
    path: Path, source: Source, make: Callable[..., None]
) -> None:
    make(path)
    for _ in range(3):
        assert source.read(NOW) is None
    assert source.notes == [
        f"{path} is not a regular file: waiting for one (use command:cat PIPE for a pipe)"
    ]


def test_a_file_that_may_not_be_read_is_told_once(
    path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(path, "100\n")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert [source.read(NOW) for _ in range(3)] == [None] * 3
    assert source.notes == [f"{path} cannot be read: Permission denied"]
    assert source.read(NOW) == watts(100)


def test_damaged_lines_are_counted_and_told_once_per_kind(path: Path, source: Source) -> None:
    append(path, "starting\n100\n-1\nfog\n-2\n\n")
    assert source.read(NOW) == watts(100)
    append(path, "-3\n")
    assert source.read(NOW) is None
    assert source.damaged == {"text": 2, "value": 3}
    assert source.notes == [
        f"{path}: found 'starting', expected a number (W), or a JSON object or a table with power_available;"
        " further such lines are ignored silently",
        f"{path}: found power_available -1.0, expected watts, 0 to 1e+15, in '-1';"
        " further such lines are ignored silently",
    ]


def test_a_line_without_end_does_not_fill_the_memory(path: Path, source: Source) -> None:
    for _ in range(3):
        append(path, "5" * 100_000)
        assert source.read(NOW) is None
    append(path, "\n100\n")
    assert source.read(NOW) == watts(100)
    assert source.damaged == {"length": 1}


def test_only_the_end_of_a_long_log_is_read(path: Path, source: Source) -> None:
    rows = [f"{NOW - 300_000 + step},{step}\n" for step in range(100_000)]
    append(path, "time,power_w\n" + "not a row\n" + "".join(rows))
    assert path.stat().st_size > 1 << 18
    assert source.read(NOW) == watts(99_999, NOW - 200_001)
    assert not source.damaged, "the damaged row is far from the end"
    append(path, f"{NOW},5\n")
    assert source.read(NOW) == watts(5)


@pytest.mark.slow
def test_a_long_file_for_later_is_read_from_its_beginning(path: Path, source: Source) -> None:
    rows = [f"{NOW - 300 + 300 * step},{step}\n" for step in range(20_000)]
    append(path, "time,power_w\n" + "".join(rows))
    assert source.read(NOW) == watts(1)
    for step in range(2, 20_000, 9_000):
        assert source.read(NOW - 300 + 300 * step) == watts(step, NOW - 300 + 300 * step)


def test_the_battery_has_a_file_too(path: Path, opened: Callable[..., Source]) -> None:
    source = opened(str(path), BATTERY)
    append(path, '{"soc_pct": 61.2, "hydrogen_kg": 3}\n55\n')
    assert source.read(NOW) == Reading(NOW, {"soc_pct": 55.0})


# --- programs ---------------------------------------------------------------------------------------------


def python(code: str) -> str:
    """A source that runs a short program."""
    return f"command:{sys.executable} -u -c '{code}'"


FOLLOW = 'import time; print("{\\"power_available\\": 5}"); print(7); time.sleep(600)'


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to notice that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def pid_of(source: Source) -> int:
    assert isinstance(source, CommandSource)
    assert source._process is not None
    return source._process.pid


def test_a_program_that_goes_on_running(opened: Callable[..., Source]) -> None:
    source = opened(python(FOLLOW))
    reading = first(source, NOW)
    assert watts(7) in (reading, source.read(NOW) or reading)
    pid = pid_of(source)
    source.close()
    assert has_ended(pid)
    assert source.notes == []
    source.close()


def test_what_a_program_has_started_ends_with_it(opened: Callable[..., Source]) -> None:
    source = opened("command:sh -c 'sleep 600 & echo $!; wait'")
    child = int(first(source, NOW).fields["power_available"])
    assert not has_ended(child)
    source.close()
    wait_for(lambda: has_ended(child))


def test_a_program_that_does_not_want_to_end_is_killed(opened: Callable[..., Source]) -> None:
    source = opened(
        python(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); time.sleep(600)"
        )
    )
    assert first(source, NOW) == watts(1)
    pid = pid_of(source)
    source.close()
    assert has_ended(pid)


def test_a_program_is_run_without_a_shell(opened: Callable[..., Source], tmp_path: Path) -> None:
    made = tmp_path / "made"
    source = opened(f"command:echo 5; touch {made}")
    assert "found '5; touch" in until_noted(source, NOW)
    assert not made.exists()


def test_a_program_that_fails_is_started_again_after_growing_pauses(
    opened: Callable[..., Source], tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    source = opened(
        python(
            f'import sys; open("{starts}", "a").write("x");'
            ' print("a\\nno such host\\n", file=sys.stderr); sys.exit(3)'
        )
    )
    assert until_noted(source, NOW) == (
        f"command:{sys.executable} has ended with exit code 3 (no such host):"
        " restarting in 1 s, then after longer pauses"
    )
    assert isinstance(source, CommandSource)

    def ended() -> bool:
        source.read(now)
        return source._process is None

    now = NOW
    for number, pause_s in enumerate([1, 2, 4, 8, 16, 32], 1):
        now += pause_s - 0.5
        source.read(now)
        assert source._process is None, "it is too early"
        now += 0.5
        source.read(now)
        wait_for(ended)
        assert starts.read_text() == "x" * (number + 1)
    assert source.notes == []


def test_a_program_that_ends_and_comes_back_speaks_again(opened: Callable[..., Source]) -> None:
    source = opened(python(FOLLOW))
    first(source, NOW)
    os.kill(pid_of(source), signal.SIGKILL)
    assert "was ended by signal 9: restarting in 1 s" in until_noted(source, NOW + 100)
    assert first(source, NOW + 101).at == NOW + 101
    os.kill(pid_of(source), signal.SIGKILL)
    wait_for(lambda: source.read(NOW + 200) or source._process is None)  # type: ignore[attr-defined]
    assert first(source, NOW + 201).at == NOW + 201, "after a steady time, pauses begin anew"


def test_a_program_that_says_its_reading_and_ends_is_asked_again(opened: Callable[..., Source]) -> None:
    source = opened("command:printf 1234", interval_s=30)
    assert first(source, NOW) == watts(1234)
    assert source.read(NOW + 29.9) is None
    assert source._process is None  # type: ignore[attr-defined]
    assert first(source, NOW + 30) == watts(1234, NOW + 30)
    assert source.notes == []


def test_half_a_number_of_a_program_that_failed_does_not_count(opened: Callable[..., Source]) -> None:
    source = opened("command:sh -c 'printf 12; exit 1'")
    assert "has ended with exit code 1: restarting" in until_noted(source, NOW)
    assert source.read(NOW) is None


def test_a_program_without_a_word_is_told(opened: Callable[..., Source]) -> None:
    assert "has ended with exit code 0 without a reading: restarting" in until_noted(
        opened("command:true"), NOW
    )


def test_a_program_that_closes_its_output_is_ended(opened: Callable[..., Source], tmp_path: Path) -> None:
    number = tmp_path / "pid"
    source = opened(f"command:sh -c 'echo $$ > {number}; exec >&-; exec sleep 600'")
    assert "has closed its output: restarting" in until_noted(source, NOW)
    assert has_ended(int(number.read_text()))


@pytest.mark.slow
def test_a_program_that_prints_without_end_does_not_hold_up_the_run(opened: Callable[..., Source]) -> None:
    source = opened("command:yes 5")
    assert first(source, NOW) == watts(5)
    for second in range(1, 3):
        assert first(source, NOW + second) == watts(5, NOW + second)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_text("#!/bin/sh\n"), "Permission denied"),
        (lambda path: (path.write_text("5\n"), path.chmod(0o755)), "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_started_is_told_once(
    opened: Callable[..., Source], tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    program = tmp_path / "meter"
    make(program)
    source = opened(f"command:{program}")
    for second in range(5):
        assert source.read(NOW + second) is None
    assert source.notes == [f"command:{program} cannot be started: {why}; retrying"]


def test_a_program_that_is_installed_later_is_started(opened: Callable[..., Source], tmp_path: Path) -> None:
    program = tmp_path / "meter"
    source = opened(f"command:{program}")
    assert source.read(NOW) is None
    program.write_text("#!/bin/sh\necho 5\n")
    program.chmod(0o755)
    assert first(source, NOW + 1) == watts(5, NOW + 1)


# --- Prometheus -------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers as it is told, and remembers what it was asked."""

    daemon_threads = True
    answer: tuple[int, bytes] = 200, b""
    gate: threading.Event | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def say(self, kind: str, result: object) -> None:
        body = {"status": "success", "data": {"resultType": kind, "result": result}}
        self.answer = 200, json.dumps(body).encode()

    def handle_error(self, *_: object) -> None:
        """Whoever asked may have gone."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.gate is not None:
            self.server.gate.wait(PATIENCE_S)
        code, body = self.server.answer
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        if server.gate is not None:
            server.gate.set()
        server.shutdown()
        thread.join()


def sample(value: str, **labels: str) -> dict[str, object]:
    return {"metric": labels, "value": [NOW, value]}


QUERY = 'sum(pv_watts{site="a b"}) + 5'


@pytest.mark.parametrize("written", [QUERY, urllib.parse.quote(QUERY)])
@pytest.mark.parametrize("base", ["", "/", "/prom", "/api/v1/query"])
def test_prometheus_is_asked_for_the_query(
    server: Server, opened: Callable[..., Source], written: str, base: str
) -> None:
    server.say("vector", [sample("1234.5")])
    source = opened(f"prometheus:{server.url}{base}?query={written}")
    assert first(source, NOW) == watts(1234.5)
    asked = urllib.parse.urlsplit(server.asked[0])
    assert asked.path == ("/prom" if base == "/prom" else "") + "/api/v1/query"
    assert urllib.parse.parse_qs(asked.query) == {"query": [QUERY]}


@pytest.mark.parametrize(
    ("kind", "result", "power_w"),
    [
        ("vector", [sample("10", inverter="1"), sample("2.5e1", inverter="2")], 35.0),
        ("vector", [sample("0")], 0.0),
        ("scalar", [NOW, "7"], 7.0),
    ],
)
def test_the_values_of_an_answer_are_summed(
    server: Server, opened: Callable[..., Source], kind: str, result: object, power_w: float
) -> None:
    server.say(kind, result)
    assert first(opened(f"prometheus:{server.url}?query=pv"), NOW) == watts(power_w)


def test_prometheus_is_asked_once_in_an_interval(server: Server, opened: Callable[..., Source]) -> None:
    server.say("scalar", [NOW, "7"])
    source = opened(f"prometheus:{server.url}?query=pv", interval_s=15)
    first(source, NOW)
    for second in range(1, 15):
        assert source.read(NOW + second) is None
    source._thread.join()  # type: ignore[attr-defined]
    assert len(server.asked) == 1
    assert first(source, NOW + 15) == watts(7, NOW + 15)
    assert len(server.asked) == 2


def test_a_slow_answer_holds_nothing_up_and_counts_from_when_it_was_asked_for(
    server: Server, opened: Callable[..., Source]
) -> None:
    server.say("scalar", [NOW, "7"])
    server.gate = threading.Event()
    source = opened(f"prometheus:{server.url}?query=pv", interval_s=1, timeout_s=PATIENCE_S)
    for second in range(5):
        assert source.read(NOW + second) is None
    assert len(server.asked) <= 1, "one request at a time"
    server.gate.set()
    assert first(source, NOW + 5) == watts(7, NOW)


def test_a_server_that_says_nothing_is_told_and_its_thread_ends(
    server: Server, opened: Callable[..., Source]
) -> None:
    server.gate = threading.Event()
    source = opened(f"prometheus:{server.url}?query=pv", timeout_s=0.05)
    assert until_noted(source, NOW) == f"prometheus:{server.url} has not responded within 0.05 s"
    source.close()
    assert not source._thread.is_alive()  # type: ignore[attr-defined]


def test_a_server_that_is_not_there_is_told_once(
    opened: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        source = opened(f"prometheus:{url}?query=pv", interval_s=1)
        assert until_noted(source, NOW) == f"prometheus:{url} does not respond: Connection refused"
        source.read(NOW + 1)
        source._thread.join()  # type: ignore[attr-defined]
        source.read(NOW + 2)
        assert source.notes == []


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (404, b"no", "responded with HTTP 404 Not Found"),
        (
            400,
            b'{"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end"}',
            "responded with HTTP 400 Bad Request: parse error: unexpected end",
        ),
        (200, b"<html>", "sent an invalid response: is not valid JSON"),
        (200, b"[]", "sent an invalid response: found [], expected an object"),
        (200, b'{"status": "error", "error": "overload"}', "responded with error: overload"),
        (
            200,
            b'{"status": "success", "data": {"resultType": "matrix", "result": []}}',
            "responded with a matrix, expected a vector or a scalar",
        ),
        (
            200,
            b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
            "returned no result for the query",
        ),
        (
            200,
            b'{"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, 2]}]}}',
            "sent an invalid response: data.result[0].value[1]: found 2, expected a string",
        ),
        (
            200,
            b'{"status": "success", "data": {"resultType": "vector", "result": 5}}',
            "sent an invalid response: data.result: found 5, expected a list",
        ),
    ],
)
def test_answers_that_are_none_are_told(
    server: Server, opened: Callable[..., Source], code: int, body: bytes, message: str
) -> None:
    server.answer = code, body
    note = until_noted(opened(f"prometheus:{server.url}?query=pv"), NOW)
    assert note.startswith(f"prometheus:{server.url} {message}")


def test_the_same_fault_is_told_once_whatever_it_shows(server: Server, opened: Callable[..., Source]) -> None:
    source = opened(f"prometheus:{server.url}?query=pv", interval_s=1)
    server.say("scalar", [NOW, 1])
    until_noted(source, NOW)
    server.say("scalar", [NOW + 1, 2])
    source.read(NOW + 1)
    source._thread.join()  # type: ignore[attr-defined]
    source.read(NOW + 1)
    assert len(server.asked) == 2
    assert source.notes == []


def test_a_value_that_is_no_power_is_damaged(server: Server, opened: Callable[..., Source]) -> None:
    server.say("vector", [sample("NaN")])
    source = opened(f"prometheus:{server.url}?query=pv")
    assert "found power_available nan, expected watts" in until_noted(source, NOW)
    assert source.damaged == {"value": 1}


# --- silence ----------------------------------------------------------------------------------------------


def test_a_source_that_falls_silent_counts_for_a_while_and_then_0_w(path: Path, source: Source) -> None:
    watcher = Watcher(source, stale_s=600, started_s=NOW)
    append(path, "100\n")
    assert watcher.read(NOW) == watts(100)
    assert watcher.read(NOW + 600) is None
    assert not watcher.is_silent
    assert watcher.read(NOW + 612) == watts(0, NOW + 612)
    assert watcher.is_silent
    assert watcher.staleness_s(NOW + 612) == 612
    assert watcher.read(NOW + 700) is None, "once per silence"
    assert watcher.notes == [f"the power source {path} has sent no reading for 612 s: assuming 0 W"]
    append(path, "200\n", NOW + 900)
    assert watcher.read(NOW + 900) == watts(200, NOW + 900)
    assert not watcher.is_silent
    assert watcher.staleness_s(NOW + 900) == 0
    assert watcher.notes[1:] == [f"the power source {path} is available again after 900 s"]
    assert watcher.read(NOW + 1501) == watts(0, NOW + 1501)
    assert len(watcher.notes) == 3


def test_a_source_that_never_speaks(path: Path, source: Source) -> None:
    watcher = Watcher(source, stale_s=600, started_s=NOW)
    assert watcher.read(NOW + 600) is None
    assert watcher.read(NOW + 601) == watts(0, NOW + 601)
    assert watcher.notes == [
        f"{path} does not exist: waiting for it",
        f"the power source {path} has sent no reading for 601 s: assuming 0 W",
    ]


def test_an_old_reading_does_not_count(path: Path, source: Source) -> None:
    append(path, "100\n", NOW - 3600)
    watcher = Watcher(source, stale_s=600, started_s=NOW)
    assert watcher.read(NOW) == watts(0)
    assert watcher.notes == [f"the power source {path} has sent no reading for 3600 s: assuming 0 W"]
    append(path, "100\n", NOW - 1800)
    assert watcher.read(NOW) is None
    assert watcher.is_silent
    assert watcher.staleness_s(NOW) == 1800


def test_a_silence_says_when_the_next_reading_comes(path: Path, source: Source) -> None:
    append(path, f'{{"time": {NOW + 7200}, "power_available": 5}}\n')
    watcher = Watcher(source, stale_s=600, started_s=NOW)
    watcher.read(NOW)
    assert watcher.read(NOW + 700) == watts(0, NOW + 700)
    assert watcher.notes == [
        f"the power source {path} has sent no reading for 700 s (its next reading is for 6500 s from now):"
        " assuming 0 W"
    ]


def test_a_silent_battery_is_told_and_nothing_assumed(path: Path, opened: Callable[..., Source]) -> None:
    watcher = Watcher(opened(str(path), BATTERY), stale_s=600, started_s=NOW)
    append(path, "61.2\n")
    assert watcher.read(NOW) == Reading(NOW, {"soc_pct": 61.2})
    assert watcher.read(NOW + 601) is None
    assert watcher.read(NOW + 602) is None
    assert watcher.notes == [
        f"the battery source {path} has sent no reading for 601 s: using the computed state of charge"
    ]
