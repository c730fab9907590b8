"""Textual conclusion of a comparison.

All figures are those of the summaries; values that are displayed equally count as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from beasy_sched.formats.run_summary import RunSummary, value_at
from beasy_sched.outputs.tables import Contender, job_share_pct

NEARLY_PCT: Final = 2.0
"""Maximum difference of finished jobs to the best policy for a policy to be compared with it, points."""
_MOST_NAMED: Final = 4
"""Maximum number of policies named individually."""


def verdict(contenders: Sequence[Contender], kind: str = "policy") -> list[str]:
    """Return the sentences: kills, finished jobs and waits, then deadlines and cost, or the battery.

    ``kind`` is the noun for a contender: ``policy`` or ``run``. Contenders without a complete run are not
    compared, and named at the end. Runs without jobs, or with different numbers of jobs, have no verdict.
    """
    complete = [(c.policy, c.summary) for c in contenders if c.summary is not None and c.problem is None]
    if len({summary.jobs.submitted for _, summary in complete}) != 1:
        return []
    group = _RunGroup([_Run(name, summary) for name, summary in complete], kind)
    if not group.submitted:
        return []
    sentences = [*_on_jobs(group), *_on_deadlines(group), *(_on_grid(group) or _on_storage(group))]
    broken = [c.policy for c in contenders if c.problem is not None]
    if broken:
        sentences.append(f"Not compared, because their runs are incomplete: {_listed(broken)}.")
    return sentences


class _Run(NamedTuple):
    """Policy and the summary of its complete run."""

    name: str
    summary: RunSummary

    @property
    def killed(self) -> int:
        return self.summary.jobs.killed

    @property
    def finished(self) -> int:
        """Number of jobs that ended on their own, as counted in tables."""
        return self.summary.jobs.finished + self.summary.jobs.failed

    @property
    def wait_s(self) -> float | None:
        """Mean wait of the jobs that started, rounded as it is printed, s."""
        quality = self.summary.quality
        return None if quality is None or quality.waiting_s_mean is None else round(quality.waiting_s_mean)

    @property
    def restarts(self) -> int:
        """Number of times that killed jobs came back."""
        return 0 if self.summary.restarts is None else self.summary.restarts.count

    @property
    def finished_pct(self) -> str:
        share = job_share_pct(self.summary.jobs.counts(), "finished") or 0.0
        return f"{share:.1f} %"


@dataclass(frozen=True)
class _RunGroup:
    """Compared runs."""

    runs: Sequence[_Run]
    kind: str

    @property
    def submitted(self) -> int:
        """Number of jobs of each run."""
        return self.runs[0].summary.jobs.submitted

    def named(self, runs: Sequence[_Run]) -> str:
        """Name some of the runs; if there are many, by their number."""
        if len(runs) == len(self.runs) > 1:
            return f"every {self.kind}"
        if len(runs) <= _MOST_NAMED:
            return _listed([run.name for run in runs])
        plural = self.kind[:-1] + "ies" if self.kind.endswith("y") else self.kind + "s"
        return f"{len(runs)} of the {len(self.runs)} {plural}"

    def with_value(self, values: Sequence[float], wanted: float) -> str:
        """Name the runs that have a value; ``values`` are those of all runs."""
        return self.named([run for run, value in zip(self.runs, values, strict=True) if value == wanted])


def _on_jobs(group: _RunGroup) -> Iterator[str]:
    """Describe killed jobs, finished jobs, and waits."""
    if len(group.runs) == 1:
        (run,) = group.runs
        wait = "" if run.wait_s is None else f"; jobs that started waited {run.wait_s:,} s on average"
        none = "lost none" if run.restarts else "killed none"
        killed = f"killed {run.killed:,}" if run.killed else none
        text = f"{run.name} finished {run.finished:,} of {group.submitted:,} jobs ({run.finished_pct})"
        yield f"{text} and {killed}{wait}."
        yield from _on_restarts(group)
        return
    yield _on_kills(group)
    yield from _on_restarts(group)
    yield _on_finished(group)


def _on_kills(group: _RunGroup) -> str:
    killed = [run.killed for run in group.runs]
    fewest, most, jobs = min(killed), max(killed), f"{group.submitted:,} jobs"
    best, worst = (group.with_value(killed, value) for value in (fewest, most))
    if most == 0 and any(run.restarts for run in group.runs):
        return "No killed job was lost."
    if most == 0:
        return f"No {group.kind} killed a job."
    if fewest == most:
        return f"Every {group.kind} killed {most:,} of {jobs}."
    if fewest > 0:
        text = f"{_start(best)} killed the fewest jobs, {fewest:,} of {group.submitted:,}"
        return f"{text}; {worst} the most, {most:,}."
    others = [number for number in killed if number]
    least = min(others)
    if least == most:
        rest = f"{worst} {most:,}" + (" each" if len(others) > 1 else "")
    else:
        rest = f"the others {least:,} to {most:,} (most: {worst})"
    return f"{_start(best)} killed none of the {jobs}, {rest}."


def _on_restarts(group: _RunGroup) -> Iterator[str]:
    """State how often killed jobs came back, if any did."""
    counts = [run.restarts for run in group.runs]
    fewest, most = min(counts), max(counts)
    if not most:
        return
    if fewest == most:
        yield f"Killed jobs came back {most:,} times" + (" in each." if len(counts) > 1 else ".")
        return
    most_of, fewest_of = (group.with_value(counts, value) for value in (most, fewest))
    yield f"Killed jobs came back {most:,} times with {most_of} (most), and {fewest:,} with {fewest_of}."


def _on_finished(group: _RunGroup) -> str:
    """Name the run that finished most, with its wait, and one with nearly as many and a shorter wait."""
    # among equals, the one with the fewest kills, then the shortest wait
    leader = min(group.runs, key=lambda run: (-run.finished, run.killed, _wait(run)))
    finished = [run.finished for run in group.runs]
    fewest, most = min(finished), leader.finished
    if fewest == most:
        all_jobs = f"all {most:,}" if most == group.submitted else f"{most:,} of {group.submitted:,}"
        return f"Every {group.kind} finished {all_jobs} jobs{_waits(group)}."
    equals = [run for run in group.runs if run.finished == most]
    share = f"{most:,} of {group.submitted:,} ({leader.finished_pct})"
    text = f"{_start(group.named(equals))} finished the most jobs, {share}"
    nearly = [run for run in group.runs if _is_near(run, leader, group.submitted)]
    if nearly and leader.wait_s is not None:
        rival = min(nearly, key=_wait)
        whose = "but its jobs" if len(equals) == 1 else f"but those of {leader.name}"
        fewer = f"{rival.name} finished {most - rival.finished:,} fewer"
        return (
            f"{text}, {whose} waited {leader.wait_s:,} s on average; {fewer},"
            f" and its jobs waited {rival.wait_s:,} s."
        )
    last = group.with_value(finished, fewest)
    return f"{text}; {last} the fewest, {fewest:,}{_waits(group)}."


def _is_near(run: _Run, leader: _Run, submitted: int) -> bool:
    """Whether a run finished nearly as many jobs as the leader and killed no more, after a shorter wait."""
    near = 100.0 * (leader.finished - run.finished) <= NEARLY_PCT * submitted
    return (
        near and run.finished < leader.finished and run.killed <= leader.killed and _wait(run) < _wait(leader)
    )


def _wait(run: _Run) -> float:
    """Return the mean wait, s; infinite if no job started."""
    return float("inf") if run.wait_s is None else run.wait_s


def _waits(group: _RunGroup) -> str:
    """Describe the shortest and the longest mean wait, as the end of a sentence."""
    waits_s = [wait for run in group.runs if (wait := run.wait_s) is not None]
    if not waits_s:
        return ""
    least, most = min(waits_s), max(waits_s)
    if least == most:
        return f"; jobs that started waited {least:,} s on average"
    waits = [_wait(run) for run in group.runs]
    shortest, longest = (group.with_value(waits, value) for value in (least, most))
    return f"; jobs that started waited from {least:,} s on average ({shortest}) to {most:,} s ({longest})"


def _on_deadlines(group: _RunGroup) -> Iterator[str]:
    """Describe how many deadlines were met, if all runs had the same number of them."""
    due = [part for run in group.runs if (part := run.summary.deadlines) is not None]
    if len(due) < len(group.runs) or len({part.jobs for part in due}) != 1:
        return
    jobs, met = due[0].jobs, [part.jobs_met for part in due]
    most, fewest = max(met), min(met)
    if most == fewest:
        kept = f"all {jobs:,}" if most == jobs else f"{most:,} of {jobs:,}"
        yield f"{_start(group.named(group.runs))} met {kept} deadlines."
        return
    best, worst = (group.with_value(met, value) for value in (most, fewest))
    kept = f"all {jobs:,} deadlines" if most == jobs else f"the most deadlines, {most:,} of {jobs:,}"
    yield f"{_start(best)} met {kept}; {worst} the fewest, {fewest:,}."


def _on_grid(group: _RunGroup) -> list[str]:
    """Describe the cost of energy from the grid, or the energy if it cost nothing; [] without a grid."""
    grids = [grid for run in group.runs if (grid := run.summary.grid) is not None]
    currencies = {grid.currency for grid in grids}
    if len(grids) < len(group.runs) or len(currencies) != 1:
        return []
    costs = [round(grid.cost, 2) + 0.0 for grid in grids]
    if any(costs):
        return [_span_of(group, "Energy from the grid cost", costs, f"{{:,.2f}} {currencies.pop()}")]
    energies_kwh = [round(grid.import_kwh, 1) for grid in grids]
    return [_span_of(group, "Energy from the grid:", energies_kwh, "{:,.1f} kWh")]


def _span_of(group: _RunGroup, what: str, values: Sequence[float], shown: str) -> str:
    """Describe the minimum and maximum of a figure, and their runs."""
    least, most = min(values), max(values)
    if least == most:
        with_all = f" with {group.named(group.runs)}"
        return f"{what} {shown.format(least)}{with_all}."
    low, high = group.with_value(values, least), group.with_value(values, most)
    return (
        f"{what} {shown.format(least)} with {low}, the least, and {shown.format(most)} with {high}, the most."
    )


def _on_storage(group: _RunGroup) -> list[str]:
    """Describe unserved energy; else whether the batteries reached their targets."""
    energies = [run.summary.energy_kwh for run in group.runs]
    unserved_kwh = [0.0 if energy is None else round(energy.unserved, 1) for energy in energies]
    if (most_kwh := max(unserved_kwh)) > 0.0:
        lacking = group.named([run for run, kwh in zip(group.runs, unserved_kwh, strict=True) if kwh])
        worst = group.with_value(unserved_kwh, most_kwh)
        most = f"{most_kwh:,.1f} kWh" if lacking == worst else f"up to {most_kwh:,.1f} kWh ({worst})"
        return [f"{_start(lacking)} had unserved demand: {most}."]
    place = "site", "battery", "soc_distance_points"
    away_points = [value_at(run.summary, *place) for run in group.runs]
    batteries = [run for run, away in zip(group.runs, away_points, strict=True) if away is not None]
    if not batteries:
        return []
    off_points = [round(away or 0.0, 1) + 0.0 for away in away_points]
    below = [run for run, off in zip(group.runs, off_points, strict=True) if off < 0.0]
    if not below:
        with_all = f" with {group.named(batteries)}" if len(group.runs) > 1 else ""
        return [f"The battery ended at or above its target{with_all}."]
    lowest = min(off_points)
    worst = group.with_value(off_points, lowest)
    by = f"by {-lowest:.1f} points" if len(below) == 1 else f"by up to {-lowest:.1f} points ({worst})"
    return [f"{_start(group.named(below))} left the battery below its target, {by}."]


def _start(text: str) -> str:
    """Begin a sentence; the name of a policy is not capitalized."""
    return "E" + text[1:] if text.startswith("every ") else text


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
