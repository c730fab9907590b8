"""Pages' commands, played in a folder as a reader would."""

import json
import os
import re
import shutil
import socket
import sys
from pathlib import Path

from project.shell import PATIENCE_S, ROOT, run

README = (ROOT / "README.md").read_text("utf-8")
OWN_DATA = (ROOT / "docs/guides/own-data.md").read_text("utf-8").partition("## Servers")[0]
EXAMPLES = (ROOT / "docs/guides/examples.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page, in order."""
    return re.findall(rf"^```(?:{language})\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def make_place(place: Path) -> Path:
    """Give a folder the scripts, a trace and exports of the weather, and a `batsim` on the PATH."""
    shutil.copytree(ROOT / "scripts", place / "scripts")
    rows = [f"{n} {n * 900} 5 {300 + n} 32 -1 -1 32 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 500)]
    (place / "trace.swf").write_text("; MaxProcs: 800\n" + "\n".join(rows) + "\n")
    sky = ["generate", "power", "--synthetic", "--pv-kw", "10", "--wind-kw", "7", "--write-ninja", "ninja"]
    sky += ["--start", "2019-05-31", "--days", "5", "-o", "own.txt"]
    assert run(sys.executable, "-m", "beasy_sched", *sky, cwd=place).returncode == 0
    (place / "bin").mkdir()
    for name, command in (("beasy-sched", ""), ("batsim", " batsim")):
        (place / "bin" / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m beasy_sched{command} "$@"\n'
        )
        (place / "bin" / name).chmod(0o755)
    save_slurm(place)
    (place / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (place / "bin/python").chmod(0o755)
    return place


def save_slurm(place: Path) -> None:
    """Programs in the place of Slurm's: a month of jobs on 16 nodes."""
    start_s, rows = 1_767_222_000, []
    for n in range(400):
        submit_s, run_s, nodes = start_s + n * 6600, 600 + n * 37 % 9000, (1, 1, 2, 4)[n % 4]
        first = 1 + n * 5 % (17 - nodes)
        times = f"{submit_s}|{submit_s + n % 600}|{submit_s + n % 600 + run_s}"
        names = f"n[{first}-{first + nodes - 1}]"
        rows.append(f"{4000 + n}|main|COMPLETED|{times}|{run_s}|04:00:00|{nodes}|{names}")
    head = "JobID|Partition|State|Submit|Start|End|ElapsedRaw|Timelimit|NNodes|NodeList"
    (place / "saved_jobs").write_text("\n".join([head, *rows, ""]))
    known = [{"name": f"n{n}", "state": ["IDLE"], "partitions": ["main"]} for n in range(1, 17)]
    (place / "saved_nodes").write_text(json.dumps({"nodes": known}))
    for name, file in (("sacct", "saved_jobs"), ("scontrol", "saved_nodes")):
        (place / "bin" / name).write_text(f"#!/bin/sh\nexec cat '{place / file}'\n")
        (place / "bin" / name).chmod(0o755)


def play(place: Path, code: str, timeout_s: float = PATIENCE_S) -> None:
    """Run a block of code in bash; port 28000 may be taken, so another one stands for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # "wait" alone forgets how the daemon in the background ended; "wait $!" does not
    code = re.sub(r"^wait$", "wait $!", code.replace("28000", port), flags=re.MULTILINE)
    done = run("bash", "-euc", code, cwd=place, variables={"PATH": path}, timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
