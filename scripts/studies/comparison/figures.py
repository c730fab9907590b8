"""The figure of a comparison: what two policies do differently, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.formats.batsim_profiles import profile_run_s
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.decoding import read_frame
from beasy_sched.plugins.campaigns.campaign_table import Campaign
from beasy_sched.plugins.campaigns.paired import Block, ComparedPolicies
from beasy_sched.units import SECONDS_PER_HOUR
from studies.beasy.figures import Closeup
from studies.comparison.study import case_of
from studies.figures import (
    BLUE,
    GREY,
    ORANGE,
    TWO_COLUMNS_IN,
    Figures,
    level_axis,
    new_figure,
)

_SHOWN_SCENARIO: Final = "worst-end"
"""The scenario whose first execution is shown, where it was run: energy is scarcest there."""
_PARTS: Final = 10
_LOOKS: Final = ((BLUE, "-", "o"), (ORANGE, "--", "s"))
"""Looks of the curves of the policy, and of the one that it is compared with."""


@dataclass(frozen=True)
class ShownRuns:
    """The runs of two policies in one execution, by policy, and what that execution is."""

    title: str
    runs: Mapping[str, str]
    workload: Path


def runs_to_show(campaign: Campaign, block: ComparedPolicies, policies: Sequence[str]) -> ShownRuns:
    """Choose the execution: the first of the worst case with jobs in the end, or the first of all."""
    executions = block.executions
    wanted = [each for each in executions if case_of(each[0])[1] == _SHOWN_SCENARIO]
    scenario, number, seed = (wanted or list(executions))[0]
    runs = campaign.runs
    own = runs[(runs["scenario"] == scenario) & (runs["tuple"] == number) & (runs["seed"] == seed)]
    first = own.drop_duplicates("policy").set_index("policy")  # of the first guard setting
    names = {policy: str(first.loc[policy, "run"]) for policy in policies}
    digest = str(first["workload_sha256"].iloc[0])
    title = f"{case_of(scenario)[1] or scenario}, noise {seed}"
    return ShownRuns(title, names, campaign.folder.input_path("workload", digest))


def comparison_figures(
    blocks: Mapping[Block, ComparedPolicies],
    shown: ShownRuns,
    closeups: Mapping[str, Closeup],
    battery: BatterySpec,
) -> Figures:
    """Yield the figure: charge over time, finished jobs by size, finished jobs against waste."""
    figure, (level, sizes, scatter) = new_figure(TWO_COLUMNS_IN, 2.5, 1, 3, width_ratios=[1.15, 1.0, 1.0])
    _draw_levels(level, shown, closeups, battery)
    _draw_sizes(sizes, shown, closeups)
    _draw_executions(scatter, blocks, [*shown.runs])
    figure.legend(*level.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    yield "comparison", figure


def _draw_levels(panel: Any, shown: ShownRuns, closeups: Mapping[str, Closeup], battery: BatterySpec) -> None:
    hours: FloatArray = np.zeros(1)
    for (policy, run), (color, style, _) in zip(shown.runs.items(), _LOOKS, strict=True):
        trace = closeups[run].trace
        hours = (trace["start_s"] + trace["duration_s"]).to_numpy() / SECONDS_PER_HOUR
        panel.plot(hours, trace["soc_pct"], color=color, linestyle=style, linewidth=1.3, label=policy)
    level_axis(panel, battery, float(hours[-1]))
    panel.set_title(shown.title, loc="left")


def _draw_sizes(panel: Any, shown: ShownRuns, closeups: Mapping[str, Closeup]) -> None:
    places, width = np.arange(_PARTS), 0.4
    for side, ((policy, run), (color, *_)) in enumerate(zip(shown.runs.items(), _LOOKS, strict=True)):
        shares = finished_by_size(shown.workload, finished_jobs(closeups[run].folder))
        panel.bar(places + (side - 0.5) * width, shares, width, color=color, alpha=0.85, label=policy)
    panel.set_xticks(places, [str(place + 1) for place in places])
    panel.set_xlabel("tenth of the jobs, by work")
    panel.set_ylabel("finished [%]")
    panel.set_ylim(0, 100)
    panel.set_title(shown.title, loc="left")
    panel.grid(axis="y")
    panel.set_axisbelow(True)


def finished_jobs(folder: Path) -> set[str]:
    """Return the ids of a run's jobs that ended by themselves, as in the workload: ``w0!7``."""

    jobs = read_frame(folder / "run_jobs.csv", {"job_id": str, "workload_name": str})
    done = jobs[jobs["final_state"].isin(["COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"])]
    return {f"{workload}!{job}" for workload, job in zip(done["workload_name"], done["job_id"], strict=True)}


def finished_by_size(workload: Path, finished: set[str], parts: int = _PARTS) -> FloatArray:
    """Return the share (%) of jobs that finished in each of ``parts`` equal groups, the least work first.

    Jobs of the same work have the order of the workload. Raises InputError.
    """
    known = read_workload(workload)
    work = [job.res * profile_run_s(job.profile, known.profiles, job.res, 1.0) for job in known.jobs]
    order = np.argsort(work, kind="stable")
    done: npt.NDArray[np.float64] = np.array([job.id in finished for job in known.jobs], dtype=np.float64)
    groups = np.array_split(done[order], parts)
    return np.array([100.0 * group.mean() if len(group) else np.nan for group in groups])


def _draw_executions(panel: Any, blocks: Mapping[Block, ComparedPolicies], policies: Sequence[str]) -> None:
    """All executions of all blocks: a point a policy, joined by a line."""
    points = [
        np.concatenate([block.of(measure, policy) for block in blocks.values()])
        for policy in policies
        for measure in ("wasted", "finished")
    ]
    wasted, finished, their_wasted, their_finished = points
    panel.plot([wasted, their_wasted], [finished, their_finished], color=GREY, linewidth=0.3, alpha=0.5)
    for x, y, (color, _, mark) in zip(points[::2], points[1::2], _LOOKS, strict=True):
        panel.plot(x, y, mark, color=color, markersize=2.5, markeredgewidth=0.0, alpha=0.8)
    panel.set_xlabel("wasted energy [kWh]")
    panel.set_ylabel("finished jobs [%]")
    panel.set_title(f"all {len(wasted)} executions", loc="left")
    panel.grid()
