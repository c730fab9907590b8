"""The study as tables: Figures 2 to 4 in numbers, Table II beside the paper's, and the claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from beasy_sched.experiments.energy_budget_claims import Finding
from beasy_sched.experiments.energy_budget_data import ALGORITHMS, EASY, Results
from beasy_sched.experiments.energy_budget_runs import Setting, percent
from beasy_sched.experiments.energy_weeks import Week
from beasy_sched.experiments.text_table import TextTable

NAMES: Final = {
    (algorithm, shutdown): f"{name} {'SHUT' if shutdown else 'IDLE'}"
    for algorithm, name in (("powercap", "PC"), ("reducepc", "reducePC"), ("energybud", "energyBud"))
    for shutdown in (False, True)
}
"""The paper's names of the curves."""
_PAPERS_TABLE_2: Final = {
    "ave_bsld": ("AVEbsld", (0.16, 0.88, -8.61)),
    "utilization": ("utilization", (-0.05, 4.95, 5.74)),
    "jobs_started": ("jobs started", (-0.05, 1.4, 1.47)),
    "energy_share": ("energy consumed", (-4.74, -1.78, -1.42)),
}


def week_table(weeks: Iterable[Week]) -> TextTable:
    """What was run."""
    rows: list[tuple[str, ...]] = [(w.name, str(w.hosts), str(w.jobs), f"{w.load:.2f}") for w in weeks]
    return TextTable("Weeks", ("week", "processors", "jobs", "load"), rows, ("processors", "jobs", "load"))


def figure_tables(results: Results) -> Iterator[TextTable]:
    """Figures 2, 3 and 4: means by budget and condition."""
    digits = {"utilization": 4, "ave_bsld": 1, "energy_share": 4}
    titles = {
        "utilization": "Figure 2: mean normalized utilization",
        "ave_bsld": "Figure 3: mean normalized AVEbsld, all jobs",
        "energy_share": "Figure 4: mean normalized energy of the week, share of the most that can be used",
    }
    for measure, title in titles.items():
        easy = results.interval(measure, EASY)[0]
        head = ["budget", *NAMES.values()]
        rows = []
        for budget in results.budgets:
            means = [results.interval(measure, Setting(*name[:1], budget, name[1]))[0] for name in NAMES]
            row = [f"{percent(budget)} %", *(f"{mean:.{digits[measure]}f}" for mean in means)]
            if measure == "utilization":
                row.append(f"{results.line(budget)[0]:.4f}")
            rows.append(tuple(row))
        if measure == "utilization":
            head.append("line f")
        note = f"EASY (no budget): {easy:.{digits[measure]}f}; {len(results.weeks)} weeks"
        yield TextTable(title, tuple(head), rows, tuple(head[1:]), note)


def table_2(results: Results) -> TextTable:
    """Average change by shutdown, %, the paper's and ours."""
    head = ["measure"]
    for name in ("powercap", "reducePC", "energyBud"):
        head += [name, "paper"]
    rows = []
    for measure, (label, paper) in _PAPERS_TABLE_2.items():
        row = [label]
        for algorithm, theirs in zip(ALGORITHMS, paper, strict=True):
            row += [f"{results.change_pct(measure, algorithm)[0]:+.2f}", f"{theirs:+.2f}"]
        rows.append(tuple(row))
    raw = ["AVEbsld, not normalized"]
    for algorithm in ALGORITHMS:
        raw += [f"{results.change_pct('ave_bsld', algorithm, normalized=False)[0]:+.2f}", ""]
    rows.insert(1, tuple(raw))
    numbers = tuple(head[1:])
    return TextTable("Table II: change by shutdown, % (ours, the paper's)", tuple(head), rows, numbers)


def claim_table(findings: Iterable[Finding]) -> TextTable:
    """The paper's claims."""
    rows: list[tuple[str, ...]] = [(f.section, f.claim, f.ours, f.verdict) for f in findings]
    note = "Means over the budgets below 100 % unless a budget is named."
    return TextTable("Claims", ("section", "claim", "ours", "verdict"), rows, (), note)
