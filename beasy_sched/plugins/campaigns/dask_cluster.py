"""Concurrent tasks on a Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional
from beasy_sched.plugins.campaigns.workers import Failure

_CONNECT_S = 15
_ADDRESS = re.compile(r"([a-z]+://)?\S+:[0-9]+|inproc://\S+")


class DaskCluster:
    """The workers of a cluster, which need beasy-sched, but no access to this computer's files."""

    def __init__(self, address: str) -> None:
        """Connect. Raises ConfigError if there is no cluster, or no distributed."""
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(f"--scheduler: found {address!r}, expected an address such as tcp://host:8786")
        distributed = load_optional("distributed", "beasy-sched[dask]", "--executor dask")
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(f"no Dask scheduler responds at {address}: {error}") from None
        self._done = distributed.as_completed(loop=self._client.loop)
        self._keys: dict[Any, Any] = {}

    @property
    def busy(self) -> int:
        """Number of running tasks."""
        return len(self._keys)

    @property
    def slots(self) -> int:
        """Largest number of running tasks: one per thread.

        Dask blames the death of a worker on all tasks that wait there.
        """
        return max(int(sum(self._client.nthreads().values())), 1)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Begin a task."""
        future = self._client.submit(function, argument, pure=False)
        self._keys[future] = key
        self._done.add(future)

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""
        future = next(self._done)
        key = self._keys.pop(future)
        if future.status == "finished":
            return key, future.result()
        error = future.exception()
        raised = isinstance(error, BaseException)
        return key, Failure.of(error) if raised else Failure(f"the task was {future.status}")

    def close(self) -> None:
        """Stop all running tasks, and disconnect from the cluster."""
        if self._keys:
            self._client.cancel(list(self._keys))
        self._client.close()
