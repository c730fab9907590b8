"""Parts of a report's page (charts, sections, tables), written as one HTML file.

A chart is defined by plotly's traces and layout, with numpy arrays and the page's colour names. The file is
self-contained and must not load anything from a network.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.extras import load_optional
from beasy_sched.formats.reading import package_text
from beasy_sched.plugins.reports.drawing import RUN_COLORS


@dataclass(frozen=True)
class Chart:
    """Chart of the page."""

    key: str
    """Id of the chart, unique in its page."""
    title: str
    spec: dict[str, Any]
    """Plotly's ``traces`` and ``layout``, or the Gantt chart's arrays, depending on ``kind``."""
    note: str = ""


@dataclass(frozen=True)
class Absent:
    """Chart that cannot be drawn, with the reason."""

    title: str
    reason: str


def color(name: str) -> str:
    """Name a colour of the style sheet, which defines a light and a dark variant."""
    return f"var(--{name})"


def faded(name: str) -> str:
    """Name a translucent colour of the style sheet."""
    return f"var(--{name})/0.45"


def plain(text: str) -> str:
    """Escape a string for plotly, which interprets strings as a kind of HTML."""
    return escape(text, quote=False)


def power_unit(most_w: float) -> tuple[str, float]:
    """Return the unit for powers, and its size in W."""
    for unit, size_w in (("MW", 1e6), ("kW", 1e3)):
        if most_w >= size_w:
            return unit, size_w
    return "W", 1.0


@dataclass
class TimeChart:
    """Builder of a chart whose x axis is time, in s."""

    key: str
    title: str
    group: str
    """Name of the group of charts that zoom together."""
    end_s: float
    unit: str = ""
    y_title: str = ""
    height: int = 260
    traces: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def steps(
        self,
        name: str,
        edges_s: FloatArray,
        values: FloatArray,
        paint: str,
        *,
        dash: str = "solid",
        width: float = 1.6,
        stack: str = "",
    ) -> None:
        """Add a step curve that holds each value from its edge to the next; n values have n + 1 edges.

        It ends at its last edge. ``stack`` fills it on top of the curves of that stack.
        """
        trace = self.line(
            name, edges_s, np.append(values, values[-1]), paint, dash=dash, width=0 if stack else width
        )
        trace["line"]["shape"] = "hv"
        if stack:
            trace |= {"stackgroup": stack, "fillcolor": color(paint)}

    def line(
        self, name: str, x: FloatArray, y: FloatArray, paint: str, *, dash: str = "solid", width: float = 1.8
    ) -> dict[str, Any]:
        """Add a line through points; returns plotly's trace, whose values have seven digits."""
        trace = {
            "type": "scatter", "mode": "lines", "name": plain(name), "x": x, "y": y.astype(np.float32),
            "line": {"color": color(paint), "width": width, "dash": dash},
            "hovertemplate": f"%{{customdata:,.2f}} {self.unit}",
        }  # fmt: skip
        self.traces.append(trace)
        return trace

    def marks(
        self,
        name: str,
        times_s: FloatArray,
        values: FloatArray,
        paint: str,
        texts: Iterable[str],
        *,
        symbol: str = "x-thin",
    ) -> None:
        """Add single points; ``texts`` replace their values in tooltips."""
        self.traces.append({
            "type": "scatter", "mode": "markers", "name": plain(name), "x": times_s, "y": values,
            "marker": {"symbol": symbol, "color": color(paint), "size": 9,
                       "line": {"width": 1.5, "color": color(paint)}},
            "text": [plain(text) for text in texts], "hovertemplate": "%{text}",
        })  # fmt: skip

    def on_the_right(self, unit: str, title: str, span: Sequence[float]) -> None:
        """Move the curve added last to a separate right axis with the range ``span``."""
        self.traces[-1] |= {"yaxis": "y2", "hovertemplate": f"%{{customdata:,.4~g}} {plain(unit)}"}
        self.layout["yaxis2"] = {"title": {"text": plain(title)}, "range": [*span], "fixedrange": True}

    def shade(self, spans_s: Iterable[Sequence[float]], paint: str) -> None:
        """Colour time spans behind the curves."""
        self.layout.setdefault("shapes", []).extend(
            {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": start, "x1": end, "layer": "below",
             "line": {"width": 0}, "fillcolor": color(paint)}
            for start, end in spans_s
        )  # fmt: skip

    def band(self, low: float, high: float) -> None:
        """Colour a range of values behind the curves, such as those that count as on target."""
        self.layout.setdefault("shapes", []).append(
            {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high, "layer": "below",
             "line": {"width": 0}, "fillcolor": color("ink-soft"), "opacity": 0.15}
        )  # fmt: skip

    def limits(self, values: Mapping[str, float]) -> None:
        """Draw horizontal levels with names at the right end; targets look different from limits."""
        for name, value in values.items():
            paint = color("ink-soft" if name == "target" else "limit")
            self.layout.setdefault("shapes", []).append(
                {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value,
                 "layer": "below", "line": {"color": paint, "width": 1.2, "dash": "dot"}}
            )  # fmt: skip
            self.layout.setdefault("annotations", []).append(
                {"xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom",
                 "showarrow": False, "text": plain(name), "font": {"size": 10.5, "color": paint}}
            )  # fmt: skip

    def chart(self, *notes: str, **y_axis: Any) -> Chart:
        """Return the chart, with more ``notes`` and fields of plotly's y axis."""
        self.layout["yaxis"] = {"title": {"text": plain(self.y_title)}, "fixedrange": True, **y_axis}
        spec = {"kind": "time", "group": self.group, "end": self.end_s, "height": self.height,
                "traces": self.traces, "layout": self.layout}  # fmt: skip
        return Chart(self.key, self.title, spec, " ".join([*self.notes, *notes]))


def bars(
    key: str,
    title: str,
    names: list[str],
    parts: Mapping[str, tuple[FloatArray, str]],
    x_title: str,
    unit: str,
    texts: Mapping[str, list[str]] | None = None,
    note: str = "",
) -> Chart:
    """Return horizontal bars, one per name, made of parts with values (one per name) and colours."""
    traces = [
        {"type": "bar", "orientation": "h", "name": plain(part), "y": [plain(name) for name in names],
         "x": values, "marker": {"color": color(paint), "line": {"width": 0.8, "color": color("card")}},
         "customdata": (texts or {}).get(part, [f"{value:,.2f} {unit}" for value in values]),
         "hovertemplate": "%{customdata}"}
        for part, (values, paint) in parts.items()
        if np.any(np.abs(values) > 1e-9)
    ]  # fmt: skip
    layout = {
        "barmode": "stack", "bargap": 0.35, "hovermode": "y unified",
        "xaxis": {"title": {"text": plain(x_title)}, "fixedrange": True},
        "yaxis": {"autorange": "reversed", "showspikes": False, "fixedrange": True, "type": "category",
                  "automargin": True},
    }  # fmt: skip
    spec = {"kind": "plot", "height": 70 + 34 * len(names), "traces": traces, "layout": layout}
    return Chart(key, title, spec, note)


def share_bars(
    key: str, title: str, totals: Mapping[str, int], counts: Mapping[str, tuple[list[int], str]], x_title: str
) -> Chart:
    """Return bars of the share of each count in the totals (by name), with their colours."""
    parts, texts = {}, {}
    for part, (numbers, paint) in counts.items():
        shares = 100.0 * np.array(numbers, dtype=np.float64) / np.array([*totals.values()])
        parts[part] = (shares, paint)
        texts[part] = [f"{count:,} ({share:.2f} %)" for count, share in zip(numbers, shares, strict=True)]
    return bars(key, title, [*totals], parts, x_title, "%", texts)


_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Content-Security-Policy of the page: nothing may be fetched."""


@dataclass(frozen=True)
class Section:
    """Part of the page: a heading, and its pieces in order."""

    key: str
    title: str
    parts: Sequence[Chart | Absent | str]
    """Charts, notes on missing ones, and HTML (already escaped)."""
    folded: bool = False


def page(title: str, subtitle: str, sections: Sequence[Section]) -> Iterator[str]:
    """Yield the pieces of the file. Raises ConfigError if plotly is not installed."""
    check_installed()
    from plotly.offline import get_plotlyjs

    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f"<title>{escape(title)}</title>\n"
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
    yield f"<style>\n{_palette()}{_web('report.css')}</style>\n</head>\n<body>\n"
    yield f"<header><h1>{escape(title)}</h1>\n"
    yield f"<p>{escape(subtitle)}</p>\n"
    if len(sections) > 1:
        links = (f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
        yield f"<nav>{' '.join(links)}</nav>\n"
    yield "</header>\n<main>\n"
    for section in sections:
        yield from _section(section)
    yield f"</main>\n<footer>beasy-sched {__version__}</footer>\n"
    yield f"{packed_html('data-plotly', str(get_plotlyjs()))}\n"
    for name in ("packed.js", "tables.js", "why.js", "export.js", "gantt.js", "report.js"):
        yield f"<script>\n{_web(name)}</script>\n"
    yield "</body>\n</html>\n"


def table_html(heads: Iterable[str], rows: Iterable[tuple[str, list[str]]], caption: str = "") -> str:
    """Return a table; labels that begin with two spaces belong to the one above."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    lines = [f'<div class="table"><table><thead><tr><td>{escape(caption)}</td>{head}</tr></thead><tbody>']
    for label, texts in rows:
        kind = ' class="under"' if label.startswith("  ") else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        lines.append(f'<tr{kind}><th scope="row">{escape(label.strip())}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table></div>\n"])


def warning_html(texts: Iterable[str]) -> str:
    """Return warnings, one per line."""
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
            continue
        title = escape(part.title)
        if isinstance(part, Absent):
            yield f'<p class="absent"><b>{title}</b>: not shown, because {escape(part.reason)}.</p>\n'
            continue
        yield f'<figure class="{part.spec["kind"]}"><figcaption>{title}</figcaption>\n'
        yield f'<div class="drawing" id="{part.key}" style="height:{part.spec["height"]}px" role="img"'
        yield f' aria-label="{title}"></div>\n'
        if part.note:
            yield f'<p class="note">{escape(part.note)}</p>\n'
        yield packed_html(f'data-for="{part.key}"', embedded_json(part.spec))
        yield "</figure>\n"
    yield "</details>\n" if section.folded else "</section>\n"


def data_html(attribute: str, value: Any) -> str:
    """Return data for the page's scripts, which find it by the ``attribute``."""
    return f'<script type="application/json" {attribute}>{embedded_json(value)}</script>'


def packed_html(attribute: str, text: str) -> str:
    """Return a compressed string for the page's scripts, which find it by the ``attribute``."""
    return f'<script type="text/plain" {attribute}>{compressed(text.encode())}</script>'


def compressed(text: bytes) -> str:
    """Compress data for the page's scripts."""
    return base64.b64encode(zlib.compress(text, 9)).decode("ascii")


def embedded_json(value: Any) -> str:
    """Return JSON that cannot end its script element; arrays become base64 of their bytes."""
    text = json.dumps(value, default=_packed, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(array: Any) -> dict[str, str]:
    """Return type and base64 of the byte planes: all first bytes, then all second, which compress well."""
    if isinstance(array, np.ndarray):
        narrow = _narrowed(array)
        little = narrow.astype(narrow.dtype.newbyteorder("<"))
        planes = np.frombuffer(little.tobytes(), np.uint8).reshape(-1, little.itemsize).T
        return {little.dtype.str[1:]: base64.b64encode(planes.tobytes()).decode("ascii")}
    raise TypeError(f"cannot write {array!r}")


def _narrowed(array: Any) -> Any:
    """Return the same numbers in the smallest type of the page's scripts that can hold them."""
    if array.size:
        least, most = array.min(), array.max()  # NaN if any value is NaN
        for kind in (np.int8, np.int16, np.int32):
            limits = np.iinfo(kind)
            if limits.min <= least and most <= limits.max:
                narrow = array.astype(kind)
                if array.dtype.kind == "i" or (narrow == array).all():
                    return narrow
    return array.astype(np.int32) if array.dtype == np.int64 else array


def _palette() -> str:
    """Return the figures' colours, by name and in their order for runs."""
    named = "".join(f"--{name}: {value}; " for name, value in RUN_COLORS.items())
    runs = "".join(f"--run-{place}: var(--{name}); " for place, name in enumerate(RUN_COLORS))
    return f":root {{ {named}{runs}}}\n"


def _web(name: str) -> str:
    return package_text("beasy_sched.plugins.reports", "web", name)


def check_installed() -> None:
    """Raise ConfigError where pyarrow or plotly cannot be imported."""
    for package in ("pyarrow", "plotly"):
        load_optional(package, "beasy-sched[report]", "reports")
