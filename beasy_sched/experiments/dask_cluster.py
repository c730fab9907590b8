"""Tasks on a Dask cluster: the same functions, with all they need in their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from beasy_sched.errors import ConfigError, machine_error, why
from beasy_sched.experiments.tasks import Failure

_CONNECT_S = 15
_ADDRESS = re.compile(r"([a-z]+://)?\S+:[0-9]+|inproc://\S+")


class DaskCluster:
    """The workers of a cluster; they need beasy-sched, and no file of ours."""

    def __init__(self, address: str) -> None:
        """Connect. Raises ConfigError where there is no cluster, or no distributed."""
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(f"--scheduler: found {address!r}, expected such as tcp://host:8786")
        try:
            import distributed
        except ImportError:
            raise ConfigError("--executor dask needs distributed: pip install 'beasy-sched[dask]'") from None
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(f"no Dask scheduler answers at {address}: {error}") from None
        self._done = distributed.as_completed(loop=self._client.loop)
        self._keys: dict[Any, Any] = {}

    @property
    def busy(self) -> int:
        """How many tasks are under way."""
        return len(self._keys)

    @property
    def slots(self) -> int:
        """How many tasks may be under way: one a thread.

        Dask holds the death of a worker against all tasks that wait there.
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
        if isinstance(error, BaseException) and (lack := machine_error(error)) is not None:
            return key, Failure(why(lack), machine=True)
        return key, Failure(
            why(error) if isinstance(error, BaseException) else f"the task was {future.status}"
        )

    def close(self) -> None:
        """Stop what is still under way, and leave the cluster to others."""
        if self._keys:
            self._client.cancel(list(self._keys))
        self._client.close()
