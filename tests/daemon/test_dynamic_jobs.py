"""A simulator that lets its scheduler register jobs: the daemon says at once that it registers none."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from daemon.serving import END, Peer, job, raw, serving
from simulator.small import job as workload_job
from simulator.small import write_files
from tiny import begins

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.protocol import batsim4


@pytest.mark.sampled
@pytest.mark.parametrize("options", [(), ("--acknowledge-dynamic-jobs",)], ids=["", "acknowledged"])
def test_a_simulation_with_dynamic_jobs_ends(tmp_path: Path, options: tuple[str, ...]) -> None:
    platform, workload = write_files(tmp_path, [workload_job("a"), workload_job("b", 3.0, 4)])
    with serving(tmp_path, "--policy", "easy") as daemon:
        inputs = ("-p", str(platform), "-w", str(workload), "-s", daemon.endpoint)
        code = exit_code(
            "batsim", *inputs, "-e", str(tmp_path / "sim"), "-q", "--enable-dynamic-jobs", *options
        )
        assert (code, daemon.wait()) == (0, 0)
    summary = daemon.summary()
    assert (summary["complete"], summary["jobs"]["finished"]) == (True, 2)


@pytest.mark.slow
def test_the_first_reply_finishes_the_registration(tmp_path: Path) -> None:
    told = begins(4)
    dynamic = e.SimulationBegins(0.0, told.resources, {"dynamic-jobs-enabled": True})
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        reply = batsim4.decode_reply(peer.ask(raw(dynamic)))
        assert reply.decisions == [d.FinishRegistration(0.0)]
        later = [batsim4.decode_reply(peer.ask(message)) for message in (raw(job("a")), END)]
        assert not any(type(x) is d.FinishRegistration for reply in later for x in reply.decisions)
        assert daemon.wait() == 0
