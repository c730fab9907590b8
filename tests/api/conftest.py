from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

import beasy_sched as bs
from beasy_sched.planner.plan import PlanStore


class Days(NamedTuple):
    """A small data centre and its days, as files."""

    folder: Path
    platform: Path
    workload: Path
    power: Path


@pytest.fixture(scope="session")
def days(tmp_path_factory: pytest.TempPathFactory) -> Days:
    folder = tmp_path_factory.mktemp("notebook")
    return Days(
        folder,
        bs.generate_platform({"gros": 8, "taurus": 2}, folder / "platform.xml"),
        bs.generate_workload(folder / "workload.json", seed=1, jobs=60, hosts=10),
        bs.generate_power(folder / "power.txt", pv_kw=2, wind_kw=1, seed=1),
    )


@pytest.fixture(scope="session")
def run(days: Days) -> bs.Run:
    return bs.simulate(*days[1:], site="default", export=days.folder / "out" / "run")


@pytest.fixture(scope="session")
def fcfs(days: Days) -> bs.Run:
    return bs.simulate(*days[1:], policy="fcfs", site="default", export=days.folder / "out" / "fcfs")


@pytest.fixture(scope="session")
def plan(days: Days) -> PlanStore:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return bs.plan(days.platform, days.workload, production=days.power)
