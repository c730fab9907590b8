"""Limits on how much of any input is read or kept.

They are far above anything real, and keep a damaged or hostile file or peer from filling memory.
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
"""Most bytes that a compressed trace, or a plan file, may unpack to."""
MOST_TABLE_BYTES: Final = 1 << 28
"""Most bytes of a table of weather or power, unpacked: it is held in memory as text."""
MOST_MESSAGE_BYTES: Final = 1 << 30
"""Most bytes of a simulator's message, and of all that connections have sent before a simulation begins."""
MOST_START_BYTES: Final = 1 << 20
"""Most bytes of the init text of a Batsim 5."""
MOST_CONNECTIONS: Final = 100
"""Most connections to the daemon, beside its simulator's."""
MOST_OTHERS_BYTES: Final = 1 << 26
"""Most bytes that connections other than the simulator's may have sent together during a simulation."""
MOST_SCRAPES: Final = 16
"""Most connections to the page of metrics at a time."""
MOST_CANDIDATES: Final = 100
"""Peers that have been greeted and have not begun a simulation."""
MOST_UNKNOWN: Final = 100
"""Most unknown event types and fields, and jobs, that a run's warnings name; one more line tells of the
rest."""
LONGEST_NAME: Final = 200
"""Most characters of a name, or of a text that was found, that a message repeats."""
LONGEST_PATH: Final = 1000
"""Most characters of a file's name, with its folders, that a message repeats before it says what is wrong."""
LONGEST_ERROR: Final = 4000
"""Most characters of an error's whole message."""
MOST_JOBS: Final = 10_000_000
"""Most jobs that a simulator may submit in one simulation."""
MOST_JOBS_AT_ONCE: Final = 2_000_000
"""Most jobs that wait or run at a time, or have deadlines or workflows."""
LONGEST_ID: Final = 1000
"""Most characters of a job's id, or of its profile's name."""
LONGEST_JOB: Final = 1 << 20
"""Most characters of a job's id and further members."""
MOST_KEPT: Final = 1 << 29
"""Most characters of jobs' ids and members kept before they are counted; half of them may be left."""
MOST_KIND_PSTATES: Final = 2_000_000
"""Largest product of the number of kinds of hosts and that of P-states."""
MOST_ACTIONS: Final = 10_000_000
"""Most actions that a policy may return at once."""

LARGEST_NUMBER: Final = 1e18
"""Largest number in a file, or of an option, unless its field says otherwise."""
LARGEST_WHOLE: Final = 2**63 - 1
"""Largest whole number in a file, or of an option: it fits into 64 bits."""
LARGEST_INT: Final = 2**31 - 1
"""Largest number of hosts in a workload, as Batsim reads it."""
MOST_NESTED: Final = 100
"""Most levels of objects and lists in each other in a JSON file, and of sequences of profiles."""
MOST_WINDOWS: Final = 1_000_000
"""Most windows of a site in one run or plan."""
SILENT_PIPE_S: Final = 5.0
"""Time after which a pipe that no program opens to write to is given up, s."""

LATEST_S: Final = 1e15
"""Latest time of a simulation, s; sums over time stay finite."""
LONGEST_SILENCE_S: Final = 366 * 86_400.0
"""Time after the end of a run's last window in which the simulator must have sent a message, s."""
SHORTEST_S: Final = 1e-6
"""Shortest walltime that counts, s: Batsim prints times with six decimals."""
LARGEST_POWER_W: Final = 1e15
"""Largest power of a site's production, or of one host, W."""
LARGEST_ENERGY_J: Final = 1e30
"""Largest energy that a simulator's meter may show, J."""
MOST_FLOPS: Final = 1e30
"""Most flops of a job, on each of its hosts or on all of them."""
MOST_BUSY_CALLS: Final = 20_000
"""Most times that a policy may ask to be called at once, or measure, within a simulated minute of no news."""


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return ``text``, cut to ``longest`` characters and marked where it was longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def listed(names: Iterable[str], longest: int = LONGEST_NAME) -> str:
    """Return names of a file for a message, on one line of at most ``longest`` characters."""
    return shortened(" ".join(", ".join(names).split()), longest)
