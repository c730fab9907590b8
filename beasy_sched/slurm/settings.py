"""What a run beside a cluster is: its options, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from beasy_sched.declared import Means

MODEL: Final = "model"
"""The name of no meter: the scheduler's own account counts."""
OnKill = Literal["cancel", "requeue"]
OnReject = Literal["hold", "cancel"]


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """What a run beside a cluster is, beyond what any run is."""

    partition: Annotated[str, Means("partition of the cluster")]
    act: Annotated[
        bool,
        Means(
            "start the jobs that are held for it, and switch nodes off and on. --shadow: change nothing, and"
            " tell what would be done"
        ),
    ] = False
    power: Annotated[
        str | None,
        Means(
            "what is produced now: a file that grows (CSV or events), 'command:PROGRAM' (prints watts, or a"
            " JSON object, a line), or 'prometheus:URL?query=...'"
        ),
    ] = None
    battery: Annotated[
        str | None,
        Means(
            "the true state of charge, percent, from a source like --power's (default: the run's own balance)"
        ),
    ] = None
    meter: Annotated[
        str,
        Means(
            "what measures the energy that the nodes use: 'model' (nothing: it is reckoned from their"
            " states), 'slurm' (Slurm's energy accounting), 'command:PROGRAM' (prints watts, or JSON with"
            " power_w or energy_j, a line), or 'prometheus:URL?query=...' (W)"
        ),
    ] = MODEL
    power_stale_s: Annotated[
        float,
        Means(
            "a source that is silent for so long produces 0 W. [default: two steps of the site, or 10 min]"
        ),
    ] = 600.0
    endpoint: Annotated[
        str | None,
        Means("let the scheduler that listens there decide, such as batsched, instead of --policy"),
    ] = None
    poll_s: Annotated[float, Means("time between two looks at the cluster")] = 1.0
    for_s: Annotated[float | None, Means("end after this time (default: when it is stopped)")] = None
    fail_open_s: Annotated[
        float, Means("give the partition back to Slurm if the scheduler has not answered for so long")
    ] = 600.0
    on_kill: Annotated[OnKill, Means("what becomes of jobs that are killed for lack of energy")] = "cancel"
    on_reject: Annotated[OnReject, Means("what becomes of jobs that the scheduler rejects")] = "hold"
    pstate_command: Annotated[
        str | None,
        Means("program that sets the frequency of a node; {node}, {pstate} and {mhz} are filled in"),
    ] = None
