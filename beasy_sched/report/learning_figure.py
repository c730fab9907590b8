"""The learning curve of an agent as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.report.drawing import PALETTE, figure_bytes, new_figure

_MEAN_OF = 10


def draw_learning(curve: FloatArray, levels: Mapping[str, float], title: str, suffix: str = ".png") -> bytes:
    """Draw the mean reward of a step by episode, each and as the mean of ten; return the file's bytes.

    ``levels`` are the rewards of others, as level lines. Raises ConfigError for a format that is not png,
    svg or pdf, and where matplotlib is not installed.
    """
    figure = new_figure(suffix, (8.0, 4.5))
    axes = figure.subplots()
    episodes = np.arange(1, len(curve) + 1)
    axes.plot(episodes, curve, ".", color="0.75", markersize=3, label="an episode")
    width = min(_MEAN_OF, len(curve))
    if width:
        means = np.convolve(curve, np.ones(width) / width, mode="valid")
        axes.plot(episodes[width - 1 :], means, color=PALETTE[0], linewidth=2, label=f"mean of {width}")
    for number, (name, value) in enumerate(levels.items()):
        style = ("--", ":", "-.")[number % 3]
        axes.axhline(value, color=PALETTE[1 + number % 5], linestyle=style, linewidth=1.2, label=name)
    axes.set_xlabel("episode")
    axes.set_ylabel("reward of a step, mean")
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure_bytes(figure, suffix)
