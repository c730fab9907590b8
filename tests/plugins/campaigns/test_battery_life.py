"""Campaigns at sites that tell how their battery ages."""

from pathlib import Path

from small_campaign import SMALL, run_campaign

from beasy_sched.plugins.campaigns.campaign_table import COLUMNS, LIFE_COLUMNS, read_campaign, result_lines
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario

LIFE = """
[site.battery.life]
cycles = [[80, 4000], [100, 2500]]
calendar_years = 15
price_per_kwh = 300
[plan]
make = false
"""
TEXT = SMALL.replace('"easy", "follow-plan", "workload-reactive"', '"easy"')


def test_the_columns_of_life_follow_the_others(tmp_path: Path):
    life = parse_scenario(TEXT + LIFE)
    plain = parse_scenario(TEXT.replace('"small"', '"plain"') + "[plan]\nmake = false\n")
    assert run_campaign(tmp_path, life, plain).failed == 0
    runs = read_campaign(tmp_path).runs
    names = [column.name for column in LIFE_COLUMNS]
    assert list(runs.columns) == [*(column.name for column in COLUMNS), *names]
    own = runs[runs.scenario == "small"]
    assert own["battery_years_to_80_pct"].between(1, 15).all()
    assert (own["battery_wear_cost"] > 0).all()
    assert runs.loc[runs.scenario == "plain", names].isna().all(axis=None)
    lines = [line.split() for line in result_lines(tmp_path)]
    assert lines[0][-2:] == ["years", "battery"]
    shown = next(line for line in lines if line[0] == "easy")
    assert shown[-1] == f"{own['battery_wear_cost'].mean():.2f}"
