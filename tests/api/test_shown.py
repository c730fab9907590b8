"""How runs, plans and comparisons show themselves, in a terminal and in a notebook."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import beasy_sched as bs
from beasy_sched.errors import InputError
from beasy_sched.formats.run_summary import BatteryLevels
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugins.reports.notebook import _thinned, sparkline


def test_a_run_tells_its_main_figures(run: bs.Run) -> None:
    jobs, site = run.summary["jobs"], run.summary["site"]
    lines = repr(run).splitlines()
    assert lines[0] == f"Run {run.prefix!r}"
    rows = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in lines[1:])
    assert rows["policy"] == "easy"
    assert rows["jobs"] == "60"
    assert rows["finished"] == f"{100 * jobs['finished'] / 60:.1f} %"
    levels = ", ".join(f"{site[f'soc_{name}_pct']:.1f}" for name in ("start", "lowest", "final"))
    assert rows["state of charge: start, lowest, final"] == f"{levels} %"
    assert rows["wasted energy"] == f"{run.summary['energy_kwh']['wasted']:,.1f} kWh"
    assert "cost of the imported energy" not in rows


def test_a_notebook_shows_the_table_and_the_charge(run: bs.Run) -> None:
    html = run._repr_html_()
    assert html is not None
    root = ElementTree.fromstring(f"<div>{html}</div>")  # well-formed
    cells = [(row[0].text, row[1].text) for row in root.iter("tr")]
    shown = [tuple(re.split(r"  +", line.strip(), maxsplit=1)) for line in repr(run).splitlines()[1:]]
    assert cells == shown
    (line,) = root.iter("polyline")
    pairs = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    assert len(pairs) <= 322
    lowest_pct = 100.0 * (1.0 - (max(y for _, y in pairs) - 2.0) / 52.0)
    assert lowest_pct == pytest.approx(run.energy_trace["soc_pct"].min(), abs=0.2)
    assert (pairs[0][0], pairs[-1][0]) == (0.0, 320.0)


def test_names_in_the_page_are_escaped(run: bs.Run, tmp_path: Path) -> None:
    prefix = tmp_path / "<b>&"
    shutil.copy(f"{run.prefix}_summary.json", f"{prefix}_summary.json")
    html = bs.read_run(prefix)._repr_html_()
    assert html is not None
    assert "&lt;b&gt;&amp;" in html
    assert "<b>" not in html
    assert "svg" not in html  # no trace, no sparkline


@pytest.mark.slow
def test_a_run_without_a_site_has_a_table_alone(days, tmp_path: Path) -> None:
    run = bs.simulate(days.platform, days.workload, export=tmp_path / "plain")
    html = run._repr_html_()
    assert html is not None
    assert "svg" not in html
    assert "state of charge" not in repr(run)
    figure = run.plot()
    assert [axes.get_ylabel().split("\n")[0] for axes in figure.axes] == ["servers"]


def test_a_run_whose_files_are_gone_still_shows_itself(tmp_path: Path) -> None:
    gone = bs.Run(str(tmp_path / "gone"))
    assert "gone_summary.json: cannot be read" in repr(gone)
    assert gone._repr_html_() is None
    with pytest.raises(InputError, match="to draw"):
        gone.plot()


@pytest.mark.slow
def test_the_picture_has_levels_powers_and_servers(run: bs.Run) -> None:
    figure = run.plot()
    labels = [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]
    assert labels == ["battery [%]", "power [kW]", "servers of 10"]
    (level,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2]
    assert level.get_ydata()[1:] == pytest.approx(run.energy_trace["soc_pct"].to_numpy())
    assert level.get_xdata()[-1] == pytest.approx(72.0)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_plan_shows_itself(plan: PlanStore) -> None:
    assert re.search(r"target +50\.00 %, met", repr(plan))
    assert "<td" in plan._repr_html_()  # type: ignore[attr-defined]
    assert plan.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_thinned_values_keep_every_extreme() -> None:
    values = np.random.default_rng(1).random(5000)
    places, kept = _thinned(values)
    assert (kept.min(), kept.max()) == (values.min(), values.max())
    assert (places[0], places[-1]) == (0, 4999)
    assert len(kept) <= 322
    assert np.array_equal(values[places.astype(int)], kept)


def test_a_sparkline_has_lines_at_minimum_and_target() -> None:
    levels = BatteryLevels(1.0, 50.0, 90.0, soc_target_pct=50.0, soc_min_pct=20.0, soc_max_pct=90.0,
                           soc_distance_points=40.0, soc_lowest_pct=20.0)  # fmt: skip
    svg = sparkline(np.array([50.0, 20.0, 90.0]), levels)
    root = ElementTree.fromstring(svg)
    titles = [line[0].text for line in root.iter("line")]
    assert titles == ["minimum: 20 %", "target: 50 %"]
    assert "lowest 20.0 %, final 90.0 %" in svg
