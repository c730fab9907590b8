"""A round of GreenSlot: the slots of waiting jobs, rejected jobs, and moved deadlines.

"The paper" is Goiri et al., GreenSlot, SC 2011, Section 4.1 and Figure 4. Jobs are tried in order of their
latest start, and each gets the slot with the cheapest brown energy, if it ends in time. This module does not
depend on the engine; the policy translates.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from beasy_sched.arrays import IndexArray
from beasy_sched.engine.session_words import PREDECESSOR_UNFINISHED, Rule
from beasy_sched.model.workflow import whole_slots
from beasy_sched.plugins.greenslot.greenslot_words import (
    AS_CHEAP_LATER,
    CHEAPER_LATER,
    CHEAPEST,
    FIRST_ROOM,
    GREENER_LATER,
    NO_SLOT,
    PEAK_LATER,
    PREDECESSORS,
    REFUSED,
    SUN_BEYOND,
    WORKFLOW_REFUSED,
)
from beasy_sched.plugins.greenslot.slots import Reservations, Slots, StartCosts
from beasy_sched.units import TIME_TOLERANCE_S

_GREEN_J: Final = 1e-6
"""Brown energy up to which a job counts as green, J."""


class QueuedTask(Struct, frozen=True):
    """Waiting job, as used in planning."""

    key: str
    res: int
    """Number of nodes."""
    duration_s: float
    """Reserved duration, s: the walltime. Infinite if unknown."""
    deadline_s: float = math.inf
    """Deadline of the job, s; within a workflow see `model.workflow.due_times`. Infinite for none."""
    submit_s: float = 0.0
    order: int = 0
    """Position of the job in the order of submission."""
    workflow: str = ""
    predecessors: tuple[str, ...] = ()
    """Jobs that must end first. A tuple object shared by several tasks, as in a phase, is read once."""
    new: bool = False
    """Whether the job was submitted since the last round, so that it may be rejected."""
    taken_s: float = 0.0
    """Time by which earlier rounds tightened the job's deadline, s."""
    earliest_s: float = -math.inf
    """Earliest start, s: after the think time of ended predecessors."""
    think_time_s: float = 0.0
    """Time that the job waits after the end of its last predecessor if that has not ended yet, s."""
    extra_w: float | None = None
    """Power that each of the job's nodes adds to that of a sleeping one, W; None for `Slots.extra_w`."""

    @property
    def latest_start_s(self) -> float:
        """Latest start that meets the tightened deadline, s; infinite without one."""
        return self.deadline_s - self.taken_s - self.duration_s if self.deadline_s < math.inf else math.inf

    @property
    def urgency(self) -> tuple[float, float, int]:
        """Sort key of "least slack time first": latest start, submission, order of submission."""
        return self.latest_start_s, self.submit_s, self.order


class RoundSettings(Struct, frozen=True):
    """Rules of planning a round; the defaults are GreenSlot's."""

    beyond: Literal["green", "anywhere"] = "green"
    """Placement of a job whose deadline lies beyond the window: ``green`` means only in slots without brown
    energy."""
    tie: Literal["latest", "earliest"] = "latest"
    """Choice among equally cheap starts with brown energy: the latest, if there is daylight until then."""
    tighten: Literal["ancestors", "job", "both", "none"] = "ancestors"
    """Job whose deadline moves if a job is expected to miss its deadline; its own if no ancestor waits."""
    penalty: float = 25.0
    """Cost of a late node and slot; raised automatically if prices are too high for it."""
    price_floor: float | None = None
    """Minimum price used; 0 if negative prices must not attract jobs."""
    order: Literal["latest start", "submission"] = "latest start"
    reserve_energy: bool = True
    """Whether energy used by a placed job is unavailable for the jobs placed after it."""
    refuse: bool = True
    """Whether new jobs that do not fit before their deadlines are rejected."""


GREENSLOT: Final = RoundSettings()
LOWEST_WINDOW: Final = RoundSettings(
    beyond="anywhere",
    tie="earliest",
    tighten="none",
    order="submission",
    reserve_energy=False,
    refuse=False,
)
"""Rules by which each job independently takes the cheapest window before its deadline."""


class TaskPlan(Struct, frozen=True):
    """Decision of a round about a task. Slots are counted from the start of the round."""

    key: str
    why: Rule
    """Reason for the decision."""
    start: int | None
    """Slot of the task's start; None if it was not placed."""
    end_slot: int
    """First slot after the task; H if it was not placed or ends after the window."""
    slack_s: float
    """Time until the task's latest start, s: negative if that has passed, infinite without a deadline."""
    cost: float = math.inf
    """Cost of the start, with the penalty if late; of the cheapest one for a task without a slot."""
    brown_j: float = 0.0
    """Brown energy of the start up to the window's end, J."""
    green_j: float = 0.0
    """Energy of the task that is not brown, J."""
    late_slots: int = 0
    """Number of slots between the last start in time and this start."""
    compared: int = 0
    """Number of starts with a finite cost."""
    earliest: int | None = None
    """Earliest slot of a start with a finite cost."""
    earliest_cost: float = math.inf

    @property
    def late(self) -> bool:
        """Whether the task is expected to miss its deadline."""
        return self.late_slots > 0

    @property
    def refused(self) -> bool:
        """Whether the task is not admitted."""
        return self.why in (REFUSED, WORKFLOW_REFUSED, PREDECESSOR_UNFINISHED)


class Round(Struct, frozen=True, eq=False):
    """Outcome of a round."""

    plans: dict[str, TaskPlan]
    """Plans of all tasks by key, in the order in which they were tried."""
    taken_s: dict[str, float]
    """New `QueuedTask.taken_s` of the tightened tasks."""
    slots: Slots
    """Window with all placed tasks."""


def plan_round(
    slots: Slots,
    tasks: Iterable[QueuedTask],
    ends: Mapping[str, int],
    settings: RoundSettings = GREENSLOT,
) -> Round:
    """Plan all waiting jobs (the paper's Figure 4, lines 7-27).

    ``ends``: end slots of running (`Slots.end_slot`) and ended jobs (0). A predecessor that is neither among
    them nor among the tasks does not end in the window. Tasks that wait for each other are not placed.
    """
    planner = _Planner(slots, tasks, ends, settings)
    for task in planner.queue.in_order(settings):
        if task.key not in planner.plans:
            planner.place(task)
    for task in planner.queue.tasks.values():
        if task.key not in planner.plans:  # part of a cycle, or behind one
            planner.plans[task.key] = planner.unplaced(task, PREDECESSORS)
    taken_s = _tightened(planner.queue, planner.plans, slots.slot_s, settings)
    return Round(planner.plans, taken_s, planner.left())


# --- precedence ---------------------------------------------------------------------------------------------


class _Queue:
    """Tasks and their precedence; tasks that share a tuple of predecessors form a group."""

    def __init__(self, tasks: Iterable[QueuedTask]) -> None:
        self.tasks = {task.key: task for task in sorted(tasks, key=lambda task: (task.order, task.key))}
        self.workflows: dict[str, list[str]] = {}
        self._members: dict[int, list[QueuedTask]] = {}
        self._before: dict[int, set[str]] = {}
        """Waiting predecessors of a group."""
        self._after: dict[str, list[int]] = {}
        """Groups that wait for a task."""
        for task in self.tasks.values():
            if task.workflow:
                self.workflows.setdefault(task.workflow, []).append(task.key)
            if task.predecessors:
                self._members.setdefault(id(task.predecessors), []).append(task)
        for group, members in self._members.items():
            self._before[group] = {key for key in members[0].predecessors if key in self.tasks}
            for key in self._before[group]:
                self._after.setdefault(key, []).append(group)

    def waiting_before(self, task: QueuedTask) -> set[str]:
        """Return the waiting predecessors of a task."""
        return self._before.get(id(task.predecessors), set())

    def in_order(self, settings: RoundSettings) -> Iterator[QueuedTask]:
        """Yield tasks in order, but none before its predecessors; skips those that wait for each other."""
        tasks = list(self.tasks.values())
        by_start = settings.order == "latest start"
        tasks.sort(key=lambda task: task.urgency if by_start else (0.0, task.submit_s, task.order))
        if not self._after:
            yield from tasks
            return
        rank = {task.key: place for place, task in enumerate(tasks)}
        missing = {group: len(keys) for group, keys in self._before.items()}
        ready = [place for place, task in enumerate(tasks) if not self.waiting_before(task)]
        while ready:  # sorted at first, hence a heap
            task = tasks[heapq.heappop(ready)]
            yield task
            for group in self._after.get(task.key, ()):
                missing[group] -= 1
                if not missing[group]:
                    for member in self._members[group]:
                        heapq.heappush(ready, rank[member.key])

    def ancestors(self, tasks: Iterable[QueuedTask]) -> set[str]:
        """Return all tasks that some of ``tasks`` wait for, directly or not."""
        before: set[str] = set()
        stack, groups = list(tasks), set[int]()
        while stack:
            task = stack.pop()
            if id(task.predecessors) not in groups:
                groups.add(id(task.predecessors))
                more = self.waiting_before(task) - before
                before |= more
                stack.extend(self.tasks[key] for key in more)
        return before

    def successors(self, keys: Iterable[str]) -> list[str]:
        """Return all tasks that wait for some of ``keys``, directly or not."""
        after: dict[str, None] = {}
        stack, groups = list(keys), set[int]()
        while stack:
            for group in self._after.get(stack.pop(), ()):
                if group not in groups:
                    groups.add(group)
                    members = [task.key for task in self._members[group] if task.key not in after]
                    after.update(dict.fromkeys(members))
                    stack.extend(members)
        return list(after)


def _tightened(
    queue: _Queue, plans: Mapping[str, TaskPlan], slot_s: float, settings: RoundSettings
) -> dict[str, float]:
    """Return the new tightening of deadlines that move, s: one slot more than before.

    No deadline moves before the task's submission plus its duration. The first late task of a workflow moves
    its ancestors.
    """
    late = [queue.tasks[key] for key, plan in plans.items() if plan.late]
    if not late or settings.tighten == "none":
        return {}
    heirs: dict[str, QueuedTask] = {}
    moved: set[str] = set()
    for task in late:
        inherits = settings.tighten != "job" and bool(queue.waiting_before(task))
        if inherits:
            heirs.setdefault(task.workflow or f"job {task.key}", task)
        if not inherits or settings.tighten == "both":
            moved.add(task.key)
    moved |= queue.ancestors(heirs.values())
    result = {}
    for task in queue.tasks.values():
        if task.key in moved and task.deadline_s < math.inf:
            most_s = task.deadline_s - task.submit_s - task.duration_s
            taken_s = min(task.taken_s + slot_s, most_s)
            if taken_s > task.taken_s:
                result[task.key] = taken_s
    return result


def _only_for_peak(costs: StartCosts, start: int, earliest: int) -> bool:
    """Whether a later start is cheaper only because it raises the peak less."""
    cost, peak_cost = costs.cost, costs.peak_cost
    if peak_cost is None:
        return False
    later, sooner = (cost.item(slot) - peak_cost.item(slot) for slot in (start, earliest))
    return later >= sooner - costs.cost_tolerance


# --- placing ------------------------------------------------------------------------------------------------


class _Planner:
    """State of a round: the remaining slots, and the decided tasks."""

    def __init__(
        self, slots: Slots, tasks: Iterable[QueuedTask], ends: Mapping[str, int], settings: RoundSettings
    ) -> None:
        self.queue = _Queue(tasks)
        self.plans: dict[str, TaskPlan] = {}
        self._slots, self._ends, self._settings = slots, ends, settings
        self._room = Reservations(slots, settings.price_floor, settings.reserve_energy)
        most_w = max((task.extra_w or 0.0 for task in self.queue.tasks.values()), default=0.0)
        dearest = self._room.dearest(max(most_w, slots.extra_w) * slots.slot_s)
        self._penalty = max(settings.penalty, max(1000.0, 2.0 * slots.size) * dearest)
        self._group_ends: dict[int, int] = {}

    def left(self) -> Slots:
        """Return the window minus the resources of the tasks."""
        return replace(self._slots, free=self._room.free, net_j=self._room.net_j)

    def place(self, task: QueuedTask) -> None:
        """Decide a task; its predecessors are decided."""
        first = self._first(task)
        if task.duration_s > self._slots.size * self._slots.slot_s + TIME_TOLERANCE_S:
            plan = self._place_long(task, first)
        else:
            plan = self._place_cheapest(task, first)
        self.plans[task.key] = plan
        if plan.start is not None:
            self._room.reserve(slice(plan.start, plan.end_slot), task.res, self._energy_j(task))
        elif self._is_refusable(task):
            self._refuse(task)

    def unplaced(self, task: QueuedTask, why: Rule) -> TaskPlan:
        """Return the plan of a task without a slot."""
        return TaskPlan(task.key, why, None, self._slots.size, self._slack_s(task))

    def _slack_s(self, task: QueuedTask) -> float:
        return task.latest_start_s - self._slots.now_s

    def _energy_j(self, task: QueuedTask) -> float:
        return self._slots.energy_j(task.res, task.extra_w)

    def _is_due(self, task: QueuedTask) -> bool:
        """Whether the deadline lies within the window, including its end."""
        return task.deadline_s <= self._slots.end_s + TIME_TOLERANCE_S

    # --- predecessors and rejection ---

    def _first(self, task: QueuedTask) -> int:
        """Return the first slot that predecessors and think time allow; H for none."""
        group = id(task.predecessors)
        end = self._group_ends.get(group)
        if end is None:
            end = self._group_ends[group] = max(map(self._end_of, task.predecessors), default=0)
        if end and task.think_time_s > 0:
            end += whole_slots(task.think_time_s, self._slots.slot_s)
        return min(max(end, self._slots.first_start(task.earliest_s)), self._slots.size)

    def _end_of(self, key: str) -> int:
        plan = self.plans.get(key)
        return self._ends.get(key, self._slots.size) if plan is None else plan.end_slot

    def _is_refusable(self, task: QueuedTask) -> bool:
        """Whether a task that does not fit is rejected; not if it waits for jobs that are still unknown."""
        if not (task.new and self._settings.refuse and self._is_due(task)):
            return False
        return all(key in self._ends or key in self.plans for key in task.predecessors)

    def _refuse(self, task: QueuedTask) -> None:
        """Reject a task with the rest of its workflow and all tasks that wait for these; free their slots."""
        reasons = {task.key: REFUSED}
        for key in self.queue.workflows.get(task.workflow, ()):
            reasons.setdefault(key, WORKFLOW_REFUSED)
        for key in self.queue.successors(reasons):
            reasons.setdefault(key, PREDECESSOR_UNFINISHED)
        for key, why in reasons.items():
            other, plan = self.queue.tasks[key], self.plans.get(key)
            if plan is not None and plan.refused:
                continue
            if plan is not None and plan.start is not None:
                self._room.reserve(slice(plan.start, plan.end_slot), -other.res, -self._energy_j(other))
            self.plans[key] = self.unplaced(other, why)

    # --- the choice of a slot ---

    def _place_long(self, task: QueuedTask, first: int) -> TaskPlan:
        """Place a task that is longer than the window as early as its nodes stay free, at any cost."""
        size, energy_j = self._slots.size, self._energy_j(task)
        start = self._room.first_free_to_end(task.res, first)
        if start >= size:
            return self.unplaced(task, PREDECESSORS if first >= size else NO_SLOT)
        costs = self._room.costs(task.res, energy_j, size - start)
        return self._plan(task, costs, start, size - start, why=FIRST_ROOM, compared=1, earliest=start)

    def _place_cheapest(self, task: QueuedTask, first: int) -> TaskPlan:
        """Place a task at the cheapest start in time, else at the first one (the paper's lines 10-26).

        The penalty exceeds all possible savings of a start, so a start in time is always preferred to a late
        one, and a late one to a later one.
        """
        slots = self._slots
        length = whole_slots(task.duration_s, slots.slot_s)
        costs = self._room.costs(task.res, self._energy_j(task), length)
        starts = first + np.flatnonzero(costs.possible[first:])
        if not len(starts):
            return self.unplaced(task, PREDECESSORS if first >= slots.size else NO_SLOT)
        allowed, compared, earliest = starts, len(starts), int(starts[0])
        if self._settings.beyond == "green" and not self._is_due(task):
            allowed = starts[costs.brown_j[starts] <= _GREEN_J]
            if not len(allowed):
                best = self._best(task, costs, starts, length)
                plan = self._plan(task, costs, best, length, SUN_BEYOND, compared, earliest)
                return replace(plan, start=None, end_slot=slots.size, late_slots=0)
        best = self._best(task, costs, allowed, length)
        why = self._why(costs, best, earliest, first)
        return self._plan(task, costs, best, length, why, compared, earliest)

    def _best(self, task: QueuedTask, costs: StartCosts, starts: IndexArray, length: int) -> int:
        """Return the cheapest of some possible starts; among equals, the one with least brown energy."""
        last = self._slots.last_start(task.latest_start_s)
        in_time = starts[: int(starts.searchsorted(last, side="right"))]
        if not len(in_time):
            return int(starts[0])
        cost = costs.cost[in_time]
        tied = in_time[cost <= cost.min() + costs.cost_tolerance]
        if len(tied) == 1:
            return int(tied[0])
        brown_j = costs.brown_j[tied]
        least_j = float(brown_j.min())
        if least_j <= _GREEN_J:
            return int(tied[int((brown_j <= _GREEN_J).argmax())])
        tied = tied[brown_j <= least_j + costs.brown_tolerance_j]
        earliest, latest = int(tied[0]), int(tied[-1])
        waits = self._settings.tie == "latest" and self._slots.daylight[earliest : latest + length].any()
        return latest if waits else earliest

    def _why(self, costs: StartCosts, start: int, earliest: int, first: int) -> Rule:
        if start == 0:
            return CHEAPEST
        if start == earliest:
            return PREDECESSORS if start == first else FIRST_ROOM
        if costs.cost[start] < costs.cost[earliest] - costs.cost_tolerance:
            return PEAK_LATER if _only_for_peak(costs, start, earliest) else CHEAPER_LATER
        greener = costs.brown_j[start] < costs.brown_j[earliest] - costs.brown_tolerance_j
        return GREENER_LATER if greener else AS_CHEAP_LATER

    def _plan(
        self,
        task: QueuedTask,
        costs: StartCosts,
        start: int,
        length: int,
        why: Rule,
        compared: int,
        earliest: int,
    ) -> TaskPlan:
        last = self._slots.last_start(task.latest_start_s)
        penalty = self._penalty * task.res
        brown_j = float(costs.brown_j[start])
        return TaskPlan(
            key=task.key,
            why=why,
            start=start,
            end_slot=start + length,
            slack_s=self._slack_s(task),
            cost=float(costs.cost[start]) + penalty * max(0, start - last),
            brown_j=brown_j,
            green_j=self._energy_j(task) * length - brown_j,
            late_slots=max(0, start - last),
            compared=compared,
            earliest=earliest,
            earliest_cost=float(costs.cost[earliest]) + penalty * max(0, earliest - last),
        )
