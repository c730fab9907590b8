"""``beasy-sched campaign bundle`` and ``rerun``: package a campaign, and reproduce one."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from beasy_sched.cli.options import FOLDER, CommandOptions, again, option, with_options
from beasy_sched.cli.progress import ProgressOptions, counting, progress_bar
from beasy_sched.errors import Interrupted
from beasy_sched.plugins.campaigns.commands.campaign import JobsOption, unless_stopped

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns.bundles.layout import Bundle


class _BundleOptions(CommandOptions):
    out: Path | None = option(
        "Folder to create.", "-o", "--output", type=FOLDER, metavar="BUNDLE", show_default="DIR-bundle"
    )
    title: str = option("Title of the bundle.", default="", show_default="the scenarios' names")
    authors: tuple[str, ...] = option(
        "Author, such as 'Ada Byron <0000-0002-1825-0097>', with or without an ORCID; may be repeated.",
        "--author",
        metavar="NAME",
    )
    licence: str = option(
        "Licence of the data: a URL, such as https://spdx.org/licenses/CC-BY-4.0, or a name.",
        "--license",
        default="",
        show_default="not stated",
    )
    quiet: bool = option("Do not list the written files.", "-q")


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@with_options(_BundleOptions)
def bundle(given: _BundleOptions, folder: Path) -> None:
    """Package a finished campaign for publication: inputs, versions, commands, hashes, tables (an RO-Crate).

    \b
      beasy-sched campaign bundle out/begin -o paper --author 'Ada Byron' --license CC-BY-4.0
      beasy-sched campaign rerun paper

    The bundle is self-contained: it includes the program and a README.
    """
    from beasy_sched.formats.reading import read_bytes
    from beasy_sched.plugins.campaigns.bundles.layout import SUMS, sha256
    from beasy_sched.plugins.campaigns.bundles.writing import Credits, write_bundle

    out = given.out or folder.with_name(f"{folder.resolve().name}-bundle")
    made = write_bundle(folder, out, Credits(given.title, given.authors, given.licence))
    if not given.quiet:
        runs = f"{made.description.runs} runs" + (
            f", of which {made.description.failed} failed" if made.description.failed else ""
        )
        click.echo(
            f"wrote {out}: {runs}, {len(made.sums) + 1} files; to verify it: beasy-sched campaign rerun {out}"
        )
        click.echo(f"SHA-256 of {SUMS}, which has those of all files: {sha256(read_bytes(out / SUMS))}")


class _RerunOptions(CommandOptions):
    out: Path | None = option(
        "Keep the runs, in the folder DIR/campaign.",
        "-o",
        "--output",
        type=FOLDER,
        metavar="DIR",
        show_default="remove them",
    )
    environment: Literal["fresh", "present"] = option(
        "A new virtual environment with the versions of the bundle, or the installed packages.",
        default="fresh",
    )
    python: str | None = option(
        "Python for the new environment.", metavar="PYTHON", show_default="the bundle's version"
    )
    jobs: int = JobsOption.jobs
    allowed: tuple[str, ...] = option(
        "Allow the bundle to execute this policy's code.", "--allow-policy", metavar="MODULE:CLASS"
    )
    quiet: bool = again(ProgressOptions.quiet, help="No progress; report only differences.")
    verbose: bool = ProgressOptions.verbose


@click.command()
@click.argument("folder", type=FOLDER, metavar="BUNDLE")
@with_options(_RerunOptions)
def rerun(given: _RerunOptions, folder: Path) -> None:
    """Run a bundle's campaign again, and compare all inputs and results byte by byte.

    A bundle contains the program that made it, which the fresh environment runs: rerun only bundles whose
    authors you trust. Run times are not compared, nor version fields if other versions are installed. The
    exit code is 1 if anything else differs.
    """
    from beasy_sched.plugins.campaigns.bundles.layout import read_bundle
    from beasy_sched.plugins.campaigns.bundles.rerun import check_allowed, fresh_environment, run_in

    if given.python is not None and given.environment == "present":
        raise click.UsageError("--python requires --environment fresh.")
    loaded = read_bundle(folder)
    check_allowed(loaded, given.allowed)
    with contextlib.ExitStack() as held:
        if given.environment == "present":
            temporary = tempfile.TemporaryDirectory(prefix="beasy-rerun-", ignore_cleanup_errors=True)
            _rerun_here(given, loaded, given.out or Path(held.enter_context(temporary)))
            return
        if not given.quiet:
            about = f"Python {loaded.description.python_minor} and {len(loaded.versions) + 1} packages"
            click.echo(f"creating a virtual environment with {about} ...", err=True)
        with unless_stopped(None):
            python = held.enter_context(fresh_environment(loaded, given.python))
        try:
            code = run_in(python, _as_arguments(given, folder))
        except KeyboardInterrupt:  # the other program has reported it
            sys.exit(128 + signal.SIGINT)
        except Interrupted as stop:
            sys.exit(128 + stop.number)
    sys.exit(code)


def _as_arguments(given: _RerunOptions, folder: Path) -> list[str]:
    """Return the arguments for the program in the fresh environment, which runs in another folder."""
    arguments = [
        "campaign",
        "rerun",
        str(folder.absolute()),
        "--environment",
        "present",
        "-j",
        str(given.jobs),
    ]
    arguments += [] if given.out is None else ["-o", str(given.out.absolute())]
    arguments += ["-q"] if given.quiet else []
    return arguments + [part for name in given.allowed for part in ("--allow-policy", name)]


def _rerun_here(given: _RerunOptions, bundle: Bundle, out: Path) -> None:
    from beasy_sched.plugins.campaigns.bundles.comparing import other_versions, verdict_lines
    from beasy_sched.plugins.campaigns.bundles.rerun import run_again
    from beasy_sched.plugins.campaigns.processes import Processes
    from beasy_sched.plugins.campaigns.workers import TIME_LIMIT_S

    for name, (theirs, ours) in other_versions(bundle).items():
        click.echo(f"warning: {name} is {ours} here, and {theirs} in the bundle", err=True)
    with (
        unless_stopped(f"beasy-sched campaign rerun {bundle.path} -o {out}" if given.out else None),
        progress_bar("runs", quiet=given.quiet) as report,
    ):
        verdict = run_again(
            bundle,
            out,
            Processes(given.jobs, TIME_LIMIT_S),
            progress=counting(report),
            allowed=given.allowed,
        )
    for line in verdict_lines(verdict):
        if not given.quiet or line.startswith("DIFFERENT"):
            click.echo(line)
    if not verdict.reproduced:
        click.echo(f"{bundle.path}: the campaign is not reproduced", err=True)
        sys.exit(1)
    if not given.quiet:
        click.echo(f"{bundle.path}: the campaign is reproduced: {bundle.description.runs} runs", err=True)
