"""Started by pybatsim's own command, as the documentation says, with a simulator at the other end."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from processes import PATIENCE_S, ZmqScheduler, free_endpoint, program, started
from small_site import SmallSite, small_site

from beasy_sched.model.events import Message
from beasy_sched.protocol.batsim4 import encode_message
from beasy_sched.protocol.farewell import reason_of
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Ending

pytest.importorskip("batsim", reason="pybatsim is not installed")

DOCUMENTATION = Path(__file__).resolve().parents[3] / "docs" / "guides" / "batsim.md"


def pybatsim(endpoint: str, options: dict[str, object], *more: str) -> list[str]:
    command = [program("pybatsim"), "beasy_sched/pybatsim", "-s", endpoint, "-v", "warning"]
    return [*command, "-o", json.dumps(options), *more]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    return small_site(tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_a_whole_run_over_zeromq(site: SmallSite, tmp_path: Path) -> None:
    """The same schedule, energy and end as with the session in the simulator's own process."""
    endpoint = free_endpoint()
    options: dict[str, object] = {"policy": "power-reactive", "site": str(site.site), "export": "out/run"}
    with started(pybatsim(endpoint, options), tmp_path) as process, ZmqScheduler(endpoint) as scheduler:
        over_zeromq = site.simulation().run(scheduler.decide)
        assert process.wait() == 0, process.said()
    settings = RunSettings("power-reactive", site=site.site.read_text())
    direct = site.simulation().run(build_session(settings).step)
    assert over_zeromq.ending is direct.ending is Ending.FINISHED
    assert over_zeromq.energy_j == pytest.approx(direct.energy_j, rel=1e-9)
    assert (over_zeromq.jobs, over_zeromq.succeeded, over_zeromq.rejected) == (
        direct.jobs,
        direct.succeeded,
        direct.rejected,
    )
    assert json.loads((tmp_path / "out" / "run_summary.json").read_text())["error"] is None


@pytest.mark.slow
def test_the_documented_commands(site: SmallSite, tmp_path: Path) -> None:
    """As they stand in docs/guides/batsim.md, but for the endpoint."""
    for path in (site.platform, site.workload, site.events, site.site):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "out").mkdir()
    blocks = DOCUMENTATION.read_text("utf-8").partition("\n## pybatsim")[2].split("```sh\n")[1:3]
    theirs, ours = (shlex.split(block.partition("\n")[0]) for block in blocks)
    endpoint = ["-s", free_endpoint()]
    with (
        started([program(theirs[0]), *theirs[1:], *endpoint], tmp_path) as scheduler,
        started([program(ours[0]), *ours[1:], *endpoint], tmp_path) as simulator,
    ):
        assert simulator.wait() == 0, simulator.said()
        assert scheduler.wait() == 0, scheduler.said()
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"run_jobs.csv", "run_pstate_changes.csv", "run_summary.json", "run_energy_trace.csv"} <= written


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"polcy": "easy"}, "polcy: no such field"),
        ({"policy": "easi"}, "unknown policy 'easi'"),
        ({"options": {"priority": "fast"}}, "priority"),
        ({"site": "nowhere.toml"}, "nowhere.toml: cannot be read"),
        ({"platform": "nowhere.xml"}, "nowhere.xml"),
        ({"policy": "power-reactive"}, "requires a site"),
        ({"policy": "beasy", "site": "default"}, "requires an offline plan"),
        ({"policy": "beasy", "site": "default", "plan": "nowhere.msgpack"}, "nowhere.msgpack"),
        ({"site": "default", "replan": {"evry": "window"}}, "replan.evry: no such field"),
        ({"site": "default", "replan": "window"}, "requires the expected demand"),
    ],
)
def test_wrong_options_end_with_one_message(tmp_path: Path, options: dict[str, object], told: str) -> None:
    done = subprocess.run(
        pybatsim(free_endpoint(), options), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_peer_that_breaks_the_protocol_ends_the_run(site: SmallSite, tmp_path: Path) -> None:
    endpoint = free_endpoint()
    command = pybatsim(endpoint, {"export": "run"})
    with started(command, tmp_path) as process, ZmqScheduler(endpoint) as scheduler:
        scheduler.ask(first_message(site))
        reply = scheduler.ask(
            b'{"now":5,"events":[{"timestamp":5,"type":"RESOURCE_STATE_CHANGED",'
            b'"data":{"resources":"0-1","state":"3"}}]}'
        )
        assert "which was not requested" in str(reason_of(reply))
        assert process.wait() == 1
        assert "which was not requested" in process.said()
        assert "Traceback" not in process.said()
    summary = json.loads((tmp_path / "run_failed_summary.json").read_text())
    assert "which was not requested" in summary["error"]


@pytest.mark.slow
def test_a_simulator_that_falls_silent(site: SmallSite, tmp_path: Path) -> None:
    endpoint = free_endpoint()
    command = pybatsim(endpoint, {}, "-t", "200")
    with started(command, tmp_path) as process, ZmqScheduler(endpoint) as scheduler:
        scheduler.ask(first_message(site))
        assert process.wait() == 1
        assert "no message from the simulator within pybatsim's --timeout" in process.said()
        assert "Traceback" not in process.said()


@pytest.mark.slow
def test_protect_is_refused(site: SmallSite, tmp_path: Path) -> None:
    endpoint = free_endpoint()
    command = pybatsim(endpoint, {}, "--protect")
    with started(command, tmp_path) as process, ZmqScheduler(endpoint) as scheduler:
        scheduler.send(first_message(site))
        assert process.wait() == 2
        assert "start without it" in process.said()


def first_message(site: SmallSite) -> bytes:
    return encode_message(Message(0.0, [site.simulation().begins()]))
