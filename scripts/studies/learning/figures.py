"""Figures of learned compensation: learning curves and results by policy; tables of what agents prefer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from beasy_sched.plugins.campaigns.paired import ComparedPolicies
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.plugins.learned.model import Model
from beasy_sched.plugins.learning.learning_figure import plot_curve
from beasy_sched.plugins.learning.preferences import preference_table
from studies.figures import TWO_COLUMNS_IN, BoxPanel, Figures, box_figure, new_figure
from studies.learning.claims import DIFFERING, MEASURED, LearningResults


def learning_figures(
    models: Mapping[str, Model], levels: Mapping[str, float], results: LearningResults
) -> Figures:
    """Yield the learning curves, and boxes over the executions of each case."""
    yield "learning-curves", _curves(models, levels)
    for case, sample in results.items():
        yield f"learning-{case}", _boxes(sample)


def _curves(models: Mapping[str, Model], levels: Mapping[str, float]) -> Any:
    """Draw the rewards of episodes, and the mean of ten, next to the rewards of others on the last ones."""
    figure, panels = new_figure(TWO_COLUMNS_IN, 2.6, 1, len(models), sharey=True, squeeze=False)
    for panel, (name, model) in zip(panels[0], models.items(), strict=True):
        plot_curve(panel, model.curve, levels)
        panel.set_title(name)
        panel.grid(axis="y")
    panels[0, 0].set_ylabel("reward of a step, mean")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.0)
    return figure


def _boxes(sample: ComparedPolicies) -> Any:
    """Draw the measures in which policies are compared, those that finish most first."""
    order = np.argsort(-sample.means("finished")[0], kind="stable")
    panels = [BoxPanel(sample.values[name][:, order], MEASURED[name][0]) for name in DIFFERING]
    return box_figure([sample.conditions[place] for place in order], panels)


def preference_tables(models: Mapping[str, Model]) -> Iterator[TextTable]:
    """Yield, for each model, how often each action is preferred in each class of each feature, %."""
    for name, model in models.items():
        counted = "steps" if model.learner == "q-learning" else "states"
        head = ("feature", "class", counted, *model.actions)
        rows: list[tuple[str, ...]] = []
        feature = ""
        for row in preference_table(model):
            shares = ("" if row[action] is None else f"{row[action]:.0f}" for action in model.actions)
            shown = "" if row["feature"] == feature else row["feature"]
            rows.append((shown, row["class"], f"{row['steps']:,.0f}", *shares))
            feature = row["feature"]
        yield TextTable(f"Preferred actions, % of the {counted}: {name}", head, rows, head[2:])
