"""Run studies again and put their pages of tables, with the figures, into docs/results.

"all" means every study; those that read traces, weather or prices need --data. The pages that a study
made with the present commit are not made again; a study that is interrupted continues where it stopped. Each
page is stamped with the command, date, version, commit and machine, how long it took, and a digest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs/results"
FIGURE = re.compile(r"\]\(figures/([^)]+)\)")
NAMED = re.compile(r"\{([^{}=]+\.[^{}=]+)\}")
"""A file of --data, in an argument."""
STAMP = re.compile(r"^- Written by `.*$", re.MULTILINE)
STOPPED = 130
WEEKS = ("curie_1w_43659000", "curie_1w_46054648", "metacentrum_1w_1360702000", "metacentrum_1w_1362000000",
         "metacentrum_1w_1367276567", "sdscblue_1w_16944036", "sdscblue_1w_22874448",
         "sdscblue_1w_61845732")  # fmt: skip


def each(option: str, *values: str) -> tuple[str, ...]:
    """Return an option that is given once for each value."""
    return tuple(word for value in values for word in (option, value))


def weather(place: str, sun: str, wind: str) -> str:
    """Return a value of --weather for the files of a place."""
    return f"{place}={{{place.replace('new-york', 'ny')}{sun}}},{{{place.replace('new-york', 'ny')}{wind}}}"


@dataclass(frozen=True)
class Study:
    """A script that writes a page of tables into its output folder."""

    script: str
    folder: str
    page: str = "tables.md"
    arguments: tuple[str, ...] = ()
    """Arguments of a whole run, in addition to the defaults; ``{name}`` is a file of --data."""

    @property
    def files(self) -> list[str]:
        """Names of the files that a whole run needs."""
        return [name for argument in self.arguments for name in NAMED.findall(argument)]

    def command(self, folder: Path, data: Mapping[str, Path], *, quick: bool) -> list[str]:
        """Return the command that runs the study."""
        given = [NAMED.sub(lambda found: str(data[found[1]]), argument) for argument in self.arguments]
        return [f"scripts/{self.script}", *(["--quick"] if quick else given), "--out", str(folder)]


BUDGET_WEEKS = each("--week", *(f"{{{week}.swf}}" for week in WEEKS))
STUDIES = {
    "beasy-average": Study("reproduce_average", "beasy", "tables-average.md", ("--readings-seeds", "1")),
    # After it, in the same folder: also claims about all scenarios.
    "beasy-critical": Study(
        "reproduce_critical", "beasy", "tables-critical.md", ("--readings-seeds", "1")
    ),
    "energy-budget": Study("reproduce_energy_budget", "energy-budget", arguments=BUDGET_WEEKS),
    "energy-budget-strict": Study("reproduce_energy_budget", "energy-budget-strict",
        arguments=("--reservation", "strict", *BUDGET_WEEKS)),
    "energy-budget-contiguous": Study("reproduce_energy_budget", "energy-budget-contiguous",
        arguments=("--allocation", "contiguous", *BUDGET_WEEKS)),
    "greenslot": Study("reproduce_greenslot", "greenslot", arguments=("--study", "all",
        "--sun", "{ny2019_ninja_pv_40.8667_-72.8500_2019.csv}",
        "--history", "{uk2019_ninja_weather_52.1885_-2.0276_uncorrected.csv}")),
    "greenslot-files": Study("reproduce_greenslot", "greenslot-files", arguments=("--quick",
        *each("--prices", "{entsoe_FR_day_ahead_2019.csv}", "{entsoe_AT_day_ahead_2022.csv}",
            '{ file = "{omie_ES_2026H1_DA_IDA.csv}", column = "Precio_DA", gaps = "hold",'
            ' zone = "Europe/Madrid" }'),
        *each("--carbon", '{ file = "{eia_CISO_NG_avgCI.csv}", gaps = "hold", zone = "America/Los_Angeles" }',
            '{ file = "{electricitymaps_FR_2022_hourly.csv}",'
            ' column = "Carbon Intensity gCO2eq/kWh (LCA)" }'),
        *each("--swf", "{KTH-SP2-1996-2.swf}", "{NASA-iPSC-1993-3.1-cln.swf.gz}",
            "{SDSC-BLUE_pyss-easy.swf.gz}"))),
    "learning": Study("reproduce_learning", "learning"),
    "comparison": Study("compare_policies", "comparison", arguments=(
        "--seeds", "8000:8002", "--days", "8000:8010", "--seeds-per-day", "2", "--guard", "kill-all",
        "--bound")),
    "risk": Study("calibrate_risk", "risk", arguments=(
        *each("--weather",
            weather("nottingham", "2019_ninja_pv_52.9534_-1.1496_corrected.csv",
                "2019_ninja_wind_52.9534_-1.1496_corrected.csv"),
            weather("new-york", "2019_ninja_pv_40.8667_-72.8500_2019.csv",
                "2019_ninja_wind_43.7853_-75.5753_2019.csv"),
            weather("nantes", "2015_ninja_pv_47.2846_-1.5167_corrected.csv",
                "2015_ninja_wind_47.2846_-1.5167_corrected.csv")),
        "--swf", "{KTH-SP2-1996-2.swf}")),
    "restarts": Study("compare_restarts", "restarts", arguments=("--guard", "shed")),
    "target-band": Study("target_band", "target-band", arguments=("--pairs", "2")),
    "budget-prices": Study("budget_prices", "budget-prices", arguments=(
        "--price", "{entsoe_AT_day_ahead_2022.csv}", *BUDGET_WEEKS)),
}  # fmt: skip


def named(text: str) -> tuple[str, Path | None]:
    """Parse the name of a study, optionally with ``=`` and the folder of an existing run."""
    name, equals, folder = text.partition("=")
    if name != "all" and name not in STUDIES:
        raise argparse.ArgumentTypeError(f"found {name!r}, expected all or one of {', '.join(STUDIES)}")
    if equals and (name == "all" or not (Path(folder) / STUDIES[name].page).is_file()):
        raise argparse.ArgumentTypeError(f"{folder}: expected the folder of a run of one study")
    return name, Path(folder) if equals else None


def parse_arguments() -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid. ``data`` becomes the path of each file."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description=__doc__)
    add = parser.add_argument
    add("studies", nargs="+", type=named, metavar="NAME[=DIR]", help="study to run, or with DIR the output "
        f"folder of an existing run: all, {', '.join(STUDIES)}")  # fmt: skip
    add(
        "--quick",
        action="store_true",
        help="trial runs; their results are not conclusive, and the stamp shows it",
    )
    add(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder with the files that studies read; without it, all means those that read none",
    )
    add(
        "--into", type=Path, default=PAGES, metavar="DIR", help="folder for the pages (default: docs/results)"
    )
    add("--list", action="store_true", help="print what would be run, and how long each took, and end")
    chosen = parser.parse_args()
    paths = dict[str, Path]()
    if chosen.data is not None:
        if not chosen.data.is_dir():
            parser.error(f"--data: {chosen.data} is not a folder")
        paths = {path.name: path.resolve() for path in sorted(chosen.data.rglob("*")) if path.is_file()}
    asked = dict(chosen.studies)
    if "all" in asked:
        del asked["all"]
        rest = (name for name, study in STUDIES.items() if chosen.quick or paths or not study.files)
        asked = {name: None for name in rest if name not in asked} | asked
    for name, folder in asked.items():
        missing = [] if folder or chosen.quick else [n for n in STUDIES[name].files if n not in paths]
        if missing and chosen.data is None:
            parser.error(f"{name} reads files, such as {missing[0]}: give their folder with --data")
        if missing:
            parser.error(
                f"{name}: {len(missing)} of its files, such as {missing[0]}, are not in {chosen.data}"
            )
    chosen.studies, chosen.data = asked, paths
    return chosen


def figures_of(page: Path) -> list[Path]:
    """Return the figures that a page shows."""
    return [page.parent / "figures" / name for name in FIGURE.findall(page.read_text("utf-8"))]


def digest(page: Path) -> str:
    """Return a digest of a page without its stamp, and of its figures."""
    found = hashlib.sha256(STAMP.sub("", FIGURE.sub("](figure)", page.read_text("utf-8"))).encode())
    for figure in figures_of(page):
        found.update(hashlib.sha256(figure.read_bytes()).digest())
    return found.hexdigest()[:16]


def place(name: str, page: Path, into: Path, seconds: float | None = None) -> Path:
    """Copy a page and the figures that it shows; figures have a folder for each page. Return the copy."""
    text = page.read_text("utf-8")
    took = "" if seconds is None else f"; {length(seconds)}"
    text = STAMP.sub(lambda stamp: f"{stamp[0].rstrip('.')}{took}; digest {digest(page)}.", text)
    figures = into / "figures" / name
    shutil.rmtree(figures, ignore_errors=True)
    shown = FIGURE.findall(text)
    if shown:
        figures.mkdir(parents=True)
    for figure in shown:
        shutil.copyfile(page.parent / "figures" / figure, figures / figure)
    target = into / f"{name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(FIGURE.sub(rf"](figures/{name}/\1)", text), "utf-8")
    return target


def length(seconds: float) -> str:
    """Return a time in minutes, as the stamps have it."""
    return f"{max(1, round(seconds / 60))} min"


def known_length(name: str) -> str:
    """Return how long the present page of a study took; empty if unknown."""
    page = PAGES / f"{name}.md"
    found = re.search(r"; (\d+ min); digest", page.read_text("utf-8")) if page.is_file() else None
    return found[1] if found else ""


def listed(names: Iterable[str]) -> Iterator[str]:
    """Return the studies, how long each took when its page was made, and the sum."""
    minutes = 0
    unknown = 0
    for name in names:
        took = known_length(name)
        minutes += int(took.split()[0]) if took else 0
        unknown += not took
        yield f"  {name:<26}{took or 'not measured':>14}"
    rest = f", and {unknown} that were not measured" if unknown else ""
    yield f"  {'together':<26}{minutes / 60:>12.1f} h{rest}"


def commit() -> str:
    """Return the commit of the program, empty if it is none or files have changed since."""
    changed = ["git", "status", "--porcelain", "--", "beasy_sched", "scripts"]
    found = [
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        for words in (["git", "rev-parse", "HEAD"], changed)
    ]
    return "" if found[0].returncode or found[1].stdout.strip() else found[0].stdout.strip()


def note_of(name: str, folder: Path) -> Path:
    """Return the file in the folder of a run with the commit that made its page, and how long it took."""
    return folder / f"made-{name}.json"


def made(name: str, folder: Path) -> dict[str, Any]:
    """Return what is known of the run in a folder."""
    try:
        return dict(json.loads(note_of(name, folder).read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def run(name: str, folder: Path, chosen: argparse.Namespace) -> int:
    """Run a study, or continue it; return the exit code."""
    study, before, now = STUDIES[name], made(name, folder), commit()
    if before.get("commit") and before["commit"] == now and (folder / study.page).is_file():
        print(f"{name}: made with this commit before")
        return 0
    seconds = before.get("seconds", 0.0) if not before.get("commit") else 0.0
    begin = time.monotonic()
    try:
        done = subprocess.run(study.command(folder, chosen.data, quick=chosen.quick), cwd=ROOT, check=False)
        code = done.returncode
    except KeyboardInterrupt:
        code = STOPPED
    folder.mkdir(parents=True, exist_ok=True)
    note = {"commit": "" if code else now, "seconds": seconds + time.monotonic() - begin}
    note_of(name, folder).write_text(json.dumps(note), "utf-8")
    return code


def main() -> int:
    """Do what the command line asks for; return the exit code."""
    chosen = parse_arguments()
    ahead = [name for name, folder in chosen.studies.items() if folder is None]
    if ahead and not chosen.quick:
        print("Studies, and how long each took when its page was made:", *listed(ahead), sep="\n", flush=True)
    if chosen.list:
        return 0
    for name, folder in chosen.studies.items():
        study, seconds = STUDIES[name], None
        if folder is None:
            folder = ROOT / ("out/results-quick" if chosen.quick else "out/results") / study.folder
            code = run(name, folder, chosen)
            if code:
                print(f"reproduce: {name}: scripts/{study.script} ended with exit code {code};"
                      " the same command continues", file=sys.stderr)  # fmt: skip
                return code
            seconds = made(name, folder).get("seconds")
        print(place(name, folder / study.page, chosen.into, seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
