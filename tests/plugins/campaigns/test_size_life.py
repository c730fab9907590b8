"""The battery to buy: what `size` tells where the site says how its battery ages."""

import json

import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st
from small_campaign import SMALL, Here

from beasy_sched.energy.battery_life import LMO
from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.size_life import cells_of, new_sizes
from beasy_sched.plugins.campaigns.sizing import Goal, NoiseAnswer, PolicyAnswer, SizeQuestion

PLAIN = (
    SMALL.replace('["easy", "follow-plan", "workload-reactive"]', '["easy"]')
    .replace('case = "best"\npv_kw = 1', "pv_kw = 0.3")
    .replace("jobs = 30", "jobs = 12")
    + '[[guards]]\nmode = "shed"\nveto = true\n[plan]\nmake = false\n'
)
AGEING = PLAIN + '[site.battery.life]\nchemistry = "lmo"\n'
SIZES = (1.0, 2.0, 4.0)


def question(years=None, text=AGEING, axis="battery_kwh"):
    scenario = parse_scenario(text)
    return SizeQuestion(scenario, AXES[axis], SIZES, Goal(), scenario.guards[0], years=years)


def answer(asked, *lives_years):
    """In each noise 1 kWh is too little, and 2 kWh suffice for so many years of life; None: nothing does."""
    policy = asked.scenario.policies[0]
    noises = []
    for seed, life_years in enumerate(lives_years):
        good = {"status": "ok", "work_finished_pct": 100.0, "jobs_killed": 0}
        bad = good | {"work_finished_pct": 50.0}
        row = bad if life_years is None else good | {"battery_years_to_80_pct": life_years}
        noises.append(NoiseAnswer(policy, 0, seed, asked.goal, {0: bad, 1: row, 2: row}))
    return PolicyAnswer(policy, noises, SIZES)


def test_without_years_it_suffices_until_it_is_replaced():
    asked = question()
    assert new_sizes(answer(asked, 8.0, 12.0, None), asked, LMO) == [2.5, 2.5, float("inf")]


def test_after_some_years_it_has_the_size_left():
    asked = question(5.0)
    (size,) = new_sizes(answer(asked, 10.0), asked, LMO)
    assert size * LMO.health(0.5 * LMO.whole_life) == pytest.approx(2.0)
    assert new_sizes(answer(asked, 5.0, 2.0), asked, LMO) == pytest.approx([2.5, 2.5])


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_it_is_never_smaller_and_grows_with_the_years(life_years, years, more_years):
    asked, later = question(years), question(years + more_years)
    (size,), (later_size,) = (new_sizes(answer(each, life_years), each, LMO) for each in (asked, later))
    assert 2.0 <= size <= later_size + 1e-9
    assert later_size <= 2.5 + 1e-9


def test_only_batteries_age():
    assert cells_of(question()) == LMO
    assert cells_of(question(text=PLAIN)) is None
    assert cells_of(question(axis="pv_kw")) is None


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("beasy_sched.plugins.campaigns.commands.size.executor_of", lambda how, jobs: Here())
    (tmp_path / "ageing.toml").write_text(AGEING)
    (tmp_path / "plain.toml").write_text(PLAIN)
    quick = ("--least", "50", "--from", "1", "--to", "4", "--resolution", "100", "--seeds", "1", "-q")
    ageing = ["size", str(tmp_path / "ageing.toml"), *quick, "-o", str(tmp_path / "out")]
    assert exit_code(*ageing, "--years", "10") == 0
    lines = capsys.readouterr().out.splitlines()
    heads, row = (line.split() for line in lines if line.startswith(("policy ", "easy ")))
    assert heads[4] == "new"
    assert 1.0 <= float(row[1]) < float(row[4]) <= float(row[1]) / 0.8 + 1e-3
    assert "after 10 years, or when the battery is replaced" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert exit_code(*ageing, "--json") == 0
    (easy,) = json.loads(capsys.readouterr().out)["policies"]
    assert easy["new"]["median"] == pytest.approx(easy["median"] / 0.8)
    plain = ["size", str(tmp_path / "plain.toml"), *quick, "-o", str(tmp_path / "plain")]
    assert exit_code(*plain, "--json") == 0
    assert "new" not in json.loads(capsys.readouterr().out)["policies"][0]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            PLAIN,
            ["--years", "5"],
            "--years: requires --find battery_kwh, and an ageing model of the battery",
        ),
        (
            AGEING,
            ["--years", "5", "--find", "pv_kw", "--from", "1", "--to", "2"],
            "--years: requires --find batt",
        ),
        (AGEING, ["--years", "0"], "found '0', expected a number above 0, at most 100"),
        (AGEING, ["--years", "5", "--balance"], "--years cannot be used with --balance"),
    ],
)
def test_what_is_wrong_is_told(text, arguments, message, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(text)
    assert exit_code("size", str(tmp_path / "mine.toml"), *arguments, "-o", str(tmp_path / "out")) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
