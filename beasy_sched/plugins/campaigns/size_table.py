"""The result of a search for sizes, as lines for a terminal and as JSON, with the limiting factor."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.outputs.tables import aligned, widths_of
from beasy_sched.plugins.campaigns.size_balance import BalanceAnswer
from beasy_sched.plugins.campaigns.size_life import cells_of, new_sizes, years_text
from beasy_sched.plugins.campaigns.sizing import NoiseAnswer, PolicyAnswer, Row, SizeAnswer, SizeQuestion
from beasy_sched.units import counted

_MOST_TOLD: Final = 5
_WIDTH: Final = 80
_CURTAILED_SHARE: Final = 0.05
"""Share of the production whose loss indicates too little storage."""


def size_lines(answer: SizeAnswer) -> Iterator[str]:
    """Yield the table of a search, with remarks on non-monotone sizes, failed runs and limiting factors."""
    question = answer.question
    yield from _heading(question, f"guard {question.guard.label}")
    cells = cells_of(question)
    new = [
        [] if cells is None else _summary(new_sizes(each, question, cells), question.sizes)[:1]
        for each in answer.policies
    ]
    rows = [
        [each.policy.label, *_summary(each.found, question.sizes), *bought, str(len(each.noises)),
         str(each.runs), str(sum(not noise.found.monotone for noise in each.noises))]
        for each, bought in zip(answer.policies, new, strict=True)
    ]  # fmt: skip
    heads = ["median", "smallest", "largest", *([] if cells is None else ["new"])]
    yield from _table(["policy", *heads, "realizations", "runs", "not monotone"], rows)
    if cells is not None:
        yield from _wrapped(years_text(question))
    for each in answer.policies:
        for remark in _remarks(each, question):
            yield from _wrapped(remark)
    for each in answer.policies:
        if reason := limits_text(each, question):
            yield from _wrapped(f"{each.policy.label}: {reason}")


def balance_lines(question: SizeQuestion, answers: Sequence[BalanceAnswer]) -> Iterator[str]:
    """Yield the table of the hourly balance, in the form of `size_lines`."""
    yield from _heading(question, "hourly balance, no scheduler")
    sizes = [answer.found.size(question.sizes) for answer in answers]
    rows = [["balance", *_summary(sizes, question.sizes), str(len(answers))]]
    yield from _table(["", "median", "smallest", "largest", "noises"], rows)
    if best := [answer for answer in answers if answer.found.rung is None]:
        shares = [float(answer.served_pct[-1]) for answer in best]
        yield from _wrapped(
            f"in {len(best)} of {len(answers)} realizations, even {question.sizes[-1]:g} {question.axis.unit}"
            f" serve only {min(shares):.2f} to {max(shares):.2f} % of the jobs' energy"
        )


def size_json(answer: SizeAnswer) -> dict[str, Any]:
    """Return the question, and each policy's sizes, realizations and probes; a missing size is null."""
    policies, cells = [], cells_of(answer.question)
    for each in answer.policies:
        new = {} if cells is None else {"new": _summary_json(new_sizes(each, answer.question, cells))}
        noises = [_noise_json(noise, answer.question) for noise in each.noises]
        policies.append({
            "policy": each.policy.label, **_summary_json(each.found), **new, "runs": each.runs,
            "limit": limits_text(each, answer.question) or None, "noises": noises,
        })  # fmt: skip
    return {**_question_json(answer.question), "executed": answer.executed, "policies": policies}


def balance_json(question: SizeQuestion, answers: Sequence[BalanceAnswer]) -> dict[str, Any]:
    """Return the results of the hourly balance as an object for JSON."""
    sizes = [answer.found.size(question.sizes) for answer in answers]
    noises = [
        {"tuple": answer.tuple_number, "seed": answer.seed, "size": _finite(size),
         "served_pct": dict(zip(map(str, question.sizes), answer.served_pct.tolist(), strict=True))}
        for answer, size in zip(answers, sizes, strict=True)
    ]  # fmt: skip
    return {**_question_json(question), "guard": None, "balance": {**_summary_json(sizes), "noises": noises}}


def limits_text(answer: PolicyAnswer, question: SizeQuestion) -> str:
    """Return the reason why the largest size does not suffice, from one realization; "" if it does."""
    goal = question.goal
    failed = [noise for noise in answer.noises if noise.found.rung is None and noise.unlimited is not None]
    if not failed:
        return ""
    noise = failed[0]
    row, unlimited = noise.probes[len(question.sizes) - 1], noise.unlimited
    count = sum(size == math.inf for size in answer.found)
    largest = f"{question.sizes[-1]:g} {question.axis.unit}".rstrip()
    head = f"{largest} do not suffice in {count} of {len(answer.noises)} realizations. In {_name(noise)},"
    if row["status"] != "ok":
        return f"{head} the run failed: {row['error']}"
    head += f" {goal.value(row):.2f} % of the {goal.measure} are finished"
    return f"{head}; {_limit(row, unlimited or row, question)}"


def _limit(row: Row, unlimited: Row, question: SizeQuestion) -> str:
    goal, best = question.goal, question.goal.value(unlimited)
    if not goal.of_unlimited and not best >= goal.least_pct:
        return (
            f"with unlimited power {best:.2f} %: power is not the limiting factor."
            f" {unlimited['jobs_postponed']} jobs never start and"
            f" {unlimited['jobs_not_completely_finished']} are still running at the end, so"
            " a lower --least, --of-unlimited, more servers or another period is needed"
        )
    made, lost = row["production_kwh"] or 0.0, row["curtailed_kwh"] or 0.0
    if lost > _CURTAILED_SHARE * made:
        return (
            f"with unlimited power {best:.2f} %. Of {made:.1f} kWh produced, {lost:.1f} are curtailed because"
            " no storage could take them: the limiting factor is storage, or how the policy uses it"
        )
    return (
        f"with unlimited power {best:.2f} %. Of {made:.1f} kWh produced, all but {lost:.1f} are used:"
        " the limiting factor is production, so more PV or wind is needed"
    )


def _remarks(answer: PolicyAnswer, question: SizeQuestion) -> Iterator[str]:
    label, sizes, unit = answer.policy.label, question.sizes, question.axis.unit
    odd = [noise for noise in answer.noises if not noise.found.monotone and noise.found.rung is not None]
    for noise in odd[:_MOST_TOLD]:
        bad = noise.found.failed_above
        yield (
            f"{label}, {_name(noise)}: {sizes[noise.found.met_below[0]]:g} {unit} meet the goal,"
            f" {_listed([sizes[rung] for rung in bad])} do not; from {sizes[noise.found.rung or 0]:g} on, all"
            " tested sizes do"
        )
    if len(odd) > _MOST_TOLD:
        yield f"{label}: the same in {len(odd) - _MOST_TOLD} more realizations; --json lists them all"
    if any(noise.found.rung == 0 for noise in answer.noises) and len(sizes) > 1:
        count = sum(noise.found.rung == 0 for noise in answer.noises)
        tried = "the smallest tested size already suffices: use a lower --from"
        yield f"{label}: in {counted(count, 'noise')} {tried}"
    failed = [row for noise in answer.noises for row in noise.probes.values() if row["status"] != "ok"]
    if failed:
        which = f"{counted(len(failed), 'run')} failed, and count as not meeting the goal"
        yield f"{label}: {which}: {failed[0]['error']:.160}"


def _heading(question: SizeQuestion, how: str) -> Iterator[str]:
    axis = question.axis
    yield from _wrapped(f"{axis.name}: {axis.title} with which {question.goal.text}")
    period_h = question.scenario.windows * question.scenario.parsed_site().window_s / 3600.0
    yield from _wrapped(
        f"scenario {question.scenario.name}, {period_h:g} h, {how};"
        f" {counted(len(question.sizes), 'size')} from"
        f" {question.sizes[0]:g} to {question.sizes[-1]:g} {axis.unit}".rstrip()
    )
    yield ""


def _wrapped(text: str) -> Iterator[str]:
    return iter(textwrap.wrap(text, _WIDTH, subsequent_indent="  "))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = widths_of([heads, *rows])
    return (aligned(row, widths) for row in [heads, *rows])


def _summary(found_sizes: Sequence[float], sizes: Sequence[float]) -> list[str]:
    """Return median, smallest and largest size, some of which may be beyond the tested range."""
    values = _summary_of(found_sizes).values()
    return [f"> {sizes[-1]:g}" if value == math.inf else f"{value:.4g}" for value in values]


def _summary_json(found_sizes: Sequence[float]) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in _summary_of(found_sizes).items()}


def _summary_of(found_sizes: Sequence[float]) -> dict[str, float]:
    return {
        "median": float(np.median(found_sizes)),
        "smallest": min(found_sizes),
        "largest": max(found_sizes),
    }


def _question_json(question: SizeQuestion) -> dict[str, Any]:
    return {
        "scenario": question.scenario.name, "axis": question.axis.name, "unit": question.axis.unit,
        "goal": question.goal.text, "guard": question.guard.label, "sizes": list(question.sizes),
    }  # fmt: skip


def _noise_json(noise: NoiseAnswer, question: SizeQuestion) -> dict[str, Any]:
    sizes, goal = question.sizes, question.goal
    return {
        "tuple": noise.tuple_number,
        "seed": noise.seed,
        "size": _finite(noise.found.size(sizes)),
        "met_below": [sizes[rung] for rung in noise.found.met_below],
        "failed_above": [sizes[rung] for rung in noise.found.failed_above],
        "unlimited_pct": None if noise.unlimited is None else _finite(noise.unlimited_pct),
        "probes": [
            {"size": sizes[rung], "met": noise.met[rung], "finished_pct": _finite(goal.value(row)),
             "jobs_killed": row["jobs_killed"], "soc_lowest_pct": row["soc_lowest_pct"], "run": row["run"]}
            for rung, row in sorted(noise.probes.items())
        ],
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _name(noise: NoiseAnswer) -> str:
    return f"realization t{noise.tuple_number}.s{noise.seed}"


def _listed(sizes: Sequence[float]) -> str:
    shown = [f"{size:g}" for size in sizes[:_MOST_TOLD]]
    return ", ".join([*shown, *(["..."] if len(sizes) > _MOST_TOLD else [])])
