"""Columns of quantiles (``p10 p50 p90``) or of the members of an ensemble (``m1 m2 m3``) of a power."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.table import Table
from beasy_sched.formats.unit_table import unit_in_name
from beasy_sched.limits import listed

_SPREAD: Final = re.compile(
    r"(p|m|member[ _]?)(\d+(?:\.\d+)?)([ _]*[\[(]?\s*[a-z]+\s*[\])]?)?", re.IGNORECASE
)
"""A column of a quantile (its percentage) or of a member of an ensemble (its number), with its unit."""


def is_spread(name: str) -> bool:
    """Whether a column is one of a quantile or of a member, by its name."""
    match = _SPREAD.fullmatch(name)
    return match is not None and (match[3] is None or unit_in_name(match[3].strip(" _")) is not None)


def check_values(table: Table, name: str, values: FloatArray) -> None:
    """Raise InputError, with the line, for the first value that is missing or negative."""
    for wrong, message in (
        (np.isnan(values), f"{name}: the value is missing"),
        (values < 0, f"{name}: must not be negative"),
    ):
        if wrong.any():
            raise table.error(int(np.argmax(wrong)), message)


def read_quantiles(
    table: Table,
    names: Sequence[str],
    powers_w: Callable[[str], FloatArray],
    check: Callable[[str, FloatArray], None],
) -> Quantiles:
    """Return the quantiles of `read_spread`, and not the members."""
    return read_spread(table, names, powers_w, check)[0]


def read_spread(
    table: Table,
    names: Sequence[str],
    powers_w: Callable[[str], FloatArray],
    check: Callable[[str, FloatArray], None],
) -> tuple[Quantiles, FloatArray | None]:
    """Return the quantiles of each row, and the members (W, [members, rows]) or None, from their columns.

    ``powers_w`` returns the powers (W) of a column; ``check`` is called with each column's name and powers.
    Raises InputError with the line or the columns, and the cause.
    """
    parts = [_SPREAD.fullmatch(name) if is_spread(name) else None for name in names]
    kinds = {part[1].lower() == "p" if part else None for part in parts}
    if len(kinds) > 1 or len(names) < 2:
        raise InputError(
            table.path,
            f"columns are {listed(table.names)}: expected quantiles (p10 p50 p90) or members (m1 m2 m3),"
            " at least two of one kind",
        )
    columns = []
    for name in names:
        power_w = powers_w(name)
        check(name, power_w)
        columns.append(power_w)
    if kinds == {False}:
        members = len(columns)
        members_w = np.array(columns)
        return Quantiles((np.arange(members) + 0.5) / members, np.sort(members_w, axis=0)), members_w
    numbers = [float(part[2]) for part in parts if part]
    order = np.argsort(numbers, kind="stable").tolist()
    for low, high in itertools.pairwise(order):
        if not 0.0 < numbers[low] < numbers[high] < 100.0:
            raise InputError(
                table.path, f"columns {names[low]} and {names[high]}: expected percentages above 0, below 100"
            )
        crossed = columns[low] > columns[high]
        if crossed.any():
            row = int(np.argmax(crossed))
            crossing = f"{names[low]} is {columns[low][row]:g} W, {names[high]} {columns[high][row]:g} W"
            raise table.error(row, f"quantiles cross: {crossing}")
    return Quantiles(np.array(numbers)[order] / 100.0, np.array(columns)[order]), None
