"""The scenarios that come with the program: what their comments say is so."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from beasy_sched.formats.batsim_workload import workload_demand_w
from beasy_sched.generate.platform_file import preset_platform
from beasy_sched.plugins.campaigns.run_inputs import forecast_production, forecast_workload, make_forecast
from beasy_sched.plugins.campaigns.scenario import ABUNDANT, NAMES, PAPER, scenario_text
from beasy_sched.plugins.campaigns.scenario_file import find_scenario
from beasy_sched.plugins.campaigns.sweep import expand

SCENARIOS = Path(__file__).resolve().parents[3] / "beasy_sched/plugins/campaigns/scenarios"
STEP_KWH = 300 / 3.6e6
TUNING_SEED = 1000
MEAN_DEMAND_KWH = 162.0


def with_production(found, seed):
    part = found.tuples[0]
    production = msgspec.structs.replace(part.production, seed=seed)
    return msgspec.structs.replace(found, tuples=(msgspec.structs.replace(part, production=production),))


def production_kwh(found, seed):
    return forecast_production(with_production(found, seed), 0).total_w.sum() * STEP_KWH


def demand_kwh(name, folder):
    path = folder / f"{name}.json"
    forecast_workload(find_scenario(name), 0).write(path)
    platform = preset_platform({"gros": 50})
    return workload_demand_w([path], platform, steps=864, step_s=300.0).sum() * STEP_KWH


@pytest.mark.parametrize("name", NAMES)
def test_the_files_beside_the_scripts_are_those_of_the_program(name):
    assert (SCENARIOS / f"{name}.toml").read_text("utf-8") == scenario_text(name)


@pytest.mark.parametrize(("names", "each"), [(PAPER, 80), (ABUNDANT, 8)])
def test_runs_of_the_papers_guard_in_the_critical_scenarios_and_in_the_average_one(names, each):
    *critical, average = (expand([find_scenario(name)]) for name in names)
    papers = [sum(run.guard.label == "kill-all" for run in runs) for runs in (*critical, average)]
    assert papers == [each, each, each, each, 800]


def test_scarce_days_are_the_first_whose_production_is_nearly_the_demand():
    """Of the mean demand of workloads of 900 jobs with all other servers asleep."""
    found = find_scenario("best-begin")
    fits = [seed for seed in range(200, 216) if 0.85 <= production_kwh(found, seed) / MEAN_DEMAND_KWH <= 1.0]
    assert fits == [207, 209, 212, 214, 215] == [part.production.seed for part in found.tuples]


def test_scarce_scenarios_differ_in_the_case_or_the_workload_alone():
    for number in range(5):
        forecasts = {name: make_forecast(find_scenario(name), number) for name in PAPER[:-1]}
        begin, end, same_begin, same_end = (each.plan.recipe for each in forecasts.values())
        assert begin == same_begin != end == same_end


def test_the_production_is_that_of_the_first_seed_that_suits_both_workloads(tmp_path):
    found = find_scenario("abundant-best-begin")
    demands = [demand_kwh(name, tmp_path) for name in ("abundant-best-begin", "abundant-best-end")]
    fits = [
        seed
        for seed in range(1, 19)
        if all(1.0 <= production_kwh(found, seed) / demand <= 1.2 for demand in demands)
    ]
    assert fits == [18] == [found.tuples[0].production.seed]


def test_no_reported_seed_was_used_to_choose_the_site():
    for name in NAMES:
        found = find_scenario(name)
        seeds = [*found.seeds]
        seeds += [seed for part in found.tuples for seed in (part.workload.seed, part.production.seed)]
        assert max(seeds) < TUNING_SEED


def test_the_sky_gives_what_the_comments_say():
    found = find_scenario("abundant-best-begin")
    energies = [production_kwh(found, seed) for seed in range(TUNING_SEED, TUNING_SEED + 30)]
    assert np.mean(energies) == pytest.approx(186, abs=1)
    assert np.std(energies) == pytest.approx(51, abs=1)


def test_critical_scenarios_differ_in_the_case_or_the_workload_alone():
    forecasts = {name: make_forecast(find_scenario(name), 0) for name in ABUNDANT[:-1]}
    begin, end, same_begin, same_end = (forecast.plan.recipe for forecast in forecasts.values())
    assert begin == same_begin != end == same_end
