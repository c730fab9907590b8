"""Slots of GreenSlot's window: free nodes, energy and prices, and the cost of each start of a job.

"The paper" is Goiri et al., GreenSlot, SC 2011, Section 4.1 and Figure 4. Slot 0 starts now; times of
planning are numbers of slots, counted from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.model.workflow import whole_slots
from beasy_sched.plugins.greenslot.peak_prices import PeakCosts, SlotPeaks
from beasy_sched.units import JOULES_PER_KWH, TIME_TOLERANCE_S

ENERGY_TOLERANCE: Final = 1e-9
"""Share of a job's energy that counts as zero, because sums of energies and costs have rounding errors."""


class RunningTask(Struct, frozen=True):
    """Running job, as used in planning."""

    key: str
    res: int
    """Number of nodes."""
    start_s: float
    duration_s: float
    """Reserved duration, s: the walltime. Infinite if unknown."""
    extra_w: float | None = None
    """Power that each of the job's nodes adds to that of a sleeping one, W; None for `Slots.extra_w`."""


class Slots(Struct, frozen=True, eq=False):
    """Window of a round, one value per slot in arrays of shape [H]."""

    now_s: float
    slot_s: float
    """Length of a slot, s."""
    extra_w: float
    """Power that a computing node adds to that of a sleeping one, W."""
    free: IntArray
    """Number of nodes without a job, awake or not."""
    net_j: FloatArray
    """Predicted production minus the use of the site's floor and its jobs, J: the remaining renewable energy
    or, if negative, the brown energy already assigned."""
    price_per_kwh: FloatArray
    """Price of brown energy, or any other cost per kWh."""
    daylight: BoolArray
    """Whether an ideal day has production in each slot."""
    import_limit_w: float | FloatArray = math.inf
    """Limit of the grid, W, in one value or by slot; 0 without a grid."""
    peaks: SlotPeaks | None = None
    """Price of the highest import; None without one."""

    @classmethod
    def predicted(
        cls,
        now_s: float,
        slot_s: float,
        predicted_w: FloatArray,
        price_per_kwh: FloatArray | float,
        *,
        nodes: int,
        full_w: float,
        sleep_w: float = 0.0,
        base_w: float | FloatArray = 0.0,
        pue: FloatArray | None = None,
        running: Iterable[RunningTask] = (),
        daylight: BoolArray | None = None,
        import_limit_w: float = math.inf,
    ) -> Slots:
        """Return the window at the start of a round (the paper's Figure 4, line 8).

        ``predicted_w``: production, [H]. ``nodes``: those in service, each of which draws ``full_w`` with a
        job and ``sleep_w`` without. ``base_w`` is always drawn. Without ``daylight``, all slots have it.

        Energies and prices are those of the servers alone: where these have cooling (``pue``, [H]), it
        divides the powers of the site, and multiplies the price.
        """
        size = len(predicted_w)
        limit_w: float | FloatArray = import_limit_w
        if pue is not None:
            predicted_w, base_w, limit_w = predicted_w / pue, base_w / pue, import_limit_w / pue
            price_per_kwh = price_per_kwh * pue
        slots = cls(
            now_s=now_s,
            slot_s=slot_s,
            extra_w=full_w - sleep_w,
            free=np.full(size, nodes, dtype=np.int64),
            net_j=(np.asarray(predicted_w, dtype=np.float64) - (base_w + nodes * sleep_w)) * slot_s,
            price_per_kwh=np.broadcast_to(np.asarray(price_per_kwh, dtype=np.float64), size).copy(),
            daylight=np.ones(size, dtype=np.bool_) if daylight is None else daylight,
            import_limit_w=limit_w,
        )
        for task in running:
            span = slice(0, slots.end_slot(task))
            slots.free[span] -= task.res
            slots.net_j[span] -= slots.energy_j(task.res, task.extra_w)
        return slots

    @property
    def size(self) -> int:
        """Number of slots, H."""
        return len(self.free)

    @property
    def sun_j(self) -> FloatArray:
        """Unused predicted production, J: [H]."""
        return np.maximum(self.net_j, 0.0)

    @property
    def end_s(self) -> float:
        """End of the window, s."""
        return self.now_s + self.size * self.slot_s

    def energy_j(self, res: int, extra_w: float | None = None) -> float:
        """Return the energy that a job on ``res`` nodes adds in each slot, J."""
        return res * (self.extra_w if extra_w is None else extra_w) * self.slot_s

    def end_slot(self, task: RunningTask) -> int:
        """Return the first slot without a running job, at least 1: one that overruns keeps one more slot."""
        end_s = min(task.start_s + task.duration_s, self.end_s)
        return min(whole_slots(end_s - self.now_s, self.slot_s), self.size)

    def last_start(self, latest_start_s: float) -> int:
        """Return the last slot whose start is not after ``latest_start_s``; -1 if all are, H at most."""
        slots = (latest_start_s - self.now_s + TIME_TOLERANCE_S) / self.slot_s
        return math.floor(min(max(slots, -1.0), float(self.size)))

    def first_start(self, earliest_s: float) -> int:
        """Return the first slot that starts at ``earliest_s`` or later; H if none does."""
        slots = (earliest_s - self.now_s - TIME_TOLERANCE_S) / self.slot_s
        return math.ceil(min(max(slots, 0.0), float(self.size)))


class StartCosts(Struct, frozen=True, eq=False):
    """Energy and cost of each start of a job; slot s of H - L + 1, for a job of L slots."""

    possible: BoolArray
    """Whether nodes and, under a limit, energy suffice in all L slots of each start."""
    brown_j: FloatArray
    """Brown energy that the job would add, J."""
    cost: FloatArray
    """The cost of that energy."""
    brown_tolerance_j: float
    """Rounding tolerance of `brown_j`."""
    cost_tolerance: float
    """Rounding tolerance of `cost`."""
    peak_cost: FloatArray | None = None
    """Part of `cost` for a higher peak; None if it has no price."""


class Reservations:
    """Copy of the slots from which jobs take their resources."""

    def __init__(self, slots: Slots, price_floor: float | None = None, reserve_energy: bool = True) -> None:
        """``reserve_energy``: whether jobs take energy, not only nodes. ``price_floor``: the lowest price."""
        price = slots.price_per_kwh if price_floor is None else np.maximum(slots.price_per_kwh, price_floor)
        self.free: IntArray = slots.free.copy()
        self.net_j: FloatArray = slots.net_j.copy()
        self._sun_j: FloatArray = slots.sun_j
        self._price_per_j: FloatArray = price / JOULES_PER_KWH
        self._dearest_per_j = float(np.abs(self._price_per_j).max(initial=0.0))
        self._limit_j = slots.import_limit_w * slots.slot_s
        self._is_limited = bool(np.min(self._limit_j) < math.inf)
        self._peaks: PeakCosts | None = None
        if slots.peaks is not None:  # as if all of an energy raised the peak
            largest_pue = 1.0 if slots.peaks.pue is None else float(slots.peaks.pue.max())
            self._dearest_per_j += slots.peaks.per_kw / 1e3 / slots.slot_s * largest_pue
            self._peaks = PeakCosts(slots.peaks, self.net_j, slots.slot_s)
        self._reserve_energy = reserve_energy
        self._rows: FloatArray = np.empty((3, slots.size))
        """Scratch memory of `_compare`, one row per slot: blocked, brown energy and its cost."""
        self._blocked, self._brown_j, self._cost = self._rows
        self._sums: FloatArray = np.zeros((3, slots.size + 1))
        """Sums of these rows before each slot."""
        self._costs: dict[tuple[int, float, int], StartCosts] = {}

    def dearest(self, energy_j: float) -> float:
        """Return the maximum cost of an energy, by the largest price of the window (or its negative).

        The price of the peak is included.
        """
        return energy_j * self._dearest_per_j

    def costs(self, res: int, energy_j: float, length: int) -> StartCosts:
        """Return the costs of a job that needs ``energy_j`` in each of ``length`` slots, at most H."""
        key = res, energy_j, length
        costs = self._costs.get(key)
        if costs is None:
            costs = self._costs[key] = self._compare(*key)
        return costs

    def first_free_to_end(self, res: int, first: int) -> int:
        """Return the earliest slot, from ``first`` on, after which ``res`` nodes are free to the end."""
        blocked = np.flatnonzero(self.free < res)
        return max(first, int(blocked[-1]) + 1) if len(blocked) else first

    def reserve(self, span: slice, res: int, energy_j: float) -> None:
        """Take nodes and ``energy_j`` in each slot of ``span``; negative values give them back."""
        self.free[span] -= res
        if self._reserve_energy:
            self.net_j[span] -= energy_j
            self._sun_j[span] = np.maximum(self.net_j[span], 0.0)
            if self._peaks is not None:
                self._peaks.reserved(span, energy_j, may_raise=self._may_change_peak(span, res, energy_j))
        self._costs.clear()

    def _may_change_peak(self, span: slice, res: int, energy_j: float) -> bool:
        """Whether a reservation may change the peak: all but those whose start does not raise it."""
        costs = self._costs.get((res, energy_j, span.stop - span.start))
        if energy_j < 0.0 or costs is None or costs.peak_cost is None:
            return True
        return span.start >= len(costs.peak_cost) or bool(costs.peak_cost[span.start] > 0.0)

    def _compare(self, res: int, energy_j: float, length: int) -> StartCosts:
        blocked, brown_j, cost = self._blocked, self._brown_j, self._cost
        np.less(self.free, res, out=blocked)
        np.subtract(energy_j, self._sun_j, out=brown_j)
        brown_j[brown_j <= ENERGY_TOLERANCE * energy_j] = 0.0
        np.multiply(brown_j, self._price_per_j, out=cost)
        if self._is_limited:
            left_j = self._limit_j + np.minimum(self.net_j, 0.0)
            np.maximum(blocked, brown_j > left_j + ENERGY_TOLERANCE * energy_j, out=blocked)
        np.add.accumulate(self._rows, axis=1, out=self._sums[:, 1:])
        blocked, brown_j, cost = self._sums[:, length:] - self._sums[:, : len(self.free) + 1 - length]
        peak_cost = None
        if self._peaks is not None:
            peak_cost = self._peaks.of_starts(energy_j, length)
            cost += peak_cost
        most_j = ENERGY_TOLERANCE * energy_j * len(self.free)
        return StartCosts(
            possible=blocked == 0.0,
            brown_j=brown_j,
            cost=cost,
            brown_tolerance_j=most_j,
            cost_tolerance=self.dearest(most_j),
            peak_cost=peak_cost,
        )
