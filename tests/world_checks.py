"""What must hold in every run of a world, whatever the policy, the guard, the jobs and the weather."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import PLAIN, STEP_S, Run, World

from beasy_sched.engine.power import TraceRow
from beasy_sched.model.cluster import HostState
from beasy_sched.model.decisions import ExecuteJob
from beasy_sched.model.jobs import JobState
from beasy_sched.simulator import Ending

RESERVE = [HostState.ASLEEP, HostState.SWITCHING_OFF, HostState.SWITCHING_ON]
MOMENT_J = 100.0 * 2e-3
"""What one server at most uses in two moments: a kill comes 1 ms late, and so may a step's end."""

AT_STEPS = ("follow-plan", "peak", "next", "last", "workload", "power-reactive")
"""Policies that change servers at the beginning of a step only."""
SLEEPS_BETWEEN = "the plan has it asleep"
"""The rule by which `beasy` lets idle servers sleep within a step."""


def check(world: World, done: Run) -> None:
    check_jobs(world, done)
    check_storage(world, done)
    check_hydrogen(world, done)
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


def check_storage(world: World, done: Run) -> None:
    """Every step balances; nothing but the sleep floor and transitions takes the battery below SoC_min."""
    battery = world.site.storage.battery
    assert done.session.power is not None
    trace = done.session.power.trace
    assert len(trace) == len(world.production_w)
    uses = np.diff([np.zeros(5), *done.uses_j], axis=0)
    for row, use_j in zip(trace, uses, strict=True):
        record, reserve_j = row.record, use_j[RESERVE].sum()
        assert record.relative_residual <= 1e-6
        assert 0 <= record.soc_after_pct <= 100
        floor_j = min(battery.min_j, record.battery_before_j - record.self_discharge_j)
        below_j = floor_j - record.battery_after_j
        assert below_j <= reserve_j * battery.drawn_per_delivered() + 1e-6
        assert record.discharge_w <= battery.discharge_limit_w * (1 + 1e-9)
        assert record.charge_w == 0 or record.discharge_w == 0
        if world.veto or row.start_s not in done.witness.granted:
            check_unserved(world, row, reserve_j)


def check_unserved(world: World, row: TraceRow, reserve_j: float) -> None:
    """Unserved is only what nobody could have left undrawn: the sleep floor, transitions, idle servers that
    cannot sleep, kills that take a moment, and what was promised before the wind dropped within the step."""
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
        assert limited or record.battery_after_j < 1e-6 * battery.capacity_j


def check_hydrogen(world: World, done: Run) -> None:
    """The tank stays within its bounds, and what departs from the plan is named."""
    tank_kg = world.hydrogen.tank_kg if world.hydrogen else 0.0
    for row in done.session.power.trace:
        record = row.record
        assert 0 <= record.hydrogen_after_kg <= tank_kg * (1 + 1e-12)
        as_planned = record.electrolyzer_w == pytest.approx(record.planned_electrolyzer_w, abs=1e-6)
        as_planned &= record.fuel_cell_w == pytest.approx(record.planned_fuel_cell_w, abs=1e-6)
        assert as_planned or record.deviations


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
