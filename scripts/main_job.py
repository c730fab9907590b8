"""The main job of beasy-sched: inputs and a plan, then policies on the same days, and one table.

Started by scripts/run, which makes the environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Sequence

from run_inputs import (
    FORECAST_NAMES,
    INPUT_NAMES,
    PLAN_NAMES,
    check_inputs,
    make_inputs,
    make_plan,
    scenario,
)
from run_options import parse_arguments
from run_policies import check_policies, folder_name, run_one, run_several
from two_processes import RunFailed, Stopped

from beasy_sched.errors import BeasyError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.outputs.tables import Contender, comparison_lines, comparison_markdown, conditions

TABLE_NAME = "comparison.md"


def run(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    check_policies(chosen)
    inputs = make_inputs(chosen)
    plan = make_plan(chosen, inputs)
    check_inputs(inputs, plan)
    if len(chosen.policies) == 1 and not chosen.markdown:
        run_one(chosen, inputs, plan)  # the scheduler prints what it came to
        print_text(f"The days: {scenario(chosen)}")
        list_files(chosen, f"results in {folder_name(chosen.policies[0])}/run_*")
        return 0
    contenders, stopped_by = run_several(chosen, inputs, plan)
    text = markdown(chosen, contenders)
    write_atomic(chosen.out / TABLE_NAME, text)
    if chosen.markdown:
        print(text, end="", flush=True)
    else:
        print_table(chosen, contenders)
        list_files(chosen, f"the table in {TABLE_NAME}; results in POLICY/run_*")
        example = chosen.out / folder_name(chosen.policies[0])
        print_text(f"What became of a job, and why: beasy-sched explain {example} --job 17")
        charts = f"beasy-sched report {chosen.out} -o {chosen.out / 'report.html'}"
        print_text(f"Charts of all of it (pip install '.[report]'): {charts}")
    if stopped_by:
        raise Stopped(stopped_by)
    return int(any(contender.problem for contender in contenders))


def print_table(chosen: argparse.Namespace, contenders: Sequence[Contender]) -> None:
    """Print the comparison, and what was compared."""
    print("", *comparison_lines(contenders, width()), "", sep="\n")
    days, site = caption(chosen, contenders)
    print_text(f"The days: {days}")
    print_text(f"The site: {site}")


def caption(chosen: argparse.Namespace, contenders: Sequence[Contender]) -> tuple[str, str]:
    """Return what the days are like, and what else changes results."""
    return scenario(chosen), "; ".join(conditions(contenders)) or "no run is complete"


def markdown(chosen: argparse.Namespace, contenders: Sequence[Contender]) -> str:
    """Return the comparison in Markdown, with its caption."""
    days, site = caption(chosen, contenders)
    return f"The days: {days}. The site: {site}.\n\n{comparison_markdown(contenders)}"


def list_files(chosen: argparse.Namespace, results: str) -> None:
    """Say what was written where."""
    inputs = [chosen.out / name for name in (*INPUT_NAMES, *FORECAST_NAMES, *PLAN_NAMES)]
    names = ", ".join(path.name for path in inputs if path.exists())
    print_text(f"Files in {chosen.out}: {names}; {results}")


def print_text(text: str) -> None:
    """Print a sentence in as many lines as it needs."""
    wrapped = textwrap.fill(
        text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    print(wrapped, flush=True)


def width() -> int:
    """Return how many columns there are to print on."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def main() -> int:
    """Read the command line, run, and say in a line what went wrong; return the exit code."""
    chosen = parse_arguments()
    try:
        return run(chosen)
    except (RunFailed, BeasyError, Stopped) as error:
        print(f"run: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the table has had enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except FileExistsError as error:
        print(f"run: --out {chosen.out}: {error.filename} is no folder: name another one", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"run: {where}{error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run: SIGINT", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
