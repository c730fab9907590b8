"""The power side of a run: the clock of steps, the storage, and the step's budget.

The state is the daemon's own. Production comes by NOTIFY, the energy that servers used by the answer
to a query (or, with ``model``, from the daemon's own account); each step is settled when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.balance import StepRecord, settle_step, step_headroom_j
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import NO_HYDROGEN, HydrogenPlan
from beasy_sched.engine.actions import Action
from beasy_sched.engine.budget import StepBudget
from beasy_sched.engine.commands import MOMENT_S, Commander
from beasy_sched.engine.guard import Guard, committed_energy_j
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.model.cluster import ASLEEP, SWITCHING_OFF, SWITCHING_ON, Cluster
from beasy_sched.plan.store import PlanStore
from beasy_sched.units import TIME_TOLERANCE_S


class EnergySource(str, Enum):
    """Where the energy that servers used is known from."""

    BATSIM = "batsim"
    MODEL = "model"


class Phase(Enum):
    """Where the clock of steps stands."""

    WAITING_FOR_PRODUCTION = "no production is known yet"
    ASKING = "a step has ended and its energy has been asked for"
    OPEN = "a step is under way"
    OVER = "the last window has ended"


@dataclass(frozen=True)
class TraceRow:
    """One settled step of the energy trace."""

    step: int
    start_s: float
    record: StepRecord


@dataclass(frozen=True)
class Settled:
    """The daemon's own account at the end of the last settled step."""

    time_s: float
    by_use_j: FloatArray
    """Energy of every use since time 0, J."""
    running_j: dict[str, float]
    """What each job that ran then had spent, J."""

    @property
    def used_j(self) -> float:
        """Energy of all uses together, J."""
        return float(self.by_use_j.sum())


class PowerSide:
    """Keeps the storage's state step by step."""

    def __init__(
        self,
        site: Site,
        cluster: Cluster,
        commander: Commander,
        energy: EnergySource,
        windows: int,
        *,
        plans: PlanStore | None = None,
        power_actions: bool = True,
    ) -> None:
        """Begin at time 0 with the site's start levels. Raises ConfigError if no powers are known."""
        if not cluster.platform.has_powers:
            raise ConfigError(
                "the simulator's hosts have no wattage_per_state: a site needs powers; generate the platform"
                " with 'beasy-sched generate platform', or leave out --site"
            )
        self.site = site
        self.cluster = cluster
        self.energy = energy
        self.plans = plans
        self.end_s = site.window_s * windows
        self.storage = site.storage.start()
        self.account = cluster.open_account()
        self.guard = Guard(site.guard, cluster, self.account, power_actions=power_actions)
        self.phase = Phase.WAITING_FOR_PRODUCTION
        self.budget: StepBudget | None = None
        self.trace: list[TraceRow] = []
        self.warnings: list[str] = []
        self._commander = commander
        self.answer_j: float | None = None
        """Energy used since time 0, as the simulator has just answered."""
        self.wants_answer = False
        """Whether the simulator must be asked for the energy."""
        self._production_known = False
        self._renew_w = 0.0
        self._renew_j = 0.0
        self._renew_since_s = 0.0
        self._step_start_s = 0.0
        self._consumed_j = 0.0
        self._reserve_j = 0.0
        self.settled = Settled(0.0, self.account.energy_by_use_j.copy(), {})

    # --- production ---------------------------------------------------------------------------------

    def set_production(self, power_w: float, now: float) -> None:
        """Production is ``power_w`` from now on."""
        self._renew_j += self._renew_w * (now - self._renew_since_s)
        self._renew_since_s = now
        self._renew_w = power_w
        self._production_known = True
        if self.phase is Phase.OPEN and not self.boundary_due(now):
            self._refresh_budget(now)

    def boundary_due(self, now: float) -> bool:
        """Tell whether the step under way has ended."""
        return (
            self.phase is Phase.OPEN
            and self.budget is not None
            and now >= self.budget.end_s - TIME_TOLERANCE_S
        )

    def is_open(self, now: float) -> bool:
        """Tell whether a step is under way, so that jobs may be started."""
        return self.phase is Phase.OPEN and not self.boundary_due(now)

    @property
    def next_call_s(self) -> float | None:
        """When the clock wants to be called at the latest, s; None where something else comes for sure."""
        if self.phase in (Phase.OVER, Phase.ASKING):
            return None
        return (self.budget.end_s if self.budget else self._step_start_s) + MOMENT_S

    # --- steps ----------------------------------------------------------------------------------------

    def advance(self, now: float, begin_step: Callable[[StepBudget], None]) -> list[Action]:
        """Go on as far as ``now`` allows; return the guard's actions where a step has been opened.

        ``begin_step`` is called for a newly opened step, before the guard looks at it.
        """
        if self.phase is Phase.WAITING_FOR_PRODUCTION:
            if not self._production_known and now < MOMENT_S - TIME_TOLERANCE_S:
                return []
            if not self._production_known:
                self.warnings.append("no production was announced by time 0: it is taken as 0 W until it is")
        elif self.boundary_due(now) and not self._production_settled(now):
            return []
        elif self.boundary_due(now) and self.energy is EnergySource.BATSIM:
            self.phase, self.wants_answer = Phase.ASKING, True
            return []
        elif self.phase is Phase.ASKING:
            if self.answer_j is None:
                return []
            self._close_step(self.answer_j, now)
            self.answer_j = None
        elif self.boundary_due(now):
            self.account.advance(now)
            self._close_step(float(self.account.energy_by_use_j.sum()), now)
        else:
            return []
        return self._open_step(now, begin_step)

    def _production_settled(self, now: float) -> bool:
        """Tell whether the next step's production is known.

        It is once it was announced at the boundary or a moment has passed: one instant can come in
        several messages, in any order.
        """
        assert self.budget is not None
        boundary_s = self.budget.end_s
        return (
            self._renew_since_s >= boundary_s - TIME_TOLERANCE_S
            or now >= boundary_s + MOMENT_S - TIME_TOLERANCE_S
        )

    def _close_step(self, consumed_j: float, now: float) -> None:
        """Settle the step that has ended; ``consumed_j`` (J) counts from time 0."""
        dt_s = now - self._step_start_s
        used_j = consumed_j - self._consumed_j
        if used_j < -1e-6 * max(consumed_j, 1.0):
            raise PeerError(
                f"the simulator says that less energy was used by {now:g} s than before ({consumed_j} J)"
            )
        self.account.advance(now)
        self._renew_j += self._renew_w * (now - self._renew_since_s)
        self._renew_since_s = now
        reserve_j = self._reserve_energy_j()
        record, self.storage = settle_step(
            self.site.storage,
            self.storage,
            dt_s=dt_s,
            consumed_j=max(used_j, 0.0),
            renew_w=self._renew_j / dt_s,
            planned=self._planned_hydrogen(self._step_start_s),
            reserve_w=max(reserve_j - self._reserve_j, 0.0) / dt_s,
        )
        self.trace.append(TraceRow(len(self.trace), self._step_start_s, record))
        self._consumed_j, self._reserve_j, self._renew_j = consumed_j, reserve_j, 0.0
        self.settled = self._settled(now)
        self._step_start_s = now

    def _settled(self, now: float) -> Settled:
        spent_j = self.account.spent_j(now)
        running = self.cluster.running.values()
        jobs_j = {job.id: float(spent_j[job.hosts.ids].sum()) for job in running if job.hosts is not None}
        return Settled(now, self.account.energy_by_use_j.copy(), jobs_j)

    def _open_step(self, now: float, begin_step: Callable[[StepBudget], None]) -> list[Action]:
        """Begin the step that ``now`` belongs to, or end the run after its last window."""
        if now >= self.end_s - TIME_TOLERANCE_S:
            self.phase, self.budget = Phase.OVER, None
            return []
        step_s = self.site.step_s
        index = int((now + TIME_TOLERANCE_S) // step_s)
        self.phase = Phase.OPEN
        self.budget = StepBudget(
            cluster=self.cluster,
            step=index,
            start_s=now,
            end_s=min((index + 1) * step_s, self.end_s),
            renew_w=self._renew_w,
            soc_pct=self.site.storage.battery.soc_pct(self.storage.battery_j),
            supply_j=0.0,
            headroom_j=0.0,
            veto=self.site.guard.veto,
            now=now,
        )
        self.budget.supply_j = self._supply_j(now)
        committed_j = committed_energy_j(self.cluster, self._commander.wished(), now, self.budget.remaining_s)
        self.budget.headroom_j = self.budget.supply_j - float(committed_j.sum())
        begin_step(self.budget)
        wish = self._commander.wished()
        left_s, soc_pct = self.budget.end_s - now, self.budget.soc_pct
        actions, headroom_j = self.guard.shed(self.budget.supply_j, wish, now, left_s, soc_pct)
        self.budget.headroom_j = headroom_j
        return actions

    def _supply_j(self, now: float) -> float:
        assert self.budget is not None
        return step_headroom_j(
            self.site.storage,
            self.storage,
            dt_s=self.budget.end_s - now,
            renew_w=self._renew_w,
            planned=self._planned_hydrogen(now),
        )

    def _planned_hydrogen(self, now: float) -> HydrogenPlan:
        """What the plan sets for the step that ``now`` lies in; nothing where there is no plan."""
        place = None if self.plans is None else self.plans.place(now)
        if self.plans is None or place is None:
            return NO_HYDROGEN
        power = self.plans[place.window].power
        return HydrogenPlan(
            float(power.electrolyzer_w[place.step]),
            float(power.fuel_cell_w[place.step]),
            float(power.battery_j[place.step + 1]),
        )

    def _refresh_budget(self, now: float) -> None:
        """Production has changed in the middle of a step: what is left of it is worth more or less."""
        assert self.budget is not None
        gained_w = self._renew_w - self.budget.renew_w
        self.budget.headroom_j += gained_w * (self.budget.end_s - now)
        self.budget.renew_w = self._renew_w

    def _reserve_energy_j(self) -> float:
        by_use = self.account.energy_by_use_j
        uses = (ASLEEP, SWITCHING_OFF, SWITCHING_ON)
        return float(sum(by_use[use] for use in uses))
