"""Evaluate learned compensation: agents, chance and the fixed policies on executions not used in training.

Started by scripts/reproduce_learning, which makes the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from console import SEED, count, exit_code_of

from beasy_sched.cli.options import print_line
from beasy_sched.cli.progress import progress_bar
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign
from beasy_sched.plugins.campaigns.folder import must_be_empty
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS, PolicyPart, Scenario
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.plugins.learned.model import Model
from studies.claims import judge
from studies.command_line import STOPPED, cautions, parser_of, present, read_arguments, run_progress, span
from studies.comparison.study import Extent
from studies.learning.claims import (
    CLAIMS,
    LearningResults,
    case_tables,
    learning_claim_table,
    results_of_cases,
)
from studies.learning.figures import learning_figures, preference_tables
from studies.learning.study import Evaluation, learned_models, reward_levels

FIRST_SEED, QUICK_FIRST_SEED = 9000, 5000
"""A trial uses other seeds, so that it gives away nothing of the results."""
PAIRS, NOISES, VARIATION_NOISES, VARIATION_EPISODES = 10, 10, 2, 40
AGENT = "beasy_sched.learning:Agent"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "learning",
        "Evaluate learned compensation (Chapter 5 of the thesis): random, the four fixed policies, "
        "q-learning and bandit on the average and the critical cases, on days and noise seeds not used in "
        "training; Q-learning trained without each feature, without shaping, and with gamma = 0; learning "
        "curves, preferred actions, and three claims. Completed runs and trainings are not repeated.",
        quick="one day, fewer jobs, one noise seed, three variations that hardly learn; not conclusive",
        out="out/learning",
    )
    add = parser.add_argument
    add("--pairs", type=count(1), default=PAIRS, metavar="N", help="pairs of workload and sky of the average "
        "cases, each with a plan (default: %(default)s)")  # fmt: skip
    add("--noises", type=count(1), default=NOISES, metavar="N",
        help="noise seeds of each pair, and of each critical case (default: %(default)s)")  # fmt: skip
    add("--variation-noises", type=count(0), default=VARIATION_NOISES, metavar="N",
        help="noise seeds of each pair for the variations of Q-learning; 0: none "
        "(default: %(default)s)")  # fmt: skip
    add("--variation-episodes", type=count(1), default=VARIATION_EPISODES, metavar="N",
        help="episodes that they learn from (default: %(default)s)")  # fmt: skip
    add("--first-seed", type=SEED, metavar="N",
        help=f"first seed of the pairs and of the noise (default: {FIRST_SEED})")  # fmt: skip
    add("--agent", type=Path, metavar="FILE",
        help="also evaluate an agent (PPO) of stable-baselines3, which must be installed")  # fmt: skip
    chosen = read_arguments(parser, arguments)
    chosen.out = chosen.out or Path("out/learning-quick" if chosen.quick else "out/learning")
    try:
        chosen.evaluation = evaluation_of(chosen)
    except BeasyError as error:
        parser.error(str(error))
    return chosen


def evaluation_of(chosen: argparse.Namespace) -> Evaluation:
    """Return what is to be evaluated. Raises ConfigError for seeds that belong to training."""
    first = chosen.first_seed
    if first is None:
        first = QUICK_FIRST_SEED if chosen.quick else FIRST_SEED
    pairs, noises = (1, 1) if chosen.quick else (chosen.pairs, chosen.noises)
    extent = Extent(
        range(first, first + noises),
        range(first, first + pairs),
        noises,
        PAPER_GUARDS[:1],
        small=chosen.quick,
    )
    others: tuple[PolicyPart, ...] = ()
    if chosen.agent is not None:
        others = (PolicyPart(name=AGENT, label="ppo", options={"model": str(chosen.agent.resolve())}),)
    return Evaluation(extent, min(chosen.variation_noises, noises), chosen.variation_episodes, others)


def reproduce(chosen: argparse.Namespace) -> int:
    """Reproduce the study; return the exit code."""
    evaluation: Evaluation = chosen.evaluation
    if not (chosen.out / "main").is_dir():
        must_be_empty(chosen.out, "an earlier evaluation")
    campaigns = [run(chosen, "main", evaluation.scenarios())]
    if evaluation.variations:
        campaigns.append(run(chosen, "variations", evaluation.varied(train(chosen, evaluation))))
    results = results_of_cases(*(campaign.runs for campaign in campaigns))
    if not results:
        raise BeasyError(f"no execution is complete: see 'beasy-sched campaign status {chosen.out / 'main'}'")
    models = learned_models()
    levels = {} if chosen.quick else _levels(chosen, models)
    origin = provenance(chosen, campaigns, models)
    figures = learning_figures(models, levels, results)
    present(chosen, "Learned compensation", tables(results, models), origin, figures, columns=140)
    return int(any((campaign.runs["status"] != "ok").any() for campaign in campaigns))


def train(chosen: argparse.Namespace, evaluation: Evaluation) -> dict[str, Path]:
    """Train all variations, or what is left of them; return the files of the models."""
    with progress_bar("training") as report:
        return evaluation.train(chosen.out.resolve() / "models", Processes(chosen.jobs), report)


def run(chosen: argparse.Namespace, name: str, scenarios: Sequence[Scenario]) -> Campaign:
    """Run a campaign, or what is left of it."""
    folder, started = chosen.out / name, time.monotonic()
    begin(scenarios, folder)
    with run_progress(name) as progress:
        outcome = go_on(folder, Processes(chosen.jobs), progress=progress, allowed=[AGENT])
    print_line(
        f"{name}: {outcome.runs} runs, {outcome.executed} executed in {time.monotonic() - started:.0f} s, "
        f"{outcome.failed} failed; {folder / 'runs.parquet'}"
    )
    return read_campaign(folder)


def _levels(chosen: argparse.Namespace, models: Mapping[str, Model]) -> dict[str, float]:
    """The rewards of `random` and of the fixed policies at the end of training."""
    model = next(iter(models.values()))
    with progress_bar("rewards of the fixed policies") as report:
        return reward_levels(chosen.out / "levels.json", model, Processes(chosen.jobs), report)


def tables(results: LearningResults, models: Mapping[str, Model]) -> Iterator[TextTable]:
    """Yield all tables, the claims first."""
    yield learning_claim_table(judge(CLAIMS, results))
    yield from case_tables(results)
    yield from preference_tables(models)


def provenance(chosen: argparse.Namespace, campaigns: Sequence[Campaign], models: Mapping[str, Model]) -> str:
    """Return the source of the numbers, in a few lines."""
    extent: Extent = chosen.evaluation.extent
    lines = [
        f"{sum(len(campaign.runs) for campaign in campaigns)} runs; noise: seeds {span(extent.seeds)}; "
        f"days of the average cases: seeds {span(extent.days)}; guard kill-all without veto.",
        f"Variations: {_trained(chosen.evaluation)}",
        *(
            f"{name}: {model.training.episodes} episodes on days of the seeds {model.training.days[0]} to "
            f"{model.training.days[1]}, noise seeds {model.training.noises[0]} to {model.training.noises[1]}."
            for name, model in models.items()
        ),
        f"{sum(campaign.timings['cpu_s'].sum() for campaign in campaigns):.0f} s of CPU time for the runs.",
        *cautions(extent, "A quick evaluation"),
    ]
    return "\n".join(lines)


def _trained(evaluation: Evaluation) -> str:
    names = evaluation.variations
    if not names:
        return "none."
    lesson, _ = evaluation.lesson()
    return f"{lesson.episodes} episodes; {evaluation.variation_noises} noise seeds per pair of days."


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("reproduce_learning", lambda: reproduce(chosen), stopped=STOPPED)
