"""Compare the embedded simulator with Batsim 4.2.1.

Without --batsim, replay all recordings and write docs/results/conformance.md. With it, run this Batsim and
the embedded simulator on random inputs: platforms with and without latency, all policies, several events
files, jobs that the scheduler registers.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from real_batsim.random_runs import RandomRun  # noqa: E402
from recordings.archive import LATENCY  # noqa: E402
from recordings.replay import compare_csv, compare_messages  # noqa: E402
from recordings.several_events import OPTIONS, AtOnce, several_events  # noqa: E402
from recordings.verdicts import MATCH, OUT, REFUSED, Verdict, all_verdicts  # noqa: E402
from recordings.whole_runs import names, replay_whole_run, whole_run  # noqa: E402
from studies.command_line import stamp  # noqa: E402

from beasy_sched.protocol.batsim4 import decode_message  # noqa: E402
from beasy_sched.simulator import simulation_from_files  # noqa: E402

PAGE = ROOT / "docs" / "results" / "conformance.md"


def whole_run_row(name: str) -> tuple[str, list[str]]:
    """Return a row of the table of whole runs, and the differences."""
    run = whole_run(name)
    with tempfile.TemporaryDirectory() as folder:
        outcome = replay_whole_run(run, Path(folder))
    recorded = [decode_message(sent.encode()) for sent, _ in run.exchanges]
    faults = compare_messages(outcome.told[1:], recorded[1:])
    for kind, text in run.csv.items():
        faults += compare_csv(kind, outcome.csv[kind], text)
    again = sum(a.now == b.now for a, b in pairwise(recorded))
    rows = sum(len(text.splitlines()) - 1 for text in run.csv.values())
    word = "equal" if not faults else f"DIFFERS ({len(faults)})"
    return f"| `{name}` | {len(recorded)} | {again} | {rows} | {word} |", faults


def several_events_faults() -> dict[str, list[str]]:
    """Return the differences in each run with several events files."""
    faults = {}
    for name, run in several_events().items():
        scheduler = AtOnce()
        with tempfile.TemporaryDirectory() as folder:
            simulation_from_files(run.write_inputs(Path(folder)), OPTIONS).run(scheduler)
        faults[f"several-events/{name}"] = compare_messages(scheduler.told[1:], run.recorded[1:])
    return faults


def listed(verdicts: Mapping[str, Verdict], word: str) -> str:
    return ", ".join(f"`{name}`" for name, verdict in sorted(verdicts.items()) if verdict.word == word)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batsim", type=Path, metavar="PATH", help="program of a real Batsim 4.2.1")
    parser.add_argument("--runs", type=int, default=60, help="random runs with --batsim (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first one (default: 0)")
    given = parser.parse_args()
    if given.batsim is None:
        sys.exit(replay_recordings())
    if not given.batsim.is_file():
        parser.error(f"--batsim: found no program {given.batsim}")
    sys.exit(run_beside(given.batsim.resolve(), range(given.seed, given.seed + given.runs)))


def run_beside(batsim: Path, seeds: range) -> int:
    """Run Batsim and the simulator; print what differs; return the exit code."""
    messages = equal = 0
    for seed in seeds:
        run, begin_s = RandomRun.drawn(seed), perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            real, faults = run.compare(batsim, Path(folder))
        if real.exit_code:
            faults.append(f"Batsim ended with {real.exit_code}: {real.error}")
        messages, equal = messages + len(real.messages), equal + (not faults)
        word = f"DIFFERS ({len(faults)})" if faults else "equal"
        print(f"{run}: {len(real.messages)} messages, {word}, {perf_counter() - begin_s:.1f} s", flush=True)
        for fault in faults[:3]:
            print(f"  {fault}")
    print(f"{len(seeds)} runs, {messages} messages: {equal} runs equal")
    return int(equal < len(seeds))


def replay_recordings() -> int:
    """Replay all recordings and write the page; return the exit code."""
    verdicts = all_verdicts()
    with_latency = all_verdicts(LATENCY)
    faults = {name: verdict.faults for name, verdict in verdicts.items()}
    faults |= {f"latency/{name}": verdict.faults for name, verdict in with_latency.items()}
    rows = []
    for name in names():
        row, faults[name] = whole_run_row(name)
        rows.append(row)
    several = several_events_faults()
    faults |= several
    counts = Counter("DIFFERS" if v.faults else v.word for v in verdicts.values())
    summary = ", ".join(f"{number} {word}" for word, number in counts.most_common())
    text = [
        "# Recordings of Batsim 4.2.1",
        "",
        "- [Conformance](../design/conformance.md) describes the comparison.",
        f"- {stamp('scripts/conformance')}",
        "",
        "## Whole runs",
        "",
        "| whole run | messages | at the time of the one before | CSV rows | |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "## Small runs",
        "",
        f"{len(several)} runs with several events files: {sum(not f for f in several.values())} equal.",
        "",
        f"{len(with_latency)} runs on platforms with latency,"
        f" {sum(v.messages for v in with_latency.values())} messages:"
        f" {sum(not v.faults for v in with_latency.values())} equal.",
        "",
        f"{len(verdicts)} small recordings: {summary}.",
        *(f"\n**{word[0].upper()}{word[1:]}**: {listed(verdicts, word)}." for word in (MATCH, REFUSED, OUT)),
        "",
    ]
    PAGE.write_text("\n".join(text))
    print(f"{PAGE}: {summary}")
    for name, found in faults.items():
        for fault in found:
            print(f"  {name}: {fault}")
    return int(any(faults.values()))


if __name__ == "__main__":
    main()
