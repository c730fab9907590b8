"""Files of budgets: the energy of each part of a period, as ``generate budget`` writes them.

A CSV file with a row for each part: ``start_s``, the simulated time at which it starts, and ``kwh``. Other
columns are for readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.table import Table, parse_table, read_table_text
from beasy_sched.limits import LARGEST_ENERGY_J
from beasy_sched.units import TIME_TOLERANCE_S, counted, j_to_kwh, kwh_to_j

START: Final = "start_s"
ENERGY: Final = "kwh"
MOST_PARTS: Final = 1_000_000


def parts_of(start_s: float, end_s: float, every_s: float, name: str = "budget_every") -> FloatArray:
    """Return the starts of the parts of a period, and its end, s. Raises ConfigError.

    ``name``: name of the option that has their length.
    """
    if not every_s > 0.0:
        raise ConfigError(f"{name}: found {every_s:g} s, expected more than 0 s")
    count = (end_s - start_s) / every_s
    if count > MOST_PARTS or abs(count - round(count)) > 1e-6 or round(count) < 1:
        raise ConfigError(
            f"{name}: found {every_s:g} s, expected a length that divides the period of"
            f" {end_s - start_s:g} s into at most {MOST_PARTS:,} equal parts"
        )
    return np.linspace(start_s, end_s, round(count) + 1)


def read_budgets(path: Path, start_s: float, end_s: float, every_s: float) -> tuple[float, ...]:
    """Read the energies (J) of the parts of a period. Raises InputError with the line, and ConfigError."""
    edges_s = parts_of(start_s, end_s, every_s)
    table = parse_table(path, read_table_text(path), lambda names: True)
    energies_kwh, starts_s = table.numbers(ENERGY), table.numbers(START)
    _check_energies(table, energies_kwh)
    expected = len(edges_s) - 1
    if len(energies_kwh) != expected:
        raise InputError(
            path,
            f"has budgets for {counted(len(energies_kwh), 'part')}, expected {expected:,}: from {start_s:g} s"
            f" (period_start) to {end_s:g} s (period_end), {every_s:g} s each (budget_every)",
        )
    for row in np.flatnonzero(~(np.abs(starts_s - edges_s[:-1]) <= TIME_TOLERANCE_S)).tolist():
        found = f"found {starts_s[row]:g}, expected {edges_s[row]:g}"
        raise table.error(row, f"{START}: {found}: parts of {every_s:g} s from period_start on, in order")
    return tuple(map(kwh_to_j, energies_kwh.tolist()))


def _check_energies(table: Table, energies_kwh: FloatArray) -> None:
    most_kwh = j_to_kwh(LARGEST_ENERGY_J)
    for row in np.flatnonzero(~((energies_kwh >= 0.0) & (energies_kwh <= most_kwh))).tolist():
        found = "no value" if np.isnan(energies_kwh[row]) else f"{energies_kwh[row]:g}"
        raise table.error(row, f"{ENERGY}: found {found}, expected an energy of 0 to {most_kwh:g} kWh")


def budget_lines(
    edges_s: FloatArray, energies_kwh: FloatArray, others: Sequence[tuple[str, FloatArray]] = ()
) -> Iterator[str]:
    """Yield the lines of a file of budgets; ``others`` are further columns by name."""
    yield ",".join((START, ENERGY, *(name for name, _ in others))) + "\n"
    columns = [edges_s[:-1].tolist(), energies_kwh.tolist(), *(values.tolist() for _, values in others)]
    for row in zip(*columns, strict=True):
        yield ",".join(map(repr, row)) + "\n"
