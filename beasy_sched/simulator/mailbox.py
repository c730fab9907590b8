"""What reaches Batsim's server process within one instant, and so which events go into one message.

The server takes one item from its mailbox in each *zero step* of SimGrid (the clock stands still). Each time
it has taken one, it looks: if the scheduler is ready and no other item waits, all that was gathered goes out
as one message. What others put into the mailbox in that zero step comes after this look. `docs/conformance.md`
tells more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from beasy_sched.simulator.clock import Action, StepClock


class Item:
    """Something in the mailbox."""

    __slots__ = ("handle", "met", "number", "then")

    def __init__(
        self, handle: Callable[[], None] | None = None, then: Callable[[], None] | None = None
    ) -> None:
        """``handle`` is what the server does with it; ``then`` what its sender does once it is taken."""
        self.handle = handle
        self.then = then
        self.number = 0
        """When it set out, in the order of actions."""
        self.met = False
        """Whether the server was waiting for it; then the server goes on before the sender."""


class Mailbox:
    """The server's mailbox."""

    __slots__ = ("_awaited", "_clock", "_items", "_late")

    def __init__(self, clock: StepClock) -> None:
        """Start empty, with the server elsewhere."""
        self._clock = clock
        self._items: deque[Item] = deque()
        self._awaited = False
        """Whether the server waits for the next item."""
        self._late: list[Item] = []

    def __bool__(self) -> bool:
        """Whether an item waits."""
        return bool(self._items)

    def put(self, item: Item) -> None:
        """Put an item at the end."""
        item.met = self._awaited
        if item.met:
            self._awaited = False
            item.number = self._clock.number()
        self._items.append(item)

    def put_late(self, item: Item) -> None:
        """Put an item after all others of this zero step."""
        self._late.append(item)

    def take(self, send: Callable[[], bool], woken: Callable[[Action], None]) -> bool:
        """Make a zero step: the server takes an item.

        ``send`` is asked whether a message may go out, if no item is left; ``woken`` is given each
        action that the zero step has ended. Returns whether a message goes out.
        """
        ended = self._clock.zero_step()
        item = self._items.popleft()
        if item.handle is not None:
            item.handle()
        sends = not self._items and send()
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
        if self._late:
            self.put_rest()
        return sends

    def put_rest(self) -> None:
        """Put the items that were to come late."""
        if self._late:
            late, self._late = self._late, []
            for item in late:
                self.put(item)

    def turn(self) -> None:
        """Let the server turn to the next item, or wait for one."""
        if self._items:
            self._items[0].number = self._clock.number()
        else:
            self._awaited = True
