"""Prometheus, or a server compatible with it, as a source of readings."""

from __future__ import annotations

import contextlib
import http.client
import queue
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from msgspec import Struct

from beasy_sched.errors import ConfigError
from beasy_sched.formats.decoding import Malformed, decode_json
from beasy_sched.formats.reading import is_number
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm.readings import Quantity
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.run.programs import Pause, words_of

_LONGEST_ANSWER: Final = 1 << 20
"""Most bytes read from an HTTP response."""
_FAREWELL_S: Final = 1.0
"""Time limit for a request to end, s."""
_QUERY: Final = "?query="
_API: Final = "/api/v1/query"


class _Sample(Struct):
    value: tuple[float, str]


class _Vector(Struct, tag_field="resultType", tag="vector"):
    result: list[_Sample]


class _Scalar(Struct, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class _Matrix(Struct, tag_field="resultType", tag="matrix"):
    """The answer to a query for a time range."""


class _QueryResponse(Struct):
    status: str
    data: _Vector | _Scalar | _Matrix | None = None
    error: str = ""


class _NoAnswer(Exception):
    """Prometheus has not responded, or not with a number; the message states the reason."""


class PrometheusSource(Source):
    """An instant query to Prometheus, or a compatible server: the sum of its values."""

    def __init__(self, text: str, quantity: Quantity, interval_s: float, timeout_s: float) -> None:
        """``text``: the server's URL and the query. Raises ConfigError."""
        self._url, shown = _query_url(text, quantity)
        super().__init__(f"prometheus:{shown}", quantity, None)
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._pause = Pause()
        self._thread: threading.Thread | None = None
        self._answers: queue.SimpleQueue[tuple[float, float | _NoAnswer]] = queue.SimpleQueue()
        """Each with the time of the query."""

    def close(self) -> None:
        """Wait briefly for a pending request, which ends within its time limit."""
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _look(self, now: float) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                asked_s, answer = self._answers.get_nowait()
                if isinstance(answer, _NoAnswer):
                    self._trouble(now, str(answer).partition(":")[0], str(answer))
                else:
                    self._take(repr(answer).encode(), asked_s)
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and self._pause.comes_round(now, self._interval_s):
            thread = threading.Thread(target=self._ask, args=(now,), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads are available
                self._trouble(now, "thread", f"cannot be queried: {error}")
            else:
                self._thread = thread

    def _ask(self, now: float) -> None:
        answer: float | _NoAnswer
        try:
            answer = _value(_fetched(self._url, self._timeout_s))
        except _NoAnswer as error:
            answer = error
        except Exception as error:  # a server, a proxy or the name service may cause any error
            answer = _NoAnswer(f"cannot be queried: {shortened(str(error) or repr(error))}")
        self._answers.put((now, answer))


def _query_url(text: str, quantity: Quantity) -> tuple[str, str]:
    """Return the URL to query, and the part shown in messages. Raises ConfigError."""
    server, has_query, query = text.partition(_QUERY)
    query = urllib.parse.unquote(query).strip()
    try:
        parts = urllib.parse.urlsplit(server)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if is_url and "@" in parts.netloc:
        raise ConfigError(
            f"the {quantity.name} source prometheus: user names and passwords in the URL are not supported:"
            " use command:curl with its own credentials file"
        )
    if not is_url or not has_query or not query or parts.query or parts.fragment or re.search(r"\s", server):
        raise ConfigError(
            f"the {quantity.name} source is {shortened(f'prometheus:{text}')!r}:"
            " expected prometheus:http://HOST:9090?query=QUERY"
        )
    base = server.rstrip("/").removesuffix(_API)
    return f"{base}{_API}?{urllib.parse.urlencode({'query': query})}", base


def _fetched(url: str, timeout_s: float) -> bytes:
    """Return the response of a server. Raises _NoAnswer."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            answer: bytes = response.read(_LONGEST_ANSWER)
            return answer
    except urllib.error.HTTPError as error:
        with error:
            said = _said(error.read(_LONGEST_ANSWER))
        raise _NoAnswer(f"responded with HTTP {error.code} {error.reason}{said}") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            raise _NoAnswer(f"has not responded within {timeout_s:g} s") from None
        raise _NoAnswer(f"does not respond: {shortened(words_of(cause))}") from None


def _said(body: bytes) -> str:
    """Return the error message of Prometheus, if there is one."""
    with contextlib.suppress(Malformed):
        return f": {shortened(decode_json(body, _QueryResponse).error)}"
    return ""


def _value(body: bytes) -> float:
    """Return the single value, or the sum of the values, of a response. Raises _NoAnswer."""
    try:
        answer = decode_json(body, _QueryResponse)
    except Malformed as error:
        raise _NoAnswer(f"sent an invalid response: {error}") from None
    if answer.status != "success" or answer.data is None:
        raise _NoAnswer(f"responded with {answer.status}: {shortened(answer.error)}")
    data = answer.data
    if isinstance(data, _Matrix):
        raise _NoAnswer("responded with a matrix, expected a vector or a scalar")
    values = [data.result] if isinstance(data, _Scalar) else [sample.value for sample in data.result]
    if not values:
        raise _NoAnswer("returned no result for the query")
    for _, text in values:
        if not is_number(text):
            raise _NoAnswer(f"sent an invalid response: found {shortened(repr(text), 60)}")
    return sum(float(text) for _, text in values)
