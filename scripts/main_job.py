"""The main job of beasy-sched: inputs and a plan, then all policies on the same days, and one table.

Started by scripts/run, which creates the environment. `run_inputs` prepares inputs and plan in a separate
process; each policy runs in two processes (see `two_processes`).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from console import exit_code_of, tell, width
from run_options import EXAMPLE_JOBS, days_in_words, decider, files_in, parse_arguments, show
from two_processes import LOG_NAME, Ended, Pair, RunFailed, run_pair, summary_in

from beasy_sched.campaign.workers import Failure, Processes, Task, work_through
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
PATIENCE_S = 60.0
"""How long a policy's two processes may take to end."""


def run(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    prepare = Path(__file__).with_name("run_inputs.py")
    done = subprocess.run([sys.executable, prepare, *sys.argv[1:]], stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        return done.returncode
    single = len(chosen.policies) == 1 and not chosen.markdown
    contenders, stop = run_policies(chosen, single)
    if single:  # its processes have printed their summary
        print_text(f"The days: {days_in_words(chosen)}")
        list_files(chosen, f"results in {folder_name(chosen.policies[0])}/run_*")
        return 0
    days, site = days_in_words(chosen), "; ".join(conditions(contenders)) or "no run is complete"
    text = f"The days: {days}. The site: {site}.\n\n{comparison_markdown(contenders)}"
    write_atomic(chosen.out / TABLE_NAME, text)
    if chosen.markdown:
        print(text, end="", flush=True)
    else:
        print("", *comparison_lines(contenders, width(100)), "", sep="\n")
        print_text(f"The days: {days}")
        print_text(f"The site: {site}")
        for name in chosen.policies:
            policy, options = decider(chosen, name)
            if name != policy:
                print_text(f"{name}: policy {policy} with {options}")
        list_files(chosen, f"the table in {TABLE_NAME}; results in POLICY/run_*")
        told = chosen.scenario if chosen.scenario in chosen.policies else chosen.policies[0]
        example, job = chosen.out / folder_name(told), EXAMPLE_JOBS[chosen.scenario]
        print_text(f"To see what happened to a job, and why: beasy-sched explain {example} --job {job}")
        charts = f"beasy-sched report {chosen.out} -o {chosen.out / 'report.html'}"
        print_text(f"To see charts (pip install '.[report]'): {charts}")
    if stop is not None:
        raise stop
    return int(any(contender.problem for contender in contenders))


def run_policies(chosen: argparse.Namespace, single: bool) -> tuple[list[Contender], Interrupted | None]:
    """Run the chosen policies, ``chosen.jobs`` at a time; return their results in order, and the signal
    that stopped them early, if any.

    The processes of a ``single`` policy print to our output, and its failure raises RunFailed or
    Interrupted. The processes of several policies print to files in their folders; a failed or stopped
    policy has a result that says why.
    """
    pairs = {policy: pair(chosen, policy, logged=not single) for policy in chosen.policies}
    example = pair(chosen, chosen.policies[0] if single else "POLICY", logged=False)
    show(example.scheduler)
    show([*example.simulator, "-s", "ENDPOINT"])
    ended: dict[str, Contender] = {}
    stop = None
    with contextlib.ExitStack() as stack:
        progress = None if single else stack.enter_context(Progress(len(pairs), chosen.jobs))
        executor = Processes(chosen.jobs, patience_s=PATIENCE_S, preload=())
        stack.enter_context(contextlib.closing(executor))

        def tasks() -> Iterator[Task]:
            for policy, commands in pairs.items():
                if progress is not None:
                    progress.began(policy)
                yield policy, run_pair, commands

        def done(policy: str, result: Ended | Failure) -> None:
            if isinstance(result, Failure):
                result = Ended(0.0, result.error, 1)
            if progress is None:
                if result.failure is not None:
                    raise RunFailed(result.failure, result.exit_code)
                return
            ended[policy] = Contender(policy, summary_in(pairs[policy].folder), result.failure)
            progress.ended(policy, story(ended[policy], result.duration_s))

        try:
            work_through(executor, tasks(), done)
        except Interrupted as error:
            if single:
                raise
            stop = error
    stopped = {policy: Contender(policy, None, f"stopped by {stop}") for policy in pairs}
    return list((stopped | ended).values()), stop


def folder_name(policy: str) -> str:
    """Return a policy's folder name: its own name, with package.module:Class made safe for a path."""
    return re.sub(r"[^\w.-]", "_", policy)


def pair(chosen: argparse.Namespace, policy: str, *, logged: bool) -> Pair:
    """Return the commands of a policy; results go to the policy's folder."""
    folder, files = chosen.out / folder_name(policy), files_in(chosen.out)
    prefix = str(folder / "run")
    name, options = decider(chosen, policy)
    serve = ["serve", "-s", "tcp://127.0.0.1:0", "--policy", name]
    serve += ["-o", options] if options is not None else []
    known = [*files.plan_options(chosen), *files.forecast_options(chosen)]
    serve += ["--site", files.site, *known, "-e", prefix, "--timeout", "60"]
    batsim = ["batsim", "-p", files.platform, "-w", files.workload, "--events", files.power]
    batsim += ["--forward-unknown-events", "-E", "-e", prefix]
    return Pair(folder, serve, batsim, logged)


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
