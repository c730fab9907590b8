"""Limits on the size of inputs that are read or kept.

They are far above realistic sizes, and prevent a damaged or hostile file or peer from filling memory.
docs/decisions/files-limits-and-studies.md#limits has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_HOSTS: Final = 1_000_000
"""Most hosts of a platform, and in one set of hosts such as ``0-3 5``."""
MOST_PSTATES: Final = 127
"""Most P-states of a host, including those of sleep and transitions."""
MOST_HOSTS_NAMED: Final = 20_000_000
"""Total of all sets of hosts in one message, or in one file of events."""
MOST_UNPACKED_BYTES: Final = 1 << 30
"""Most bytes of a compressed trace, or a plan file, after unpacking."""
MOST_TABLE_BYTES: Final = 1 << 28
"""Most bytes of a table of weather or power, unpacked: it is kept in memory as text."""
MOST_MESSAGE_BYTES: Final = 1 << 30
"""Most bytes of a simulator's message, and of all that connections have sent before a simulation begins."""
MOST_START_BYTES: Final = 1 << 20
"""Most bytes of the init string of Batsim 5."""
MOST_CONNECTIONS: Final = 100
"""Most connections to the daemon in addition to the simulator's."""
MOST_OTHERS_BYTES: Final = 1 << 26
"""Most bytes that connections other than the simulator's may have sent together during a simulation."""
MOST_SCRAPES: Final = 16
"""Most concurrent connections to the metrics page."""
MOST_CANDIDATES: Final = 100
"""Most peers that have been greeted and have not begun a simulation."""
MOST_UNKNOWN: Final = 100
"""Most unknown event types and fields, and jobs, that a run's warnings name; one more line counts the
rest."""
LONGEST_NAME: Final = 200
"""Most characters of a name or value that a message quotes."""
LONGEST_PATH: Final = 1000
"""Most characters of a file's path that a message quotes."""
LONGEST_ERROR: Final = 4000
"""Most characters of an error's whole message."""
MOST_JOBS: Final = 10_000_000
"""Most jobs that a simulator may submit in one simulation."""
MOST_JOBS_AT_ONCE: Final = 2_000_000
"""Most jobs that wait or run at the same time, or have deadlines or workflows."""
LONGEST_ID: Final = 1000
"""Most characters of a job's id, or of its profile's name."""
LONGEST_JOB: Final = 1 << 20
"""Most characters of a job's id and additional fields."""
MOST_KEPT: Final = 1 << 29
"""Most characters of jobs' ids and fields kept before they are counted; half of them may remain."""
MOST_KIND_PSTATES: Final = 2_000_000
"""Largest product of the number of kinds of hosts and that of P-states."""
MOST_ACTIONS: Final = 10_000_000
"""Most actions that a policy may return at once."""

LARGEST_NUMBER: Final = 1e18
"""Largest number in a file, or of an option, unless its field has another limit."""
LARGEST_WHOLE: Final = 2**63 - 1
"""Largest integer in a file, or of an option: it fits into 64 bits."""
LARGEST_INT: Final = 2**31 - 1
"""Largest number of hosts in a workload, as Batsim reads it."""
MOST_NESTED: Final = 100
"""Largest nesting depth of objects and lists in a JSON file, and of sequences of profiles."""
MOST_WINDOWS: Final = 1_000_000
"""Most windows of a site in one run or plan."""
SILENT_PIPE_S: Final = 5.0
"""Time limit for a program to open a pipe for writing, s."""

LATEST_S: Final = 1e15
"""Latest time of a simulation, s; sums over time stay finite."""
LONGEST_SILENCE_S: Final = 366 * 86_400.0
"""Time limit for a message of the simulator after the end of the last window, s."""
SHORTEST_S: Final = 1e-6
"""Shortest effective walltime, s: Batsim prints times with six decimals."""
LARGEST_POWER_W: Final = 1e15
"""Largest power of a site's production, or of one host, W."""
LARGEST_ENERGY_J: Final = 1e30
"""Largest reading of a simulator's energy meter, J."""
MOST_FLOPS: Final = 1e30
"""Most flops of a job, on each of its hosts or on all of them."""
MOST_BUSY_CALLS: Final = 20_000
"""Most immediate calls or measurements that a policy may request in a simulated minute without events."""


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return ``text``, cut to ``longest`` characters and marked if it was longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def listed(names: Iterable[str], longest: int = LONGEST_NAME) -> str:
    """Return names of a file for a message, on one line of at most ``longest`` characters."""
    return shortened(" ".join(", ".join(names).split()), longest)
