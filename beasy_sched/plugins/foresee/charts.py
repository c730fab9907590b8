"""Charts of possible futures: fans of storage levels next to the actual ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.foresee.continuation import ContinuedRun, level_quantiles
from beasy_sched.plugins.foresee.forecast import FAN, MomentForecast
from beasy_sched.plugins.foresee.what_if import ChangedComparison
from beasy_sched.plugins.reports.drawing import LEGEND, OKABE_ITO, figure_bytes, mark_hours, new_figure

_SIZE: Final = (9.0, 4.0)


def _fan(
    panel: Any, hours: Sequence[float], quantiles: Sequence[Sequence[float]], color: str, label: str
) -> None:
    columns = list(zip(*quantiles, strict=True))
    lowest, low, middle, high, highest = columns
    panel.fill_between(hours, lowest, highest, color=color, alpha=0.18, linewidth=0)
    panel.fill_between(hours, low, high, color=color, alpha=0.3, linewidth=0)
    panel.plot(hours, middle, color=color, linewidth=1.6, label=label)


def comparison_chart(comparison: ChangedComparison, suffix: str) -> bytes:
    """Draw the battery's levels as the run continued and as changed. Raises ConfigError, also without one."""
    if not comparison.has_battery:
        raise ConfigError("--chart: the run has no battery whose levels could be drawn")
    figure = new_figure(suffix, _SIZE)
    panel = figure.subplots()
    arms = {
        "as it was": (OKABE_ITO["blue"], [pair.as_it_was for pair in comparison.pairs]),
        comparison.change: (OKABE_ITO["vermillion"], [pair.changed for pair in comparison.pairs]),
    }
    for label, (color, outcomes) in arms.items():
        quantiles = level_quantiles([one.soc_pct for one in outcomes], FAN)
        if quantiles:
            _fan(panel, _hours(outcomes), quantiles, color, label)
    _finish(panel, comparison.time_s / 3600.0, comparison.until_s / 3600.0, "What if: state of charge")
    return figure_bytes(figure, suffix)


def fan_chart(forecast: MomentForecast, suffix: str) -> bytes:
    """Draw the battery's levels of a forecast, and the actual ones. Raises ConfigError."""
    figure = new_figure(suffix, _SIZE)
    panel = figure.subplots()
    steps = forecast.steps
    if steps is not None and steps.soc_pct:
        hours = [time_s / 3600.0 for time_s in steps.time_s]
        _fan(panel, hours, steps.soc_pct, OKABE_ITO["green"], "forecast: median, 50 % and 90 %")
        if steps.actual_soc_pct is not None:
            panel.plot(hours, steps.actual_soc_pct, color="black", linewidth=1.2, label="actual")
    _finish(panel, forecast.time_s / 3600.0, forecast.horizon_s / 3600.0, "Forecast: state of charge")
    return figure_bytes(figure, suffix)


def _hours(outcomes: Sequence[ContinuedRun]) -> list[float]:
    return [time_s / 3600.0 for time_s in min((one.times_s for one in outcomes), key=len)]


def _finish(panel: Any, first_h: float, last_h: float, title: str) -> None:
    panel.set_title(title, fontsize=11, loc="left")
    panel.set_ylabel("state of charge [%]")
    panel.set_ylim(0, 100)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    mark_hours(panel, first_h, last_h)
    panel.legend(**LEGEND)
