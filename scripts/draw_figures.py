"""Draw the README's figures in docs/figures from the results of scripts/run.

    scripts/run --with-report
    scripts/draw_figures out/run

watch.svg: the live view (--watch) of the policy beasy on these days, one frame every seven hours, as an
animated SVG. fan.svg: the battery under EASY with jobs that arrive evenly, as forecast in the middle of the
run, and as it was. report.png: the first screen of the report, rendered by a headless Chromium.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from beasy_sched.engine import Session
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.watch import Watch, picture
from beasy_sched.plugins.foresee.forecast import DECODER
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
POLICY = "beasy"
EVERY_S = 7 * 3600.0
FIRST_S = 3600.0
SHOWN_S = 1.6
"""Time for which each frame is shown, s."""
COLUMNS, CELL, LINE, EDGE, SIZE = 98, 7.8, 18, 14, 13
"""Characters of a line; width of a character, height of a line, margin and size of the font, px."""
WINDOW = (1280, 800)

Frame = Sequence[tuple[str, str]]
"""Lines of a frame, each with its heading."""

SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" \
height="{height:g}" role="img">
<title>A run, shown by --watch</title>
<style>
rect {{ fill: #fbfbf9; stroke: #c9c9c4; }}
text {{ fill: #24292f; font: {size}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
white-space: pre; }}
.h {{ font-weight: bold; fill: #0b62a8; }}
g {{ visibility: hidden; animation: shown {total:g}s step-end infinite; }}
@keyframes shown {{ 0% {{ visibility: visible; }} {share:.4g}% {{ visibility: hidden; }} }}
@media (prefers-color-scheme: dark) {{
rect {{ fill: #15181d; stroke: #3a3f47; }}
text {{ fill: #dfe3e8; }}
.h {{ fill: #7cc0f5; }}
}}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none; }} g.still {{ visibility: visible; }} }}
</style>
<rect x="0.5" y="0.5" width="{inner_width:g}" height="{inner_height:g}" rx="8"/>
{frames}
</svg>
"""


FAN_AT = "1d12h"
"""Time of the forecast that is drawn."""
FAN_SIZE = (780, 300)
FAN_EDGES = (56, 34, 16, 36)
"""Margins at the left, top, right and bottom, px."""
FAN_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" \
height="{height:g}" role="img">
<title>State of charge of the battery: forecast in the middle of a run, and actual values</title>
<style>
.page {{ fill: #fbfbf9; stroke: #c9c9c4; }}
text {{ fill: #24292f; font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
.grid {{ stroke: #24292f; stroke-opacity: 0.15; }}
.now {{ stroke: #24292f; stroke-opacity: 0.6; stroke-dasharray: 4 4; }}
.wide, .narrow {{ fill: #009e73; fill-opacity: 0.2; }}
.narrow {{ fill-opacity: 0.35; }}
.middle, .actual {{ fill: none; stroke: #00795a; stroke-width: 2; }}
.actual {{ stroke: #24292f; stroke-width: 1.6; }}
@media (prefers-color-scheme: dark) {{
.page {{ fill: #15181d; stroke: #3a3f47; }}
text {{ fill: #dfe3e8; }}
.grid, .now {{ stroke: #dfe3e8; }}
.wide, .narrow {{ fill: #2fd3a0; }}
.middle {{ stroke: #2fd3a0; }}
.actual {{ stroke: #ffffff; }}
}}
</style>
<rect class="page" x="0.5" y="0.5" width="{inner_width:g}" height="{inner_height:g}" rx="8"/>
{content}
</svg>
"""


class Recording(Watch):
    """Keeps a frame every few hours of simulated time, instead of showing it."""

    def __init__(self) -> None:
        from rich.console import Console

        super().__init__(Console(), POLICY)
        self.frames: list[Frame] = []

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        if session.now >= FIRST_S + EVERY_S * len(self.frames):
            # without the wall-clock time, so that the frame is the same on every machine
            self.frames.append(picture(session, POLICY, 0.0, self._share, self._decided))


def record(run: Path) -> list[Frame]:
    """Run the policy again on the inputs in a folder; return the frames."""
    watch = Recording()
    inputs = Inputs(run / "platform.xml", [run / "workload.json"], [run / "power.txt"])
    settings = RunSettings(
        policy=POLICY, site=(run / "site.toml").read_text("utf-8"), plan=str(run / "plan.msgpack")
    )
    with tempfile.TemporaryDirectory() as folder:
        run_in_process(inputs, RunFiles(f"{folder}/run", settings), watch.progress, observers=[watch])
    return watch.frames


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """SVG text whose characters have the columns of a terminal, whatever the font."""
    words = words.rstrip()
    return (
        f'<text{kind} x="{x:g}" y="{y:g}" textLength="{CELL * len(words):g}"'
        f' lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
    )


def animation(frames: Sequence[Frame]) -> str:
    """Return an SVG that shows the frames one after another in an endless loop."""
    heading = 12
    groups = []
    for number, frame in enumerate(frames):
        still = ' class="still"' if number == len(frames) // 2 else ""
        drawn = []
        for row, (label, line) in enumerate(frame):
            y = EDGE + LINE * (row + 0.75)
            room = COLUMNS - heading
            line = line if len(line) <= room else line[: room - 1] + "…"
            drawn += [text(EDGE, y, label, ' class="h"')] if label else []
            drawn += [text(EDGE + CELL * heading, y, line)] if line.strip() else []
        delay = f"{SHOWN_S * number:g}s"
        groups.append(f'<g{still} style="animation-delay: {delay}">\n' + "\n".join(drawn) + "\n</g>")
    width = 2 * EDGE + CELL * COLUMNS
    height = 2 * EDGE + LINE * max(map(len, frames))
    return SVG.format(
        width=width, height=height, inner_width=width - 1, inner_height=height - 1, size=SIZE,
        total=SHOWN_S * len(frames), share=100.0 / len(frames), frames="\n".join(groups),
    )  # fmt: skip


def foresee(run: Path, folder: str) -> None:
    """Run EASY on jobs that arrive evenly, with a forecast in the middle; write the files of the run."""
    jobs = "generate workload --synthetic --jobs 900 --arrivals uniform --hosts 50 --seed 1 -q"
    forecast = f"-w {folder}/forecast.json --production forecast_power.txt"
    days = f"-w {folder}/workload.json --events power.txt --plan {folder}/plan.msgpack"
    how = f"--policy easy --foresee-at {FAN_AT}"
    for command in (
        f"{jobs} -o {folder}/forecast.json",
        f"{jobs} --noise 20 -o {folder}/workload.json",
        f"plan -p platform.xml --site site.toml {forecast} -q -o {folder}/plan.msgpack",
        f"simulate -p platform.xml --site site.toml {days} {how} -q -o {folder}/run",
    ):
        subprocess.run([sys.executable, "-m", "beasy_sched", *command.split()], cwd=run, check=True)


def fan(prefix: str) -> str:
    """Return an SVG of the battery's levels in a run, and of the forecast in the middle of it."""
    forecast = DECODER.decode(Path(f"{prefix}_foresee.jsonl").read_bytes().splitlines()[0])
    steps = forecast.steps
    if steps is None or not steps.soc_pct:
        sys.exit(f"draw_figures: {prefix}: the forecast has no battery")
    times_s, levels = steps.time_s, [*zip(*steps.soc_pct, strict=True)]
    with open(f"{prefix}_energy_trace.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    ends = (float(row["start_s"]) + float(row["duration_s"]) for row in rows)
    actual = [*zip(ends, (float(row["soc_pct"]) for row in rows), strict=True)]
    (width, height), (left, top, right, bottom) = FAN_SIZE, FAN_EDGES
    last_s = actual[-1][0]

    def at(time_s: float, soc_pct: float) -> str:
        x = left + (width - left - right) * time_s / last_s
        return f"{x:.1f},{height - bottom - (height - top - bottom) * soc_pct / 100.0:.1f}"

    def band(kind: str, low: int, high: int) -> str:
        edges = [*zip(times_s, levels[high], strict=True)]
        edges += reversed([*zip(times_s, levels[low], strict=True)])
        return f'<polygon class="{kind}" points="{" ".join(at(*edge) for edge in edges)}"/>'

    def line(kind: str, points: Sequence[tuple[float, float]]) -> str:
        return f'<polyline class="{kind}" points="{" ".join(at(*point) for point in points)}"/>'

    def words(place: str, text: str, anchor: str = "middle", down: float = 0.0) -> str:
        x, y = map(float, place.split(","))
        return f'<text x="{x:g}" y="{y + down:g}" text-anchor="{anchor}">{escape(text)}</text>'

    drawn = []
    for level in (0, 25, 50, 75, 100):
        drawn += [line("grid", [(0.0, level), (last_s, level)])]
        drawn += [words(at(0.0, level), f"{level} %", "end", 4).replace('x="', 'dx="-6" x="')]
    for day in range(int(last_s // 86400.0)):
        drawn += [words(at(day * 86400.0, 0), f"day {day + 1}", "start", 18)]
        drawn += [line("grid", [(day * 86400.0, 0), (day * 86400.0, 100)])]
    drawn += [band("wide", 0, 4), band("narrow", 1, 3)]
    drawn += [line("middle", [*zip(times_s, levels[2], strict=True)])]
    drawn += [line("actual", actual), line("now", [(forecast.time_s, 0), (forecast.time_s, 100)])]
    title = "State of charge: actual (thin line), and the forecast at the dashed line: median, 50 % and 90 %"
    drawn += [words(f"{left},{top}", title, "start", -12)]
    inner = {"inner_width": width - 1, "inner_height": height - 1}
    return FAN_SVG.format(width=width, height=height, content="\n".join(drawn), **inner)


def photograph(report: Path, target: Path) -> None:
    """Save the first screen of a report as an image."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        sys.exit("draw_figures: no Chromium on this machine: install one (Debian: apt install chromium)")
    size = f"--window-size={WINDOW[0]},{WINDOW[1]}"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
    wait = "--virtual-time-budget=20000"  # for the charts to be drawn
    subprocess.run([program, *flags, wait, f"--screenshot={target}", report.resolve().as_uri()], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/draw_figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", type=Path, default="out/run", help="folder of scripts/run")
    run = parser.parse_args().run
    if not (run / "report.html").exists():
        sys.exit(f"draw_figures: {run}: no report here: run scripts/run --with-report, and name its folder")
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / "watch.svg").write_text(animation(record(run)), "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        foresee(run, folder)
        (FIGURES / "fan.svg").write_text(fan(f"{folder}/run"), "utf-8")
    photograph(run / "report.html", FIGURES / "report.png")
    print(f"wrote watch.svg, fan.svg and report.png in {FIGURES}")


if __name__ == "__main__":
    main()
