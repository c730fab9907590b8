"""The main job of beasy-sched: inputs and a plan, then all policies on the same days, and one table.

Started by scripts/run, which creates the environment. `run_inputs` prepares inputs and plan in a separate
process; each policy runs in a process of its own, or in two (see `policy_run`).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from console import exit_code_of, tell, width
from policy_run import LOG_NAME, PROGRAM, Ended, PolicyRun, RunFailed, run_policy, summary_in
from run_options import EXAMPLE_JOBS, days_in_words, decider, files_in, parse_arguments, show

from beasy_sched.campaigns.workers import Failure, Processes, Task, work_through
from beasy_sched.errors import Interrupted
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.outputs.tables import (
    COMPARISON_COLUMNS,
    Contender,
    comparison_lines,
    comparison_markdown,
    conditions,
)

TABLE_NAME = "comparison.md"
REPORT_NAME = "report.html"
PATIENCE_S = 60.0
"""How long the processes of a policy may take to end."""
PRELOADED = ("beasy_sched.cli.simulate", "beasy_sched.outputs.tables", "beasy_sched.run.in_process")
"""What the processes of the policies are forked with."""


def run(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    prepare = Path(__file__).with_name("run_inputs.py")
    done = subprocess.run([sys.executable, prepare, *sys.argv[1:]], stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        return done.returncode
    single = len(chosen.policies) == 1 and not chosen.markdown
    contenders, stop = run_policies(chosen, single)
    report = None if stop or chosen.no_report else write_report(chosen, contenders)
    if single:  # its run has printed its summary
        print_text(f"The days: {days_in_words(chosen)}")
        list_files(chosen, f"results in {folder_name(chosen.policies[0])}/run_*")
    else:
        show_table(chosen, contenders)
    if not chosen.markdown:
        show_hints(chosen, report)
    if stop is not None:
        raise stop
    return int(any(contender.problem for contender in contenders))


def show_table(chosen: argparse.Namespace, contenders: Sequence[Contender]) -> None:
    """Print the table of all policies, and what their runs have in common; write it in Markdown."""
    days, site = days_in_words(chosen), "; ".join(conditions(contenders)) or "no run is complete"
    text = f"The days: {days}. The site: {site}.\n\n{comparison_markdown(contenders)}"
    write_atomic(chosen.out / TABLE_NAME, text)
    if chosen.markdown:
        print(text, end="", flush=True)
        return
    print("", *comparison_lines(contenders, width(100)), "", sep="\n")
    print_text(f"The days: {days}")
    print_text(f"The site: {site}")
    for name in chosen.policies:
        policy, options = decider(chosen, name)
        if name != policy:
            print_text(f"{name}: policy {policy} {shlex.join(options)}".rstrip())
    list_files(chosen, f"the table in {TABLE_NAME}; results in POLICY/run_*")


def show_hints(chosen: argparse.Namespace, report: Path | None) -> None:
    """Print what to do next, and at the very end the name of the report."""
    told = chosen.scenario if chosen.scenario in chosen.policies else chosen.policies[0]
    example, job = chosen.out / folder_name(told), EXAMPLE_JOBS[chosen.scenario]
    print_text(f"To see why jobs waited or were killed: beasy-sched explain {example}")
    print_text(f"To see what happened to one of them, and why: beasy-sched explain {example} --job {job}")
    if report is not None:
        print_text(f"Charts, in any browser: {report}")


def write_report(chosen: argparse.Namespace, contenders: Sequence[Contender]) -> Path | None:
    """Write the HTML report of the runs that are complete; return its file, or None where there is none."""
    report = chosen.out / REPORT_NAME
    report.unlink(missing_ok=True)  # of an earlier run
    folders = [chosen.out / folder_name(each.policy) for each in contenders if each.problem is None]
    if not folders:
        return None
    command = ["report", *map(str, folders), "-o", str(report)]
    command += files_in(chosen.out).plan_options(chosen)
    show(command)
    if subprocess.run([*PROGRAM, *command, "-q"], stdin=subprocess.DEVNULL, check=False).returncode:
        tell("run: no report (see above)")
        return None
    return report


def run_policies(chosen: argparse.Namespace, single: bool) -> tuple[list[Contender], Interrupted | None]:
    """Run the chosen policies, ``chosen.jobs`` at a time; return their results in order, and the signal
    that stopped them early, if any.

    The run of a ``single`` policy prints to our output, and its failure raises RunFailed or Interrupted.
    The runs of several policies print to files in their folders; a failed or stopped policy has a result
    that says why.
    """
    runs = {policy: run_of(chosen, policy, logged=not single) for policy in chosen.policies}
    for command in run_of(chosen, chosen.policies[0] if single else "POLICY", logged=False).commands:
        show([*command, "-s", "ENDPOINT"] if command[0] == "batsim" else command)
    ended: dict[str, Contender] = {}
    stop = None
    with contextlib.ExitStack() as stack:
        progress = None if single else stack.enter_context(Progress(len(runs), chosen.jobs))
        executor = Processes(chosen.jobs, patience_s=PATIENCE_S, preload=PRELOADED)
        stack.enter_context(contextlib.closing(executor))

        def tasks() -> Iterator[Task]:
            for policy, each in runs.items():
                if progress is not None:
                    progress.began(policy)
                yield policy, run_policy, each

        def done(policy: str, result: Ended | Failure) -> None:
            if isinstance(result, Failure):
                result = Ended(0.0, result.error, 1)
            if progress is None and result.failure is not None:
                raise RunFailed(result.failure, result.exit_code)
            ended[policy] = Contender(policy, summary_in(runs[policy].folder), result.failure)
            if progress is not None:
                progress.ended(policy, story(ended[policy], result.duration_s))

        try:
            work_through(executor, tasks(), done)
        except Interrupted as error:
            if single:
                raise
            stop = error
    stopped = {policy: Contender(policy, None, f"stopped by {stop}") for policy in runs}
    return list((stopped | ended).values()), stop


def folder_name(policy: str) -> str:
    """Return a policy's folder name: its own name, with package.module:Class made safe for a path."""
    return re.sub(r"[^\w.-]", "_", policy)


def run_of(chosen: argparse.Namespace, policy: str, *, logged: bool) -> PolicyRun:
    """Return the commands of a policy's run; results go to the policy's folder."""
    folder, files = chosen.out / folder_name(policy), files_in(chosen.out)
    name, options = decider(chosen, policy)
    inputs = ["-p", files.platform, "-w", files.workload, "--events", files.power]
    deciding = ["--policy", name, *options, "--site", files.site]
    deciding += [*files.plan_options(chosen), *files.forecast_options(chosen)]
    results = [str(folder / "run")]
    if not chosen.wire:
        return PolicyRun(folder, (["simulate", *inputs, *deciding, "-o", *results],), logged)
    serve = ["serve", "-s", "tcp://127.0.0.1:0", *deciding, "-o", *results, "--timeout", "60"]
    batsim = ["batsim", *inputs, "--forward-unknown-events", "-E", "-e", *results]
    return PolicyRun(folder, (serve, batsim), logged)


def story(contender: Contender, duration_s: float) -> str:
    """Report in one line how a policy ended."""
    if contender.problem is not None or contender.summary is None:
        return f"{contender.policy}: {contender.problem}; see {folder_name(contender.policy)}/{LOG_NAME}"
    shares = {column.name: column.text(contender.summary) for column in COMPARISON_COLUMNS}
    finished, killed = shares["finished_pct"], shares["killed_pct"]
    return f"{contender.policy}: {finished} % of the jobs finished, {killed} % killed; {duration_s:.1f} s"


class Progress(contextlib.AbstractContextManager):
    """Print a line for each policy that ends; on a terminal, above a bar that names the running ones."""

    def __init__(self, total: int, jobs: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        tell(f"{total} policies, {jobs} concurrently:")
        columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        hidden = not sys.stderr.isatty()
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True, disable=hidden)
        self._task = self._bar.add_task("", total=total)
        self._running: list[str] = []

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def began(self, policy: str) -> None:
        """Note that a policy started."""
        self._running.append(policy)
        self._bar.update(self._task, description=", ".join(self._running))

    def ended(self, policy: str, story: str) -> None:
        """Note that a policy ended, and report it."""
        self._running.remove(policy)
        self._bar.console.print(f"  {story}", highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._bar.update(self._task, advance=1, description=", ".join(self._running))


def list_files(chosen: argparse.Namespace, results: str) -> None:
    """Print which files were written."""
    names = ", ".join(path.name for path in map(Path, files_in(chosen.out)) if path.exists())
    print_text(f"Files in {chosen.out}: {names}; {results}")


def print_text(text: str) -> None:
    """Print a text, wrapped to the terminal."""
    wrapped = textwrap.fill(
        text, width(100), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    print(wrapped, flush=True)


if __name__ == "__main__":
    chosen = parse_arguments()
    sys.exit(exit_code_of("run", lambda: run(chosen)))
