"""Checks of the Slurm configuration for an external scheduler; each finding has the line to add."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, fails, odd
from beasy_sched.slurm.partition_platform import of_partition
from beasy_sched.slurm.records import MARK, SlurmJob, SlurmNode, compressed
from beasy_sched.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.units import counted

TRIED: Final = ((22, 5),)
"""Tested versions; for later ones, only the format of the output is known."""
OLDEST: Final = (22, 5)
OFTEN_S: Final = 86_400.0
"""Below this SuspendTime, Slurm itself often puts nodes to sleep, s."""
_NO_RIGHTS: Final = "slurm-rights"
"""Code of the finding that this user has no rights to make changes."""
APART_S: Final = 2.0
"""Largest difference of clocks without a warning, s."""
LEFT_TO_US: Final = "SuspendTime=8640000"
_MISSING: Final = ("", "(null)", "NONE", "N/A")


@dataclass(frozen=True)
class SlurmFacts:
    """Properties of a cluster that are checked."""

    version: tuple[int, int]
    config: Mapping[str, str]
    partition: str | None
    """The checked partition; None for the cluster alone."""
    settings: Mapping[str, str]
    """Settings of the partition; empty without one."""
    nodes: Sequence[SlurmNode]
    """Nodes of the partition, or all."""
    jobs: Sequence[SlurmJob]
    """Jobs that are waiting in the partition."""
    ahead_s: float | None
    """Lead of the controller's clock over the local one, s; None if unknown."""
    rights: str
    """The role by which this user may change jobs and nodes, such as ``root``; empty for none."""


def look_at_cluster(
    slurm: Slurm, partition: str | None, now_s: Callable[[], float], user: str | None = None
) -> SlurmFacts:
    """Query a cluster. Raises SlurmAway, CommandFailed, and ConfigError for an unknown partition."""
    config = slurm.config()
    ahead_s = float(config["now"]) - int(now_s()) if "now" in config else None
    nodes = of_partition(slurm.nodes(), partition)
    waiting = [job for job in slurm.jobs() if job.waits and partition in job.partitions]
    return SlurmFacts(
        version=slurm.version,
        config=config,
        partition=partition,
        settings={} if partition is None else slurm.partition(partition),
        nodes=nodes,
        jobs=waiting,
        ahead_s=ahead_s,
        rights=_rights(slurm, config, user or _user()),
    )


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _rights(slurm: Slurm, config: Mapping[str, str], user: str) -> str:
    if user == "root" or user == config.get("SlurmUser", "").partition("(")[0]:
        return user
    try:
        level = slurm.admin_level(user)
    except CommandFailed:  # no accounting
        return ""
    return f"{level} {user}" if level in ("Operator", "Administrator") else ""


def cluster_facts(found: SlurmFacts) -> Iterator[tuple[str, str]]:
    """Yield names and values of the properties."""
    year, month = found.version
    tested = "tested" if found.version in TRIED else "not tested"
    yield "Slurm", f"{found.config.get('SLURM_VERSION', f'{year}.{month:02}')} ({tested})"
    where = "nodes" if found.partition is None else f"partition {found.partition}"
    yield where, f"{len(found.nodes)}: {compressed(node.name for node in found.nodes)}"
    held = sum(job.is_held for job in found.jobs)
    if found.partition is not None:
        yield "jobs waiting", f"{len(found.jobs)}, of which {held} are held"
    for title, names in (
        ("power saving", ("SuspendTime", "SuspendProgram", "ResumeProgram")),
        ("timeouts", ("SuspendTimeout", "ResumeTimeout")),
        ("held on submission", ("JobSubmitPlugins",)),
        ("whole nodes", ("SelectType", "SelectTypeParameters")),
        ("start of jobs", ("SchedulerType", "SchedulerParameters")),
    ):
        yield title, ", ".join(f"{name}={found.config.get(name, '(null)')}" for name in names)
    if found.ahead_s is not None:
        yield "clocks", f"{abs(found.ahead_s):g} s apart"
    yield "rights", found.rights or "no right to change jobs and nodes"


def cluster_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield errors, which keep a scheduler from acting, and warnings."""
    yield from _version(found)
    yield from _power_saving(found)
    yield from _held(found)
    if not found.rights:
        yield fails(
            _NO_RIGHTS,
            "this user may not change jobs and nodes: be root or the SlurmUser"
            f" ({found.config.get('SlurmUser', '?')}), or with accounting:"
            " sacctmgr modify user NAME set adminlevel=Operator",
        )
    whole = (
        "linear" in found.config.get("SelectType", "") or found.settings.get("OverSubscribe") == "EXCLUSIVE"
    )
    if not whole and found.partition is not None:
        yield odd(
            "slurm-shared",
            f"SelectType is {found.config.get('SelectType')}: jobs may share nodes, which are hosts here; add"
            f" to the partition's line in slurm.conf: PartitionName={found.partition} ..."
            " OverSubscribe=EXCLUSIVE",
        )
    if found.ahead_s is not None and abs(found.ahead_s) > APART_S:
        side = "ahead of" if found.ahead_s > 0 else "behind"
        yield odd(
            "slurm-clock",
            f"the controller's clock is {abs(found.ahead_s):g} s {side} this computer's, so jobs seem"
            " to start and end at wrong times: synchronize both by NTP (timedatectl set-ntp true)",
        )
    out = [node.name for node in found.nodes if node.state == "DOWN" or "DRAIN" in node.flags]
    if out:
        yield odd("slurm-nodes-out", f"{counted(len(out), 'node')} out of service: {compressed(out)}")


def acting_findings(found: SlurmFacts) -> list[str]:
    """Return what the cluster lacks for --act. Raises ConfigError for a user without rights."""
    findings = {finding.code: finding.text for finding in cluster_findings(found)}
    if _NO_RIGHTS in findings:
        raise ConfigError(f"--act: {findings[_NO_RIGHTS]}")
    return [*findings.values()]


def _version(found: SlurmFacts) -> Iterator[Finding]:
    year, month = found.version
    if found.version < OLDEST:
        yield fails("slurm-old", f"Slurm {year}.{month:02} is too old: expected 22.05 or later")
    elif found.version not in TRIED:
        yield odd("slurm-version", f"Slurm {year}.{month:02} has not been tested: begin with --shadow")


def _power_saving(found: SlurmFacts) -> Iterator[Finding]:
    """Check power saving, without which Slurm rejects ``scontrol update ... State=POWER_DOWN``."""
    config = found.config
    text = config.get("SuspendTime", "NONE")
    number = re.match(r"\d+", text)
    if number is None:
        yield fails(
            "slurm-suspend-time",
            f"SuspendTime is {text}: Slurm's power saving is disabled; add to slurm.conf"
            f" (a large value leaves power decisions to the scheduler): {LEFT_TO_US}",
        )
    elif float(number[0]) < OFTEN_S:
        yield odd(
            "slurm-suspend-time",
            f"SuspendTime is {text}: Slurm itself switches off nodes after this idle time; to leave this"
            f" to the scheduler, set in slurm.conf: {LEFT_TO_US}",
        )
    for name, does in (("SuspendProgram", "off"), ("ResumeProgram", "on")):
        if config.get(name, "") in _MISSING:
            yield fails(
                f"slurm-{name.removesuffix('Program').lower()}-program",
                f"{name} is missing: the program that switches the nodes named in its argument {does};"
                f" add to slurm.conf: {name}=/etc/slurm/{name.removesuffix('Program').lower()}",
            )


def hold_script(partition: str) -> str:
    """Return the script of the plugin job_submit/lua that holds and marks jobs submitted to a partition."""
    return f"""\
-- Hold jobs submitted to the partition {partition}; beasy-sched releases them.
local held = "{partition}"

function slurm_job_submit(job_desc, part_list, submit_uid)
   local asked = job_desc.partition
   if asked == nil then
      for name, part in pairs(part_list) do
         if part.flag_default ~= 0 then
            asked = name
         end
      end
   end
   for name in string.gmatch(asked or "", "[^,]+") do
      if name == held and job_desc.priority ~= 0 then  -- its user does not hold it
         job_desc.priority = 0
         job_desc.admin_comment = "{MARK}"
      end
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end
"""


def _held(found: SlurmFacts) -> Iterator[Finding]:
    partition = found.partition or "PARTITION"
    script = f"beasy-sched slurm check --partition {partition} --script > job_submit.lua"
    if "lua" not in found.config.get("JobSubmitPlugins", "").split(","):
        yield fails(
            "slurm-not-held",
            "jobs are not held on submission: add to slurm.conf: JobSubmitPlugins=lua; and create the script"
            f" next to it: {script}",
        )
        return
    free = [job.id for job in found.jobs if job.priority and job.reason not in ("Dependency", "BeginTime")]
    if free:
        yield odd(
            "slurm-free",
            f"{counted(len(free), 'job')} of the partition wait and are not held, so Slurm will start them"
            f" ({', '.join(free[:5])}{', ...' if len(free) > 5 else ''}): hold them with 'scontrol hold', and"
            f" create the script that holds jobs on submission: {script}",
        )
