"""Checks of a cluster for the nodes-only mode, and what its first step would do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, Level, fails, odd
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm.cluster_check import (
    SlurmFacts,
    clock_findings,
    nodes_out_findings,
    programs_findings,
    rights_findings,
    version_findings,
)
from beasy_sched.plugins.slurm.low_partition import low_findings
from beasy_sched.plugins.slurm.partition_platform import of_partition
from beasy_sched.plugins.slurm.records import SlurmNode, compressed
from beasy_sched.plugins.slurm.reservations import Names, NodeReservation
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.plugins.slurm.withholder import check_names

_UNSWITCHED: Final = ("", "(null)", "NONE", "INFINITE", "N/A")
"""Values of SuspendTime without which Slurm switches no node."""


@dataclass(frozen=True)
class LowFacts:
    """The partition of low-class jobs."""

    name: str
    settings: Mapping[str, str]
    nodes: Sequence[SlurmNode]
    """All nodes of the cluster."""


def look_at_low(slurm: Slurm, name: str | None) -> LowFacts | None:
    """Query the partition of low-class jobs; None without one.

    Raises SlurmAway, CommandFailed, and ConfigError for an unknown partition.
    """
    if name is None:
        return None
    nodes = slurm.nodes()
    of_partition(nodes, name)
    return LowFacts(name, slurm.partition(name), nodes)


def offering_facts(
    found: SlurmFacts, reservations: Sequence[NodeReservation], low: LowFacts | None = None
) -> Iterator[tuple[str, str]]:
    """Yield names and values of the properties that matter in the nodes-only mode."""
    yield "mode", "nodes-only: Slurm starts jobs, the policy decides how many nodes may be on"
    names = Names.of(found.partition or "PARTITION")
    yield "our reservations", f"{names.now} (now), {names.ahead} (from the next fall)"
    others = [each.name for each in reservations if not names.are_for(each.name)]
    yield "reservations of others", ", ".join(others) or "none"
    if low is not None:
        state = low.settings.get("State", "unknown")
        yield "low partition", f"{low.name}, now {state}: DOWN while energy is scarce, otherwise UP"
    yield "first step", _first_step(found, reservations, names)


def _first_step(found: SlurmFacts, reservations: Sequence[NodeReservation], names: Names) -> str:
    """Return which nodes the first step would withhold first."""
    held = {node for each in reservations if not names.are_for(each.name) for node in each.nodes}
    free = [node for node in found.nodes if not node.is_lost and node.name not in held]
    asleep = [node.name for node in free if node.is_off]
    idle = [node.name for node in free if node.is_up and node.state == "IDLE"]
    busy = [node.name for node in free if node.name not in {*asleep, *idle}]
    groups = (("asleep", asleep), ("idle", idle), ("the rest when it is free", busy))
    order = "; ".join(f"{what}: {compressed(group)}" for what, group in groups if group)
    return f"withholds the nodes beyond the policy's offer, of {len(free)}, in this order: {order or 'none'}"


def offering_checks(
    found: SlurmFacts, reservations: Sequence[NodeReservation], low: LowFacts | None = None
) -> Iterator[Finding]:
    """Yield errors, which keep the nodes-only mode from acting, and warnings."""
    yield from version_findings(found)
    of_all = found.config.get("SuspendTime", "NONE")
    if of_all in _UNSWITCHED and found.settings.get("SuspendTime", "NONE") in _UNSWITCHED:
        yield fails(
            "slurm-suspend-time",
            f"SuspendTime is {of_all}: Slurm's power saving is disabled, so"
            " that nodes cannot be powered down; add to slurm.conf: SuspendTime=600 (or any other time)",
        )
    yield from programs_findings(found)
    yield from rights_findings(found)
    if low is not None:
        yield from low_findings(low.settings, low.name, found.partition or "", low.nodes, found.rights)
    try:
        check_names(reservations, found.partition or "", (node.name for node in found.nodes))
    except ConfigError as error:
        yield fails("slurm-reservation-name", str(error))
    yield from clock_findings(found)
    yield from nodes_out_findings(found)


def waking_findings(found: SlurmFacts, platform: Platform) -> Iterator[Finding]:
    """Yield a warning if Slurm gives up nodes before they can have woken."""
    seconds = re.match(r"\d+", found.config.get("ResumeTimeout", ""))
    longest_s = max((kind.on_duration_s() for kind in platform.kinds if kind.sleeps), default=0.0)
    if seconds is not None and float(seconds[0]) <= longest_s:
        yield odd(
            "slurm-resume-timeout",
            f"ResumeTimeout is {seconds[0]} s, and waking a node takes {longest_s:g} s by the platform file:"
            " Slurm would mark waking nodes as down; set in slurm.conf:"
            f" ResumeTimeout={int(2 * longest_s) + 1}",
        )


def offering_findings(
    found: SlurmFacts,
    reservations: Sequence[NodeReservation],
    platform: Platform,
    *,
    acts: bool,
    low: LowFacts | None = None,
) -> list[str]:
    """Return the warnings before a run: all findings, if it only reports.

    Raises ConfigError for what keeps a run that ``acts`` from doing so.
    """
    findings = [*offering_checks(found, reservations, low), *waking_findings(found, platform)]
    wrong = next((each for each in findings if each.level is Level.FAILS), None)
    if acts and wrong is not None:
        raise ConfigError(f"--mode nodes-only: {wrong.text}")
    return [each.text for each in findings]
