"""A site with cooling, services, grid rules, a priced peak, a band and an end value: daemon and Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from complete_site import CHARGING, SHAVING, complete_site
from daemon.serving import serving
from processes import program, started
from small_site import SmallSite, differing

import beasy_sched.api as bs
from beasy_sched.outputs.recording import open_recording


@pytest.fixture(scope="module", params=[CHARGING, SHAVING], ids=["charging", "shaving"])
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> SmallSite:
    return complete_site(tmp_path_factory.mktemp("site"), request.param)


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["easy", "bid-price"])
def test_a_daemon_decides_as_one_process(site: SmallSite, tmp_path: Path, policy: str) -> None:
    one, two = tmp_path / "one", tmp_path / "out"
    shared = ["--policy", policy, "--site", str(site.site)]
    inputs = ["-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events)]
    record = str(tmp_path / "one.rec")
    assert exit_code("simulate", "-q", *inputs, *shared, "-e", str(one / "run"), "--record", record) == 0
    with serving(tmp_path, *shared, "--record", "two.rec") as daemon:
        batsim = ["batsim", "-q", "-E", "--forward-unknown-events", *inputs, "-s", daemon.endpoint]
        with started([program("beasy-sched"), *batsim, "-e", str(two / "run")], Path.cwd()) as simulator:
            assert simulator.wait() == 0, simulator.said()
        assert daemon.wait() == 0, daemon.stderr
    with open_recording(tmp_path / "one.rec") as ours, open_recording(tmp_path / "two.rec") as theirs:
        assert list(theirs.exchanges()) == list(ours.exchanges())
    assert differing(one, two) == ["run_inputs.json"], "a daemon does not know Batsim's files"
    assert exit_code("replay", record, "-p", str(site.platform)) == 0


def test_a_run_from_python(site: SmallSite, tmp_path: Path) -> None:
    run = bs.simulate(
        site.platform, site.workload, site.events, policy="easy", site=site.site, export=tmp_path / "run"
    )
    trace, summary = run.energy_trace, run.summary
    hours_h = trace.duration_s / 3.6e6
    assert (trace.grid_charge_w > 0.0).any()
    assert summary["energy_kwh"]["cooling"] == pytest.approx((trace.cooling_w * hours_h).sum())
    assert summary["energy_kwh"]["grid_charged"] == pytest.approx((trace.grid_charge_w * hours_h).sum())
    assert summary["grid"]["peak_cost"] == pytest.approx(12.0 * summary["grid"]["peak_kw"])
    assert 1.0 < summary["site"]["pue_mean"] < 1.5
    assert "finished" in repr(run)


def test_a_plan_from_python(site: SmallSite, tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    inputs = {"platform": site.platform, "workload": site.workload, "site": site.site}
    plans = bs.plan(**inputs, production=site.events, surplus="store")
    run = bs.simulate(**inputs, events=site.events, policy="beasy", plan=plans, export=tmp_path / "run")
    assert run.summary["site"]["largest_relative_residual"] < 1e-6
