"""The report's HTML: one file that holds all it needs, and that may ask no network for anything."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError
from beasy_sched.report.chart import Absent, Chart

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
