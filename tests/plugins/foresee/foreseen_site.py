"""A small site whose future can be replaced: jobs by name, production and prices by the hour."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.model.choices import OnKill
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.drawn_failures import FailureModel
from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
from beasy_sched.plugins.foresee.forecast import ENCODER
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.simulator import Inputs

HOUR_S = 3600.0
SITE = """
[battery]
capacity_kwh = 12.0
charge_limit_kw = 6.0
discharge_limit_kw = 6.0
[time]
step_s = 300
window_h = {window_h}
start = "2019-06-01T00:00:00+00:00"
"""
GRID = """
[grid]
import_limit_kw = 1.0
price = { file = "price.csv", known = "24h" }
"""
HYDROGEN = """
[hydrogen]
tank_kg = 1.0
level_start_kg = 0.3
level_target_kg = 0.2
electrolyzer_max_kw = 1.0
fuel_cell_max_kw = 1.0
"""
MILL = """
[[source]]
name = "mill"
kind = "river"
flow_m3_s = 0.01
head_m = 2.5
"""
"""Requires the kind `river.RIVER`."""
BUDGETED = ("energybud", "reducepc", "powercap")
LOADS = """
[cooling]
pue = [[0, 1.1], [30, 1.6]]
temperature = "temperature.csv"
[load]
series = "services.csv"
"""


@dataclass(frozen=True)
class FutureSite:
    """Inputs of a run; times in s, powers in W."""

    jobs: Sequence[dict[str, object]]
    power_w: np.ndarray
    """One for each step of 300 s."""
    window_h: int = 72
    hosts: int = 8
    prices: Sequence[float] = ()
    """By the hour; empty without a grid."""
    temperatures_c: Sequence[float] = ()
    """Of the air outside, by the hour; empty without cooling and services."""
    services_kw: Sequence[float] = ()
    """By the hour, as many."""
    failures: Sequence[dict[str, object]] = ()
    options: dict[str, object] = field(default_factory=dict)
    with_site: bool = True
    hydrogen: bool = False
    windows: int = 1
    on_kill: OnKill = OnKill.DROP
    site_more: str = ""
    """Further sections of the site file."""
    forecast: Sequence[tuple[float, Sequence[Sequence[float]]]] = ()
    """Forecasts of the production: time of each issue, and powers of each hour from then on, by column."""
    forecast_columns: Sequence[str] = ("p10", "p50", "p90")
    replan_every: str | None = None
    """Interval of the plans, which expect the workload and production of the run; None: no plans."""

    def write(self, folder: Path) -> tuple[Inputs, RunSettings]:
        """Write the files; return the inputs of a run of ``easy`` and its settings."""
        folder.mkdir(parents=True, exist_ok=True)
        platform = preset_platform({"gros": self.hosts})
        write_platform(platform, folder / "platform.xml")
        speed = platform.kinds[0].reference_speed_flops
        profiles = {
            str(job["id"]): {"type": "delay", "delay": job["run"]}
            if job.get("delay")
            else {"type": "parallel_homogeneous", "cpu": job["run"] * speed, "com": 0}
            for job in self.jobs
        }
        for job in self.jobs:
            if (kind := job.get("kind", "task")) != "task" and not job.get("delay"):
                name, half_s = f"half of {job['id']}", job["run"] / 2.0
                profiles[name] = {"type": "parallel_homogeneous", "cpu": half_s * speed, "com": 0}
                parts = [name, name]
                if kind == "mixed":
                    parts = ["some", name, name]
                profiles[str(job["id"])] = {"type": "composed", "seq": parts}
                profiles["some"] = {"type": "delay", "delay": 5.0}
        jobs = [
            {
                "id": job["id"], "subtime": job["at"], "res": job["res"], "profile": job["id"],
                "walltime": job["walltime"], **({"user": job["user"]} if "user" in job else {}),
            }
            for job in sorted(self.jobs, key=lambda job: job["at"])
        ]  # fmt: skip
        workload = {"nb_res": self.hosts, "jobs": jobs, "profiles": profiles}
        (folder / "workload.json").write_text(json.dumps(workload))
        (folder / "power.txt").write_text("".join(power_event_lines(self.power_w, 300.0)))
        site = SITE.format(window_h=self.window_h)
        if self.hydrogen:
            site += HYDROGEN
        if self.prices:
            _write_hours(folder / "price.csv", "price_per_kwh", self.prices)
            site += GRID
        if self.temperatures_c:
            _write_hours(folder / "temperature.csv", "temperature", self.temperatures_c)
            _write_hours(folder / "services.csv", "power_kw", self.services_kw)
            site += LOADS
        site += self.site_more
        failures = None
        if self.failures:
            failures = folder / "failures.jsonl"
            failures.write_text("".join(f"{json.dumps(line)}\n" for line in self.failures))
        forecast = None
        if self.forecast:
            forecast = folder / "forecast.csv"
            rows = [
                ",".join(map(str, [at_s, at_s + HOUR_S * hour, *powers_w]))
                for at_s, hours in self.forecast
                for hour, powers_w in enumerate(hours)
            ]
            forecast.write_text("\n".join([",".join(("issued", "valid", *self.forecast_columns)), *rows, ""]))
        settings = RunSettings(
            forecast=None if forecast is None else str(forecast),
            site=site if self.with_site else None,
            site_name=str(folder / "site.toml"),
            options=self.options,
            windows=self.windows,
            on_kill=self.on_kill,
        )
        if self.replan_every is not None:
            expected = str(folder / "workload.json"), str(folder / "power.txt")
            replan = ReplanSettings(self.replan_every, workloads=expected[:1], production=expected[1])
            settings = changed(settings, replan=replan)
        events = [folder / "power.txt"] if self.with_site else []
        return Inputs(
            folder / "platform.xml", [folder / "workload.json"], events, failures=failures
        ), settings


def _write_hours(path: Path, column: str, values: Sequence[float]) -> None:
    hours = [
        f"2019-06-{1 + hour // 24:02}T{hour % 24:02}:00:00Z,{value}" for hour, value in enumerate(values)
    ]
    path.write_text("\n".join([f"time,{column}", *hours, ""]))


def foreseen(
    site: FutureSite, folder: Path, policy: str, moments: Moments, *, continuations: int = 4,
    warn: Callable[[str], None] = lambda text: None, limit_s: float = 300.0,
    failures: FailureModel | None = None,
) -> ForecastFollower:  # fmt: skip
    """Run a policy with forecasts; files are in ``folder`` with the prefix ``run``."""
    inputs, settings = site.write(folder)
    foresight = ForecastFollower(
        moments, continuations=continuations, at_once=2, warn=warn, limit_s=limit_s, failures=failures
    )
    settings = changed(settings, policy=policy)
    run_in_process(inputs, RunFiles(str(folder / "run"), settings), followers=[foresight])
    return foresight


def changed(settings: RunSettings, **changes: object) -> RunSettings:
    """Return settings with changes."""
    from msgspec.structs import replace as replaced

    return replaced(settings, **changes)


def with_policy(site: FutureSite, policy: str, number: int = 0) -> FutureSite:
    """Return a site for any policy, with plans; ``number`` selects hydrogen, grid, services and cooling."""
    options = {"budget": "50%", "period_start": 21_600, "period_end": 64_800} if policy in BUDGETED else {}
    hours, grid = range(24 * 4), number % 3 > 0
    return replace(
        site, options=options, hydrogen=number % 2 == 0,
        prices=[0.1 + 0.01 * (hour % 24) for hour in hours] if grid else (),
        temperatures_c=[15.0 + 0.5 * (hour % 24) for hour in hours] if number % 3 == 2 else (),
        services_kw=[0.1 + 0.01 * (hour % 24) for hour in hours] if number % 3 == 2 else (),
        replan_every="12h",
    )  # fmt: skip


def told(foresight: ForecastFollower) -> list[bytes]:
    """Return the forecasts as they were told, without what happened."""
    lines = []
    for forecast in foresight.forecasts:
        for job in forecast.jobs:
            job.started_s = job.ended_s = None
        if forecast.steps is not None:
            forecast.steps.actual_soc_pct = forecast.steps.actual_hydrogen_kg = None
        lines.append(ENCODER.encode(forecast))
    return lines


def some_jobs(
    rng: np.random.Generator, *, until_s: float, count: int = 120, hosts: int = 8
) -> list[dict[str, object]]:
    """Draw jobs of three users that take a part of their walltimes."""
    times_s = np.sort(rng.uniform(0.0, until_s, count)).round(3)
    return [
        {
            "id": f"j{number}",
            "at": float(at_s),
            "res": int(rng.integers(1, hosts // 2 + 1)),
            "walltime": float(walltime_s),
            "run": round(float(walltime_s * rng.uniform(0.1, 0.9)), 3),
            "user": int(rng.integers(3)),
            "delay": bool(rng.random() < 0.2),
        }
        for number, (at_s, walltime_s) in enumerate(
            zip(times_s.tolist(), rng.choice([3600.0, 7200.0, 14400.0], count).tolist(), strict=True)
        )
    ]


def sunny_w(hours: int, most_w: float = 2500.0) -> np.ndarray:
    """Return the power of clear days by the step of 300 s, W."""
    hour = np.arange(hours * 12) / 12.0 % 24.0
    return np.round(most_w * np.clip(np.sin((hour - 6.0) / 12.0 * np.pi), 0.0, None), 1)
