"""Shared array types, and fast functions on short arrays."""

from __future__ import annotations

from functools import reduce
from operator import add, lt
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
"""Positions in other arrays."""
BoolArray = npt.NDArray[np.bool_]
StateArray = npt.NDArray[np.int8]
"""`HostState` of servers, or their planned P-states."""
PStateArray = npt.NDArray[np.int16]

FEW = 64
"""Number of hosts up to which plain Python is faster than NumPy."""

_ADDED_IN_TURN: Final = 8
"""NumPy also adds fewer numbers than these one by one."""

_Array = TypeVar("_Array", bound="npt.NDArray[Any]")


def read_only(array: _Array) -> _Array:
    """Return a read-only view of ``array``."""
    view = array.view()
    view.flags.writeable = False
    return view


def distinct(values: npt.NDArray[np.integer]) -> list[int]:
    """Return the distinct numbers in ``values``, sorted. Fast if all are the same, as is usual."""
    if len(values) <= FEW:
        return sorted(set(values.tolist()))
    if (values == values[0]).all():
        return [int(values[0])]
    values_once: list[int] = np.unique(values).tolist()
    return values_once


def total(values: FloatArray) -> float:
    """Return the same sum as NumPy, faster for a few ``values``."""
    if len(values) < _ADDED_IN_TURN:
        return reduce(add, values.tolist(), 0.0)
    return float(values.sum())


def any_of(mask: BoolArray) -> bool:
    """Whether any of ``mask`` is true. The ``any`` of an array takes several times as long to start."""
    return 1 in mask.tobytes()


def all_of(mask: BoolArray) -> bool:
    """Whether all of ``mask`` are true, as fast as `any_of`."""
    return 0 not in mask.tobytes()


def are_places(ids: npt.NDArray[np.integer], size: int) -> bool:
    """Whether ``ids`` are some of 0 to ``size`` - 1, sorted, each once."""
    if not ids.size:
        return True
    if ids.size <= FEW:
        listed = ids.tolist()
        return listed[0] >= 0 and listed[-1] < size and all(map(lt, listed, listed[1:]))
    return ids.item(0) >= 0 and ids.item(-1) < size and bool((ids[1:] > ids[:-1]).all())
