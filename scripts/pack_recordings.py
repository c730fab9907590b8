"""Pack a folder of Batsim recordings into the four compressed files that the tests read."""

import argparse
import base64
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "tests" / "recordings"
CSV = ("jobs", "schedule", "machine_states", "pstate_changes", "consumed_energy")

Packed = dict[str, Any]
"""Files written as JSON: parts of a file by name."""


def read(path: Path) -> str:
    """Read a file, or its gzipped form."""
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else path.read_text()


def exists(path: Path) -> bool:
    return path.exists() or path.with_name(f"{path.name}.gz").exists()


def pack_run(folder: Path) -> Packed:
    run = json.loads((folder / "run.json").read_text())
    messages = [json.loads(line) for line in read(folder / "messages.jsonl").splitlines()]
    platform, events = folder / "platform.xml", folder / "events.txt"
    return {
        "platform": platform.read_text() if platform.exists() else run["platform"],
        "arguments": run["batsim_args"],
        "exit_code": int(run["exit_code"]),
        "errors": run["log_errors"],
        "workload": read(folder / "workload.json"),
        "events": read(events) if exists(events) else None,
        "messages": [[m["from"], m["raw"]] for m in messages],
        "clocks_s": [m["clock"] for m in messages if m["from"] == "batsim" and "clock" in m],
        "csv": {name: read(path) for name in CSV if exists(path := folder / f"out_{name}.csv")},
    }


def pack_small_runs(source: Path) -> Packed:
    folders = [folder for folder in sorted(source.iterdir()) if (folder / "run.json").exists()]
    platforms = {file.name: file.read_text() for file in sorted((source / "platforms").glob("*.xml"))}
    return {"platforms": platforms, "runs": {folder.name: pack_run(folder) for folder in folders}}


def pack_whole_run(folder: Path) -> Packed:
    run = json.loads((folder / "run.json").read_text())
    with gzip.open(folder / "messages.jsonl.gz", "rt") as file:
        exchanges = [json.loads(line) for line in file]
    return {
        "inputs": Path(run["inputs"]).name,
        "arguments": run["batsim"],
        "scheduler": run["scheduler"],
        "exchanges": exchanges,
        "csv": {name: gzip.decompress((folder / f"{name}.csv.gz").read_bytes()).decode() for name in CSV},
    }


def pack_inputs(folder: Path) -> dict[str, str]:
    """Return the files by name; binary files in base 64."""
    found = {}
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        if file.suffix == ".gz":
            found[file.stem] = gzip.decompress(data).decode()
        else:
            found[file.name] = data.decode() if file.suffix == ".toml" else base64.b64encode(data).decode()
    return found


def pack_whole_runs(source: Path) -> Packed:
    folders = [folder for folder in sorted(source.iterdir()) if (folder / "run.json").exists()]
    return {
        "inputs": {folder.name: pack_inputs(folder) for folder in sorted((source / "inputs").iterdir())},
        "runs": {folder.name: pack_whole_run(folder) for folder in folders},
    }


def pack_several_events(source: Path) -> Packed:
    folders = [folder for folder in sorted(source.iterdir()) if folder.is_dir()]
    return {
        "platform": (source / "platform.xml").read_text(),
        "workload": (source / "w.json").read_text(),
        "runs": {
            folder.name: {
                "events": [file.read_text() for file in sorted(folder.glob("events*.txt"))],
                "messages": (folder / "messages.jsonl").read_text().splitlines(),
            }
            for folder in folders
        },
    }


def write(name: str, packed: Packed) -> None:
    output = TARGET / name
    output.write_bytes(lzma.compress(json.dumps(packed).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{output}: {len(packed['runs'])} runs, {output.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/pack_recordings", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of recordings")
    source = parser.parse_args().folder
    write("recordings.json.xz", pack_small_runs(source))
    write("latency.json.xz", pack_small_runs(source / "latency"))
    write("whole_runs.json.xz", pack_whole_runs(source / "whole-runs"))
    write("several_events.json.xz", pack_several_events(source / "several-events"))


if __name__ == "__main__":
    main()
