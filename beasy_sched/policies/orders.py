"""Orders of the queue: P_R (who gets the reservation) and P_B (who is tried next)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.model.job import SLOWDOWN_FLOOR_S
from beasy_sched.model.queue import JobQueue

Places = npt.NDArray[np.intp]

Order = Callable[[JobQueue, Places, float], Places]
"""Sorts places of the queue (given in order of arrival) at a time (s); ties stay by arrival."""


def by_arrival(queue: JobQueue, places: Places, now: float) -> Places:
    """First come, first served."""
    return places


def smallest_size(queue: JobQueue, places: Places, now: float) -> Places:
    """Smallest walltime x hosts first."""
    return places[np.argsort(queue.walltime_s[places] * queue.res[places], kind="stable")]


def largest_slowdown(queue: JobQueue, places: Places, now: float) -> Places:
    """Largest bounded slowdown first, by walltimes (Eq. 4 of the BEASY paper)."""
    walltime_s = queue.walltime_s[places]
    endless = np.isinf(walltime_s)
    duration_s = np.where(endless, 1.0, walltime_s)
    wait_s = now - queue.subtime_s[places]
    slowdown = np.maximum((wait_s + duration_s) / np.maximum(duration_s, SLOWDOWN_FLOOR_S), 1.0)
    return places[np.argsort(-np.where(endless, 1.0, slowdown), kind="stable")]


ORDERS: Final[dict[str, Order]] = {
    "arrival": by_arrival,
    "smallest": smallest_size,
    "slowdown": largest_slowdown,
}
