"""What ``beasy-sched campaign figure`` draws: one scenario and guard of a campaign, over its axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beasy_sched.campaign.table import COLUMNS, read_campaign
from beasy_sched.cli.report import swept_axes
from beasy_sched.errors import ConfigError
from beasy_sched.report.campaign_figures import Figure
from beasy_sched.report.sweeps import SWEEP_FIGURES, draw_sweep


def sweep_picture(
    folder: Path,
    suffix: str,
    *,
    scenario: str | None,
    guard: str | None,
    policies: Sequence[str],
    measures: Sequence[str],
    wanted_pct: float,
) -> bytes:
    """Return the picture's file. Raises ConfigError and InputError."""
    campaign = read_campaign(folder)
    swept = {each.name: each for each in campaign.manifest.parsed() if each.sweep}
    if not swept:
        raise ConfigError(f"{folder}: no scenario of this campaign has a section [sweep]")
    chosen = swept[_one_of("--scenario", scenario, [*swept])]
    axes = swept_axes(chosen)
    if len(axes) > 2:
        raise ConfigError(
            f"the sweep has {len(axes)} axes, a picture two at most: 'beasy-sched report' shows all of them"
        )
    guards = {each.label: each for each in chosen.guards}
    setting = guards[_one_of("--guard", guard, [*guards])]
    labels = [policy.label for policy in chosen.policies]
    wanted = [_one_of("--policy", policy, labels) for policy in policies] or labels
    runs = campaign.runs
    runs = runs[
        (runs["status"] == "ok")
        & (runs["scenario"] == chosen.name)
        & (runs["guard"] == setting.mode.value)
        & (runs["veto"] == setting.veto)
        & runs["policy"].isin(wanted)
    ]
    if runs.empty:
        raise ConfigError(f"{folder}: no such run has ended well")
    return draw_sweep(
        runs,
        axes,
        _figures(measures),
        title=f"{chosen.name}, guard {setting.label}",
        wanted_pct=wanted_pct,
        suffix=suffix,
    )


def _one_of(option: str, given: str | None, known: Sequence[str]) -> str:
    if given is None and len(known) == 1:
        return known[0]
    if given is None or given not in known:
        found = "nothing" if given is None else repr(given)
        raise ConfigError(f"{option}: found {found}, expected one of {', '.join(known)}")
    return given


def _figures(measures: Sequence[str]) -> Sequence[Figure]:
    """What is drawn of each column named. Raises ConfigError for one that has no numbers."""
    known = {figure.column: figure for figure in SWEEP_FIGURES}
    columns = {column.name: column for column in COLUMNS if column.kind in ("number", "integer")}
    for name in measures:
        if name not in columns:
            raise ConfigError(
                f"--measure: found {name!r}, expected a column of numbers, such as {next(iter(known))}"
            )
    return [known.get(name) or Figure(name, name, columns[name].unit) for name in measures] or SWEEP_FIGURES
