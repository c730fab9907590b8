"""Orders of the queue: P_R (who gets the reservation) and P_B (who is tried next)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.model.job import SLOWDOWN_FLOOR_S
from beasy_sched.model.queue import JobQueue

Places = npt.NDArray[np.intp]

_SEARCHED: Final = 4

Order = Callable[[JobQueue, Places, float], Places]
"""Sorts places of the queue (given in order of arrival) at a time (s); ties stay by arrival."""


def by_arrival(queue: JobQueue, places: Places, now: float) -> Places:
    """First come, first served."""
    return places


def smallest_size(queue: JobQueue, places: Places, now: float) -> Places:
    """Smallest walltime x hosts first."""
    return places[np.argsort(size_host_s(queue, places, now), kind="stable")]


def largest_slowdown(queue: JobQueue, places: Places, now: float) -> Places:
    """Largest bounded slowdown first, by walltimes (Eq. 4 of the BEASY paper)."""
    return places[np.argsort(-slowdown(queue, places, now), kind="stable")]


def size_host_s(queue: JobQueue, places: Places, now: float) -> FloatArray:
    """Walltime x hosts of each job, s."""
    sizes: FloatArray = queue.walltime_s[places] * queue.res[places]
    return sizes


def slowdown(queue: JobQueue, places: Places, now: float) -> FloatArray:
    """Bounded slowdown of each job, by its walltime; 1 without one."""
    walltime_s = queue.walltime_s[places]
    endless = np.isinf(walltime_s)
    duration_s = np.where(endless, 1.0, walltime_s)
    wait_s = now - queue.subtime_s[places]
    slowdowns = np.maximum((wait_s + duration_s) / np.maximum(duration_s, SLOWDOWN_FLOOR_S), 1.0)
    return np.where(endless, 1.0, slowdowns)


def one_by_one(order: Order, queue: JobQueue, places: Places, now: float) -> Iterator[int]:
    """Places in ``order``; the first ones are searched for, as most passes ask for no more than two."""
    if order is by_arrival or len(places) <= _SEARCHED:
        yield from order(queue, places, now).tolist()
        return
    by_size = order is smallest_size
    key = size_host_s(queue, places, now) if by_size else -slowdown(queue, places, now)
    for _ in range(_SEARCHED):
        first = int(key.argmin())
        yield int(places[first])
        key[first] = np.inf
    yield from order(queue, places, now).tolist()[_SEARCHED:]


ORDERS: Final[dict[str, Order]] = {
    "arrival": by_arrival,
    "smallest": smallest_size,
    "slowdown": largest_slowdown,
}
