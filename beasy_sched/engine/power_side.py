"""The power side of a run: the clock of steps, the storage, and the step's budget.

Production is announced by NOTIFY. The energy used by servers comes from the simulator's answer to a query
or, with ``model``, from the daemon's own account. Each step is settled after it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.balance import StepRecord, settle_step, step_headroom_j
from beasy_sched.energy.battery_contents import BatteryContents, Released
from beasy_sched.energy.devices.hydrogen import NO_HYDROGEN, HydrogenPlan
from beasy_sched.energy.grid import Announced, Metered, meter
from beasy_sched.energy.grid_charging import GridUse, grid_use
from beasy_sched.energy.grid_peak import PeakMeter
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import StepLoad
from beasy_sched.energy.storage import StorageState
from beasy_sched.engine.actions import Action
from beasy_sched.engine.agenda import Due
from beasy_sched.engine.call_lead import CallLead
from beasy_sched.engine.guard import Guard, StepBudget, committed_energy_j
from beasy_sched.engine.lost import RETRY_S
from beasy_sched.engine.placement import Placer
from beasy_sched.engine.run_findings import rates_too_short, short_power
from beasy_sched.engine.step_inputs import NO_PARTS, StepInputs
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.findings import Finding
from beasy_sched.limits import LONGEST_SILENCE_S
from beasy_sched.model.choices import EnergySource, OnKill, Placement
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import ASLEEP, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.units import TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.windows import ReplanRule


@dataclass(frozen=True)
class SessionOptions:
    """Settings of a session, fixed at its beginning."""

    site: Site | None = None
    """Storage, steps and guard; None for a run without power limits."""
    plans: PlanStore | None = None
    """Offline plans of the site by window, which hydrogen follows and results show; None without plans."""
    forecast: ForecastSource | None = None
    """Source of predictions of the production; None where there are none."""
    windows: int = 1
    """Number of windows of the site's length; the run ends with the last one."""
    energy: EnergySource = EnergySource.BATSIM
    """Whether the energy used comes from the simulator's answers or from the daemon's own account."""
    power_actions: bool = True
    """Whether P-states may be changed and energy queried; Batsim needs ``-E`` for both.

    Without them, energy comes from the daemon's own account, regardless of ``energy``.
    """
    replan: ReplanRule | None = None
    """Rule by which new plans are made during the run; None if none are."""
    platform: Platform | None = None
    """Speeds and powers by host name, if the simulator's properties do not contain them."""
    inputs_checked: bool = False
    """Whether all inputs were checked before the run (`checks`); otherwise the session checks those it
    sees, and warns."""
    retry_s: float = RETRY_S
    """Time for which a host that did not wake is left alone after its first failure, s; see `lost`."""
    on_kill: OnKill = OnKill.DROP
    """Treatment of jobs that are killed; how they come back is in the site's settings."""
    guard_kills: bool = True
    """Whether the guard may kill jobs."""
    placement: Placement = Placement.OWN
    """Placement of jobs. With ``EXTERNAL``, the session sends no ExecuteJob: jobs that were started arrive
    as JOB_RUNS notices, and the policy's offers are `Session.offers`."""
    placer: Placer | None = None
    """With ``EXTERNAL``: places jobs in this process, through the session; None: somebody else does."""


@final
@dataclass
class Waiting:
    """No step has begun: the production is still unknown."""

    announced: bool = False
    """Whether production has been announced."""


@final
@dataclass(frozen=True)
class Open:
    """A step is under way."""

    budget: StepBudget


@final
@dataclass
class Asking:
    """A step has ended, and the simulator has been asked for its energy."""

    budget: StepBudget
    answer_j: float | None = None
    """Answer of the simulator: energy used since time 0, J; None before it arrives."""


@final
@dataclass(frozen=True)
class Over:
    """The last window has ended."""


Phase: TypeAlias = Waiting | Open | Asking | Over

_NEXT: Final[dict[type[Phase], frozenset[type[Phase]]]] = {
    Waiting: frozenset({Open, Over}),
    Open: frozenset({Open, Asking, Over}),
    Asking: frozenset({Open, Over}),
    Over: frozenset(),
}
"""Every legal transition of the clock of steps."""


class TraceRow(Struct, frozen=True, gc=False):
    """One settled step of the energy trace."""

    step: int
    start_s: float
    record: StepRecord
    metered: Metered | None = None
    """Cost of import and export; None without a grid."""
    predicted_w: float | None = None
    """Production predicted one hour ahead, W; None without a forecast."""
    clear_sky_w: float | None = None
    """Production of the best day, W; None without a forecast."""
    parts_w: Mapping[str, float | None] = {}
    """Parts of the production, W, by kind of source; None where one is unknown for part of the step."""
    correction_j: float | None = None
    """Measured minus computed energy of the battery at the end of the step, J; None if not measured."""
    correction_kg: float | None = None
    """Measured minus computed content of the tank at the end of the step, kg; None if not measured."""
    released: Released | None = None
    """Part of the discharge that came from the grid; None if the grid does not charge the battery."""

    @property
    def grid_discharge_w(self) -> float | None:
        """Power of the discharge that came from the grid, W; None if the grid does not charge the battery."""
        return None if self.released is None else self.released.grid_w

    @property
    def price_per_kwh(self) -> float | None:
        """Mean import price of the step; None without a grid."""
        return None if self.metered is None else self.metered.price_per_kwh

    @property
    def cost(self) -> float | None:
        """Cost of the step's import; None without a grid."""
        return None if self.metered is None else self.metered.cost

    @property
    def carbon_g(self) -> float | None:
        """Carbon of the step's import, g; None without a grid or where the intensity is unknown."""
        return None if self.metered is None else self.metered.carbon_g


@dataclass(frozen=True)
class Settled:
    """The daemon's own account at the end of the last settled step."""

    time_s: float
    by_use_j: FloatArray
    """Energy of every use since time 0, J."""
    running: tuple[Job, ...]
    """Jobs running at `time_s`."""
    spent_j: FloatArray
    """Energy that each busy host had spent on its job by `time_s`, J; undefined for other hosts."""

    @cached_property
    def running_j(self) -> dict[str, float]:
        """Energy spent by each job running at that time, J."""
        return {job.id: float(self.spent_j[job.hosts.ids].sum()) for job in self.running}

    @property
    def used_j(self) -> float:
        """Energy of all uses together, J."""
        return float(self.by_use_j.sum())


class PowerSide:
    """Keeps the storage's state step by step."""

    def __init__(
        self, site: Site, cluster: Cluster, options: SessionOptions, lead: CallLead, due: Due
    ) -> None:
        """Begin at time 0 with the site's start levels; ``lead`` is that of calls.

        The clock is to `advance` when ``due`` is. Raises ConfigError if no powers are known.
        """
        if not cluster.platform.has_powers:
            raise ConfigError(
                "the hosts have no wattage_per_state, which --site requires: generate the"
                " platform with 'beasy-sched generate platform', or omit --site"
            )
        if (short := rates_too_short(site, site.window_s * options.windows)) is not None:
            raise ConfigError(short.text)
        self.site = site
        self.cluster = cluster
        self._lead, self._due = lead, due
        self.energy, self.plans, self.forecast = options.energy, options.plans, options.forecast
        self.end_s = site.window_s * options.windows
        self.storage = site.storage.start()
        self.account = cluster.open_account()
        self.guard = Guard(
            site.guard,
            cluster,
            self.account,
            power_actions=options.power_actions,
            kills=options.guard_kills,
        )
        self.inputs = StepInputs(site, options.forecast)
        grid = site.grid
        charges = grid is not None and grid.charges_battery
        self.contents = BatteryContents(site.storage.battery) if charges else None
        """Price and carbon of the battery's contents; None if the grid does not charge it."""
        self.peak = None if grid is None or grid.peak is None else PeakMeter(grid.peak, site.window_s)
        """Highest mean imports so far; None if they have no price."""
        self.warnings = self.inputs.warnings
        self.phase: Phase = Waiting()
        self.budget: StepBudget | None = None
        """Budget left of the present step; None before the first one and after the last."""
        self.trace: list[TraceRow] = []
        self._inputs_checked = options.inputs_checked
        self._step_start_s = 0.0
        self._load = StepLoad(site.base_w)
        """Load besides the servers in the present step."""
        self._planned = NO_HYDROGEN
        """Powers of hydrogen that the plan sets for the present step."""
        self._committed_j = np.zeros(cluster.size)
        """Energy of each server over the present step, as committed when it was opened, J."""
        self._headroom_j = 0.0
        """Energy left of the present step's supply after `_committed_j` when the step was opened, J."""
        self._consumed_j = 0.0
        self._reserve_j = 0.0
        self.settled = Settled(0.0, self.account.energy_by_use_j, (), self.account.spent_j(0.0))
        self.set_clock()

    # --- queries of the session ----------------------------------------------------------------------

    def is_open(self, now: float) -> bool:
        """Return whether a step is under way, so that jobs may be started."""
        phase = self.phase
        return type(phase) is Open and now < phase.budget.end_s - TIME_TOLERANCE_S

    def expected_level(self, now: float) -> StorageState:
        """Return the storage levels at the end of the present step if nothing changes."""
        budget = self.budget
        if budget is None or budget.end_s - now <= TIME_TOLERANCE_S:
            return self.storage
        dt_s = budget.end_s - self._step_start_s
        rest_j = float(committed_energy_j(self.cluster, now, budget.end_s - now).sum())
        self.account.advance(now)
        used_j = max(float(self.account.energy_by_use_j.sum()) - self.settled.used_j, 0.0)
        return settle_step(
            self.site.storage,
            self.storage,
            dt_s=dt_s,
            consumed_j=used_j + rest_j,
            renew_w=self.inputs.expected_j(budget.end_s) / dt_s,
            planned=self._planned_hydrogen(self._step_start_s),
            base_w=self._load.base_w,
            pue=self._load.pue,
            grid=self.site.grid,
            use=self._grid_use(budget.end_s),
        )[1]

    def short_production(self) -> Finding | None:
        """Return a finding if production announcements ended before the run did."""
        inputs = self.inputs
        if not isinstance(self.phase, Over) or inputs.announced_s == -math.inf:
            return None
        return short_power(inputs.announced_s + inputs.lasting_s, self.end_s, inputs.production_w)

    # --- events --------------------------------------------------------------------------------------

    def set_production(self, power_w: float, now: float, parts_w: Mapping[str, float] = NO_PARTS) -> None:
        """Note that ``power_w`` is announced from now on, and adjust the headroom of the step.

        ``parts_w`` has the known parts of it by kind of source.
        """
        self.inputs.announce_production(power_w, now, parts_w)
        power_w = self.inputs.production_w
        if isinstance(self.phase, Waiting):
            self.phase.announced = True
        elif isinstance(self.phase, Open) and self.is_open(now):
            budget = self.phase.budget
            budget.headroom_j += (power_w - budget.renew_w) * (budget.end_s - now) / budget.load.pue
            budget.renew_w = power_w
            return
        self.set_clock()

    def set_rates(self, announced: Announced, now: float) -> None:
        """Note price and carbon intensity of the step that ``now`` belongs to, instead of the files'."""
        self.inputs.announce_rates(announced, step_is_open=self.is_open(now))
        if now < self.end_s:
            self.inputs.compare_rates(announced, now)

    def answer(self, used_j: float) -> None:
        """Note the simulator's answer: energy used since time 0, J."""
        if isinstance(self.phase, Asking):
            self.phase.answer_j = used_j
            self.set_clock()

    def used_by_j(self, now: float) -> float:
        """Return the energy that the servers have used by ``now`` (s) since time 0, J.

        It is that of the last settled step, measured or not, and the account's since then.
        """
        self.account.advance(now)
        since_j = float(self.account.energy_by_use_j.sum()) - self.settled.used_j
        return self._consumed_j + max(since_j, 0.0)

    def hear(self, now: float) -> None:
        """Note that a message for ``now`` (s) has arrived, after which the lead of calls may be another."""
        if (budget := self.budget) is not None:
            budget.now = now
        if self._lead.is_needed:
            self.set_clock()

    def release(self, job: Job, now: float) -> None:
        """Return the energy that an ended job will not use to the step. Call it before its hosts are idle."""
        budget = self.budget
        if budget is not None:
            budget.now = now
            budget.release(job.hosts.ids)

    def advance(self, now: float) -> Phase:
        """Advance to ``now``, when the clock is due; return the phase entered.

        After `Open`, let the policy act, then call `shed`; after `Asking`, query the energy. When the run is
        over, it stays so.
        """
        before = self.phase
        if type(before) is Over:
            return before
        if type(before) is Waiting:
            if not before.announced and not self._inputs_checked:
                self.warnings.append("no power event at time 0: assuming 0 W until the first one")
            return self._open_step(now)
        if type(before) is Asking and before.answer_j is not None:
            used_j = before.answer_j
        elif self.energy is EnergySource.BATSIM:
            return self._enter(Asking(before.budget))
        else:
            self.account.advance(now)
            used_j = float(self.account.energy_by_use_j.sum())
        self._close_step(used_j, now)
        return self._open_step(now)

    def set_clock(self) -> None:
        """Set the time at which the clock is due next, by the phase, the production and the lead of calls.

        A step ends once the production of the next one is known: once it has been announced at the boundary,
        or the lead of calls has passed. Events of one instant can arrive in several messages, in any order,
        and later where the network has latency. After the run's end, the clock is due with each message.
        """
        phase, lead_s = self.phase, self._lead.lead_s
        self._due.needs_call = type(phase) is not Over
        if type(phase) is Over:
            self._due.move(self.end_s)
        elif type(phase) is Waiting:
            self._due.move(0.0 if phase.announced else lead_s)
        elif type(phase) is Asking:
            self._due.move(math.inf if phase.answer_j is None else phase.budget.end_s)
        else:
            end_s = phase.budget.end_s
            is_announced = self.inputs.since_s >= end_s - TIME_TOLERANCE_S
            self._due.move(end_s if is_announced else end_s + lead_s)

    def shed(self, budget: StepBudget, *, as_opened: bool = False) -> list[Action]:
        """Return the guard's actions for a step that has just been opened.

        ``as_opened``: nothing has been decided about servers and jobs since.
        """
        if as_opened and self._headroom_j > 0.0:
            budget.headroom_j = self._headroom_j
            return []
        actions, budget.headroom_j = self.guard.shed(
            budget.supply_j,
            budget.now,
            budget.end_s - budget.now,
            budget.soc_pct,
            self._committed_j if as_opened else None,
            budget.load,
        )
        return actions

    # --- steps ----------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> Phase:
        if type(phase) not in _NEXT[type(self.phase)]:
            raise RuntimeError(f"the clock of steps cannot go from {self.phase} to {phase}")
        self.phase = phase
        self.budget = phase.budget if isinstance(phase, (Open, Asking)) else None
        self.set_clock()
        return phase

    def _close_step(self, consumed_j: float, now: float) -> None:
        """Settle the step that has ended; ``consumed_j`` (J) counts from time 0."""
        if now > self.end_s + LONGEST_SILENCE_S:
            raise PeerError(
                f"the simulator did not send the call requested for {self.end_s:g} s, the end of the run:"
                f" its message is for {now:g} s"
            )
        dt_s = now - self._step_start_s
        used_j = consumed_j - self._consumed_j
        if used_j < -1e-6 * max(consumed_j, 1.0):
            raise PeerError(
                f"the simulator reported less energy used by {now:g} s than before ({consumed_j} J)"
            )
        self.account.advance(now)
        inputs = self.inputs
        inputs.count(now)
        by_use_j = self.account.energy_by_use_j
        reserve_j = float(by_use_j[ASLEEP] + by_use_j[SWITCHING_OFF] + by_use_j[SWITCHING_ON])
        record, self.storage = settle_step(
            self.site.storage,
            self.storage,
            dt_s=dt_s,
            consumed_j=max(used_j, 0.0),
            renew_w=inputs.renew_w(dt_s),
            planned=self._planned,
            reserve_w=max(reserve_j - self._reserve_j, 0.0) / dt_s,
            base_w=self._load.base_w,
            pue=self._load.pue,
            grid=self.site.grid,
            use=self._grid_use(now),
        )
        correction_j, correction_kg = self._correct()
        metered = self._metered(record)
        predicted_w, clear_sky_w = inputs.predictions_w(self._step_start_s, now, record)
        self.trace.append(
            TraceRow(
                len(self.trace),
                self._step_start_s,
                record,
                metered,
                predicted_w,
                clear_sky_w,
                inputs.parts_w(dt_s),
                correction_j,
                correction_kg,
                None if self.contents is None or metered is None else self.contents.settle(record, metered),
            )
        )
        if self.peak is not None:
            self.peak.add(self._step_start_s, dt_s, record.import_w)
        inputs.end_step()
        self._consumed_j, self._reserve_j = consumed_j, reserve_j
        running = tuple(self.cluster.running.values())
        self.settled = Settled(now, by_use_j, running, self.account.spent_j(now))
        self._step_start_s = now

    def _grid_use(self, end_s: float) -> GridUse:
        """Return what the grid's rules allow in the step that ends at ``end_s``.

        They are judged by the times of whole steps: the simulator reports ends of steps with a delay.
        """
        step_s = self.site.step_s
        first = (self._step_start_s + TIME_TOLERANCE_S) // step_s
        last = max((end_s + TIME_TOLERANCE_S) // step_s, first + 1)
        return grid_use(self.site.grid, first * step_s, (last - first) * step_s, self.inputs.rates)

    def _correct(self) -> tuple[float | None, float | None]:
        """Set the storage to the levels measured in the step; return the differences, J and kg."""
        held, (measured_j, measured_kg) = self.storage, self.inputs.levels()
        if measured_j is not None or measured_kg is not None:
            self.storage = StorageState(
                held.battery_j if measured_j is None else measured_j,
                held.hydrogen_kg if measured_kg is None else measured_kg,
                held.others,
            )
        return (
            None if measured_j is None else measured_j - held.battery_j,
            None if measured_kg is None else measured_kg - held.hydrogen_kg,
        )

    def _metered(self, record: StepRecord) -> Metered | None:
        """Return the cost of the grid in a step that has just ended; None without a grid."""
        grid, powers_w = self.site.grid, (record.import_w, record.export_w)
        if grid is None:
            return None
        return meter(grid, self._step_start_s, record.dt_s, *powers_w, self.inputs.rates)

    def _open_step(self, now: float) -> Phase:
        """Begin the step that ``now`` belongs to, or end the run after its last window."""
        if now >= self.end_s - TIME_TOLERANCE_S:
            return self._enter(Over())
        step_s, storage, inputs = self.site.step_s, self.site.storage, self.inputs
        index = int((now + TIME_TOLERANCE_S) // step_s)
        end_s = min((index + 1) * step_s, self.end_s)
        inputs.begin_own(now, end_s)
        inputs.begin_step(index * step_s)
        self._planned, self._load = self._planned_hydrogen(now), self.site.load_during(now, end_s)
        supply_j = step_headroom_j(
            storage,
            self.storage,
            dt_s=end_s - now,
            renew_w=inputs.production_w,
            planned=self._planned,
            base_w=self._load.base_w,
            pue=self._load.pue,
            grid=self.site.grid,
        )
        self._committed_j = committed_energy_j(self.cluster, now, end_s - now)
        self._headroom_j = supply_j - float(self._committed_j.sum())
        budget = StepBudget(
            cluster=self.cluster,
            step=index,
            start_s=now,
            end_s=end_s,
            renew_w=inputs.production_w,
            soc_pct=storage.battery.soc_pct(self.storage.battery_j),
            supply_j=supply_j,
            headroom_j=self._headroom_j,
            veto=self.site.guard.veto,
            now=now,
            load=self._load,
        )
        return self._enter(Open(budget))

    def _planned_hydrogen(self, now: float) -> HydrogenPlan:
        """Return the hydrogen powers that the plan sets for the step at ``now``; none without a plan."""
        place = None if self.plans is None else self.plans.place(now)
        if self.plans is None or place is None:
            return NO_HYDROGEN
        power = self.plans[place.window].power
        return HydrogenPlan(
            float(power.electrolyzer_w[place.step]),
            float(power.fuel_cell_w[place.step]),
            float(power.battery_j[place.step + 1]),
        )
