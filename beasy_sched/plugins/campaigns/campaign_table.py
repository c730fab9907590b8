"""The tables of a campaign: their columns, written when all runs are finished, read as data frames.

It also provides a campaign's mean results as lines for a terminal.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import UNSET

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.extras import load_optional
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.decoding import read_frame
from beasy_sched.formats.file_set import together
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_summary import RunSummary, figures, value_at
from beasy_sched.numbers import ANY_WHOLE, Range, found_text
from beasy_sched.outputs.tables import COMPARISON_COLUMNS, aligned, job_share_pct, widths_of
from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.folder import Folder, Manifest, damaged_row, read_manifest
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.sweep import RunSpec, expand

if TYPE_CHECKING:
    import pandas as pd


ColumnType = Literal["text", "integer", "number", "flag"]


@dataclass(frozen=True)
class RunColumn:
    """A column. ``place`` is the position of the value in a run's summary, empty if it is not from there."""

    name: str
    kind: ColumnType
    unit: str
    meaning: str
    place: tuple[str, ...] = ()


_IDENTITY: Final = (
    RunColumn("run", "text", "", "the run's name, unique in the campaign"),
    RunColumn("scenario", "text", "", "name of the scenario"),
    RunColumn("tuple", "integer", "", "number of the pair of workload and production, from 0"),
    RunColumn("case", "text", "", "case of production: `best`, `worst`, `between` or `exact`"),
    RunColumn("arrivals", "text", "", "`begin`, `end` or `uniform`; `swf` for a trace"),
    RunColumn("seed", "integer", "", "seed of the execution's noise"),
    RunColumn("policy", "text", "", "label of the policy"),
    RunColumn("policy_name", "text", "", "name of the policy"),
    RunColumn("options", "text", "", "its options, JSON"),
    RunColumn("guard", "text", "", "mode of the storage guard: `kill-all` or `shed`"),
    RunColumn("veto", "flag", "", "whether starts and wakes must fit into the step's headroom"),
    RunColumn("status", "text", "", "`ok`, or `failed`: the run did not reach its end"),
    RunColumn("error", "text", "", "why it failed; empty otherwise"),
)
_PROVENANCE: Final = (
    RunColumn("version", "text", "", "version of beasy-sched"),
    RunColumn("numpy_version", "text", "", "version of NumPy"),
    RunColumn("scenario_sha256", "text", "", "hash of the scenario, all defaults filled in"),
    RunColumn("platform_sha256", "text", "", "hash of the platform file"),
    RunColumn("workload_sha256", "text", "", "SHA-256 of the actual workload"),
    RunColumn("power_sha256", "text", "", "SHA-256 of the actual production"),
    RunColumn("site_sha256", "text", "", "hash of the site file, guard included"),
    RunColumn("plan_sha256", "text", "", "hash of the plan; empty without one"),
)


def _columns_of(*place: str, name: str = "{}") -> dict[str, RunColumn]:
    """Return a column for each figure of a section of the summary, named by its field."""
    return {
        field: RunColumn(name.format(field), "integer" if kind is int else "number", meaning.unit,
                         meaning.meaning, (*place, field))
        for field, meaning, kind in figures(*place)
    }  # fmt: skip


_OF_THE_RUN: Final = _columns_of()
_JOBS: Final = (
    *_columns_of("jobs", name="jobs_{}").values(),
    replace(_OF_THE_RUN["killed_as_in_paper"], name="jobs_killed_as_in_paper"),
)
_SHARES: Final = ("reached_walltime", "killed", "not_completely_finished", "postponed", "killed_as_in_paper")
_PERCENT: Final = (
    RunColumn("finished_pct", "number", "% of submitted", "finished, with or without an error code"),
    *(RunColumn(f"{n}_pct", "number", "% of submitted", f"the share of `jobs_{n}`") for n in _SHARES),
)
_WORK: Final = (
    RunColumn(
        "work_finished_pct",
        "number",
        "% of submitted",
        "work (flops) of jobs that finished; null without",
    ),
)
_PLANNED: Final = _columns_of("planned", name="planned_{}")
_PLANNED_ENERGY: Final = _columns_of("planned", "energy_kwh", name="planned_{}_kwh")
_SITE_PART: Final = _columns_of("site")
_SITE: Final = (
    *(_SITE_PART[name] for name in (
        "soc_start_pct", "soc_final_pct", "soc_target_pct", "soc_distance_points", "soc_lowest_pct",
        "hydrogen_final_kg", "hydrogen_distance_kg", "largest_relative_residual")),
    *_PLANNED.values(),
    *(_PLANNED_ENERGY[name] for name in ("servers", "load", "production")),
)  # fmt: skip
COLUMNS: Final[tuple[RunColumn, ...]] = (
    *_IDENTITY,
    *_JOBS,
    *_PERCENT,
    *_WORK,
    *_SITE,
    *_columns_of("energy_kwh", name="{}_kwh").values(),
    *_columns_of("quality").values(),
    _OF_THE_RUN["end_s"],
    *_PROVENANCE,
)
"""Columns of ``runs.parquet``, in order; those with a place are null if a run has no such value."""

_OF_GRID: Final = _columns_of("grid")
_CONTENTS: Final = ("discharged_cost", "discharged_carbon_kg", "stored_cost", "stored_carbon_kg")
_BY_KEY: Final = {"peak_per_kw": ("peak_kw", "peak_cost"), "charge": _CONTENTS}
"""Columns of a site whose section ``[grid]`` has a key."""
GRID_COLUMNS: Final = tuple(
    column for name, column in _OF_GRID.items() if not any(name in names for names in _BY_KEY.values())
)
"""Further columns, at the end, if a scenario's site has a grid."""
LIFE_COLUMNS: Final = tuple(_columns_of("battery_life", name="battery_{}").values())
"""Further columns, after those of the grid, if a scenario's site models battery ageing."""
END_VALUE_COLUMNS: Final = tuple(_columns_of("end_value", name="end_value_{}").values())
"""Further columns, after those of battery ageing, if energy left in a scenario's battery has a value."""
DEADLINE_COLUMNS: Final = tuple(
    column if field.startswith("lateness") else replace(column, name=f"deadline_{field}")
    for field, column in _columns_of("deadlines").items()
)
"""Further columns of the table of runs, at its end, if a scenario sets deadlines."""
RESTART_COLUMNS: Final = tuple(
    column if field.endswith("_kwh") else replace(column, name=f"restart_{field}")
    for field, column in _columns_of("restarts").items()
)
"""Further columns, at the end, if killed jobs of a scenario's policy come back."""
SWEEP_COLUMNS: Final = tuple(
    RunColumn(axis.name, "integer" if axis.whole else "number", axis.unit, axis.meaning)
    for axis in AXES.values()
)
"""Further columns, at the end of the table of runs: swept sizes, null if a scenario has no sweep."""


def columns_of(specs: Iterable[RunSpec]) -> tuple[RunColumn, ...]:
    """Return the columns of these runs."""
    grid, life, left, due, back = False, False, False, False, False
    swept, keys = set[str](), set[str]()
    for spec in specs:
        grid |= "grid" in spec.scenario.site
        keys |= _BY_KEY.keys() & spec.scenario.site.get("grid", {}).keys()
        life |= "life" in spec.scenario.site.get("battery", {})
        left |= "end_value_per_kwh" in spec.scenario.site.get("battery", {})
        due |= spec.scenario.deadlines is not None
        back |= spec.policy.on_kill is not UNSET
        swept.update(name for name, _ in spec.point)
    more = (
        *(GRID_COLUMNS if grid else ()),
        *(_OF_GRID[name] for key, names in _BY_KEY.items() if key in keys for name in names),
        *(LIFE_COLUMNS if life else ()),
        *(END_VALUE_COLUMNS if left else ()),
        *(DEADLINE_COLUMNS if due else ()),
        *(RESTART_COLUMNS if back else ()),
    )
    return (*COLUMNS, *more, *(column for column in SWEEP_COLUMNS if column.name in swept))


def policy_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[RunColumn, ...]:
    """Return a column for each number of the policies' own sections, ``section.name``, in order of first use.

    A column has integers if all its values are integers.
    """
    kinds: dict[str, ColumnType] = {}
    for row in rows:
        for name, value in row.items():
            if "." in name:
                kind: ColumnType = "integer" if ANY_WHOLE.holds(value) else "number"
                kinds[name] = "number" if "number" in (kind, kinds.get(name)) else kind
    return tuple(RunColumn(name, kind, "", "a result of the policy") for name, kind in kinds.items())


def _policy_numbers(summary: RunSummary | None) -> dict[str, int | float]:
    """Return the numbers of the policy's own sections, ``section.name``."""
    return {
        f"{section}.{name}": value if ANY_WHOLE.holds(value) else float(value)
        for section, part in ({} if summary is None else summary.by_policy).items()
        if isinstance(part, Mapping)
        for name, value in part.items()
        if _RESULT.holds(value)
    }


TIMING_COLUMNS: Final = (
    RunColumn("run", "text", "", "the run's name"),
    RunColumn("wall_s", "number", "s", "wall-clock time of the run"),
    RunColumn("cpu_s", "number", "s", "CPU time of the run"),
)
"""Columns of ``timings.parquet``, which differ from one execution of a campaign to the next."""


def row_of(
    spec: RunSpec,
    provenance: dict[str, str],
    summary: RunSummary | None,
    error: str | None,
    *,
    work_finished_pct: float | None = None,
) -> dict[str, Any]:
    """Return the row of a run, a value for each of its columns; ``summary`` is None if there is none.

    The numbers of the policy's own sections follow.
    """
    columns = columns_of([spec])
    part = spec.scenario.tuples[spec.tuple_number]
    row: dict[str, Any] = {
        "run": spec.key,
        "scenario": spec.scenario.name,
        "tuple": spec.tuple_number,
        "case": part.production.case.value,
        "arrivals": part.workload.arrivals,
        "seed": spec.seed,
        "policy": spec.policy.label,
        "policy_name": spec.policy.name,
        "options": json.dumps(spec.policy.options, sort_keys=True),
        "guard": spec.guard.mode.value,
        "veto": spec.guard.veto,
        "status": "ok" if error is None else "failed",
        "error": error or "",
        "work_finished_pct": work_finished_pct,
        **{name: int(value) if AXES[name].whole else value for name, value in spec.point},
        **provenance,
    }
    for column in columns:
        if column.place:
            row[column.name] = None if summary is None else value_at(summary, *column.place)
    jobs = {name.removeprefix("jobs_"): count for name, count in row.items() if name.startswith("jobs_")}
    for column in _PERCENT:
        row[column.name] = job_share_pct(jobs, column.name.removesuffix("_pct"))
    return {column.name: row[column.name] for column in columns} | _policy_numbers(summary)


def check_installed(scenarios: Sequence[Scenario]) -> None:
    """Raise ConfigError, before any run, if a required package cannot be imported."""
    needed = {"pandas": "data", "pyarrow": "data"}
    if any(scenario.plan.make for scenario in scenarios):
        needed["highspy"] = "plan"
    for name, extra in needed.items():
        load_optional(name, f"beasy-sched[{extra}]", "this campaign")


def write_tables(folder: Folder, specs: Sequence[RunSpec]) -> int:
    """Write ``runs.parquet`` and ``timings.parquet`` in the order of ``specs``; return the failed runs.

    Raises ConfigError if a run has not finished, or pyarrow is missing, and InputError.
    """
    rows, timings = _collected(folder, specs)
    if len(rows) < len(specs):
        raise ConfigError(f"{len(specs) - len(rows)} runs of {folder.path} are not finished")
    with together():
        write_atomic(folder.table, parquet_of(rows, _columns(specs, rows)))
        write_atomic(folder.path / "timings.parquet", parquet_of(timings, TIMING_COLUMNS))
    return _count_failed(rows)


def failed_of(folder: Folder, specs: Sequence[RunSpec]) -> int:
    """Return the number of failed runs. Raises InputError."""
    return _count_failed(_collected(folder, specs)[0])


def _count_failed(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["status"] == "failed" for row in rows)


def _columns(specs: Sequence[RunSpec], rows: Iterable[Mapping[str, Any]]) -> tuple[RunColumn, ...]:
    return (*columns_of(specs), *policy_columns(rows))


def _collected(folder: Folder, specs: Sequence[RunSpec]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows and timings of the finished runs. Raises InputError for a damaged row."""
    ended_runs = [(spec.key, ended) for spec in specs if (ended := folder.ended(spec.key)) is not None]
    columns = {column.name: column for column in columns_of(specs)}
    for run, ended in ended_runs:
        _check_row(folder.row_path(run), ended.row, columns)
    timings = [{"run": run, "wall_s": ended.wall_s, "cpu_s": ended.cpu_s} for run, ended in ended_runs]
    return [ended.row for _, ended in ended_runs], timings


_RESULT: Final = Range(-1e300, 1e300)
"""Range of the numbers in a run's results."""
_ARROW_TYPES: Final[dict[ColumnType, str]] = {
    "text": "string",
    "integer": "int64",
    "number": "float64",
    "flag": "bool",
}
_VALUES: Final[dict[ColumnType, tuple[Callable[[object], bool], str]]] = {
    "text": (lambda value: isinstance(value, str), "a string"),
    "integer": (ANY_WHOLE.holds, ANY_WHOLE.expected),
    "number": (_RESULT.holds, _RESULT.expected),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
}
"""Test of a row's value for each kind of column, and the expected kind in words."""


def _check_row(path: Path, row: dict[str, Any], columns: Mapping[str, RunColumn]) -> None:
    """Check the values of a run's row. Raises InputError that names file and field."""
    for name in _NEEDED:
        if row.get(name) is None:
            raise damaged_row(path, f"row.{name}: is missing")
    for name, value in row.items():
        kind = columns[name].kind if name in columns else "number" if "." in name else None
        if value is None or kind is None:
            continue
        fits, expected = _VALUES[kind]
        if not fits(value):
            raise damaged_row(path, f"row.{name}: found {found_text(value)}, expected {expected}")


_NEEDED: Final = ("run", "scenario", "policy", "status", "error", "guard", "veto")
"""Columns that every row has."""


def parquet_of(rows: list[dict[str, Any]], columns: Sequence[RunColumn]) -> bytes:
    """Return rows as a Parquet file, the same bytes for the same rows. Raises ConfigError without pyarrow."""
    content = io.BytesIO()
    _imported("pyarrow.parquet").write_table(_table(rows, columns), content, compression="snappy")
    return content.getvalue()


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of runs. Raises InputError for another file, and ConfigError without pyarrow."""
    reading, content = _imported("pyarrow.parquet"), io.BytesIO(read_bytes(path))
    try:
        return reading.read_table(content, use_threads=False).to_pandas(use_threads=False)
    except (ValueError, OSError) as error:  # including Arrow's own errors
        raise InputError(path, f"is not a table of runs: {error}") from None


def _imported(name: str) -> Any:
    """Import a package for tables. Raises ConfigError without it."""
    return load_optional(name, "beasy-sched[data]", "a campaign's table")


def _table(rows: list[dict[str, Any]], columns: Sequence[RunColumn]) -> Any:
    pyarrow = _imported("pyarrow")
    arrays = [
        pyarrow.array(
            [float(value) if column.kind == "number" and isinstance(value, int) else value
             for value in (row.get(column.name) for row in rows)],
            _ARROW_TYPES[column.kind],
        )
        for column in columns
    ]  # fmt: skip
    return pyarrow.table(arrays, names=[column.name for column in columns])


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder, to read from."""

    folder: Folder
    manifest: Manifest

    @cached_property
    def specs(self) -> list[RunSpec]:
        """All runs, in the order of the tables."""
        return expand(self.manifest.parsed())

    @cached_property
    def _ended(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return _collected(self.folder, self.specs)

    @property
    def columns(self) -> tuple[RunColumn, ...]:
        """Columns of the table of runs. Raises InputError for a row that is damaged."""
        return _columns(self.specs, self._ended[0])

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per completed run; the columns are in ``docs/guides/campaigns.md``."""
        return _frame(self._ended[0], self.columns)

    @cached_property
    def timings(self) -> pd.DataFrame:
        """Wall-clock and CPU time of each completed run, s."""
        return _frame(self._ended[1], TIMING_COLUMNS)

    @property
    def complete(self) -> bool:
        """Whether all runs are finished and the tables are written."""
        return self.folder.table.exists() and len(self.runs) == len(self.specs)

    def trace(self, run: str) -> pd.DataFrame:
        """Return the energy trace of a run, one row per step; see ``docs/reference/files.md``.

        Raises InputError if it was not kept.
        """
        path = self.folder.trace(run)
        if path is None:
            raise InputError(
                self.folder.path, f"has no trace of {run!r}: run the campaign with --keep-traces"
            )
        return read_frame(path)


def _frame(rows: list[dict[str, Any]], columns: Sequence[RunColumn]) -> pd.DataFrame:
    _imported("pandas")
    # Arrow's threads occasionally abort the interpreter at exit.
    return _table(rows, columns).to_pandas(use_threads=False)


def read_campaign(folder: str | Path) -> Campaign:
    """Open a campaign, complete or not. Raises InputError if there is none."""
    place = Folder(Path(folder))
    return Campaign(place, read_manifest(place.manifest))


_SHOWN = {
    "finished_pct": "finished_pct",
    "killed_as_in_paper_pct": "killed_pct",
    "postponed_pct": "postponed_pct",
    "soc_final_pct": "soc_final_pct",
    "wasted_kwh": "wasted_kwh",
    "bounded_slowdown_mean": "bounded_slowdown_mean",
}
"""Columns of the runs' table, and their headings in a comparison."""
_SHOWN_WHERE_KNOWN = {
    "cost": ("grid", "cost", ""),
    "carbon_kg": ("", "carbon", "kg"),
    "green_share": ("green", "share", ""),
    "battery_years_to_80_pct": ("years", "to 80 %", ""),
    "battery_wear_cost": ("battery", "wear", ""),
    "deadline_jobs_missed": ("past", "due", "jobs"),
}
"""Columns shown if a run has such a figure, with the two lines of their heading and their unit."""


def result_lines(folder: Path) -> Iterator[str]:
    """Yield means by scenario, guard and policy over the successful runs, about 70 columns wide."""
    campaign = read_campaign(folder)
    runs = campaign.runs[campaign.runs["status"] == "ok"]
    if runs.empty:
        return
    headings = {column.name: (*column.heading, column.unit) for column in COMPARISON_COLUMNS}
    shown = {name: headings[heading] for name, heading in _SHOWN.items()} | {
        name: heading
        for name, heading in _SHOWN_WHERE_KNOWN.items()
        if name in runs.columns and runs[name].notna().any()
    }
    first, second, units = zip(*shown.values(), strict=True)
    head = [["", "", *first], ["policy", "runs", *second], ["", "", *units]]
    axes = [column.name for column in SWEEP_COLUMNS if column.name in runs.columns]
    conditions = ["scenario", *axes, "guard", "veto"]
    groups = {
        _condition(axes, [*condition]): [
            [policy, str(len(own)), *(f"{own[name].mean():,.2f}".replace("nan", "-") for name in shown)]
            for policy, own in runs_of_group.groupby("policy", sort=False)
        ]
        for condition, runs_of_group in runs.groupby(conditions, sort=False, dropna=False)
    }
    rows = [*head, *(row for group in groups.values() for row in group)]
    widths = widths_of(rows)
    yield from (aligned(row, widths) for row in head)
    for heading, group in groups.items():
        yield heading
        yield from (aligned(row, widths) for row in group)
    yield "killed: includes jobs at their walltime, or still running at the end"


def _condition(axes: Sequence[str], values: Sequence[Any]) -> str:
    """Return the name of a scenario, the sizes of a point of its sweep, and the guard."""
    scenario, *sizes, guard, veto = values
    point = [(name, size) for name, size in zip(axes, sizes, strict=True) if size == size]
    place = ", ".join([scenario, *(f"{name} {size:g}" for name, size in point)])
    return f"{place}, guard {guard} {'with' if veto else 'without'} veto:"
