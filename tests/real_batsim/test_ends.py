"""A real Batsim whose daemon cannot continue ends, too, and names the reason; and the other way round."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from real_batsim.program import batsims_platform, beside, real_batsim

pytestmark = pytest.mark.slow


def write_jobs(path: Path, subtimes_s: list[float], hosts: int = 4) -> Path:
    jobs = [
        {"id": str(n), "subtime": at_s, "res": 1, "walltime": 10, "profile": "d"}
        for n, at_s in enumerate(subtimes_s)
    ]
    profiles = {"d": {"type": "delay", "delay": 5}}
    path.write_text(json.dumps({"nb_res": hosts, "jobs": jobs, "profiles": profiles}))
    return path


def test_a_site_without_powers(tmp_path: Path) -> None:
    workload = write_jobs(tmp_path / "w.json", [0.0])
    found = beside(tmp_path / "out", batsims_platform("small_platform.xml"), workload, "--site", "default")
    assert found.daemon == 2
    found.batsim_aborted_with(
        "Invalid JSON message: event 0 has an unknown 'type' value"
        " 'the scheduler has ended: the hosts have no wattage_per_state"
    )


def test_a_time_that_the_daemon_does_not_accept(tmp_path: Path) -> None:
    """Batsim's own test_long_workload.json submits its last job at 1e16 s."""
    workload = write_jobs(tmp_path / "w.json", [0.0, 1e16])
    found = beside(tmp_path / "out", batsims_platform("small_platform.xml"), workload)
    assert found.daemon == 1
    found.batsim_aborted_with("the message is for 1e+16 s: no simulation lasts that long")


def many_jobs(tmp_path: Path) -> Path:
    return write_jobs(tmp_path / "w.json", [10.0 * n for n in range(20_000)])


def in_the_middle(tmp_path: Path) -> None:
    """Wait until Batsim has written of some jobs."""
    jobs = tmp_path / "out" / "run_jobs.csv"
    deadline = time.monotonic() + 240
    while not (jobs.exists() and jobs.stat().st_size > 10_000):
        assert time.monotonic() < deadline, "Batsim has not begun"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_daemon(tmp_path: Path, number: signal.Signals) -> None:
    def stop(batsim: subprocess.Popen[bytes], daemon: subprocess.Popen[bytes]) -> None:
        in_the_middle(tmp_path)
        assert batsim.poll() is None
        daemon.send_signal(number)

    platform = batsims_platform("small_platform.xml")
    found = beside(tmp_path / "out", platform, many_jobs(tmp_path), while_running=stop)
    assert found.daemon == 1
    found.batsim_aborted_with(f"the scheduler has ended: stopped by {number.name}")


def test_a_batsim_that_is_killed(tmp_path: Path) -> None:
    def kill(batsim: subprocess.Popen[bytes], daemon: subprocess.Popen[bytes]) -> None:
        in_the_middle(tmp_path)
        assert batsim.poll() is None
        batsim.kill()

    platform = batsims_platform("small_platform.xml")
    found = beside(tmp_path / "out", platform, many_jobs(tmp_path), while_running=kill)
    assert found.daemon == 1
    assert "the simulator disconnected during the simulation" in found.daemon_said


def test_the_helper_finds_a_program() -> None:
    assert "4.2" in subprocess.run([real_batsim(), "--version"], capture_output=True, text=True).stdout
