"""The plans of consecutive windows as one: checks that they fit together, and finds the step at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plan.plan import Plan
from beasy_sched.units import TIME_TOLERANCE_S


class Place(NamedTuple):
    """A step of a window."""

    window: int
    step: int


class PlanStore:
    """Plans by window, each checked; each starts at the time and levels at which the previous one ends."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        """Raises ConfigError for no plan, an invalid plan, or windows that do not follow each other."""
        if not plans:
            raise ConfigError("the plan has no windows")
        self._plans: list[Plan] = []
        for plan in plans:
            self.add(plan)

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._plans)

    def __getitem__(self, window: int) -> Plan:
        return self._plans[window]

    @property
    def start_s(self) -> float:
        """When the first window starts."""
        return self._plans[0].start_s

    @property
    def end_s(self) -> float:
        """When the last known window ends: nothing is planned from then on."""
        return self._plans[-1].end_s

    def add(self, plan: Plan) -> None:
        """Add the plan of the next window. Raises ConfigError, and keeps the store as it was."""
        window = len(self._plans)
        try:
            plan.check()
            if self._plans:
                _check_follows(self._plans[-1], plan)
        except ConfigError as error:
            raise ConfigError(f"window {window}: {error}") from None
        self._plans.append(plan)

    def place(self, time_s: float) -> Place | None:
        """The window and step at a time; None outside all windows."""
        window = bisect_right([plan.start_s - TIME_TOLERANCE_S for plan in self._plans], time_s) - 1
        if window < 0:
            return None
        plan = self._plans[window]
        step = int((time_s - plan.start_s + TIME_TOLERANCE_S) / plan.step_s)
        return Place(window, step) if step < plan.steps else None

    def check_fits(self, platform: Platform, site: Site) -> None:
        """Raise ConfigError, naming the first difference, if the plans are for another platform or site.

        The first window must also start at the site's levels.
        """
        for window, plan in enumerate(self._plans):
            try:
                plan.check_platform(platform)
                plan.check_site(site)
            except ConfigError as error:
                raise ConfigError(f"window {window}: {error}") from None
        _check_levels(self._plans[0], site.storage.start(), "the plan starts", "the site")


def _check_follows(before: Plan, after: Plan) -> None:
    """Raise ConfigError unless ``after`` starts where ``before`` ends."""
    gap_s = after.start_s - before.end_s
    if abs(gap_s) > TIME_TOLERANCE_S:
        kind = "a gap" if gap_s > 0 else "an overlap"
        raise ConfigError(
            f"starts at {after.start_s:g} s, the window before ends at {before.end_s:g} s: "
            f"{kind} of {abs(gap_s):g} s"
        )
    if after.step_s != before.step_s:
        raise ConfigError(f"has steps of {after.step_s:g} s, the window before of {before.step_s:g} s")
    after.check_site(Site(before.storage, before.step_s))
    if (before.servers is None) != (after.servers is None):
        raise ConfigError("either both this window and the one before it must plan servers, or neither")
    if before.servers is not None and after.servers is not None:
        same = np.array_equal(before.servers.kind_of, after.servers.kind_of)
        if before.servers.kinds != after.servers.kinds or not same:
            raise ConfigError("has other servers than the window before")
    _check_levels(after, before.level_at(-1), "starts", "the window before ends")


def _check_levels(plan: Plan, wanted: StorageState, starts: str, other: str) -> None:
    """Raise ConfigError unless ``plan`` starts at the ``wanted`` levels, which ``other`` names."""
    level, battery = plan.level_at(0), plan.storage.battery
    if abs(level.battery_j - wanted.battery_j) > 1e-6 * battery.capacity_j:
        raise ConfigError(
            f"{starts} with the battery at {battery.soc_pct(level.battery_j):.6g} %, "
            f"{other} at {battery.soc_pct(wanted.battery_j):.6g} %"
        )
    if abs(level.hydrogen_kg - wanted.hydrogen_kg) > 1e-6 * max(1.0, wanted.hydrogen_kg):
        raise ConfigError(
            f"{starts} with {level.hydrogen_kg:.6g} kg of hydrogen, {other} with {wanted.hydrogen_kg:.6g} kg"
        )
