"""The power side of a run: the clock of steps, the storage, and the step's budget.

Production is announced by NOTIFY. The energy used by servers comes from the simulator's answer to a query
or, with ``model``, from the daemon's own account. Each step is settled after it has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.balance import StepRecord, settle_step, step_headroom_j
from beasy_sched.energy.grid import Announced, Metered, meter
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import NO_HYDROGEN, HydrogenPlan, StorageState
from beasy_sched.engine.actions import Action
from beasy_sched.engine.call_lead import CallLead
from beasy_sched.engine.foreseeing import ForecastRecord
from beasy_sched.engine.guard import Guard, StepBudget, committed_energy_j
from beasy_sched.engine.lost import RETRY_S
from beasy_sched.engine.production import ProductionMeter
from beasy_sched.engine.rates import AnnouncedRates
from beasy_sched.engine.run_findings import rates_too_short, short_power
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.findings import Finding
from beasy_sched.limits import LONGEST_SILENCE_S
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import ASLEEP, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.units import TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.windows import ReplanRule


class EnergySource(str, Enum):
    """Source of the energy used by servers."""

    BATSIM = "batsim"
    MODEL = "model"


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
    sun_w: float | None = None
    """PV part of the production, W; None where it is unknown for part of the step."""
    correction_j: float | None = None
    """Measured minus computed energy of the battery at the end of the step, J; None if not measured."""
    correction_kg: float | None = None
    """Measured minus computed content of the tank at the end of the step, kg; None if not measured."""

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
        self, site: Site, cluster: Cluster, options: SessionOptions, lead: CallLead | None = None
    ) -> None:
        """Begin at time 0 with the site's start levels; ``lead`` is that of calls, a moment if omitted.

        Raises ConfigError if no powers are known.
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
        self._lead = lead or CallLead(0.0)
        self.energy, self.plans, self.forecast = options.energy, options.plans, options.forecast
        self.end_s = site.window_s * options.windows
        self.storage = site.storage.start()
        self.account = cluster.open_account()
        self.guard = Guard(site.guard, cluster, self.account, power_actions=options.power_actions)
        self.production = ProductionMeter()
        self.phase: Phase = Waiting()
        self.trace: list[TraceRow] = []
        self._inputs_checked = options.inputs_checked
        self._rates = AnnouncedRates(site)
        self.warnings = self._rates.warnings
        self._forecast = ForecastRecord(options.forecast, site.step_s)
        self._step_start_s = 0.0
        self._planned = NO_HYDROGEN
        """Powers of hydrogen that the plan sets for the present step."""
        self._committed_j = np.zeros(cluster.size)
        """Energy of each server over the present step, as committed when it was opened, J."""
        self._headroom_j = 0.0
        """Energy left of the present step's supply after `_committed_j` when the step was opened, J."""
        self._consumed_j = 0.0
        self._reserve_j = 0.0
        self._measured_j: float | None = None
        """Last measured energy of the battery in the present step, J; None if not measured."""
        self._measured_kg: float | None = None
        """Last measured content of the tank in the present step, kg; None if not measured."""
        self.levels_measured = False
        """Whether any level was ever measured."""
        self.settled = Settled(0.0, self.account.energy_by_use_j, (), self.account.spent_j(0.0))

    # --- queries of the session ----------------------------------------------------------------------

    @property
    def budget(self) -> StepBudget | None:
        """Budget left of the present step; None before the first one and after the last."""
        phase = self.phase
        return phase.budget if type(phase) is Open or type(phase) is Asking else None

    def is_open(self, now: float) -> bool:
        """Return whether a step is under way, so that jobs may be started."""
        phase = self.phase
        return type(phase) is Open and now < phase.budget.end_s - TIME_TOLERANCE_S

    @property
    def next_call_s(self) -> float | None:
        """Latest time at which the clock must be called, s; None if no call is needed."""
        phase = self.phase
        if type(phase) is Open:
            return phase.budget.end_s + self._lead.lead_s
        return self._lead.lead_s if type(phase) is Waiting else None

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
            renew_w=self.production.expected_j(budget.end_s) / dt_s,
            planned=self._planned_hydrogen(self._step_start_s),
            base_w=self.site.base_w,
            grid=self.site.grid,
        )[1]

    def short_production(self) -> Finding | None:
        """Return a finding if production announcements ended before the run did."""
        production = self.production
        if not isinstance(self.phase, Over) or production.announced_s == -math.inf:
            return None
        return short_power(production.announced_s + production.lasting_s, self.end_s, production.power_w)

    # --- events --------------------------------------------------------------------------------------

    def set_production(self, power_w: float, now: float, sun_w: float | None = None) -> None:
        """Note that production is ``power_w`` from now on, and adjust the headroom of the step.

        ``sun_w`` is the PV part of it, None if unknown.
        """
        self.production.announce(power_w, now, sun_w)
        if isinstance(self.phase, Waiting):
            self.phase.announced = True
        elif isinstance(self.phase, Open) and self.is_open(now):
            budget = self.phase.budget
            budget.headroom_j += (power_w - budget.renew_w) * (budget.end_s - now)
            budget.renew_w = power_w

    def set_rates(self, announced: Announced, now: float) -> None:
        """Note price and carbon intensity of the step that ``now`` belongs to, instead of the files'."""
        self._rates.announce(announced, now, step_is_open=self.is_open(now))
        if now < self.end_s:
            self._rates.compare(announced, now)

    def measure_levels(self, soc_pct: float | None, hydrogen_kg: float | None) -> None:
        """Note measured levels of the storage, which apply from the end of the present step."""
        self.levels_measured = True
        battery, hydrogen = self.site.storage.battery, self.site.storage.hydrogen
        if soc_pct is not None and battery.capacity_j > 0.0:
            self._measured_j = battery.energy_j(soc_pct)
        if hydrogen_kg is not None and hydrogen is not None:
            self._measured_kg = min(hydrogen_kg, hydrogen.tank_kg)

    def answer(self, used_j: float) -> None:
        """Note the simulator's answer: energy used since time 0, J."""
        if isinstance(self.phase, Asking):
            self.phase.answer_j = used_j

    def release(self, job: Job, now: float) -> None:
        """Return the energy that an ended job will not use to the step. Call it before its hosts are idle."""
        budget = self.budget
        if budget is not None:
            budget.now = now
            budget.release(job.hosts.ids)

    def advance(self, now: float) -> Phase | None:
        """Advance to ``now``; return the phase entered, or None if it has not changed.

        After `Open`, let the policy act, then call `shed`; after `Asking`, query the energy.
        """
        before = self.phase
        if type(before) is Waiting:
            if not before.announced and now < self._lead.lead_s - TIME_TOLERANCE_S:
                return None
            if not before.announced and not self._inputs_checked:
                self.warnings.append("no power event at time 0: assuming 0 W until the first one")
            return self._open_step(now)
        if type(before) is Over:
            return None
        before.budget.now = now
        if type(before) is Asking:
            if before.answer_j is None:
                return None
            used_j = before.answer_j
        elif self.is_open(now) or not self._production_settled(before.budget.end_s, now):
            return None
        elif self.energy is EnergySource.BATSIM:
            return self._enter(Asking(before.budget))
        else:
            self.account.advance(now)
            used_j = float(self.account.energy_by_use_j.sum())
        self._close_step(used_j, now)
        return self._open_step(now)

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
        )
        return actions

    # --- steps ----------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> Phase:
        if type(phase) not in _NEXT[type(self.phase)]:
            raise RuntimeError(f"the clock of steps cannot go from {self.phase} to {phase}")
        self.phase = phase
        return phase

    def _production_settled(self, boundary_s: float, now: float) -> bool:
        """Return whether the production of the step that begins at ``boundary_s`` is known.

        It is known once it has been announced at the boundary, or the lead of calls has passed: events of
        one instant can arrive in several messages, in any order, and later where the network has latency.
        """
        return (
            self.production.since_s >= boundary_s - TIME_TOLERANCE_S
            or now >= boundary_s + self._lead.lead_s - TIME_TOLERANCE_S
        )

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
        self.production.count(now)
        produced = self.production.mean(dt_s)
        by_use_j = self.account.energy_by_use_j
        reserve_j = float(by_use_j[ASLEEP] + by_use_j[SWITCHING_OFF] + by_use_j[SWITCHING_ON])
        record, self.storage = settle_step(
            self.site.storage,
            self.storage,
            dt_s=dt_s,
            consumed_j=max(used_j, 0.0),
            renew_w=produced.power_w,
            planned=self._planned,
            reserve_w=max(reserve_j - self._reserve_j, 0.0) / dt_s,
            base_w=self.site.base_w,
            grid=self.site.grid,
        )
        correction_j, correction_kg = self._correct()
        predicted_w, clear_sky_w = self._forecast.observe(self._step_start_s, now, record)
        self.trace.append(
            TraceRow(
                len(self.trace),
                self._step_start_s,
                record,
                self._metered(record),
                predicted_w,
                clear_sky_w,
                produced.sun_w,
                correction_j,
                correction_kg,
            )
        )
        self.production.begin_step()
        self._consumed_j, self._reserve_j = consumed_j, reserve_j
        running = tuple(self.cluster.running.values())
        self.settled = Settled(now, by_use_j, running, self.account.spent_j(now))
        self._step_start_s = now

    def _correct(self) -> tuple[float | None, float | None]:
        """Set the storage to the levels measured in the step; return the differences, J and kg."""
        held, measured_j, measured_kg = self.storage, self._measured_j, self._measured_kg
        self._measured_j = self._measured_kg = None
        if measured_j is not None or measured_kg is not None:
            self.storage = StorageState(
                held.battery_j if measured_j is None else measured_j,
                held.hydrogen_kg if measured_kg is None else measured_kg,
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
        return meter(grid, self._step_start_s, record.dt_s, *powers_w, self._rates.present)

    def _open_step(self, now: float) -> Phase:
        """Begin the step that ``now`` belongs to, or end the run after its last window."""
        self._rates.begin_step()
        if now >= self.end_s - TIME_TOLERANCE_S:
            return self._enter(Over())
        step_s, storage = self.site.step_s, self.site.storage
        index = int((now + TIME_TOLERANCE_S) // step_s)
        end_s = min((index + 1) * step_s, self.end_s)
        self._forecast.predict(index * step_s, self.production.power_w)
        self._planned = self._planned_hydrogen(now)
        supply_j = step_headroom_j(
            storage,
            self.storage,
            dt_s=end_s - now,
            renew_w=self.production.power_w,
            planned=self._planned,
            base_w=self.site.base_w,
            grid=self.site.grid,
        )
        self._committed_j = committed_energy_j(self.cluster, now, end_s - now)
        self._headroom_j = supply_j - float(self._committed_j.sum())
        budget = StepBudget(
            cluster=self.cluster,
            step=index,
            start_s=now,
            end_s=end_s,
            renew_w=self.production.power_w,
            soc_pct=storage.battery.soc_pct(self.storage.battery_j),
            supply_j=supply_j,
            headroom_j=self._headroom_j,
            veto=self.site.guard.veto,
            now=now,
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
