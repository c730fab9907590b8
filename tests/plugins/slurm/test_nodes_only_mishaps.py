"""The nodes-only mode among mishaps at random: in the end, every job is over, and reported as such."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from plugins.slurm.fake_slurm import FakeReservation, FakeSlurm
from plugins.slurm.live_cases import all_over
from plugins.slurm.nodes_only_cases import NodesBeside, shared_slurm

QUIET_FROM_S = 800.0
"""Time from which nothing more goes wrong, s."""


def mishaps(slurm: FakeSlurm, rng: random.Random) -> list[tuple[float, Callable[[], object]]]:
    """Return probabilities in each cycle, and mishaps."""

    def node() -> str:
        return rng.choice([*slurm.nodes])

    def submit() -> None:
        slurm.submit(
            nodes=rng.randint(1, 3),
            cpus=rng.choice((0, 1, 3)),
            run_s=rng.randint(1, 80),
            limit_s=rng.choice((60, 120, None)),
            partition=rng.choice(("main", "low")),
            requeue=rng.random() < 0.7,
        )

    def extend() -> None:
        if slurm.reservations:
            slurm.reservations[rng.choice([*slurm.reservations])].end_s += rng.randint(10, 300)

    def reserve() -> None:
        end_s = slurm.now_s + rng.randint(10, 200)
        slurm.reservations["theirs"] = FakeReservation(
            "theirs", (node(),), slurm.now_s, end_s, "ada", ("MAINT",)
        )

    return [
        (0.1, submit),
        (0.02, lambda: setattr(slurm, "away", not slurm.away)),
        (0.01, lambda: setattr(slurm, "denied", not slurm.denied)),
        (0.01, lambda: slurm.lose(node())),
        (0.02, lambda: bring_back(slurm)),
        (0.01, lambda: slurm.nodes[node()].flags.add("DRAIN")),
        (0.01, lambda: slurm.nodes[node()].flags.discard("DRAIN")),
        (0.01, lambda: slurm.reservations and slurm.reservations.pop(rng.choice([*slurm.reservations]))),
        (0.01, extend),
        (0.01, reserve),
        (0.02, lambda: slurm.jobs and slurm.cancel(rng.choice([*slurm.jobs]))),
    ]


def bring_back(slurm: FakeSlurm) -> None:
    for name, node in slurm.nodes.items():
        if node.base == "DOWN":
            slurm.bring_back(name)


def mend(slurm: FakeSlurm) -> None:
    slurm.away = slurm.denied = False
    bring_back(slurm)
    for node in slurm.nodes.values():
        node.flags.discard("DRAIN")
    slurm.reservations.pop("theirs", None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [*range(1, 6), 0])
def test_every_job_is_over_in_the_end(seed: int):
    rng = random.Random(seed)
    suspend_s = rng.choice((15.0, math.inf))
    slurm = shared_slurm(5, suspend_s=suspend_s, version=rng.choice(("22.05.8", "23.11.4")))
    falls = [(60.0 * at + rng.choice((0, 0, 17)), rng.randint(0, 5)) for at in range(1, 12)]
    beside = NodesBeside(slurm, [(0.0, 5), *falls, (900.0, 5)], poll_s=rng.choice((1.0, 5.0)))
    all_mishaps = mishaps(slurm, rng)

    def each() -> None:
        if slurm.now_s - beside.bridge.epoch_s > QUIET_FROM_S:
            mend(slurm)
            return
        for chance, happens in all_mishaps:
            if rng.random() < chance:
                happens()

    beside.go(2000, each)
    assert all_over(slurm)
    assert not beside.session.cluster.running
    assert not [*beside.session.cluster.queue]
    assert beside.session.cluster.all_available
    assert not slurm.reservations
