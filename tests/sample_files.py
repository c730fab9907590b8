"""One valid file of every kind that the program reads, and what reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import exit_code
from recording_files import exchanges_in
from small_campaign import SMALL
from small_site import small_site

from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.forecast_source import read_forecast_file
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.power_series import read_power_series, read_weather_file
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import read_site
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.formats.swf import SwfReader
from beasy_sched.generate.platform_file import load_server
from beasy_sched.plugins.campaigns.folder import read_manifest
from beasy_sched.plugins.campaigns.scenario_file import read_scenario
from beasy_sched.plugins.campaigns.status import status_of
from beasy_sched.plugins.learned.model import read_model, shipped_model
from beasy_sched.plugins.reports.run_data import read_run_data
from beasy_sched.run.results import RunTables, read_jobs, read_log, read_trace

SWF = "; MaxProcs: 8\n" + "".join(
    f"{n} {n * 60} 0 300 2 -1 -1 2 600 -1 1 {n % 3} 1 1 1 1 -1 -1\n" for n in range(1, 30)
)
SERVER = """\
name = "my"
idle_w = 62.0
pstates = [{ speed_gflops = 35.2, full_w = 143.45 }, { speed_gflops = 16.0, full_w = 100.78 }]
[sleep]
sleep_w = 4.5
off_s = 6.0
off_w = 76.5
on_s = 164.0
on_w = 110.52
"""
WEATHER = "time,power [kW]\n" + "".join(
    f"2024-06-{d:02} {h:02}:00,{h}.5\n" for d in (1, 2, 3) for h in range(24)
)
PREDICTIONS = "issued,valid,power [W]\n" + "".join(f"0,{h * 3600},{h * 10}\n" for h in range(30))
HISTORY = "time,power [kW],condition\n" + "".join(
    f"2024-06-{d:02} {h:02}:00,{h}.5,sunny\n" for d in range(1, 31) for h in range(24)
)


@dataclass(frozen=True)
class Sample:
    """A file, and how it is read."""

    path: Path
    read: Callable[[Path], Any]


NETWORK = """<?xml version="1.0"?>
<platform version="4.1">
<zone id="all" routing="Full">
<zone id="servers" routing="Full">
<host id="a" speed="1Gf, 0.5Gf"/><host id="b" speed="1Gf, 0.5Gf"/>
<link id="ab" bandwidth="1.25GBps" latency="24us"/>
<link id="loop" bandwidth="498MBps" latency="15us" sharing_policy="FATPIPE"/>
<route src="a" dst="b"><link_ctn id="ab"/></route>
<route src="a" dst="a"><link_ctn id="loop"/></route>
</zone>
<cluster id="c" prefix="c-" suffix=".x" radical="0-2,5" speed="1Gf" bw="125MBps" lat="50us"
 bb_bw="2.25GBps" bb_lat="0.5ms" loopback_bw="100MBps" loopback_lat="0"/>
<zone id="far" routing="Vivaldi"><host id="master_host" speed="1Gf" coordinates="25.5 9.4 1.4"/></zone>
<link id="up" bandwidth="10Gbps" latency="1ms"/>
<zoneRoute src="servers" dst="c" gw_src="a" gw_dst="c-c_router.x"><link_ctn id="up"/></zoneRoute>
</zone>
</platform>
"""
"""A platform with links, routes, a cluster and coordinates."""


def write_network(path: Path) -> Path:
    path.write_text(NETWORK)
    return path


def make_samples(folder: Path) -> dict[str, Sample]:
    """Write the files; return them by their kind."""
    site = small_site(folder, jobs=15)
    run = folder / "run" / "a"
    given = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site]
    recording = folder / "a.rec"
    options = ["-o", run, "--record", recording, "-q"]
    assert exit_code("simulate", *map(str, [*given, *options])) == 0
    for name, text in (
        ("trace.swf", SWF), ("my.toml", SERVER), ("weather.csv", WEATHER), ("predictions.csv", PREDICTIONS),
        ("history.csv", HISTORY), ("scenario.toml", SMALL),
    ):  # fmt: skip
        (folder / name).write_text(text)
    (folder / "model.msgpack").write_bytes(shipped_model("bandit").read_bytes())
    plan = folder / "plan.msgpack"
    planned = [*given[:4], "--site", site.site, "--production", site.events, "-o", plan, "-q"]
    assert exit_code("plan", *map(str, planned)) == 0

    def run_file(name: str) -> Sample:
        return Sample(Path(f"{run}_{name}"), lambda path: _whole_run(str(run)))

    return {
        "platform": Sample(site.platform, read_simgrid_platform),
        "network": Sample(write_network(folder / "network.xml"), read_simgrid_platform),
        "workload": Sample(site.workload, read_workload),
        "events": Sample(site.events, lambda path: read_external_events(path, forward_unknown=True)),
        "powers": Sample(site.events, lambda path: read_power_series(path, steps=None, step_s=300.0)),
        "site": Sample(site.site, read_site),
        "trace": Sample(folder / "trace.swf", lambda path: list(SwfReader(path).chunks())),
        "server": Sample(folder / "my.toml", load_server),
        "weather": Sample(folder / "weather.csv", read_weather_file),
        "predictions": Sample(folder / "predictions.csv", read_forecast_file),
        "history": Sample(folder / "history.csv", read_solar_history),
        "scenario": Sample(folder / "scenario.toml", read_scenario),
        "model": Sample(folder / "model.msgpack", read_model),
        "plan": Sample(plan, read_plans),
        "recording": Sample(recording, exchanges_in),
        "summary": run_file("summary.json"),
        "decisions": run_file("decisions.jsonl"),
        "jobs": run_file("jobs.csv"),
        "energy trace": run_file("energy_trace.csv"),
        "P-states": run_file("pstate_changes.csv"),
        "states": run_file("machine_states.csv"),
    }


def _whole_run(prefix: str) -> None:
    read_run_data("a", prefix)
    tables = RunTables(prefix)
    for name in ("jobs", "energy_trace", "machine_states", "pstate_changes", "decisions", "summary"):
        getattr(tables, name)
    _ = [*read_log(prefix)], [*read_jobs(prefix)], [*read_trace(prefix)]


def campaign_samples(folder: Path) -> dict[str, Sample]:
    """The files of a finished campaign in ``folder``."""
    row = min((folder / "rows").glob("*.json"))
    return {
        "row": Sample(row, lambda path: status_of(folder)),
        "campaign.json": Sample(
            folder / "campaign.json", lambda path: (read_manifest(path), status_of(folder))
        ),
    }


WRONG: tuple[Any, ...] = (None, True, "x", "", -1, 10**30, 10**400, 1e308, 2**63, [], {}, [1], 0.5)
"""Values that stand where others are expected."""


def mutations(value: Any, wrong: tuple[Any, ...] = WRONG) -> Iterator[Any]:
    """Every JSON value that differs from ``value`` in one place, where it has one of ``wrong``."""
    yield from wrong
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: own for key, own in value.items() if key != name}
            yield from ({**value, name: other} for other in mutations(part, wrong))
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in mutations(value[0], wrong))


def json_text(value: Any) -> bytes:
    """JSON as an odd program might write it."""
    return json.dumps(value).encode()
