"""evalys reads the files of the embedded simulator as it reads Batsim's, and finds what is in them."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from small_site import small_site

from beasy_sched.model.hosts import HostSet
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import SimulationResult

HERE = Path(__file__).parent
DOCUMENTATION = HERE.parents[1] / "docs" / "guides" / "looking.md"
INSTALL_S = 240
HAS_EVALYS = importlib.util.find_spec("evalys") is not None

HOSTS = 16


@dataclass
class Run:
    """A run of the embedded simulator that has written Batsim's files."""

    prefix: Path
    result: SimulationResult
    sleep_pstate: list[int]
    """By host."""

    def rows(self, name: str) -> list[dict[str, str]]:
        with open(f"{self.prefix}_{name}.csv", newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    site = small_site(folder)
    settings = RunSettings("power-reactive", site=site.site.read_text())
    simulation = site.simulation(prefix=folder / "out")
    session = build_session(settings)
    result = simulation.run(session.step)
    assert session.cluster is not None
    kinds = session.cluster.platform.kinds
    sleeps = [kinds[row].sleep for row in session.cluster.platform.kind_of.tolist()]
    made = Run(folder / "out", result, [sleep.pstate for sleep in sleeps if sleep is not None])
    assert len(made.sleep_pstate) == HOSTS
    assert result.rejected > 0
    assert result.succeeded > 50
    assert len(made.rows("pstate_changes")) > 50
    return made


@pytest.mark.skipif(
    not HAS_EVALYS, reason="evalys is not installed here; a slow test makes its own place for it"
)
def test_evalys_of_this_environment(run: Run, tmp_path: Path) -> None:
    check(run, read_with(sys.executable, run, tmp_path), tmp_path)
    check_the_documented_script(sys.executable, run, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(HAS_EVALYS, reason="evalys is installed here, and tested")
def test_evalys_of_an_environment_of_its_own(run: Run, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment")
    check(run, read_with(str(python), run, tmp_path), tmp_path)
    check_the_documented_script(str(python), run, tmp_path)


def make_environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_S)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "-q", "--no-compile", "--only-binary=:all:"]
    install += ["-r", HERE / "evalys-requirements.txt"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode != 0:
        probe = [*pip, "download", "-q", "--no-deps", "-d", folder / "probe", "procset"]
        if subprocess.run(probe, capture_output=True, timeout=INSTALL_S).returncode != 0:
            pytest.skip("no package index can be reached, so evalys cannot be installed")
        pytest.fail(f"the pinned versions cannot be installed: {done.stderr}")
    return python


def read_with(python: str, run: Run, folder: Path) -> dict[str, Any]:
    command = [python, HERE / "evalys_reads.py", run.prefix, folder / "gantt.png"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(figures, dict)
    return figures


def check(run: Run, figures: dict[str, Any], folder: Path) -> None:
    check_jobs(run, figures)
    check_machine_states(run, figures)
    check_pstates(run, figures)
    picture = (folder / "gantt.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def check_jobs(run: Run, figures: dict[str, Any]) -> None:
    assert figures["jobs"] == run.result.jobs == len(run.rows("jobs"))
    assert figures["succeeded"] == run.result.succeeded
    started = [row for row in run.rows("jobs") if row["starting_time"]]
    busy_s = sum(
        float(row["execution_time"]) * len(HostSet.parse(row["allocated_resources"])) for row in started
    )
    first = min(float(row["starting_time"]) for row in started)
    last = max(float(row["finish_time"]) for row in started)
    assert figures["mean_utilisation"] == pytest.approx(busy_s / (last - first), rel=1e-9)
    intervals = sum(len(row["allocated_resources"].split()) for row in started)
    assert figures["rectangles"] == intervals
    assert figures["hosts"] == [0, HOSTS - 1]


def check_machine_states(run: Run, figures: dict[str, Any]) -> None:
    """Its times have six digits, so the sums agree to about that."""
    assert figures["machine_totals"] == [HOSTS]
    computing_s = host_seconds(figures, "nb_computing")
    jobs_s = sum(
        float(row["execution_time"]) * len(HostSet.parse(row["allocated_resources"]))
        for row in run.rows("jobs")
        if row["starting_time"]
    )
    assert computing_s == pytest.approx(jobs_s, rel=1e-4)


def check_pstates(run: Run, figures: dict[str, Any]) -> None:
    """The time asleep by P-state changes is the time asleep by machine states."""
    assert figures["pstate_hosts"] == [0, HOSTS]
    end = figures["machine_states"][-1][0]
    asleep_s = 0.0
    for begin, until, pstate, intervals in figures["pstate_periods"]:
        hosts = [host for low, high in intervals for host in range(low, high + 1)]
        sleeping = sum(run.sleep_pstate[host] == pstate for host in hosts)
        asleep_s += sleeping * max(0.0, min(until, end) - begin)
    assert asleep_s > 0
    assert asleep_s == pytest.approx(host_seconds(figures, "nb_sleeping"), rel=1e-4)


def host_seconds(figures: dict[str, Any], column: str) -> float:
    at = figures["machine_state_columns"].index(column)
    rows = figures["machine_states"]
    return math.fsum(row[at] * (after[0] - row[0]) for row, after in itertools.pairwise(rows))


def check_the_documented_script(python: str, run: Run, folder: Path) -> None:
    script = DOCUMENTATION.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    (folder / "out").mkdir()
    for name in ("jobs", "machine_states", "pstate_changes"):
        (folder / "out" / f"run_{name}.csv").write_bytes(Path(f"{run.prefix}_{name}.csv").read_bytes())
    command = [python, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr
    assert f"{run.result.jobs} jobs, on average" in done.stdout
