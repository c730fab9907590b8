"""Test each extra in a separate environment; "scripts/test_extras --help" prints the details."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("none", "data", "plan", "plot", "report", "dask", "metrics", "pybatsim", "learn", "life", "bundle")
PIP = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--use-pep517", "--no-compile")
# --use-pep517: without it, pip before 23.1 needs the package wheel to build pybatsim
HELP = """\
For each extra: makes a new environment, installs the project with this extra alone, and tests its features
(a plan, a figure, a report, a campaign, ...); checks that the commands of every other extra
name that extra.
Environments are removed at the end. pip's cache saves most of the downloads."""


def main() -> int:
    """Try the extras; return the exit code."""
    parser = argparse.ArgumentParser("test_extras", description=HELP)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(EXTRAS)} (default: all)")
    parser.add_argument("--python", help="use this Python: a program, or a version such as 3.12 (first)")
    parser.add_argument("--lowest", action="store_true", help="install the oldest versions allowed")
    parser.add_argument("-j", "--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="at a time")
    given = parser.parse_args()
    if not 1 <= given.jobs <= 1000:
        parser.error(f"--jobs: found {given.jobs}, expected an integer from 1 to 1000")
    unknown = [extra for extra in given.extras if extra not in EXTRAS]
    if unknown:
        parser.error(f"unknown extra {unknown[0]!r}; there are {', '.join(EXTRAS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(lowest_versions()) if given.lowest else "")
        wheel = build_wheel(folder)

        def attempt(extra: str) -> bool:
            begin = time.monotonic()
            problem = problem_of(extra, folder / extra, wheel, constraints)
            verdict = "FAILED" if problem else "passed"
            print(f"{verdict}  {extra} ({time.monotonic() - begin:.0f} s)\n{problem}", end="", flush=True)
            return not problem

        with ThreadPoolExecutor(given.jobs) as pool:
            passed = [*pool.map(attempt, given.extras or EXTRAS)]
    return 0 if all(passed) else 1


def build_wheel(folder: Path) -> Path:
    """Build the project once for all environments."""
    arguments = ("--no-deps", "--disable-pip-version-check", "-w", folder, ROOT)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", *arguments], check=True)
    return next(folder.glob("*.whl"))


def problem_of(extra: str, folder: Path, wheel: Path, constraints: Path) -> str:
    """Install an extra and try it; return what failed, "" if nothing."""
    extras = [] if extra == "none" else [extra]
    what = f"beasy-sched{'[' + extra + ']' if extras else ''} @ {wheel.as_uri()}"
    python = folder / "bin" / "python"
    commands: tuple[list[str | Path], ...] = (
        [sys.executable, "-m", "venv", folder],
        [python, *PIP, "-c", constraints, what],
        [python, "-m", "pip", "check", "--disable-pip-version-check"],
        [python, ROOT / "scripts" / "extras_smoke.py", *extras],
    )
    try:
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}\n"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ""


def lowest_versions() -> list[str]:
    """The oldest version that each lower bound of pyproject.toml allows, as pip's constraints."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    bounds = re.findall(r'"([A-Za-z_-]+)>=([0-9.]+)["; ]', text)
    return [f"{name}=={bound}.*" if bound.count(".") < 2 else f"{name}=={bound}" for name, bound in bounds]


if __name__ == "__main__":
    sys.exit(main())
