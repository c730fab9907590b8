"""Battery life: degradation caused by a trace of charge, by the model of Xu et al. (2018).

B. Xu, A. Oudalov, A. Ulbig, G. Andersson and D. S. Kirschen, "Modeling of Lithium-Ion Battery Degradation for
Cell JobHistory Assessment", IEEE Transactions on Smart Grid 9(2), 2018, pp. 1131-1140. In its symbols: the
linearised degradation f_d is that of time (calendar ageing, f_t) and the sum of those of the cycles (f_c),
each a product of stress factors; the model of the SEI film (solid electrolyte interphase) turns f_d into a
loss of capacity.

- f_t = S_t(t) S_sigma(mean SoC) S_T(T), with S_t(t) = k_t t
- f_c = S_delta(DoD) S_sigma(mean SoC of the cycle) S_T(T), times 1 for a full cycle and 1/2 for a half one
- S_sigma(sigma) = exp(k_sigma (sigma - sigma_ref))
- S_T(T) = exp(k_T (T - T_ref) T_ref / T), temperatures in kelvin
- S_delta(delta) = 1 / (k_delta1 delta^k_delta2 + k_delta3)
- capacity left = alpha_sei exp(-beta_sei f_d) + (1 - alpha_sei) exp(-f_d)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.device import SiteSection
from beasy_sched.energy.grid import Grid
from beasy_sched.extras import load_optional, require
from beasy_sched.units import SECONDS_PER_YEAR

END_OF_LIFE: Final = 0.8
"""Share of its capacity at which a battery's life ends, as in data sheets and Xu et al."""
_ZERO_C_IN_K: Final = 273.15
_DEPTHS: Final = 1000
"""Number of compared depths."""
_EXTRA: Final = ("rainflow", "beasy-sched[life]", "battery life")


@dataclass(frozen=True)
class DepthStress:
    """S_delta of Xu et al.: the linearised degradation of a full cycle, by its depth of discharge."""

    k_delta1: float
    k_delta2: float
    k_delta3: float

    def per_cycle(self, depths: FloatArray) -> FloatArray:
        """Return the degradation of a full cycle of each depth (above 0; depths above 1 count as 1)."""
        within = np.minimum(depths, 1.0)
        degradation: FloatArray = 1.0 / (self.k_delta1 * within**self.k_delta2 + self.k_delta3)
        return degradation


@dataclass(frozen=True)
class CycleTable:
    """Cycles until `END_OF_LIFE` by depth of discharge, from a data sheet.

    Between two depths the logarithm of the cycles is linear in that of the depth. Beyond the table the
    degradation of a cycle is proportional to its depth, as for a fixed energy throughput.
    """

    rows: tuple[tuple[float, float], ...]
    """Depth of discharge (0 to 1), and cycles; depths increase, cycles decrease."""

    def per_cycle(self, depths: FloatArray) -> FloatArray:
        """Degradation of a full cycle of each depth (above 0): the life's, divided by the cycles."""
        log_depths, cycles = np.log(np.array(self.rows)).T
        wanted = np.log(depths)
        inside = np.clip(wanted, log_depths[0], log_depths[-1])
        log_cycles = np.interp(inside, log_depths, cycles) + (inside - wanted)
        degradation: FloatArray = -math.log(END_OF_LIFE) * np.exp(-log_cycles)
        return degradation


@dataclass(frozen=True)
class CellModel:
    """Ageing model of a kind of cell: parameters of the stress factors and of the SEI film."""

    name: str
    depth: DepthStress | CycleTable
    k_t_per_s: float
    k_sigma: float = 0.0
    sigma_ref: float = 0.5
    k_temperature: float = 6.93e-2
    reference_c: float = 25.0
    alpha_sei: float = 0.0
    beta_sei: float = 0.0

    def temperature_stress(self, temperature_c: float) -> float:
        """S_T: 1 at the reference temperature; it doubles with about 10 K."""
        reference_k = self.reference_c + _ZERO_C_IN_K
        warmer_k = temperature_c - self.reference_c
        return math.exp(self.k_temperature * warmer_k * reference_k / (temperature_c + _ZERO_C_IN_K))

    def charge_stress(self, charges: FloatArray) -> FloatArray:
        """S_sigma of states of charge (0 to 1)."""
        stress: FloatArray = np.exp(self.k_sigma * (charges - self.sigma_ref))
        return stress

    def health(self, degradation: float) -> float:
        """Remaining share of the capacity after a linearised degradation f_d: 1 for a new battery."""
        film = self.alpha_sei * math.exp(-self.beta_sei * degradation)
        return film + (1.0 - self.alpha_sei) * math.exp(-degradation)

    @property
    def whole_life(self) -> float:
        """The linearised degradation f_d at which the health is `END_OF_LIFE`."""
        degradation = math.log((1.0 - self.alpha_sei) / END_OF_LIFE)  # less than the root: film remains
        while (above := self.health(degradation) - END_OF_LIFE) > 1e-15:
            film = self.alpha_sei * self.beta_sei * math.exp(-self.beta_sei * degradation)
            degradation += above / (film + (1.0 - self.alpha_sei) * math.exp(-degradation))
        return degradation


LMO: Final = CellModel(
    "lmo",
    DepthStress(1.40e5, -5.01e-1, -1.23e5),
    k_t_per_s=4.14e-10,
    k_sigma=1.04,
    alpha_sei=5.75e-2,
    beta_sei=121.0,
)
"""Lithium manganese oxide cells, with the coefficients that Xu et al. fitted to a manufacturer's tests."""
CHEMISTRIES: Final = {model.name: model for model in (LMO,)}
"""Chemistries with published coefficients, by name."""


def data_sheet_cell(rows: Iterable[tuple[float, float]], calendar_years: float) -> CellModel:
    """Return the model of a cell from a data sheet.

    ``rows``: depths of discharge (0 to 1) and cycles until `END_OF_LIFE` (`CycleTable`); ``calendar_years``:
    years until then at rest. Both hold at 25 degrees Celsius; other temperatures follow S_T of Xu et al.
    The degradation is that of Xu et al. without an SEI film, independent of the state of charge.
    """
    per_s = -math.log(END_OF_LIFE) / (calendar_years * SECONDS_PER_YEAR)
    return CellModel("data sheet", CycleTable(tuple(rows)), per_s)


class Cycle(NamedTuple):
    """Rainflow cycle of a trace of charge."""

    depth: float
    """Depth of discharge, 0 to 1."""
    mean: float
    """Mean of its two ends, 0 to 1."""
    weight: float
    """1 for a full cycle, 0.5 for a half one."""


def counted_cycles(charges: Sequence[float] | FloatArray) -> list[Cycle]:
    """Count the cycles of a trace by the rainflow method (ASTM E1049, section 5.4.4).

    Raises ConfigError without the extra ``life``.
    """
    extract: Callable[[list[float]], Iterable[tuple[float, float, float, int, int]]]
    extract = load_optional(*_EXTRA).extract_cycles
    levels = np.asarray(charges, dtype=float).tolist()
    levels += levels[-1:]  # rainflow does not accept two levels alone
    return [Cycle(depth, mean, weight) for depth, mean, weight, *_ in extract(levels) if depth > 0.0]


def check_installed() -> None:
    """Raise ConfigError that names the extra ``life`` if it is not installed."""
    require(*_EXTRA)


@dataclass(frozen=True)
class Wear:
    """Degradation of a battery that was new at the start, over a period."""

    model: CellModel
    span_s: float
    calendar: float
    """f_t: linearised degradation by time alone."""
    cycling: float
    """Sum of f_c: linearised degradation by cycles."""
    full_cycles: float
    """Sum of the depths of all cycles: number of equivalent full cycles."""

    @property
    def degradation(self) -> float:
        """f_d: total linearised degradation."""
        return self.calendar + self.cycling

    @property
    def health(self) -> float:
        """State of health at the end: remaining share of the capacity."""
        return self.model.health(self.degradation)

    @property
    def life_used(self) -> float:
        """Share of the battery's life used in the period: 1 at `END_OF_LIFE`.

        It refers to the linearised degradation, so equal periods count equally at any time of the battery's
        life.
        """
        return self.degradation / self.model.whole_life

    @property
    def years_to_end(self) -> float | None:
        """Years until `END_OF_LIFE` if the period repeats; None for a period without degradation."""
        return self.span_s / self.life_used / SECONDS_PER_YEAR if self.degradation > 0.0 else None


def wear_of(model: CellModel, temperature_c: float, times_s: FloatArray, charges: FloatArray) -> Wear:
    """Return the degradation of a trace of charge at a constant temperature (degrees Celsius).

    ``charges``: state of charge (0 to 1) at each of ``times_s``, which rise; it is linear in between. Raises
    ConfigError without the extra ``life``.
    """
    span_s = float(times_s[-1] - times_s[0])
    warm = model.temperature_stress(temperature_c)
    calendar = 0.0
    if span_s > 0.0:
        mean = float(np.sum(np.diff(times_s) * (charges[1:] + charges[:-1]))) / (2.0 * span_s)
        calendar = model.k_t_per_s * span_s * float(model.charge_stress(np.array(mean))) * warm
    cycling = full_cycles = 0.0
    if cycles := counted_cycles(charges):
        depth, middle, weight = np.array(cycles).T
        each = model.depth.per_cycle(depth) * model.charge_stress(middle)
        cycling, full_cycles = warm * float(np.sum(weight * each)), float(np.sum(weight * depth))
    return Wear(model, span_s, calendar, cycling, full_cycles)


@dataclass(frozen=True)
class BatteryLife:
    """Ageing model and price of a site's battery."""

    model: CellModel
    temperature_c: float = 25.0
    price_per_kwh: float | None = None
    """Price of the battery per kilowatt-hour of its capacity; None if unknown."""
    currency: str = Grid.currency

    def wear(self, times_s: FloatArray, charges: FloatArray) -> Wear:
        """Return the degradation of a trace of charge; see `wear_of`."""
        return wear_of(self.model, self.temperature_c, times_s, charges)

    def depth_worth(self, most_per_kwh: float) -> float:
        """Return the depth of discharge (0 to 1) beyond which a kilowatt-hour's degradation exceeds a price.

        A cycle that gets deeper by one kWh costs price * S_delta'(depth) S_T(T) / f_d of the whole life, in
        the currency of `price_per_kwh`, which must be known; S_sigma is taken as 1.
        """
        edges = np.linspace(0.0, 1.0, _DEPTHS + 1)[1:]
        stress = self.model.depth.per_cycle(edges) * self.model.temperature_stress(self.temperature_c)
        price = (self.price_per_kwh or 0.0) / self.model.whole_life
        worth = np.flatnonzero(price * np.diff(stress) * _DEPTHS <= most_per_kwh)
        return float(edges[worth[-1] + 1]) if len(worth) else 0.0


class LifeSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Section ``[battery.life]`` of a site file: a chemistry, or a data sheet."""

    chemistry: str | None = None
    """Name in `CHEMISTRIES`."""
    cycles: tuple[tuple[float, float], ...] | None = None
    """Depths of discharge, %, and cycles until 80 % of the capacity."""
    calendar_years: float | None = None
    """Years until 80 % of the capacity at rest, which ``cycles`` require."""
    temperature_c: float = BatteryLife.temperature_c
    price_per_kwh: float | None = None
    """Price of a kWh of capacity."""
    currency: str | None = None
