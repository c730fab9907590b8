"""Draw docs/design/architecture.svg: the layers as pyproject.toml has them, and the path of a message."""

from __future__ import annotations

import argparse
import ast
import sys
from html import escape
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "design" / "architecture.svg"

WHAT = {
    "cli": "commands: parse, call, print",
    "api": "the Python interface",
    "plugins.learning": "training of agents, environment",
    "plugins.foresee": "forecasts and what-if, in copies of the process",
    "plugins.campaigns": "scenarios, comparisons, sizing, bundles",
    "plugins.reports": "pages, figures",
    "plugins.slurm": "a real cluster",
    "plugins.pybatsim": "inside pybatsim",
    "plugins.greenslot": "its policies",
    "plugins.energy_budget": "its policies",
    "plugins.learned": "its policies",
    "run.in_process": "policy and simulator in one process",
    "run.opening": "how a run begins: plans, session, observers",
    "run.results": "a run's files as data frames",
    "daemon": "ZeroMQ server",
    "simulator": "emulates Batsim",
    "generate": "Batsim's inputs",
    "outputs": "trace, decision log, summary, tables, metrics",
    "run.building": "the session that the settings describe",
    "run.settings": "the user's settings",
    "policies": "decide which jobs start, where and how fast",
    "engine": "messages to replies: session, power steps, guard, view",
    "planner.replanner": "plans from files, and during a run: offline, rolling, process",
    "testing": "random worlds, invariants",
    "last_value_cache": "cache of the last value",
    "structs": "decoded values to typed structs",
    "declared": "meanings and ranges of options",
    "findings": "warnings and errors about inputs",
    "checks": "checks of a run's inputs",
    "formats": "other programs' files: SWF, weather, Batsim, SimGrid, TOML",
    "protocol": "bytes to typed messages and back",
    "planner.forecast": "a plan of power and servers: windows, season, solver",
    "forecast": "solar production: predictor, its errors, the outlook",
    "energy": "site, storage, balance; the energy of a server",
    "model": "hosts, jobs, cluster, events, decisions",
    "extras": "packages that not every installation has",
    "plugin": "what a plug-in adds",
    "errors": "errors, by their cause",
    "units": "conversions, sign convention",
    "numbers": "finite numbers in a range",
    "limits": "limits of inputs",
    "signals": "termination signals",
    "arrays": "array types",
}
"""Content of packages in a few words; for other packages, the first line of the docstring is used."""

WAY = [
    ("Batsim, or beasy-sched batsim", "request: time and events", "outside"),
    ("daemon", "receives the bytes", "daemon"),
    ("protocol", "decode: bytes to a typed Message", "protocol"),
    ("engine", "applies every event to the cluster", "engine"),
    ("engine + energy", "at a step's end: settles the storage, guard", "energy"),
    ("policies", "called once; returns actions", "policies"),
    ("engine", "checks and commits them", "engine"),
    ("protocol", "encode: a typed Reply to bytes", "protocol"),
    ("daemon", "sends the reply", "daemon"),
]
"""Stations of a message: where, what happens, colour."""

COLOURS = {
    "daemon": "#cfe3f7", "simulator": "#cfe3f7", "generate": "#cfe3f7",
    "engine": "#ffe1b8", "policies": "#d3efcf", "energy": "#f6d3e2", "protocol": "#e2d9f5",
    "outside": "#e4e4e4",
}  # fmt: skip
PLAIN = "#f4f2ec"
PLUGIN = "#e9f2e9"
WIDTH, LEFT, LAYERS_WIDTH, ROW, GAP, TOP = 1120, 24, 660, 50, 8, 76
WAY_LEFT, WAY_WIDTH = 750, 346
CHARACTER_WIDTH = 0.54
"""Mean width of a character over the size of the font."""
BOLD_WIDTH = 0.62
"""The same for bold characters."""
FLOOR = 30
"""Height of the name of a floor."""
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="Helvetica, Arial, sans-serif" role="img">
<title>The layers of beasy-sched and the path of a message</title>
<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">\
<path d="M0 0 L9 4 L0 8 Z" fill="#444"/></marker></defs>
<rect width="100%" height="100%" fill="#ffffff"/>
{body}
</svg>
"""


def layers() -> list[list[str]]:
    """Return the layers' packages, from the top, as the import-linter contract has them.

    Modules of one package in one layer, which may import each other, are named by the first of them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.split()[0].removeprefix("beasy_sched.") for name in row.split("|")] for row in rows]


def title_of(name: str) -> str:
    """Return what a layer's box is called: a module of ``run``, a plug-in, or the package."""
    return name if name.startswith("run.") else name.removeprefix("plugins.").partition(".")[0]


def first_line(name: str) -> str:
    """Return the first line of a package's docstring."""
    package = ROOT / "beasy_sched" / name.replace(".", "/")
    file = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]


def box(x: float, y: float, width: float, title: str, what: str, colour: str, *, below: bool) -> list[str]:
    """Draw a box with a name, and a description next to the name or below it."""
    place = f'x="{x + 12:g}" y="{y + 42:g}"' if below else f'x="{x + 138:g}" y="{y + 31:g}"'
    room = width - (24 if below else 150)
    size = min(12.5, room / max(len(what), 1) / CHARACTER_WIDTH)
    title_size = min(16.0, (width - 20) / max(len(title), 1) / BOLD_WIDTH) if below else 16
    title_y = y + (22 if below else 31)
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" rx="6" fill="{colour}" stroke="#777"/>',
        f'<text x="{x + 12:g}" y="{title_y:g}" font-size="{title_size:.4g}" font-weight="bold">'
        f"{escape(title)}</text>",
        f'<text {place} font-size="{size:.4g}" fill="#333">{escape(what)}</text>',
    ]


def heading(x: float, text: str, small: str) -> list[str]:
    """Draw a column's heading."""
    return [
        f'<text x="{x}" y="36" font-size="19" font-weight="bold">{escape(text)}</text>',
        f'<text x="{x}" y="58" font-size="13" fill="#333">{escape(small)}</text>',
    ]


def draw_layers() -> tuple[list[str], float]:
    """Draw the layers, one row each; return the drawing and where it ends."""
    drawn = heading(
        LEFT, "The layers", "each row imports only from rows below; neighbours do not import each other"
    )
    y, floor = float(TOP), ""
    for row in layers():
        here = "Plug-ins" if row[0].startswith("plugins.") else "Core"
        if here != floor:
            floor = here
            what = {"Plug-ins": "each folder may be missing", "Core": "complete without plug-ins"}[floor]
            drawn.append(f'<text x="{LEFT}" y="{y + 20:g}" font-size="14" fill="#333">{floor}: {what}</text>')
            y += FLOOR
        width = (LAYERS_WIDTH - GAP * (len(row) - 1)) / len(row)
        for number, name in enumerate(row):
            x = LEFT + number * (width + GAP)
            drawn += box(
                x,
                y,
                width,
                title_of(name),
                WHAT.get(name) or first_line(name),
                PLUGIN if floor == "Plug-ins" else COLOURS.get(name, PLAIN),
                below=len(row) > 1,
            )
        y += ROW + GAP
    return drawn, y


def draw_way(end: float) -> list[str]:
    """Draw the stations of a message down the right side, and the way back up."""
    drawn = heading(WAY_LEFT, "The path of a message", "one request, one reply, in lockstep")
    stride = (end - GAP - ROW - TOP) / (len(WAY) - 1)
    middle = WAY_LEFT + WAY_WIDTH / 2
    for number, (where, what, colour) in enumerate(WAY):
        y = TOP + number * stride
        drawn += box(WAY_LEFT, y, WAY_WIDTH, where, what, COLOURS[colour], below=True)
        if number:
            drawn.append(
                f'<path d="M{middle:g} {y - stride + ROW:g} V{y:g}" stroke="#444" marker-end="url(#tip)"/>'
            )
    side, first, last = WAY_LEFT - 28, TOP + ROW / 2, TOP + (len(WAY) - 1) * stride + ROW / 2
    drawn.append(
        f'<path d="M{WAY_LEFT} {last:g} H{side} V{first:g} H{WAY_LEFT - 1}" fill="none" stroke="#444" '
        'marker-end="url(#tip)"/>'
    )
    return drawn


def picture() -> str:
    """Return the whole figure."""
    drawn, end = draw_layers()
    return FRAME.format(width=WIDTH, height=f"{end + 12:g}", body="\n".join([*drawn, *draw_way(end)]))


if __name__ == "__main__":
    argparse.ArgumentParser(prog="scripts/draw_architecture", description=__doc__).parse_args()
    TARGET.write_text(picture(), "utf-8")
    print(f"wrote {TARGET}")
