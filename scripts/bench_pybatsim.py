"""Time of the daemon per message, compared with pybatsim's easyBackfill on the same messages.

    python scripts/bench_pybatsim.py --traces FOLDER [--limit MESSAGES] [TRACE.swf ...]

Each trace is converted to a workload and a platform with one host per processor (counted in the trace's
header). tests/pybatsim_timing.py describes how both receive the same messages, and what is timed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from console import count  # noqa: E402
from pybatsim_inside import load_example  # noqa: E402
from pybatsim_timing import compare, own_run  # noqa: E402

from beasy_sched.simulator import (  # noqa: E402
    Inputs,
    Simulation,
    SimulationOptions,
    simulation_from_files,
)

WEEKS = ["sdscblue_1w_61845732.swf", "metacentrum_1w_1367276567.swf", "metacentrum_1w_1362000000.swf"]


def parse_arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("traces", nargs="*", metavar="TRACE.swf", default=WEEKS, help=f"default: {', '.join(WEEKS)}")
    add("--traces", dest="folder", type=Path, required=True, metavar="FOLDER", help="folder of the traces")
    add("--limit", type=count(1, 2**31), metavar="MESSAGES", help="stop each run after so many messages")
    return parser.parse_args()


def processors(trace: Path) -> int:
    """Return the values of the trace's header."""
    found = re.search(r"^;\s*MaxProcs:\s*(\d+)", trace.read_text("utf-8", "replace"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{trace}: its header has no MaxProcs")
    return int(found[1])


def make_inputs(trace: Path, folder: Path) -> Inputs:
    """Generate platform and workload."""
    hosts, server = processors(trace), "taurus"
    platform, workload = folder / f"{trace.stem}.xml", folder / f"{trace.stem}.json"
    commands: tuple[list[str | Path], ...] = (
        ["platform", "-n", f"{server}:{hosts}", "--one-pstate", "-q", "-o", platform],
        [
            "workload",
            "--swf",
            trace,
            "--hosts",
            str(hosts),
            "--platform-preset",
            server,
            "-q",
            "-o",
            workload,
        ],
    )
    for arguments in commands:
        subprocess.run([sys.executable, "-m", "beasy_sched", "generate", *arguments], check=True)
    return Inputs(platform, [workload])


def main() -> None:
    chosen = parse_arguments()
    for name in chosen.traces:
        with tempfile.TemporaryDirectory() as folder:
            measure(make_inputs(chosen.folder / name, Path(folder)), chosen.limit)


def measure(inputs: Inputs, limit: int | None) -> None:
    """Print how both fare on one trace."""

    def make() -> Simulation:
        return simulation_from_files(inputs, SimulationOptions())

    print(Path(inputs.workloads[0]).stem)
    print(" ", own_run(make, limit).row("easy, in a separate run"), flush=True)
    theirs, ours = compare(make, load_example("easyBackfill"), limit)
    print(" ", theirs.row("pybatsim easyBackfill"))
    print(" ", ours.row("easy on the same messages"))
    print(f"  easyBackfill / easy: {theirs.mean_us / ours.mean_us:.1f}", flush=True)


if __name__ == "__main__":
    main()
