"""The core of the energy-budget policies: when they look, what they count, what they start and switch.

energyBud: a reservation takes energy out of the counter when its job starts.

reducePC: a reservation lowers the rate at which energy is made available until its job starts.

powercap: EASY under a limit on power, the paper's point of comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from beasy_sched.engine.actions import NO_FACTS, Action, CallAt, Facts, MeasureEnergy, Postpone, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.errors import ConfigError
from beasy_sched.model.cluster import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.policies import easy
from beasy_sched.policies.easy import FactDict, by_arrival, hosts_wanted, sleep, wake, wake_for_queue
from beasy_sched.policies.energy_budget.choice import AnyHosts, Choice, ContiguousHosts, Fleet
from beasy_sched.policies.energy_budget.ledger import FREE, Blocked, Ledger, Round, suffices
from beasy_sched.policies.energy_budget.options import EnergyBudgetOptions, EstimatedPowers, read_period
from beasy_sched.policies.energy_budget.projection import Commitments, EnergyTest, Projection
from beasy_sched.units import TIME_TOLERANCE_S

AWAKE: Final = "its hosts are awake"
SWITCHED_OFF: Final = "idle within the budget's period"
WOKEN_FOR_JOB: Final = "given to a job"
WOKEN_TO_COME: Final = "reserved for the first waiting job"
NO_BUDGET: Final = "no energy in the budget"


class BudgetedEasy(Policy):
    """EASY backfilling, first come first served, within an energy budget.

    A subclass says what is tested (`energy_test`), how a reservation is kept (`keep`), and what the
    numbers behind its decisions are (`numbers`).
    """

    options_type = EnergyBudgetOptions
    options: EnergyBudgetOptions

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError."""
        super().__init__(options)
        self.period = read_period(self.options)
        self.ledger: Ledger | None = None

    counts_energy: ClassVar[bool] = True
    """Whether the test is of energies, not of powers."""

    # --- what the three differ in -------------------------------------------------------------------

    def energy_test(self, ledger: Ledger, now: float) -> EnergyTest:
        """Return the test of this moment, before the period's end."""
        return ledger.projection(now)

    def keep(self, test: EnergyTest, begin_s: float, extra_w: float, lasts_s: float) -> float:
        """Set aside what the first waiting job will need; return how much that is."""
        return test.promise(begin_s, extra_w, lasts_s)

    def numbers(self, test: EnergyTest, reserved: float) -> easy.FactDict:
        """Return the numbers behind a decision: what there is, what is reserved."""
        return {"available_j": test.present, "reserved_j": reserved}

    # --- Policy ---------------------------------------------------------------------------------------

    def begin(self, view: View) -> None:
        """Lay out what is kept from one decision to the next. Raises ConfigError."""
        if self.period is not None and not view.power_actions_allowed:
            raise ConfigError(
                f"policy {self.name!r} measures the energy used, which Batsim allows with its -E only:"
                " leave out --no-power-actions and --no-metering"
            )
        self._switches = self.options.shutdown == "opportunistic"
        self._fleet = Fleet(view, self._switches)
        self._jobs = Commitments()
        self._seen_openings = -1
        self._acted_s = -np.inf
        self._again_s = np.inf
        self._tested = self._outage = False
        self._test: EnergyTest | None = None
        if self.period is not None:
            powers = EstimatedPowers(view.platform, view.power_model, self.options)
            switches = self._switches
            self.ledger = Ledger(
                self.period, powers, self._jobs, view, switches=switches, energies=self.counts_energy
            )

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the summary's section on the budget."""
        return {} if self.ledger is None else {"budget": self.ledger.results()}

    def schedule(self, view: View) -> Sequence[Action]:
        """Count, start what may start, switch hosts, ask for the next measurement."""
        self._view = view
        self._actions: list[Action] = []
        self._forget_ended(view)
        self._fleet.taken[:] = False
        self._started: set[str] = set()
        ledger = self.ledger
        if ledger is not None:
            ledger.catch_up(view)
        tests = ledger is not None and ledger.is_limited and not ledger.is_over(view.now)
        self._test = self.energy_test(ledger, view.now) if tests and ledger is not None else None
        if self._switches:
            self._start_woken(view)
        if view.queue:
            self._decide(view)
        else:
            self._again_s = np.inf
        if self._switches:
            self._switch_off(view)
        elif view.has_site and view.queue:
            taken = int(np.count_nonzero(self._fleet.taken))
            self._actions += wake_for_queue(view, hosts_wanted(view, taken), view.free_count - taken)
        self._remember_openings(view)
        if ledger is not None:
            self._look_again(view, ledger)
        return self._actions

    def _forget_ended(self, view: View) -> None:
        for job in view.ended:
            self._jobs.remove(job.id)
        if self._outage or not view.all_available:
            self._outage = not view.all_available
            for job in view.running.values():
                self._jobs.recount(job.id, view.usable_hosts(job))

    def _remember_openings(self, view: View) -> None:
        """Take note of what has been looked at: not of what this decision changes, which is news later.

        An instant can come in several messages: only one that lies ahead is later.
        """
        acts = any(not isinstance(action, Postpone) for action in self._actions)
        if acts or view.now > self._acted_s + TIME_TOLERANCE_S:
            self._seen_openings = view.openings
        if acts:
            self._acted_s = view.now

    # --- starting ---------------------------------------------------------------------------------------

    def _decide(self, view: View) -> None:
        """Run Algorithm 2, unless nothing has come that could let a job start."""
        self._cost = FREE if self.ledger is None else self.ledger.cost(self._fleet.lead_s)
        given = {*self._fleet.claims, *self._started}
        if self._is_quiet(view) and not self._energy_for_first(view, given):
            return
        choice = ContiguousHosts if self.options.allocation == "contiguous" else AnyHosts
        hosts: Choice = choice(view, self._fleet, self._jobs)
        turn = Round(view, hosts, self._test, self._cost, self._grant, given)
        self._tested = self._test is not None
        self._again_s = np.inf
        self._fleet.kept[:] = False
        turn.run_heads()
        if turn.blocked is None:
            return
        if hosts.free:
            turn.reserve(self._keep)
            self._prepare(view, hosts, turn.blocked)
        self._tell(view, turn.blocked, hosts.free)
        turn.backfill()

    def _is_quiet(self, view: View) -> bool:
        """Tell whether nothing has come but time, and perhaps energy."""
        return (
            not view.arrived
            and self._seen_openings == view.openings
            and view.now < self._again_s - TIME_TOLERANCE_S
            and self._tested == (self._test is not None)
        )

    def _energy_for_first(self, view: View, given: set[str]) -> bool:
        """Tell whether the energy suffices for the first waiting job (Section IV-C-4 of the paper)."""
        if self._test is None:
            return False
        first = next((job for job in view.queue if job.id not in given), None)
        return first is not None and suffices(self._test, self._cost, view.now, first)

    def _keep(self, begin_s: float, extra_w: float, lasts_s: float) -> float:
        assert self._test is not None
        if not self.options.reserve_energy:
            return 0.0
        return self.keep(self._test, begin_s, extra_w, lasts_s)

    def _grant(self, job: Job, hosts: HostIds, free: int, blocked: Blocked | None) -> bool:
        """Start a job on its hosts, or wake those of them that sleep, if budget and guard allow."""
        view, fleet = self._view, self._fleet
        idle = int(np.count_nonzero(fleet.idle_now(hosts))) if self._switches else len(hosts)
        ready = idle == len(hosts)
        end_s = view.now + job.walltime_s + (0.0 if ready else self._cost.lead_s)
        extra_w = 0.0 if self.ledger is None else self.ledger.extra_w(hosts, end_s - view.now)
        why = self._why(job, free, blocked, extra_w) if view.wants_facts else NO_FACTS
        if self._test is not None and not self._test.allows(extra_w, end_s, idle):
            return False
        if ready and view.budget is not None and not view.budget.grant_start(hosts, computes=job.computes):
            return False
        if self._test is not None:
            self._test.start(extra_w, end_s, idle)
        self._jobs.add(job.id, end_s, extra_w, len(hosts))
        fleet.promise(hosts, end_s)
        if ready:
            self._start(job, hosts, easy.HEAD if blocked is None else easy.BACKFILLED, why)
        else:
            fleet.claim(job, hosts)
            self._wake(view, hosts, WOKEN_FOR_JOB)
        return True

    def _why(self, job: Job, free: int, blocked: Blocked | None, extra_w: float) -> Facts:
        view, test = self._view, self._test
        if blocked is None:
            why = easy.head_facts(view, job, free, by_arrival)
        else:
            why = easy.filler_facts(view, job, free, blocked.job, blocked.start_s)
        if test is not None:
            why |= self.numbers(test, blocked.reserved if blocked else 0.0)
            why["job_w"] = extra_w
        return why

    def _start(self, job: Job, hosts: HostIds, rule: str, why: Facts) -> None:
        self._actions.append(Start(job, HostSet(hosts), rule, why))
        self._fleet.taken[hosts] = True
        self._started.add(job.id)
        if self.ledger is not None:
            self.ledger.moved(hosts, IDLE, BUSY)

    def _start_woken(self, view: View) -> None:
        """Start the jobs whose hosts have all come on; give up those with a host out of service."""
        fleet, free = self._fleet, view.free_mask()
        for claim in [*fleet.claims.values()]:
            if not view.available[claim.ids].all():
                fleet.unclaim(claim.job.id)
                self._jobs.remove(claim.job.id)
            elif not free[claim.ids].all():
                self._wake(view, claim.ids, WOKEN_FOR_JOB)
            elif view.budget is None or view.budget.grant_start(claim.ids, computes=claim.job.computes):
                job = fleet.unclaim(claim.job.id).job
                end_s = view.now + job.walltime_s
                extra_w = 0.0 if self.ledger is None else self.ledger.extra_w(claim.ids, job.walltime_s)
                self._jobs.add(job.id, end_s, extra_w, len(claim.ids))
                fleet.promise(claim.ids, end_s)
                self._start(job, claim.ids, AWAKE, {"waited_s": view.now - job.subtime_s})

    # --- the first waiting job --------------------------------------------------------------------------

    def _prepare(self, view: View, hosts: Choice, blocked: Blocked) -> None:
        """Ask to be called when hosts must wake or energy will suffice; keep and wake hosts in time."""
        if not np.isfinite(blocked.begin_s):
            return
        if blocked.begin_s > view.now + TIME_TOLERANCE_S:
            if self._switches or blocked.lacks_energy or blocked.begin_s > blocked.ready_s:
                self._again_s = blocked.begin_s
        elif self._switches:
            kept = hosts.reserved()
            self._fleet.kept[kept] = True
            self._wake(view, kept, WOKEN_TO_COME)

    def _tell(self, view: View, blocked: Blocked, free: int) -> None:
        """Say why the first waiting job does not start."""
        job = blocked.job
        vetoed = blocked.refused and view.budget is not None
        rule = NO_BUDGET if blocked.lacks_energy else easy.reservation_rule(blocked.start_s)
        rule = easy.NO_STEP_ENERGY if vetoed else rule
        if view.wants_reason(job, rule):
            why = easy.reservation_facts(job, free, blocked.start_s)
            if vetoed and view.budget is not None:
                hosts = view.fastest(view.free_mask(), job.res)
                why |= {"cost_j": view.budget.start_cost_j(hosts.ids), "headroom_j": view.budget.headroom_j}
            if self._test is not None:
                why |= self.numbers(self._test, blocked.reserved)
            self._actions.append(Postpone(job, rule, why))

    # --- switching, calls -------------------------------------------------------------------------------

    def _wake(self, view: View, hosts: HostIds, rule: str) -> None:
        sleeping = hosts[view.host_state[hosts] >= ASLEEP]
        coming = (view.host_state[sleeping] == SWITCHING_ON) | view.waking_wished()[sleeping]
        sleeping = sleeping[~coming]
        self._actions += wake(view, sleeping, rule)
        if self.ledger is not None:
            asleep = sleeping[view.host_state[sleeping] == ASLEEP]
            self.ledger.moved(asleep, ASLEEP, SWITCHING_ON)

    def _switch_off(self, view: View) -> None:
        """Switch off at once what is idle within the period and needed by none."""
        fleet = self._fleet
        if self.ledger is None or not self.ledger.is_on(view.now):
            return
        idle = np.flatnonzero(view.free_mask() & ~(fleet.claimed | fleet.kept | fleet.taken))
        idle = idle[view.power_model.can_sleep[view.platform.kind_of[idle]]]
        self._actions += sleep(view, idle, SWITCHED_OFF)
        self.ledger.moved(idle, IDLE, SWITCHING_OFF)

    def _look_again(self, view: View, ledger: Ledger) -> None:
        ledger.settle()
        if ledger.wants_measurement(view.now):
            self._actions.append(MeasureEnergy())
        elif np.isfinite(ledger.counter.due_s) and ledger.counter.due_s > view.now:
            self._actions.append(CallAt(ledger.counter.due_s))
        if np.isfinite(self._again_s):
            self._actions.append(CallAt(max(self._again_s, view.now)))


class EnergyBud(BudgetedEasy):
    """Section IV of the energy-budget paper: jobs start while the balance of available energy allows it.

    The first waiting job's energy is set aside where it will be needed: what is saved until then is
    everyone's.
    """

    name = "energybud"
    summary = "EASY within an energy budget: saved energy pays for jobs above the average power"


class ReducePC(BudgetedEasy):
    """Section IV-D of the energy-budget paper: as `energybud`, with a lower rate while a job is promised.

    A job promised J joules at q takes J/(q - now) from the joules made available each second until q.
    """

    name = "reducepc"
    summary = "as energybud, but a reservation lowers the rate of energy for all others until it is due"

    def keep(self, test: EnergyTest, begin_s: float, extra_w: float, lasts_s: float) -> float:
        """Set the energy aside evenly from now on."""
        assert isinstance(test, Projection)
        reserved_j = test.promise(begin_s, extra_w, lasts_s)
        test.lower_rate(begin_s, reserved_j)
        return reserved_j


class PowerCap(BudgetedEasy):
    """Section V-C of the energy-budget paper: no job starts that takes the power above B/(te - ts)."""

    name = "powercap"
    summary = "EASY under a constant limit on power, the energy budget over its period"

    counts_energy = False

    def energy_test(self, ledger: Ledger, now: float) -> EnergyTest:
        """Test powers, not energies."""
        return ledger.ceiling(now)

    def numbers(self, test: EnergyTest, reserved: float) -> FactDict:
        """Return powers."""
        assert self.ledger is not None
        return {"drawn_w": test.present, "limit_w": self.ledger.counter.rate_w, "reserved_w": reserved}
