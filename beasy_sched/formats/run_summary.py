"""The summary of a run, ``PREFIX_summary.json``: what it holds, with meanings and units; how it is read.

A field without a default is always in the file, null where there is no value. A field with one is omitted
where it has none. A section that could not be made is empty in the file (`RunSummary.unmade`), and None here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec

from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.kinds import KINDS, kind_named
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import JSON_OBJECT, Malformed, convert_json
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_files import SUMMARY, path_of
from beasy_sched.limits import LARGEST_NUMBER, LATEST_S, MOST_HOSTS

Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


@dataclass(frozen=True)
class Meaning:
    """Meaning of a figure of the summary, and its unit; empty for none."""

    unit: str
    meaning: str


class _SummarySection(msgspec.Struct, omit_defaults=True):
    """A section of the summary."""


class SettingsPart(_SummarySection, kw_only=True):
    """Settings of the run, as the user chose them."""

    policy: str
    options: dict[str, Any]
    site: str | None
    """Name of the site's file; None without a site."""
    plan: str | None
    """Plan file; None without a plan."""
    forecast: str | None = None
    """Source of predictions of the production, as ``--forecast`` names it."""
    replan: dict[str, Any] | None = None
    """Plans that were made during the run: the fields of `run.settings.ReplanSettings`."""
    windows: int | None
    """Number of windows in the run; None without a site."""
    energy: str
    """Source of the energy used: ``batsim``'s answers, or the daemon's own account, ``model``."""
    power_actions: bool
    retry_s: float | None = None
    """Time for which a server that failed to wake was left alone, s; None if the user did not set it."""
    placement: str | None = None
    """Placement of jobs, ``own`` or ``external``; None if the user did not set it."""
    on_kill: str | None = None
    """Treatment of killed jobs: ``drop``, ``requeue`` or ``checkpoint``; None if the user did not set it."""


class JobsPart(_SummarySection):
    """Numbers of submitted jobs by outcome: each has exactly one from ``finished`` to ``rejected``."""

    submitted: Annotated[Count, Meaning("jobs", "jobs submitted")]
    finished: Annotated[Count, Meaning("jobs", "of these, finished without error")]
    failed: Annotated[Count, Meaning("jobs", "of these, ended by themselves with an error code")]
    reached_walltime: Annotated[Count, Meaning("jobs", "of these, reached their walltime")]
    killed: Annotated[Count, Meaning("jobs", "of these, killed by guard or policy")]
    not_completely_finished: Annotated[Count, Meaning("jobs", "of these, still ran at the end")]
    postponed: Annotated[Count, Meaning("jobs", "of these, never started")]
    rejected: Annotated[Count, Meaning("jobs", "of these, could never have fit")]
    still_waiting: Count
    """Number of jobs that waited when the run was left; 0 for a run that is complete."""
    still_running: Count

    def counts(self) -> dict[str, int]:
        """Number of jobs by the name of each count."""
        return msgspec.structs.asdict(self)


class QualityPart(_SummarySection):
    """Waits of the jobs that started, and the use of the servers."""

    started: Count
    """Number of jobs that started."""
    host_seconds: Number
    """Time of hosts that jobs used, up to the end of the last window, s."""
    waiting_s_mean: Annotated[Number | None, Meaning("s", "waiting time of jobs that started: mean")]
    waiting_s_p50: Annotated[Number | None, Meaning("s", "waiting time of jobs that started: median")]
    waiting_s_p95: Annotated[Number | None, Meaning("s", "waiting time of jobs that started: 95 % quantile")]
    waiting_s_max: Annotated[Number | None, Meaning("s", "waiting time of jobs that started: longest")]
    bounded_slowdown_mean: Annotated[Number | None, Meaning("", "bounded slowdown (tau = 10 s): mean")]
    bounded_slowdown_p50: Annotated[Number | None, Meaning("", "bounded slowdown (tau = 10 s): median")]
    bounded_slowdown_p95: Annotated[
        Number | None, Meaning("", "bounded slowdown (tau = 10 s): 95 % quantile")
    ]
    bounded_slowdown_max: Annotated[Number | None, Meaning("", "bounded slowdown (tau = 10 s): largest")]
    utilization: Annotated[Number | None, Meaning("", "host-seconds of jobs over those of the site, 0 to 1")]
    server_switches: Annotated[Count | None, Meaning("", "servers put to sleep or woken")] = None
    """Number of times that servers slept or woke; like ``speed_changes``, None of a run that never began."""
    speed_changes: Annotated[Count | None, Meaning("", "changes of a server's speed")] = None


class LostServersPart(_SummarySection):
    """Servers that were not there: lost ones (`engine.lost`), and those out of service."""

    servers: Count
    """Number of servers that failed to wake, or went out of service, at least once."""
    failed_wakes: Count
    """Number of times that a server failed to wake."""
    breakdowns: Count
    """Number of times that a server went out of service."""
    missing: Count
    """Number of servers that were lost or out of service at the end."""


class RestartsPart(_SummarySection):
    """Jobs that came back after a kill (``--on-kill``); without a site, their energies are None."""

    jobs: Annotated[Count, Meaning("jobs", "jobs that came back at least once")]
    count: Annotated[Count, Meaning("", "number of times that jobs came back")]
    checkpoints: Annotated[Count, Meaning("", "checkpoints written by jobs that came back")]
    redone_kwh: Annotated[Number | None, Meaning("kWh", "work that was done again, part of wasted energy")]
    saved_kwh: Annotated[Number | None, Meaning("kWh", "work before a kill that was continued")]
    checkpoints_kwh: Annotated[
        Number | None, Meaning("kWh", "writing and reading checkpoints, part of wasted energy")
    ]


class DueJobsPart(_SummarySection):
    """Numbers of jobs and workflows that met their deadlines, and delays; see `outputs.deadline_table`."""

    jobs: Annotated[Count, Meaning("jobs", "jobs with a deadline")]
    jobs_met: Annotated[Count, Meaning("jobs", "of these, met")]
    jobs_missed: Annotated[Count, Meaning("jobs", "those that did not")]
    jobs_refused: Annotated[Count, Meaning("jobs", "those that were rejected")]
    workflows: Annotated[Count, Meaning("workflows", "workflows with a deadline")]
    workflows_met: Annotated[Count, Meaning("workflows", "of these, met")]
    workflows_missed: Annotated[Count, Meaning("workflows", "those that did not")]
    workflows_refused: Annotated[Count, Meaning("workflows", "those that were rejected")]
    lateness_s_sum: Annotated[Number, Meaning("s", "lateness of all late jobs together")]
    lateness_s_mean: Annotated[Number | None, Meaning("s", "mean lateness of late jobs")]
    lateness_s_max: Annotated[Number | None, Meaning("s", "largest lateness")]


class BatteryLevels(msgspec.Struct, frozen=True):
    """Battery in the section on the site: capacity (kWh), states of charge (%)."""

    battery_kwh: float
    soc_start_pct: float
    soc_final_pct: float
    soc_target_pct: float
    soc_min_pct: float
    soc_max_pct: float
    soc_distance_points: float
    soc_lowest_pct: float
    target_band_pct: float | None = None
    """Percentage points on both sides of the target that count as on target; None without a band."""


class HydrogenLevels(msgspec.Struct, frozen=True):
    """Hydrogen in the section on the site, kg."""

    hydrogen_final_kg: float
    hydrogen_distance_kg: float

    @property
    def target_kg(self) -> float:
        """Target level of the tank at the run's end, kg."""
        return self.hydrogen_final_kg - self.hydrogen_distance_kg


_Section = TypeVar("_Section")
_Levels = TypeVar("_Levels", BatteryLevels, HydrogenLevels)


class SitePart(_SummarySection, kw_only=True):
    """The site: its guard, and the levels of its storages, which it has (`battery`, `hydrogen`) or not."""

    start: str | None = None
    """Local time of time 0, such as ``2019-06-01T00:00:00+02:00``; None where it is unknown."""
    guard: str
    veto: bool
    steps: Count
    """Number of steps that were settled."""
    battery_kwh: Number | None = None
    """Capacity of the battery, kWh."""
    soc_start_pct: Annotated[Number | None, Meaning("%", "state of charge at the start")] = None
    soc_final_pct: Annotated[Number | None, Meaning("%", "state of charge at the end")] = None
    soc_target_pct: Annotated[Number | None, Meaning("%", "target state of charge")] = None
    soc_min_pct: Number | None = None
    """Least state of charge, %; the greatest is ``soc_max_pct``."""
    soc_max_pct: Number | None = None
    soc_distance_points: Annotated[Number | None, Meaning("points", "final less target")] = None
    """Distance from the band of the target, if it has one: 0 within the band."""
    soc_lowest_pct: Annotated[Number | None, Meaning("%", "lowest state of charge at the end of a step")] = (
        None
    )
    target_band_pct: Annotated[Number | None, Meaning("points", "what counts as on target")] = None
    largest_relative_residual: Annotated[
        Number, Meaning("", "largest relative residual of the energy balance")
    ]
    hydrogen_hold: str | None = None
    """Condition under which the planned hydrogen is held: ``never``, ``curtailment`` or ``surplus``."""
    hydrogen_final_kg: Annotated[Number | None, Meaning("kg", "hydrogen at the end; null without a tank")] = (
        None
    )
    hydrogen_distance_kg: Annotated[Number | None, Meaning("kg", "final less target")] = None
    pue_mean: Number | None = None
    """Energy of servers and their cooling, divided by that of servers; None without cooling."""
    devices: dict[str, dict[str, Number | str]] = {}
    """Sizes and levels of devices other than battery and hydrogen, by section; names have their units."""

    @property
    def battery(self) -> BatteryLevels | None:
        """Levels of the site's battery; None without one."""
        return _levels(self, BatteryLevels)

    @property
    def hydrogen(self) -> HydrogenLevels | None:
        """Levels of the site's hydrogen; None without a tank."""
        return _levels(self, HydrogenLevels)

    def device_figures(self) -> Iterator[tuple[type[Device], dict[str, Any]]]:
        """Yield each kind of device that the site has, with its figures by name (`Device.figures`).

        Devices of kinds that are not installed are omitted.
        """
        own = {"battery": self.battery, "hydrogen": self.hydrogen}
        for section, levels in own.items():
            if levels is not None:
                yield KINDS[section], msgspec.structs.asdict(levels)
        for section, figures in self.devices.items():
            if (kind := kind_named(section)) is not None:
                yield kind, figures


def _levels(site: SitePart, kind: type[_Levels]) -> _Levels | None:
    """The fields of ``kind``, which a site has together, or none of them."""
    values = {name: getattr(site, name) for name in kind.__struct_fields__}
    return None if any(values[name] is None for name in _needed(kind)) else kind(**values)


def _needed(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a part of the site without a default, which a site has together."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    return names[: len(names) - len(defaults)]


class EnergyPart(_SummarySection):
    """Energies of the settled steps, kWh."""

    production: Annotated[Number, Meaning("kWh", "renewable energy produced")]
    consumed: Annotated[Number, Meaning("kWh", "energy of the servers")]
    """Energy of the servers as the simulator answered, kWh."""
    consumed_by_own_account: Number
    """Energy of the servers by the daemon's account, kWh: divided into ``finished_jobs`` to ``wasted``."""
    finished_jobs: Annotated[Number, Meaning("kWh", "of it, in jobs that finished")]
    other_jobs: Annotated[Number, Meaning("kWh", "in jobs that did not")]
    idle: Annotated[Number, Meaning("kWh", "in idle servers")]
    transitions: Annotated[Number, Meaning("kWh", "in servers falling asleep or waking")]
    sleeping: Annotated[Number, Meaning("kWh", "in sleeping servers")]
    wasted: Annotated[Number, Meaning("kWh", "all but `finished_jobs_kwh`")]
    charged: Annotated[Number, Meaning("kWh", "into the battery")]
    discharged: Annotated[Number, Meaning("kWh", "out of the battery")]
    electrolyzer: Annotated[Number, Meaning("kWh", "into hydrogen")]
    fuel_cell: Annotated[Number, Meaning("kWh", "out of hydrogen")]
    curtailed: Annotated[Number, Meaning("kWh", "production that nothing could take")]
    unserved: Annotated[Number, Meaning("kWh", "demand that nothing could serve")]
    base: Number | None = None
    """Energy of base load and services, kWh; like imports and exports, None without a grid and any load."""
    imported: Number | None = msgspec.field(default=None, name="import")
    """Energy from the grid, kWh."""
    exported: Number | None = msgspec.field(default=None, name="export")
    """Energy into the grid, kWh."""
    cooling: Number | None = None
    """Energy of the servers' cooling, kWh; None for a site without cooling."""
    grid_charged: Number | None = None
    """Part of ``charged`` that the grid charged, kWh; None if it does not charge the battery."""


class BatteryLifePart(_SummarySection):
    """Degradation of the battery, from new at the run's start; money in the site's currency."""

    chemistry: str
    """Name of the cells' chemistry, or ``data sheet``."""
    currency: str
    soh_final_pct: Annotated[
        Number, Meaning("%", "state of health of the battery at the end, new at the start")
    ]
    full_cycles: Annotated[Number, Meaning("cycles", "equivalent full cycles")]
    life_used_pct: Annotated[
        Number, Meaning("%", "share of the life until 80 % of the capacity that was used")
    ]
    years_to_80_pct: Annotated[Number | None, Meaning("years", "battery lifetime extrapolated from this run")]
    wear_cost: Annotated[Number | None, Meaning("currency", "share of the battery price consumed")]
    wear_cost_per_kwh: Annotated[
        Number | None, Meaning("currency/kWh", "cost of the wear over discharged energy")
    ]


class GridTerms(_SummarySection, kw_only=True):
    """Terms of grid and battery: for the perfect foresight of `compare` and `report`, and for `explain`."""

    capacity_j: Number
    min_j: Number
    max_j: Number
    start_j: Number
    charge_efficiency: Number
    drawn_per_delivered: Number
    """Joules taken from the cells per joule delivered."""
    self_discharge_per_day: Number
    charge_limit_w: Number | None = None
    """Largest power into the battery, W; None without a limit, like the others."""
    discharge_limit_w: Number | None = None
    may_export_w: Number | None = None
    net: bool = False
    """Whether exports earn the price of imports."""
    feed_in_per_kwh: Number = 0.0
    peak_per_kw: Number = 0.0
    """Price of the highest mean import of 15 minutes in a period; 0 without one."""
    peak_period: str | None = None
    peak_zone: str | None = None
    """Time zone of the months; None: the offset of the site's start."""
    window_s: Number
    rests_up_to_per_kwh: Number | None = None
    """Import price up to which the battery rests; None: it never does."""
    defended_w: Number | None = None
    """Import that the battery defends, W; None: none."""


class GridPart(_SummarySection):
    """Energy from and to the grid, and its cost in the site's currency."""

    currency: str
    import_limit_w: Number | None
    """Most power that the grid gives, W; None without a limit."""
    import_kwh: Annotated[Number, Meaning("kWh", "energy from the grid")]
    export_kwh: Annotated[Number, Meaning("kWh", "energy into the grid")]
    cost: Annotated[Number, Meaning("currency", "what the import cost")]
    """Cost of the import, that of its peak included."""
    export_revenue: Annotated[Number, Meaning("currency", "what the export earned")]
    """Revenue of the export, which is not subtracted from the cost."""
    carbon_kg: Annotated[
        Number | None, Meaning("kg", "carbon of the import; null where the intensity is unknown")
    ]
    green_kwh: Annotated[Number, Meaning("kWh", "renewable energy that was used")]
    green_share: Annotated[Number | None, Meaning("", "its share of the energy used, 0 to 1")]
    mean_import_price: Annotated[Number | None, Meaning("currency/kWh", "cost over import")]
    """Cost of the energy over the import, without the cost of its peak."""
    peak_import_w: Annotated[Number, Meaning("W", "largest import of a step")]
    peak_kw: Annotated[Number | None, Meaning("kW", "highest mean import of 15 minutes")] = None
    """Highest mean import of 15 minutes, kW; None where it has no price."""
    peak_cost: Annotated[Number | None, Meaning("currency", "part of `cost` for the peaks")] = None
    discharged_cost: Annotated[
        Number | None, Meaning("currency", "price, when charged, of the energy that the battery discharged")
    ] = None
    discharged_carbon_kg: Annotated[
        Number | None, Meaning("kg", "carbon, when charged, of the energy that the battery discharged")
    ] = None
    stored_cost: Annotated[
        Number | None, Meaning("currency", "price, when charged, of the energy in the battery at the end")
    ] = None
    stored_carbon_kg: Annotated[
        Number | None, Meaning("kg", "carbon, when charged, of the energy in the battery at the end")
    ] = None
    terms: GridTerms | None = None
    """Terms of a site with rules for the battery or a price of peaks; None for others."""


class EndValuePart(_SummarySection, kw_only=True):
    """Value of the battery's energy at the end, of a site with ``end_value_per_kwh``."""

    currency: str | None = None
    """Currency of the value, with a grid; None: values are kWh of finished jobs."""
    per_kwh: Number
    """Value of a kWh in the battery."""
    stored_kwh: Annotated[Number, Meaning("kWh", "energy in the battery at the end, less that at the start")]
    value: Annotated[Number, Meaning("", "its value: currency with a grid, else kWh of finished jobs")]
    net_cost: Annotated[
        Number | None, Meaning("currency", "cost of the import and its peaks, less this value")
    ] = None
    """Net cost less this value; None without a grid."""
    finished_kwh: Annotated[
        Number | None, Meaning("kWh", "energy of finished jobs, plus this value; null with a grid")
    ] = None


class PlannedEnergyPart(_SummarySection):
    """Planned values of the settled steps, kWh."""

    production: Annotated[Number, Meaning("kWh", "forecast production")]
    load: Annotated[Number, Meaning("kWh", "demand that the plan was made for")]
    servers: Annotated[Number, Meaning("kWh", "energy planned for the servers")]
    charged: Number
    discharged: Number
    curtailed: Number


class PlannedPart(_SummarySection):
    """Planned values of the settled steps, and of the levels at the end."""

    steps: Count
    """Number of settled steps that the plan has; where it has none, the fields with a default are None."""
    energy_kwh: PlannedEnergyPart
    soc_final_pct: Annotated[Number | None, Meaning("%", "planned value")] = None
    hydrogen_final_kg: Number | None = None
    relax_factor: Annotated[Number | None, Meaning("", "rf of the plan")] = None


class ReplanningPart(_SummarySection):
    """Plans that were made during the run: how many were asked for, and their outcomes."""

    every_steps: Count
    """Number of steps between two plans."""
    asked: Count
    made: Count
    failed: Count
    late: Count


class BudgetFigures(msgspec.Struct):
    """Section of a policy with an energy budget; see docs/reference/policies.md."""

    budget_j: Number | None
    """Energy budget, J; None without a limit."""
    used_j: Number | None
    """Energy used in the budget's period, J, as far as it was measured."""
    measured_to_the_end: bool = True
    share: Number | None = None
    """Energy used as a share of what all servers would use computing, 0 to 1."""
    excess_j: Number | None = None
    """Energy used beyond the budget, J."""


class RiskWindow(msgspec.Struct):
    """One window of a run with a promised risk."""

    start_s: Number
    level: Number
    """Level of the forecast's quantile that starts counted on."""
    killed: Count
    """Jobs killed for lack of energy."""
    below: Count
    """Steps that began with the battery below SoC_min."""

    @property
    def wrong(self) -> bool:
        """Whether the window was violated."""
        return self.killed > 0 or self.below > 0


class RiskFigures(msgspec.Struct):
    """Section of a policy with a risk limit (`policies.risk`)."""

    promised: Number
    """Share of windows that may be violated."""
    windows: list[RiskWindow]

    @property
    def wrong(self) -> int:
        """Number of violated windows."""
        return sum(window.wrong for window in self.windows)


class RunSummary(_SummarySection, kw_only=True):
    """The results of a run."""

    version: str
    complete: bool
    error: str | None
    """Reason why the run ended early; None where it did not."""
    settings: SettingsPart
    end_s: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)] | None, Meaning("s", "when the run ended")
    ]
    hosts: Annotated[int, msgspec.Meta(ge=0, le=MOST_HOSTS)] | None
    """Number of servers; None for a run that never began."""
    jobs: JobsPart
    reasons: dict[str, dict[str, Count]]
    """Number of jobs rejected, postponed and killed, by outcome and rule of the decision log."""
    killed_as_in_paper: Annotated[
        Count, Meaning("jobs", "killed, reached their walltime or still ran at the end")
    ]
    windows: list[dict[str, int]]
    """Outcomes so far at the end of each window except the last."""
    quality: QualityPart | None = None
    lost_servers: LostServersPart | None = None
    """Lost servers; None if every server was available all the time."""
    restarts: RestartsPart | None = None
    """Jobs that came back; None if killed jobs are lost."""
    deadlines: DueJobsPart | None = None
    """Deadlines kept and missed; None where no job had a deadline."""
    site: SitePart | None = None
    """Site of the run; like the sections up to ``replanning``, None where the run has none."""
    energy_kwh: EnergyPart | None = None
    battery_life: BatteryLifePart | None = None
    grid: GridPart | None = None
    end_value: EndValuePart | None = None
    planned: PlannedPart | None = None
    replanning: ReplanningPart | None = None
    words: dict[str, dict[str, tuple[str, ...]]] | None = None
    """Words for the rules of a user's policy (`engine.session_words.Words`), by action and rule."""
    warnings: list[str]
    by_policy: dict[str, Any] = {}
    """Sections that the policy added; they are in the file after the other sections, before the
    warnings."""
    unmade: tuple[str, ...] = ()
    """Names of the sections that could not be made."""

    @property
    def budget(self) -> BudgetFigures | None:
        """The section of a policy with an energy budget; None where there is none."""
        return self._of_policy("budget", BudgetFigures)

    @property
    def risk(self) -> RiskFigures | None:
        """The section of a policy with a promised risk; None where there is none."""
        return self._of_policy("risk", RiskFigures)

    def _of_policy(self, name: str, kind: type[_Section]) -> _Section | None:
        if name not in self.by_policy:
            return None
        try:
            return msgspec.convert(self.by_policy[name], kind)
        except msgspec.ValidationError:  # another policy's, which means something else by that name
            return None

    def to_builtins(self) -> dict[str, Any]:
        """Return the summary as its file has it, of dictionaries and lists."""
        parts: dict[str, Any] = msgspec.to_builtins(self)
        own = {
            name: {} if name in self.unmade else parts[name]
            for name in SECTIONS
            if name in parts or name in self.unmade
        }
        warnings = own.pop("warnings")
        return {**own, **self.by_policy, "warnings": warnings}

    def to_json(self, added: Mapping[str, object] | None = None) -> str:
        """Return the text of the file, without its last line end, with ``added`` members after its own."""
        return json.dumps({**self.to_builtins(), **(added or {})}, indent=2, allow_nan=False)


_APART: Final = ("by_policy", "unmade")
"""Fields that are in the file without their own name."""
SECTIONS: Final = tuple(name for name in RunSummary.__struct_fields__ if name not in _APART)
"""Names in the file that are the summary's own, in order; all others are sections of the policy."""
_NEEDED: Final = ("settings", "jobs", "quality", "warnings")
_MAY_BE_UNMADE: Final = (
    "quality",
    "lost_servers",
    "restarts",
    "deadlines",
    "site",
    "energy_kwh",
    "battery_life",
    "grid",
    "end_value",
    "planned",
    "replanning",
)


def read_summary(prefix: str) -> RunSummary:
    """Read the summary of a run. Raises InputError that names file and field, also where there is none."""
    path = path_of(prefix, SUMMARY)
    members = read_members(prefix)
    for part in _NEEDED:
        if part not in members:
            raise InputError(path, f"is not the summary of a run: it has no {part!r}")
    try:
        summary = summary_of(members)
    except Malformed as error:
        raise InputError(path, f"is not the summary of a run: {error}") from None
    if summary.site is not None:
        _check_site(path, summary.site)
    return summary


def found_summary(prefix: str) -> RunSummary | None:
    """Read the summary of a run, None where it has left none. Raises InputError."""
    return read_summary(prefix) if path_of(prefix, SUMMARY).is_file() else None


def read_members(prefix: str) -> dict[str, Any]:
    """Read the summary of a run as dictionaries and lists. Raises InputError."""
    path = path_of(prefix, SUMMARY)
    try:
        return JSON_OBJECT.decode(read_bytes(path))
    except Malformed as error:
        raise InputError(path, f"is not the summary of a run: {error}", line=error.line) from None


def summary_of(members: Mapping[str, Any]) -> RunSummary:
    """Return the summary that the members of its file make. Raises Malformed that names the field."""
    unmade = tuple(name for name in _MAY_BE_UNMADE if members.get(name) == {})
    own = {name: value for name, value in members.items() if name in SECTIONS and name not in unmade}
    summary = convert_json(own, RunSummary)
    summary.by_policy = {name: value for name, value in members.items() if name not in SECTIONS}
    summary.unmade = unmade
    return summary


def _check_site(path: PathLike, site: SitePart) -> None:
    """Raise InputError for what the types of the section do not check."""
    try:
        msgspec.convert(site.start, datetime | None)
    except msgspec.ValidationError:
        expected = "a time such as 2019-06-01T00:00:00+02:00"
        raise InputError(path, f"site.start: found {site.start!r}, expected {expected}") from None
    for kind in (BatteryLevels, HydrogenLevels):
        given = {name: getattr(site, name) for name in _needed(kind)}
        for name, value in given.items():
            if value is None and any(each is not None for each in given.values()):
                raise InputError(path, f"is not the summary of a run: site.{name}: is missing")


def value_at(summary: RunSummary | None, *place: str) -> Any:
    """Return a value by the names of its section and its field; None where there is none."""
    value: Any = summary
    for name in place:
        value = None if value is None else getattr(value, name)
    return value


def figures(*place: str) -> Iterator[tuple[str, Meaning, type]]:
    """Yield the name of each field of a section that is a figure, with its meaning and its type."""
    kind: Any = RunSummary
    for name in place:
        kind = next(option for option in _options(_hints(kind)[name]) if option is not type(None))
    for name, hint in _hints(kind).items():
        meanings = [each for each in get_args(hint) if isinstance(each, Meaning)]
        if meanings:
            yield name, meanings[0], int if int in _options(hint) else float


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _options(hint: Any) -> list[Any]:
    """The types that a field may have, without their meaning."""
    if hasattr(hint, "__metadata__"):
        return _options(hint.__origin__)
    return [each for option in get_args(hint) for each in _options(option)] or [hint]
