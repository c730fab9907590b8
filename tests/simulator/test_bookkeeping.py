"""What is kept incrementally agrees with what can be summed over hosts and jobs."""

import random

import numpy as np
import pytest
from simulator.small import WORK, InOrder, job, simulation

from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.machines import STATES
from beasy_sched.simulator.simulated_jobs import RUNNING, powers

PROFILES = {
    "w": WORK,
    "d": {"type": "delay", "delay": 7.5},
    "t": {"type": "parallel_homogeneous_total", "cpu": 3e9, "com": 0},
    "s": {"type": "composed", "repeat": 2, "seq": ["w", "w"]},
}


class Restless(InOrder):
    """Starts jobs in order, and changes P-states, switches free hosts, and kills at random."""

    def __init__(self, simulation, seed):
        super().__init__()
        self.simulation = simulation
        self.random = random.Random(seed)
        self.asleep: set[int] = set()
        self.checks = 0

    def decide(self, now):
        check_power(self.simulation)
        self.checks += 1
        found = super().decide(now)
        roll = self.random.random()
        hosts = self.random.sample(range(self.size), 3)
        awake = HostSet.of(h for h in hosts if h not in self.asleep)
        if roll < 0.4 and len(awake):
            found.append(d.SetResourceState(now, awake, self.random.randrange(2)))
        elif roll < 0.5 and self.free:
            host = max(self.free)
            self.free.discard(host)
            self.asleep.add(host)
            found.append(d.SetResourceState(now, HostSet.of([host]), 2))
        elif roll < 0.6:
            found += [d.KillJobs(now, (name,)) for name in running(self.simulation.world)[:1]]
        return found


def running(world):
    return [name for name, job in world.jobs.items() if job.state == RUNNING]


def check_power(simulation):
    """Power, epsilon power and counts of states, all from scratch."""
    world = simulation.world
    table, machines = world.table, world.machines
    used = np.where(table.switching[machines.mode], table.speeds[machines.mode], 0.0)
    for each in filter(None, world.slots):
        if each.task is not None:
            used[each.alloc.ids] += each.task.used_on(len(each.alloc))
    assert world.meter.power_w == pytest.approx(powers(table, machines.mode, used).sum(), rel=1e-12)
    assert world.meter.wattmin_w == pytest.approx(table.epsilon_w[machines.mode].sum(), rel=1e-12)
    assert machines.counts == np.bincount(table.states[machines.mode], minlength=STATES).tolist()
    assert {x.request.id for x in world.slots if x} == {
        x for x, j in world.jobs.items() if j.state == RUNNING
    }


@pytest.mark.parametrize("seed", range(5))
def test_incremental_sums_hold_through_a_busy_run(tmp_path, seed):
    rng = random.Random(seed)
    jobs = [
        job(
            str(i),
            rng.uniform(0, 300),
            rng.choice([1, 2, 3]),
            rng.choice("wwwdts"),
            walltime=rng.uniform(5, 60),
        )
        for i in range(80)
    ]
    run = simulation(tmp_path, jobs, PROFILES, fast=5, slow=5)
    scheduler = Restless(run, seed)
    result = run.run(scheduler)
    assert scheduler.checks > 100
    machines, end = run.world.machines, result.end_s
    closed = sum(machines.time_in)
    assert closed + (end - machines.last_change).sum() == pytest.approx(machines.size * end, rel=1e-12)


def test_job_energies_and_idle_energy_add_up(tmp_path):
    jobs = [job(str(i), 3.3 * i, 1 + i % 4, "wd"[i % 2]) for i in range(30)]
    run = simulation(tmp_path, jobs, PROFILES, files=True)
    result = run.run(InOrder())
    rows = [line.split(",") for line in (tmp_path / "out_jobs.csv").read_text().splitlines()[1:]]
    of_jobs = sum(float(row[15]) for row in rows)
    host_seconds = sum(float(row[9]) * int(row[4]) for row in rows)
    idle = (4 * result.end_s - host_seconds) * 100
    assert result.energy_j == pytest.approx(of_jobs + idle, rel=1e-9)
