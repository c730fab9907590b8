"""The image and compose.yaml with podman and a real Batsim, as docs/guides/batsim.md shows them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import exit_code
from containers.engine import (
    BATSIM,
    PATIENCE_S,
    Containers,
    make_images,
    podman,
    state,
    wait_until,
)
from project.played import blocks, play
from project.shell import ROOT
from small_site import small_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGE = (ROOT / "docs/guides/batsim.md").read_text("utf-8")
WITH_BATSIM, EMBEDDED, BY_HAND = blocks(PAGE.partition("## In containers")[2].partition("\n## ")[0], "sh")
OWNER = 1000
"""The user of the image and of compose's default."""


@pytest.fixture
def containers(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Containers]:
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    make_images(shared / "images.lock")
    made = Containers(tmp_path, f"beasytest{os.getpid()}")
    yield made
    made.remove()


def days(place: Path, jobs: int) -> Path:
    """Inputs in a folder of the image's user."""
    folder = place / "days"
    folder.mkdir()
    small_site(folder, jobs=jobs)
    for path in (folder, *folder.iterdir()):
        os.chown(path, OWNER, OWNER)
    return folder


def simulated(folder: Path, *options: str | Path) -> Path:
    """The file of jobs of the same run by `simulate`."""
    inputs = ["-p", folder / "platform.xml", "-w", folder / "workload.json", "--events", folder / "power.txt"]
    outputs = ["--site", folder / "site.toml", "-o", folder.parent / "other", "-q"]
    assert exit_code("simulate", *map(str, [*inputs, *options, *outputs])) == 0
    return folder.parent / "other_jobs.csv"


def assert_same_jobs(found: Path, expected: Path) -> None:
    """All columns are the same to the last digit, but for the energy, whose sum has another order."""
    tables = [list(csv.DictReader(path.open(newline=""))) for path in (found, expected)]
    for rows in tables:
        assert len(rows) > 100
    energies_j = [[float(row.pop("consumed_energy") or "nan") for row in rows] for rows in tables]
    assert tables[0] == tables[1]
    assert energies_j[0] == pytest.approx(energies_j[1], rel=1e-9, abs=1e-5, nan_ok=True)


def test_the_guide(containers: Containers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands in their order; all runs have the jobs of `scripts/run`, which calls `simulate`."""
    results, place = containers.place / "out/run", containers.place
    monkeypatch.setenv("BATSIM_IMAGE", BATSIM)
    exports = "".join(re.findall(r"^export .*\n", WITH_BATSIM, re.MULTILINE))
    for block in (WITH_BATSIM, exports + EMBEDDED, BY_HAND):
        for old in results.glob("run_*"):
            old.unlink()
        play(place, block, timeout_s=PATIENCE_S)
        assert_same_jobs(results / "run_jobs.csv", results / "easy/run_jobs.csv")
        assert (results / "run_summary.json").stat().st_uid == os.getuid()
        assert containers.left() == []


def test_beasy_makes_its_plan(containers: Containers) -> None:
    folder = days(containers.place, jobs=120)
    for has_plan in (False, True):
        assert (folder / "plan.msgpack").exists() == has_plan
        containers.log.unlink(missing_ok=True)
        up = containers.compose("up", "--exit-code-from", "scheduler", DATA=folder, POLICY="beasy")
        assert up.wait(PATIENCE_S) == 0, containers.log.read_text()
        said = containers.log.read_text()
        assert ("making it from workload.json and power.txt" in said) == (not has_plan)
        assert f"results in {folder}: run_summary.json, run_jobs.csv" in said
        jobs = simulated(folder, "--policy", "beasy", "--plan", folder / "plan.msgpack")
        assert_same_jobs(folder / "run_jobs.csv", jobs)
        assert {path.stat().st_uid for path in folder.iterdir()} == {OWNER}
        assert containers.compose("down", DATA=folder).wait(PATIENCE_S) == 0
        assert containers.left() == []


@pytest.mark.parametrize(("killed", "by"), [("scheduler", "KILL"), ("scheduler", "TERM"), ("batsim", "KILL")])
def test_one_side_is_killed(containers: Containers, killed: str, by: str) -> None:
    """In the middle of a run; `down` ends a Batsim whose scheduler could not end it any more."""
    folder = days(containers.place, jobs=20_000)
    up = containers.compose("up", "--exit-code-from", "scheduler", DATA=folder)
    growing = folder / ".run_decisions.jsonl.part"
    wait_until(lambda: growing.exists() and growing.stat().st_size > 0, "the run begins")
    assert up.poll() is None
    assert podman("healthcheck", "run", containers.name("scheduler")).strip() in ("", "healthy")
    podman("kill", "--signal", by, containers.name(killed))
    assert up.wait(PATIENCE_S) != 0
    said = containers.log.read_text()
    assert "refused" not in said  # as the health check would be that connected
    if killed == "batsim":
        wait_until(lambda: not state(containers.name("scheduler"))["Running"], "the scheduler ends")
        assert state(containers.name("scheduler"))["ExitCode"] == 1
        assert "the simulator disconnected" in (folder / "run_failed_summary.json").read_text()
    elif by == "TERM":
        wait_until(lambda: not state(containers.name("batsim"))["Running"], "Batsim ends")
        assert "the scheduler has ended: stopped by SIGTERM" in containers.log.read_text()
    assert containers.compose("down", DATA=folder).wait(PATIENCE_S) == 0
    assert containers.left() == []


def test_the_image(containers: Containers) -> None:
    assert podman("run", "--rm", "--entrypoint", "id", "beasy-sched", "-u").strip() == str(OWNER)
    assert re.fullmatch(r"beasy-sched,? .*\n", podman("run", "--rm", "beasy-sched", "--version"))
    name = containers.name("scheduler")
    podman("run", "--detach", "--name", name, "--entrypoint", "sleep", "beasy-sched", "600")
    with pytest.raises(AssertionError, match="unhealthy"):  # nothing listens
        podman("healthcheck", "run", name)
