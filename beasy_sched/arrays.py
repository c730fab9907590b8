"""The array types that the modules share, and what all of them do with arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
"""Positions in other arrays."""
BoolArray = npt.NDArray[np.bool_]
StateArray = npt.NDArray[np.int8]
"""States of servers, codes of `model.power`."""
PStateArray = npt.NDArray[np.int16]


def distinct(values: npt.NDArray[np.integer]) -> list[int]:
    """Return the different numbers in ``values``, sorted. Fast where all are the same, as they mostly are."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found
