"""Checks of the Slurm configuration for an external scheduler; each finding has the line to add."""

from __future__ import annotations

import math
import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.findings import Finding, fails, odd
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.slurm.partition_platform import of_partition
from beasy_sched.plugins.slurm.priority_order import ShareReader, order_of_site, order_text
from beasy_sched.plugins.slurm.records import MARK, SlurmJob, SlurmNode, compressed
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.units import counted

TRIED: Final = ((22, 5), (24, 11), (25, 11), (26, 5))
"""Versions that were tested with real daemons; for others, only the format of the output is known."""
_EXCLUSIVE_SINCE: Final = (26, 5)
"""Version since which a partition has ``Exclusive=NODE`` instead of ``OverSubscribe=EXCLUSIVE``."""
OLDEST: Final = (22, 5)
OFTEN_S: Final = 86_400.0
"""Below this SuspendTime, Slurm itself often puts nodes to sleep, s."""
_NO_RIGHTS: Final = "slurm-rights"
"""Code of the finding that this user has no rights to make changes."""
_SHARED: Final = "slurm-shared"
"""Code of the finding that jobs may share nodes."""
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
    order: str
    """Description of the order by priority."""
    script: str | None
    """Content of job_submit.lua; None if it cannot be read on this computer."""
    rights: str
    """The role by which this user may change jobs and nodes, such as ``root``; empty for none."""


def look_at_cluster(
    slurm: Slurm, partition: str | None, now_s: Callable[[], float], user: str | None = None
) -> SlurmFacts:
    """Query a cluster. Raises SlurmAway, CommandFailed, and ConfigError for an unknown partition."""
    config = slurm.config()
    ahead_s = float(config["now"]) - int(now_s()) if "now" in config else None
    nodes = of_partition(slurm.nodes(), partition)
    order = order_of_site(config)
    ShareReader(slurm, order).read(now_s())
    waiting = [job for job in slurm.jobs() if job.waits and partition in job.partitions]
    return SlurmFacts(
        version=slurm.version,
        config=config,
        partition=partition,
        settings={} if partition is None else slurm.partition(partition),
        nodes=nodes,
        jobs=waiting,
        ahead_s=ahead_s,
        order=order_text(order),
        script=_script(config),
        rights=_rights(slurm, config, user or _user()),
    )


def _script(config: Mapping[str, str]) -> str | None:
    """Return the content of job_submit.lua, which is next to slurm.conf."""
    if "SLURM_CONF" not in config:
        return None
    try:
        script = read_bytes(Path(config["SLURM_CONF"]).with_name("job_submit.lua"))
    except InputError:
        return None
    return script.decode(errors="replace")


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
    yield "--order priority", found.order
    if found.ahead_s is not None:
        yield "clocks", f"{abs(found.ahead_s):g} s apart"
    yield "rights", found.rights or "no right to change jobs and nodes"


def cluster_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield errors, which keep a scheduler from acting, and warnings."""
    yield from version_findings(found)
    yield from _power_saving(found)
    yield from _held(found)
    yield from rights_findings(found)
    yield from _whole_nodes(found)
    yield from clock_findings(found)
    yield from nodes_out_findings(found)


def rights_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield an error if this user may not change the cluster."""
    if not found.rights:
        yield fails(
            _NO_RIGHTS,
            "this user may not change jobs and nodes: be root or the SlurmUser"
            f" ({found.config.get('SlurmUser', '?')}), or with accounting:"
            " sacctmgr modify user NAME set adminlevel=Operator",
        )


def _whole_nodes(found: SlurmFacts) -> Iterator[Finding]:
    if not _gives_whole_nodes(found) and found.partition is not None:
        setting = "Exclusive=NODE" if found.version >= _EXCLUSIVE_SINCE else "OverSubscribe=EXCLUSIVE"
        yield fails(
            _SHARED,
            f"SelectType is {found.config.get('SelectType')}: jobs may share nodes, which are hosts here; add"
            f" to the partition's line in slurm.conf: PartitionName={found.partition} ... {setting};"
            " or let Slurm place the jobs: --mode nodes-only",
        )


def clock_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield a warning if the controller's clock differs from the local one."""
    if found.ahead_s is not None and abs(found.ahead_s) > APART_S:
        side = "ahead of" if found.ahead_s > 0 else "behind"
        yield odd(
            "slurm-clock",
            f"the controller's clock is {abs(found.ahead_s):g} s {side} this computer's, so jobs seem"
            " to start and end at wrong times: synchronize both by NTP (timedatectl set-ntp true)",
        )


def nodes_out_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield a warning of nodes that are out of service."""
    out = [node.name for node in found.nodes if node.state == "DOWN" or "DRAIN" in node.flags]
    if out:
        yield odd("slurm-nodes-out", f"{counted(len(out), 'node')} out of service: {compressed(out)}")


def _gives_whole_nodes(found: SlurmFacts) -> bool:
    settings = found.settings
    exclusive = settings.get("OverSubscribe") == "EXCLUSIVE" or settings.get("Exclusive") in ("NODE", "TOPO")
    return exclusive or "linear" in found.config.get("SelectType", "")


def acting_findings(found: SlurmFacts) -> list[str]:
    """Return what the cluster lacks for --act.

    Raises ConfigError for a user without rights, and for a partition whose jobs share nodes.
    """
    findings = {finding.code: finding.text for finding in cluster_findings(found)}
    for code in (_NO_RIGHTS, _SHARED):
        if code in findings:
            raise ConfigError(f"--act: {findings[code]}")
    return [*findings.values()]


def version_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield an error for a version that is too old, and a warning for one that was not tested."""
    year, month = found.version
    if found.version < OLDEST:
        yield fails("slurm-old", f"Slurm {year}.{month:02} is too old: expected 22.05 or later")
    elif found.version not in TRIED:
        yield odd("slurm-version", f"Slurm {year}.{month:02} has not been tested: begin with --shadow")


def _power_saving(found: SlurmFacts) -> Iterator[Finding]:
    """Check power saving, without which Slurm rejects ``scontrol update ... State=POWER_DOWN``."""
    where, text, after_s = _suspend_time(found)
    if after_s is None:
        yield fails(
            "slurm-suspend-time",
            f"SuspendTime is {text}: Slurm's power saving is disabled; add to"
            f" slurm.conf (a large value leaves power decisions to the scheduler): {LEFT_TO_US}",
        )
    elif after_s < OFTEN_S:
        yield fails(
            "slurm-suspend-time",
            f"SuspendTime is {text}: Slurm itself switches off nodes after this idle time; to leave"
            f" this to the scheduler, set {where}: {LEFT_TO_US}",
        )
    yield from programs_findings(found)


def programs_findings(found: SlurmFacts) -> Iterator[Finding]:
    """Yield an error for each missing program that switches nodes."""
    for name, does in (("SuspendProgram", "off"), ("ResumeProgram", "on")):
        if found.config.get(name, "") in _MISSING:
            yield fails(
                f"slurm-{name.removesuffix('Program').lower()}-program",
                f"{name} is missing: the program that switches the nodes named in its argument {does};"
                f" add to slurm.conf: {name}=/etc/slurm/{name.removesuffix('Program').lower()}",
            )


def _suspend_time(found: SlurmFacts) -> tuple[str, str, float | None]:
    """Return where the shortest SuspendTime is set, its text, and its value, s; None if no node is switched.

    The setting of a node comes before that of its partition, and both before that of the cluster.
    """
    own = {node.name: node.suspend_s for node in found.nodes if node.suspend_s is not None}
    short = {name: value for name, value in own.items() if value < OFTEN_S}
    if short:
        least_s = min(short.values())
        return f"for nodes {compressed(short)} in slurm.conf", f"{least_s:g} s", least_s
    of_partition = found.settings.get("SuspendTime", "GLOBAL")
    is_global = of_partition in ("GLOBAL", "NONE")
    text = found.config.get("SuspendTime", "NONE") if is_global else of_partition
    number = re.match(r"\d+", text)
    where = "in slurm.conf" if is_global else f"on the line of partition {found.partition} in slurm.conf"
    if number is None:
        return where, text, min((value for value in own.values() if value < math.inf), default=None)
    return where, text, float(number[0])


def hold_script(partition: str, uid: int = 0, *, whole: bool = True) -> str:
    """Return the script of the plugin job_submit/lua that holds and marks jobs submitted to a partition.

    Besides root, only the user ``uid`` may release them. ``whole``: with the functions that Slurm calls;
    otherwise only those to call from a script of the site.
    """
    return _functions(partition, uid) + (_HOOKS if whole else "")


def _functions(partition: str, uid: int) -> str:
    starters = ", ".join(f"[{number}] = true" for number in sorted({0, uid}))
    return f"""\
-- Hold jobs submitted to the partition {partition}; beasy-sched releases them.
local held = "{partition}"
local starters = {{ {starters} }}  -- ids of the users who may release them

local function is_held_partition(names)
   for name in string.gmatch(names or "", "[^,]+") do
      if name == held then
         return true
      end
   end
   return false
end

-- To be called by slurm_job_submit.
function beasy_sched_submit(job_desc, part_list)
   local asked = job_desc.partition
   if asked == nil then
      for name, part in pairs(part_list) do
         if part.flag_default ~= 0 then
            asked = name
         end
      end
   end
   if is_held_partition(asked) and job_desc.priority ~= 0 then  -- its user does not hold it
      job_desc.priority = 0
      job_desc.admin_comment = "{MARK}"
   end
end

-- To be called by slurm_job_modify, which returns slurm.ERROR if this is true: a release by another user.
function {_REFUSES}(job_desc, job_rec, modify_uid)
   local priority = job_desc.priority
   local releases = priority ~= nil and priority ~= slurm.NO_VAL and priority ~= 0
   local is_held = job_rec.priority == 0 and is_held_partition(job_rec.partition)
   local is_marked = string.sub(job_rec.admin_comment or "", 1, {len(MARK)}) == "{MARK}"
   if releases and is_held and is_marked and not starters[modify_uid] then
      slurm.log_user("jobs of partition " .. held .. " are started by {MARK}")
      return true
   end
   return false
end
"""


_REFUSES: Final = "beasy_sched_refuses"
"""Function of the script that keeps users from releasing their jobs."""
_HOOKS: Final = f"""
function slurm_job_submit(job_desc, part_list, submit_uid)
   beasy_sched_submit(job_desc, part_list)
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   if {_REFUSES}(job_desc, job_rec, modify_uid) then
      return slurm.ERROR
   end
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
    if found.partition is not None and found.script is not None:
        yield from _merged(found.partition, found.script)
    free = [job.id for job in found.jobs if job.priority and job.reason not in ("Dependency", "BeginTime")]
    if free:
        yield odd(
            "slurm-free",
            f"{counted(len(free), 'job')} of the partition wait and are not held, so Slurm will start them"
            f" ({', '.join(free[:5])}{', ...' if len(free) > 5 else ''}): hold them with 'scontrol hold', and"
            f" create the script that holds jobs on submission: {script}",
        )


def _merged(partition: str, script: str) -> Iterator[Finding]:
    """Check a site's job_submit.lua."""
    print_it = f"beasy-sched slurm check --partition {partition} --script"
    if MARK not in script or f'"{partition}"' not in script:
        yield fails(
            "slurm-script",
            f"job_submit.lua does not hold the jobs of partition {partition}: replace it by the output of"
            f" '{print_it}', or add that of '{print_it} --merge' to it and call its functions",
        )
    elif _REFUSES not in script:
        yield odd(
            "slurm-script",
            "job_submit.lua is of an earlier version: users can release their jobs, which may then share"
            f" nodes with others; replace it by the output of '{print_it}'",
        )
