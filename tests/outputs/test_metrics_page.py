"""The page of metrics over HTTP: where it listens, what it refuses, and that strangers do no harm."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from command_line import exit_code

from beasy_sched.errors import ConfigError
from beasy_sched.limits import MOST_SCRAPES
from beasy_sched.outputs.metrics_page import Address, MetricsPage, parse_address

KIND = "text/plain; version=0.0.4"


def served(address: str = ":0", text: bytes = b"beasy_jobs_waiting 3.0\n") -> MetricsPage:
    return MetricsPage(address, lambda: text, KIND)


def port_of(page: MetricsPage) -> int:
    return int(page.url.removesuffix("/metrics").rpartition(":")[2])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9100", Address("127.0.0.1", 9100)),
        ("9100", Address("127.0.0.1", 9100)),
        ("127.0.0.1:9100", Address("127.0.0.1", 9100)),
        ("*:9100", Address("", 9100)),
        ("[::1]:9100", Address("::1", 9100)),
        ("localhost:0", Address("localhost", 0)),
        (":*", Address("127.0.0.1", 0)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", ":", "localhost", "127.0.0.1", ":99999", ":-1", ":9100x", "::1:9100", "[]:9100", "tcp://*:9100",
     "http://127.0.0.1:9100", "127.0.0.1:9100/metrics", "no such host:9100", "192.0.2.1:9100",
     "a" * 300 + ":9100", "\udcff:9100"],
)  # fmt: skip
def test_bad_addresses(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One message, and nothing of a run."""
    assert exit_code("serve", "-s", "tcp://127.0.0.1:0", "--timeout", "0.01", "--metrics", text) == 2
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("beasy-sched: --metrics: ")
    assert "expected HOST:PORT, such as" in line
    assert len(line) < 500


def test_a_port_that_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with served() as page:
        address = f":{port_of(page)}"
        assert exit_code("serve", "-s", "tcp://127.0.0.1:0", "--metrics", address) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"beasy-sched: --metrics: cannot listen on {address!r}: Address already in use; ")


@pytest.mark.parametrize("address", ["127.0.0.1:0", "*:0", "[::1]:0", "localhost:0"])
def test_it_is_where_it_says(address: str) -> None:
    try:
        page = served(address)
    except ConfigError as error:
        if "[::1]" in address and "assign requested address" in str(error):
            pytest.skip("this machine has no IPv6")
        raise
    with page:
        for url in (page.url, page.url.removesuffix("metrics")):
            with urlopen(url, timeout=300) as answer:
                assert answer.read() == b"beasy_jobs_waiting 3.0\n"
                assert answer.headers["Content-Type"] == KIND


def test_only_all_addresses_are_open_to_others() -> None:
    with served(":0") as page, socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", port_of(page)))
    with served("*:0") as page, socket.socket() as other:
        other.connect(("127.0.0.2", port_of(page)))


def test_other_pages_and_methods_are_refused() -> None:
    with served() as page:
        with pytest.raises(HTTPError, match="404"):
            urlopen(page.url + "/x", timeout=300)
        with pytest.raises(HTTPError, match="501"):
            urlopen(page.url, data=b"x", timeout=300)


@contextlib.contextmanager
def strangers(port: int, count: int, words: bytes) -> Iterator[list[socket.socket]]:
    """Connections that say ``words`` and then nothing."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            connection.sendall(words)
            connections.append(connection)
        yield connections


@pytest.mark.parametrize("words", [b"", b"GET /metr", b"\x00" * 1000, b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_strangers_who_say_nothing_make_way(words: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as page, strangers(port_of(page), 3 * MOST_SCRAPES, words):
        for _ in range(3):
            with urlopen(page.url, timeout=300) as answer:
                assert answer.read() == b"beasy_jobs_waiting 3.0\n"
        alive = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
        assert len(alive) <= MOST_SCRAPES + 2  # some may just be ending
    assert capfd.readouterr() == ("", "")


def test_the_end_is_at_once_and_the_port_is_free() -> None:
    page = served()
    port = port_of(page)
    with strangers(port, 3, b"GET") as connections:
        with urlopen(page.url, timeout=300) as answer:
            assert answer.read()
        page.close()
        for connection in connections:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1000):
                    pass
        with served(f":{port}") as again, urlopen(again.url, timeout=300) as answer:
            assert answer.read()
    assert "metrics" not in {thread.name for thread in threading.enumerate()}


def test_whoever_leaves_before_the_answer_is_not_missed(capfd: pytest.CaptureFixture[str]) -> None:
    with served(text=b"x" * 10_000_000) as page:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port_of(page))) as connection:
                connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        connection = http.client.HTTPConnection("127.0.0.1", port_of(page), timeout=300)
        connection.request("GET", "/metrics")
        assert len(connection.getresponse().read()) == 10_000_000
        connection.close()
    assert capfd.readouterr() == ("", "")
