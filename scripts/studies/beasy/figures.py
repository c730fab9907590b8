"""The figures of a reproduction, numbered as in the BEASY paper: what they show, from campaigns and runs.

Single runs of a campaign looked at closely: all their files, made again from the campaign's inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.decoding import read_frame
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.planner.forecast import CURVES
from beasy_sched.planner.plan import Plan
from beasy_sched.plugins.campaigns.campaign import Preparation
from beasy_sched.plugins.campaigns.campaign_table import Campaign
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.run_inputs import make_forecast, make_real, read_back
from beasy_sched.plugins.campaigns.samples import interval
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.sweep import RunSpec
from beasy_sched.plugins.campaigns.tasks import TRACE, RunResult, execute
from beasy_sched.plugins.campaigns.workers import Failure, work_through
from beasy_sched.units import SECONDS_PER_HOUR
from studies.beasy.study import PolicySample, Study
from studies.figures import (
    OUTCOMES,
    BoxPanel,
    Figures,
    MeanBars,
    PowerCurves,
    SocCurve,
    box_figure,
    nine_curves_figure,
    outcome_figure,
    power_figure,
    prediction_figure,
    soc_figure,
    tuple_figure,
)

if TYPE_CHECKING:
    import pandas as pd


FOLDER = "closeups"


@dataclass(frozen=True)
class Closeup:
    """The files of one run; `beasy-sched explain` reads the folder."""

    folder: Path

    @property
    def trace(self) -> pd.DataFrame:
        """The energy trace of the run."""

        return read_frame(self.folder / TRACE)

    def kills(self) -> dict[float, int]:
        """Return the number of jobs killed by hour of the kill, without those that the run's end cut off."""

        jobs = read_frame(self.folder / "run_jobs.csv")
        last = self.trace.iloc[-1]
        in_time = jobs["finish_time"] < last["start_s"] + last["duration_s"] - 1.0
        killed = jobs[(jobs["final_state"] == "COMPLETED_KILLED") & in_time]
        times, counts = np.unique(np.round(killed["finish_time"] / SECONDS_PER_HOUR, 2), return_counts=True)
        return dict(zip(times.tolist(), counts.tolist(), strict=True))


def make_closeups(campaign: Campaign, runs: Iterable[str], out: Path, *, jobs: int) -> dict[str, Closeup]:
    """Execute the named runs again, once, into ``out/closeups/RUN``; return those that went well."""
    wanted = {name: Closeup(out / FOLDER / name) for name in runs}
    specs = {spec.key: spec for spec in campaign.specs}
    missing = [specs[name] for name, closeup in wanted.items() if not (closeup.folder / TRACE).exists()]
    prepared = Preparation(campaign.folder)
    tasks = ((spec, execute, prepared.task(spec, "everything")[0]) for spec in missing)

    def write(spec: RunSpec, result: RunResult | Failure) -> None:
        if isinstance(result, Failure):
            return
        folder = wanted[spec.key].folder.relative_to(out).as_posix()
        for name in sorted(result.files, key=TRACE.__eq__):  # the trace last: where it is, all is
            write_inside(out, f"{folder}/{name}", result.files[name])

    with contextlib.closing(Processes(jobs)) as executor:
        work_through(executor, tasks, write)
    return {name: closeup for name, closeup in wanted.items() if (closeup.folder / TRACE).exists()}


OUTCOME_NUMBERS: Final = {"best-begin": 9, "best-end": 11, "worst-begin": 12, "worst-end": 13}
"""The paper's figure of each critical scenario."""
COMPARED: Final = ("workload-reactive", "beasy")
"""Policies whose states of charge Figures 10 and 15 compare."""


def critical_figures(
    campaign: Campaign, study: Study, closeups: Mapping[str, Closeup], soc_runs: Mapping[str, str]
) -> Figures:
    """Yield Figures 3, 4 (of the first scenario), 7, 9, 11 to 13, and 10 if its runs exist."""
    scenarios = {scenario.name: scenario for scenario in campaign.manifest.parsed()}
    yield from _prediction_figures(campaign, next(iter(scenarios.values())))
    if {"best-begin", "best-end", "worst-begin"} <= scenarios.keys():
        yield "fig07_power", _critical_powers(scenarios)
    for name, sample in study.items():
        number = f"fig{OUTCOME_NUMBERS[name]:02d}_" if name in OUTCOME_NUMBERS else ""
        yield f"{number}{name}", _outcomes(campaign, name, sample)
    yield from _soc_figures("fig10_soc", closeups, soc_runs, next(iter(scenarios.values())))


def average_figures(
    campaign: Campaign, study: Study, closeups: Mapping[str, Closeup], soc_runs: Mapping[str, str]
) -> Figures:
    """Yield Figures 8 and 14; 15 if its runs exist."""
    scenario = campaign.manifest.parsed()[0]
    yield "fig08_power", _tuple_powers(scenario)
    for name, sample in study.items():
        yield f"fig14_{name}", _boxes(sample)
        yield f"{name}_outcomes", _outcomes(campaign, name, sample)
    yield from _soc_figures("fig15_soc", closeups, soc_runs, scenario)


def runs_to_compare(campaign: Campaign, study: Study, scenario: str) -> dict[str, str]:
    """Return the runs of the execution in which workload-reactive kills the most, by policy; {} without."""
    sample = study[scenario]
    if not set(COMPARED) <= set(sample.conditions):
        return {}
    number, seed = sample.executions[int(np.argmax(sample.of("shot", COMPARED[0])))]
    runs = campaign.runs
    own = runs[(runs["scenario"] == scenario) & (runs["tuple"] == number) & (runs["seed"] == seed)]
    return {policy: str(own.loc[own["policy"] == policy, "run"].iloc[0]) for policy in COMPARED}


def _outcomes(campaign: Campaign, name: str, sample: PolicySample) -> Any:
    runs = campaign.runs
    own = runs[(runs["scenario"] == name) & (runs["status"] == "ok")]
    means = own.groupby("policy")[[column for column, *_ in OUTCOMES]].mean().loc[list(sample.conditions)]
    outcomes = {column: means[column].to_numpy(np.float64) for column in means}
    resampled = (sample.means(measure) for measure in ("distance", "wasted"))
    return outcome_figure(sample.conditions, outcomes, *(MeanBars(m[0], *interval(m)) for m in resampled))


def _boxes(sample: PolicySample) -> Any:
    panels = (
        BoxPanel(sample.values["finished"], "finished jobs [%]"),
        BoxPanel(sample.values["killed"], "killed jobs [%]"),
        BoxPanel(sample.values["soc"], "final state of charge [%]", 50.0),
        BoxPanel(sample.values["wasted"], "wasted energy [kWh]"),
    )
    return box_figure(sample.conditions, panels)


def _soc_figures(
    name: str, closeups: Mapping[str, Closeup], runs: Mapping[str, str], scenario: Scenario
) -> Figures:
    if any(run not in closeups for run in runs.values()) or not runs:
        return
    curves = []
    for policy, run in runs.items():
        trace = closeups[run].trace
        hours = (trace["start_s"] + trace["duration_s"]).to_numpy() / SECONDS_PER_HOUR
        curves.append(SocCurve(policy, hours, trace["soc_pct"].to_numpy(), closeups[run].kills()))
    yield name, soc_figure(curves, scenario.parsed_site().storage.battery)


def _prediction_figures(campaign: Campaign, scenario: Scenario) -> Figures:
    """Figures 3 and 4: what the plan of the first tuple predicts."""
    if not scenario.plan.make:
        return
    recipe = make_forecast(scenario, 0).plan.recipe
    plan: Plan = read_plans(campaign.folder.input_path("plan", recipe))[0]
    hours: FloatArray = plan.step_s * np.arange(1.0, plan.steps + 1.0) / SECONDS_PER_HOUR
    yield "fig03_predictions", prediction_figure(hours, plan.production, plan.demand)
    found = plan.predictions()
    soc_pct = 100.0 * found.energy_j / plan.storage.battery.capacity_j
    battery = scenario.parsed_site().storage.battery
    yield "fig04_nine_curves", nine_curves_figure(hours, soc_pct, CURVES, found.dangerous, battery)


def _critical_powers(scenarios: Mapping[str, Scenario]) -> Any:
    """Demand of both workloads, and production, without noise and with that of the first seed."""
    demands = []
    for name, day in (("best-begin", "first"), ("best-end", "third")):
        found, _ = _powers(scenarios[name], 0, f"demand, jobs mainly on the {day} day")
        [noisy_w] = found.came_w.values()
        demands.append(PowerCurves(found.title, found.foreseen_w, {"with noise": noisy_w}))
    best, worst = (_powers(scenarios[name], 0, "production")[1] for name in ("best-begin", "worst-begin"))
    [best_w], [worst_w] = best.came_w.values(), worst.came_w.values()
    production = PowerCurves("production", best.foreseen_w, {"best case": best_w, "worst case": worst_w})
    return power_figure(_hours(scenarios["best-begin"], len(best.foreseen_w)), demands, production)


def _tuple_powers(scenario: Scenario) -> Any:
    pairs = [
        _powers(scenario, number, f"pair {number}, arrivals: {part.workload.arrivals}", scenario.seeds)
        for number, part in enumerate(scenario.tuples)
    ]
    return tuple_figure(_hours(scenario, len(pairs[0][0].foreseen_w)), pairs)


def _powers(
    scenario: Scenario, number: int, title: str, seeds: tuple[int, ...] | None = None
) -> tuple[PowerCurves, PowerCurves]:
    """Demand and production of a tuple, hourly means, as forecast and as they really are with each seed."""
    site, forecast = scenario.parsed_site(), make_forecast(scenario, number)

    def hourly_w(workload: bytes, power: bytes) -> tuple[FloatArray, ...]:
        _, *powers_w = read_back(site, scenario.windows, forecast.plan.platform, workload, power)
        return tuple(_hourly(power_w, site.step_s) for power_w in powers_w)

    came = {}
    for seed in seeds or scenario.seeds[:1]:
        real = make_real(scenario, forecast, number, seed)
        came[f"seed {seed}"] = hourly_w(real.workload, real.power)
    foreseen = hourly_w(forecast.plan.workload, forecast.plan.production)
    demand, production = (
        PowerCurves(title, foreseen[which], {name: pair[which] for name, pair in came.items()})
        for which in (0, 1)
    )
    return demand, production


def _hourly(power_w: FloatArray, step_s: float) -> FloatArray:
    """The mean of the hour around each step."""
    width = max(round(SECONDS_PER_HOUR / step_s), 1)
    sums = np.cumsum(np.insert(power_w, 0, 0.0))
    ends = np.minimum(np.arange(len(power_w)) + (width + 1) // 2, len(power_w))
    begins = np.maximum(np.arange(len(power_w)) - width // 2, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def _hours(scenario: Scenario, steps: int) -> FloatArray:
    return np.asarray((np.arange(steps) + 0.5) * scenario.parsed_site().step_s / SECONDS_PER_HOUR)
