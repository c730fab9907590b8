"""Powers of consecutive steps from a file: external events as Batsim plays them, or CSV."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.resample import Interpolation, resample
from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.power_csv import parse_power_csv
from beasy_sched.formats.power_events import POWER_FIELD
from beasy_sched.formats.time_series import POWER


def read_power_series(
    path: str | os.PathLike[str],
    *,
    steps: int,
    step_s: float,
    column: str | None = None,
    unit: str | None = None,
) -> FloatArray:
    """Mean power (W) of each step from the file's beginning.

    An events file (one JSON object a line, with ``power_available`` in W) holds each power until the
    next event; a CSV file has a column of powers, means over intervals of equal length. Raises
    InputError for a file that cannot be read or ends before the last step.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text (byte {error.start})") from None
    if text.lstrip()[:1] == "{":
        return _from_events(path, steps, step_s)
    return _from_csv(path, text, steps, step_s, column, unit)


def _from_events(path: str | os.PathLike[str], steps: int, step_s: float) -> FloatArray:
    events = [e for e in read_external_events(path, forward_unknown=True) if POWER_FIELD in e.data]
    if not events:
        raise InputError(path, f"has no event with the field {POWER_FIELD!r}: is it a file of powers?")
    for event in events:
        value = event.data[POWER_FIELD]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
            raise InputError(
                None, f"{event.where}: {POWER_FIELD} is {value!r}, expected a power in W, 0 or more"
            )
    times = np.array([event.timestamp for event in events])
    powers = np.array([float(event.data[POWER_FIELD]) for event in events])
    if times[0] > 0.0:
        raise InputError(path, f"the first power is for {times[0]:g} s: expected one for time 0")
    lasting_s = float(np.median(np.diff(times))) if len(times) > 1 else step_s
    _check_length(path, times[-1] + lasting_s, steps, step_s)
    edges = step_s * np.arange(steps + 1)
    integral = np.concatenate(([0.0], np.cumsum(powers[:-1] * np.diff(times))))
    at = np.searchsorted(times, edges, side="right") - 1
    upto = integral[at] + powers[at] * (edges - times[at])
    means = np.diff(upto) / step_s
    # Where no event falls inside a step its power is the event's own, without rounding.
    inside = np.searchsorted(times, edges[1:], side="left") - 1 > at[:-1]
    return np.where(inside, np.maximum(means, 0.0), powers[at[:-1]])


def _from_csv(
    path: str | os.PathLike[str],
    text: str,
    steps: int,
    step_s: float,
    column: str | None,
    unit: str | None,
) -> FloatArray:
    series = parse_power_csv(path, text, column=column, unit=unit, interval_s=round(step_s))
    values = series.columns[POWER]
    if np.isnan(values).any():
        missing = int(np.argmax(np.isnan(values)))
        raise InputError(path, f"has no power for {series.time_text(missing)}")
    _check_length(path, len(values) * series.interval_s, steps, step_s)
    if series.interval_s == step_s:
        return values[:steps].copy()
    method = Interpolation.SMOOTH if series.interval_s > step_s else Interpolation.CONSTANT
    return resample(values, interval_s=series.interval_s, step_s=step_s, steps=steps, method=method)


def _check_length(path: str | os.PathLike[str], covered_s: float, steps: int, step_s: float) -> None:
    needed_s = steps * step_s
    if covered_s < needed_s * (1 - 1e-9):
        raise InputError(
            path,
            f"covers {covered_s / 3600:.4g} h, the plan needs {needed_s / 3600:.4g} h: "
            "give a longer file, or plan fewer windows",
        )
