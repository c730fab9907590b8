"""Figure of the learning curve of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.reports.drawing import OKABE_ITO, figure_bytes, new_figure

_MEAN_OF: Final = 10
_LEVELS: Final = {
    "last": ("vermillion", "--"),
    "next": ("green", "-."),
    "peak": ("orange", "--"),
    "workload": ("purple", "-."),
    "random": ("black", ":"),
}
"""Colour and dashes of the reference levels."""
_OTHER_LEVEL: Final = ("sky", "--")


def draw_learning(curve: FloatArray, levels: Mapping[str, float], title: str, suffix: str = ".png") -> bytes:
    """Draw the mean reward per step of each episode, and its mean over ten episodes; return the file's bytes.

    ``levels`` are reference rewards, drawn as horizontal lines. Raises ConfigError for a format that is not
    png, svg or pdf, and if matplotlib is not installed.
    """
    figure = new_figure(suffix, (8.0, 4.5))
    axes = figure.subplots()
    plot_curve(axes, curve, levels)
    axes.set_ylabel("mean reward per step")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure_bytes(figure, suffix)


def plot_curve(axes: Any, curve: FloatArray, levels: Mapping[str, float]) -> None:
    """Plot the rewards of episodes, their mean over ten episodes, and reference rewards as lines."""
    episodes = np.arange(1, len(curve) + 1)
    axes.plot(episodes, curve, ".", color="#777777", markersize=2, alpha=0.5, label="one episode")
    width = min(_MEAN_OF, len(curve))
    if width:
        means = np.convolve(curve, np.ones(width) / width, mode="valid")
        axes.plot(
            episodes[width - 1 :], means, color=OKABE_ITO["blue"], linewidth=1.3, label=f"mean of {width}"
        )
    for name, value in levels.items():
        color, style = _LEVELS.get(name, _OTHER_LEVEL)
        axes.axhline(value, color=OKABE_ITO[color], linestyle=style, linewidth=0.9, label=name)
    axes.set_xlabel("episode")
