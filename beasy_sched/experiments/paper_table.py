"""Table I of the BEASY paper: its ranks, and ours beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from beasy_sched.experiments.ranks import rank_agreement
from beasy_sched.experiments.sample import MEASURES, TABLE_MEASURES, Study
from beasy_sched.experiments.scenario import PAPER_POLICIES
from beasy_sched.experiments.statistics import interval

SCENARIO_TITLES: Final[Mapping[str, str]] = {
    "best-begin": "Profile best-case and workload in beginning",
    "best-end": "Profile best-case and workload in end",
    "worst-begin": "Profile worst-case and workload in beginning",
    "worst-end": "Profile worst-case and workload in end",
    "average": "100 average cases",
}
PAPER_RANKS: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "best-begin": {
        "finished": (8, 7, 6, 4, 5, 2, 3, 1),
        "killed": (8, 7, 6, 4, 5, 2, 3, 1),
        "soc": (1, 8, 3, 6, 7, 4, 5, 2),
        "wasted": (7, 8, 2, 4, 6, 3, 5, 1),
    },
    "best-end": {
        "finished": (7, 4, 1, 6, 8, 3, 5, 2),
        "killed": (8, 5, 1, 6, 7, 4, 3, 1),
        "soc": (1, 8, 7, 3, 4, 5, 6, 2),
        "wasted": (5, 8, 1, 6, 7, 3, 4, 2),
    },
    "worst-begin": {
        "finished": (3, 1, 5, 6, 4, 7, 8, 2),
        "killed": (7, 6, 8, 3, 2, 4, 5, 1),
        "soc": (6, 8, 7, 3, 2, 4, 5, 1),
        "wasted": (7, 8, 6, 3, 2, 4, 5, 1),
    },
    "worst-end": {
        "finished": (1, 4, 2, 5, 6, 7, 8, 3),
        "killed": (8, 3, 6, 2, 7, 5, 4, 1),
        "soc": (6, 7, 8, 1, 3, 5, 4, 2),
        "wasted": (7, 8, 6, 3, 5, 4, 2, 1),
    },
    "average": {
        "finished": (7, 3, 1, 6, 8, 4, 5, 2),
        "killed": (8, 6, 2, 4, 7, 3, 5, 1),
        "soc": (1, 8, 3, 6, 7, 4, 5, 2),
        "wasted": (4, 8, 1, 5, 7, 3, 6, 2),
    },
}
"""By scenario and measure, in the order of `PAPER_POLICIES`."""


@dataclass(frozen=True)
class RankRow:
    """One line of Table I."""

    scenario: str
    measure: str
    policies: tuple[str, ...]
    ours: tuple[int, ...]
    means: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    theirs: tuple[int, ...] | None
    """None for a scenario that the paper does not have."""

    @property
    def agreement(self) -> float:
        """Spearman's correlation of our ranks with theirs; NaN without theirs."""
        return float("nan") if self.theirs is None else rank_agreement(self.ours, self.theirs)


def rank_rows(study: Study) -> Iterator[RankRow]:
    """Yield the lines of all scenarios of the study."""
    for scenario, sample in study.items():
        paper = PAPER_RANKS.get(scenario, {}) if sample.policies == PAPER_POLICIES else {}
        for measure in TABLE_MEASURES:
            means = sample.means(measure)
            yield RankRow(
                scenario,
                measure,
                sample.policies,
                tuple(int(rank) for rank in sample.ranks(measure)[0]),
                tuple(float(mean) for mean in means[0]),
                tuple(interval(column) for column in means.T),
                paper.get(measure),
            )


def measure_title(measure: str) -> str:
    """Return a measure's name and unit."""
    return f"{MEASURES[measure].title} [{MEASURES[measure].unit}]"
