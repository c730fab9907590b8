"""What the comparison's figure shows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_campaign import run_campaign, scenario
from studies.beasy.figures import make_closeups
from studies.comparison.figures import (
    comparison_figures,
    finished_by_size,
    finished_jobs,
    runs_to_show,
)
from studies.comparison.results import blocks_by_case
from studies.figures import write_figures

from beasy_sched.plugins.campaigns.campaign_table import read_campaign


def test_jobs_by_size(tmp_path: Path):
    """Work is hosts times flops: the second job is the smallest, the first the largest."""
    jobs = [("1", 4, "p"), ("2", 1, "p"), ("3", 2, "p"), ("4", 1, "q")]
    profiles = {
        name: {"type": "parallel_homogeneous", "cpu": cpu, "com": 0} for name, cpu in (("p", 1e9), ("q", 3e9))
    }
    path = tmp_path / "workload.json"
    listed = [{"id": id, "subtime": 0, "res": res, "profile": profile} for id, res, profile in jobs]
    path.write_text(json.dumps({"nb_res": 4, "jobs": listed, "profiles": profiles}))
    assert finished_by_size(path, {"w0!2", "w0!4"}, parts=2).tolist() == [50.0, 50.0]
    assert finished_by_size(path, {"w0!2", "w0!3"}, parts=2).tolist() == [100.0, 0.0]
    assert finished_by_size(path, {"w0!1"}, parts=4).tolist() == [0.0, 0.0, 0.0, 100.0]
    assert np.isnan(finished_by_size(path, set(), parts=5)).sum() == 1


def test_finished_jobs_of_a_run(tmp_path: Path):
    states = ["COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED", "COMPLETED_FAILED", "REJECTED"]
    rows = {"job_id": range(4), "workload_name": "w0", "final_state": states}
    pd.DataFrame(rows).to_csv(tmp_path / "run_jobs.csv", index=False)
    assert finished_jobs(tmp_path) == {"w0!0", "w0!2"}


@pytest.mark.slow
def test_the_figure(tmp_path: Path):
    pytest.importorskip("matplotlib").use("Agg")
    run_campaign(tmp_path / "campaign", scenario(("seeds = [1, 2]", "seeds = [2]"), ('"follow-plan", ', "")))
    campaign = read_campaign(tmp_path / "campaign")
    blocks = blocks_by_case(campaign.runs, resamples=5)
    policies = ("workload-reactive", "easy")
    shown = runs_to_show(campaign, next(iter(blocks.values())), policies)
    assert shown.title == "small, noise 2"
    assert [*shown.runs] == [*policies]
    assert shown.workload.exists()
    closeups = make_closeups(campaign, shown.runs.values(), tmp_path, jobs=1)
    jobs = finished_jobs(closeups[shown.runs["easy"]].folder)
    (row,) = campaign.runs[campaign.runs.run == shown.runs["easy"]].itertuples()
    assert len(jobs) == row.jobs_finished
    battery = scenario().parsed_site().storage.battery
    written = write_figures(comparison_figures(blocks, shown, closeups, battery), tmp_path / "figures")
    assert [path.name for path in written] == ["comparison.pdf", "comparison.png"]
    assert all(path.stat().st_size > 5000 for path in written)
