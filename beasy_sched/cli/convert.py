"""``beasy-sched convert``: files of Batsim 4 for Batsim 5 and back, and results for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from beasy_sched.cli.options import (
    CommandOptions,
    option,
    output_option,
    print_line,
    print_written,
    with_options,
    write_output,
)
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.model.choices import BatsimFormat


class _ConvertOptions(CommandOptions):
    output: str = output_option("file")
    form: BatsimFormat = option("Batsim version to write.", "--format", default="batsim5")
    name: str = option(
        "Name of the workload in Batsim: w0 for the first -w, w1 for the second.",
        "--workload-name",
        metavar="NAME",
        default="w0",
    )
    swf: bool = option(
        "FILE is a run, or a folder of runs: write what happened in the Standard Workload Format; of several"
        " runs, one file each in the folder given by -o."
    )
    jobs: bool = option(
        "FILE is a run, or a folder of runs, such as a comparison: write a table of their jobs with times,"
        " energy and mean power, as CSV, or as Parquet if the name given by -o ends in .parquet."
    )
    quiet: bool = option("Do not report the changes.", "-q")


@click.command()
@click.argument("source", metavar="FILE")
@with_options(_ConvertOptions)
def convert(given: _ConvertOptions, source: str) -> None:
    """Convert a workload or an events file of Batsim 4 for Batsim 5 or back, or results for other programs.

    The type and version of FILE are detected from its content. Platform files are the same for both versions.
    All commands of beasy-sched read the files of either version; only Batsim itself requires its own.

    \b
    In the files of Batsim 5,
      - types of profiles have other names (delay: DelayProfile);
      - a job without a limit has no walltime: -1 is not accepted;
      - fields of jobs and profiles that Batsim does not define go into extra_data, a string;
      - names of profiles must not contain the workload's (w0): such profiles are renamed;
      - all external events are of the type generic, with a string as data.

    \b
      beasy-sched convert workload.json -o workload5.json
      beasy-sched convert power.txt -o power5.txt
      beasy-sched convert workload5.json --format batsim4 -o workload.json
      beasy-sched convert out/run/beasy --swf -o beasy.swf
      beasy-sched convert out/run --jobs -o jobs.csv
    """
    if given.swf or given.jobs:
        _results(given, source)
        return
    from beasy_sched.formats.batsim_events import event_lines_for
    from beasy_sched.formats.decoding import JsonDecoder, Malformed
    from beasy_sched.formats.reading import read_bytes

    data = read_bytes(source)
    if not data.strip():
        raise InputError(source, "is empty, expected a workload or an events file")
    if data.lstrip()[:1] == b"<":
        raise InputError(
            source, "is XML: platform files are the same for both versions and need no conversion"
        )
    try:
        whole: Any = JsonDecoder(Any).decode(data)
    except Malformed:
        whole = None
    if isinstance(whole, dict) and "type" not in whole:
        notes = _workload(given, source, whole)
    else:
        write_output(given.output, list(event_lines_for(given.form, source, data)))
        notes = []
    if not given.quiet:
        for note in (f"wrote {given.output}", *notes):
            click.echo(note, err=True)


def _results(given: _ConvertOptions, source: str) -> None:
    """Write the results of runs for other programs."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.file_set import together
    from beasy_sched.run.exports import (
        PARQUET,
        csv_pieces,
        failed_among,
        jobs_with_energy,
        parquet_bytes,
        swf_pieces,
    )
    from beasy_sched.run.results import find_runs

    def note(text: str) -> None:
        if not given.quiet:
            print_line(f"note: {text}")

    if given.swf and given.jobs:
        raise click.UsageError("--swf and --jobs write different files: give one of them")
    runs = find_runs([source])
    if failed := failed_among(runs.values()):
        note(f"without the runs that failed: {', '.join(failed)}")
        runs = find_runs([prefix for prefix in runs.values() if prefix not in failed])
    if given.jobs:
        rows = (row for name, prefix in runs.items() for row in jobs_with_energy(name, prefix, note))
        is_parquet = given.output.endswith(PARQUET)
        write_output(given.output, [parquet_bytes(rows)] if is_parquet else csv_pieces(rows))
        print_written(given.output, quiet=given.quiet)
        return
    if len(runs) == 1:
        (prefix,) = runs.values()
        write_output(given.output, swf_pieces(prefix, note))
        print_written(given.output, quiet=given.quiet)
        return
    if given.output == "-" or Path(given.output).is_file():
        raise click.UsageError(
            f"{source} has {len(runs)} runs, and a file of SWF has one: name a run, such as"
            f" {next(iter(runs.values()))}, or give a folder as -o"
        )
    folder = Path(given.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"-o {folder}: {error.strerror or error}; choose another folder") from None
    with together():
        paths = {name: folder / f"{name.replace('/', '-')}.swf" for name in runs}
        for name, prefix in runs.items():
            write_atomic(paths[name], swf_pieces(prefix, note))
    print_written(*paths.values(), quiet=given.quiet)


def _workload(given: _ConvertOptions, source: PathLike, raw: dict[str, Any]) -> list[str]:
    """Write a workload; return notes for the user."""
    from beasy_sched.formats.batsim_versions import is_of_batsim5, workload_for_batsim4, workload_for_batsim5

    profiles = raw.get("profiles")
    new = isinstance(profiles, dict) and is_of_batsim5(profiles)
    form = BatsimFormat.BATSIM5 if new else BatsimFormat.BATSIM4
    if form is given.form:
        raise InputError(source, f"is already a workload of {form.label}")
    try:
        if given.form is BatsimFormat.BATSIM5:
            made, notes = workload_for_batsim5(raw, given.name)
        else:
            made, notes = workload_for_batsim4(raw)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    write_output(given.output, _workload_pieces(made))
    return notes


def _workload_pieces(made: dict[str, Any]) -> Iterator[bytes]:
    """Return the JSON of a workload, one job and one profile per line."""
    encode = msgspec.json.Encoder().encode
    rest = {key: value for key, value in made.items() if key not in ("jobs", "profiles")}
    yield b"{" + b"".join(b"%s:%s," % (encode(key), encode(value)) for key, value in rest.items())
    yield b'"jobs":[\n' + b",\n".join(map(encode, made["jobs"]))
    lines = (b"%s:%s" % (encode(name), encode(profile)) for name, profile in made["profiles"].items())
    yield b'\n],"profiles":{\n' + b",\n".join(lines) + b"\n}}\n"
