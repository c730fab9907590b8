"""``beasy-sched recover``: what a run that was killed had done by the end of its last window."""

from __future__ import annotations

import click

from beasy_sched.cli.options import CommandOptions, option, tell_written, with_options


class _RecoverOptions(CommandOptions):
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@click.argument("prefix")
@with_options(_RecoverOptions)
def recover(given: _RecoverOptions, prefix: str) -> None:
    """Make a run of what a killed one had done when its last window ended.

    PREFIX is that of the run's files (-o). A run of several windows hands its files to the system at the end
    of each; if it is killed later, or the machine stops, they are there as .NAME.part, up to that moment.
    This gives them the names of a failed run, PREFIX_failed_..., for 'explain' and 'report'; results of an
    earlier run stay. The summary states that the run is not complete, and has no energies. The next run with
    the same prefix would remove the .part files.

    \b
      beasy-sched recover out/run
      beasy-sched explain out/run_failed --at 20d
    """
    from beasy_sched.outputs.files import recover as recover_files

    tell_written(*recover_files(prefix), quiet=given.quiet)
