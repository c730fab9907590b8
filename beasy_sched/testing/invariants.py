"""Invariants checked in every run of a small world, for any policy, guard, jobs and weather."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from beasy_sched.energy.grid import Export
from beasy_sched.engine.power_side import PowerSide, TraceRow
from beasy_sched.engine.session_words import (
    GUARD_RULES,
    NEVER_FREE,
    NO_HOST_ASKED,
    RUN_OVER,
    TOO_MANY_HOSTS_ASKED,
)
from beasy_sched.model.decisions import ExecuteJob
from beasy_sched.model.host_states import HostState
from beasy_sched.model.jobs import JobState
from beasy_sched.simulator import Ending
from beasy_sched.testing.grids import CALENDAR, WorldGrid, mean_of
from beasy_sched.testing.witness import BrokenInvariant, require
from beasy_sched.testing.worlds import PLAIN, STEP_S, SmallWorld, WorldRun

RESERVE: Final = [HostState.ASLEEP, HostState.SWITCHING_OFF, HostState.SWITCHING_ON]
MOMENT_J: Final = 100.0 * 2e-3
"""Most energy of one server in 2 ms, J: a kill is 1 ms late, and so may be the end of a step."""
WAYS_OUT: Final = (
    RUN_OVER,
    NO_HOST_ASKED,
    TOO_MANY_HOSTS_ASKED,
    NEVER_FREE,
)
"""Rules by which a job ends without a start, regardless of its predecessors."""

FINISHED: Final = "the run terminates: no job waits forever"
EACH_ONCE: Final = "each job is started at most once, and ends in exactly one way"
REASONS: Final = "each job rejected, postponed or killed is counted for the rule in the log"
BALANCE: Final = "the power of every step balances"
LEVELS: Final = "battery and tank stay within their limits"
FLOOR: Final = (
    "only sleeping servers, transitions and the base load take the battery below SoC_min: start a job only if"
    " view.budget.grant_start allows it, and wake as many hosts as view.budget.grant_wakes returns"
)
UNSERVED: Final = (
    "demand does not exceed the available power: start a job only if view.budget.grant_start allows it, and"
    " wake as many hosts as view.budget.grant_wakes returns"
)
DEPARTURES: Final = "deviations from the hydrogen plan have a reason in the trace"
METERED: Final = "imported, green and unserved power equals the demand of servers, cooling and base load"
PAID: Final = "imports and exports stay within their limits, and are billed"
UNLIMITED: Final = "with an unlimited grid, all demand is served, and the guard never acts"
PREDECESSORS: Final = "a job starts after its predecessors have finished and its think time is over, or never"
ACCOUNT: Final = "the daemon's own energy figures equal the simulator's"
GUARD_AT_STEPS: Final = "the guard acts only at the start of a step"


def check_run(world: SmallWorld, done: WorldRun) -> None:
    """Check all invariants of a run with a site. Raises BrokenInvariant for the first that does not hold."""
    check_jobs(world, done)
    check_reasons(done)
    check_storage(world, done)
    check_hydrogen(world, done)
    check_metering(world, done)
    check_energy(done)
    check_guard(done)


def check_jobs(world: SmallWorld, done: WorldRun) -> None:
    """Check that the simulator accepted every decision, and each job ended once, after its predecessors."""
    session = done.session
    ended = done.result.ending is Ending.FINISHED and session.ended
    check_workflows(world, done)
    if not ended and _asks_for_lost_hosts(done):
        return
    require(ended, FINISHED, f"{len(session.cluster.queue)} jobs that wait")
    submitted = (session.submitted, len(session.outcomes), sum(session.outcomes.counts().values()))
    require(set(submitted) == {len(world.jobs)}, EACH_ONCE, f"{submitted} of {len(world.jobs)} jobs")
    names = sorted(f"w0!{number}" for number in range(len(world.jobs)))
    require(sorted(session.outcomes.ids) == names, EACH_ONCE, session.outcomes.ids)
    started = [x.job_id for x in done.decisions if isinstance(x, ExecuteJob)]
    require(len(started) == len(set(started)), EACH_ONCE, started)


def _asks_for_lost_hosts(done: WorldRun) -> bool:
    """Whether a job waits for hosts that are out of service for good, which ends a run without a site."""
    cluster = done.session.cluster
    return any(job.res > np.count_nonzero(cluster.available) for job in cluster.queue)


def check_reasons(done: WorldRun) -> None:
    """Check that each rejected, postponed or killed job is counted for the rule in the log."""
    states = outcome_of(done)
    last = {(each.what, each.job): each.rule for each in done.witness.actions}
    for state, counted in done.session.reasons.items():
        jobs = [job for job, end in states.items() if end == state.value]
        what = "kill" if state is JobState.KILLED else "reject"
        rules = Counter(last.get((what, job), "") for job in jobs)
        if state is JobState.POSTPONED:
            over = [job for job in jobs if last.get(("reject", job), WAYS_OUT[0]) == WAYS_OUT[0]]
            rules.pop(WAYS_OUT[0], None)
            rules.pop("", None)
            rules += Counter(last.get(("postpone", job), "") for job in over)
        require(counted == rules, REASONS, f"{state.value}: {counted}, where the log has {rules}")


def power_of(done: WorldRun) -> PowerSide:
    """Return the power side of a run. Raises BrokenInvariant for a run without a site."""
    if done.session.power is None:
        raise BrokenInvariant("the run has a site", "none")
    return done.session.power


def check_storage(world: SmallWorld, done: WorldRun) -> None:
    """Check the balance of every step, and that only sleep and transitions use the battery below SoC_min."""
    battery, trace = world.site.storage.battery, power_of(done).trace
    require(len(trace) == len(world.production_w), FINISHED, f"{len(trace)} steps")
    uses = np.diff([np.zeros(5), *done.uses_j], axis=0)
    for row, use_j in zip(trace, uses, strict=True):
        record, (always_w, pue) = row.record, world.load_at(row.start_s)
        reserve_j = float(use_j[RESERVE].sum()) * pue + always_w * record.dt_s
        at = f"at {row.start_s:g} s"
        require(record.relative_residual <= 1e-6, BALANCE, f"a residual of {record.relative_residual:g} {at}")
        level = f"{record.soc_after_pct:g} % {at}"
        require(0 <= record.soc_after_pct <= 100 or not battery.exists, LEVELS, level)
        floor_j = min(battery.min_j, record.battery_before_j - record.self_discharge_j)
        below_j = floor_j - record.battery_after_j
        reachable_j = reserve_j if world.grid is None else 0.0
        low = below_j <= reachable_j * battery.drawn_per_delivered() + 1e-6
        require(low, FLOOR, f"{level}, {below_j:g} J below, of which they take {reachable_j:g} J")
        within = record.discharge_w <= battery.discharge_limit_w * (1 + 1e-9)
        require(within, LEVELS, f"a discharge of {record.discharge_w:g} W {at}")
        one_way = record.charge_w == 0 or record.discharge_w == 0
        require(one_way, BALANCE, f"a battery that charges and discharges {at}")
        if world.veto or row.start_s not in done.witness.granted:
            _check_unserved(world, row, reserve_j)


def _check_unserved(world: SmallWorld, row: TraceRow, reserve_j: float) -> None:
    """Check that unserved energy is unavoidable: sleeping servers, transitions, the base load, idle servers
    that cannot sleep, delayed kills, and grants before the wind dropped within the step; and that battery and
    grid have no more power."""
    battery, record = world.site.storage.battery, row.record
    end_s = row.start_s + record.dt_s
    away = (*world.outages, *world.breakdowns)
    outside = sum(first < end_s <= last + record.dt_s for first, last, _ in away)
    pue = world.load_at(row.start_s)[1]
    stuck_j = pue * record.dt_s * (PLAIN.idle_w[0] * world.plain + 50.0 * world.hosts * (outside > 0))
    gusts = [world.production_w[int(row.start_s / STEP_S + 0.01)]]
    dropped_j, left = 0.0, [(t, w) for t, w in sorted(world.gusts) if row.start_s < t < end_s]
    for when, watts in left:
        dropped_j += max(gusts[-1] - watts, 0.0) * (end_s - when)
        gusts.append(watts)
    unserved_j = record.unserved_w * record.dt_s
    bound_j = stuck_j + dropped_j + pue * MOMENT_J * world.hosts + 1e-3
    violation = (
        f"{unserved_j:g} J unserved at {row.start_s:g} s, of which {reserve_j + bound_j:g} J are unavoidable"
    )
    require(unserved_j <= reserve_j + bound_j, UNSERVED, violation)
    if unserved_j > bound_j:
        limited = record.discharge_w >= battery.discharge_limit_w * (1 - 1e-9)
        least_j = 0.0 if world.grid is None else battery.min_j
        empty = record.battery_after_j <= least_j + 1e-6 * battery.capacity_j
        require(limited or empty, BALANCE, f"{violation}, with {record.soc_after_pct:g} % in the battery")
        used = world.grid is None or record.import_w == world.grid.import_limit_w
        require(used, BALANCE, f"{violation}, and an import of {record.import_w:g} W")


def check_hydrogen(world: SmallWorld, done: WorldRun) -> None:
    """Check that the tank stays within its bounds, and deviations from the plan have a reason."""
    tank_kg = world.hydrogen.tank_kg if world.hydrogen else 0.0
    for row in power_of(done).trace:
        record, at = row.record, f"at {row.start_s:g} s"
        within = 0 <= record.hydrogen_after_kg <= tank_kg * (1 + 1e-12)
        require(within, LEVELS, f"{record.hydrogen_after_kg:g} kg of hydrogen {at}")
        as_planned = _same(record.electrolyzer_w, record.planned_electrolyzer_w, 1e-6)
        as_planned &= _same(record.fuel_cell_w, record.planned_fuel_cell_w, 1e-6)
        require(as_planned or record.deviations, DEPARTURES, f"none {at}")


def _same(actual: float, expected: float, least: float) -> bool:
    return math.isclose(actual, expected, rel_tol=1e-6, abs_tol=least)


def check_metering(world: SmallWorld, done: WorldRun) -> None:
    """Check that import, green and unserved energy equal the demand, and each kWh is billed.

    Green energy is computed from its sources here, not as the remainder. An unlimited grid serves everything.
    """
    for row in power_of(done).trace:
        record, at = row.record, f"at {row.start_s:g} s"
        arriving_w = record.renew_w + record.discharge_w + record.fuel_cell_w
        stored_w = record.charge_w - record.grid_charge_w + record.electrolyzer_w
        kept_w = stored_w + record.curtailed_w + record.export_w
        always_w, pue = world.load_at(row.start_s)
        used_w, taken_w = arriving_w - kept_w, pue * record.demand_w + always_w
        scale_w = arriving_w + record.import_w + taken_w
        gap_w = abs(record.import_w - record.grid_charge_w + used_w + record.unserved_w - taken_w)
        require(gap_w <= 1e-9 * scale_w, METERED, f"{gap_w:g} W more or less {at}")
        require(abs(record.green_w - used_w) <= 1e-9 * scale_w, METERED, f"{record.green_w:g} W green {at}")
        is_base = math.isclose(record.base_w, always_w, rel_tol=1e-9, abs_tol=1e-9)
        require(is_base, METERED, f"a base load of {record.base_w:g} W {at}")
        cooling_w = (pue - 1.0) * record.demand_w
        is_cooling = math.isclose(record.cooling_w, cooling_w, rel_tol=1e-9, abs_tol=1e-9 * scale_w)
        require(is_cooling, METERED, f"cooling of {record.cooling_w:g} W {at}")
        if world.grid is None:
            nothing = row.metered is None and record.import_w == record.export_w == 0
            require(nothing, METERED, f"an import or export without a grid {at}")
        else:
            _check_bill(world.grid, row)
    if world.grid is not None and math.isinf(world.grid.import_limit_w):
        served = all(row.record.unserved_w == 0 for row in power_of(done).trace)
        require(served, UNLIMITED, "power that is unserved")
        rules = {action.rule for action in done.witness.actions}
        require(not rules.intersection(GUARD_RULES), UNLIMITED, rules)


def _check_bill(grid: WorldGrid, row: TraceRow) -> None:
    """Check limits, that the grid charges only by its rule, and cost, revenue and carbon by the prices."""
    record, bill, at = row.record, row.metered, f"at {row.start_s:g} s"
    if bill is None:
        raise BrokenInvariant(PAID, f"no bill {at}")
    most_w = 0.0 if grid.export is Export.NONE else grid.export_limit_w
    require(0 <= record.import_w <= grid.import_limit_w, PAID, f"an import of {record.import_w:g} W {at}")
    require(0 <= record.export_w <= most_w, PAID, f"an export of {record.export_w:g} W {at}")
    if record.import_w > 0:
        stored = record.charge_w > 0 and record.grid_charge_w == 0
        alone = not stored and record.export_w == record.curtailed_w == 0
        require(alone, PAID, f"an import that is stored, exported or curtailed {at}")
    start_s, end_s = row.start_s, row.start_s + record.dt_s
    _check_grid_charge(grid, row)
    price = grid.mean_price(start_s, end_s)
    import_kwh, export_kwh = (w * record.dt_s / 3.6e6 for w in (record.import_w, record.export_w))
    earned = {Export.NONE: 0.0, Export.FEED_IN: grid.feed_in_per_kwh, Export.NET: price}[grid.export]
    paid = math.isclose(bill.cost, import_kwh * price, rel_tol=1e-9, abs_tol=1e-12)
    paid &= math.isclose(bill.revenue, export_kwh * earned, rel_tol=1e-9, abs_tol=1e-12)
    require(paid, PAID, f"a cost of {bill.cost:g} and a revenue of {bill.revenue:g} {at}")
    if grid.carbon:
        grams = import_kwh * mean_of(grid.carbon, start_s, end_s)
        carbon_agrees = bill.carbon_g is not None and math.isclose(
            bill.carbon_g, grams, rel_tol=1e-9, abs_tol=1e-12
        )
    else:
        carbon_agrees = bill.carbon_g is None
    require(carbon_agrees, PAID, f"{bill.carbon_g} g of carbon {at}")


def _check_grid_charge(grid: WorldGrid, row: TraceRow) -> None:
    """Check that the grid charges only by its rule, a part of the import, and not beyond its level."""
    record, at = row.record, f"at {row.start_s:g} s"
    within = 0 <= record.grid_charge_w <= min(record.import_w, record.charge_w) * (1 + 1e-9)
    require(within, PAID, f"a charge of {record.grid_charge_w:g} W from the grid {at}")
    if record.grid_charge_w > 0:
        level = f"a charge from the grid to {record.soc_after_pct:g} % {at}"
        require(record.soc_after_pct <= grid.up_to_soc_pct * (1 + 1e-9), LEVELS, level)
        middle = CALENDAR.local(row.start_s + record.dt_s / 2)
        span_s = row.start_s, row.start_s + record.dt_s
        # A mean that equals the limit may be rounded to either side of it.
        cheap = grid.mean_price(*span_s) < 0.1 * (1 + 1e-9)
        clean = bool(grid.carbon) and mean_of(grid.carbon, *span_s) < 250 * (1 + 1e-9)
        by_rule = {"hours": middle.hour == 9, "price": cheap, "carbon": clean}.get(grid.charge, False)
        require(by_rule, PAID, f"a charge from the grid beyond its rule ({grid.charge or 'none'}) {at}")


def check_workflows(world: SmallWorld, done: WorldRun) -> None:
    """Check that no job starts before its predecessors have finished and its think time is over, and that it
    is rejected if one of them did not finish."""
    columns = done.session.outcomes.columns()
    ends_s = dict(zip(done.session.outcomes.ids, columns["end_s"].tolist(), strict=True))
    states = outcome_of(done)
    starts_s = {x.job_id: x.timestamp for x in done.decisions if isinstance(x, ExecuteJob)}
    for job, names in predecessors(world, done.session.workflows.early).items():
        if job in starts_s:
            lost = lost_predecessors(names, states)
            require(not lost, PREDECESSORS, f"{job} started, {lost} did not finish")
            think_s = dict(world.jobs[int(job[3:])].members).get("think_time_s", 0.0)
            late = all(starts_s[job] >= ends_s.get(name, math.inf) + think_s - 1e-6 for name in names)
            require(late, PREDECESSORS, f"{job} started at {starts_s[job]:g} s")
    for job, rule in lost_successors(world, done).items():
        require(states.get(job) == "rejected", PREDECESSORS, f"{job} {states.get(job)}, by {rule!r}")


def outcome_of(done: WorldRun) -> Mapping[str, str]:
    """Return the end state of each job, by its id."""
    outcomes = done.session.outcomes
    return dict(zip(outcomes.ids, outcomes.columns()["state"].tolist(), strict=True))


def lost_predecessors(names: list[str], states: Mapping[str, str]) -> list[str]:
    """Return the ended jobs that have not finished."""
    return [name for name in names if states.get(name) not in ("finished", None)]


def lost_successors(world: SmallWorld, done: WorldRun) -> dict[str, str]:
    """Return the jobs that never started and lost a predecessor, with the rules by which they ended."""
    states = outcome_of(done)
    started = {x.job_id for x in done.decisions if isinstance(x, ExecuteJob)}
    rules = {action.job: action.rule for action in done.witness.actions if action.what == "reject"}
    return {
        job: rules.get(job, "")
        for job, names in predecessors(world, done.session.workflows.early).items()
        if job not in started and lost_predecessors(names, states) and rules.get(job) not in WAYS_OUT
    }


def predecessors(world: SmallWorld, early: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the predecessors of each submitted job, derived from the fields in the workload alone.

    ``early`` are the jobs that, according to the run, could not wait for lower phases submitted later.
    """
    members = [dict(job.members) for job in world.jobs]
    names_of: dict[str, list[str]] = {}
    for place, own in enumerate(members):
        names: list[str] = []
        if own.get("phase", 0) < 0:
            continue  # it cannot be read
        if own.get("after"):
            names = [f"w0!{each}" for each in own["after"]]
        elif own.get("phase"):
            names = [
                f"w0!{other}"
                for other, its in enumerate(members)
                if not its.get("after")
                and its.get("workflow") == own["workflow"]
                and 0 <= its.get("phase", own["phase"]) < own["phase"]
                and (f"w0!{place}" not in early or world.jobs[other].subtime <= world.jobs[place].subtime)
            ]
        if names:
            names_of[f"w0!{place}"] = names
    return names_of


def check_energy(done: WorldRun) -> None:
    """Check that the parts add up, and that the daemon's energy figures equal the simulator's."""
    account = power_of(done).account
    account.advance(done.result.end_s)
    total_j = float(account.energy_by_use_j.sum())
    require(
        _same(total_j, done.result.energy_j, 1e-12), ACCOUNT, f"{total_j:g} J, {done.result.energy_j:g} J"
    )
    jobs_j = done.session.outcomes.energy_j(*JobState)
    busy_j = float(account.energy_by_use_j[HostState.BUSY])
    require(_same(jobs_j, busy_j, 1e-3), ACCOUNT, f"{jobs_j:g} J of jobs, {busy_j:g} J of busy servers")


def check_guard(done: WorldRun) -> None:
    """Check that the guard does not act within a step."""
    openings = set(done.witness.openings)
    for action in done.witness.actions:
        if action.now not in openings:
            require(action.rule not in GUARD_RULES, GUARD_AT_STEPS, action)
