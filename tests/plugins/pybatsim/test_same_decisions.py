"""A policy inside pybatsim decides what the daemon decides on the same messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code
from pybatsim_inside import PybatsimInside
from small_site import SmallSite, small_site

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.planner.replanner import replanned
from beasy_sched.protocol import batsim4
from beasy_sched.run.building import build_session

pytest.importorskip("batsim", reason="pybatsim is not installed")

Exchange = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    """With a plan, made from what really comes."""
    made = small_site(tmp_path_factory.mktemp("site"))
    inputs = ("-p", str(made.platform), "-w", str(made.workload), "--production", str(made.events))
    plan = str(made.site.with_name("plan.msgpack"))
    assert exit_code("plan", *inputs, "--site", str(made.site), "-o", plan, "-q") == 0
    return made


def daemon_run(site: SmallSite, options: dict[str, object]) -> list[Exchange]:
    """Run as the daemon does, over bytes; return every message and reply."""
    from beasy_sched.plugins.pybatsim.scheduler import read_options

    settings = read_options(options).settings()
    platform = read_simgrid_platform(site.platform).platform if "platform" in options else None
    exchanges: list[Exchange] = []
    with replanned(settings, lambda: platform) as planner:
        session = build_session(settings, platform=platform, replan=planner.rule, plans=planner.plans)
        step = ObservedSession(session, planner.observers).step

        def decide(message: Message) -> Reply:
            raw = batsim4.encode_message(message)
            reply = step(batsim4.decode_message(raw))
            exchanges.append((raw, batsim4.encode_reply(reply)))
            return batsim4.decode_reply(exchanges[-1][1])

        site.simulation(events="site" in options).run(decide)
    return exchanges


CASES = {
    "easy": {"policy": "easy"},
    "fcfs": {"policy": "fcfs"},
    "easy with options": {"policy": "easy", "options": {"priority": "slowdown", "backfill": "smallest"}},
    "sleeping servers": {"policy": "workload-reactive"},
    "a site": {"policy": "easy", "site": "site.toml"},
    "its own account": {"policy": "easy", "site": "site.toml", "energy": "model"},
    "power follows the sun": {"policy": "power-reactive", "site": "site.toml"},
    "no power actions": {"policy": "power-reactive", "site": "site.toml", "power_actions": False},
    "a plan": {"policy": "beasy", "site": "site.toml", "plan": "plan.msgpack"},
    "plans made during the run": {
        "policy": "beasy",
        "site": "site.toml",
        "platform": "platform.xml",
        "replan": {"every": "8h", "workloads": ["workload.json"], "production": "power.txt"},
    },
    "a plan to go on from": {
        "policy": "follow-plan",
        "site": "site.toml",
        "plan": "plan.msgpack",
        "replan": "12h",
    },
}


def in_folder(value: object, folder: Path) -> object:
    """The options with the names of the site's files as paths."""
    if isinstance(value, dict):
        return {key: in_folder(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [in_folder(one, folder) for one in value]
    return str(folder / value) if isinstance(value, str) and (folder / value).is_file() else value


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
def test_same_decisions_as_the_daemon(site: SmallSite, case: str) -> None:
    from beasy_sched.pybatsim import BeasyScheduler

    options = {key: in_folder(value, site.site.parent) for key, value in CASES[case].items()}
    inside = PybatsimInside(BeasyScheduler(options))
    exchanges = daemon_run(site, options)
    for message, reply in exchanges:
        assert json.loads(inside(message)) == json.loads(reply)
    session = inside.scheduler.session
    assert session.ended
    if "replan" in options:
        assert session.replanning.count("made") == len(session.replanning.done) > 0
    assert inside.scheduler.session.outcomes.counts()["finished"] > 0


@pytest.mark.slow
def test_the_cases_make_every_kind_of_decision(site: SmallSite) -> None:
    """The comparison above means something only if what is compared occurs."""
    seen = {"EXECUTE_JOB": 0}
    for options in ({"policy": "power-reactive", "site": str(site.site)}, {"policy": "workload-reactive"}):
        for _, reply in daemon_run(site, options):
            for event in json.loads(reply)["events"]:
                seen[event["type"]] = seen.get(event["type"], 0) + 1
    assert set(seen) == {
        "EXECUTE_JOB",
        "REJECT_JOB",
        "KILL_JOB",
        "SET_RESOURCE_STATE",
        "CALL_ME_LATER",
        "QUERY",
    }
    assert all(count > 0 for count in seen.values())


@pytest.mark.slow
def test_outputs_are_those_of_the_daemon(site: SmallSite, tmp_path: Path) -> None:
    from beasy_sched.pybatsim import BeasyScheduler

    options = {"policy": "power-reactive", "site": str(site.site)}
    exchanges = daemon_run(site, options)
    inside = PybatsimInside(BeasyScheduler({**options, "export": str(tmp_path / "out" / "run")}))
    for message, _ in exchanges:
        inside(message)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "run_decisions.jsonl",
        "run_energy_trace.csv",
        "run_summary.json",
    ]
    starts = sum(reply.count(b'"EXECUTE_JOB"') for _, reply in exchanges)
    log = (tmp_path / "out" / "run_decisions.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["action"] == "start" for line in log) == starts
