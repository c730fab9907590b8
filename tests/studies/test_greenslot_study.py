"""GreenSlot's evaluation: its cases, a run by hand, claims judged on made-up results, and figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from drawn_figures import drawn
from msgspec.structs import replace
from project.shell import ROOT
from small_campaign import Here
from studies.claims import Ruling
from studies.greenslot import study as study_module
from studies.greenslot.cases import (
    CONVENTIONAL,
    GREEN_ONLY,
    MAIN,
    STUDIES,
    VAR_PRICES,
    Case,
    Load,
    carbon_rows,
    loaded,
    paper_cases,
    prediction_rows,
    price_rows,
    quick_cases,
    stand_in_cases,
    trace_rows,
)
from studies.greenslot.claims import CLAIMS, green_claim_table, verdicts_of
from studies.greenslot.figures import greenslot_figures
from studies.greenslot.inputs import (
    ACTUAL_W,
    AVERAGE,
    HOURS,
    PREDICTED_W,
    grid_file,
    synthetic_weeks,
    weeks_of_file,
)
from studies.greenslot.results import (
    READ_OFF,
    GreenResults,
    figure_table,
    gain_table,
    knowledge_rows,
    load_rows,
    results_of,
    trace_table,
    week_table,
)
from studies.greenslot.study import (
    CURVES,
    MEASURES,
    CaseResult,
    GreenSlotStudy,
    round_times_s,
)
from studies.greenslot.traces import TraceWeek

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.accuracy import AccuracyTable
from beasy_sched.formats.grid_rates import PRICE
from beasy_sched.generate.greenslot_week import workflow_workload
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.plugins.campaigns.workers import Failure

PAGE = ROOT / "docs" / "results" / "greenslot.md"


# --- cases ---


def test_every_case_has_a_file_of_its_own() -> None:
    cases = [*paper_cases(), *stand_in_cases(week.name for week in synthetic_weeks(2))]
    cases += [case for _, rows in STUDIES.values() for row in rows for case in (row.case, row.case.reference)]
    different = {*cases}
    assert len({case.key for case in different}) == len(different)
    assert {*quick_cases()} <= {*paper_cases()}


def test_a_reference_knows_neither_sun_nor_prices_but_has_the_same_jobs() -> None:
    case = Case("greenvarprices", load=Load(copies=4), options=(("slot_s", 300.0), ("tie", "earliest")))
    reference = Case("conventional", "none", Load(copies=4), options=(("slot_s", 300.0),))
    assert case.reference == reference
    assert reference.reference == reference
    assert CONVENTIONAL == VAR_PRICES.reference == GREEN_ONLY.reference


@pytest.mark.parametrize(("slot_s", "step_s"), [(300.0, 300.0), (900.0, 900.0), (1800.0, 900.0)])
def test_the_step_divides_the_slot(slot_s: float, step_s: float) -> None:
    assert Case("greenvarprices", options=(("slot_s", slot_s),)).step_s == step_s


def test_the_name_tells_what_differs() -> None:
    case = Case("greenvarprices", "perfect", Load(staggered=True, copies=2), panels=5)
    assert case.name == "GreenVarPrices, staggered, copies 2, 5 panels, perfect"
    assert CONVENTIONAL.name == "Conventional"


# --- runs ---


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "workflows", "load"), [("W1", 8, 0.1857), ("W2", 12, 0.2326)])
def test_one_of_the_workloads_alone(tmp_path: Path, name: str, workflows: int, load: float) -> None:
    case = Case("conventional", "none", Load(only=name))
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], [case])
    study.begin()
    assert study.go_on(Here()) == 0
    values = study.results()[case].values
    assert (values["workflows"], values["missed"]) == (workflows, 0)
    assert values["load"] == pytest.approx(load, abs=1e-3)


def plant(path: Path, days: int, *, clouds: bool) -> Path:
    """Hourly power of a plant of 1 kW on days of which every second one is cloudy; and the clouds."""
    lines = ["time,production_w" + ",cloud_cover" * clouds]
    for hour in range(24 * days):
        cloudy = hour // 24 % 2 == 1
        moment = datetime(2019, 6, 1, tzinfo=timezone.utc) + timedelta(hours=hour)
        power_w = max(math.sin(math.pi * (hour % 24 - 10) / 12), 0.0) * (500.0 if cloudy else 1000.0)
        cover = f",{0.9 * cloudy:g}" if clouds else ""
        lines.append(f"{moment:%Y-%m-%d %H:%M},{power_w:.3f}{cover}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_the_predictor_knows_the_sun_of_a_week_out_of_its_file(tmp_path: Path) -> None:
    """Clouds of every second day are told by the weather: it predicts nearly what comes."""
    history = plant(tmp_path / "history.csv", 60, clouds=True)
    week = weeks_of_file(plant(tmp_path / "sun.csv", 60, clouds=False), 1)[0]
    assert week.best_hour_w == pytest.approx(2000.0)
    cases = [row.case for row in prediction_rows([week])]
    assert [case.forecast for case in cases] == ["perfect", "predictor", "persistence", "none"]
    case = replace(cases[1], load=Load(only="W1"))
    study = GreenSlotStudy(tmp_path / "study", [week], [case], history=history)
    study.begin()
    assert study.go_on(Here()) == 0
    predicted_w = np.array(study.results()[case].curves["predicted_w"])
    hourly_w = np.repeat(week.hourly_w, 4)[: len(predicted_w)]
    assert np.abs(predicted_w - hourly_w).mean() < 0.1 * hourly_w.mean()


def test_a_predictor_without_a_history_is_refused(tmp_path: Path) -> None:
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], [replace(VAR_PRICES, forecast="predictor")])
    study.begin()
    with pytest.raises(ConfigError, match="no production of the past"):
        study.go_on(Here())


@pytest.mark.slow
def test_a_week_under_conventional(tmp_path: Path) -> None:
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], [CONVENTIONAL])
    study.begin()
    assert study.go_on(Here()) == 0
    found = study.results()[CONVENTIONAL]
    values, curves = found.values, found.curves
    assert set(values) == {measure.name for measure in MEASURES}
    assert (values["jobs"], values["finished"], values["workflows"]) == (352, 352, 28)
    assert (values["missed"], values["refused"]) == (0, 0)
    assert values["load"] == pytest.approx(0.468, abs=5e-4)
    assert values["peak_w"] == pytest.approx(1765.0)
    assert set(curves) == set(CURVES)
    assert {len(curve) for curve in curves.values()} == {416}
    green, brown, unused = (np.array(curves[name]) for name in ("green_w", "brown_w", "unused_w"))
    assert np.allclose(green + unused, np.repeat(ACTUAL_W, 4), atol=0.02)
    assert (green + brown).sum() / 4000 == pytest.approx(values["total_kwh"], rel=1e-4)
    assert set(curves["price_per_kwh"]) == {0.08, 0.13}
    cost = brown @ curves["price_per_kwh"] / 4000
    assert values["cost"] == pytest.approx(cost, rel=1e-4)
    assert study.write_table().exists()
    assert study.go_on(Here()) == 0  # nothing is left to do
    assert found == study.results()[CONVENTIONAL]


def test_a_run_that_dies_is_named_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], [CONVENTIONAL])
    study.begin()
    monkeypatch.setattr(study_module, "execute_case", lambda task: Failure("killed by SIGKILL"))
    assert study.go_on(Here()) == 1
    assert study.failures() == [(CONVENTIONAL, "killed by SIGKILL")]
    assert not study.results()
    assert study.table()["error"].tolist() == ["killed by SIGKILL"]
    monkeypatch.setattr(study_module, "execute_case", lambda task: CaseResult())
    assert study.go_on(Here()) == 0


def test_inputs_are_files_that_a_user_can_run(tmp_path: Path) -> None:
    cases = [VAR_PRICES, replace(VAR_PRICES, panels=20), replace(VAR_PRICES, forecast="perfect")]
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], cases)
    study.begin()
    plain, doubled, perfect = (study._task(case) for case in cases)
    for task, share in ((plain, 1.0), (doubled, 2.0)):
        lines = Path(task.settings.forecast or "").read_text().splitlines()
        assert lines[0] == "issued,valid,W"
        powers = [float(line.split(",")[2]) for line in lines[1:]]
        assert powers == pytest.approx((share * PREDICTED_W).tolist(), rel=1e-4)
        events = [json.loads(line) for line in task.events.read_text().splitlines()]
        assert len(events) == 416
        assert events[12][
            "renewable_power_w" if "renewable_power_w" in events[12] else [*events[12]][-1]
        ] == (pytest.approx(share * ACTUAL_W[3]))
    assert perfect.settings.forecast == f"perfect:{plain.events}"
    assert plain.workload == doubled.workload
    assert plain.settings.policy == "greenslot"


def test_without_precedence_jobs_are_due_by_their_internal_deadlines() -> None:
    whole = workflow_workload(WorkflowOptions())
    loose = study_module._without_precedence(whole)
    assert "phase" not in loose.extras
    due = dict(zip(loose.ids, loose.extras["deadline_s"], strict=True))
    own = dict(zip(whole.ids, whole.extras["deadline_s"], strict=True))
    assert due["W3.1.2.1"] == own["W3.1.2.1"]  # the last phase
    assert due["W3.1.1.1"] == own["W3.1.1.1"] - 900  # 6 minutes, one slot
    assert due["W3.1.0.1"] == due["W3.1.1.1"] - 900 * np.ceil(1.2 * 2.27 * 4)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty and does not contain a study"):
        GreenSlotStudy(tmp_path, [AVERAGE], []).begin()
    other = tmp_path / "other"
    other.mkdir()
    (other / "study.json").write_text('{"greenslot":"0.0.0"}')
    with pytest.raises(ConfigError, match="another study"):
        GreenSlotStudy(other, [AVERAGE], []).begin()


def test_a_case_of_an_unknown_week_is_refused(tmp_path: Path) -> None:
    study = GreenSlotStudy(tmp_path / "study", [AVERAGE], [replace(CONVENTIONAL, week="most-1")])
    study.begin()
    with pytest.raises(ConfigError, match="week most-1"):
        study.go_on(Here())


def test_rounds_are_timed() -> None:
    found = round_times_s((2, 4), 1)
    assert list(found) == [2, 4]
    assert min(found.values()) >= 0


# --- claims and tables on made-up results ---

LOADS = {0: 0.468, 4: 0.667, 5: 0.716, 8: 0.865, 9: 0.915}


def as_the_paper_says(case: Case) -> dict[str, float]:
    """A world in which every claim is true."""
    read_off = {found: printed for found, *printed in READ_OFF.values()}
    green, saved = 26.3, 0.0
    if case.policy == "greenonly":
        green, saved = 26.3 * 1.465, 0.195
    elif case.policy == "greenvarprices":
        green, saved = 26.3 * 1.452, 0.245
    if case.load.copies == 4 and case.policy != "conventional":
        green, saved = 26.3 * 1.31, 0.14
    if case.panels == 0:
        green, saved = 1.0, 0.13 if case.policy != "conventional" else 0.0
    if case.load.estimate_error_pct == (-20.0, 20.0) and case.policy != "conventional":
        saved -= 0.01
    cost = (8.15 if case.panels else 11.27) * (1 - saved)
    total = 101.9
    if case in read_off:
        total, green, cost = read_off[case]
    import_kwh = 0.83 * 75.6 if case.policy == "greenonly" else total - green  # the figures' own: 77 %
    first_late = {"conventional": 9, "greenonly": 99, "greenvarprices": 5}[case.policy]
    late = 3.0 if case.load.copies >= first_late else 0.0
    return {
        "total_kwh": total, "green_kwh": green, "import_kwh": import_kwh, "cost": cost, "missed": late,
        "refused": 0.0, "load": LOADS[case.load.copies], "peak_w": 1765.0, "carbon_kg": 20.0,
        "latest_s": 60.0 * late,
    }  # fmt: skip


def made_up(values: Callable[[Case], dict[str, float]], slope: float = 1.0) -> GreenResults:
    weeks = synthetic_weeks(2)
    runs = {}
    for at, case in enumerate([*paper_cases(), *stand_in_cases(week.name for week in weeks)]):
        curves = {name: [0.1 * (at % 3)] * 416 for name in CURVES}
        runs[case] = CaseResult(values=values(case), curves=curves)
    medians = np.array((12.9, 15.6, 15.8, 16.1, 16.5, 19.0))
    accuracy = AccuracyTable(np.arange(3), np.tile(slope * medians, (3, 1)))
    return results_of(runs, [week.name for week in weeks], accuracy, {60: 0.002, 240: 0.008 * slope})


def test_claims_hold_where_the_paper_s_world_is_ours() -> None:
    verdicts = verdicts_of(made_up(as_the_paper_says))
    assert len(verdicts) == 41
    found = {verdict.claim.name: verdict.ruling for verdict in verdicts}
    unjudged = {name for name, ruling in found.items() if ruling is Ruling.NOT_RUN}
    assert unjudged == {"C04", "C05", "C34", "C35"}
    wrong = {v.claim.name: v.ours for v in verdicts if v.ruling not in (Ruling.HOLDS, Ruling.NOT_RUN)}
    assert wrong == {}


def test_claims_do_not_hold_in_another_world() -> None:
    def turned(case: Case) -> dict[str, float]:
        values = as_the_paper_says(case)
        if case.policy != "conventional":
            values["green_kwh"], values["cost"] = 20.0 + 3.0 * (case.policy == "greenonly"), 9.0
            values["missed"] = 5.0
        else:
            values["green_kwh"] += 8.0 + 4.0 * (case.load != Load())
        return values | {"load": 0.3, "peak_w": 2000.0}

    verdicts = verdicts_of(made_up(turned, slope=9.0))
    holds = {v.claim.name for v in verdicts if v.ruling is Ruling.HOLDS}
    assert holds <= {"C06", "C07", "C12", "C16", "C32", "C33"}, holds  # the sun's own; what both worlds share


def test_claims_whose_runs_are_missing_are_not_judged() -> None:
    few = {case: CaseResult(values=as_the_paper_says(case)) for case in quick_cases()}
    results = results_of(few)
    found = {v.claim.name: v.ruling for v in verdicts_of(results)}
    assert found["C10"] is Ruling.HOLDS
    for name in ("C01", "C13", "C22", "C24", "C27", "C36"):
        assert found[name] is Ruling.NOT_RUN, name
    rows = {row[0]: row for row in green_claim_table(verdicts_of(results)).rows}
    assert rows["C01"][-2:] == ("", "not run")
    assert rows["C35"][-2:] == ("", "not judged")


def test_a_week_of_which_a_run_is_missing_is_left_out() -> None:
    weeks = synthetic_weeks(1)
    cases = stand_in_cases(week.name for week in weeks)
    runs = {case: CaseResult(values=as_the_paper_says(case)) for case in cases[:-1]}
    results = results_of(runs, [week.name for week in weeks])
    assert results.stand_ins is not None
    assert len(results.stand_ins.executions) == 3
    assert results.stand_ins.left_out == 1
    assert results.stand_ins.conditions == MAIN


def test_gains_by_hand() -> None:
    values = {**dict.fromkeys(("missed", "refused", "latest_s"), 0.0), "total_kwh": 100.0, "carbon_kg": 7.0}
    values |= {"green_kwh": 20.0, "cost": 8.0}
    runs = {
        CONVENTIONAL: CaseResult(values={**values}),
        VAR_PRICES: CaseResult(values={**values, "green_kwh": 30.0, "cost": 6.0, "latest_s": 600.0}),
    }
    results = results_of(runs)
    assert results.green_pct(VAR_PRICES) == pytest.approx(50.0)
    assert results.saving_pct(VAR_PRICES) == pytest.approx(25.0)
    [row] = gain_table("x", knowledge_rows(), results).rows
    assert row == (
        "paper",
        "GreenVarPrices",
        "100.0",
        "30.0",
        "6.00",
        "+50.0",
        "+25.0",
        "0",
        "0",
        "10",
        "7.0",
    )


@pytest.mark.slow
def test_tables_and_figures() -> None:
    results = made_up(as_the_paper_says)
    tables = [
        green_claim_table(verdicts_of(results)), figure_table(results), week_table(results),
        gain_table("a", knowledge_rows(), results), gain_table("b", load_rows(), results),
    ]  # fmt: skip
    assert [len(table.rows) for table in tables] == [41, 8, 8, 6, 16]
    assert all(len(row) == len(table.head) for table in tables for row in table.rows)
    assert sorted(drawn(greenslot_figures(results))) == [f"figure-{number:02}" for number in range(5, 16)]


def test_the_studies_vary_what_they_say() -> None:
    assert {*STUDIES} == {
        "deadlines", "utilization", "panels", "prices", "estimates", "prediction", "window", "slot", "sleep",
        "carbon",
    }  # fmt: skip
    for _, rows in STUDIES.values():
        assert (
            len({(row.setting, row.case.policy) for row in rows})
            == len(rows)
            == len({row.case for row in rows})
        )
    assert loaded(Load(copies=4)) in {row.case for row in STUDIES["utilization"][1]}


@pytest.mark.slow
def test_a_table_and_a_figure_of_prices_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "day-ahead.csv"
    path.write_text("time_s,price_EUR_per_MWh\n0,50\n3600,60\n" + f"{8 * 86_400},50\n")
    file = grid_file(f'{{ file = "{path}", gaps = "hold" }}', PRICE, AVERAGE.start, HOURS)
    week = AVERAGE.with_file(file)
    rows = price_rows([week])
    assert carbon_rows([week]) == []
    values = dict.fromkeys((measure.name for measure in MEASURES), 1.0)
    curves = {name: [0.1] * 416 for name in CURVES} | {"price_per_kwh": [-0.01, 0.05] * 208}
    results = results_of({row.case: CaseResult(values={**values}, curves=curves) for row in rows})
    table = gain_table("files", rows, results, currency="")
    assert "cost" in table.head
    assert [row[1] for row in table.rows] == ["Conventional", "GreenOnly", "GreenVarPrices", "lowest window"]
    assert "prices-day-ahead" in drawn(greenslot_figures(results, [AVERAGE, week]))


def test_what_the_jobs_of_a_trace_use_by_hand() -> None:
    """Two hours of 100 W asleep, sun 50 and 300 W; a job of 200 W in the first hour, or in the second."""
    trace = TraceWeek("kth", "x", workflow_workload(WorkflowOptions()))
    early, _, late = trace_rows([trace], ["factor:3"])

    def hourly(first: float, second: float) -> list[float]:
        return [first] * 4 + [second] * 4

    def result(green: list[float], brown: list[float], unused: list[float], late_jobs: int) -> CaseResult:
        curves = {"green_w": green, "brown_w": brown, "unused_w": unused, "price_per_kwh": hourly(0.2, 0.1)}
        values = {"total_kwh": 0.4, "green_kwh": sum(green) / 4e3, "missed_jobs": late_jobs, "latest_s": 90.0}
        values["cost"] = float(np.dot(brown, curves["price_per_kwh"])) / 4e3
        return CaseResult(values={**values, "refused_jobs": 6}, curves=curves)

    runs = {
        early.case: result(hourly(50, 100), hourly(250, 0), hourly(0, 200), 5),
        late.case: result(hourly(50, 300), hourly(50, 0), hourly(0, 0), 0),
    }
    table = trace_table([early, late], results_of(runs))
    assert table.rows == [
        ("kth, factor:3", "Conventional", "0.2", "0.0", "0.04", "", "+0.0", "5", "6", "2"),
        ("kth, factor:3", "GreenVarPrices", "0.2", "0.2", "0.00", "", "+100.0", "0", "6", "2"),
    ]


# --- the page ---


def test_the_page_has_the_claims_of_the_program() -> None:
    section = PAGE.read_text("utf-8").partition("### Claims")[2].partition("###")[0]
    rows = re.findall(r"^\| (C\d\d) \| (.*?) \| (.*?) \| ([ASN]) \| (.*?) \|", section, re.MULTILINE)
    found = [tuple(cell.replace("&lt;", "<") for cell in row) for row in rows]
    assert found == [(c.name, c.text, c.part, c.data, c.paper) for c in CLAIMS]


def test_the_page_shows_figures_that_are_there() -> None:
    names = re.findall(r"\]\((figures/[^)]+)\)", PAGE.read_text("utf-8"))
    assert names
    assert all((PAGE.parent / name).exists() for name in names)
