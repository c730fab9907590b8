"""pybatsim in this process, without a socket: a message's bytes in, the reply's bytes out."""

from __future__ import annotations

import importlib
import io
import json
import sys
import time
from contextlib import redirect_stdout
from typing import Any
from unittest import mock


class Endpoint:
    """Stands in for pybatsim's network handler: holds one message and one reply."""

    def __init__(self) -> None:
        self.message: str | None = None
        self.reply = b""

    def bind(self) -> None:
        pass

    def close(self) -> None:
        pass

    def recv_string(self, blocking: bool = False) -> str | None:
        message, self.message = self.message, None
        return message

    def recv(self, blocking: bool = False) -> Any:
        text = self.recv_string(blocking)
        return None if text is None else json.loads(text)

    def send(self, message: Any) -> None:
        self.reply = json.dumps(message).encode()


class PybatsimInside:
    """pybatsim with one scheduler, fed message by message.

    ``times_s`` has what pybatsim and its scheduler took for each message, JSON both ways included.
    """

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.times_s: list[float] = []
        self._endpoint = Endpoint()
        self._batsim: Any = None

    def __call__(self, message: bytes) -> bytes:
        self._endpoint.message = message.decode()
        printed = io.StringIO()
        with redirect_stdout(printed):
            before = time.perf_counter()
            if self._batsim is None:
                self._batsim = self._start()
            else:
                self._batsim.do_next_event()
            self.times_s.append(time.perf_counter() - before)
        return self._endpoint.reply

    def _start(self) -> Any:
        """Make pybatsim's object, whose constructor answers the first message."""
        from batsim.batsim import Batsim

        limit = sys.getrecursionlimit()
        with mock.patch("batsim.batsim.NetworkHandler", return_value=self._endpoint):
            batsim = Batsim(self.scheduler, "tcp://*:0", 2000)
        sys.setrecursionlimit(limit)
        return batsim


def load_example(name: str) -> Any:
    """Make one of the schedulers that pybatsim brings in its package ``schedulers``, as its launcher does."""
    module = importlib.import_module(f"schedulers.{name}")
    return getattr(module, name[0].upper() + name[1:])({})
