"""``beasy-sched learn``: train an agent that chooses compensation policies; ``learn show``: print one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from beasy_sched.cli import HelpfulGroup
from beasy_sched.cli.options import (
    COUNT,
    FILE,
    SEED,
    CommandOptions,
    Number,
    option,
    print_written,
    with_options,
    written_option,
)
from beasy_sched.cli.progress import ProgressOptions, progress_bar
from beasy_sched.plugins.campaigns.commands.campaign import JobsOption, unless_stopped
from beasy_sched.plugins.learned.feature_names import FEATURES

if TYPE_CHECKING:
    from beasy_sched.plugins.learned.model import Model


_POLICIES = ("last", "next", "peak", "workload")


class _LearnOptions(CommandOptions):
    policy: Literal["q-learning", "bandit"] = option("Learning algorithm.", default="q-learning")
    scenario: tuple[str, ...] = option(
        "Scenario file, or the name of a built-in scenario; may be repeated.",
        metavar="NAME",
        default=("average",),
    )
    episodes: int = option("Number of training runs.", type=COUNT, default=200)
    seed: int = option("Seed of the random exploration.", type=SEED, default=1)
    first_seed: int = option("First seed of the training days and of the noise.", type=SEED, default=10_000)
    out: Path | None = written_option(
        "Model file to write; training of an unfinished model continues.", "-o", "--output"
    )
    figure: Path | None = written_option(
        "Plot the learning curve together with the fixed policies (PNG, SVG or PDF)."
    )
    gamma: float = option("Discount factor of rewards, per five minutes.", type=Number(0, 1), default=0.998)
    double: bool = option("Use double Q-learning (two tables).")
    none: bool = option('Add "do nothing" to the actions.')
    reward: Literal["jobs", "work"] = option(
        "Reward: finished jobs minus twice the killed jobs, counted as jobs or as work.",
        default="jobs",
    )
    no_shaping: bool = option("Do not reward the distance from the target.")
    reference: str = option(
        "Policy whose rewards in the same execution are subtracted; each episode takes a second run.",
        type=click.Choice(("none", *_POLICIES)),
        default="last",
    )
    trace: float = option(
        "Lambda of Q-learning: 1 learns from whole windows, 0 step by step.",
        type=Number(0, 1),
        default=1.0,
    )
    step_by_step: bool = option("Explore per step instead of choosing one action per episode.")
    without: tuple[str, ...] = option(
        "Feature to hide from the agent; may be repeated.", type=click.Choice(FEATURES), multiple=True
    )
    jobs: int = JobsOption.jobs
    quiet: bool = ProgressOptions.quiet
    verbose: bool = ProgressOptions.verbose


@click.group(cls=HelpfulGroup, invoke_without_command=True)
@with_options(_LearnOptions)
@click.pass_context
def learn(context: click.Context, given: _LearnOptions) -> None:
    """Train an agent that chooses which compensation policy acts: peak, next, last or workload.

    It is trained on executions of scenarios on separate days (seeds from 10000). Ctrl-C keeps the state of
    the training; rerunning the command resumes it and gives the same result.

    \b
      beasy-sched learn --policy q-learning --scenario average -o model.msgpack --figure curve.png
      beasy-sched learn show model.msgpack
      beasy-sched simulate ... --plan plan.msgpack --policy q-learning --option model=model.msgpack
    """
    if context.invoked_subcommand is not None:
        return
    from beasy_sched.plugins.reports.drawing import check_figure

    if given.out is None:
        raise click.UsageError("missing option '-o' / '--output': name the model file to write")
    if given.figure is not None:
        check_figure(given.figure)
    model = _train(given, given.out)
    if given.figure is not None:
        _draw(given, model, given.figure)
    if not given.quiet:
        _show(model)
        print_written(given.out, given.figure)


def _train(given: _LearnOptions, out: Path) -> Model:
    """Train from the state of the file; save each batch."""
    from beasy_sched.plugins.campaigns.processes import Processes
    from beasy_sched.plugins.campaigns.scenario_file import find_scenario
    from beasy_sched.plugins.learning.training import Lesson, learn_to_file

    lesson = Lesson(
        given.policy,
        given.episodes,
        seed=given.seed,
        first_seed=given.first_seed,
        gamma=given.gamma,
        double=given.double,
        none=given.none,
        reward=given.reward,
        shaped=not given.no_shaping,
        reference="" if given.reference == "none" else given.reference,
        trace=given.trace,
        rules=not given.step_by_step,
        without=tuple(sorted(given.without)),
    )
    scenarios = [find_scenario(name) for name in given.scenario]
    with (
        unless_stopped("run the same command again"),
        progress_bar("episodes", quiet=given.quiet) as report,
    ):
        return learn_to_file(out, lesson, scenarios, Processes(given.jobs), report=report)


def _draw(given: _LearnOptions, model: Model, path: Path) -> None:
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.plugins.campaigns.processes import Processes
    from beasy_sched.plugins.campaigns.scenario_file import find_scenario
    from beasy_sched.plugins.learning.learning_figure import draw_learning
    from beasy_sched.plugins.learning.training import level_lines

    scenarios = [find_scenario(name) for name in given.scenario]
    with progress_bar("fixed policies", quiet=given.quiet) as report:
        levels = level_lines(model, scenarios, Processes(given.jobs), report=report)
    title = f"{model.learner}: {', '.join(model.training.scenarios)}"
    write_atomic(path, draw_learning(model.curve, levels, title, path.suffix))


@learn.command()
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(file: Path, as_json: bool) -> None:
    """Print how a model was trained and which action it prefers in each state."""
    from beasy_sched.plugins.learned.model import read_model

    model = read_model(file)
    if not as_json:
        _show(model)
        return
    from beasy_sched.plugins.learning.preferences import model_rows, preference_table

    click.echo(json.dumps({**dict(model_rows(model)), "preferences": preference_table(model)}, indent=2))


def _show(model: Model) -> None:
    from beasy_sched.outputs.tables import print_rows
    from beasy_sched.plugins.learning.preferences import model_rows, preference_lines

    print_rows([*model_rows(model)])
    sys.stdout.write("\n" + "\n".join(preference_lines(model)) + "\n")
