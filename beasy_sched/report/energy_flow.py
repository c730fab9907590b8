"""Where a run's energy came from and where it went, as a Sankey diagram.

The energies are sums over the steps of the energy trace, so what flows into the site flows out of it again.
What the servers did with theirs is from the summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.report.charts import sources_of, step_edges_s, uses_of
from beasy_sched.report.page import Absent, Chart, color, faded, plain
from beasy_sched.report.run_data import RunData
from beasy_sched.units import SECONDS_PER_HOUR

SITE: Final = "site"
SERVERS: Final = "demand_w"
"""The node of the servers: the trace's column of what they drew."""
SERVER_USES: Final = {
    "finished_jobs": ("jobs that finished", "finished"),
    "other_jobs": ("other jobs", "killed"),
    "idle": ("idle servers", "idle"),
    "transitions": ("switching on and off", "switching-on"),
    "sleeping": ("sleeping servers", "sleeping"),
}
"""What the energy of the servers went into: fields of the summary, with name and colour."""
_NOTHING: Final = 1e-7
"""Flows below this share of all are left out: 1 Wh of 10 MWh."""
_ACCOUNTS_APART: Final = 1e-4


@dataclass(frozen=True)
class Flow:
    """Energy from one node to another."""

    start: str
    end: str
    kwh: float


def energy_flows(run: RunData) -> list[Flow]:
    """What flowed into the site, out of it, and through the servers.

    Nodes are columns of the trace, `SITE`, and fields of `SERVER_USES`. Flows of nothing are left out. The
    energy that the servers drew is divided as the scheduler's own account has it.
    """
    hours = np.diff(step_edges_s(run.trace)) / SECONDS_PER_HOUR

    def kwh(column: str) -> float:
        if column == "wind_w":
            return kwh("renewable_w") - kwh("sun_w")
        return float(run.trace[column].to_numpy(np.float64) @ hours) / 1e3

    flows = [Flow(column, SITE, kwh(column)) for column in sources_of(run.trace)]
    flows += [Flow(SITE, column, kwh(column)) for column in uses_of(run.trace)]
    parts = {name: float(run.summary.get("energy_kwh", {}).get(name, 0.0)) for name in SERVER_USES}
    if (own_kwh := sum(parts.values())) > 0.0:
        scale = kwh(SERVERS) / own_kwh
        flows += [Flow(SERVERS, name, scale * part_kwh) for name, part_kwh in parts.items()]
    least = _NOTHING * sum(flow.kwh for flow in flows if flow.end == SITE)
    return [flow for flow in flows if flow.kwh > least]


def energy_flow(run: RunData, prefix: str) -> Chart | Absent:
    """The diagram, sources on the left."""
    title = "Flow of energy"
    flows = energy_flows(run)
    if not flows:
        return Absent(title, "no energy flowed")
    known = {SITE: ("site", "ink-soft")} | sources_of(run.trace) | uses_of(run.trace) | SERVER_USES
    known[SERVERS] = ("servers", "demand")
    nodes = list(dict.fromkeys(node for flow in flows for node in (flow.start, flow.end)))
    through = {node: max(sum(f.kwh for f in flows if f.start == node),
                         sum(f.kwh for f in flows if f.end == node)) for node in nodes}  # fmt: skip
    trace = {
        "type": "sankey", "arrangement": "snap", "valueformat": ",.2f", "valuesuffix": " kWh",
        "node": {
            "label": [plain(known[node][0]) for node in nodes],
            "customdata": [f"{through[node]:,.4g} kWh" for node in nodes],
            "color": [color(known[node][1]) for node in nodes],
            "pad": 16, "thickness": 14, "line": {"width": 0},
            "hovertemplate": "%{label}: %{customdata}<extra></extra>",
        },
        "link": {
            "source": [nodes.index(flow.start) for flow in flows],
            "target": [nodes.index(flow.end) for flow in flows],
            "value": [flow.kwh for flow in flows],
            "color": [faded(known[f.end if f.start in (SITE, SERVERS) else f.start][1]) for f in flows],
            "hovertemplate": "%{value:,.2f} kWh<extra></extra>",
        },
    }  # fmt: skip
    spec = {"kind": "plot", "height": 380, "traces": [trace], "layout": {"margin": {"l": 12, "b": 16}}}
    return Chart(f"{prefix}-flow", title, spec, " ".join(_notes(run, flows)))


def _notes(run: RunData, flows: list[Flow]) -> list[str]:
    notes = []
    came = sum(flow.kwh for flow in flows if flow.end == SITE)
    went = sum(flow.kwh for flow in flows if flow.start == SITE)
    notes.append(f"In: {came:,.2f} kWh, out: {went:,.2f} kWh.")
    if any(flow.start == "renewable_w" for flow in flows):
        notes.append("Sun and wind are not told apart in the power events of this run.")
    own = run.summary.get("energy_kwh", {})
    metered, account = own.get("consumed", 0.0), own.get("consumed_by_own_account", 0.0)
    if metered > 0.0 and account > 0.0 and abs(account / metered - 1.0) > _ACCOUNTS_APART:
        notes.append(
            "What the servers used is divided as in the scheduler's own account, scaled to the meter."
        )
    return notes
