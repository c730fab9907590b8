"""This version against the last release: user CPU time of whole runs in turns, and calls per message."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.release import ROOT, NoRelease, calls_a_message, release_package, user_s
from bench.traces import ROWS, Inputs
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench

ROUNDS = 5


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return version and folder of the release; a row states why there is none."""
    folder = tmp_path_factory.mktemp("release")
    try:
        return release_package(request.config.getoption("--release"), folder), folder
    except NoRelease as missing:
        ROWS.append(("against the last release", "-", "-", "-", f"not measured: {missing}"))
        pytest.skip(str(missing))


def compare(
    what: str, arguments: list[object], release: tuple[str, Path], benchmark: BenchmarkFixture, cwd: Path
) -> None:
    """Measure a command of both versions, and add a row for its time and one for its calls."""
    version, package = release
    packages = {"ours": ROOT, "theirs": package}
    calls = {who: calls_a_message(place, *arguments, cwd=cwd) for who, place in packages.items()}
    taken_s: dict[str, list[float]] = {who: [] for who in packages}

    def both() -> None:
        for who, place in packages.items():
            taken_s[who].append(user_s(place, *arguments, cwd=cwd))

    benchmark.pedantic(both, rounds=ROUNDS)
    ratio = statistics.median(a / b for a, b in zip(taken_s["theirs"], taken_s["ours"], strict=True))
    ours_s, theirs_s = (statistics.median(taken_s[who]) for who in packages)
    remark = f"user CPU time, {ROUNDS} rounds in turns: medians, and that of the rounds' ratios"
    ROWS.append((what, f"{ours_s:.2f} s", f"{theirs_s:.2f} s ({version})", f"{ratio:.2f}", remark))
    ratio = calls["theirs"] / calls["ours"]
    numbers = f"{calls['ours']:.0f}", f"{calls['theirs']:.0f} ({version})", f"{ratio:.2f}"
    ROWS.append((what, *numbers, "calls per message, by cProfile"))


def test_easy(
    inputs: Callable[[str], Inputs],
    release: tuple[str, Path],
    benchmark: BenchmarkFixture,
    tmp_path: Path,
) -> None:
    made = inputs("kth-sp2")
    what = "easy, kth-sp2" + ("" if made.real else " (synthetic)")
    files = ["-p", made.platform, "-w", made.workload]
    command = ["simulate", *files, "--policy", "easy", "-e", "run", "-q"]
    compare(what, command, release, benchmark, tmp_path)


def test_beasy(
    days: list[object], release: tuple[str, Path], benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    command = ["simulate", *days, "--policy", "beasy", "-e", "run", "-q"]
    compare("beasy, three days", command, release, benchmark, tmp_path)
