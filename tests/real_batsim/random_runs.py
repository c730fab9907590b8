"""Random runs for a real Batsim and the embedded simulator: platforms with and without latency, all policies.

Half of the runs have a scheduler that does whatever Batsim allows (jobs that it registers, kills, switches,
P-states, machines that come and go, two files of events); the others have a policy of ours with a site.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from command_line import exit_code
from real_batsim.platforms import KINDS, with_network
from real_batsim.side_by_side import Decide, RealRun, compare_run
from simulator.small import platform_text
from simulator.soaks import OPTIONS, Anything, Soak

from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions

PLANNED = ("follow-plan", "peak", "next", "last", "workload", "random", "q-learning", "bandit", "beasy")
BUDGETED = ("energybud", "reducepc", "powercap")
POLICIES = (
    *("fcfs", "easy", "workload-reactive", "power-reactive", "bid-price"),
    *("greenslot", "conventional", "lowest-window", *BUDGETED, *PLANNED),
)
WITH_SITE = SimulationOptions(energy=True, forward_unknown_events=True)
DAY_S = 86_400
SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 300
window_h = 24
"""


@dataclass(frozen=True)
class RandomRun:
    """A run, drawn by its number."""

    seed: int
    network: str
    """Kind of network, of `KINDS`."""
    policy: str | None
    """A policy of ours; None for a scheduler that does anything."""
    site: str = SITE
    """Site file of a policy's run."""

    @classmethod
    def drawn(cls, seed: int) -> RandomRun:
        return cls(
            seed,
            KINDS[seed // 2 % len(KINDS)],
            POLICIES[seed // 2 % len(POLICIES)] if seed % 2 else None,
        )

    def __str__(self) -> str:
        return f"{self.seed} ({self.policy or 'anything'}, network: {self.network})"

    def compare(self, program: Path, folder: Path) -> tuple[RealRun, list[str]]:
        """Run both simulators; return the real run, and what differs."""
        inputs, options, decide = self._anything(folder) if self.policy is None else self._with_site(folder)
        return compare_run(program, inputs, options, decide, folder)

    def _connect(self, inputs: Inputs) -> Inputs:
        """Give the platform its network."""
        xml = Path(inputs.platform)
        xml.write_text(with_network(xml.read_text(), self.network, Random(self.seed)))
        return replace(inputs, master="master_host0") if self.network == "clusters" else inputs

    def _anything(self, folder: Path) -> tuple[Inputs, SimulationOptions, Decide]:
        soak = Soak.drawn(self.seed)
        return self._connect(soak.write(folder)), OPTIONS, Anything(soak)

    def _with_site(self, folder: Path) -> tuple[Inputs, SimulationOptions, Decide]:
        rng = Random(self.seed)
        fast, slow = rng.randint(2, 6), rng.randint(0, 4)
        workload, power = folder / "workload.json", folder / "power.txt"
        (folder / "platform.xml").write_text(platform_text(fast, slow))
        workload.write_text(json.dumps(_jobs(rng, fast + slow)))
        power.write_text("".join(f"{json.dumps(event)}\n" for event in _production(rng, fast + slow)))
        inputs = self._connect(Inputs(folder / "platform.xml", [workload], [power]))
        return inputs, WITH_SITE, build_session(self._settings(inputs), platform=_known(inputs)).step

    def _settings(self, inputs: Inputs) -> RunSettings:
        site = Path(inputs.platform).with_name("site.toml")
        site.write_text(self.site)
        plan = str(site.with_name("plan.msgpack")) if self.policy in PLANNED else None
        if plan is not None:
            files = {"-p": inputs.platform, "-w": inputs.workloads[0], "--production": inputs.events[0]}
            given = [text for option, path in files.items() for text in (option, str(path))]
            master = ("-m", inputs.master)
            assert exit_code("plan", "--site", str(site), *given, *master, "-o", plan, "-q") == 0
        options: dict[str, Any] = {}
        if self.policy in BUDGETED:
            options = {"budget": "50%", "period_start": 21_600, "period_end": 64_800}
        return RunSettings(
            policy=str(self.policy), options=options, site=self.site, site_name=str(site), plan=plan
        )


def _known(inputs: Inputs) -> Any:
    return read_simgrid_platform(inputs.platform, master=inputs.master).platform


def _jobs(rng: Random, hosts: int) -> dict[str, Any]:
    """Return a day of jobs: some in bursts, some killed at their walltimes."""
    profiles: dict[str, Any] = {
        "work": {"type": "parallel_homogeneous", "cpu": 3e10, "com": 0},
        "long": {"type": "parallel_homogeneous", "cpu": 3e11, "com": 0},
        "wait": {"type": "delay", "delay": 900},
        "both": {"type": "composed", "repeat": 2, "seq": ["wait", "work"]},
    }
    jobs = []
    for number in range(rng.randint(20, 60)):
        subtime_s = rng.choice([0, 3600, 3600.5, rng.randint(0, DAY_S - 20_000), rng.random() * 40_000])
        job = {
            "id": str(number),
            "subtime": subtime_s,
            "res": rng.randint(1, hosts),
            "walltime": rng.choice([400, 1000, 4000.25, 8000]),
            "profile": rng.choice([*profiles]),
            "deadline": subtime_s + 40_000,
        }
        jobs.append(job)
    return {"nb_res": hosts, "jobs": jobs, "profiles": profiles}


def _production(rng: Random, hosts: int) -> Iterator[dict[str, Any]]:
    """Yield the announcements of a day's production, a step of 5 minutes each."""
    most_w = rng.choice([120.0, 250.0]) * hosts
    for at_s in range(0, DAY_S, 300):
        sun = max(math.sin(2 * math.pi * (at_s / DAY_S - 0.25)), 0.0)
        yield {"timestamp": at_s, "type": "power", "power_available": 20.0 * hosts + most_w * sun}
