"""CPU time of the continuations of a moment, next to running the rest of the run as often.

The peers are runs that continue in their own process, without copies: in the same drawn futures, and in their
actual future, which may have fewer jobs.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from bench.days import JOBS, SERVERS, SITE, STEP_S, cpu_s
from bench.traces import ROWS, TRACES

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.continuation import horizon_s, moment_of, replace_future
from beasy_sched.plugins.foresee.drawing import by_walltimes, draw
from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
from beasy_sched.plugins.foresee.known import known_at
from beasy_sched.run.following import RunFollower
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, Simulation

pytestmark = pytest.mark.bench

DAY_S = 86_400.0
CONTINUATIONS = 10
ROUNDS = 2


class _Rest(RunFollower):
    """Measures the CPU time from a moment to the end of the run."""

    def __init__(self, at_s: float) -> None:
        self._at_s, self._began_s, self.rest_s = at_s, 0.0, 0.0

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        simulation.pause_at(self._at_s, self._note)

    def _note(self) -> None:
        self._began_s = time.process_time()

    def end(self, files: RunFiles) -> None:
        self.rest_s = time.process_time() - self._began_s


class _Drawn(_Rest):
    """Continues into a drawn future at a moment, and measures the CPU time of that."""

    def __init__(self, at_s: float, number: int | None) -> None:
        """``number`` is that of the future; None: the one by walltimes."""
        super().__init__(at_s)
        self._number = number

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        self._simulation, self._running = simulation, running
        super().begin(simulation, running)

    def _note(self) -> None:
        simulation, session, at_s = self._simulation, self._running.session, self._at_s
        until_s = horizon_s(session, at_s)
        known = known_at(at_s, until_s, simulation, session)
        drawn = by_walltimes(known) if self._number is None else draw(known, self._number)
        replace_future(simulation, session, moment_of(session, at_s, until_s), drawn)
        super()._note()


class _Costed(ForecastFollower):
    """Measures the CPU time of a forecast, that of its continuations included."""

    cost_s = 0.0

    def _at_moment(self) -> None:
        before_s = _used_s()
        super()._at_moment()
        self.cost_s += _used_s() - before_s


def _used_s() -> float:
    both = (resource.getrusage(whom) for whom in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


@pytest.mark.parametrize("name", ["days", "kth-sp2"])
def test_continuations_cost_little_more_than_running(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = {each: tmp_path / each for each in ("platform.xml", "workload.json", "power.txt")}
    folder, trace = request.config.getoption("--traces"), TRACES["kth-sp2"]
    servers, days, at_s = (SERVERS, 3, DAY_S) if name == "days" else (trace.hosts, 7, 3 * DAY_S)
    source: list[object] = ["--synthetic", "--jobs", JOBS, "--arrivals", "uniform"]
    if name != "days":
        if folder is None or not (folder / trace.file).is_file():
            pytest.skip("needs --traces with KTH-SP2")
        source = ["--swf", folder / trace.file, "--from", "120d", "--duration", "7d"]
    cpu_s("generate", "platform", "--servers", f"gros:{servers}", "-o", files["platform.xml"])
    cpu_s("generate", "workload", *source, "--hosts", servers, "-o", files["workload.json"])
    power = ["--synthetic", "--pv-kw", servers / 5, "--wind-kw", servers / 7, "--days", days, "--dt", STEP_S]
    cpu_s("generate", "power", *power, "-o", files["power.txt"])
    site = SITE.read_text("utf-8").replace("window_h = 72", f"window_h = {24 * days}")
    settings = RunSettings(policy="easy", site=site, site_name=str(SITE))
    inputs = Inputs(files["platform.xml"], [files["workload.json"]], [files["power.txt"]])
    costs, rests, drawns = [], [], []

    def rest_s(follower: _Rest) -> float:
        run_in_process(inputs, RunFiles(None, settings, decisions=False), followers=[follower])
        return follower.rest_s

    for _ in range(ROUNDS):
        costed = _Costed(Moments(at_s=(at_s,)), continuations=CONTINUATIONS, at_once=1)
        run_in_process(inputs, RunFiles(None, settings, decisions=False), followers=[costed])
        (forecast,) = costed.forecasts
        assert forecast.continuations == CONTINUATIONS
        rests.append(rest_s(_Rest(at_s)) * (CONTINUATIONS + 1))  # one more by walltimes
        drawns.append(sum(rest_s(_Drawn(at_s, number)) for number in (*range(CONTINUATIONS), None)))
        costs.append(costed.cost_s)
    cost_s, drawn_s = min(costs), min(drawns)
    what = f"{CONTINUATIONS} continuations, {'3 days' if name == 'days' else 'a week of KTH-SP2'}"
    for peer_s, peer in ((drawn_s, "these futures"), (min(rests), "the actual future")):
        remark = f"CPU time; peer: {peer} as often, without copies; {servers} servers"
        ROWS.append((what, f"{cost_s:.2f} s", f"{peer_s:.2f} s", f"{cost_s / peer_s:.2f}", remark))
    assert cost_s < 1.3 * drawn_s
