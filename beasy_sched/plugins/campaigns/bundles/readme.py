"""A bundle's README: its content, how to check it, and how to rerun it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beasy_sched.plugins.campaigns.bundles import layout
from beasy_sched.plugins.campaigns.bundles.crate import NO_LICENCE, BundleStory
from beasy_sched.plugins.campaigns.scenario import Scenario


def readme_text(story: BundleStory, scenarios: Sequence[Scenario], results: Sequence[str]) -> str:
    """Return the README; ``results`` are the lines of a table of mean results."""
    return "\n".join(_lines(story, scenarios, results)) + "\n"


def _lines(story: BundleStory, scenarios: Sequence[Scenario], results: Sequence[str]) -> Iterator[str]:
    about = story.description
    yield f"# {story.title}"
    yield ""
    yield (
        f"{about.runs} simulated runs of an HPC cluster on renewable power, made with beasy-sched "
        f"{about.version} on Python {about.python} ({about.system}); the campaign was finished on "
        f"{story.ended:%Y-%m-%d}."
    )
    yield from _cautions(story)
    yield ""
    if story.authors:
        yield f"Authors: {', '.join(story.authors)}. "
    yield f"Licence: {story.licence or NO_LICENCE}"
    yield ""
    yield "## Scenarios"
    yield ""
    for scenario, place in zip(scenarios, about.scenarios, strict=True):
        comment = f": {scenario.comment}" if scenario.comment else ""
        yield f"- [{scenario.name}]({place}){comment}. {_counts(scenario)}."
    yield ""
    yield "## Results"
    yield ""
    yield "Means over the successful runs:"
    yield ""
    yield "```text"
    yield from results
    yield "```"
    yield ""
    yield "## Contents"
    yield ""
    yield "| path | content |"
    yield "|---|---|"
    for place, content in _places(story):
        yield f"| `{place}` | {content} |"
    yield ""
    yield from _how_to(story)


def _cautions(story: BundleStory) -> Iterator[str]:
    if story.description.failed:
        yield f"{story.description.failed} of the runs failed: column `status` of the table of runs."
    if story.quick:
        yield "The scenarios are the quick versions for trials (`--quick`)."


def _counts(scenario: Scenario) -> str:
    policies = ", ".join(policy.label for policy in scenario.policies)
    guards = ", ".join(guard.label for guard in scenario.guards)
    return (
        f"Pairs of workload and production: {len(scenario.tuples)}; seeds: {len(scenario.seeds)}; "
        f"guards: {guards}; policies: {policies}"
    )


def _places(story: BundleStory) -> Iterator[tuple[str, str]]:
    yield (
        f"{layout.SCENARIOS}/",
        "the scenarios with all defaults filled in; `files/`, if it exists: the files named in them",
    )
    yield (
        f"{layout.INPUTS}/",
        "input files of the runs: platforms (SimGrid), workloads (Batsim), power, sites, plans",
    )
    yield layout.TABLE, f"one row per run; `{layout.TABLE_CSV}` is the same as CSV"
    yield layout.COLUMNS_CSV, "type, unit and meaning of each column"
    yield layout.TIMINGS, "duration of each run"
    if story.description.keep == "trace":
        yield f"{layout.RESULTS}/traces/", "energy trace of each run, one row per step"
    if story.description.keep == "everything":
        yield f"{layout.RESULTS}/runs/", "jobs, schedule, energy trace, decisions and summary of each run"
    yield f"{layout.SOFTWARE}/", "the program as a wheel; the versions of all packages that it used"
    if story.description.policies:
        yield f"{layout.POLICIES}/", "modules of policies that are not built in"
    yield layout.METADATA, "this description in machine-readable form: RO-Crate 1.1, Process Run Crate 0.5"
    yield layout.SUMS, "SHA-256 of every other file"


def _how_to(story: BundleStory) -> Iterator[str]:
    allow = "".join(f" --allow-policy {name}" for name in story.description.policies)
    install, run = story.commands
    yield from (
        "## Checking",
        "",
        "In this folder:",
        "",
        f"    sha256sum -c {layout.SUMS}",
        "",
        "## Rerunning the campaign",
        "",
        f"    beasy-sched campaign rerun{allow} THIS_FOLDER",
        "",
        f"creates a virtual environment with the versions in `{layout.REQUIREMENTS}`, runs everything",
        "again, and compares all inputs and results byte by byte, except for the durations of runs",
        f"and plans (`{layout.TIMINGS}`; columns of `schedule.csv` and `plans.csv`), which differ. On",
        "another kind of processor, last digits can differ.",
        "",
        f"Manually, in this folder and a new virtual environment of Python {story.description.python_minor}:",
        "",
        f"    {install}",
    )  # fmt: skip
    if story.description.policies:
        yield f"    export PYTHONPATH=$PWD/{layout.POLICIES}"
    yield from (f"    {run}", f"    cmp ../again/runs.parquet {layout.TABLE}")
