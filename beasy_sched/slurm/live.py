"""A run beside a cluster, from its settings to its files: the policy here, or a scheduler elsewhere."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.site import Site
from beasy_sched.engine import Session
from beasy_sched.errors import ConfigError, PeerError, why
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.limits import MOST_WINDOWS, shortened
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.rolling import LIMIT_SERVING_S, replanned
from beasy_sched.run.settings import RunSettings, build_session
from beasy_sched.simulator.zmq_client import ZmqScheduler
from beasy_sched.slurm.actions import SetFrequency
from beasy_sched.slurm.bridge import Acting, ActingRules, Bridge, unknown_nodes
from beasy_sched.slurm.commands import CommandFailed, Slurm
from beasy_sched.slurm.journal import Journal
from beasy_sched.slurm.service import Pace, PowerNow, Service, release_partition
from beasy_sched.slurm.shadow import Compared, Shadow

if TYPE_CHECKING:
    from beasy_sched.reports.watch import Watch

JOURNAL: Final = "_journal.msgpack"
SHADOW: Final = "_shadow.csv"


@dataclass(frozen=True)
class LiveSettings:
    """What a run beside a cluster is, beyond what any run is."""

    partition: str
    act: bool = False
    rules: ActingRules = field(default_factory=ActingRules)
    endpoint: str | None = None
    """Where the scheduler listens; None: the policy decides in this process."""
    pace: Pace = field(default_factory=Pace)
    fail_open_s: float = 600.0
    """Without an answer of the scheduler for so long, the partition is given back, s."""
    pstate_command: str | None = None
    """Program with its arguments that sets a P-state; ``{node}``, ``{pstate}``, ``{mhz}`` are filled in."""


def check_platform(platform: Platform, settings: LiveSettings, slurm: Slurm) -> None:
    """Raise ConfigError unless the platform's hosts are nodes of the partition, and can be driven."""
    nodes = {node.name: node for node in slurm.nodes()}
    if not any(settings.partition in node.partitions for node in nodes.values()):
        known = sorted({name for node in nodes.values() for name in node.partitions})
        raise ConfigError(f"--partition: found {settings.partition!r}, expected one of {', '.join(known)}")
    inside = [node.name for node in nodes.values() if settings.partition in node.partitions]
    if missing := unknown_nodes(platform, inside):
        raise ConfigError(
            f"host {missing[0]!r} of the platform is no node of partition {settings.partition!r}"
            f" ({shortened(', '.join(inside), 60)}): make the platform with 'beasy-sched slurm platform"
            f" --partition {settings.partition}'"
        )
    several = any(len(set(kind.computing)) > 1 for kind in platform.kinds)
    if settings.act and several and settings.pstate_command is None:
        raise ConfigError(
            "the platform has several computing P-states, and nothing to set them with: pass"
            " --pstate-command, or make the platform with 'beasy-sched slurm platform --one-pstate'"
        )


def live_site(site: Site, epoch_s: float, journal: Journal | None) -> Site:
    """The site as it is now: time 0 is the epoch, and the storage holds what the journal said last."""
    zone = None if site.calendar is None else site.calendar.zone
    start = datetime.fromtimestamp(epoch_s, timezone.utc).astimezone()
    storage, level = site.storage, None if journal is None else journal.last("level")
    if level is not None:
        battery, hydrogen = storage.battery, storage.hydrogen
        soc_pct = min(max(float(level["soc_pct"]), battery.soc_min_pct), battery.soc_max_pct)
        battery = replace(battery, soc_start_pct=soc_pct)
        if hydrogen is not None:
            kg = min(max(float(level["hydrogen_kg"]), 0.0), hydrogen.tank_kg)
            hydrogen = replace(hydrogen, level_start_kg=kg)
        storage = replace(storage, battery=battery, hydrogen=hydrogen)
    return replace(site, calendar=Calendar(start, zone), storage=storage)


def run_live(
    platform: Platform,
    settings: RunSettings,
    live: LiveSettings,
    files: RunFiles,
    *,
    slurm: Slurm | None = None,
    power: PowerNow | None = None,
    stopped: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[RunSummary | None, Service]:
    """Run until ``stopped`` says so or the time is over; return the summary, and the service that has run.

    The summary is None where the scheduler is elsewhere. A scheduler that fails while the bridge acts gives
    the partition back. Raises ConfigError, CommandFailed, SlurmAway and PeerError.
    """
    slurm = slurm or Slurm()
    check_platform(platform, live, slurm)
    epoch_s = math.floor(clock())
    journal = None if files.prefix is None or not live.act else Journal(Path(f"{files.prefix}{JOURNAL}"))
    bridge: Bridge
    if live.act:
        bridge = Acting(platform, live.partition, live.rules)
    else:
        bridge = Shadow(platform, live.partition, epoch_s=epoch_s)
    frequency = None if live.pstate_command is None else frequency_setter(live.pstate_command, platform)

    def service(decide: Callable[[Message], Reply], after: Callable[[float], None]) -> Service:
        return Service(
            bridge, slurm, decide, epoch_s=epoch_s, power=power, journal=journal, pace=live.pace,
            set_frequency=frequency, say=say, after_cycle=after, clock=clock, sleep=sleep,
        )  # fmt: skip

    try:
        if journal is not None:
            journal.add({"kind": "begin", "epoch": epoch_s, "partition": live.partition})
        if live.endpoint is not None:
            scheduler = ZmqScheduler(live.endpoint, timeout_s=live.fail_open_s)
            with contextlib.closing(scheduler):
                running = service(scheduler, lambda now_s: None)
                _run_failing_open(running, live, stopped, say)
            return None, running
        return _run_here(platform, settings, live, files, service, journal, epoch_s, stopped, say, watch)
    finally:
        if journal is not None:
            journal.close()


def _run_here(
    platform: Platform,
    settings: RunSettings,
    live: LiveSettings,
    files: RunFiles,
    service: Callable[[Callable[[Message], Reply], Callable[[float], None]], Service],
    journal: Journal | None,
    epoch_s: float,
    stopped: Callable[[], bool],
    say: Callable[[str], None],
    watch: Watch | None,
) -> tuple[RunSummary, Service]:
    """The same with the policy in this process."""
    with replanned(settings, lambda: platform, limit_s=LIMIT_SERVING_S, stopped=stopped) as replanner:
        log = files.log if watch is None else watch.log(files.log)
        session = build_session(
            settings, platform=platform, log=log, replan=replanner.rule, plans=replanner.plans
        )
        if session.options.site is not None:
            session.options = replace(session.options, site=live_site(session.options.site, epoch_s, journal))
        step = files.keeping_windows(session, replanner.step_of(session))
        step = step if watch is None else watch.following(session, step)
        running = service(step, _levels_noted(session, journal))
        files.begin()
        try:
            _run_failing_open(running, live, stopped, say)
        except BaseException as error:
            with contextlib.suppress(Exception):  # report the first error
                files.finish(session, why(error))
            raise
        if isinstance(running.bridge, Shadow) and files.prefix is not None:
            path = Path(f"{files.prefix}{SHADOW}")
            write_atomic(path, shadow_csv(running.bridge.compared.values()))
            files.written.append(path)
        return files.finish(session), running


def _run_failing_open(
    service: Service, live: LiveSettings, stopped: Callable[[], bool], say: Callable[[str], None]
) -> None:
    try:
        service.run(stopped)
    except Exception as error:
        if live.act:
            say(f"{error}: giving partition {live.partition!r} back to Slurm")
            with contextlib.suppress(PeerError, CommandFailed):  # it does not answer, either
                release_partition(service.slurm, live.partition, say)
        raise


def _levels_noted(session: Session, journal: Journal | None) -> Callable[[float], None]:
    """Write the storage's levels to the journal whenever a step has been settled."""
    settled_s = 0.0

    def note(now_s: float) -> None:
        nonlocal settled_s
        power = session.power
        if journal is None or power is None or power.settled.time_s == settled_s:
            return
        settled_s, held = power.settled.time_s, power.storage
        soc_pct = power.site.storage.battery.soc_pct(held.battery_j)
        journal.add({"kind": "level", "time": now_s, "soc_pct": soc_pct, "hydrogen_kg": held.hydrogen_kg})

    return note


def frequency_setter(command: str, platform: Platform) -> Callable[[SetFrequency], None]:
    """Return what runs ``command`` for each node of an action. Raises ConfigError for a bad command."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--pstate-command: {error}") from None
    if not words:
        raise ConfigError("--pstate-command: found an empty text, expected a program")
    kind_of = dict(zip(platform.names, platform.kind_of.tolist(), strict=True))

    def set_frequency(action: SetFrequency) -> None:
        for node in action.nodes:
            speeds = platform.kinds[kind_of[node]].speeds_flops
            mhz = round(speeds[action.pstate] / 1e6) if speeds else 0
            told = {"node": node, "pstate": str(action.pstate), "mhz": str(mhz)}
            filled = [_filled(word, told) for word in words]
            done = subprocess.run(filled, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if done.returncode:
                said = done.stderr.decode(errors="replace").strip()
                raise CommandFailed(filled, said or f"ended with exit code {done.returncode}")

    return set_frequency


def _filled(word: str, told: dict[str, str]) -> str:
    for name, value in told.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def shadow_csv(jobs: Iterable[Compared]) -> str:
    """Jobs as Slurm ran them and as the scheduler would have, one row each; times in s, empty for not yet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([each.name for each in fields(Compared)])
    for job in jobs:
        values = (getattr(job, each.name) for each in fields(Compared))
        writer.writerow([_cell(value) for value in values])
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else round(value, 3)
    return " ".join(value) if isinstance(value, tuple) else value


def live_windows(settings: RunSettings, site: Site | None, for_s: float | None) -> int:
    """How many windows a run of ``for_s`` seconds has; as many as can be where it has no end."""
    if site is None:
        return settings.windows
    return MOST_WINDOWS if for_s is None else max(1, math.ceil(for_s / site.window_s))
