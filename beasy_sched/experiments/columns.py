"""The columns of a campaign's table of runs: name, type, unit, meaning, and where the value comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from beasy_sched.experiments.expansion import RunSpec
from beasy_sched.outputs.summary import job_share_pct

ColumnType = Literal["text", "integer", "number", "flag"]


@dataclass(frozen=True)
class Column:
    """One column. ``place`` is where a run's summary has the value, empty for what is known beforehand."""

    name: str
    kind: ColumnType
    unit: str
    meaning: str
    place: str = ""


def _known(name: str, kind: ColumnType, meaning: str, unit: str = "") -> Column:
    return Column(name, kind, unit, meaning)


_IDENTITY: Final = (
    _known("run", "text", "the run's name, unique in the campaign"),
    _known("scenario", "text", "name of the scenario"),
    _known("tuple", "integer", "number of the pair of workload and production, from 0"),
    _known("case", "text", "case of production: `best`, `worst`, `between` or `exact`"),
    _known("arrivals", "text", "`begin`, `end` or `uniform`; `swf` for a trace"),
    _known("seed", "integer", "seed of the execution's noise"),
    _known("policy", "text", "label of the policy"),
    _known("policy_name", "text", "name of the policy"),
    _known("options", "text", "its options, JSON"),
    _known("guard", "text", "mode of the storage guard: `kill-all` or `shed`"),
    _known("veto", "flag", "whether starts and wakes must fit into the step's headroom"),
    _known("status", "text", "`ok`, or `failed`: the run did not reach its end"),
    _known("error", "text", "why it failed; empty otherwise"),
)
_PROVENANCE: Final = (
    _known("version", "text", "version of beasy-sched"),
    _known("numpy_version", "text", "version of NumPy"),
    _known("scenario_sha256", "text", "hash of the scenario, all defaults filled in"),
    _known("platform_sha256", "text", "hash of the platform file"),
    _known("workload_sha256", "text", "hash of the workload that came"),
    _known("power_sha256", "text", "hash of the production that came"),
    _known("site_sha256", "text", "hash of the site file, guard included"),
    _known("plan_sha256", "text", "hash of the plan; empty without one"),
)
_OUTCOMES: Final = (
    ("finished", "finished by themselves, without an error code"),
    ("failed", "ended by themselves with an error code"),
    ("reached_walltime", "reached their walltime"),
    ("killed", "killed by guard or policy"),
    ("not_completely_finished", "still ran at the end"),
    ("postponed", "never started"),
    ("rejected", "could never have fit"),
)


def _summary(place: str, kind: ColumnType, unit: str, meaning: str, name: str | None = None) -> Column:
    return Column(name or place.rpartition(".")[2], kind, unit, meaning, place)


_JOBS: Final = (
    _summary("jobs.submitted", "integer", "jobs", "jobs submitted", "jobs_submitted"),
    *(
        _summary(f"jobs.{name}", "integer", "jobs", f"of these, {meaning}", f"jobs_{name}")
        for name, meaning in _OUTCOMES
    ),
    _summary(
        "killed_as_in_paper",
        "integer",
        "jobs",
        "killed, reached their walltime or still ran at the end",
        "jobs_killed_as_in_paper",
    ),
)
_PERCENT: Final = (
    Column("finished_pct", "number", "% of submitted", "finished, with or without an error code"),
    *(
        Column(f"{name}_pct", "number", "% of submitted", f"the share of `jobs_{name}`")
        for name in (
            "reached_walltime",
            "killed",
            "not_completely_finished",
            "postponed",
            "killed_as_in_paper",
        )
    ),
)
_SITE: Final = (
    _summary("site.soc_start_pct", "number", "%", "state of charge at the start"),
    _summary("site.soc_final_pct", "number", "%", "state of charge at the end"),
    _summary("site.soc_target_pct", "number", "%", "where it should have ended"),
    _summary("site.soc_distance_points", "number", "points", "final less target"),
    _summary("site.soc_lowest_pct", "number", "%", "lowest state of charge at the end of a step"),
    _summary("site.hydrogen_final_kg", "number", "kg", "hydrogen at the end; null without a tank"),
    _summary("site.hydrogen_distance_kg", "number", "kg", "final less target"),
    _summary(
        "site.largest_relative_residual", "number", "", "largest relative residual of the energy balance"
    ),
    _summary("planned.soc_final_pct", "number", "%", "what the plan had foreseen", "planned_soc_final_pct"),
    _summary("planned.relax_factor", "number", "", "rf of the plan", "planned_relax_factor"),
    _summary(
        "planned.energy_kwh.servers", "number", "kWh", "energy planned for the servers", "planned_servers_kwh"
    ),
    _summary(
        "planned.energy_kwh.load", "number", "kWh", "demand that the plan was made for", "planned_load_kwh"
    ),
    _summary(
        "planned.energy_kwh.production",
        "number",
        "kWh",
        "production that was foreseen",
        "planned_production_kwh",
    ),
)
_ENERGIES: Final = (
    ("production", "renewable energy that came"),
    ("consumed", "energy of the servers"),
    ("finished_jobs", "of it, in jobs that finished"),
    ("other_jobs", "in jobs that did not"),
    ("idle", "in idle servers"),
    ("transitions", "in servers falling asleep or waking"),
    ("sleeping", "in sleeping servers"),
    ("wasted", "all but `finished_jobs_kwh`"),
    ("charged", "into the battery"),
    ("discharged", "out of the battery"),
    ("electrolyzer", "into hydrogen"),
    ("fuel_cell", "out of hydrogen"),
    ("curtailed", "production that nothing could take"),
    ("unserved", "demand that nothing could serve"),
)
_QUALITY: Final = (
    *(
        _summary(f"quality.waiting_s_{name}", "number", "s", f"waiting time of jobs that started: {meaning}")
        for name, meaning in (
            ("mean", "mean"),
            ("p50", "median"),
            ("p95", "95 % quantile"),
            ("max", "longest"),
        )
    ),
    *(
        _summary(
            f"quality.bounded_slowdown_{name}", "number", "", f"bounded slowdown (tau = 10 s): {meaning}"
        )
        for name, meaning in (
            ("mean", "mean"),
            ("p50", "median"),
            ("p95", "95 % quantile"),
            ("max", "largest"),
        )
    ),
    _summary("quality.utilization", "number", "", "host-seconds of jobs over those of the site, 0 to 1"),
    _summary("quality.server_switches", "integer", "", "servers put to sleep or woken"),
    _summary("quality.speed_changes", "integer", "", "changes of a server's speed"),
    _summary("end_s", "number", "s", "when the run ended"),
)
COLUMNS: Final[tuple[Column, ...]] = (
    *_IDENTITY,
    *_JOBS,
    *_PERCENT,
    *_SITE,
    *(_summary(f"energy_kwh.{name}", "number", "kWh", text, f"{name}_kwh") for name, text in _ENERGIES),
    *_QUALITY,
    *_PROVENANCE,
)
"""All columns of ``runs.parquet``, in order; those with a place are null where a run has no such value."""

TIMING_COLUMNS: Final = (
    Column("run", "text", "", "the run's name"),
    Column("wall_s", "number", "s", "time that the run took"),
    Column("cpu_s", "number", "s", "processor time that it took"),
)
"""Columns of ``timings.parquet``: what differs from one campaign to the next."""


def row_of(
    spec: RunSpec, provenance: dict[str, str], summary: dict[str, Any] | None, error: str | None
) -> dict[str, Any]:
    """Return the row of a run, a value for each of `COLUMNS`; ``summary`` None where there is none."""
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
        **provenance,
    }
    for column in COLUMNS:
        if column.place:
            row[column.name] = _found(summary, column.place)
    jobs = {name.removeprefix("jobs_"): count for name, count in row.items() if name.startswith("jobs_")}
    for column in _PERCENT:
        row[column.name] = job_share_pct(jobs, column.name.removesuffix("_pct"))
    return {column.name: row[column.name] for column in COLUMNS}


def _found(summary: dict[str, Any] | None, place: str) -> Any:
    found: Any = summary
    for part in place.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
