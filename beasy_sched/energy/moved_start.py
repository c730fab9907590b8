"""A site whose time 0 is another moment: its clock, prices, services and temperatures, at the same dates."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Foreseen, Grid, Rate, Tariff
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import Course


class _Moved(Rate):
    """`Rate` that is another one, some seconds later."""

    def __init__(self, rate: Rate, shift_s: float) -> None:
        self._rate, self._shift_s = rate, shift_s

    def means(self, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s``."""
        return self._rate.means(edges_s + self._shift_s)

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the mean from ``start_s`` to ``end_s``."""
        return self._rate.mean(start_s + self._shift_s, end_s + self._shift_s)

    @property
    def span_s(self) -> tuple[float, float]:
        """The time for which the quantity is given, s."""
        first_s, last_s = self._rate.span_s
        return first_s - self._shift_s, last_s - self._shift_s


def starting_at(site: Site, start: datetime) -> Site:
    """Return the site with time 0 at ``start``, which has an offset from UTC.

    Quantities with dates keep them; those that count simulated seconds count from the new time 0.
    """
    before = site.calendar
    if before is None:
        return replace(site, calendar=Calendar(start))
    calendar = Calendar(start.astimezone(before.zone or before.start.tzinfo), before.zone)
    shift_s = before.seconds(start)
    cooling, services = site.cooling, site.services
    if cooling is not None and cooling.temperature is not None:
        cooling = replace(cooling, temperature=_moved_course(cooling.temperature, shift_s))
    return replace(
        site,
        calendar=calendar,
        grid=None if site.grid is None else _moved_grid(site.grid, calendar, shift_s),
        cooling=cooling,
        services=None if services is None else _moved_course(services, shift_s),
    )


def _moved_course(course: Course, shift_s: float) -> Course:
    return Course(_Moved(course.rate, shift_s), course.known) if course.dated else course


def _moved_grid(grid: Grid, calendar: Calendar, shift_s: float) -> Grid:
    """Return the grid whose rates, rules and peaks follow ``calendar``; a rule keeps the grid's own rate."""
    known: dict[int, Foreseen] = {}

    def moved(rate: Foreseen) -> Foreseen:
        if id(rate) not in known:
            inner = rate.rate
            later = Tariff(inner.per_kwh, calendar) if isinstance(inner, Tariff) else _Moved(inner, shift_s)
            known[id(rate)] = Foreseen(later, None if rate.calendar is None else calendar, rate.known)
        return known[id(rate)]

    rules, peak = grid.rules, grid.peak
    if rules is not None:
        charge, rest = rules.charge, rules.rest
        if charge is not None:
            charge = replace(charge, when=replace(charge.when, rate=moved(charge.when.rate)))
        rules = replace(
            rules, charge=charge, rest=None if rest is None else replace(rest, rate=moved(rest.rate))
        )
    return replace(
        grid,
        price=None if grid.price is None else moved(grid.price),
        carbon=None if grid.carbon is None else moved(grid.carbon),
        rules=rules,
        peak=peak if peak is None or peak.calendar is None else replace(peak, calendar=calendar),
    )
