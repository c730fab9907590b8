"""The loop of a bridge: poll the cluster, ask the scheduler, and carry out its decisions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from beasy_sched.errors import PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.bridge import Bridge
from beasy_sched.plugins.slurm.journal import Journal
from beasy_sched.plugins.slurm.partition_platform import of_partition
from beasy_sched.plugins.slurm.readings import Reading
from beasy_sched.plugins.slurm.records import FALLING, SlurmAway
from beasy_sched.plugins.slurm.reservations import Names, is_ours
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.plugins.slurm.sources.watcher import Watcher
from beasy_sched.plugins.slurm.told_starts import own_comment

Decide = Callable[[Message], Reply]
"""A scheduler: a function from each message to its reply."""
Feed = tuple[Watcher, Callable[[float, Reading], None]]
"""A source, and the receiver of its readings, with the time of the run, s."""
_MOST_ROUNDS: Final = 1000
"""Most messages of one cycle; more mean that the scheduler is in an endless loop."""
_LONGEST_FALL_S: Final = 300.0
"""Time for which a release of the partition waits for nodes to power down, s."""
_SHORTEST_PAUSE_S: Final = 0.001
"""Shortest interval, s: times since 1970 have too few digits for shorter ones."""


class Service:
    """The loop between a cluster and a scheduler."""

    def __init__(
        self,
        bridge: Bridge,
        slurm: Slurm,
        *,
        feeds: Sequence[Feed] = (),
        journal: Journal | None = None,
        poll_s: float = 1.0,
        for_s: float | None = None,
        set_frequency: Callable[[a.SetFrequency], None] | None = None,
        refresh: Callable[[float], None] = lambda now_s: None,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``feeds`` are read at each poll of the cluster; ``say`` reports warnings to the user.

        ``refresh`` is called before each poll with the time in s since 1970. ``poll_s``: polling interval, s;
        ``for_s``: duration (None: until stopped).
        """
        self.bridge, self.slurm = bridge, slurm
        self._feeds, self._journal, self._set_frequency = feeds, journal, set_frequency
        self._poll_s, self._for_s = poll_s, for_s
        self._refresh = refresh
        self._say, self._clock, self._sleep = say, clock, sleep
        self._asked: deque[a.ClusterAction] = deque()
        """Actions that have not been requested of the cluster yet, in order."""
        self._away_s: float | None = None
        """Time since which the controller has not responded, s since 1970."""

    def run(
        self,
        decide: Decide,
        stopped: Callable[[], bool],
        after_cycle: Callable[[float], None] = lambda now_s: None,
    ) -> None:
        """Run until ``stopped`` is true, or the time is over; ``decide`` is the scheduler.

        ``after_cycle`` is called after each cycle with the time of the run, s. Raises PeerError if the
        scheduler fails, SlurmAway if the cluster does not respond at first, and CommandFailed if it cannot
        be queried.
        """
        nodes = {node.name: node for node in self.slurm.nodes()}
        self.bridge.begin(nodes)
        while not stopped():
            now_s = self._now_s
            if self._for_s is not None and now_s >= self._for_s:
                break
            self.cycle(now_s, decide)
            after_cycle(now_s)
            self._sleep(self._pause_s())
        decide(self.bridge.end(self._now_s))

    @property
    def _now_s(self) -> float:
        return self._clock() - self.bridge.epoch_s

    def cycle(self, now_s: float, decide: Decide) -> None:
        """Poll the cluster, ask the scheduler, and carry out its decisions, once."""
        self._look(now_s)
        for source, tell in self._feeds:
            if (reading := source.read(self.bridge.epoch_s + now_s)) is not None:
                tell(now_s, reading)
            self._tell(source.notes)
        for _ in range(_MOST_ROUNDS):
            message = self.bridge.message(now_s)
            if message is None:
                break
            self._do(now_s, self.bridge.carry_out(decide(message), now_s))
        else:
            raise PeerError(
                f"the scheduler does not stop making decisions at {now_s:g} s: {_MOST_ROUNDS} messages"
            )
        if self._away_s is None:
            self._do(now_s, self.bridge.after_decisions(now_s))
        self._tell(self.bridge.notes)

    def _look(self, now_s: float) -> None:
        """Pass the state of the cluster to the bridge, if it responds."""
        self._refresh(self.bridge.epoch_s + now_s)
        try:
            if self.bridge.needs_reservations(now_s):
                self.bridge.see_reservations(now_s, self.slurm.reservations())
            jobs, nodes = self.slurm.jobs(), {node.name: node for node in self.slurm.nodes()}
        except SlurmAway as error:
            self._is_away(error)
            return
        if self._away_s is not None:
            self._say(f"the controller responds again, after {self._clock() - self._away_s:.0f} s")
            self._away_s = None
            if self._asked:  # what was read does not contain the effects of these actions
                self._do(now_s, [])
                return
        self._do(now_s, self.bridge.observe(now_s, jobs, nodes))

    def _do(self, now_s: float, actions: list[a.ClusterAction]) -> None:
        """Carry out actions, in order, once the controller responds."""
        if actions and not self.bridge.acts:
            raise PeerError("a shadow must not change a cluster")
        for action in actions:
            if self._journal is not None:
                self._journal.add({"kind": "action", "time": now_s, "action": msgspec.to_builtins(action)})
            self._asked.append(action)
        while self._asked and self._away_s is None:
            action = self._asked[0]
            try:
                if not isinstance(action, a.SetFrequency):
                    self.slurm.do(action)
                elif self._set_frequency is not None:
                    self._set_frequency(action)
            except CommandFailed as error:
                self.bridge.failed(now_s, action, str(error))
            except SlurmAway as error:
                self._is_away(error)
                return
            self._asked.popleft()

    def _is_away(self, error: SlurmAway) -> None:
        if self._away_s is None:
            self._away_s = self._clock()
            self._say(f"the controller does not respond: waiting for it ({error})")

    def _tell(self, notes: list[str]) -> None:
        for note in notes:
            self._say(note)
        notes.clear()

    def _pause_s(self) -> float:
        """Return the time until the next poll, or until an event is due, s."""
        now_s = self._now_s
        ends_s = [now_s + self._poll_s, self.bridge.next_due_s, self._for_s]
        return max(min(end_s for end_s in ends_s if end_s is not None) - now_s, _SHORTEST_PAUSE_S)


def release_partition(
    slurm: Slurm,
    partition: str,
    say: Callable[[str], None],
    *,
    low: str | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Return a partition to Slurm: release the jobs held for the bridge, and power its nodes up.

    Expected starts in the comments of jobs are deleted.

    It waits for nodes that are powering down, because Slurm ignores requests to power them up. In the
    nodes-only mode, delete the reservations instead: Slurm wakes nodes when it needs them; ``low``: partition
    to set UP.
    Returns the number of released jobs. Actions that Slurm rejects are reported, and do not stop the others.
    Raises ConfigError for an unknown partition.
    """
    nodes = of_partition(slurm.nodes(), partition)
    if low is not None:
        _done(slurm, a.SwitchPartition(low, is_up=True), say)
    released = 0
    _restore_comments(slurm, partition, say)
    for job in slurm.jobs():
        if partition in job.partitions and job.is_held and job.is_ours:
            if job.is_placed:
                _done(slurm, a.UnplaceJob(job.id, job.node_range), say)
            released += _done(slurm, a.ReleaseJob(job.id), say)
    names = [node.name for node in nodes]
    reserved = [
        reservation.name
        for reservation in slurm.reservations()
        if Names.of(partition).are_for(reservation.name) and is_ours(reservation, names)
    ]
    for name in reserved:
        _done(slurm, a.DeleteReservation(name), say)
    if reserved:
        return released
    end_s = clock() + _LONGEST_FALL_S
    while True:
        if asleep := tuple(node.name for node in nodes if node.is_off):
            _done(slurm, a.SwitchOn(asleep), say)
        falling = {node.name for node in nodes if FALLING in node.flags}
        if not falling:
            return released
        if clock() >= end_s:
            say(f"{', '.join(sorted(falling))}: still powering down after {_LONGEST_FALL_S:g} s, left asleep")
            return released
        sleep(1.0)
        nodes = [node for node in slurm.nodes() if node.name in falling]


def _restore_comments(slurm: Slurm, partition: str, say: Callable[[str], None]) -> None:
    """Leave the jobs of a partition their users' comments: nobody updates their expected starts any more."""
    own_by_job = {  # all tasks of an array have one comment
        job.id.partition("_")[0]: own
        for job in slurm.jobs()
        if partition in job.partitions and job.is_ours and job.end is None
        if (own := own_comment(job.comment)) != job.comment
    }
    for job_id, own in own_by_job.items():
        _done(slurm, a.CommentJob(job_id, own), say)


def _done(slurm: Slurm, action: a.ClusterAction, say: Callable[[str], None]) -> bool:
    """Carry out an action; return whether Slurm has accepted it."""
    try:
        slurm.do(action)
    except CommandFailed as error:
        say(str(error))
        return False
    return True
