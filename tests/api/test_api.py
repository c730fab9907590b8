"""The five lines of a notebook, and what they give."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import beasy_sched as bs
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.outputs.files import RunFiles


@pytest.mark.slow
def test_every_table_is_a_data_frame(run: bs.Run) -> None:
    assert len(run.jobs) == 60
    assert set(run.jobs["final_state"]) <= {
        "COMPLETED_SUCCESSFULLY",
        "COMPLETED_KILLED",
        "COMPLETED_WALLTIME_REACHED",
        "REJECTED",
    }
    assert len(run.energy_trace) == 864
    assert run.consumed_energy["energy"].is_monotonic_increasing
    assert run.machine_states.filter(like="nb_").sum(axis=1).eq(10).all()
    assert run.pstate_changes["machine_id"].iloc[0] == "0-9"
    assert len(run.schedule) == 1
    assert {"time", "action", "rule"} <= set(run.decisions.columns)


def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, during, observers = gc.get_threshold(), set(), RunFiles.observers

    def seen(files: RunFiles) -> Any:
        during.add(gc.get_threshold())
        return observers(files)

    monkeypatch.setattr(RunFiles, "observers", seen)
    generated = bs.generate_workload(tmp_path / "w.json", jobs=3, day_shares=(1,), hosts=4)
    bs.simulate(bs.generate_platform({"gros": 4}, tmp_path / "p.xml"), generated)
    assert gc.get_threshold() == before
    assert during not in (set(), {before})


def test_summary_and_tables_agree(run: bs.Run) -> None:
    jobs = run.summary["jobs"]
    assert jobs["submitted"] == 60
    ends = (
        "finished",
        "failed",
        "reached_walltime",
        "killed",
        "not_completely_finished",
        "postponed",
        "rejected",
    )
    assert sum(jobs[name] for name in ends) == 60
    trace = run.energy_trace
    balance = (
        trace.renewable_w
        + trace.discharge_w
        + trace.fuel_cell_w
        + trace.unserved_w
        - trace.electrolyzer_w
        - trace.charge_w
        - trace.curtailed_w
        - trace.demand_w
    )
    assert balance.abs().max() < 1e-6
    assert trace.soc_pct.iloc[-1] == pytest.approx(run.summary["site"]["soc_final_pct"])


def test_results_are_read_again_by_prefix(run: bs.Run) -> None:
    assert bs.read_run(run.prefix).summary == run.summary


def test_missing_results_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing_summary\.json: cannot be read"):
        bs.read_run(tmp_path / "nothing")


def test_a_bad_date_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="start: found 'soon'"):
        bs.generate_power(tmp_path / "power.txt", pv_kw=1, start="soon")


def test_what_is_odd_is_warned_of(tmp_path: Path) -> None:
    platform = bs.generate_platform({"gros": 4}, tmp_path / "platform.xml")
    workload = bs.generate_workload(tmp_path / "workload.json", seed=1, jobs=10, hosts=4)
    power = bs.generate_power(tmp_path / "power.txt", pv_kw=2, seed=1)
    with pytest.warns(UserWarning, match="the power covers 72 h, the run needs 144 h"):
        run = bs.simulate(platform, workload, power, site="default", windows=2)
    assert len(run.summary["warnings"]) == 1


@pytest.mark.slow
def test_a_forecast_of_the_runs_own_events(tmp_path: Path) -> None:
    platform = bs.generate_platform({"gros": 4}, tmp_path / "platform.xml")
    workload = bs.generate_workload(tmp_path / "w.json", seed=1, jobs=5, hosts=4, deadlines="factor:3")
    power = bs.generate_power(tmp_path / "power.txt", pv_kw=2, seed=1)
    made = bs.simulate(platform, workload, power, site="default", forecast="perfect")
    assert made.summary["settings"]["forecast"] == f"perfect:{power}"
    assert made.summary["deadlines"]["jobs"] == 5
    with pytest.raises(ConfigError, match="deadlines: found 'soon'"):
        bs.generate_workload(tmp_path / "w.json", deadlines="soon")
