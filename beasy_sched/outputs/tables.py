"""Text tables: a run's summary, a plan's windows, and comparisons of policies."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import UNSET

from beasy_sched.formats.run_summary import (
    BatteryLifePart,
    BudgetFigures,
    DueJobsPart,
    EndValuePart,
    EnergyPart,
    GridPart,
    LostServersPart,
    PlannedPart,
    QualityPart,
    RestartsPart,
    RunSummary,
    SitePart,
    value_at,
)
from beasy_sched.outputs.reasons import reason_rows, words_in
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_HOUR, j_to_kwh

if TYPE_CHECKING:
    from beasy_sched.energy.devices.battery import BatterySpec
    from beasy_sched.planner.plan import Plan, PlanStore

Row = tuple[str, str]


def job_share_pct(jobs: Mapping[str, Any], outcome: str) -> float | None:
    """Return the percentage of submitted jobs with an outcome; None if no job was submitted.

    ``jobs`` are the counts of the summary's section of that name. In percentages, ``finished`` counts all
    jobs that ended on their own, with or without an error code; ``failed`` those with an error code.
    """
    if not jobs["submitted"]:
        return None
    count = jobs[outcome] + (jobs["failed"] if outcome == "finished" else 0)
    return float(100.0 * count / jobs["submitted"])


def summary_rows(summary: RunSummary) -> list[Row]:
    """Return the rows of the summary's table: label and value."""
    rows = [("policy", summary.settings.policy)]
    if summary.error:
        rows.append(("ended early", summary.error))
    rows += _job_rows(summary)
    if summary.quality is not None:
        rows += _quality_rows(summary.quality)
    if summary.restarts is not None:
        rows += _restart_rows(summary.restarts)
    if summary.lost_servers is not None:
        rows += _lost_rows(summary.lost_servers)
    if summary.deadlines is not None:
        rows += _deadline_rows(summary.deadlines)
    if summary.budget is not None:
        rows += _budget_rows(summary.budget)
    if (risk := summary.risk) is not None:
        promised = f"limit {100.0 * risk.promised:g} %"
        share = f"{risk.wrong:,} of {len(risk.windows):,} ({promised})"
        rows.append(("windows with an energy shortage", share))
    site, energy, grid = summary.site, summary.energy_kwh, summary.grid
    if site is not None and energy is not None:
        rows += _site_rows(site, energy, unlimited=grid is not None and grid.import_limit_w is None)
    if summary.battery_life is not None:
        rows += _life_rows(summary.battery_life)
    if summary.end_value is not None:
        rows += _end_value_rows(summary.end_value)
    if grid is not None:
        rows += _grid_rows(grid, None if energy is None else energy.grid_charged)
    if summary.planned is not None and site is not None and energy is not None:
        rows += _planned_rows(summary.planned, site, energy)
    if (replanning := summary.replanning) is not None:
        rows.append(("plans made during the run", f"{replanning.made:,} of {replanning.asked:,}"))
        others = {"failed": replanning.failed, "late": replanning.late}
        rows += [(f"  {why}", f"{count:,}") for why, count in others.items() if count]
    return rows


def _quality_rows(quality: QualityPart) -> Iterator[Row]:
    """Yield waiting times and use of the servers."""
    if quality.waiting_s_mean is not None:
        yield "mean waiting time", f"{quality.waiting_s_mean:,.1f} s"
        mean, median = quality.bounded_slowdown_mean, quality.bounded_slowdown_p50
        yield "bounded slowdown, mean / median", f"{mean:.2f} / {median:.2f}"
    if quality.utilization is not None:
        yield "utilization", f"{100 * quality.utilization:.2f} %"
    if quality.server_switches:
        yield "servers put to sleep or woken", f"{quality.server_switches:,} times"


def _restart_rows(restarts: RestartsPart) -> Iterator[Row]:
    """Yield numbers of jobs that came back, and the energy of work that was done again."""
    yield "jobs that came back", f"{restarts.jobs:,} ({restarts.count:,} times)"
    if restarts.checkpoints:
        yield "  checkpoints written", f"{restarts.checkpoints:,}"
    for label, kwh in (
        ("work redone", restarts.redone_kwh),
        ("work saved", restarts.saved_kwh),
        ("checkpoints", restarts.checkpoints_kwh),
    ):
        if kwh is not None:
            yield f"  {label}", f"{kwh:,.2f} kWh"


def _lost_rows(lost: LostServersPart) -> Iterator[Row]:
    """Yield numbers of unavailable servers, and of their failures."""
    yield "servers that failed", f"{lost.servers:,}"
    if lost.failed_wakes:
        yield "  failed to wake", f"{lost.failed_wakes:,} times"
    if lost.breakdowns:
        yield "  went out of service", f"{lost.breakdowns:,} times"
    if lost.missing:
        yield "  unavailable at the end", f"{lost.missing:,}"


def _deadline_rows(deadlines: DueJobsPart) -> Iterator[Row]:
    """Yield the numbers of jobs and workflows that met their deadlines."""
    counts = msgspec.structs.asdict(deadlines)
    for what in ("jobs", "workflows"):
        if counts[what]:
            yield f"{what} that met their deadline", f"{counts[f'{what}_met']:,} of {counts[what]:,}"
            for outcome in ("missed", "refused"):
                if count := counts[f"{what}_{outcome}"]:
                    yield f"  {outcome}", f"{count:,}"
    if deadlines.lateness_s_max:
        yield "  late by at most", f"{deadlines.lateness_s_max / SECONDS_PER_HOUR:,.2f} h"


def _budget_rows(budget: BudgetFigures) -> list[Row]:
    """Return the policy's energy budget, and its use."""
    share = "" if budget.share is None else f" ({100 * budget.share:g} %)"
    given_j, used_j = budget.budget_j, budget.used_j
    rows = [("energy budget", "none" if given_j is None else f"{given_j / JOULES_PER_KWH:,.2f} kWh{share}")]
    if used_j is not None:
        until = "" if budget.measured_to_the_end else ", up to the end of the run"
        rows.append(("  used in its period", f"{used_j / JOULES_PER_KWH:,.2f} kWh{until}"))
    if budget.excess_j:
        rows.append(("  more than the budget", f"{budget.excess_j / JOULES_PER_KWH:,.2f} kWh"))
    return rows


def _planned_rows(planned: PlannedPart, site: SitePart, energy: EnergyPart) -> list[Row]:
    """Return planned and actual values."""
    if not planned.steps:
        return [("planned", "no plan for the time of this run")]
    plan = planned.energy_kwh
    pairs = {
        "planned / actual: production": (plan.production, energy.production),
        "  servers": (plan.servers, energy.consumed),
        "  curtailed": (plan.curtailed, energy.curtailed),
    }
    rows = [(label, f"{before:,.2f} / {real:,.2f} kWh") for label, (before, real) in pairs.items()]
    if site.battery is not None:
        soc_pct = f"{planned.soc_final_pct:.2f} / {site.battery.soc_final_pct:.2f} %"
        rows.append(("  final state of charge", soc_pct))
    if site.hydrogen is not None:
        real_kg = site.hydrogen.hydrogen_final_kg
        rows.append(("  final hydrogen", f"{planned.hydrogen_final_kg:.3f} / {real_kg:.3f} kg"))
    return rows


def _job_rows(summary: RunSummary) -> list[Row]:
    jobs, own = summary.jobs.counts(), words_in(summary)
    rows = [("jobs submitted", f"{jobs['submitted']:,}")]
    for name, count in jobs.items():
        if name != "submitted" and (count or name in ("finished", "postponed", "killed")):
            shown = count + jobs["failed"] if name == "finished" else count
            pct = job_share_pct(jobs, name)
            label = "  of these, with an error code" if name == "failed" else name.replace("_", " ")
            rows.append((f"  {label}", f"{shown:,}" + ("" if pct is None else f" ({pct:.2f} %)")))
            rows += reason_rows(name, summary.reasons.get(name, {}), summary.hosts, own)
    return rows


def _site_rows(site: SitePart, energy: EnergyPart, *, unlimited: bool) -> list[Row]:
    """``unlimited``: a grid without a limit covers any demand, so that the guard is not needed."""
    guard = f"{site.guard}, {'with' if site.veto else 'without'} veto"
    rows = [("guard", "not needed: the grid has no limit" if unlimited else guard)]
    for kind, figures in site.device_figures():
        rows += kind.summary_rows(figures)
    energies_kwh = {
        "energy produced": energy.production,
        "energy consumed": energy.consumed,
        "  by jobs that finished": energy.finished_jobs,
        "  wasted (not by finished jobs)": energy.wasted,
        "energy curtailed": energy.curtailed,
        "energy unserved": energy.unserved,
    }
    rows += [(label, f"{kwh:,.2f} kWh") for label, kwh in energies_kwh.items()]
    if energy.cooling is not None:
        mean = "" if site.pue_mean is None else f", mean PUE {site.pue_mean:.3f}"
        rows.append(("energy of cooling", f"{energy.cooling:,.2f} kWh{mean}"))
    return rows


def _life_rows(life: BatteryLifePart) -> Iterator[Row]:
    """Yield battery ageing and its cost."""
    yield "battery's state of health at the end", f"{life.soh_final_pct:.3f} %"
    if life.years_to_80_pct is not None:
        yield "  years until 80 % if this run repeats", f"{life.years_to_80_pct:,.1f}"
    if life.wear_cost is not None:
        yield "  battery degradation cost", f"{life.wear_cost:,.2f} {life.currency}"
    if life.wear_cost_per_kwh is not None:
        yield "  per kWh discharged", f"{life.wear_cost_per_kwh:.4f} {life.currency}"


def _end_value_rows(value: EndValuePart) -> Iterator[Row]:
    """Yield the energy that the run added to the battery, its value, and the figure that includes it."""
    yield "battery: energy at the end less at the start", f"{value.stored_kwh:+,.2f} kWh"
    unit = value.currency or "kWh of finished jobs"
    yield "  worth", f"{value.value:+,.2f} {unit}"
    if value.net_cost is not None:
        yield "  cost of the import less this", f"{value.net_cost:,.2f} {unit}"
    if value.finished_kwh is not None:
        yield "  energy of finished jobs plus this", f"{value.finished_kwh:,.2f} kWh"


def _grid_rows(grid: GridPart, charged_kwh: float | None) -> list[Row]:
    """Return grid import, its cost, and the green share of the load.

    ``charged_kwh``: energy of the grid into the battery; None if it does not charge it.
    """
    money = grid.currency
    rows = [("energy imported", f"{grid.import_kwh:,.2f} kWh")]
    rows.append(("  cost", f"{grid.cost:,.2f} {money}"))
    if grid.peak_kw is not None:
        rows.append(("  of it, for the highest 15 minutes", f"{grid.peak_cost:,.2f} {money}"))
        rows.append(("  highest mean of 15 minutes", f"{grid.peak_kw:,.2f} kW"))
    if grid.carbon_kg is not None:
        rows.append(("  carbon", f"{grid.carbon_kg:,.2f} kg"))
    rows.append(("  highest power", f"{grid.peak_import_w / 1e3:,.2f} kW"))
    if charged_kwh is not None:
        rows.append(("  into the battery", f"{charged_kwh:,.2f} kWh"))
    if grid.discharged_cost is not None:
        rows.append(("  price of what it discharged", f"{grid.discharged_cost:,.2f} {money}"))
    if grid.discharged_carbon_kg is not None:
        rows.append(("  carbon of what it discharged", f"{grid.discharged_carbon_kg:,.2f} kg"))
    if grid.export_kwh:
        earned = f" ({grid.export_revenue:,.2f} {money})"
        rows.append(("energy exported", f"{grid.export_kwh:,.2f} kWh{earned}"))
    share = "" if grid.green_share is None else f" ({100 * grid.green_share:.2f} % of the load)"
    return [*rows, ("green energy used", f"{grid.green_kwh:,.2f} kWh{share}")]


def print_summary(summary: RunSummary) -> None:
    """Print a run's table on standard output."""
    print_rows(summary_rows(summary))


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table of two columns on standard output: in a frame on a terminal, plain text elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        sys.stdout.write(f"{name:<{width}}  {value}".rstrip() + "\n")
    sys.stdout.flush()


def plan_kwh(plan: Plan) -> dict[str, float]:
    """Energies of one window (kWh); ``served`` is the demand covered by the envelope."""
    power = plan.power
    powers_w = {
        "demand": power.load_w,
        "served": np.minimum(power.load_w, power.envelope_w),
        "production": power.renew_w,
        "curtailed": power.curtailed_w,
        "charged": power.charge_w,
        "discharged": power.discharge_w,
        "electrolyzer": power.electrolyzer_w,
        "fuel_cell": power.fuel_cell_w,
        "envelope": power.envelope_w,
    }
    if power.import_w is not UNSET:
        powers_w["import"] = power.import_w
    kwh = {name: j_to_kwh(float(steps_w.sum()) * plan.step_s) for name, steps_w in powers_w.items()}
    return {**kwh, "servers": j_to_kwh(float(plan.servers.energy_j.sum())) if plan.servers else 0.0}


def plan_rows(plans: PlanStore) -> Iterator[Row]:
    """Yield the rows of all windows, label and value; with several windows, each begins with a title row."""
    for window, plan in enumerate(plans):
        if len(plans) > 1:
            yield f"window {window}", ""
        yield from _window_rows(plan)


def _window_rows(plan: Plan) -> Iterator[Row]:
    power, storage, soc_pct, kwh = plan.power, plan.storage, plan.soc_pct, plan_kwh(plan)
    hours = plan.steps * plan.step_s / 3600.0
    yield "hours", f"{plan.start_s / 3600.0:g} to {plan.end_s / 3600.0:g}, {plan.steps} steps ({hours:g} h)"
    yield "relax factor rf", f"{power.relax_factor:.4f}"
    yield "demand", f"{kwh['demand']:,.2f} kWh"
    if kwh["demand"] > 0:
        unmet_kwh = kwh["demand"] - kwh["served"]
        yield "  not met", f"{unmet_kwh:,.2f} kWh ({100 * unmet_kwh / kwh['demand']:.2f} %)"
    surplus = plan.provenance.settings.get("surplus")
    use = f" (surplus: {surplus})" if surplus else ""
    yield "envelope of the servers", f"{kwh['envelope']:,.2f} kWh{use}"
    yield "  from solar and wind", f"{kwh['production']:,.2f} kWh"
    yield "  from the battery", f"{kwh['discharged']:,.2f} kWh"
    yield "  into the battery", _taken(kwh["charged"])
    for device in storage.other_devices:
        flows = power.flows_of(device)
        into_kwh, out_kwh = (j_to_kwh(float(w.sum()) * plan.step_s) for w in (flows.in_w, flows.out_w))
        yield f"  from {device.title}", f"{out_kwh:,.2f} kWh"
        yield f"  into {device.title}", _taken(into_kwh)
    if "import" in kwh:
        yield "  from the grid", f"{kwh['import']:,.2f} kWh"
    if power.base_w is not UNSET:
        base_kwh = j_to_kwh(power.base_w * plan.step_s * plan.steps)
        yield "  for the base load", _taken(base_kwh)
    if power.services_w is not UNSET:
        yield "  for services", _taken(j_to_kwh(float(power.services_w.sum()) * plan.step_s))
    if power.pue is not UNSET:
        cooling_w = power.envelope_w * (power.pue - 1.0)
        yield "  for cooling, at most", _taken(j_to_kwh(float(cooling_w.sum()) * plan.step_s))
    if storage.hydrogen is not None:
        yield "  from the fuel cell", f"{kwh['fuel_cell']:,.2f} kWh"
        yield "  into the electrolyzer", _taken(kwh["electrolyzer"])
    yield "  curtailed", _taken(kwh["curtailed"])
    if storage.battery.exists:
        start_pct, end_pct = float(soc_pct[0]), float(soc_pct[-1])
        yield "state of charge: start, lowest, end", f"{start_pct:.2f}, {soc_pct.min():.2f}, {end_pct:.2f} %"
        yield "  target", _battery_target(storage.battery, end_pct)
    if storage.hydrogen is not None:
        start_kg, end_kg = float(power.hydrogen_kg[0]), float(power.hydrogen_kg[-1])
        yield "hydrogen: start, end", f"{start_kg:.3f}, {end_kg:.3f} kg"
        yield "  target", _target(end_kg, storage.hydrogen.level_target_kg, 3, "kg", "kg")
    for device in storage.other_devices:
        levels = (device.shown(power.flows_of(device).level[at]) for at in (0, -1))
        yield f"{device.title}: start, end", ", ".join(map(device.level_text, map(float, levels)))
        yield "  target", device.level_text(device.shown(device.target))
    servers = plan.servers
    if servers is not None and (count := servers.asleep.shape[1]):
        woken = (servers.asleep[:-1] & ~servers.asleep[1:]).sum()
        yield "servers on, mean", f"{servers.on_count.mean():,.1f} of {count:,}"
        yield "  woken", f"{woken:,} times"
        yield "  maximum energy", f"{kwh['servers']:,.2f} kWh"
    if (rolled := plan.provenance.rolled) is not UNSET:
        jobs = f"{rolled.jobs_running:,} jobs running, {rolled.jobs_waiting:,} waiting"
        yield (
            "made during the run",
            f"plan {rolled.number}, requested at {rolled.asked_s / 3600.0:g} h; {jobs}",
        )
        level = [f"{storage.battery.soc_pct(rolled.battery_j):.2f} %"] if storage.battery.exists else []
        level += [f"{rolled.hydrogen_kg:.3f} kg of hydrogen"] if storage.hydrogen is not None else []
        yield "  from", ", ".join(level)
        yield "  production", rolled.production
    for solved in plan.provenance.solved:
        note = f"; {solved.message}" if solved.message else ""
        yield solved.name, f"{solved.status}, gap {100 * solved.gap:.3g} %{note}"


def _target(end: float, target: float, digits: int, unit: str, apart_unit: str) -> str:
    """Format a target, and whether the plan ends at it or above."""
    if end >= target - 0.5 * 10.0**-digits:
        return f"{target:.{digits}f} {unit}, met"
    return f"{target:.{digits}f} {unit}, missed by {target - end:.{digits}f} {apart_unit}"


def _battery_target(battery: BatterySpec, end_pct: float) -> str:
    """Format the battery's target, with its band if it has one, and whether the plan meets it."""
    if battery.target_band_pct is UNSET:
        return _target(end_pct, battery.soc_target_pct, 2, "%", "points")
    missed = round(-battery.off_target_points(end_pct), 2)
    met = f"missed by {missed:.2f} points" if missed > 0.0 else "met"
    return f"{battery.soc_target_pct:.2f} ± {battery.target_band_pct:g} %, {met}"


def _taken(energy_kwh: float) -> str:
    """Format energy that leaves the envelope, with its sign; no minus before 0.00."""
    return f"{-energy_kwh if energy_kwh >= 0.005 else 0.0:,.2f} kWh"


@dataclass(frozen=True)
class Column:
    """Figure of a run's summary."""

    name: str
    """Name of the figure in files, with its unit."""
    heading: tuple[str, str]
    """Heading of the column in a terminal table, in two lines; the unit is below them."""
    title: str
    """Full name of the figure."""
    unit: str
    part: str
    """Section of the summary that has the figure."""
    field: str
    """Name of the figure in its section; in ``jobs`` a number of jobs, shown as a share of submitted ones."""
    digits: int = 1
    signed: bool = False
    where_any: bool = False
    """Whether the column is only shown if a run has a value other than 0."""
    where_known: bool = False
    """Whether the column is only shown if a run has this figure, such as that of a battery."""
    scale: float = 1.0
    """Factor applied to the summary's figure."""

    def value(self, summary: RunSummary) -> float | None:
        """Return the figure of a summary; None if it has no such figure."""
        if self.part == "jobs":
            return job_share_pct(summary.jobs.counts(), self.field)
        value = value_at(summary, self.part, self.field)
        return None if value is None else self.scale * float(value)

    def unit_in(self, summaries: Sequence[RunSummary]) -> str:
        """Return the figure's unit in these runs: for a cost, the currencies of their sites."""
        if self.unit != _CURRENCY:
            return self.unit
        currencies = (value_at(each, self.part, "currency") for each in summaries)
        return "/".join(dict.fromkeys(each for each in currencies if each is not None))

    def shown(self, summaries: Sequence[RunSummary]) -> bool:
        """Whether a table of ``runs`` has the column."""
        if self.where_any:
            return any(round(self.value(summary) or 0.0, 2) for summary in summaries)
        return not self.where_known or any(self.value(summary) is not None for summary in summaries)

    def text(self, summary: RunSummary, digits: int | None = None) -> str:
        """Format the figure for a table; ``-`` if there is none."""
        value = self.value(summary)
        return "-" if value is None else self.shown_value(value, digits)

    def shown_value(self, value: float, digits: int | None = None) -> str:
        """Format a figure for a table."""
        places = digits if digits is not None and self.digits else self.digits
        shown = round(value, places) + 0.0  # never -0.0
        return f"{shown:+,.{places}f}" if self.signed else f"{shown:,.{places}f}"


_CURRENCY = "currency"
"""Placeholder for the currency of the site."""

COMPARISON_COLUMNS = (
    Column("finished_pct", ("fin-", "ished"), "finished", "%", "jobs", "finished"),
    Column("postponed_pct", ("post-", "poned"), "postponed", "%", "jobs", "postponed"),
    Column("reached_walltime_pct", ("wall-", "time"), "reached walltime", "%", "jobs", "reached_walltime"),
    Column("not_completely_finished_pct", ("not", "done"), "not completely finished", "%",
           "jobs", "not_completely_finished"),
    Column("killed_pct", ("", "killed"), "killed", "%", "jobs", "killed"),
    Column("failed_pct", ("of it", "failed"), "failed", "%", "jobs", "failed", where_any=True),
    Column("rejected_pct", ("re-", "jected"), "rejected", "%", "jobs", "rejected", where_any=True),
    Column("soc_final_pct", ("final", "SoC"), "final SoC", "%", "site", "soc_final_pct",
           where_known=True),
    Column("soc_distance_points", ("off", "target"), "final SoC, off target", "points",
           "site", "soc_distance_points", signed=True, where_known=True),
    Column("wasted_kwh", ("", "wasted"), "wasted energy", "kWh", "energy_kwh", "wasted"),
    Column("redone_kwh", ("re-", "done"), "work redone", "kWh", "restarts", "redone_kwh",
           where_known=True),
    Column("curtailed_kwh", ("cur-", "tailed"), "curtailed energy", "kWh",
           "energy_kwh", "curtailed"),
    Column("unserved_kwh", ("un-", "served"), "unserved energy", "kWh", "energy_kwh", "unserved",
           where_any=True),
    Column("cost", ("", "cost"), "cost of the imported energy", _CURRENCY, "grid", "cost", digits=2,
           where_known=True),
    Column("net_cost", ("net", "cost"), "cost minus the value of the charge left", _CURRENCY, "end_value",
           "net_cost", digits=2, where_known=True),
    Column("finished_with_end_value_kwh", ("done", "+ left"), "finished jobs plus value of the charge left",
           "kWh", "end_value", "finished_kwh", where_known=True),
    Column("carbon_kg", ("", "CO2"), "carbon of the imported energy", "kg", "grid", "carbon_kg",
           where_known=True),
    Column("green_share_pct", ("", "green"), "green share of the load", "%", "grid", "green_share",
           where_known=True, scale=100.0),
    Column("battery_years_to_80_pct", ("years", "to 80 %"), "years until 80 % battery health", "",
           "battery_life", "years_to_80_pct", where_known=True),
    Column("battery_wear_cost", ("", "wear"), "battery degradation cost", _CURRENCY, "battery_life",
           "wear_cost", digits=2, where_known=True),
    Column("deadlines_missed", ("missed", "deadl."), "deadlines missed", "jobs", "deadlines", "jobs_missed",
           digits=0, where_known=True),
    Column("bounded_slowdown_mean", ("slow-", "down"), "bounded slowdown, mean", "",
           "quality", "bounded_slowdown_mean", digits=2),
)  # fmt: skip
"""Figures by which policies are compared; jobs in percent of those submitted."""


@dataclass(frozen=True)
class Contender:
    """Policy with the result of its run."""

    policy: str
    summary: RunSummary | None = None
    """Summary of the run; None if it has not written one."""
    failure: str | None = None
    """Reason why the run failed; None if it did not fail."""

    @property
    def problem(self) -> str | None:
        """Reason why a run has no figures to compare: it failed or ended early; None if complete."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if self.summary is None:
            return "failed: no summary was written"
        if not self.summary.complete:
            return f"ended early: {self.summary.error or 'not complete'}"
        return None


def shown_columns(contenders: Sequence[Contender]) -> list[Column]:
    """Return the columns for these runs, without those that are empty or only 0."""
    summaries = _complete(contenders)
    return [column for column in COMPARISON_COLUMNS if column.shown(summaries)]


def comparison_lines(contenders: Sequence[Contender], width: int = 100) -> list[str]:
    """Return the table as lines of plain text: names, units, one row per contender.

    Columns are separated by two blanks, or one if necessary for ``width``. If that does not fit, outcomes
    that no job had are omitted.
    """
    columns, summaries = shown_columns(contenders), _complete(contenders)
    lines = _comparison(contenders, columns, width)
    if max(map(len, lines)) > width:
        ended = [c for c in columns if c.part != "jobs" or any(c.value(summary) for summary in summaries)]
        lines = _comparison(contenders, ended, width)
    return lines


def _comparison(contenders: Sequence[Contender], columns: Sequence[Column], width: int) -> list[str]:
    """Return the table with these columns."""
    head = _heading(columns, _complete(contenders))
    rows = [_cells(contender, columns) for contender in contenders]
    whole = [*head, *(row for row in rows if len(row) > 2)]
    widths = widths_of(whole)
    widths[0] = max(len(row[0]) for row in (*head, *rows))
    gap = "  " if sum(widths) + 2 * len(columns) <= width else " "
    return [_line(row, widths, gap, width) for row in (*head, *rows)]


def _heading(columns: Sequence[Column], summaries: Sequence[RunSummary]) -> list[list[str]]:
    """Return the lines above the rows: the names of the columns in two lines, and their units."""
    units = [column.unit_in(summaries) for column in columns]
    return [
        ["", *(column.heading[0] for column in columns)],
        ["policy", *(column.heading[1] for column in columns)],
        ["", *("pts" if unit == "points" else unit for unit in units)],
    ]


class GrowingTable:
    """Comparison whose rows are printed as policies end; the columns are those of the first complete run."""

    def __init__(self, policies: Sequence[str], width: int = 100) -> None:
        """``policies`` are the labels of all rows; lines are at most ``width`` long, if possible."""
        self._name = max(len(name) for name in ("policy", *policies))
        self._width = width
        self._columns: list[Column] = []
        self._widths = [self._name, 0, 0]
        self._gap = "  "

    def lines(self, contender: Contender, last: str = "") -> list[str]:
        """Return the row of a policy that has ended, below the heading if it is the first with figures.

        ``last`` is added to the row.
        """
        heading = []
        if contender.problem is None and contender.summary is not None and not self._columns:
            heading = self._begin([contender.summary])
        row = _line(_cells(contender, self._columns), self._widths, self._gap, self._width)
        return [*heading, row + (self._gap + last if last else "")]

    def _begin(self, summaries: Sequence[RunSummary]) -> list[str]:
        """Choose the columns; return the heading."""
        columns = [column for column in COMPARISON_COLUMNS if column.shown(summaries)]
        short = [c for c in columns if c.part != "jobs" or c.field in ("finished", "killed")]
        for self._columns, self._gap in ((columns, "  "), (columns, " "), (short, "  "), (short, " ")):
            head = _heading(self._columns, summaries)
            self._widths = [self._name, *(max(w, _LONGEST_FIGURE) for w in widths_of(head)[1:])]
            lines = [_line(row, self._widths, self._gap, self._width) for row in head]
            if max(map(len, lines)) + _LONGEST_LAST <= self._width:
                break
        return lines


_LONGEST_LAST: Final = 10
"""Room for what is added to a row of a growing table, and for a figure that is longer than usual."""
_LONGEST_FIGURE: Final = 5
"""Number of characters for which a growing table leaves room in each column."""


def comparison_markdown(contenders: Sequence[Contender]) -> str:
    """Return the table in Markdown, percentages with two digits."""
    columns = shown_columns(contenders)
    units = [column.unit_in(_complete(contenders)) for column in columns]
    names = [f"{c.title} ({unit})" if unit else c.title for c, unit in zip(columns, units, strict=True)]
    lines = [["policy", *names], ["---", *["---:"] * len(columns)]]
    for contender in contenders:
        cells = _cells(contender, columns, digits=2)
        lines.append([*cells, *[""] * (len(columns) + 1 - len(cells))])
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def conditions(contenders: Sequence[Contender]) -> list[str]:
    """List the conditions of the runs that change results: jobs, servers, the site's guard and target."""
    texts: dict[str, None] = {}  # ordered, each once
    for summary in _complete(contenders):
        texts[f"{summary.jobs.submitted:,} jobs on {summary.hosts:,} servers"] = None
        if (site := summary.site) is not None:
            veto = "with" if site.veto else "without"
            texts[f"guard {site.guard}, {veto} veto"] = None
            if summary.grid is not None:
                texts["the grid covers the remaining demand"] = None
            if (battery := site.battery) is not None:
                start, target, band = battery.soc_start_pct, battery.soc_target_pct, battery.target_band_pct
                within = f" ± {band:g}" if band else ""
                texts[f"battery from {start:g} % to a target of {target:g}{within} %"] = None
            if (value := summary.end_value) is not None:
                unit = "kWh of finished jobs" if value.currency is None else value.currency
                texts[f"a kWh left in the battery is worth {value.per_kwh:g} {unit}"] = None
    return list(texts)


def own_warnings(contenders: Sequence[Contender]) -> list[tuple[str, str]]:
    """List the warnings that not all runs have, each with the label of its policy."""
    runs = {each.policy: each.summary.warnings for each in contenders if each.summary is not None}
    return [
        (label, text)
        for label, warnings in runs.items()
        for text in warnings
        if not all(text in others for others in runs.values())
    ]


def main_rows(summary: RunSummary) -> list[Row]:
    """Return the rows of a short table of one run: its state and levels, and the compared figures."""
    problem = Contender("", summary).problem
    rows = [("policy", summary.settings.policy)]
    if problem is not None:
        rows.append(("problem", problem))
    rows.append(("jobs", f"{summary.jobs.submitted:,}"))
    for column in COMPARISON_COLUMNS:
        if column.name == "soc_final_pct":
            rows += _level_rows(summary.site)
            continue
        value = column.value(summary) if column.shown([summary]) else None
        if value is not None and (value or column.part != "jobs" or column.field in ("finished", "killed")):
            rows.append((column.title, f"{column.text(summary)} {column.unit_in([summary])}".rstrip()))
    return rows


def _level_rows(site: SitePart | None) -> list[Row]:
    battery = None if site is None else site.battery
    if battery is None:
        return []
    levels = (battery.soc_start_pct, battery.soc_lowest_pct, battery.soc_final_pct)
    return [("state of charge: start, lowest, final", f"{', '.join(f'{pct:.1f}' for pct in levels)} %")]


def _complete(contenders: Sequence[Contender]) -> list[RunSummary]:
    return [c.summary for c in contenders if c.summary is not None and c.problem is None]


def _cells(contender: Contender, columns: Sequence[Column], digits: int | None = None) -> list[str]:
    """Return a row's cells; only two, policy and problem, if there is a problem."""
    if contender.problem is not None or contender.summary is None:
        return [contender.policy, " ".join((contender.problem or "").split())]
    return [contender.policy, *(column.text(contender.summary, digits) for column in columns)]


def _line(row: Sequence[str], widths: Sequence[int], gap: str, width: int) -> str:
    name = row[0].ljust(widths[0])
    if len(row) == 2 < len(widths):
        return (
            name + gap + textwrap.shorten(row[1], max(width - widths[0] - len(gap), 20), placeholder=" ...")
        )
    return aligned(row, widths, gap)


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column of a table."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(row: Sequence[str], widths: Sequence[int], gap: str = "  ") -> str:
    """Return a line of a table: the first cell aligned left, the others right."""
    cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return gap.join([row[0].ljust(widths[0]), *cells]).rstrip()
