"""Limits on how much of any input is read or kept.

They are far above anything real, and keep a damaged or hostile file or peer from filling memory.
docs/decisions/limits.md lists them for users.
"""

from __future__ import annotations

from typing import Final

MOST_HOSTS: Final = 1_000_000
"""Of a platform, and in one set of hosts such as ``0-3 5``."""
MOST_PSTATES: Final = 127
"""Of a host, including those of sleep and transitions."""
MOST_HOSTS_NAMED: Final = 20_000_000
"""Total of all sets of hosts in one message, or in one file of events."""
MOST_UNPACKED_BYTES: Final = 1 << 30
"""What a compressed trace, or a plan file, may unpack to."""
MOST_TABLE_BYTES: Final = 1 << 28
"""What a table of weather or power may have, unpacked: it is held in memory as text."""
MOST_MESSAGE_BYTES: Final = 1 << 30
"""Of one message of a simulator's; and of all that connections have sent before a simulation begins."""
MOST_START_BYTES: Final = 1 << 20
"""Of the init text of a Batsim 5."""
MOST_CONNECTIONS: Final = 100
"""To the daemon, beside its simulator's."""
MOST_OTHERS_BYTES: Final = 1 << 26
"""That these may have sent together during a simulation."""
MOST_SCRAPES: Final = 16
"""Connections to the page of metrics at a time."""
MOST_CANDIDATES: Final = 100
"""Peers that have been greeted and have not begun a simulation."""
MOST_UNKNOWN: Final = 100
"""Unknown event types and fields, and jobs, that a run's warnings name; one more line says that there were
others."""
LONGEST_NAME: Final = 200
"""Characters of a name, or of a text that was found, that a message repeats."""
LONGEST_ERROR: Final = 4000
"""Characters of an error's whole message."""
MOST_JOBS: Final = 10_000_000
"""Jobs that a simulator may submit in one simulation."""
MOST_JOBS_AT_ONCE: Final = 2_000_000
"""Of these, jobs that wait or run at a time, or have deadlines or workflows."""
LONGEST_ID: Final = 1000
"""Characters of a job's id, or of its profile's name."""
LONGEST_JOB: Final = 1 << 20
"""Characters of a job's id and further members."""
MOST_KEPT: Final = 1 << 29
"""Characters of all jobs' ids and members that are kept before they are counted; half of them may be left."""
MOST_KIND_PSTATES: Final = 2_000_000
"""Different kinds of hosts times P-states."""
MOST_ACTIONS: Final = 10_000_000
"""Actions that a policy may return at once."""

LARGEST_NUMBER: Final = 1e18
"""No number in a file, or of an option, is larger, unless its field says so."""
LARGEST_WHOLE: Final = 2**63 - 1
"""No whole number is larger: it fits into 64 bits."""
MOST_NESTED: Final = 100
"""Levels of objects and lists in each other in a JSON file."""
MOST_WINDOWS: Final = 1_000_000
"""Of a site, in one run or plan."""
SILENT_PIPE_S: Final = 5.0
"""A pipe that nobody opens to write to is given up after this time, s."""

LATEST_S: Final = 1e15
"""No time of a simulation is later, s; sums over time stay finite."""
LONGEST_SILENCE_S: Final = 366 * 86_400.0
"""Time after the end of a run's last window in which the simulator must have sent a message, s."""
SHORTEST_S: Final = 1e-6
"""No walltime counts as less, s: Batsim prints times with six decimals."""
LARGEST_POWER_W: Final = 1e15
"""Of a site's production, or of one host."""
LARGEST_ENERGY_J: Final = 1e30
"""That a simulator's meter may show."""
MOST_FLOPS: Final = 1e30
"""Of a job, on each of its hosts or on all of them."""
MOST_BUSY_CALLS: Final = 20_000
"""Times that a policy may ask to be called at once, or measure, within a simulated minute of no news."""


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return ``text``, cut to ``longest`` characters and marked where it was longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."
