"""The energy-budget study: its measures by hand, its journal, its numbers and its verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn_figures import drawn
from small_campaign import Here
from studies.claims import Ruling, judge
from studies.energy_budget import study as study_module
from studies.energy_budget.claims import (
    CLAIMS,
    EASY,
    MEASURES,
    Results,
    energy_claim_table,
    results_of,
)
from studies.energy_budget.command import parse_arguments, title_of
from studies.energy_budget.figures import energy_figures, figure_tables, table_2
from studies.energy_budget.study import (
    ALGORITHMS,
    BUDGETS,
    EnergyStudy,
    Setting,
    Week,
    WeekTask,
    all_settings,
    execute_week,
    prepare_weeks,
)

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.swf_fields import FIELDS_A_ROW
from beasy_sched.plugins.campaigns.samples import bootstrap_weights
from beasy_sched.plugins.campaigns.workers import Failure

DAY = 86_400


def trace(path: Path, *jobs: tuple[int, int, int, int]) -> Path:
    """An SWF trace of 4 processors; jobs of (submission, run time, processors, walltime)."""
    lines = ["; MaxProcs: 4"]
    for number, (submit, run, processors, walltime) in enumerate(jobs, 1):
        fields = {1: number, 2: submit, 3: 0, 4: run, 5: processors, 8: processors, 9: walltime, 11: 1}
        lines.append(" ".join(str(fields.get(i, -1)) for i in range(1, FIELDS_A_ROW + 1)))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def week(tmp_path: Path) -> Week:
    """4 processors: all busy on day 0, half of them from day 6 to day 8; a job that waits for a day."""
    jobs = (0, DAY, 4, DAY), (1, 10, 4, 20), (6 * DAY, 2 * DAY, 2, 2 * DAY)
    [made] = prepare_weeks(tmp_path / "weeks", [trace(tmp_path / "small.swf", *jobs)], quick=False)
    return made


def test_a_week_is_as_large_as_its_trace(week: Week) -> None:
    assert (week.name, week.hosts, week.jobs) == ("small", 4, 3)
    assert week.load == pytest.approx((4 * DAY + 40 + 4 * DAY) / (4 * 7 * DAY))


def test_the_measures_by_hand(week: Week) -> None:
    values = execute_week(WeekTask(week.hosts, week.workload, EASY, "any")).values
    busy_s = 4 * DAY + 40 + 2 * DAY  # the third job runs on after the week
    assert values["utilization"] == pytest.approx(busy_s / (4 * 7 * DAY))
    assert values["ave_bsld"] == pytest.approx((1 + (DAY - 1 + 10) / 10 + 1) / 3, rel=1e-6)
    assert (values["jobs"], values["jobs_started"]) == (3, 3)
    energy_j = busy_s * 190.74 + (4 * 7 * DAY - busy_s) * 95
    assert values["energy_share"] == pytest.approx(energy_j / (4 * 7 * DAY * 190.74))
    assert values["period_j"] == pytest.approx(4 * 3 * DAY * 95)
    assert values["budget_j"] is None


def test_a_budget_below_the_idle_processors(week: Week) -> None:
    found = execute_week(WeekTask(week.hosts, week.workload, Setting("energybud", 0.3), "any")).values
    assert found["budget_j"] == pytest.approx(0.3 * 4 * 203.12 * 3 * DAY)
    assert found["excess_j"] == pytest.approx(4 * 3 * DAY * (95 - 0.3 * 203.12))
    shut = execute_week(WeekTask(week.hosts, week.workload, Setting("energybud", 0.3, True), "any")).values
    assert shut["excess_j"] == 0
    assert shut["switches"] > 0


def test_all_conditions_of_the_paper() -> None:
    settings = all_settings()
    assert len(settings) == 1 + 3 * 8 * 2
    assert len({setting.key for setting in settings}) == len(settings)
    assert 30 * len(settings) == 1470  # as the paper says


def small_study(folder: Path, week: Week, budgets: tuple[float, ...] = (1.0, 0.3)) -> EnergyStudy:
    study = EnergyStudy(folder, [week], all_settings(budgets), "any")
    study.begin()
    return study


def test_rows_are_not_written_through_a_link(tmp_path: Path, week: Week) -> None:
    """Neither one that is there at first, nor one that takes their place while the study runs."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "rows").symlink_to(precious)
    with pytest.raises(ConfigError):
        small_study(tmp_path / "linked", week)
    study = small_study(tmp_path / "study", week)
    (tmp_path / "study" / "rows").rmdir()
    (tmp_path / "study" / "rows").symlink_to(precious)
    with pytest.raises(InputError, match="rows: is a link, expected a folder: remove it"):
        study.go_on(Here())
    assert not [*precious.iterdir()]


@pytest.mark.slow
def test_an_interrupted_study_goes_on_and_ends_the_same(tmp_path: Path, week: Week) -> None:
    whole = small_study(tmp_path / "whole", week)
    assert whole.go_on(Here()) == 0
    parts = small_study(tmp_path / "parts", week)
    with pytest.raises(KeyboardInterrupt):
        parts.go_on(Here(most=5))
    told: list[tuple[int, int]] = []
    assert small_study(tmp_path / "parts", week).go_on(Here(), lambda *n: told.append(n)) == 0
    assert told[0] in [(4, 13), (5, 13)]
    assert told[-1] == (13, 13)
    assert whole.write_table().read_bytes() == parts.write_table().read_bytes()


@pytest.mark.slow
def test_a_run_that_dies_is_a_row_that_says_so(
    tmp_path: Path, week: Week, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(tmp_path / "study", week)
    monkeypatch.setattr(study_module, "execute_week", lambda task: Failure("killed by SIGKILL"))
    assert study.go_on(Here()) == 13
    assert set(study.table()["error"]) == {"killed by SIGKILL"}
    assert not results_of(study.table(), study.settings).executions
    monkeypatch.undo()
    assert study.go_on(Here()) == 0


def test_a_folder_of_another_study_is_refused(tmp_path: Path, week: Week) -> None:
    study = small_study(tmp_path / "study", week)
    with pytest.raises(ConfigError, match="another study"):
        small_study(tmp_path / "study", week, (0.5,))
    with pytest.raises(ConfigError, match="another study"):
        replace(study, reservation="strict").begin()


def test_the_two_reservations(tmp_path: Path) -> None:
    """75 % are enough for two of four processors; the third job may or may not take the second's power."""
    hour = 3600
    jobs = (0, 10, 1), (2 * DAY, 10 * hour, 1), (2 * DAY + 10, 5 * hour, 2), (2 * DAY + 20, 20 * hour, 1)
    rows = [(submit, run, processors, run) for submit, run, processors in jobs]
    [made] = prepare_weeks(tmp_path / "weeks", [trace(tmp_path / "four.swf", *rows)], quick=False)
    slowdowns = {"stock": (1, 1, 1 + 20 / 5, 1), "strict": (1, 1, 1 + 10 / 5, 1 + 15 / 20)}
    for reservation, each in slowdowns.items():
        task = WeekTask(made.hosts, made.workload, Setting("powercap", 0.75), "any", reservation)
        assert execute_week(task).values["ave_bsld"] == pytest.approx(sum(each) / 4, rel=1e-2)


def test_two_weeks_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    traces = [trace(folder / "same.swf", (0, 10, 1, 20)) for folder in folders]
    with pytest.raises(ConfigError, match="two weeks have the name 'same'"):
        prepare_weeks(tmp_path / "weeks", traces, quick=False)


# --- numbers and verdicts ---


def made_up(value: Callable[[str, Setting], float], weeks: int = 6) -> Results:
    """Results in which each week lies differently, and conditions as ``value`` says."""
    settings = all_settings()
    offsets = np.linspace(-0.01, 0.01, weeks)
    values = {
        name: np.array([value(name, setting) + offsets * (name in [*MEASURES][:3]) for setting in settings]).T
        for name in MEASURES
    }
    weights = bootstrap_weights([0] * weeks, resamples=2000)
    return Results(tuple(settings), values, tuple(f"w{i}" for i in range(weeks)), weights)


def as_the_paper_says(measure: str, setting: Setting) -> float:
    """A world in which every claim is true."""
    budget, shut = setting.budget, setting.shutdown
    rank = 0 if setting.algorithm == "easy" else ALGORITHMS.index(setting.algorithm)
    if measure == "utilization":
        if setting.algorithm == "easy":
            return 1.0
        line = 3 / 7 * budget + 4 / 7
        if round(100 * budget) == 90:
            return line + 0.01 * (1 + (0 if rank == 0 else rank + shut * 0.5))
        if round(100 * budget) == 30 and not shut:
            return 0.5
        if rank == 2:
            above = budget >= (0.6 if shut else 0.8)
            return line + (0.03 if above else -0.01 if shut else -0.15) + 0.002 * shut
        return line - (0.08 if rank and shut else 0.2)
    if measure == "ave_bsld":
        return 100.0 + (5.0 if rank == 0 else 9.0 if rank == 1 else -(10.0 + 9 * shut))
    if measure == "energy_share":
        return 0.8 + 0.02 * rank - shut * (0.05 if rank == 0 else 0.01)
    if measure == "jobs_started":
        return 1000.0
    if measure == "excess_j":
        return 1e6 if setting.budget == 0.3 and not shut else 0.0
    return 0.0


def test_normalized_means_are_means(week: Week) -> None:
    results = made_up(as_the_paper_says)
    for setting in results.conditions:
        assert results.interval("utilization", setting)[0] == pytest.approx(
            results.of("utilization", setting).mean()
        )
    assert np.ptp(results.normalized("utilization", EASY)) == pytest.approx(0.0, abs=1e-12)


def test_the_line_of_the_paper() -> None:
    results = made_up(as_the_paper_says)
    assert results.line(1.0)[0] == pytest.approx(1.0)
    assert results.line(0.3)[0] == pytest.approx(3 / 7 * 0.3 + 4 / 7)


def test_changes_are_averaged_over_budgets_and_weeks() -> None:
    def value(measure: str, setting: Setting) -> float:
        return 10.0 + setting.shutdown * (1.0 if setting.budget > 0.5 else 2.0)

    change = made_up(value).change_pct("utilization", "energybud")[0]
    assert change == pytest.approx((5 * 10 + 3 * 20) / 8, rel=0.02)


def test_claims_hold_where_the_paper_s_world_is_ours() -> None:
    verdicts = judge(CLAIMS, made_up(as_the_paper_says))
    assert len({verdict.claim.text for verdict in verdicts}) == len(CLAIMS)
    assert {verdict.claim.text for verdict in verdicts if verdict.ruling is not Ruling.HOLDS} == set()


def test_claims_do_not_hold_in_the_opposite_world() -> None:
    def turned(measure: str, setting: Setting) -> float:
        sign = -1 if measure in [*MEASURES][:3] else 1
        if measure == "excess_j":
            return 0.0 if setting.budget == 0.3 and not setting.shutdown else 5.0
        return (
            3.0 * (measure != "ave_bsld")
            + 300.0 * (measure == "ave_bsld")
            + sign * as_the_paper_says(measure, setting)
        )

    rulings = [verdict.ruling for verdict in judge(CLAIMS, made_up(turned))]
    assert rulings.count(Ruling.FAILS) >= 16, rulings


@pytest.mark.slow
def test_tables_and_figures() -> None:
    results = made_up(as_the_paper_says)
    tables = [*figure_tables(results), table_2(results), energy_claim_table(judge(CLAIMS, results))]
    assert [len(table.rows) for table in tables] == [len(BUDGETS)] * 3 + [5, len(CLAIMS)]
    assert all(len(row) == len(table.head) for table in tables for row in table.rows)
    assert sorted(drawn(energy_figures(results))) == [f"figure-{n}" for n in (2, 3, 4, 5)]


@pytest.mark.slow
def test_an_interval_that_does_not_contain_its_mean_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rounding makes it where all weeks have the same value."""
    monkeypatch.setattr(Results, "interval", lambda *_: (50.0, 50.0 + 1e-13, 50.0 + 1e-13))
    assert drawn(energy_figures(made_up(as_the_paper_says)))


def test_intervals_of_normalized_values_stay_within_what_is_possible() -> None:
    """A setting without any use in a week of much: less than nothing, once weeks are made alike."""
    settings = tuple(all_settings())
    shares = np.array([[0.0] * len(settings), [0.9] * len(settings)])
    shares[:, 1] = 0.0
    weights = bootstrap_weights([0, 0], resamples=200)
    results = Results(settings, dict.fromkeys(MEASURES, shares), ("a", "b"), weights)
    assert results.normalized("energy_share", settings[1])[1] < 0
    mean, low, high = results.interval("energy_share", settings[1])
    assert (mean, low) == (pytest.approx(0.0), 0.0)
    assert 0.0 < high <= 1.0


def test_the_title_names_what_differs_from_the_defaults() -> None:
    assert title_of(parse_arguments([])) == "The energy-budget paper"
    other = parse_arguments(["--allocation", "contiguous", "--reservation", "strict"])
    assert title_of(other) == "The energy-budget paper: strict rule of reservation, neighbouring processors"
