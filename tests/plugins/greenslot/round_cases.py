"""Windows and tasks of GreenSlot in slots of 15 minutes, random ones, and a round planned slot by slot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.greenslot.planning import QueuedTask, Round, RoundSettings, plan_round
from beasy_sched.plugins.greenslot.slots import RunningTask, Slots

SLOT_S = 900.0
WH_J = 3600.0
NODE_WH = 25
"""What a node of 100 W uses in a slot."""


def window(
    sun_wh: Sequence[float],
    price: float | Sequence[float] = 0.1,
    nodes: int = 1,
    *,
    now: float = 0,
    daylight: bool = True,
    limit_wh: float = math.inf,
    running: Sequence[RunningTask] = (),
    **powers: float,
) -> Slots:
    """A window that starts at slot ``now``; sun and the import limit are Wh a slot."""
    return Slots.predicted(
        now * SLOT_S,
        SLOT_S,
        np.array(sun_wh, dtype=np.float64) * 4,
        np.array(price, dtype=np.float64),
        nodes=nodes,
        running=running,
        daylight=np.full(len(sun_wh), daylight),
        import_limit_w=limit_wh * 4,
        **{"full_w": 100.0, **powers},
    )


def left_wh(slots: Slots) -> FloatArray:
    """What the grid can still deliver in each slot, Wh; negative if overdrawn."""
    left_j: FloatArray = slots.import_limit_w * slots.slot_s + np.minimum(slots.net_j, 0.0)
    return left_j / WH_J


def task(key: str, slots: float, nodes: int, deadline: float = math.inf, **more: Any) -> QueuedTask:
    """A new task; duration and deadline in slots, order by its name."""
    named = {"order": ord(key[0]), "new": True, **more}
    return QueuedTask(key, nodes, slots * SLOT_S, deadline * SLOT_S, **named)


def running(key: str, nodes: int, start: float, slots: float) -> RunningTask:
    return RunningTask(key, nodes, start * SLOT_S, slots * SLOT_S)


# --- random rounds ------------------------------------------------------------------------------------------


class Instance(NamedTuple):
    slots: Slots
    tasks: list[QueuedTask]
    ends: dict[str, int]
    settings: RoundSettings

    def plan(self) -> Round:
        return plan_round(*self)


SETTINGS = st.builds(
    RoundSettings,
    beyond=st.sampled_from(["green", "anywhere"]),
    tie=st.sampled_from(["latest", "earliest"]),
    tighten=st.sampled_from(["ancestors", "job", "both", "none"]),
    penalty=st.sampled_from([25.0, 1.0]),
    price_floor=st.sampled_from([None, None, 0.0]),
    order=st.sampled_from(["latest start", "latest start", "submission"]),
    reserve_energy=st.sampled_from([True, True, False]),
    refuse=st.sampled_from([True, True, False]),
)
PRICES = st.sampled_from([0.1, 0.1, 0.2, 0.5, 0.0, -0.1, 40.0])
LIMITS = st.sampled_from([math.inf] * 5 + [0, 25, 60, 100])


@st.composite
def instances(draw: st.DrawFn, rules: st.SearchStrategy[RoundSettings] = SETTINGS) -> Instance:
    """Up to 10 slots, 3 nodes and 7 tasks that may wait for each other, running ones and strangers."""
    size, nodes = draw(st.sampled_from([10, 8, 6, 4, 3, 2, 1])), draw(st.integers(1, 3))
    busy = [running("r0", 1, draw(st.integers(-4, 0)), draw(st.integers(1, 8)))] * draw(st.integers(0, 1))

    def by_slot(values: st.SearchStrategy[Any]) -> Any:
        return draw(
            st.one_of(values.map(lambda one: [one] * size), st.lists(values, min_size=size, max_size=size))
        )

    slots = window(
        by_slot(st.integers(0, 20).map(lambda x: 5 * x)),
        by_slot(PRICES),
        nodes,
        limit_wh=draw(LIMITS),
        running=busy,
        base_w=draw(st.sampled_from([0.0, 20.0])),
    )
    slots.daylight[:] = by_slot(st.booleans())
    tasks = [draw(some_task(i, size, nodes)) for i in range(draw(st.integers(0, 7)))]
    ends = {job.key: slots.end_slot(job) for job in busy} | {"ended": 0}
    return Instance(slots, tasks, ends, draw(rules))


@st.composite
def some_task(draw: st.DrawFn, i: int, size: int, nodes: int) -> QueuedTask:
    """Mostly short, due in the window and behind one of the tasks before it."""
    deadline = draw(st.sampled_from([math.inf, *[x / 2 for x in range(-1, 2 * size + 4)]]))
    others = [f"t{j}" for j in range(i)] * 4 + ["r0", "ended", "stranger"]
    before = draw(st.lists(st.sampled_from(others), max_size=2)) if draw(st.booleans()) else []
    return task(
        f"t{i}",
        draw(st.sampled_from([0.5, 1, 1, 1, 1.5, 1.5, 2, 3, size + 1])),
        draw(st.sampled_from([1] * 6 + [nodes] * 3 + [nodes + 1])),
        deadline,
        order=draw(st.integers(0, 8)) * 10 + i,
        submit_s=-draw(st.integers(0, 4)) * SLOT_S,
        workflow=draw(st.sampled_from(["", "v", "w"])),
        predecessors=tuple(before),
        new=draw(st.booleans()),
        taken_s=draw(st.sampled_from([0, 0, 1, 2])) * SLOT_S,
    )


# --- the oracle ---------------------------------------------------------------------------------------------

REFUSED = "refused"


class NaiveRound:
    """The specification's round with loops over slots and exact numbers; it has no idea of prefix sums.

    What is left is counted again from all placed tasks for every comparison. ``starts`` has a slot, None or
    `REFUSED` for each task. Only for tasks with whole numbers of everything.
    """

    def __init__(
        self,
        slots: Slots,
        tasks: Sequence[QueuedTask],
        ends: Mapping[str, int],
        settings: RoundSettings,
    ) -> None:
        self.slots, self.tasks, self.ends, self.settings = slots, {t.key: t for t in tasks}, ends, settings
        self.starts: dict[str, int | str | None] = {}
        self.costs: dict[str, Fraction] = {}
        self.late: list[str] = []
        self.energy_j = Fraction(slots.extra_w) * Fraction(slots.slot_s)
        prices = [Fraction(str(price)) for price in slots.price_per_kwh.tolist()]
        if settings.price_floor is not None:
            prices = [max(price, Fraction(settings.price_floor)) for price in prices]
        self.price_per_j = [price / 3_600_000 for price in prices]
        dearest = max(abs(price) for price in self.price_per_j) * self.energy_j
        self.penalty = max(Fraction(settings.penalty), 1000 * dearest)
        while (key := self.next_key()) is not None:
            self.place(self.tasks[key])
            self.refuse_if_it_fits_nowhere(self.tasks[key])
        for key in self.tasks:
            self.starts.setdefault(key, None)

    def next_key(self) -> str | None:
        ready = []
        for key, one in self.tasks.items():
            waits = any(name in self.tasks and name not in self.starts for name in one.predecessors)
            if key not in self.starts and not waits:
                latest = one.latest_start_s if self.settings.order == "latest start" else 0
                ready.append((latest, one.submit_s, one.order, key))
        return min(ready)[-1] if ready else None

    def length(self, one: QueuedTask) -> int:
        return max(1, math.ceil(Fraction(one.duration_s) / Fraction(self.slots.slot_s)))

    def free(self, slot: int) -> int:
        placed = [key for key, start in self.starts.items() if isinstance(start, int)]
        return int(self.slots.free[slot]) - sum(self.tasks[k].res for k in placed if self.occupies(k, slot))

    def net_j(self, slot: int) -> Fraction:
        net_j = Fraction(float(self.slots.net_j[slot]))
        if self.settings.reserve_energy:
            for key, start in self.starts.items():
                if isinstance(start, int) and self.occupies(key, slot):
                    net_j -= self.tasks[key].res * self.energy_j
        return net_j

    def occupies(self, key: str, slot: int) -> bool:
        start = self.starts[key]
        assert isinstance(start, int)
        return start <= slot < start + self.length(self.tasks[key])

    def end(self, key: str) -> int:
        if key in self.ends:
            return self.ends[key]
        start, size = self.starts.get(key), self.slots.size
        return min(start + self.length(self.tasks[key]), size) if isinstance(start, int) else size

    def brown_j(self, one: QueuedTask, slot: int) -> Fraction:
        return max(Fraction(0), one.res * self.energy_j - max(Fraction(0), self.net_j(slot)))

    def fits(self, one: QueuedTask, slot: int) -> bool:
        if self.free(slot) < one.res:
            return False
        if math.isinf(self.slots.import_limit_w):
            return True
        given_j = max(Fraction(0), -self.net_j(slot))
        left_j = Fraction(self.slots.import_limit_w) * Fraction(self.slots.slot_s) - given_j
        brown_j = self.brown_j(one, slot)
        return brown_j == 0 or brown_j <= left_j

    def place(self, one: QueuedTask) -> None:
        size = self.slots.size
        slack = (one.latest_start_s - self.slots.now_s) / self.slots.slot_s
        last = size if math.isinf(slack) else max(math.floor(slack), -1)
        first = max((self.end(key) for key in one.predecessors), default=0)
        if self.length(one) > size:
            tails = (s for s in range(first, size) if all(self.free(i) >= one.res for i in range(s, size)))
            best = next(tails, None)
        else:
            best = self.cheapest(one, first, last)
        if best is None:
            return
        self.starts[one.key] = best
        if best > last:
            self.late.append(one.key)

    def cheapest(self, one: QueuedTask, first: int, last: int) -> int | None:
        slots, length = self.slots, self.length(one)
        brown_j, cost = {}, {}
        for start in range(first, slots.size - length + 1):
            span = range(start, start + length)
            if all(self.fits(one, slot) for slot in span):
                brown_j[start] = sum((self.brown_j(one, slot) for slot in span), Fraction(0))
                energy = sum((self.brown_j(one, s) * self.price_per_j[s] for s in span), Fraction(0))
                cost[start] = energy + self.penalty * one.res * max(0, start - last)
        if cost and not self.is_due(one) and self.settings.beyond == "green":
            cost = {start: value for start, value in cost.items() if brown_j[start] == 0}
            if not cost:
                self.starts[one.key] = None
        if not cost:
            return None
        tied = [start for start in cost if cost[start] == min(cost.values())]
        tied = [start for start in tied if brown_j[start] == min(brown_j[s] for s in tied)]
        light = any(slots.daylight[slot] for slot in range(tied[0], tied[-1] + length))
        waits = self.settings.tie == "latest" and brown_j[tied[0]] > 0 and light
        best = tied[-1] if waits else tied[0]
        self.costs[one.key] = cost[best]
        return best

    def is_due(self, one: QueuedTask) -> bool:
        return one.deadline_s <= self.slots.now_s + self.slots.size * self.slots.slot_s

    def refuse_if_it_fits_nowhere(self, one: QueuedTask) -> None:
        if one.key in self.starts:
            return
        self.starts[one.key] = None
        unknown = any(k not in self.tasks and k not in self.ends for k in one.predecessors)
        if not (one.new and self.settings.refuse and self.is_due(one)):
            return
        if unknown:
            return
        gone = {one.key}
        if one.workflow:
            gone |= {key for key, other in self.tasks.items() if other.workflow == one.workflow}
        while more := {k for k, t in self.tasks.items() if gone.intersection(t.predecessors)} - gone:
            gone |= more
        self.starts |= dict.fromkeys(gone, REFUSED)

    def ancestors(self, key: str) -> set[str]:
        direct = {name for name in self.tasks[key].predecessors if name in self.tasks}
        return direct.union(*map(self.ancestors, direct))

    def taken_s(self) -> dict[str, float]:
        moved: set[str] = set()
        done: set[str] = set()
        mode = self.settings.tighten
        for key in self.late:
            if self.starts[key] == REFUSED or mode == "none":
                continue
            before = self.ancestors(key)
            if mode in ("job", "both") or not before:
                moved.add(key)
            workflow = self.tasks[key].workflow or f"alone {key}"
            if mode != "job" and before and workflow not in done:
                done.add(workflow)
                moved |= before
        result = {}
        for key in moved:
            one = self.tasks[key]
            taken_s = min(one.taken_s + self.slots.slot_s, one.deadline_s - one.submit_s - one.duration_s)
            if taken_s > one.taken_s and not math.isinf(one.deadline_s):
                result[key] = taken_s
        return result


def first_fit(free: np.ndarray[Any, Any], tasks: Sequence[QueuedTask]) -> dict[str, int | None]:
    """The earliest start of each task in turn, slot by slot."""
    starts: dict[str, int | None] = {}
    for one in tasks:
        length = max(1, math.ceil(one.duration_s / SLOT_S))
        fits = [s for s in range(len(free) - length + 1) if (free[s : s + length] >= one.res).all()]
        starts[one.key] = fits[0] if fits else None
        if fits:
            free[fits[0] : fits[0] + length] -= one.res
    return starts
