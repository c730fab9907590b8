"""Random runs through both doors, a call and ``beasy-sched batsim`` over ZeroMQ: byte by byte the same."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import zmq
from command_line import exit_code
from simulator.soaks import ARGUMENTS, OPTIONS, Anything, Soak

from beasy_sched.engine import Session
from beasy_sched.errors import DecisionRefused, InputError
from beasy_sched.formats.batsim_events import merge_events
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol import batsim4
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

Scheduler = Callable[[e.Message], d.Reply]
FILES = ("consumed_energy", "jobs", "machine_states", "pstate_changes")
"""Those without wall times."""


class Kept:
    """A scheduler on the other side of the wire, and the bytes that it was told and answered."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.exchanges: list[tuple[bytes, bytes]] = []

    def answer(self, told: bytes) -> bytes:
        answered = batsim4.encode_reply(self._scheduler(batsim4.decode_message(told)))
        self.exchanges.append((told, answered))
        return answered

    def __call__(self, message: e.Message) -> d.Reply:
        return batsim4.decode_reply(self.answer(batsim4.encode_message(message)))


def over_the_wire(inputs: Inputs, arguments: Sequence[str], prefix: Path, kept: Kept) -> int:
    """Run ``beasy-sched batsim``; return its exit code."""
    stop = threading.Event()

    def serve(socket: zmq.Socket[bytes]) -> None:
        while not stop.is_set():
            if socket.poll(20):
                socket.send(kept.answer(socket.recv()))

    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        thread = threading.Thread(target=serve, args=(socket,), daemon=True)
        thread.start()
        files = ["-p", inputs.platform, *(x for w in inputs.workloads for x in ("-w", w))]
        files += [x for path in inputs.events for x in ("--events", path)]
        where = ("-e", prefix, "-s", f"tcp://127.0.0.1:{port}", "-q")
        code = exit_code("batsim", *map(str, (*files, *where)), *arguments)
        stop.set()
        thread.join(10)
    return code


def files_of(prefix: Path) -> dict[str, bytes]:
    paths = {name: Path(f"{prefix}_{name}.csv") for name in FILES}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def through_both_doors(
    folder: Path,
    inputs: Inputs,
    scheduler: Callable[[], Scheduler],
    options: SimulationOptions = OPTIONS,
    arguments: Sequence[str] = ARGUMENTS,
) -> bool:
    """Compare all bytes of messages and files; return whether the run came to its end."""
    called, wired = Kept(scheduler()), Kept(scheduler())
    finished = True
    try:
        simulation_from_files(inputs, options, folder / "call").run(called)
    except (DecisionRefused, InputError):
        finished = False
    code = over_the_wire(inputs, arguments, folder / "wire", wired)
    assert wired.exchanges == called.exchanges
    assert files_of(folder / "wire") == files_of(folder / "call")
    assert (code == 0) == finished
    return finished


def check_books(soak: Soak, folder: Path, inputs: Inputs, scheduler: Anything) -> None:
    """Check what must hold in every run, from the messages and from the files of its end."""
    times = [message.now for message in scheduler.messages]
    assert times == sorted(times)
    events = [event for message in scheduler.messages for event in message.events]
    submitted = [event.job.id for event in events if isinstance(event, e.JobSubmitted)]
    ended = [event.job_id for event in events if isinstance(event, e.JobCompleted)]
    assert sorted(ended) == sorted(set(submitted)) == sorted(submitted)
    check_marks(inputs, events)
    metered = [(x.timestamp, x.consumed_energy_j) for x in events if isinstance(x, e.EnergyAnswer)]
    for (before_s, before_j), (after_s, after_j) in pairwise(metered):
        least_w, most_w = soak.hosts * 5, soak.hosts * 200
        lasted_s = after_s - before_s
        assert lasted_s * least_w - 1e-3 <= after_j - before_j <= lasted_s * most_w + 1e-3
    with (folder / "call_jobs.csv").open() as file:
        rows = [*csv.DictReader(file)]
    spans: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        start_s, finish_s = float(row["starting_time"]), float(row["finish_time"])
        assert finish_s - start_s <= float(row["requested_time"]) + 2e-6
        for host in HostSet.parse(row["allocated_resources"]):
            spans.setdefault(host, []).append((start_s, finish_s))
    for of_host in spans.values():
        assert all(one[1] <= next_[0] + 2e-5 for one, next_ in pairwise(sorted(of_host)))
    with (folder / "call_machine_states.csv").open() as file:
        for counts in csv.DictReader(file):
            known = sum(int(n) for name, n in counts.items() if name != "time")
            assert soak.hosts - len(soak.fickle) <= known <= soak.hosts


def check_marks(inputs: Inputs, events: Sequence[e.Event]) -> None:
    """Check that the events of both files come in the order that the checks of a run's inputs assume."""
    _, _, lists = inputs.read(OPTIONS)
    marks = [event.data for event in merge_events(lists) if event.kind == "mark"]
    notices = [event for event in events if isinstance(event, e.Notify)]
    assert [notice.data for notice in notices if notice.kind == "mark"] == marks
    ends = [n for n, notice in enumerate(notices) if notice.kind == "no_more_external_event_to_occur"]
    last = max(n for n, notice in enumerate(notices) if notice.kind == "mark" or "machine" in notice.kind)
    assert len(ends) == 1
    assert ends[0] > last


def check_soak(seed: int, folder: Path) -> None:
    soak = Soak.drawn(seed)
    inputs = soak.write(folder)
    schedulers: list[Anything] = []

    def scheduler() -> Anything:
        schedulers.append(Anything(soak, reckless=seed % 3 == 2))
        return schedulers[-1]

    finished = through_both_doors(folder, inputs, scheduler)
    assert finished or seed % 3 == 2
    if finished:
        check_books(soak, folder, inputs, schedulers[0])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(9))
def test_a_scheduler_that_does_anything(seed: int, tmp_path: Path) -> None:
    check_soak(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9, 150))
def test_more_of_them(seed: int, tmp_path: Path) -> None:
    check_soak(seed, tmp_path)


@pytest.mark.parametrize(("seed", "state"), [(30, "sleeping"), (107, "idle")])
def test_a_machine_that_leaves_while_it_switches_cannot_return(seed: int, state: str, tmp_path: Path) -> None:
    soak = Soak.drawn(seed)
    inputs = soak.write(tmp_path)
    with pytest.raises(InputError, match=rf"not in UNAVAILABLE state \(current state: {state}\)"):
        simulation_from_files(inputs, OPTIONS).run(Anything(soak, reckless=True))
    assert not through_both_doors(tmp_path, inputs, lambda: Anything(soak, reckless=True))


@pytest.mark.parametrize("seed", range(4))
def test_the_daemon(seed: int, tmp_path: Path) -> None:
    """Its own decisions, with two events files, hosts with several cores, and machines that come and go."""
    soak = Soak.drawn(seed)
    options = SimulationOptions(energy=True, forward_unknown_events=True)
    arguments = ("-E", "--forward-unknown-events")
    inputs = soak.write(tmp_path)
    policy = "easy" if soak.fickle else "workload-reactive"
    assert through_both_doors(tmp_path, inputs, lambda: Session(make_policy(policy)).step, options, arguments)
