"""Print what each line of a site file changes: finished jobs, energy, cost and carbon of one example site.

The site starts as a battery and a grid. Each row of the table adds to one section of its file, and keeps what
the rows before it have added. With --page, the table and the whole site file are written into the page
docs/guides/real-site.md; with --quick, a small site runs for one day.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import beasy_sched as bs  # noqa: E402
from beasy_sched.cli import main as command_line  # noqa: E402

PAGE = ROOT / "docs" / "guides" / "real-site.md"
POLICIES = ("easy", "bid-price")
START = datetime(2024, 7, 1, tzinfo=timezone(timedelta(hours=2)))
HOURS_BEFORE = 24
"""Hours of the files before time 0, from which the first day of the run is expected."""
COURSES = {
    "weather.csv": ("temperature", 22.0, 8.0, 15),
    "services.csv": ("services_w", 16.0, 10.0, 14),
    "prices.csv": ("price [EUR/MWh]", 120.0, 60.0, 19),
    "carbon.csv": ("carbon_g_per_kwh", 350.0, 120.0, 20),
}
"""Files of the site: column, mean, swing, and the hour of the day with the largest value. Services are for
each server."""


@dataclass(frozen=True)
class Row:
    """A row of the table: what it adds to one section of the site file. An existing key is replaced."""

    title: str
    section: str
    lines: dict[str, str]


FIRST = {
    "battery": {
        "capacity_kwh": "{battery_kwh:g}",
        "charge_limit_kw": "{battery_kw:g}",
        "discharge_limit_kw": "{battery_kw:g}",
    },
    "time": {"step_s": "300", "window_h": "24", "start": f'"{START.isoformat()}"'},
    "grid": {
        "import_limit_kw": "{import_kw:g}",
        "currency": '"EUR"',
        "price": '"prices.csv"',
        "carbon": '"carbon.csv"',
    },
}
"""The site of the table's first row: sections, with keys and values."""
ROWS = (
    Row("cooling, constant", "cooling", {"pue": "1.25"}),
    Row(
        "cooling by the outside temperature",
        "cooling",
        {"pue": "[[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]", "temperature": '"weather.csv"'},
    ),
    Row("a base load", "load", {"base_kw": "{base_kw:g}"}),
    Row("services", "load", {"series": '"services.csv"'}),
    Row(
        "a battery that the grid charges", "grid", {"charge": "{ below_per_kwh = 0.08, up_to_soc_pct = 80 }"}
    ),
    Row("a battery that rests at low prices", "grid", {"discharge": "{ above_per_kwh = 0.14 }"}),
    Row("a price of the peak", "grid", {"peak_per_kw": "12"}),
    Row(
        "peak shaving instead of resting",
        "grid",
        {"discharge": "", "battery": '"shave"', "peak_kw": "{peak_kw:g}"},
    ),
    Row("a band of the target", "battery", {"target_band_pct": "5"}),
)
"""Rows in order: each keeps those before it, except for keys with an empty value, which it removes."""


@dataclass(frozen=True)
class Size:
    """Size of the example, and its length."""

    servers: int
    days: int
    jobs: int

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers of the site file, in proportion to the servers."""
        kw = 0.2 * self.servers
        return {
            "battery_kwh": 2 * kw,
            "battery_kw": kw,
            "import_kw": 0.6 * kw,
            "base_kw": 0.05 * kw,
            "peak_kw": 0.45 * kw,
        }


WHOLE = Size(servers=20, days=3, jobs=600)
QUICK = Size(servers=4, days=1, jobs=60)


def site_texts(size: Size) -> Iterator[tuple[str, str]]:
    """Yield the title of each row, and its site file."""
    sections = {name: dict(lines) for name, lines in FIRST.items()}
    yield "battery, grid with prices", _text(sections, size)
    for row in ROWS:
        sections.setdefault(row.section, {}).update(row.lines)
        yield row.title, _text(sections, size)


def _text(sections: dict[str, dict[str, str]], size: Size) -> str:
    blocks = (
        "\n".join([f"[{name}]", *(f"{key} = {_value(value, size)}" for key, value in lines.items() if value)])
        for name, lines in sections.items()
    )
    return "\n\n".join(blocks) + "\n"


def _value(value: str, size: Size) -> str:
    return value.format(**size.numbers) if value.endswith(":g}") else value


def write_files(folder: Path, size: Size) -> None:
    """Write servers, jobs, production, and the files that the site names, into ``folder``."""
    solar_kw, wind_kw = 0.3 * size.servers, 0.05 * size.servers
    made = (
        ("platform", "-n", f"gros:{size.servers}", "-o", "platform.xml"),
        ("workload", "--synthetic", "--hosts", str(size.servers), "--jobs", str(size.jobs), "--seed", "1",
         "-o", "workload.json"),
        ("power", "--synthetic", "--pv-kw", f"{solar_kw:g}", "--wind-kw", f"{wind_kw:g}", "--seed", "1",
         "--days", str(size.days), "-o", "power.txt"),
    )  # fmt: skip
    for kind, *arguments, name in made:
        with contextlib.suppress(SystemExit):
            command_line(["generate", kind, *arguments, str(folder / name), "-q"])
    for name, (column, middle, swing, peak_h) in COURSES.items():
        scale = size.servers if column == "services_w" else 1.0
        lines = [f"time,{column}"]
        for hour in range(-HOURS_BEFORE, 24 * (size.days + 2)):
            value = scale * (middle + swing * math.cos(math.tau * (hour - peak_h) / 24))
            lines.append(f"{START + timedelta(hours=hour):%Y-%m-%dT%H:%M:%S+02:00},{value:.2f}")
        (folder / name).write_text("\n".join([*lines, ""]))


def figures(site: Path, policy: str, size: Size) -> list[str]:
    """Run a policy on a site; return the cells of its row."""
    files = [site.parent / name for name in ("platform.xml", "workload.json", "power.txt")]
    summary = bs.simulate(*files, policy=policy, site=site, windows=size.days).summary
    jobs, energy, grid, site_part = summary["jobs"], summary["energy_kwh"], summary["grid"], summary["site"]
    cooling = energy.get("cooling")
    return [
        f"{100.0 * jobs['finished'] / jobs['submitted']:.1f}",
        f"{energy['consumed']:.1f}",
        "" if cooling is None else f"{cooling:.1f} ({site_part['pue_mean']:.3f})",
        f"{energy['base']:.1f}",
        f"{grid['import_kwh']:.1f}",
        f"{grid['peak_kw']:.2f}" if "peak_kw" in grid else "",
        f"{grid['cost']:.2f}",
        f"{grid['carbon_kg']:.1f}",
    ]


HEADER = (
    *("the site file has also", "policy", "finished %", "servers kWh", "cooling kWh (PUE)"),
    *("base load and services kWh", "import kWh", "peak kW", "cost EUR", "carbon kg"),
)


def table(size: Size, jobs: int) -> list[str]:
    """Return the lines of the table: a row of each policy for each line that is added."""
    lines = [f"| {' | '.join(HEADER)} |", "|" + "---|" * 2 + "---:|" * (len(HEADER) - 2)]
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(jobs) as pool:
        folder = Path(name)
        write_files(folder, size)
        rows = []
        for number, (title, text) in enumerate(site_texts(size)):
            site = folder / f"site-{number}.toml"
            site.write_text(text)
            for policy in POLICIES:
                shown = title if policy == POLICIES[0] else ""
                rows.append((shown, policy, pool.submit(figures, site, policy, size)))
        for title, policy, cells in rows:
            lines.append(f"| {title} | `{policy}` | {' | '.join(cells.result())} |")
    return lines


def write_page(size: Size, jobs: int) -> None:
    """Write the table and the whole site file into the page."""
    page = PAGE.read_text("utf-8")
    *_, (_, text) = site_texts(size)
    parts = {"table": "\n".join(table(size, jobs)), "site": f"```toml\n{text}```"}
    for part, content in parts.items():
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(page, "utf-8")


def main() -> None:
    """Parse the command line, and print the table or write the page."""
    parser = argparse.ArgumentParser(
        prog="scripts/real_site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small site, for one day")
    parser.add_argument("--page", action="store_true", help="write the table into docs/guides/real-site.md")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs (default: %(default)s)")
    given = parser.parse_args()
    size = QUICK if given.quick else WHOLE
    if given.page:
        write_page(size, given.jobs)
    else:
        print("\n".join(table(size, given.jobs)))


if __name__ == "__main__":
    main()
