"""The story of one step: its energy, what was decided in it, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beasy_sched.errors import ConfigError
from beasy_sched.report.explain_numbers import clock, count, energy, percent, power, span
from beasy_sched.report.explain_records import Decision, read_decisions, read_trace
from beasy_sched.report.explain_story import Entry, Section, Story, because, told
from beasy_sched.units import TIME_TOLERANCE_S

NO_SITE_STEP_S = 300.0
"""What is told together where there is no site, and so no steps."""

Row = Mapping[str, float]


@dataclass
class _Step:
    """The step that is told of; without a site only its bounds are known."""

    start_s: float
    end_s: float
    row: Row | None = None
    before: Row | None = None
    """The step before, for the levels at the start."""


def explain_time(prefix: str, time_s: float) -> Story:
    """Tell what happened in the step that holds a moment of the run (s), and why.

    Without a site, in the five minutes that hold it. Raises ConfigError where the run has no such
    time, and InputError for files that cannot be read.
    """
    step = _find_step(prefix, time_s)
    decisions, last_s = _decisions(prefix, step)
    if step.row is None and time_s > last_s + NO_SITE_STEP_S:
        raise ConfigError(f"--at {clock(time_s)}: the last decision of this run was taken at {clock(last_s)}")
    sections = [] if step.row is None else [Section("Energy", [*_energy(step.row, step.before)])]
    sections += [section for section in _told(decisions) if section.entries]
    if not decisions:
        sections.append(Section("Decisions", [Entry("None: everything stayed as it was.")]))
    number = "" if step.row is None else f"Step {step.row['step']:.0f}, "
    title = f"{number}{clock(step.start_s)} to {clock(step.end_s)}"
    data = {
        "start_s": step.start_s,
        "end_s": step.end_s,
        "energy": None if step.row is None else dict(step.row),
        "decisions": [told(each) for each in decisions],
    }
    return Story(title, sections, data)


def _find_step(prefix: str, time_s: float) -> _Step:
    before: Row | None = None
    for row in read_trace(prefix):
        end_s = row["start_s"] + row["duration_s"]
        if time_s < end_s - TIME_TOLERANCE_S:
            return _Step(row["start_s"], end_s, row, before)
        before = row
    if before is not None:
        end_s = before["start_s"] + before["duration_s"]
        raise ConfigError(f"--at {clock(time_s)}: the steps of this run end at {clock(end_s)}")
    start_s = time_s // NO_SITE_STEP_S * NO_SITE_STEP_S
    return _Step(start_s, start_s + NO_SITE_STEP_S)


def _decisions(prefix: str, step: _Step) -> tuple[list[Decision], float]:
    """The step's decisions, and the moment of the last one that was read, s."""
    found, last_s = [], 0.0
    for each in read_decisions(prefix):
        last_s = each.time
        if each.time >= step.end_s - TIME_TOLERANCE_S:
            break
        if each.time >= step.start_s - TIME_TOLERANCE_S:
            found.append(each)
    return found, last_s


# --- words ---------------------------------------------------------------------------------------------


def _energy(row: Row, before: Row | None) -> Iterator[Entry]:
    """The step's energy, a line each: what came, what was drawn, what the storage did."""
    length_s = row["duration_s"]
    yield Entry(f"Production: {_flow(row, 'renewable_w', length_s)}{_planned(row, 'planned_renewable_w')}.")
    envelope = _planned(row, "planned_envelope_w")
    on = ""
    if "planned_servers_on" in row:
        on = f"; {count(row['planned_servers_on'], 'server')} planned on"
    yield Entry(f"Servers: {_flow(row, 'demand_w', length_s)}{envelope}{on}.")
    yield Entry(f"Battery: {_battery(row, before)}.")
    if any(row.get(name) for name in _HYDROGEN):
        yield Entry(f"Hydrogen: {_hydrogen(row)}.")
    for name, what in _LOST.items():
        if row.get(name):
            yield Entry(f"{what}: {_flow(row, name, length_s)}.")


_HYDROGEN = ("electrolyzer_w", "fuel_cell_w", "planned_electrolyzer_w", "planned_fuel_cell_w")
_LOST = {
    "curtailed_w": "Curtailed, for nothing could take it",
    "unserved_w": "Unserved, for there was nothing to serve it with",
}


def _flow(row: Row, name: str, length_s: float) -> str:
    return f"{power(row[name])} ({energy(row[name] * length_s)} in {span(length_s)})"


def _planned(row: Row, name: str) -> str:
    return f", {power(row[name])} planned" if name in row else ""


def _battery(row: Row, before: Row | None) -> str:
    did, plan = "neither charged nor discharged", ""
    for name, verb in (("charge_w", "charged"), ("discharge_w", "discharged")):
        if row[name]:
            did = f"{verb} with {power(row[name])}"
        if row.get(f"planned_{name}"):
            plan = f" (planned: {verb} with {power(row[f'planned_{name}'])})"
    was = "" if before is None else f"from {percent(before['soc_pct'])} "
    planned = f", {percent(row['planned_soc_pct'])} planned" if "planned_soc_pct" in row else ""
    return f"{did}{plan}; {was}to {percent(row['soc_pct'])} of charge{planned}"


def _hydrogen(row: Row) -> str:
    parts = []
    for name, what in (("electrolyzer_w", "electrolyzer"), ("fuel_cell_w", "fuel cell")):
        if row[name] or row[f"planned_{name}"]:
            parts.append(f"{what} {power(row[name])}, {power(row[f'planned_{name}'])} planned")
    return f"{'; '.join(parts)}; {row['hydrogen_kg']:.3g} kg in the tank at the end"


def _told(decisions: list[Decision]) -> Iterator[Section]:
    """The decisions by kind, what shaped the step first."""
    by_kind: dict[str, list[Decision]] = {}
    for each in decisions:
        by_kind.setdefault(each.kind, []).append(each)
    later = [Entry(because(each), each.time) for each in by_kind.get("compensate", ())]
    yield Section("The rest of the window", later)
    yield Section("Servers", [*_servers(by_kind.get("P-state", []))])
    for kind, title in _JOBS.items():
        each_job = by_kind.get(kind, [])
        entries = [Entry(f"{_job(each)}. {because(each)}", each.time) for each in each_job]
        yield Section(f"{title}: {len(entries)}", entries)


_JOBS = {
    "kill": "Jobs killed",
    "start": "Jobs started",
    "postpone": "Jobs made to wait",
    "reject": "Jobs refused",
}


def _job(decision: Decision) -> str:
    if decision.kind != "start":
        return decision.job
    return f"{decision.job} on {count(len(decision.host_set()), 'host')}"


def _servers(changes: list[Decision]) -> Iterator[Entry]:
    """P-states, those for the same reason and at the same moment together."""
    groups: dict[tuple[float, str], list[Decision]] = {}
    for each in changes:
        groups.setdefault((each.time, because(each)), []).append(each)
    for (time_s, why), group in groups.items():
        yield Entry(f"{', '.join(_deeds(group))}. {why}", time_s)


_DEEDS = {"hosts_to_sleep": "to sleep", "hosts_to_wake": "woken", "hosts_to_speed": "to another speed"}


def _deeds(group: list[Decision]) -> Iterator[str]:
    for name, deed in _DEEDS.items():
        number = sum(int(each.facts.get(name) or 0) for each in group)
        if number:
            yield f"{count(number, 'server')} {deed}"
    unknown = [each for each in group if not any(name in each.facts for name in _DEEDS)]
    for each in unknown:
        yield f"{count(len(each.host_set()), 'server')} to {each.action}"
