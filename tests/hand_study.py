"""Samples with values by hand, for tests of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from studies.beasy.study import MEASURES

from beasy_sched.plugins.campaigns.samples import Sample, bootstrap_weights

SPREADS = np.linspace(-1.0, 1.0, 9)


def hand_sample(
    policies: Sequence[str], values: Mapping[str, Sequence[Sequence[float]]], *, resamples: int = 200
) -> Sample:
    """A sample of given values (executions, policies) by measure; measures left out are 0."""
    arrays = {name: np.array(rows, dtype=np.float64) for name, rows in values.items()}
    executions = len(next(iter(arrays.values())))
    blank = np.zeros((executions, len(policies)))
    full = {name: arrays.get(name, blank) for name in MEASURES}
    weights = bootstrap_weights([0] * executions, resamples=resamples)
    return Sample(tuple(policies), full, tuple((0, seed) for seed in range(executions)), weights)
