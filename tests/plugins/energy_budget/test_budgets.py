"""Budgets that differ from part to part: their spread, their file, their rate, and runs within them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.energy_budget.budget_runs import run_budget
from plugins.energy_budget.test_random_runs import check_all_done, random_case

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.energy_budget.budget_file import budget_lines, parts_of, read_budgets
from beasy_sched.plugins.energy_budget.budget_rate import SteppedRate
from beasy_sched.plugins.energy_budget.spread import spread
from beasy_sched.units import kwh_to_j

prices = st.lists(st.floats(-0.5, 5.0), min_size=1, max_size=40).filter(lambda each: max(each) > 1e-3)


class TestSpread:
    def test_twice_the_price_gets_half_the_energy(self) -> None:
        np.testing.assert_allclose(spread(7.0, np.array([0.1, 0.2, 0.4])), [4.0, 2.0, 1.0])

    def test_limits_move_the_rest_to_the_other_parts(self) -> None:
        """At most 3: the other two share 4 in the ratio of 2 to 1."""
        found = spread(7.0, np.array([0.1, 0.2, 0.4]), most_kwh=3.0)
        np.testing.assert_allclose(found, [3.0, 8 / 3, 4 / 3])
        found = spread(7.0, np.array([0.1, 0.2, 0.4]), least_kwh=2.0)
        np.testing.assert_allclose(found, [3.0, 2.0, 2.0])

    def test_prices_of_zero_and_below_count_as_a_tenth_of_the_mean(self) -> None:
        """The mean of 0.2 and 0.2 is 0.2: -1 and 0 count as 0.02, and get ten times the energy."""
        np.testing.assert_allclose(spread(22.0, np.array([-1.0, 0.2, 0.0, 0.2])), [10.0, 1.0, 10.0, 1.0])

    @settings(max_examples=examples(300), deadline=None)
    @given(prices, st.floats(1e-3, 1e6), st.floats(0.0, 1.0), st.floats(1.0, 20.0))
    def test_the_sum_is_the_total_and_the_dearest_part_gets_least(
        self, rates: list[float], total_kwh: float, least: float, most: float
    ) -> None:
        mean_kwh = total_kwh / len(rates)
        limits = {"least_kwh": least * mean_kwh * 0.999, "most_kwh": most * mean_kwh * 1.001}
        found = spread(total_kwh, np.array(rates), **limits)
        assert math.fsum(found) == pytest.approx(total_kwh, rel=1e-12, abs=1e-9)
        assert (found >= limits["least_kwh"] * (1 - 1e-9)).all()
        assert (found <= limits["most_kwh"] * (1 + 1e-9)).all()
        assert found[int(np.argmax(rates))] <= found.min() * (1 + 1e-9)
        ranked = found[np.argsort(rates, kind="stable")]
        assert (np.diff(ranked) <= 1e-9 * max(1.0, total_kwh)).all()

    @pytest.mark.parametrize(
        ("total_kwh", "limits", "told"),
        [
            (7.0, {"least_kwh": 3.0}, "expected 9 to inf kWh: 3 parts of --least-kwh"),
            (7.0, {"most_kwh": 2.0}, "expected 0 to 6 kWh"),
            (7.0, {"least_kwh": 2.0, "most_kwh": 1.0}, "--least-kwh: found 2, expected 0 to --most-kwh"),
        ],
    )
    def test_limits_that_the_total_cannot_meet(
        self, total_kwh: float, limits: dict[str, float], told: str
    ) -> None:
        with pytest.raises(ConfigError) as error:
            spread(total_kwh, np.array([0.1, 0.2, 0.4]), **limits)
        assert told in str(error.value)

    def test_no_positive_price(self) -> None:
        with pytest.raises(ConfigError, match="no value above 0"):
            spread(1.0, np.array([0.0, -0.1]))


energies = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@settings(max_examples=examples(300), deadline=None)
@given(energies, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_mean_rate_is_what_a_walk_through_the_parts_finds(
    parts: list[int], first: float, second: float
) -> None:
    edges = np.linspace(10.0, 10.0 + 7.0 * len(parts), len(parts) + 1)
    rate = SteppedRate(10.0, float(edges[-1]), np.array(parts, dtype=float))
    begin, end = sorted(10.0 + share * 7.0 * len(parts) for share in (first, second))
    gained = sum(
        energy / 7.0 * max(0.0, min(end, high) - max(begin, low))
        for energy, (low, high) in zip(parts, pairwise(edges.tolist()), strict=True)
    )
    assert rate.mean_w(begin, end) * (end - begin) == pytest.approx(gained, abs=1e-6)
    both = rate.mean_w(np.array([begin, begin]), np.array([end, begin]))
    assert both[1] == pytest.approx(rate.mean_w(begin, begin))
    assert both[1] in [energy / 7.0 for energy in parts] or any(
        both[1] == pytest.approx(energy / 7.0) for energy in parts
    )


def written(path: Path, kwh: list[float], start_s: float, end_s: float) -> Path:
    path.write_text("".join(budget_lines(np.linspace(start_s, end_s, len(kwh) + 1), np.array(kwh))))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "b.csv", [1.5, 0.0, 0.1], 100.0, 400.0)
    assert read_budgets(path, 100.0, 400.0, 100.0) == tuple(map(kwh_to_j, (1.5, 0.0, 0.1)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("start_s,kwh\n0,1\n100,2\n", "has budgets for 2 parts, expected 3: from 0 s (period_start)"),
        ("start_s,kwh\n0,1\n100,2\n200,1\n300,1\n", "has budgets for 4 parts, expected 3"),
        ("start_s,kwh\n0,1\n100,-2\n200,1\n", ":3: kwh: found -2, expected an energy of 0"),
        ("start_s,kwh\n0,1\n100,\n200,1\n", ":3: kwh: found no value"),
        ("start_s,kwh\n0,1\n100,nan\n200,1\n", ":3: kwh: found no value"),
        ("start_s,kwh\n0,1\n100,x\n200,1\n", ":3: kwh: found 'x', expected a number"),
        ("start_s,kwh\n0,1\n150,2\n200,1\n", ":3: start_s: found 150, expected 100"),
        ("start_s,energy\n0,1\n", "has no column 'kwh'; its columns are: start_s, energy"),
        ("time,kwh\n0,1\n", "has no column 'start_s'"),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "b.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_budgets(path, 0.0, 300.0, 100.0)
    assert told in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("every_s", [0.0, -1.0, 70.0, 1e-6, 1000.0])
def test_a_length_that_does_not_divide_the_period(every_s: float) -> None:
    with pytest.raises(ConfigError, match="budget_every: found"):
        parts_of(0.0, 300.0, every_s)


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(40), deadline=None)
@given(seeds)
def test_equal_parts_are_an_even_budget(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world, options = random_case(rng)
    even = run_budget(world, "energybud", **options)
    kwh, start_s, end_s = even.budget["budget_j"] / 3.6e6, options["period_start"], options["period_end"]
    count = int(rng.integers(1, 6))
    path = written(tmp_path_factory.mktemp("b") / "b.csv", [kwh / count] * count, start_s, end_s)
    del options["budget"]
    parts = run_budget(
        world, "energybud", **options, budgets=str(path), budget_every=(end_s - start_s) / count
    )
    check_all_done(world, parts)
    for name in ("budget_j", "used_j"):
        assert parts.budget[name] == pytest.approx(even.budget[name], rel=1e-6)
    assert parts.result.makespan_s == pytest.approx(even.result.makespan_s, rel=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(seeds)
def test_no_part_uses_more_than_has_become_available(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Jobs never take energy of later parts: there is a debt only where servers at rest make it."""
    rng = np.random.default_rng(seed)
    world, options = random_case(rng)
    start_s, end_s, count = options["period_start"], options["period_end"], int(rng.integers(2, 6))
    rest_kwh = (50.0 * world.fast + 30.0 * world.slow) * (end_s - start_s) / count / 3.6e6
    kwh = [rest_kwh * float(rng.uniform(1.0, 3.0)) for _ in range(count)]
    del options["budget"]
    options |= {"shutdown": "none", "monitoring": (end_s - start_s) / count / 4}
    path = written(tmp_path_factory.mktemp("b") / "b.csv", kwh, start_s, end_s)
    done = run_budget(
        world, "energybud", **options, budgets=str(path), budget_every=(end_s - start_s) / count
    )
    check_all_done(world, done)
    assert done.budget["largest_debt_j"] <= 1e-6 * done.budget["budget_j"] + 1.0
    assert done.budget["used_j"] <= done.budget["budget_j"] * (1 + 1e-9) + 1.0


PRICES = "time_s,price EUR/MWh\n" + "".join(f"{3600 * hour},{50 + 50 * hour}\n" for hour in range(4))


@pytest.fixture
def prices_file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    return path


def generate(out: Path, *arguments: str) -> int:
    start = ("--start", "2022-03-07T00:00:00+01:00", "--period-end", "3h")
    return exit_code("generate", "budget", "--kwh", "11", *start, "-o", str(out), "-q", *arguments)


def test_a_generated_budget_is_followed(tmp_path: Path, prices_file: Path) -> None:
    """Hours of 50, 100 and 150 EUR/MWh: 11 kWh are 6, 3 and 2."""
    out = tmp_path / "budget.csv"
    assert generate(out, "--price", str(prices_file)) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "start_s,kwh,price_per_kwh"
    found = np.array([list(map(float, line.split(","))) for line in lines[1:]])
    np.testing.assert_allclose(found, [[0, 6, 0.05], [3600, 3, 0.1], [7200, 2, 0.15]], rtol=1e-12)
    platform, workload = str(tmp_path / "p.xml"), str(tmp_path / "w.json")
    assert exit_code("generate", "platform", "-n", "taurus:8", "--one-pstate", "-o", platform, "-q") == 0
    synthetic = ("generate", "workload", "--synthetic", "--hosts", "8", "--jobs", "30")
    assert exit_code(*synthetic, "--platform-preset", "taurus", "-o", workload, "-q") == 0
    files = ("-p", platform, "-w", workload, "-e", str(tmp_path / "run"), "-q")
    options = ("--option", f"budgets={out}", "--option", "period_end=3h")
    assert exit_code("simulate", *files, "--policy", "energybud", *options) == 0
    budget = json.loads((tmp_path / "run_summary.json").read_text())["budget"]
    assert budget["budget_j"] == pytest.approx(11 * 3.6e6)
    assert exit_code("simulate", *files, "--policy", "powercap", *options) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Give one of --price FILE and --carbon FILE"),
        (("--price", "{prices}", "--carbon", "{prices}"), "Give one of --price FILE and --carbon FILE"),
        (("--carbon", "{prices}"), "prices.csv"),
        (("--price", "{prices}", "--period-end", "9h"), "--period-start to --period-end"),
        (("--price", "{prices}", "--least-kwh", "5"), "--kwh: found 11, expected 15"),
        (("--price", "{prices}", "--every", "7m"), "--every: found 420 s"),
        (("--price", "{missing}"), "missing.csv"),
    ],
)
def test_a_budget_that_cannot_be_made(
    tmp_path: Path,
    prices_file: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    out = tmp_path / "budget.csv"
    places = {"prices": str(prices_file), "missing": str(tmp_path / "missing.csv")}
    assert generate(out, *(each.format(**places) for each in arguments)) == 2
    message = capfd.readouterr().err
    assert told in message
    assert "Traceback" not in message
    assert not out.exists()
