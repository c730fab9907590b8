"""The policy `greenslot`: places jobs and workflows with deadlines in slots with green or cheap energy.

Goiri et al., "GreenSlot: Scheduling Energy Consumption in Green Datacenters", SC 2011. A round of planning
takes place at the start of a slot if something has changed; `planning` has the algorithm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.actions import Action, Compensate, FactDict, Facts, Postpone, Reject
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding
from beasy_sched.model.jobs import Job
from beasy_sched.model.workflow import predecessors_of
from beasy_sched.plugins.greenslot.dispatch import (
    Deadlines,
    Dispatcher,
    SlotClock,
    SlotOptions,
    check_slot,
    reserved_s,
    unkept_deadlines,
)
from beasy_sched.plugins.greenslot.greenslot_words import GREENSLOT_WORDS, STARTED_FOR, TIGHTENED
from beasy_sched.plugins.greenslot.peak_prices import SlotPeaks, charges_ahead
from beasy_sched.plugins.greenslot.planning import (
    LOWEST_WINDOW,
    QueuedTask,
    Round,
    RoundSettings,
    TaskPlan,
    plan_round,
)
from beasy_sched.plugins.greenslot.slots import RunningTask, Slots
from beasy_sched.units import SECONDS_PER_HOUR


class Mix(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of an objective: cost of a kWh is price x its price + carbon x its carbon intensity in g."""

    price: float = 0.0
    carbon: float = 0.0


class GreenSlotOptions(SlotOptions, frozen=True):
    """Options of `greenslot`."""

    window_h: float = 48.0
    """Time ahead for which jobs are planned, hours."""
    prices: Literal["real", "flat"] = "real"
    """"flat": all brown energy costs ``flat_price``, the paper's GreenOnly."""
    flat_price: float = 0.02
    """Price per kWh of brown energy if prices are flat."""
    objective: Literal["price", "carbon"] | Mix = "price"
    """Cost of a kWh of brown energy: its price, its carbon, or weights for both."""
    beyond: Literal["green", "anywhere"] = "green"
    """Placement of jobs whose deadline lies beyond the window: only in slots without brown energy, or
    anywhere."""
    tie: Literal["latest", "earliest"] = "latest"
    """Choice among equally cheap starts that need brown energy."""
    tighten: Literal["ancestors", "job", "both", "none"] = "ancestors"
    """Deadlines moved one slot earlier if a job is expected to be late: those of its waiting predecessors, or
    its own if it has none; its own; both; or none."""
    penalty: float = 25.0
    """Cost of a late node and slot."""
    price_floor: float | None = None
    """Minimum price used; null: none."""


class _PlannedJob(Struct, frozen=True):
    """Decision of the last round about a job."""

    plan: TaskPlan
    round: int
    """The slot of the round, counted from time 0; the plan's slots are counted from it."""

    @property
    def start(self) -> int | None:
        """Slot of the start, counted from time 0; None if the job has none."""
        return None if self.plan.start is None else self.round + self.plan.start


class GreenSlot(Policy):
    """Places each job in its cheapest slot, with free renewable energy, and meets deadlines.

    Jobs are tried by least slack time. A job whose deadline lies beyond the window is only placed in
    slots without brown energy; a new one that does not fit before its deadline is rejected.
    """

    name = "greenslot"
    summary = "GreenSlot: places jobs with deadlines in slots with solar power or cheap grid power"
    words = GREENSLOT_WORDS
    options_type = GreenSlotOptions
    options: GreenSlotOptions
    needs_power = True

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Warn of deadlines that are too tight for the slots."""
        return unkept_deadlines(self.options.slot_s, self.name, inputs.due_jobs)

    def begin(self, view: View) -> None:
        """Check that the slots fit the site, and that the site has the data of the objective."""
        options = self.options
        check_slot(options.slot_s, view, self.name)
        self._size = round(options.window_h * SECONDS_PER_HOUR / options.slot_s) if options.slot_s > 0 else 0
        if self._size < 1:
            raise ConfigError(
                f"options of policy {self.name!r}: window_h: found {options.window_h:g}, expected at least"
                f" one slot of {options.slot_s:g} s"
            )
        grid = None if view.site is None else view.site.grid
        self._weights = _weights(options.objective)
        if self._weights.carbon and (grid is None or grid.carbon is None):
            raise ConfigError(
                f"options of policy {self.name!r}: objective: carbon requires [grid] carbon in the site file"
            )
        self._settings = self._round_settings()
        self._clock = SlotClock(options.slot_s)
        self._deadlines = Deadlines(options)
        self._dispatcher = Dispatcher(options)
        self._planned: dict[str, _PlannedJob] = {}
        self._taken_s: dict[str, float] = {}
        self._end_slots: dict[str, int] = {}
        """First slot after each running job, as reserved; counted from time 0."""
        self._seen = (-1, 0)
        self._changed = True
        self._counts: Counter[str] = Counter(rounds=0, moved_earlier=0, moved_later=0, tightened=0, late=0)

    def schedule(self, view: View) -> Sequence[Action]:
        """Plan at the start of a slot; in between, start due jobs as servers wake."""
        self._changed |= bool(view.arrived or view.ended)
        actions: list[Action] = []
        at_slot = self._clock.starts(view.now)
        if at_slot:
            if self._wants_round(view):
                actions += self._hold_round(view)
            self._dispatcher.due = self._due(view)
        return [*actions, *self._dispatcher.actions(view, at_slot=at_slot)]

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the number of rounds, and of their changes."""
        return {"greenslot": dict(self._counts)}

    def _round_settings(self) -> RoundSettings:
        names = ("beyond", "tie", "tighten", "penalty", "price_floor")
        return RoundSettings(**{name: getattr(self.options, name) for name in names})

    # --- rounds ---------------------------------------------------------------------------------------------

    def _wants_round(self, view: View) -> bool:
        """Whether an event since the last round may change the plan."""
        seen = (0 if view.outlook is None else view.outlook.revision, int(np.count_nonzero(view.available)))
        changed = self._changed or seen != self._seen
        self._seen, self._changed = seen, False
        index = self._clock.index
        return (
            changed
            or any(planned.start is None for planned in self._planned.values())
            or any(planned.start is not None and planned.start < index for planned in self._planned.values())
            or any(end <= index for end in self._end_slots.values())
            or len(self._planned) != len(view.queue) + len(view.held)
        )

    def _hold_round(self, view: View) -> list[Action]:
        """Plan all waiting jobs again."""
        waiting = {job.id: job for job in (*view.queue, *view.held.values())}
        new = {job.id for job in self._deadlines.update(waiting.values())}
        slots = self._slots(view)
        tasks, ends = self._tasks(view, waiting, new), self._ends(view, waiting)
        made = plan_round(slots, tasks, ends, self._settings)
        self._counts["rounds"] += 1
        return self._taken_over(view, made, waiting)

    def _taken_over(self, view: View, made: Round, waiting: dict[str, Job]) -> list[Action]:
        """Store the decisions of a round; log why jobs wait, and reject those that it rejected."""
        index = self._clock.index
        actions: list[Action] = []
        before, self._planned = self._planned, {}
        for job_id, plan in made.plans.items():
            job, planned = waiting[job_id], _PlannedJob(plan, index)
            if plan.refused:
                actions.append(Reject(job, plan.why, self._facts(job, planned)))
                continue
            self._planned[job_id] = planned
            self._count_move(before.get(job_id), planned)
            if plan.start != 0 and view.wants_reason(job, plan.why):
                actions.append(Postpone(job, plan.why, self._facts(job, planned)))
        self._taken_s = {
            job_id: taken_s for job_id, taken_s in self._taken_s.items() if job_id in self._planned
        }
        self._taken_s |= made.taken_s
        self._counts["late"] += sum(plan.late for plan in made.plans.values())
        if made.taken_s:
            self._counts["tightened"] += len(made.taken_s)
            actions.append(Compensate(TIGHTENED, {"jobs": len(made.taken_s)}))
        return actions

    def _count_move(self, before: _PlannedJob | None, now: _PlannedJob) -> None:
        """Count a job that a round moved to another slot."""
        if before is not None and before.start is not None and now.start is not None:
            self._counts["moved_earlier"] += now.start < before.start
            self._counts["moved_later"] += now.start > before.start

    def _due(self, view: View) -> dict[str, tuple[Job, str, Callable[[], Facts]]]:
        """Return the jobs of this slot, most urgent first, with their rule and a function for the facts."""
        index, due = self._clock.index, []
        for job in view.queue:
            planned = self._planned.get(job.id)
            if planned is not None and planned.start is not None and planned.start <= index:
                due.append((job, planned))
        due.sort(key=lambda entry: (entry[1].plan.slack_s, self._deadlines.number(entry[0])))
        for job, planned in due:
            self._end_slots[job.id] = index + planned.plan.end_slot - (planned.plan.start or 0)
        return {
            job.id: (
                job,
                STARTED_FOR.get(planned.plan.why, planned.plan.why),
                partial(self._facts, job, planned),
            )
            for job, planned in due
        }

    def _facts(self, job: Job, planned: _PlannedJob) -> FactDict:
        """Return the facts of a decision, for the log."""
        facts: FactDict = {}
        plan, slot_s = planned.plan, self.options.slot_s
        if plan.start:
            facts["planned_start_s"] = (planned.round + plan.start) * slot_s
        if math.isfinite(plan.cost):
            facts |= {"cost": plan.cost, "brown_j": plan.brown_j, "green_j": plan.green_j}
            facts["slots_compared"] = plan.compared
        if plan.earliest is not None and plan.earliest != plan.start:
            facts["earliest_s"] = (planned.round + plan.earliest) * slot_s
            facts["earliest_cost"] = plan.earliest_cost
        return facts | self._deadlines.facts(job, self._clock.index * slot_s)

    # --- input of a round -----------------------------------------------------------------------------------

    def _slots(self, view: View) -> Slots:
        """Return the window: predicted production, known prices, nodes without a running job."""
        options, site, now_s = self.options, view.site, self._clock.index * self.options.slot_s
        power, kinds = view.power_model, view.platform.kind_of
        can_sleep = power.can_sleep[kinds] & view.power_actions_allowed & (options.sleep != "never")
        fastest = view.platform.fastest_of_kind[kinds]
        rest_w = np.where(can_sleep, power.sleep_w[kinds], power.idle_w[kinds, fastest])
        nodes = int(np.count_nonzero(view.available))
        sleep_w = float(rest_w.sum()) / max(nodes, 1)
        extra_w = float((power.full_w[kinds, fastest] - rest_w).max())
        predicted_w = np.zeros(self._size)
        daylight = None
        if view.outlook is not None:
            predicted_w = view.outlook.renewable_w(now_s, options.slot_s, self._size)
            ideal_w = view.outlook.clear_sky_w(now_s, options.slot_s, self._size)
            daylight = ideal_w > 0.0 if ideal_w.any() else None
        if view.budget is not None:
            predicted_w[0] = view.budget.renew_w
        grid = None if site is None else site.grid
        site_load = None if site is None else site.load_ahead(view.now, self._edges_s(now_s))
        slots = Slots.predicted(
            now_s,
            options.slot_s,
            predicted_w,
            self._prices(view, now_s),
            nodes=nodes,
            full_w=sleep_w + extra_w,
            sleep_w=sleep_w,
            base_w=0.0 if site_load is None else site_load.always_w,
            pue=None if site_load is None else site_load.pue,
            running=[self._running(view, job) for job in view.running.values()],
            daylight=daylight,
            import_limit_w=0.0 if grid is None else grid.import_limit_w,
        )
        peaks = self._peaks(view, now_s, slots, None if site_load is None else site_load.pue)
        return slots if peaks is None else replace(slots, peaks=peaks)

    def _peaks(self, view: View, now_s: float, slots: Slots, pue: FloatArray | None) -> SlotPeaks | None:
        """Return the price of the highest import, the highest so far, and the charge of the battery that the
        grid is expected to give in addition to ``slots``, with the running jobs; None without a price.
        """
        meter = view.peaks
        if meter is None or not self._weights.price or not meter.price.per_kw:
            return None
        periods = meter.periods_at(self._edges_s(now_s)[:-1])
        site, state, charges = view.site, view.storage_state, None
        if site is not None and site.grid is not None and state is not None:
            net_w = slots.net_j / slots.slot_s if pue is None else slots.net_j / slots.slot_s * pue
            charges = charges_ahead(site.grid, site.storage, state, net_w, view.now, self._edges_s(now_s))
        return SlotPeaks(
            self._weights.price * meter.price.per_kw,
            np.array([meter.peaks_w.get(period, 0.0) for period in periods.tolist()]),
            periods,
            pue,
            charges,
        )

    def _prices(self, view: View, now_s: float) -> FloatArray:
        """Return the currently known cost of a kWh of brown energy in each slot."""
        weights, grid = self._weights, None if view.site is None else view.site.grid
        edges_s = self._edges_s(now_s)
        costs = np.zeros(self._size)
        if self.options.prices == "flat":
            costs += weights.price * self.options.flat_price
        elif grid is not None and grid.price is not None and weights.price:
            costs += weights.price * grid.price.expected(now_s, edges_s)
        if grid is not None and grid.carbon is not None and weights.carbon:
            costs += weights.carbon * grid.carbon.expected(now_s, edges_s)
        return costs

    def _edges_s(self, now_s: float) -> FloatArray:
        """Return the starts of the window's slots, and the end of the last, s."""
        return now_s + self.options.slot_s * np.arange(self._size + 1, dtype=np.float64)

    def _running(self, view: View, job: Job) -> RunningTask:
        """Return a running job for planning: to its reserved end, or one slot more if it overruns."""
        slot_s, index = self.options.slot_s, self._clock.index
        end = self._end_slots.get(job.id, index)
        usable = view.usable_hosts(job)
        return RunningTask(
            job.id, usable, index * slot_s, max(end - index, 1) * slot_s, self._extra_w(view, job)
        )

    def _extra_w(self, view: View, job: Job) -> float | None:
        """Return the power that a node of a job adds to a sleeping one, W, if the job states its power."""
        if job.terms.power_w is None:
            return 0.0 if not job.computes else None
        return max(0.0, job.terms.power_w - float(view.power_model.sleep_w.min()))

    def _tasks(self, view: View, waiting: dict[str, Job], new: set[str]) -> list[QueuedTask]:
        predecessors = predecessors_of(
            [
                *((job.id, job.terms) for job in waiting.values()),
                *((j.id, j.terms) for j in view.running.values()),
            ]
        )
        ended: dict[int, tuple[str, ...]] = {}
        tasks = []
        for job in waiting.values():
            named = predecessors[job.id]
            if named and id(named) not in ended:
                ended[id(named)] = tuple(key for key in named if not view.has_finished(key))
            held = job.id in view.held
            tasks.append(
                QueuedTask(
                    key=job.id,
                    res=job.res,
                    duration_s=reserved_s(job),
                    deadline_s=self._deadlines.due_s(job),
                    submit_s=job.subtime_s,
                    order=self._deadlines.number(job),
                    workflow=job.terms.workflow,
                    predecessors=ended[id(named)] if named and held else (),
                    new=job.id in new and job.terms.deadline_s < math.inf,
                    taken_s=self._taken_s.get(job.id, 0.0),
                    earliest_s=view.earliest_start_s(job) if held else -math.inf,
                    think_time_s=job.terms.think_time_s,
                    extra_w=self._extra_w(view, job),
                )
            )
        return tasks

    def _ends(self, view: View, waiting: dict[str, Job]) -> dict[str, int]:
        """Return the slots of the window after which running jobs have ended."""
        self._end_slots = {
            key: end for key, end in self._end_slots.items() if key in view.running or key in waiting
        }
        index = self._clock.index
        return {key: min(max(self._end_slots.get(key, index) - index, 1), self._size) for key in view.running}


class LowestWindow(GreenSlot):
    """Each job independently takes the cheapest window before its deadline; jobs share only servers.

    The common baseline of carbon-aware schedulers: "Let's Wait Awhile" (Wiesner et al., Middleware 2021),
    GAIA (Hanafy et al., ASPLOS 2024).
    """

    name = "lowest-window"
    summary = "each job takes the cheapest slot before its deadline, independently of other jobs"

    def _round_settings(self) -> RoundSettings:
        return LOWEST_WINDOW


def _weights(objective: str | Mix) -> Mix:
    if isinstance(objective, Mix):
        return objective
    return Mix(price=1.0) if objective == "price" else Mix(carbon=1.0)
