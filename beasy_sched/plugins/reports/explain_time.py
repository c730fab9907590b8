"""Explanation of a time: the energy of its step, and the decisions in it with their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from beasy_sched.energy.devices.kinds import all_kinds
from beasy_sched.energy.sources import source_kinds
from beasy_sched.engine.session_words import FORECAST_IN_USE, PLAN_MADE
from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_summary import GridTerms
from beasy_sched.outputs.quantities import clock, count, span
from beasy_sched.plugins.reports.story import (
    Chapter,
    Entry,
    Story,
    Teller,
    because,
    entries_of,
    named_hosts,
    teller_of,
    told,
)
from beasy_sched.run.results import LogLine, read_log, read_trace
from beasy_sched.units import TIME_TOLERANCE_S, energy_text, percent_text, power_text

_SOC_ROUNDING = 0.01
"""State of charge above SoC_min up to which a battery is empty, percentage points."""
_POWER_ROUNDING_W = 0.01
"""Difference of powers that is rounding of the energy trace, W."""
NO_SITE_STEP_S = 300.0
"""Length of the intervals that replace steps in runs without a site, s."""

Row = Mapping[str, float]


@dataclass(frozen=True)
class _Step:
    """Step with its decisions; without a site, five minutes."""

    start_s: float
    end_s: float
    row: Row | None = None
    """Row of the step in the energy trace; None without a site."""
    before: Row | None = None
    """Row of the previous step in the energy trace; None without one."""
    plans: Sequence[LogLine] = ()
    """Lines of the plan in effect and of its planned successors."""
    lines: Sequence[LogLine] = ()
    forecasts: Sequence[LogLine] = ()
    """Lines of the forecasts in use that are renewed during the run, and of later events."""

    @property
    def title(self) -> str:
        number = "" if self.row is None else f"Step {self.row['step']:.0f}, "
        return f"{number}{clock(self.start_s)} to {clock(self.end_s)}"


def explain_time(prefix: str, time_s: float) -> Story:
    """Explain the step that contains a time of the run (s).

    Without a site, explain the five minutes that contain it. Raises ConfigError if the run has no such
    time, and InputError for files that cannot be read.
    """
    step, teller = _step_at(prefix, time_s), teller_of(prefix)
    data = {
        "start_s": step.start_s,
        "end_s": step.end_s,
        "energy": None if step.row is None else dict(step.row),
        **({"plan": [told(line, teller) for line in step.plans]} if step.plans else {}),
        **({"forecast": [*_ages(step, teller)]} if step.forecasts else {}),
        "decisions": [told(line, teller) for line in step.lines],
    }
    return Story(step.title, _chapters(step, teller), data)


def explain_steps(prefix: str, most: int | None = None) -> Iterator[tuple[float, float, str, list[Chapter]]]:
    """Yield start and end (s) of each step, with the title and the chapters of `explain_time`.

    Without a site: of each five minutes with decisions. ``most`` is the maximum number of jobs described
    in a chapter; the others are counted. Raises InputError for files that cannot be read.
    """
    teller = teller_of(prefix)
    for step in _steps(prefix):
        yield step.start_s, step.end_s, step.title, _chapters(step, teller, most)


def _step_at(prefix: str, time_s: float) -> _Step:
    """Return the step that contains a time. Raises ConfigError if there is none."""
    last = None
    for step in _steps(prefix):
        if time_s < step.end_s - TIME_TOLERANCE_S:
            if step.start_s <= time_s + TIME_TOLERANCE_S:
                return step
            break  # without a site, and without a decision in these five minutes
        last = step
    else:
        if last is not None and last.row is not None:
            raise ConfigError(f"{clock(time_s)}: the steps of this run end at {clock(last.end_s)}")
        last_s = 0.0 if last is None else last.lines[-1].time
        if time_s > last_s + NO_SITE_STEP_S:
            raise ConfigError(f"{clock(time_s)}: the last decision of this run was taken at {clock(last_s)}")
    start_s = time_s // NO_SITE_STEP_S * NO_SITE_STEP_S
    return _Step(start_s, start_s + NO_SITE_STEP_S)


def _steps(prefix: str) -> Iterator[_Step]:
    """Steps of a run; without a site, each five minutes with decisions."""
    log = _Ahead(read_log(prefix))
    plans: list[LogLine] = []
    forecasts: list[LogLine] = []
    before: Row | None = None
    for start_s, end_s, row in _spans(prefix, log):
        lines: list[LogLine] = []
        for line in log.before(end_s - TIME_TOLERANCE_S):
            if line.kind == "plan":
                plans = [*([] if line.rule == PLAN_MADE else plans), line]
            elif line.kind == "forecast":
                is_new = line.rule == FORECAST_IN_USE
                others = [each for each in forecasts if not is_new or _option(each) != _option(line)]
                forecasts = [*others, line]
            elif line.time >= start_s - TIME_TOLERANCE_S:
                lines.append(line)
        yield _Step(start_s, end_s, row, before, plans, lines, forecasts)
        before = row


class _Ahead:
    """Reader of the log that returns the lines up to a time."""

    def __init__(self, lines: Iterator[LogLine]) -> None:
        self._lines = lines
        self.next = next(lines, None)

    def before(self, time_s: float) -> Iterator[LogLine]:
        """Return the lines before a time."""
        while self.next is not None and self.next.time < time_s:
            line, self.next = self.next, next(self._lines, None)
            yield line


def _spans(prefix: str, log: _Ahead) -> Iterator[tuple[float, float, Row | None]]:
    """Start and end of each step, with its row; without a site, of the intervals up to the end of the log."""
    some = False
    for row in read_trace(prefix):
        some = True
        yield row["start_s"], row["start_s"] + row["duration_s"], row
    while not some and log.next is not None:
        start_s = (log.next.time + TIME_TOLERANCE_S) // NO_SITE_STEP_S * NO_SITE_STEP_S
        yield start_s, start_s + NO_SITE_STEP_S, None


def _chapters(step: _Step, teller: Teller, most: int | None = None) -> list[Chapter]:
    """Chapters of a step, with at most ``most`` jobs in each."""
    chapters = []
    if step.row is not None:
        chapters.append(Chapter("Energy", [*_energy(step.row, step.before, teller)]))
    if step.plans:
        chapters.append(Chapter("Plan", entries_of(step.plans, teller)))
    if step.forecasts:
        chapters.append(Chapter("Forecast", [*_forecasts(step, teller)]))
    chapters += [chapter for chapter in _decisions(step.lines, teller, most) if chapter.entries]
    if not step.lines:
        chapters.append(Chapter("Decisions", [Entry("None.")]))
    return chapters


def _option(line: LogLine) -> str:
    """Return the option of a forecast."""
    return str(line.facts.get("option", ""))


def _age_s(step: _Step, line: LogLine) -> float | None:
    """Return the age of a forecast in a step, s; None if its issue is unknown."""
    issued_s = line.facts.get("issued_at_s")
    return max(step.start_s - issued_s, 0.0) if isinstance(issued_s, int | float) else None


def _ages(step: _Step, teller: Teller) -> Iterator[dict[str, object]]:
    """Events of the forecasts in use, with the age in this step of those that took effect."""
    for line in step.forecasts:
        age_s = _age_s(step, line) if line.rule == FORECAST_IN_USE else None
        yield {**told(line, teller), **({} if age_s is None else {"age_in_step_s": age_s})}


def _forecasts(step: _Step, teller: Teller) -> Iterator[Entry]:
    """The same, one line each."""
    for line in step.forecasts:
        age_s = _age_s(step, line) if line.rule == FORECAST_IN_USE else None
        now = "" if age_s is None else f" In this step it was {span(age_s)} old."
        yield Entry(f"{because(line, teller)}{now}", line.time)


def _energy(row: Row, before: Row | None, teller: Teller) -> Iterator[Entry]:
    """Energy of the step: production, consumption and storage, one line each."""
    predicted = row.get("predicted_renewable_w")
    foretold = "" if predicted is None else f"; {power_text(predicted)} predicted an hour before"
    yield Entry(f"Production: {_flow(row, 'renewable_w', 'planned_renewable_w')}{foretold}.")
    has_plan = "planned_servers_on" in row
    on = f"; {count(row['planned_servers_on'], 'server')} planned on" if has_plan else ""
    yield Entry(f"Servers: {_flow(row, 'demand_w', 'planned_envelope_w')}{on}.")
    if "cooling_w" in row:
        pue = f", a PUE of {1.0 + row['cooling_w'] / row['demand_w']:.3f}" if row["demand_w"] > 0.0 else ""
        yield Entry(f"Cooling of the servers: {_flow(row, 'cooling_w')}{pue}.")
    if "grid_import_w" in row:
        yield Entry(f"Load, with the base load of {power_text(row['base_w'])}: {_load(row)}.")
        if "import_cost" in row or row["grid_import_w"] or row["grid_export_w"]:
            yield Entry(f"Grid: {_grid(row, teller.currency)}.")
        for text in _battery_and_grid(row, teller):
            yield Entry(f"{text}.")
    words = [kind.step_words(row, before) for kind in all_kinds()]
    words += [kind.step_words(row) for kind in source_kinds()]
    for text in filter(None, words):
        yield Entry(f"{text}.")
    for name, what in _LOST.items():
        if row.get(name):
            yield Entry(f"{what}: {_flow(row, name)}.")


def _load(row: Row) -> str:
    """Load and its green share: all except unserved power and that of the grid, also from the battery."""
    load_w = row["demand_w"] + row["base_w"] + row.get("cooling_w", 0.0)
    brown_w = row["grid_import_w"] - row.get("grid_charge_w", 0.0) + row.get("grid_discharge_w", 0.0)
    green_w = max(0.0, load_w - brown_w - row["unserved_w"])
    share = f", {percent_text(100.0 * green_w / load_w)} of it green" if load_w > 0.0 else ""
    used = energy_text(load_w * row["duration_s"])
    return f"{power_text(load_w)} ({used} in {span(row['duration_s'])}){share}"


def _grid(row: Row, currency: str) -> str:
    unit = f" {currency}" if currency else ""
    price = row.get("import_price_per_kwh")
    at = "" if price is None else f"{price:.4g}{unit}/kWh"
    if row["grid_import_w"]:
        parts = [f"{_flow(row, 'grid_import_w')} imported" + (at and f" at {at}")]
        if "import_cost" in row:
            parts.append(f"for {row['import_cost']:.3g}{unit}")
        if "carbon_g" in row:
            parts.append(f"{row['carbon_g']:,.0f} g of CO2")
    else:
        parts = ["nothing imported" + (at and f"; the price was {at}")]
    if row["grid_export_w"]:
        parts.append(f"{_flow(row, 'grid_export_w')} exported")
    return ", ".join(parts)


def _battery_and_grid(row: Row, teller: Teller) -> Iterator[str]:
    """Describe the grid's charge of the battery, what it discharged of it, and why it rested."""
    if row.get("grid_charge_w"):
        yield f"The grid charged the battery: {_flow(row, 'grid_charge_w')} of the import, by [grid] charge"
    if row.get("grid_discharge_w"):
        yield f"Of the discharge, the grid had charged {_flow(row, 'grid_discharge_w')}"
    if teller.terms is not None and row["grid_import_w"] > 0.0:
        yield from _kept(row, teller.terms, teller.currency)


def _kept(row: Row, terms: GridTerms, currency: str) -> Iterator[str]:
    """Describe why the grid served before a battery that has charge."""
    least_pct, most_w = 100.0 * terms.min_j / terms.capacity_j, terms.defended_w
    empty = row["soc_pct"] <= least_pct + _SOC_ROUNDING
    discharge_w, charges = row["discharge_w"], bool(row.get("grid_charge_w"))
    if most_w is not None:
        keeps = f"the battery keeps its charge for imports above {power_text(most_w)}, [grid] peak_kw"
        beyond_w = row["grid_import_w"] - most_w
        if beyond_w > _POWER_ROUNDING_W:
            why = "the battery was empty" if empty else "beyond the power and energy of the battery"
            yield f"The import exceeded [grid] peak_kw by {power_text(beyond_w)}: {why}"
        elif discharge_w > 0.0:
            yield f"The grid served first: {keeps}"
        elif not empty and not charges:
            yield f"The battery did not serve: {keeps}"
        return
    limit, price = terms.rests_up_to_per_kwh, row.get("import_price_per_kwh")
    if limit is None or price is None or price > limit or charges or empty:
        return
    unit = f" {currency}" if currency else ""
    rule = f"at a price of at most {limit:.4g}{unit}/kWh, it rests ([grid] discharge)"
    if discharge_w > 0.0:
        yield f"The battery served only what exceeded the import limit: {rule}"
    else:
        yield f"The battery did not serve: {rule}"


_LOST = {
    "curtailed_w": "Curtailed for lack of a use",
    "unserved_w": "Unserved for lack of supply",
}


def _flow(row: Row, name: str, planned: str | None = None) -> str:
    length_s = row["duration_s"]
    plan = f", {power_text(row[planned])} planned" if planned and planned in row else ""
    return f"{power_text(row[name])} ({energy_text(row[name] * length_s)} in {span(length_s)}){plan}"


def _decisions(lines: Sequence[LogLine], teller: Teller, most: int | None) -> Iterator[Chapter]:
    """Decisions by kind, those that affect the whole step first."""
    by_kind = defaultdict(list)
    for line in lines:
        by_kind[line.kind].append(line)
    yield Chapter("The rest of the window", entries_of(by_kind["compensate"], teller))
    offers = [Entry(f"{_offered(line)}. {because(line, teller)}", line.time) for line in by_kind["offer"]]
    yield Chapter("Servers offered", offers)
    for kind, title in _ABSENT.items():
        entries = [
            Entry(f"{named_hosts(line.host_set(), 'server')}. {because(line, teller)}", line.time)
            for line in by_kind[kind]
        ]
        yield Chapter(title, entries)
    yield Chapter("Servers", [*_servers(by_kind["P-state"], teller)])
    for kind, title in _JOBS.items():
        entries, of_kind = [], by_kind[kind]
        for line in of_kind[:most]:
            on = f" on {count(len(line.host_set()), 'host')}" if kind == "start" else ""
            entries.append(Entry(f"{line.job}{on}. {because(line, teller)}", line.time))
        yield Chapter(f"{title}: {len(of_kind)}", entries, left_out=len(of_kind) - len(entries))


def _offered(line: LogLine) -> str:
    """Return the number and the kind of the servers that may be on."""
    before = line.facts.get("servers_before")
    was = "" if before is None else f" ({before} before)"
    servers = line.facts.get("servers_offered")
    number = count(servers if isinstance(servers, int | float) else 0, "server")
    return f"{number} of {line.facts.get('server_kind', 'any kind')}{was}"


_ABSENT = {"lost": "Servers lost", "back": "Servers back"}
_JOBS = {
    "kill": "Jobs killed",
    "start": "Jobs started",
    "postpone": "Jobs postponed",
    "reject": "Jobs rejected",
}


def _servers(changes: list[LogLine], teller: Teller) -> Iterator[Entry]:
    """P-state changes, grouped by reason and time."""
    groups = defaultdict(list)
    for line in changes:
        groups[line.time, because(line, teller)].append(line)
    for (time_s, why), group in groups.items():
        sums = {name: sum(int(line.facts.get(name) or 0) for line in group) for name in _DEEDS}
        deeds = [f"{count(sums[name], 'server')} {deed}" for name, deed in _DEEDS.items() if sums[name]]
        others = (line for line in group if line.facts.keys().isdisjoint(_DEEDS))
        deeds += [f"{count(len(line.host_set()), 'server')} to {line.action}" for line in others]
        yield Entry(f"{', '.join(deeds)}. {why}", time_s)


_DEEDS = {"hosts_to_sleep": "to sleep", "hosts_to_wake": "woken", "hosts_to_speed": "to another speed"}
