"""The clairvoyant bound, against cases that can be computed by hand, and against what policies do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_campaign import run_campaign, scenario
from studies.comparison.bound import (
    ClairvoyantBound,
    bound_of,
    clairvoyant_bound,
    compute_bounds,
    fluid_servers,
)

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.formats.batsim_jobs import JobColumns, WorkloadJob
from beasy_sched.formats.batsim_profiles import Homogeneous
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.units import kwh_to_j

KIND = ServerKind(
    name="plain",
    speeds_flops=(1e9, 0.5e9, 1e-3, 1.0, 1.0),
    idle_w=(100.0, 80.0, 0.0, 50.0, 50.0),
    epsilon_w=(100.0, 80.0, 0.0, 50.0, 50.0),
    full_w=(2000.0, 500.0, 0.0, 50.0, 50.0),
    sleeps=(SleepState(2, 3, 4),),
)
"""2 kW at full speed, 0.5 kW at half of it: an hour of full speed's work takes 1 kWh at least; 0 W asleep."""
HOUR_FLOPS = 3.6e12


def platform(hosts: int) -> Platform:
    names = tuple(f"h{n}" for n in range(hosts))
    return Platform((KIND,), np.zeros(hosts, dtype=np.intp), names)


def site(*, capacity_kwh: float = 0.0, hydrogen: HydrogenSpec | None = None, **battery: float) -> Site:
    """Steps of an hour; a battery without losses that starts full at half of its capacity."""
    known = {"soc_min_pct": 0.0, "soc_max_pct": 100.0, "charge_efficiency": 1.0, "discharge_efficiency": 1.0}
    spec = BatterySpec(kwh_to_j(capacity_kwh), **{**known, **battery})
    return Site(Storage(spec, hydrogen), step_s=3600.0)


def workload(*jobs: tuple[float, int, float], walltime_s: float | None = None) -> Workload:
    """Jobs of arrival (h), hosts and hours at full speed."""
    profiles = {f"p{hours}": Homogeneous(f"p{hours}", 0, hours * HOUR_FLOPS, False) for _, _, hours in jobs}
    given = [
        WorkloadJob(f"w0!{n}", 3600.0 * at, hosts, f"p{hours}", walltime_s)
        for n, (at, hosts, hours) in enumerate(jobs)
    ]
    return Workload("w0", "hand.json", 10, JobColumns.of(given), profiles, {})


def bound(where: Site, hosts: int, jobs: Workload, *kw: float) -> ClairvoyantBound:
    return clairvoyant_bound(where, platform(hosts), jobs, 1e3 * np.array(kw))


def test_the_servers_at_best():
    found = fluid_servers(platform(3))
    assert (found.hosts, found.asleep_kw, found.speed_flops) == (3.0, 0.0, 1e9)
    assert found.busy_kw == pytest.approx(1.0)


def test_energy_that_cannot_be_stored():
    """Jobs of 1, 2 and 3 kWh, and 4 hours of 1 kW: the first two and a third of the last; 4 of 6 kWh."""
    jobs = workload((0, 1, 1.0), (0, 1, 2.0), (0, 1, 3.0))
    found = bound(site(), 3, jobs, 1.0, 1.0, 1.0, 1.0)
    assert found.finished_pct == pytest.approx(100.0 * (2 + 1 / 3) / 3)
    assert found.work_pct == pytest.approx(100.0 * 4 / 6)
    assert found.in_time_pct == 100.0


def test_nothing_is_done_before_it_arrives():
    """The first two hours' energy comes before the job does; half of it runs on half a host."""
    assert bound(site(), 1, workload((2, 1, 2.0)), 1.0, 1.0, 1.0, 0.5).finished_pct == pytest.approx(50.0)
    assert bound(site(), 1, workload((0, 1, 2.0)), 1.0, 1.0, 1.0, 0.5).finished_pct == pytest.approx(100.0)


def test_a_job_computes_on_its_own_hosts_only():
    """Two hours' work that arrives an hour before the end: too late for one host, not for two."""
    assert bound(site(), 4, workload((3, 1, 2.0)), 9.0, 9.0, 9.0, 9.0).in_time_pct == 0.0
    assert bound(site(), 4, workload((3, 2, 1.0)), 9.0, 9.0, 9.0, 9.0).finished_pct == pytest.approx(100.0)
    late = workload((0, 1, 3.0), (0, 1, 3.0))
    assert bound(site(), 2, late, 0.0, 9.0, 9.0, 9.0).finished_pct == pytest.approx(100.0)
    assert bound(site(), 2, late, 0.0, 0.0, 9.0, 9.0).finished_pct == pytest.approx(0.0, abs=1e-6)
    assert bound(site(), 2, late, 0.0, 0.5, 9.0, 9.0).finished_pct == pytest.approx(25.0)


def test_servers_are_limited():
    """Four hosts' work of two hours on two hosts for three hours: three quarters of it."""
    jobs = workload(*[(0, 1, 2.0)] * 4)
    assert bound(site(), 2, jobs, 9.0, 9.0, 9.0).finished_pct == pytest.approx(75.0)


def test_the_battery_and_its_target():
    """Five of ten kWh at the start, five at the end: what comes can be shifted, but not used up twice."""
    jobs = workload(*[(0, 1, 1.0)] * 6)
    half = site(capacity_kwh=10.0)
    assert bound(half, 6, jobs, 0.0, 3.0).finished_pct == pytest.approx(50.0)
    no_target = site(capacity_kwh=10.0, soc_target_pct=0.0)
    assert bound(no_target, 6, jobs, 0.0, 1.0).finished_pct == pytest.approx(100.0)
    floor = site(capacity_kwh=10.0, soc_min_pct=40.0, soc_target_pct=40.0)
    assert bound(floor, 6, jobs, 0.0, 1.0).finished_pct == pytest.approx(100.0 * 2 / 6)
    lossy = site(capacity_kwh=10.0, charge_efficiency=0.5, discharge_efficiency=0.5)
    assert bound(lossy, 6, workload(*[(1, 1, 1.0)] * 6), 4.0, 0.0).finished_pct == pytest.approx(100.0 / 6)


def test_a_target_out_of_reach_is_what_a_sleeping_site_reaches():
    poor = site(capacity_kwh=10.0, soc_target_pct=90.0)
    assert bound(poor, 2, workload((0, 1, 1.0)), 1.0, 1.0).finished_pct == pytest.approx(0.0, abs=1e-6)


def test_a_job_that_would_reach_its_walltime_cannot_finish():
    jobs = workload((0, 1, 1.0), (0, 1, 2.0), walltime_s=5400.0)
    assert bound(site(), 2, jobs, 9.0, 9.0, 9.0, 9.0).in_time_pct == 50.0


def test_no_jobs():
    assert bound(site(), 2, workload(), 1.0) == ClairvoyantBound(100.0, 100.0, 100.0)


def test_sites_that_it_does_not_know():
    hydrogen = HydrogenSpec(10.0, 5.0, 5.0, 1000.0, 1000.0)
    with pytest.raises(ConfigError, match="without hydrogen and grid"):
        bound(site(hydrogen=hydrogen), 2, workload((0, 1, 1.0)), 1.0)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 2), st.sampled_from((0.5, 1.0, 2.0))),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.integers(0, 15),
)
def test_no_schedule_finishes_more(jobs, kw, chosen):
    """Any subset of jobs that a greedy schedule gets through, hour by hour, is within the bound."""
    picked = [job for n, job in enumerate(jobs) if chosen >> n & 1]
    energy = [float(power) for power in kw]
    for at, hosts, hours in picked:
        needed = hosts * hours
        for hour in range(at, 6):
            used = min(energy[hour], needed, hosts * 1.0)
            energy[hour] -= used
            needed -= used
        if needed > 1e-9:
            return  # this order does not get through
    found = bound(site(), 9, workload(*jobs), *map(float, kw))
    assert found.finished_pct >= 100.0 * len(picked) / len(jobs) - 1e-6


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bound") / "out"
    scarce = scenario(("pv_kw = 1", "pv_kw = 0.15"), ("capacity_kwh = 2.0", "capacity_kwh = 0.8"))
    run_campaign(folder, scarce)
    return read_campaign(folder)


def test_no_policy_that_keeps_the_target_finishes_more(campaign, tmp_path: Path):
    executor = Processes(2)
    try:
        bounds = compute_bounds(campaign, tmp_path / "bounds", executor)
    finally:
        executor.close()
    assert [*bounds] == [("small", 0, 1), ("small", 0, 2)]
    assert all(each.finished_pct < each.in_time_pct - 1.0 for each in bounds.values())
    runs, kept = campaign.runs, 0
    for run in runs.itertuples():
        best = bounds[run.scenario, run.tuple, run.seed]
        if run.soc_distance_points >= 0.0 and run.unserved_kwh == 0.0:
            kept += 1
            assert run.finished_pct <= best.finished_pct + 1e-6
            assert run.work_finished_pct <= best.work_pct + 1e-6
    assert kept > 0
    assert len([*(tmp_path / "bounds").iterdir()]) == 2


def test_bounds_are_computed_once(campaign, tmp_path: Path):
    class Counting:
        """Does tasks at once, and counts them."""

        busy, slots, done = 0, 1, 0
        result: tuple = ()

        def submit(self, key, function, argument):
            assert function is bound_of
            self.busy, self.result = 1, (key, function(argument))
            self.done += 1

        def next_done(self):
            self.busy = 0
            return self.result

        def close(self):
            """Nothing is left."""

    first, second = Counting(), Counting()
    bounds = compute_bounds(campaign, tmp_path / "bounds", first)
    assert compute_bounds(campaign, tmp_path / "bounds", second) == bounds
    assert (first.done, second.done) == (2, 0)


def test_a_bound_that_fails_is_told(campaign, tmp_path: Path):
    for path in campaign.folder.path.glob("inputs/power-*"):
        path.rename(path.with_suffix(".away"))
    executor = Processes(1)
    try:
        with pytest.raises(BeasyError, match="cannot be read"):
            compute_bounds(campaign, tmp_path / "bounds", executor)
    finally:
        executor.close()
        for path in campaign.folder.path.glob("inputs/power-*"):
            path.rename(path.with_suffix(".txt"))
