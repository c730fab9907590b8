"""A run on a cluster, from settings to files, with a policy in this process or an external scheduler."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import msgspec

from beasy_sched.energy.moved_start import starting_at
from beasy_sched.energy.site import Site
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.formats.run_files import JOURNAL, OFFERS, SHADOW, path_of
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.site_file import parse_site
from beasy_sched.limits import MOST_WINDOWS, shortened
from beasy_sched.model.choices import OnKill, Placement
from beasy_sched.model.platform import Platform
from beasy_sched.model.restarts import NO_RESTART_SECTION
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.slurm.acting import Acting
from beasy_sched.plugins.slurm.bridge import Bridge
from beasy_sched.plugins.slurm.cluster_check import acting_findings, look_at_cluster
from beasy_sched.plugins.slurm.dry_run import DryRun
from beasy_sched.plugins.slurm.journal import Journal
from beasy_sched.plugins.slurm.kills import ClusterKills
from beasy_sched.plugins.slurm.live_settings import LiveSettings
from beasy_sched.plugins.slurm.live_settings import OnKill as OnLiveKill
from beasy_sched.plugins.slurm.low_partition import LowPartition, state_of_low
from beasy_sched.plugins.slurm.meter import EnergyMeter, open_meter
from beasy_sched.plugins.slurm.node_pstates import frequency_setter
from beasy_sched.plugins.slurm.nodes_only import NodesOnly, offers_csv
from beasy_sched.plugins.slurm.nodes_only_check import look_at_low, offering_findings
from beasy_sched.plugins.slurm.partition_platform import of_partition
from beasy_sched.plugins.slurm.priority_order import ShareReader, order_of_site
from beasy_sched.plugins.slurm.readings import BATTERY, POWER
from beasy_sched.plugins.slurm.records import SlurmAway
from beasy_sched.plugins.slurm.service import Decide, Feed, Service, release_partition
from beasy_sched.plugins.slurm.shadow import Shadow, shadow_csv
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.plugins.slurm.sources.source_opening import open_source
from beasy_sched.plugins.slurm.sources.watcher import Watcher
from beasy_sched.plugins.slurm.told_starts import ToldStarts
from beasy_sched.run.following import LiveFollower, look_ahead
from beasy_sched.run.live_forecasts import LiveForecasts, live_forecasts
from beasy_sched.run.opening import open_run
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator.zmq_client import ZmqScheduler

if TYPE_CHECKING:
    from beasy_sched.outputs.metrics import Metrics
    from beasy_sched.outputs.watch import Watch


def check_platform(platform: Platform, settings: LiveSettings, slurm: Slurm) -> None:
    """Raise ConfigError unless the platform's hosts are nodes of the partition, and can be controlled."""
    inside = [node.name for node in of_partition(slurm.nodes(), settings.partition)]
    missing = next((name for name in platform.names if name not in inside), None)
    if missing is not None:
        raise ConfigError(
            f"host {missing!r} of the platform is not a node of partition {settings.partition!r}"
            f" ({shortened(', '.join(inside), 60)}): create the platform with 'beasy-sched slurm platform"
            f" --partition {settings.partition}'"
        )
    several = any(len(set(kind.computing)) > 1 for kind in platform.kinds)
    if settings.act and several and settings.pstate_command is None:
        raise ConfigError(
            "the platform has several computing P-states, which requires --pstate-command; or"
            " create the platform with 'beasy-sched slurm platform --one-pstate'"
        )


def live_site(site: Site, epoch_s: float, journal: Journal | None) -> Site:
    """Return the current site: time 0 is the epoch, and storage levels are the last ones in the journal."""
    site = starting_at(site, datetime.fromtimestamp(epoch_s, timezone.utc).astimezone())
    storage, level = site.storage, None if journal is None else journal.last("level")
    if level is not None:
        battery, hydrogen = storage.battery, storage.hydrogen
        soc_pct = min(max(float(level["soc_pct"]), battery.soc_min_pct), battery.soc_max_pct)
        battery = replace(battery, soc_start_pct=soc_pct)
        if hydrogen is not None:
            kg = min(max(float(level["hydrogen_kg"]), 0.0), hydrogen.tank_kg)
            hydrogen = replace(hydrogen, level_start_kg=kg)
        storage = replace(storage, battery=battery, hydrogen=hydrogen)
    return replace(site, storage=storage)


class LiveRun:
    """A run on a cluster; `go` runs it."""

    def __init__(
        self,
        platform: Platform,
        settings: RunSettings,
        live: LiveSettings,
        files: RunFiles,
        *,
        slurm: Slurm | None = None,
        say: Callable[[str], None] = lambda text: None,
        stopped: Callable[[], bool] = lambda: False,
        watch: Watch | None = None,
        metrics: Metrics | None = None,
        user: str | None = None,
        followers: Sequence[LiveFollower] = (),
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin now, in whole seconds, as ``user`` (None: the current user).

        Raises ConfigError, CommandFailed, SlurmAway and InputError.
        """
        self.slurm = slurm or Slurm()
        check_platform(platform, live, self.slurm)
        if live.mode == "nodes-only":
            found = look_at_cluster(self.slurm, live.partition, clock, user)
            reservations, low = self.slurm.reservations(), look_at_low(self.slurm, live.low_partition)
            for text in offering_findings(found, reservations, platform, acts=live.act, low=low):
                say(text)
            if not live.act:
                self.slurm = DryRun(self.slurm, say)
        elif live.act:
            for text in acting_findings(look_at_cluster(self.slurm, live.partition, clock, user)):
                say(text)
        self.platform, self.settings, self.live, self.files = platform, settings, live, files
        self._say, self._stopped, self._watch, self._metrics = say, stopped, watch, metrics
        self._followers = followers
        self.epoch_s = float(math.floor(clock()))
        self._clock, self._sleep = clock, sleep
        self._order = order_of_site(self.slurm.config()) if live.order == "priority" else None
        set_frequency = None
        if live.pstate_command is not None:
            set_frequency = frequency_setter(live.pstate_command, platform)
        site = None if settings.site is None else parse_site(settings.site, settings.site_name)
        self._step_s = math.inf if site is None else site.step_s
        self._restarts = NO_RESTART_SECTION if site is None else site.restarts
        self._feeds, self.bridge = self._both_sides()
        if live.tell_users and isinstance(self.bridge, Acting):
            self.bridge.told_starts = ToldStarts(self.epoch_s)
        self._journal: Journal | None = None
        if live.act and files.prefix is not None:
            self._journal = Journal(path_of(files.prefix, JOURNAL))
        self.service = Service(
            self.bridge,
            self.slurm,
            feeds=self._feeds,
            journal=self._journal,
            poll_s=live.interval_s,
            for_s=live.for_s,
            set_frequency=set_frequency,
            refresh=(lambda now_s: None)
            if self._order is None
            else ShareReader(self.slurm, self._order).read,
            say=say,
            clock=clock,
            sleep=sleep,
        )

    def _both_sides(self) -> tuple[list[Feed], Bridge]:
        """Return the sources, and the bridge that receives their readings."""
        live, epoch_s = self.live, self.epoch_s
        power, battery = (
            None if text is None else open_source(text, quantity, epoch_s=epoch_s)
            for text, quantity in ((live.power, POWER), (live.battery, BATTERY))
        )
        measured, meter = open_meter(live.meter, self.slurm, self.platform, epoch_s), EnergyMeter(epoch_s)
        bridge = self._bridge(None if measured is None else meter.used_j)
        words = (
            (power, bridge.announce),
            (battery, bridge.measured),
            (measured, lambda now_s, reading: meter.take(reading)),
        )
        opened = ((source, tell) for source, tell in words if source is not None)
        return [(Watcher(source, live.power_stale_s, epoch_s), tell) for source, tell in opened], bridge

    def _bridge(self, used_j: Callable[[float], float] | None) -> Bridge:
        live = self.live
        if live.mode == "nodes-only":
            return NodesOnly(
                self.platform,
                live.partition,
                epoch_s=self.epoch_s,
                step_s=self._step_s,
                used_j=used_j,
                kills=None if live.on_kill is None else self._kills(live.on_kill),
                low=self._low_partition(),
            )
        if not live.act:
            return Shadow(self.platform, live.partition, epoch_s=self.epoch_s)
        return Acting(
            self.platform,
            live.partition,
            epoch_s=self.epoch_s,
            used_j=used_j,
            adopts=live.endpoint is None,
            kills=self._kills(live.on_kill or "drop"),
            on_reject=live.on_reject,
            order=self._order,
        )

    def _kills(self, on_kill: OnLiveKill) -> ClusterKills:
        """Return the treatment of kills; the policy of this process knows the lives of a job."""
        return ClusterKills(on_kill, self._restarts, names_lives=self.settings.on_kill is not msgspec.UNSET)

    def _low_partition(self) -> LowPartition | None:
        name = self.live.low_partition
        return None if name is None else LowPartition(name, state_of_low(self.slurm.partition(name), name))

    def go(self) -> RunSummary | None:
        """Run until stopped or the time is over; return the summary (None for an external scheduler).

        If the scheduler fails while the bridge acts, the partition is returned to Slurm. Raises PeerError,
        and any error that ends a run early.
        """
        with contextlib.ExitStack() as closing:
            for source, _ in self._feeds:
                closing.callback(source.close)
            if self._journal is not None:
                closing.callback(self._journal.close)
                self._journal.add({"kind": "begin", "epoch": self.epoch_s, "partition": self.live.partition})
            if self.live.endpoint is None:
                return self._go_here()
            scheduler = ZmqScheduler(self.live.endpoint, timeout_s=self.live.fail_open_s)
            closing.callback(scheduler.close)
            self._serve(scheduler, lambda now_s: None)
            return None

    def _go_here(self) -> RunSummary:
        """Run with the policy in this process."""
        files = self.files

        def site_now(site: Site) -> Site:
            return live_site(site, self.epoch_s, self._journal)

        forecasts = LiveForecasts(
            self.settings, epoch_s=self.epoch_s, site_now=site_now, say=self._say, clock=self._clock
        )
        with (
            live_forecasts(forecasts),
            open_run(
                files,
                lambda: self.platform,
                observers=(
                    *(each for one in self._followers for each in one.observers),
                    self._metrics,
                    self._watch,
                ),
                site_now=site_now,
                options_now=self._with_guard if isinstance(self.bridge, NodesOnly) else None,
                stopped=self._stopped,
                live=forecasts,
            ) as running,
        ):
            session = running.session
            if isinstance(self.bridge, NodesOnly):
                self.bridge.offers = lambda: session.offers
            for follower in self._followers:
                follower.join(running, files, self.bridge.user_of)
            with files.finished_on_error(session), self._followed(files):
                self._serve(running.step, self._noting(session))
            if isinstance(self.bridge, Shadow):
                files.add(SHADOW, shadow_csv(self.bridge.compared.values()))
            if isinstance(self.bridge, NodesOnly):
                files.add(OFFERS, offers_csv(self.bridge.rows))
            return files.finish(session)

    @contextlib.contextmanager
    def _followed(self, files: RunFiles) -> Iterator[None]:
        """End what follows the run after the block, also if it fails."""
        try:
            yield
        finally:
            for follower in self._followers:
                follower.end(files)

    def _look_ahead(self, now_s: float) -> None:
        """Let those who follow the run act, and pass a new forecast on."""
        news = look_ahead(self._followers, now_s, (self._metrics, self._watch))
        if news is not None and isinstance(self.bridge, Acting) and self.bridge.told_starts is not None:
            self.bridge.told_starts.take(news)

    def _with_guard(self, options: SessionOptions) -> SessionOptions:
        """Return a session's options with a guard that kills jobs only if the user wants that."""
        return replace(options, guard_kills=self.live.on_kill is not None)

    def _serve(self, decide: Decide, after: Callable[[float], None]) -> None:
        """Run the loop; return the partition to Slurm if it fails."""
        try:
            self.service.run(decide, self._stopped, after)
            self._release_low()
        except Exception as error:
            if self.live.act:
                partition = self.live.partition
                self._say(f"{error}: returning partition {partition!r} to Slurm")
                with contextlib.suppress(PeerError, CommandFailed):  # it does not respond either
                    release_partition(
                        self.slurm,
                        partition,
                        self._say,
                        low=self.live.low_partition,
                        clock=self._clock,
                        sleep=self._sleep,
                    )
            raise

    def _release_low(self) -> None:
        """Let the jobs of the low partition start after a run that has ended without an error."""
        if not isinstance(self.bridge, NodesOnly) or self.bridge.low is None:
            return
        for action in self.bridge.low.release():
            try:
                self.slurm.do(action)
            except (CommandFailed, SlurmAway) as error:
                self._say(f"partition {self.bridge.low.name!r} stays DOWN ({error}): run slurm release")

    def _noting(self, session: Session) -> Callable[[float], None]:
        """Return the callback after each cycle, which updates the journal and the metrics."""
        settled_s = 0.0
        power_feed = next((source for source, _ in self._feeds if source.quantity is POWER), None)

        def note(now_s: float) -> None:
            nonlocal settled_s
            self._look_ahead(now_s)
            if self._metrics is not None and power_feed is not None:
                now = self.epoch_s + now_s
                self._metrics.note_power_reading(now - power_feed.staleness_s(now))
            power = session.power
            if self._journal is None or power is None or power.settled.time_s == settled_s:
                return
            settled_s, held = power.settled.time_s, power.storage
            soc_pct = power.site.storage.battery.soc_pct(held.battery_j)
            level = {"soc_pct": soc_pct, "hydrogen_kg": held.hydrogen_kg}
            self._journal.add({"kind": "level", "time": now_s, **level})

        return note


def placed_by_slurm(settings: RunSettings) -> RunSettings:
    """Return the settings of a run in the nodes-only mode."""
    return msgspec.structs.replace(settings, placement=Placement.EXTERNAL, placed_elsewhere=True)


def with_lives(settings: RunSettings, on_kill: OnLiveKill | None) -> RunSettings:
    """Return the settings of a run on a cluster whose killed jobs come back, if they do."""
    if on_kill is None or on_kill == "drop":
        return settings
    return msgspec.structs.replace(settings, on_kill=OnKill(on_kill))


def live_windows(settings: RunSettings, site: Site | None, for_s: float | None) -> int:
    """Return the number of windows of a run of ``for_s`` seconds; the maximum if it has no end."""
    if site is None:
        return settings.windows
    return MOST_WINDOWS if for_s is None else max(1, math.ceil(for_s / site.window_s))
