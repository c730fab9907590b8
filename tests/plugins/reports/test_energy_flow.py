"""The flow of energy: what flows in flows out, and the sums are those of the summary."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from command_line import exit_code
from plugins.reports.by_hand import TRACE, write_run
from plugins.reports.test_grid_charts import BATTERY, on_a_grid
from project.shell import ROOT
from small_site import small_site

from beasy_sched.plugins.reports.energy_charts import (
    SERVER_USES,
    SERVERS,
    SITE,
    SOURCES,
    USES,
    Flow,
    energy_flow,
    energy_flows,
    power_balance,
)
from beasy_sched.plugins.reports.page import Absent, Chart
from beasy_sched.plugins.reports.run_data import RunData, read_run_data

pytest.importorskip("pyarrow", reason="reports need pyarrow")


def into(flows: list[Flow], node: str) -> float:
    return sum(flow.kwh for flow in flows if flow.end == node)


def out_of(flows: list[Flow], node: str) -> float:
    return sum(flow.kwh for flow in flows if flow.start == node)


def check_balance(flows: list[Flow]) -> None:
    inner = {flow.start for flow in flows} & {flow.end for flow in flows}
    assert inner == {SITE, SERVERS}
    for node in inner:
        assert into(flows, node) == pytest.approx(out_of(flows, node), rel=1e-7)


@pytest.fixture(
    scope="module",
    params=["battery", pytest.param("hydrogen", marks=pytest.mark.plugins("campaigns")), "grid"],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("flow")
    site = small_site(folder)
    files = ["-p", site.platform, "-w", site.workload, "--events", site.events]
    described = site.site
    if request.param == "hydrogen":
        files = ["-p", ROOT / "platforms/example-mixed.xml", "-w", ROOT / "workloads/synthetic-12.json"]
        described = ROOT / "beasy_sched/plugins/campaigns/comparisons/sites/days.toml"
    if request.param == "grid":
        site.site.write_text(site.site.read_text() + "[grid]\nimport_limit_kw = 1.0\n", "utf-8")
    prefix = str(folder / "run")
    arguments = [*files, "--site", described, "--policy", "workload-reactive", "-e", prefix, "-q"]
    assert exit_code("simulate", *map(str, arguments)) == 0
    return read_run_data("run", prefix)


@pytest.mark.sampled
def test_it_balances_and_the_sums_are_those_of_the_summary(run: RunData) -> None:
    flows = energy_flows(run)
    check_balance(flows)
    assert run.energy_kwh is not None
    told = msgspec.to_builtins(run.energy_kwh)
    expected = {
        "renewable_w": "production", "discharge_w": "discharged", "fuel_cell_w": "fuel_cell",
        "unserved_w": "unserved", "grid_import_w": "import", SERVERS: "consumed", "charge_w": "charged",
        "electrolyzer_w": "electrolyzer", "curtailed_w": "curtailed", "base_w": "base",
        "cooling_w": "cooling",
        "grid_export_w": "export", **{name: name for name in SERVER_USES},
    }  # fmt: skip
    assert {*SOURCES} | {*USES} <= {*expected}
    for node, name in expected.items():
        found = into(flows, node) or out_of(flows, node)
        assert found == pytest.approx(told.get(name, 0.0), rel=1e-6, abs=1e-5), node


def test_sun_and_wind_apart(tmp_path: Path) -> None:
    head, *rows = TRACE.splitlines()
    trace = "\n".join([f"{head},sun_w", *(f"{r},{s}" for r, s in zip(rows, (400, 0, 30, 2000), strict=True))])
    run = read_run_data("a", write_run(tmp_path / "a", energy_trace=trace + "\n"))
    kwh = {flow.start: flow.kwh for flow in energy_flows(run) if flow.end == SITE}
    assert kwh["sun_w"] == pytest.approx(2430 * 100 / 3.6e6)
    assert kwh["wind_w"] == pytest.approx(170 * 100 / 3.6e6)
    assert "renewable_w" not in kwh
    heights = {trace["name"]: list(trace["y"])[:-1] for trace in power_balance(run, "r").spec["traces"]}
    assert heights["sun"] == pytest.approx([0.4, 0.0, 0.03, 2.0])
    assert heights["wind"] == pytest.approx([0.1, 0.0, 0.07, 0.0])
    assert "not told apart" not in energy_flow(run, "r").note  # type: ignore[union-attr]


def test_a_sun_that_is_not_known_in_every_step_stays_with_the_wind(tmp_path: Path) -> None:
    head, *rows = TRACE.splitlines()
    trace = "\n".join([f"{head},sun_w", *(f"{r},{s}" for r, s in zip(rows, (1, 0, "", 1), strict=True))])
    run = read_run_data("a", write_run(tmp_path / "a", energy_trace=trace + "\n"))
    assert "renewable_w" in {flow.start for flow in energy_flows(run)}


def test_charging_and_discharging_have_colours_of_their_own(tmp_path: Path) -> None:
    chart = energy_flow(on_a_grid(tmp_path / "a", BATTERY), "r")
    assert isinstance(chart, Chart)
    node = chart.spec["traces"][0]["node"]
    paint = dict(zip(node["label"], node["color"], strict=True))
    assert (paint["battery charge"], paint["battery discharge"]) == ("var(--charge)", "var(--battery)")
    assert paint["grid import"] == "var(--import)"


def test_links_join_the_nodes_that_they_name(run: RunData) -> None:
    chart = energy_flow(run, "r")
    assert isinstance(chart, Chart)
    trace = chart.spec["traces"][0]
    flows = energy_flows(run)
    assert trace["link"]["value"] == [flow.kwh for flow in flows]
    labels = trace["node"]["label"]
    for flow, target in zip(flows, trace["link"]["target"], strict=True):
        if flow.end in SERVER_USES:
            assert labels[target] == SERVER_USES[flow.end][0]
    assert len(set(trace["link"]["source"]) | set(trace["link"]["target"])) == len(labels)


def test_nothing_flows(tmp_path: Path) -> None:
    rows = [f"{n},{n * 100},100,0,0,0,0,0,0,0,0,50,0,0" for n in range(3)]
    trace = "\n".join([TRACE.splitlines()[0], *rows]) + "\n"
    run = read_run_data("a", write_run(tmp_path / "a", energy_trace=trace))
    assert isinstance(energy_flow(run, "r"), Absent)


def test_without_a_summary_the_servers_are_one(tmp_path: Path) -> None:
    flows = energy_flows(read_run_data("a", write_run(tmp_path / "a", summary=None)))
    assert not [flow for flow in flows if flow.start == SERVERS]
    assert into(flows, SITE) == pytest.approx(out_of(flows, SITE))
    assert np.isfinite([flow.kwh for flow in flows]).all()
