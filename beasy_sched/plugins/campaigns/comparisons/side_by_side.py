"""Comparison of policies on the same workload and weather: inputs, runs, table and report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from beasy_sched.errors import BeasyError, ConfigError, Interrupted
from beasy_sched.formats import run_files
from beasy_sched.formats.atomic import remove_old, write_atomic
from beasy_sched.model.choices import OnKill
from beasy_sched.outputs.tables import Contender, GrowingTable, comparison_markdown, conditions
from beasy_sched.outputs.verdict import verdict
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy
from beasy_sched.plugins.campaigns.comparisons.days import ComparedDays, DayInputs
from beasy_sched.plugins.campaigns.comparisons.policy_run import (
    FAILED_LOG_NAME,
    PolicyRun,
    RunEnd,
    contender,
    run_policy,
)
from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands, StepFailed
from beasy_sched.plugins.campaigns.workers import Failure, Task, work_through
from beasy_sched.plugins.reports.perfect_foresight import Yardstick, yardstick
from beasy_sched.plugins.reports.run_data import read_energy

TABLE_NAME: Final = "comparison.md"
REPORT_NAME: Final = "report.html"
PATIENCE_S: Final = 60.0
"""Time limit for the processes of a policy to end."""


class RunProgress(Protocol):
    """Listener for the start and end of policies."""

    def began(self, policy: str) -> None:
        """A policy has started."""

    def ended(self, policy: str, story: str) -> None:
        """A policy has ended; ``story`` describes its outcome, in one or more lines."""


@dataclass(frozen=True)
class Compared:
    """Outcome of a comparison."""

    contenders: Sequence[Contender]
    inputs: DayInputs
    stop: Interrupted | None = None
    """Signal that stopped the comparison early; None if there was none."""


@dataclass(frozen=True)
class Comparison:
    """The policies and days of a comparison, and the folder of the results."""

    days: ComparedDays
    policies: Sequence[ComparedPolicy]
    out: Path
    wire: bool = False
    """Whether scheduler and simulator of each run are two processes that communicate over ZeroMQ."""
    _found: dict[str, Yardstick | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Perfect foresight of the runs, by label: it is computed once."""

    def prepare(self, commands: Commands) -> DayInputs:
        """Check the policies, and create the inputs of their runs. Raises BeasyError."""
        given = self.days.given
        needs = (True, True) if given is None else (given.site is not None, given.plan is not None)
        refused = commands.call(_refused, (self.policies, *needs), "the check of the policies")
        if refused:
            raise StepFailed(*refused[0])
        return self.days.make(self.out, commands)

    def show_runs(self, inputs: DayInputs, commands: Commands, *, single: bool) -> None:
        """Print the commands of a policy's run: of the only policy, or a template for all."""
        policy = self.policies[0] if single else ComparedPolicy("POLICY", "POLICY")
        for command in self._run_of(policy, inputs, commands, logged=not single).commands:
            commands.show([*command, "-s", "ENDPOINT"] if command[0] == "batsim" else command)

    def run_one(self, inputs: DayInputs, commands: Commands) -> Contender:
        """Run the only policy, which prints its summary. Raises StepFailed if it fails."""
        (policy,) = self.policies
        run = self._run_of(policy, inputs, commands, logged=False)
        end: RunEnd = commands.call(run_policy, run, f"the run of {policy.label}")
        if end.failure is not None:
            raise StepFailed(end.failure, end.exit_code)
        return contender(policy.label, run.folder)

    def run_all(
        self, inputs: DayInputs, commands: Commands, progress: RunProgress, width: int = 100
    ) -> Compared:
        """Run all policies, several in parallel; their output is written to a file in the folder of each.

        A policy that fails, or is stopped with the program, is a contender with this problem. The rows that
        ``progress`` is given are at most ``width`` long, if possible.
        """
        runs = {policy.label: self._run_of(policy, inputs, commands, logged=True) for policy in self.policies}
        ended: dict[str, Contender] = {}
        table = GrowingTable([*runs], width)
        stop = None

        def tasks() -> Iterator[Task]:
            for label, run in runs.items():
                progress.began(label)
                yield label, run_policy, run

        def done(label: str, result: RunEnd | Failure) -> None:
            end = RunEnd(0.0, result.error, 1) if isinstance(result, Failure) else result
            ended[label] = contender(label, runs[label].folder, end.failure)
            progress.ended(label, _story(ended[label], runs[label], end.duration_s, table))

        try:
            work_through(commands.executor, tasks(), done)
        except Interrupted as error:
            stop = error
        stopped = {label: Contender(label, None, str(stop)) for label in runs}
        return Compared(list((stopped | ended).values()), inputs, stop)

    def yardsticks(self, contenders: Sequence[Contender]) -> list[tuple[str, str]]:
        """Return lines about perfect foresight: label and text of each complete run whose site has rules.

        What all runs lack is a single line.
        """
        lines = []
        for each in contenders:
            grid = None if each.problem is not None or each.summary is None else each.summary.grid
            if grid is None or grid.terms is None:
                continue
            if each.policy not in self._found:
                folder = next(
                    self.folder_of(policy) for policy in self.policies if policy.label == each.policy
                )
                self._found[each.policy] = yardstick(read_energy(each.policy, str(folder / "run")))
            if (found := self._found[each.policy]) is not None:
                lines.append((each.policy, found))
        problems = {found.problem for _, found in lines}
        if len(problems) == 1 and "" not in problems:
            return [("all policies", problems.pop())]
        return [(label, found.text) for label, found in lines]

    def table(self, contenders: Sequence[Contender]) -> str:
        """Return the table in Markdown, with its conclusion."""
        site = "; ".join(conditions(contenders)) or "no run is complete"
        text = (
            f"Workload and weather: {self.days.in_words}. The site: {site}."
            f"\n\n{comparison_markdown(contenders)}"
        )
        if said := " ".join(verdict(contenders)):
            text += f"\n{said}\n"
        lines = "".join(f"- {label}: {words}\n" for label, words in self.yardsticks(contenders))
        return text + (f"\nPerfect foresight:\n\n{lines}" if lines else "")

    def write_table(self, contenders: Sequence[Contender], report: Path | None) -> None:
        """Write the table to the output folder; without a ``report``, remove an earlier one."""
        write_atomic(self.out / TABLE_NAME, self.table(contenders))
        if report is None:
            remove_old([self.out / REPORT_NAME])

    def write_report(self, compared: Compared, commands: Commands) -> Path | None:
        """Write the HTML report of the complete runs; None if there are none, or it fails."""
        report = self.out / REPORT_NAME
        complete = {each.policy for each in compared.contenders if each.problem is None}
        folders = [str(self.folder_of(each)) for each in self.policies if each.label in complete]
        if not folders:
            return None
        command = ["report", *folders, "-o", str(report), *compared.inputs.planned]
        commands.show(command)
        if commands.run(*command, "-q", shown=False):
            commands.tell("HTML report not written (see above)")
            return None
        return report

    def folder_of(self, policy: ComparedPolicy) -> Path:
        """Return the folder of a policy's results."""
        return self.out / policy.folder_name

    def earlier_runs(self) -> list[str]:
        """Return the folders of runs in the output folder that are not of this comparison."""
        summaries = self.out.glob(f"*/{run_files.path_of('run', run_files.SUMMARY)}")
        own = {policy.folder_name for policy in self.policies}
        return sorted(path.parent.name for path in summaries if path.parent.name not in own)

    def _run_of(
        self, policy: ComparedPolicy, inputs: DayInputs, commands: Commands, *, logged: bool
    ) -> PolicyRun:
        """Return the commands of a policy's run; results go to the policy's folder."""
        folder = self.folder_of(policy)
        placing = [] if policy.placement is None else ["--placement", policy.placement.value]
        comes_back = policy.on_kill not in (None, OnKill.DROP)
        if policy.on_kill is not None:
            placing += ["--on-kill", policy.on_kill.value]
        deciding = ["--policy", policy.policy, *policy.arguments, *placing, *inputs.place]
        results = [str(folder / "run")]
        if not self.wire:
            simulate = ["simulate", *inputs.simulator, *deciding, "-o", *results]
            return PolicyRun(commands.program, folder, (simulate,), logged)
        serve = ["serve", "-s", "tcp://127.0.0.1:0", *deciding, "-o", *results, "--timeout", "60"]
        dynamic = ["--enable-dynamic-jobs"] if comes_back else []
        batsim = ["batsim", *inputs.simulator, "--forward-unknown-events", "-E", *dynamic, "-e", *results]
        return PolicyRun(commands.program, folder, (serve, batsim), logged)


def with_short_labels(policies: Sequence[ComparedPolicy]) -> list[ComparedPolicy]:
    """Label each ``package.module:Class`` by its class, if no other policy has that name."""
    short = [re.sub(r"^[^\s:]*:", "", policy.label) for policy in policies]
    return [
        replace(policy, label=label) if short.count(label) == 1 else policy
        for policy, label in zip(policies, short, strict=True)
    ]


def check_labels(policies: Sequence[ComparedPolicy]) -> None:
    """Raise ConfigError if two policies would have the same row or folder."""
    folders: dict[str, str] = {}
    for policy in policies:
        other = folders.setdefault(policy.folder_name, policy.label)
        if other != policy.label:
            raise ConfigError(f"--policy {policy.label}: would use the same output folder as {other}")
    labels = [policy.label for policy in policies]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ConfigError(f"--policy {twice}: given twice")


def _refused(check: tuple[Sequence[ComparedPolicy], bool, bool]) -> list[tuple[str, int]]:
    """Return the reasons why policies cannot run, each with its exit code; empty if all can."""
    policies, site, plan = check
    refused = []
    for policy in policies:
        try:
            policy.check(site=site, plan=plan)
        except BeasyError as error:
            refused.append((str(error), error.exit_code))
    return refused


def _story(contender: Contender, run: PolicyRun, duration_s: float, table: GrowingTable) -> str:
    """Return the outcome of a policy: its row of the table with the duration of its run, or its problem."""
    if contender.problem is not None or contender.summary is None:
        return f"{contender.policy}: {contender.problem}; see {run.folder.name}/{FAILED_LOG_NAME}"
    return "\n".join(table.lines(contender, f"{duration_s:.1f} s"))
