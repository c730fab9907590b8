"""A storage device: the interface through which the balance, plans, files and reports use it.

A device is one file: its limits, its step, its part of a plan's problem, its columns of the energy trace, its
section of a site file and its words. Levels are in the device's own unit (joules, kilograms), powers in watts
at the terminals: *in* is power taken from the site, *out* power delivered to it, both never negative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.units import j_to_kwh, power_text

RUNNING: Final = 1e-6
"""Share of the largest power up to which a planned device is off."""
Row = Mapping[str, float]
"""A row of the energy trace, by column; empty fields are missing."""
Labelled = tuple[str, str]
"""A label, and its text."""


class DeviceBounds(NamedTuple):
    """Physical limits of a device, which its step, the check of a plan and a plan's problem use."""

    least: float
    """Least level."""
    most: float
    in_w: float
    """Largest power in, W."""
    out_w: float
    least_in_w: float = 0.0
    """Least power in of a running device, W: it is off, or between this and ``in_w``."""


class Flows(NamedTuple):
    """Planned powers of a device (W, T values), and its levels (T + 1, from start to end)."""

    in_w: FloatArray
    out_w: FloatArray
    level: FloatArray


class Linear(NamedTuple):
    """A device in the linear problem of a plan, in the problem's units.

    Powers are in units of the problem's power, levels in ``unit``: level after a step of h hours
    = ``kept`` * level + h * (``stored`` * in - ``drawn`` * out).
    """

    unit: float
    """Unit of the level, in the device's own unit."""
    kept: float
    """Share of the level that a step leaves."""
    stored: float
    drawn: float
    in_most: float
    """Largest power in that the limits allow."""
    out_most: float
    in_least: float = 0.0
    """Least power in of a running device."""
    excludes: bool = False
    """Whether power in excludes power out."""
    rank: float = 1.0
    """Order of use: of two devices that serve equally well, the plan uses the one of the lower rank."""


class Excess(NamedTuple):
    """A constraint, and by how much each step exceeds it: negative where it is met."""

    constraint: str
    amount: FloatArray
    scale: float
    """Size of the quantity, to which the tolerance is relative."""


class Columns(NamedTuple):
    """Columns of a device in the energy trace; those of its plan begin with ``planned_``."""

    into: str
    out: str
    level: str
    correction: str = ""
    """Column of the measured minus the computed level; empty if the device is not measured."""


class Fields(NamedTuple):
    """Fields of a device that records of runs and plans name, such as ``charge_w``.

    Others are in the records' ``others``, by section.
    """

    level: str
    """Level in a `StorageState` and a plan; powers are called as in `Columns`."""
    shown: str
    """Level at the end of a step as the trace shows it, in a `StepRecord`."""
    shown_plan: str
    """The same in a plan."""
    correction: str
    """Correction in a row of the trace."""
    planned: bool
    """Whether its powers are set by the plan, and recorded with each step."""


class SiteSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a site file: for people, in kWh, kW and percent. Unknown names are rejected."""

    conversions: ClassVar[Mapping[str, tuple[str, Callable[[float], float]]]] = {}
    """Fields in units for people: the field in SI units, and the conversion. Others are the same in both."""


class DeviceSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Section of a device: the fields of its class, by their names in the file."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not the device's own."""

    def check(self) -> None:
        """Raise `FieldError`, with the file's name of the field, for a size that suggests a wrong unit."""

    def values(self) -> dict[str, Any]:
        """Return the fields of the device, in SI units."""
        values = {}
        for field, value in msgspec.structs.asdict(self).items():
            if field not in self.apart:
                name, convert = self.conversions.get(field, (field, None))
                values[name] = value if convert is None else convert(value)
        return values


class Planned(Protocol):
    """The part of a plan that a device reads."""

    @property
    def power(self) -> Any:
        """Powers and levels of the window."""


class Device(ABC):
    """A storage device of a site. Its fields, of a frozen dataclass, are those of a plan file.

    A subclass that sets ``section`` is a separate kind: of the parent's class attributes, it inherits the
    physics and the words, but neither columns nor places in records. Class attributes of a
    dataclass are without annotations: annotated ones change the encoding of plan files.
    """

    section: ClassVar[str]
    """Name of the kind: that of its section in a site file, and in records, plans and summaries."""
    title: ClassVar[str]
    """Name in sentences, such as ``battery``."""
    file: ClassVar[type[DeviceSection]]
    """Keys of the section, with their meanings."""
    level_name: ClassVar[str] = "kwh"
    """Name of the level with its unit, as in a column."""
    level_words: ClassVar[str] = "energy stored"
    varies: ClassVar[frozenset[str]] = frozenset()
    """Fields that may differ between plans of one site: those that change from window to window, or affect
    runs alone."""
    verbs: ClassVar[tuple[str, str]] = ("charged", "discharged")
    """Past participles of taking and delivering power."""
    columns: ClassVar[Columns]
    fields: ClassVar[Fields | None] = None

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if name := cls.__dict__.get("section"):
            own = Columns(f"{name}_in_w", f"{name}_out_w", f"{name}_{cls.level_name}")
            cls.columns = cls.__dict__.get("columns", own)
            cls.fields = cls.__dict__.get("fields")

    # --- limits and step ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bounds(self) -> DeviceBounds:
        """The physical limits."""

    @property
    @abstractmethod
    def start(self) -> float:
        """Level at the start of the first window."""

    @property
    @abstractmethod
    def target(self) -> float:
        """Level at which a window should end."""

    @property
    def least_end(self) -> float:
        """Least level that a plan may leave at the end of a window: the target, or a band's lower edge."""
        return self.target

    @abstractmethod
    def takes_w(self, level: float, offered_w: float, dt_s: float) -> float:
        """Return the power (W) of ``offered_w`` that the device can take over a whole step."""

    @abstractmethod
    def gives_w(self, level: float, wanted_w: float, dt_s: float) -> float:
        """Return the power (W) of ``wanted_w`` that the device can deliver over a whole step."""

    @abstractmethod
    def after(self, level: float, in_w: float, out_w: float, dt_s: float) -> float:
        """Return the level after a step at constant powers (W). Limits are not applied here.

        Plain arithmetic: levels and powers may be numpy arrays.
        """

    @abstractmethod
    def with_target(self, level: float) -> Device:
        """Return the device with a target that is reachable from ``level`` without taking power."""

    # --- plans ----------------------------------------------------------------------------------------

    @abstractmethod
    def linear(self, power_w: float, step_s: float) -> Linear:
        """Describe the device in a plan's problem whose unit of power is ``power_w``."""

    def level_scale(self, power_w: float, step_s: float) -> float:
        """Return the size to which tolerances of levels are relative: the device's, and a step's change."""
        return self.bounds.most + abs(self.after(0.0, power_w, 0.0, step_s))

    def exact(self, start: float, in_w: FloatArray, out_w: FloatArray, step_s: float) -> Flows:
        """Return powers within the limits, and the levels that follow from them."""
        levels, taken_w = [start], []
        for into_w, given_w in zip(in_w.tolist(), out_w.tolist(), strict=True):
            taken_w.append(self.takes_w(levels[-1], into_w, step_s))
            levels.append(self.after(levels[-1], taken_w[-1], given_w, step_s))
        return Flows(np.array(taken_w), out_w, np.array(levels))

    def violations(self, flows: Flows, step_s: float, power_w: float) -> Iterator[Excess]:
        """Yield the device's constraints with their excess, for planned powers of up to ``power_w``."""
        name, bounds, level = self.section, self.bounds, flows.level
        size = self.level_scale(power_w, step_s)
        yield Excess(f"{name}: power in <= its limit", flows.in_w - bounds.in_w, power_w)
        yield Excess(f"{name}: power out <= its limit", flows.out_w - bounds.out_w, power_w)
        below_w = np.where(flows.in_w > RUNNING * power_w, bounds.least_in_w - flows.in_w, 0.0)
        yield Excess(f"{name}: power in = 0 or >= its least", below_w, power_w)
        if self.linear(1.0, step_s).excludes:
            both_w = np.minimum(flows.in_w, flows.out_w)
            yield Excess(f"{name}: power in excludes power out", both_w, power_w)
        expected = self.after(level[:-1], flows.in_w, flows.out_w, step_s)  # type: ignore[arg-type]
        yield Excess(f"{name}: development", np.abs(level[1:] - expected), size)
        yield Excess(f"{name}: level >= its least", bounds.least - level, size)
        yield Excess(f"{name}: level <= its most", level - bounds.most, size)

    # --- words ----------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, level: Any) -> Any:
        """Return a level as people read it, in the unit of `level_name`; levels may be numpy arrays."""

    @classmethod
    def level_unit(cls) -> str:
        """Return the unit in which people read a level, from `level_name`."""
        unit = cls.level_name.rpartition("_")[2]
        return {"pct": "%", "kwh": "kWh"}.get(unit, unit)

    @classmethod
    @abstractmethod
    def level_text(cls, shown: float) -> str:
        """Format a level as people read it."""

    def figures(self, level: float, lowest: float) -> dict[str, Any]:
        """Return the device's figures of a run's summary: size and levels, by name with unit.

        ``level`` and ``lowest`` are the final and the lowest level.
        """
        shown = {"size": self.bounds.most, "start": self.start, "final": level, "target": self.target}
        shown["lowest"] = lowest
        return {f"{name}_{self.level_name}": self.shown(value) for name, value in shown.items()}

    @classmethod
    def summary_rows(cls, figures: Mapping[str, Any]) -> Iterator[Labelled]:
        """Yield the rows of the summary's table for `figures`."""
        start, lowest, final, target = (
            figures[f"{name}_{cls.level_name}"] for name in ("start", "lowest", "final", "target")
        )
        texts = ", ".join(cls.level_text(level) for level in (start, lowest, final))
        yield f"{cls.title}: start, lowest, final", f"{texts} (target {cls.level_text(target)})"

    @classmethod
    def size_words(cls, figures: Mapping[str, Any]) -> str:
        """Describe the device in a list of a site's parts, such as "hydrogen"."""
        return f"a {cls.title} ({cls.level_text(figures[f'size_{cls.level_name}'])})"

    @classmethod
    def step_words(cls, row: Row, before: Row | None) -> str:
        """Describe the device in a step of the trace; empty if it has no part in it.

        ``before`` is the previous row.
        """
        columns = cls.columns
        if columns.level not in row:
            return ""
        did, plan = f"neither {cls.verbs[0]} nor {cls.verbs[1]}", ""
        for name, verb in zip((columns.into, columns.out), cls.verbs, strict=True):
            if row[name]:
                did = f"{verb} with {power_text(row[name])}"
            if row.get(f"planned_{name}"):
                plan = f" (planned: {verb} with {power_text(row[f'planned_{name}'])})"
        was = "" if before is None else f"from {cls.level_text(before[columns.level])} "
        level = f"planned_{columns.level}"
        planned = f", {cls.level_text(row[level])} planned" if level in row else ""
        text = f"{did}{plan}; {cls.level_words} {was}to {cls.level_text(row[columns.level])}{planned}"
        return f"{cls.title[0].upper()}{cls.title[1:]}: {text}"


def kwh_text(energy_kwh: float) -> str:
    """Format an energy in kWh."""
    return f"{energy_kwh:,.4g} kWh"


def kwh_of(energy_j: Any) -> Any:
    """Return an energy (J) in kWh; it may be a numpy array."""
    return j_to_kwh(energy_j)
