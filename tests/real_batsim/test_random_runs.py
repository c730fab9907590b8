"""Fresh random runs beside a real Batsim: the same messages and files from the embedded simulator."""

from pathlib import Path

import pytest
from real_batsim.program import real_batsim
from real_batsim.random_runs import RandomRun

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [28, *range(1000, 1030)])
def test_a_run_is_the_same(seed: int, tmp_path: Path) -> None:
    real, faults = RandomRun.drawn(seed).compare(real_batsim(), tmp_path)
    assert real.exit_code == 0, real.error
    assert not faults
    assert len(real.messages) > 10
