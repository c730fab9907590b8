"""Sources by name."""

from __future__ import annotations

from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.formats.source_names import COMMAND, split_scheme
from beasy_sched.plugins.slurm.readings import POWER, Quantity
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.plugins.slurm.sources.command import CommandSource
from beasy_sched.plugins.slurm.sources.file import FileSource
from beasy_sched.plugins.slurm.sources.prometheus import PrometheusSource

_EXPECTED: Final = "a file, command:PROGRAM ARGS or prometheus:URL?query=..."


def open_source(
    text: str,
    quantity: Quantity = POWER,
    *,
    epoch_s: float | None = None,
    interval_s: float = 15.0,
    timeout_s: float = 5.0,
) -> Source:
    """Return the named source: a file, ``command:PROGRAM ARGS`` or ``prometheus:URL?query=...``.

    ``epoch_s``: the time, s since 1970, from which timestamps below 3e8 s count, such as those written by
    ``beasy-sched generate power``; without it, readings hold from the time at which they are read.
    ``interval_s``: interval of queries to Prometheus, and of starts of a program that prints one reading and
    ends. ``timeout_s``: time limit of a query to Prometheus. Nothing is started or opened yet. Raises
    ConfigError for an invalid name.
    """
    if not text.strip() or "\0" in text:
        raise ConfigError(f"the {quantity.name} source is {text!r}: expected {_EXPECTED}")
    kind, rest = split_scheme(text)
    if not kind:
        return FileSource(text, quantity, epoch_s)
    if kind == COMMAND:
        return CommandSource(rest, quantity, epoch_s, interval_s)
    if kind == "prometheus":
        return PrometheusSource(rest, quantity, interval_s, timeout_s)
    hint = f"; a file of this name is ./{text}" if "//" not in text else ""
    raise ConfigError(f"unknown kind of {quantity.name} source {kind!r}: expected {_EXPECTED}{hint}")
