"""Comparison of a rerun campaign with its bundle: all files byte by byte, except for reported ones."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from beasy_sched._version import __version__
from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import Malformed, decode_json
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.bundles import layout
from beasy_sched.plugins.campaigns.bundles.writing import table_csv
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign, read_table
from beasy_sched.plugins.campaigns.folder import named_files
from beasy_sched.plugins.campaigns.scenario import Scenario

_MOST_TOLD: Final = 5
_SUMMARY: Final = "_summary.json"
_SECONDS: Final = {"_schedule.csv": ("scheduling_time", "simulation_time"), "_plans.csv": ("solver_s",)}
"""Columns of a run's files with wall-clock times, by the ending of the files' names."""
_PLAN: Final = ".msgpack"
_PLACED: Final = "they refer to files of prices, carbon or forecasts by path"


@dataclass
class Verdict:
    """Result of the comparison of a rerun campaign with its bundle."""

    same: list[str] = field(default_factory=list)
    """Paths of the files that are the same, byte by byte."""
    different: dict[str, str] = field(default_factory=dict)
    """Paths of the files that differ, and the differences."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Parts that are not compared, and the reasons."""

    @property
    def reproduced(self) -> bool:
        """Whether no compared part differs."""
        return not self.different

    def note(self, place: str, before: bytes, now: bytes) -> None:
        """Record whether a file has the same bytes."""
        if before == now:
            self.same.append(place)
        else:
            self.different[place] = "its bytes differ"


def other_versions(bundle: layout.Bundle) -> dict[str, tuple[str, str]]:
    """Return the packages with other versions than in the bundle: the bundle's and the local ("none")."""
    versions = {"beasy-sched": (bundle.description.version, __version__)}
    for name, version in bundle.versions.items():
        try:
            versions[name] = version, metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = version, "none"
    return {name: (theirs, ours) for name, (theirs, ours) in versions.items() if theirs != ours}


def compare(bundle: layout.Bundle, again: Path, scenarios: list[Scenario]) -> Verdict:
    """Compare the campaign in the folder ``again`` with the bundle. Raises InputError."""
    campaign, verdict = read_campaign(again), Verdict()
    verdict.left_out[layout.TIMINGS] = "run times differ each time"
    unlike = _columns_left_out(bundle, scenarios)
    _compare_tables(bundle, campaign, unlike, verdict)
    _compare_files(bundle, campaign, unlike, verdict)
    return verdict


def _columns_left_out(bundle: layout.Bundle, scenarios: list[Scenario]) -> dict[str, str]:
    """Return the columns of the table that cannot be the same here, and the reasons."""
    others, columns = other_versions(bundle), dict[str, str]()
    for column, name in (("version", "beasy-sched"), ("numpy_version", "numpy")):
        if name in others:
            columns[column] = "another version of {} is installed: {} in the bundle, {} here".format(
                name, *others[name]
            )
    if {"beasy-sched", "highspy"} & others.keys():
        columns["plan_sha256"] = "plans contain the versions that made them"
    if any(scenario.site_files for scenario in scenarios):
        columns |= dict.fromkeys(("site_sha256", "plan_sha256"), _PLACED)
    return columns


def _compare_tables(
    bundle: layout.Bundle, campaign: Campaign, unlike: Mapping[str, str], verdict: Verdict
) -> None:
    here = {layout.TABLE: read_bytes(campaign.folder.table), layout.TABLE_CSV: table_csv(campaign)}
    there = {place: read_bytes(bundle.path / place) for place in here}
    if here == there:
        verdict.same += [*here]
        return
    before, now = read_table(bundle.path / layout.TABLE), campaign.runs
    differences = [*_differences(before, now, unlike)]
    if differences:
        more = [f"and {len(differences) - _MOST_TOLD} more"] if len(differences) > _MOST_TOLD else []
        verdict.different[layout.TABLE] = "; ".join([*differences[:_MOST_TOLD], *more])
        return
    reasons = {f"{layout.TABLE}, column {name}": why for name, why in unlike.items() if name in before}
    others = other_versions(bundle)
    if not reasons and not {"pandas", "pyarrow"} & others.keys():
        verdict.different[layout.TABLE] = "its values are the same, its bytes are not"
        return
    verdict.left_out |= reasons
    for name in ("pandas", "pyarrow"):
        if name in others:
            verdict.left_out[f"{layout.TABLE}, bytes"] = (
                f"written by another version of {name}: values are compared"
            )
    verdict.same.append(f"{layout.TABLE} (all other values)")


def _differences(before: Any, now: Any, unlike: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences between two tables of runs, except for the columns ``unlike``."""
    if list(before.columns) != list(now.columns):
        gone, new = set(before.columns) - set(now.columns), set(now.columns) - set(before.columns)
        yield f"missing columns: {sorted(gone)}, new columns: {sorted(new)}"
        return
    if list(before["run"]) != list(now["run"]):
        yield f"it has {len(before)} runs in the bundle and {len(now)} here, or different ones"
        return
    for name in before.columns:
        other = ~((before[name] == now[name]) | (before[name].isna() & now[name].isna()))
        if name not in unlike and other.any():
            row = other.to_numpy().argmax()
            values = f"{before[name].iloc[row]} in the bundle, {now[name].iloc[row]} here"
            count = f"{other.sum()} of {len(now)} runs"
            yield f"column {name} in {count}, first in {now['run'].iloc[row]}: {values}"


def _compare_files(
    bundle: layout.Bundle, campaign: Campaign, unlike: Mapping[str, str], verdict: Verdict
) -> None:
    """Compare inputs, and the files kept of each run."""
    folder = campaign.folder.path
    skipped = {kind: why for kind in ("site", "plan") if (why := unlike.get(f"{kind}_sha256"))}
    verdict.left_out |= {f"{layout.INPUTS}/{kind}-*": why for kind, why in skipped.items()}
    placed = any(True for each in campaign.manifest.parsed() for _ in named_files(each))
    kept = bundle.within(f"{layout.RESULTS}/runs")
    for ending, columns in _SECONDS.items():
        if any(place.endswith(ending) for place in kept):
            what = f"{layout.RESULTS}/runs/*/*{ending}, {' and '.join(columns)}"
            verdict.left_out[what] = "durations of runs and plans"
    if "plan" in skipped and any(place.endswith(_PLAN) for place in kept):
        verdict.left_out[f"{layout.RESULTS}/runs/*/*{_PLAN}"] = skipped["plan"]
    if kept and placed:
        what = f"{layout.RESULTS}/runs/*/*{_SUMMARY}, section settings"
        verdict.left_out[what] = "it may refer to files by path"
    for inside, outside in (
        (layout.INPUTS, folder / "inputs"),
        (f"{layout.RESULTS}/traces", folder / "traces"),
        (f"{layout.RESULTS}/runs", folder / "runs"),
    ):
        there = {place.removeprefix(f"{inside}/") for place in bundle.within(inside)}
        here = set(layout.places_in(outside)) if outside.is_dir() else set()
        for name in sorted(there | here):
            place = f"{inside}/{name}"
            kind = name.partition("-")[0] if inside == layout.INPUTS else "plan" * name.endswith(_PLAN)
            if kind in skipped:
                continue
            if name not in here or name not in there:
                verdict.different[place] = (
                    f"the file does not exist {'here' if name in there else 'in the bundle'}"
                )
                continue
            before, now = read_bytes(bundle.path / place), read_bytes(outside / name)
            seconds = [
                each for ending, columns in _SECONDS.items() if name.endswith(ending) for each in columns
            ]
            if seconds:
                before, now = _without(before, seconds), _without(now, seconds)
            elif before != now and name.endswith(_SUMMARY):
                version = bundle.description.version
                before, now = (_plain_summary(each, place, version, placed) for each in (before, now))
            verdict.note(place, before, now)


def _without(table: bytes, columns: Collection[str]) -> bytes:
    """Return the content of a CSV file without some columns."""
    names, *rows = [*csv.reader(table.decode("utf-8", "replace").splitlines())] or [[]]
    kept = [place for place, name in enumerate(names) if name not in columns]
    return repr([[row[place] for place in kept if place < len(row)] for row in (names, *rows)]).encode()


def _plain_summary(content: bytes, place: str, version: str, placed: bool) -> bytes:
    """Return a run's summary without the bundle's ``version`` and, with ``placed``, paths of files."""
    try:
        values = decode_json(content, dict)
    except Malformed as error:
        raise InputError(place, f"is not a summary: {error}", line=error.line) from None
    if placed:
        values.pop("settings", None)
    if version != __version__:
        values.pop("version", None)
    return repr(values).encode()


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the result in words: the same, not compared (with reasons), and different parts."""
    for folder in (layout.INPUTS, f"{layout.RESULTS}/traces", f"{layout.RESULTS}/runs"):
        if count := sum(place.startswith(f"{folder}/") for place in verdict.same):
            yield f"same: {count} file{'s' if count > 1 else ''} in {folder}"
    for place in verdict.same:
        if place.startswith((layout.TABLE, layout.TABLE_CSV)):
            yield f"same: {place}"
    for place, reason in verdict.left_out.items():
        yield f"not compared: {place}: {reason}"
    for place, what in [*verdict.different.items()][: 2 * _MOST_TOLD]:
        yield f"DIFFERENT: {place}: {what}"
    if (more := len(verdict.different) - 2 * _MOST_TOLD) > 0:
        yield f"DIFFERENT: {more} more files"
