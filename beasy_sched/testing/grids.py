"""The grid of a random world, its prices and forecasts, and the additional fields of its jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Export, Foreseen, Grid, Known, Signal, Tariff, tariff_table
from beasy_sched.energy.grid_charging import ChargeRule, GridRules, RateBelow, RateKind, within_hours
from beasy_sched.energy.grid_peak import PeakPeriod, PeakPrice
from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.forecast.weather import IssuedTable

if TYPE_CHECKING:
    from beasy_sched.testing.worlds import SmallWorld, WorldJob

Members = tuple[tuple[str, Any], ...]
"""Additional fields of a job in a workload, by name."""

TARIFF_CHANGES_S = 300.0
"""Times at which the tariff's price changes, s: time 0 is five minutes to nine."""
CALENDAR = Calendar(datetime(2010, 7, 12, 8, 55, tzinfo=timezone(timedelta(hours=-4))))
PEAK, OFF_PEAK = 0.13, 0.08
PIECE_S = 90.0
"""Time for which a price holds, s: it changes within steps."""
FORECAST_S = 120.0


@dataclass(frozen=True)
class WorldGrid:
    """The grid of a world's site; prices and carbon intensities have one value for each `PIECE_S`."""

    import_limit_w: float = math.inf
    export: Export = Export.NONE
    export_limit_w: float = math.inf
    feed_in_per_kwh: float = 0.0
    tariff: bool = False
    prices: tuple[float, ...] = ()
    carbon: tuple[float, ...] = ()
    known: Known = Known.ALL
    charge: str = ""
    """Condition of the charge from the grid: ``price``, ``carbon`` or ``hours``; empty: none."""
    up_to_soc_pct: float = 90.0
    rests: bool = False
    """Whether the battery rests while the price is at most `OFF_PEAK`."""
    peak_w: float | None = None
    """Import that the battery defends."""
    peak_per_kw: float = 0.0

    @property
    def grid(self) -> Grid:
        """Return the grid of the world's site."""
        price = self._signal(self.prices)
        if self.tariff:
            rows = [(range(1, 13), (9, 23), PEAK), (range(1, 13), (23, 9), OFF_PEAK)]
            price = Foreseen(Tariff(tariff_table(rows), CALENDAR))
        return Grid(
            self.import_limit_w,
            self.export,
            self.export_limit_w,
            self.feed_in_per_kwh,
            price=price,
            carbon=(carbon := self._signal(self.carbon)),
            rules=self._rules(price, carbon),
            peak=PeakPrice(self.peak_per_kw, PeakPeriod.MONTH, CALENDAR) if self.peak_per_kw else None,
        )

    def _rules(self, price: Foreseen | None, carbon: Foreseen | None) -> GridRules | None:
        when: RateBelow | None = None
        if self.charge == "hours":
            when = within_hours(9, 10, CALENDAR)
        elif self.charge == "carbon" and carbon is not None:
            when = RateBelow(carbon, 250.0, RateKind.CARBON)
        elif self.charge == "price" and price is not None:
            when = RateBelow(price, 0.1)
        rest = RateBelow(price, math.nextafter(OFF_PEAK, math.inf)) if self.rests and price else None
        if when is None and rest is None and self.peak_w is None:
            return None
        return GridRules(None if when is None else ChargeRule(when, self.up_to_soc_pct), rest, self.peak_w)

    def _signal(self, values: tuple[float, ...]) -> Foreseen | None:
        if not values:
            return None
        times_s = PIECE_S * np.arange(len(values) + 1, dtype=np.float64)
        return Foreseen(Signal(times_s, np.array(values)), CALENDAR, self.known)

    def mean_price(self, start_s: float, end_s: float) -> float:
        """Return the mean price over a time, computed independently of `Rate.means`."""
        if self.tariff:
            off_peak_s = min(max(TARIFF_CHANGES_S - start_s, 0.0), end_s - start_s)
            return PEAK + (OFF_PEAK - PEAK) * off_peak_s / (end_s - start_s)
        return mean_of(self.prices, start_s, end_s) if self.prices else 0.0


def mean_of(values: tuple[float, ...], start_s: float, end_s: float) -> float:
    """Return the mean of pieces of `PIECE_S` over a time; the last step may end just after the last piece."""
    total = 0.0
    ends_s = [*(PIECE_S * np.arange(1, len(values))), math.inf]
    for piece, (value, piece_end_s) in enumerate(zip(values, ends_s, strict=True)):
        first, last = max(start_s, piece * PIECE_S), min(end_s, piece_end_s)
        total += value * max(last - first, 0.0)
    return total / (end_s - start_s)


def forecast_of(world: SmallWorld) -> FileForecast | None:
    """Return the world's forecast, issued at its start and again in the middle."""
    values = np.array(world.predicted_w)
    if not len(values):
        return None
    valid_s = FORECAST_S * np.arange(len(values))
    again = valid_s >= valid_s[len(values) // 2]
    table = IssuedTable(
        issued_s=np.concatenate((np.zeros(len(values)), np.full(again.sum(), valid_s[again][0]))),
        valid_s=np.concatenate((valid_s, valid_s[again])),
        values=np.concatenate((values, 0.7 * values[again])),
        interval_s=FORECAST_S,
    )
    return FileForecast(table, CALENDAR.start)


# --- drawn at random --------------------------------------------------------------------------------------


def small_grid(rng: np.random.Generator, hosts: int, steps: int, step_s: float) -> WorldGrid:
    """Return a grid that is unlimited, or cannot supply all servers; some prices are negative."""
    pieces = math.ceil(steps * step_s / PIECE_S)
    prices = carbon = ()
    if rng.random() < 0.6:
        prices = tuple(rng.choice([-0.05, 0.0, 0.08, 0.1, 0.2, 0.3], pieces).tolist())
    if rng.random() < 0.4:
        carbon = tuple(rng.integers(20, 600, pieces).astype(float).tolist())
    tariff = not prices and rng.random() < 0.6
    export = Export(rng.choice([export.value for export in Export]))
    if export is Export.NET and not (prices or tariff):
        export = Export.FEED_IN
    return WorldGrid(
        import_limit_w=float(rng.choice([math.inf, math.inf, math.inf, 90.0 * hosts, 25.0 * hosts, 0.0])),
        export=export,
        export_limit_w=float(rng.choice([math.inf, 100.0])),
        feed_in_per_kwh=float(rng.choice([0.0, 0.06])),
        tariff=tariff,
        prices=prices,
        carbon=carbon,
        known=Known(rng.choice([known.value for known in Known])),
    )


def with_rules(rng: np.random.Generator, grid: WorldGrid, hosts: int) -> WorldGrid:
    """Return the grid with rules for the battery, and a price of the peak."""
    shaves = bool(rng.random() < 0.3)
    return replace(
        grid,
        charge=str(rng.choice(["price", "carbon", "hours", "hours", ""])),
        up_to_soc_pct=float(rng.choice([40.0, 80.0, 90.0])),
        rests=not shaves and bool(rng.random() < 0.5),
        peak_w=float(rng.choice([20.0, 45.0])) * hosts if shaves else None,
        peak_per_kw=float(rng.choice([0.0, 12.0])),
    )


def with_terms(rng: np.random.Generator, jobs: tuple[WorldJob, ...]) -> list[Members]:
    """Return additional fields for each job: deadlines, workflows, predecessors, and some invalid ones."""
    kinds = rng.choice(["alone", "phases", "after"], p=[0.3, 0.4, 0.3])
    workflows = {
        number: (
            float(rng.integers(0, 300)) if rng.random() < 0.7 else None,
            float(rng.choice([180.0, 400.0, 700.0, 4000.0])),
        )
        for number in range(3)
    }
    members = []
    for place, job in enumerate(jobs):
        own: dict[str, Any] = {}
        kind = kinds if rng.random() < 0.7 else "alone"
        if kind == "phases":
            number = int(rng.integers(3))
            own |= {"workflow": f"f{number}", "phase": int(rng.integers(3))}
            if workflows[number][0] is not None:
                own["deadline_s"] = sum(workflows[number])
        elif kind == "after" and place:
            chosen = rng.choice(place, min(place, int(rng.integers(1, 3))), replace=False)
            own["after"] = tuple(str(each) for each in chosen.tolist())
            own |= {"workflow": "chain"} if rng.random() < 0.5 else {}
        if "deadline_s" not in own and rng.random() < 0.5:
            length_s = job.walltime or job.run
            own["deadline_s"] = job.subtime + float(np.ceil(length_s * rng.choice([1.0, 1.5, 3.0, 8.0])))
        if "deadline_s" in own:
            own["deadline_s"] = max(own["deadline_s"], job.subtime)
        if kind != "alone" and rng.random() < 0.25:
            own["think_time_s"] = float(rng.choice([1.0, 60.0, 130.0]))
        if job.walltime is None and rng.random() < 0.6:
            own["estimate_s"] = float(np.ceil(job.run * rng.choice([0.5, 1.0, 2.0])))
        if rng.random() < 0.15:
            own["power_w"] = float(rng.choice([60.0, 90.0]))
        members.append(own)
    if len(jobs) > 3 and rng.random() < 0.3:
        _spoil(rng, members)
    return [tuple(own.items()) for own in members]


def at_one_instant(rng: np.random.Generator, jobs: list[WorldJob], end_s: float) -> list[WorldJob]:
    """Let all jobs of a workflow arrive at one time, as is usual; their deadlines are not earlier.

    The times have decimals, since only then does Batsim split one time over several messages.
    """
    when_s = {f"f{number}": round(float(rng.uniform(0.0, 0.7 * end_s)), 3) for number in range(3)}
    moved = []
    for job in jobs:
        own = dict(job.members)
        subtime_s = when_s.get(own.get("workflow", ""), job.subtime)
        if "deadline_s" in own:
            own["deadline_s"] = max(own["deadline_s"], subtime_s)
        moved.append(replace(job, subtime=subtime_s, members=tuple(own.items())))
    return moved


def _spoil(rng: np.random.Generator, members: list[dict[str, Any]]) -> None:
    """Return a job with an invalid field, one with a predecessor that is never submitted, or a cycle."""
    what = rng.integers(3)
    if what == 0:
        members[-1]["phase"] = -1
    elif what == 1:
        members[-1]["after"] = ("never",)
    else:
        last = len(members) - 1
        members[last]["after"], members[last - 1]["after"] = (str(last - 1),), (str(last),)
