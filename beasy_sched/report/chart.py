"""A chart as the page takes it: plotly's own words, with numpy arrays and the page's colour names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray

MOST_POINTS = 2000
"""Curves of more points are drawn as means over as many spans."""


@dataclass(frozen=True)
class Chart:
    """One figure of the page."""

    key: str
    """Its id in the page, unique there."""
    title: str
    spec: dict[str, Any]
    """``traces`` and ``layout`` of plotly, or the Gantt chart's arrays; ``kind`` says which."""
    note: str = ""


@dataclass(frozen=True)
class Absent:
    """A figure that cannot be drawn, and why."""

    title: str
    reason: str


def color(name: str) -> str:
    """Name a colour of the style sheet, which knows its light and its dark form."""
    return f"var(--{name})"


def plain(text: str) -> str:
    """Escape a text for plotly, which takes texts for a kind of HTML."""
    return escape(text, quote=False)


def power_unit(most_w: float) -> tuple[str, float]:
    """The unit to show powers in, and how many watts it has."""
    for unit, size_w in (("MW", 1e6), ("kW", 1e3)):
        if most_w >= size_w:
            return unit, size_w
    return "W", 1.0


@dataclass
class TimeChart:
    """Collects the traces of a chart whose x axis is time, in s."""

    key: str
    title: str
    group: str
    """Charts of one group zoom together."""
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
        times_s: FloatArray,
        values: FloatArray,
        paint: str,
        *,
        dash: str = "solid",
        width: float = 1.6,
        stack: str = "",
        down: bool = False,
    ) -> None:
        """Add a curve that holds each value until the next time, and the last one to the end.

        ``stack`` fills it on top of the curves of that stack; ``down`` draws it below zero.
        """
        x, y = np.append(times_s, max(self.end_s, times_s[-1])), np.append(values, values[-1])
        trace = self._trace(name, x, -y if down else y, paint, dash, width)
        trace["line"]["shape"] = "hv"
        if stack:
            trace |= {"stackgroup": stack, "fillcolor": color(paint)}
            trace["line"]["width"] = 0
        self.traces.append(trace)

    def line(
        self, name: str, times_s: FloatArray, values: FloatArray, paint: str, *, dash: str = "solid"
    ) -> None:
        """Add a curve that joins its points."""
        self.traces.append(self._trace(name, times_s, values, paint, dash, 1.8))

    def marks(
        self,
        name: str,
        times_s: FloatArray,
        values: FloatArray,
        paint: str,
        *,
        symbol: str,
        texts: Iterable[str] | None = None,
        size: int = 9,
    ) -> None:
        """Add single points; ``texts`` are shown instead of their values."""
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "markers", "name": plain(name), "x": times_s, "y": values,
            "marker": {"symbol": symbol, "color": color(paint), "size": size,
                       "line": {"width": 1.5, "color": color(paint)}},
            "hovertemplate": f"%{{customdata:,.2f}} {self.unit}",
        }  # fmt: skip
        if texts is not None:
            trace |= {"text": [plain(text) for text in texts], "hovertemplate": "%{text}"}
        self.traces.append(trace)

    def limit(self, name: str, value: float, paint: str = "limit", dash: str = "dot") -> None:
        """Draw a level across the chart, with its name at the right end."""
        self.layout.setdefault("shapes", []).append(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "layer": "below",
             "line": {"color": color(paint), "width": 1.2, "dash": dash}}
        )  # fmt: skip
        self.layout.setdefault("annotations", []).append(
            {"xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom", "showarrow": False,
             "text": plain(name), "font": {"size": 10.5, "color": color(paint)}}
        )  # fmt: skip

    def shade(self, spans_s: Iterable[tuple[float, float]], paint: str) -> None:
        """Colour spans of time behind the curves."""
        self.layout.setdefault("shapes", []).extend(
            {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": start, "x1": end, "layer": "below",
             "line": {"width": 0}, "fillcolor": color(paint)}
            for start, end in spans_s
        )  # fmt: skip

    def y_axis(self, **settings: Any) -> None:
        """Set fields of plotly's y axis."""
        self.layout.setdefault("yaxis", {}).update(settings)

    def chart(self) -> Chart:
        """Finish."""
        self.y_axis(title={"text": plain(self.y_title)}, fixedrange=True)
        spec = {"kind": "time", "group": self.group, "end": self.end_s, "height": self.height,
                "traces": self.traces, "layout": self.layout}  # fmt: skip
        return Chart(self.key, self.title, spec, " ".join(self.notes))

    def _trace(
        self, name: str, x: FloatArray, y: FloatArray, paint: str, dash: str, width: float
    ) -> dict[str, Any]:
        return {
            "type": "scatter", "mode": "lines", "name": plain(name), "x": x, "y": y,
            "line": {"color": color(paint), "width": width, "dash": dash},
            "hovertemplate": f"%{{customdata:,.2f}} {self.unit}",
        }  # fmt: skip


def bars(
    key: str,
    title: str,
    names: list[str],
    parts: Mapping[str, tuple[FloatArray, str]],
    *,
    x_title: str,
    unit: str,
    texts: Mapping[str, list[str]] | None = None,
    note: str = "",
) -> Chart:
    """One horizontal bar a name, made of parts: values (one a name) and a colour each."""
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
                  "showticklabels": len(names) > 1, "automargin": True},
    }  # fmt: skip
    spec = {"kind": "plot", "height": 70 + 34 * len(names), "traces": traces, "layout": layout}
    return Chart(key, title, spec, note)
