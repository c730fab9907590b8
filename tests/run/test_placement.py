"""Whole runs in which an EASY scheduler places the jobs: their files, recordings and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from small_site import SmallSite, differing, small_site

from beasy_sched.api.runs import simulate
from beasy_sched.errors import ConfigError
from beasy_sched.model.choices import Placement
from beasy_sched.run.building import build_session
from beasy_sched.run.results import read_log
from beasy_sched.run.settings import RunSettings


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    return small_site(tmp_path_factory.mktemp("placement"), jobs=60)


def run(site: SmallSite, out: Path, *more: str) -> int:
    files = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site]
    return exit_code(
        "simulate", *map(str, files), "--policy", "power-reactive", "-q", "-o", str(out / "run"), *more
    )


def test_the_same_run_has_the_same_files(site: SmallSite, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert run(site, tmp_path / name, "--placement", "external") == 0
    assert differing(tmp_path / "one", tmp_path / "two") == []


def test_placement_own_changes_nothing_but_the_setting(site: SmallSite, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(), (tmp_path / "two").mkdir()
    assert run(site, tmp_path / "one") == 0
    assert run(site, tmp_path / "two", "--placement", "own") == 0
    assert differing(tmp_path / "one", tmp_path / "two") == ["run_inputs.json", "run_summary.json"]


def test_a_recording_is_replayed_with_its_placement(site: SmallSite, tmp_path: Path) -> None:
    assert run(site, tmp_path, "--placement", "external", "--record", str(tmp_path / "talk")) == 0
    assert exit_code("replay", str(tmp_path / "talk"), "-p", str(site.platform)) == 0


def test_changes_of_offers_are_logged_once(site: SmallSite, tmp_path: Path) -> None:
    found = simulate(
        site.platform,
        site.workload,
        site.events,
        policy="power-reactive",
        site=site.site,
        placement="external",
        export=tmp_path / "run",
    )
    assert found.summary["settings"]["placement"] == "external"
    lines = [line for line in read_log(str(tmp_path / "run")) if line.action == "offer"]
    policys = [line for line in lines if "guard" not in line.rule]
    assert policys
    last: dict[object, object] = {}
    for line in policys:
        kind, count = line.facts["server_kind"], line.facts["servers_offered"]
        assert last.get(kind) != count
        assert line.facts.get("servers_before") == last.get(kind)
        last[kind] = count


def test_an_unknown_placement_is_an_error(site: SmallSite) -> None:
    with pytest.raises(ConfigError, match="placement: found 'slurm', expected one of own, external"):
        simulate(site.platform, site.workload, placement="slurm")  # type: ignore[arg-type]


def test_a_cluster_places_the_jobs_itself() -> None:
    here = build_session(RunSettings("easy", placement=Placement.EXTERNAL))
    elsewhere = build_session(RunSettings("easy", placement=Placement.EXTERNAL, placed_elsewhere=True))
    assert here.options.placer is not None
    assert elsewhere.options.placer is None
    assert elsewhere.view.placement is Placement.EXTERNAL
    assert build_session(RunSettings("easy")).options.placement is Placement.OWN
