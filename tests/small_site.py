"""A small site with everything on it, generated: servers, jobs, a storage and its production.

Folders of a run's outputs are compared byte by byte but for what a clock on the wall wrote.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.workload import synthetic_workload
from beasy_sched.generate.workload_options import SyntheticOptions
from beasy_sched.simulator import Inputs, Simulation, SimulationOptions, simulation_from_files

SITE = """
[battery]
capacity_kwh = 6.0
charge_limit_kw = 3.0
discharge_limit_kw = 3.0
[time]
step_s = 300
window_h = 24
"""
STEPS = 288


@dataclass(frozen=True)
class SmallSite:
    """Files of one generated site, all in one folder."""

    platform: Path
    workload: Path
    events: Path
    site: Path

    def simulation(self, *, events: bool = True, prefix: Path | None = None) -> Simulation:
        """A simulation of the site, with energy; ``prefix`` makes it write Batsim's files."""
        files = [self.events] if events else []
        options = SimulationOptions(energy=True, forward_unknown_events=True)
        return simulation_from_files(Inputs(self.platform, [self.workload], files), options, prefix)


def small_site(folder: Path, *, seed: int = 1, jobs: int = 120) -> SmallSite:
    """Sixteen servers of two kinds; a day of jobs; a sunny noon that feeds them and a night that does not."""
    made = SmallSite(*(folder / name for name in ("platform.xml", "workload.json", "power.txt", "site.toml")))
    platform = preset_platform({"gros": 10, "taurus": 6})
    write_platform(platform, made.platform)
    options = SyntheticOptions(
        reference_speed_flops=platform.kinds[0].reference_speed_flops,
        jobs=jobs,
        hosts=16,
        day_shares=(1.0,),
        run_median_s=1200.0,
        host_shares={1: 50.0, 2: 20.0, 4: 20.0, 8: 10.0},
        seed=seed,
    )
    synthetic_workload(options).write(made.workload)
    sun = np.sin(np.linspace(-0.6, np.pi + 0.6, STEPS)).clip(0.0)
    made.events.write_text("".join(power_event_lines(np.round(4000 * sun, 1), 300.0)))
    made.site.write_text(SITE)
    return made


WALL_CLOCK = ("scheduling_time", "simulation_time")
"""Columns of Batsim's schedule file that tell how long the program ran."""


def differing(one: Path, two: Path) -> list[str]:
    """Return the names of files that differ, or that only one of the folders has."""
    names = {path.name for folder in (one, two) for path in folder.iterdir()}
    assert names
    return sorted(name for name in names if _content(one / name) != _content(two / name))


def _content(path: Path) -> object:
    if not path.exists():
        return None
    if not path.name.endswith("_schedule.csv"):
        return path.read_bytes()
    with path.open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in csv.DictReader(file)]
