"""A promised share of windows that may go wrong: the level that follows from what windows showed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st
from small_site import SITE, STEPS, small_site

from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import SessionOptions
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.outlook import NoForecast
from beasy_sched.forecast.quantiles import PowerBand
from beasy_sched.formats.run_summary import read_summary
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.platform_file import preset_platform
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.planner.forecast import Forecast
from beasy_sched.planner.plan import Plan
from beasy_sched.policies.risk import CalibratedRisk, share_of

WINDOW_S = 86400.0


def view_of(windows: int = 40) -> View:
    platform = preset_platform({"gros": 2})
    options = SessionOptions(site=parse_site(SITE, "site.toml"), forecast=NoForecast(), windows=windows)
    return View(Cluster(platform), options)


def budget(view: View, at_s: float) -> StepBudget:
    return StepBudget(view._cluster, 0, at_s, at_s + 300.0, 100.0, 50.0, 0.0, 0.0, True)


def played(risk: float, wrong: list[bool]) -> CalibratedRisk:
    """Windows that went wrong or did not, each of one step."""
    view = view_of()
    calibrated = CalibratedRisk(risk, view)
    for number, was_wrong in enumerate(wrong):
        calibrated.open_step(budget(view, number * WINDOW_S), 3)
        view.ended = []
        if was_wrong:
            job = Job(JobRequest(f"j{number}", 0.0, 1, walltime=60.0))
            job.state = JobState.KILLED
            view.ended = [job]
        calibrated.look()
    calibrated.open_step(budget(view, len(wrong) * WINDOW_S), 3)
    return calibrated


@given(st.floats(0.01, 0.5), st.lists(st.booleans(), min_size=1, max_size=30))
def test_the_level_is_the_promise_and_what_windows_took_from_it(risk: float, wrong: list[bool]) -> None:
    level = risk
    for was_wrong in wrong:
        level = min(level + 0.25 * (risk - was_wrong), 1.0)
    assert played(risk, wrong).level == pytest.approx(level)


@given(st.floats(0.01, 0.5), st.integers(1, 400), st.randoms(use_true_random=False))
def test_the_bound_on_the_share_of_windows_that_go_wrong(risk: float, count: int, random: object) -> None:
    """If none goes wrong at level 0 or below, at most risk + (1 + gamma) / (gamma T) of T windows do."""
    level, wrong = risk, 0
    for _ in range(count):
        fails = level > 0.0 and random.random() < 0.9  # type: ignore[attr-defined]
        wrong += fails
        level = min(level + 0.25 * (risk - fails), 1.0)
    assert wrong / count <= risk + 1.25 / (0.25 * count) + 1e-9


def test_below_level_0_nothing_to_come_counts() -> None:
    calibrated = played(0.05, [True])
    assert calibrated.level < 0.0
    assert calibrated.careful_w.tolist() == [100.0, 0.0, 0.0]
    assert calibrated.results()["wrong"] == 1


@pytest.mark.parametrize(("value", "share"), [(0.05, 0.05), ("5%", 0.05), ("0.5", 0.5), ("12.5%", 0.125)])
def test_shares(value: str | float, share: float) -> None:
    assert share_of("option risk", value) == pytest.approx(share)


@pytest.mark.parametrize("value", ["0", "100%", 1.0, "much", "", "%", "-5%", "nan", "inf"])
def test_what_no_share_is(value: str | float) -> None:
    with pytest.raises(ConfigError, match=r"expected a share between 0 and 1, such as 0\.05 or 5%"):
        share_of("option risk", value)


# --- whole runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site with a dim second day, and a forecast of two days that expects sun on both."""
    folder = tmp_path_factory.mktemp("risk")
    made = small_site(folder, jobs=60)
    lines = [json.loads(line) for line in made.events.read_text().splitlines()]
    power_w = np.array([line["power_available"] for line in lines][:STEPS])
    both_w = np.concatenate((power_w, 0.2 * power_w))
    events = [{"type": "power", "timestamp": 300 * k, "power_available": w} for k, w in enumerate(both_w)]
    made.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    rows = [f"0,{300 * k},{0.5 * w:.1f},{w:.1f},{1.2 * w:.1f}\n" for k, w in enumerate(np.tile(power_w, 2))]
    (folder / "forecast.csv").write_text("issued,valid,p10,p50,p90\n" + "".join(rows))
    return folder


def run(place: Path, out: Path, policy: str, *more: str) -> int:
    files = ["-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml"]
    names = [str(place / name) if "." in name else name for name in files]
    forecast = ["--forecast", str(place / "forecast.csv"), "--windows", "2"]
    plans = ["--replan", "window"] if policy == "beasy" and "--plan" not in more else []
    return exit_code("simulate", *names, *forecast, *plans, "--policy", policy, "-o", str(out), "-q", *more)


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["beasy", "bid-price"])
def test_a_run_tells_what_was_promised_and_seen(place: Path, tmp_path: Path, policy: str) -> None:
    pytest.importorskip("highspy")
    assert run(place, tmp_path / "run", policy, "--risk", "10%") == 0
    risk = read_summary(str(tmp_path / "run")).risk
    assert risk is not None
    assert risk.promised == 0.1
    assert [window.start_s for window in risk.windows] == [0.0, WINDOW_S]
    assert risk.windows[1].level == pytest.approx(0.1 + 0.25 * (0.1 - risk.windows[0].wrong))


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["beasy", "bid-price"])
@pytest.mark.parametrize("given_risk", ["0", "150%", "some"])
def test_a_bad_share_is_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str, given_risk: str
) -> None:
    pytest.importorskip("highspy")
    assert run(place, tmp_path / "run", policy, "--risk", given_risk) == 2
    assert "option risk: found" in capsys.readouterr().err


def test_a_policy_without_promises(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, tmp_path / "run", "easy", "--risk", "5%") == 2
    assert "risk" in capsys.readouterr().err


def test_the_reserve_feeds_sleeping_servers_until_there_is_enough_production() -> None:
    view = view_of()
    calibrated = CalibratedRisk(0.1, view)
    calibrated._asleep_w = 50.0
    calibrated.careful_w = np.array([0.0, 0.0, 0.0, 500.0, 0.0, 40.0])
    battery = view.site.storage.battery if view.site else None
    assert battery is not None
    each_j = 50.0 * 300.0 / battery.discharge_efficiency
    last_j = each_j + 10.0 * 300.0 / battery.discharge_efficiency
    assert calibrated._reserve_j(0.0) == pytest.approx(
        [2 * each_j, each_j, 0.0, last_j, last_j - each_j, 0.0]
    )


# --- demand with quantiles ------------------------------------------------------------------------------


def plan_of(place: Path, out: Path, header: str, row: str) -> Path:
    """A plan of the site for a demand that is the same in each step."""
    (out / "demand.csv").write_text(f"{header}\n" + f"{row}\n" * (2 * STEPS))
    names = {"-p": "platform.xml", "--site": "site.toml", "--production": "power.txt"}
    files = [part for option, name in names.items() for part in (option, str(place / name))]
    demand, plan = str(out / "demand.csv"), out / "plan.msgpack"
    assert exit_code("plan", *files, "--demand", demand, "--windows", "2", "-o", str(plan), "-q") == 0
    return plan


def follow(
    place: Path, out: Path, plan: Path, monkeypatch: pytest.MonkeyPatch, *more: str
) -> tuple[list[float], list[list[float]]]:
    """Run `beasy` on a plan; return the levels and the bounds (first step) of the demand it looked at."""
    levels, bounds = [], []
    within = Plan.demand_within

    def watched(self: Plan, level: float) -> Forecast | PowerBand:
        band = within(self, level)
        levels.append(level)
        bounds.append([float(w[0]) for w in (band.low_w, band.value_w, band.high_w)])
        return band

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "demand_within", watched)
        assert run(place, out, "beasy", "--plan", str(plan), *more) == 0
    return levels, bounds


@pytest.mark.slow
def test_the_nine_curves_take_the_demand_s_quantiles(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 0.1 and 0.9; with a promise, those of its level."""
    pytest.importorskip("highspy")
    plan = plan_of(place, tmp_path, "p10,p50,p90", "400,800,1000")
    levels, bounds = follow(place, tmp_path / "a", plan, monkeypatch)
    assert set(levels) == {0.1}
    assert bounds[0] == pytest.approx([400.0, 800.0, 1000.0])
    levels, bounds = follow(place, tmp_path / "b", plan, monkeypatch, "--risk", "20%")
    risk = read_summary(str(tmp_path / "b")).risk
    assert risk is not None
    assert {window.level for window in risk.windows} <= set(levels)
    assert bounds[levels.index(0.2)] == pytest.approx([500.0, 800.0, 950.0])


@pytest.mark.slow
def test_the_bounds_of_the_demand_change_decisions(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("highspy")
    below = []
    for name, row in (("low", "0,800,801"), ("high", "799,800,4000")):
        (tmp_path / name).mkdir()
        plan = plan_of(place, tmp_path / name, "p10,p50,p90", row)
        follow(place, tmp_path / name / "run", plan, monkeypatch)
        lines = (tmp_path / name / "run_decisions.jsonl").read_text().splitlines()
        facts = [json.loads(line).get("facts", {}) for line in lines]
        below.append([each["curves_below"] for each in facts if "curves_below" in each])
    assert below[0] != below[1]
