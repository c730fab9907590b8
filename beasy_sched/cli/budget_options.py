"""Options of the energy-budget policies as plain flags: they become part of ``--options``."""

from __future__ import annotations

from typing import Any

import click

from beasy_sched.errors import ConfigError

BUDGET_OPTIONS = [
    click.option("--budget", metavar="AMOUNT",
                 help="Energy budget of 'energybud', 'reducepc' and 'powercap': '60%' of what all servers"
                 " would use computing, or '500kWh', '1.2e12J', 'inf'."),
    click.option("--period", metavar="START:END",
                 help="When the budget holds, after time 0: '2d:5d', '0:12h', '172800:432000'."),
    click.option("--shutdown", type=click.Choice(["none", "opportunistic"]),
                 help="Whether servers that are idle during the period are switched off."),
    click.option("--allocation", type=click.Choice(["any", "contiguous"]),
                 help="Whether a job's servers must have consecutive numbers."),
]  # fmt: skip


def budget_options(
    budget: str | None = None,
    period: str | None = None,
    shutdown: str | None = None,
    allocation: str | None = None,
) -> dict[str, Any]:
    """Return the policy options that the flags stand for. Raises ConfigError."""
    found: dict[str, Any] = {"budget": budget, "shutdown": shutdown, "allocation": allocation}
    if period is not None:
        start, colon, end = period.partition(":")
        if not colon:
            raise ConfigError(f"--period: found {period!r}, expected START:END, such as 2d:5d")
        found |= {"period_start": start or "0", "period_end": end}
    return {name: value for name, value in found.items() if value is not None}
