"""The cases of GreenSlot's evaluation (Section 5 of Goiri et al., SC 2011), and of the studies beyond it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from studies.greenslot.inputs import FORECASTS, PANELS, PREDICTED, STEP_S, SunWeek
from studies.greenslot.traces import LONG_WEEK, TraceWeek

POLICIES: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "conventional": ("Conventional", "conventional", {}),
    "greenonly": ("GreenOnly", "greenslot", {"prices": "flat"}),
    "greenvarprices": ("GreenVarPrices", "greenslot", {}),
    "greencarbon": ("GreenSlot, carbon", "greenslot", {"objective": "carbon"}),
    "lowest-window": ("lowest window", "lowest-window", {}),
}
"""Policies of the study: the paper's name, ours, and options."""
_BLIND: Final = ("slot_s", "sleep", "internal_deadlines")
"""Options of `greenslot` that `conventional` also has."""


class Load(Struct, frozen=True):
    """The jobs: fields of `WorkflowOptions`, and whether they wait for one another."""

    staggered: bool = False
    multi_node: bool = False
    copies: int = 0
    estimate_error_pct: tuple[float, float] = (0.0, 0.0)
    deadline_shift_h: float = 0.0
    seed: int = 1
    independent: bool = False
    """Whether jobs keep their internal deadlines, but do not wait for other jobs: the paper's program did so
    in its study of utilization."""
    only: str = ""
    """Name of the only workload of the three used (``W1``: 19 % of the site's time); empty for all."""
    trace: str = ""
    """Name of a `TraceWeek`, whose jobs replace the paper's."""
    deadlines: str = ""
    """Rule by which the jobs of the trace are due, such as ``factor:3``."""


class Case(Struct, frozen=True):
    """A run: who schedules what, under which sun."""

    policy: str
    """Policy: one of `POLICIES`."""
    forecast: str = "paper"
    """Forecast: one of `FORECASTS`."""
    load: Load = Load()
    week: str = "average"
    panels: int = PANELS
    prices: str = "pseg"
    """Prices: one of `TARIFFS`."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further options of the policy."""

    @property
    def name(self) -> str:
        """Differences of the case from the paper's main case, for readers."""
        told = [POLICIES[self.policy][0]]
        told += [] if self.week == "average" else [f"week {self.week}"]
        told += _differences(self.load)
        told += [] if self.panels == PANELS else [f"{self.panels} panels"]
        told += [] if self.prices == "pseg" else [f"prices {self.prices}"]
        told += [] if self.forecast == "paper" or self.policy == "conventional" else [self.forecast]
        return ", ".join([*told, *(f"{key} {value}" for key, value in self.options)])

    @property
    def key(self) -> str:
        """Name of the case, for files."""
        return f"{self.policy}-{short_hash(self)}"

    @property
    def step_s(self) -> float:
        """The site's step: a slot of the paper's, or a part of one where slots are of another length, s."""
        slot_s = dict(self.options).get("slot_s", STEP_S)
        return STEP_S if slot_s % STEP_S == 0 else 300.0

    def by(self, policy: str) -> Case:
        """Return the case under another policy of the paper's."""
        return replace(self, policy=policy)

    @property
    def reference(self) -> Case:
        """Case that this one is compared with: Conventional, which uses neither forecasts nor prices."""
        options = tuple(option for option in self.options if option[0] in _BLIND)
        return replace(self, policy="conventional", forecast="none", options=options)


def _differences(load: Load) -> Iterator[str]:
    for name, value in msgspec.structs.asdict(load).items():
        if value != getattr(Load(), name):
            told = name.replace("multi_", "multi-").replace("_", " ")
            yield told if value is True else f"{told} {value}"


def short_hash(value: Any) -> str:
    """Return twelve hexadecimal digits for any value that JSON can hold."""
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:12]


# --- what is run ---

CONVENTIONAL: Final = Case("conventional", forecast="none")
GREEN_ONLY: Final = Case("greenonly")
VAR_PRICES: Final = Case("greenvarprices")
STAGGERED: Final = Load(staggered=True)
MULTI_NODE: Final = Load(multi_node=True)
COPIES: Final = (4, 5, 8, 9)
"""Further copies of W3, for utilizations of 67, 72, 87 and 92 %."""
ERRORS_PCT: Final = ((-20.0, 20.0), (0.0, 20.0), (-20.0, 0.0), (-40.0, 0.0))
ERROR_SEEDS: Final = (1, 2, 3, 4, 5)
MAIN: Final = ("conventional", "greenonly", "greenvarprices")


def quick_cases() -> list[Case]:
    """The main figures alone."""
    perfect = [replace(case, forecast="perfect") for case in (GREEN_ONLY, VAR_PRICES)]
    mean_day = [replace(case, forecast="mean-day") for case in (GREEN_ONLY, VAR_PRICES)]
    return [CONVENTIONAL, GREEN_ONLY, VAR_PRICES, *perfect, *mean_day]


def loaded(load: Load, case: Case = VAR_PRICES) -> Case:
    """A case with other jobs."""
    return replace(case, load=load)


def paper_cases() -> list[Case]:
    """All that the claims about the week "Average" need, and what explains them."""
    cases = quick_cases()
    cases += _with_reference(replace(VAR_PRICES, panels=0))
    for load in (STAGGERED, MULTI_NODE):
        cases += _with_reference(loaded(load))
    for copies in COPIES:
        case = loaded(Load(copies=copies))
        cases += [*_with_reference(case), replace(case, options=(("tie", "earliest"),))]
        cases += _with_reference(loaded(Load(copies=copies, independent=True)))
    for error in ERRORS_PCT:
        for seed in ERROR_SEEDS:
            cases += _with_reference(loaded(Load(estimate_error_pct=error, seed=seed)))
    return [*dict.fromkeys(cases)]


def stand_in_cases(weeks: Iterable[str]) -> list[Case]:
    """The paper's three policies in other weeks (by name), whose sun is known."""
    return [
        case
        for week in weeks
        for policy in MAIN
        for case in [Case(policy, forecast="none" if policy == "conventional" else "perfect", week=week)]
    ]


def _with_reference(case: Case) -> list[Case]:
    return [case.reference, case]


# --- studies beyond the paper ---


@dataclass(frozen=True)
class Row:
    """A line of a study's table."""

    setting: str
    case: Case


def _optional(name: str, values: Sequence[Any], label: str = "{}") -> Iterator[Row]:
    for value in values:
        for policy in MAIN[1:]:
            case = Case(policy, options=((name, value),))
            yield Row(label.format(value), case)


def _utilizations() -> Iterator[Row]:
    for name in ("W1", "W2"):
        yield from (Row(f"{name} alone", Case(policy, load=Load(only=name))) for policy in MAIN[1:])
    for copies in (0, 2, 4, 5, 6, 8, 9):
        for independent in (False, True):
            load = Load(copies=copies, independent=independent)
            for changes in ({}, {"tie": "earliest"}, {"tighten": "none"}, {"tighten": "job"}):
                options = [f"{key} {value}" for key, value in changes.items()]
                told = [f"{copies} copies", *(["no precedence"] if independent else []), *options]
                case = loaded(load, replace(VAR_PRICES, options=tuple(changes.items())))
                yield Row(", ".join(told), case)


def _loads(loads: Mapping[str, Load]) -> Iterator[Row]:
    for label, load in loads.items():
        yield from (Row(label, Case(policy, load=load)) for policy in MAIN[1:])


STUDIES: Final[Mapping[str, tuple[str, tuple[Row, ...]]]] = {
    "deadlines": (
        "deadlines, hours earlier or later; later ones also put work off beyond the week's end",
        tuple(_loads({f"{h:+g} h": Load(deadline_shift_h=h) for h in (-12.0, -6.0, 0.0, 6.0, 12.0, 24.0)})),
    ),
    "utilization": (
        "fewer jobs, or further copies of W3; ties, precedence, tightening",
        tuple(_utilizations()),
    ),
    "panels": (
        "number of panels",
        tuple(Row(str(n), Case(p, panels=n)) for n in (0, 5, 10, 15, 20, 30) for p in MAIN[1:]),
    ),
    "prices": (
        "prices of brown energy",
        tuple(Row(t, Case(p, prices=t)) for t in ("pseg", "flat", "steep") for p in MAIN[1:]),
    ),
    "estimates": (
        "run times' deviations from their estimates, seed 1",
        tuple(_loads({f"{a:g} to {b:g} %": Load(estimate_error_pct=(a, b)) for a, b in ERRORS_PCT})),
    ),
    "prediction": (
        "what is known of the sun",
        tuple(Row(f, Case(p, forecast=f)) for f in FORECASTS for p in MAIN[1:]),
    ),
    "window": ("window, hours", tuple(_optional("window_h", (12.0, 24.0, 48.0, 72.0, 96.0), "{:g}"))),
    "slot": ("slot, s", tuple(_optional("slot_s", (300.0, 900.0, 1800.0, 3600.0), "{:g}"))),
    "sleep": ("when idle servers sleep", tuple(_optional("sleep", ("slot", "at-once", "never")))),
    "carbon": (
        "by price or by a made-up carbon intensity",
        tuple(Row(POLICIES[p][0], Case(p)) for p in ("greenvarprices", "greencarbon", "lowest-window")),
    ),
}
"""Studies: what varies, and the runs."""


# --- with files of the user's ---

_BY_PRICE: Final = (*MAIN, "lowest-window")
_KNOWN: Final = ("perfect", PREDICTED, "persistence", "none")


def prediction_rows(weeks: Iterable[SunWeek]) -> list[Row]:
    """Weeks out of a file by what is known of their sun."""
    return [
        Row(f"{week.name}, {known}", Case("greenvarprices", known, week=week.name))
        for week in weeks
        for known in _KNOWN
    ]


_BY_CARBON: Final = ("conventional", "greenvarprices", "greencarbon", "lowest-window")


def price_rows(weeks: Iterable[SunWeek]) -> list[Row]:
    """The week "Average" with prices from files."""
    return [*_rows((week for week in weeks if week.price is not None), _BY_PRICE)]


def carbon_rows(weeks: Iterable[SunWeek]) -> list[Row]:
    """The week "Average" with a carbon intensity from files, and the paper's prices."""
    return [*_rows((week for week in weeks if week.carbon is not None), _BY_CARBON)]


def _rows(weeks: Iterable[SunWeek], policies: Sequence[str]) -> Iterator[Row]:
    for week in weeks:
        yield from (Row(week.name, _compared(Case(policy, week=week.name))) for policy in policies)


def trace_rows(traces: Iterable[TraceWeek], rules: Iterable[str]) -> list[Row]:
    """Weeks of traces, their jobs due by each rule of `parse_deadlines`."""
    rules = list(rules)
    return [
        Row(f"{trace.name}, {rule}", _compared(Case(p, "paper", load, LONG_WEEK.name, trace.panels)))
        for trace in traces
        for rule in rules
        for load in [Load(trace=trace.name, deadlines=rule)]
        for p in MAIN
    ]


def _compared(case: Case) -> Case:
    """A case for a table that also shows Conventional."""
    return case.reference if case.policy == "conventional" else case
