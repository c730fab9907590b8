"""The power decisions as a linear model: Eq. 3.1 to 3.11, scaled so that numbers are near 1.

Powers are in units of the largest power of the forecasts, energies (and hydrogen, as the power that
an hour of electrolysis needs) in that unit times an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.linear import LinearModel
from beasy_sched.plan.power_problem import PowerProblem
from beasy_sched.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class Switches:
    """Which exclusions the model carries as whole numbers: those that the plain model was found to break."""

    battery: bool = False
    """Charging excludes discharging."""
    electrolyzer: bool = False
    """The electrolyzer is off or at least at its minimum."""


NO_SWITCHES = Switches()

TOLERANCE = 1e-9
"""How far a solver may miss a row, scaled: storage levels add up the misses of all steps before."""


class PowerModel:
    """The model and where its quantities are; columns hold scaled values, one a step."""

    def __init__(self, problem: PowerProblem, switches: Switches) -> None:
        """Build columns and rows."""
        self.problem = problem
        largest = max(problem.load_w.max(), problem.renew_w.max(), problem.floors_w.max())
        self.power_w = max(1.0, float(largest))
        self.hours = problem.step_s / SECONDS_PER_HOUR
        self.energy_j = self.power_w * SECONDS_PER_HOUR
        self.load = problem.load_w / self.power_w
        self.renew = problem.renew_w / self.power_w
        hydrogen = problem.storage.hydrogen
        fuel_cell = hydrogen.fuel_cell_max_w / self.power_w if hydrogen else 0.0
        # What is there for a storage in a step without another storage's help, once the floor is served.
        self.spare = np.maximum(self.renew + fuel_cell - problem.floors_w / self.power_w, 0.0)
        self.model = LinearModel()
        self.relax = self.model.columns(1, 0.0, 1.0)
        self.produced = self.model.columns(problem.steps, problem.floors_w / self.power_w)
        self.short = self.model.columns(problem.steps)
        self._add_battery(switches.battery)
        self._add_hydrogen(switches.electrolyzer)
        self._add_balance()

    def _add_battery(self, exclusive: bool) -> None:
        problem, model, steps = self.problem, self.model, self.problem.steps
        battery = problem.storage.battery
        kept = battery.kept_fraction(problem.step_s)
        low, high = battery.min_j / self.energy_j, battery.max_j / self.energy_j
        span = (battery.max_j - kept * battery.min_j) / self.energy_j / self.hours
        fade = (battery.max_j * kept - battery.min_j) / self.energy_j / self.hours
        drawn = battery.drawn_per_delivered()
        limit_in = min(battery.charge_limit_w / self.power_w, span / battery.charge_efficiency)
        most_in = np.minimum(limit_in, self.spare)
        most_out = min(battery.discharge_limit_w / self.power_w, max(fade, 0.0) / drawn)
        self.most_discharge = most_out
        self.charge = model.columns(steps, 0.0, most_in)
        self.discharge = model.columns(steps, 0.0, most_out)
        lower = np.full(steps, low)
        lower[-1] = max(low, problem.target_j / self.energy_j)
        self.battery = model.columns(steps, lower, high)
        self._add_storage(
            self.battery,
            kept,
            problem.start_state.battery_j / self.energy_j,
            (self.charge, battery.charge_efficiency),
            (self.discharge, drawn),
        )
        if exclusive:
            charging = model.columns(steps, 0.0, 1.0, integer=True)
            model.rows(steps, -np.inf, 0.0, (self.charge, 1.0), (charging, -most_in))
            model.rows(steps, -np.inf, most_out, (self.discharge, 1.0), (charging, most_out))

    def _add_hydrogen(self, exclusive: bool) -> None:
        problem, model, steps = self.problem, self.model, self.problem.steps
        hydrogen = problem.storage.hydrogen
        self.electrolyzer: IntArray | None = None
        self.fuel_cell: IntArray | None = None
        self.hydrogen: IntArray | None = None
        self.electrolyzer_on: IntArray | None = None
        if hydrogen is None:
            return
        most_in = np.minimum(hydrogen.electrolyzer_max_w / self.power_w, self.spare + self.most_discharge)
        least_in = hydrogen.electrolyzer_min_w / self.power_w
        most_in[most_in < least_in] = 0.0
        hour_kg = hydrogen.produced_kg(self.power_w, SECONDS_PER_HOUR)
        drawn = hydrogen.used_kg(self.power_w, SECONDS_PER_HOUR) / hour_kg
        self.electrolyzer = model.columns(steps, 0.0, most_in)
        self.fuel_cell = model.columns(steps, 0.0, hydrogen.fuel_cell_max_w / self.power_w)
        lower = np.zeros(steps)
        lower[-1] = problem.target_kg / hour_kg
        self.hydrogen = model.columns(steps, lower, hydrogen.tank_kg / hour_kg)
        start = problem.start_state.hydrogen_kg / hour_kg
        self._add_storage(self.hydrogen, 1.0, start, (self.electrolyzer, 1.0), (self.fuel_cell, drawn))
        if exclusive:
            on = self.electrolyzer_on = model.columns(steps, 0.0, 1.0, integer=True)
            model.rows(steps, -np.inf, 0.0, (self.electrolyzer, 1.0), (on, -most_in))
            model.rows(steps, 0.0, np.inf, (self.electrolyzer, 1.0), (on, -least_in))

    def _add_storage(
        self,
        level: IntArray,
        kept: float,
        start: float,
        flow_in: tuple[IntArray, float],
        flow_out: tuple[IntArray, float],
    ) -> None:
        """Level after a step = kept share of the level before + what flows in - what flows out."""
        steps = self.problem.steps
        before = np.concatenate((level[:1], level[:-1]))
        share = np.full(steps, -kept)
        share[0] = 0.0
        given = np.zeros(steps)
        given[0] = kept * start
        into, out = (flow_in[0], -flow_in[1] * self.hours), (flow_out[0], flow_out[1] * self.hours)
        self.model.rows(steps, given, given, (level, 1.0), (before, share), into, out)

    def _add_balance(self) -> None:
        """Eq. 3.1 and 3.11, and the shortfall of each step."""
        terms: list[tuple[IntArray, float | FloatArray]] = [
            (self.produced, 1.0),
            (self.charge, 1.0),
            (self.discharge, -1.0),
        ]
        if self.electrolyzer is not None and self.fuel_cell is not None:
            terms += [(self.electrolyzer, 1.0), (self.fuel_cell, -1.0)]
        steps = self.problem.steps
        self.model.rows(steps, self.renew, self.renew, *terms)
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.relax, self.load))
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.short, 1.0))
