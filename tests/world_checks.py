"""What must hold in every run of a world, whatever the policy, the guard, the jobs and the weather."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from world_grids import WorldGrid, mean_of
from worlds import PLAIN, SLOT_POLICIES, STEP_S, Run, World

from beasy_sched.energy.grid import Export
from beasy_sched.engine.power import TraceRow
from beasy_sched.model.cluster import HostState
from beasy_sched.model.decisions import ExecuteJob
from beasy_sched.model.jobs import JobState
from beasy_sched.model.workflow import PREDECESSOR_LOST
from beasy_sched.policies.dispatch import NOT_NEEDED
from beasy_sched.policies.easy import NO_STEP_ENERGY
from beasy_sched.policies.greenslot.planning import REFUSED, WORKFLOW_REFUSED
from beasy_sched.simulator import Ending

RESERVE = [HostState.ASLEEP, HostState.SWITCHING_OFF, HostState.SWITCHING_ON]
MOMENT_J = 100.0 * 2e-3
"""What one server at most uses in two moments: a kill comes 1 ms late, and so may a step's end."""

AT_STEPS = ("follow-plan", "peak", "next", "last", "workload", "power-reactive")
"""Policies that change servers at the beginning of a step only."""
SUCCESSORS_RULES = (PREDECESSOR_LOST, WORKFLOW_REFUSED, REFUSED)
WAYS_OUT = ("the run is over", "asks for more hosts than there are", "waits for jobs that never come")
"""Rules by which a job ends without a start whatever became of its predecessors."""
LATE_S = 2e-3
"""How late the first message of a step may be taken for its beginning: two moments."""
SLEEPS_BETWEEN = "the plan has it asleep"
"""The rule by which `beasy` lets idle servers sleep within a step."""


def check(world: World, done: Run) -> None:
    check_jobs(world, done)
    check_reasons(done)
    check_storage(world, done)
    check_hydrogen(world, done)
    check_metering(world, done)
    check_workflows(world, done)
    check_slots(world, done)
    check_energy(done)
    check_inside_steps(done)


def check_jobs(world: World, done: Run) -> None:
    """The simulator took every decision, and each job ended in exactly one way."""
    session = done.session
    assert done.result.ending is Ending.FINISHED
    assert session.ended
    assert session.submitted == len(world.jobs) == len(session.outcomes)
    assert sorted(session.outcomes.ids) == sorted(f"w0!{i}" for i in range(len(world.jobs)))
    assert sum(session.outcomes.counts().values()) == len(world.jobs)
    started = [x.job_id for x in done.decisions if isinstance(x, ExecuteJob)]
    assert len(started) == len(set(started))


def check_reasons(done: Run) -> None:
    """Each job that was rejected, postponed or killed is counted for the rule that the log names."""
    outcomes = done.session.outcomes
    states = dict(zip(outcomes.ids, outcomes.columns()["state"].tolist(), strict=True))
    last = {(each.what, each.job): each.rule for each in done.witness.actions}
    for state, found in done.session.reasons.items():
        jobs = [job for job, end in states.items() if end == state.value]
        what = "kill" if state is JobState.KILLED else "reject"
        rules = Counter(last.get((what, job), "") for job in jobs)
        if state is JobState.POSTPONED:
            over = [job for job in jobs if last.get(("reject", job), WAYS_OUT[0]) == WAYS_OUT[0]]
            rules.pop(WAYS_OUT[0], None)
            rules.pop("", None)
            rules += Counter(last.get(("postpone", job), "") for job in over)
        assert found == rules, (state, found, rules)


def check_storage(world: World, done: Run) -> None:
    """Every step balances; nothing but the sleep floor and transitions takes the battery below SoC_min."""
    battery = world.site.storage.battery
    assert done.session.power is not None
    trace = done.session.power.trace
    assert len(trace) == len(world.production_w)
    uses = np.diff([np.zeros(5), *done.uses_j], axis=0)
    for row, use_j in zip(trace, uses, strict=True):
        record, reserve_j = row.record, use_j[RESERVE].sum() + world.base_w * row.record.dt_s
        assert record.relative_residual <= 1e-6
        assert 0 <= record.soc_after_pct <= 100 or not battery.exists
        floor_j = min(battery.min_j, record.battery_before_j - record.self_discharge_j)
        below_j = floor_j - record.battery_after_j
        reachable_j = reserve_j if world.grid is None else 0.0
        assert below_j <= reachable_j * battery.drawn_per_delivered() + 1e-6
        assert record.discharge_w <= battery.discharge_limit_w * (1 + 1e-9)
        assert record.charge_w == 0 or record.discharge_w == 0
        if world.veto or row.start_s not in done.witness.granted:
            check_unserved(world, row, reserve_j)


def check_unserved(world: World, row: TraceRow, reserve_j: float) -> None:
    """Unserved is only what nobody could have left undrawn: the sleep floor, transitions, the base load, idle
    servers that cannot sleep, kills that take a moment, and what was promised before the wind dropped within
    the step. And only when the battery and the grid give no more."""
    battery, record = world.site.storage.battery, row.record
    end_s = row.start_s + record.dt_s
    outside = sum(first < end_s <= last + record.dt_s for first, last, _ in world.outages)
    stuck_j = record.dt_s * (PLAIN.idle_w[0] * world.plain + 50.0 * world.hosts * (outside > 0))
    gusts = [world.production_w[int(row.start_s / STEP_S + 0.01)]]
    dropped_j, left = 0.0, [(t, w) for t, w in sorted(world.gusts) if row.start_s < t < end_s]
    for when, watts in left:
        dropped_j += max(gusts[-1] - watts, 0.0) * (end_s - when)
        gusts.append(watts)
    unserved_j = record.unserved_w * record.dt_s
    assert unserved_j <= reserve_j + stuck_j + dropped_j + MOMENT_J * world.hosts + 1e-3
    if unserved_j > stuck_j + dropped_j + MOMENT_J * world.hosts + 1e-3:
        limited = record.discharge_w >= battery.discharge_limit_w * (1 - 1e-9)
        least_j = 0.0 if world.grid is None else battery.min_j
        assert limited or record.battery_after_j <= least_j + 1e-6 * battery.capacity_j
        assert world.grid is None or record.import_w == world.grid.import_limit_w


def check_hydrogen(world: World, done: Run) -> None:
    """The tank stays within its bounds, and what departs from the plan is named."""
    tank_kg = world.hydrogen.tank_kg if world.hydrogen else 0.0
    for row in done.session.power.trace:
        record = row.record
        assert 0 <= record.hydrogen_after_kg <= tank_kg * (1 + 1e-12)
        as_planned = record.electrolyzer_w == pytest.approx(record.planned_electrolyzer_w, abs=1e-6)
        as_planned &= record.fuel_cell_w == pytest.approx(record.planned_fuel_cell_w, abs=1e-6)
        assert as_planned or record.deviations


def check_metering(world: World, done: Run) -> None:
    """Import, green energy and what is unserved are what servers and base load take; each kWh is paid for.

    Green energy is counted from its sources here, not as what is left. An unlimited grid feeds everything.
    """
    for row in done.session.power.trace:
        record = row.record
        arriving_w = record.renew_w + record.discharge_w + record.fuel_cell_w
        kept_w = record.charge_w + record.electrolyzer_w + record.curtailed_w + record.export_w
        used_w, taken_w = arriving_w - kept_w, record.demand_w + record.base_w
        scale_w = arriving_w + record.import_w + taken_w
        assert abs(record.import_w + used_w + record.unserved_w - taken_w) <= 1e-9 * scale_w
        assert abs(record.green_w - used_w) <= 1e-9 * scale_w
        assert record.base_w == world.base_w
        if world.grid is None:
            assert row.metered is None
            assert record.import_w == record.export_w == 0
        else:
            check_bill(world.grid, row)
    if world.grid is not None and math.isinf(world.grid.import_limit_w):
        assert all(row.record.unserved_w == 0 for row in done.session.power.trace)
        rules = {action.rule for action in done.witness.actions}
        assert not any(rule.startswith(("guard", NO_STEP_ENERGY)) for rule in rules), rules


def check_bill(grid: WorldGrid, row: TraceRow) -> None:
    """Limits hold, the grid feeds no storage, and cost, revenue and carbon follow from prices over time."""
    record, bill = row.record, row.metered
    assert bill is not None
    assert 0 <= record.import_w <= grid.import_limit_w
    assert 0 <= record.export_w <= (0.0 if grid.export is Export.NONE else grid.export_limit_w)
    if record.import_w > 0:
        assert record.charge_w == record.export_w == record.curtailed_w == 0
    start_s, end_s = row.start_s, row.start_s + record.dt_s
    price = grid.mean_price(start_s, end_s)
    import_kwh, export_kwh = (w * record.dt_s / 3.6e6 for w in (record.import_w, record.export_w))
    earned = {Export.NONE: 0.0, Export.FEED_IN: grid.feed_in_per_kwh, Export.NET: price}[grid.export]
    assert bill.cost == pytest.approx(import_kwh * price, rel=1e-9, abs=1e-12)
    assert bill.revenue == pytest.approx(export_kwh * earned, rel=1e-9, abs=1e-12)
    if grid.carbon:
        assert bill.carbon_g == pytest.approx(import_kwh * mean_of(grid.carbon, start_s, end_s), rel=1e-9)
    else:
        assert bill.carbon_g is None


def check_workflows(world: World, done: Run) -> None:
    """No job starts before its predecessors have finished and its think time is over, nor ever if one of them
    did not finish; a job that is refused takes with it those that wait for it."""
    columns = done.session.outcomes.columns()
    states = dict(zip(done.session.outcomes.ids, columns["state"].tolist(), strict=True))
    ends_s = dict(zip(done.session.outcomes.ids, columns["end_s"].tolist(), strict=True))
    starts_s = {x.job_id: x.timestamp for x in done.decisions if isinstance(x, ExecuteJob)}
    rules = {action.job: action.rule for action in done.witness.actions if action.what == "reject"}
    for job, names in predecessors(world).items():
        lost = [name for name in names if states.get(name) not in ("finished", None)]
        if job in starts_s:
            assert not lost, (job, lost)
            think_s = dict(world.jobs[int(job[3:])].members).get("think_time_s", 0.0)
            assert all(starts_s[job] >= ends_s[name] + think_s - 1e-6 for name in names), job
        elif lost and rules[job] not in WAYS_OUT:
            assert states[job] == "rejected", job
            assert rules[job] in SUCCESSORS_RULES, (job, rules[job])


def predecessors(world: World) -> dict[str, list[str]]:
    """Whom each job waits for, worked out from the members in the workload alone; submitted jobs only."""
    members = [dict(job.members) for job in world.jobs]
    found: dict[str, list[str]] = {}
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
                and world.jobs[other].subtime <= world.jobs[place].subtime
            ]
        if names:
            found[f"w0!{place}"] = names
    return found


def check_slots(world: World, done: Run) -> None:
    """What policies of slots start in a slot was there as the slot began; idle servers go to sleep only then,
    if they are to sleep at the starts of slots."""
    if done.session.policy.name not in SLOT_POLICIES:
        return
    options = dict(world.slots)
    for action in done.witness.actions:
        slot_s = (action.now + 1e-6) // options["slot_s"] * options["slot_s"]
        if action.what == "start":
            assert world.jobs[int(action.job[3:])].subtime <= slot_s + LATE_S, action
        if action.rule == NOT_NEEDED:
            assert options.get("sleep", "slot") != "never", action
            assert options.get("sleep", "slot") == "at-once" or action.now <= slot_s + LATE_S, action


def check_energy(done: Run) -> None:
    """The pieces add up, and the daemon's own account is the simulator's."""
    account = done.session.power.account
    account.advance(done.result.end_s)
    total_j = account.energy_by_use_j.sum()
    assert total_j == pytest.approx(done.result.energy_j, rel=1e-6)
    jobs_j = done.session.outcomes.energy_j(*JobState)
    assert jobs_j == pytest.approx(account.energy_by_use_j[HostState.BUSY], rel=1e-6, abs=1e-3)


def check_inside_steps(done: Run) -> None:
    """Servers' states are chosen as a step begins. Within it, the guard does nothing, `beasy` only lets idle
    servers sleep that its changed plan has asleep, and the policies in `AT_STEPS` change nothing at all.
    """
    openings, name = set(done.witness.openings), done.session.policy.name
    for action in done.witness.actions:
        if action.now in openings or action.rule == "the run is over":
            continue
        assert action.what != "kill", action
        assert not action.rule.startswith("guard"), action
        if action.what.startswith("P-state"):
            assert name not in AT_STEPS, action
            assert name != "beasy" or action.rule == SLEEPS_BETWEEN, action
