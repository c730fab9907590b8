"""Names of the array types that the modules share."""

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
