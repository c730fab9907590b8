"""Inputs of a step: production, prices, predictions, and measured storage levels."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final

from beasy_sched.energy.balance import StepRecord
from beasy_sched.energy.grid import Announced, Foreseen
from beasy_sched.energy.site import Site
from beasy_sched.energy.sources import KINDS, Series
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.forecast.outlook import ForecastSource

_SAME_RATE: Final = 2e-6
"""Prices that differ by less (relative above 1) are the same: Batsim forwards six decimals."""
NO_PARTS: Final[Mapping[str, float]] = {}


class StepInputs:
    """Inputs of the present step, and of the next one where they are announced early.

    Announced production holds until the next announcement, and the site's own sources add to it. Announced
    price and carbon intensity hold for one step, instead of those of the site's files. Measured levels apply
    at the end of the step. A prediction is kept until its step has ended; there is none without a forecast.
    """

    def __init__(self, site: Site, forecast: ForecastSource | None) -> None:
        """Begin at time 0 with nothing produced and nothing announced."""
        self._site, self._forecast = site, forecast
        self.warnings: list[str] = []
        self.production_w = 0.0
        """The present production, that of the site's own sources included, W."""
        self.since_s = 0.0
        """Time at which the production changed last, or up to which it was counted, s."""
        self.announced_s = -math.inf
        """Time at which production was announced last, s."""
        self.lasting_s = 0.0
        """Time between the last two announcements of production, s."""
        sources = site.sources
        self.told = {source.kind.name for source in sources if source.series is not None}
        """Kinds of source whose part is known, at least for some time."""
        self._own = [(each.kind.name, each.series) for each in sources if each.series is not None]
        self._own_w: dict[str, float] = {}
        """Power of the site's own sources in the present step, W, by kind."""
        self._announced_w, self._announced_parts_w = 0.0, NO_PARTS
        self._produced_j = 0.0
        """Energy produced from the beginning of the step to `since_s`."""
        self._parts_w = dict.fromkeys(KINDS, 0.0)
        """Present power of each kind of source, W (`_parts_j`: its energy in the step, J); NaN: unknown."""
        self._parts_j = dict(self._parts_w)
        self.rates = Announced()
        """Rates announced for the present step."""
        self._next_rates = Announced()
        """Rates announced for the next step, before it was opened."""
        self._ignored: Set[str] = frozenset()
        """Rates whose announcements are ignored."""
        self._differing: set[str] = set()
        """Rates that caused a warning because the announcement differed from the files."""
        self.levels_told = False
        """Whether any storage level was ever measured."""
        self._measured_j: float | None = None
        """Last measured energy of the battery in the present step, J; None if not measured."""
        self._measured_kg: float | None = None
        """Last measured content of the tank in the present step, kg; None if not measured."""
        self._hour_ahead_w: deque[tuple[float, float, float]] = deque()
        """Each future step: its start (s), its predicted production, and that of an ideal day (W)."""

    # --- announcements --------------------------------------------------------------------------------

    def announce_production(
        self, power_w: float, now: float, parts_w: Mapping[str, float] = NO_PARTS
    ) -> None:
        """Note that ``power_w`` is announced from now on, with the known parts of it by kind of source."""
        self.count(now)
        self._announced_w, self._announced_parts_w = power_w, parts_w
        self.told.update(parts_w)
        self._set_present()
        if now > self.announced_s:
            self.lasting_s = now - self.announced_s if self.announced_s > -math.inf else 0.0
        self.announced_s = now

    def _set_present(self) -> None:
        """Set the present power, and that of each kind: a part that is not announced is unknown, W."""
        own_w, announced_w = self._own_w, self._announced_parts_w
        self.production_w = self._announced_w + sum(own_w.values()) if own_w else self._announced_w
        rest_w = math.nan if self._announced_w > 0.0 else 0.0
        for kind in self._parts_w:
            power_w = announced_w.get(kind, 0.0 if kind in own_w else rest_w)
            self._parts_w[kind] = power_w + own_w[kind] if kind in own_w else power_w

    def ignore_rates(self, names: Set[str]) -> None:
        """Use these rates (``price``, ``carbon``) of the site's grid, not announced ones."""
        self._ignored = names
        self.rates, self._next_rates = self._heeded(self.rates), self._heeded(self._next_rates)

    def _heeded(self, announced: Announced) -> Announced:
        """Return the announced rates without those that are ignored."""
        price, carbon = announced.price_per_kwh, announced.carbon_g_per_kwh
        return Announced(
            None if "price" in self._ignored else price, None if "carbon" in self._ignored else carbon
        )

    def announce_rates(self, announced: Announced, *, step_is_open: bool) -> None:
        """Note the rates of the present step if it is open, else those of the next one."""
        if self._ignored:
            announced = self._heeded(announced)
        if step_is_open:
            self.rates = announced
        else:
            self._next_rates = announced

    def compare_rates(self, announced: Announced, now: float) -> None:
        """Warn, once each, of rates announced for the step at ``now`` that differ from the site file."""
        grid = self._site.grid
        if grid is not None:
            self._compare("price", grid.price, announced.price_per_kwh, now)
            self._compare("carbon", grid.carbon, announced.carbon_g_per_kwh, now)

    def _compare(self, name: str, foreseen: Foreseen | None, announced: float | None, now: float) -> None:
        if foreseen is None or announced is None or name in self._differing:
            return
        step_s = self._site.step_s
        start_s = (now + TIME_TOLERANCE_S) // step_s * step_s
        expected = foreseen.rate.mean(start_s, start_s + step_s)
        if abs(announced - expected) <= _SAME_RATE * max(1.0, abs(expected)):
            return
        self._differing.add(name)
        self.warnings.append(
            f"grid.{name}: at {now:g} s, {announced:g} per kWh was announced, but the site file has"
            f" {expected:g}: announced values take precedence, here and later"
        )

    def measure_levels(self, soc_pct: float | None, hydrogen_kg: float | None) -> None:
        """Note measured levels of the storage; those of devices that the site does not have are ignored."""
        self.levels_told = True
        battery, hydrogen = self._site.storage.battery, self._site.storage.hydrogen
        if soc_pct is not None and battery.capacity_j > 0.0:
            self._measured_j = battery.energy_j(soc_pct)
        if hydrogen_kg is not None and hydrogen is not None:
            self._measured_kg = min(hydrogen_kg, hydrogen.tank_kg)

    # --- the step under way ---------------------------------------------------------------------------

    def count(self, now: float) -> None:
        """Count the production up to ``now`` (s)."""
        if now > self.since_s:
            self._produced_j += self.production_w * (now - self.since_s)
            for kind, power_w in self._parts_w.items():
                self._parts_j[kind] += power_w * (now - self.since_s)
            self.since_s = now

    def expected_j(self, end_s: float) -> float:
        """Energy produced in the step by ``end_s`` if the production stays constant, J."""
        return self._produced_j + self.production_w * (end_s - self.since_s)

    def renew_w(self, dt_s: float) -> float:
        """Return the mean production of the step, which has lasted ``dt_s``, W."""
        return self._produced_j / dt_s

    def parts_w(self, dt_s: float) -> dict[str, float | None]:
        """Return its mean parts by kind of source, W; None where one is unknown for part of the step."""
        return {kind: None if math.isnan(j) else j / dt_s for kind, j in self._parts_j.items()}

    def levels(self) -> tuple[float | None, float | None]:
        """Return the levels measured in the step, J and kg; None for one that was not."""
        return self._measured_j, self._measured_kg

    def predictions_w(
        self, start_s: float, end_s: float, record: StepRecord
    ) -> tuple[float | None, float | None]:
        """Return the production predicted for the step one hour before, and that of an ideal day, W.

        The forecast learns what was produced.
        """
        if self._forecast is None:
            return None, None
        self._forecast.observe(start_s, end_s, record.renew_w)
        latest_s = start_s + TIME_TOLERANCE_S
        while self._hour_ahead_w and self._hour_ahead_w[0][0] <= latest_s:
            ahead_s, predicted_w, clear_sky_w = self._hour_ahead_w.popleft()
            if ahead_s > latest_s - self._site.step_s:  # of this step, which may begin late
                return predicted_w, clear_sky_w
        return None, float(self._forecast.clear_sky_w(start_s, record.dt_s, 1)[0])

    def end_step(self) -> None:
        """Begin to count for the next step."""
        self._produced_j = 0.0
        self._parts_j = dict.fromkeys(self._parts_j, 0.0)
        self._measured_j = self._measured_kg = None

    def begin_own(self, now: float, end_s: float) -> None:
        """Set the power of the site's own sources for the step from ``now`` to ``end_s``."""
        if not self._own:
            return
        self.count(now)
        self._own_w = {}
        for kind, series in self._own:
            self._own_w[kind] = self._own_w.get(kind, 0.0) + series.mean_w(now, end_s)
        self._set_present()

    @property
    def has_own(self) -> bool:
        """Whether the site has sources whose power it states, which is not announced."""
        return bool(self._own)

    def replace_own(self, series: Series) -> None:
        """Let the site's own sources have the power of ``series``, from the next step on.

        It is the whole production: what was announced so far does not add to it.
        """
        self._own = [(self._own[0][0], series)]
        self._announced_w, self._announced_parts_w = 0.0, NO_PARTS

    def begin_step(self, start_s: float) -> None:
        """Let the rates that were announced early for the step at ``start_s`` take effect, and predict.

        The present prediction for the step that begins an hour later is kept, and the forecast receives the
        present production.
        """
        self.rates, self._next_rates = self._next_rates, Announced()
        if self._forecast is None:
            return
        self._forecast.announce(start_s, self.production_w)
        step_s = self._site.step_s
        steps = max(round(SECONDS_PER_HOUR / step_s), 1)
        ahead_s = start_s + steps * step_s
        predicted_w = float(self._forecast.renewable_w(start_s, step_s, steps + 1)[-1])
        clear_sky_w = float(self._forecast.clear_sky_w(ahead_s, step_s, 1)[0])
        self._hour_ahead_w.append((ahead_s, predicted_w, clear_sky_w))
