"""The HTML report of runs: from their files to the pieces of the page.

The report's HTML: one file that holds all it needs, and that may ask no network for anything.

From the words on the command line to runs: a prefix, one of a run's files, or a folder of runs.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError
from beasy_sched.plan.store import PlanStore
from beasy_sched.report.chart import Absent, Chart
from beasy_sched.report.charts import energy_charts, job_charts
from beasy_sched.report.comparison import curves_together, overall_bars, table
from beasy_sched.report.run_data import RunData, read_run_data
from beasy_sched.results import find_runs

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Content-Security-Policy: nothing is fetched, whatever is in the page."""


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, and pieces of it in order."""

    key: str
    title: str
    parts: Sequence[Chart | Absent | str]
    """Charts, lines for what is not there, and HTML (escaped already)."""
    folded: bool = False


def page(title: str, subtitle: str, sections: Sequence[Section]) -> Iterator[str]:
    """Yield the pieces of the file. Raises ConfigError where plotly is not installed."""
    script = _plotly()
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f"<title>{escape(title)}</title>\n"
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
    yield f"<style>\n{_web('report.css')}</style>\n</head>\n<body>\n<header><h1>{escape(title)}</h1>\n"
    yield f"<p>{escape(subtitle)}</p>\n"
    if len(sections) > 1:
        links = (f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
        yield f"<nav>{' '.join(links)}</nav>\n"
    yield "</header>\n<main>\n"
    for section in sections:
        yield from _section(section)
    yield f"</main>\n<footer>beasy-sched {__version__}</footer>\n"
    yield f"<script>{script}</script>\n"
    for name in ("gantt.js", "report.js"):
        yield f"<script>\n{_web(name)}</script>\n"
    yield "</body>\n</html>\n"


def table_html(heads: Iterable[str], rows: Iterable[tuple[str, list[str]]], caption: str = "") -> str:
    """A table; labels that begin with two spaces come under the one above."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    lines = [f'<div class="table"><table><thead><tr><td>{escape(caption)}</td>{head}</tr></thead><tbody>']
    for label, texts in rows:
        kind = ' class="under"' if label.startswith("  ") else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        lines.append(f'<tr{kind}><th scope="row">{escape(label.strip())}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table></div>\n"])


def warning_html(texts: Iterable[str]) -> str:
    """Warnings, one a line."""
    return "".join(f'<p class="warning">{escape(text)}</p>\n' for text in texts)


def _section(section: Section) -> Iterator[str]:
    heading = f"<h2>{escape(section.title)}</h2>"
    if section.folded:
        yield f'<details id="{section.key}"><summary>{heading}</summary>\n'
    else:
        yield f'<section id="{section.key}">{heading}\n'
    for part in section.parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Absent):
            yield f'<p class="absent"><b>{escape(part.title)}</b>: left out, {escape(part.reason)}.</p>\n'
        else:
            yield from _figure(part)
    yield "</details>\n" if section.folded else "</section>\n"


def _figure(chart: Chart) -> Iterator[str]:
    height, kind = chart.spec["height"], chart.spec["kind"]
    yield f'<figure class="{kind}"><figcaption>{escape(chart.title)}</figcaption>\n'
    yield f'<div class="drawing" id="{chart.key}" style="height:{height}px" role="img"'
    yield f' aria-label="{escape(chart.title)}"></div>\n'
    if chart.note:
        yield f'<p class="note">{escape(chart.note)}</p>\n'
    yield f'<script type="application/json" data-for="{chart.key}">{embedded_json(chart.spec)}</script>'
    yield "</figure>\n"


def embedded_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in; arrays as base64 of their bytes."""
    text = json.dumps(value, default=_packed, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_CODES = {"float64": "f8", "float32": "f4", "int32": "i4", "int16": "i2", "int8": "i1"}


def _packed(array: Any) -> dict[str, str]:
    if isinstance(array, np.ndarray):
        narrow = array.astype(np.int32) if array.dtype == np.int64 else array
        little = narrow.astype(narrow.dtype.newbyteorder("<"))
        return {_CODES[narrow.dtype.name]: base64.b64encode(little.tobytes()).decode("ascii")}
    raise TypeError(f"cannot write {array!r}")


def _web(name: str) -> str:
    return resources.files("beasy_sched.report").joinpath("web", name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ConfigError("reports need plotly: pip install 'beasy-sched[report]'") from None
    return str(get_plotlyjs()).replace("</script", "<\\/script")


MOST_DETAILED = 12
"""Of more runs than these only the comparison is shown: a page of them all would not open."""


def report_html(
    places: Sequence[str | os.PathLike[str]],
    *,
    plans: PlanStore | None = None,
    title: str | None = None,
    report: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """Read the runs at ``places`` (see `find_runs`), and yield the pieces of one HTML file.

    ``plans`` marks the dangerous steps; ``report`` is called with the share of runs that are read. The
    same files give the same bytes. Raises InputError for files that cannot be read, and ConfigError
    where pandas or plotly is missing.
    """
    check_installed()
    runs = []
    found = find_runs(places)
    for name, prefix in found.items():
        runs.append(read_run_data(name, prefix))
        if report is not None:
            report(len(runs) / len(found))
    return page(title or _title(runs), _subtitle(runs), _sections(runs, plans))


def check_installed() -> None:
    """Raise ConfigError where pandas or plotly is missing."""
    try:
        import pandas  # noqa: F401
        import plotly  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"reports need {error.name}: pip install 'beasy-sched[report]'") from None


def _title(runs: Sequence[RunData]) -> str:
    return (
        runs[0].name
        if len(runs) == 1
        else f"{len(runs)} runs: {', '.join(run.name for run in runs[:6])}"
        + (", ..." if len(runs) > 6 else "")
    )


def _subtitle(runs: Sequence[RunData]) -> str:
    policies = dict.fromkeys(run.summary["settings"]["policy"] for run in runs if run.summary is not None)
    return f"policy {', '.join(policies)}" if policies else "settings not known: no summary.json"


def _sections(runs: Sequence[RunData], plans: PlanStore | None) -> list[Section]:
    several = len(runs) > 1
    rows = table(runs)
    warnings = [
        f"{run.name}: {text}" if several else text
        for run in runs
        for text in (_ended_early(run), *(run.summary or {}).get("warnings", ()))
        if text
    ]
    heads = [run.name for run in runs]
    left, right = ('<div class="pair">', "<div>") if len(runs) < 3 else ("<div>", '<div class="pair">')
    overview: list[Chart | Absent | str] = [
        warning_html(warnings),
        left,
        table_html(heads, rows),
        right,
        *overall_bars(runs),
        "</div></div>\n",
        *curves_together(runs),
    ]
    sections = [Section("overview", "All runs" if several else "Outcomes", overview)]
    if len(runs) > MOST_DETAILED:
        note = f"<p class='note'>The charts of single runs are shown for at most {MOST_DETAILED} runs.</p>\n"
        overview.append(note)
        return sections
    for number, run in enumerate(runs):
        prefix = f"run-{number + 1}"
        charts = [*energy_charts(run, plans, prefix), *job_charts(run, prefix)]
        sections.append(
            Section(prefix, run.name if several else "Over time", charts, folded=several and number > 0)
        )
    return sections


def _ended_early(run: RunData) -> str:
    summary = run.summary or {}
    if summary.get("error"):
        return f"ended early: {summary['error']}"
    return "" if summary.get("complete", True) else "is not complete"
