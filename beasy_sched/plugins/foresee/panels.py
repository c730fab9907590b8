"""Forecasts in the report of a run: intervals of starts, and the fan of a storage with its actual levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import Malformed
from beasy_sched.formats.reading import read_lines
from beasy_sched.formats.run_files import FORESEE, path_of
from beasy_sched.plugins.foresee.forecast import LINES, MomentForecast
from beasy_sched.plugins.reports.page import Chart, TimeChart
from beasy_sched.plugins.reports.run_data import RunData

_MOST_STARTS = 400
"""Largest number of intervals in a chart."""
_GAP = np.array([np.nan])


def read_forecasts(prefix: str) -> list[MomentForecast]:
    """Return the forecasts of a run; none without their file. Raises InputError for a damaged file."""
    path = path_of(prefix, FORESEE)
    if not path.is_file():
        return []
    forecasts = []
    for number, line in read_lines(path):
        try:
            forecasts.append(LINES.decode(line))
        except Malformed as error:
            raise InputError(path, str(error), line=number) from None
    return forecasts


def panels(run: RunData, key: str) -> list[Chart]:
    """Return the charts of a run's forecasts. Raises InputError."""
    forecasts = read_forecasts(run.prefix)
    return [*_levels(run, forecasts, key), *_starts(run, forecasts, key)]


def _levels(run: RunData, forecasts: Sequence[MomentForecast], key: str) -> Iterator[Chart]:
    """Yield the chart of the battery's levels, of forecasts one after the other."""
    chart = TimeChart(f"{key}-foreseen", "Battery, as forecast", key, run.end_s, "%", "state of charge [%]")
    curves: dict[str, list[FloatArray]] = {"time": [], "5 %": [], "median": [], "95 %": []}
    actual: dict[float, float] = {}
    shown_s, count = -1.0, 0
    for forecast in forecasts:
        steps = forecast.steps
        if steps is None or not steps.soc_pct or forecast.time_s < shown_s:
            continue
        actual |= dict(zip(steps.time_s, steps.actual_soc_pct or [], strict=False))
        times_s, levels = np.array(steps.time_s), np.array(steps.soc_pct)
        shown_s, count = min(forecast.time_s + 86_400.0, forecast.horizon_s), count + 1
        chosen = times_s <= shown_s
        curves["time"] += [times_s[chosen], np.array([shown_s])]
        for name, column in (("5 %", 0), ("median", 2), ("95 %", 4)):
            curves[name] += [levels[chosen, column], _GAP]
    if not count:
        return
    at_s = np.concatenate(curves["time"])
    for name, dash in (("5 %", "dot"), ("median", "solid"), ("95 %", "dot")):
        chart.line(f"forecast, {name}", at_s, np.concatenate(curves[name]), "battery", dash=dash, width=1.4)
    if actual:
        chart.line("actual", np.array([*actual]), np.array([*actual.values()]), "ink-soft", width=1.2)
    yield chart.chart("Each forecast is shown for 24 hours, then the next one.", range=[0, 100])


def _starts(run: RunData, forecasts: Sequence[MomentForecast], key: str) -> Iterator[Chart]:
    """Yield the chart of intervals of starts, one line per job and forecast, with the actual starts."""
    rows = [
        (job.start_s, job.started_s, f"{job.id}, forecast at {forecast.time_s / 3600.0:,.4g} h")
        for forecast in forecasts
        for job in forecast.jobs
        if job.start_s is not None
    ]
    if not rows:
        return
    shown = rows[:: max(-(-len(rows) // _MOST_STARTS), 1)]
    chart = TimeChart(f"{key}-foreseen-starts", "Starts of jobs, as forecast", key, run.end_s, "", "forecast")
    x = np.concatenate([[low, high, high] for (low, _, high), _, _ in shown])
    y = np.concatenate([[row, row, np.nan] for row in range(len(shown))])
    chart.line("80 % interval", x, y, "waiting", width=2.5)
    known = [
        (row, started_s, text) for row, (_, started_s, text) in enumerate(shown) if started_s is not None
    ]
    chart.marks(
        "actual start",
        np.array([started_s for _, started_s, _ in known]),
        np.array([float(row) for row, _, _ in known]),
        "ink-soft",
        [text for _, _, text in known],
        symbol="line-ns",
    )
    note = "" if len(shown) == len(rows) else f"{len(shown)} of {len(rows)} intervals are shown."
    yield chart.chart(note, showticklabels=False)
