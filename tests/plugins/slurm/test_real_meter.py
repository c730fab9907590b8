"""A run beside a real Slurm that measures energy: its plugin for IBM's servers reads this test's file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from plugins.slurm.real_bridge import SITE, bridge, platform, power_file
from plugins.slurm.real_cluster import LONG, PATIENCE_S, RealCluster, why_not

__all__ = ["platform"]
pytestmark = [pytest.mark.slow, *LONG]

WATTS = 87.0
"""What each node draws, busy or not; the platform says 50 W and 100 W."""
SETTINGS = ("AcctGatherEnergyType=acct_gather_energy/ibmaem", "AcctGatherNodeFreq=1")


@pytest.fixture
def real_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two nodes, whose daemons see this test's folder in the place of /sys/devices/platform."""
    if reason := why_not():
        pytest.skip(reason)
    sensors = tmp_path / "platform" / "aem.0"
    sensors.mkdir(parents=True)
    (sensors / "power1_average").write_text(f"{WATTS * 1e6:.0f}\n")
    (sensors / "energy1_input").write_text("1000000\n")
    mounted = f"mount --bind {sensors.parent} /sys/devices/platform"
    if subprocess.run(["unshare", "-m", "sh", "-c", mounted], check=False).returncode:
        pytest.skip("no folder can be mounted here")
    inside = ("unshare", "-m", "sh", "-c", f'{mounted} && exec "$@"', "sh")
    (tmp_path / "slurm").mkdir()
    with RealCluster(tmp_path / "slurm", 2, settings=SETTINGS, inside=inside) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        yield cluster


def test_the_energy_is_that_of_slurms_meters(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    (tmp_path / "s.toml").write_text(SITE)
    power = power_file(tmp_path, 800.0)
    options = ("--site", tmp_path / "s.toml", "--power", power, "--policy", "easy", "--for", "45s")
    with bridge(
        real_cluster, "--act", "--meter", "slurm", "-p", platform, *options, "-o", tmp_path / "run"
    ) as running:
        real_cluster.submit(15, "-N1", "-t", "1")
        assert running.process.wait(PATIENCE_S) == 0
    trace = pd.read_csv(tmp_path / "run_energy_trace.csv")
    assert len(trace) >= 3
    assert trace["demand_w"][1:].to_numpy() == pytest.approx(2 * WATTS, rel=0.02)
