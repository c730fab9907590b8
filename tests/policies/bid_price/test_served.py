"""bid-price with a plan in two processes: `beasy-sched serve` and `beasy-sched batsim` decide as one does."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from processes import free_endpoint, program, started
from small_site import small_site

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


@pytest.mark.slow
def test_two_processes_decide_as_one(tmp_path: Path) -> None:
    site, plan = small_site(tmp_path, jobs=60), tmp_path / "plan.msgpack"
    files = ("-p", str(site.platform), "-w", str(site.workload))
    planned = ("plan", *files, "--production", str(site.events), "--site", str(site.site))
    assert exit_code(*planned, "-o", str(plan), "-q") == 0
    inputs = (*files, "--events", str(site.events))
    settings = ("--site", str(site.site), "--policy", "bid-price")
    with_plan = (*settings, "--plan", str(plan))
    assert exit_code("simulate", *inputs, *with_plan, "-e", str(tmp_path / "one"), "-q") == 0

    endpoint, out = free_endpoint(), str(tmp_path / "two")
    serve = (program("beasy-sched"), "serve", "-s", endpoint, "-p", str(site.platform), *with_plan, "-e", out)
    batsim = (program("beasy-sched"), "batsim", "-s", endpoint, *inputs, "-E", "--forward-unknown-events")
    logs = tmp_path / "logs"
    logs.mkdir()
    with started(serve, tmp_path) as daemon, started((*batsim, "-e", out), logs) as simulator:
        assert simulator.wait() == 0, simulator.said()
        assert daemon.wait() == 0, daemon.said()
    for name in ("jobs.csv", "decisions.jsonl", "energy_trace.csv"):
        assert Path(f"{out}_{name}").read_bytes() == (tmp_path / f"one_{name}").read_bytes(), name

    # The plan matters here, so it has reached the daemon.
    assert exit_code("simulate", *inputs, *settings, "-e", str(tmp_path / "none"), "-q") == 0
    assert Path(f"{out}_decisions.jsonl").read_bytes() != (tmp_path / "none_decisions.jsonl").read_bytes()
