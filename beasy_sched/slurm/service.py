"""Runs a bridge: shows it the cluster, asks the scheduler, and carries the decisions out, again and again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from beasy_sched.errors import PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.slurm import actions as a
from beasy_sched.slurm.bridge import Bridge
from beasy_sched.slurm.commands import CommandFailed, Slurm
from beasy_sched.slurm.journal import Journal
from beasy_sched.slurm.platform import of_partition
from beasy_sched.slurm.readings import Reading
from beasy_sched.slurm.records import MARK, SlurmAway
from beasy_sched.slurm.sources.watcher import Watcher

Decide = Callable[[Message], Reply]
"""A scheduler: it answers each message."""
Feed = tuple[Watcher, Callable[[float, Reading], None]]
"""A source, and what is told of its readings, with the time of the run, s."""
_MOST_ROUNDS: Final = 1000
"""Messages of one cycle; more mean that the scheduler goes round in circles."""
_SHORTEST_PAUSE_S: Final = 0.001
"""Shorter ones are lost in the digits of the time since 1970."""


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
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``feeds`` are read at each look at the cluster; ``say`` tells the user what is odd.

        ``poll_s``: time between two looks, s; ``for_s``: how long it runs (None: until it is stopped).
        """
        self.bridge, self.slurm = bridge, slurm
        self._feeds, self._journal, self._set_frequency = feeds, journal, set_frequency
        self._poll_s, self._for_s = poll_s, for_s
        self._say, self._clock, self._sleep = say, clock, sleep
        self._asked: deque[a.ClusterAction] = deque()
        """What has not been asked of the cluster yet, in order."""
        self._away_s: float | None = None
        """Since when the controller has not answered, s since 1970."""

    def run(
        self,
        decide: Decide,
        stopped: Callable[[], bool],
        after_cycle: Callable[[float], None] = lambda now_s: None,
    ) -> None:
        """Run until ``stopped`` says so, or the time is over; ``decide`` is the scheduler.

        ``after_cycle`` is called after each cycle with the time of the run, s. Raises PeerError when the
        scheduler fails, SlurmAway when the cluster cannot be seen at first, and CommandFailed where it cannot
        be asked at all.
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
        """Look, ask, and have the answer carried out, once."""
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
            raise PeerError(f"the scheduler asks for ever more at {now_s:g} s: {_MOST_ROUNDS} messages")
        self._tell(self.bridge.notes)

    def _look(self, now_s: float) -> None:
        """Show the cluster to the bridge, if it can be seen."""
        try:
            jobs, nodes = self.slurm.jobs(), {node.name: node for node in self.slurm.nodes()}
        except SlurmAway as error:
            self._is_away(error)
            return
        if self._away_s is not None:
            self._say(f"the controller answers again, after {self._clock() - self._away_s:.0f} s")
            self._away_s = None
        self._do(now_s, self.bridge.observe(now_s, jobs, nodes))

    def _do(self, now_s: float, actions: list[a.ClusterAction]) -> None:
        """Have actions carried out, in their order, once the controller answers."""
        if actions and not self.bridge.acts:
            raise PeerError("a shadow asks nothing of a cluster")
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
            self._say(f"the controller does not answer: waiting for it ({error})")

    def _tell(self, notes: list[str]) -> None:
        for note in notes:
            self._say(note)
        notes.clear()

    def _pause_s(self) -> float:
        """Time until the next look, or until something is due, s."""
        now_s = self._now_s
        ends_s = [now_s + self._poll_s, self.bridge.next_due_s, self._for_s]
        return max(min(end_s for end_s in ends_s if end_s is not None) - now_s, _SHORTEST_PAUSE_S)


def release_partition(slurm: Slurm, partition: str, say: Callable[[str], None]) -> int:
    """Give a partition back to Slurm: release what was held for the bridge, and power its nodes up.

    Returns how many jobs were released. What Slurm refuses is told, and does not stop the rest. Raises
    ConfigError for a partition that is not there.
    """
    nodes = of_partition(slurm.nodes(), partition)
    released = 0
    for job in slurm.jobs():
        if partition in job.partitions and job.is_held and job.admin_comment == MARK:
            released += _done(slurm, a.ReleaseJob(job.id), say)
    asleep = tuple(node.name for node in nodes if node.is_off)
    if asleep:
        _done(slurm, a.SwitchOn(asleep), say)
    return released


def _done(slurm: Slurm, action: a.ClusterAction, say: Callable[[str], None]) -> bool:
    """Have an action carried out; return whether Slurm has not refused it."""
    try:
        slurm.do(action)
    except CommandFailed as error:
        say(str(error))
        return False
    return True
