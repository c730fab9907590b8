"""Creation of a run's `RunSummary`, the source of its summary file and of the terminal's table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from beasy_sched._version import __version__
from beasy_sched.energy.balance import StepRecord
from beasy_sched.energy.battery_contents import BatteryContents
from beasy_sched.energy.battery_life import BatteryLife
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.grid import Export, Grid
from beasy_sched.energy.site import Site
from beasy_sched.engine import Session
from beasy_sched.engine.account import SessionAccount
from beasy_sched.engine.lives import Lives
from beasy_sched.engine.policy import Policy
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.errors import BeasyError, Failures, PolicyError
from beasy_sched.formats.run_summary import (
    SECTIONS,
    BatteryLifePart,
    EndValuePart,
    EnergyPart,
    GridPart,
    GridTerms,
    JobsPart,
    LostServersPart,
    PlannedEnergyPart,
    PlannedPart,
    QualityPart,
    RestartsPart,
    RunSummary,
    SettingsPart,
    SitePart,
)
from beasy_sched.model.host_states import USES
from beasy_sched.model.jobs import JobState, RestartEnergies
from beasy_sched.outputs.deadline_table import deadlines_part
from beasy_sched.outputs.plan_files import replanning_part
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.registry import own_words
from beasy_sched.run.settings import RunSettings
from beasy_sched.units import j_to_kwh, w_to_kw

LOST = (JobState.KILLED, JobState.WALLTIME_REACHED, JobState.UNFINISHED)
"""Outcomes counted as killed in the BEASY paper's tables."""
DONE = (JobState.FINISHED, JobState.FAILED)
"""Final states of jobs whose energy is not wasted."""
_ACCOUNTS_APART = 0.01
"""Maximum relative difference of the daemon's own account from the metered energy without a warning."""


def summarize(
    session: Session, settings: RunSettings, error: str | None = None, failures: Failures | None = None
) -> RunSummary:
    """Return the results of a run; ``error`` is the reason if it ended early.

    A section that cannot be made is missing, and an infinite number is None; both are reported to
    ``failures`` and in the summary's warnings.
    """
    failures = Failures() if failures is None else failures
    before = len(failures.all)
    account = session.account()
    summary = _head(account, settings, error, failures)
    for name, make in _sections(account).items():
        _add_section(summary, name, make, failures)
    with failures.noted("the policy's results"):
        summary.by_policy = _policy_part(session, failures)
    with failures.noted("the policy's words"):
        summary.words = _words(session.policy)
    new_failures = [str(failure) for failure in failures.all[before:]]
    apart = _accounts_apart(account.power) if account.power else ()
    summary.warnings = [*dict.fromkeys((*session.warnings, *apart, *new_failures))]
    return summary


def brief_summary(session: Session, settings: RunSettings, error: str) -> RunSummary:
    """Return the parts of a summary that are quick to compute: settings, jobs and their quality."""
    failures = Failures()
    account = session.account()
    summary = _head(account, settings, error, failures)
    _add_section(summary, "quality", lambda: _quality_part(account), failures)
    summary.warnings = [*dict.fromkeys((*account.warnings, *map(str, failures.all)))]
    return summary


def _head(
    account: SessionAccount, settings: RunSettings, error: str | None, failures: Failures
) -> RunSummary:
    """Return a summary with settings and jobs."""
    counts = account.outcomes.counts()
    options, wrong = _plain(settings.options, "settings.options")
    if wrong:
        failures.all.append(BeasyError(f"the summary's section 'settings': {wrong[0]}"))
    return RunSummary(
        version=__version__,
        complete=error is None and account.ended,
        error=error,
        settings=SettingsPart(
            policy=settings.policy,
            options=options,
            site=None if settings.site is None else settings.site_name,
            plan=settings.plan,
            forecast=settings.forecast,
            replan=None if settings.replan is None else msgspec.to_builtins(settings.replan),
            windows=settings.windows if account.power else None,
            energy=(account.power or settings).energy.value,
            power_actions=settings.power_actions,
            retry_s=None if settings.retry_s is UNSET else settings.retry_s,
            placement=None if settings.placement is UNSET else settings.placement.value,
            on_kill=None if settings.on_kill is UNSET else settings.on_kill.value,
        ),
        end_s=account.now_s if np.isfinite(account.now_s) else None,
        hosts=account.hosts if account.begun else None,
        jobs=JobsPart(
            submitted=account.submitted,
            **{name.replace(" ", "_"): count for name, count in counts.items()},
            still_waiting=account.waiting,
            still_running=len(account.running),
        ),
        reasons={state.value: dict(rules.most_common()) for state, rules in account.reasons.items() if rules},
        killed_as_in_paper=sum(counts[state.value] for state in LOST),
        windows=[dict(each) for each in account.windows],
        warnings=[],
    )


def _sections(account: SessionAccount) -> dict[str, Callable[[], msgspec.Struct]]:
    """Return the function that makes each section of this run, by its field."""
    sections: dict[str, Callable[[], msgspec.Struct]] = {"quality": lambda: _quality_part(account)}
    if (lost := account.lost).servers:
        sections["lost_servers"] = lambda: LostServersPart(
            lost.servers, lost.failed_wakes, lost.breakdowns, lost.missing
        )
    if (lives := account.lives).is_on:
        sections["restarts"] = lambda: _restarts_part(account, lives)
    if jobs := account.with_deadline:
        sections["deadlines"] = lambda: deadlines_part(jobs)
    power = account.power
    if power is not None:
        sections["site"] = lambda: _site_part(power)
        sections["energy_kwh"] = lambda: _energy_part(account, power)
        life = power.site.battery_life
        if life is not None:
            sections["battery_life"] = lambda: _battery_life_part(power, life)
        grid = power.site.grid
        if grid is not None:
            sections["grid"] = lambda: _grid_part(power, grid)
        if power.site.storage.battery.end_value_per_kwh is not UNSET:
            sections["end_value"] = lambda: _end_value_part(account, power)
        plans = power.plans
        if plans is not None:
            sections["planned"] = lambda: _planned_part(power, plans)
    if (replanning := account.replanning) is not None:
        sections["replanning"] = lambda: replanning_part(replanning)
    return sections


def _add_section(
    summary: RunSummary, name: str, make: Callable[[], msgspec.Struct], failures: Failures
) -> None:
    """Make a section; record its errors, or that it cannot be made."""
    with failures.noted(f"the summary's section {name!r}"), np.errstate(all="ignore"):
        section = make()
        wrong = _without_infinite(section, name)
        setattr(summary, name, section)
        if wrong:
            raise BeasyError(f"the summary's section {name!r}: {wrong[0]}")
    if getattr(summary, name) is None:
        summary.unmade = (*summary.unmade, name)


def _without_infinite(section: msgspec.Struct, place: str) -> list[str]:
    """Convert to Python's numbers, with None for values not valid in JSON; return these and their paths."""
    wrong = []
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, msgspec.Struct):
            wrong += _without_infinite(value, f"{place}.{name}")
        elif isinstance(value, float | np.generic):
            plain, wrong_here = _plain(value, f"{place}.{name}")
            setattr(section, name, plain)
            wrong += wrong_here
    return wrong


def _policy_part(session: Session, failures: Failures) -> dict[str, Any]:
    """Return the sections added by the policy."""
    results = session.results()
    if not isinstance(results, Mapping):
        raise PolicyError(
            f"results() of the policy: found {results!r:.80}, expected a dictionary of sections"
        )
    plain, wrong = _plain(results, "")
    for name in sorted({*SECTIONS} & plain.keys()):
        wrong.append(f"found a section {name!r}, a name reserved for the summary: choose another name")
    if wrong:
        failures.all.append(PolicyError(f"results() of the policy: {wrong[0]}"))
    return {name: value for name, value in plain.items() if name not in SECTIONS}


def _words(policy: Policy) -> dict[str, dict[str, tuple[str, ...]]] | None:
    """Return the words for the rules of a user's policy; None if it has none."""
    by_action: dict[str, dict[str, tuple[str, ...]]] = {}
    for (done, rule), words in own_words(policy).items():
        by_action.setdefault(done, {})[rule] = tuple(words)
    return by_action or None


_DEEPEST = 50


def _plain(value: Any, place: str, depth: int = 0) -> tuple[Any, list[str]]:
    """Return the value in JSON types, with null for others, and a list of these with their paths."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value, []
    if isinstance(value, float):
        if np.isfinite(value):
            return value, []
        return None, [f"{place}: found {value}, expected a finite number"]
    if isinstance(value, Mapping | Sequence) and not isinstance(value, bytes) and depth < _DEEPEST:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        parts = {
            str(key): _plain(each, f"{place}.{key}" if place else str(key), depth + 1) for key, each in items
        }
        wrong = [text for _, texts in parts.values() for text in texts]
        plain = {key: each for key, (each, _) in parts.items()}
        return plain if isinstance(value, Mapping) else [*plain.values()], wrong
    return None, [f"{place}: found {value!r:.80}, expected numbers, strings, lists and dictionaries"]


def _accounts_apart(power: PowerSide) -> tuple[str, ...]:
    """Warn where the simulator's meters and the daemon's own account differ."""
    metered_j, own_j = math.fsum(row.record.consumed_j for row in power.trace), power.settled.used_j
    if abs(own_j - metered_j) <= _ACCOUNTS_APART * max(metered_j, own_j):
        return ()
    apart = (
        f"{100.0 * (own_j / metered_j - 1.0):+.2f} %" if metered_j > 0.0 else "the simulator meters nothing"
    )
    return (
        f"the simulator metered {j_to_kwh(metered_j):.2f} kWh, the daemon's own account has"
        f" {j_to_kwh(own_j):.2f} kWh ({apart}): the host model does not match the simulation, so guard"
        " decisions and all energies except 'consumed' are unreliable; pass the platform file used by"
        " Batsim with -p, and check its powers and initial states",
    )


def _quality_part(account: SessionAccount) -> QualityPart:
    metrics: dict[str, Any] = account.outcomes.metrics(until_s=account.end_s)
    quality = QualityPart(**metrics, utilization=None)
    if account.begun:
        offered = account.hosts * account.end_s
        quality.utilization = quality.host_seconds / offered if offered > 0 else None
        quality.server_switches = account.server_switches
        quality.speed_changes = account.speed_changes
    return quality


def _restarts_part(account: SessionAccount, lives: Lives) -> RestartsPart:
    part = RestartsPart(len(lives.lineages), lives.count, lives.checkpoints, None, None, None)
    if account.power is not None:
        energies = _restart_energies(account, account.power)
        part.redone_kwh = j_to_kwh(energies.redone_j)
        part.saved_kwh = j_to_kwh(energies.saved_j)
        part.checkpoints_kwh = j_to_kwh(energies.checkpoints_j)
    return part


def _restart_energies(account: SessionAccount, power: PowerSide) -> RestartEnergies:
    """Return the energies of jobs that came back, in the settled steps."""
    settled = power.settled
    return account.outcomes.restart_energies(settled.time_s, settled.running_j)


def _site_part(power: PowerSide) -> SitePart:
    guard, storage, calendar = power.site.guard, power.site.storage, power.site.calendar
    part = SitePart(
        start=None if calendar is None else calendar.local(0.0).isoformat(),
        guard=guard.mode.value,
        veto=guard.veto,
        steps=len(power.trace),
        largest_relative_residual=max((row.record.relative_residual for row in power.trace), default=0.0),
    )
    for device, level in zip(storage.devices, storage.levels(power.storage), strict=True):
        if device is storage.battery and not storage.battery.exists:
            continue
        lowest = min((_level_after(row.record, device) for row in power.trace), default=level)
        figures = device.figures(level, lowest)
        if device.fields is None:
            part.devices[device.section] = figures | _throughput(power, device)
        else:
            for name, value in figures.items():
                setattr(part, name, value)
    if power.site.cooling is not None:
        part.pue_mean = _pue_mean([row.record for row in power.trace])
    return part


def _pue_mean(records: Sequence[StepRecord]) -> float | None:
    """Return the PUE of all steps together; None where the servers used nothing."""
    servers_j = math.fsum(record.consumed_j for record in records)
    cooling_j = math.fsum(record.cooling_w * record.dt_s for record in records)
    return 1.0 + cooling_j / servers_j if servers_j > 0.0 else None


def _level_after(record: StepRecord, device: Device) -> float:
    """Return the level of a device at the end of a step, in its unit."""
    if device.fields is None:
        return record.others[device.section].after
    return record.battery_after_j if device.section == BatterySpec.section else record.hydrogen_after_kg


def _throughput(power: PowerSide, device: Device) -> dict[str, float]:
    """Return the energy into and out of a device, kWh."""
    steps = [(row.record.others[device.section], row.record.dt_s) for row in power.trace]
    return {
        "in_kwh": j_to_kwh(math.fsum(step.in_w * dt_s for step, dt_s in steps)),
        "out_kwh": j_to_kwh(math.fsum(step.out_w * dt_s for step, dt_s in steps)),
    }


def _battery_life_part(power: PowerSide, life: BatteryLife) -> BatteryLifePart:
    records, battery = [row.record for row in power.trace], power.site.storage.battery
    start_s = power.trace[0].start_s if power.trace else 0.0
    ends_s = [row.start_s + row.record.dt_s for row in power.trace]
    first_j = records[0].battery_before_j if records else power.storage.battery_j
    levels_j = [first_j, *(record.battery_after_j for record in records)]
    wear = life.wear(np.array([start_s, *ends_s]), np.array(levels_j) / battery.capacity_j)
    cost = None
    if life.price_per_kwh is not None:
        cost = wear.life_used * life.price_per_kwh * j_to_kwh(battery.capacity_j)
    discharged_kwh = j_to_kwh(math.fsum(record.discharge_w * record.dt_s for record in records))
    return BatteryLifePart(
        chemistry=life.model.name,
        currency=life.currency,
        soh_final_pct=100.0 * wear.health,
        full_cycles=wear.full_cycles,
        life_used_pct=100.0 * wear.life_used,
        years_to_80_pct=wear.years_to_end,
        wear_cost=cost,
        wear_cost_per_kwh=None if cost is None or not discharged_kwh else cost / discharged_kwh,
    )


def _import_cost(power: PowerSide) -> float:
    """Return the cost of the energy from the grid, in the site's currency."""
    return math.fsum(row.metered.cost for row in power.trace if row.metered is not None)


def _grid_cost(power: PowerSide) -> float:
    """Return the cost of the import, with that of its peaks."""
    return _import_cost(power) + (0.0 if power.peak is None else power.peak.cost)


def _grid_part(power: PowerSide, grid: Grid) -> GridPart:
    steps = [(row.record, row.metered) for row in power.trace if row.metered is not None]

    def kwh(name: str) -> float:
        return j_to_kwh(math.fsum(getattr(record, name) * record.dt_s for record, _ in steps))

    import_kwh, load_kwh = kwh("import_w"), kwh("demand_w") + kwh("base_w") + kwh("cooling_w")
    green_kwh = kwh("green_w") - _grid_discharged_kwh(power)
    import_cost, cost = _import_cost(power), _grid_cost(power)
    mean_price = import_cost / import_kwh if import_kwh > 0.0 else None
    grams = [metered.carbon_g for _, metered in steps if metered.carbon_g is not None]
    part = GridPart(
        currency=grid.currency,
        import_limit_w=None if grid.unlimited else grid.import_limit_w,
        import_kwh=import_kwh,
        export_kwh=kwh("export_w"),
        cost=cost,
        export_revenue=math.fsum(metered.revenue for _, metered in steps),
        carbon_kg=math.fsum(grams) / 1000.0 if steps and len(grams) == len(steps) else None,
        green_kwh=green_kwh,
        green_share=green_kwh / load_kwh if load_kwh > 0.0 else None,
        mean_import_price=mean_price,
        peak_import_w=max((record.import_w for record, _ in steps), default=0.0),
    )
    if power.peak is not None:
        part.peak_kw, part.peak_cost = w_to_kw(power.peak.peak_w), power.peak.cost
    if power.contents is not None:
        _add_contents(part, power, power.contents)
    if grid.rules is not None or grid.peak is not None:
        part.terms = _grid_terms(power.site, grid)
    return part


def _grid_discharged_kwh(power: PowerSide) -> float:
    """Return the energy of the grid that the battery discharged, kWh."""
    return j_to_kwh(math.fsum((row.grid_discharge_w or 0.0) * row.record.dt_s for row in power.trace))


def _add_contents(part: GridPart, power: PowerSide, contents: BatteryContents) -> None:
    """Add price and carbon of the battery's contents: those discharged, and those left."""
    released = [row.released for row in power.trace if row.released is not None]
    part.discharged_cost, part.stored_cost = math.fsum(each.cost for each in released), contents.cost
    grams = [each.carbon_g for each in released if each.carbon_g is not None]
    if contents.carbon_g is not None and len(grams) == len(released) and part.carbon_kg is not None:
        part.discharged_carbon_kg, part.stored_carbon_kg = math.fsum(grams) / 1e3, contents.carbon_g / 1e3


def _grid_terms(site: Site, grid: Grid) -> GridTerms:
    """Return the terms of grid and battery."""
    battery, peak, rules = site.storage.battery, grid.peak, grid.rules
    rest = None if rules is None else rules.rest
    zone = None if peak is None or peak.calendar is None else getattr(peak.calendar.zone, "key", None)

    def limit(power_w: float) -> float | None:
        return None if math.isinf(power_w) else power_w

    return GridTerms(
        capacity_j=battery.capacity_j,
        min_j=battery.min_j,
        max_j=battery.max_j,
        start_j=battery.start_j,
        charge_efficiency=battery.charge_efficiency,
        drawn_per_delivered=battery.drawn_per_delivered(),
        self_discharge_per_day=battery.self_discharge_per_day,
        charge_limit_w=limit(battery.charge_limit_w),
        discharge_limit_w=limit(battery.discharge_limit_w),
        may_export_w=limit(grid.may_export_w),
        net=grid.export is Export.NET,
        feed_in_per_kwh=grid.feed_in_per_kwh,
        peak_per_kw=0.0 if peak is None else peak.per_kw,
        peak_period=None if peak is None else peak.period.value,
        peak_zone=zone,
        window_s=site.window_s,
        rests_up_to_per_kwh=None if rest is None else math.nextafter(rest.limit, -math.inf),
        defended_w=None if rules is None else rules.peak_w,
    )


def _end_value_part(account: SessionAccount, power: PowerSide) -> EndValuePart:
    """Return the value of what the run adds to the battery; hydrogen has none, but a separate target."""
    battery, grid = power.site.storage.battery, power.site.grid
    start_j = power.trace[0].record.battery_before_j if power.trace else power.storage.battery_j
    stored_kwh = j_to_kwh(power.storage.battery_j - start_j)
    value = battery.end_value * stored_kwh
    part = EndValuePart(per_kwh=battery.end_value, stored_kwh=stored_kwh, value=value)
    if grid is None:
        part.finished_kwh = j_to_kwh(_finished_j(account, power)) + value
    else:
        part.currency, part.net_cost = grid.currency, _grid_cost(power) - value
    return part


def _planned_part(power: PowerSide, plans: PlanStore) -> PlannedPart:
    """Return the planned values for the completed time."""
    places = (plans.place(row.start_s) for row in power.trace)
    steps = [(plans[place.window], place.step) for place in places if place is not None]

    def kwh(name: str) -> float:
        return j_to_kwh(math.fsum(getattr(plan.power, name)[step] * plan.step_s for plan, step in steps))

    servers_j = math.fsum(plan.servers.energy_j[step] for plan, step in steps if plan.servers is not None)
    part = PlannedPart(
        steps=len(steps),
        energy_kwh=PlannedEnergyPart(
            production=kwh("renew_w"),
            load=kwh("load_w"),
            servers=j_to_kwh(servers_j),
            charged=kwh("charge_w"),
            discharged=kwh("discharge_w"),
            curtailed=kwh("curtailed_w"),
        ),
    )
    if steps:
        last, step = steps[-1]
        if last.storage.battery.exists:
            part.soc_final_pct = float(last.soc_pct[step + 1])
        part.hydrogen_final_kg = float(last.power.hydrogen_kg[step + 1])
        part.relax_factor = max(plan.power.relax_factor for plan, _ in steps)
    return part


def _finished_j(account: SessionAccount, power: PowerSide) -> float:
    """Return the energy of finished jobs in the settled steps, J."""
    settled = power.settled
    return account.outcomes.energy_j(*DONE, until_s=settled.time_s, running_j=settled.running_j)


def _energy_part(account: SessionAccount, power: PowerSide) -> EnergyPart:
    records = [row.record for row in power.trace]
    settled = power.settled
    by_use = dict(zip(USES, settled.by_use_j.tolist(), strict=True))
    finished_j, not_done = _finished_j(account, power), tuple(set(JobState) - set(DONE))
    others_j = account.outcomes.energy_j(*not_done, until_s=settled.time_s, running_j=settled.running_j)
    others_j += math.fsum(settled.running_j.get(job_id, 0.0) for job_id in account.running)
    if account.lives.is_on:
        energies = _restart_energies(account, power)
        finished_j += energies.useful_j - energies.costs_j
        others_j -= energies.useful_j - energies.costs_j
    switching_j = by_use["switching off"] + by_use["switching on"]

    def total_kwh(name: str) -> float:
        return j_to_kwh(math.fsum(getattr(record, name) * record.dt_s for record in records))

    part = EnergyPart(
        production=total_kwh("renew_w"),
        consumed=j_to_kwh(math.fsum(record.consumed_j for record in records)),
        consumed_by_own_account=j_to_kwh(settled.used_j),
        finished_jobs=j_to_kwh(finished_j),
        other_jobs=j_to_kwh(others_j),
        idle=j_to_kwh(by_use["idle"]),
        transitions=j_to_kwh(switching_j),
        sleeping=j_to_kwh(by_use["sleeping"]),
        wasted=j_to_kwh(others_j + by_use["idle"] + switching_j + by_use["sleeping"]),
        charged=total_kwh("charge_w"),
        discharged=total_kwh("discharge_w"),
        electrolyzer=total_kwh("electrolyzer_w"),
        fuel_cell=total_kwh("fuel_cell_w"),
        curtailed=total_kwh("curtailed_w"),
        unserved=total_kwh("unserved_w"),
    )
    if power.site.metered:
        part.base, part.imported = total_kwh("base_w"), total_kwh("import_w")
        part.exported = total_kwh("export_w")
    if power.site.cooling is not None:
        part.cooling = total_kwh("cooling_w")
    if power.contents is not None:
        part.grid_charged = total_kwh("grid_charge_w")
    return part
