"""``beasy-sched recover``: recover the files of a killed run."""

from __future__ import annotations

import click

from beasy_sched.cli.options import CommandOptions, option, print_written, with_options


class _RecoverOptions(CommandOptions):
    quiet: bool = option("Do not list the written files.", "-q")


@click.command()
@click.argument("prefix")
@with_options(_RecoverOptions)
def recover(given: _RecoverOptions, prefix: str) -> None:
    """Recover the output files of a killed run up to its last completed window.

    PREFIX is the output prefix (-o) of the run. A run of several windows saves its files at the end of each
    window; if it is killed later, or the computer stops, they exist as .NAME.part, up to that time. This
    command renames them to those of a failed run, PREFIX_failed_..., for 'explain' and 'report'; results of
    an earlier run are kept. The summary states that the run is incomplete, and has no energy figures. The
    next run with the same prefix would remove the .part files.

    \b
      beasy-sched recover out/run
      beasy-sched explain out/run_failed --at 20d
    """
    from beasy_sched.outputs.files import recover as recover_files

    print_written(*recover_files(prefix), quiet=given.quiet)
