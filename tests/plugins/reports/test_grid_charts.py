"""What a report shows of runs on a site with a grid: green and brown power, price, deadlines, cost."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flow_battery import FlowBattery
from plugins.reports.by_hand import summary, write_run
from river import RIVER
from summaries import members

from beasy_sched.energy import sources
from beasy_sched.energy.devices import kinds
from beasy_sched.errors import InputError
from beasy_sched.plugins.reports import grid_charts as grid_module
from beasy_sched.plugins.reports.energy_charts import energy_charts
from beasy_sched.plugins.reports.grid_charts import cost_so_far, grid_bars, grid_charts
from beasy_sched.plugins.reports.html import curves_together, report_html, table
from beasy_sched.plugins.reports.page import Absent, Chart
from beasy_sched.plugins.reports.run_data import RunData, read_run_data

pytest.importorskip("pyarrow", reason="reports need pyarrow")

HEAD = (
    "step,start_s,duration_s,renewable_w,demand_w,charge_w,discharge_w,electrolyzer_w,fuel_cell_w,"
    "curtailed_w,unserved_w,base_w,grid_import_w,grid_export_w,import_price_per_kwh,import_cost,carbon_g,"
    "predicted_renewable_w,clear_sky_w,soc_pct,hydrogen_kg,residual_j\n"
)
NO_BATTERY = (
    "0,0.0,100.0,500.0,300.0,0,0,0,0,150.0,0,50.0,0,0,0.25,0.0,0.0,,,,0.0,0.0\n"
    "1,100.0,100.0,100.0,300.0,0,0,0,0,0,0,50.0,250.0,0,0.25,0.5,10.0,120.0,,,0.0,0.0\n"
    "2,200.0,100.0,0.0,100.0,0,0,0,0,0,30.0,50.0,120.0,0,-0.125,-0.25,4.0,0.0,,,0.0,0.0\n"
    "3,300.0,100.0,90.0,0.0,0,0,0,0,0,0,50.0,0,40.0,-0.125,0.0,0.0,80.0,,,0.0,0.0\n"
)
BATTERY = (
    "0,0.0,100.0,500.0,300.0,150.0,0,0,0,0,0,50.0,0,0,0.25,0.0,,,,55.0,0.0,0.0\n"
    "1,100.0,100.0,100.0,300.0,0,150.0,0,0,0,0,50.0,100.0,0,0.25,0.5,,120.0,,50.0,0.0,0.0\n"
)
DEADLINES = (
    "job,workflow,phase,submitted_s,start_s,end_s,internal_deadline_s,deadline_s,lateness_s,outcome\n"
    "w!1,w!a,0,0.0,10.0,110.0,120.0,200.0,0.0,met\n"
    "w!2,w!a,1,20.0,50.0,210.0,200.0,200.0,10.0,missed\n"
    "w!3,,,30.0,,,300.0,300.0,,refused\n"
    "w!4,w!b,0,0.0,10.0,110.0,200.0,200.0,0.0,met\n"
    "w!5,w!b,1,0.0,10.0,110.0,9000.0,9000.0,0.0,met\n"
)
START = "2010-07-12T09:00:00-04:00"
GRID = {
    "currency": "EUR", "import_kwh": 60.0, "export_kwh": 0.0,
    "cost": 7.5, "export_revenue": 0.0, "carbon_kg": 12.5, "green_kwh": 40.0, "green_share": 0.4,
    "mean_import_price": 0.125, "peak_import_w": 250.0,
}  # fmt: skip
COUNTS = {
    "jobs": 5, "jobs_met": 3, "jobs_missed": 1, "jobs_refused": 1, "workflows": 2, "workflows_met": 1,
    "workflows_missed": 1, "workflows_refused": 0, "lateness_s_max": 9000.0,
}  # fmt: skip


def on_a_grid(
    prefix: Path,
    steps: str = NO_BATTERY,
    *,
    deadlines: str | None = DEADLINES,
    start: str | None = START,
    **changes: Any,
) -> RunData:
    """The run by hand, on a site with a grid."""
    given = summary(grid={**GRID, **changes}, deadlines=COUNTS)
    if steps is NO_BATTERY:
        given["site"] = {"guard": "shed", "veto": True}
    if start is not None:
        given["site"]["start"] = start
    written = write_run(prefix, energy_trace=HEAD + steps, summary=json.dumps(members(**given)))
    if deadlines is not None:
        Path(f"{prefix}_deadlines.csv").write_text(deadlines)
    return read_run_data(prefix.name, written)


def traces(chart: Chart) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in chart.spec["traces"]}


def heights(chart: Chart, name: str) -> list[float]:
    return np.asarray(traces(chart)[name]["y"])[:-1].tolist()


def test_the_load_is_stacked_from_green_and_brown_and_the_rest_of_the_sun_above(tmp_path: Path) -> None:
    found = grid_charts(on_a_grid(tmp_path / "a"), "r")[0]
    assert heights(found, "green, used directly") == [350.0, 100.0, 0.0, 50.0]
    assert heights(found, "from the grid") == [0.0, 250.0, 120.0, 0.0]
    assert heights(found, "unserved") == [0.0, 0.0, 30.0, 0.0]
    assert heights(found, "not used (curtailed)") == [150.0, 0.0, 0.0, 0.0]
    assert heights(found, "exported") == [0.0, 0.0, 0.0, 40.0]
    assert heights(found, "load (servers and base)") == [350.0, 350.0, 150.0, 50.0]
    assert "from the battery" not in traces(found)
    stacked = [trace for trace in found.spec["traces"] if trace.get("stackgroup")]
    assert [trace["name"] for trace in stacked[-2:]] == ["exported", "not used (curtailed)"]


def test_sun_and_wind_stand_apart_where_they_are_told_apart(tmp_path: Path) -> None:
    run = on_a_grid(tmp_path / "a")
    told = replace(run, trace=run.trace.plus("sun_w", np.array([400.0, 25.0, 0.0, 90.0])))
    found = grid_charts(told, "r")[0]
    assert heights(found, "solar, used directly") == [280.0, 25.0, 0.0, 50.0]
    assert heights(found, "wind, used directly") == [70.0, 75.0, 0.0, 0.0]
    assert "green, used directly" not in traces(found)
    partly = replace(run, trace=run.trace.plus("sun_w", np.array([400.0, np.nan, 0.0, 90.0])))
    assert heights(grid_charts(partly, "r")[0], "green, used directly") == [350.0, 100.0, 0.0, 50.0]


def test_every_kind_of_source_and_device_has_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A river is not wind, and what a second battery delivers is not used directly."""
    monkeypatch.setitem(sources.KINDS, "river", RIVER)
    monkeypatch.setitem(kinds.KINDS, "flow_battery", FlowBattery)
    run = on_a_grid(tmp_path / "a")
    trace = run.trace.plus(RIVER.column, np.array([100.0, 25.0, 0.0, 45.0]))
    chart = grid_charts(replace(run, trace=trace), "r")[0]
    assert heights(chart, "river, used directly") == [70.0, 25.0, 0.0, 25.0]
    assert heights(chart, "solar and wind, used directly") == [280.0, 75.0, 0.0, 25.0]
    trace = trace.plus("sun_w", np.array([400.0, 25.0, 0.0, 0.0]))
    columns = FlowBattery.columns
    trace = trace.plus(columns.level, np.zeros(4))
    trace = trace.plus(columns.out, np.array([0.0, 50.0, 0.0, 0.0]))
    trace = trace.plus(columns.into, np.array([20.0, 0.0, 0.0, 0.0]))
    chart = grid_charts(replace(run, trace=trace), "r")[0]
    assert heights(chart, "river, used directly") == [70.0, 12.5, 0.0, 25.0]
    assert heights(chart, "solar, used directly") == [280.0, 12.5, 0.0, 0.0]
    assert heights(chart, "wind, used directly") == [0.0, 25.0, 0.0, 25.0]
    assert heights(chart, "from the flow battery") == [0.0, 50.0, 0.0, 0.0]
    assert heights(chart, "into the flow battery") == [20.0, 0.0, 0.0, 0.0]


def test_a_battery_stands_between_green_and_brown(tmp_path: Path) -> None:
    found = grid_charts(on_a_grid(tmp_path / "a", BATTERY), "r")[0]
    assert heights(found, "green, used directly") == [350.0, 100.0]
    assert heights(found, "from the battery") == [0.0, 150.0]
    assert heights(found, "into the battery") == [150.0, 0.0]
    names = [*traces(found)]
    assert (
        names.index("green, used directly") < names.index("from the battery") < names.index("from the grid")
    )


def test_price_and_prediction(tmp_path: Path) -> None:
    found = grid_charts(on_a_grid(tmp_path / "a"), "r")[0]
    assert heights(found, "price (right axis)") == [0.25, 0.25, -0.125, -0.125]
    price, right = traces(found)["price (right axis)"], found.spec["layout"]["yaxis2"]
    assert price["yaxis"] == "y2"
    assert price["hovertemplate"].endswith("EUR/kWh")
    assert right["range"][0] < -0.125
    assert right["range"][1] > 0.25
    np.testing.assert_array_equal(heights(found, "production, predicted"), [np.nan, 120.0, 0.0, 80.0])


def test_a_grid_without_a_price_has_no_right_axis(tmp_path: Path) -> None:
    free = NO_BATTERY.replace(",0.25,", ",0.0,").replace(",-0.125,", ",,")
    found = grid_charts(on_a_grid(tmp_path / "a", free), "r")[0]
    assert "price (right axis)" not in traces(found)
    assert "yaxis2" not in found.spec["layout"]


def test_deadlines_are_marked_once_a_workflow(tmp_path: Path) -> None:
    """A workflow is late if one of its jobs is; deadlines after the run's end are not on the chart."""
    found = traces(grid_charts(on_a_grid(tmp_path / "a"), "r")[0])
    met, late = found["deadlines met"], found["deadlines missed or rejected"]
    assert (list(met["x"]), met["text"]) == ([200.0], ["w!b: met"])
    assert (list(late["x"]), late["text"]) == (
        [200.0, 300.0],
        ["w!a: missed or rejected", "w!3: missed or rejected"],
    )
    without = grid_charts(on_a_grid(tmp_path / "b", deadlines=None), "r")[0]
    assert "deadlines met" not in traces(without)


def test_many_deadlines_that_were_met_are_counted(tmp_path: Path) -> None:
    rows = "".join(f"w!{n},,,0,1,2,{n / 2},{n / 2},0,met\n" for n in range(300))
    found = grid_charts(on_a_grid(tmp_path / "a", deadlines=DEADLINES.splitlines()[0] + "\n" + rows), "r")[0]
    assert "deadlines met" not in traces(found)
    assert "300 times with met deadlines are not marked." in found.note


def test_carbon_an_hour_and_a_kwh(tmp_path: Path) -> None:
    found = grid_charts(on_a_grid(tmp_path / "a"), "r")[1]
    assert heights(found, "carbon") == pytest.approx([0.0, 0.36, 0.144, 0.0])
    of_a_kwh = heights(found, "carbon per kWh (right axis)")
    np.testing.assert_allclose(of_a_kwh, [np.nan, 1440.0, 1200.0, np.nan])


def test_carbon_where_nothing_was_imported(tmp_path: Path) -> None:
    """No kWh has a rate then: the right axis has a range all the same."""
    first = "".join(NO_BATTERY.splitlines(keepends=True)[:1])
    found = grid_charts(on_a_grid(tmp_path / "a", first), "r")[1]
    np.testing.assert_array_equal(heights(found, "carbon per kWh (right axis)"), [np.nan])
    assert found.spec["layout"]["yaxis2"]["range"] == [0.0, 1.0]


def test_where_carbon_is_not_known_there_is_no_chart_of_it(tmp_path: Path) -> None:
    assert len(grid_charts(on_a_grid(tmp_path / "a", BATTERY), "r")) == 1


def test_a_site_without_a_battery_has_no_chart_of_one(tmp_path: Path) -> None:
    without, with_one = on_a_grid(tmp_path / "a"), on_a_grid(tmp_path / "b", BATTERY)
    assert energy_charts(without, None, "r") == []
    keys = [c.key for c in energy_charts(with_one, None, "r") if not isinstance(c, Absent)]
    assert keys == ["r-balance", "r-soc"]
    together = [chart for chart in curves_together([without, without]) if isinstance(chart, Chart)]
    assert [chart.key for chart in together] == ["all-cost", "all-queue", "all-waits"]


def test_the_power_balance_has_the_grid_and_the_base_load(tmp_path: Path) -> None:
    balance = energy_charts(on_a_grid(tmp_path / "a", BATTERY), None, "r")[0]
    assert isinstance(balance, Chart)
    assert {"grid import", "base load"} < traces(balance).keys()
    np.testing.assert_allclose(sum(np.asarray(t["y"]) for t in balance.spec["traces"]), 0.0, atol=1e-12)


def test_costs_add_up(tmp_path: Path) -> None:
    spent = cost_so_far(on_a_grid(tmp_path / "a"))
    assert spent is not None
    assert spent[0].tolist() == [0.0, 100.0, 200.0, 300.0, 400.0]
    assert spent[1].tolist() == [0.0, 0.0, 0.5, 0.25, 0.25]


def test_several_runs_side_by_side(tmp_path: Path) -> None:
    bare: dict[str, Any] = summary()
    runs = [
        on_a_grid(tmp_path / "a"),
        on_a_grid(tmp_path / "b", cost=5.0, carbon_kg=None),
        read_run_data("c", write_run(tmp_path / "c", summary=json.dumps(bare))),
    ]
    load, kept, cost, grams = grid_bars(runs)
    green = traces(load)["green"]
    assert (green["y"], list(green["x"]), green["customdata"][0]) == (
        ["a", "b"],
        [40.0, 40.0],
        "40.00 kWh (40.00 %)",
    )
    assert traces(kept)["missed"]["customdata"] == ["1 (20.00 %)", "1 (20.00 %)"]
    assert list(traces(cost)["cost"]["x"]) == [7.5, 5.0]
    assert (traces(grams)["carbon"]["y"], list(traces(grams)["carbon"]["x"])) == (["a"], [12.5])
    assert [chart.key for chart in grid_bars(runs[:1])] == ["load"]
    assert grid_bars(runs[2:]) == []
    rows = dict(table(runs))
    assert rows["  cost"] == ["7.50 EUR", "5.00 EUR", ""]
    assert rows["  carbon"] == ["12.50 kg", "", ""]
    assert rows["green energy used"][1:] == ["40.00 kWh (40.00 % of the load)", ""]
    assert rows["jobs that met their deadline"] == ["3 of 5", "3 of 5", ""]
    assert rows["  refused"] == ["1", "1", ""]
    assert rows["  late by at most"] == ["2.50 h", "2.50 h", ""]


def test_the_site_s_clock(tmp_path: Path) -> None:
    """Charts tell the local date where the start is known, of several runs where it is the same."""
    run, later = on_a_grid(tmp_path / "a"), on_a_grid(tmp_path / "b", start="2010-07-13T09:00:00-04:00")
    assert run.start_s == 14_802 * 86_400 + 9 * 3600  # 12 July 2010, 9:00 by that clock
    assert on_a_grid(tmp_path / "c", start=None).start_s is None
    same, apart = curves_together([run, run])[0], curves_together([run, later])[0]
    assert isinstance(same, Chart)
    assert isinstance(apart, Chart)
    assert (same.spec.get("start"), apart.spec.get("start")) == (run.start_s, None)


def unpacked(places: list[Path]) -> str:
    """Return a report of runs, and the data of its charts."""
    text = "".join(report_html(places))
    packed = re.findall(r'data-for="[^"]+">([^<]*)</script>', text)
    return text + "".join(zlib.decompress(base64.b64decode(each)).decode() for each in packed)


def test_a_bar_names_its_run_unless_it_is_the_only_run(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="reports need plotly")
    on_a_grid(tmp_path / "a")
    write_run(tmp_path / "b")
    for names, is_named in (("ab", "true"), ("a", "false")):
        text = unpacked([tmp_path / name for name in names])
        assert {*re.findall(r'"showticklabels": ?(\w+)', text)} == {is_named}


def test_the_page(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="reports need plotly")
    on_a_grid(tmp_path / "a")
    text = unpacked([tmp_path / "a"])
    assert '"start":1278925200.0' in text
    assert "Green and brown power" in text
    assert "State of charge" not in text


def test_columns_that_a_site_without_a_price_leaves_empty(tmp_path: Path) -> None:
    steps = NO_BATTERY.replace(",0.25,0.0,", ",,,").replace(",0.25,0.5,", ",,,").replace(",-0.125,", ",,")
    assert np.isnan(on_a_grid(tmp_path / "a", steps).trace["import_price_per_kwh"]).all()


@pytest.mark.parametrize(
    ("deadlines", "message"),
    [
        ("job,workflow,deadline_s\n", "has no column 'outcome'"),
        ("job,workflow,deadline_s,outcome\nw!1,,3,kept\n", "found 'kept', expected met, missed, refused"),
        ("job,workflow,deadline_s,outcome\nw!1,,soon,met\n", "deadline_s: found soon, expected a number"),
    ],
)
def test_a_wrong_table_of_deadlines_is_told(tmp_path: Path, deadlines: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        on_a_grid(tmp_path / "a", deadlines=deadlines)


@pytest.mark.parametrize("changes", [{"cost": "much"}, {"currency": 3}])
def test_a_wrong_section_of_the_summary_is_told(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not the summary of a run"):
        on_a_grid(tmp_path / "a", **changes)


def test_a_wrong_time_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"site\.start: found 'Monday', expected a time such as 2019-06-01"):
        on_a_grid(tmp_path / "a", start="Monday")


def test_a_trace_without_the_grid_s_columns_has_no_chart_of_it(tmp_path: Path) -> None:
    prefix = write_run(tmp_path / "a", summary=json.dumps(summary(grid=GRID)))
    assert grid_charts(read_run_data("a", prefix), "r") == []


def test_colours_are_those_of_the_style_sheet(tmp_path: Path) -> None:
    """In its light and its dark form; two curves of one chart never share one."""
    css = (Path(grid_module.__file__).parent / "web/report.css").read_text("utf-8")
    run = on_a_grid(tmp_path / "a", BATTERY)
    charts = [*grid_charts(run, "r"), *energy_charts(run, None, "r")]
    for chart in charts:
        assert isinstance(chart, Chart)
        paints = {
            t["name"]: t.get("fillcolor", t["line"]["color"]) for t in chart.spec["traces"] if "line" in t
        }
        assert all(f"--{paint[6:-1]}:" in css for paint in paints.values())
        if chart.key != "r-balance":  # where what goes into the battery has the colour of what comes out
            assert len({*paints.values()}) == len(paints)


def test_nothing_is_drawn_beyond_the_last_step(tmp_path: Path) -> None:
    """The steps of a window end at 200 s, the run at 400 s."""
    for found in grid_charts(on_a_grid(tmp_path / "a", BATTERY), "r"):
        ends = {trace["x"][-1] for trace in found.spec["traces"] if trace["mode"] == "lines"}
        assert ends == {200.0}
