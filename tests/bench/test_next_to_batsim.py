"""The embedded simulator next to a real Batsim 4.2.1 with our daemon, and how fast the daemon answers it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq
from bench.measured import Measured, Running, measure
from bench.traces import ROWS, Inputs, command
from processes import free_endpoint
from pytest_benchmark.fixture import BenchmarkFixture
from real_batsim.program import real_batsim

pytestmark = pytest.mark.bench


@contextmanager
def timed(front: str, daemon: str) -> Iterator[list[float]]:
    """Pass messages on from Batsim at ``front`` to a daemon, and back; the times until each reply (s)."""
    seconds: list[float] = []
    over = threading.Event()

    def relay() -> None:
        with zmq.Context() as context, context.socket(zmq.REP) as asks, context.socket(zmq.REQ) as answers:
            for socket in (asks, answers):
                socket.linger = 1000
            asks.bind(front)
            answers.connect(daemon)
            while not over.is_set():
                if asks.poll(100):
                    message = asks.recv()
                    begin = time.perf_counter()
                    answers.send(message)
                    reply = answers.recv()
                    seconds.append(time.perf_counter() - begin)
                    asks.send(reply)

    thread = threading.Thread(target=relay)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()


def beside(made: Inputs, batsim: Path, folder: Path) -> tuple[Measured, Measured, list[float]]:
    """Run Batsim with our daemon; return what Batsim and the daemon took, and the times of the answers."""
    front, endpoint = free_endpoint(), free_endpoint()
    with timed(front, endpoint) as seconds:
        serve = command("serve", "-s", endpoint, "--policy", "easy", "-e", folder / "run", "--timeout", 600)
        daemon = Running(serve)
        simulator = Running([batsim, "-q", "-E", "-s", front, "-p", made.platform, "-w", made.workload,
                             "-e", folder / "batsim"])  # fmt: skip
        return simulator.wait(), daemon.wait(), seconds


@pytest.mark.parametrize("name", ["sdscblue", "metacentrum", "kth-sp2"])
def test_easy(
    name: str, inputs: Callable[[str], Inputs], benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    made, batsim = inputs(name), real_batsim()
    arguments = command("simulate", "-p", made.platform, "-w", made.workload, "--policy", "easy",
                        "-e", tmp_path / "run", "-q")  # fmt: skip
    ours = measure(arguments)
    simulator, daemon, seconds = benchmark.pedantic(lambda: beside(made, batsim, tmp_path), rounds=1)
    what = name + ("" if made.real else " (synthetic)")
    theirs_s = simulator.cpu_s + daemon.cpu_s
    remark = f"CPU, memory; Batsim {simulator}; daemon {daemon}"
    ROWS.append((f"embedded simulator, {what}", str(ours), f"{theirs_s:.2f} s (Batsim 4.2.1, daemon)",
                 f"{theirs_s / ours.cpu_s:.1f}", remark))  # fmt: skip
    median_us, most_us = 1e6 * np.percentile(seconds, [50, 99])
    ROWS.append((f"daemon's answers, {what}", f"{median_us:.0f} us median, {most_us:.0f} us 99 %", "-", "-",
                 f"{len(seconds):,} messages of a real Batsim, with ZeroMQ"))  # fmt: skip
