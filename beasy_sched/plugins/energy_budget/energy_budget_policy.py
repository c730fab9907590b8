"""The energy-budget policies and the scheduling pass that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beasy_sched.engine.actions import NO_FACTS, Action, CallAt, FactDict, Facts, MeasureEnergy, Postpone
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.power_actions import sleep, wake
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.engine.session_words import Rule
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.plugins.energy_budget.choice import AnyHosts, ContiguousHosts, Fleet, HostChoice
from beasy_sched.plugins.energy_budget.energy_budget_options import (
    EnergyBudgetOptions,
    EstimatedPowers,
    budget_below_rest,
    read_period,
)
from beasy_sched.plugins.energy_budget.energy_budget_words import (
    AWAKE,
    BUDGET_WORDS,
    SWITCHED_OFF,
    WOKEN_FOR_JOB,
    WOKEN_TO_COME,
)
from beasy_sched.plugins.energy_budget.ledger import FREE, Ledger
from beasy_sched.plugins.energy_budget.projection import BudgetTest, Ceiling, EvenProjection, Projection
from beasy_sched.plugins.energy_budget.stock import EvenStock, OpenCeiling, Stock
from beasy_sched.policies.easy import (
    NO_STEP_ENERGY,
    EasyPass,
    Places,
    Reservation,
    by_arrival,
    hosts_wanted,
    reservation_facts,
    wake_for_queue,
)
from beasy_sched.units import TIME_TOLERANCE_S


class BudgetReservation(Reservation):
    """Reservation of hosts and energy."""

    ready_s: float = np.inf
    """Time at which the job will have its hosts, by walltimes, s."""
    begin_s: float = np.inf
    """Time from which there is also energy for the job, s; hosts wake for it from then on."""
    reserved: float = 0.0
    """Energy reserved for the job, J (power, W, under a power limit)."""


class BudgetPass(EasyPass):
    """One decision: Algorithm 2 of the paper, which is EASY with an energy test.

    If hosts are switched off when idle, a job can be given sleeping hosts: they wake, and it starts later.
    """

    reservation: BudgetReservation | None

    def __init__(
        self,
        view: View,
        fleet: Fleet,
        ledger: Ledger | None,
        find_test: Callable[[], BudgetTest | None],
        options: EnergyBudgetOptions,
    ) -> None:
        """Begin a decision. No ``ledger`` means no budget.

        ``find_test`` is called when the test is first needed, before hosts are given to any job, and returns
        None if there is no limit at this time.
        """
        super().__init__(view, by_arrival, by_arrival)
        self.fleet, self.ledger, self.options = fleet, ledger, options
        self._find_test = find_test
        self.cost = FREE if ledger is None else ledger.cost(fleet.lead_s)
        self.begin_s = view.now + self.cost.lead_s
        self.again_s = np.inf
        """Time at which the first waiting job can start, s."""
        self.lacking: FactDict = {}
        """Facts about the energy that the last job rejected by the budget lacks."""

    @cached_property
    def test(self) -> BudgetTest | None:
        """Budget test of jobs; None if there is no limit at this time."""
        return self._find_test()

    @cached_property
    def choice(self) -> HostChoice:
        """Hosts available to jobs."""
        kind = ContiguousHosts if self.options.allocation == "contiguous" else AnyHosts
        return kind(self.view, self.fleet)

    def run(self) -> list[Action]:
        """Run Algorithm 2."""
        self.fleet.kept[:] = False
        self.free = self.choice.free
        return super().run()

    # --- hooks of the pass --------------------------------------------------------------------------------

    def heads(self) -> Iterable[Job]:
        """Waiting jobs by arrival, except those that have their hosts."""
        placed = self.placed()
        return (job for job in self.view.queue if job not in placed)

    def placed(self) -> set[Job]:
        """Jobs that have their hosts, including those whose hosts are still waking."""
        return super().placed() | self.fleet.claims.keys()

    def start(self, job: Job, late: bool = False) -> bool:
        """Start ``job``, or wake its hosts first, if the budget and the guard allow it."""
        if self.reservation is None:
            self.refused_by, self.lacking = "", {}
            if not self.choice.fits(job) or not self.affords(job):
                return False
        hosts = self.choice.take(job, late)
        if not self._place(job, hosts):
            self.choice.give_back(hosts, late)
            return False
        self.free = self.choice.free
        return True

    def affords(self, job: Job) -> bool:
        """Whether the energy suffices for ``job`` on any free hosts; if not, the reason is stored."""
        lasts_s, extra_w = self.cost.of(job)
        return self._allows(extra_w, self.view.now + lasts_s, job.res)

    def _allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Whether the budget allows a job; if not, store the rule, and the energy that the job lacks."""
        if self.test is None or self.test.allows(extra_w, end_s, idle):
            return True
        self.refused_by, self.lacking = self.test.refusal(extra_w, end_s, idle)
        return False

    def _place(self, job: Job, hosts: HostIds) -> bool:
        view, fleet, test = self.view, self.fleet, self.test
        idle = int(np.count_nonzero(fleet.idle_now(hosts))) if fleet.switches else len(hosts)
        ready = idle == len(hosts)
        end_s = view.now + job.walltime_s + (0.0 if ready else self.cost.lead_s)
        extra_w = 0.0 if self.ledger is None else self.ledger.extra_w(hosts, end_s - view.now)
        why: Facts = NO_FACTS
        if view.wants_facts:
            why = self.facts(job)
            if test is not None:
                why = {**why, **self._test_facts(test), "job_w": extra_w}
        if not self._allows(extra_w, end_s, idle):
            return False
        if ready and not self.granted(job, hosts):
            return False
        if test is not None:
            test.start(extra_w, end_s, idle)
        fleet.commit(job, hosts, end_s, extra_w)
        if ready:
            self.give(job, HostSet(hosts), self.rule, why)
        else:
            fleet.claims[job] = hosts
            self._wake(hosts, WOKEN_FOR_JOB)
        return True

    def give(self, job: Job, hosts: HostSet, rule: str, facts: Facts) -> None:
        """Start ``job`` on its hosts."""
        super().give(job, hosts, rule, facts)
        self.fleet.taken[hosts.ids] = True
        if self.ledger is not None:
            self.ledger.moved(hosts.ids, IDLE, BUSY)

    def reserve(self, job: Job) -> BudgetReservation:
        """Reserve hosts and energy for the first job that cannot start, if any host is free."""
        promise = BudgetReservation(job, np.inf, certain=True)
        if not self.choice.free:
            return promise
        lead_s = self.cost.lead_s
        promise.ready_s = promise.start_s = self.choice.earliest(job)
        promise.begin_s = max(self.view.now, promise.ready_s - lead_s)
        if self.test is not None and np.isfinite(promise.ready_s):
            lasts_s, extra_w = self.cost.of(job)
            promise.begin_s = self.test.earliest(promise.begin_s, extra_w, lasts_s)
            promise.start_s = max(promise.ready_s, promise.begin_s + lead_s)
            if self.options.reservation != "none":
                lasts_s = promise.start_s - promise.begin_s + job.walltime_s
                promise.reserved = self.test.promise(promise.begin_s, extra_w, lasts_s)
        self.choice.reserve(job, promise.start_s)
        self._prepare(promise)
        return promise

    def _prepare(self, promise: BudgetReservation) -> None:
        """Schedule the next check for when hosts must wake or the energy suffices; keep and wake hosts."""
        if not np.isfinite(promise.begin_s):
            return
        if promise.begin_s > self.view.now + TIME_TOLERANCE_S:
            lacks_energy = self.test is not None and self.refused_by != ""
            if self.fleet.switches or lacks_energy or promise.begin_s > promise.ready_s:
                self.again_s = promise.begin_s
        elif self.fleet.switches:
            kept = self.choice.reserved()
            self.fleet.kept[kept] = True
            self._wake(kept, WOKEN_TO_COME)

    def fitting(self, places: Places, promise: Reservation) -> Places:
        """Return the positions of the jobs that hosts and energy allow without delaying the reservation."""
        queue = self.view.queue
        places = places[self.choice.fitting(queue.res[places], self.late(places, promise))]
        if self.test is None or not len(places):
            return places
        res, walltime_s = queue.res[places], queue.walltime_s[places]
        return places[self.cost.admitted(self.test, self.view.now, res, walltime_s)]

    def lacks(self, promise: Reservation) -> FactDict:
        """Return why the first job that cannot start waits: hosts, energy of the budget or of the step."""
        why = reservation_facts(promise, self.free)
        if self.refused_by == NO_STEP_ENERGY:
            why |= self.unaffordable(self.view.fastest(self.view.free_mask(), promise.job.res).ids)
        return why if self.test is None else why | self._test_facts(self.test) | self.lacking

    def _test_facts(self, test: BudgetTest) -> FactDict:
        return test.facts(self.reservation.reserved if self.reservation else 0.0)

    # --- sleeping hosts -------------------------------------------------------------------------------------

    def start_woken(self) -> None:
        """Start the jobs whose hosts are all on; drop those with a host out of service."""
        if not self.fleet.claims:
            return
        _ = self.test  # evaluated now, because it counts the hosts in their previous states
        view, fleet, free = self.view, self.fleet, self.view.free_mask()
        for job, hosts in [*fleet.claims.items()]:
            if not view.available[hosts].all():
                del fleet.claims[job]
                fleet.jobs.remove(job.id)
            elif not free[hosts].all():
                self._wake(hosts, WOKEN_FOR_JOB)
            elif self.granted(job, hosts):
                del fleet.claims[job]
                extra_w = 0.0 if self.ledger is None else self.ledger.extra_w(hosts, job.walltime_s)
                fleet.commit(job, hosts, view.now + job.walltime_s, extra_w)
                self.give(job, HostSet(hosts), AWAKE, {"waited_s": view.now - job.subtime_s})

    def _wake(self, hosts: HostIds, rule: Rule) -> None:
        view = self.view
        sleeping = hosts[view.host_state[hosts] >= ASLEEP]
        coming = (view.host_state[sleeping] == SWITCHING_ON) | view.wake_requested()[sleeping]
        sleeping = sleeping[~coming]
        self.actions += wake(view, sleeping, rule)
        if self.ledger is not None:
            self.ledger.moved(sleeping[view.host_state[sleeping] == ASLEEP], ASLEEP, SWITCHING_ON)

    def switch_off(self) -> None:
        """Switch off unneeded idle hosts within the period."""
        view, fleet = self.view, self.fleet
        if self.ledger is None or not self.ledger.is_on(view.now):
            return
        idle = np.flatnonzero(view.free_mask() & ~(fleet.claimed | fleet.kept | fleet.taken))
        idle = idle[view.power_model.can_sleep[view.platform.kind_of[idle]]]
        self.actions += sleep(view, idle, SWITCHED_OFF)
        self.ledger.moved(idle, IDLE, SWITCHING_OFF)


class BudgetedEasy(Policy):
    """EASY backfilling, first come first served, within an energy budget; subclasses choose its test."""

    words = BUDGET_WORDS
    options_type = EnergyBudgetOptions
    options: EnergyBudgetOptions

    follows_budgets: ClassVar[bool] = False
    """Whether the energy of the parts of a period may differ (option ``budgets``)."""
    stock: ClassVar[type[BudgetTest]] = Stock
    """Budget test of jobs."""
    strict: ClassVar[type[BudgetTest]] = Projection
    """Budget test of jobs if the first waiting job must start at its reserved time."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError."""
        super().__init__(options)
        if self.options.budgets is not None and not self.follows_budgets:
            raise ConfigError(
                f"budgets: {self.name} has a constant rate: use the policy energybud, or budget"
            )
        self.period = read_period(self.options)
        self.ledger: Ledger | None = None
        self._test = self.stock if self.options.reservation == "stock" else self.strict

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Warn of a budget that the servers exceed even without jobs.

        Raises ConfigError, also if neither the platform nor the options give the powers of servers.
        """
        if self.period is None or inputs.platform is None:
            return []
        if inputs.energy:
            EstimatedPowers(inputs.platform, PowerModel(inputs.platform), self.options)
        run_end_s = np.inf if inputs.end_s is None else inputs.end_s
        finding = budget_below_rest(self.period, self.options, inputs.platform, run_end_s)
        return [] if finding is None else [finding]

    def begin(self, view: View) -> None:
        """Set up the accounting. Raises ConfigError."""
        if self.period is not None and not view.power_actions_allowed:
            raise ConfigError(
                f"policy {self.name!r} measures the energy used, which requires Batsim's option -E:"
                " remove --no-power-actions and --no-metering"
            )
        self._fleet = Fleet(view, self.options.shutdown == "opportunistic")
        self._seen_version = -1
        self._acted_s = -np.inf
        self._again_s = np.inf
        self._tested = self._outage = False
        if self.period is not None:
            powers = EstimatedPowers(view.platform, view.power_model, self.options)
            self.ledger = Ledger(
                self.period, powers, self._fleet.jobs, view, energies=issubclass(self._test, Projection)
            )

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the summary's section about the budget."""
        return {} if self.ledger is None else {"budget": self.ledger.results()}

    def schedule(self, view: View) -> Sequence[Action]:
        """Update the accounting, start jobs, switch hosts, request the next measurement."""
        fleet, ledger, limited, measured = self._fleet, self.ledger, False, False
        self._forget_ended(view)
        fleet.taken[:] = False
        if ledger is not None:
            measured = ledger.catch_up(view)
            limited = ledger.is_limited and not ledger.is_over(view.now)

        def find_test() -> BudgetTest | None:
            return ledger.test_at(view.now, self._test) if ledger is not None and limited else None

        turn = BudgetPass(view, fleet, ledger, find_test, self.options)
        if fleet.switches:
            turn.start_woken()
        if not view.queue:
            self._again_s = np.inf
        elif not self._is_quiet(view, limited) or self._energy_came(turn, measured):
            turn.run()
            self._tested = limited
            self._again_s = turn.again_s
        if fleet.switches:
            turn.switch_off()
        elif view.has_site and view.queue:
            taken = int(np.count_nonzero(fleet.taken))
            turn.actions += wake_for_queue(view, hosts_wanted(view, taken), view.free_count - taken)
        self._remember_version(view, turn.actions)
        return turn.actions if ledger is None else [*turn.actions, *self._look_again(view, ledger)]

    def _forget_ended(self, view: View) -> None:
        jobs = self._fleet.jobs
        for job in view.ended:
            jobs.remove(job.id)
        if self._outage or not view.all_available:
            self._outage = not view.all_available
            for job in view.running.values():
                jobs.recount(job.id, view.usable_hosts(job))

    def _remember_version(self, view: View, actions: Sequence[Action]) -> None:
        """Store the state that has been examined, without the changes made by this decision.

        Messages may belong to the same instant; only a later instant counts as a change.
        """
        acts = any(not isinstance(action, Postpone) for action in actions)
        if acts or view.now > self._acted_s + TIME_TOLERANCE_S:
            self._seen_version = view.availability_version
        if acts:
            self._acted_s = view.now

    def _is_quiet(self, view: View, limited: bool) -> bool:
        """Whether only the time, and perhaps the energy, has changed."""
        return (
            not view.arrived
            and self._seen_version == view.availability_version
            and view.now < self._again_s - TIME_TOLERANCE_S
            and self._tested == limited
        )

    def _energy_came(self, turn: BudgetPass, measured: bool) -> bool:
        """Whether there is more energy: for any job, or for the first one (Section IV-C-4 of the paper)."""
        if self.options.reservation == "stock":
            return measured
        first = None if turn.test is None else next(iter(turn.heads()), None)
        return first is not None and turn.affords(first)

    def _look_again(self, view: View, ledger: Ledger) -> list[Action]:
        """Request a measurement, or a call when one is due or a job may start."""
        ledger.settle()
        actions: list[Action] = []
        if ledger.wants_measurement(view.now):
            actions.append(MeasureEnergy())
        elif np.isfinite(ledger.counter.due_s) and ledger.counter.due_s > view.now:
            actions.append(CallAt(ledger.counter.due_s))
        if np.isfinite(self._again_s):
            actions.append(CallAt(max(self._again_s, view.now)))
        return actions


class EnergyBud(BudgetedEasy):
    """Section IV of the energy-budget paper: jobs start while the balance of available energy allows it.

    All jobs may use the saved energy minus the part reserved for the first waiting job.
    """

    name = "energybud"
    summary = "EASY within an energy budget: saved energy pays for jobs above the average power"
    follows_budgets = True


class ReducePC(BudgetedEasy):
    """Section IV-D of the energy-budget paper: like `energybud`, with a lower rate during reservations.

    A job with J joules reserved at q takes J/(q - now) from the joules made available per second until q.
    With the stock rule, jobs that overtake may only use the remaining joules.
    """

    name = "reducepc"
    summary = "like energybud, but a reservation lowers the rate of energy for all other jobs until it is due"
    stock = EvenStock
    strict = EvenProjection


class PowerCap(BudgetedEasy):
    """Section V-C of the energy-budget paper: jobs that would raise the power above B/(te - ts) do not start.

    Power is reserved for the first waiting job only if the reservation is strict.
    """

    name = "powercap"
    summary = "EASY under a constant power limit: the energy budget divided by its period"
    stock = OpenCeiling
    strict = Ceiling
