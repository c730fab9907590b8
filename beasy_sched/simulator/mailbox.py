"""The mailbox of Batsim's server process: it decides which events go into one message.

Where the platform has latency, each item takes time on its way to the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from beasy_sched.formats.simgrid_network import Latency
from beasy_sched.simulator.clock import ROUTE, TRANSFER, Action, StepClock

AT_ONCE, SWITCHED, ANSWERED, KILLED, LAST = 1, 2, 3, 5, 10**9
"""Rounds of SimGrid's actors within a step, by sender: actors that the step has woken; a host, whose P-state
is set first; the scheduler's answer to a message of the same step; a kill in an answer; senders after all
others. A sender that has hosts metered first takes a round for each."""

MASTER_HOST = -1
"""Number of the master host as a sender; others are compute hosts, by number."""


@dataclass(slots=True, eq=False)
class Item:
    """Something in the mailbox."""

    handle: Callable[[], None] | None = None
    """Function by which the server takes the item."""
    then: Callable[[], None] | None = None
    """Function of the sender that is called once the item is taken."""
    number: int = 0
    """Place of the item in the order of actions, by when it was sent."""
    met: bool = False
    """Whether the server was waiting for the item; then the server continues before the sender."""
    host: int = MASTER_HOST
    """Host that sends the item."""


class Mailbox:
    """The items that wait for the server, the one under way first.

    Without latency the server takes one item in each *zero step* of SimGrid, in which the clock does not
    advance (`take`). With latency an item that meets the server is under way as long as its host's route
    takes; the step of the clock that ends this gives it to the server (`receive`).

    After each item the server checks: if the scheduler is ready and no other item waits, all gathered events
    are sent as one message. Items that others put into the mailbox in that step follow after this check.
    """

    __slots__ = ("_awaited", "_clock", "_late", "_routes", "has_latency", "items")

    def __init__(self, clock: StepClock, latency: Latency | None = None) -> None:
        self._clock = clock
        self.items: deque[Item] = deque()
        """Items that wait for the server, or are under way to it."""
        self._awaited = False
        """Whether the server waits for the next item."""
        self._late: list[tuple[int, Item]] = []
        self._routes: list[tuple[float, float]] | None = None
        """Latency (s) and rate (bytes/s) of each host's route, the master's last; None: no time."""
        self.has_latency = latency is not None
        """Whether items take time."""
        if latency is not None:
            self._routes = list(zip(latency.route_s.tolist(), latency.bytes_per_s.tolist(), strict=True))

    def is_quiet(self) -> bool:
        """Return whether nothing is under way, so that the server would take an item at once."""
        return not (self.items or self._late or self._clock.short or self._routes)

    def put(self, item: Item) -> None:
        """Put an item at the end."""
        item.met = self._awaited
        self.items.append(item)
        if item.met:
            self._awaited = False
            self._meet(item)

    def put_late(self, item: Item, number: int) -> None:
        """Put an item in a later round of this step (see `AT_ONCE`)."""
        self._late.append((number, item))

    def _meet(self, item: Item) -> None:
        """Let the server and an item meet."""
        if self._routes is None:
            item.number = self._clock.number()
            return
        route_s, rate = self._routes[item.host]
        if route_s > 0.0:
            item.number = self._clock.wait(ROUTE, item, route_s).number
        else:
            item.number = self._begin_transfer(item, rate).number

    def begin_transfer(self, item: Item) -> None:
        """Let an item whose latency is over be transferred, in the place of that in the order of actions."""
        if self._routes is not None:
            self._begin_transfer(item, self._routes[item.host][1]).number = item.number

    def _begin_transfer(self, item: Item, rate: float) -> Action:
        if rate == float("inf"):
            return self._clock.work(TRANSFER, item, 1.0, 0.0)
        return self._clock.work(TRANSFER, item, rate)

    def take(self, send: Callable[[], bool], woken: Callable[[Action], None]) -> bool:
        """Make a zero step: the server takes an item.

        ``send`` is asked whether a message may go out, if no item is left; ``woken`` is given each
        action that the zero step has ended. Returns whether a message goes out.
        """
        ended = self._clock.zero_step() if self._clock.short else ()
        sends = self.receive(ended, send, woken)
        if self._late:
            self.put_rest()
        return sends

    def receive(
        self, ended: Sequence[Action], send: Callable[[], bool], woken: Callable[[Action], None]
    ) -> bool:
        """Give the server the first item, as `take` does, in a step that has also ``ended`` other actions.

        `put_rest` has to follow.
        """
        item = self.items.popleft()
        if item.handle is not None:
            item.handle()
        sends = not self.items and send()
        for action in ended:
            if action.number < item.number:
                woken(action)
        first = item.met and not sends
        if first:
            self.turn()
        if item.then is not None:
            item.then()
        if not first:
            self.turn()
        for action in ended:
            if action.number > item.number:
                woken(action)
        return sends

    def put_rest(self) -> None:
        """Put the items of later rounds."""
        if self._late:
            late, self._late = self._late, []
            for _, item in sorted(late, key=itemgetter(0)):
                self.put(item)

    def turn(self) -> None:
        """Let the server turn to the next item, or wait for one."""
        if self.items:
            self._meet(self.items[0])
        else:
            self._awaited = True
