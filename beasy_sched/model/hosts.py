"""Sets of hosts (Batsim machine ids) and their text form, ``"0-3 5"``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from operator import index

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FEW, read_only
from beasy_sched.limits import MOST_HOSTS

HostIds = npt.NDArray[np.intp]


class HostSet:
    """Immutable set of host ids, stored as a sorted array.

    The text form is Batsim's: closed intervals separated by spaces, ``"0-3 5"``. It is made only when
    needed, since in-process runs do not use it.
    """

    __slots__ = ("_text", "ids", "index")

    ids: HostIds
    """Sorted, without duplicates; do not modify."""
    index: HostIds | int
    """Index of these hosts in arrays: their ids, or the faster index of `one_host`."""

    def __init__(self, ids: HostIds, text: str | None = None) -> None:
        """Wrap ``ids``, which must be sorted and without duplicates (otherwise use `of`)."""
        self.ids = self.index = ids
        self._text = text

    @classmethod
    def of(cls, ids: Iterable[int]) -> HostSet:
        """Build the set from any iterable of integers. Raises TypeError for other values."""
        return cls(np.unique(np.fromiter(map(index, ids), dtype=np.intp)))

    @classmethod
    def parse(cls, text: str) -> HostSet:
        """Parse ``"0-3 5"``; commas are also accepted. An empty string is the empty set.

        Raises ValueError on anything that is not an interval of non-negative integers.
        """
        runs = cls.ranges(text)
        if not runs:
            return NO_HOSTS
        if len(runs) == 1:
            first, last = runs[0]
            return one_host(first) if first == last else cls(np.arange(first, last + 1, dtype=np.intp))
        ids = np.fromiter(chain.from_iterable(range(low, high + 1) for low, high in runs), dtype=np.intp)
        rising = all(a[1] < b[0] for a, b in pairwise(runs))
        return cls(ids if rising else np.unique(ids))

    @staticmethod
    def ranges(text: str) -> list[tuple[int, int]]:
        """Parse ``"0-3 5"`` as closed ranges in the order of the string. Raises ValueError."""
        runs = [_parse_interval(part) for part in text.replace(",", " ").split()]
        if len(runs) > 1 and sum(high - low + 1 for low, high in runs) > MOST_HOSTS:
            raise ValueError(f"the intervals contain more than {MOST_HOSTS:,} hosts: more than any platform")
        return runs

    def kept(self) -> HostSet:
        """Return the same set with a read-only copy of the ids."""
        ids = self.ids
        if type(self.index) is int:  # made by `one_host`
            return self
        if ids.size == 1 and 0 <= ids.item() < MOST_HOSTS:
            return one_host(ids.item())
        ids = ids.astype(np.intp)
        ids.setflags(write=False)
        return HostSet(ids)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _format(self.ids)
        return self._text

    def __repr__(self) -> str:
        return f"HostSet({str(self)!r})"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __contains__(self, host: object) -> bool:
        return bool(np.any(self.ids == host))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostSet) and np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash(self.ids.tobytes())


NO_HOSTS = HostSet(read_only(np.empty(0, dtype=np.intp)), "")


@lru_cache(maxsize=1 << 14)
def one_host(host: int) -> HostSet:
    """Return the set of a single host; its ids are read-only."""
    ids = np.array([host], dtype=np.intp)
    ids.setflags(write=False)
    hosts = HostSet(ids, str(host))
    hosts.index = host
    return hosts


_INTERVAL = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def _parse_interval(part: str) -> tuple[int, int]:
    match = _INTERVAL.fullmatch(part)
    if match is None:
        raise ValueError(f"{part[:40]!r} is not a host id or an interval such as '0-3'")
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if last < first:
        raise ValueError(f"the interval {part!r} runs backwards")
    if last >= MOST_HOSTS:
        raise ValueError(f"{part!r} exceeds {MOST_HOSTS:,} hosts: more than any platform")
    return first, last


def _format(ids: HostIds) -> str:
    size = ids.size
    if size == 0:
        return ""
    first, last = ids.item(0), ids.item(-1)
    if size == 1:
        return str(first)
    if last - first + 1 == size:
        return f"{first}-{last}"
    runs = _runs_of_few(ids.tolist()) if size <= FEW else _runs_of_many(ids)
    return " ".join([f"{a}-{b}" if b > a else str(a) for a, b in runs])


def _runs_of_few(ids: list[int]) -> list[tuple[int, int]]:
    runs = []
    begin = previous = ids[0]
    for host in ids[1:]:
        if host != previous + 1:
            runs.append((begin, previous))
            begin = host
        previous = host
    return [*runs, (begin, previous)]


def _runs_of_many(ids: HostIds) -> Iterable[tuple[int, int]]:
    breaks = np.flatnonzero(np.diff(ids) != 1)
    starts = ids[np.concatenate(([0], breaks + 1))].tolist()
    ends = ids[np.concatenate((breaks, [len(ids) - 1]))].tolist()
    return zip(starts, ends, strict=True)
