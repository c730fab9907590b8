"""The shortest time ahead of now for which a call may be requested.

Batsim's parts send its server messages of one byte through the simulated network. The server takes them one
after another, and a part waits until the server has its message. Where the network has latency, a request
therefore reaches the server some time after the message that it answers, and a call requested for an earlier
time aborts Batsim 4 ("You asked to be awaken in the past!").

When Batsim sends the scheduler a message, its server has processed all messages. A request that is the first
of a reply then waits for at most one message of each part that exists: the sources of jobs and events, the
running jobs, the hosts that are being switched, the pending calls and kills. So calls are the first requests
of a reply, and the lead is the delay of one message times the number of these parts, doubled for parts that
are not counted.
"""

from __future__ import annotations

import math
from typing import Final

MOMENT_S: Final = 1e-3
"""Shortest lead, and the delay of a kill, s: the job may have just ended."""
ASSUMED_S: Final = 1.0
"""Delay of a message from any host where the delays are unknown, s."""
_OTHER_PARTS: Final = 16
"""Parts of Batsim that the scheduler cannot count: files of events, and itself."""
_SAFETY: Final = 2.0
_ROUNDING_S: Final = 1e-6
"""Batsim rounds the times in its messages to microseconds."""


class CallLead:
    """The lead that the calls of one simulation need, by the delay of Batsim's messages.

    Where the delay is unknown, the delay of messages that Batsim's main process sends is learned: a call is
    reported at least this late, and the next message follows a reply after one delay for each of its requests
    and one for its end. Messages from other hosts may take longer: they are assumed to need `ASSUMED_S`.
    """

    def __init__(self, message_delay_s: float | None, sources: int = 1) -> None:
        """``message_delay_s`` is the longest delay of a message, s: 0 for no latency, None where unknown.

        ``sources`` is the number of workloads.
        """
        self._is_known = message_delay_s is not None
        self.is_needed = message_delay_s is None or message_delay_s > 0.0
        """Whether the network has latency, or may have some; calls are then first in a reply.

        If not, the lead stays, and what is noted changes nothing."""
        self._delay_s = ASSUMED_S if message_delay_s is None else message_delay_s
        self._sources = sources
        self._replied_s = math.inf
        self._requests = 0
        self.lead_s = MOMENT_S
        """Lead for calls in the reply to the present message, s."""

    def count(self, parts: int) -> None:
        """Set the lead for a message after which Batsim has ``parts`` jobs, switches, calls and kills."""
        if not self.is_needed:
            return
        queue_s = _SAFETY * self._delay_s * (parts + self._sources + _OTHER_PARTS)
        self.lead_s = max(queue_s if self._is_known else queue_s + ASSUMED_S, MOMENT_S)

    def replied(self, now: float, requests: int) -> None:
        """Note a reply of ``requests`` to the message for ``now`` (s)."""
        self._replied_s, self._requests = now, requests

    def heard(self, now: float) -> None:
        """Note the message that followed the last reply."""
        self._learn((now - self._replied_s + _ROUNDING_S) / (self._requests + 1))

    def called(self, asked_s: float, now: float) -> None:
        """Note that a call requested for ``asked_s`` was reported at ``now`` (s)."""
        self._learn(now - asked_s + _ROUNDING_S)

    def _learn(self, at_most_s: float) -> None:
        if not self._is_known and at_most_s > 0.0:
            self._delay_s = min(self._delay_s, at_most_s)
