"""The decision log in words: what every rule means, and numbers as people read them.

A rule is told by a sentence with the numbers behind it: a text with facts in braces (``{cost_j}``,
``{hosts_free:host}`` with the noun that is counted). A part in square brackets is left out where one of its
facts is missing; it may ask for more: ``[dangerous? ...]`` is there when the fact is not 0,
``[mode=shed? ...]`` when it has that value.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Final

from beasy_sched.model.workflow import PHASE_CAME_LATE
from beasy_sched.policies import easy as rules
from beasy_sched.units import j_to_kwh, parse_duration, w_to_kw

Facts = Mapping[str, float | int | str | None]

_PLAN: Final = (
    "[ The plan keeps its servers on until {planned_on_until_s}.]"
    "[ For that {server_steps_changed:server-step} that it had asleep had to be on, which takes {needed_j}.]"
)
_PAID: Final = (
    "[ To pay for it {hosts_to_sleep:idle server} will sleep ({server_steps_to_sleep:server-step}):"
    " that saves {found_j}.]"
)
_STEP: Final = "[ It takes up to {cost_j} of the {headroom_j} left in the step.]"
_BUDGET: Final = (
    "[ It draws up to {job_w} more; the budget has {available_j}, of which {reserved_j} are reserved.]"
    "[ It draws up to {job_w} more, on top of {drawn_w} with {reserved_w} reserved; the limit is {limit_w}.]"
)
_HEAD: Final = (
    "It was the first of the queue[, with the largest bounded slowdown ({slowdown})]"
    "[, the smallest ({size_host_s})][dangerous? in a dangerous step][; {hosts_free:host} free]."
)
_FILLER: Final = (
    "It was backfilled ahead of {reserved_for}[, whose hosts are reserved for {reserved_at_s}]"
    "[, which has its hosts and waits for {reserved_lacks}][; {hosts_free:host} free]."
    "[ By its walltime it ends by {ends_by_s}, before that.]"
    "[ It may run longer, on hosts that the reservation leaves over ({hosts_extra}).]"
    "[ It may run longer, but leaves the {hosts_left_alone:reserved host} alone.]"
)
_HAD: Final = "Its {hosts_asked:host} could be had, "
_PROMISED: Final = "[; it is promised to start at {reserved_at_s}]."
_PRICED: Final = "[ It is expected to need {job_j}][, and the price of energy is {price_j}][job_j?.]"
_LACKS: Final = "It asks for {hosts_asked:host}, with {hosts_free} free"
_SLACK: Final = (
    "[ To end by {deadline_s} it must start within {slack_s}.]"
    "[ To end by {deadline_s} it should have started {overdue_s} ago.]"
)
_SPARE: Final = (
    "[ It could have waited for {slack_s} more and still ended by {deadline_s}.]"
    "[ To end by {deadline_s} it should have started {overdue_s} ago.]"
)
_PLANNED: Final = (
    "[ It is planned to start at {planned_start_s}.]"
    "[ That costs {cost} ({brown_j} from the grid, {green_j} from the sun), the least of"
    " {slots_compared:possible start}.][ The earliest of them, at {earliest_s}, would cost {earliest_cost}.]"
    "[ It would be {late_s} late; the costs include a penalty for that.]"
)
_CHOSEN: Final = (
    "[ It costs {cost} ({brown_j} from the grid, {green_j} from the sun), the least of"
    " {slots_compared:possible start}.][ To start at {earliest_s}, the earliest of them, would have cost"
    " {earliest_cost}.]"
)
_SHED: Final = (
    "[The storage guard found too little energy for the step: {needed_j} needed, {supply_j} to be had,"
    " {missing_j} missing][, at {soc_pct} of charge][missing_j?.]"
)
_AS_ANOTHER: Final = (
    "[ It was compensated as {as_policy} does][, of which most is expected in such a step: last {value_last},"
    " next {value_next}, peak {value_peak}, workload {value_workload}][value_none?, none {value_none}]"
    "[as_policy?.]"
)
_COUNTED: Final = (
    "[count=actual? Busy servers count at full power, idle ones at idle power.]"
    "[count=wake? Servers count at idle power, those that have to wake at their mean power in the step.]"
    "[count=idle? Every server counts at idle power.]"
    "[count=full? Every server counts at full power.]"
)
_KEPT: Final = "[ Kept on for running jobs, where the plan had it asleep: {hosts_kept:server}.]"
_SURPLUS: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} more in the battery than its target:"
    " {comp_j} could be spent[, {spendable_j} of it without draining the battery on the way]."
    "[ {spent_on_jobs_j} went into faster servers for running jobs,"
    " {spent_on_wakes_j} into waking servers for waiting jobs.]"
    "[ {spent_j} went into {steps_changed:step} to come.]"
    f"{_KEPT}{_AS_ANOTHER}"
)
_SHORTAGE: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} less in the battery than its target:"
    " {comp_j:abs} had to be saved[; {saved_j} was, by servers that sleep or run slower]"
    "[ in {steps_changed:step} to come][, around {violation_at_s} ({curves_below} of the nine predicted"
    " curves are below SoC_min there)]."
    f"{_KEPT}{_AS_ANOTHER}"
)

_AHEAD: Final = (
    " Production to count on and what hydrogen gives come to {supply_j} until {window_end_s}; all jobs, those"
    " expected among them, and sleeping servers need {demand_j}. {battery_j} are in the battery."
)
_BOUND: Final = (
    "[bound=target? What counts is the battery's target for {binding_at_s}.]"
    "[bound=floor? What counts is that the battery does not fall to SoC_min by {binding_at_s}.]"
)

_LATER: Final = {
    "a cheaper slot": "It waits because a later start is cheaper.",
    "a greener slot": "It waits because a later start costs no more and takes less from the grid.",
    "an equally cheap slot": (
        "It waits because a later start costs the same, and more sun than predicted may come until then."
    ),
    "the first slot with room": "It waits for the first slot with enough free hosts.",
}
"""Why GreenSlot has chosen a later slot."""
_NOW: Final = {
    "cheapest slot": "No later slot is cheaper.",
    "a cheaper slot": "It was planned to start now, because that was cheaper than an earlier start.",
    "a greener slot": (
        "It was planned to start now, because that cost no more than an earlier start and took less from the"
        " grid."
    ),
    "an equally cheap slot": (
        "It was planned to start now, because that cost as much as an earlier start and left more time for"
        " the sun."
    ),
    "the first slot with room": ("It was planned to start now, in the first slot with enough free hosts."),
}
"""Why a job starts in a slot."""

RULES: Final[dict[tuple[str, str], str]] = {
    ("start", rules.HEAD): _HEAD + _PLAN + _PRICED + _STEP + _BUDGET + _SPARE,
    ("start", rules.HEAD + rules.SLEEPERS_PAY): _HEAD + _PLAN + _PAID + _STEP,
    ("start", rules.BACKFILLED): _FILLER + _PLAN + _PRICED + _STEP + _BUDGET + _SPARE,
    ("start", rules.BACKFILLED + rules.SLEEPERS_PAY): _FILLER + _PLAN + _PAID + _STEP,
    ("start", "its hosts are awake"): "Its hosts, woken for it, are all on.",
    ("postpone", rules.RESERVED): _LACKS + "; it is promised its hosts for {reserved_at_s}.",
    ("postpone", rules.NOT_RESERVED): _LACKS + "; when enough will be is not known yet.",
    ("postpone", rules.NO_STEP_ENERGY): (
        "Its {hosts_asked:host} are free, but to the end of the step it would take up to {cost_j}, and"
        " {headroom_j} is left above SoC_min (the guard's veto).[ It is promised hosts for {reserved_at_s}.]"
    ),
    ("postpone", "no energy in the budget"): (
        _HAD
        + "but not its energy: if every running job takes its walltime, {lacks_j} would be missing in the"
        " budget at some moment. {available_j} are available now" + _PROMISED
    ),
    ("postpone", "not enough energy saved"): (
        _HAD
        + "but over its walltime the power, as it is now, would exceed the budget's average by {needed_j}."
        " Only {available_j} are saved: {lacks_j} are missing" + _PROMISED
    ),
    ("postpone", "above the power limit"): (
        _HAD + "but its {job_w} would exceed the limit of {limit_w}, as {drawn_w} are drawn already: over its"
        " walltime that would be {lacks_j} too much" + _PROMISED
    ),
    ("postpone", rules.PLAN_CANNOT_PAY): (
        "Enough hosts are free, but the plan has some asleep[full_speed?, or slower than it needs,] before"
        " its walltime. To keep them on takes {needed_j}; idle servers could save {found_j} by sleeping."
        "[ It is promised its hosts for {reserved_at_s}.]"
    ),
    ("postpone", rules.SET_ASIDE): (
        "It is set aside: by its walltime it cannot end within the last planned window, which ends at"
        " {window_end_s}[, and at full speed, its work may take {longest_s}]."
    ),
    ("postpone", "dearer than the price of energy"): (
        "It is expected to need {job_j}; energy is rationed, and only jobs of up to {price_j} may start, or"
        " those whose energy is not missed." + _BOUND
    ),
    ("postpone", "not sure to end in time"): (
        "Jobs have needed so much of their walltimes that it might not end by {window_end_s}, the end of what"
        " is planned for."
    ),
    ("postpone", "the battery would fall too low"): (
        "With all that runs, and with little sun and wind, it could take the battery to SoC_min by"
        " {lowest_at_s}."
    ),
    ("postpone", "the target would be missed"): (
        "With all that runs, and with little sun and wind, the battery could miss its target by"
        " {window_end_s}."
    ),
    ("postpone", "waits for servers that are on"): (
        _LACKS + "; servers are woken for it at {wakes_at_s} if no job ends before."
    ),
    ("postpone", "its servers are woken"): _LACKS + "; servers are being woken.",
    ("kill", "ended before the guard ends all jobs"): (
        "The step lacks {missing_j}, for which the guard would kill every job. Those that had done least work"
        " were ended instead; the end of this one saves {saves_j}."
    ),
    ("queue", PHASE_CAME_LATE): (
        "A job of phase {lower_phase} of its workflow was submitted only now: it did not wait for that one."
    ),
    ("reject", "asks for no host"): "It asks for no host at all, which no job can run on.",
    ("reject", "asks for more hosts than there are"): (
        "It asks for {hosts_asked:host}, and there are only {hosts_in_all}."
    ),
    **{("start", why): f"{words}{_CHOSEN}{_STEP}{_SPARE}" for why, words in _NOW.items()},
    **{("postpone", why): f"{words}{_PLANNED}{_SLACK}" for why, words in _LATER.items()},
    ("postpone", "its predecessors have not ended"): (
        "It waits because jobs that it depends on have not ended." + _PLANNED + _SLACK
    ),
    ("postpone", "waits for sun beyond the window"): (
        "Its deadline lies beyond the planning window, so it is placed only where the sun alone can power it;"
        " no slot has enough sun yet.[ The cheapest of {slots_compared:possible start} would take {brown_j}"
        " from the grid.]" + _SLACK
    ),
    ("postpone", "no slot in the window"): "No slot in the planning window has room for it." + _SLACK,
    ("reject", "no slot before its deadline"): (
        "When it arrived, no slot before its deadline had room for it." + _SLACK
    ),
    ("reject", "its workflow was refused"): "Another job of its workflow was refused.",
    ("reject", "its predecessor did not finish"): "A job that it depends on did not finish.",
    ("reject", "waits for jobs that never come"): "The jobs that it depends on were never submitted.",
    ("reject", "one of its members cannot be read"): "One of its members in the workload is wrong: {member}.",
    ("reject", "the run is over"): "The run ended before it could start[, after {waited_s} of waiting].",
    ("kill", "the run is over"): "The run ended while it ran: it is not completely finished.",
    ("kill", "guard: no energy for it"): (
        _SHED
        + "[ After what idle servers save, {still_missing_j} were to be found.][ Its end saves {saves_j}.]"
        "[mode=shed? It had spent {spent_j}: those that have spent least go first.]"
        "[mode=kill-all? Every running job is killed then; it had spent {spent_j}.]"
    ),
    ("kill", "its server is planned to sleep"): (
        "The plan puts {hosts_to_sleep} of its servers to sleep[, {walltime_left_s} before its walltime]."
    ),
    ("P-state", "guard: no energy for it"): (
        "[Job {killed} ran there and is killed.]" + _SHED + "[ This saves {saves_j}.]"
    ),
    ("P-state", "guard: wake cancelled, no energy for it"): (
        _SHED + " They shall not wake now.[ That saves {saves_j}.]"
    ),
    ("P-state", "planned"): (
        "As planned[, changed online for {hosts_replanned} of them]"
        "[: all servers draw up to {planned_w} in the step]."
    ),
    ("P-state", "the plan has it asleep"): "No job needs it, and the plan, as it is now, has it asleep.",
    ("P-state", "idle for T_wait"): ("Idle for {idle_s}: to sleep pays after {t_wait_s} (T_wait, Eq. 2.9)."),
    ("P-state", "waiting jobs want it"): (
        "Waiting jobs ask for {hosts_wanted:host}, and {hosts_awaited} are free or waking."
        "[ {hosts_left_asleep} more stay asleep: {cost_j} of {headroom_j} left in the step are taken.]"
    ),
    ("P-state", "speed of the step"): (
        "[speed=fast? Full speed: its energy is not missed.]"
        "[speed=thrifty? The speed that needs least energy for each flop: energy is rationed, or would be.]"
    ),
    ("P-state", "its job ends in time only at full speed"): (
        "At a thriftier speed its job might not end by {window_end_s}, the end of what is planned for."
    ),
    ("P-state", "idle, and not needed soon"): (
        "No waiting job is to have it, and it had idled for {t_wait_s}, or more were idle than the"
        " {hosts_soon:host} that new jobs may want by then."
    ),
    ("P-state", "no energy for it in the step"): "The step lacks {missing_j}.",
    ("P-state", "fed by the arriving power"): (
        f"{{renewable_w}} arrive: beside {{hosts_busy:busy server}} that feeds {{hosts_fed}} more.{_COUNTED}"
    ),
    ("P-state", "not fed by the arriving power"): (
        "{renewable_w} arrive, and {taken_w} are taken by {hosts_busy:busy server} and those asleep:"
        f" that feeds {{hosts_fed}} more.{_COUNTED}"
    ),
    ("P-state", "idle within the budget's period"): (
        "No job needs it now, and what it draws idle counts in the budget."
    ),
    ("P-state", "idle at the start of a slot"): "No job starts on it in this slot.",
    ("P-state", "given to a job"): "Given to a job, which starts when all its hosts are on.",
    ("P-state", "reserved for the first waiting job"): "The first waiting job's reservation is due.",
    ("compensate", "deadline tightened"): (
        "Some jobs would miss their deadlines. {jobs:internal deadline} moved one slot earlier, so that these"
        " jobs are placed sooner in the next round."
    ),
    ("compensate", "energy is rationed"): (
        "Energy is rationed: jobs of up to {price_j} may start, since {missing_j} would be missing for all of"
        " them." + _AHEAD + _BOUND
    ),
    ("compensate", "energy is enough"): (
        "There is energy for all jobs[; {left_j} are left above what must be kept]." + _AHEAD
    ),
    ("compensate", "surplus"): _SURPLUS,
    ("compensate", "shortage"): _SHORTAGE,
}
"""By what was done (``P-state`` whatever its number) and the rule."""

PLANS: Final[dict[tuple[str, str], str]] = {
    ("plan", "planned anew"): (
        "Plan {number} counts from {start_at_s} on. It was asked for at {asked_at_s}, with {battery_j} in the"
        " battery[hydrogen_kg? and {hydrogen_kg} kg of hydrogen in the tank], {jobs_running:job} running and"
        " {jobs_waiting:job} waiting."
    ),
    ("plan", "not planned anew: planning failed"): (
        "Plan {number}, asked for at {asked_at_s}, was to count from {start_at_s} on, but planning failed:"
        " the plan before it stays in effect."
    ),
    ("plan", "not planned anew: planning took too long"): (
        "Plan {number}, asked for at {asked_at_s}, was to count from {start_at_s} on, but was late: the plan"
        " before it stays in effect."
    ),
}
"""The same for plans made during a run."""

IN_SHORT: Final[dict[str, str]] = {
    "surplus": (
        "[spent_on_jobs_j? (a surplus: {spent_on_jobs_j} spent on faster servers)]"
        "[spent_j? (a surplus: {spent_j} spent, in {steps_changed:step})]"
    ),
    "shortage": "[saved_j? (a shortage: {saved_j} saved)]",
}
"""What a compensation did, in a few words, for those who look at its effects; nothing if it did nothing."""

_PART: Final = re.compile(r"\[(?:(\w+)(?:=([\w-]+))?\?)?([^\]]*)\]")
_FACT: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def sentence(action: str, rule: str, facts: Facts) -> str:
    """Why an action was taken, in words.

    An unknown rule, or one whose facts are missing, is shown as it is, with the facts that exist.
    """
    key = action.partition(" ")[0], rule
    text = _filled(RULES.get(key) or PLANS.get(key), facts)
    if text is not None:
        return text.strip()
    numbers = ", ".join(f"{name} {fact(name, value)}" for name, value in facts.items() if value is not None)
    return f"{rule or 'no rule was given'}" + (f" ({numbers})" if numbers else "")


def in_short(rule: str, facts: Facts) -> str:
    """What a compensation did, in a few words, a blank before them; nothing if it did nothing."""
    return _filled(IN_SHORT.get(rule), facts) or ""


def _filled(template: str | None, facts: Facts) -> str | None:
    """The template with its facts; None where there is none, or one of its facts is missing."""
    known = {name: value for name, value in facts.items() if value is not None}

    def part(match: re.Match[str]) -> str:
        asked, wanted, text = match.groups()
        left_out = asked is not None and (not known.get(asked) or wanted not in (None, known[asked]))
        return "" if left_out or any(name not in known for name, _ in _FACT.findall(text)) else text

    text = None if template is None else _PART.sub(part, template)
    if text is None or any(name not in known for name, _ in _FACT.findall(text)):
        return None
    return _FACT.sub(lambda match: fact(match[1], known[match[1]], match[2] or ""), text)


_MOMENTS: Final = ("_at_s", "_by_s", "_until_s", "_end_s", "deadline_s", "planned_start_s", "earliest_s")
_LATEST_S: Final = 1e11
"""No run lasts 3000 years."""
_CLOCK: Final = re.compile(r"(?:(\d+)\s*d\s*)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock(time_s: float) -> str:
    """A moment of the run, counted from its start: ``06:05:10``, ``2d 06:05:10``."""
    days, seconds = divmod(round(time_s), 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days}d {text}" if days else text


def parse_moment(text: str) -> float:
    """Read a moment of the run: seconds, ``1d6h``, or as `clock` writes it; returns s.

    Raises ValueError.
    """
    time_s = math.inf
    if match := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        time_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    else:
        with contextlib.suppress(ValueError):
            time_s = parse_duration(text)
    if time_s > _LATEST_S:
        raise ValueError(f"{text!r} is not a time of a run: expected seconds, or such as 1d6h, '1d 06:30:00'")
    return time_s


def span(seconds: float) -> str:
    """How long something takes, in its two largest units: ``45 s``, ``5 min 12 s``, ``2 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    minutes = whole // 60
    if minutes < 10 and whole % 60:
        return f"{minutes} min {whole % 60} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 1440:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def energy(joules: float) -> str:
    """Three digits of an energy: ``1.25 kWh``, ``109 Wh``."""
    kwh = j_to_kwh(joules)
    return f"{_digits(kwh)} kWh" if abs(kwh) >= 1 else f"{_digits(1000 * kwh)} Wh"


def power(watts: float) -> str:
    """Three digits of a power: ``970 W``, ``1.25 kW``."""
    return f"{_digits(w_to_kw(watts))} kW" if abs(watts) >= 1000 else f"{_digits(watts)} W"


def percent(value: float) -> str:
    """Two digits after the point: ``19.98 %``."""
    return f"{value:.2f} %"


def count(number: float, noun: str) -> str:
    """``1 host``, ``4 hosts``."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.0f} {noun}s"


def fact(name: str, value: float | int | str, spec: str = "") -> str:
    """A fact in words, by the unit in its name; ``spec`` is ``abs``, or the noun that it counts."""
    if isinstance(value, str):
        return value
    if spec == "abs":
        value = abs(value)
    elif spec:
        return count(value, spec)
    if name.endswith("_host_s"):
        return f"{value / 3600:.3g} host-hours"
    if name.endswith(_MOMENTS):
        return clock(value)
    for unit, words in (("_s", span), ("_j", energy), ("_w", power), ("_pct", percent)):
        if name.endswith(unit):
            return words(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _digits(value: float) -> str:
    """Three digits, but all before the point: no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if float(text) == 0 or "e" in text else text
