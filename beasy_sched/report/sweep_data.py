"""The results of a sweep as what is drawn: surfaces over two axes, curves over one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.report.campaign_figures import Figure

SWEEP_FIGURES: Final = (
    Figure("work_finished_pct", "Finished work", "%", 1),
    Figure("finished_pct", "Finished jobs", "%", 1),
    Figure("killed_pct", "Killed jobs", "%", 1),
    Figure("unserved_kwh", "Unserved energy", "kWh", 1),
    Figure("soc_lowest_pct", "Lowest state of charge", "%", 0),
)
"""What is drawn over the axes."""
LESS_IS_BETTER: Final = ("killed_pct", "unserved_kwh")
WITH_A_GOAL: Final = ("work_finished_pct", "finished_pct")
"""Figures whose maps have a line where the wanted value is reached."""
WANTED_PCT: Final = 99.0
MOST_WRITTEN: Final = 80
"""Cells of a map up to which their values are written in."""


@dataclass(frozen=True)
class SweptAxis:
    """An axis of a sweep: a column of the table of runs."""

    column: str
    title: str
    """With its unit."""


@dataclass(frozen=True)
class Surface:
    """Means of a figure over two axes."""

    x: FloatArray
    y: FloatArray
    means: FloatArray
    """Of shape (y, x); NaN where no run has a value."""
    runs: int
    """Most runs of a cell."""

    @property
    def written(self) -> bool:
        """Whether the cells are few enough for their values."""
        return self.means.size <= MOST_WRITTEN

    def reaches(self, wanted: float) -> bool:
        """Whether some cells reach a value, and others do not: there is a line between them."""
        known = self.means[np.isfinite(self.means)]
        return min(self.means.shape) > 1 and bool((known >= wanted).any() and (known < wanted).any())


@dataclass(frozen=True)
class Curve:
    """A figure over one axis: mean, lowest and highest of the runs."""

    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    runs: int


def slices(runs: Any, axes: Sequence[SweptAxis]) -> Iterator[tuple[str, Any]]:
    """Yield the runs for each combination of the axes beyond the second, with a name; all without such."""
    more = [axis.column for axis in axes[2:]]
    if not more:
        yield "", runs
        return
    for values, own in runs.groupby(more, sort=True):
        yield ", ".join(f"{name} {value:g}" for name, value in zip(more, values, strict=True)), own


def surface(runs: Any, policy: str, figure: Figure, x: SweptAxis, y: SweptAxis) -> Surface | None:
    """Return a policy's surface; None where no run has a value."""
    own = _known(runs, policy, figure)
    if own.empty:
        return None
    table = own.pivot_table(index=y.column, columns=x.column, values=figure.column, aggfunc="mean")
    most = int(own.groupby([x.column, y.column]).size().max())
    return Surface(_floats(table.columns), _floats(table.index), _floats(table.to_numpy()), most)


def curve(runs: Any, policy: str, figure: Figure, x: SweptAxis) -> Curve | None:
    """Return a policy's curve; None where no run has a value."""
    own = _known(runs, policy, figure)
    if own.empty:
        return None
    found = own.groupby(x.column)[figure.column].agg(["mean", "min", "max", "size"])
    mean, low, high = (_floats(found[name]) for name in ("mean", "min", "max"))
    return Curve(_floats(found.index), mean, low, high, int(found["size"].max()))


def nothing_to_see(surfaces: Mapping[str, Surface | None] | Mapping[str, Curve | None]) -> bool:
    """Whether a figure is not known, or 0 everywhere."""
    found = [each for each in surfaces.values() if each is not None]
    means = [each.means if isinstance(each, Surface) else each.mean for each in found]
    return not any(np.any(np.abs(values[np.isfinite(values)]) > 1e-9) for values in means)


def span_of(surfaces: Iterable[Surface | None]) -> tuple[float, float]:
    """Return the least and the greatest mean, for colours that mean the same in several maps."""
    values = np.concatenate([each.means.ravel() for each in surfaces if each is not None])
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    return least, most if most > least else least + 1.0


def _known(runs: Any, policy: str, figure: Figure) -> Any:
    if figure.column not in runs.columns:
        return runs.iloc[:0]
    own = runs[runs["policy"] == policy]
    return own[own[figure.column].notna()].astype({figure.column: "float64"})


def _floats(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)
