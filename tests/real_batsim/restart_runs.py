"""Random runs in which jobs are killed and come back, for a real Batsim and the embedded simulator."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from real_batsim.side_by_side import RealRun, compare_run
from simulator.small import platform_text

from beasy_sched.engine import Session
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model.choices import OnKill
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions

POLICIES = ("easy", "workload-reactive", "power-reactive")
DAY_S = 86_400
CLOCK = '\nstart = "2022-01-31T00:00:00+01:00"'
SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 300
window_h = 24
[restart]
interval_s = {interval_s}
dump_s = {dump_s}
read_s = 17
notice_s = {notice_s}
"""


@dataclass(frozen=True)
class RestartRun:
    """A run, drawn by its number."""

    seed: int
    given: OnKill | None = None
    """What a kill does; None: drawn."""
    most: int | None = None
    """Number of times that a job may come back; None: any."""
    more_site: str = ""
    """Further sections of the site file."""

    @property
    def on_kill(self) -> OnKill:
        return self.given or (OnKill.CHECKPOINT if self.seed % 2 else OnKill.REQUEUE)

    @property
    def options(self) -> SimulationOptions:
        """Batsim's options: with or without acknowledged registrations and reuse of profiles."""
        return SimulationOptions(
            energy=True,
            forward_unknown_events=True,
            dynamic_jobs=True,
            acknowledge_dynamic_jobs=bool(self.seed // 2 % 2),
            profile_reuse=bool(self.seed // 4 % 2),
            forward_profiles=bool(self.seed // 8 % 2),
        )

    def write(self, folder: Path) -> Inputs:
        """Write the files of the run."""
        rng = Random(self.seed)
        fast, slow = rng.randint(2, 5), rng.randint(0, 3)
        (folder / "platform.xml").write_text(platform_text(fast, slow))
        (folder / "workload.json").write_text(json.dumps(_jobs(rng, fast + slow)))
        lines = (json.dumps(event) for event in _production(rng, fast + slow))
        (folder / "power.txt").write_text("".join(f"{line}\n" for line in lines))
        return Inputs(folder / "platform.xml", [folder / "workload.json"], [folder / "power.txt"])

    def session(self, inputs: Inputs) -> Session:
        """Return the scheduler of the run."""
        rng = Random(self.seed)
        numbers = {
            "interval_s": rng.choice([100, 400, 1200]),
            "dump_s": rng.choice([0, 7.5, 40]),
            "notice_s": rng.choice([0, 0, 30, 60]),
        }
        most = "" if self.most is None else f"most = {self.most}\n"
        site = SITE.format(**numbers) + most + self.more_site
        if self.more_site:
            site = site.replace("[time]", f"[time]{CLOCK}")
        policy = POLICIES[self.seed // 2 % len(POLICIES)]
        settings = RunSettings(policy=policy, site=site, on_kill=self.on_kill)
        platform = read_simgrid_platform(inputs.platform, master=inputs.master).platform
        return build_session(settings, platform=platform)

    def compare(self, program: Path, folder: Path) -> tuple[RealRun, Session, list[str]]:
        """Run both simulators; return the real run, its scheduler, and what differs."""
        inputs = self.write(folder)
        session = self.session(inputs)
        real, faults = compare_run(program, inputs, self.options, session.step, folder)
        return real, session, faults


def _jobs(rng: Random, hosts: int) -> dict[str, Any]:
    """Return a day of jobs of all kinds that can be continued."""
    several = max(hosts // 2, 1)
    profiles: dict[str, Any] = {
        "work": {"type": "parallel_homogeneous", "cpu": 1.5e12, "com": 0},
        "total": {"type": "parallel_homogeneous_total", "cpu": 2.5e12, "com": 0},
        "apart": {
            "type": "parallel",
            "cpu": [1e12 + 1e10 * n for n in range(several)],
            "com": [0] * several**2,
        },
        "wait": {"type": "delay", "delay": 1900},
        "tasks": {"type": "composed", "repeat": 3, "seq": ["work", "work"]},
        "both": {"type": "composed", "repeat": 2, "seq": ["wait", "work"]},
    }
    jobs = []
    for number in range(rng.randint(12, 25)):
        profile = rng.choice([*profiles])
        job: dict[str, Any] = {
            "id": str(number),
            "subtime": rng.choice([0, 3600.5, rng.randint(0, DAY_S - 20_000), rng.random() * 60_000]),
            "res": several if profile == "apart" else rng.randint(1, hosts),
            "walltime": rng.choice([4000, 9000.25, 20_000]),
            "profile": profile,
        }
        if rng.random() < 0.2:
            job["checkpoint"] = {"interval_s": 250, "dump_s": 3}
        if rng.random() < 0.1:
            job["requeue"] = False
        jobs.append(job)
    return {"nb_res": hosts, "jobs": jobs, "profiles": profiles}


def _production(rng: Random, hosts: int) -> Iterator[dict[str, Any]]:
    """Yield the announcements of a day's production with clouds, a step of 5 minutes each."""
    most_w = rng.choice([200.0, 350.0]) * hosts
    for at_s in range(0, DAY_S, 300):
        sun = max(math.sin(2 * math.pi * (at_s / DAY_S - 0.25)), 0.0)
        cloud = rng.choice([1.0, 1.0, 0.1])
        yield {"timestamp": at_s, "type": "power", "power_available": 20.0 * hosts + most_w * sun * cloud}
