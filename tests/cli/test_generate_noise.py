"""`generate workload --noise` and `generate power --case`: what really comes where this had been forecast."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from beasy_sched.cli.generate_power import power
from beasy_sched.cli.generate_workload import workload
from beasy_sched.forecast.uncertainty import Uncertainty

TRACE = "".join(f"{n} {n * 600} 5 {300 + n} 2 -1 -1 2 400 -1 1 1 1 -1 1 -1 -1 -1\n" for n in range(1, 60))


def jobs(*arguments: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals, run times and walltimes (s) of a workload."""
    done = CliRunner().invoke(workload, [*arguments, "--reference-speed", "1f", "-q", "-o", "-"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    run_s = {name: profile["cpu"] for name, profile in made["profiles"].items()}
    rows = [(job["subtime"], run_s[job["profile"]], job.get("walltime", np.nan)) for job in made["jobs"]]
    return tuple(np.array(rows).T)


def produced(*arguments: str) -> np.ndarray:
    sky = ["--synthetic", "--pv-kw", "10", "--wind-kw", "7", "--seed", "4", "-q", "-o", "-"]
    done = CliRunner().invoke(power, [*sky, *arguments])
    assert done.exit_code == 0, done.output
    return np.array([json.loads(line)["power_available"] for line in done.stdout.splitlines()])


def test_noise_moves_arrivals_and_run_times_by_its_percentage():
    forecast, real = (jobs("--synthetic", "--seed", "3", *noise) for noise in ((), ("--noise", "20")))
    assert (real[1] / forecast[1] - 1).std() == pytest.approx(0.2, abs=0.02)
    gaps = np.diff(forecast[0]) > 1
    assert (np.diff(real[0]) / np.diff(forecast[0]) - 1)[gaps].std() == pytest.approx(0.2, abs=0.02)
    assert (real[2] > real[1]).all()


def test_no_noise_is_the_forecast():
    for forecast, real in zip(jobs("--synthetic"), jobs("--synthetic", "--noise", "0"), strict=True):
        np.testing.assert_array_equal(forecast, real)


def test_requested_times_of_a_trace_stay(tmp_path: Path):
    path = tmp_path / "t.swf"
    path.write_text("; MaxProcs: 8\n" + TRACE)
    forecast, real, clipped = (
        jobs(str(path), *more) for more in ((), ("--noise", "30"), ("--noise", "30", "--clip-run-time"))
    )
    assert (forecast[1] != real[1]).all()
    np.testing.assert_array_equal(forecast[2], real[2])
    assert (real[1] > real[2]).any()
    np.testing.assert_array_equal(clipped[1], np.minimum(real[1], real[2]))


def test_cases_lie_in_the_band_of_plans():
    forecast, best, worst, between = (
        produced(*case) for case in ((), ("--case", "best"), ("--case", "worst"), ("--case", "between"))
    )
    u = Uncertainty().over(len(forecast), 300.0)
    np.testing.assert_allclose(best, forecast * (1 + u), atol=0.01)
    np.testing.assert_allclose(worst, forecast * (1 - u), atol=0.01)
    assert ((worst - 0.01 <= between) & (between <= best + 0.01)).all()
    lit = forecast > 100
    assert len(np.unique(np.round(between[lit] / forecast[lit], 3))) > 100
    np.testing.assert_array_equal(between, produced("--case", "between"))


def test_the_summary_tells_the_forecast_and_what_is_written(tmp_path: Path):
    arguments = ["--synthetic", "--pv-kw", "10", "--case", "worst", "-o", str(tmp_path / "p.txt")]
    done = CliRunner().invoke(power, arguments)
    forecast_kwh, real_kwh = (
        float(line.split("kWh")[0].split()[-1]) for line in done.stderr.splitlines() if "kWh" in line
    )
    assert 0.7 < real_kwh / forecast_kwh < 0.95
    written = [json.loads(line)["power_available"] for line in (tmp_path / "p.txt").read_text().splitlines()]
    assert sum(written) / 12e3 == pytest.approx(real_kwh, abs=0.01)
