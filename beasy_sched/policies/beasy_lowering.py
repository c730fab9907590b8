"""BEASY's compensation of a shortage: servers are lowered around the violation step (Section IV-C)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy_cells import CellPowers, StateArray, idle_runs, shifted
from beasy_sched.policies.beasy_compensation import ENERGY_TOLERANCE_J, Rest, RunningJob
from beasy_sched.policies.beasy_speeds import Ladder


@dataclass(frozen=True)
class _Lowering:
    """One action: new states of some servers in some rows, and what they save by row."""

    rows: slice
    hosts: HostIds
    states: StateArray | int
    saved_rows: slice
    saved_j: np.ndarray


class Saving:
    """E_diff < 0: lower idle servers, then those of running jobs, until the target is reached."""

    def __init__(self, rest: Rest, cells: CellPowers, ladder: Ladder, violation: int) -> None:
        """``violation`` is the row with the most predicted curves below SoC_min, the last if none."""
        self.rest, self.cells, self.ladder = rest, cells, ladder
        self.violation = min(violation, len(rest.states) - 1)

    @property
    def enough(self) -> bool:
        """Whether the projected level at the end has reached the target."""
        return self.rest.diff_j >= -ENERGY_TOLERANCE_J

    def lower(self, jobs: Sequence[RunningJob]) -> None:
        """Go through the four orders of the paper; at last, speeds below what walltimes ask for."""
        rows, at = len(self.rest.states), self.violation
        forward, backward = range(at, rows), range(at - 1, -1, -1)
        self._sleep_idle(0, at + 1, backward=True)
        if not self.enough:
            self._sleep_idle(at + 1, rows, backward=False)
        for in_time in (True, False):
            for order in (forward, backward):
                if not self.enough:
                    self._slow_down(jobs, order, in_time=in_time)

    def _sleep_idle(self, first: int, end: int, *, backward: bool) -> None:
        """Put idle servers to sleep in whole runs of rows, the rows nearest to the violation first."""
        rest, cells, hosts = self.rest, self.cells, np.arange(self.rest.states.shape[1])
        old = cells.asleep(rest.states, hosts)
        idle = ~old & (cells.sleep_pstate >= 0) & (np.arange(len(old))[:, None] >= rest.reserved_until)
        if rest.kept is not None:
            idle &= ~rest.kept
        idle[:first] = False
        idle[end:] = False
        slept = np.where(idle, cells.sleep_pstate, rest.states)
        energy_j = cells.energy_j(rest.states, shifted(old, rest.now_asleep), hosts, rest.dt_s)
        energy_j -= cells.energy_j(slept, shifted(old | idle, rest.now_asleep), hosts, rest.dt_s)
        columns, starts, ends = idle_runs(idle)
        order = np.lexsort((-columns, -ends)) if backward else np.lexsort((-columns, starts))
        actions = []
        for host, start, last in zip(columns[order], starts[order], ends[order], strict=True):
            touched = slice(start, last + 2)  # waking again falls into the row after the run
            saved_j = energy_j[touched, host]
            if saved_j.sum() > 0.0:
                asleep = int(cells.sleep_pstate[host])
                actions.append(_Lowering(slice(start, last + 1), np.array([host]), asleep, touched, saved_j))
        self._take(actions)

    def _slow_down(self, jobs: Sequence[RunningJob], order: Iterable[int], *, in_time: bool) -> None:
        """Give running jobs the next thriftier P-state, row by row, again and again.

        With ``in_time``, never so slow that the estimated remaining work does not end by the walltime
        (Eq. 3.28).
        """
        rest, ladder, rows = self.rest, self.ladder, list(order)
        states, starts_s = rest.states.copy(), np.cumsum(rest.dt_s) - rest.dt_s
        spare = [self._spare_flops(job) if in_time else np.inf for job in jobs]
        actions: list[_Lowering] = []
        lowered = True
        while lowered:
            lowered = False
            for row in rows:
                for place, job in enumerate(jobs):
                    length_s = min(job.left_s - float(starts_s[row]), float(rest.dt_s[row]))
                    if length_s <= 0.0:
                        continue
                    old = states[row, job.hosts]
                    new = ladder.thriftier(job.hosts, old)
                    if (new == old).all():
                        continue
                    speeds = [ladder.speed_flops(job.hosts, each).min() for each in (old, new)]
                    lost_flops = float(speeds[0] - speeds[1]) * length_s
                    if lost_flops > spare[place]:
                        continue
                    spare[place] -= lost_flops
                    changed = new != old
                    saved_j = length_s * float(ladder.saved_w(job.hosts, old, new)[changed].sum())
                    at = slice(row, row + 1)
                    actions.append(_Lowering(at, job.hosts, new, at, np.array([saved_j])))
                    states[row, job.hosts] = new
                    lowered = True
        self._take(actions)

    def _spare_flops(self, job: RunningJob) -> float:
        """Work that a job's hosts could do by the walltime, as planned, beyond what remains (Eq. 3.28)."""
        rest = self.rest
        starts_s = np.cumsum(rest.dt_s) - rest.dt_s
        lengths_s = np.clip(job.left_s - starts_s, 0.0, rest.dt_s)
        speeds = self.ladder.speed_flops(job.hosts, rest.states[:, job.hosts]).min(axis=1)
        beyond_s = max(job.left_s - float(rest.dt_s.sum()), 0.0)
        return float((speeds * lengths_s).sum() + speeds[-1] * beyond_s) - job.remaining_flops

    def _take(self, actions: list[_Lowering]) -> None:
        """Carry out as few of the first actions as reach the target, all of them if none do."""
        low, high = 0, len(actions)
        while low < high:
            middle = (low + high) // 2
            if self._end_j(actions[:middle]) >= self.rest.battery.target_j - ENERGY_TOLERANCE_J:
                high = middle
            else:
                low = middle + 1
        for action in actions[:low]:
            self.rest.states[action.rows, action.hosts] = action.states
            self.rest.demand_j[action.saved_rows] -= action.saved_j

    def _end_j(self, actions: Sequence[_Lowering]) -> float:
        extra_j = np.zeros(len(self.rest.states))
        for action in actions:
            extra_j[action.saved_rows] -= action.saved_j
        return float(self.rest.levels_j(extra_j)[-1])
