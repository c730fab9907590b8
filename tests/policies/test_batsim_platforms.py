"""Platforms that were not made for beasy-sched: Batsim's messages tell no speeds, the file does."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import exit_code
from small_site import SITE, SmallSite, differing, small_site

from beasy_sched import plan
from beasy_sched.engine.run_findings import unknown_speeds
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.workload import synthetic_workload
from beasy_sched.generate.workload_options import SyntheticOptions
from beasy_sched.model.platform import SPEEDS_PROPERTY, Platform, ServerKind
from beasy_sched.outputs.files import RunFiles
from beasy_sched.policies.registry import built_in, policy_class
from beasy_sched.run.building import build_session
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

SLOTS = {"slot_s": 300.0}
BUDGET = {"budget": "60%", "period_end": "24h", "shutdown": "opportunistic"}
OPTIONS: dict[str, dict[str, Any]] = {
    "greenslot": {**SLOTS, "window_h": 6},
    "lowest-window": {**SLOTS, "window_h": 6},
    "conventional": SLOTS,
    "energybud": BUDGET,
    "reducepc": BUDGET,
    "powercap": BUDGET,
}

IN_BATSIMS_STYLE = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="AS0" routing="Full">
    <cluster id="cluster_compute" prefix="host" suffix="" radical="0-7" bw="125MBps" lat="50us"
             speed="100.0Mf, 80.0Mf, 1e-9Mf, 0.16f, 0.0066f">
      <prop id="wattage_per_state" value="95:191, 95:160, 9.75:9.75, 101:101, 125:125"/>
      <prop id="sleep_pstates" value="2:3:4"/>
    </cluster>
    <cluster id="cluster_master" prefix="master_host" suffix="" radical="0-0" bw="125MBps" lat="50us"
             speed="100.0Mf">
      <prop id="wattage_per_state" value="95:191"/>
      <prop id="role" value="master"/>
    </cluster>
  </zone>
</platform>
"""
"""As in the files that come with Batsim: no host tells its speeds by a property."""
BATSIMS_OWN = Path(__file__).parents[3] / "shared/batsim-recordings/platforms/cluster_energy_128.xml"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    folder = tmp_path_factory.mktemp("site")
    site = small_site(folder, jobs=50)
    plan(site.platform, site.workload, production=site.events, site=site.site, path=folder / "plan.msgpack")
    return site


def files_of(made: SmallSite, platform: Path, policy: str, folder: Path) -> Path:
    """Run a policy and return the folder of the run's files."""
    folder.mkdir()
    settings = RunSettings(
        policy, OPTIONS.get(policy, {}), made.site.read_text(), plan=str(made.site.parent / "plan.msgpack")
    )
    run_in_process(Inputs(platform, [made.workload], [made.events]), RunFiles(str(folder / "run"), settings))
    return folder


@pytest.mark.sampled
@pytest.mark.parametrize("policy", sorted(built_in()))
def test_a_platform_without_the_property_of_speeds_makes_no_difference(
    made: SmallSite, policy: str, tmp_path: Path
) -> None:
    text, count = re.subn(f'<prop id="{SPEEDS_PROPERTY}"[^>]*>', "", made.platform.read_text())
    assert count == 16
    bare = tmp_path / "bare.xml"
    bare.write_text(text)
    told = files_of(made, made.platform, policy, tmp_path / "told")
    assert differing(told, files_of(made, bare, policy, tmp_path / "bare")) == []


# --- in Batsim's own style ---


def on(platform: Path, folder: Path, hosts: int) -> SmallSite:
    """Jobs, sun and a plan for a platform of so many hosts of 100 Mflop/s at most."""
    made = small_site(folder, jobs=40)
    options = SyntheticOptions(
        reference_speed_flops=100e6, jobs=60, hosts=hosts, day_shares=(1.0,), run_median_s=1200.0, seed=1
    )
    synthetic_workload(options).write(made.workload)
    made.platform.write_bytes(platform.read_bytes())
    made.site.write_text(
        SITE.replace("6.0", "60.0").replace("3.0", "30.0") + "[grid]\nimport_limit_kw = 50\n"
    )
    file = str(folder / "plan.msgpack")
    files = ("-p", made.platform, "-m", "none", "-w", made.workload, "--production", made.events)
    assert exit_code("plan", *map(str, files), "--site", str(made.site), "-o", file, "-q") == 0
    return made


@pytest.fixture(scope="module")
def in_batsims_style(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    folder = tmp_path_factory.mktemp("style")
    (folder / "batsim.xml").write_text(IN_BATSIMS_STYLE)
    return on(folder / "batsim.xml", folder, 8)


@pytest.fixture(scope="module")
def batsims_own(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    if not BATSIMS_OWN.exists():
        pytest.skip(f"Batsim's own platform is missing: {BATSIMS_OWN}")
    return on(BATSIMS_OWN, tmp_path_factory.mktemp("own"), 32)


def summary_of(made: SmallSite, policy: str, folder: Path) -> dict[str, Any]:
    files = ("-p", made.platform, "-m", "none", "-w", made.workload, "--events", made.events)
    site = ("--site", made.site, "--plan", made.site.parent / "plan.msgpack", "-o", folder / "run")
    how = ("--policy", policy, "--options", json.dumps(OPTIONS.get(policy, {})), "-q")
    assert exit_code("simulate", *map(str, (*files, *site, *how))) == 0
    found: dict[str, Any] = json.loads((folder / "run_summary.json").read_text())
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("policy", sorted(built_in()))
def test_every_policy_runs(in_batsims_style: SmallSite, policy: str, tmp_path: Path) -> None:
    found = summary_of(in_batsims_style, policy, tmp_path)
    assert found["complete"]
    assert found["jobs"]["finished"] > 10
    assert not any("speed" in text for text in found["warnings"])
    if policy in ("workload-reactive", "power-reactive", "energybud", "bid-price", "greenslot", "beasy"):
        assert found["quality"]["server_switches"] > 8


@pytest.fixture(scope="module")
def all_the_same(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], SmallSite]:
    """Servers that draw as much idle as busy and asleep; a third of the jobs does not compute."""

    def made(watts: int) -> SmallSite:
        xml = IN_BATSIMS_STYLE
        for powers in re.findall(r'wattage_per_state" value="([^"]+)', xml):
            xml = xml.replace(powers, re.sub(r"[\d.]+:[\d.]+", f"{watts}:{watts}", powers))
        site = small_site(tmp_path_factory.mktemp(f"watts{watts}"), jobs=50)
        site.platform.write_text(xml)
        workload = json.loads(site.workload.read_text())
        for job in workload["jobs"][::3]:
            workload["profiles"][job["profile"]] = {"type": "delay", "delay": 300 + len(job["id"])}
        site.workload.write_text(json.dumps(workload))
        return site

    return cache(made)


@pytest.mark.sampled
@pytest.mark.parametrize("policy", [name for name in sorted(built_in()) if not policy_class(name).needs_plan])
@pytest.mark.parametrize("watts", [30, 0])
def test_nothing_is_divided_by_the_energy_of_jobs_that_cost_none(
    all_the_same: Callable[[int], SmallSite], policy: str, watts: int, tmp_path: Path
) -> None:
    made = all_the_same(watts)
    files = ("-p", made.platform, "-m", "none", "-w", made.workload, "--events", made.events)
    how = ("--policy", policy, "--options", json.dumps(OPTIONS.get(policy, {})), "-q")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        out = ("--site", made.site, "-o", tmp_path / "run")
        assert exit_code("simulate", *map(str, (*files, *out, *how))) == 0
    assert json.loads((tmp_path / "run_summary.json").read_text())["complete"]


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["workload-reactive", "beasy", "next", "bid-price"])
def test_on_a_platform_that_comes_with_batsim(batsims_own: SmallSite, policy: str, tmp_path: Path) -> None:
    found = summary_of(batsims_own, policy, tmp_path)
    assert found["complete"]
    assert found["quality"]["server_switches"] > 100


def test_without_the_file_the_daemon_warns(tmp_path: Path) -> None:
    own = tmp_path / "own.xml"
    own.write_text(IN_BATSIMS_STYLE)
    made = small_site(tmp_path)
    generated = made.platform

    def told_with(platform: Path, known: Platform | None = None) -> list[str]:
        session = build_session(RunSettings(), platform=known)
        inputs = Inputs(
            platform, [made.workload], master="none" if platform != made.platform else "master_host"
        )
        simulation_from_files(inputs, SimulationOptions()).run(session.step)
        return session.warnings

    (told,) = told_with(own)
    assert "waking is assumed instantaneous" in told
    assert "no speed_per_state of host 'host0'" in told
    assert told.endswith("pass Batsim's platform file with -p FILE")
    assert told_with(own, read_simgrid_platform(own, master="none").platform) == []
    assert told_with(generated) == []


def test_a_recording_is_replayed_with_the_file(
    in_batsims_style: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, record = in_batsims_style, str(tmp_path / "run.rec")
    files = ("-p", str(made.platform), "-m", "none", "-w", str(made.workload))
    assert exit_code("simulate", *files, "--policy", "workload-reactive", "--record", record, "-q") == 0
    assert exit_code("replay", record, "-p", str(made.platform)) == 0
    capsys.readouterr()
    assert exit_code("replay", record) == 1
    assert "if the run had them from a platform file, pass it with -p" in capsys.readouterr().err


def test_check_tells_that_the_daemon_needs_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    route = (
        '<link id="backbone" bandwidth="1.25GBps" latency="500us"/><zoneRoute src="cluster_compute"'
        ' dst="cluster_master" gw_src="hostcluster_compute_router" gw_dst="master_hostcluster_master_router">'
        '<link_ctn id="backbone"/></zoneRoute></zone>'
    )
    (tmp_path / "own.xml").write_text(IN_BATSIMS_STYLE.replace("</zone>", route))
    assert exit_code("check", "-p", str(tmp_path / "own.xml"), "-m", "none") == 0
    assert "serve options" in capsys.readouterr().out
    assert exit_code("check", "-p", str(small_site(tmp_path).platform)) == 0
    assert "serve options" not in capsys.readouterr().out


def test_no_warning_where_speeds_make_no_difference() -> None:
    """Hosts of a single P-state that never sleep."""
    one = ServerKind("a", ())
    assert unknown_speeds(Platform((one,), np.zeros(2, dtype=np.intp), ("a", "b"))) is None
