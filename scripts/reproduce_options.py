"""The options of scripts/reproduce_critical and scripts/reproduce_average."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from beasy_sched.reproduction.beasy_study import Size

SCENARIOS = {
    "critical": ("best-begin", "best-end", "worst-begin", "worst-end"),
    "average": ("average",),
}
WHAT = {
    "critical": "the four critical scenarios of the BEASY paper (Section V-A)",
    "average": "the average cases of the BEASY paper (Section V-B): ten plans, ten noises each",
}
SEEDS, ABLATION_SEEDS = 10, 1
SHED_SEEDS = 1


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with code 2 where it makes no sense."""
    everything = argparse.ArgumentParser(add_help=False)
    everything.add_argument("headline", choices=SCENARIOS)
    headline, rest = everything.parse_known_args(arguments)
    chosen = _parser(headline.headline).parse_args(rest, headline)
    chosen.scenarios = chosen.scenario or SCENARIOS[chosen.headline]
    if chosen.out is None:
        chosen.out = Path("out/reproduction-quick" if chosen.quick else "out/reproduction")
    seeds = chosen.seeds or (1 if chosen.quick else SEEDS)
    shed = SHED_SEEDS if chosen.shed_seeds is None else chosen.shed_seeds
    chosen.size = Size(seeds, min(shed, seeds), _ablation_seeds(chosen), chosen.quick)
    return chosen


def _ablation_seeds(chosen: argparse.Namespace) -> int:
    if chosen.headline != "critical":
        return 0
    default = 0 if chosen.quick or chosen.scenario else ABLATION_SEEDS
    return default if chosen.ablation_seeds is None else int(chosen.ablation_seeds)


def _parser(headline: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"scripts/reproduce_{headline}",
        description=f"Reproduce {WHAT[headline]}: run the eight policies, print the paper's Table I, its "
        "numbers and its claims beside ours, and draw its figures. What has been run is not run again.",
        epilog="Variables: PYTHON names the Python for the environment; BEASY_VENV=DIR uses a ready "
        "environment and installs nothing.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="try it out: one day, fewer jobs, one seed; proves nothing")
    add("--out", type=Path, metavar="DIR", help="where to write, or to go on (default: out/reproduction)")
    add("--jobs", type=_count(1), default=_cores(), metavar="N", help="runs at a time (default: one a core)")
    add("--seeds", type=_count(1), metavar="N", help=f"seeds under the papers' guard (default: {SEEDS})")
    add("--shed-seeds", type=_count(0), metavar="N", help="how many of them also under our guard, shed with "
        f"veto (default: {SHED_SEEDS}; 0 for none)")  # fmt: skip
    if headline == "critical":
        add("--ablation-seeds", type=_count(0), metavar="N", help="how many of them in each variant of the "
            f"ablation (default: {ABLATION_SEEDS}; 0 for none)")  # fmt: skip
    add("--scenario", type=Path, action="append", metavar="FILE", help="your scenario file instead (may be "
        "repeated); seeds and guards are those of this command")  # fmt: skip
    add("--markdown", type=writable, metavar="FILE", help="write the tables to FILE, in Markdown (where it "
        f"has a line '<!-- results: {headline} -->', from there to '<!-- end -->')")  # fmt: skip
    return parser


def writable(text: str) -> Path:
    """Read the name of a file to write when all has been run, which is late to learn that it cannot be."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a file in a folder that exists")
    return path


def _count(least: int):  # type: ignore[no-untyped-def]
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from {least} on")
        return int(text)

    return count


def _cores() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
