"""Output of findings: a table, lines on stderr, or JSON; and their exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from beasy_sched.findings import Finding, Level

_WIDTH: Final = 80
_VERDICTS: Final = ("ok", "warnings", "errors")
"""By exit code."""


def show_findings(
    rows: Iterable[tuple[str, str]],
    findings: Iterable[Finding],
    figures: Mapping[str, Any],
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Print facts (name and value) and findings, errors first; return the exit code.

    ``figures`` are the facts of the JSON. Quiet: only the findings, on stderr. The code is 0
    without findings, 1 with warnings, 2 with errors.
    """
    findings = sorted(findings, key=lambda finding: finding.level is Level.ODD)
    code = 0 if not findings else 1 if all(finding.level is Level.ODD for finding in findings) else 2
    if as_json:
        report = {
            "verdict": _VERDICTS[code],
            "figures": figures,
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(report, indent=2, allow_nan=False))
    elif quiet:
        for finding in findings:
            label = "warning" if finding.level is Level.ODD else "error"
            click.echo(f"{label}: {finding.text}", err=True)
    else:
        _print_table(rows, findings, code)
    return code


def _print_table(rows: Iterable[tuple[str, str]], findings: Sequence[Finding], code: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name, "bold"), Text(value))
    for number, finding in enumerate(findings):
        if number == 0 and table.row_count:
            table.add_row()
        style = "yellow" if finding.level is Level.ODD else "red"
        table.add_row(Text(finding.level.value, style), Text(finding.text))
    table.add_row()
    table.add_row(Text("verdict", "bold"), Text(_VERDICTS[code], ("green", "yellow", "red")[code]))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    text = io.StringIO()
    Console(file=text, width=_WIDTH, highlight=False).print(table)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())
