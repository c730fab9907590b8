"""The paper's main week with its printed workloads and the production of its Figure 6."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.forecast.outlook import PerfectForecast
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.generate.greenslot_week import ACTUAL_W, NODES, WEEK_S, workflow_workload
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.deadline_table import deadlines_part
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

STEP_S = 900.0
SUN_W = np.repeat(np.array(ACTUAL_W, dtype=np.float64), 4)


def week(folder: Path, policy: str, options: dict[str, object] | None = None) -> Session:
    platform = preset_platform({"greenslot-xeon": NODES})
    write_platform(platform, folder / "platform.xml")
    speed = platform.kinds[0].reference_speed_flops
    workflow_workload(WorkflowOptions(reference_speed_flops=speed)).write(folder / "workload.json")
    (folder / "power.txt").write_text("".join(power_event_lines(SUN_W, STEP_S)))
    site = Site(Storage(NO_BATTERY), STEP_S, WEEK_S, grid=Grid(), base_w=85.0)
    told = SessionOptions(site=site, forecast=PerfectForecast(SUN_W, STEP_S))
    session = Session(make_policy(policy, options), told)
    inputs = Inputs(folder / "platform.xml", [folder / "workload.json"], [folder / "power.txt"])
    simulation_from_files(inputs, SimulationOptions(energy=True, forward_unknown_events=True)).run(
        session.step
    )
    return session


def green_and_total_kwh(session: Session) -> tuple[float, float]:
    records = [row.record for row in session.power.trace]
    green_j = sum(record.green_w * record.dt_s for record in records)
    return green_j / 3.6e6, sum((x.demand_w + x.base_w) * x.dt_s for x in records) / 3.6e6


def test_the_production_of_the_week() -> None:
    assert len(ACTUAL_W) * 3600 == WEEK_S
    assert sum(ACTUAL_W) / 1000 == pytest.approx(42.4, abs=0.05)


def test_conventional_has_the_papers_green_share(tmp_path: Path) -> None:
    """Section 5.2 prints 26 %; Figure 6 has 101.9 kWh, 26.3 of them green."""
    session = week(tmp_path, "conventional")
    green_kwh, total_kwh = green_and_total_kwh(session)
    assert 100 * green_kwh / total_kwh == pytest.approx(26.0, abs=0.1)
    assert total_kwh == pytest.approx(101.9, rel=0.03)
    assert set(session.outcomes.columns()["state"]) == {JobState.FINISHED.value}
    assert deadlines_part(session.workflows.with_deadline).jobs_missed == 0


@pytest.mark.slow
def test_green_only_uses_half_as_much_again(tmp_path: Path) -> None:
    """Section 5.2 prints +47 % for GreenOnly, with every deadline kept."""
    (tmp_path / "c").mkdir()
    plain_kwh, _ = green_and_total_kwh(week(tmp_path / "c", "conventional"))
    session = week(tmp_path, "greenslot", {"prices": "flat"})
    assert green_and_total_kwh(session)[0] / plain_kwh - 1 == pytest.approx(0.47, abs=0.05)
    assert deadlines_part(session.workflows.with_deadline).jobs_met == 352
