"""What the generators make, Batsim loads: read back as strictly as `beasy-sched batsim` reads it."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import costly_examples
from generate.test_platform import server_specs
from generate.test_workload import trace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_campaign import scenario

from beasy_sched.cli import cli
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.batsim_events import power_event_lines, read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.noise import noisy_workload
from beasy_sched.generate.platform_file import PState, ServerSpec, Sleep, build_platform, write_platform
from beasy_sched.generate.workload import GeneratedWorkload, synthetic_workload
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.plugins.campaigns.run_inputs import materialize
from beasy_sched.simulator import Inputs, Simulation, SimulationOptions

OPTIONS = SimulationOptions(energy=True, forward_unknown_events=True)


def load(made: GeneratedWorkload) -> None:
    """Read the workload back; all jobs must be there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.json"
        made.write(path)
        assert len(read_workload(path).jobs) == made.size


@settings(max_examples=costly_examples(100))
@given(st.lists(server_specs(), min_size=1, max_size=4, unique_by=lambda s: s.name), st.integers(1, 12))
def test_platforms(specs: list[ServerSpec], count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.xml"
        write_platform(build_platform((spec, count) for spec in specs), path)
        found = read_simgrid_platform(path, strict=True)
        text = path.read_text()
    assert (found.platform.size, found.master, found.notes) == (count * len(specs), "master_host", ())
    assert 'id="role"' not in text
    for new, old in (("wattage_per_state", "watt_per_state"), ("wattage_off", "watt_off")):
        assert text.count(f'id="{new}"') == text.count(f'id="{old}"') == count * len(specs) + 1


@pytest.mark.parametrize(
    "spec",
    [
        ServerSpec("a", 1.0, (PState(1e300, 1.0),)),
        ServerSpec("a", 1.0, (PState(1.0, 1.0),), Sleep(1.0, 1e-310, 1.0, 1.0, 1.0)),
    ],
)
def test_servers_that_no_platform_file_can_hold(spec: ServerSpec) -> None:
    with pytest.raises(ConfigError):
        spec.check()


times = st.sampled_from([-1, 0, 0.5, 1e-9, 1, 2.5, 86_400, 1e9]) | st.floats(-10, 1e7).map(
    lambda t: round(t, 7)
)
counts = st.sampled_from([-1, 0, 1, 4, 1000])
swf_jobs = st.fixed_dictionaries(
    {"submit": times, "wait": times, "run": times, "alloc": counts, "req": counts, "time": times}
) | st.fixed_dictionaries({"number": st.integers(-1, 2), "run": st.floats(0.01, 1e6), "alloc": counts})
swf_options = st.fixed_dictionaries(
    {
        "walltimes": st.sampled_from(["trace", "groups", "none"]),
        "missing_walltime": st.sampled_from([2.0, 1.0, "drop", "none"]),
        "clip_run_time": st.booleans(),
        "zero_run_time_s": st.sampled_from([None, 1.0, 1e-7]),
        "profile_type": st.sampled_from(["delay", "parallel_homogeneous"]),
        "hosts": st.sampled_from([None, 1, 16]),
        "keep_oversize": st.booleans(),
        "cores_per_host": st.sampled_from([1, 16]),
        "carry_over": st.booleans(),
        "start_s": st.sampled_from([None, 0.0, 30.5]),
        "extras": st.sampled_from([(), ("user", "wait", "job_number")]),
    }
)


@given(st.lists(swf_jobs, min_size=1, max_size=8), swf_options, st.sampled_from([None, 0.0, 0.2, 1.0]))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_workloads_from_traces_and_their_noise(
    jobs: list[dict[str, float]], options: dict[str, Any], sigma: float | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = trace(Path(folder), *jobs)
        try:
            made = workload_from_swf(path, SwfOptions(reference_speed_flops=1e9, **options))
        except InputError:
            return  # no job is left
    load(made)
    if sigma is not None:
        for rule in ("groups", "keep", "none"):
            load(noisy_workload(made, seed=1, arrivals_sigma=sigma, run_sigma=sigma, walltimes=rule))


@given(
    st.integers(1, 40),
    st.sampled_from(["delay", "parallel_homogeneous"]),
    st.sampled_from([1.0, 1800.0, 1e7]),
    st.sampled_from([1.0, 3600.0]),
    st.sampled_from([0.0, 1.3, 10.0]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_synthetic_workloads_and_their_noise(
    jobs: int, kind: Any, median: float, cap: float, spread: float, walltimes: bool, seed: int
) -> None:
    made = synthetic_workload(
        SyntheticOptions(
            reference_speed_flops=35.2e9,
            jobs=jobs,
            profile_type=kind,
            run_median_s=median,
            run_cap_s=cap,
            run_log_sd=spread,
            gap_log_sd=spread,
            night_ratio=0.1 if seed % 2 else 1.0,
            walltimes=walltimes,
            seed=seed,
        )
    )
    load(made)
    load(noisy_workload(made, seed=seed, arrivals_sigma=1.0, run_sigma=1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_s": [1e300]}, "number of flops is inf"),
        ({"walltime_s": [math.inf]}, "walltime is inf"),
        ({"submit_s": [math.nan]}, "submission time is nan"),
        ({"hosts": [2**31]}, "2147483648 hosts"),
    ],
)
def test_numbers_that_batsim_cannot_read_are_not_written(
    tmp_path: Path, change: dict[str, list[float]], message: str
) -> None:
    columns: dict[str, Any] = {"submit_s": [0.0], "run_s": [5.0], "hosts": [1], "walltime_s": [9.0]} | change
    made = GeneratedWorkload(
        nb_res=4,
        window_s=10.0,
        ids=["7"],
        reference_speed_flops=1e10,
        **{name: np.array(values) for name, values in columns.items()},
    )
    with pytest.raises(ConfigError, match=message):
        made.write(tmp_path / "w.json")
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=20), st.sampled_from([1e-6, 0.1, 1 / 3, 300.0, 3600.0])
)
def test_power_events(power_w: list[float], step_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "power.txt"
        path.write_text("".join(power_event_lines(power_w, step_s)))
        events = read_external_events(path, forward_unknown=True)
    assert [event.timestamp for event in events] == [round(step * step_s, 6) for step in range(len(power_w))]


def test_the_command_for_power_from_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"2019-06-{1 + h // 24:02} {h % 24:02}:00,{h % 2 * 1.5e-7:g}" for h in range(48)]
    Path("plant.csv").write_text("time,pv_kw\n" + "\n".join(rows) + "\n")
    for source in (
        "--synthetic --seed 1 --pv-kw 10 --wind-kw 7 --start 2019-06-01 --days 3 --write-ninja ninja",
        "--synthetic --seed 1 --pv-kw 0.001 --days 1 --case between",
        "--synthetic --seed 1 --wind-kw 1e6 --days 1 --case worst",
        "--pv plant.csv --pv-capacity-kw 2 --pv-kw 10 --start 2019-06-01 --days 1 --case best",
        "--wind ninja_wind.csv --route weather --wind-kw 2 --start 2019-06-01 --days 1",
        "--pv ninja_pv.csv --route electricity --pv-kw 3 --start 2019-06-02 --days 1",
    ):
        cli(["generate", "power", *source.split(), "-o", "power.txt", "-q"], standalone_mode=False)
        events = read_external_events("power.txt", forward_unknown=True)
        assert len(events) in (288, 864)
        assert events[0].timestamp == 0


def test_the_files_of_a_scenario(tmp_path: Path) -> None:
    materialize(scenario(), tmp_path, seed=1)
    for kind in ("", "forecast_"):
        inputs = Inputs(
            tmp_path / "platform.xml",
            [tmp_path / f"{kind}workload.json"],
            [tmp_path / f"{kind}power.txt"],
            strict=BatsimFormat.BATSIM4,
        )
        platform, workloads, events = inputs.read(OPTIONS)
        assert platform.notes == ()
        assert Simulation(platform, workloads, events, OPTIONS).begins().resources[0].properties["role"] == ""
