"""How long jobs are expected to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_workload import Workload, expected_runs_s, read_workload

PROFILES = {
    "d": {"type": "delay", "delay": 60},
    "h": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    "t": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0},
    "p": {"type": "parallel", "cpu": [1e9, 3e9], "com": [0, 0, 0, 0]},
    "c": {"type": "composed", "repeat": 2, "seq": ["d", "h"]},
}


def workload(tmp_path: Path, *jobs: dict[str, Any]) -> Workload:
    whole = [{"id": str(i), "subtime": i, "res": 2, **job} for i, job in enumerate(jobs)]
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 4, "jobs": whole, "profiles": PROFILES}))
    return read_workload(path)


def test_every_profile(tmp_path: Path) -> None:
    jobs = workload(tmp_path, *({"profile": name} for name in PROFILES))
    np.testing.assert_allclose(expected_runs_s(jobs, 1e8), [60, 10, 5, 30, 140])


def test_walltime_cuts(tmp_path: Path) -> None:
    jobs = workload(tmp_path, {"profile": "d", "walltime": 20}, {"profile": "h", "walltime": 20})
    np.testing.assert_allclose(expected_runs_s(jobs, 1e8), [20, 10])
    np.testing.assert_allclose(expected_runs_s(jobs, 1e8, walltimes=True), [20, 20])


def test_no_walltime(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="job 'w0!0' has no walltime to forecast its run from"):
        expected_runs_s(workload(tmp_path, {"profile": "d"}), 1e8, walltimes=True)
