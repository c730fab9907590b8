"""The page that Prometheus reads: text over HTTP, served by separate threads.

Connections cannot harm the run: reads time out after a few seconds, the number of connections is limited, a
new one closes the oldest when the limit is reached, and all end with the server.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, NamedTuple

from beasy_sched.errors import ConfigError
from beasy_sched.limits import MOST_SCRAPES, shortened
from beasy_sched.protocol.wire import endpoint_problem

_EXPECTED: Final = (
    "expected HOST:PORT, such as 127.0.0.1:9100 or :9100 for this machine only, or *:9100 for all"
)
_LONGEST_SILENCE_S: Final = 5.0
"""Time after which a silent connection is closed."""
_POLL_S: Final = 0.1
"""Maximum time until the server notices that it must end, s."""
_PATHS: Final = ("/", "/metrics")


class Address(NamedTuple):
    """Address at which a page is served."""

    host: str
    """A name, or an IPv4 or IPv6 address without brackets; empty for all IPv4 addresses of this machine."""
    port: int
    """Port number; 0 for any free port."""


def parse_address(text: str) -> Address:
    """Parse ``HOST:PORT``, ``:PORT``, ``[::1]:PORT``, ``*:PORT``. Raises ConfigError."""
    place = text if ":" in text else f":{text}"
    host, _, port = place.rpartition(":")
    problem = None if "/" not in text and host != "[]" else "it is not an address"
    problem = problem or endpoint_problem(f"tcp://{place}", any_port=True)
    if problem is not None:
        raise ConfigError(f"--metrics: found {shortened(text)!r}: {problem}; {_EXPECTED}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return Address("" if bare == "*" else bare or "127.0.0.1", 0 if port == "*" else int(port))


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    timeout = _LONGEST_SILENCE_S
    server_version, sys_version = "beasy-sched", ""

    def do_GET(self) -> None:
        """Send the page."""
        if self.path.partition("?")[0] not in _PATHS:
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            return
        body = self.server.page()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.server.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal belongs to the run."""


class _Server(socketserver.ThreadingTCPServer):
    """Accepts connections, each answered by a thread."""

    allow_reuse_address = os.name == "posix"  # elsewhere, two programs could have the same port
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, family: socket.AddressFamily, place: Any, page: Callable[[], bytes], kind: str
    ) -> None:
        self.address_family = family
        self.page, self.content_type = page, kind
        self._open: dict[socket.socket, None] = {}
        """Open connections, oldest first."""
        self._opening = threading.Lock()
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; close the oldest one if there are too many."""
        with self._opening:
            oldest = [*self._open][: max(len(self._open) + 1 - MOST_SCRAPES, 0)]
            self._open[request] = None
        _cut(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._opening:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def cut_all(self) -> None:
        """End all connections."""
        with self._opening:
            still_open = [*self._open]
        _cut(still_open)


def _cut(connections: list[socket.socket]) -> None:
    """Shut connections down; the threads that serve them close them."""
    for connection in connections:
        with contextlib.suppress(OSError):  # it has just ended
            connection.shutdown(socket.SHUT_RDWR)


class MetricsPage:
    """Serves a page until it is closed; a context manager."""

    def __init__(self, address: str, page: Callable[[], bytes], content_type: str) -> None:
        """Listen on ``address`` (see `parse_address`); ``page`` is called by other threads.

        Raises ConfigError if listening on the address fails.
        """
        host, port = parse_address(address)
        try:
            family, _, _, _, place = socket.getaddrinfo(
                host or None, port, socket.AF_UNSPEC if host else socket.AF_INET, socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )[0]  # fmt: skip
            self._server = _Server(family, place, page, content_type)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "the host name is unknown"
            raise ConfigError(
                f"--metrics: cannot listen on {shortened(address)!r}: {why}; {_EXPECTED}"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the page for a program on this machine."""
        host, port = self._server.server_address[:2]
        text = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(host), str(host))
        return f"http://{f'[{text}]' if ':' in text else text}:{port}/metrics"

    def close(self) -> None:
        """End the server and all connections; this frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_all()
        self._thread.join()

    def __enter__(self) -> MetricsPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
