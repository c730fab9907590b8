"""The policy `beasy` on a site with its plan: whole processes, and the time of each decision."""

from __future__ import annotations

import re
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from bench.traces import ROWS, command
from pytest_benchmark.fixture import BenchmarkFixture

from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

pytestmark = pytest.mark.bench

SIZES = [pytest.param(100, id="100"), pytest.param(1000, id="1000")]
ARRIVALS = ["begin", "end"]


@dataclass(frozen=True)
class Case:
    """Three days of a site: 20 jobs and 340 W of sun and wind a server, a battery of 2 kWh a server."""

    servers: int
    arrivals: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{20 * self.servers} jobs at the {self.arrivals}, {self.servers} servers"

    def path(self, name: str) -> Path:
        return self.folder / name

    def make(self) -> Case:
        """Generate the inputs and the plan."""
        factor = self.servers // 100
        default = files("beasy_sched.formats").joinpath("default_site.toml").read_text("utf-8")
        site = re.sub(
            r"^(\w+_kwh?) = (\S+)", lambda m: f"{m[1]} = {float(m[2]) * 2 * factor}", default, flags=re.M
        )
        self.path("site.toml").write_text(site, "utf-8")
        self._run(
            "generate", "platform", "--servers", f"gros:{self.servers}", "-o", self.path("platform.xml")
        )
        workload = ("--jobs", 20 * self.servers, "--hosts", self.servers, "--arrivals", self.arrivals)
        self._run(
            "generate", "workload", "--synthetic", *workload, "--seed", 1, "-o", self.path("workload.json")
        )
        power = ("--pv-kw", 20 * factor, "--wind-kw", 14 * factor)
        self._run("generate", "power", "--synthetic", *power, "--seed", 1, "-o", self.path("power.txt"))
        self._run(
            "plan", *self.files(), "--production", self.path("power.txt"), "-o", self.path("plan.msgpack")
        )
        return self

    def files(self) -> list[object]:
        """The options that name platform, workload and site."""
        return [
            "-p",
            self.path("platform.xml"),
            "-w",
            self.path("workload.json"),
            "--site",
            self.path("site.toml"),
        ]

    def _run(self, *arguments: object) -> None:
        subprocess.run(command(*arguments, "-q"), check=True)


@pytest.fixture(scope="session")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Make a case once a session."""
    made: dict[tuple[int, str], Case] = {}

    def make(servers: int, arrivals: str) -> Case:
        if servers >= 1000 and request.config.getoption("--quick"):
            pytest.skip("takes longer than a minute")
        key = (servers, arrivals)
        if key not in made:
            made[key] = Case(servers, arrivals, tmp_path_factory.mktemp(f"beasy-{servers}-{arrivals}")).make()
        return made[key]

    return make


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("servers", SIZES)
def test_whole_run(
    servers: int,
    arrivals: str,
    case: Callable[[int, str], Case],
    benchmark: BenchmarkFixture,
    tmp_path: Path,
) -> None:
    """CPU time of `beasy-sched simulate --policy beasy`, from start to end."""
    one = case(servers, arrivals)
    power = ["--events", one.path("power.txt"), "--plan", one.path("plan.msgpack")]
    arguments = command("simulate", *one.files(), *power, "--policy", "beasy", "-e", tmp_path / "run", "-q")
    taken: list[float] = []

    def run() -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(arguments, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    benchmark.pedantic(run, rounds=3 if servers < 1000 else 1)
    goal_s = 5 if servers < 1000 else 100
    seconds = sorted(taken)[len(taken) // 2]
    ROWS.append(
        (f"beasy, {one.name}", f"{seconds:.1f} s CPU", f"{goal_s} s (goal)", f"{goal_s / seconds:.1f}", "")
    )


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("servers", SIZES)
def test_decisions(
    servers: int, arrivals: str, case: Callable[[int, str], Case], benchmark: BenchmarkFixture
) -> None:
    """CPU time of each message in the scheduler: how long Batsim would wait for it."""
    one = case(servers, arrivals)
    milliseconds = benchmark.pedantic(time_decisions, args=(one,), rounds=1)
    half, most, longest = np.percentile(milliseconds, [50, 99, 100]).tolist()
    ROWS.append(
        (
            f"beasy, a decision, {one.name}",
            f"{half:.2f} ms p50, {most:.1f} ms p99, {longest:.0f} ms max",
            "20 ms p99 (goal)",
            f"{20 / most:.1f}",
            f"{len(milliseconds)} messages",
        )
    )


def time_decisions(one: Case) -> np.ndarray:
    """Run in this process; return the CPU time of each message, ms."""
    site = one.path("site.toml").read_text("utf-8")
    session = build_session(RunSettings(policy="beasy", site=site, plan=str(one.path("plan.msgpack"))))
    milliseconds: list[float] = []

    def decide(message: Message) -> Reply:
        begin = time.process_time()
        reply = session.step(message)
        milliseconds.append(1e3 * (time.process_time() - begin))
        return reply

    inputs = Inputs(one.path("platform.xml"), [one.path("workload.json")], [one.path("power.txt")])
    options = SimulationOptions(energy=True, forward_unknown_events=True)
    simulation_from_files(inputs, options).run(decide)
    return np.array(milliseconds)
