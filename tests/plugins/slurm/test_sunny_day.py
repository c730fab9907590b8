"""A day's sun in ten minutes on real Slurms: nodes-only, Slurm alone, and acting; each against `simulate`.

It takes eleven minutes; `pytest -s` prints the table of the guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm import sunny_day
from plugins.slurm.real_cluster import LONG, RealCluster, why_not
from plugins.slurm.sunny_day import DAY_S, Day

pytestmark = [pytest.mark.slow, *LONG]


@dataclass(frozen=True)
class Way:
    """A way to run the day: on a cluster, and simulated."""

    name: str
    shares: bool
    options: tuple[str, ...]
    simulated: dict[str, object]


WAYS = (
    Way(
        "nodes-only",
        True,
        ("--mode", "nodes-only", "--act", "--policy", "power-reactive"),
        {"policy": "power-reactive", "placement": "external", "suspend_s": 15.0},
    ),
    Way(
        "Slurm alone",
        True,
        ("--mode", "nodes-only", "--policy", "easy"),
        {"policy": "easy", "placement": "external", "suspend_s": 15.0},
    ),
    Way("--act", False, ("--act", "--policy", "power-reactive"), {"policy": "power-reactive"}),
)
PARTITIONS = (
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP",
)
SETTINGS = ("MinJobAge=7200", "SlurmctldParameters=power_save_interval=1")


@pytest.fixture
def clusters(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[RealCluster]]:
    """A cluster of four nodes for each way."""
    if reason := why_not():
        pytest.skip(reason)
    with ExitStack() as running:
        found = [
            running.enter_context(
                RealCluster(
                    tmp_path_factory.mktemp("day"),
                    4,
                    partitions=PARTITIONS,
                    settings=SETTINGS,
                    held=() if way.shares else ("main",),
                    shared=way.shares,
                )
            )
            for way in WAYS
        ]
        monkeypatch.setenv("SLURM_CONF", str(found[0].conf))
        yield found


def platform_of(folder: Path, name: str, waking: dict[str, float]) -> Path:
    """The platform of the nodes with a time and power of waking."""
    server, platform = folder / f"{name}.toml", folder / f"{name}.xml"
    server.write_text(sunny_day.SERVER.format(**waking))
    words = ("slurm", "platform", "--partition", "main", "--server", str(server), "-o", str(platform), "-q")
    assert exit_code(*words) == 0
    return platform


def turns(numbers: list[int]) -> int:
    """How often a series turns from rising to falling, or back."""
    steps = [after - before for before, after in pairwise(numbers) if before != after]
    return sum(before * after < 0 for before, after in pairwise(steps))


@pytest.mark.filterwarnings("ignore:the load is", "ignore:the run is incomplete")
def test_each_way_is_as_simulated(clusters: list[RealCluster], tmp_path: Path) -> None:
    jobs = sunny_day.jobs_of_day()
    platforms = {
        shares: platform_of(tmp_path, "slurm" if shares else "bridge", waking)
        for shares, waking in ((True, sunny_day.BOOTED_BY_SLURM), (False, sunny_day.BOOTED_BY_BRIDGE))
    }

    def day_of(way: Way, cluster: RealCluster) -> Day:
        folder = tmp_path / way.name.replace(" ", "-")
        folder.mkdir()
        platform = platforms[way.shares]
        return sunny_day.measured(cluster, folder, platform, *way.options, shares=way.shares, jobs=jobs)

    with ThreadPoolExecutor(len(WAYS)) as together:
        days = dict(zip((way.name for way in WAYS), together.map(day_of, WAYS, clusters), strict=True))
    same = {
        way.name: sunny_day.simulated(
            days[way.name],
            tmp_path / way.name.replace(" ", "-"),
            platforms[way.shares],
            jobs,
            **way.simulated,
        )
        for way in WAYS
    }
    for name, day in days.items():
        print(f"\n{name}: {sunny_day.row_of(day)}; simulated: {sunny_day.row_of(same[name])}")
    for name, day in days.items():
        assert {job.state for job in day.jobs} <= {"COMPLETED", "RUNNING", "PENDING", "CONFIGURING"}, name
        assert abs(day.finished - same[name].finished) <= 2
        assert same[name].used_j == pytest.approx(day.used_j, rel=0.05), name
        assert abs(same[name].beyond_j - day.beyond_j) <= 0.03 * day.used_j, name
    offers = days["nodes-only"].offers.query(f"time_s < {DAY_S}")
    assert turns([*offers["offered"]]) == 1, "it rises to noon, and falls"
    assert (offers["on"] - offers["draining"] <= offers["offered"]).all()
    assert days["nodes-only"].beyond_j < 0.5 * days["Slurm alone"].beyond_j
