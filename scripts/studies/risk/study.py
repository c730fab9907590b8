"""The study of risk limits: sites x policies x limits, each one run of many windows.

Every window is one that the run has not seen: its forecast and its margins come from what was before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from msgspec import Struct

from beasy_sched._version import __version__
from beasy_sched.api.runs import Run, simulate
from beasy_sched.forecast.production_history import FIRST_ISSUE_H, issue_quantiles
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.forecast_source import forecast_lines
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.power_events import (
    Production,
    Window,
    hourly_with_past,
    pv_production,
    shared_start,
    step_power,
    synthetic_series,
    wind_production,
)
from beasy_sched.generate.power_options import SyntheticWeather
from beasy_sched.generate.workload import GeneratedWorkload, synthetic_workload
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.plugins.campaigns.campaign_table import RunColumn
from beasy_sched.plugins.campaigns.tasks import attempt
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, kw_to_w
from studies.study import Measured, Study

POLICIES: Final = ("beasy", "bid-price")
PROMISES: Final = (0.01, 0.05, 0.1, 0.2)
SERVERS: Final = 25
PV_KW, WIND_KW = 10.0, 7.0
BATTERY_KWH: Final = 40.0
STEP_S: Final = 900.0
WINDOW_DAYS: Final = 3
CORES_PER_HOST: Final = 4
_SITE: Final = f"""
[battery]
capacity_kwh = {BATTERY_KWH:g}
charge_limit_kw = {BATTERY_KWH / 4:g}
discharge_limit_kw = {BATTERY_KWH / 2:g}
[time]
step_s = {STEP_S:g}
window_h = {24 * WINDOW_DAYS}
"""
_SYNTHETIC: Final = {"south": (37.0, 0.3, 5.0), "middle": (46.0, 0.5, 5.0), "north": (55.0, 0.7, 6.0)}
"""Latitude, cloudiness and mean wind of the synthetic weather used without files."""


class Weather(Struct, frozen=True):
    """The weather of a site: files of its sun and its wind, or none for a synthetic sky."""

    name: str
    pv: str = ""
    wind: str = ""

    def productions(self, days: int) -> list[Production]:
        """The plants' production, for at least so many days. Raises InputError."""
        if not self.pv and not self.wind:
            latitude, cloudiness, wind_m_s = _SYNTHETIC[self.name]
            weather = SyntheticWeather(latitude_deg=latitude, cloudiness=cloudiness, wind_mean_m_s=wind_m_s)
            series = synthetic_series(weather, seed=17, start_s=0, hours=24 * days)
            return [_sun(series), _wind(series)]
        given = ((self.pv, _sun), (self.wind, _wind))
        return [make(read_weather_file(path)) for path, make in given if path]


def _sun(series: Any) -> Production:
    return pv_production(series, installed_w=kw_to_w(PV_KW))


def _wind(series: Any) -> Production:
    return wind_production(series, installed_w=kw_to_w(WIND_KW))


def skies() -> list[Weather]:
    """The synthetic skies."""
    return [Weather(name) for name in _SYNTHETIC]


class Promise(Struct, frozen=True):
    """One run: a site, a policy, and what it promises; None: nothing."""

    site: str
    policy: str
    risk: float | None


class RiskTask(Struct, frozen=True):
    """Inputs of a run."""

    folder: str
    run: Promise
    windows: int


def execute_promise(task: RiskTask) -> Measured:
    """Execute a run. The result reports any failure."""
    result = Measured()
    with attempt(result), TemporaryDirectory(prefix="beasy-risk-") as place:
        result.values = measures(_simulated(task, Path(place)), task.windows)
    return result


def _simulated(task: RiskTask, place: Path) -> Run:
    inputs, run = Path(task.folder) / "inputs", task.run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return simulate(
            inputs / "platform.xml",
            inputs / "workload.json",
            inputs / f"{run.site}-power.txt",
            policy=run.policy,
            options={} if run.risk is None else {"risk": run.risk},
            site=inputs / "site.toml",
            forecast=str(inputs / f"{run.site}-forecast.csv"),
            windows=task.windows,
            replan="window" if run.policy == "beasy" else None,
            export=place / "run",
        )


def measures(run: Run, windows: int) -> dict[str, float | int | None]:
    """Return outcomes of jobs and the number of violated windows: a job killed, or a step below SoC_min."""
    window_s, jobs, trace = WINDOW_DAYS * SECONDS_PER_DAY, run.jobs, run.energy_trace
    killed_s = jobs.loc[jobs["final_state"] == "COMPLETED_KILLED", "finish_time"].to_numpy(np.float64)
    least_pct = float(run.summary["site"]["soc_min_pct"])
    low = trace["soc_pct"].to_numpy(np.float64) < least_pct * (1.0 - 1e-9)
    low_s = trace.loc[low, "start_s"].to_numpy(np.float64)
    moments_s = np.concatenate((killed_s, low_s))
    wrong = np.unique(np.minimum(moments_s // window_s, windows - 1))
    counts = run.summary["jobs"]
    return {
        "windows": windows,
        "wrong": len(wrong),
        "submitted": counts["submitted"],
        "finished": counts["finished"] + counts["failed"],
        "killed": len(killed_s),
        "slowdown": run.summary["quality"]["bounded_slowdown_mean"],
    }


COLUMNS: Final = (
    RunColumn("site", "text", "", "where the weather is from"),
    RunColumn("policy", "text", "", "name of the policy"),
    RunColumn("risk", "number", "", "risk limit: share of windows; empty: no limit"),
    RunColumn("windows", "integer", "", "windows of the run"),
    RunColumn("wrong", "integer", "", "windows with a job killed, or the battery below SoC_min"),
    RunColumn("submitted", "integer", "", "jobs submitted"),
    RunColumn("finished", "integer", "", "jobs finished"),
    RunColumn("killed", "integer", "", "jobs killed for lack of energy"),
    RunColumn("slowdown", "number", "", "mean bounded slowdown"),
    RunColumn("error", "text", "", "why the run failed; empty otherwise"),
    RunColumn("version", "text", "", "version of the program"),
)
"""The columns of ``runs.parquet``."""


@dataclass(frozen=True)
class RiskStudy(Study[Promise, Measured]):
    """Sites x policies x promises in a folder."""

    weather: Sequence[Weather]
    trace: str
    """A trace in SWF; "" for synthetic jobs."""
    windows: int
    first_day: int
    """Day of the weather's files at which runs begin."""

    _kind = Measured
    columns = COLUMNS

    @property
    def identity(self) -> Mapping[str, Any]:
        """The program's version, and what the inputs are made from."""
        return {
            "version": __version__,
            "weather": list(self.weather),
            "trace": self.trace,
            "windows": self.windows,
            "first_day": self.first_day,
        }

    @property
    def runs(self) -> list[Promise]:
        """All runs: on every site, each policy without a promise and with each."""
        return [
            Promise(weather.name, policy, risk)
            for weather in self.weather
            for policy in POLICIES
            for risk in (None, *PROMISES)
        ]

    def write_inputs(self) -> None:
        """Write platform, jobs, site, and the power and forecast of every site. Raises InputError."""
        folder = self.folder / "inputs"
        folder.mkdir(exist_ok=True)
        platform = preset_platform({"gros": SERVERS})
        write_platform(platform, folder / "platform.xml")
        self._jobs(platform.kinds[0].reference_speed_flops).write(folder / "workload.json")
        write_inside(folder, "site.toml", _SITE.encode())
        for weather in self.weather:
            productions = weather.productions(self.first_day + self.windows * WINDOW_DAYS + 1)
            first_s = shared_start(productions)
            start_s = None if first_s is None else first_s + self.first_day * round(SECONDS_PER_DAY)
            window = Window(round(self.windows * WINDOW_DAYS * SECONDS_PER_DAY / STEP_S), STEP_S, start_s)
            placed = [(one, window) for one in productions]
            power_w = np.sum([step_power(one, window) for one in productions], axis=0)
            hourly_w, past_h = hourly_with_past(placed)
            lines = forecast_lines(issue_quantiles(hourly_w, past_h), past_h)
            write_inside(folder, f"{weather.name}-forecast.csv", "".join(lines).encode())
            events = "".join(power_event_lines(power_w, STEP_S))
            write_inside(folder, f"{weather.name}-power.txt", events.encode())

    def _jobs(self, speed_flops: float) -> GeneratedWorkload:
        days = self.windows * WINDOW_DAYS
        if self.trace:
            options = SwfOptions(
                start_s=30 * SECONDS_PER_DAY,
                end_s=(30 + days) * SECONDS_PER_DAY,
                cores_per_host=CORES_PER_HOST,
                reference_speed_flops=speed_flops,
            )
            return workload_from_swf(self.trace, options)
        drawn = SyntheticOptions(
            jobs=40 * days,
            hosts=SERVERS,
            day_shares=(1.0,) * days,
            reference_speed_flops=speed_flops,
            seed=17,
        )
        return synthetic_workload(drawn)

    def _name(self, run: Promise) -> str:
        return f"{run.site}-{run.policy}-{'none' if run.risk is None else f'{run.risk:g}'}"

    def _size(self, run: Promise) -> float:
        return float(run.policy == "beasy")

    def _work(self, run: Promise) -> tuple[Callable[[RiskTask], Measured], RiskTask]:
        return execute_promise, RiskTask(str(self.folder.resolve()), run, self.windows)

    def _described(self, run: Promise) -> Mapping[str, Any]:
        return {"site": run.site, "policy": run.policy, "risk": run.risk}


FIRST_DAY: Final = -(-FIRST_ISSUE_H * SECONDS_PER_HOUR // SECONDS_PER_DAY)
"""The first day that has enough of the past before it."""
