"""The policies' own copy of the offline plan, which their decisions change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.energy.server_energy import ServerSteps
from beasy_sched.energy.storage import BatterySpec, project_levels_j
from beasy_sched.errors import ConfigError
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform
from beasy_sched.plan.plan import PlanStore
from beasy_sched.units import TIME_TOLERANCE_S


class Runs(NamedTuple):
    """Runs of marked steps without a break (planned on, say): one entry per run, by server and step."""

    host: HostIds
    begin: IntArray
    end: IntArray
    """The step after the last one of the run."""

    @classmethod
    def of(cls, marked: BoolArray) -> Runs:
        """The runs of the servers of a plan, (T, N)."""
        edges = np.zeros((marked.shape[1], len(marked) + 2), dtype=np.bool_)
        edges[:, 1:-1] = marked.T
        host, place = np.nonzero(edges[:, 1:] != edges[:, :-1])  # begins and ends alternate
        return cls(host[::2], place[::2], place[1::2])

    def but(self, same: BoolArray, others: Runs) -> Runs:
        """These runs of the servers that are the ``same`` (N), and ``others`` for the rest."""
        stay = same[self.host]
        return Runs(*(np.concatenate([a[stay], b]) for a, b in zip(self, others, strict=True)))

    def since(self, step: int) -> Runs:
        """What is left of the runs from ``step`` on; those that had begun begin at ``step``."""
        left = self.end > step
        return Runs(self.host[left], np.maximum(self.begin[left], step), self.end[left])


class WorkingPlan:
    """Planned states of all servers over every known window, and what follows from them step by step.

    Steps are numbered through all windows, from the start of the first. Ranges of steps are half open:
    ``first_step`` belongs to them, ``end_step`` does not.
    """

    def __init__(self, plans: PlanStore, platform: Platform, before: npt.NDArray[np.generic]) -> None:
        """Copy ``plans``; ``before`` (N) holds the P-states of the servers as the first window begins.

        Raises ConfigError where the plans leave the servers out.
        """
        servers = [plan.servers for plan in plans if plan.servers is not None]
        if len(servers) < len(plans):
            raise ConfigError("the plan covers power only, not servers: make a plan with a platform")
        self.start_s = plans.start_s
        self.end_s = plans.end_s
        self._window_ends = np.cumsum([plan.steps for plan in plans])
        self.step_s = plans[0].step_s
        self.battery: BatterySpec = plans[0].storage.battery
        self.states: StateArray = np.concatenate([one.states for one in servers])
        """Planned P-state of each server in each step, of shape (T, N). Change it by `set_states`."""
        self.sleep = platform.sleep_pstate
        """P-state in which each server sleeps (N), -1 where it cannot."""
        self.on = self.states != self.sleep
        """Whether each server is planned on, of shape (T, N)."""
        powers = [plan.power for plan in plans]
        self.load_w: FloatArray = np.concatenate([power.load_w for power in powers])
        self.renew_w: FloatArray = np.concatenate([power.renew_w for power in powers])
        self.envelope_w: FloatArray = np.concatenate([power.envelope_w for power in powers])
        self.hydrogen_w = np.concatenate([power.fuel_cell_w - power.electrolyzer_w for power in powers])
        """Net power of the hydrogen: the fuel cell's less the electrolyzer's."""
        self._steps = ServerSteps(platform, self.step_s)
        self._before = before.astype(np.int8)
        self.energy_j = self._steps.plan_energy_j(self.states, self._before)
        """Planned worst-case energy of all servers in each step, J (Eq. 3.17): busy, with transitions."""
        self._asleep_before: npt.NDArray[np.int32] = np.zeros((platform.size, self.steps + 1), dtype=np.int32)
        self._counted = np.zeros(platform.size, dtype=np.bool_)
        self._runs = Runs.of(self.on)
        self._run_known = np.ones(platform.size, dtype=np.bool_)
        self.version = 0
        """Changes with every change of states or production."""

    @property
    def steps(self) -> int:
        """T, over all windows."""
        return len(self.states)

    def step_at(self, time_s: float) -> int | None:
        """The step at a time of the run; None outside the known windows."""
        step = int(np.floor((time_s - self.start_s + TIME_TOLERANCE_S) / self.step_s))
        return step if 0 <= step < self.steps else None

    def window_end(self, step: int) -> int:
        """The step after the last one of the window that ``step`` belongs to."""
        return int(self._window_ends[np.searchsorted(self._window_ends, step, side="right")])

    def start_of(self, step: int) -> float:
        """When a step starts, on the run's clock, s."""
        return self.start_s + step * self.step_s

    # --- changes ------------------------------------------------------------------------------------

    def set_states(self, hosts: HostIds, first_step: int, end_step: int, pstate: int | StateArray) -> None:
        """Plan ``hosts`` in ``pstate`` from ``first_step`` up to ``end_step``.

        ``pstate`` is one P-state or an array that fits the shape (steps, hosts). ``hosts`` are distinct.
        Raises ValueError for steps outside the plan.
        """
        if not 0 <= first_step <= end_step <= self.steps:
            raise ValueError(f"steps {first_step} to {end_step} are not within the {self.steps} of the plan")
        rows = slice(first_step, min(end_step + 1, self.steps))
        old_j = self.server_energy_j(hosts, rows.start, rows.stop)
        self.states[first_step:end_step, hosts] = pstate
        self.on[first_step:end_step, hosts] = self.states[first_step:end_step, hosts] != self.sleep[hosts]
        self._counted[hosts] = False
        self._run_known[hosts] = False
        self.version += 1
        new_j = self.server_energy_j(hosts, rows.start, rows.stop)
        self.energy_j[rows] += (new_j - old_j).sum(axis=1)

    def set_production(self, step: int, renew_w: float) -> None:
        """Replace a step's predicted production (W) by the known one."""
        self.renew_w[step] = renew_w
        self.version += 1

    # --- what follows from the states ------------------------------------------------------------------

    def server_energy_j(self, hosts: HostIds, first_step: int, end_step: int) -> FloatArray:
        """Planned worst-case energy of each of ``hosts`` in each step, J: (steps, hosts)."""
        now = self.states[first_step:end_step, hosts]
        if first_step > 0:
            previous = self.states[first_step - 1 : end_step - 1, hosts]
        else:
            previous = np.concatenate([self._before[None, hosts], now])[: len(now)]
        return self._steps.server_energy_j(now, previous, hosts)

    def on_before(self, step: int) -> BoolArray:
        """Whether each server is planned on in the step before ``step``, or was before the first."""
        return np.asarray(self.on[step - 1] if step > 0 else self._before != self.sleep)

    def asleep_steps(self, hosts: HostIds, first_step: IntArray | int, end_step: IntArray | int) -> IntArray:
        """In how many steps from ``first_step`` up to ``end_step`` (not included) ``hosts`` sleep.

        The steps may differ from host to host. Counted from sums along each server's steps, which are
        made again for servers whose states have changed.
        """
        stale = hosts[~self._counted[hosts]]
        if len(stale):
            self._asleep_before[stale, 1:] = np.cumsum(~self.on[:, stale].T, axis=1, dtype=np.int32)
            self._counted[stale] = True
        return np.asarray(self._asleep_before[hosts, end_step] - self._asleep_before[hosts, first_step])

    def runs_on(self, step: int) -> Runs:
        """Every server's runs of steps planned on, from ``step`` on, in no particular order."""
        if not self._run_known.all():
            again = np.flatnonzero(~self._run_known)
            changed = Runs.of(self.on[:, again])
            self._runs = self._runs.but(self._run_known, changed._replace(host=again[changed.host]))
            self._run_known[again] = True
        return self._runs.since(step)

    def project_soc(self, step: int, battery_j: float, more_j: float = 0.0) -> FloatArray:
        """Battery energy (J) at the start of ``step`` and at the end of it and of each later one (Eq. 1).

        ``battery_j`` is the true level at the start of ``step``; servers, production and hydrogen are as
        planned, except that ``step`` draws ``more_j`` more.
        """
        net_w = self.renew_w[step:] + self.hydrogen_w[step:] - self.energy_j[step:] / self.step_s
        net_w[0] -= more_j / self.step_s
        return project_levels_j(self.battery, battery_j, net_w, self.step_s)
