"""``beasy-sched plan``: forecasts and a site become a plan; ``plan show``: look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beasy_sched.cli.plan_options import PlanOptions, export_options, plan_options

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@plan_options
@export_options
@click.pass_context
def plan(context: click.Context, /, **values: Any) -> None:
    """Plan power and servers for the days to come, from forecasts of demand and production.

    The demand comes from a workload (each job's energy over its expected run) or from a file of powers;
    the production from a file of powers. Where not everything can be served, the plan asks the least
    of each step (the relax factor rf), then of all together.

    \b
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --synthetic --seed 1 --pv-kw 15 --wind-kw 8 -o power.txt
      beasy-sched plan -p platform.xml -w workload.json --production power.txt \\
          -o plan.msgpack --figure plan.png
      beasy-sched plan show plan.msgpack
    """
    if context.invoked_subcommand is not None:
        return
    exports = {name: values.pop(name) for name in ("export_json", "export_csv", "figure")}
    quiet = values.pop("quiet")
    options = PlanOptions(**values)
    from beasy_sched.cli.plan_run import make_plans
    from beasy_sched.formats.plan_file import write_plans

    plans = make_plans(options, quiet=quiet)
    assert options.out is not None
    write_plans(options.out, plans)
    written = [options.out, *_export(plans, **exports)]
    if not quiet:
        _tell(plans)
        for path in written:
            click.echo(f"wrote {path}", err=True)


@plan.command()
@click.argument("file", type=_FILE)
@export_options
def show(file: Path, quiet: bool, **exports: Path | None) -> None:
    """Print what a plan file holds, and export it."""
    from beasy_sched.formats.plan_file import read_plans

    plans = read_plans(file)
    written = _export(plans, **exports)
    if not quiet:
        _tell(plans)
        for path in written:
            click.echo(f"wrote {path}", err=True)


def _export(plans: Any, export_json: Path | None, export_csv: Path | None, figure: Path | None) -> list[Path]:
    """Write what was asked for. Returns the files."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.plan_export import csv_lines, json_text

    if export_json is not None:
        write_atomic(export_json, json_text(plans))
    if export_csv is not None:
        write_atomic(export_csv, csv_lines(plans))
    if figure is not None:
        from beasy_sched.report.plan_figure import draw_plan

        write_atomic(figure, draw_plan(plans, figure.suffix))
    return [path for path in (export_json, export_csv, figure) if path is not None]


def _tell(plans: Any) -> None:
    """Print the summary."""
    from beasy_sched.outputs.plan_table import plan_rows
    from beasy_sched.outputs.table import print_rows

    print_rows([*plan_rows(plans)])
