"""BEASY's compensation at a step: how much, and where a surplus goes (Section IV-C; Eq. 3.30, 3.31)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beasy_sched.energy.battery import BatterySpec
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import FloatArray
from beasy_sched.policies.beasy_cells import BoolArray, CellPowers, StateArray, shifted
from beasy_sched.policies.beasy_speeds import Ladder

ENERGY_TOLERANCE_J = 1e-6


def compensation_j(battery: BatterySpec, diff_j: float) -> float:
    """E_comp of E_diff (both J): Eq. 3.31.

    What is missing counts by the loss convention: the thesis divides it by the discharge efficiency,
    which is what a joule less of demand keeps in the cells where losses are counted as printed.
    """
    if diff_j > 0.0:
        return diff_j / battery.charge_efficiency
    return diff_j / battery.drawn_per_delivered()


@dataclass
class Rest:
    """What is left of a window: rows from the present step to its last one, N servers."""

    states: StateArray
    """Planned P-states, [L, N]; compensation writes its changes here."""
    now_asleep: BoolArray
    """Which servers were asleep in the step before, [N]."""
    reserved_until: npt.NDArray[np.intp]
    """Rows before this one are taken by running jobs, [N]."""
    dt_s: FloatArray
    """Length of each row, [L]."""
    supply_j: FloatArray
    """Production and hydrogen of each row, [L]."""
    demand_j: FloatArray
    """Planned energy of the servers in each row, [L]; kept up with the changes."""
    battery: BatterySpec
    start_j: float
    """The true level of the battery now."""
    kept: BoolArray | None = None
    """More cells that may not be put to sleep, [L, N]."""

    def levels_j(self, extra_j: FloatArray | float = 0.0) -> FloatArray:
        """Battery energy at the end of each row (Eq. 1), with ``extra_j`` more demand by row.

        Held within [0, SoC_max] and the limits of charging and discharging.
        """
        battery, kept = self.battery, self.battery.kept_fraction(float(self.dt_s[-1]))
        net_w = (self.supply_j - self.demand_j - extra_j) / self.dt_s
        gains_j = self.dt_s * (
            battery.charge_efficiency * np.clip(net_w, 0.0, battery.charge_limit_w)
            - battery.drawn_per_delivered() * np.clip(-net_w, 0.0, battery.discharge_limit_w)
        )
        level_j, most_j, levels = self.start_j, battery.max_j, []
        for gain_j in gains_j.tolist():
            level_j *= kept
            level_j = max(0.0, min(level_j + gain_j, max(level_j, most_j)))
            levels.append(level_j)
        return np.array(levels)

    @property
    def diff_j(self) -> float:
        """E_diff: the estimated level at the end less the target, J (Eq. 3.30)."""
        return float(self.levels_j()[-1]) - self.battery.target_j

    def reserved(self) -> BoolArray:
        """Cells of running jobs, [L, N]."""
        return np.asarray(np.arange(len(self.states))[:, None] < self.reserved_until)


@dataclass(frozen=True)
class RunningJob:
    """A running job as compensation sees it."""

    hosts: HostIds
    left_s: float
    """Time to its walltime, s."""
    remaining_flops: float
    """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28), never negative."""


@dataclass(frozen=True)
class Wish:
    """A waiting job: hosts, and rows that it takes from now on, the waking included."""

    res: int
    rows: int


class Spending:
    """E_diff > 0: speed up running jobs, then wake servers for waiting ones; keep what remains."""

    def __init__(self, rest: Rest, cells: CellPowers, ladder: Ladder) -> None:
        """Find what may be spent: E_comp, and no more than the battery can lose before the end."""
        self.rest, self.cells, self.ladder = rest, cells, ladder
        levels_j = rest.levels_j()
        comp_j = compensation_j(rest.battery, float(levels_j[-1]) - rest.battery.target_j)
        self.left_j = max(0.0, min(comp_j, float(levels_j.min()) - rest.battery.min_j))
        """What may still be spent, J."""

    def speed_up(self, jobs: Iterable[RunningJob]) -> None:
        """Raise the P-states of running jobs to their expected end; closest to the walltime first."""
        for job in sorted(jobs, key=self._slack):
            while self.left_j > ENERGY_TOLERANCE_J and self._raise(job):
                pass

    def wake(self, wishes: Iterable[Wish], idle: int, asleep: HostIds) -> None:
        """Wake servers for waiting jobs, thriftiest P-state, while that can be paid for.

        ``idle`` servers are on without a job; ``asleep`` are those that may be woken.
        """
        order = np.lexsort((asleep, self._joules_per_flop(asleep)))
        asleep = asleep[order]
        for wish in wishes:
            missing = max(wish.res - idle, 0)
            if missing > len(asleep) or wish.rows > len(self.rest.states):
                continue
            chosen = asleep[:missing]
            if missing and not self._pay(chosen, wish.rows, self._woken(chosen, wish.rows)):
                return
            idle, asleep = idle + missing - wish.res, asleep[missing:]

    def _slack(self, job: RunningJob) -> float:
        """Share of the time to the walltime that the job does not need at its present speed."""
        speed = self.ladder.speed_flops(job.hosts, self.rest.states[0, job.hosts]).min()
        if speed <= 0.0 or job.left_s <= 0.0:
            return -np.inf
        return float(1.0 - job.remaining_flops / speed / job.left_s)

    def _raise(self, job: RunningJob) -> bool:
        """Try the next faster P-state from now to the expected end."""
        hosts, rest = job.hosts, self.rest
        first = self.ladder.faster(hosts, rest.states[0, hosts])
        end = min(expected_rows(rest, job, self.ladder.speed_flops(hosts, first)), len(rest.states))
        rows = rest.states[:end, hosts]
        faster = np.where(self.cells.asleep(rows, hosts), rows, self.ladder.faster(hosts, rows))
        if not end or np.array_equal(faster, rows):
            return False
        return self._pay(hosts, end, faster)

    def _woken(self, hosts: HostIds, end: int) -> StateArray:
        rows = self.rest.states[:end, hosts]
        asleep = self.cells.asleep(rows, hosts)
        return np.where(asleep, self.ladder.thriftiest[hosts], rows)

    def _joules_per_flop(self, hosts: HostIds) -> FloatArray:
        best = self.ladder.thriftiest[hosts]
        watts = self.cells.power.full_w[self.cells.power.kind_of[hosts], best]
        joules: FloatArray = watts / self.ladder.speed_flops(hosts, best)
        return joules

    def _pay(self, hosts: HostIds, end: int, columns: StateArray) -> bool:
        """Make a change if it can be paid for and the re-projected battery stays where it should."""
        rest = self.rest
        extra_j = column_change_j(rest, self.cells, hosts, end, columns)
        cost_j = float(extra_j.sum())
        if cost_j > self.left_j + ENERGY_TOLERANCE_J:
            return False
        levels_j = rest.levels_j(extra_j)
        battery = rest.battery
        if levels_j[-1] < battery.target_j - ENERGY_TOLERANCE_J or levels_j.min() < battery.min_j:
            return False
        rest.states[:end, hosts] = columns
        rest.demand_j += extra_j
        self.left_j -= max(cost_j, 0.0)
        return True


def column_change_j(
    rest: Rest, cells: CellPowers, hosts: HostIds, end: int, columns: StateArray
) -> FloatArray:
    """What new states of ``hosts`` in rows 0 to ``end`` - 1 add to each row's energy, J: [L]."""
    rows = slice(0, end + 1)
    old = rest.states[rows, hosts]
    new = old.copy()
    new[:end] = columns
    before, dt_s = rest.now_asleep[hosts], rest.dt_s[rows]
    energies = [
        cells.energy_j(states, shifted(cells.asleep(states, hosts), before), hosts, dt_s)
        for states in (new, old)
    ]
    extra_j = np.zeros(len(rest.states))
    extra_j[rows] = (energies[0] - energies[1]).sum(axis=1)
    return extra_j


def expected_rows(rest: Rest, job: RunningJob, speeds_flops: FloatArray) -> int:
    """Rows until the job is expected to end at the slowest of these speeds, its walltime at the latest."""
    slowest = float(speeds_flops.min())
    needed_s = job.remaining_flops / slowest if slowest > 0.0 else np.inf
    ends_s = np.cumsum(rest.dt_s)
    return int(np.searchsorted(ends_s, min(needed_s, job.left_s) - 1e-6)) + 1
